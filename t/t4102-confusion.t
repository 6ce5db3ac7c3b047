#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='causes that look alike, told apart'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/verdict.sh"

if ! "$python" -c 'import json'; then
    skip_all='no python3 to read verdicts with'
    test_done
fi
V=job/verdict.json

test_expect_success 'late inside backward by slow kernels' '
    chain 4 --slow-kernel "1:*bwd*:1.6" &&
    is $V "v[\"verdict\"], ranks, v[\"phase\"]" "('\''compute-straggler'\'', [1], '\''backward'\'')"
'

test_expect_success '... or by the host' '
    chain 4 --host-stall 1:200ms &&
    is $V "v[\"verdict\"], ranks" "('\''host-stall'\'', [1])"
'

test_expect_success 'a small shift of one GPU in a pipeline: the rank and its onset' '
    chain 8 --pp 2 --tp 2 --layers 24 --steps 120 --noise 0.5 --slow-rank 1:1.08@60 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [1])" &&
    is $V "abs(v[\"onset_step\"] - 60) <= 5" True
'

test_expect_success '... and one that costs under 3 % is a finding, no verdict' '
    chain 8 --pp 2 --tp 2 --layers 24 --steps 120 --noise 0.5 --slow-rank 1:1.05@60 &&
    is $V "v[\"verdict\"], ranks" "('\''ok'\'', [])" &&
    is $V "[(f[\"verdict\"], f[\"culprits\"][0][\"rank\"]) for f in v[\"findings\"]]" "[('\''compute-straggler'\'', 1)]"
'

test_expect_success 'one slow rank of the last stage is no long stage' '
    chain 8 --pp 2 --slow-rank 6:1.4 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [6])"
'

test_expect_success 'a long last stage is no slow rank' '
    chain 8 --pp 2 --slow-stage 1:1.4 &&
    is $V "v[\"verdict\"], v[\"stage\"], ranks" "('\''pipeline-imbalance'\'', 1, [])"
'

test_expect_success 'longer sequences that move are no slow rank' '
    chain 8 --imbalance rotate:1.4 &&
    is $V "v[\"verdict\"], v[\"pattern\"], ranks" "('\''workload-imbalance'\'', '\''rotating'\'', [])"
'

test_expect_success 'longer sequences that stay are no slow rank either' '
    chain 8 --imbalance 3:1.4 &&
    is $V "v[\"verdict\"], ranks" "('\''workload-imbalance'\'', [3])"
'

test_expect_success 'hot experts move, bad GPUs stay' '
    chain 8 --ep 4 --moe-hot rotate:2.5 &&
    is $V "v[\"verdict\"], ranks" "('\''moe-imbalance'\'', [])"
'

test_expect_success 'compiling in the first step is no fault' '
    chain 8 --jit 2:900ms@0 &&
    is $V "v[\"verdict\"]" ok
'

test_expect_success 'copies from the host are no stall of it' '
    chain 8 --copy-bound 80ms &&
    is $V "v[\"verdict\"], v[\"subkind\"], ranks" "('\''uniform-slowdown'\'', '\''copy-bound'\'', [])"
'

test_expect_success 'collectives that compute hides and slows are no slow link' '
    chain 8 --buckets 12 --bucket-mb 200 &&
    is $V "v[\"verdict\"]" ok
'

test_expect_success 'groups of unlike shape are not compared' '
    RPN=3 && chain 12 --tp 2 && RPN= &&
    is $V "v[\"verdict\"]" ok
'

test_expect_success 'clocks that are 20 ms apart blame nobody' '
    RPN=4 && chain 8 --clock-offset node1:20 && RPN= &&
    is $V "v[\"verdict\"], v[\"findings\"]" "('\''ok'\'', [])"
'

test_expect_success '... and hide nobody' '
    RPN=4 && chain 8 --clock-offset node1:20 --slow-rank 5:1.2 && RPN= &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [5])"
'

test_expect_success 'rotating stalls are one finding, not eight ranks' '
    chain 8 --host-stall rotate:250ms@every3 &&
    is $V "v[\"verdict\"], v[\"pattern\"]" "('\''host-stall'\'', '\''rotating'\'')"
'

test_expect_success 'memory allocation is told from other stalls' '
    chain 8 --alloc-stall 2:40ms@every2 &&
    is $V "v[\"verdict\"], ranks" "('\''allocator-stall'\'', [2])"
'

test_expect_success 'an episode that ended keeps its verdict and says when' '
    chain 8 --slow-rank 2:1.5@20-40 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [2])" &&
    is $V "abs(v[\"onset_step\"] - 20) <= 2, abs(v[\"recovered_step\"] - 41) <= 2" "(True, True)"
'

test_expect_success 'two ranks cannot tell which of them is slow' '
    chain 2 --slow-rank 1:1.3 &&
    is $V "v[\"verdict\"], ranks" "('\''split'\'', [])"
'

test_expect_success '... unless one of them was as fast before' '
    chain 2 --slow-rank 1:1.3@30 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [1])" &&
    is $V "abs(v[\"onset_step\"] - 30) <= 2" True
'

test_done
