#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: contrib/demo.sh [--keep] [--installed DIR]

Shows argus at work, on one machine without a GPU: builds it, starts a private
Slurm cluster of four nodes on loopback with argus' plugin and epilog, runs
three training jobs of eight ranks under `srun --argus` on a stand-in GPU
(a simulation: no GPU is involved) and shows what Slurm's accounting says
afterwards.  One job is healthy, in one the GPU of rank 5 is 1.3 times slower
from step 15 on, in one the network link of node n3 is 3 times slower.

Needs Debian 12 and root; missing packages are installed.  Everything else
stays in one directory below ${TMPDIR:-/tmp} and is stopped and removed at the
end.  Exit status 0: the three verdicts were the expected ones.

  --keep           leave the cluster up, and say how to use it and how to stop it
  --installed DIR  build nothing: use the packages that are installed, and the
                   stand-in GPU of the build directory DIR
USAGE
}

set -u
keep=no
build=
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=yes ;;
    --installed)
        [ $# -ge 2 ] && build=$(cd "$2" && pwd) || exit 2
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done

say()
{
    printf '\n\033[1m== %s\033[0m\n' "$*"
}
[ -t 1 ] || say()
{
    printf '\n== %s\n' "$*"
}

die()
{
    echo "demo.sh: $*" >&2
    exit 1
}

srcdir=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$srcdir/contrib/packages.sh"
[ "$(id -u)" -eq 0 ] || die "root is needed: the cluster's daemons and jobs change the user"
command -v apt-get >/dev/null || die "this script knows Debian's packages only"
cores=$(nproc)
began=$(date +%s)

# Lower case and short: the directory stands in every verdict's comment.
dir=${TMPDIR:-/tmp}/argus-demo.$$
mkdir "$dir" || exit 1
chmod 755 "$dir"
ARGUS_CLUSTER=
finish()
{
    rc=$?
    trap - EXIT
    if [ $keep = yes ] && [ -n "$ARGUS_CLUSTER" ]; then
        cat <<KEEP

The cluster stays up.  In a shell of root:
    eval "\$($srcdir/t/slurm/cluster.sh env $ARGUS_CLUSTER)"; PATH=$bindir:\$PATH; cd $ARGUS_CLUSTER_WORK
    runuser -u $ARGUS_CLUSTER_USER -- srun --argus -N4 --ntasks-per-node=2 --gres=gpu:2 $simtrain --help
    $srcdir/t/slurm/cluster.sh stop $ARGUS_CLUSTER; rm -r $dir      # the end of it
KEEP
    else
        [ -z "$ARGUS_CLUSTER" ] || "$srcdir/t/slurm/cluster.sh" stop "$ARGUS_CLUSTER"
        if [ $rc -eq 0 ]; then
            rm -rf "$dir"
        else
            echo "demo.sh: logs are in $dir" >&2
        fi
    fi
    exit $rc
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# ---------------------------------------------------------------------------
say "packages"
if [ -n "$build" ]; then
    # Where the packages put them.
    bindir=/usr/bin sbindir=/usr/sbin
    spank=$(for d in /usr/lib/*/slurm-wlm /usr/lib64/slurm /usr/lib/slurm; do
        [ ! -e "$d/spank_argus.so" ] || echo "$d/spank_argus.so"
    done | head -n 1)
    for file in "${spank:=spank_argus.so}" $bindir/argus $sbindir/argus-epilog \
        "$build/contrib/simgpu/simtrain"; do
        [ -e "$file" ] || die "$file is not there"
    done
    # shellcheck disable=SC2086
    need_packages $cluster_packages || die "packages could not be installed"
    echo "argus as installed: $($bindir/argus --version)"
else
    # shellcheck disable=SC2086
    need_packages $build_packages $cluster_packages || die "packages could not be installed"
    echo "all there"

    say "build (in $dir, $cores cores)"
    if [ ! -x "$srcdir/configure" ]; then
        "$srcdir/contrib/autogen.sh" >"$dir/autogen.log" 2>&1 ||
            { tail -n 20 "$dir/autogen.log" >&2; die "autogen.sh failed"; }
    fi
    build=$dir/build bindir=$dir/inst/bin sbindir=$dir/inst/sbin
    spank=$dir/inst/lib/slurm/spank_argus.so
    mkdir "$build" && cd "$build" || exit 1
    "$srcdir/configure" --quiet --prefix="$dir/inst" >"$dir/build.log" 2>&1 &&
        make -j"$cores" >>"$dir/build.log" 2>&1 && make install >>"$dir/build.log" 2>&1 ||
        { tail -n 20 "$dir/build.log" >&2; die "the build failed; all of it is in $dir/build.log"; }
    echo "built and installed in $(($(date +%s) - began)) s"
fi
simtrain=$build/contrib/simgpu/simtrain

say "a private Slurm cluster: munge, MariaDB, slurmdbd, slurmctld, four slurmd"
cat >"$dir/epilog" <<EPILOG
#!/bin/sh
exec $sbindir/argus-epilog --spool $dir/spool/%n --log $dir/epilog.log
EPILOG
chmod 755 "$dir/epilog"
mkdir "$dir/spool"
plugin="optional $spank spool=$dir/spool/%n"
settings=$("$srcdir/t/slurm/cluster.sh" start --dir "$dir/slurm" --plugin "$plugin" \
    --epilog "$dir/epilog") || die "the cluster did not come up"
eval "$settings"
echo "plugstack.conf: $plugin"
echo "slurm.conf:     Epilog=$dir/epilog"
sinfo

# ---------------------------------------------------------------------------
cd "$ARGUS_CLUSTER_WORK" || exit 1

comment_of()
{
    sacct -X -n -P -j "$1" -o admincomment | grep '^argus:1'
}

# demo_job EXPECTED FAULT...: run it, wait for the verdict, show it.
failures=0
demo_job()
{
    expected=$1
    shift
    echo "\$ srun --argus -N4 --ntasks-per-node=2 --gres=gpu:2 simtrain $*"
    runuser -u "$ARGUS_CLUSTER_USER" -- srun --argus -J demo -N4 --ntasks-per-node=2 \
        --gres=gpu:2 "$simtrain" "$@" </dev/null || die "the job failed"
    job=$(squeue -h -t all -u "$ARGUS_CLUSTER_USER" -o %A | sort -n | tail -n 1)
    tries=0
    while ! comment_of "$job" >/dev/null; do
        tries=$((tries + 1))
        [ $tries -le 120 ] || break
        sleep 0.5
    done
    echo
    echo "\$ sacct -X -P -j $job -o jobid,state,admincomment"
    sacct -X -P -j "$job" -o jobid,state,admincomment
    echo
    echo "\$ argus report $job"
    runuser -u "$ARGUS_CLUSTER_USER" -- "$bindir/argus" report "$job"
    if comment_of "$job" | grep -Eq "$expected"; then
        echo "(as expected)"
    else
        echo "demo.sh: job $job: the comment should match \"$expected\"" >&2
        failures=$((failures + 1))
    fi
}

say "1. a healthy job"
demo_job '^argus:1 ok '
say "2. rank 5: its GPU is 1.3 times slower from step 15 on"
demo_job '^argus:1 compute-straggler critical rank=5 node=n3 .* since=1[3-7] ' --slow-rank 5:1.3@15
say "3. node n3: its link to the others is 3 times slower"
demo_job '^argus:1 slow-link [a-z]+ node=n3 ' --tp 2 --pp 2 --slow-link n3:3

say "$((3 - failures)) of 3 verdicts as expected, $(($(date +%s) - began)) s in all"
[ $failures -eq 0 ]
