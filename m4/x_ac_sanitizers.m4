# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_SANITIZERS
# --enable-sanitizers=address,undefined or =thread: flags for every object.
AC_DEFUN([X_AC_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [build with -fsanitize=LIST (address,undefined or thread)])],
    [], [enable_sanitizers=no])
  sanitizers_summary=no
  AS_IF([test "x$enable_sanitizers" = xyes], [enable_sanitizers=address,undefined])
  AS_IF([test "x$enable_sanitizers" != xno], [
    SAN_CFLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    sanitizers_summary=$enable_sanitizers
  ])
  AC_SUBST([SAN_CFLAGS])
  AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
])
