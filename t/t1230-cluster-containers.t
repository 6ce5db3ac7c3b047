#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='a real Slurm cluster whose jobs do not see the node as it is

job_container/tmpfs gives every job a /tmp and a /dev/shm of its own; a stand-in for
pyxis, listed before argus, gives tasks another root.'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

# Not in /tmp, which the jobs do not see.
cluster_below=/var/tmp
for node in n1 n2; do
    echo "NodeName=$node AutoBasePath=true BasePath=$cluster_below/argus-t.$$/private.$node"
done >job_container.conf
unshare -m true 2>/dev/null || {
    skip_all='no mount namespaces on this machine'
    test_done
}
ls /usr/lib*/slurm*/job_container_tmpfs.so /usr/lib/*/slurm*/job_container_tmpfs.so 2>/dev/null | grep -q . || {
    skip_all='this Slurm has no job_container/tmpfs'
    test_done
}
start_cluster --nodes 2 --file "$PWD/job_container.conf" \
    --conf JobContainerType=job_container/tmpfs --conf PrologFlags=Contain

# What the tasks need, outside of /tmp: the build may be in there.
mkdir "$top/prog" "$top/lib" && cp "$ARGUS_BUILDDIR"/contrib/simgpu/lib*.so* "$simtrain" "$top/prog/" &&
    cp "$ARGUS_BUILDDIR/.libs/libargus-collector.so" "$top/lib/" || exit 1
small="-N2 --ntasks-per-node=2 --gres=gpu:2"
# The ranks meet in TMPDIR.
train="env TMPDIR=$work $top/prog/simtrain --quiet --steps 30"
argus_line="$plugin collector=$top/lib/libargus-collector.so"
"$cluster_sh" plugstack "$argus_line"

test_expect_success 'a job with a /tmp and a /dev/shm of its own is recorded' '
    : >"/tmp/argus-t.$$.seen" &&
    as_user srun -Q --argus -J private $small sh -c "
        test ! -e /tmp/argus-t.$$.seen && touch /tmp/mine /dev/shm/mine && echo private; $train" >out 2>err
    rm "/tmp/argus-t.$$.seen" && cat out err && test $(grep -cx private out) = 4 && test ! -s err &&
    verdict_of $(newest private) | grep "^argus:1 ok ranks=4 "
'

hidden=/dev/shm/argus-t.$$
test_expect_success 'a spool that only the node sees: one line, the job runs, the comment says it' '
    "$cluster_sh" plugstack "optional $ARGUS_SPANKDIR/spank_argus.so spool=$hidden/%n collector=$top/lib/libargus-collector.so" &&
    echo "--spool $hidden/%n" >"$top/epilog.options" &&
    as_user srun -Q --argus -J hidden $small sh -c "$train; echo lives" >out 2>err &&
    cat out err && test $(grep -cx lives out) = 4 && job=$(newest hidden) &&
    echo "argus: n1: $hidden/n1/$job.0: not there as seen by the task; not traced" >want &&
    test_cmp want err &&
    verdict_of $job | grep "^argus:1 insufficient-data .*missing=timelines" &&
    wait_for 60 eval "test -z \"\$(find $hidden -type f)\"" &&
    : >"$top/epilog.options" && rm -rf "$hidden" && "$cluster_sh" plugstack "$argus_line"
'

# ---- another root ----

image=$top/image
binds="/usr /etc /proc /dev $top/prog $work"
mkdir "$image" && for path in $binds "$top/lib" "$top/spool"; do
    mkdir -p "$image$path" || exit 1
done
for path in /bin /sbin /lib /lib64; do
    if test -L $path; then
        ln -s "$(readlink $path)" "$image$path"
    elif test -d $path; then
        mkdir "$image$path" && binds="$binds $path"
    fi
done
echo here >"$image/inside"
container="optional $ARGUS_BUILDDIR/spank/.libs/container_check.so image=$image$(printf " bind=%s" $binds)"
runuser -u "$user" -- unshare -Urm true 2>/dev/null && test_set_prereq USERNS

test_expect_success USERNS 'listed after it, with its directories mounted: the job is recorded' '
    "$cluster_sh" plugstack "$container bind=$top/lib bind=$top/spool" "$argus_line" &&
    as_user srun -Q --argus -J container $small sh -c "cat /inside; $train" >out 2>err &&
    cat out err && test $(grep -cx here out) = 4 && test ! -s err &&
    verdict_of $(newest container) | grep "^argus:1 ok ranks=4 "
'

test_expect_success USERNS 'an image without the collector: one line, the job runs, the comment says it' '
    "$cluster_sh" plugstack "$container bind=$top/spool" "$argus_line" &&
    as_user srun -Q --argus -J nolib $small sh -c "cat /inside; $train; echo lives" >out 2>err &&
    cat out err && test $(grep -cx lives out) = 4 && test $(grep -cx here out) = 4 &&
    echo "argus: n1: $top/lib/libargus-collector.so: not there as seen by the task; not traced" >want &&
    test_cmp want err &&
    verdict_of $(newest nolib) | grep "^argus:1 insufficient-data .*missing=timelines"
'

test_expect_success USERNS 'an image without the spool: the same' '
    "$cluster_sh" plugstack "$container bind=$top/lib" "$argus_line" &&
    as_user srun -Q --argus -J nospool $small sh -c "$train; echo lives" >out 2>err &&
    cat out err && test $(grep -cx lives out) = 4 && job=$(newest nospool) &&
    echo "argus: n1: $top/spool/n1/$job.0: not there as seen by the task; not traced" >want &&
    test_cmp want err && "$cluster_sh" plugstack "$argus_line"
'

test_expect_success 'in the end nothing is left, no node is drained' '
    wait_for 20 clean &&
    wait_for 20 eval "test \"\$(sinfo -hN -o %t | sort -u)\" = idle" &&
    ! grep "$top" /proc/mounts
'

test_done
