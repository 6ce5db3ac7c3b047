#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh: the collector on a real GPU, in about eight minutes.
#
# Needs a GPU, its driver, nvcc and gcc; NCCL and torch are used where they
# are.  No Slurm, no HDF5, nothing installed, nothing left behind.  Prints one
# table; exit status 0: every check passed, 1: one failed, 77: no GPU here.
# Environment: CC, NVCC, CUDA_HOME, QUICK=1 (two repeats, short soak).
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
CC=${CC:-gcc}
NVCC=${NVCC:-$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")}
cuda=${CUDA_HOME:-$(dirname "$(dirname "$NVCC")")}
repeats=5
soak=2000
test -n "${QUICK:-}" && repeats=2 soak=200

command -v "$NVCC" >/dev/null || { echo "run.sh: no nvcc" >&2; exit 77; }
work=$(mktemp -d /tmp/argus-gpu.XXXXXX) || exit 1
shm=$(mktemp -d /dev/shm/argus-gpu.XXXXXX) || exit 1
trap 'rm -rf "$work" "$shm"' EXIT
ulimit -c 0 # one of the ends is abort()
# A program that hangs is a check that failed, not the end of the others.
limit=$(command -v timeout) && limit="$limit -k 5 180"
table=$work/table
failed=0
: >"$table"

row() { # row STATUS WHAT VALUE
    printf '%-6s %-46s %s\n' "$1" "$2" "$3" | tee -a "$table"
    test "$1" = FAIL && failed=1
    return 0
}
check() { # check WHAT VALUE CONDITION...
    what=$1 value=$2
    shift 2
    if "$@"; then row ok "$what" "$value"; else row FAIL "$what" "$value"; fi
}
value() { # value KEY < line of key=value
    tr ' ' '\n' | sed -n "s/^$1=//p" | head -n 1
}

# ---- build ----
for i in include extras/CUPTI/include targets/x86_64-linux/include targets/sbsa-linux/include; do
    test -d "$cuda/$i" && includes="${includes:-} -isystem $cuda/$i"
done
: >"$work/config.h"
for h in cupti nccl nvtx3/nvToolsExt; do
    echo "#include <$h.h>" | $CC ${includes:-} -E - >/dev/null 2>&1 &&
        echo "#define HAVE_$(echo "$h" | tr a-z/ A-Z_)_H 1" >>"$work/config.h"
done
sources=
for f in "$root"/collector/inject/*.c; do
    case $f in
    *_test.c | *_bench.c | */cupti_check.c | */fake_cupti.c | */testkit.c | */ringdump.c | */probe.c) ;;
    *) sources="$sources $f" ;;
    esac
done
$CC -std=gnu11 -c -I"$work" -I"$root" -I"$root/include" ${includes:-} \
    "$root/collector/inject/cupti_check.c" -o "$work/check.o" ||
    { echo "run.sh: this toolkit's layouts are not the ones we know" >&2; exit 1; }
row info 'layouts compared with' "$(sed -n 's/.*HAVE_\(.*\)_H 1/\1/p' "$work/config.h" | tr '\n' ' ')"
so=$work/libargus-collector.so
$CC -std=gnu11 -O2 -fPIC -fvisibility=hidden -shared -I"$work" -I"$root" -I"$root/include" \
    ${includes:-} $sources -o "$so" -Wl,-z,nodelete -Wl,--as-needed -ldl -lpthread ||
    { echo "run.sh: the collector does not build" >&2; exit 1; }
$CC -std=gnu11 -O2 -I"$root/include" "$root/t/gpu/drain.c" -o "$work/drain" || exit 1
"$NVCC" -O2 -std=c++17 "$root/t/gpu/work.cu" -o "$work/work" || exit 1
for lib in "$cuda/lib64" "$cuda/lib" "$cuda/targets/x86_64-linux/lib" /usr/lib/x86_64-linux-gnu; do
    test -e "$lib/libnccl.so" && nccl_lib=$lib
    test -e "$lib/libcupti.so" && LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
test -d "$cuda/extras/CUPTI/lib64" &&
    LD_LIBRARY_PATH=$cuda/extras/CUPTI/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
gpu=$("$work/work" about 2>"$work/err") || { echo "run.sh: no GPU: $(cat "$work/err")" >&2; exit 77; }
echo "$gpu, $(uname -m), $(nproc) CPUs, $(date -u +%Y-%m-%d)" | tee -a "$table"

# traced SOURCES CMD...: its output in out, the rings' in seen; CMD's status
traced() {
    list=$1
    shift
    rm -rf "$shm/spool" && mkdir "$shm/spool"
    "$work/drain" "$shm/spool" >"$work/seen" &
    drain=$!
    $limit env ARGUS_SPOOL="$shm/spool" ARGUS_RANK=0 ARGUS_WORLD=1 ARGUS_NODE=n0 ARGUS_SOURCES="$list" \
        CUDA_INJECTION64_PATH="$so" NCCL_PROFILER_PLUGIN="$so" NVTX_INJECTION64_PATH="$so" \
        "$@" >"$work/out" 2>"$work/err"
    status=$?
    kill $drain
    wait $drain
    return $status
}
seen() { value "$1" <"$work/seen"; }
same() { test "$(seen "$1")" = "$2"; }
is_uuid() { case $1 in GPU-*) ;; *) false ;; esac; }
both() { "$1" "$2" "$3" && "$4" "$5" "$6"; }
around() { test "$(seen "$1")" -ge "$2" && test "$(seen "$1")" -le $(($2 + 50)); }

# ---- delivery without a subscriber ----
traced cupti "$work/work" launch 100000 2000
check 'program runs' "status $status" test $status = 0
check 'kernels delivered without a subscriber' "$(seen kernels) of 102000, CUPTI $(seen cupti)" \
    around kernels 102000
check 'dropped, invalid' "$(seen dropped), $(seen invalid)" test "$(seen dropped)$(seen invalid)" = 00
check 'orderly end' "end=$(seen end)" same end 16
check 'GPU identified' "$(seen uuid)" is_uuid "$(seen uuid)"
traced cupti "$work/work" threads 8 20000 2000
check 'eight launching threads' "$(seen kernels) of 160000" around kernels 160000
traced cupti "$work/work" copies 1000 65536
check 'copies and memsets' "$(seen memcpys) copies, $(seen memsets) memsets" around memcpys 3000
row info 'cudaMalloc and cudaFree records' "$(seen apis)"
env ARGUS_DEBUG=1 ARGUS_SPOOL="$shm" CUDA_INJECTION64_PATH="$so" "$work/work" about \
    >/dev/null 2>"$work/err"
row info 'libcupti' "$(sed -n 's/.*cupti: \(.*libcupti.*\)/\1/p' "$work/err" | head -n 1)"
row info 'KERNEL refused beside CONCURRENT_KERNEL' \
    "$(sed -n 's/.*cupti: kinds \(can[a-z]* be asked for\)/\1/p' "$work/err" | head -n 1)"

# ---- overhead: interleaved repeats, medians ----
run_one() { # run_one MODE ARGS... -> ns a kernel
    mode=$1
    shift
    if test "$mode" = off; then
        $limit "$work/work" "$@" >"$work/out" 2>"$work/err" || return 1
    else
        traced "$mode" "$work/work" "$@" || return 1
        # A collector that records nothing costs nothing.
        around kernels "$(value kernels <"$work/out")" || return 1
    fi
    value per_kernel_ns <"$work/out"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
modes='off cupti cupti,stacks cupti,nccl,nvtx,stacks'
for load in 'launch-bound:3:launch 200000 1000' 'launch-bound 5 us:3:launch 200000 4000' \
    'GPU-bound 200 us:1:launch 10000 200000' 'graph replay 2 us:3:graph 1000 200 1000'; do
    name=${load%%:*} rest=${load#*:}
    budget=${rest%%:*} arguments=${rest#*:}
    rm -f "$work"/ns.*
    for r in $(seq $repeats); do
        for mode in $modes; do
            run_one "$mode" $arguments >>"$work/ns.$mode"
        done
    done
    base=$(median <"$work/ns.off")
    for mode in cupti cupti,stacks cupti,nccl,nvtx,stacks; do
        with=$(median <"$work/ns.$mode")
        text=$(awk -v a="$base" -v b="$with" 'BEGIN {
            if (!(a > 0 && b > 0)) { print "did not run, or kernels are missing"; exit }
            printf "%.0f -> %.0f ns a kernel, %+.2f %%, %.0f kernels/s", a, b, (b / a - 1) * 100, 1e9 / b }')
        check "$name, $mode (budget $budget %)" "$text" \
            awk -v a="$base" -v b="$with" -v l="$budget" 'BEGIN { exit !(a > 0 && b > 0 && (b / a - 1) * 100 <= l) }'
    done
done

# ---- graphs for long: device buffers must come back ----
traced cupti "$work/work" graph 1000 $soak 1000
check "graph soak, $soak thousand kernels: all there" "$(seen kernels)" \
    around kernels $(((soak + 1) * 1000))
check 'graph soak: invalid timestamps' "$(seen invalid)" test "$(seen invalid)" = 0
check 'graph soak: GPU memory grown' "$(value gpu_mb_grown <"$work/out") MB" \
    test "$(value gpu_mb_grown <"$work/out")" -le 200

# ---- ends ----
for how in return fork _exit term abort kill; do
    $limit "$work/work" end $how >/dev/null 2>&1
    plain=$?
    begin=$(date +%s%N)
    traced cupti,stacks "$work/work" end $how
    took=$((($(date +%s%N) - begin) / 1000000))
    check "end by $how: same status" "$plain and $status, $took ms" test $plain = $status
    check "end by $how: kernels kept" "$(seen kernels) of 1000" around kernels 1000
    case $how in return | fork) reason=16 ;; *) reason=0 ;; esac
    check "end by $how: how it is told" "end=$(seen end)" same end $reason
done

# ---- NCCL, one rank ----
if test -n "${nccl_lib:-}" &&
    "$NVCC" -O2 -std=c++17 "$root/t/gpu/comm.cu" -o "$work/comm" -L"$nccl_lib" -lnccl 2>"$work/err"; then
    LD_LIBRARY_PATH=$nccl_lib:${LD_LIBRARY_PATH:-}
    $limit "$work/comm" 2000 >"$work/plain" 2>&1
    traced cupti,nccl,nvtx,stacks "$work/comm" 2000
    check 'NCCL: one rank runs' "status $status, $(cat "$work/out")" test $status = 0
    check 'NCCL: calls recorded' "$(seen ops) of 4000, interface $(seen interface)" around ops 4000
    check 'NCCL: communicator' "$(seen comms), version $(seen nccl)" same comms 1
    row info 'NCCL: details, launches, with a stream id' "$(seen details), $(seen launches), $(seen streams)"
    row info 'NCCL: ns a call, off and on' \
        "$(value per_call_ns <"$work/plain") and $(value per_call_ns <"$work/out")"
else
    row skip 'NCCL' 'no libnccl to build with'
fi

# ---- torch.profiler in the middle of a traced job ----
if python3 -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null; then
    traced cupti,nccl,nvtx,stacks python3 "$root/t/gpu/profiler.py"
    events=$(value profiler_events <"$work/out")
    check 'torch.profiler keeps its GPU events' "${events:-none}" test "${events:-0}" -gt 0
    check 'no source stood down for it' "standdown=$(seen standdown)" same standdown 0
    # It works on for 14 seconds after the profiler; the first of them are lost.
    check 'and argus comes back' \
        "last kernel $(seen quiet_s) s before the end, $(seen gaps) gaps, $(seen gap_s) s" \
        awk -v q="$(seen quiet_s)" 'BEGIN { exit !(q != "" && q < 11) }'
    row info 'stacks seen' "$(seen stacks)"
else
    row skip 'torch.profiler' 'no torch with CUDA'
fi

echo
if test $failed = 0; then
    echo "all checks passed"
else
    echo "failed:"
    grep '^FAIL' "$table"
fi
exit $failed
