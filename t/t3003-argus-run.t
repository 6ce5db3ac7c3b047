#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus run: the chain without Slurm, on the stand-in GPU

Simulated: no real GPU is involved.'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
simtrain=$ARGUS_BUILDDIR/contrib/simgpu/simtrain
totals=$ARGUS_BUILDDIR/collector/record/timeline_totals
ARGUS_LIBEXECDIR=$ARGUS_BUILDDIR
ARGUS_LIBDIR=$ARGUS_BUILDDIR/.libs
export ARGUS_LIBEXECDIR ARGUS_LIBDIR
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH RANK WORLD_SIZE

field() {
    sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" | head -n 1
}

# until_it COMMAND...: it succeeds, within a minute
until_it() {
    for i in $(seq 600); do "$@" && return; sleep 0.1; done
    return 1
}

ended() { ! kill -0 "$1" 2>/dev/null; }

# has_steps FILE N: a timeline that is being written has more than N steps
has_steps() {
    n=$("$totals" "$1" 2>/dev/null | field steps)
    test "${n:-0}" -gt "$2"
}

test_expect_success 'usage and bad options' '
    "$argus" run --help | grep -q ranks-per-node &&
    test_expect_code 2 "$argus" run 2>err && grep "no command" err &&
    test_expect_code 2 "$argus" run -n 0 -- true 2>err && grep "^argus run: --ranks 0: " err &&
    test_expect_code 2 "$argus" run -n x -- true &&
    test_expect_code 2 "$argus" run -r x -- true 2>err && grep -e "--ranks-per-node x: " err &&
    test_expect_code 2 "$argus" run -o dir=/tmp -- true &&
    test_expect_code 2 "$argus" run -d bad -o window=none -- true 2>err &&
    grep window err &&
    test_expect_code 2 "$argus" run -d bad -m everything -- true &&
    test_expect_code 2 "$argus" run -d bad -o links=maybe -- true &&
    test_expect_code 2 "$argus" run -d bad -o sources=cupti,psychic -- true &&
    test_expect_code 2 "$argus" run -d "" -- true &&
    test_expect_code 2 "$argus" run -d "bad
name" -- true 2>err && test $(wc -l <err) = 1 && grep -e "--dir: a line break" err &&
    ! ls -d bad* &&
    ! test -e bad
'

test_expect_success 'the exit status is the command'\''s' '
    test_expect_code 7 "$argus" run -n 2 -d status --no-report -- sh -c "exit 7" &&
    test_expect_code 143 "$argus" run -d signal --no-report -- sh -c "kill -TERM \$\$" &&
    test_expect_code 127 "$argus" run -n 3 -d none -- ./no-such-program >out 2>err &&
    test "$(grep -c no-such-program err)" = 1 && ! test -s out
'

test_expect_success 'a missing recorder is said, and nothing runs' '
    test_expect_code 1 env ARGUS_LIBEXECDIR=/nonexistent "$argus" run -d missing -- touch ran 2>err &&
    grep argus-record err && ! test -f ran
'

test_expect_success 'a file where the directory should be is said, and nothing runs' '
    >file && test_expect_code 1 "$argus" run -d file -- touch ran 2>err &&
    grep "file: Not a directory" err && ! test -f ran
'

test_expect_success 'what cannot be printed is no success' '
    test_expect_code 1 "$argus" --help >/dev/full 2>err && grep "standard output" err &&
    test_expect_code 1 "$argus" run --help >/dev/full
'

test_expect_success 'each rank has its place in the environment' '
    cat >show <<-\EOS &&
	#!/bin/sh
	echo "$ARGUS_RANK $RANK $ARGUS_WORLD $WORLD_SIZE $ARGUS_LOCAL_RANK $ARGUS_NODE $ARGUS_STEP" >>seen
	echo "$ARGUS_SPOOL" >spool &&
	test -d "$ARGUS_SPOOL" && test -f "$ARGUS_SPOOL/step.conf" && test -n "$MASTER_PORT" &&
	test "$CUDA_INJECTION64_PATH" = "$ARGUS_LIBDIR/libargus-collector.so"
	EOS
    chmod +x show &&
    "$argus" run -n 5 -r 2 -d place --no-report -- ./show &&
    sort seen >have &&
    printf "%s\n" "0 0 5 5 0 node0 0" "1 1 5 5 1 node0 0" "2 2 5 5 0 node1 0" \
        "3 3 5 5 1 node1 0" "4 4 5 5 0 node2 0" >want &&
    test_cmp want have &&
    ! test -e "$(cat spool)"
'

test_expect_success 'a traced run: one sealed timeline a rank, with every step' '
    "$argus" run -n 4 -r 2 -d traced --no-report -- "$simtrain" --quiet --steps 40 &&
    for r in 0 1 2 3; do
        "$totals" traced/step-0/rank-0000$r.h5 >got &&
        test "$(field sealed <got)" = 1 && test "$(field end <got)" = exit &&
        test "$(field dropped <got)" = 0 && test "$(field late <got)" = 0 &&
        test "$(field steps <got)" = 40 || return 1
    done &&
    for r in 0 1 2 3; do
        test $(stat -c %s traced/step-0/rank-0000$r.h5) -le $((40 * 2700)) || return 1
    done &&
    test -f traced/job.json && test -f traced/step-0/step.json &&
    test -f traced/step-0/node-node0.json && test -f traced/step-0/node-node1.json &&
    ! ls traced/step-0/*.log
'

test_expect_success 'a run that is over before its recorder is up leaves its files' '
    for i in 1 2 3 4 5 6; do
        "$argus" run -n 1 -d brief$i --no-report -- true && test -f brief$i/job.json &&
        ls brief$i/step-0/node-*.json || return 1
    done
'

test_expect_success 'a second run into the same directory is refused' '
    test_expect_code 1 "$argus" run -d traced -- true 2>err &&
    grep "earlier run" err
'

test_expect_success 'a variable that the user had set is left, and noted' '
    CUDA_INJECTION64_PATH=none "$argus" run -n 2 -d mine --no-report -- "$simtrain" --quiet --steps 5 &&
    grep "rank=1 source=cupti reason=user-set" mine/step-0/node-*.json
'

# notes DIR: of the verdict's data quality, one a line
notes() {
    python3 -c "
import json, sys
print(\"\\n\".join(json.load(open(sys.argv[1] + \"/verdict.json\"))[\"data_quality\"][\"notes\"]))" "$1"
}

for pair in "enable:15=refused by the driver=reason=refused code=15" \
        "register:39=another profiler took over=reason=other-client code=39"; do
    fault=${pair%%=*} rest=${pair#*=}
    test_expect_success "a source that stood down ($fault): the recorder's file and the verdict say why" '
        SIMGPU_FAULT="$fault" "$argus" run -n 2 -d down-$fault -q -- "$simtrain" --quiet --steps 5 &&
        for rank in 0 1; do
            grep "rank=$rank source=cupti ${rest#*=}" down-$fault/step-0/node-*.json || return 1
        done &&
        notes down-$fault | grep "source CUPTI stood down on 2 of 2 ranks (${rest%%=*})"
    '
done

test_expect_success 'a version known as bad is listened to, and told' '
    SIMGPU_FAULT="version:130000,disable-hang" "$argus" run -n 2 -d bad-version -q -- \
        "$simtrain" --quiet --steps 30 &&
    notes bad-version | grep "source CUPTI is never switched off on 2 of 2 ranks (version known as bad)"
'

test_expect_success 'nothing listened, so there is no timeline: the verdict says why all the same' '
    CUDA_INJECTION64_PATH=none NCCL_PROFILER_PLUGIN=none NVTX_INJECTION64_PATH=none \
        "$argus" run -n 2 -d nobody -q -- "$simtrain" --quiet --steps 5 &&
    notes nobody >notes && for source in CUPTI NCCL NVTX; do
        grep "source $source stood down on 2 ranks without a timeline (the user had set its variable)" \
            notes || return 1
    done
'

test_expect_success 'one rank of several has no timeline: why' '
    "$argus" run -n 3 -d partly -q -- "$simtrain" --quiet --steps 5 && rm partly/step-0/rank-00002.h5 &&
    sed "s/\"standdown\": \[\]/\"standdown\": [\"rank=2 source=cupti reason=no-library code=0\", \
\"rank=1 source=nccl reason=refused code=3\", \"rank=x\"]/" partly/step-0/node-*.json >node &&
    cp node $(ls partly/step-0/node-*.json) && "$argus" analyze -q partly && notes partly >notes &&
    grep "source CUPTI stood down on 1 rank without a timeline (library not found)" notes &&
    ! grep "NCCL stood" notes
'

# Of a rank: it spoils its own job directory, then ends with status 3.
spoil() { # DIR COMMAND
    test_expect_code 3 "$argus" run -d "$1" -- sh -c "
        \"$simtrain\" --quiet --steps 30; cd \"\$ARGUS_DIR\" && $2; exit 3" >out 2>err
}

test_expect_success 'an analysis that fails: why, where the data is, and the status of the command' '
    spoil nowhere "mkdir verdict.json" && cat out err &&
    grep "^argus analyze: .*/nowhere/verdict.json: cannot be written: Is a directory$" err &&
    echo "argus run: no report: the analysis ended with status 1; the data is in $PWD/nowhere" >want &&
    tail -n 1 err >got && test_cmp want got && test $(wc -l <err) = 2 && test ! -s out &&
    rmdir nowhere/verdict.json && "$argus" analyze -q nowhere && test -s nowhere/verdict.json
'

test_expect_success 'only a file of the report cannot be written: that is told, and the report shown' '
    spoil partial "mkdir report.html" && cat out err &&
    grep "^argus analyze: .*/partial/report.html: cannot be written: Is a directory$" err &&
    test $(wc -l <err) = 1 && grep "^argus *job " out && test -s partial/verdict.json
'

test_expect_success 'mode=off: the command runs as if argus were not there' '
    "$argus" run -n 2 -m off -d off -- sh -c "test -z \"\$ARGUS_SPOOL\"" &&
    ! test -e off
'

test_expect_success 'a recorder is killed: what it left in the rings is taken over' '
    "$argus" run -n 2 --dir killed --no-report -- "$simtrain" --quiet --steps 120 --pace 1 >out 2>&1 &
    run=$! && until_it has_steps killed/step-0/rank-00000.h5.open 5 &&
    kill -KILL $(pgrep -P $run -f argus-record) && wait $run &&
    test -e killed/step-0/rank-00000.h5 && test -e killed/step-0/rank-00001.h5 &&
    has_steps killed/step-0/rank-00000.h5 60
'

# Any run tidies up after any other: somebody else's may be at it just now.
tidied() { ! ls -d /dev/shm/argus-run-$1.* 2>/dev/null; }

test_expect_success 'a run that is killed harms no rank; the next one tidies up after it' '
    "$argus" run -n 2 -r 1 -d crashed --no-report -- sh -c \
        "echo \$\$ >>crashed.pids; exec \"$simtrain\" --quiet --steps 100000 --pace 1" >out 2>&1 &
    run=$! && until_it has_steps crashed/step-0/rank-00000.h5.open 10 &&
    until_it has_steps crashed/step-0/rank-00001.h5.open 10 && ls -d /dev/shm/argus-run-$run.* &&
    for pid in $(pgrep -P $run -f argus-record); do kill -STOP $pid || return 1; done &&
    recorders=$(pgrep -P $run -f argus-record) && kill -KILL $run && { wait $run; true; } &&
    "$argus" run -d next1 --no-report -- true &&
    ls -d /dev/shm/argus-run-$run.* &&
    kill -KILL $recorders && for pid in $recorders; do until_it ended $pid || return 1; done &&
    for pid in $(cat crashed.pids); do kill -0 $pid && kill -KILL $pid || return 1; done &&
    "$argus" run -d next2 --no-report -- true && until_it tidied $run &&
    for rank in 0 1; do
        "$totals" crashed/step-0/rank-0000$rank.h5 >got &&
        test "$(field sealed <got)" = 1 && test "$(field steps <got)" -gt 10 || return 1
    done
'

test_expect_success 'what a rank leaves running does not hold up the end' '
    cat >leave.sh <<-EOS &&
	"$simtrain" --quiet --steps 100000 --pace 1 >/dev/null 2>&1 &
	echo \$! >left.pid
	while ! "$totals" left/step-0/rank-00000.h5.open 2>/dev/null | grep -q "steps=[1-9][0-9]"; do
	    sleep 0.1
	done
	EOS
    "$argus" run -d left --no-report -- sh leave.sh &&
    kill -0 $(cat left.pid) && kill -KILL $(cat left.pid) &&
    "$totals" left/step-0/rank-00000.h5 >got &&
    test "$(field sealed <got)" = 1 && test "$(field steps <got)" -gt 5
'

test_expect_success 'an interrupt reaches the ranks, their data is kept' '
    { "$argus" run -n 2 -d interrupted --no-report -- "$simtrain" --quiet --steps 100000 --pace 1 & } &&
    pid=$! && until_it has_steps interrupted/step-0/rank-00001.h5.open 5 && kill -TERM $pid &&
    { wait $pid; test $? = 143; } &&
    "$totals" interrupted/step-0/rank-00001.h5 >got &&
    test "$(field steps <got)" -gt 5
'

# A process in the background ignores an interrupt; this one is to hear it.
cat >heed.py <<\EOF
import os, signal, sys
for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
    signal.signal(sig, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
EOF

# heard WORD: a rank did, within a minute
heard() {
    for i in $(seq 600); do
        grep -qs "^$1$" heard && return
        sleep 0.1
    done
    return 1
}

test_expect_success 'every signal reaches a rank, not only the first' '
    cat >stubborn <<-\EOS &&
	#!/bin/sh
	n=0
	trap "n=\$((n + 1)); echo term \$n >>heard" TERM
	trap "echo quit >>heard" QUIT
	trap "echo hup >>heard" HUP
	trap "echo int >>heard; exit 5" INT
	echo up >>heard
	for i in $(seq 3000); do sleep 0.1; done
	EOS
    chmod +x stubborn &&
    { python3 heed.py "$argus" run -d stubborn.dir --no-report -- ./stubborn & } && pid=$! &&
    { heard up && kill -TERM $pid && heard "term 1" && kill -TERM $pid && heard "term 2" &&
        kill -QUIT $pid && heard quit && kill -HUP $pid && heard hup && kill -INT $pid &&
        heard int || kill -KILL $pid; } &&
    { wait $pid; test $? = 5; } &&
    printf "%s\n" up "term 1" "term 2" quit hup int >want && test_cmp want heard
'

# asked DIR: two ranks, over before the first look at their devices
asked() {
    (LD_LIBRARY_PATH=$(pwd)/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} && export LD_LIBRARY_PATH &&
        "$argus" run -n 2 --no-report -d "$1" -- "$simtrain" --quiet --steps 2)
}

simnvml=$ARGUS_BUILDDIR/.libs/libsimnvml.so

test -f "$simnvml" && test_set_prereq SIMNVML

# A machine may be so busy that a second is too short for the answer: again.
test_expect_success SIMNVML 'a short job has the health of its end' '
    mkdir nvml && ln -s "$simnvml" nvml/libnvidia-ml.so.1 &&
    for try in 1 2 3 4 5 6; do
        asked asked$try && "$totals" asked$try/step-0/rank-00001.h5 health >got || return 1
        test "$(field health <got)" = 0 || break
    done &&
    test "$(field health <got)" -gt 0
'

test_expect_success SIMNVML 'devices that do not answer hold no timeline' '
    (SIMNVML_HANG=1 && export SIMNVML_HANG && asked hang) &&
    for rank in 0 1; do
        "$totals" hang/step-0/rank-0000$rank.h5 >got && test "$(field sealed <got)" = 1 || return 1
    done
'

# Same seed, three ways to keep events: the verdict is the summary'\''s.
for fault in "" "--slow-rank 5:1.3@15" "--slow-link node1:3" "--host-stall 3:60ms@every5"; do
    test_expect_success "verdict from the summary alone, from windows, from every event: ${fault:-healthy}" '
        rm -rf v-* && port=$$ &&
        for mode in "-m full" "-m summary" "-o keep_mb=0"; do
            dir=v-$(echo $mode | tr -dc a-z0-9) &&
            "$argus" run -n 8 -r 2 $mode -d $dir -q -- "$simtrain" --quiet --steps 60 --seed 3 \
                $fault &&
            python3 -c "
import json, sys
v = json.load(open(sys.argv[1]))
print(v[\"verdict\"], [c[\"rank\"] for c in v[\"culprits\"]], v[\"onset_step\"])" \
                $dir/verdict.json >$dir.txt || return 1
        done &&
        cat v-*.txt &&
        test_cmp v-mfull.txt v-msummary.txt && test_cmp v-mfull.txt v-okeepmb0.txt
    '
done

test_done
