#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='bash completion'

. /usr/share/sharness/sharness.sh

if ! command -v bash >/dev/null 2>&1; then
    skip_all='no bash'
    test_done
fi

cat >complete.bash <<'SH'
. "$ARGUS_SRCDIR/contrib/completion/argus"
COMP_WORDS=("$ARGUS_BUILDDIR/argus" "$@")
COMP_CWORD=$#
_argus
printf '%s\n' "${COMPREPLY[@]}"
SH

test_expect_success 'commands' '
    bash complete.bash "" >out &&
    grep -qx analyze out && grep -qx report out && grep -qx top out &&
    bash complete.bash re >out && grep -qx report out && grep -qx record out && ! grep -qx top out
'

test_expect_success 'the options of a command, all of them' '
    bash complete.bash report -- >out &&
    printf "%s\n" --ascii --color --help --html --step --summary | sort >want &&
    sort out | diff -u want -
'

test_expect_success 'values' '
    bash complete.bash report --color a | sort >out && printf "always\nauto\n" | diff -u - out &&
    bash complete.bash import k >out && echo kineto | diff -u - out
'

test_expect_success 'job directories and files' '
    mkdir -p argus/4711 argus/4712 && : >argus/4711/job.json &&
    bash complete.bash report 4 >out && echo 4711 | diff -u - out &&
    : >trace.json && bash complete.bash import kineto tra >out && grep -qx trace.json out
'

test_done
