#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus top: open timelines of a running job'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
make=$ARGUS_BUILDDIR/live_make
python=${ARGUS_PYTHON:-python3}
LC_ALL=C
export LC_ALL

"$python" -c 'import json' 2>/dev/null && test_set_prereq PYTHON

test_expect_success 'a running job: step, step time, the slow rank first' '
    mkdir -p job/step-0 && "$make" job/step-0 16 40 5 0 &&
    ls job/step-0/rank-00005.h5.open &&
    "$argus" top --once job >out &&
    grep -q "^job 4711  step 39  50.0 ms (median 50.0 ms)  ranks 16 of 16  SIMULATED GPU" out &&
    grep -q "^suspicion: compute-straggler, rank 5 on n01: .*1.30x" out &&
    sed -n 5p out | grep -q "^     5 n01 .* 1.30x"
'

test_expect_success 'a healthy job: no suspicion' '
    mkdir ok && "$make" ok 16 40 -1 0 &&
    "$argus" top --once ok | grep -q "^suspicion: none"
'

test_expect_success 'too few steps, too few ranks: no suspicion' '
    mkdir few && "$make" few 16 8 5 0 &&
    "$argus" top --once few | grep -q "^suspicion: none" &&
    mkdir pair && "$make" pair 2 40 1 0 &&
    "$argus" top --once pair | grep -q "^suspicion: none"
'

test_expect_success 'a job that has ended is shown as such' '
    mkdir done && "$make" done 4 40 -1 1 &&
    "$argus" top --once done >out && grep -q "ended 4" out
'

test_expect_success PYTHON '--once --json for scripts' '
    "$argus" top --once --json job >out.json &&
    "$python" - <<-PY
	import json
	top = json.load(open("out.json"))
	assert top["schema"] == "argus-top/1" and top["simulated"] is True
	assert top["suspicion"]["rank"] == 5 and top["suspicion"]["verdict"] == "compute-straggler"
	assert top["ranks"][0]["rank"] == 5 and abs(top["ranks"][0]["compute_ratio"] - 1.3) < 0.03
	assert top["last_step"] == 39 and top["ranks_seen"] == 16
	PY
    cp -r job "$(printf "j\351b")" && "$argus" top --once --json "$(printf "j\351b")" >out.json &&
    "$python" -c "import json; assert json.load(open(\"out.json\"))[\"dir\"] == \"j?b/step-0\""
'

test_expect_success 'a torn file among them is left out, not fatal' '
    head -c 3000 job/step-0/rank-00003.h5.open >torn && cp torn job/step-0/rank-00003.h5.open &&
    "$argus" top --once job >out && grep -q "ranks 15 of 16" out
'

test_expect_success '1,024 ranks are read in one look' '
    mkdir big && "$make" big 1024 50 700 0 &&
    "$argus" top --once big >out && grep -q "rank 700 on n88" out && rm -r big
'

until_it() { # command...
    for i in $(seq 600); do "$@" && return; sleep 0.1; done
    cat comment
    return 1
}

command -v script >/dev/null 2>&1 && test_set_prereq SCRIPT
test_expect_success SCRIPT 'on a terminal it draws, and q leaves' '
    : >typescript && { until_it grep -q "suspicion: none" typescript; printf q; } |
        TERM=xterm timeout 120 script -qfec "\"$argus\" top -d 0.5 ok" typescript >/dev/null &&
    grep -q "suspicion: none" typescript &&
    : >typescript && { until_it grep -q "rank 5 on n01" typescript; printf q; } |
        TERM=xterm timeout 120 \
            script -qfec "stty rows 24 cols 80; \"$argus\" top -d 0.5 job" typescript >/dev/null &&
    grep -q "compute-straggler, rank 5 on n01" typescript &&
    grep -q "its compute takes 1.30x of comparable ranks.[^a-z]" typescript
'

# scontrol of one job, 4711: its comment is the file "comment"; refuses while "closed" is there.
mkdir bin && cat >bin/scontrol <<-EOF && chmod +x bin/scontrol
	#!/bin/sh
	cd "$PWD" && echo "\$*" >>calls && test ! -e closed || exit 1
	case \$1 in
	show)
	    printf 'JobId=4711 JobName=x\n   JobState=RUNNING\n'
	    test ! -s comment || printf '   Comment=%s \n' "\$(cat comment)"
	    printf '\nJobId=4712 HetJobId=4711\n   Comment=other \n'
	    ;;
	update) test "\$2" = JobId=4711 && printf %s "\${3#Comment=}" >comment ;;
	esac
EOF
it_is() { test "$(cat comment)" = "$1"; }

test_expect_success '--post: the suspicion comes into the comment and goes with it' '
    mkdir -p post/step-0 && "$make" post/step-0 16 40 5 0 && printf "theirs x" >comment &&
    : >closed && : >calls &&
    { PATH=$PWD/bin:$PATH "$argus" top --post --interval 0.2 post/step-0 & pid=$!; } &&
    until_it eval "test \$(wc -l <calls) -ge 2" && it_is "theirs x" && rm closed &&
    until_it grep -q argus comment && cat comment &&
    grep "^theirs x argus:1 compute-straggler info rank=5 node=n01 simulated=1 dir=[^ ]*post$" comment &&
    updates=$(grep -c ^update calls) && sleep 1 && test $(grep -c ^update calls) = $updates &&
    rm post/step-0/* && "$make" post/step-0 16 40 -1 0 && until_it it_is "theirs x" &&
    rm post/step-0/* && "$make" post/step-0 16 40 5 0 && until_it grep -q argus comment &&
    printf "%s more" "$(cat comment)" >new && mv new comment &&
    kill $pid && wait $pid && it_is "theirs x more"
'

test_expect_success '--post beside a recorder: what is sent to the whole step ends nothing, its word does' '
    mkdir -p whole/step-0 && "$make" whole/step-0 16 40 5 0 && printf "theirs x" >comment && : >calls &&
    { (trap "" TERM INT; PATH=$PWD/bin:$PATH exec "$argus" top --post --interval 0.2 whole/step-0) &
        pid=$!; } && until_it grep -q argus comment &&
    kill -TERM $pid && kill -INT $pid && printf "theirs x" >comment && : >calls &&
    rm whole/step-0/* && "$make" whole/step-0 16 40 6 0 && until_it grep -q "rank=6" comment &&
    kill -34 $pid &&
    wait $pid && it_is "theirs x"
'

test_expect_success '--post takes out only what it wrote itself' '
    printf "argus:1 ok ranks=8" >comment && : >calls &&
    { PATH=$PWD/bin:$PATH "$argus" top --post --interval 0.2 ok & pid=$!; } && sleep 1 &&
    kill $pid && wait $pid && it_is "argus:1 ok ranks=8" && test ! -s calls
'

test_expect_success '--post without scontrol and without timelines waits in silence' '
    mkdir later && { PATH=/nonexistent "$argus" top --post --interval 0.1 later >said 2>&1 & pid=$!; } &&
    sleep 0.5 && "$make" later 16 40 5 0 && sleep 1 && kill $pid && wait $pid && test ! -s said
'

test_expect_success SCRIPT 'nothing to read from is told, not looked at without a rest' '
    ! TERM=xterm timeout 20 script -qec "\"$argus\" top ok </dev/null" typescript >/dev/null &&
    grep -q "argus top: standard input is no terminal; use --once" typescript
'

test_expect_success 'wrong use and missing things' '
    test_expect_code 2 "$argus" top ok 2>err && grep -q "use --once" err &&
    test_expect_code 2 "$argus" top --json ok 2>err &&
    test_expect_code 2 "$argus" top --once --delay=x ok 2>err && grep -q delay err &&
    test_expect_code 2 "$argus" top --post --interval=0 ok 2>err && grep -q interval err &&
    test_expect_code 2 "$argus" top --post --once ok 2>err &&
    test_expect_code 1 "$argus" top --once nowhere 2>err && grep -q nowhere err &&
    mkdir empty && test_expect_code 1 "$argus" top --once empty 2>err && grep -q empty err
'

test_done
