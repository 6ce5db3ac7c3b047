#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='many jobs, four at a time: each has one verdict, nothing is left

ARGUS_SOAK_JOBS is their number, 20 if it is not set; make soak-slurm runs 200.'

. /usr/share/sharness/sharness.sh
. "$ARGUS_SRCDIR/t/slurm/lib.sh"

start_cluster
jobs=${ARGUS_SOAK_JOBS:-20}

# The kinds of jobs, in turn: two steps, a cancelled one, an array task, plain.
submit() {
    train="$simtrain --quiet --layers 4 --steps 25 --seed $1"
    common="--parsable -o out.%j -N2 --ntasks-per-node=2 --gres=gpu:1"
    case $(($1 % 5)) in
    0) as_user sbatch $common --wrap "srun --argus $train; srun --argus $train" ;;
    1)
        id=$(as_user sbatch $common --wrap "srun --argus $simtrain --quiet --pace 1 --steps 9999") &&
            wait_for 60 test -e "$(dir_of $id)/step-0/step.json" && as_user scancel "$id" &&
            echo "$id"
        ;;
    2) echo "$(as_user sbatch $common --array=7 --wrap "srun --argus $train")_7" ;;
    3) as_user sbatch $common --argus --wrap "srun $train" ;;
    4) as_user sbatch $common --wrap "srun --argus $train --slow-rank 1:1.3" ;;
    esac
}

test_expect_success "$jobs jobs, four at a time" '
    i=0 && : >ids &&
    while [ $i -lt $jobs ]; do
        wait_for 120 eval "test \$(squeue -h -t PD,R,CG | wc -l) -lt 4" &&
        submit $i >>ids || return 1
        i=$((i + 1))
    done &&
    test $(wc -l <ids) = $jobs
'

test_expect_success 'every one has exactly one verdict' '
    for id in $(cat ids); do
        wait_for 120 has_comment $id &&
        test $(sacct -D -X -n -P -j $id -o admincomment | grep -o "argus:1" | wc -l) = 1 ||
            { echo "job $id: $(comment $id)"; return 1; }
    done
'

test_expect_success 'no job has a comment that is not its own' '
    sacct -X -n -P -S now-2days -o jobidraw,admincomment | grep argus:1 >all &&
    test $(wc -l <all) = $jobs &&
    while IFS="|" read -r raw line; do
        case $line in *"dir=$(dir_of $raw)") ;; *) echo "$raw: $line"; return 1 ;; esac
    done <all
'

test_expect_success 'no process, marker, ring, lock or busy node is left' '
    wait_for 60 clean &&
    test -z "$(find "$work/argus" -name .analysis)" &&
    wait_for 20 eval "sinfo -hN -o %t | sort -u | grep -qx idle" &&
    test "$(sinfo -hN -o %t | sort -u)" = idle
'

test_done
