#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus analyze --mpi: many processes, the verdict of one'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
scale=$ARGUS_BUILDDIR/contrib/faultbench/scale
mpirun="mpirun --allow-run-as-root --oversubscribe"

if ! "$argus" --version | grep -q 'MPI yes'; then
    test_expect_success 'built without MPI it says so' '
        test_expect_code 1 "$argus" analyze --mpi . 2>err &&
        grep "built without MPI" err
    '
    test_done
fi
if ! command -v mpirun >/dev/null; then
    skip_all='no mpirun'
    test_done
fi

test_expect_success 'a job of 64 ranks' '
    "$scale" make job 64 200
'

test_expect_success 'four processes say what one says, to the last bit' '
    "$argus" analyze --no-write --quiet --json one.json job &&
    timeout 120 $mpirun -n 4 "$argus" analyze --mpi --no-write --quiet --json four.json job &&
    grep "\"verdict\": \"compute-straggler\"" one.json &&
    cmp one.json four.json
'

test_expect_success 'more processes than timelines' '
    mkdir -p few/step-0 && cp job/step-0/rank-0000[0-1].h5 few/step-0 &&
    "$argus" analyze --no-write --quiet --json one.json few &&
    timeout 120 $mpirun -n 4 "$argus" analyze --mpi --no-write --quiet --json four.json few &&
    cmp one.json four.json
'

test_expect_success 'two steps, of which one has the fault' '
    mkdir -p two && cp -r job/step-0 two/step-0 && cp -r job/step-0 two/step-1 && rm two/step-1/rank-0003[0-9].h5 &&
    "$argus" analyze --no-write --quiet --json one.json two &&
    timeout 120 $mpirun -n 3 "$argus" analyze --mpi --no-write --quiet --json four.json two &&
    cmp one.json four.json
'

test_expect_success 'an empty directory ends all of them' '
    mkdir -p empty &&
    test_expect_code 1 timeout 60 $mpirun -n 3 "$argus" analyze --mpi --no-write empty 2>err &&
    grep "no timelines" err
'

test_done
