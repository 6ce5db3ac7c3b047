#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus-epilog on one node: markers, queue, the line, attacks

Slurm is played by two scripts in place of sacct and sacctmgr, the recorder
and the analysis by two more; t1200 does the same on a real cluster.'

. /usr/share/sharness/sharness.sh

unset SLURM_CONF SLURM_JOB_ID SLURMD_NODENAME
epilog=$ARGUS_BUILDDIR/argus-epilog
# Root plays root and a user; anybody else plays both.
if [ "$(id -u)" -eq 0 ]; then
    test_set_prereq ROOT
    user=nobody
else
    user=$(id -un)
fi
uid=$(id -u "$user") gid=$(id -g "$user")
# A place that the user may reach, wherever the build is.
top=$(mktemp -d /tmp/argus-t1100.XXXXXX) && chmod 755 "$top" || exit 1
cleanup 'rm -rf "$top"'
db=$top/db spool=$top/spool home=$top/home
mkdir "$top/bin" "$db" "$home" && chown "$user" "$home" && chmod 1777 "$db"

as_user() {
    if [ "$(id -u)" -eq 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

# ---- the stand-ins ----

cat >"$top/bin/sacct" <<STUB
#!/bin/sh
echo "sacct \$*" >>$db/calls
[ ! -e $db/down ] || { echo "sacct: error: slurmdbd: Connection refused" >&2; exit 1; }
job= word=
while [ \$# -gt 0 ]; do
    case \$1 in
    -j) job=\$2 ;;
    -o) field=\${2##*,} ;;
    --delimiter=*) word=\${1#*=} ;;
    esac
    shift
done
if [ -n "\$word" ]; then
    for row in $db/\${job:-*}.row $db/\${job:-none}+*.row; do
        job=\$(basename \$row .row)
        [ -e \$row ] && read -r raw start end <\$row || continue
        owner=\$(cat $db/\$job.uid 2>/dev/null || echo $uid)
        workdir=\$(cat $db/\$job.workdir 2>/dev/null || echo $home)
        nodes=\$(cat $db/\$job.nodes 2>/dev/null || echo 'n[1-2]')
        printf "%s\$word" \$job \$raw \$owner $gid \$start $user "\$nodes" "\$workdir" \\
            "\$(cat $db/\$job.admincomment 2>/dev/null)" "" ""
        echo \$end
    done
    exit
fi
[ -e $db/\$job.row ] || exit 0
printf '%s|' \$(cat $db/\$job.row)
cat $db/\$job.\$field 2>/dev/null
echo
STUB
cat >"$top/bin/sacctmgr" <<STUB
#!/bin/sh
echo "sacctmgr \$*" >>$db/calls
[ ! -e $db/down ] || { echo "sacctmgr: error: slurmdbd: Connection refused" >&2; exit 1; }
[ "\$1" = -V ] && { cat $db/version; exit; }
[ "\$1 \$2 \$3 \$4 \$6" = "-i modify job where set" ] || exit 1
job=\${5#jobid=}
[ -e $db/\$job.row ] || { echo " Nothing modified"; exit 0; }
name=\$(echo "\${7%%=*}" | tr A-Z a-z)
printf %s "\${7#*=}" >$db/\$job.\$name
STUB
cat >"$top/bin/argus" <<STUB
#!/bin/sh
{
    echo "args \$*"
    echo "uid \$(id -u) \$(id -ru) gid \$(id -g)"
    echo "env \$(env | sed 's/=.*//' | sort | tr '\n' ' ')"
    echo "fds \$(ls /proc/self/fd | tr '\n' ' ')"
    echo "nice \$(nice) oom \$(cat /proc/self/oom_score_adj)"
} >>$home/analyze.log
stuck=$home/stuck-\$(basename "\$2")
[ ! -e \$stuck ] || { echo "\$\$ \$PPID" >\$stuck.pids.new && mv \$stuck.pids.new \$stuck.pids; }
for i in \$(seq 3000); do [ -e \$stuck ] || break; sleep 0.1; done
cat $home/line
[ ! -e $home/refused ] || { cat $home/refused >&2; exit 1; }
[ ! -e $home/killed ] || kill -KILL \$\$
STUB
cat >"$top/bin/argus-record" <<STUB
#!/bin/sh
echo "\$*" >>$home/record.log
[ ! -e $home/full ] || { echo "argus-record: \$3: No space left on device" >&2; exit 1; }
rm -f "\$2"/*.ring
STUB
chmod 755 "$top"/bin/*
echo "slurm 22.05.8" >"$db/version"

good="argus:1 compute-straggler critical rank=5 node=n2 gpu=1 slowdown=1.30 since=15 lost=0.1gpuh conf=0.97"

# wait_for CONDITION...: for as long as a busy machine may take
wait_for() {
    for try in $(seq 1800); do "$@" && return; sleep 0.1; done
    return 1
}

# A process that nobody has taken note of yet is gone, too.
is_gone() { ! grep -q "^State:.[^ZX]" /proc/$1/status 2>/dev/null; }

# job ID [KEY=VALUE...]: a marker on node n1 and the step's spool, as the
# plugin and the recorder leave them; accounting has the job, over and empty.
job() {
    job=$1
    shift
    mkdir -p "$spool/n1/jobs/$job" && chmod 755 "$spool" "$spool/n1" &&
        chmod 700 "$spool/n1/jobs" "$spool/n1/jobs/$job" || return 1
    dir=$home/argus/$job
    {
        printf '%s\n' "$@"
        # What is given goes before what is usual.
        for line in version=1 job=$job slurm_job=$job step=0 user=$user uid=$uid gid=$gid node=n1 \
            nodes=n[1-2] step_nodes=n1 dir=$dir comment=admin deadline_s=0 \
            started=$(date +%s)000000000; do
            case " $* " in *" ${line%%=*}="*) ;; *) echo "$line" ;; esac
        done
    } | grep . >"$spool/n1/jobs/$job/0" && chmod 600 "$spool/n1/jobs/$job/0" &&
        mkdir -p "$spool/n1/$job.0" && chown "$user" "$spool/n1/$job.0" &&
        as_user mkdir -p "$dir/step-0" &&
        echo '{}' | as_user tee "$dir/job.json" >/dev/null &&
        echo "$job 1000 2000" >"$db/$job.row" &&
        echo "$good" >"$home/line" && : >"$db/calls" && rm -f "$home"/*.log
}

# As slurmd does: no PATH.
run_epilog() { (become_epilog "$@"); }

become_epilog() {
    exec env -i SLURM_JOB_ID="${id:-$job}" SLURMD_NODENAME=n1 "$epilog" --spool "$spool/%n" \
        --slurm-path "$top/bin:/usr/bin:/bin" --analyze "$top/bin/argus" \
        --record "$top/bin/argus-record" --log "$top/log" --post-s 0 --memory 0 "$@"
}

# What is left for later is taken up by `argus sweep`.
sweep() {
    env -i SLURMD_NODENAME=n1 "$ARGUS_BUILDDIR/argus" sweep --spool "$spool/%n" \
        --slurm-path "$top/bin:/usr/bin:/bin" --analyze "$top/bin/argus" \
        --record "$top/bin/argus-record" --memory 0 "$@"
}

comment() {
    cat "$db/$1.${2:-admincomment}" 2>/dev/null
}

nothing_left() {
    test "$(find "$spool" -type f -o -path '*/queue/*' | wc -l)" = 0
}

# ---- what it is for ----

test_expect_success 'a job without a marker costs nothing and touches nothing' '
    id=99 run_epilog --foreground &&
    test ! -e "$db/calls" && test ! -e "$spool"
'

test_expect_success 'a job is analysed, its verdict posted, nothing is left' '
    job 100 &&
    run_epilog --foreground &&
    test "$(comment 100)" = "$good" &&
    test -e "$dir/.done/n1" &&
    test -e "$dir/.posted" &&
    grep "args analyze $dir --quiet --comment -$" "$home/analyze.log" &&
    test ! -e "$spool/n1/100.0" &&
    nothing_left
'

test_expect_success ROOT 'everything in the job directory belongs to the user' '
    test -z "$(find "$home/argus" ! -user "$user")" &&
    grep "uid $uid $uid gid $gid" "$home/analyze.log"
'

test_expect_success 'the analysis gets a clean environment and no open files' '
    test "$(sed -n "s/^env //p" "$home/analyze.log" | xargs -n1 | grep -v -e ^_ -e PWD -e SHLVL |
        xargs)" = "HOME LC_ALL PATH SLURM_TIME_FORMAT TZ USER" &&
    test "$(sed -n "s/^fds //p" "$home/analyze.log" | wc -w)" -le 4
'

test_expect_success 'other text in the comment is kept' '
    job 101 &&
    printf "js1:abc=|x" >"$db/101.admincomment" &&
    run_epilog --foreground &&
    test "$(comment 101)" = "js1:abc=|x $good"
'

test_expect_success 'our own text is replaced where it stands' '
    job 102 &&
    printf "before argus:1 ok ranks=8 steps=60 step=10ms after" >"$db/102.admincomment" &&
    run_epilog --foreground &&
    test "$(comment 102)" = "before $good after"
'

test_expect_success 'text that this sacctmgr would lower-case sends ours to the system comment' '
    job 103 &&
    printf "JS1:H4sIAAx" >"$db/103.admincomment" &&
    run_epilog --foreground &&
    test "$(comment 103)" = "JS1:H4sIAAx" &&
    test "$(comment 103 systemcomment)" = "$good"
'

test_expect_success 'a newer sacctmgr keeps capitals: ours is appended' '
    job 104 &&
    echo "slurm 23.02.1" >"$db/version" &&
    printf "JS1:H4sIAAx" >"$db/104.admincomment" &&
    run_epilog --foreground &&
    echo "slurm 22.05.8" >"$db/version" &&
    test "$(comment 104)" = "JS1:H4sIAAx $good"
'

test_expect_success 'comment=system and comment=none' '
    job 105 comment=system &&
    run_epilog --foreground &&
    test "$(comment 105 systemcomment)" = "$good" &&
    test -z "$(comment 105)" &&
    job 106 comment=none &&
    run_epilog --foreground &&
    test ! -s "$db/calls" &&
    test -e "$dir/.posted" && nothing_left
'

test_expect_success 'a task of an array is addressed by array and index' '
    job 107 array_job=90 array_task=3 &&
    echo "107 1000 2000" >"$db/90_3.row" && rm "$db/107.row" &&
    run_epilog --foreground &&
    test "$(comment 90_3)" = "$good" &&
    ! grep -E "jobid=(107|90)( |$)" "$db/calls"
'

test_expect_success 'a line counts though the analysis could not write a report; why is logged' '
    job 150 &&
    echo "argus analyze: $dir/report.html: cannot be written: No space left on device" |
        as_user tee "$home/refused" &&
    run_epilog --foreground &&
    test "$(comment 150)" = "$good" && test -e "$dir/.posted" && nothing_left &&
    grep "job 150: .*exit status 1: .*report.html: cannot be written: No space left" "$top/log"
'

test_expect_success '... but half a line does not, nor another text, nor the line of a killed analysis' '
    job 151 && printf %s "${good%97}" >"$home/line" && run_epilog --foreground &&
    test -z "$(comment 151)" && ls "$spool/n1/queue" | grep "^151\." &&
    job 152 && echo "argus:1 fine" >"$home/line" && run_epilog --foreground &&
    test -z "$(comment 152)" && ls "$spool/n1/queue" | grep "^152\." &&
    rm -f "$home/refused" && as_user touch "$home/killed" &&
    job 153 && run_epilog --foreground && rm -f "$home/killed" &&
    test -z "$(comment 153)" && ls "$spool/n1/queue" | grep "^153\." &&
    grep "job 153: .*killed by signal 9" "$top/log" && rm -rf "$spool"/n1/queue/15[123].* \
        "$spool"/n1/15[123].0
'

test_expect_success 'rings that were left are drained first, then the spool is cleared' '
    job 108 &&
    as_user touch "$spool/n1/108.0/5-77.ring" "$spool/n1/108.0/step.conf" &&
    as_user mkdir -p "$spool/n1/108.0/a/b" &&
    run_epilog --foreground &&
    grep -e "--drain $spool/n1/108.0 $dir" "$home/record.log" &&
    test "$(comment 108)" = "$good" &&
    test ! -e "$spool/n1/108.0" && nothing_left
'

test_expect_success 'data that cannot be drained stays, and so does the entry' '
    job 109 &&
    as_user touch "$spool/n1/109.0/5-77.ring" "$home/full" &&
    run_epilog --foreground &&
    test -e "$spool/n1/109.0/5-77.ring" &&
    test ! -e "$dir/.done/n1" &&
    grep "job 109: .*No space left" "$top/log" &&
    ls "$spool/n1/queue" | grep "^109\." &&
    rm "$home/full" && rm -r "$spool"/n1/queue/109.* "$spool/n1/109.0"
'

test_expect_success 'a node that never comes is named' '
    job 110 step_nodes=n[1-2] &&
    run_epilog --foreground &&
    grep -e "--missing-nodes n2$" "$home/analyze.log" &&
    test "$(comment 110)" = "$good"
'

test_expect_success 'nodes of other steps are found in step.json' '
    job 111 &&
    as_user mkdir "$dir/step-1" &&
    echo "{\"nodes\":\"n2\"}" | as_user tee "$dir/step-1/step.json" &&
    run_epilog --foreground &&
    grep -e "--missing-nodes n2$" "$home/analyze.log"
'

test_expect_success 'a node that is not the first leaves the analysis to it' '
    job 112 nodes=n[0-1] step_nodes=n[0-1] &&
    run_epilog --foreground &&
    test -e "$dir/.done/n1" &&
    test ! -e "$home/analyze.log" &&
    test -z "$(comment 112)" && nothing_left
'

test_expect_success 'a component of a heterogeneous job is found by its own id' '
    job 113+1 slurm_job=114 het=1 &&
    echo "113 1000 2000" >"$db/113+0.row" &&
    id=114 run_epilog --foreground &&
    test "$(comment 113+0)" = "$good" && nothing_left
'

test_expect_success 'the verdict of a heterogeneous job names nodes of its components only' '
    job 141+1 slurm_job=142 het=1 &&
    echo "141 1000 2000" >"$db/141+0.row" && echo "142 1000 2000" >"$db/141+1.row" &&
    echo "argus:1 compute-straggler critical rank=5 node=n7 gpu=1 slowdown=1.30 conf=0.97" >"$home/line" &&
    id=142 run_epilog --foreground &&
    test -z "$(comment 141+0)" && ! grep "modify job" "$db/calls" && nothing_left &&
    grep "job 141+1: .*names node n7, which is not the job" "$top/log" &&
    job 143+1 slurm_job=144 het=1 &&
    id=144 run_epilog --foreground &&
    test -z "$(comment 143+0)" && ls "$spool/n1/queue" | grep "^143+1\." &&
    rm -r "$spool"/n1/queue/143+1.*
'

test_expect_success 'a marker that names the job of another user as the leader posts nothing there' '
    job 145+1 slurm_job=146 het=1 &&
    echo "145 1000 2000" >"$db/145+0.row" && echo 1 >"$db/145+0.uid" &&
    echo "argus:1 ok ranks=8 steps=60 step=10ms" >"$home/line" &&
    id=146 run_epilog --foreground &&
    test -z "$(comment 145+0)" && ! grep "modify job" "$db/calls" && nothing_left &&
    grep "job 145+1: job 145 is another user" "$top/log"
'

test_expect_success 'of its nodes accounting is believed, not the list that the job had in its environment' '
    job 270 "nodes=n[1-9]" &&
    echo "argus:1 compute-straggler critical rank=5 node=n7 gpu=1 slowdown=1.30 conf=0.97" >"$home/line" &&
    run_epilog --foreground &&
    test -z "$(comment 270)" && ! grep "modify job" "$db/calls" && nothing_left &&
    grep "job 270: .*names node n7, which is not the job" "$top/log" &&
    job 271 nodes= &&
    echo "argus:1 slow-link warn node=n1 link=nic peer=n3 slowdown=1.11 conf=0.9" >"$home/line" &&
    run_epilog --foreground && test -z "$(comment 271)" && nothing_left &&
    grep "job 271: .*names node n3, which is not the job" "$top/log" &&
    job 272 nodes= && run_epilog --foreground && test "$(comment 272)" = "$good" && nothing_left &&
    job 273 nodes=n1 && run_epilog --foreground && test "$(comment 273)" = "$good" && nothing_left &&
    test "$(grep -c "^sacct .*--delimiter" "$db/calls")" = 1
'

test_expect_success '... it is asked for a line that names a node alone, and what it cannot say yet is left' '
    job 274 && echo "argus:1 ok ranks=8 steps=60 step=10ms" >"$home/line" && run_epilog --foreground &&
    comment 274 | grep "^argus:1 ok" && ! grep "^sacct .*--delimiter" "$db/calls" &&
    job 275 && echo "None assigned" >"$db/275.nodes" && run_epilog --foreground &&
    test -z "$(comment 275)" && ! grep "modify job" "$db/calls" && ls "$spool/n1/queue" | grep "^275\." &&
    grep "job 275: .*its nodes are not in accounting yet" "$top/log" && rm "$db/275.nodes" &&
    sweep >out && grep "1 finished, 0 left" out && test "$(comment 275)" = "$good" && nothing_left &&
    job 276 && touch "$db/down" && run_epilog --foreground && rm "$db/down" &&
    test -z "$(comment 276)" && ls "$spool/n1/queue" | grep "^276\." &&
    sweep >out && grep "1 finished, 0 left" out && test "$(comment 276)" = "$good" &&
    test "$(grep -c ^args "$home/analyze.log")" = 1 && nothing_left
'

test_expect_success 'the job of another user is not annotated by a line that names nodes' '
    job 277 && echo 1 >"$db/277.uid" && run_epilog --foreground &&
    test -z "$(comment 277)" && ! grep "modify job" "$db/calls" && nothing_left &&
    grep "job 277: job 277 is another user" "$top/log"
'

test_expect_success '... but a record that slurmdbd began with its end, without a user, is waited for' '
    job 278 && echo 0 >"$db/278.uid" && run_epilog --foreground &&
    test -z "$(comment 278)" && ! grep "modify job" "$db/calls" && ls "$spool/n1/queue" | grep "^278\." &&
    grep "job 278: .*its user is not in accounting yet" "$top/log" &&
    echo "" >"$db/278.uid" && sweep >out && grep "0 finished, 1 left" out && rm "$db/278.uid" &&
    sweep >out && grep "1 finished, 0 left" out && test "$(comment 278)" = "$good" && nothing_left
'

test_expect_success 'somebody who holds the lock is left alone' '
    job 115 &&
    as_user mkdir "$dir/.analysis" &&
    echo "n9 1 1" | as_user tee "$dir/.analysis/by" &&
    run_epilog --foreground &&
    test -z "$(comment 115)" && nothing_left
'

test_expect_success 'a lock of a dead process of this node is taken over' '
    job 116 &&
    as_user mkdir "$dir/.analysis" &&
    echo "n1 $$ 1" | as_user tee "$dir/.analysis/by" &&
    run_epilog --foreground &&
    test "$(comment 116)" = "$good" &&
    test ! -e "$dir/.analysis"
'

test_expect_success 'accounting that does not answer: the entry stays, a second attempt only posts' '
    job 117 &&
    touch "$db/down" &&
    run_epilog --foreground &&
    rm "$db/down" &&
    test -z "$(comment 117)" &&
    ls "$spool/n1/queue" | grep "^117\." &&
    mv "$spool"/n1/queue/117.* "$spool/n1/jobs/117" &&
    run_epilog --foreground &&
    test "$(comment 117)" = "$good" &&
    test "$(grep -c ^args "$home/analyze.log")" = 1 && nothing_left
'

test_expect_success 'argus sweep posts what could not be posted' '
    job 130 &&
    touch "$db/down" &&
    run_epilog --foreground &&
    sweep >out 2>err &&
    grep "0 finished, 1 left" out && grep "job 130: .*Connection refused" err &&
    rm "$db/down" &&
    sweep >out &&
    grep "1 finished, 0 left" out &&
    test "$(comment 130)" = "$good" &&
    test "$(grep -c ^args "$home/analyze.log")" = 1 &&
    test "$(grep -c "sacctmgr -i modify" "$db/calls")" = 1 && nothing_left
'

test_expect_success 'argus sweep drains what could not be drained' '
    job 131 &&
    as_user touch "$spool/n1/131.0/5-77.ring" "$home/full" &&
    run_epilog --foreground &&
    rm "$home/full" &&
    sweep &&
    test "$(comment 131)" = "$good" &&
    test ! -e "$spool/n1/131.0" && nothing_left
'

# unwritable JOB FILE COMMAND: the user closes the job directory after COMMAND, so FILE of it cannot be made
unwritable() {
    job $1 && as_user sh -c "cd \"$dir\" && $3 && chmod 555 ." && : >"$top/log" &&
    run_epilog --foreground && cat "$top/log" &&
    test "$(grep -c "job $1: " "$top/log")" = 1 &&
    grep "job $1: $dir/$2: Permission denied; left for argus sweep, attempt 1 of 48\$" "$top/log" &&
    sweep >out 2>err && cat out err && grep "0 finished, 1 left" out &&
    grep "job $1: $dir/$2: Permission denied; left for argus sweep, attempt 2 of 48\$" err &&
    test -z "$(comment $1)"
}

test_expect_success 'a job directory in which .done or .analysis cannot be made: one line, and sweep finishes it' '
    unwritable 250 .done/n1 true &&
    as_user chmod 755 "$dir" && sweep >out && grep "1 finished, 0 left" out &&
    test "$(comment 250)" = "$good" && test -e "$dir/.done/n1" && nothing_left &&
    unwritable 251 .analysis "mkdir .done" &&
    as_user chmod 755 "$dir" && sweep >out && grep "1 finished, 0 left" out &&
    test "$(comment 251)" = "$good" && nothing_left
'

test_expect_success '... or gives it up in the end, by attempts or by age' '
    unwritable 252 .done/n1 true &&
    printf %045d 0 >>"$(echo "$spool"/n1/queue/252.*/.tries)" &&
    sweep >out 2>err && cat out err && grep "job 252: .*Permission denied; given up at attempt 48 of 48" err &&
    nothing_left && test -z "$(comment 252)" && sweep >out && grep "0 finished, 0 left" out &&
    unwritable 253 .done/n1 true &&
    mv "$spool"/n1/queue/253.* "$spool/n1/queue/253.$(($(date +%s) - 8 * 86400))000000000" &&
    sweep >out 2>err && cat out err && grep "job 253: .*Permission denied; given up at attempt 3 of 48" err &&
    nothing_left && as_user chmod 755 "$home/argus/252" "$home/argus/253"
'

test_expect_success 'an attempt counts though nobody saw its end, and after the last there is no other' '
    job 280 && as_user touch "$home/stuck-280" &&
    { become_epilog --foreground & } && pid=$! &&
    wait_for test -s "$home/stuck-280.pids" && kill -KILL $pid && { wait $pid || :; } &&
    tries=$(echo "$spool"/n1/queue/280.*/.tries) && test "$(wc -c <"$tries")" = 1 &&
    printf %047d 0 >>"$tries" && rm "$home/stuck-280" &&
    sweep >out 2>err && cat out err &&
    grep "job 280: the last attempt came to no end; given up at attempt 48 of 48" err &&
    test "$(grep -c ^args "$home/analyze.log")" = 1 && test -z "$(comment 280)" && nothing_left
'

if "$ARGUS_BUILDDIR/hold_process" --check && test_have_prereq ROOT; then
    test_set_prereq HOLD
fi
cleanup 'kill $holder_half $holder_analysis 2>/dev/null || :'
# hold NAME PID: from now on nobody sees the end of this process; release NAME ends that
hold() {
    "$ARGUS_BUILDDIR/hold_process" "$2" >"held-$1" 2>&1 &
    eval "holder_$1=$!"
    wait_for test -s "held-$1" && grep -x held "held-$1"
}

release() {
    eval "kill \$holder_$1; wait \$holder_$1 || :"
}

# Two at the same time: the process of the user, and the analysis that it waits for.
test_expect_success HOLD 'a process that cannot be killed is left behind, and the next entry is worked on' '
    job 281 && job 282 && as_user touch "$home/stuck-281" &&
    { sweep >out 2>err & } && sweep=$! &&
    wait_for test -s "$home/stuck-281.pids" && read -r analysis half <"$home/stuck-281.pids" &&
    hold half $half && rm "$home/stuck-281" &&
    for limit in 2 10 50; do
        job 283 && as_user touch "$home/stuck-283" && rm -f "$home/stuck-283.pids" &&
        { become_epilog --foreground --analysis-s $limit & } && worker=$! &&
        wait_for test -s "$home/stuck-283.pids" && read -r analysis half <"$home/stuck-283.pids" &&
        hold analysis $analysis
        wait $worker
        grep "job 283: .*and it cannot be killed; left for argus sweep, attempt 1 of 48" "$top/log" && break
        rm -rf "$spool"/n1/queue/283.*
    done &&
    wait $sweep && cat out err && grep "1 finished, 1 left" out &&
    grep "job 281: its process .* cannot be killed; left for argus sweep, attempt 1 of 48" err &&
    test "$(comment 282)" = "$good" && test -z "$(comment 281)$(comment 283)" &&
    ls "$spool/n1/queue" | grep "^281\." && ls "$spool/n1/queue" | grep "^283\."
'

test_expect_success HOLD '... as is what it left, once it is gone' '
    release half && release analysis && rm -f "$home"/stuck-28* &&
    sweep >out 2>err && cat out err && grep "2 finished, 0 left" out &&
    test "$(comment 281)" = "$good" && test "$(comment 283)" = "$good" && nothing_left
'

test_expect_success 'the lock of a process of this node that is at work keeps the entry, not the verdict' '
    job 284 && as_user mkdir "$dir/.analysis" &&
    start=$(sed "s/.*) //" /proc/$$/stat | cut -d " " -f 20) &&
    echo "n1 $$ $start" | as_user tee "$dir/.analysis/by" && run_epilog --foreground &&
    test -z "$(comment 284)" && ls "$spool/n1/queue" | grep "^284\." &&
    grep "job 284: .*/.analysis: a process of this node holds it; left for argus sweep" "$top/log" &&
    as_user rm -r "$dir/.analysis" && sweep >out && grep "1 finished, 0 left" out &&
    test "$(comment 284)" = "$good" && nothing_left
'

test_expect_success 'an entry that somebody works on is left to him' '
    job 132 &&
    touch "$db/down" &&
    run_epilog --foreground &&
    rm "$db/down" &&
    lock=$(echo "$spool"/n1/queue/132.*/.lock) && rm -f release &&
    { flock "$lock" sh -c "for i in \$(seq 600); do test -e release && break; sleep 0.1; done" & } &&
    wait_for test_must_fail flock -n "$lock" true &&
    sweep >out &&
    : >release &&
    grep "0 finished, 1 left" out &&
    wait && sweep && test "$(comment 132)" = "$good" && nothing_left
'

test_expect_success 'what a requeued job has on this node is not touched for its earlier run' '
    job 160 && touch "$db/down" && run_epilog --foreground && rm "$db/down" &&
    job 160 restart=1 && echo "160 1000 Unknown" >"$db/160.row" &&
    as_user touch "$spool/n1/160.0/5-78.ring" "$spool/n1/160.0/step.conf" &&
    sweep >out && grep "0 finished, 1 left" out &&
    test -e "$spool/n1/160.0/5-78.ring" && test -e "$spool/n1/160.0/step.conf" &&
    test ! -e "$home/record.log" &&
    rm -rf "$spool"/n1/queue/160.* "$spool/n1/jobs/160" "$spool/n1/160.0" "$db/160.row"
'

test_expect_success 'argus sweep takes up a job whose epilog never ran, once it is over' '
    job 133 &&
    echo "133 1000 Unknown" >"$db/133.row" &&
    sweep >out && grep "0 finished, 0 left" out &&
    echo "133 1000 2000" >"$db/133.row" &&
    sweep >out && grep "1 finished, 0 left" out &&
    test "$(comment 133)" = "$good" && nothing_left
'

test_expect_success 'argus sweep --accounting finds jobs of which no node knows' '
    rm -f "$db"/*.row &&
    job 134 && rm -rf "$spool/n1/jobs/134" "$spool/n1/134.0" &&
    job 135 && rm -rf "$spool/n1/jobs/135" "$spool/n1/135.0" &&
    printf %s "$good" >"$db/135.admincomment" &&
    sweep --accounting >out &&
    grep "1 finished, 0 left" out &&
    test "$(comment 134)" = "$good" &&
    ! grep "modify job where jobid=135" "$db/calls" &&
    rm -f "$db"/*.row
'

# accounted JOB [KEY=VALUE...]: a job of which accounting alone knows
accounted() {
    job "$@" && rm -rf "$spool/n1/jobs/$1" "$spool/n1/$1.0"
}

# directory NAME JSON: a job directory with this job.json
directory() {
    as_user mkdir -p "$home/argus/$1/step-0" &&
        echo "$2" | as_user tee "$home/argus/$1/job.json" >/dev/null
}

test_expect_success '... by the pattern as the plugin expands it: %a is 0 where there is no array' '
    accounted 260 && directory 260-0 {} && rm -r "$home/argus/260" &&
    accounted 261 && mv "$db/261.row" "$db/90_7.row" && directory 90-7 {} &&
    rm -r "$home/argus/261" && rm -f "$home/analyze.log" &&
    sweep --accounting --dir "%w/argus/%A-%a" >out && cat out && grep "2 finished, 0 left" out &&
    test "$(comment 260)" = "$good" && test "$(comment 90_7)" = "$good" &&
    rm -f "$db"/*.row
'

test_expect_success '... and a pattern that it does not know is wrong use, not a sweep without a job' '
    accounted 262 && : >"$db/calls" &&
    for pattern in "%w/%N/%j" "%w/argus/%n" "%w/argus/%" "%w/%j/../x" "argus/%j" ""; do
        test_expect_code 2 env -i SLURMD_NODENAME=n1 "$ARGUS_BUILDDIR/argus" sweep --spool "$spool/%n" \
            --slurm-path "$top/bin:/usr/bin:/bin" --accounting --dir "$pattern" >out 2>err &&
        test_must_be_empty out && test "$(wc -l <err)" = 1 && grep "^argus sweep: --dir $pattern: " err ||
            return 1
    done &&
    test ! -s "$db/calls" && test -z "$(comment 262)" && rm -f "$db"/*.row
'

test_expect_success '... of a heterogeneous job with its leader, whichever component the verdict names' '
    accounted 263 && rm "$db/263.row" &&
    echo "263 1000 2000" >"$db/263+0.row" && echo "n1" >"$db/263+0.nodes" &&
    echo "264 1000 2000" >"$db/263+1.row" && echo "n2" >"$db/263+1.nodes" &&
    sweep --accounting >out && cat out && grep "1 finished, 0 left" out &&
    test "$(comment 263+0)" = "$good" && test -z "$(comment 263+1)" &&
    test "$(grep -c ^args "$home/analyze.log")" = 1 &&
    rm -f "$db"/*.row "$db"/*.nodes
'

test_expect_success '... of a requeued job with the directory of its last run' '
    run="\"job\":\"265\",\"started\"" &&
    accounted 265 && echo "265 5000 6000" >"$db/265.row" &&
    directory 265 "{$run:4996000000000}" && directory 265-r1 "{$run:3000000000000}" &&
    directory 265-r2 "{$run:5001000000000,\"restart\":2}" && as_user mkdir "$home/argus/265-r3" &&
    as_user touch "$home/argus/265-r03" "$home/argus/265-r4" &&
    sweep --accounting >out && cat out && grep "1 finished, 0 left" out &&
    test "$(comment 265)" = "$good" && cat "$home/analyze.log" &&
    grep "args analyze $home/argus/265-r2 --quiet" "$home/analyze.log" &&
    test "$(cat "$home/argus/265-r2/.posted")" = "job=265 restart=2" &&
    test ! -e "$home/argus/265/.posted" && rm -f "$db"/*.row
'

test_expect_success '... and not with what an earlier run left, when the last one has no data' '
    accounted 266 && echo "266 5000 6000" >"$db/266.row" &&
    directory 266 "{\"job\":\"266\",\"started\":1000000000000}" &&
    sweep --accounting >out && cat out && grep "1 finished, 0 left" out &&
    directory 266-r1 "{\"job\":\"266\",\"started\":3000000000000}" &&
    sweep --accounting >out && grep "1 finished, 0 left" out &&
    test -z "$(comment 266)" && test ! -e "$home/analyze.log" &&
    rm -r "$home/argus/266-r1" && echo "266 1000 6000" >"$db/266.row" && sweep --accounting >out &&
    test "$(comment 266)" = "$good" && grep "args analyze $home/argus/266 --quiet" "$home/analyze.log" &&
    rm -f "$db"/*.row
'

test_expect_success 'a working directory cannot pass for another job' '
    job 136 && rm -rf "$spool/n1/jobs/136" "$spool/n1/136.0" &&
    printf "/x\n99|99|0|0|1000|root|n1|%s||||2000\n" "$home" >"$db/136.workdir" &&
    echo "$db/136.workdir" && sweep --accounting >out &&
    grep "0 finished, 0 left" out && test ! -e "$home/analyze.log" &&
    rm -f "$db"/*.row "$db/136.workdir"
'

test_expect_success 'argus annotate posts the verdict of a directory, for jobs of its owner only' '
    job 137 && rm -rf "$spool/n1/jobs/137" "$spool/n1/137.0" &&
    as_user tee "$dir/verdict.json" >/dev/null <<-JSON &&
	{"schema":"argus-verdict/1","verdict":"ok","severity":"none","confidence":0.9,"culprits":[],
	 "stage":null,"link":null,"onset_step":null,"recovered_step":null,"slowdown":null,
	 "cost":{"gpu_hours":0.0,"share":0.0},
	 "job":{"id":"137","step":"0","ranks":8,"nodes":2,"gpus":8,"steps":60,"step_ms_p50":10.0},
	 "topology":{"tp":1,"pp":1,"dp":8,"ep":1,"source":"inferred"},
	 "evidence":[],"findings":[],"explained":[],
	 "data_quality":{"ranks_missing":[],"dropped":0,"invalid":0,"gaps":0,"steps_compared":60,"notes":[]},
	 "next":[]}
	JSON
    annotate="$ARGUS_BUILDDIR/argus annotate --slurm-path $top/bin:/usr/bin:/bin --wait 0" &&
    $annotate -n "$dir" >out && grep "^137 argus:1 ok ranks=8 steps=60" out &&
    test -z "$(comment 137)" &&
    $annotate "$dir" && comment 137 | grep "^argus:1 ok ranks=8" &&
    echo "138 1000 2000" >"$db/138.row" && echo 1 >"$db/138.uid" &&
    test_must_fail $annotate --job 138 "$dir" 2>err && grep "not of the user" err &&
    test -z "$(comment 138)" &&
    test_must_fail $annotate --job 139 "$dir" 2>err && grep "does not know" err &&
    test_must_fail $annotate --job "1 2" "$dir" 2>err && grep "no job id" err &&
    rm -f "$db"/*.row
'

test_expect_success 'a job that is not over yet in accounting is not touched' '
    job 118 &&
    echo "118 1000 Unknown" >"$db/118.row" &&
    run_epilog --foreground &&
    test -z "$(comment 118)" &&
    rm -r "$spool"/n1/queue/118.*
'

test_expect_success 'a job that ran again since is left to its last run' '
    job 119 started=500000000000 &&
    run_epilog --foreground &&
    test -z "$(comment 119)" &&
    grep "job 119: .*ran again" "$top/log" && nothing_left
'

test_expect_success 'a verdict posted by an earlier job in this directory does not count' '
    job 120 &&
    echo "job=12 restart=0" | as_user tee "$dir/.posted" &&
    echo "job=12 restart=0 argus:1 ok" | as_user tee "$dir/.comment" &&
    run_epilog --foreground &&
    test "$(comment 120)" = "$good"
'

test_expect_success 'no directory: the step never had data, nothing happens' '
    job 121 lazy=on &&
    rm -r "$dir" &&
    run_epilog --foreground &&
    test ! -s "$db/calls" && test ! -e "$dir" && nothing_left
'

# ---- never in the way ----

test_expect_success 'the node is free at once, however long the analysis takes' '
    job 122 && as_user touch "$home/stuck-122" &&
    run_epilog </dev/null >out 2>&1 &&
    wait_for test -s "$home/stuck-122.pids" && read -r analysis half <"$home/stuck-122.pids" &&
    test -z "$(comment 122)" && kill -0 $analysis && rm "$home/stuck-122" &&
    wait_for comment 122 && test "$(comment 122)" = "$good" &&
    nice=$(nice) && { test "$(id -u)" -ne 0 && test $nice -gt 10 || nice=10; } &&
    tail -n 1 "$home/analyze.log" | grep -x "nice $nice oom 500" &&
    wait_for nothing_left
'

test_expect_success 'the exit status is 0 whatever happens' '
    run_epilog --no-such-option && run_epilog --memory many &&
    env -i "$epilog" 2>err && grep SLURM_JOB_ID err &&
    env -i SLURM_JOB_ID=../1 SLURMD_NODENAME=n1 "$epilog" --spool "$spool" &&
    env -i SLURM_JOB_ID=1 SLURMD_NODENAME=../n1 "$epilog" --spool "$spool/%n" &&
    env -i SLURM_JOB_ID=1 SLURMD_NODENAME=n1 "$epilog" --spool relative &&
    job 123 &&
    run_epilog --foreground --analyze "$top/bin/none" &&
    run_epilog --foreground --slurm-path "$top/none" &&
    rm -rf "$spool"/n1/queue/*
'

test_expect_success 'its own time limit does not drain the node either' '
    job 140 && as_user touch "$home/stuck-140" &&
    { become_epilog --foreground & } && pid=$! &&
    wait_for test -s "$home/stuck-140.pids" && read -r analysis half <"$home/stuck-140.pids" &&
    kill -ALRM $pid && wait $pid && rm -rf "$home"/stuck-140* "$spool"/n1/queue/* &&
    wait_for is_gone $analysis && wait_for is_gone $half && rm -rf "$spool"/n1/queue/*
'

test_expect_success 'markers that cannot be read are thrown away' '
    job 124 &&
    echo "uid=1=2 job=/" >"$spool/n1/jobs/124/0" &&
    run_epilog --foreground &&
    grep "job 124: .*uid" "$top/log" &&
    test ! -s "$db/calls" && nothing_left
'

# ---- attacks ----

# Each of these lines must not reach accounting.
refused() {
    job "$1" && printf '%b' "$2" >"$home/line" && run_epilog --foreground &&
        test -z "$(comment "$1")" && ! grep sacctmgr "$db/calls" && rm -rf "$spool"/n1/queue/*
}

test_expect_success 'hostile lines are not posted' '
    refused 200 "" &&
    refused 201 "hello" &&
    refused 202 "argus:1" &&
    refused 203 "argus:1 fine" &&
    refused 204 "argus:1 ok ranks=8 steps=60 step=10ms extra=1" &&
    refused 205 "argus:1 ok ranks=8 steps=60 step=10ms where jobid=1" &&
    refused 206 "argus:1 ok ranks=8 steps=\$(id) step=10ms" &&
    refused 207 "argus:1 ok ranks=8 steps=60\r step=10ms" &&
    refused 208 "argus:1 compute-straggler critical rank=5 node=n2\047 slowdown=1.3" &&
    refused 209 "argus:1 compute-straggler critical rank=5 node=n7 gpu=1 slowdown=1.30 conf=0.97" &&
    refused 210 "argus:1 ok ranks=8 steps=60 step=10ms \0333]0;x\007" &&
    refused 211 "$(printf "argus:1 ok ranks=8 %300s" x)" &&
    refused 212 "\0argus:1 ok ranks=8 steps=60 step=10ms"
'

test_expect_success 'of many lines the first one counts' '
    job 213 &&
    { echo "$good"; yes "argus:1 ok ranks=8 steps=60 step=10ms" | head -n 100000; } >"$home/line" &&
    run_epilog --foreground &&
    test "$(comment 213)" = "$good"
'

test_expect_success ROOT 'a job directory that is a link to a place of root gets nothing' '
    job 214 &&
    mkdir "$top/rootonly" && chmod 755 "$top/rootonly" &&
    rm -r "$dir" && as_user ln -s "$top/rootonly" "$dir" &&
    run_epilog --foreground &&
    test -z "$(ls -A "$top/rootonly")" &&
    grep "job 214: .*Permission denied" "$top/log" &&
    rm -r "$spool"/n1/queue/214.*
'

test_expect_success ROOT 'a step spool replaced by a link does not lead root anywhere' '
    job 215 &&
    mkdir "$top/precious" && touch "$top/precious/file" && chmod 777 "$top/precious" &&
    chmod 644 "$top/precious/file" &&
    rmdir "$spool/n1/215.0" && ln -s "$top/precious" "$spool/n1/215.0" &&
    run_epilog --foreground &&
    test -e "$top/precious/file" &&
    rm "$spool/n1/215.0" && rm -rf "$spool"/n1/queue/*
'

test_expect_success 'a step spool that its user locked or filled with directories is cleared' '
    job 190 &&
    as_user mkdir -p "$spool/n1/190.0/locked/in/it" &&
    as_user touch "$spool/n1/190.0/locked/file" "$spool/n1/190.0/locked/in/file" &&
    as_user chmod 0 "$spool/n1/190.0/locked/in" "$spool/n1/190.0/locked" &&
    as_user sh -c "cd $spool/n1/190.0 && for i in \$(seq 100); do mkdir d e; touch f; cd d; done" &&
    as_user chmod 0500 "$spool/n1/190.0" &&
    run_epilog --foreground &&
    test "$(comment 190)" = "$good" &&
    test ! -e "$spool/n1/190.0" &&
    nothing_left
'

test_expect_success 'links in a step spool are removed, not followed' '
    job 191 &&
    as_user mkdir "$home/precious" "$spool/n1/191.0/d" && as_user touch "$home/precious/file" &&
    as_user chmod 0500 "$home/precious" &&
    as_user ln -s "$home/precious" "$spool/n1/191.0/link" &&
    as_user ln -s "$home/precious" "$spool/n1/191.0/d/link" &&
    run_epilog --foreground &&
    test ! -e "$spool/n1/191.0" && test -e "$home/precious/file" &&
    test "$(stat -c %a "$home/precious")" = 500
'

test_expect_success 'FIFOs in place of files do not stop anything' '
    job 216 &&
    as_user mkfifo "$dir/.posted" "$dir/.comment" "$dir/step-0/step.json" &&
    timeout 20 env -i SLURM_JOB_ID=216 SLURMD_NODENAME=n1 "$epilog" --spool "$spool/%n" \
        --slurm-path "$top/bin:/usr/bin:/bin" --analyze "$top/bin/argus" --log "$top/log" \
        --post-s 0 --memory 0 --foreground &&
    test "$(comment 216)" = "$good"
'

# Each of these stands in the way of our own files in the job directory.
in_the_way() {
    job "$1" && as_user sh -c "cd $dir && umask 0 && $2" &&
        timeout 60 env -i SLURM_JOB_ID="$1" SLURMD_NODENAME=n1 "$epilog" --spool "$spool/%n" \
            --slurm-path "$top/bin:/usr/bin:/bin" --analyze "$top/bin/argus" --log "$top/log" \
            --post-s 0 --memory 0 --foreground &&
        test "$(comment "$1")" = "$good" && test -f "$dir/.done/n1" && nothing_left
}

test_expect_success 'what a user put in the place of .done, .analysis and notes keeps no verdict back' '
    in_the_way 222 "mkfifo .done" &&
    in_the_way 223 ": >.done" &&
    in_the_way 224 "ln -s /nowhere .done" &&
    in_the_way 225 "ln -s /etc .done" &&
    in_the_way 226 "mkdir -p .done/n1" &&
    in_the_way 227 "mkdir -p .done/n1/full/of" &&
    in_the_way 228 "mkdir .done && mkfifo .done/n1" &&
    in_the_way 229 "mkdir .done && chmod 0 .done" &&
    in_the_way 230 "mkdir .done && chmod 500 .done" &&
    in_the_way 231 "mkfifo .analysis" &&
    in_the_way 232 "ln -s /etc .analysis" &&
    in_the_way 233 "mkdir -p .analysis/full/of && touch -d 2020-01-01 .analysis" &&
    in_the_way 234 "mkdir -p .comment/full .posted/full"
'

test_expect_success 'a marker that others could have written is not believed' '
    job 217 &&
    chmod 666 "$spool/n1/jobs/217/0" &&
    run_epilog --foreground &&
    test -z "$(comment 217)" && test ! -e "$home/analyze.log" && nothing_left
'

test_expect_success ROOT 'a marker of the user himself is not believed' '
    job 218 &&
    chown "$user" "$spool/n1/jobs/218/0" &&
    run_epilog --foreground &&
    test -z "$(comment 218)" && test ! -e "$home/analyze.log" && nothing_left
'

test_expect_success 'a spool that others could have written is not used' '
    job 219 &&
    chmod 777 "$spool/n1" &&
    run_epilog --foreground &&
    chmod 755 "$spool/n1" &&
    test -z "$(comment 219)" && test ! -e "$home/analyze.log" &&
    grep "others could have written" "$top/log" &&
    rm -r "$spool/n1/jobs/219"
'

test_expect_success 'markers that name two users are not followed' '
    job 220 &&
    sed "s/^uid=.*/uid=1/" "$spool/n1/jobs/220/0" >"$spool/n1/jobs/220/1" &&
    chmod 600 "$spool/n1/jobs/220/1" &&
    run_epilog --foreground &&
    test -z "$(comment 220)" && test ! -e "$home/analyze.log" &&
    grep "job 220: .*two users" "$top/log" &&
    rm -rf "$spool"/n1/queue/*
'

test_expect_success 'the argus program itself may not be heard for ever' '
    job 221 && as_user touch "$home/stuck-221" &&
    run_epilog --foreground --analysis-s 1 &&
    grep "job 221: .*no end after 1 s" "$top/log" &&
    test -z "$(comment 221)" && rm -rf "$home"/stuck-221* "$spool"/n1/queue/*
'

test_done
