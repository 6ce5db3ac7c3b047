#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus analyze --mpi, its processes started by srun: the verdict of one

Open MPI must have been built for a plugin that srun --mpi= has.  One node: over
two of this cluster, whose slurmd share a host, srun --mpi=pmix did not start.'

. /usr/share/sharness/sharness.sh

if ! "$ARGUS_BUILDDIR/argus" --version | grep -q 'MPI yes'; then
    skip_all='built without MPI'
    test_done
fi
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

start_cluster --nodes 2

plugins=$(srun --mpi=list 2>&1 | grep -owE 'pmix|pmi2' | sort -u)
if [ -z "$plugins" ]; then
    skip_all='srun --mpi=list has neither pmix nor pmi2'
    test_done
fi

"$ARGUS_BUILDDIR/contrib/faultbench/scale" make job 64 200 >/dev/null && chmod -R a+rX job &&
    "$argus" analyze --no-write --quiet --json one.json job || exit 1
# On stdout, once: processes that did not find each other would each say it.
four() {
    as_user timeout 120 srun -Q --mpi="$1" -N1 -n4 "$argus" analyze --mpi --no-write --quiet \
        --json - job >"four.$1.json" 2>"$1.err"
}

for kind in $plugins; do
    four "$kind"
    if grep -q "not built with SLURM's PMI support" "$kind.err"; then
        say "Open MPI here was not built for $kind"
        continue
    fi
    test_expect_success "srun --mpi=$kind: four processes say what one says, to the last bit" '
        cat "$kind.err" && grep "\"verdict\": \"compute-straggler\"" one.json &&
        cmp one.json "four.$kind.json"
    '
done

test_done
