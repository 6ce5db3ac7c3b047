#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='every number of a verdict follows from the timelines, with h5py'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/verdict.sh"

if ! "$python" -c 'import h5py, numpy' 2>/dev/null; then
    skip_all="no python3 with h5py and numpy (ARGUS_PYTHON)"
    test_done
fi

recompute() {
    rm -rf job
    "$ARGUS_BUILDDIR/testjob" job "$@" && "$argus" analyze -q job &&
        "$python" "$ARGUS_SRCDIR/t/recompute.py" job
}

test_expect_success 'compute straggler' 'recompute 8 slow-rank,rank=3,factor=1.2'
test_expect_success '... that began in the middle' 'recompute 8 slow-rank,rank=3,factor=1.3,from=30'
test_expect_success '... among four' 'recompute 4 slow-rank,rank=2,factor=1.3'
test_expect_success 'host stall' 'recompute 8 host-stall,rank=3,ms=20,every=5'
test_expect_success 'slow link' 'recompute 16 tp=4 ranks-per-node=4 link-nic,rank=5,factor=5'

test_done
