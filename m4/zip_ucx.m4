dnl SPDX-License-Identifier: BSD-3-Clause
dnl The UCX transport. Headers that a transport needs are not installed: they come from a source tree of the version that it is to
dnl run with, which may be unconfigured. What UCX's own configure would add to it (config.h, version.h) is made in uct/zip/ucx of
dnl the build tree.

dnl UCX_CPPFLAGS, UCX_LIBS, conditionals HAVE_UCX and HAVE_UCX_LIBS
AC_DEFUN([ZIP_UCX], [
	AC_ARG_WITH([ucx-source],
		[AS_HELP_STRING([--with-ucx-source=DIR], [UCX source tree of the version the transport is for])],
		[], [with_ucx_source=no])
	AC_ARG_WITH([ucx],
		[AS_HELP_STRING([--with-ucx=PREFIX], [UCX installed in PREFIX, of the same version (default: the system's)])],
		[], [with_ucx=yes])
	UCX_CPPFLAGS=
	UCX_LIBS=
	zip_ucx=no
	zip_ucx_linked=no
	AS_CASE([$with_ucx_source],
		[no|yes], [zip_ucx_state="off (--with-ucx-source=DIR)"],
		[AS_IF([test -e "$with_ucx_source/src/uct/base/uct_iface.h"], [ZIP_UCX_TREE],
			[AC_MSG_ERROR([--with-ucx-source=$with_ucx_source has no src/uct/base/uct_iface.h])])])
	AC_SUBST([UCX_CPPFLAGS])
	AC_SUBST([UCX_LIBS])
	AM_CONDITIONAL([HAVE_UCX], [test $zip_ucx = yes])
	AM_CONDITIONAL([HAVE_UCX_LIBS], [test $zip_ucx_linked = yes])
])

AC_DEFUN([ZIP_UCX_TREE], [
	UCX_SOURCE=`cd "$with_ucx_source" && pwd`
	zip_ucx_major=`sed -n 's/^.*\[[ucx_ver_major\]], *\([[0-9]]*\).*/\1/p' "$UCX_SOURCE/configure.ac"`
	zip_ucx_minor=`sed -n 's/^.*\[[ucx_ver_minor\]], *\([[0-9]]*\).*/\1/p' "$UCX_SOURCE/configure.ac"`
	AS_IF([test -z "$zip_ucx_major" || test -z "$zip_ucx_minor"],
		[AC_MSG_ERROR([--with-ucx-source=$with_ucx_source: no version in its configure.ac])])
	AS_CASE([$with_ucx],
		[yes|''], [UCX_LIBS="-luct -lucs"; zip_ucx_path="$PATH"],
		[UCX_LIBS="-L$with_ucx/lib -luct -lucs"; zip_ucx_path="$with_ucx/bin"])
	AC_PATH_PROG([UCX_INFO], [ucx_info], [], [$zip_ucx_path])
	zip_ucx_dir=uct/zip/ucx
	AS_MKDIR_P([$zip_ucx_dir/uct/api])
	sed -e "s/@MAJOR_VERSION@/$zip_ucx_major/g" -e "s/@MINOR_VERSION@/$zip_ucx_minor/g" -e "s/@PATCH_VERSION@/0/g" \
		-e "s/@[[A-Z_]]*@//g" "$UCX_SOURCE/src/uct/api/version.h.in" > $zip_ucx_dir/uct/api/version.h
	UCX_CPPFLAGS="-isystem \$(abs_top_builddir)/$zip_ucx_dir -isystem $UCX_SOURCE/src -include \$(abs_top_builddir)/$zip_ucx_dir/config.h"
	UCX_CPPFLAGS="$UCX_CPPFLAGS -DZIPU_UCX_MAJOR=$zip_ucx_major -DZIPU_UCX_MINOR=$zip_ucx_minor"
	ZIP_UCX_CONFIG
])

dnl config.h: of the tree, if it was configured, else of the installed UCX, which must be of the same version.
AC_DEFUN([ZIP_UCX_CONFIG], [
	zip_ucx_version="$zip_ucx_major.$zip_ucx_minor"
	zip_ucx_installed=
	AS_IF([test -n "$UCX_INFO"],
		[zip_ucx_installed=`"$UCX_INFO" -v 2>/dev/null | sed -n 's/^.*[[Vv]]ersion:* *\([[0-9]]*\.[[0-9]]*\).*/\1/p' | head -n 1`])
	AS_IF([test -e "$UCX_SOURCE/config.h"],
			[zip_ucx=yes
			 cat "$UCX_SOURCE/config.h" > $zip_ucx_dir/config.h.in],
		[test "$zip_ucx_installed" = "$zip_ucx_version"],
			[zip_ucx=yes
			 "$UCX_INFO" -b > $zip_ucx_dir/config.h.in],
		[zip_ucx_state="off ($with_ucx_source is of UCX $zip_ucx_version and not configured, and ucx_info is of ${zip_ucx_installed:-no version}: give --with-ucx=PREFIX)"])
	dnl The names of the package are ours.
	AS_IF([test $zip_ucx = yes],
		[grep -v -e 'define PACKAGE' -e 'define VERSION' $zip_ucx_dir/config.h.in > $zip_ucx_dir/config.h
		 ZIP_UCX_LINK])
])

dnl Without libraries to link with, of the same version, the objects are compiled and that is all.
AC_DEFUN([ZIP_UCX_LINK], [
	zip_save_LIBS="$LIBS"
	LIBS="$LIBS $UCX_LIBS"
	AC_MSG_CHECKING([for UCX's libraries, version $zip_ucx_version])
	AC_LINK_IFELSE([AC_LANG_SOURCE([[void uct_component_register(void *); int main(void) { uct_component_register(0); return 0; }]])],
		[zip_ucx_linked=yes], [zip_ucx_linked=no])
	LIBS="$zip_save_LIBS"
	AS_IF([test "$zip_ucx_installed" != "$zip_ucx_version"], [zip_ucx_linked=no])
	AC_MSG_RESULT([$zip_ucx_linked])
	AS_IF([test $zip_ucx_linked = yes],
		[zip_ucx_state="on (for UCX $zip_ucx_version, $UCX_SOURCE)"],
		[zip_ucx_state="compiled for UCX $zip_ucx_version, not linked (no libraries of that version; give --with-ucx=PREFIX)"
		 UCX_LIBS=])
])
