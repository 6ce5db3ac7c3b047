# SPDX-License-Identifier: Apache-2.0
# Helpers of the tests that look at verdicts; sourced after sharness.
argus=$ARGUS_BUILDDIR/argus
simtrain=$ARGUS_BUILDDIR/contrib/simgpu/simtrain
ARGUS_LIBEXECDIR=$ARGUS_BUILDDIR
ARGUS_LIBDIR=$ARGUS_BUILDDIR/.libs
export ARGUS_LIBEXECDIR ARGUS_LIBDIR
unset RANK WORLD_SIZE ARGUS_RANK ARGUS_WORLD ARGUS_DIR ARGUS_SPOOL SLURM_PROCID SLURM_JOB_ID SIMGPU_FAULT
unset CUDA_INJECTION64_PATH NCCL_PROFILER_PLUGIN NVTX_INJECTION64_PATH
TMPDIR=$(pwd)
export TMPDIR
python=${ARGUS_PYTHON:-python3}

# field FILE EXPRESSION: a python expression on v, the verdict
field() {
    "$python" -c '
import json, sys
v = json.load(open(sys.argv[1]))
ranks = [c["rank"] for c in v["culprits"]]
nodes = [c["node"] for c in v["culprits"]]
evidence = lambda s, r=None: [e["value"] for e in v["evidence"] if e["signal"] == s and (r is None or e["rank"] == r)]
print(eval(sys.argv[2]))' "$1" "$2"
}

# is FILE EXPRESSION VALUE
is() {
    got=$(field "$1" "$2") || return 1
    test "x$got" = "x$3" && return 0
    echo "$2 is $got, not $3"
    field "$1" 'v["verdict"], v["severity"], v["slowdown"], ranks, v["explained"][:1], [(f["verdict"], f["text"]) for f in v["findings"]]'
    return 1
}

# chain RANKS [simtrain option...]: a whole run into the directory "job"; RPN=ranks per node, OPTIONS of argus run
chain() {
    rm -rf job
    ranks=$1
    shift
    "$argus" run -n "$ranks" ${RPN:+--ranks-per-node $RPN} $OPTIONS --dir job -- "$simtrain" --quiet "$@" >run.out 2>&1 ||
        { cat run.out; return 1; }
    test -f job/verdict.json || { cat run.out; return 1; }
}
