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

# ./rank R N OPTION...: one rank as a launcher starts it; its pid is the rank's
cat >rank <<EOF
#!/bin/sh
SLURM_PROCID=\$1 SLURM_NTASKS=\$2 SLURMD_NODENAME=n\$((\$1 / 2 + 1)) SLURM_LOCALID=\$((\$1 % 2))
SLURM_JOB_ID=\${job:-77} SLURM_STEP_ID=0
export SLURM_PROCID SLURM_NTASKS SLURMD_NODENAME SLURM_LOCALID SLURM_JOB_ID SLURM_STEP_ID
shift 2
exec "$simtrain" --steps 5 "\$@"
EOF
chmod +x rank

test_expect_success 'ranks of a launcher meet, in any order, nodes by their names' '
    for r in 3 1 2; do ./rank $r 4 --slow-link n2:2 & done >none &&
    ./rank 0 4 --slow-link n2:2 >launched && wait &&
    test $(wc -l <none) = 0 &&
    grep "4 ranks on 2 nodes" launched &&
    ls simtrain-* 2>/dev/null | wc -l >left && echo 0 >zero && test_cmp zero left
'

test_expect_success 'jobs at the same time do not mix' '
    for job in 1 2 3; do
        for r in 1 2; do job=$job ./rank $r 3 --seed $job & done
        job=$job ./rank 0 3 --seed $job >job.$job &
    done &&
    wait &&
    test $(cat job.1 job.2 job.3 | grep -c "5 steps in") = 3 &&
    test $(cat job.1 job.2 job.3 | grep "5 steps in" | sort -u | wc -l) = 3
'

test_expect_success 'a stale rendezvous file leads nobody astray' '
    ./rank 0 2 --timeout 30 >first & pid=$! &&
    tries=100 && until ls simtrain-* || test $tries = 0; do sleep 0.1; tries=$((tries - 1)); done &&
    name=$(ls simtrain-*) && cp "$name" stale && kill -KILL $pid && { wait $pid; true; } &&
    cp stale "$name" &&
    ./rank 1 2 & sleep 0.2 &&
    ./rank 0 2 >second && wait &&
    grep "5 steps in" second
'

test_expect_success 'a file of someone else, or rubbish, is not followed' '
    echo rubbish >file &&
    RANK=1 WORLD_SIZE=2 test_expect_code 1 "$simtrain" --rendezvous file --timeout 1 2>err &&
    grep "rank 0 did not come within 1 s (rendezvous file)" err &&
    ln -s stale link &&
    RANK=1 WORLD_SIZE=2 test_expect_code 1 "$simtrain" --rendezvous link --timeout 1
'

test_expect_success 'when rank 0 is killed the others leave at once' '
    for r in 1 2; do ./rank $r 3 --steps 100000 --pace 1 2>lost.$r & done
    ./rank 0 3 --steps 100000 --pace 1 >none & pid=$! &&
    sleep 1 && kill -KILL $pid &&
    wait &&
    grep "lost rank 0" lost.1 && grep "lost rank 0" lost.2
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
