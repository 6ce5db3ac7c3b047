# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_HARDENING
# Warnings for everybody, -Werror on request (CI), the usual hardening.
AC_DEFUN([X_AC_HARDENING], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
    [], [enable_werror=no])
  WARN_CFLAGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wno-format-nonliteral -Wvla"
  AS_IF([test "x$enable_werror" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
  HARDEN_CFLAGS="-fstack-protector-strong -fno-strict-aliasing"
  HARDEN_LDFLAGS="-Wl,-z,relro -Wl,-z,now"
  AC_SUBST([WARN_CFLAGS])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])
