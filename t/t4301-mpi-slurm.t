#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='argus analyze --mpi, its processes started by srun: the verdict of one

Open MPI must have been built for a plugin that srun --mpi= has.'

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
four() { # plugin nodes
    as_user timeout 120 srun -Q --mpi="$1" -N"$2" -n4 --ntasks-per-node=$((4 / $2)) "$argus" analyze --mpi \
        --no-write --quiet --json - job >"four.$1.$2.json" 2>"$1.$2.err"
}
# The two nodes are one host, on which Open MPI would take each one's shared memory for the
# other's: TCP, over loopback, which it leaves out by itself.
over_tcp() { (OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo && export OMPI_MCA_btl OMPI_MCA_btl_tcp_if_include && "$@"); }

fits=
for kind in $plugins; do
    four "$kind" 1
    if grep -q "not built with SLURM's PMI support" "$kind.1.err"; then
        say "Open MPI here was not built for $kind"
    else
        fits="$fits $kind"
    fi
done
if [ -z "$fits" ]; then
    skip_all="Open MPI here was built for none of what srun --mpi= has: $(echo $plugins)"
    test_done
fi

for kind in $fits; do
    test_expect_success "srun --mpi=$kind: four processes say what one says, to the last bit" '
        cat "$kind.1.err" && grep "\"verdict\": \"compute-straggler\"" one.json &&
        cmp one.json "four.$kind.1.json"
    '
    test_expect_success "srun --mpi=$kind: and so do two on each of two nodes" '
        over_tcp four "$kind" 2; cat "$kind.2.err" && cmp one.json "four.$kind.2.json"
    '
done

test_done
