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
# What the job before left to do (its end, its epilog, the worker) is not this one's time.
settle() {
    while squeue -h -t CG,R -o %A | grep -q . || [ -n "$(workers)" ]; do sleep 0.1; done
    sleep 0.2
}
timed() { # file command...
    out=$1
    shift
    settle
    from=$(now_us)
    "$@" >/dev/null 2>&1
    echo $(($(now_us) - from)) >>"$out"
}
median_ms() {
    sort -n "$1" | awk '{v[NR] = $1} END {printf "%.1f", v[int((NR + 1) / 2)] / 1000}'
}

srun_true="as_user srun -N1 -n1 -w n1 --gres=gpu:1 true"
srun_argus="as_user srun --argus -N1 -n1 -w n1 --gres=gpu:1 true"
started() { # file option...: until the task itself runs
    out=$1
    shift
    settle
    from=$(now_us)
    at=$(as_user srun -Q "$@" -N1 -n1 -w n1 --gres=gpu:1 date +%s%N)
    echo $((at / 1000 - from)) >>"$out"
}
$srun_true
i=0
while [ $i -lt "$RUNS" ]; do
    "$cluster_sh" plugstack "# none"
    timed "$top/none" $srun_true
    started "$top/start.none"
    "$cluster_sh" plugstack "$plugin"
    timed "$top/off" $srun_true
    started "$top/start.off"
    timed "$top/on" $srun_argus
    started "$top/start.on" --argus
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
# From the end of srun until the job has left COMPLETING on both its nodes: without argus, and
# with it while an analysis takes three seconds.
released() { # file command...
    out=$1
    shift
    "$@" >/dev/null 2>&1
    from=$(now_us)
    while squeue -h -t CG,R -o %A | grep -q .; do :; done
    echo $(($(now_us) - from)) >>"$out"
}
printf '#!/bin/sh\nsleep 3\nexec %s "$@"\n' "$argus" >"$top/slow"
chmod 755 "$top/slow"
echo "--analyze $top/slow" >"$top/epilog.options"
train="$simtrain --quiet --layers 2 --steps 5"
i=0
while [ $i -lt $((RUNS / 3)) ]; do
    released "$top/released.none" as_user srun -N2 -n2 --gres=gpu:1 $train
    released "$top/released.argus" as_user srun --argus -N2 -n2 --gres=gpu:1 $train
    i=$((i + 1))
done
# What the clock itself costs here: two dates and a fork.
i=0
while [ $i -lt "$RUNS" ]; do
    timed "$top/clock" /bin/true
    i=$((i + 1))
done
added() { # file of with, file of without
    awk -v a="$(median_ms "$1")" -v b="$(median_ms "$2")" 'BEGIN {printf "%+.1f", a - b}'
}
cat <<REPORT
added to the start of a task: not asked $(added "$top/start.off" "$top/start.none") ms, srun --argus $(added "$top/start.on" "$top/start.none") ms  (budget 5 ms)
added to srun true:           not asked $(added "$top/off" "$top/none") ms, srun --argus $(added "$top/on" "$top/none") ms
argus-epilog:                 job without a marker $(median_ms "$top/epilog.idle") ms, with one $(median_ms "$top/epilog.job") ms  (budget 50 ms)
COMPLETING lasts:             not asked $(median_ms "$top/released.none") ms, srun --argus with an analysis of 3 s $(median_ms "$top/released.argus") ms  (budget 1000 ms)
time inside the plugin's hooks: make bench-spank
The medians:
the task runs, no plugin             $(median_ms "$top/start.none") ms after srun was started
the task runs, plugin, not asked     $(median_ms "$top/start.off") ms
the task runs, srun --argus          $(median_ms "$top/start.on") ms
srun true, no plugin                 $(median_ms "$top/none") ms
srun true, plugin listed, not asked  $(median_ms "$top/off") ms
srun --argus true                    $(median_ms "$top/on") ms
argus-epilog, job without a marker   $(median_ms "$top/epilog.idle") ms
argus-epilog, job with a marker      $(median_ms "$top/epilog.job") ms
COMPLETING after srun, not asked     $(median_ms "$top/released.none") ms
COMPLETING after srun --argus, 3 s analysis  $(median_ms "$top/released.argus") ms
(of these, taking the time           $(median_ms "$top/clock") ms)
REPORT
