#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What argus adds to a job on a private cluster: start of srun, the epilog,
# the time in COMPLETING.  Run by `make bench-slurm` after `make install`.
# Medians of $RUNS (default 15) runs each, taken in turns.
set -u
RUNS=${RUNS:-15}
say() { :; }
test_done() { echo "bench-slurm: $skip_all"; exit 0; }
die() { exit "$rc"; }
trap 'rc=$?' EXIT
rc=0
. "$ARGUS_SRCDIR/t/slurm/lib.sh"
start_cluster >/dev/null

now_us() { echo $(($(date +%s%N) / 1000)); }
timed() { # file command...
    out=$1
    shift
    from=$(now_us)
    "$@" >/dev/null 2>&1
    echo $(($(now_us) - from)) >>"$out"
}
median_ms() {
    sort -n "$1" | awk '{v[NR] = $1} END {printf "%.1f", v[int((NR + 1) / 2)] / 1000}'
}

srun_true="as_user srun -N1 -n1 -w n1 --gres=gpu:1 true"
srun_argus="as_user srun --argus -N1 -n1 -w n1 --gres=gpu:1 true"
$srun_true
i=0
while [ $i -lt "$RUNS" ]; do
    "$cluster_sh" plugstack "# none"
    timed "$top/none" $srun_true
    "$cluster_sh" plugstack "$plugin"
    timed "$top/off" $srun_true
    timed "$top/on" $srun_argus
    for n in 1 2 3; do
        timed "$top/epilog.idle" env -i SLURM_JOB_ID=1 SLURMD_NODENAME=n1 \
            "$ARGUS_SBINDIR/argus-epilog" --spool "$top/spool/%n"
    done
    mkdir -p "$top/spool/b/jobs/1" && chmod 755 "$top/spool/b" && chmod 700 "$top/spool/b/jobs"
    printf 'job=1\nuid=%s\ngid=%s\nnode=b\ndir=/nowhere\n' "$(id -u nobody)" "$(id -g nobody)" \
        >"$top/spool/b/jobs/1/0"
    chmod 600 "$top/spool/b/jobs/1/0"
    timed "$top/epilog.job" env -i SLURM_JOB_ID=1 SLURMD_NODENAME=b \
        "$ARGUS_SBINDIR/argus-epilog" --spool "$top/spool/%n"
    i=$((i + 1))
done
# What the clock itself costs here: two dates and a fork.
i=0
while [ $i -lt "$RUNS" ]; do
    timed "$top/clock" /bin/true
    i=$((i + 1))
done
cat <<REPORT
srun true, no plugin                 $(median_ms "$top/none") ms
srun true, plugin listed, not asked  $(median_ms "$top/off") ms
srun --argus true                    $(median_ms "$top/on") ms
argus-epilog, job without a marker   $(median_ms "$top/epilog.idle") ms
argus-epilog, job with a marker      $(median_ms "$top/epilog.job") ms
(of these, taking the time           $(median_ms "$top/clock") ms)
REPORT
