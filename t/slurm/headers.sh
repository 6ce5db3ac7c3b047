#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: t/slurm/headers.sh [SUITE]

Compiles the plugin, and nothing else, against the Slurm headers of another
Debian suite (default: sid) and looks at the symbols that this release wants.
The headers come through apt into a private directory that is removed at the
end; nothing is installed.  ARGUS_MIRROR names another mirror than apt's.

Exit status 0: it compiles; 77: skipped, the last line says why.
USAGE
}

set -u
die()
{
    echo "headers.sh: $*" >&2
    exit 1
}
skip()
{
    echo "check-slurm-headers: skipped: $*"
    exit 77
}

case ${1:-} in
-h | --help) usage && exit 0 ;;
-*) usage >&2 && exit 2 ;;
esac
suite=${1:-sid}
srcdir=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
command -v apt-get >/dev/null || skip "no apt here"
mirror=${ARGUS_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    'Origin: Debian' 2>/dev/null | head -n 1)}
[ -n "$mirror" ] || skip "apt names no mirror of Debian"

dir=$(mktemp -d "${TMPDIR:-/tmp}/argus-headers.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$dir"
mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/build"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keyring] $mirror $suite main" >"$dir/sources.list"
private()
{
    apt-get -qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$dir/lists" -o Dir::Cache::Archives="$dir/archives" \
        -o Dir::Cache::pkgcache="$dir/pkgcache.bin" -o Dir::Cache::srcpkgcache="$dir/srcpkgcache.bin" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
}
private update >"$dir/log" 2>&1 || skip "$suite cannot be read: $(head -n 1 "$dir/log")"
(cd "$dir" && private download libslurm-dev) >"$dir/log" 2>&1 ||
    skip "$suite has no libslurm-dev: $(head -n 1 "$dir/log")"
dpkg-deb -x "$dir"/libslurm-dev_*.deb "$dir/slurm" || die "cannot be unpacked"

cd "$dir/build" || exit 1
"$srcdir/configure" --quiet --enable-werror --with-slurm="$dir/slurm/usr" >"$dir/log" 2>&1 &&
    make spank/spank_argus.la >>"$dir/log" 2>&1 || { tail -n 20 "$dir/log" && die "it does not compile"; }
version=$(printf '#include <slurm/slurm_version.h>\nSLURM_VERSION_NUMBER\n' |
    "${CC:-cc}" -I"$dir/slurm/usr/include" -E -P - | tail -n 1) && version=$((version)) ||
    die "the headers do not tell their release"
echo "compiled for Slurm $((version >> 16 & 255)).$(printf %02d $((version >> 8 & 255)))"
symbols=$(nm -D --defined-only spank/.libs/spank_argus.so | awk '{ print $3 }')
for symbol in plugin_name plugin_type plugin_version slurm_spank_init; do
    echo "$symbols" | grep -qx $symbol || die "$symbol is missing"
done
# From 25.05 on a plugin says what its failure means.
if [ "$version" -ge $((25 << 16 | 5 << 8)) ]; then
    echo "$symbols" | grep -qx slurm_spank_init_failure_mode || die "slurm_spank_init_failure_mode is missing"
    echo "slurm_spank_init_failure_mode is there"
fi
