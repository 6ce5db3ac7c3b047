#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='recorded traces of other people: the known answers'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/verdict.sh"

data=$ARGUS_TEST_DATA
if ! test -d "$data"; then
    skip_all="no recorded data at $data"
    test_done
fi
if ! "$python" -c 'import json'; then
    skip_all='no python3 to read verdicts with'
    test_done
fi

test_expect_success 'slow-worker: rank 0 alone, S within 5 % of the published 1.973' '
    "$argus" import kineto -q -o sw "$data"/slow-worker/*.json.gz &&
    "$argus" analyze -q sw &&
    is sw/verdict.json "v[\"verdict\"], v[\"severity\"], ranks" "('\''compute-straggler'\'', '\''critical'\'', [0])" &&
    is sw/verdict.json "abs(v[\"slowdown\"] / 1.973 - 1) < 0.05" True &&
    is sw/verdict.json "v[\"findings\"]" "[]"
'

test_expect_success 'slow-worker: forward 2.5 and backward 2.3 times as long, in all steps' '
    is sw/verdict.json "2.2 < evidence(\"compute_ratio\", 0)[0] < 2.5" True &&
    is sw/verdict.json "v[\"pattern\"], v[\"onset_step\"]" "('\''persistent'\'', None)" &&
    is sw/verdict.json "v[\"topology\"][\"pp\"], v[\"topology\"][\"dp\"], v[\"topology\"][\"tp\"]" "(4, 4, 4)"
'

test_expect_success 'slow-worker: what others wait for is explained, not found' '
    is sw/verdict.json "any(\"receive pp\" in x for x in v[\"explained\"])" True &&
    is sw/verdict.json "any(\"reduce_scatter dp\" in x for x in v[\"explained\"])" True
'

test_expect_success 'slow-worker: --exit-code says 3' '
    test_expect_code 3 "$argus" analyze -q --exit-code --no-write sw
'

test_expect_success 'dlrm: one step is no verdict; rank 7 comes last' '
    mkdir dl.in && tar -xzf "$data"/dlrm/dlrm_kineto.tar.gz -C dl.in &&
    "$argus" import kineto -q -o dl dl.in/*/*.json &&
    "$argus" analyze -q dl &&
    is dl/verdict.json "v[\"verdict\"], ranks, v[\"findings\"]" "('\''insufficient-data'\'', [], [])" &&
    is dl/verdict.json "[e[\"rank\"] for e in v[\"evidence\"] if e[\"signal\"] == \"last_arrivals\"]" "[7]" &&
    is dl/verdict.json "evidence(\"last_arrivals\", 7)" "[5.0]" &&
    is dl/verdict.json "7.2 < evidence(\"late_start_ms\", 7)[0] < 7.8" True
'

test_expect_success 'offloaded model: bound by copies, no stall' '
    "$argus" import nsys -q -o h100 "$data"/nsys/h100_2gpu_1s.sqlite.gz &&
    "$argus" analyze -q h100 &&
    is h100/verdict.json "v[\"verdict\"] in (\"insufficient-data\", \"uniform-slowdown\"), ranks" "(True, [])" &&
    is h100/verdict.json "[(f[\"verdict\"], f[\"subkind\"]) for f in v[\"findings\"]]" "[('\''uniform-slowdown'\'', '\''copy-bound'\'')]" &&
    is h100/verdict.json "0.93 < evidence(\"copy_share\")[0] < 0.99" True
'

test_expect_success 'two ranks for 300 ms: no blame, waits within 5 %' '
    "$argus" import nsys -q -o mfu "$data"/nsys/mfu_2gpu_before.sqlite.gz &&
    "$argus" analyze -q mfu &&
    is mfu/verdict.json "v[\"verdict\"] in (\"insufficient-data\", \"split\"), ranks" "(True, [])" &&
    is mfu/verdict.json "abs(evidence(\"collective_wait_ms\", 0)[0] / 10.9 - 1) < 0.05" True &&
    is mfu/verdict.json "abs(evidence(\"collective_wait_ms\", 1)[0] / 2.5 - 1) < 0.05" True &&
    is mfu/verdict.json "evidence(\"last_arrivals\", 1)" "[22.0]"
'

test_done
