#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='a real Slurm cluster on which things break, and users who try'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

ARGUS_TEST_EPILOG="--post-s 4"
start_cluster

small="-N2 --ntasks-per-node=2 --gres=gpu:2"
train="$simtrain --quiet --steps 30"

test_expect_success 'a job leaves COMPLETING at once though its analysis takes long' '
    # It waits until the job is out of the queue, or would in vain.
    printf "#!/bin/sh\nfor i in \$(seq 1200); do test -e %s && break; sleep 0.1; done\nexec %s \"\$@\"\n" \
        "$top/released" "$argus" >"$top/slow" && chmod 755 "$top/slow" &&
    echo "--analyze $top/slow" >"$top/epilog.options" &&
    as_user srun --argus -J slow $small $train >out 2>&1 && job=$(newest slow) &&
    wait_for 60 eval "test -z \"\$(squeue -h -j $job -o %T)\"" &&
    wait_for 60 eval "test -n \"\$(workers)\"" && test -z "$(comment $job)" && : >"$top/released" &&
    verdict_of $job | grep "^argus:1 ok " && : >"$top/epilog.options"
'

test_expect_success 'a node that died: the verdict is partial and names it' '
    plugin_keys deadline_s=4 &&
    job=$(as_user sbatch --parsable -w n[3-4] -o out.%j $small --wrap "
        srun --argus $simtrain --quiet --steps 100000 --pace 1") &&
    wait_for 30 test -e "$(dir_of $job)/step-0/step.json" && sleep 3 &&
    "$cluster_sh" kill-node "$ARGUS_CLUSTER" n4 &&
    scancel $job &&
    verdict_of $job &&
    tr -d " \n" <"$(dir_of $job)/verdict.json" | grep "\"nodes_missing\":\[\"n4\"\]" &&
    test ! -e "$(dir_of $job)/.done/n4"
'

test_expect_success 'when it comes back its data is completed and nothing is left' '
    "$cluster_sh" start-node "$ARGUS_CLUSTER" n4 &&
    wait_for 60 test -e "$(dir_of $job)/.done/n4" &&
    wait_for 60 eval "sinfo -hN -n n4 -o %t | grep -qx idle" &&
    wait_for 20 clean &&
    plugin_keys
'

# A job whose ranks handle SIGTERM and that goes on until it may end.
recorders() { cat "$top"/spool/n[12]/$job.0/record.pid; }
counted() { # rows of `steps`, one file a line
    for f in "$(dir_of $job)"/step-0/rank-*.h5; do h5ls "$f/steps" | sed "s/.*{\([0-9]*\).*/\1/"; done
}

test_expect_success 'SIGTERM from the user to a job that handles it ends no recorder' '
    job=$(as_user sbatch --parsable -w n[1-2] -o out.%j $small --wrap "
        srun --argus sh -c \"trap : TERM; $simtrain --quiet --ignore-term --pace 1 --steps 200; until test -e goon; do sleep 0.2; done\"") &&
    wait_for 30 eval "test \$(ls $(dir_of $job)/step-0 | grep -c ^rank-) = 4" &&
    recorders >before && as_user scancel -s TERM $job && sleep 0.5 &&
    for pid in $(cat before); do test -e /proc/$pid || return 1; done &&
    test "$(squeue -h -j $job -o %T)" = RUNNING
'

test_expect_success 'slurmd restarted below a traced job: it goes on, and the verdict comes' '
    "$cluster_sh" stop-node "$ARGUS_CLUSTER" n1 && "$cluster_sh" kill-node "$ARGUS_CLUSTER" n2 &&
    "$cluster_sh" start-node "$ARGUS_CLUSTER" n1 && "$cluster_sh" start-node "$ARGUS_CLUSTER" n2 &&
    wait_for 60 eval "test \"\$(sinfo -hN -n n1,n2 -o %t | sort -u)\" = mix" &&
    recorders >after && test_cmp before after &&
    as_user touch goon && verdict_of $job | grep "^argus:1 ok ranks=4 " &&
    counted >steps && cat steps && test "$(sort -u steps)" = 200 &&
    test -e "$(dir_of $job)/.done/n1" && test -e "$(dir_of $job)/.done/n2" &&
    sacct -X -n -P -j $job -o state | grep COMPLETED
'

test_expect_success 'slurmdbd down: argus sweep posts the verdict afterwards, once' '
    "$cluster_sh" stop-dbd "$ARGUS_CLUSTER" &&
    as_user srun --argus -J nodb -w n[1-2] $small $train >out 2>&1 &&
    job=$(newest nodb) &&
    wait_for 30 test -e "$(dir_of $job)/.comment" &&
    wait_for 30 eval "ls $top/spool/n1/queue | grep -q ." &&
    wait_for 30 eval "test -z \"\$(workers)\"" &&
    "$cluster_sh" start-dbd "$ARGUS_CLUSTER" &&
    wait_for 30 eval "sacct -X -n -P -j $job -o end | grep -q [0-9]" &&
    test -z "$(comment $job)" &&
    SLURMD_NODENAME=n1 "$argus" sweep --spool "$top/spool/%n" | grep "1 finished, 0 left" &&
    comment $job | grep "^argus:1 ok " &&
    SLURMD_NODENAME=n1 "$argus" sweep --spool "$top/spool/%n" | grep "0 finished, 0 left" &&
    clean
'

test_expect_success 'argus sweep --accounting: a job of which no node knows any more' '
    echo "--analyze /nowhere" >"$top/epilog.options" &&
    as_user srun --argus -J lost -w n[1-2] $small $train >out 2>&1 &&
    job=$(newest lost) &&
    wait_for 20 eval "ls $top/spool/n1/queue | grep -q ." && wait_for 20 eval "test -z \"\$(workers)\"" &&
    : >"$top/epilog.options" &&
    rm -rf "$top"/spool/n1/queue/* "$top/spool/n1/$job.0" &&
    wait_for 30 eval "sacct -X -n -P -S now-2days -o jobid | grep -q $job" &&
    SLURMD_NODENAME=n9 "$argus" sweep --accounting --age 0 --spool "$top/none" &&
    comment $job | grep "^argus:1 ok "
'

test_expect_success 'argus annotate after the comment was lost' '
    sacctmgr -i modify job where jobid=$job set AdminComment="somebody else" &&
    "$argus" annotate "argus/$job" &&
    comment $job | grep "^somebody else argus:1 ok .* dir=$(dir_of $job)$"
'

test_expect_success 'argus nodes: two jobs blame the node, the drain line is offered' '
    for i in 1 2; do
        as_user srun --argus -J bad -N4 --ntasks-per-node=2 --gres=gpu:2 \
            $simtrain --quiet --slow-rank 5:1.5 >out 2>&1 &&
        verdict_of $(newest bad) | grep " node=n3 " || return 1
    done &&
    wait_for 20 eval "\"$argus\" nodes >out; grep \"^n3  blamed in 2 jobs of 1 user\" out" && cat out &&
    grep "with     n1 (2) n2 (2) n4 (2)$" out &&
    grep "2 x compute-straggler, gpu 1" out &&
    grep "scontrol update nodename=n3 state=drain" out &&
    "$argus" nodes --json - >out &&
    tr -d " \n" <out | grep "\"node\":\"n3\",\"blamed\":2"
'

test_expect_success 'a policy drains the node after the third job, and only then' '
    printf "drain_after=4\nusers=1\n" >"$top/policy" &&
    echo "--policy $top/policy" >"$top/epilog.options" &&
    as_user srun --argus -J bad -N4 --ntasks-per-node=2 --gres=gpu:2 \
        $simtrain --quiet --slow-rank 5:1.5 >out 2>&1 &&
    verdict_of $(newest bad) && sleep 2 &&
    test "$(sinfo -hN -n n3 -o %t)" = idle &&
    printf "drain_after=3\nusers=1\n" >"$top/policy" &&
    as_user srun --argus -J bad -N4 --ntasks-per-node=2 --gres=gpu:2 \
        $simtrain --quiet --slow-rank 5:1.5 >out 2>&1 &&
    verdict_of $(newest bad) &&
    wait_for 20 eval "sinfo -hN -n n3 -o %t | grep -q drain" &&
    scontrol show node n3 | grep "Reason=argus: compute-straggler in [0-9]* jobs, last $(newest bad)" &&
    : >"$top/epilog.options" &&
    scontrol update nodename=n3 state=resume
'

# ---- users who try ----

test_expect_success 'a library that the user preloads is in his ranks only' '
    cat >evil.c <<-C &&
	#include <stdio.h>
	#include <unistd.h>
	__attribute__((constructor)) static void loaded(void)
	{
	    char exe[256] = "";
	    FILE *f = fopen("$work/loaded", "a");

	    if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0 && f)
	        fprintf(f, "%d %s\n", getuid(), exe);
	    if (f)
	        fclose(f);
	}
	C
    ${CC:-cc} -shared -fPIC -o evil.so evil.c && as_user touch loaded &&
    as_user env LD_PRELOAD="$PWD/evil.so" srun --argus -J preload $small $train >out 2>&1 &&
    verdict_of $(newest preload) | grep "^argus:1 ok " &&
    grep simtrain loaded &&
    ! grep "^0 " loaded && ! grep -E "/argus(-[a-z]+)?$" loaded
'

test_expect_success 'ARGUS_ variables of the user do not reach the recorder, the epilog, other places' '
    as_user env ARGUS_SPOOL=/etc ARGUS_DIR=/etc ARGUS_LIBEXECDIR="$PWD" ARGUS_LIBDIR="$PWD" \
        ARGUS_RANK=99 srun --argus -J vars $small $train >out 2>&1 &&
    job=$(newest vars) &&
    verdict_of $job | grep "^argus:1 ok ranks=4 .*dir=$(dir_of $job)$" &&
    test ! -e "$(dir_of $job)/step-0/rank-00099.h5"
'

test_expect_success 'the recorder holds no file and no variable of Slurm or the user' '
    job=$(as_user env SECRET=s3cret sbatch --parsable -o out.%j $small --wrap "
        srun --argus $simtrain --quiet --steps 100000 --pace 1") &&
    wait_for 30 test -e "$(dir_of $job)/step-0/step.json" && sleep 1 &&
    pid=$(cat "$top"/spool/*/$job.0/record.pid | head -n 1) &&
    ! tr "\0" "\n" </proc/$pid/environ | grep SECRET &&
    ls -l /proc/$pid/fd >fds && cat fds &&
    ! sed -n "s/.*-> //p" fds | grep -v -e "^/dev/null" -e "^$top/spool" -e "^$work" -e "^pipe:" \
        -e "^anon_inode" &&
    grep "^Uid:" /proc/$pid/status | grep -v "[[:space:]]0[[:space:]]" &&
    scancel $job && verdict_of $job
'

test_expect_success 'a job directory that leads to a place of root: the job runs, nothing is there' '
    mkdir "$top/rootonly" &&
    as_user mkdir elsewhere && cd elsewhere && as_user ln -s "$top/rootonly" argus &&
    as_user srun -Q --argus -J link $small $train >out 2>err &&
    job=$(newest link) && cat err && cd .. &&
    echo "argus: n1: cannot write $work/elsewhere/argus/$job: Permission denied; not traced" >want &&
    test_cmp want elsewhere/err &&
    wait_for 20 is_over $job && wait_for 30 eval "test -z \"\$(workers)\"" &&
    test -z "$(ls -A "$top/rootonly")" && test -z "$(comment $job)"
'

test_expect_success 'the verdict of another user cannot be forged by his directory' '
    chown daemon "$(dir_of $(newest vars))" &&
    test_must_fail "$argus" annotate "$(dir_of $(newest vars))" 2>err &&
    grep "not of the user" err
'

test_expect_success 'in the end no node is drained, no process left' '
    rm -rf "$top"/spool/*/queue/* &&
    wait_for 20 eval "sinfo -hN -o %t | sort -u | grep -qx idle" &&
    test "$(sinfo -hN -o %t | sort -u)" = idle &&
    wait_for 20 eval "test -z \"\$(workers)\""
'

test_done
