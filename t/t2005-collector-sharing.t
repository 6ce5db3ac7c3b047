#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='Other clients of CUPTI: the collector yields, comes back, and records the gap (simulated GPU)'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
dump="$ARGUS_BUILDDIR/collector_ringdump"
simtrain="$ARGUS_BUILDDIR/contrib/simgpu/simtrain"

# train NAME FAULT STEPS PACE: two ranks, in real time; rings in NAME.ring
train() {
    mkdir "spool-$1" &&
    env SIMGPU_FAULT="$2" TMPDIR="$PWD" ARGUS_SPOOL="$PWD/spool-$1" ARGUS_NODE=n0 \
        CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="$so" \
        "$simtrain" --spawn 2 --steps "$3" --pace "$4" --quiet --rendezvous "$1" >"$1.out" 2>"$1.err"
    echo $? >"$1.status"
    "$dump" "spool-$1" >"$1.ring"
}

# Seconds since the first record: awk's numbers do not hold nanoseconds.
cat >gaps.awk <<\EOF
function key(name,   i, pair) {
    for (i = 1; i <= NF; i++) {
        split($i, pair, "=")
        if (pair[1] == name)
            return pair[2]
    }
    return ""
}
function seconds(ns) { return substr(ns, 6, 5) + substr(ns, 11) / 1e9 }
function judge(   i, j) {
    for (i = 1; i <= gaps; i++)
        for (j = 1; j <= kernels; j++)
            if (at[j] > from[i] && at[j] < to[i]) {
                print "a kernel at " at[j] " in the gap from " from[i] " to " to[i]
                bad = 1
            }
    judged += gaps > 0 && kernels > 0
    gaps = kernels = 0
}
/^ring/ { judge() }
/^GAP/ { from[++gaps] = seconds(key("start")); to[gaps] = from[gaps] + key("length") / 1e9 }
/^KERNEL/ { at[++kernels] = seconds(key("start")) }
END { judge(); exit bad || judged != 2 }
EOF

# All at once: they mostly wait.
train plain "" 420 1 &
train takeover "takeover@20000-40000" 420 1 &
train refuse "takeover@20000-40000,takeover-refuse" 420 1 &
train finalize "foreign-finalize@20000" 420 1 &
train stuck "pool-exhausted@5000,pool-stuck" 600 1 &
wait

for name in plain takeover refuse finalize stuck; do
    test_expect_success "$name: the program ends as it does without argus" '
        echo 0 >zero && test_cmp zero $name.status && test_must_be_empty $name.err
    '
done
test_expect_success 'undisturbed: no gap' '
    ! grep "^GAP" plain.ring
'
for name in takeover refuse finalize; do
    test_expect_success "$name: a gap with the reason" '
        grep "^GAP .*source=0 reason=4" $name.ring
    '
    test_expect_success "$name: kernels before and after it, ACTIVE again" '
        last=$(sed -n "s/^GAP .*start=\([0-9]*\) .*/\1/p" $name.ring | sort -n | tail -n 1) &&
        after=$(sed -n "s/^KERNEL .*start=\([0-9]*\) .*/\1/p" $name.ring | sort -n | tail -n 1) &&
        test "$after" -gt "$last" &&
        test $(grep "^ring " $name.ring | grep -c "standdown=0,") = 2
    '
    test_expect_success "$name: no kernel lies within a gap" '
        awk -f gaps.awk $name.ring
    '
done
test_expect_success 'useless timestamps: remedies, then stopped with the reason' '
    test $(grep "^ring " stuck.ring | grep -c "standdown=5,") = 2 &&
    grep "^GAP .*source=0 reason=5" stuck.ring &&
    grep "^OP " stuck.ring >/dev/null
'
test_done
