#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='srun --argus on a real Slurm cluster: every way to start a job'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

start_cluster

# A job of four ranks on two nodes that is long enough for a verdict.
small="-N2 --ntasks-per-node=2 --gres=gpu:2"
train="$simtrain --quiet --steps 30"

test_expect_success 'srun --argus ends with a verdict in sacct' '
    as_user srun --argus -J direct $small $train >out 2>&1 &&
    job=$(newest direct) &&
    verdict_of $job | grep "^argus:1 ok ranks=4 steps=[0-9]* step=[0-9.]*ms simulated=1 dir=$(dir_of $job)$"
'

test_expect_success 'job directory: one timeline a rank, all the users own' '
    dir=$(dir_of $job) &&
    test $(ls "$dir"/step-0/rank-*.h5 | wc -l) = 4 &&
    test -s "$dir/job.json" && test -s "$dir/verdict.json" &&
    test -e "$dir/.done/n1" && test -e "$dir/.done/n2" &&
    test -z "$(find "$dir" ! -user "$user")"
'

test_expect_success 'every timeline opens with h5dump' '
    for f in "$dir"/step-0/rank-*.h5; do h5dump -H "$f" >out && grep -q steps out || return 1; done
'

test_expect_success 'nothing is left on the nodes' '
    wait_for 10 clean
'

test_expect_success 'the exit status of the job is its own' '
    test_expect_code 7 as_user srun --argus -J status -N1 -n2 --gres=gpu:1 sh -c "exit 7"
'

test_expect_success 'a program without any CUDA is told that nothing was recorded' '
    verdict_of $(newest status) | grep "^argus:1 insufficient-data .*missing=timelines"
'

test_expect_success 'without --argus there is nothing' '
    as_user srun -J without $small $train >out 2>&1 &&
    job=$(newest without) &&
    wait_for 10 is_over $job && sleep 1 &&
    test ! -e "$(dir_of $job)" && test -z "$(comment $job)"
'

test_expect_success 'sbatch --argus reaches a bare srun inside' '
    job=$(as_user sbatch --parsable --argus -o out.%j $small --wrap "srun $train") &&
    verdict_of $job | grep "^argus:1 ok ranks=4 "
'

test_expect_success 'srun --argus inside a plain sbatch' '
    job=$(as_user sbatch --parsable -o out.%j $small --wrap "srun $train; srun --argus $train") &&
    verdict_of $job | grep "^argus:1 ok ranks=4 " &&
    test ! -e "$(dir_of $job)/step-0" && test -e "$(dir_of $job)/step-1"
'

test_expect_success 'srun --argus inside salloc, two steps at once' '
    as_user salloc -J alloc $small sh -c "
        srun --argus --overlap $train & srun --argus --overlap $train & wait" >out 2>&1 &&
    job=$(newest alloc) &&
    verdict_of $job | grep "^argus:1 ok ranks=4 " &&
    test $(ls "$(dir_of $job)"/step-[01]/rank-*.h5 | wc -l) = 8
'

test_expect_success 'an interactive step: what it starts itself is traced, and so is a step inside' '
    cp "$SLURM_CONF" conf.before &&
    echo "LaunchParameters=use_interactive_step" >>"$SLURM_CONF" && scontrol reconfigure &&
    echo "srun --argus $train; exit 5" |
        test_expect_code 5 as_user salloc -J inter $small >out 2>&1 &&
    job=$(newest inter) &&
    verdict_of $job | grep "^argus:1 ok ranks=4 " &&
    cat conf.before >"$SLURM_CONF" && scontrol reconfigure &&
    wait_for 60 eval "sacct -n -P -j $job -o jobid | grep \"^$job.interactive\$\"" &&
    test "$(cd "$(dir_of $job)" && echo step-*)" = step-0
'

test_expect_success 'a directory of work that cannot be written: one line, the job runs, nothing is there' '
    mkdir "$top/readonly" && chmod 755 "$top/readonly" &&
    (cd "$top/readonly" && as_user srun -Q --argus -J readonly $small sh -c "$train && echo lives") >out 2>err &&
    cat out err && test $(grep -c lives out) = 4 && job=$(newest readonly) &&
    echo "argus: n1: cannot write $top/readonly/argus/$job: Permission denied; not traced" >want &&
    test_cmp want err && wait_for 60 is_over $job && wait_for 20 clean &&
    test -z "$(ls -A "$top/readonly")" && test -z "$(comment $job)"
'

test_expect_success '... and of a script: one line in its stderr, none where it can be written' '
    job=$(cd "$top/readonly" && as_user sbatch --parsable -W --argus -o "$work/out.%j" -e "$work/err.%j" -N1 -n1 --gres=gpu:1 \
        --wrap "$train && echo lives") && cat out.$job err.$job && grep lives out.$job &&
    echo "argus: n1: cannot write $top/readonly/argus/$job: Permission denied; not traced" >want &&
    test_cmp want err.$job && wait_for 60 is_over $job && wait_for 20 clean &&
    job=$(as_user sbatch --parsable -W --argus -o out.%j -e err.%j -N1 -n1 --gres=gpu:1 --wrap "$train && echo lives") &&
    cat out.$job err.$job && grep lives out.$job && test ! -s err.$job
'

test_expect_success 'of an array exactly the task that was traced gets a comment' '
    array=$(as_user sbatch --parsable --array=1-3 -o out.%A_%a -N1 -n2 --gres=gpu:1 --wrap "
        if [ \$SLURM_ARRAY_TASK_ID = 2 ]; then srun --argus $train; else srun $train; fi") &&
    verdict_of ${array}_2 | grep "^argus:1 ok ranks=2 " &&
    wait_for 20 is_over $array && sleep 1 &&
    test -z "$(comment ${array}_1)" && test -z "$(comment ${array}_3)"
'

test_expect_success 'scancel of ranks that ignore SIGTERM: their data is there' '
    job=$(as_user sbatch --parsable -o out.%j $small --wrap "
        srun --argus $simtrain --quiet --ignore-term --steps 100000 --pace 1") &&
    wait_for 30 test -e "$(dir_of $job)/step-0/step.json" && sleep 4 &&
    as_user scancel $job &&
    verdict_of $job | grep "ranks=4\|rank=" &&
    test $(ls "$(dir_of $job)"/step-0/rank-*.h5 | wc -l) = 4 &&
    for f in "$(dir_of $job)"/step-0/rank-*.h5; do
        steps=$(h5ls "$f/steps" | sed "s/.*{\([0-9]*\).*/\1/") && test "$steps" -ge 10 || return 1
    done
'

test_expect_success 'a recorder killed by SIGKILL loses nothing' '
    as_user srun --argus -J killed $small $simtrain --quiet --steps 60 --pace 1 >out 2>&1 &
    wait_for 30 test -e "$top/spool/n1/jobs" &&
    wait_for 30 eval "job=\$(newest killed) && test -n \"\$job\"" &&
    wait_for 30 test -e "$(dir_of $job)/step-0/step.json" && sleep 1 &&
    kill -9 $(cat "$top/spool/n1/$job.0/record.pid") &&
    wait &&
    verdict_of $job | grep "^argus:1 ok ranks=4 " &&
    wait_for 10 clean
'

test_expect_success 'CUDA_INJECTION64_PATH of the user is left alone, and the verdict says so' '
    as_user env CUDA_INJECTION64_PATH=/nowhere/theirs.so srun --argus -J theirs $small \
        sh -c "echo injection=\$CUDA_INJECTION64_PATH; exec $train" >out 2>&1 &&
    grep injection=/nowhere/theirs.so out && ! grep injection=[^/] out &&
    job=$(newest theirs) &&
    verdict_of $job | grep "^argus:1 " &&
    grep -i "cupti" "$(dir_of $job)/verdict.json" | grep -i "stood down\|user"
'

test_expect_success 'the plugin listed twice does everything once' '
    "$cluster_sh" plugstack "$plugin" "$plugin" &&
    as_user srun --argus -J twice $small $train >out 2>&1 &&
    "$cluster_sh" plugstack "$plugin" &&
    job=$(newest twice) &&
    verdict_of $job >line && grep "^argus:1 ok ranks=4 " line &&
    test $(ls "$(dir_of $job)"/step-0/rank-*.h5 | wc -l) = 4
'

test_expect_success 'default=on: jobs with GPUs, none without, none that say off' '
    plugin_keys default=on &&
    as_user srun -J on $small $train >out 2>&1 &&
    as_user srun -J nogpu -N1 -n2 true &&
    as_user srun --argus=off -J off $small $train >out 2>&1 &&
    plugin_keys &&
    verdict_of $(newest on) | grep "^argus:1 ok ranks=4 " &&
    for name in nogpu off; do
        wait_for 10 is_over $(newest $name) &&
        test ! -e "$(dir_of $(newest $name))" && test -z "$(comment $(newest $name))" || return 1
    done
'

test_expect_success 'text of another tool in AdminComment is kept' '
    job=$(as_user sbatch --parsable -o out.%j $small --wrap "sleep 3; srun --argus $train") &&
    wait_for 10 eval "squeue -h -t R -j $job | grep -q ." &&
    scontrol update jobid=$job admincomment="js1:xyz other" &&
    verdict_of $job | grep "^js1:xyz other argus:1 ok ranks=4 "
'

test_expect_success 'a requeued job keeps its runs apart' '
    job=$(as_user sbatch --parsable --requeue -o out.%j $small --wrap "
        srun --argus $simtrain --quiet --pace 1 --steps \$((SLURM_RESTART_COUNT ? 30 : 100000))") &&
    wait_for 30 test -e "$(dir_of $job)/step-0/step.json" && sleep 1 &&
    scontrol requeue $job &&
    wait_for 60 eval "scontrol update jobid=$job starttime=now; test -e $(dir_of $job)-r1" &&
    wait_for 30 test -e "$(dir_of $job)-r1/verdict.json" &&
    test -e "$(dir_of $job)/.done/n1" &&
    wait_for 20 eval "comment $job | grep -q dir=$(dir_of $job)-r1$"
'

test_expect_success 'a heterogeneous job has one verdict, with the leader' '
    as_user srun --argus -J het -N1 -n2 --gres=gpu:2 $train : -N1 -n2 --gres=gpu:2 $train >out 2>&1 &&
    job=$(squeue -h -t all -n het -o %A | sort -n | head -n 1) &&
    verdict_of $job+0 | grep "^argus:1 ok ranks=4 " &&
    test -z "$(comment $job+1)"
'

test_expect_success '--export=NONE' '
    job=$(as_user sbatch --parsable --export=NONE --argus -o out.%j $small --wrap "srun $train") &&
    verdict_of $job | grep "^argus:1 ok ranks=4 "
'

test_expect_success 'the time limit of a job' '
    job=$(as_user sbatch --parsable -t 0:05 -o out.%j $small --wrap "
        srun --argus $simtrain --quiet --steps 100000 --pace 1") &&
    wait_for 150 has_comment $job &&
    sacct -X -n -P -j $job -o state | grep TIMEOUT
'

test_expect_success 'summary: three lines on the stderr of srun, the status is the job'\''s' '
    test_expect_code 3 as_user srun --argus=summary -J summary $small sh -c "$train --slow-rank 1:1.5 || exit; exit 3" >out 2>err &&
    dir=$(dir_of $(newest summary)) && grep "^argus: " err >lines && cat lines &&
    test $(wc -l <lines) = 3 &&
    grep "^argus: compute-straggler (critical): .* .SIMULATED GPU.$" lines &&
    grep "^argus: rank 1 on n1, GPU 1.* from the beginning.* GPU-hours lost" lines &&
    grep "^argus: report: argus report $dir " lines && ! grep "^argus: " out
'

test_expect_success 'summary of a healthy step inside sbatch, none for sbatch, none without timelines' '
    job=$(as_user sbatch --parsable -W --argus=full,summary -o out.%j -e err.%j $small --wrap "
        srun $train; srun --argus=off $train; srun true; srun --argus=on $train") &&
    cat err.$job && grep "^argus: ok: .*SIMULATED" err.$job && grep "^argus: 4 ranks on 2 nodes" err.$job &&
    test $(grep -c "^argus: " err.$job) = 3 && ! grep "^argus: " out.$job &&
    test -z "$(pgrep -f "report --summary $work")"
'

test_expect_success 'live=on: the suspicion is in the Comment of the running job, and goes with its step' '
    plugin_keys live=on &&
    job=$(as_user sbatch --parsable --argus --comment="theirs x" -o out.%j $small --wrap "
        srun $simtrain --quiet --ignore-term --steps 100000 --pace 1 --slow-rank 1:1.5; sleep 6") &&
    wait_for 50 eval "scontrol show job $job | grep -q \"^ *Comment=theirs x argus:1 compute-straggler\"" &&
    scontrol show job $job >job && grep "JobState=RUNNING" job &&
    grep "^ *Comment=theirs x argus:1 compute-straggler info rank=1 node=n1 simulated=1 dir=$(dir_of $job) *$" job &&
    poster=$(pgrep -u "$user" -f "top --post $work") && test -n "$poster" &&
    as_user scancel -s TERM $job.0 && sleep 3 &&
    test "$(pgrep -u "$user" -f "top --post $work")" = "$poster" &&
    scontrol show job $job | grep "^ *Comment=theirs x argus:1 compute-straggler" &&
    as_user scancel -s USR1 $job.0 &&
    wait_for 20 eval "test -z \"\$(pgrep -f \"top --post $work\")\"" &&
    wait_for 10 eval "scontrol show job $job | grep -q \"^ *Comment=theirs x *$\"" &&
    verdict_of $job | grep "^argus:1 compute-straggler critical rank=1 node=n1" &&
    plugin_keys
'

test_expect_success 'in the end nothing is left, no node is drained' '
    wait_for 20 clean &&
    wait_for 20 eval "sinfo -hN -o %t | sort -u | grep -qx idle" &&
    test "$(sinfo -hN -o %t | sort -u)" = idle
'

test_done
