dnl SPDX-License-Identifier: BSD-3-Clause
dnl libfabric's headers and library, and the directory where it looks for providers.

dnl Sets LIBFABRIC_CFLAGS, LIBFABRIC_LIBS, zip_libfabric_libdir, zip_libfabric_prefix.
AC_DEFUN([ZIP_LIBFABRIC], [
	AC_ARG_WITH([libfabric],
		[AS_HELP_STRING([--with-libfabric=PREFIX], [libfabric >= 1.17 installed in PREFIX (default: the one pkg-config knows)])],
		[], [with_libfabric=yes])
	AS_CASE([$with_libfabric],
		[no], [AC_MSG_ERROR([the provider cannot be built without libfabric's headers])],
		[yes], [ZIP_LIBFABRIC_PKGCONFIG],
		[ZIP_LIBFABRIC_PREFIX])
	ZIP_LIBFABRIC_CHECK_VERSION
	AC_SUBST([LIBFABRIC_CFLAGS])
	AC_SUBST([LIBFABRIC_LIBS])
])

AC_DEFUN([ZIP_LIBFABRIC_PKGCONFIG], [
	PKG_CHECK_MODULES([LIBFABRIC], [libfabric >= 1.17], [],
		[AC_MSG_ERROR([libfabric >= 1.17 was not found: install libfabric-dev or give --with-libfabric=PREFIX])])
	PKG_CHECK_VAR([zip_libfabric_libdir], [libfabric], [libdir])
	PKG_CHECK_VAR([zip_libfabric_prefix], [libfabric], [prefix])
	zip_libfabric_from="pkg-config"
])

AC_DEFUN([ZIP_LIBFABRIC_PREFIX], [
	zip_libfabric_prefix="$with_libfabric"
	zip_multiarch=`$CC -print-multiarch 2>/dev/null`
	zip_libfabric_libdir=
	for zip_dir in lib lib64 "lib/$zip_multiarch"; do
		AS_IF([test -e "$with_libfabric/$zip_dir/libfabric.so"],
			[zip_libfabric_libdir="$with_libfabric/$zip_dir"; break])
	done
	AS_IF([test -z "$zip_libfabric_libdir" || test ! -e "$with_libfabric/include/rdma/fabric.h"],
		[AC_MSG_ERROR([no include/rdma/fabric.h and lib/libfabric.so under --with-libfabric=$with_libfabric])])
	dnl -isystem: warnings in libfabric's own headers are not ours
	LIBFABRIC_CFLAGS="-isystem $with_libfabric/include"
	LIBFABRIC_LIBS="-L$zip_libfabric_libdir -Wl,-rpath,$zip_libfabric_libdir -lfabric"
	zip_libfabric_from="$with_libfabric"
])

AC_DEFUN([ZIP_LIBFABRIC_CHECK_VERSION], [
	zip_save_CPPFLAGS="$CPPFLAGS"
	CPPFLAGS="$CPPFLAGS $LIBFABRIC_CFLAGS"
	AC_MSG_CHECKING([for libfabric's headers, 1.17 or later])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <rdma/fabric.h>
#if FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 17))
#error too old
#endif
		]], [[]])],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		 AC_MSG_ERROR([libfabric >= 1.17 is needed ($zip_libfabric_from has an older one or no headers)])])
	AC_COMPUTE_INT([zip_libfabric_major], [FI_MAJOR_VERSION], [#include <rdma/fabric.h>])
	AC_COMPUTE_INT([zip_libfabric_minor], [FI_MINOR_VERSION], [#include <rdma/fabric.h>])
	CPPFLAGS="$zip_save_CPPFLAGS"
	zip_libfabric_state="$zip_libfabric_major.$zip_libfabric_minor ($zip_libfabric_from)"
])

dnl libfabric looks in $libdir/libfabric of its own installation. Without --prefix, or with the same prefix, that is
dnl where `make install` puts the provider; any other prefix is respected, and FI_PROVIDER_PATH then names the place.
AC_DEFUN([ZIP_PROVIDERDIR], [
	AC_ARG_WITH([providerdir],
		[AS_HELP_STRING([--with-providerdir=DIR], [where libzip-fi.so is installed (default: where libfabric looks)])],
		[], [with_providerdir=yes])
	AS_CASE([$with_providerdir],
		[yes|no|''], [
			AS_IF([test "x$prefix" = xNONE || test "x$prefix" = "x$zip_libfabric_prefix"],
				[providerdir="$zip_libfabric_libdir/libfabric"
				 zip_providerdir_state="$providerdir"],
				[providerdir='${libdir}/libfabric'
				 zip_providerdir_state="$providerdir (set FI_PROVIDER_PATH to it: libfabric itself looks in $zip_libfabric_libdir/libfabric)"])
		],
		[providerdir="$with_providerdir"; zip_providerdir_state="$providerdir"])
	AC_SUBST([providerdir])
])
