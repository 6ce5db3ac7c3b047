#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus-epilog and argus sweep when a service is away for long

Accounting, the recorder and the analysis are played by scripts.'

. /usr/share/sharness/sharness.sh

unset SLURM_CONF SLURM_JOB_ID SLURMD_NODENAME
if [ "$(id -u)" -eq 0 ]; then user=nobody; else user=$(id -un); fi
uid=$(id -u "$user") gid=$(id -g "$user")
top=$(mktemp -d /tmp/argus-t1150.XXXXXX) && chmod 755 "$top" || exit 1
cleanup 'rm -rf "$top"'
db=$top/db spool=$top/spool home=$top/home
mkdir "$top/bin" "$db" "$home" && chown "$user" "$home"

as_user() {
    if [ "$(id -u)" -eq 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

# Records are <db>/<job>.row: job, start, end; comments <db>/<job>.comment.
cat >"$top/bin/sacct" <<STUB
#!/bin/sh
echo "sacct \$*" >>$db/calls
[ ! -e $db/down ] || { echo "sacct: error: slurmdbd: Connection refused" >&2; exit 1; }
job='*' word=
while [ \$# -gt 0 ]; do
    case \$1 in
    -j) job=\$2 ;;
    --delimiter=*) word=\${1#*=} ;;
    esac
    shift
done
for row in $db/\$job.row; do
    [ -e \$row ] && read -r raw start end <\$row || continue
    comment=\$(cat $db/\$raw.comment 2>/dev/null)
    if [ -n "\$word" ]; then
        name=\$(cat $db/\$raw.user 2>/dev/null || echo $user)
        printf "%s\$word" \$raw \$raw $uid $gid \$start "\$name" "n[1-2]" $home "\$comment" "" ""
        echo \$end
    else
        echo "\$raw|\$start|\$end|\$comment"
    fi
done
STUB
cat >"$top/bin/sacctmgr" <<STUB
#!/bin/sh
echo "sacctmgr \$*" >>$db/calls
[ "\$1" != -V ] || { echo "slurm 24.11.5"; exit; }
[ ! -e $db/down ] || { echo "sacctmgr: error: slurmdbd: Connection refused" >&2; exit 1; }
printf %s "\${7#*=}" >$db/\${5#jobid=}.comment
STUB
cat >"$top/bin/argus" <<STUB
#!/bin/sh
echo "args \$*" >>$home/analyze.log
echo "argus:1 ok ranks=8 steps=60 step=10ms"
STUB
cat >"$top/bin/argus-record" <<STUB
#!/bin/sh
[ ! -e $home/full ] || { echo "argus-record: \$3: No space left on device" >&2; exit 1; }
rm -f "\$2"/*.ring
STUB
chmod 755 "$top"/bin/*

# job ID [KEY=VALUE...]: marker, spool and job directory as they are when a job ends.
job() {
    job=$1
    dir=$home/argus/$job
    shift
    mkdir -p "$spool/n1/jobs/$job" "$spool/n1/$job.0" && chmod 755 "$spool" "$spool/n1" &&
    chmod 700 "$spool/n1/jobs" "$spool/n1/jobs/$job" && chown "$user" "$spool/n1/$job.0" &&
    printf '%s\n' version=1 job=$job slurm_job=$job step=0 user=$user uid=$uid gid=$gid node=n1 \
        "nodes=n[1-2]" step_nodes=n1 deadline_s=0 started="${started:-$(date +%s)}000000000" \
        "dir=$dir" "$@" >"$spool/n1/jobs/$job/0" && chmod 600 "$spool/n1/jobs/$job/0" &&
    as_user mkdir -p "$dir/step-0" && echo '{}' | as_user tee "$dir/job.json" >/dev/null &&
    echo "$job 1000 2000" >"$db/$job.row" && : >"$db/calls" && rm -f "$home/analyze.log" "$top/log"
}

clean_env() {
    env -i ${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} SLURMD_NODENAME=n1 "$@" \
        --spool "$spool/%n" --slurm-path "$top/bin:/usr/bin:/bin" --analyze "$top/bin/argus" \
        --record "$top/bin/argus-record" --memory 0
}

run_epilog() {
    clean_env SLURM_JOB_ID=$job "$@" "$ARGUS_BUILDDIR/argus-epilog" --log "$top/log" --post-s 0 \
        --foreground
}

sweep() {
    clean_env "$ARGUS_BUILDDIR/argus" sweep "$@"
}

comment() {
    cat "$db/$1.comment" 2>/dev/null
}

nothing_left() {
    test "$(find "$spool" -type f -o -path '*/queue/*' | wc -l)" = 0
}

tries() {
    stat -c %s "$spool"/n1/queue/$1.*/.tries
}

test_expect_success 'slurmdbd away for longer than a job has attempts: the verdict waits for it' '
    job 1 && touch "$db/down" && run_epilog && cat "$top/log" &&
    grep "job 1: verdict not posted yet; left for argus sweep\$" "$top/log" &&
    printf %047d 0 >>"$(echo "$spool"/n1/queue/1.*/.tries)" &&
    for i in 1 2 3; do
        sweep >out 2>err && cat out err && grep "0 finished, 1 left" out &&
        test "$(tries 1)" = 47 || return 1
    done &&
    rm "$db/down" && sweep >out && grep "1 finished, 0 left" out &&
    comment 1 | grep "^argus:1 ok" && test "$(grep -c args "$home/analyze.log")" = 1 && nothing_left
'

test_expect_success '... for a week' '
    job 2 && touch "$db/down" && run_epilog &&
    mv "$spool"/n1/queue/2.* "$spool/n1/queue/2.$(($(date +%s) - 8 * 86400))000000000" &&
    sweep >out 2>err && cat out err && grep "job 2: verdict not posted yet; given up\$" err &&
    nothing_left && rm "$db/down"
'

test_done
