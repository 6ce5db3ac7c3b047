#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scale.sh ARGUS SCALE: what analyzing 256 to 10,240 ranks costs (1,000 steps each,
# summary mode, simulated).  The files go to a private directory and are removed.
set -eu
argus=$1
scale=$2
dir=$(mktemp -d "${TMPDIR:-/tmp}/argus-scale.XXXXXX")
trap 'rm -rf "$dir"' EXIT
for ranks in ${SCALE_RANKS:-256 1024 4096 10240}; do
    "$scale" make "$dir/job" "$ranks" "${SCALE_STEPS:-1000}"
    echo "$ranks ranks, $(find "$dir/job" -name '*.h5' | wc -l) files, $(du -sm "$dir/job" | cut -f1) MiB"
    "$scale" measure "$argus" analyze --no-write "$dir/job"
    rm -rf "$dir/job"
done
