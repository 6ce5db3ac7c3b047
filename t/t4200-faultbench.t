#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='faultbench, short: no class of faults is found less often than recorded'

. /usr/share/sharness/sharness.sh

bench=$ARGUS_BUILDDIR/contrib/faultbench/faultbench

test_expect_success 'against the recorded table' '
    "$bench" --healthy 10 --seeds 1 --verbose --json now.json --picture now.svg \
        --baseline "$ARGUS_SRCDIR/contrib/faultbench/baseline.json" >table 2>err
'

test_expect_success 'healthy jobs: nobody is blamed' '
    grep "healthy jobs: 120, blamed somebody: 0" table
'

test_expect_success 'the table compares with other rules' '
    grep "nvrx-0.75" table && grep "^  slow-gpu " table && grep "<svg" now.svg
'

test_expect_success 'a copy under way hides no host stall' '
    "$bench" --world 4 --style fsdp --fault host-stall --seeds 2 --only 1000409 --no-rules >table &&
    grep "^host-stall  *3  *1.000  *1.000  *1.000 " table
'

test_expect_success 'wrong options' '
    test_expect_code 2 "$bench" --style nosuch && test_expect_code 2 "$bench" --fault nosuch
'

test_expect_success 'what analyzing costs: figures and a picture' '
    SCALE_RANKS="64 128" SCALE_STEPS=60 sh "$ARGUS_SRCDIR/contrib/faultbench/scale.sh" \
        "$ARGUS_BUILDDIR/argus" "$ARGUS_BUILDDIR/contrib/faultbench/scale" scale.svg >table 2>err &&
    test $(grep -c "argus:1 compute-straggler .*rank=[0-9]* " table) = 3 &&
    test $(grep -c "128 opens" table) -ge 1 &&
    grep "<svg" scale.svg
'

test_done
