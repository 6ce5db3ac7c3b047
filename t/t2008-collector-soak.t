#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='A short soak: 100,000 kernels a second, nothing dropped, memory flat (simulated GPU)'

. /usr/share/sharness/sharness.sh

test_expect_success 'twenty seconds' '
    sh "$ARGUS_SRCDIR/t/soak.sh" 20 >soak.out 2>&1
'
sed "s/^/# /" soak.out
test_done
