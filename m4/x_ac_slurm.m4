# SPDX-License-Identifier: Apache-2.0
# SYNOPSIS: X_AC_SLURM
# --with-slurm=DIR: prefix that holds include/slurm/spank.h.  The plugin is
# compiled against exactly one Slurm release and links no libslurm.
AC_DEFUN([X_AC_SLURM], [
  AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm@<:@=DIR@:>@], [Slurm prefix (default: search)])],
    [], [with_slurm=check])
  have_slurm=no
  SLURM_CPPFLAGS=
  slurm_summary="no (no SPANK plugin)"
  slurm_builds=
  AS_IF([test "x$with_slurm" != xno], [
    for d in "$with_slurm" /usr /usr/local /opt/slurm; do
      AS_IF([test -r "$d/include/slurm/spank.h"], [
        have_slurm=yes
        AS_IF([test "$d" != /usr], [SLURM_CPPFLAGS="-isystem $d/include"])
        break
      ])
    done
    AS_IF([test "$have_slurm" = yes], [
      dnl The number stands in slurm.h or in a header that it includes, as a
      dnl literal or as an expression: only the compiler knows.
      x_ac_slurm_cppflags=$CPPFLAGS
      CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
      AC_COMPUTE_INT([slurm_version], [SLURM_VERSION_NUMBER], [
#include <stdint.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
], [slurm_version=0])
      CPPFLAGS=$x_ac_slurm_cppflags
      AS_IF([test "$slurm_version" -eq 0],
        [AC_MSG_ERROR([$d/include/slurm/spank.h does not compile (see config.log), --without-slurm builds without it])])
      slurm_release=`printf '%d.%02d.%d' $(( ($slurm_version >> 16) & 255 )) $(( ($slurm_version >> 8) & 255 )) \
          $(( $slurm_version & 255 ))`
      slurm_summary="$d/include/slurm ($slurm_release)"
      slurm_builds=", spank_argus.so (for Slurm ${slurm_release%.*} only)"
    ])
    AS_IF([test "$have_slurm" = no && test "x$with_slurm" != xcheck && test "x$with_slurm" != xyes],
      [AC_MSG_ERROR([no slurm/spank.h below $with_slurm/include])])
  ])
  AC_ARG_WITH([spankdir], [AS_HELP_STRING([--with-spankdir=DIR], [where spank_argus.so goes @<:@LIBDIR/slurm@:>@])],
    [spankdir=$withval], [spankdir='${libdir}/slurm'])
  AC_SUBST([spankdir])
  AC_SUBST([SLURM_CPPFLAGS])
  AM_CONDITIONAL([HAVE_SLURM], [test "$have_slurm" = yes])
])
