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
  AC_SUBST([HDF5_CFLAGS])
  AC_SUBST([HDF5_LIBS])
])
