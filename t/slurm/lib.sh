# SPDX-License-Identifier: Apache-2.0
#
# Sourced after sharness by tests that need a real cluster: one is started for
# the test file and stopped at its end.  They need root, Slurm's daemons, and
# the installed programs of this very build (the plugin and the epilog know no
# others): `make install` before `make check`, as contrib/check.sh does.

simtrain=$ARGUS_BUILDDIR/contrib/simgpu/simtrain
cluster_sh=$ARGUS_SRCDIR/t/slurm/cluster.sh
argus=${ARGUS_BINDIR:-}/argus

cluster_missing()
{
    [ "$(id -u)" -eq 0 ] || { echo "root is needed"; return; }
    for program in munged mariadbd slurmdbd slurmctld slurmd; do
        PATH=$PATH:/usr/sbin command -v $program >/dev/null || {
            echo "$program is not installed"
            return
        }
    done
    for pair in "argus-epilog:$ARGUS_SBINDIR/argus-epilog" "argus:$ARGUS_BINDIR/argus"; do
        cmp -s "$ARGUS_BUILDDIR/${pair%%:*}" "${pair#*:}" || {
            echo "${pair#*:} is not this build's; run make install first"
            return
        }
    done
    [ -e "$ARGUS_SPANKDIR/spank_argus.so" ] || echo "the plugin is not installed"
}

# start_cluster [cluster.sh's options]: sets top, user, work, log, SLURM_CONF.
# The epilog's further options are read from $top/epilog.options at each run.
start_cluster()
{
    skip_all=$(cluster_missing)
    if [ -n "$skip_all" ]; then
        test_done
    fi
    unset skip_all SLURM_JOB_ID SLURM_CONF
    # Lower case: a comment writes capitals of a path as %xx.
    top=${cluster_below:-/tmp}/argus-t.$$ && mkdir "$top" && chmod 755 "$top" || exit 1
    # Also after a failure and a signal; `die` is what sharness does at its exit.
    trap 'cd /; cluster_state; "$cluster_sh" stop "$top/slurm" >/dev/null 2>&1; rm -rf "$top"; die' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    log=$top/epilog.log
    mkdir "$top/spool" && : >"$top/epilog.options"
    cat >"$top/epilog" <<-EPILOG
	#!/bin/sh
	exec $ARGUS_SBINDIR/argus-epilog --spool $top/spool/%n --log $log ${ARGUS_TEST_EPILOG:-} \$(/bin/cat $top/epilog.options)
	EPILOG
    chmod 755 "$top/epilog"
    plugin="optional $ARGUS_SPANKDIR/spank_argus.so spool=$top/spool/%n"
    "$cluster_sh" start --dir "$top/slurm" --plugin "$plugin" --epilog "$top/epilog" "$@" \
        >"$top/env" || exit 1
    . "$top/env"
    user=$ARGUS_CLUSTER_USER work=$ARGUS_CLUSTER_WORK
    as_user chmod 755 "$work" && cd "$work" || exit 1
    [ "${verbose:-}" = t ] || keep_output
}

# Without -v the log of a run elsewhere is all there is to see: what a test printed is kept
# until it has passed, and shown with what its programs wrote to `out` if it fails.
keep_output()
{
    exec 3>>"$top/output" 4>&3
    test_ok_()
    {
        test_success=$((test_success + 1))
        echo "ok $test_count - $*"
        : >"$top/output"
    }
    test_failure_()
    {
        test_failure=$((test_failure + 1))
        echo "not ok $test_count - $1"
        {
            tail -n 80 "$top/output"
            [ ! -e out ] || tail -n 20 out
        } 2>&1 | sed 's/^/#	/'
        : >"$top/output"
    }
}

# What a failure looked like, for the log of a run without -v.
cluster_state()
{
    [ "${test_failure:-0}" -gt 0 ] || return 0
    {
        timeout 10 sinfo -N -l
        timeout 10 sinfo -R
        timeout 10 squeue -l
        tail -n 20 "$log"
        find "$top/spool" ! -type d
    } 2>&1 | sed 's/^/# /' >&5
}

# salloc starts $SHELL in an interactive step, and a test's environment need not have one.
as_user()
{
    SHELL=/bin/sh runuser -u "$user" -- "$@"
}

# plugin_keys KEY=VALUE...: another plugstack.conf line from now on.
plugin_keys()
{
    "$cluster_sh" plugstack "$plugin $*"
}

# newest NAME: the newest job of this name.
newest()
{
    squeue -h -t all -n "$1" -o %A | sort -n | tail -n 1
}

comment()
{
    sacct -X -n -P -j "$1" -o admincomment
}

# wait_for SECONDS command...: at least a minute, as only a failure waits that long and
# machines differ.
wait_for()
{
    until_s=$(($(date +%s) + ($1 > 60 ? $1 : 60)))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $until_s ] || { echo "timed out: $*"; return 1; }
        sleep 0.2
    done
}

has_comment() { comment "$1" | grep -q 'argus:1'; }
is_over() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }

# verdict_of JOB: waits for it and prints the comment.
verdict_of()
{
    wait_for 120 has_comment "$1" && comment "$1"
}

# No recorder, no worker, no marker, no step's spool of ours is left.
clean()
{
    [ -z "$(find "$top/spool" -type f)" ] &&
        [ -z "$(find "$top"/spool/*/ -mindepth 1 -maxdepth 1 ! -name jobs ! -name queue)" ] &&
        [ -z "$(workers)" ]
}

# Our recorders and workers that still run.
workers()
{
    for p in $(grep -lsaF "$top/" /proc/[0-9]*/cmdline); do
        case $(cat "${p%/cmdline}/comm" 2>/dev/null) in
        argus | argus-record | argus-epilog) echo "${p%/cmdline}" ;;
        esac
    done
}

# job directory of JOB, for jobs started in $work
dir_of()
{
    echo "$work/argus/$1"
}
