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
        AS_IF([test "$d" != /usr], [SLURM_CPPFLAGS="-I$d/include"])
        slurm_version=`$SED -n 's/^#define SLURM_VERSION_NUMBER  *\(0x[[0-9a-fA-F]]*\).*/\1/p' \
            "$d/include/slurm/slurm.h" "$d/include/slurm/slurm_version.h" 2>/dev/null | head -n 1`
        slurm_release=`printf '%d.%02d.%d' $(( ($slurm_version >> 16) & 255 )) $(( ($slurm_version >> 8) & 255 )) \
            $(( $slurm_version & 255 )) 2>/dev/null`
        slurm_summary="$d/include/slurm ($slurm_release)"
        slurm_builds=", spank_argus.so (for Slurm $slurm_release only)"
        break
      ])
    done
    AS_IF([test "$have_slurm" = no && test "x$with_slurm" != xcheck && test "x$with_slurm" != xyes],
      [AC_MSG_ERROR([no slurm/spank.h below $with_slurm/include])])
  ])
  AC_ARG_WITH([spankdir], [AS_HELP_STRING([--with-spankdir=DIR], [where spank_argus.so goes @<:@LIBDIR/slurm@:>@])],
    [spankdir=$withval], [spankdir='${libdir}/slurm'])
  AC_SUBST([spankdir])
  AC_SUBST([SLURM_CPPFLAGS])
  AM_CONDITIONAL([HAVE_SLURM], [test "$have_slurm" = yes])
])
