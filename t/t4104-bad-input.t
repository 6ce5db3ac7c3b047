#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='analyze on data that is missing, double, short, torn or hostile'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/verdict.sh"

if ! "$python" -c 'import json'; then
    skip_all='no python3 to read verdicts with'
    test_done
fi
"$python" -c 'import h5py, numpy' 2>/dev/null && test_set_prereq H5PY
V=job/verdict.json
make_job() {
    rm -rf job && "$ARGUS_BUILDDIR/testjob" job "$@"
}

test_expect_success 'nothing there: one line, status 1' '
    mkdir empty && test_expect_code 1 "$argus" analyze empty 2>err &&
    test $(wc -l <err) = 1 && grep "no timelines" err &&
    test_expect_code 1 "$argus" analyze nowhere 2>err && test $(wc -l <err) = 1
'

test_expect_success 'usage errors: status 2' '
    test_expect_code 2 "$argus" analyze 2>err && grep "no directory or job id" err &&
    test_expect_code 2 "$argus" analyze a b 2>err && grep "more than one directory" err &&
    test_expect_code 2 "$argus" annotate a b 2>err && grep "more than one directory" err &&
    test_expect_code 2 "$argus" annotate --comment foo empty 2>err && grep "comment foo" err &&
    test_expect_code 2 "$argus" annotate --wait -1 empty 2>err && grep "wait -1" err &&
    test_expect_code 2 "$argus" annotate --wait soon empty 2>err && grep "wait soon" err &&
    test_expect_code 2 "$argus" sweep now 2>err && grep now err &&
    test_expect_code 2 "$argus" sweep --comment foo 2>err && grep "comment foo" err &&
    test_expect_code 2 "$argus" analyze --steps 9:3 empty 2>err &&
    test_expect_code 2 "$argus" analyze --nonsense empty 2>err
'

for n in 1 2 3 4; do
    test_expect_success "world of $n, healthy: nobody is blamed" '
        make_job '$n' && "$argus" analyze -q job && is $V "v[\"verdict\"], ranks" "('\''ok'\'', [])"
    '
done

test_expect_success 'a missing rank is named, and the culprit still found' '
    make_job 8 skip-rank=6 slow-rank,rank=3,factor=1.3 && "$argus" analyze -q job &&
    is $V "v[\"verdict\"], ranks, v[\"data_quality\"][\"ranks_missing\"]" "('\''compute-straggler'\'', [3], [6])"
'

test_expect_success 'a missing culprit is nobody else' '
    make_job 8 skip-rank=3 slow-rank,rank=3,factor=1.5 && "$argus" analyze -q job &&
    is $V "ranks" "[]"
'

test_expect_success 'one rank of eight is no comparison' '
    make_job 8 && rm job/rank-0000[1-7].h5 && "$argus" analyze -q job &&
    is $V "v[\"verdict\"], v[\"subkind\"]" "('\''insufficient-data'\'', '\''ranks'\'')"
'

test_expect_success 'a rank that is there twice counts once' '
    make_job 4 && cp job/rank-00002.h5 job/rank-00009.h5 && "$argus" analyze -q job &&
    is $V "v[\"verdict\"], any(\"two timelines\" in n for n in v[\"data_quality\"][\"notes\"])" "('\''ok'\'', True)"
'

test_expect_success 'too few steps: says so' '
    make_job 4 steps=12 slow-rank,rank=1,factor=2 && "$argus" analyze -q job &&
    is $V "v[\"verdict\"], ranks, v[\"subkind\"]" "('\''insufficient-data'\'', [], '\''comparable steps'\'')"
'

test_expect_success '... and --steps may make them few' '
    make_job 4 slow-rank,rank=1,factor=2 && "$argus" analyze -q --steps 10:20 job &&
    is $V "v[\"verdict\"]" insufficient-data &&
    "$argus" analyze -q --steps 10: job && is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [1])"
'

test_expect_success 'a truncated timeline costs one rank' '
    make_job 8 slow-rank,rank=3,factor=1.3 &&
    dd if=/dev/null of=job/rank-00006.h5 bs=1 seek=3000 2>/dev/null &&
    "$argus" analyze -q job &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [3])" &&
    is $V "6 in v[\"data_quality\"][\"ranks_missing\"] or any(\"rank-00006\" in n for n in v[\"data_quality\"][\"notes\"])" True
'

# lie FILE WHAT...: change a timeline with h5py; f is the file, set(dataset, member, row, value)
cat >lie.py <<'EOF'
import sys
import h5py
import numpy as np

def set(dataset, member, row, value):
    rows = f[dataset][:]
    rows[member][row] = value
    f[dataset][:] = rows

with h5py.File(sys.argv[1], "r+") as f:
    exec(sys.argv[2])
EOF
lie() {
    "$python" lie.py job/rank-0000$1.h5 "$2"
}

test_expect_success H5PY 'a world that no job has costs one rank, not the memory' '
    make_job 8 slow-rank,rank=3,factor=1.3 &&
    lie 6 "f.attrs.modify(\"world\", np.int32(2**31 - 1))" &&
    "$argus" analyze -q job && is $V "v[\"verdict\"], ranks, v[\"job\"][\"ranks\"]" "('\''compute-straggler'\'', [3], 8)" &&
    is $V "any(\"rank-00006.h5\" in n and \"world\" in n for n in v[\"data_quality\"][\"notes\"])" True
'

test_expect_success H5PY 'times and numbers of steps that cannot be: the file and the dataset are named, one rank less' '
    for what in "set(\"steps\", \"start\", 9, -2**63)" "set(\"steps\", \"end\", 9, 2**63 - 1)" \
        "set(\"clusters\", \"last_step\", 0, 2**31 - 1)" "set(\"step_comm\", \"sum\", 5, -2**63)"; do
        make_job 8 slow-rank,rank=3,factor=1.3 && lie 6 "$what" && "$argus" analyze -q job &&
        is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [3])" &&
        is $V "any(\"rank-00006.h5\" in n and \"out of range\" in n for n in v[\"data_quality\"][\"notes\"])" True ||
            return 1
    done &&
    make_job 8 slow-rank,rank=3,factor=1.3 && lie 6 "set(\"steps\", \"step\", slice(None), 2**30 - 1)" &&
    "$argus" analyze -q job && is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [3])" &&
    is $V "any(\"rank-00006.h5\" in n and \"step numbers\" in n for n in v[\"data_quality\"][\"notes\"])" True
'

test_expect_success H5PY 'a step shorter than its parts blames nobody' '
    for what in idle copy gap comm head_idle; do
        make_job 4 && lie 2 "set(\"steps\", \"$what\", 14, 10**15)" && "$argus" analyze -q job &&
        is $V "v[\"verdict\"], ranks, v[\"findings\"], v[\"data_quality\"][\"invalid\"]" "('\''ok'\'', [], [], 1)" || return 1
    done
'

test_expect_success 'text instead of timelines: a clear line' '
    rm -rf job && mkdir job && echo hello >job/rank-00000.h5 &&
    test_expect_code 1 "$argus" analyze job 2>err && grep "rank-00000.h5" err
'

test_expect_success 'a topology that does not fit is refused' '
    make_job 8 && test_expect_code 1 "$argus" analyze --topology tp=3,pp=2 job 2>err &&
    grep topology err && test_expect_code 2 "$argus" analyze --topology nonsense job 2>err &&
    grep "topology.*nonsense" err && test_expect_code 2 "$argus" analyze --topology xp=2 job 2>err &&
    grep xp err && test_expect_code 2 "$argus" analyze --topology "" job 2>err &&
    grep "topology \"\"" err && test_expect_code 2 "$argus" analyze --topology tp=2,tp=4 job 2>err &&
    grep "tp is given twice" err && test_expect_code 2 "$argus" analyze --topology tp=2, job 2>err &&
    grep "topology.*tp=2," err && test_expect_code 2 "$argus" analyze --missing-nodes "n[7-" job 2>err &&
    grep "missing-nodes.*n\[7-" err && test $(wc -l <err) = 1
'

test_expect_success 'a topology that fits is taken' '
    "$argus" analyze -q --topology tp=2,pp=2,dp=2 job &&
    is $V "v[\"topology\"][\"tp\"], v[\"topology\"][\"pp\"], v[\"topology\"][\"source\"]" "(2, 2, '\''option'\'')"
'

test_expect_success 'keys of step.json decide: the same fault above and below info' '
    make_job 8 slow-rank,rank=3,factor=1.05 && "$argus" analyze -q job &&
    is $V "v[\"verdict\"]" compute-straggler &&
    echo "{\"keys\":{\"info\":1.2,\"warn\":1.3,\"critical\":1.5}}" >job/step.json &&
    "$argus" analyze -q job && is $V "v[\"verdict\"]" ok &&
    is $V "[f[\"severity\"] for f in v[\"findings\"]]" "['\''none'\'']" &&
    echo "{\"info\":" >job/step.json && "$argus" analyze -q job &&
    is $V "any(\"step.json\" in n for n in v[\"data_quality\"][\"notes\"])" True
'

test_expect_success 'several steps: the costliest is the job, the others are listed' '
    rm -rf job && mkdir job && "$ARGUS_BUILDDIR/testjob" job/step-0 4 &&
    "$ARGUS_BUILDDIR/testjob" job/step-1 4 slow-rank,rank=1,factor=1.4 &&
    "$argus" analyze -q --missing-nodes "n[7-8]" job &&
    is $V "v[\"verdict\"], ranks, [s[\"verdict\"] for s in v[\"steps\"]]" "('\''compute-straggler'\'', [1], ['\''ok'\'', '\''compute-straggler'\''])" &&
    is $V "v[\"data_quality\"][\"nodes_missing\"]" "['\''n7'\'', '\''n8'\'']" &&
    test -f job/step-0/verdict.json
'

test_expect_success 'the comment on standard output is one line of its grammar' '
    "$argus" analyze --quiet --comment - job >line && test $(wc -l <line) = 1 &&
    grep "^argus:1 compute-straggler [a-z]* rank=1 " line
'

# Nothing can replace a directory by a file, not even root.
for file in report.html report.txt verdict.json step-0/verdict.json; do
    test_expect_success "$file cannot be written: the line comes all the same, and an error names the file" '
        rm -f job/verdict.json job/report.* job/step-*/verdict.json && mkdir job/$file &&
        test_expect_code 1 "$argus" analyze --quiet --comment - job >again 2>err &&
        test_cmp line again && test $(wc -l <err) = 1 && grep "job/$file: cannot be written" err &&
        test -z "$(find job -name "*.tmp")" && test_expect_code 1 "$argus" analyze \
            --exit-code --json out.json --comment comment job >out 2>err &&
        test $(wc -l <err) = 1 && grep "^argus:1 compute-straggler" out && test_cmp line comment &&
        is out.json "v[\"verdict\"]" compute-straggler && rmdir job/$file
    '
done

test_expect_success 'what --json cannot write keeps no line back either' '
    test_expect_code 1 "$argus" analyze --quiet --json nowhere/x --comment - job >again 2>err &&
    test_cmp line again && test $(wc -l <err) = 1 && grep nowhere/x err
'

# The signal of a file grown too large would end it with the page half written.
test_expect_success 'a page larger than a file may be: an error, the line, no half of it' '
    rm -f job/report.html && size=$(stat -c %s job/verdict.json) &&
    test_expect_code 1 sh -c "ulimit -f $((size / 512 + 4)); exec \"\$@\"" sh \
        "$argus" analyze --quiet --comment - job >again 2>err &&
    test_cmp line again && grep "report.*: cannot be written: File too large" err &&
    test -z "$(find job -name "*.tmp")" && ! test -e job/report.html
'

test_expect_success 'JSON on standard output, nothing written' '
    rm job/verdict.json && "$argus" analyze --no-write --json - job >out.json &&
    is out.json "v[\"schema\"]" argus-verdict/1 && ! test -e job/verdict.json
'

test_done
