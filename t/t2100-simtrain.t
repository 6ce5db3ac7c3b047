#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='simtrain: ranks meet, synchronise, and their faults show'

. /usr/share/sharness/sharness.sh

simtrain=$ARGUS_BUILDDIR/contrib/simgpu/simtrain
TMPDIR=$(pwd)
export TMPDIR
unset RANK WORLD_SIZE ARGUS_RANK ARGUS_DIR SLURM_PROCID SLURM_JOB_ID SIMGPU_FAULT
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH

virtual() {
    sed -n 's/.*steps in \([0-9.]*\) virtual s.*/\1/p' "$1"
}

test_expect_success 'a run says twice that it is a simulation' '
    "$simtrain" --spawn 4 --steps 5 >out &&
    test $(wc -l <out) = 2 &&
    test $(grep -c -i simulat out) = 2
'

test_expect_success 'equal seeds give equal times, other seeds others' '
    "$simtrain" --spawn 4 --steps 5 >again &&
    test_cmp out again &&
    "$simtrain" --spawn 4 --steps 5 --seed 2 >other &&
    ! test_cmp out other
'

test_expect_success 'one rank alone needs nobody' '
    "$simtrain" --steps 3 >single &&
    grep "1 ranks" single
'

for shape in "--tp 2" "--tp 2 --pp 2" "--pp 4" "--ep 2" "--zero" "--pp 2 --microbatches 3" \
    "--ep 4 --tp 2"; do
    test_expect_success "8 ranks with $shape" '
        "$simtrain" --spawn 8 --steps 4 '"$shape"' --ranks-per-node 2 >shape &&
        grep "4 steps in" shape
    '
done

test_expect_success 'a slow rank makes the run slower' '
    "$simtrain" --spawn 4 --steps 20 >base &&
    "$simtrain" --spawn 4 --steps 20 --slow-rank 1:1.5 >slow &&
    awk "BEGIN { exit !($(virtual slow) > 1.3 * $(virtual base)) }"
'

test_expect_success 'ranks that do not come are missed with a clear line' '
    RANK=0 WORLD_SIZE=2 SIMTRAIN_RUN=lonely test_expect_code 1 "$simtrain" --timeout 1 2>err &&
    grep "only 1 of 2 ranks" err
'

test_expect_success 'a rank that dies takes the others along' '
    test_expect_code 137 "$simtrain" --spawn 4 --steps 20 --die 2@5:KILL 2>err &&
    grep "rank 2 is gone" err
'

test_expect_success 'bad options are refused with status 2' '
    test_expect_code 2 "$simtrain" --slow-rank 1 &&
    test_expect_code 2 "$simtrain" --slow-link node9:3 &&
    test_expect_code 2 "$simtrain" --tp 3 &&
    test_expect_code 2 "$simtrain" --host-stall 0:5parsec &&
    test_expect_code 2 "$simtrain" --nonsense
'

test_expect_success 'help tells of every fault' '
    "$simtrain" --help >help &&
    for f in slow-rank slow-kernel slow-link host-stall data-stall jit alloc-stall slow-stage \
        imbalance moe-hot copy-bound extra-allreduce barrier-work die; do
        grep -e "--$f " help || return 1
    done
'

test_expect_success 'works in a directory that cannot be written' '
    mkdir ro && chmod 555 ro &&
    (cd ro && "$simtrain" --spawn 2 --steps 2) &&
    chmod 755 ro
'

test_done
