#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='the stand-in NCCL: plugin rules, tables 2 to 6, quirks'

. /usr/share/sharness/sharness.sh

sim=$ARGUS_BUILDDIR/contrib/simgpu
TMPDIR=$(pwd)
export TMPDIR
unset RANK WORLD_SIZE ARGUS_RANK ARGUS_DIR SLURM_PROCID SLURM_JOB_ID SIMGPU_FAULT
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH SIMNCCL_VERSION

# probe NAME RELEASE PLUGIN [OPTION...]: two ranks on two nodes
probe() {
    name=$1
    release=$2
    plugin=$3
    shift 3
    CUDA_INJECTION64_PATH=${inject-$sim/simprobe.so} NCCL_PROFILER_PLUGIN=$plugin SIMPROBE_OUT=$name \
        SIMNCCL_VERSION=$release "$sim/simtrain" --spawn 2 --ranks-per-node 1 --steps 4 "$@" \
        >$name.out
}

"$sim/simtrain" --spawn 2 --ranks-per-node 1 --steps 4 >plain.out

# 2 broadcasts, then 5 all-reduces a step: 22 calls, 20 of them tasks from 2.29 on
for pair in 2.24:2 2.25:2 2.26:3 2.27:4 2.28:5 2.29:6 2.30:6; do
    release=${pair%%:*}
    table=${pair##*:}
    test_expect_success "NCCL $release drives table $table" '
        probe v '$release' "$sim/simprobe.so" &&
        grep "^nccl '$table' start 2 AllReduce 12582912 ncclFloat32" v.0 &&
        ! grep "^nccl [^0'$table'] start" v.0 &&
        test $(grep -c "start 2 AllReduce" v.0) = 20 &&
        test $(grep -c "^nccl 0 finalize" v.0) = 1 &&
        test_cmp plain.out v.out
    '
done

test_expect_success 'before 2.26 stops come for NULL handles, later they do not' '
    probe old 2.24 "$sim/simprobe.so" &&
    grep "^nccl 0 stop NULL" old.0 &&
    probe new 2.26 "$sim/simprobe.so" &&
    ! grep "^nccl 0 stop NULL" new.0
'

test_expect_success 'from 2.29 a broadcast has no task event, before it has one' '
    probe b28 2.28 "$sim/simprobe.so" &&
    probe b29 2.29 "$sim/simprobe.so" &&
    test $(grep -c "start 2 Broadcast" b28.0) = 2 &&
    test $(grep -c "start 2 Broadcast" b29.0) = 0 &&
    test $(grep -c "start 512 Broadcast" b29.0) = 2
'

test_expect_success '2.28: calls, launch, group, task, in that order' '
    sed -n "s/^nccl 5 start \([0-9]*\).*/\1/p" b28.0 | tail -5 | tr "\n" " " >order &&
    printf "256 512 2048 1 2 " >expected &&
    test_cmp expected order
'

test_expect_success 'the launch names the stream of the kernel' '
    stream=$(sed -n "s/^nccl 5 start 2048 stream //p" b28.0 | tail -1) &&
    test $(grep "^record 10 " b28.0 | grep -c "AllReduce") = 20 &&
    test $(awk "/^record 10/ && /ncclDevKernel/ && \$5 != $stream" b28.0 | wc -l) = 0
'

test_expect_success 'all-gather counts bytes as a task and elements as a call' '
    probe zero 2.28 "$sim/simprobe.so" --zero &&
    grep "start 512 AllGather 12582912 ncclBfloat16" zero.0 &&
    grep "start 2 AllGather 25165824 ncclInt8" zero.0
'

test_expect_success 'send and receive name their peer' '
    probe pp 2.28 "$sim/simprobe.so" --pp 2 &&
    grep "start 4 Send [0-9]* ncclBfloat16 1" pp.0 &&
    grep "start 4 Recv [0-9]* ncclBfloat16 0" pp.1
'

test_expect_success 'members agree on the communicator, runs do not' '
    id() { awk "/ init / { print \$5 }" $1; } &&
    test "$(id b28.0)" = "$(id b28.1)" &&
    test "$(id b28.0)" != "$(id b29.0)"
'

test_expect_success 'an older plugin is called through adapters' '
    inject=none && # another library would write the same file
    probe a4 2.30 "$sim/simprobe_v4.so" &&
    grep "^nccl 4 init DATA_PARALLEL_GROUP" a4.0 &&
    ! grep "start 512" a4.0 &&
    test $(grep -c "^nccl 4 start 2 AllReduce" a4.0) = 20 &&
    probe a3 2.30 "$sim/simprobe_v3.so" &&
    test $(grep -c "^nccl 3 start 2 AllReduce" a3.0) = 20 &&
    unset inject
'

test_expect_success 'none, a missing plugin and a release without profiler: no events' '
    probe none 2.30 none && ! grep "^nccl" none.0 &&
    probe gone 2.30 /no/such/plugin.so && ! grep "^nccl" gone.0 &&
    probe nccl22 2.22 "$sim/simprobe.so" && ! grep "^nccl" nccl22.0
'

test_expect_success 'a bare name stands for libnccl-profiler-NAME.so' '
    mkdir -p libs && cp "$sim/simprobe.so" libs/libnccl-profiler-mine.so &&
    inject=none LD_LIBRARY_PATH=$(pwd)/libs probe bare 2.30 mine && grep "^nccl 6 start" bare.0
'

test_expect_success 'communicators go and come back' '
    probe again 2.30 "$sim/simprobe.so" --reinit 2 &&
    test $(grep -c "^nccl 0 finalize" again.0) = 2 &&
    test $(grep -c " init " again.0) = 2
'

test_expect_success 'proxy steps show the slow edge as SendWait of its sender' '
    CUDA_INJECTION64_PATH=$sim/simprobe.so NCCL_PROFILER_PLUGIN=$sim/simprobe.so \
        SIMPROBE_HANDLES=1 SIMPROBE_MASK=3102 SIMPROBE_OUT=links \
        "$sim/simtrain" --spawn 4 --ranks-per-node 1 --steps 4 --slow-link 1-2:4 --quiet &&
    waits() {
        awk "/^nccl 0 state 9 / { from = \$6 }
             /^nccl 0 stop/ && from { print \$5 - from; from = 0 }" $1 | sort -n | sed -n 40p
    } &&
    test $(waits links.1) -gt $((3 * $(waits links.0))) &&
    test $(waits links.1) -gt $((3 * $(waits links.2)))
'

test_expect_success 'NVTX: a range a call with the payload of its release' '
    nvtx() { NVTX_INJECTION64_PATH=$sim/simprobe.so probe n $1 none; } &&
    nvtx 2.21 &&
    test $(grep -c "^range NCCL ncclAllReduce schema 1000005 bytes 16: 3000000 0" n.0) = 16 &&
    test $(grep -c "^range NCCL ncclBroadcast schema 1000006 bytes 16: 4000000 0" n.0) = 2 &&
    test $(grep -c "^end NCCL$" n.0) = 22 &&
    grep "^end NCCL with 1 schema 1000000: [0-9a-f]* 2 0" n.0 &&
    nvtx 2.28 &&
    id=$(sed -n "s/^end NCCL with 1 schema 1000000: \([0-9a-f]*\) .*/\1/p" n.0) &&
    test $(grep -c "^range NCCL ncclAllReduce schema 1000005 bytes 24: $id 3000000 0" n.0) = 16 &&
    NCCL_NVTX_DISABLE=1 nvtx 2.28 && ! grep "^range" n.0
'

test_expect_success 'quirks change what the plugin sees, not the run' '
    for quirk in nccl-foreign-pid nccl-stop-null nccl-double-stop nccl-missing-stop \
        nccl-unknown-type nccl-late-state; do
        SIMGPU_FAULT=$quirk SIMPROBE_HANDLES=1 SIMPROBE_MASK=3102 probe $quirk 2.30 \
            "$sim/simprobe.so" &&
        test_cmp plain.out $quirk.out || return 1
    done &&
    grep "start 8 pid [0-9]* own 0" nccl-foreign-pid.0 &&
    grep "stop NULL" nccl-stop-null.0 &&
    grep "start 1048576" nccl-unknown-type.0
'

test_done
