#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: contrib/rpm/build.sh TARBALL [DIR]

Builds RPM packages from a tarball that `make dist` made, in DIR (default:
rpm), and leaves them there: argus, argus-collector, slurm-argus-plugin.
Where rpm's database knows no slurm-devel (another distribution), build
dependencies are not checked and the Slurm release is that of the headers.
USAGE
}

set -u
die()
{
    echo "build.sh: $*" >&2
    exit 1
}

case ${1:-} in
-h | --help)
    usage
    exit 0
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac
command -v rpmbuild >/dev/null || die "rpmbuild is missing (package rpm-build, on Debian rpm)"
tarball=$(realpath "$1") && [ -f "$tarball" ] || die "$1: no such file"
mkdir -p "${2:-rpm}" && dir=$(cd "${2:-rpm}" && pwd) || exit 1
version=$(basename "$tarball")
version=${version#argus-}
version=${version%.tar.*}

mkdir -p "$dir/SOURCES" "$dir/SPECS"
cp "$tarball" "$dir/SOURCES/" || exit 1
tar -xOf "$tarball" "argus-$version/contrib/rpm/argus.spec" |
    sed "s|@VERSION@|$version|" >"$dir/SPECS/argus.spec" || exit 1

set -- --define "_topdir $dir"
if ! rpm -q slurm-devel >/dev/null 2>&1; then
    number=$(printf '#include <slurm/slurm_version.h>\nSLURM_VERSION_NUMBER\n' |
        ${CC:-cc} -E -P - | tail -n 1) && number=$((number)) || die "no Slurm headers"
    release=$(printf '%d.%02d' $((number >> 16 & 255)) $((number >> 8 & 255)))
    set -- "$@" --nodeps --define "slurm_release $release"
fi
rpmbuild "$@" -bb "$dir/SPECS/argus.spec" || exit 1
echo
ls -l "$dir"/RPMS/*/*.rpm
