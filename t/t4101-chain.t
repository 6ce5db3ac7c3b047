#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='simulated jobs through collector, recorder and analyzer: cause and culprit'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/verdict.sh"

if ! "$python" -c 'import json'; then
    skip_all='no python3 to read verdicts with'
    test_done
fi
V=job/verdict.json

# ---- five cases of the literature -------------------------------------------

test_expect_success 'compute straggler: that rank, since that step' '
    chain 8 --slow-rank 5:3@20 &&
    is $V "v[\"verdict\"], v[\"severity\"], ranks" "('\''compute-straggler'\'', '\''critical'\'', [5])" &&
    is $V "abs(v[\"onset_step\"] - 20) <= 2" True &&
    is $V "2.5 < v[\"slowdown\"] < 3.1" True
'

# hot UUID [chain argument...]: as chain, with devices that can be asked, one of them hot
hot() {
    (LD_LIBRARY_PATH=$(pwd)/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} && SIMNVML_SLOW=$1 && export LD_LIBRARY_PATH SIMNVML_SLOW && shift && chain "$@")
}

# Devices are asked when the first ranks are seen, for which a job as fast as it goes may be over too soon: these
# take seconds.  On a machine so busy that even that is too soon: again.
test_expect_success 'what the devices say names the cause, and only of whom is blamed' '
    gpu=$(field $V "v[\"culprits\"][0][\"gpu\"]") && mkdir nvml &&
    ln -s "$ARGUS_BUILDDIR/.libs/libsimnvml.so" nvml/libnvidia-ml.so.1 &&
    for try in 1 2 3 4 5 6; do
        hot $gpu 8 --pace 2 --slow-rank 5:3@20 || break
        grep -q gpu_clock_sm_mhz $V && break
    done &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [5])" &&
    is $V "sum(\"likely cause: clocks of rank 5\" in s and \"at 1200 MHz, peers 1980\" in s for s in v[\"explained\"])" 1 &&
    is $V "sum(e[\"signal\"] == \"gpu_clock_sm_mhz\" and e[\"rank\"] == 5 for e in v[\"evidence\"])" 1 &&
    hot $gpu 8 --pace 2 &&
    is $V "v[\"verdict\"], [s for s in v[\"explained\"] if \"clocks\" in s]" "('\''ok'\'', [])"
'

test_expect_success 'silent link: slow from the first step, step time flat' '
    RPN=4 && chain 16 --tp 4 --zero --slow-link rank5:8 && RPN= &&
    is $V "v[\"verdict\"], v[\"onset_step\"]" "('\''slow-link'\'', None)" &&
    is $V "v[\"link\"][\"scope\"], v[\"link\"][\"candidates\"], ranks, nodes, v[\"findings\"]" "('\''gpu'\'', [], [5], ['\''node1'\''], [])"
'

test_expect_success 'the link of one GPU slows its tensor and its data group: that GPU, also where one of them has a single sibling' '
    RPN=4 && chain 16 --tp 4 --slow-link rank9:3 && RPN= &&
    is $V "v[\"verdict\"], v[\"link\"][\"scope\"], ranks, nodes, v[\"findings\"]" "('\''slow-link'\'', '\''gpu'\'', [9], ['\''node2'\''], [])" &&
    RPN=4 && chain 8 --tp 4 --slow-link rank5:3 && RPN= &&
    is $V "v[\"verdict\"], v[\"link\"][\"scope\"], ranks, nodes, v[\"findings\"]" "('\''slow-link'\'', '\''gpu'\'', [5], ['\''node1'\''], [])"
'

test_expect_success 'a slow way to the network: one of a ring; with the proxies listened to, that one' '
    RPN=4 && chain 16 --tp 4 --slow-link 1-5:8 --slow-link 5-9:8 && RPN= &&
    is $V "v[\"verdict\"], len(v[\"link\"][\"candidates\"]), ranks" "('\''slow-link'\'', 4, [])" &&
    RPN=4 && OPTIONS="-o links=on" && chain 16 --tp 4 --slow-link 1-5:8 --slow-link 5-9:8 && RPN= && OPTIONS= &&
    is $V "v[\"verdict\"], v[\"link\"][\"candidates\"], v[\"link\"][\"rank\"], ranks" "('\''slow-link'\'', [], 5, [5])" &&
    is $V "evidence(\"send_wait_us\")[0] > 0" True &&
    grep "Ways between nodes" job/report.html &&
    grep -o "<td>rank [0-9]* on node[0-9]</td><td>rank [0-9]* on node[0-9]</td>" job/report.html | head -n 2 >ways &&
    test $(wc -l <ways) -eq 2 && test $(grep -c "rank 5 on node1" ways) -eq 2
'

test_expect_success 'one ring of all ranks, slow from the first step: its ways against one another where the proxies are listened to' '
    RPN=2 && chain 8 --slow-link 3-4:6 && RPN= && is $V "v[\"verdict\"]" ok &&
    is $V "[n.split(\": \")[0] for n in v[\"data_quality\"][\"notes\"]]" "['\''links between nodes node0, node1, node2 and node3'\'']" &&
    RPN=2 && OPTIONS="-o links=on" && chain 8 --slow-link 3-4:6 && RPN= && OPTIONS= &&
    is $V "v[\"verdict\"], v[\"onset_step\"], v[\"link\"][\"scope\"]" "('\''slow-link'\'', None, '\''pair'\'')" &&
    is $V "sorted([v[\"link\"][\"rank\"], v[\"link\"][\"peer\"]])" "[3, 4]" &&
    is $V "3 < v[\"link\"][\"factor\"] < 7" True &&
    RPN=2 && OPTIONS="-o links=on" && chain 8 && RPN= && OPTIONS= &&
    is $V "v[\"verdict\"], v[\"data_quality\"][\"notes\"]" "('\''ok'\'', [])"
'

test_expect_success 'a pipeline whose sends and receives share calls: they line up, and its slow pair is found' '
    RPN=2 && chain 8 --pp 4 && RPN= &&
    is $V "v[\"verdict\"], v[\"data_quality\"][\"notes\"]" "('\''ok'\'', [])" &&
    RPN=2 && chain 8 --pp 4 --slow-link 2-4:30 && RPN= &&
    is $V "v[\"verdict\"], v[\"link\"][\"scope\"], v[\"data_quality\"][\"notes\"]" "('\''slow-link'\'', '\''pair'\'', [])" &&
    is $V "sorted([v[\"link\"][\"rank\"], v[\"link\"][\"peer\"]])" "[2, 4]" &&
    RPN=2 && chain 8 --pp 4 --slow-link 2-4:30 --slow-link 3-5:30 && RPN= &&
    is $V "v[\"verdict\"], v[\"link\"][\"scope\"], v[\"onset_step\"]" "('\''slow-link'\'', '\''pair'\'', None)" &&
    is $V "sorted([v[\"link\"][\"node\"], v[\"link\"][\"peer_node\"]])" "['\''node1'\'', '\''node2'\'']"
'

test_expect_success 'pipeline bubble: the stage, never a rank' '
    RPN=4 && chain 8 --pp 4 --slow-stage 3:1.9 && RPN= &&
    is $V "v[\"verdict\"], v[\"stage\"], ranks" "('\''pipeline-imbalance'\'', 3, [])" &&
    is $V "abs(v[\"slowdown\"] / 1.36 - 1) < 0.05" True
'

test_expect_success 'compilation: rare spikes are not averaged away' '
    chain 8 --jit 2:1500ms@20,35 &&
    is $V "v[\"verdict\"], ranks" "('\''jit-stall'\'', [2])" &&
    is $V "evidence(\"stalled_steps\")" "[2.0]"
'

test_expect_success 'the input of a whole node is slow: the node, for one rank less would not help' '
    RPN=4 && chain 8 --data-stall 4:20ms --data-stall 5:20ms --data-stall 6:20ms --data-stall 7:20ms && RPN= &&
    is $V "v[\"verdict\"], v[\"severity\"], [c[\"node\"] for c in v[\"culprits\"]]" "('\''data-stall'\'', '\''critical'\'', ['\''node1'\''])" &&
    is $V "1.3 < v[\"slowdown\"] < 1.5" True
'

test_expect_success 'an expert gets more tokens since a step: nobody'\''s link, though its all-to-all takes longer' '
    chain 8 --ep 8 --moe-hot 5:1.5@20 &&
    is $V "v[\"verdict\"], ranks, v[\"link\"]" "('\''moe-imbalance'\'', [5], None)"
'

test_expect_success 'masked straggler: its reduce-scatter looks faster, and it is the cause' '
    chain 8 --ep 4 --zero --slow-rank 3:1.5 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [3])" &&
    is $V "any(\"arrives last\" in x for x in v[\"explained\"])" True
'

test_expect_success 'two or three ranks, one slow from the beginning: nobody can be blamed, and it is no "ok"' '
    for n in 2 3; do
        chain $n --slow-rank 1:1.3 &&
        is $V "v[\"verdict\"], v[\"severity\"], ranks" "('\''split'\'', '\''critical'\'', [])" || return 1
    done
'

test_expect_success 'three ranks, one slow since a step: its own past decides' '
    chain 3 --slow-rank 1:1.3@20 &&
    is $V "v[\"verdict\"], ranks" "('\''compute-straggler'\'', [1])"
'

test_expect_success 'a FIFO among the files of a job keeps nobody waiting' '
    for f in job/step-0/step.json job/job.json; do
        mv $f keep && mkfifo $f &&
        timeout 20 "$argus" analyze --no-write job >out && timeout 20 "$argus" report job >out &&
        rm $f && mv keep $f || return 1
    done
'

test_expect_success 'copies from the host of one rank are slow: its PCIe link, no stall, not bound by copies' '
    chain 8 --copy-bound 30ms --slow-copy 5:3@20 &&
    is $V "v[\"verdict\"], v[\"link\"][\"scope\"], v[\"link\"][\"rank\"], ranks" "('\''slow-link'\'', '\''pcie'\'', 5, [5])" &&
    is $V "abs(v[\"onset_step\"] - 20) <= 2" True &&
    is $V "2.5 < v[\"link\"][\"factor\"] < 3.5" True
'

# ---- the laboratory's four ---------------------------------------------------

test_expect_success 'rank 0 fetches its data 40 ms late: rank 0, not the longest step' '
    chain 4 --data-stall 0:40ms &&
    is $V "v[\"verdict\"], ranks, v[\"phase\"]" "('\''data-stall'\'', [0], '\''data'\'')"
'

test_expect_success 'one large all-reduce more: nobody is to blame' '
    chain 4 --extra-allreduce 16384 &&
    is $V "v[\"verdict\"], v[\"subkind\"], v[\"severity\"], ranks" "('\''uniform-slowdown'\'', '\''communication-bound'\'', '\''info'\'', [])"
'

test_expect_success 'rank 0 works before a barrier: no kernel shows it, the gap does' '
    chain 4 --barrier-work 0:120ms &&
    is $V "v[\"verdict\"], ranks" "('\''host-stall'\'', [0])"
'

test_expect_success 'healthy: ok' '
    chain 4 &&
    is $V "v[\"verdict\"], v[\"findings\"]" "('\''ok'\'', [])" &&
    is $V "v[\"job\"][\"simulated\"]" True
'

test_done
