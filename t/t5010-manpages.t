#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='every command has a manual page with the options that it has'

. /usr/share/sharness/sharness.sh

argus=$ARGUS_BUILDDIR/argus
doc=$ARGUS_SRCDIR/doc

# argus record hands over to the recorder, which may not be installed yet.
help() {
    if test "$1" = record; then
        "$ARGUS_BUILDDIR/argus-record" --help
    else
        "$argus" "$1" --help
    fi
}

# The options at the head of a line: "  -n, --ranks N   processes ..." is -n and --ranks.
options_of_help() {
    sed -n 's/^ \{2,\}\(-[^ ].*\)$/\1/p' |
        sed 's/   *.*//; s/ [A-Z].*//' | tr ', ' '\n\n' | grep '^-' | sort -u
}

# The tags of the OPTIONS section.
options_of_page() {
    sed -n '/^\.SH OPTIONS/,/^\.SH "*[A-NP-Z]/p' "$1" | sed -n '/^\.TP/{n;p}' |
        sed 's/\\-/-/g; s/\\f[BIRP]/ /g' | grep -o -E -- '(^|[ ,])--?[A-Za-z][a-z-]*' | tr -d ' ,' | sort -u
}

commands=$("$argus" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')

test_expect_success 'argus --help lists commands' '
    test -n "$commands" && echo $commands
'

test_expect_success 'argus(1) names every command' '
    for c in $commands; do
        grep -q "argus.-$c (1)" "$doc/argus.1" || { echo "no $c in argus.1"; return 1; }
    done
'

for c in $commands; do
    test_expect_success "argus-$c(1) has the options of argus $c --help" '
        test -r "$doc/argus-$c.1" &&
        help $c >help.txt 2>&1 &&
        options_of_help <help.txt >help.options &&
        options_of_page "$doc/argus-$c.1" >page.options &&
        test -s help.options &&
        diff -u help.options page.options
    '
    test_expect_success "argus $c refuses an unknown option with exit 2" '
        if test $c = record; then
            test_expect_code 2 "$ARGUS_BUILDDIR/argus-record" --no-such-option 2>err
        else
            test_expect_code 2 "$argus" $c --no-such-option 2>err
        fi &&
        test -s err
    '
done

test_expect_success 'argus --version: the version for scripts, then what was compiled in' '
    "$argus" --version >out &&
    sed -n 1p out | grep -E "^argus [0-9.]+$" && sed -n 2p out | grep "HDF5 [0-9]" &&
    "$argus" -V | diff - out
'

test_expect_success 'no command, an unknown command: exit 2' '
    test_expect_code 2 "$argus" 2>err && grep -q Usage err &&
    test_expect_code 2 "$argus" frobnicate 2>err && grep -q frobnicate err
'

command -v groff >/dev/null 2>&1 && test_set_prereq GROFF
test_expect_success GROFF 'groff has no complaint' '
    for page in "$doc"/*.[158]; do
        groff -man -Tascii -ww -z "$page" 2>&1 | sed "s|^|$page: |"
    done >complaints &&
    cat complaints && test_must_be_empty complaints
'

test_done
