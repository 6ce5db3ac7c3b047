#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='The collector under valgrind: its unit tests, and a simulated job'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
simgpu="$ARGUS_BUILDDIR/contrib/simgpu"

if ! command -v valgrind >/dev/null; then
    skip_all='no valgrind'
    test_done
fi
if nm "$ARGUS_BUILDDIR/collector_ring_test" | grep -q -e __asan_init -e __tsan_init; then
    skip_all='a build with sanitizers'
    test_done
fi
# The tests run in forked children, whose exit status 99 fails them.  Threads take turns, or one
# that spins keeps valgrind's lock from the others for as long as it likes.
check="valgrind -q --fair-sched=try --error-exitcode=99 --leak-check=no --child-silent-after-fork=no"

for name in ring nccl nvtx; do
    test_expect_success "unit test of $name" '
        $check "$ARGUS_BUILDDIR/collector_${name}_test" >out 2>&1 ||
            { sed "s/^/# /" out; false; }
    '
done
test_expect_success 'two ranks, all sources' '
    mkdir spool &&
    env TMPDIR="$PWD" ARGUS_SPOOL="$PWD/spool" ARGUS_NODE=n0 CUDA_INJECTION64_PATH="$so" \
        NCCL_PROFILER_PLUGIN="$so" NVTX_INJECTION64_PATH="$so" \
        $check --trace-children=yes "$simgpu/simtrain" --spawn 2 --steps 6 --nvtx --quiet >out 2>&1 &&
    ! grep -e "^==" out &&
    "$ARGUS_BUILDDIR/collector_ringdump" spool >ring &&
    test $(grep -c "^ring .* end=16" ring) = 2 &&
    grep "^KERNEL" ring >/dev/null && grep "^OP " ring >/dev/null && grep "^MARK" ring >/dev/null
'
test_done
