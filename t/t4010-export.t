#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus export: Perfetto traces and Prometheus metrics'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
python=${ARGUS_PYTHON:-python3}

"$python" -c 'import json' 2>/dev/null && test_set_prereq PYTHON
command -v promtool >/dev/null && test_set_prereq PROMTOOL

# Four ranks, 30 steps of 10 ms: a matrix product, then an all-reduce that all
# leave together.  Rank 2 computes 2 ms longer; the clock of rank 3 is 1 ms ahead.
trace() {
    awk -v r="$1" 'BEGIN {
        printf "{\"distributedInfo\":{\"rank\":%d,\"world_size\":4},\"traceEvents\":[", r
        for (s = 0; s < 30; s++) {
            t = s * 10000 + (r == 3 ? 1000 : 0) + 1000000; c = 4000 + (r == 2 ? 2000 : 0) + r
            printf "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"tid\":1,\"ts\":%d,\"dur\":10000},",
                s ? "," : "", s, t
            printf "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm \\\"quoted\\\" \\u00e9\",\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"stream\":7,\"grid\":[8,1,1],\"block\":[256,1,1]}},",
                t, c
            printf "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\",\"tid\":9,\"ts\":%d,\"dur\":%d,\"args\":{\"stream\":9,\"Collective name\":\"allreduce\",\"In msg nelems\":1000000,\"Out msg nelems\":1000000,\"dtype\":\"Float\",\"Group size\":4,\"Process Group Name\":\"dp\",\"Process Group Ranks\":\"[0, 1, 2, 3]\"}}",
                t + c, 8000 - c
        }
        print "]}" }'
}

test_expect_success 'a job is made' '
    for r in 0 1 2 3; do trace $r >rank-$r.json || return 1; done &&
    "$argus" import kineto rank-*.json -o job
'

test_expect_success 'its trace is written, whole, without a temporary file' '
    mkdir out && "$argus" export perfetto job -o out/trace.json &&
    test "$(ls out)" = trace.json &&
    "$argus" export perfetto job >stdout.json && cmp out/trace.json stdout.json
'

cat >check.py <<'PY'
import json, sys
trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
slices = {}
for e in events:
    assert e["ph"] in "MXCsf", e
    assert isinstance(e["pid"], int)
    if e["ph"] == "X":
        assert e["dur"] >= 0 and e["name"]
        slices.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
# slices of a track nest or follow each other
for track in slices.values():
    stack = []
    for start, end, name in sorted(track, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1] <= start + 0.0011:
            stack.pop()
        assert not stack or end <= stack[-1] + 0.0011, (start, end, name)
        stack.append(end)
# both ends of an arrow are inside a slice, and it points forward
flows = {}
for e in events:
    if e["ph"] in "sf":
        flows.setdefault(e["id"], {})[e["ph"]] = e
        assert any(s - 0.001 <= e["ts"] <= t + 0.001 for s, t, _ in slices[(e["pid"], e["tid"])]), e
for f in flows.values():
    assert set(f) == {"s", "f"} and f["f"]["ts"] >= f["s"]["ts"] and f["f"]["bp"] == "e"
named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
assert set(slices) <= named
PY

test_expect_success PYTHON 'the trace is what the format asks for' '
    "$python" check.py out/trace.json
'

test_expect_success PYTHON 'clocks are aligned, arrows lead from the rank that comes last' '
    cat >known.py <<-PY &&
	import json
	t = json.load(open("out/trace.json"))
	o = {k: int(v) for k, v in t["otherData"].items()}
	off = [o["clock_offset_ns_rank_%d" % r] for r in range(4)]
	assert all(abs(off[0] - off[r]) < 100 for r in (1, 2)), off
	assert abs(off[0] - off[3] - 1000000) < 100, off
	assert o["clock_calls"] == 30 and o["clock_residual_ns"] < 100, o
	arrows = [e for e in t["traceEvents"] if e["ph"] == "s"]
	assert len(arrows) == 90 and {e["pid"] for e in arrows} == {2}, len(arrows)
	ends = [e["pid"] for e in t["traceEvents"] if e["ph"] == "f"]
	assert [ends.count(r) for r in range(4)] == [30, 30, 0, 30], ends
	busbw = [e["args"]["value"] for e in t["traceEvents"] if e["ph"] == "C" and "busbw dp" in e["name"]]
	want = 4e6 / (8000 - 6002) / 1e3 * 2 * 3 / 4
	assert len(busbw) == 30 and all(abs(b - want) < 0.01 for b in busbw), (busbw[:3], want)
	x = [e for e in t["traceEvents"] if e["ph"] == "X" and e["name"].startswith("gemm")]
	assert x[0]["name"] == "gemm \"quoted\" \u00e9" and x[0]["args"]["grid"] == "8x1x1", x[0]
	PY
    "$python" known.py
'

test_expect_success PYTHON 'steps and ranks are chosen' '
    "$argus" export perfetto job --steps 10:12 --ranks 0,2-3 -o some.json &&
    "$python" check.py some.json &&
    "$python" -c "
import json
e = json.load(open(\"some.json\"))[\"traceEvents\"]
x = [i for i in e if i[\"ph\"] == \"X\"]
assert {i[\"pid\"] for i in x} == {0, 2, 3}
assert {i[\"args\"][\"step\"] for i in x if \"step\" in i[\"args\"]} == {10, 11, 12}
assert sorted(i[\"name\"] for i in x if i[\"name\"].startswith(\"step \") and i[\"pid\"] == 0) == [\"step 10\", \"step 11\", \"step 12\"]
"
'

test_expect_success PYTHON 'names in any encoding give valid JSON' '
    printf "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\\377\\300\\257b\",\"tid\":7,\"ts\":1,\"dur\":2}]}" \
        >odd.json &&
    "$argus" import kineto odd.json -o odd && "$argus" export perfetto odd -o odd.trace &&
    "$python" check.py odd.trace
'

test_expect_success 'without a verdict there are no metrics' '
    test_expect_code 1 "$argus" export prometheus job 2>err &&
    grep "no verdict yet; run argus analyze first" err && test "$(wc -l <err)" = 1
'

test_expect_success 'metrics: names, help and type once, then samples; no sample twice' '
    "$argus" analyze job --quiet >/dev/null 2>&1;
    "$argus" export prometheus job -o out/argus.prom && test -z "$(ls out | grep prom\\.)" &&
    awk "/^# HELP /{ if (\$3 in help) exit 1; help[\$3]; next }
         /^# TYPE /{ if (!(\$3 in help) || \$4 != \"gauge\") exit 1; name = \$3; next }
         { split(\$0, a, \"{\"); if (a[1] != name || seen[\$1]++) exit 1; n++ }
         END { exit n < 10 }" out/argus.prom &&
    ! grep -vE "^#|^argus_(job|node)_[a-z_]+\{[a-z_]+=\"[^\"]*\"(,[a-z_]+=\"[^\"]*\")*\} -?[0-9.e+-]+$" out/argus.prom &&
    grep "^argus_job_training_steps{job_id=\"\",step=\"0\"} 30$" out/argus.prom &&
    grep "^argus_job_training_step_duration_seconds{.*} 0.01$" out/argus.prom
'

test_expect_success 'what is no file is written to, not replaced by one' '
    mkfifo pipe && { cat pipe >through & } && reader=$! &&
    "$argus" export prometheus job -o pipe && wait $reader &&
    test -p pipe && cmp through out/argus.prom
'

test_expect_success 'metrics of a verdict whose timelines are gone' '
    mkdir gone && cp job/verdict.json gone/ &&
    "$argus" export prometheus gone >gone.prom && grep "^argus_job_info" gone.prom
'

test_expect_success PROMTOOL 'promtool has nothing to say' '
    promtool check metrics <out/argus.prom
'

test_expect_success PYTHON 'the dashboard shows metrics that exist' '
    sed -n "s/.*{\"\(argus_[a-z_]*\)\".*/\1/p" "$ARGUS_SRCDIR/analyzer/report/prometheus.c" >metrics &&
    "$python" -c "
import json, re, sys
text = open(sys.argv[1]).read(); json.loads(text)
known = set(open(\"metrics\").read().split())
used = set(re.findall(r\"argus_(?:job|node)_[a-z_]+\", text))
assert used and used <= known, used - known
" "$ARGUS_SRCDIR/contrib/grafana/argus.json"
'

test_expect_success PYTHON 'a timeline that does not open costs its rank, and is told' '
    cp -r job torn && head -c 2000 job/step-0/rank-00001.h5 >torn/step-0/rank-00001.h5 &&
    "$argus" export perfetto torn -o torn.json 2>err && test "$(wc -l <err)" = 1 &&
    grep "^argus export: left out: torn/step-0/rank-00001.h5: " err &&
    "$python" - torn.json <<-\PY &&
	import json, sys
	pids = {e["pid"] for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"}
	assert pids == {0, 2, 3}, pids
	PY
    for r in 0 2 3; do : >torn/step-0/rank-0000$r.h5 || return 1; done &&
    test_expect_code 1 "$argus" export perfetto torn -o never 2>err && test ! -e never &&
    tail -n 1 err | grep "torn/step-0: no timeline can be read"
'

test_expect_success 'errors: one line, exit status 1; nothing is written' '
    for what in "perfetto missing" "prometheus missing" "perfetto out" "perfetto job --steps 900:" \
                "perfetto job --ranks 77" "perfetto job --step 9"; do
        test_expect_code 1 "$argus" export $what -o never 2>err && test "$(wc -l <err)" = 1 &&
        test ! -e never && ! ls never.* 2>/dev/null || return 1
    done &&
    test_expect_code 1 "$argus" export perfetto job -o /nonexistent/x 2>err && grep "/nonexistent/x" err
'

test_expect_success 'usage errors: exit status 2' '
    for what in "" "gif job" "perfetto" "perfetto job job" "perfetto job --steps 5:2" \
                "perfetto job --steps x" "perfetto job --ranks 3-1" "perfetto job --ranks 1,,2" \
                "perfetto job --ranks" "perfetto job --none" "prometheus job --steps 1:2" \
                "prometheus job --ranks 0" "prometheus job --step 0" "prometheus job --steps :9"; do
        test_expect_code 2 "$argus" export $what 2>err || { echo "$what"; return 1; }
    done &&
    "$argus" export --help | grep "Usage: argus export"
'

test_expect_success 'where there is no room the output is named, once' '
    test -c /dev/full || return 0
    for format in perfetto prometheus; do
        "$argus" analyze job --quiet >/dev/null 2>&1;
        test_expect_code 1 "$argus" export $format job -o /dev/full 2>err &&
        test $(wc -l <err) = 1 && grep "/dev/full: cannot write" err &&
        test_expect_code 1 "$argus" export $format job >/dev/full 2>err &&
        test $(wc -l <err) = 1 && grep "standard output: cannot write" err || return 1
    done
'

test_done
