#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='markers and node lists on mutated input'

. /usr/share/sharness/sharness.sh

for seed in 1 2 3; do
    test_expect_success "no rule is broken, seed $seed" "
        '$ARGUS_BUILDDIR/marker_fuzz' ${ARGUS_FUZZ_SECONDS:-1} $seed
    "
done

test_done
