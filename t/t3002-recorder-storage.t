#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='Storage that is full, slow, gone, read-only or without locks

Whatever becomes of the timeline, the ranks never wait and what is lost is
counted.  The rings are written by ringgen (generated records).'

. /usr/share/sharness/sharness.sh

record=$ARGUS_BUILDDIR/argus-record
ringgen=$ARGUS_BUILDDIR/collector/record/ringgen
totals=$ARGUS_BUILDDIR/collector/record/timeline_totals

field() {
    sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" | head -n 1
}

node_field() {
    sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$2" | head -n 1
}

# new_spool DIR [KEY=VALUE...]
new_spool() {
    dir=$1 && shift &&
    rm -rf spool && mkdir spool &&
    printf 'version=1\njob=7\nstep=0\nnode=here\nnodeid=0\nnnodes=1\nntasks=1\ndir=%s\n' \
        "$dir" >spool/step.conf &&
    for key; do echo "$key" >>spool/step.conf; done
}

# until_it COMMAND...: it succeeds, within a minute
until_it() {
    for i in $(seq 600); do "$@" && return; sleep 0.1; done
    return 1
}

ended() { ! kill -0 "$1" 2>/dev/null; }

# A run of a second or so; the recorder is told to end and must in time.
one_run() {
    { "$record" spool 2>errors & } && pid=$! &&
    timeout 60 "$ringgen" "$PWD/spool" 3 dense 400 "${STEPS:-100}" 4 >fed &&
    sleep 0.2 &&
    kill $pid && wait $pid
}

if test "$(id -u)" = 0 && mkdir tiny && mount -t tmpfs -o size=100k tmpfs tiny 2>/dev/null; then
    test_set_prereq TMPFS
fi

test_expect_success TMPFS 'full disk: the rings are emptied, the loss is counted, the log says why' '
    new_spool "$PWD/tiny/dir" mode=full &&
    STEPS=200 one_run &&
    test -z "$(ls spool | grep ring)" &&
    { grep -i "no space" errors || grep -i -e "cannot write" -e "cannot flush" -e "no space" \
        tiny/dir/step-0/record-here.log; } &&
    test -z "$(find tiny -name "*.tmp" -o -name "*.log" -empty)"
'

test_expect_success TMPFS 'full disk: what reached the file before can be read' '
    file=$(ls tiny/dir/step-0/rank-00003.h5* | head -n 1) &&
    "$totals" "$file" >got &&
    test "$(field gpu <got)" -le "$(field gpu <fed)"
'

test_expect_success TMPFS 'a disk that is full from the start: nothing half-made is left' '
    for size in 4 8 12 16 24 32; do
        rm -rf tiny/dir && mount -o remount,size=${size}k tiny &&
        new_spool "$PWD/tiny/dir" && STEPS=30 one_run &&
        find tiny -name "*.tmp" >left && test_must_be_empty left || return 1
    done;
    mount -o remount,size=100k tiny
'

test_expect_success TMPFS 'room for a summary: the same disk holds it whole' '
    rm -rf tiny/dir &&
    new_spool "$PWD/tiny/dir" keep_mb=0 &&
    one_run &&
    "$totals" tiny/dir/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)"
'

# The recorder as one_run starts it, below a limit of N blocks of 512 bytes; its spool is one, too.
limited_run() {
    { (ulimit -f "$1" && exec "$record" spool 2>errors) & } && pid=$! &&
    until_it test -s spool/record.pid &&
    timeout 60 "$ringgen" "$PWD/spool" 3 dense 400 "${STEPS:-100}" 4 >fed &&
    sleep 0.2 && kill $pid && wait $pid
}

test_expect_success "a user's limit of file size: the recorder stays, the loss is counted, the log says why" '
    new_spool "$PWD/limit" mode=full && STEPS=200 limited_run 200 &&
    test -z "$(ls spool | grep ring)" &&
    grep -i "file too large" errors limit/step-0/record-here.log &&
    test "$(node_field lost limit/step-0/node-here.json)" -gt 0 &&
    test -z "$(find limit -name "*.tmp" -o -name "*.log" -empty)" &&
    "$totals" "$(ls limit/step-0/rank-00003.h5* | head -n 1)" >got &&
    test "$(field gpu <got)" -le "$(field gpu <fed)"
'

test_expect_success "a limit that leaves no room for a file: the rings are emptied all the same" '
    new_spool "$PWD/nofile" && STEPS=30 limited_run 2 &&
    test -z "$(ls spool | grep ring)" &&
    find nofile -name "*.tmp" >left && test_must_be_empty left
'

test_expect_success 'the open timeline is removed from under the recorder: it comes back whole' '
    new_spool "$PWD/removed" && { "$record" spool 2>errors & } && pid=$! &&
    { "$ringgen" "$PWD/spool" 3 dense 400 100 4 >fed & } && gen=$! &&
    until_it test -e removed/step-0/rank-00003.h5.open &&
    rm removed/step-0/rank-00003.h5.open && wait $gen &&
    sleep 0.2 && kill $pid && wait $pid &&
    "$totals" removed/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)"
'

test_expect_success 'it is removed after the recorder was killed: the rest of the ring is kept, one line says so' '
    new_spool "$PWD/gone" && { "$record" spool 2>errors & } && pid=$! &&
    { "$ringgen" "$PWD/spool" 3 dense 400 100 4 >fed & } && gen=$! &&
    until_it test -e gone/step-0/rank-00003.h5.open && { kill -9 $pid; wait $pid; wait $gen; } &&
    rm gone/step-0/rank-00003.h5.open && "$record" --drain spool &&
    grep -c "rank-00003.h5.open: is gone" gone/step-0/record-here.log >count && test "$(cat count)" = 1 &&
    "$totals" gone/step-0/rank-00003.h5 >got && cat got &&
    test "$(field steps <got)" -gt 30 && test "$(field gpu <got)" -gt 10000 &&
    test -z "$(ls spool | grep ring)"
'

test_expect_success 'a directory that cannot be made: the rings are emptied all the same' '
    echo file >plain &&
    new_spool "$PWD/plain/dir" &&
    one_run &&
    test -z "$(ls spool | grep ring)" &&
    grep "plain.*cannot make" errors
'

slow=$ARGUS_BUILDDIR/.libs/libslowdisk.so

test -f "$slow" && test_set_prereq SLOWDISK

test_expect_success SLOWDISK 'slow storage: the rank does not notice, nothing is lost' '
    new_spool "$PWD/slow" &&
    { SLOWDISK_MS=150 SLOWDISK_PATH=/slow/ LD_PRELOAD=$slow "$record" spool & } && pid=$! &&
    "$ringgen" "$PWD/spool" 3 dense 400 100 4 >fed &&
    kill $pid && wait $pid &&
    "$totals" slow/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" &&
    test "$(field dropped <got)" = 0
'

test_expect_success SLOWDISK 'storage that hangs: the rank finishes, the loss is counted in the ring' '
    new_spool "$PWD/hang" &&
    { SLOWDISK_MS=600000 SLOWDISK_PATH=/hang/ LD_PRELOAD=$slow "$record" spool & } && pid=$! &&
    until_it test -s spool/record.pid &&
    timeout 20 "$ringgen" "$PWD/spool" 3 storm 4000 200 1 4096 drop >fed &&
    kill -9 $pid && { wait $pid; true; } &&
    test "$(field dropped <fed)" -gt 0 &&
    timeout 60 "$record" --drain spool &&
    "$totals" hang/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" &&
    test "$(field dropped <got)" -ge "$(field dropped <fed)"
'

# The number that a process of another node has, too, and both write the job's file.
test_expect_success 'a file that another node is writing is left to it' '
    new_spool "$PWD/same" && mkdir same && "$ringgen" "$PWD/spool" 3 dense 400 5 0 >fed &&
    sh -c "for i in \"\" -0; do echo theirs >same/job.json.\$\$\$i.tmp; done
        exec \"$record\" --drain spool" 2>errors && test_must_be_empty errors &&
    grep argus-job same/job.json && grep -h theirs same/job.json.*.tmp >got &&
    test $(wc -l <got) = 2 && test -z "$(ls same/step-0 | grep -e log -e tmp)"
'

# Every event is written, 440,000 of them; more than two seconds pass before half the ring is read.
test_expect_success SLOWDISK 'slow storage: the last drain reads the whole ring' '
    new_spool "$PWD/long" mode=full && "$ringgen" "$PWD/spool" 3 storm 4000 110 0 524288 >fed &&
    SLOWDISK_MS=10 SLOWDISK_PATH=/long/ LD_PRELOAD=$slow "$record" --drain spool &&
    "$totals" long/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" &&
    test "$(node_field lost long/step-0/node-here.json)" = 0 && test -z "$(ls spool | grep ring)"
'

nolock=$ARGUS_BUILDDIR/.libs/libnolock.so

test -f "$nolock" && test_set_prereq NOLOCK

test_expect_success NOLOCK 'a file system without flock' '
    new_spool "$PWD/nolock" &&
    { LD_PRELOAD=$nolock "$record" spool 2>errors & } && pid=$! &&
    "$ringgen" "$PWD/spool" 3 dense 400 50 4 >fed &&
    sleep 0.2 && kill $pid && wait $pid &&
    "$totals" nolock/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)"
'

test_expect_success 'a foreign file in the spool is named once and left' '
    new_spool "$PWD/foreign" &&
    echo "no ring" >spool/9-1.ring &&
    one_run &&
    test -f spool/9-1.ring &&
    test "$(grep -c "9-1.ring" foreign/step-0/record-here.log)" = 1 &&
    "$totals" foreign/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)"
'

test_expect_success 'two processes of one rank: the busier keeps the name' '
    new_spool "$PWD/two" &&
    { "$record" spool & } && pid=$! &&
    "$ringgen" "$PWD/spool" 3 storm 50 3 1 >small && sleep 0.3 &&
    "$ringgen" "$PWD/spool" 3 dense 400 50 2 >fed &&
    sleep 0.3 && kill $pid && wait $pid &&
    "$totals" two/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" &&
    "$totals" two/step-0/rank-00003.[0-9]*.h5 >other &&
    test "$(field ns <small)" = "$(field ns <other)" &&
    grep "\"file\": \"rank-00003\.[0-9]*\.h5\"" two/step-0/node-here.json
'

test_expect_success 'a second recorder on one spool steps back' '
    new_spool "$PWD/lock" &&
    { "$record" spool & } && pid=$! &&
    until_it test -s spool/record.pid &&
    test_must_fail "$record" spool 2>errors &&
    grep "another recorder" errors &&
    kill $pid && wait $pid
'

test_expect_success 'SIGTERM to the whole step is no end while a rank goes on' '
    new_spool "$PWD/term" && { "$record" spool & } && pid=$! &&
    { "$ringgen" "$PWD/spool" 3 dense 400 300 4 >fed & } && gen=$! &&
    until_it test -e term/step-0/rank-00003.h5.open &&
    kill -TERM $pid && kill -INT $pid && sleep 0.4 &&
    kill -0 $gen && kill -0 $pid && wait $gen && wait $pid &&
    "$totals" term/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" && test "$(field steps <got)" = 300 &&
    test "$(field dropped <got)" = 0 && test "$(field end <got)" = exit
'

/bin/kill -q 0 -0 $$ 2>/dev/null && test_set_prereq KILLQ

test_expect_success KILLQ 'the word of who started it is, whatever goes on' '
    new_spool "$PWD/word" && { "$record" spool & } && pid=$! &&
    { timeout 60 "$ringgen" "$PWD/spool" 3 dense 400 100000 4 131072 drop >fed & } && gen=$! &&
    until_it test -e word/step-0/rank-00003.h5.open &&
    kill -TERM $pid && sleep 0.5 && kill -0 $pid &&
    /bin/kill -q 0 -TERM $pid && wait $pid && kill $gen && { wait $gen; true; } &&
    "$totals" word/step-0/rank-00003.h5 >got &&
    test "$(field end <got)" = killed && test "$(field steps <got)" -gt 30
'

test_expect_success 'the recorder ends with its parent' '
    new_spool "$PWD/parent" &&
    sh -c "\"$record\" spool & echo \$! >pid; while ! test -s spool/record.pid; do sleep 0.1; done" &&
    until_it ended $(cat pid) && "$record" --drain spool
'

test_have_prereq TMPFS && umount tiny
test_expect_success 'a process that nobody told its rank: a timeline with its pid that opens' '
    new_spool "$PWD/norank" &&
    "$ringgen" "$PWD/spool" -1 dense 400 20 0 >fed &&
    "$record" --drain spool &&
    file=$(echo norank/step-0/rank-00000.*.h5) &&
    "$totals" "$file" >got &&
    test "$(field gpu <got)" = "$(field gpu <fed)"
'

test_done
