#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='CPU stacks of real Python interpreters while the GPU starves (simulated GPU)'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"
dump="$ARGUS_BUILDDIR/collector_ringdump"
simgpu="$ARGUS_BUILDDIR/contrib/simgpu"

# Interpreters: ARGUS_TEST_PYTHONS, those pyenv keeps, and what the path has.
pythons=${ARGUS_TEST_PYTHONS:-}
if test -z "$pythons"; then
    for p in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
        test -x "$p" && pythons="$pythons $p"
    done
    for p in python3.8 python3.9 python3.10 python3.11 python3.12 python3.13 python3; do
        p=$(command -v $p) && pythons="$pythons $p"
    done
fi

run_host() {
    rm -rf spool && mkdir spool &&
    env ARGUS_SPOOL="$PWD/spool" ARGUS_RANK=0 ARGUS_WORLD=1 ARGUS_NODE=n0 \
        CUDA_INJECTION64_PATH="$so" LD_LIBRARY_PATH="$simgpu" PYTHONDONTWRITEBYTECODE=1 \
        "$1" "$ARGUS_SRCDIR/t/collector_host.py" "$simgpu" 4 &&
    "$dump" spool >ring
}

seen=
for python in $pythons; do
    version=$("$python" -c 'import sys, sysconfig
print("%d.%d%s" % (sys.version_info[0], sys.version_info[1],
                   "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))' 2>/dev/null) ||
        continue
    case " $seen " in *" $version "*) continue ;; esac
    seen="$seen $version"
    case $version in
    3.8 | 3.9 | 3.1[0-3])
        test_expect_success "Python $version: the frame that starved the GPU is named" '
            run_host "$python" &&
            grep "^KERNEL" ring >/dev/null &&
            grep "^STACK .*starved=1 .*;load_batch (t/collector_host.py:[0-9]*);read_next_shard" ring &&
            grep "^STACK .*folded=<module>" ring >/dev/null &&
            grep "^STACK .*starved=1" ring >starved &&
            grep "load_batch" starved >right &&
            test $(($(wc -l <right) * 2)) -gt $(wc -l <starved)
        '
        test_expect_success "Python $version: no more than one plain sample a second" '
            test $(grep -c "^STACK .*starved=0" ring) -le 6
        '
        ;;
    *)
        test_expect_success "Python $version: not one we know, the source stands down" '
            run_host "$python" &&
            ! grep "^STACK .*folded=<module>" ring &&
            grep "^ring .*standdown=0,0,0,6" ring
        '
        ;;
    esac
done
test -n "$seen" || skip_all='no Python interpreter'
test_done
