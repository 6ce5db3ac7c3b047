#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='A recorder that is killed loses nothing that reached the ring

The ring is written by ringgen (generated records).  The recorder is killed
with SIGKILL at random moments; another one, or --drain, takes over.  In the
end the timeline holds what a recorder that lived would have written, row by
row.  ARGUS_KILLS sets how many moments are tried (200 in the long form).'

. /usr/share/sharness/sharness.sh

record=$ARGUS_BUILDDIR/argus-record
ringgen=$ARGUS_BUILDDIR/collector/record/ringgen
totals=$ARGUS_BUILDDIR/collector/record/timeline_totals
kills=${ARGUS_KILLS:-15}

new_spool() {
    rm -rf spool dir
    mkdir spool &&
    printf 'version=1\njob=7\nstep=0\nnode=here\nnodeid=0\nnnodes=1\nntasks=1\ndir=%s\n' \
        "$PWD/dir" >spool/step.conf
}

field() {
    sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" | head -n 1
}

# Job, kernels and steps of one run; about a second long.
generate() {
    "$ringgen" "$PWD/spool" 3 dense 400 150 4 "$@"
}

nap() {
    sleep "$(awk -v s="$1" 'BEGIN { srand(s); printf "%.3f", rand() * 0.9 }')"
}

test_expect_success 'a recorder that lives writes the reference' '
    new_spool &&
    { "$record" spool & } && pid=$! &&
    generate >fed &&
    sleep 0.3 &&
    kill $pid && wait $pid &&
    "$totals" dir/step-0/rank-00003.h5 --rows >reference &&
    test "$(field gpu <fed)" = "$(field gpu <reference)" &&
    test "$(field ns <fed)" = "$(field ns <reference)" &&
    test "$(field steps <reference)" = 150 &&
    test -z "$(ls spool | grep ring)"
'

# The moment is random, and so is whether a second recorder comes before --drain.
killed() {
    new_spool || return 1
    "$record" spool 2>>errors & pid=$!
    generate >fed & gen=$!
    nap "$1"
    kill -9 $pid
    wait $pid 2>/dev/null
    if test $(($1 % 2)) = 0; then
        "$record" spool 2>>errors & pid=$!
        nap "$1.5"
        kill -9 $pid
        wait $pid 2>/dev/null
    fi
    wait $gen || return 1
    "$record" --drain spool || return 1
    "$totals" dir/step-0/rank-00003.h5 --rows >got || return 1
    sed "s/end=[a-z]* //" reference >want
    sed "s/end=[a-z]* //" got >have
    if ! cmp want have; then
        diff want have
        ls -l dir/step-0 spool
        return 1
    fi
    test -z "$(ls spool | grep ring)" && test -z "$(ls dir/step-0 | grep -v -e rank-00003.h5$ -e json$)"
}

seed=${ARGUS_SEED:-$$}
i=0
while test $i -lt "$kills"; do
    i=$((i + 1))
    test_expect_success "killed at a random moment, $i (seed $((seed + i)))" "killed $((seed + i))"
done

test_expect_success 'nothing was lost to an unreadable state' '
    ! grep -i state dir/step-0/record-here.log 2>/dev/null
'

test_expect_success 'killed while it seals' '
    for ms in 2 4 8 12 16 24; do
        new_spool &&
        { "$record" spool & } && pid=$! &&
        generate >fed &&
        kill $pid && sleep 0.0$(printf %02d $ms) &&
        { kill -9 $pid 2>/dev/null; wait $pid; "$record" --drain spool; } &&
        "$totals" dir/step-0/rank-00003.h5 >got &&
        test "$(field gpu <fed)" = "$(field gpu <got)" &&
        test "$(field ns <fed)" = "$(field ns <got)" || return 1
    done
'

test_expect_success 'a rank killed in the middle of a record: all but that one' '
    new_spool &&
    { "$record" spool & } && pid=$! &&
    { "$ringgen" "$PWD/spool" 3 dense 400 50 4 131072 die >fed; true; } &&
    sleep 1.5 &&
    kill $pid && wait $pid &&
    "$totals" dir/step-0/rank-00003.h5 >got &&
    test "$(field ns <fed)" = "$(field ns <got)" &&
    test "$(field torn <got)" = 1 &&
    test "$(field end <got)" = killed
'

test_done
