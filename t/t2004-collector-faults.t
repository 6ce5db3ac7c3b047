#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='What can go wrong under the collector (simulated GPU): the program must not notice'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
dump="$ARGUS_BUILDDIR/collector_ringdump"
simgpu="$ARGUS_BUILDDIR/contrib/simgpu"
simtrain="$simgpu/simtrain"

# train NAME FAULT [ARG...]: one run without argus and one with it; output,
# messages and exit status of both, and the rings as text in "ring".
train() {
    name=$1 fault=$2
    shift 2
    rm -rf spool && mkdir spool
    (cd "$SHARNESS_TRASH_DIRECTORY" && env SIMGPU_FAULT="$fault" TMPDIR="$PWD" \
        "$simtrain" --spawn 2 --steps 40 --rendezvous "plain-$name" "$@" >plain.out 2>plain.err)
    echo $? >plain.status
    (cd "$SHARNESS_TRASH_DIRECTORY" && env SIMGPU_FAULT="$fault" TMPDIR="$PWD" \
        ARGUS_SPOOL="$PWD/spool" ARGUS_NODE=n0 \
        CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="$so" NVTX_INJECTION64_PATH="$so" \
        "$simtrain" --spawn 2 --steps 40 --rendezvous "argus-$name" "$@" >argus.out 2>argus.err)
    echo $? >argus.status
    "$dump" spool >ring
    test_cmp plain.status argus.status &&
    test_cmp plain.out argus.out &&
    test_cmp plain.err argus.err
}

field() { # field KEY INDEX: of the first ring's header
    sed -n "s/^ring .* $1=\([^ ]*\).*/\1/p" ring | head -n 1 | cut -d, -f"$2"
}

test_expect_success 'no fault: kernels, copies, collectives, launches, an orderly end' '
    train none "" &&
    for type in KERNEL MEMCPY MEMSET OVERHEAD COMM OP OP_DETAIL LAUNCH ANCHOR FLUSH; do
        grep "^$type " ring >/dev/null || { echo "no $type"; return 1; }
    done &&
    test "$(field end 1)" = 16 &&
    test "$(field invalid 1)" = 0 && test "$(field dropped 1)" = 0 &&
    grep "^ring .*simulated=1" ring >/dev/null
'
kernels=$(grep -c "^KERNEL" ring)

# limited BLOCKS: below the user's limit of file size, in blocks of 512 bytes.
limited() {
    rm -rf spool && mkdir spool &&
    (ulimit -f "$1" && TMPDIR="$PWD" ARGUS_SPOOL="$PWD/spool" ARGUS_NODE=n0 \
        CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="$so" NVTX_INJECTION64_PATH="$so" \
        "$simtrain" --spawn 2 --steps 3 --rendezvous "limit-$1" >limited.out) &&
    "$dump" spool >ring
}

test_expect_success 'a limit of file size: a ring that fits' '
    limited 8192 && test "$(grep -c "^ring " ring)" = 2 && grep "^KERNEL" ring >/dev/null
'

test_expect_success 'a limit of file size that no ring fits: passive' '
    limited 1024 && ! grep "^ring " ring
'

for code in 14 15 35 39 999; do
    test_expect_success "Enable returns $code: passive, and the header says so" '
        train enable$code "enable:$code" &&
        ! grep "^KERNEL" ring &&
        grep "^OP " ring >/dev/null &&
        test "$(field code 1)" = $code
    '
done
test_expect_success 'RegisterCallbacks fails: passive' '
    train register "register:39" &&
    ! grep "^KERNEL" ring && test "$(field standdown 1)" = 4
'
test_expect_success 'FlushAll fails: nothing worse than late records' '
    train flush "flush:999"
'
test_expect_success 'CUPTI 13.0 GA: traced, never disabled, marked' '
    train ga "version:130000,disable-hang" &&
    grep "^KERNEL" ring >/dev/null &&
    test "$(field standdown 1)" = 6
'
for version in 16 18 22 24 28; do
    test_expect_success "CUPTI API $version: every kernel is there" '
        train v$version "version:$version" &&
        test $(grep -c "^KERNEL" ring) = $kernels
    '
done

for bad in zero-times sentinel reversed far; do
    test_expect_success "$bad: dropped and counted, the rest is there" '
        train $bad "$bad:0.2" &&
        test "$(field invalid 1)" -gt 0 &&
        test $(grep -c "^KERNEL" ring) -gt $((kernels / 2)) &&
        test $(grep -c "^KERNEL" ring) -lt $kernels &&
        ! grep "^KERNEL.*length=-" ring
    '
done
test_expect_success 'out of order: all kernels, as they come' '
    train order "out-of-order" &&
    test $(grep -c "^KERNEL" ring) = $kernels
'
test_expect_success 'lost records are counted' '
    train drop "drop:0.1" &&
    test "$(field dropped 1)" -gt 0
'
test_expect_success 'buffers of many threads at once' '
    train threads "threads:24" &&
    test $(grep -c "^KERNEL" ring) = $kernels
'
test_expect_success 'a CUPTI that crashes on NULL never gets one' '
    train null "null-buffer-crash,threads:40,version:24"
'
test_expect_success 'thousands of kernel names: capped and counted' '
    train names "many-names:40000" --steps 200 &&
    test $(grep -c "^KERNEL" ring) -gt $kernels
'
test_expect_success 'one address with changing text: whatever it says when it is read' '
    train stale "stale-names" &&
    test $(grep -c "^KERNEL" ring) = $kernels
'
test_expect_success 'device buffers used up: dropped and counted' '
    train pool "pool-exhausted@500" &&
    test "$(field invalid 1)" -gt 0
'
test_expect_success 'no kernel record ever comes' '
    train silent "no-kernels" && ! grep "^KERNEL" ring
'
test_expect_success 'the clock jumps' '
    train clock "clock-step@800:5000" && grep "^KERNEL" ring >/dev/null
'
test_expect_success 'a forked child launches a kernel and exits' '
    train fork "fork@300:exit" &&
    test $(grep -c "^ring " ring) = 2 &&
    test $(grep -c "^KERNEL" ring) = $kernels &&
    test "$(field end 1)" = 16
'
test_expect_success 'a forked child launches a kernel and leaves by _exit' '
    train fork2 "fork@300" &&
    test $(grep -c "^ring " ring) = 2
'
test_expect_success 'SIGKILL: what had reached the ring is there' '
    train kill "kill@3000" --pace 0.1 &&
    grep "^KERNEL" ring >/dev/null &&
    test "$(field end 1)" = 0
'
# The fault lasts as long as the process: that it ends is what is to be shown.
test_expect_success 'FlushAll never returns: the process exits all the same, the rest is kept' '
    train hang "flush-hang@500" &&
    grep "^OP " ring >/dev/null &&
    test "$(field end 1)" = 17
'
test_expect_success 'Disable never returns: the same' '
    train hang2 "disable-hang"
'
for signal in TERM SEGV ABRT; do
    test_expect_success "SIG$signal: same status, ring kept" '
        train sig$signal "" --die 0@20:$signal --pace 2 &&
        grep "^OP " ring >/dev/null
    '
done
test_done
