#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='the plugin in a real Slurm: every kind of step, and what goes wrong

The plugin is the one of the unit tests, which takes the recorder from the
environment; recorder and collector are the real ones.'

. "${SHARNESS:-/usr/share/sharness/sharness.sh}"

unset SLURM_CONF SLURM_JOB_ID
if test "$(id -u)" -ne 0; then
    skip_all="needs root: slurmd changes the user"
    test_done
fi
for program in munged mariadbd slurmdbd slurmctld slurmd srun; do
    if ! PATH=$PATH:/usr/sbin command -v $program >/dev/null; then
        skip_all="$program is not installed"
        test_done
    fi
done
if test ! -e "$ARGUS_BUILDDIR/spank/.libs/spank_check.so"; then
    skip_all="the plugin was not built"
    test_done
fi

# A place that the user and slurmstepd may reach, wherever the build is.
top=$(mktemp -d /tmp/argus-t1010.XXXXXX) && chmod 755 "$top" || exit 1
cluster=$ARGUS_SRCDIR/t/slurm/cluster.sh
stop() {
    cd / && "$cluster" stop "$top/slurm" >/dev/null 2>&1
    rm -rf "$top"
}
# sharness cleans up after success alone.
trap 'code=$?; stop; (exit $code); die' EXIT
cp "$ARGUS_BUILDDIR/spank/.libs/spank_check.so" "$top/spank_argus.so"
cp "$top/spank_argus.so" "$top/copy.so"
cp "$ARGUS_BUILDDIR/argus-record" "$top/argus-record"
cp "$ARGUS_BUILDDIR/.libs/libargus-collector.so" "$top/libargus-collector.so"
ARGUS_TEST_RECORDER=$top/argus-record
export ARGUS_TEST_RECORDER
line="optional $top/spank_argus.so spool=$top/run/%n collector=$top/libargus-collector.so"
settings=$("$cluster" start --dir "$top/slurm" --nodes 2 --gpus 2 --plugin "$line" \
    --conf SchedulerParameters=bf_interval=1 3>&- 4>&- 5>&-) || {
    skip_all="no private cluster on this machine"
    test_done
}
eval "$settings"
work=$ARGUS_CLUSTER_WORK

as_user() {
    (cd "$work" && exec timeout 60 runuser -u "$ARGUS_CLUSTER_USER" -- "$@")
}
plugstack() {
    "$cluster" plugstack "$ARGUS_CLUSTER" "$@"
}
# No recorder, no step's spool: the step is over on all nodes, which srun need not wait for.
quiet() {
    for i in $(seq 600); do
        ! pgrep -f "$top/argus-record" && ! ls -d "$top"/run/*/*.* 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}
wait_for_end() {
    for i in $(seq 600); do
        squeue -h -j "$1" 2>/dev/null | grep -q . || return 0
        sleep 0.1
    done
    return 1
}

cat >"$work/show" <<'SHOW'
echo "$SLURM_PROCID step=$ARGUS_JOB.$ARGUS_STEP rank=$ARGUS_RANK/$ARGUS_WORLD" \
    "local=$ARGUS_LOCAL_RANK node=$ARGUS_NODE dir=$ARGUS_DIR" \
    "cuda=${CUDA_INJECTION64_PATH##*/} nccl=${NCCL_PROFILER_PLUGIN##*/}"
SHOW
OFF='step=. rank=/ local= node= dir= cuda= nccl='
LIB=libargus-collector.so

test_expect_success 'srun --argus: each task knows who it is and loads the collector' '
    as_user srun -Q -N2 -n4 --ntasks-per-node=2 --argus sh show | sort >out &&
    id=$(sed -n "1s/.*step=\([0-9]*\)\.0 .*/\1/p" out) &&
    for r in 0 1 2 3; do
        n=$((r / 2 + 1))
        echo "$r step=$id.0 rank=$r/4 local=$((r % 2)) node=n$n dir=$work/argus/$id cuda=$LIB nccl=$LIB"
    done >want &&
    test_cmp want out
'

test_expect_success 'its data belong to the user, its markers to root, and nothing runs on' '
    quiet &&
    test "$(stat -c %U "$work/argus/$id/step-0/step.json")" = "$ARGUS_CLUSTER_USER" &&
    test "$(stat -c "%U %a" "$top/run/n2/jobs/$id/0")" = "root 600" &&
    grep "^nodes=n\[1-2\]" "$top/run/n1/jobs/$id/0"
'

test_expect_success 'without --argus nothing is set, said or made' '
    as_user srun -Q -w n1 -n1 --gpus=1 sh show >out 2>err &&
    echo "0 $OFF" >want && test_cmp want out && test ! -s err &&
    test "$(ls "$top/run/n1/jobs")" = "$id"
'

test_expect_success 'default=on traces steps with GPUs, no others, and --argus=off overrules' '
    plugstack "$line default=on" &&
    as_user srun -Q -w n1 -n1 --gpus=1 sh show >out && grep "rank=0/1 .* cuda=$LIB" out &&
    as_user srun -Q -w n1 -n1 sh show >out && grep "$OFF" out &&
    as_user srun -Q -w n1 -n1 --gpus=1 --argus=off sh show >out && grep "$OFF" out &&
    as_user srun -Q -w n1 -n1 --argus sh show >out && grep "cuda=$LIB" out
'

test_expect_success 'a step without GPUs in a job with GPUs starts nothing' '
    as_user salloc -Q -w n1 -n1 --gpus=1 srun -Q --gres=none sh show >out && grep "$OFF" out
'

test_expect_success 'only= and not= hold, also for --argus, in one line' '
    plugstack "$line only=partition:gpu" &&
    as_user srun -Q -w n1 -n1 --argus sh show >out 2>err && grep "$OFF" out &&
    echo "argus: n1: plugstack.conf has only=partition:gpu; not traced" >want &&
    test_cmp want err &&
    plugstack "$line not=user:$ARGUS_CLUSTER_USER default=on" &&
    as_user srun -Q -w n1 -n1 --gpus=1 sh show >out 2>err && grep "$OFF" out && test ! -s err &&
    plugstack "$line"
'

cat >"$work/job.sh" <<'JOB'
#!/bin/sh
. ./show
srun -Q -n1 sh show
srun -Q -n1 --export=NONE /bin/sh ./show
srun -Q -n1 --export=NIL /bin/sh ./show
srun -Q -n1 --argus=off sh show
srun -Q -n1 --overlap sh -c 'sleep 0.5; . ./show' &
srun -Q -n1 --overlap sh show
wait
JOB

test_expect_success 'sbatch --argus holds for every srun inside, for the script, and can be overruled' '
    id=$(as_user sbatch --parsable -w n1 -W --argus -n2 -o out job.sh) &&
    sed "s/.*step=\([^ ]*\) .*/\1/" "$work/out" >steps &&
    printf "%s\n" $id.batch $id.0 $id.1 $id.2 . $id.5 $id.4 >want &&
    sort want >want.sorted && sort steps >steps.sorted && test_cmp want.sorted steps.sorted &&
    quiet
'

test_expect_success 'a script that starts nothing itself leaves no step of its own' '
    ls "$work/argus/$id" | grep "^step" >steps &&
    ! grep batch steps && grep -x step-0 steps
'

test_expect_success 'sbatch --argus --export=NONE' '
    id=$(as_user sbatch --parsable -w n1 -W --argus --export=NONE -o out --wrap "srun -Q --export=ALL /bin/sh ./show") &&
    grep "step=$id.0 rank=0/1" "$work/out"
'

test_expect_success 'srun --argus in a plain script' '
    id=$(as_user sbatch --parsable -w n1 -W -o out --wrap ". ./show; srun -Q --argus sh ./show") &&
    grep "^0 $OFF" "$work/out" && grep "step=$id.0 rank=0/1" "$work/out" &&
    test "$(ls "$top/run/n1/jobs/$id")" = 0
'

test_expect_success 'an array task has a directory of its own' '
    plugstack "$line dir=%w/%N/%u/%A_%a" &&
    id=$(as_user sbatch --parsable -w n1 -W --argus --array=3,5 -o out.%a --wrap "srun -Q sh ./show") &&
    grep "dir=$work/argus/nobody/${id}_5 " "$work/out.5" &&
    grep "dir=$work/argus/nobody/${id}_3 " "$work/out.3" &&
    grep "^array_task=" -r "$top"/run/*/jobs | grep "array_task=5" &&
    plugstack "$line"
'

test_expect_success 'a heterogeneous step has global ranks and one directory' '
    as_user srun -Q -n1 -w n1 --argus : -n2 -w n2 sh show | sort >out &&
    id=$(sed -n "1s/.*step=\([0-9]*\)+0\.0 .*/\1/p" out) && test -n "$id" &&
    grep "^0 step=$id+0.0 rank=0/3 local=0 node=n1 dir=$work/argus/$id " out &&
    grep "^1 step=$id+1.0 rank=1/3 local=0 node=n2 dir=$work/argus/$id " out &&
    grep "^2 step=$id+1.0 rank=2/3 local=1 node=n2 dir=$work/argus/$id " out &&
    marker=$top/run/n2/jobs/$id+1/0 &&
    grep "^slurm_job=$((id + 1))$" "$marker" && grep "^nodeid=1$" "$marker" &&
    grep "^ntasks=3$" "$marker"
'

test_expect_success 'what the user has set stays, and is noted' '
    (CUDA_INJECTION64_PATH=/opt/theirs.so && export CUDA_INJECTION64_PATH &&
    as_user srun -Q -w n1 -n1 --argus sh show >out 2>err) && test ! -s err &&
    grep "cuda=theirs.so nccl=$LIB" out &&
    id=$(sed -n "s/.*step=\([0-9]*\)\..*/\1/p" out) &&
    grep "user-set" "$work/argus/$id/step-0/node-n1.json"
'

test_expect_success 'listed twice, and by two paths: one recorder, one environment' '
    plugstack "$line" "$line" "optional $top/copy.so spool=$top/other" &&
    as_user srun -Q -w n1 -n2 --argus sh -c ". ./show; sleep 0.5; pgrep -fc \"^argus-record $top\"" >out &&
    grep "rank=1/2 .* cuda=$LIB" out && test "$(grep -cx 1 out)" = 2 &&
    test ! -e "$top/other" && quiet &&
    plugstack "$line"
'

test_expect_success 'bad keys and options are a line each, and the job runs' '
    plugstack "$line windw=3 ring_mb=x" &&
    test_expect_code 7 as_user srun -Q -w n1 -n1 --argus=full,foo,spool=/x sh -c ". ./show; exit 7" \
        >out 2>err &&
    grep "cuda=$LIB" out &&
    grep "^argus:" err >lines &&
    cat >want <<-WANT &&
	argus: plugstack.conf: windw=3: unknown key; ignored
	argus: plugstack.conf: ring_mb=x: must be a whole number from 1 to 4096; 32 is used
	argus: --argus=foo: must be on, off, summary, full or key=value; ignored
	argus: --argus=spool=/x: only plugstack.conf may set this key; ignored
	WANT
    test_cmp want lines &&
    plugstack "$line"
'

test_expect_success 'no collector: one line, and the job runs' '
    plugstack "$line collector=/nonexistent/lib.so" &&
    as_user srun -Q -N2 -n4 --argus sh show >out 2>err &&
    test "$(grep -c "$OFF" out)" = 4 &&
    echo "argus: n1: /nonexistent/lib.so: not there as seen by the task; not traced" >want &&
    test_cmp want err && plugstack "$line"
'

test_expect_success 'no recorder: one line, and the job runs' '
    mv "$top/argus-record" "$top/away" &&
    as_user srun -Q -N2 -n4 --argus sh show >out 2>err &&
    mv "$top/away" "$top/argus-record" &&
    test "$(grep -c "$OFF" out)" = 4 &&
    echo "argus: n1: $top/argus-record: starting it: No such file or directory; not traced" >want &&
    test_cmp want err && quiet
'

test_expect_success 'a spool that is no directory: one line, and the job runs' '
    : >"$top/file" && plugstack "$line spool=$top/file" &&
    as_user srun -Q -w n1 -n1 --argus sh show >out 2>err && grep "$OFF" out &&
    echo "argus: n1: $top/file: a directory is needed, not a link or file; not traced" >want &&
    test_cmp want err && plugstack "$line"
'

test_expect_success 'a plugin of another release of Slurm: the job runs without it' '
    cp "$top/copy.so" "$top/wrong.so" &&
    at=$(nm -D "$top/wrong.so" | sed -n "s/^\([0-9a-f]*\) [A-Z] plugin_version$/\1/p") && test -n "$at" &&
    printf "\001\002\003\004" | dd of="$top/wrong.so" bs=1 seek=$((0x$at)) conv=notrunc 2>/dev/null &&
    ! cmp -s "$top/copy.so" "$top/wrong.so" &&
    plugstack "optional $top/wrong.so spool=$top/run/%n collector=$top/libargus-collector.so" &&
    as_user srun -Q -w n1 -n1 sh show >out 2>err && cat err &&
    grep -i "incompatible" err && echo "0 $OFF" >want && test_cmp want out &&
    plugstack "$line"
'

test_expect_success 'a directory whose name holds a line break: one line, and the job runs' '
    odd="$work/two
lines" && mkdir "$odd" && chmod 755 "$odd" &&
    (cd "$odd" && timeout 60 runuser -u "$ARGUS_CLUSTER_USER" -- srun -Q -w n1 -n1 --argus sh ../show) >out 2>err &&
    grep "$OFF" out && cat err &&
    echo "argus: n1: the name of the working directory has a line break, another control character or \"..\" in it; not traced" >want &&
    test_cmp want err && quiet
'

if mkdir "$top/small" && mount -t tmpfs -o size=24m,mode=755 tmpfs "$top/small" 2>/dev/null; then
    test_set_prereq TMPFS
fi

test_expect_success TMPFS 'a spool without room for the rings: one line, and the job runs' '
    plugstack "$line spool=$top/small" &&
    as_user srun -Q -w n1 -n2 --argus sh show >out 2>err && test "$(grep -c "$OFF" out)" = 2 && cat err &&
    echo "argus: n1: $top/small: 24 MiB are free, rings of ring_mb=32 for 2 tasks need 80; not traced" >want &&
    test_cmp want err && test -z "$(ls "$top/small")" &&
    plugstack "$line spool=$top/small ring_mb=1" &&
    as_user srun -Q -w n1 -n2 --argus sh show >out 2>err && test "$(grep -c "cuda=$LIB" out)" = 2 &&
    plugstack "$line"
'
umount "$top/small" 2>/dev/null

test_expect_success 'scancel of ranks that ignore SIGTERM leaves no recorder' '
    id=$(as_user sbatch --parsable -w n1 -n2 -o out --wrap \
        "srun -Q --argus sh -c \"trap : TERM; : >started; sleep 1; while :; do sleep 0.2; done\"") &&
    for i in $(seq 600); do test -e "$work/started" && break; sleep 0.1; done &&
    pgrep -f "^argus-record $top" && scancel $id && wait_for_end $id && quiet &&
    test -e "$top/run/n1/jobs/$id/0"
'

test_expect_success 'a recorder that is killed costs the job nothing' '
    as_user srun -Q -w n1 -n2 --argus sh -c "pkill -KILL -f \"^argus-record $top\"; sleep 0.2; echo lives" >out &&
    test "$(grep -c lives out)" = 2 && quiet
'

test_expect_success 'a requeued job keeps its two lives apart' '
    id=$(as_user sbatch --parsable -w n1 --requeue --argus -o lives --open-mode=append --wrap \
        "srun -Q sh ./show; . ./show; test \$SLURM_RESTART_COUNT || { scontrol requeue \$SLURM_JOB_ID; sleep 20; }") &&
    for i in $(seq 300); do
        test "$(grep -cs "step=" "$work/lives")" = 4 && break
        # Slurm would wait two minutes.  Not too often: each time its scheduler begins anew.
        test $((i % 10)) = 0 && test "$(squeue -h -j $id -o %r)" = BeginTime &&
            scontrol update jobid=$id StartTime=now 2>/dev/null
        sleep 0.4
    done &&
    wait_for_end $id && cat "$work/lives" &&
    test "$(grep -c "dir=$work/argus/$id " "$work/lives")" = 2 &&
    test "$(grep -c "dir=$work/argus/$id-r1 " "$work/lives")" = 2 &&
    grep "^dir=$work/argus/$id-r1$" "$top"/run/*/jobs/$id/batch &&
    test -e "$work/argus/$id-r1/step-0/step.json"
'

test_expect_success 'nothing is left running' 'quiet'

test_done
