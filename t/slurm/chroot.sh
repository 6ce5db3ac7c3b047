#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
usage()
{
    cat <<'USAGE'
Usage: t/slurm/chroot.sh TARBALL [--dir DIR] [--tests "TEST..."] [--shell]

Builds the tarball of `make dist` in a Debian 13 of its own and runs there,
with that release's Slurm 24.11, the tests of the plugin and the epilog and
the integration suite.  The system is made with debootstrap in DIR and kept
there for the next time; without --dir it is a new directory that is removed
at the end.  It is entered in mount and process namespaces of its own: nothing
of it stays mounted or running.  Needs root, debootstrap and a Debian mirror,
which is the one that apt uses here unless ARGUS_MIRROR names another.

  --tests   these tests instead
  --shell   no tests, but a shell where they would run

Exit status 0: all passed; 77: skipped, the last line says why.
USAGE
}

set -u
PATH=$PATH:/usr/sbin:/sbin
release=trixie slurm=24.11

die()
{
    echo "chroot.sh: $*" >&2
    exit 1
}
skip()
{
    echo "check-slurm-$slurm: skipped: $*"
    exit 77
}

tarball= dir= tests= shell=no
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --shell) shell=yes ;;
    --dir | --tests)
        [ $# -ge 2 ] || die "$1 needs a value"
        [ "$1" = --dir ] && dir=$2 || tests=$2
        shift
        ;;
    -*) usage >&2 && exit 2 ;;
    *) tarball=$1 ;;
    esac
    shift
done
[ -n "$tarball" ] || { usage >&2 && exit 2; }
[ -f "$tarball" ] || die "$tarball: no such file"
srcdir=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
. "$srcdir/contrib/packages.sh"

[ "$(id -u)" -eq 0 ] || skip "root is needed"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces of its own on this machine"

if [ -n "$dir" ]; then
    mkdir -p "$dir" && dir=$(cd "$dir" && pwd) || exit 1
else
    dir=$(mktemp -d "${TMPDIR:-/tmp}/argus-$release.XXXXXX") || exit 1
    trap 'rm -rf --one-file-system "$dir"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
fi
root=$dir/root

# ---------------------------------------------------------------------------
# The system.  dir/ready says that it is complete.

if [ ! -e "$dir/ready" ]; then
    mirror=${ARGUS_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        'Origin: Debian' 2>/dev/null | head -n 1)}
    [ -n "$mirror" ] || skip "apt names no mirror of Debian"
    /usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$release/InRelease" "$dir/InRelease" \
        >/dev/null 2>&1 || skip "the mirror has no $release, or cannot be reached"
    echo "making a Debian 13 in $root"
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase $release "$root" "$mirror" >"$dir/debootstrap.log" 2>&1 ||
        { tail -n 5 "$dir/debootstrap.log" >&2 && die "debootstrap failed"; }
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    : >"$dir/fresh"
fi

# inside COMMAND...: in the new system, with /proc, /dev and /run of its own.
# All mounts and processes go away with the namespaces.
inside()
{
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child --propagation private sh -c '
        root=$1
        shift
        mount --bind "$root" "$root" && mount -t proc proc "$root/proc" &&
            mount -t sysfs -o ro sysfs "$root/sys" &&
            mount -t tmpfs -o mode=755 tmpfs "$root/run" &&
            mount -t tmpfs -o mode=755 tmpfs "$root/dev" &&
            mkdir "$root/dev/shm" "$root/dev/pts" &&
            mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" &&
            mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" || exit 1
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
            mknod -m 666 "$root/dev/${node% *}" c 1 "${node#* }" || exit 1
        done
        mknod -m 666 "$root/dev/tty" c 5 0 || exit 1
        # A root that is a mount: namespaces can be made below it, and the old one is out of sight.
        cd "$root" && pivot_root . mnt || exit 1
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
            LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" DEBIAN_FRONTEND=noninteractive \
            chroot . sh -c "umount -l /mnt && exec \"\$@\"" sh "$@"
    ' sh "$root" "$@"
}

if [ -e "$dir/fresh" ]; then
    echo "installing Slurm and the build dependencies there"
    # shellcheck disable=SC2086
    inside sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' sh \
        $build_packages $cluster_packages hdf5-tools python3 sharness xz-utils \
        -o DPkg::Options::=--force-unsafe-io >"$dir/apt.log" 2>&1 ||
        { tail -n 5 "$dir/apt.log" >&2 && die "packages could not be installed"; }
    rm "$dir/fresh"
    : >"$dir/ready"
fi
[ -n "$tests" ] || tests='$(make -s print-slurm-tests)'

# Slurm's commands name each other their host.
echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"

# ---------------------------------------------------------------------------
# The build and the tests.

version=$(basename "$tarball")
version=${version%.tar.*}
rm -rf "$root/build" "$root"/tmp/* && mkdir "$root/build" &&
    tar -C "$root/build" --no-same-owner -xf "$tarball" || die "$tarball cannot be unpacked"
cat >"$root/build/run" <<RUN
set -u
cd /build/$version || exit 1
echo "Slurm \$(dpkg-query -W -f '\${Version}' slurmctld), built with \$(nproc) cores"
{ ./configure --quiet --enable-werror && make -j$(nproc) && make install; } >/build/build.log 2>&1 || {
    tail -n 40 /build/build.log
    echo "the build failed"
    exit 1
}
sed -n 's/^.*\(Slurm headers \.*.*\)/\1/p' config.log | tail -n 1
[ $shell = no ] || exec bash
make -k check TESTS="$tests" >/build/check.log 2>&1
grep -E '^(PASS|FAIL|SKIP|ERROR|XPASS)' /build/check.log
for log in \$(grep -lE '^:test-result: (FAIL|ERROR|XPASS)' \$(find . -name '*.trs')); do
    echo "== \${log%.trs}.log"
    tail -n \${ARGUS_LOG_LINES:-100} "\${log%.trs}.log"
done
# Files that ran and passed nothing have shown nothing.
nothing=
for trs in \$(find t spank -name '*.trs'); do
    grep -q '^:test-result: PASS' "\$trs" || nothing="\$nothing \${trs%.trs}"
done
count() { grep -hE "^:test-result: \$1" \$(find . -name '*.trs') | wc -l; }
[ -z "\$nothing" ] || echo "nothing passed in:\$nothing"
echo "\$(count PASS) passed, \$(count 'FAIL|^:test-result: ERROR|^:test-result: XPASS') failed, \$(count SKIP) skipped"
[ -z "\$nothing" ] && ! grep -qE '^(FAIL|ERROR|XPASS)' /build/check.log && grep -q '^PASS' /build/check.log
RUN
if [ $shell = yes ]; then
    inside sh /build/run
else
    inside sh /build/run </dev/null
fi
