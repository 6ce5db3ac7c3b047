#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: contrib/deb/build.sh TARBALL [DIR]

Builds Debian packages from a tarball that `make dist` made, with debhelper, in
DIR (default: deb), and leaves them there:
  argus                         tools, recorder, epilog, timer, manual pages
  argus-collector               the library for the traced processes
  slurm-argus-plugin-RELEASE    the plugin, for the Slurm release of the
                                installed libslurm-dev and no other

DEB_BUILD_OPTIONS=nocheck leaves out the tests.
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
for program in dpkg-buildpackage dh dpkg-query; do
    command -v $program >/dev/null || die "$program is missing (packages dpkg-dev, debhelper)"
done
tarball=$(realpath "$1") && [ -f "$tarball" ] || die "$1: no such file"
mkdir -p "${2:-deb}" && dir=$(cd "${2:-deb}" && pwd) || exit 1

version=$(basename "$tarball")
version=${version#argus-}
version=${version%.tar.*}
slurm=$(dpkg-query -W -f '${Version}' libslurm-dev 2>/dev/null) || die "libslurm-dev is not installed"
slurm=${slurm#*:}
# 22.05.8-4+deb12u3: the release is 22.05, and every next one is 22.06 or more.
year=${slurm%%.*} month=${slurm#*.}
month=${month%%.*}
case $year$month in
[0-9][0-9][0-9][0-9]) ;;
*) die "libslurm-dev $slurm: not a release like 24.11.5" ;;
esac
next=$year.$(printf %02d $((${month#0} + 1)))

source=$dir/argus-$version
rm -rf "$source"
tar -C "$dir" -xf "$tarball" || die "$tarball cannot be unpacked"
[ -d "$source/contrib/deb/debian" ] || die "$tarball has no contrib/deb/debian"
cp "$tarball" "$dir/argus_$version.orig.tar.${tarball##*.}"
cp -r "$source/contrib/deb/debian" "$source/debian"
cd "$source/debian" || exit 1
date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y ../VERSION)}")
for file in control.in changelog.in rules; do
    sed -e "s|@SLURM_RELEASE@|$year.$month|g" -e "s|@SLURM_NEXT@|$next|g" \
        -e "s|@VERSION@|$version|g" -e "s|@DATE@|$date|g" "$file" >"$file.new" || exit 1
    mv "$file.new" "${file%.in}"
    [ "${file%.in}" = "$file" ] || rm "$file"
done
chmod 755 rules
for file in plugin.*; do
    mv "$file" "slurm-argus-plugin-$year.$month.${file#plugin.}"
done
cp ../contrib/systemd/argus-sweep.service argus.argus-sweep.service
cp ../contrib/systemd/argus-sweep.timer argus.argus-sweep.timer

cd "$source" && dpkg-buildpackage -b -us -uc "-j${ARGUS_BUILD_JOBS:-$(nproc)}" || exit 1
echo
ls -l "$dir"/*.deb
