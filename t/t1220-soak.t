#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='many jobs in a row, four at a time: each gets one comment, nothing stays behind

ARGUS_SOAK_JOBS says how many; `make soak-slurm` runs 200.'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

jobs=${ARGUS_SOAK_JOBS:-20}
# Four nodes with two GPUs each have room for four jobs that take one on two nodes.
start_cluster --nodes 4 --gpus 2

two="-N2 --ntasks-per-node=1 --gres=gpu:1"
train="$simtrain --quiet --steps 25"

# What a job does, by its number: every way to end is among them.
script()
{
    case $(($1 % 9)) in
    0 | 1) echo "srun --argus $train" ;;
    2) echo "srun --argus $train --slow-rank 1:1.5" ;;
    3) echo "srun --argus --overlap $train & srun --argus --overlap $train & wait" ;;
    4) echo "srun --argus $train --die 1@12:SEGV" ;;
    5) echo "(sleep 2; scancel \$SLURM_JOB_ID) & srun --argus $simtrain --quiet --steps 100000 --pace 1 --ignore-term" ;;
    6) echo "srun --argus true; srun --argus $train; exit 3" ;;
    7) echo "srun $train; srun --argus=full $train" ;;
    8) echo "srun --argus $train # the task of an array" ;;
    esac
}

rss()
{
    while read -r name pid started; do
        case $name in
        slurmd.* | slurmctld) echo "$name $(sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/$pid/status")" ;;
        esac
    done <"$ARGUS_CLUSTER/pids"
}

# Slurm's and our processes that belong to jobs of this cluster.
job_processes()
{
    for p in $(grep -lsF "SLURM_CONF=$ARGUS_CLUSTER/slurm.conf" /proc/[0-9]*/environ); do
        case $(cat "${p%/environ}/comm" 2>/dev/null) in
        slurmstepd | simtrain | argus*) echo "${p%/environ}" ;;
        esac
    done
}

# "job|comment" a line
comments()
{
    sacct -X -n -P -S now-1day -u "$user" -o jobidraw,admincomment
}

all_commented()
{
    [ "$(comments | grep -c '|argus:1 ')" -eq "$jobs" ]
}

test_expect_success "$jobs jobs are through" '
    began=$(date +%s) && rss >rss.before &&
    i=0 && while [ $i -lt "$jobs" ]; do
        [ $((i % 9)) -eq 8 ] && array=--array=7 || array=
        as_user sbatch --parsable $array -J soak -o /dev/null $two --wrap "$(script $i)" >>ids ||
            return 1
        i=$((i + 1))
    done &&
    wait_for $((120 + jobs * 15)) eval "test -z \"\$(squeue -h)\"" &&
    test "$(sort -u ids | wc -l)" -eq "$jobs" &&
    over=$(date +%s)
'

test_expect_success 'every one has exactly one comment of ours' '
    wait_for 120 all_commented;
    comments >all && test "$(wc -l <all)" -eq "$jobs" &&
    while IFS="|" read -r raw line; do
        case $line in *"dir=$(dir_of $raw)") ;; *) echo "$raw: $line"; return 1 ;; esac
    done <all &&
    awk -F"|" "{ n = gsub(/argus:1 /, \"\", \$2); if (n != 1) { print; bad = 1 } } END { exit bad }" all &&
    commented=$(date +%s)
'

test_expect_success 'no process, marker, spool or queue entry is left' '
    wait_for 30 clean || { find "$top/spool"; workers; false; } &&
    wait_for 10 eval "test -z \"\$(job_processes)\"" || { ps -ef; false; }
'

test_expect_success 'no lock and no open timeline in any job directory; every node is done' '
    find "$work/argus" \( -name .analysis -o -name "*.open" -o -name "*.tmp*" \) >left &&
    ! grep . left &&
    for dir in "$work"/argus/*; do
        test "$(ls "$dir/.done" | wc -l)" -eq 2 && test -s "$dir/verdict.json" || { ls -lA "$dir" "$dir/.done"; return 1; }
    done
'

test_expect_success 'no node is drained or COMPLETING' '
    wait_for 20 eval "test \"\$(sinfo -hN -o %t | sort -u)\" = idle" || { sinfo -NR; false; }
'

test_expect_success 'figures' '
    rss >rss.after &&
    comments | sed "s/.*|argus:1 \([a-z-]*\).*/\1/" | sort | uniq -c >kinds &&
    say "$jobs jobs in $((over - began)) s, the last comment $((commented - over)) s after the last job;" \
        "verdicts: $(tr -s " \n" " " <kinds)" &&
    say "resident, before: $(tr "\n" " " <rss.before); after: $(tr "\n" " " <rss.after)" &&
    say "$(grep -c . "$log" 2>/dev/null || :) lines in the log of the epilog"
'

test_done
