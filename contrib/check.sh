#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: contrib/check.sh [--quick]

Everything that is checked before a change goes in, on Debian 12 as root:
missing packages, a build with gcc and -Werror, installed into a private
directory, all tests there (units, scripts, a real Slurm cluster on loopback),
a build with clang and -Werror, units and parsers under ASan and UBSan,
`make distcheck`.  The last line is "N passed, N failed".

  --quick   gcc build and its tests only
USAGE
}

set -u
quick=no
case ${1:-} in
'') ;;
--quick) quick=yes ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

srcdir=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$srcdir/contrib/packages.sh"
jobs=$(nproc)
passed=0 failed=0
# Recorded traces, where they are at hand; make distcheck cannot find them itself.
[ -n "${ARGUS_TEST_DATA:-}" ] || ARGUS_TEST_DATA=$srcdir/../shared/data
export ARGUS_TEST_DATA
began=$(date +%s)
dir=$(mktemp -d "${TMPDIR:-/tmp}/argus-check.XXXXXX") || exit 1
chmod 755 "$dir"
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One thing to get right, counted; its output is shown when it fails.
step() # title command...
{
    title=$1
    shift
    start=$(date +%s)
    if "$@" </dev/null >"$dir/step.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $title ($(($(date +%s) - start)) s)"
        return 0
    fi
    failed=$((failed + 1))
    echo "FAILED  $title ($(($(date +%s) - start)) s)"
    tail -n 60 "$dir/step.log"
    return 1
}

# The results that make check left behind, one line a test point.
count() # title build-directory
{
    results=$(find "$2" -name '*.trs' -exec sed -n 's/^:test-result: //p' {} +)
    good=$(echo "$results" | grep -cE '^(PASS|XFAIL)')
    # A script that fails says so a second time, as ERROR: its exit status.
    bad=$(find "$2" -name '*.trs' -exec awk '
        FNR == 1 {bad += fail ? fail : error; fail = error = 0}
        /^:test-result: (FAIL|XPASS)/ {fail++}
        /^:test-result: ERROR/ {error++}
        END {print bad + (fail ? fail : error)}' {} + | awk '{n += $1} END {print n + 0}')
    skipped=$(echo "$results" | grep -c '^SKIP')
    passed=$((passed + good))
    failed=$((failed + bad))
    echo "        $1: $good passed, $bad failed, $skipped skipped"
    find "$2" -name '*.trs' | while read -r trs; do
        sed -n "s|^:test-result: \(FAIL\|XPASS\|ERROR\)\(.*\)|        \1\2 (${trs#"$2"/})|p" "$trs"
        sed -n "s|^SKIP: |        SKIP |p" "${trs%.trs}.log"
    done
    if [ "$bad" -gt 0 ]; then
        find "$2" -name '*.trs' -exec grep -lE '^:test-result: (FAIL|XPASS|ERROR)' {} + |
            while read -r trs; do
                echo "---- ${trs%.trs}.log"
                tail -n 80 "${trs%.trs}.log"
            done
    fi
}

configure() # build-directory option...
{
    build=$1
    shift
    mkdir -p "$build" && cd "$build" && "$srcdir/configure" "$@"
}

# make check's own exit status says nothing new: count() reads the results.
# But a test that did not even build must show.
check() # build-directory make-argument...
{
    build=$1
    shift
    cd "$build" && make -k check "$@" || find . -name '*.trs' | grep -q .
}

finish()
{
    echo "in $(($(date +%s) - began)) s"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

echo "argus, checked in $dir with $jobs cores"
# shellcheck disable=SC2086
step "packages" need_packages $build_packages $cluster_packages $test_packages || finish
step "autogen" "$srcdir/contrib/autogen.sh" || finish

gcc=$dir/gcc
# Another python may come first in PATH; the package's modules are Debian's.
if [ -z "${ARGUS_PYTHON:-}" ] && /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
    ARGUS_PYTHON=/usr/bin/python3
    export ARGUS_PYTHON
fi
step "gcc: configure" configure "$gcc" --enable-werror --with-mpi --prefix="$dir/inst" CC=gcc || finish
step "gcc: build with -Werror" make -C "$gcc" -j"$jobs" || finish
step "gcc: install" make -C "$gcc" install || finish
step "gcc: tests ran" check "$gcc"
count "gcc" "$gcc"
[ $quick = no ] || finish

clang=$dir/clang
step "clang: configure" configure "$clang" --enable-werror CC=clang &&
    step "clang: build with -Werror" make -C "$clang" -j"$jobs" all &&
    step "clang: build of the tests" make -C "$clang" -j"$jobs" check TESTS=
rm -rf "$clang"

# Under sanitizers: unit tests, fuzzers and whatever reads files.
sanitized=$dir/sanitized
if step "sanitizers: configure" configure "$sanitized" --enable-sanitizers=address,undefined \
    CFLAGS="-g -O1" &&
    step "sanitizers: build" make -C "$sanitized" -j"$jobs" all; then
    tests=$(cd "$srcdir" && make -s -C "$sanitized" print-unit-tests)
    step "sanitizers: tests ran" check "$sanitized" -j"$jobs" TESTS="$tests"
    count "sanitizers" "$sanitized"
fi
rm -rf "$sanitized"

step "make distcheck" make -C "$gcc" -j"$jobs" distcheck DISTCHECK_CONFIGURE_FLAGS=--enable-werror
finish
