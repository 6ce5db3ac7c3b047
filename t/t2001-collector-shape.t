#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
test_description='The shape of libargus-collector.so: what it needs and what it shows'

. /usr/share/sharness/sharness.sh

so="$ARGUS_BUILDDIR/.libs/libargus-collector.so"

test_expect_success 'it was built' '
    test -r "$so"
'
test_expect_success 'it needs libc and nothing else' '
    readelf -d "$so" | sed -n "s/.*(NEEDED).*\[\(.*\)\]/\1/p" >needed &&
    grep "^libc\.so\." needed &&
    ! grep -v -e "^libc\.so\." -e "^ld-linux" needed
'
test_expect_success 'it stays mapped after dlclose' '
    readelf -d "$so" | grep -w NODELETE
'
test_expect_success 'it exports its entry points and no other symbol' '
    nm -D --defined-only "$so" | sed "s/.* //" | sort >exported &&
    cat >expected <<-\EOT &&
	InitializeInjection
	InitializeInjectionNvtx2
	InitializeInjectionNvtxExtension
	ncclProfiler_v2
	ncclProfiler_v3
	ncclProfiler_v4
	ncclProfiler_v5
	ncclProfiler_v6
	EOT
    test_cmp expected exported
'
test_expect_success 'it has no executable stack and no text relocations' '
    readelf -lW "$so" | grep GNU_STACK | grep -v RWE &&
    ! readelf -d "$so" | grep TEXTREL
'
if ldd --version 2>&1 | grep -q -i -e glibc -e "gnu libc"; then test_set_prereq GLIBC; fi
test_expect_success GLIBC 'it loads under a glibc as old as 2.17' '
    objdump -T "$so" | grep -o "GLIBC_[0-9.]*" | sort -uV | tail -n 1 >newest &&
    printf "GLIBC_2.17\n" | cat - newest | sort -V | tail -n 1 >later &&
    grep -x "GLIBC_2.17" later
'
test_expect_success 'it uses no static thread storage' '
    ! readelf -lW "$so" | grep -w TLS
'
test_done
