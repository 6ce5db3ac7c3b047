#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scale.sh ARGUS SCALE SVG: what analyzing 256 to 10,240 ranks costs (1,000 steps each,
# summary mode, simulated), and 64 ranks with every event of 200 steps.  The files go to a
# private directory and are removed; the picture SVG stays.
set -eu
argus=$1
scale=$2
svg=$3
dir=$(mktemp -d "${TMPDIR:-/tmp}/argus-scale.XXXXXX")
trap 'rm -rf "$dir"' EXIT

measure() # figures
{
    echo "    $(find "$dir/job" -name '*.h5' | wc -l) files, $(du -sm "$dir/job" | cut -f1) MiB"
    "$scale" measure "$dir/job" "$1" "$argus" analyze --no-write --quiet --comment - "$dir/job" >"$dir/out"
    sed "s/^/    /" "$dir/out"
    rm -rf "$dir/job"
}

echo "64 ranks, 200 steps, every event"
"$scale" events "$dir/job" 64 200
measure "$dir/events"
for ranks in ${SCALE_RANKS:-256 1024 4096 10240}; do
    echo "$ranks ranks, ${SCALE_STEPS:-1000} steps, summary"
    "$scale" make "$dir/job" "$ranks" "${SCALE_STEPS:-1000}"
    measure "$dir/figures"
done
"$scale" plot "$dir/figures" "$svg"
echo "$svg"
