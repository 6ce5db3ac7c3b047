#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='Debian packages: they build, and installed they pass the demo

The packages are installed with dpkg, as far as this process can see: /usr, /etc
and /var are covered by directories of the test in a mount namespace of its own.'

. /usr/share/sharness/sharness.sh

missing()
{
    [ "$(id -u)" -eq 0 ] || { echo "root is needed"; return; }
    for program in dpkg-buildpackage dh munged mariadbd slurmdbd slurmctld slurmd; do
        PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
            { echo "$program is not installed"; return; }
    done
    dpkg-query -W -f '${Status}' libslurm-dev 2>/dev/null | grep -q 'ok installed' ||
        { echo "libslurm-dev is not installed"; return; }
    unshare --mount true 2>/dev/null || { echo "no mount namespaces"; return; }
    grep -qw overlay /proc/filesystems || { echo "this kernel has no overlay file system"; return; }
    case $ARGUS_BUILDDIR in
    */_build/sub) echo "make distcheck builds enough" ;;
    esac
}
skip_all=$(missing)
if [ -n "$skip_all" ]; then
    test_done
fi
unset skip_all

top=/tmp/argus-t.$$
mkdir "$top" && chmod 755 "$top" || exit 1
cleanup 'rm -rf --one-file-system "$top"'
plugin=slurm-argus-plugin-$(dpkg-query -W -f '${Version}' libslurm-dev | cut -d. -f1,2)

# inside COMMAND...: what it writes below /usr, /etc and /var lands in $top.
cat >"$top/inside" <<'INSIDE'
top=$1
shift
mkdir -p "$top/over" && mount -t tmpfs tmpfs "$top/over" || exit 1
for d in usr etc var; do
    mkdir "$top/over/$d" "$top/over/$d.work"
    mount -t overlay -o "lowerdir=/$d,upperdir=$top/over/$d,workdir=$top/over/$d.work" overlay "/$d" ||
        exit 1
done
exec "$@"
INSIDE
inside()
{
    unshare --mount --propagation private sh "$top/inside" "$top" "$@"
}

test_expect_success 'make dist and build.sh make three packages' '
    version=$(cat "$ARGUS_SRCDIR/VERSION") && mkdir "$top/tar" &&
    (unset MAKEFLAGS MAKELEVEL &&
        make -s -C "$ARGUS_BUILDDIR" distdir distdir="$top/tar/argus-$version") >dist.log 2>&1 &&
    tar -C "$top/tar" -cf "$top/argus-$version.tar" "argus-$version" &&
    xz -0 "$top/argus-$version.tar" &&
    (unset MAKEFLAGS MAKELEVEL && DEB_BUILD_OPTIONS="nocheck noautodbgsym" \
        sh "$ARGUS_SRCDIR/contrib/deb/build.sh" "$top/argus-$version.tar.xz" "$top/deb") >build.log 2>&1 ||
        { tail -n 40 build.log; false; } &&
    test "$(ls "$top"/deb/*.deb | wc -l)" = 3
'

test_expect_success 'the plugin goes with exactly one Slurm release' '
    next=$(echo "${plugin##*-}" | awk -F. "{ printf \"%d.%02d\", \$1, \$2 + 1 }") &&
    dpkg-deb -f "$top"/deb/"$plugin"_*.deb Depends >depends &&
    grep "slurm-wlm-basic-plugins (>= ${plugin##*-}~)" depends &&
    grep "slurm-wlm-basic-plugins (<< $next~)" depends
'

test_expect_success 'files are where Debian and Slurm look for them; nothing is switched on' '
    for deb in "$top"/deb/*.deb; do dpkg-deb -x "$deb" "$top/root" || return 1; done &&
    (cd "$top/root" && find . ! -type d) | sort >files &&
    grep -x "\./usr/bin/argus" files &&
    grep -x "\./usr/sbin/argus-epilog" files &&
    grep -x "\./usr/libexec/argus/argus-record" files &&
    grep -x "\./usr/lib/[^/]*/argus/libargus-collector.so" files &&
    grep -x "\./usr/lib/[^/]*/slurm-wlm/spank_argus.so" files &&
    grep -x "\./usr/share/man/man8/argus-epilog.8.gz" files &&
    grep -x "\./usr/share/bash-completion/completions/argus" files &&
    grep "systemd/system/argus-sweep.timer" files &&
    test "$(grep "^\./etc/" files)" = ./etc/slurm/plugstack.conf.d/argus.conf.sample &&
    ! grep "\.la$" files && ! grep timers.target.wants files
'

command -v lintian >/dev/null && test_set_prereq LINTIAN
test_expect_success LINTIAN 'lintian has no objection' '
    lintian --allow-root --fail-on error,warning "$top"/deb/*.deb
'

test_expect_success 'dpkg installs them, and the demo passes with the installed files' '
    inside sh -c "
        dpkg -i $top/deb/*.deb &&
        test ! -e /etc/systemd/system/timers.target.wants/argus-sweep.timer &&
        TMPDIR=/tmp sh \"$ARGUS_SRCDIR/contrib/demo.sh\" --installed \"$ARGUS_BUILDDIR\"" >demo.log 2>&1 </dev/null ||
        { tail -n 60 demo.log; false; } &&
    grep "argus as installed" demo.log && grep "3 of 3 verdicts as expected" demo.log
'

test_expect_success 'an upgrade of Slurm takes the plugin with it, and nothing else of Argus' '
    mkdir -p "$top/fake/DEBIAN" &&
    cat >"$top/fake/DEBIAN/control" <<-CONTROL &&
	Package: slurm-wlm-basic-plugins
	Version: 99.05.1-1
	Architecture: $(dpkg --print-architecture)
	Maintainer: nobody <nobody@example.org>
	Description: a later Slurm
	CONTROL
    dpkg-deb -b "$top/fake" "$top/fake.deb" &&
    inside sh -c "dpkg -i $top/deb/*.deb >/dev/null && apt-get install -s $top/fake.deb" >upgrade.log 2>&1 &&
    grep "^Inst slurm-wlm-basic-plugins" upgrade.log && grep "^Remv $plugin" upgrade.log &&
    ! grep "^Remv argus" upgrade.log
'

test_expect_success 'nothing of it is installed on this machine' '
    test ! -d "$top/over/usr" && ! dpkg-query -W "$plugin" 2>/dev/null
'

test_done
