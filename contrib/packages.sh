# SPDX-License-Identifier: Apache-2.0
# Sourced by demo.sh and check.sh: Debian's packages that they need.

build_packages="autoconf automake build-essential libtool pkg-config libcairo2-dev libcmocka-dev
libgsl-dev libhdf5-dev libjansson-dev libncurses-dev libslurm-dev libsqlite3-dev libyajl-dev
zlib1g-dev"
cluster_packages="mariadb-server munge slurm-client slurm-wlm-mysql-plugin slurmctld slurmd slurmdbd"
test_packages="clang debhelper hdf5-tools libopenmpi-dev lintian openmpi-bin prometheus python3
python3-h5py python3-matplotlib python3-scipy sharness valgrind"

# need_packages NAME...: install those that are missing.  The daemons of the
# packages are not started: the cluster here is a private one.
need_packages()
{
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "installing$missing"
    policy=/usr/sbin/policy-rc.d made_policy=no
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy && made_policy=yes
    fi
    rc=0
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
        </dev/null >/dev/null 2>&1 || {
        apt-get update -qq </dev/null >/dev/null &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
                </dev/null >/dev/null
    } || rc=1
    [ $made_policy = no ] || rm -f $policy
    return $rc
}
