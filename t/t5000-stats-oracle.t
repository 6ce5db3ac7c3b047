#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='densities and distances against scipy'

. /usr/share/sharness/sharness.sh

python=${ARGUS_PYTHON:-python3}
if ! "$python" -c 'import numpy, scipy.stats' 2>/dev/null; then
    skip_all='numpy and scipy are not importable by ${ARGUS_PYTHON:-python3}'
    test_done
fi

cat >oracle.py <<'PY'
import subprocess, sys
import numpy as np
from scipy.stats import gaussian_kde, wasserstein_distance

rng = np.random.default_rng(20)
requests, checks = [], []


def text(x):
    return " ".join(repr(float(v)) for v in x)


def want_kde(x, h):
    lo, hi, grid = x.min() - 5 * h, x.max() + 5 * h, 1024
    requests.append(f"kde {text((h, lo, hi))} {grid} {text(x)}")
    reference = gaussian_kde(x, bw_method=h / x.std(ddof=1))(np.linspace(lo, hi, grid))
    # Linear binning moves mass by up to half a cell: an error of second order in cell/bandwidth.
    cell = (hi - lo) / (grid - 1)
    limit = 0.5 * (cell / h) ** 2 * reference.max() + 1e-9
    checks.append(lambda line: np.abs(np.array(line.split(), float) - reference).max() <= limit)


def want_w1(x, y, wx=None, wy=None):
    if wx is None:
        requests.append(f"w1 {len(x)} {text(x)} {len(y)} {text(y)}")
    else:
        pairs = [" ".join(f"{float(a)!r} {float(b)!r}" for a, b in zip(u, w)) for u, w in ((x, wx), (y, wy))]
        requests.append(f"w1w {len(x)} {pairs[0]} {len(y)} {pairs[1]}")
    reference = wasserstein_distance(x, y, wx, wy)
    checks.append(lambda line: abs(float(line) - reference) <= 1e-9 * max(1.0, reference))


if sys.argv[2] == "kde":
    for n in (5, 50, 1000):
        for x in (rng.normal(size=n), np.log(rng.gamma(3, 20, n)), np.r_[rng.normal(size=n), rng.normal(8, 0.5, n)]):
            for h in (0.1, 0.5):
                want_kde(x, h * x.std(ddof=1))
elif sys.argv[2] == "w1":
    for n in (1, 7, 500):
        for m in (1, 9, 321):
            want_w1(rng.lognormal(10, 0.3, n), rng.lognormal(10.1, 0.2, m))
            want_w1(rng.integers(0, 5, n), rng.integers(0, 9, m), rng.random(n) + 0.01, rng.random(m) + 0.01)
else:
    # The modes that two well separated halves have are the halves themselves.
    for n in (30, 300, 3000):
        left, right = rng.lognormal(10, 0.03, n).round(), rng.lognormal(10.7, 0.03, 2 * n).round()
        requests.append("modes " + text(rng.permutation(np.r_[left, right])))
        # Default arguments: each check keeps its own samples.
        checks.append(lambda line, left=left, right=right: [tuple(map(int, m.split(":"))) for m in line.split()]
                      == [(len(s), int(np.floor(np.median(s) + 0.5))) for s in (left, right)])

out = subprocess.run([sys.argv[1]], input="\n".join(requests) + "\n", text=True, stdout=subprocess.PIPE, check=True)
lines = out.stdout.splitlines()
assert len(lines) == len(checks) and checks, (len(lines), len(checks))
bad = [i for i, (line, check) in enumerate(zip(lines, checks)) if not check(line)]
print(f"{len(checks)} compared, {len(bad)} differ")
for i in bad:
    print(requests[i][:200], "->", lines[i][:200])
sys.exit(1 if bad else 0)
PY

for what in kde w1 modes; do
    test_expect_success "$what agrees with scipy" "
        '$python' oracle.py '$ARGUS_BUILDDIR/stats_oracle' $what
    "
done

test_done
