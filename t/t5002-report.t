#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus report on the terminal'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
show=$ARGUS_BUILDDIR/report_show
utf8=$(locale -a 2>/dev/null | grep -i -m1 'utf-\?8')
LC_ALL=C
export LC_ALL
unset NO_COLOR

# A job whose timelines are gone: the verdict is all there is.
test_expect_success 'a verdict without timelines is shown, the loss is told' '
    mkdir -p job/step-0 &&
    "$show" straggler 16 90 2 --json job/verdict.json &&
    "$show" stall 16 90 2 --json job/step-0/verdict.json &&
    "$argus" report job >out 2>err &&
    grep -q "compute-straggler (critical)" out &&
    grep -q "rank 10 on n02, GPU 2" out &&
    grep -q "SIMULATED GPU" out &&
    grep -q "^argus report: no pictures: job/step-0" err
'

test_expect_success 'lines fit 80 columns; not UTF-8, not a terminal: plain text' '
    test "$(wc -L <out)" -le 80 &&
    ! LC_ALL=C grep -q "[^ -~]" out
'

test -n "$utf8" && test_set_prereq UTF8
test_expect_success UTF8 'a UTF-8 locale gets UTF-8, --ascii does not' '
    LC_ALL=$utf8 "$argus" report job >out.utf8 2>/dev/null &&
    LC_ALL=C grep -q "[^ -~]" out.utf8 &&
    LC_ALL=$utf8 "$argus" report --ascii job >out.ascii 2>/dev/null &&
    ! LC_ALL=C grep -q "[^ -~]" out.ascii
'

test_expect_success 'colours: --color=always has them, auto on a pipe and never have not' '
    esc=$(printf "\033") &&
    "$argus" report --color=always job 2>/dev/null | grep -q "$esc" &&
    ! "$argus" report --color=never job 2>/dev/null | grep -q "$esc" &&
    ! "$argus" report --color=auto job 2>/dev/null | grep -q "$esc"
'

if command -v script >/dev/null 2>&1; then
    test_set_prereq SCRIPT
fi
test_expect_success SCRIPT 'colours on a terminal, unless NO_COLOR is set or the terminal is dumb' '
    esc=$(printf "\033\\[") &&
    TERM=xterm script -qec "\"$argus\" report job" /dev/null | grep -q "$esc" &&
    ! NO_COLOR=1 TERM=xterm script -qec "\"$argus\" report job" /dev/null | grep -q "$esc" &&
    ! TERM=dumb script -qec "\"$argus\" report job" /dev/null | grep -q "$esc"
'

test_expect_success '--summary: three lines, of the job or of a step' '
    "$argus" report --summary job >out 2>err && cat out && test ! -s err && test $(wc -l <out) = 3 &&
    sed -n 1p out | grep "^argus: compute-straggler (critical): .* .SIMULATED GPU.$" &&
    sed -n 2p out | grep "^argus: rank 10 on n02, GPU 2.*; since step .*; a step takes .*x as long; .* GPU-hours lost" &&
    sed -n 3p out | grep "^argus: report: argus report job " &&
    "$argus" report --summary "$PWD/job/step-0" >out && grep "^argus: host-stall (info)" out &&
    grep "argus report $PWD/job (or" out &&
    "$argus" report --summary --step 0 job >out2 && sed -n 1,2p out >want && sed -n 1,2p out2 >have &&
    test_cmp want have &&
    test_expect_code 2 "$argus" report --summary --html x job 2>err && grep -q -e --summary err &&
    mkdir -p bare/step-1 && test_expect_code 1 "$argus" report --summary bare/step-1 >out 2>err &&
    test ! -s out && test $(wc -l <err) = 1
'

test_expect_success '--step shows that step' '
    "$argus" report --step 0 job 2>/dev/null >out &&
    grep -q "host-stall (info)" out
'

test_expect_success 'a step that is not there is named' '
    test_expect_code 1 "$argus" report --step 7 job 2>err &&
    grep "^argus report: job: no step \"7\"$" err && test "$(wc -l <err)" = 1 &&
    mkdir job/step-8 && test_expect_code 1 "$argus" report --step 8 job 2>err &&
    grep "job/step-8/verdict.json: no verdict yet" err && rmdir job/step-8
'

test_expect_success 'a step cannot lead elsewhere' '
    test_expect_code 2 "$argus" report --step ../../x job 2>err &&
    grep -q "no step of a job" err
'

test_expect_success 'no verdict yet: says what makes one' '
    mkdir -p new/step-0 && : >new/job.json &&
    test_expect_code 1 "$argus" report new 2>err &&
    grep -q "argus analyze new" err
'

test_expect_success 'pictures that lack ranks of the verdict say so' '
    mkdir -p some/step-0 && "$ARGUS_BUILDDIR/live_make" some/step-0 4 40 2 1 &&
    "$argus" analyze -q some && "$argus" report some >out 2>err && test_must_be_empty err &&
    head -c 2000 some/step-0/rank-00003.h5 >torn.h5 && cp torn.h5 some/step-0/rank-00003.h5 &&
    "$argus" report some >out 2>err && test "$(wc -l <err)" = 1 &&
    grep "^argus report: pictures without 1 of 4 ranks: some/step-0/rank-00003.h5: " err &&
    rm some/step-0/rank-00003.h5 && "$argus" report --html page.html some 2>err &&
    grep "pictures without 1 of 4 ranks: their timelines are gone" err
'

test_expect_success 'missing directory, broken and foreign verdict: one line each' '
    test_expect_code 1 "$argus" report nowhere 2>err && test "$(wc -l <err)" = 1 &&
    test_expect_code 1 "$argus" report job/verdict.json 2>err && test "$(wc -l <err)" = 1 &&
    grep "^argus report: job/verdict.json: Not a directory" err &&
    mkdir -p torn && head -c 200 job/verdict.json >torn/verdict.json &&
    test_expect_code 1 "$argus" report torn 2>err && test "$(wc -l <err)" = 1 &&
    grep -q "torn/verdict.json" err &&
    mkdir -p foreign && echo "{\"schema\":\"other/1\"}" >foreign/verdict.json &&
    test_expect_code 1 "$argus" report foreign 2>err && grep -q schema err
'

test_expect_success 'a full disk is an error' '
    test_expect_code 1 "$argus" report job >/dev/full 2>err &&
    grep -q "standard output" err
'

test_expect_success 'wrong use: exit 2' '
    test_expect_code 2 "$argus" report 2>err && grep -q "no directory or job id" err &&
    test_expect_code 2 "$argus" report --frobnicate job 2>err &&
    test_expect_code 2 "$argus" report --color=pink job 2>err && grep -q "pink" err &&
    test_expect_code 2 "$argus" report a b 2>err && grep -q "more than one" err
'

test_expect_success '--html writes the page and nothing else' '
    "$argus" report --html page.html job >out 2>/dev/null &&
    test_must_be_empty out &&
    grep -q "compute-straggler" page.html &&
    test_expect_code 1 "$argus" report --html no/such/dir.html job 2>err &&
    grep -q "no/such/dir.html" err &&
    test "$(ls *.tmp 2>/dev/null | wc -l)" = 0
'

test_done
