#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='What the clusters say of the durations that went into them

mode=full keeps every event beside the clusters: counts and sums must be equal,
and the log-normal mixture of a class must come within 2 % of its median (W1)
for 95 % of the classes of each job, simulated or recorded.  And the verdict
must not hang on the events that a summary does not keep.'

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

test_expect_success DATA 'recorded jobs' '
    "$argus" import kineto -q "$data"/slow-worker/*.json.gz -o worker &&
    "$python" fidelity.py worker/step-0/rank-*.h5 &&
    mkdir dlrm.in && tar -xzf "$data"/dlrm/dlrm_kineto.tar.gz -C dlrm.in &&
    "$argus" import kineto -q dlrm.in/*/*.json -o dlrm &&
    "$python" fidelity.py dlrm/step-0/rank-*.h5 &&
    for trace in h100_2gpu_1s mfu_2gpu_before; do
        "$argus" import nsys -q "$data"/nsys/$trace.sqlite.gz -o $trace &&
        "$python" fidelity.py $trace/step-0/rank-*.h5 || return 1
    done
'

# Every event is in an imported timeline, and the clusters and steps that the
# summary made of the same events.  strip.py IN OUT FIRST LAST WINDOW: the copy
# has the events of steps FIRST to LAST and of one in WINDOW alone.
cat >strip.py <<'EOS'
import glob, shutil, sys
import h5py
import numpy as np

KEPT = np.uint32(4)
source, to = sys.argv[1:3]
first, last, window = map(int, sys.argv[3:])

def kept(step):
    return ((step >= first) & (step <= last)) | (step % window == window - 1)

shutil.copytree(source, to, ignore=shutil.ignore_patterns("verdict*", "report*"))
paths = glob.glob(to + "/step-*/rank-*.h5")
assert paths
for path in paths:
    with h5py.File(path, "r+") as f:
        events, steps = f["events"][:], f["steps"][:]
        assert len(events) and len(f["clusters"]) and len(steps), path
        steps["flags"] = np.where(kept(steps["step"]), steps["flags"] | KEPT,
                                  steps["flags"] & ~KEPT)
        f["steps"][:] = steps
        events = events[(events["step"] >= 0) & kept(events["step"])]
        f["events"].resize(len(events), axis=0)
        f["events"][:] = events
EOS
cat >judge.py <<'EOS'
import json, sys

v = json.load(open(sys.argv[1] + "/verdict.json"))
print(v["verdict"], v["severity"], [c["rank"] for c in v["culprits"]], v["onset_step"], v["topology"])
for f in v["findings"]:
    if f["severity"] in sys.argv[2:]:
        print(f["verdict"], f["severity"], [c["rank"] for c in f["culprits"]])
EOS
cat >slowdown.py <<'EOS'
import json, sys

a, b = [json.load(open(p + "/verdict.json"))["slowdown"] for p in sys.argv[1:3]]
print(a, b)
sys.exit((a is None) != (b is None) or (a is not None and abs(a / b - 1) > float(sys.argv[3])))
EOS

# same_verdict DIR: of every event; as mode=summary keeps them, two steps after the warm-up and one in
# 64; of steps and clusters alone, where a finding of no weight may be left that the events explain
same_verdict() {
    "$python" strip.py $1 $1-summary 3 4 64 && "$python" strip.py $1 $1-bare 1 0 1000000 &&
    for job in $1 $1-summary $1-bare; do
        "$argus" analyze -q $job && "$python" judge.py $job none info warn critical >$job.all &&
        "$python" judge.py $job warn critical >$job.verdict || return 1
    done &&
    cat $1.all && test_cmp $1.all $1-summary.all && test_cmp $1.verdict $1-bare.verdict &&
    "$python" slowdown.py $1 $1-summary 0.02 && "$python" slowdown.py $1 $1-bare 0.15
}

test_expect_success DATA 'recorded job of 64 GPUs: the verdict of the summary is that of every event' '
    same_verdict worker && grep "^compute-straggler critical \[0\]" worker.verdict
'

test_expect_success DATA 'recorded jobs without a culprit: the same' '
    for job in dlrm h100_2gpu_1s mfu_2gpu_before; do
        same_verdict $job || return 1
    done
'

test_done
