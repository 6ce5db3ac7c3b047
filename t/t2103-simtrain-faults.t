#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='simtrain: collectives synchronise, each fault does what it says'

. /usr/share/sharness/sharness.sh

sim=$ARGUS_BUILDDIR/contrib/simgpu
TMPDIR=$(pwd)
export TMPDIR
unset RANK WORLD_SIZE ARGUS_RANK ARGUS_DIR SLURM_PROCID SLURM_JOB_ID SIMGPU_FAULT
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH SIMNCCL_VERSION

# run NAME [OPTION...]: records of rank R in NAME.R
run() {
    name=$1
    shift
    CUDA_INJECTION64_PATH=$sim/simprobe.so SIMPROBE_MALLOC=1 SIMPROBE_OUT=$name \
        "$sim/simtrain" --spawn 4 --ranks-per-node 2 --steps 12 --seed 5 "$@" >$name.out
}
# collectives FILE: start and end of each, in order
collectives() {
    awk '/^record 10 / && /ncclDevKernel_/ && !/SendRecv/ { print $3, $4 }' "$1" | sort -n
}
# compute FILE: busy ns of kernels that are not NCCL's, steps 2 and later
compute() {
    awk '/^record 10 / && !/ncclDev/ { n++; if (n > 704) s += $4 - $3 } END { printf "%d\n", s }' "$1"
}
# transfer NAME: sum over the collectives of the shortest duration among the ranks
transfer() {
    for r in 0 1 2 3; do collectives $1.$r | awk '{ printf "%d\n", $2 - $1 }' >d.$r; done
    paste d.0 d.1 d.2 d.3 | awk '{ m = $1; for (i = 2; i <= 4; i++) if ($i < m) m = $i; s += m }
        END { printf "%d\n", s }'
}
# ratio A B LOW HIGH: is A/B between?
ratio() {
    awk "BEGIN { r = $1 / $2; print r; exit !(r >= $3 && r <= $4) }"
}

test_expect_success 'a healthy run' 'run base'

test_expect_success 'ends agree within 1 us and the last arriver has the shortest kernel' '
    for r in 0 1 2 3; do collectives base.$r >c.$r; done &&
    test $(wc -l <c.0) = 62 &&
    paste c.0 c.1 c.2 c.3 | awk "{
        for (i = 1; i <= 4; i++) { s[i] = \$(2 * i - 1) ; e[i] = \$(2 * i) }
        lo = hi = e[1]; last = 1; shortest = 1
        for (i = 2; i <= 4; i++) {
            if (e[i] < lo) lo = e[i]
            if (e[i] > hi) hi = e[i]
            if (s[i] > s[last]) last = i
            if (e[i] - s[i] < e[shortest] - s[shortest]) shortest = i
        }
        if (hi - lo > 1500) exit 1
        if (s[last] - s[shortest] > 1500) exit 1
    }"
'

test_expect_success 'slow-rank: only its compute, by its factor, from its step' '
    run slow --slow-rank 2:1.3 &&
    ratio $(compute slow.2) $(compute base.2) 1.29 1.31 &&
    ratio $(compute slow.1) $(compute base.1) 0.999 1.001 &&
    ratio $(transfer slow) $(transfer base) 0.99 1.01 &&
    run late --slow-rank 2:1.3@7 &&
    ratio $(compute late.2) $(compute base.2) 1.1 1.2
'

test_expect_success 'slow-kernel: only kernels of that name' '
    run kernel --slow-kernel "1:*flash_fwd*:2" &&
    flash() { awk "/^record 10/ && /flash_fwd/ { s += \$4 - \$3 } END { printf \"%d\", s }" $1; } &&
    gemm() { awk "/^record 10/ && /xmma/ { s += \$4 - \$3 } END { printf \"%d\", s }" $1; } &&
    ratio $(flash kernel.1) $(flash base.1) 1.99 2.01 &&
    ratio $(gemm kernel.1) $(gemm base.1) 0.999 1.001
'

test_expect_success 'slow-link: transfers by its factor, compute untouched' '
    run link --slow-link node1:3 &&
    ratio $(transfer link) $(transfer base) 2.7 3.1 &&
    ratio $(compute link.2) $(compute base.2) 0.999 1.001 &&
    run pair --slow-link 1-2:3 && ratio $(transfer pair) $(transfer base) 2.7 3.1 &&
    run nopair --slow-link 0-2:3 && ratio $(transfer nopair) $(transfer base) 0.99 1.01 &&
    run rank --slow-link rank3:3 && ratio $(transfer rank) $(transfer base) 2.7 3.1
'

# longest FILE: longest time without a kernel on the compute stream after step 2
longest() {
    awk '/^record 10 / && $5 == 7 { n++; if (n > 704 && $3 - end > gap) gap = $3 - end; end = $4 }
        END { printf "%d\n", gap }' "$1"
}

test_expect_success 'host-stall: the GPU of that rank starves, its compute is as before' '
    run host --host-stall 0:200ms@every4 &&
    test $(longest host.0) -gt 100000000 &&
    test $(longest base.0) -lt 30000000 &&
    ratio $(compute host.0) $(compute base.0) 0.999 1.001 &&
    ratio $(transfer host) $(transfer base) 0.99 1.01
'

test_expect_success 'data-stall: the gap is before the first copy of a step' '
    run data --data-stall 3:80ms &&
    grep -e "^record 10 " -e "^record [12] " data.3 | sort -k3,3n | awk "
        \$2 == 1 && \$7 == 1 && end && \$3 - end > 79000000 { n++ }
        \$4 > end { end = \$4 }
        END { exit n < 11 }" &&
    test $(longest data.3) -gt 79000000 &&
    ratio $(compute data.3) $(compute base.3) 0.999 1.001
'

test_expect_success 'jit: an OVERHEAD record and a new kernel from then on' '
    run jit --jit 1:150ms@6 &&
    test $(awk "/^record 17/ && \$8 == 4 && \$4 - \$3 > 149999000 && \$4 - \$3 < 150001000" jit.1 | wc -l) = 1 &&
    test $(grep -c triton_red jit.1) = 6 &&
    test $(grep -c triton_red jit.0) = 0
'

test_expect_success 'alloc-stall: cudaFree and cudaMalloc' '
    run alloc --alloc-stall 1:80ms@every4 &&
    test $(grep -c "^record 5 .* 20 call" alloc.1) = 12 &&
    test $(grep -c "^record 5 .* 22 call" alloc.1) = 12 &&
    test $(grep -c "^record 5" alloc.0) = 0
'

test_expect_success 'slow-stage: all ranks of the stage, larger grids' '
    run stage0 --pp 2 && run stage --pp 2 --slow-stage 1:1.5 &&
    ratio $(compute stage.2) $(compute stage0.2) 1.4 1.55 &&
    ratio $(compute stage.3) $(compute stage0.3) 1.4 1.55 &&
    ratio $(compute stage.0) $(compute stage0.0) 0.999 1.001 &&
    test_expect_code 2 "$sim/simtrain" --slow-stage 1:2
'

grids() { awk '/^record 10/ && /flash_fwd/ { print $7 }' "$1" | sort -u | tr '\n' ' '; }

test_expect_success 'imbalance: larger grids on one rank, or on another each step' '
    run imbalance --imbalance 1:1.5 &&
    ratio $(compute imbalance.1) $(compute base.1) 1.4 1.55 &&
    test "$(grids imbalance.1)" = "768 " && test "$(grids imbalance.0)" = "512 " &&
    run rotate --imbalance rotate:1.5 &&
    for r in 0 1 2 3; do test "$(grids rotate.$r)" = "512 768 " || return 1; done
'

test_expect_success 'moe-hot: longer grouped GEMMs there, longer exchanges for all' '
    run moe0 --ep 2 && run moe --ep 2 --moe-hot 1:2 &&
    grouped() { awk "/^record 10/ && /grouped/ { s += \$4 - \$3 } END { printf \"%d\", s }" $1; } &&
    ratio $(grouped moe.1) $(grouped moe0.1) 1.9 2.1 &&
    ratio $(grouped moe.0) $(grouped moe0.0) 0.999 1.001
'

test_expect_success 'copy-bound: long copies on all ranks' '
    run copy --copy-bound 30ms &&
    for r in 0 1 2 3; do
        test $(awk "/^record 1 / && \$4 - \$3 > 29000000" copy.$r | wc -l) = 12 || return 1
    done
'

test_expect_success 'extra-allreduce: one more a step' '
    run extra --extra-allreduce 64@6 &&
    test $(collectives extra.0 | wc -l) = 68
'

test_expect_success 'barrier-work: the rank comes late to the last all-reduce' '
    run barrier --barrier-work 2:120ms@every4 &&
    ratio $(compute barrier.2) $(compute base.2) 0.999 1.001 &&
    test $(longest barrier.2) -gt 60000000
'

test_expect_success 'growing stalls grow' '
    run growing --host-stall 0:100ms@every4@growing &&
    awk "/^record 10 / && \$5 == 7 { if (end && \$3 - end > 50000000) print int((\$3 - end) / 1e6)
        end = \$4 }" growing.0 >gaps &&
    test $(wc -l <gaps) -ge 3 && sort -n gaps | cmp - gaps
'

test_expect_success 'a rotating stall visits more than one rank' '
    run turns --host-stall rotate:200ms@every3 &&
    n=0 &&
    for r in 0 1 2 3; do test $(longest turns.$r) -lt 100000000 || n=$((n + 1)); done &&
    test $n -ge 2
'

test_expect_success 'die: by that signal, in that step' '
    test_expect_code 134 "$sim/simtrain" --steps 5 --die 0@2:ABRT
'

test_expect_success 'graphs: kernels carry graph ids, their times are those without' '
    run graphs --graphs &&
    test $(awk "/^record 10/ && \$8 > 0" graphs.0 | wc -l) -gt 3000 &&
    test $(awk "/^record 10/ && \$8 > 0" base.0 | wc -l) = 0 &&
    ratio $(compute graphs.0) $(compute base.0) 0.999 1.001
'

test_expect_success 'autograd-thread: two threads launch, the times stay' '
    run thread --autograd-thread &&
    test_cmp base.out thread.out &&
    awk "/^record 10/ { print \$4 - \$3, \$9 }" base.0 | wc -l >n.base &&
    awk "/^record 10/ { print \$4 - \$3, \$9 }" thread.0 | wc -l >n.thread &&
    test_cmp n.base n.thread
'

test_expect_success 'loaders come and go with the rank' '
    run loaders --loaders 2 && test_cmp base.out loaders.out &&
    test $(grep -c "^injected" loaders.0) = 1 &&
    test $(grep -c "^record 10" loaders.0) = $(grep -c "^record 10" base.0)
'

test_expect_success 'leave: _exit and abort' '
    "$sim/simtrain" --steps 2 >leave.expected &&
    "$sim/simtrain" --steps 2 --leave _exit >leave.out && test_cmp leave.expected leave.out &&
    test_expect_code 134 "$sim/simtrain" --steps 2 --leave abort
'

test_expect_success 'ignore-term: SIGTERM does not end it' '
    "$sim/simtrain" --steps 100000 --pace 1 --ignore-term --quiet & pid=$! &&
    sleep 1 && kill -TERM $pid && sleep 1 && kill -0 $pid && kill -KILL $pid &&
    test_expect_code 137 wait $pid
'

test_expect_success 'pace: virtual time does not outrun the wall clock' '
    begin=$(date +%s%N) &&
    "$sim/simtrain" --steps 20 --pace 1 >pace.out &&
    end=$(date +%s%N) &&
    test $((end - begin)) -gt 900000000
'

test_expect_success 'clock-offset moves the records of that node' '
    run offset --clock-offset node1:5000 &&
    first() { awk "/^record 10/ { print int(\$3 / 1e6); exit }" $1; } &&
    d=$(($(first offset.2) - $(first offset.0))) &&
    test $d -gt 4900 && test $d -lt 5100
'

test_expect_success 'NVTX ranges, only when asked' '
    NVTX_INJECTION64_PATH=$sim/simprobe.so run nvtx --nvtx &&
    test $(grep -c "^push step " nvtx.0) = 12 &&
    test $(grep -c "^push" nvtx.0) = $(grep -c "^pop" nvtx.0) &&
    NVTX_INJECTION64_PATH=$sim/simprobe.so run quiet && ! grep "^push" quiet.0
'

test_done
