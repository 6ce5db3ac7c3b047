#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='timelines read with h5py alone: contrib/python/argus_timeline.py'

. /usr/share/sharness/sharness.sh

python=${ARGUS_PYTHON:-python3}
if ! "$python" -c 'import h5py, numpy' 2>/dev/null; then
    skip_all='h5py and numpy are not importable by ${ARGUS_PYTHON:-python3}'
    test_done
fi
example=$ARGUS_SRCDIR/contrib/python/argus_timeline.py
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

test_expect_success 'a sealed job: the slow rank is on top' '
    mkdir -p job/step-0 && "$ARGUS_BUILDDIR/live_make" job/step-0 8 40 5 1 &&
    "$python" "$example" job >out &&
    grep -q "^longest compute: rank 5 on n01, 1.30x of the median rank" out &&
    grep -q SIMULATED out && test "$(grep -c " n01 " out)" -ge 8
'

test_expect_success 'a running job: open files are read' '
    mkdir open && "$ARGUS_BUILDDIR/live_make" open 4 40 2 0 &&
    "$python" "$example" open | grep -q "^longest compute: rank 2"
'

test_expect_success 'a torn file is told and left out' '
    head -c 2000 job/step-0/rank-00003.h5 >torn && cp torn job/step-0/rank-00003.h5 &&
    "$python" "$example" job >out 2>err &&
    grep -q rank-00003.h5 err && grep -q "^longest compute: rank 5" out
'

test_expect_success 'nothing there: one line, exit 1' '
    mkdir empty && test_must_fail "$python" "$example" empty 2>err && grep -q "no timelines" err
'

test_expect_success 'of several steps the newest: the tenth after the ninth' '
    mkdir -p steps/step-9 steps/step-10 && "$ARGUS_BUILDDIR/live_make" steps/step-9 4 40 1 1 &&
    "$ARGUS_BUILDDIR/live_make" steps/step-10 4 40 2 1 && touch -d "1 hour ago" steps/step-9 &&
    "$python" "$example" steps | grep "^longest compute: rank 2"
'

test_expect_success 'without h5py: one line, exit 1' '
    mkdir without && echo "raise ImportError(\"No module named h5py\")" >without/h5py.py &&
    test_expect_code 1 env PYTHONPATH="$PWD/without" "$python" "$example" job 2>err &&
    test "$(wc -l <err)" = 1 && grep "h5py and numpy are needed" err
'

"$python" -c 'import matplotlib' 2>/dev/null && test_set_prereq MATPLOTLIB
test_expect_success MATPLOTLIB '--plot makes a picture' '
    "$python" "$example" open --plot out.png && test -s out.png
'

test_done
