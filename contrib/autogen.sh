#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from a git checkout.
set -e
cd "$(dirname "$0")/.."
mkdir -p build-aux
autoreconf -fi
for d in "$(automake --print-libdir)" /usr/share/automake-1.16; do
    [ -r "$d/tap-driver.sh" ] && { cp "$d/tap-driver.sh" build-aux/; break; }
done
