# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_MPI
# --with-mpi: `argus analyze --mpi` splits the timelines over the processes of
# an MPI launch.  Off unless asked for: everything else works without.
AC_DEFUN([X_AC_MPI], [
  AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi], [analyze with many processes by MPI (pkg-config ompi-c, else mpicc)])],
    [], [with_mpi=no])
  mpi_summary=no
  AS_IF([test "x$with_mpi" != xno], [
    PKG_CHECK_MODULES([MPI], [ompi-c], [mpi_summary="pkg-config ompi-c"], [
      AC_PATH_PROG([MPICC], [mpicc])
      AS_IF([test -n "$MPICC"], [
        MPI_CFLAGS=`$MPICC -show -c x.c | tr ' ' '\n' | grep '^-[[ID]]' | tr '\n' ' '`
        MPI_LIBS=`$MPICC -show x.o | tr ' ' '\n' | grep -E '^-[[lLW]]' | tr '\n' ' '`
        mpi_summary="$MPICC"
      ], [AC_MSG_ERROR([--with-mpi: neither pkg-config ompi-c nor mpicc found])])
    ])
    AC_DEFINE([HAVE_MPI], [1], [argus analyze --mpi])
  ])
  AC_SUBST([MPI_CFLAGS])
  AC_SUBST([MPI_LIBS])
])
