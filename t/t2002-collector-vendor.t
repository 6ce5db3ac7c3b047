#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description="The collector beside NVIDIA's own libraries, which run without a GPU"

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
probe="$ARGUS_BUILDDIR/collector_probe"
dump="$ARGUS_BUILDDIR/collector_ringdump"

# Where the toolkit keeps a library: CUDA_HOME, then the usual places.
find_library() {
    for dir in "$CUDA_HOME" /usr/local/cuda /opt/cuda; do
        for sub in lib lib64 extras/CUPTI/lib64 targets/x86_64-linux/lib; do
            test -n "$dir" && test -r "$dir/$sub/$1" && { echo "$dir/$sub/$1"; return 0; }
        done
    done
    return 1
}
nccl=$(find_library libnccl.so.2) && test_set_prereq NCCL
cupti=$(find_library libcupti.so) && test_set_prereq CUPTI

fresh() {
    rm -rf spool && mkdir spool &&
    ARGUS_SPOOL="$PWD/spool" ARGUS_RANK=0 ARGUS_WORLD=1 ARGUS_NODE=n0 &&
    export ARGUS_SPOOL ARGUS_RANK ARGUS_WORLD ARGUS_NODE
}

test_expect_success NCCL 'payloads of the real libnccl are read from its NVTX ranges' '
    fresh &&
    env -u NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH="$so" "$probe" nccl "$nccl" >out 2>err &&
    "$dump" spool >ring &&
    grep "^OP .*flags=2 .* func=1 count=4000 .*peer=-1 dtype=0" ring &&
    grep "^OP .*flags=2 .* func=9 count=40 .*peer=3 dtype=0" ring &&
    test $(grep -c "^OP " ring) = 2 &&
    ! grep "^MARK" ring
'
test_expect_success NCCL 'and the calls return what they return without argus' '
    fresh &&
    "$probe" nccl "$nccl" >expected 2>/dev/null &&
    test_cmp expected out &&
    test_must_be_empty err
'
test_expect_success CUPTI 'the real libcupti refuses without a driver: passive, said so, quiet' '
    fresh &&
    LD_LIBRARY_PATH="$(dirname "$cupti")" "$probe" init "$so" >out 2>err &&
    echo "InitializeInjection 1" >expected &&
    test_cmp expected out &&
    test_must_be_empty err &&
    test -z "$(ls spool | grep -v standdown)" &&
    grep "^rank=0 source=cupti reason=refused code=[0-9]*$" spool/standdown
'
test_expect_success 'finalize, dlclose, load again: one ring, both communicators in it' '
    fresh &&
    "$probe" reload "$so" &&
    "$dump" spool >ring &&
    test $(grep -c "^ring " ring) = 1 &&
    test $(grep -c "^COMM " ring) = 2 &&
    test $(grep -c "^OP .*func=1 count=1000 seq=0" ring) = 2
'
test_done
