# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_HDF5
# Serial HDF5 by pkg-config, else by h5cc.
AC_DEFUN([X_AC_HDF5], [
  AC_ARG_WITH([hdf5], [AS_HELP_STRING([--with-hdf5=DIR], [serial HDF5 prefix (default: pkg-config, then h5cc)])],
    [], [with_hdf5=check])
  hdf5_summary=no
  AS_CASE([$with_hdf5],
    [check|yes], [
      PKG_CHECK_MODULES([HDF5], [hdf5-serial], [hdf5_summary="pkg-config hdf5-serial"], [
        PKG_CHECK_MODULES([HDF5], [hdf5], [hdf5_summary="pkg-config hdf5"], [
          AC_PATH_PROG([H5CC], [h5cc])
          AS_IF([test -n "$H5CC"], [
            HDF5_CFLAGS=`$H5CC -show -c x.c | tr ' ' '\n' | grep '^-[[ID]]' | tr '\n' ' '`
            HDF5_LIBS=`$H5CC -show x.o | tr ' ' '\n' | grep -E '^-[[lL]]|\.(so|a)$' | tr '\n' ' '`
            hdf5_summary="$H5CC"
          ], [AC_MSG_ERROR([HDF5 not found: install its development package or use --with-hdf5=DIR])])
        ])
      ])
    ],
    [HDF5_CFLAGS="-I$with_hdf5/include"; HDF5_LIBS="-L$with_hdf5/lib -lhdf5"; hdf5_summary="$with_hdf5"])
  X_AC_HDF5_STATIC
  AC_SUBST([HDF5_CFLAGS])
  AC_SUBST([HDF5_LIBS])
])

# SYNOPSIS: X_AC_HDF5_STATIC
# The recorder starts with every traced step.  Debian's shared HDF5 brings curl, TLS, LDAP and
# Kerberos along for storage that is never used here, thirty libraries; its static one does not.
AC_DEFUN([X_AC_HDF5_STATIC], [
  AC_ARG_ENABLE([static-hdf5], [AS_HELP_STRING([--disable-static-hdf5],
    [link the recorder to the shared HDF5 also where there is a static one])],
    [], [enable_static_hdf5=check])
  HDF5_STATIC= HDF5_STATIC_LIBS=
  AS_IF([test "x$enable_static_hdf5" != xno], [
    AC_MSG_CHECKING([for a static HDF5])
    hdf5_save_CPPFLAGS=$CPPFLAGS hdf5_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $HDF5_CFLAGS"
    for hdf5_dir in `echo "$HDF5_LIBS" | tr ' ' '\n' | sed -n 's/^-L//p'`; do
      for hdf5_more in '-lz' '-lsz -lz'; do
        LIBS="$hdf5_dir/libhdf5.a $hdf5_more -ldl -lm $hdf5_save_LIBS"
        AS_IF([test -z "$HDF5_STATIC" && test -r "$hdf5_dir/libhdf5.a"], [
          AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>]], [[return H5open() < 0;]])],
            [HDF5_STATIC="$hdf5_dir/libhdf5.a" HDF5_STATIC_LIBS="$hdf5_more -ldl -lm"])
        ])
      done
    done
    CPPFLAGS=$hdf5_save_CPPFLAGS LIBS=$hdf5_save_LIBS
    AC_MSG_RESULT([${HDF5_STATIC:-no}])
    AS_IF([test -n "$HDF5_STATIC"], [hdf5_summary="$hdf5_summary, static in the recorder"],
      [test "x$enable_static_hdf5" = xyes], [AC_MSG_ERROR([no static HDF5 that links by itself])])
  ])
  AC_SUBST([HDF5_STATIC])
  AC_SUBST([HDF5_STATIC_LIBS])
  AM_CONDITIONAL([STATIC_HDF5], [test -n "$HDF5_STATIC"])
])
