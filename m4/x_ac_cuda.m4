# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_CUDA
# The toolkit is optional.  Where its headers are found, static assertions
# compare our CUPTI and NCCL facts with them (HAVE_CUPTI_H, HAVE_NCCL_H).
AC_DEFUN([X_AC_CUDA], [
  AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@], [CUDA toolkit prefix (default: search)])],
    [], [with_cuda=check])
  CUDA_CPPFLAGS=
  CUDA_PREFIX=
  cuda_summary="no (record layouts are not checked against cupti.h)"
  have_cupti_h=no
  AS_IF([test "x$with_cuda" != xno], [
    nvcc_path=`command -v nvcc 2>/dev/null`
    nvcc_prefix=
    AS_IF([test -n "$nvcc_path"], [nvcc_prefix=`dirname "$(dirname "$(readlink -f "$nvcc_path")")"`])
    for d in "$with_cuda" "$CUDA_HOME" "$nvcc_prefix" /usr/local/cuda /opt/cuda; do
      for i in "$d/include" "$d/extras/CUPTI/include" "$d/targets/x86_64-linux/include"; do
        AS_IF([test -r "$i/cupti_activity.h"], [
          have_cupti_h=yes
          CUDA_PREFIX=$d
          CUDA_CPPFLAGS="-isystem $i -isystem $d/include"
          break 2
        ])
      done
    done
    AS_IF([test "$have_cupti_h" = yes], [cuda_summary="$CUDA_PREFIX (layouts are checked)"],
      [test "x$with_cuda" != xcheck && test "x$with_cuda" != xyes],
        [AC_MSG_ERROR([no cupti_activity.h below $with_cuda])])
  ])
  AS_IF([test "$have_cupti_h" = yes], [
    save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
    AC_CHECK_HEADERS([cupti.h nccl.h nvtx3/nvToolsExt.h])
    CPPFLAGS=$save_CPPFLAGS
  ])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_PREFIX])
  AM_CONDITIONAL([HAVE_CUPTI_HEADERS], [test "$have_cupti_h" = yes])
])
