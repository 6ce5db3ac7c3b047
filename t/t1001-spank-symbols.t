#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

test_description='the plugin shows Slurm its SPANK symbols and nothing else'

. "${SHARNESS:-/usr/share/sharness/sharness.sh}"

plugin=$ARGUS_BUILDDIR/spank/.libs/spank_argus.so
if test ! -e "$plugin"; then
    skip_all="no Slurm headers, no plugin"
    test_done
fi
case $(nm -D "$plugin") in
*__asan_init*) skip_all="a sanitizer build brings symbols and libraries of its own"; test_done ;;
esac

test_expect_success 'only SPANK symbols are exported' '
    nm -D --defined-only "$plugin" | cut -d" " -f3 | sort >symbols &&
    grep -x -v -E "slurm_spank_[a-z_]+|plugin_(name|type|version)|spank_plugin_version" symbols \
        >other; test ! -s other
'

test_expect_success 'all hooks that are needed are there, those that cost every job are not' '
    for hook in init init_post_opt user_init task_init task_exit exit; do
        grep -x slurm_spank_$hook symbols || return 1
    done &&
    ! grep -E "slurm_spank_job_(prolog|epilog)" symbols
'

test_expect_success 'it needs the C library alone: no libslurm, no threads' '
    readelf -d "$plugin" | sed -n "s/.*(NEEDED).*\[\(.*\)\]/\1/p" >needed &&
    test "$(cat needed)" = libc.so.6
'

test_expect_success 'it binds late, and needs no executable stack' '
    ! readelf -d "$plugin" | grep -E "BIND_NOW|Flags:.*NOW" &&
    readelf -lW "$plugin" | grep -E "GNU_STACK.* RW +" 
'

test_expect_success 'it starts no thread and leaves nothing to run at exit' '
    nm -D --undefined-only "$plugin" >undefined &&
    ! grep -E " (pthread_create|atexit|on_exit|__cxa_atexit|__cxa_thread_atexit_impl|pthread_atfork|system|popen)(@|$)" undefined
'

test_done
