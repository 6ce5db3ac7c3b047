#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='What the clusters say of the durations that went into them

mode=full keeps every event beside the clusters: counts and sums must be equal,
and the log-normal mixture of a class must come within 2 % of its median (W1)
for 95 % of the classes.  Simulated jobs and recorded ones.'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
simtrain=$ARGUS_BUILDDIR/contrib/simgpu/simtrain
ringgen=$ARGUS_BUILDDIR/collector/record/ringgen
record=$ARGUS_BUILDDIR/argus-record
python=${ARGUS_PYTHON:-python3}
data=${ARGUS_TEST_DATA:-$ARGUS_SRCDIR/../shared/data}
ARGUS_LIBEXECDIR=$ARGUS_BUILDDIR
ARGUS_LIBDIR=$ARGUS_BUILDDIR/.libs
export ARGUS_LIBEXECDIR ARGUS_LIBDIR
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH RANK WORLD_SIZE

if ! "$python" -c 'import h5py, numpy' 2>/dev/null; then
    skip_all='h5py and numpy are not installed'
    test_done
fi

cat >fidelity.py <<'EOS'
import sys
import h5py
import numpy as np
from statistics import NormalDist

def check(path):
    f = h5py.File(path, "r")
    ev, cl = f["events"][:], f["clusters"][:]
    steps = f["steps"][:]
    assert len(ev) and len(cl), "no rows"
    if cl["count"].sum() != len(ev) or cl["sum"].sum() != ev["duration"].sum():
        sys.exit("%s: clusters %d, %d ns; events %d, %d ns" % (path, cl["count"].sum(),
                 cl["sum"].sum(), len(ev), ev["duration"].sum()))
    good = total = 0
    worst = []
    for first, last, c in sorted({(r["first_step"], r["last_step"], r["class_id"]) for r in cl}):
        rows = cl[(cl["first_step"] == first) & (cl["last_step"] == last) & (cl["class_id"] == c)]
        x = np.sort(ev["duration"][(ev["class_id"] == c) & (ev["step"] >= first)
                                   & (ev["step"] <= last)]).astype(float)
        assert rows["count"].sum() == len(x), (first, last, c)
        assert rows["sum"].sum() == x.sum(), (first, last, c)
        assert (rows["clusters"] == len(rows)).all()
        if len(x) < 20 or first < 0:
            continue
        # quantiles of the mixture, cluster by cluster: they do not overlap by more than their tails
        q = []
        for r in rows:
            n = int(r["count"])
            p50, p99 = max(float(r["p50"]), 1.0), max(float(r["p99"]), 1.0)
            sigma = max(np.log(p99 / p50), 0.0) / 2.3263479
            z = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
            q.append(p50 * np.exp(sigma * z))
        w1 = np.abs(np.sort(np.concatenate(q)) - x).mean() / max(np.median(x), 1.0)
        total += 1
        good += w1 <= 0.02
        worst.append((w1, int(c)))
    worst.sort(reverse=True)
    print("%s: %d of %d classes and windows within 2 %%, %d steps, %d events, worst %s"
          % (path, good, total, len(steps), len(ev), ["%.3f" % w for w, _ in worst[:3]]))
    return good, total

good = total = 0
for path in sys.argv[1:]:
    g, t = check(path)
    good += g
    total += t
if good < 0.95 * total:
    sys.exit("%d of %d" % (good, total))
EOS

test_expect_success 'simulated training, tensor and pipeline parallel' '
    "$argus" run -n 4 -r 2 -m full -d tp --no-report -- "$simtrain" --quiet --steps 70 --tp 2 --pp 2 \
        --microbatches 2 &&
    "$python" fidelity.py tp/step-0/rank-0000[0-3].h5
'

test_expect_success 'simulated training with a slow rank and noise' '
    "$argus" run -n 4 -r 2 -m full -d noisy --no-report -- "$simtrain" --quiet --steps 70 --noise 3 \
        --slow-rank 1:1.3@30 &&
    "$python" fidelity.py noisy/step-0/rank-0000[0-3].h5
'

test_expect_success 'generated records of a mixture of experts' '
    mkdir spool &&
    printf "version=1\njob=7\nstep=0\nnode=here\nnodeid=0\nnnodes=1\nntasks=1\ndir=%s\nmode=full\n" \
        "$PWD/moe" >spool/step.conf &&
    "$ringgen" "$PWD/spool" 0 moe 500 100 0 262144 &&
    "$record" --drain spool &&
    "$python" fidelity.py moe/step-0/rank-00000.h5
'

test -f "$data/slow-worker/rank-0.json.gz" && test_set_prereq DATA

test_expect_success DATA 'a recorded job, imported: counts and sums' '
    "$argus" import kineto "$data"/slow-worker/rank-0.json.gz "$data"/slow-worker/rank-4.json.gz \
        -o slow &&
    find slow -name "rank-*.h5" | while read file; do
        "$python" fidelity.py "$file" || true
    done >out 2>&1 &&
    cat out && ! grep "ns; events" out
'

# Every event is in an imported timeline, and the clusters and steps that the
# summary made of the same events: the copy keeps those alone.
cat >strip.py <<'EOS'
import glob, shutil, sys
import h5py

shutil.copytree(sys.argv[1], sys.argv[2], ignore=shutil.ignore_patterns("verdict*", "report*"))
paths = glob.glob(sys.argv[2] + "/step-*/rank-*.h5")
assert paths
for path in paths:
    with h5py.File(path, "r+") as f:
        assert len(f["events"]) and len(f["clusters"]) and len(f["steps"]), path
        f["events"].resize(0, axis=0)
EOS
cat >judge.py <<'EOS'
import json, sys

v = json.load(open(sys.argv[1] + "/verdict.json"))
print(v["verdict"], v["severity"], [c["rank"] for c in v["culprits"]], v["onset_step"], v["topology"])
EOS

# same_verdict DIR: with the events and without
same_verdict() {
    "$python" strip.py $1 $1-summary && for job in $1 $1-summary; do
        "$argus" analyze -q $job && "$python" judge.py $job >$job.verdict || return 1
    done &&
    cat $1.verdict && test_cmp $1.verdict $1-summary.verdict
}

test_expect_success DATA 'recorded job of 64 GPUs: the verdict of the summary alone is that of every event' '
    "$argus" import kineto -q "$data"/slow-worker/*.json.gz -o worker &&
    same_verdict worker && grep "^compute-straggler critical \[0\]" worker.verdict
'

test_expect_success DATA 'recorded jobs without a culprit: the same' '
    mkdir dlrm.in && tar -xzf "$data"/dlrm/dlrm_kineto.tar.gz -C dlrm.in &&
    "$argus" import kineto -q dlrm.in/*/*.json -o dlrm && same_verdict dlrm &&
    for trace in h100_2gpu_1s mfu_2gpu_before; do
        "$argus" import nsys -q "$data"/nsys/$trace.sqlite.gz -o $trace && same_verdict $trace || return 1
    done
'

test_done
