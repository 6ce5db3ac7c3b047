#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='the stand-in CUPTI: injection, delivery, and each SIMGPU_FAULT'

. /usr/share/sharness/sharness.sh

sim=$ARGUS_BUILDDIR/contrib/simgpu
TMPDIR=$(pwd)
export TMPDIR
unset RANK WORLD_SIZE ARGUS_RANK ARGUS_DIR SLURM_PROCID SLURM_JOB_ID SIMGPU_FAULT
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH

# probe NAME FAULTS [OPTION...]: one rank, observed; its records in NAME.0
probe() {
    name=$1
    fault=$2
    shift 2
    CUDA_INJECTION64_PATH=$sim/simprobe.so SIMPROBE_OUT=$name SIMGPU_FAULT=$fault \
        "$sim/simtrain" --steps 10 --seed 3 "$@" >$name.out
}
kernels() {
    grep -c '^record 10 ' "$1"
}

test_expect_success 'the driver loads the injection once, and its records come' '
    probe plain "" &&
    test $(grep -c "^injected" plain.0) = 1 &&
    launched=$(sed -n "s/.*virtual s, \([0-9]*\) kernels.*/\1/p" plain.out) &&
    test $(kernels plain.0) = $launched
'

test_expect_success 'none and a missing library mean no injection' '
    CUDA_INJECTION64_PATH=none "$sim/simtrain" --steps 10 --seed 3 >none.out &&
    CUDA_INJECTION64_PATH=/does/not/exist.so "$sim/simtrain" --steps 10 --seed 3 >missing.out &&
    test_cmp plain.out none.out &&
    test_cmp plain.out missing.out
'

test_expect_success 'times lie in the virtual clock and do not overlap on a stream' '
    grep "^record 10 " plain.0 | sort -k5,5n -k3,3n | awk "
        \$4 <= \$3 { exit 1 }
        \$5 == stream && \$3 < end { exit 1 }
        { stream = \$5; end = \$4 }"
'

# 11.8 and 12.6 know no smaller set of kernels
for v in 12 11.8; do
    test_expect_success "libcupti.so.$v tells the same" '
        SIMGPU_CUPTI='$v' SIMPROBE_CUPTI=libcupti.so.'$v' probe other "" &&
        test $(kernels other.0) = $(kernels plain.0) &&
        test_cmp plain.out other.out
    '
done

for code in 39 999 15 35 14; do
    test_expect_success "enable:$code refuses all kinds, nothing else changes" '
        probe refused enable:'$code' &&
        test $(grep -c "^enable [0-9]* '$code'$" refused.0) = 5 &&
        test $(grep -c "^record" refused.0) = 0 &&
        test_cmp plain.out refused.out
    '
done

test_expect_success 'enable:35:22 refuses one kind' '
    probe onekind enable:35:22 &&
    grep "^enable 22 35" onekind.0 &&
    grep "^enable 10 0" onekind.0 &&
    test $(kernels onekind.0) = $(kernels plain.0)
'

test_expect_success 'zero-times, sentinel, reversed, far spoil their share of records' '
    probe zero zero-times:0.05 &&
    probe sentinel sentinel:0.05 &&
    probe reversed reversed:0.05 &&
    probe far far:0.05 &&
    n=$(kernels plain.0) &&
    day=$(awk "/^record 10/ { print \$3 + 80000000000000; exit }" plain.0) &&
    zero=$(awk "/^record 10/ && \$3 == 0 && \$4 == 0" zero.0 | wc -l) &&
    sentinel=$(grep -c "^record 10 [0-9]* 9223372036854775808 " sentinel.0) &&
    reversed=$(awk "/^record 10/ && \$4 < \$3" reversed.0 | wc -l) &&
    far=$(awk "/^record 10/ && \$3 > $day" far.0 | wc -l) &&
    for k in $zero $sentinel $reversed $far; do
        test $k -gt $((n / 40)) && test $k -lt $((n / 10)) || return 1
    done &&
    for f in zero sentinel reversed far; do
        test $(kernels $f.0) = $n && test_cmp plain.out $f.out || return 1
    done
'

test_expect_success 'drop loses records and counts them' '
    probe drop drop:0.1 &&
    lost=$(awk "/^dropped/ { n += \$2 } END { print n + 0 }" drop.0) &&
    test $lost -gt 0 &&
    all=$(grep -c "^record" plain.0) &&
    test $(($(grep -c "^record" drop.0) + lost)) = $all
'

test_expect_success 'no-kernels: all calls succeed, nothing comes' '
    probe silent no-kernels &&
    test $(grep -c "^enable [0-9]* 0" silent.0) = 5 &&
    test $(grep -c "^record" silent.0) = 0
'

test_expect_success 'out-of-order: same records, another order' '
    probe shuffled out-of-order &&
    test $(kernels shuffled.0) = $(kernels plain.0) &&
    awk "/^record 10/ && \$5 == 7 { if (\$3 < last) bad++; last = \$3 } END { exit !(bad > 100) }" \
        shuffled.0
'

test_expect_success 'threads:4 fills four buffers at a time' '
    probe threads threads:4 &&
    test $(grep -c "^buffer" threads.0) -ge 4 &&
    test $(kernels threads.0) = $(kernels plain.0)
'

test_expect_success 'many-names mints names' '
    probe names many-names:500 &&
    test $(awk "/^record 10/ { print \$9 }" names.0 | sort -u | wc -l) = 500
'

test_expect_success 'stale-names: one pointer, changing text' '
    probe stale stale-names &&
    test $(kernels stale.0) = $(kernels plain.0) &&
    names() { awk "/^record 10/ { print \$9 }" $1 | sort -u | wc -l; } &&
    test $(names stale.0) -lt $(names plain.0)
'

test_expect_success 'takeover: records of the middle are missing, and of the end if nobody re-arms' '
    probe taken takeover@500-1500 &&
    n=$(kernels taken.0) &&
    test $n -gt 100 && test $n -lt 520 &&
    test_cmp plain.out taken.out
'

test_expect_success 'takeover that ends with cuptiFinalize; the report counts its records' '
    SIMGPU_REPORT=report probe tookfinal takeover@500-1500:0:finalize &&
    test_cmp plain.out tookfinal.out &&
    grep "registrations=1" report &&
    foreign=$(sed -n "s/.*foreign_records=\([0-9]*\).*/\1/p" report) &&
    test $foreign -gt 500 && test $foreign -lt 1600
'

test_expect_success 'callback-thread: buffers come from another thread' '
    SIMPROBE_BUFFER=65536 probe cbplain "" &&
    SIMPROBE_BUFFER=65536 probe cbthread callback-thread &&
    threads() { awk "/^buffer/ { print \$2 }" $1 | sort -u | wc -l; } &&
    test $(threads cbplain.0) = 1 &&
    test $(threads cbthread.0) -gt 1 &&
    test $(kernels cbthread.0) = $(kernels plain.0)
'

test_expect_success 'torn-down: the driver goes first, FlushAll fails or hangs' '
    probe torn torn-down &&
    test_cmp plain.out torn.out &&
    test $(kernels torn.0) -lt $(kernels plain.0) &&
    test_expect_code 124 env SIMGPU_FAULT=torn-down:hang CUDA_INJECTION64_PATH="$sim/simprobe.so" \
        SIMPROBE_OUT=hang timeout 2 "$sim/simtrain" --steps 2
'

test_expect_success 'foreign-finalize wipes' '
    probe wiped foreign-finalize@500 &&
    test $(kernels wiped.0) -lt 500 &&
    test_cmp plain.out wiped.out
'

test_expect_success 'pool-exhausted: bad times from there on' '
    probe pool pool-exhausted@1000 &&
    awk "/^record 10/ && (\$3 == 0 || \$4 < \$3) { bad++ } END { exit !(bad > 1000) }" pool.0 &&
    test $(kernels pool.0) = $(kernels plain.0)
'

test_expect_success 'version: a release known as bad can be played' '
    probe version version:130000 &&
    grep "^version 130000" version.0 &&
    test $(kernels version.0) = $(kernels plain.0)
'

test_expect_success 'clock-step moves what comes after by that much' '
    probe step clock-step@1000:5000 &&
    awk "/^record 10/ && \$5 == 7 { print \$4 - \$3 }" plain.0 >plain.durations &&
    awk "/^record 10/ && \$5 == 7 { if (last && \$3 - last > 4900000000) jumps++; last = \$3 }
        END { exit jumps != 1 }" step.0
'

test_expect_success 'NULL buffers: counted by 13, a crash in 12' '
    SIMPROBE_BUFFER=0 probe null "" &&
    grep "^dropped" null.0 &&
    test_expect_code 139 env SIMPROBE_BUFFER=0 SIMGPU_CUPTI=12 SIMPROBE_CUPTI=libcupti.so.12 \
        CUDA_INJECTION64_PATH="$sim/simprobe.so" SIMPROBE_OUT=crash "$sim/simtrain" --steps 10 &&
    test_expect_code 139 env SIMPROBE_BUFFER=0 SIMGPU_FAULT=null-buffer-crash \
        CUDA_INJECTION64_PATH="$sim/simprobe.so" SIMPROBE_OUT=crash "$sim/simtrain" --steps 10
'

test_expect_success 'flush-hang hangs whoever flushes' '
    test_expect_code 124 env SIMGPU_FAULT=flush-hang CUDA_INJECTION64_PATH="$sim/simprobe.so" \
        SIMPROBE_OUT=hang timeout 2 "$sim/simtrain" --steps 2
'

test_expect_success 'fork: the child does no harm, twice' '
    probe fork fork@100 &&
    test_cmp plain.out fork.out &&
    test $(kernels fork.0) = $(kernels plain.0) &&
    probe forkexit fork@100:0:exit &&
    test_cmp plain.out forkexit.out
'

test_expect_success 'kill kills' '
    test_expect_code 137 env SIMGPU_FAULT=kill@100 "$sim/simtrain" --steps 2
'

test_expect_success 'a switch that cannot be read is refused' '
    test_expect_code 2 env SIMGPU_FAULT=zero-times@x "$sim/simtrain" --steps 2 &&
    test_expect_code 2 env SIMGPU_FAULT=no-such-fault "$sim/simtrain" --steps 2
'

test_expect_success 'JIT and allocator stalls leave their records' '
    SIMPROBE_MALLOC=1 probe jit "" --jit 0:50ms@5 --alloc-stall 0:20ms@every5 &&
    awk "/^record 17/ && \$8 == 4 && \$4 - \$3 > 49999000 && \$4 - \$3 < 50001000" jit.0 | grep . &&
    test $(awk "/^record 5/" jit.0 | wc -l) = 16 &&
    grep "triton_red_fused" jit.0
'

test_done
