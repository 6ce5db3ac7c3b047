#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='Every NCCL from 2.18 to 2.30, by plugin or by NVTX, and the links (simulated GPU)'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
dump="$ARGUS_BUILDDIR/collector_ringdump"
simgpu="$ARGUS_BUILDDIR/contrib/simgpu"

# train VERSION [ARG...]: two nodes of two ranks; rings as text in "ring"
train() {
    version=$1
    shift
    rm -f spool/*.ring && mkdir -p spool
    env SIMNCCL_VERSION="$version" TMPDIR="$PWD" ARGUS_SPOOL="$PWD/spool" \
        CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="${plugin:-$so}" \
        NVTX_INJECTION64_PATH="$so" "$simgpu/simtrain" --spawn 4 --ranks-per-node 2 --steps 20 \
        --quiet --rendezvous "r$version" "$@" >out 2>&1 && test_must_be_empty out &&
    "$dump" spool >ring
}
count() { grep -c "^$1 " ring; }

for pair in 2.18:0 2.21:0 2.22:0 2.23:0 2.24:2 2.25:2 2.26:3 2.27:4 2.28:5 2.29:6 2.30:6; do
    version=${pair%:*} interface=${pair#*:}
    test_expect_success "NCCL $version: interface $interface, every call, every communicator" '
        train $version &&
        test $(grep -c "^ring .* interface=$interface " ring) = 4 &&
        test $(count OP) = 408 && test $(count COMM) -ge 4
    '
    case $interface in
    0)
        test_expect_success "NCCL $version: from NVTX, bytes, numbered" '
            test $(grep -c "^OP .*flags=2 .* dtype=0 " ring) = 408 &&
            ! grep "^MARK" ring && ! grep "^LAUNCH" ring
        '
        ;;
    [234])
        test_expect_success "NCCL $version: one record a call, with its communicator" '
            ! grep "^OP .* comm=0 " ring && ! grep "^OP_DETAIL" ring && ! grep "^LAUNCH" ring
        '
        ;;
    *)
        test_expect_success "NCCL $version: calls, details, launches on a stream that kernels have" '
            test $(grep -c "^OP .*flags=4 " ring) = 408 &&
            test $(count OP_DETAIL) -ge 400 && test $(count LAUNCH) = 408 &&
            stream=$(sed -n "s/^LAUNCH .*stream=//p" ring | head -n 1) && test "$stream" -gt 0 &&
            grep "^KERNEL .*stream=$stream .*name=.*ncclDevKernel" ring >/dev/null
        '
        ;;
    esac
done
test_expect_success 'calls of one communicator are numbered from 0 without holes' '
    train 2.30 &&
    awk "/^ring/ { split(\"\", next_seq) }
         /^OP / { for (i = 1; i <= NF; i++) { split(\$i, a, \"=\"); v[a[1]] = a[2] }
                  if (v[\"seq\"] != next_seq[v[\"comm\"]] + 0) bad++
                  next_seq[v[\"comm\"]]++; n++ }
         END { exit bad || n != 408 }" ring
'
test_expect_success 'communicators remade: the plugin is unloaded and loaded again' '
    train 2.28 --reinit 5 &&
    test $(count COMM) -ge 16 && test $(count OP) -ge 408 &&
    test $(grep -c "^ring .* end=16" ring) = 4
'
for version in 2.24 2.26 2.27 2.28 2.30; do
    test_expect_success "links=on, NCCL $version: waits by peer" '
        mkdir -p spool && echo "links=on" >spool/step.conf &&
        train $version && rm spool/step.conf &&
        grep "^PEER_WAIT .*peer=[0-3] state=\(8\|9\|10\|11\|12\|20\) count=[1-9]" ring >/dev/null
    '
done
test_expect_success 'links=off: none' '
    train 2.30 && ! grep "^PEER_WAIT" ring
'
test_expect_success 'the user has a plugin of his own: stood down, NVTX still tells the calls' '
    plugin="$simgpu/simprobe.so" && export plugin &&
    rm -f spool/*.ring &&
    env SIMNCCL_VERSION=2.28 TMPDIR="$PWD" ARGUS_SPOOL="$PWD/spool" CUDA_INJECTION64_PATH="$so" \
        NCCL_PROFILER_PLUGIN="$simgpu/simprobe.so" NVTX_INJECTION64_PATH="$so" \
        "$simgpu/simtrain" --spawn 2 --steps 20 --quiet --rendezvous own &&
    "$dump" spool >ring && unset plugin &&
    test $(grep -c "^ring .* interface=0 .* standdown=0,1,0,0" ring) = 2 &&
    test $(grep -c "^OP .*flags=2 " ring) = 204 && ! grep "^OP .* comm=0 " ring
'
test_done
