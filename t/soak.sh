#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh [SECONDS]: one rank on the stand-in GPU at 100,000 kernels a second,
# the collector in it, a recorder beside it.  Fails when records were dropped
# or when the rank's memory grew after the first seconds by more than 16 MB:
# four more buffers, which a busy machine may need.
# Environment: ARGUS_BUILDDIR.
seconds=${1:-600}
build=${ARGUS_BUILDDIR:?}
work=$(mktemp -d "${TMPDIR:-/tmp}/argus-soak.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# Sixteen virtual seconds a second, up to 22 steps of 352 kernels in each of them.
steps=$((seconds * 16 * 22))
ARGUS_LIBDIR="$build/.libs" ARGUS_LIBEXECDIR="$build"
export ARGUS_LIBDIR ARGUS_LIBEXECDIR
cat >"$work/rank.sh" <<EOT
echo \$\$ >"$work/pid"
exec "$build/contrib/simgpu/simtrain" --pace 16 --steps $steps --quiet
EOT
"$build/argus" run -n 1 --dir "$work/job" -- sh "$work/rank.sh" >"$work/out" 2>&1 &
run=$!

resident() { # private and shared, in KB
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(cat "$work/pid")/status" 2>/dev/null
}
cpu() { # ticks of the collector's threads
    for task in /proc/"$(cat "$work/pid")"/task/*; do
        case $(cat "$task/comm" 2>/dev/null) in
        argus*) cut -d' ' -f14,15 "$task/stat" ;;
        esac
    done | awk '{ n += $1 + $2 } END { print n + 0 }'
}
warm=$((seconds / 5))
test $warm -gt 30 && warm=30
sleep $warm
first=$(resident)
most=$first
waited=$warm
ticks=0
while kill -0 $run 2>/dev/null && test $waited -lt $((seconds * 2)); do
    now=$(resident)
    t=$(cpu 2>/dev/null)
    test "${t:-0}" -gt $ticks && ticks=$t
    test "${now:-0}" -gt "$most" && most=$now
    sleep 1
    waited=$((waited + 1))
done
wait $run
status=$?
cat "$work/out" | tail -n 4
dropped=$(sed -n 's/.*"dropped": *\([0-9]*\).*/\1/p' "$work/job/verdict.json" | head -n 1)
compared=$(sed -n 's/.*"steps_compared": *\([0-9]*\).*/\1/p' "$work/job/verdict.json" | head -n 1)
echo "soak: $waited s, exit $status, $compared of $steps steps compared, dropped ${dropped:-?}"
echo "soak: resident after $warm s $first KB, at most $most KB later; collector's threads used" \
    "$ticks ticks of $(getconf CLK_TCK) a second"
test $status = 0 && test "$dropped" = 0 && test "${compared:-0}" -ge $((steps * 9 / 10)) &&
    test -n "$first" && test $((most - first)) -le 16384
