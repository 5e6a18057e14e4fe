dnl SPDX-License-Identifier: BSD-3-Clause
dnl Compiler flags: warnings, sanitizers, fuzzers, AVX2.

dnl ZIP_TRY_FLAGS(FLAGS, ACTION-IF-LINKS, ACTION-IF-NOT)
AC_DEFUN([ZIP_TRY_FLAGS], [
	zip_save_CFLAGS="$CFLAGS"
	CFLAGS="$CFLAGS -Werror $1"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [zip_flags_work=yes], [zip_flags_work=no])
	CFLAGS="$zip_save_CFLAGS"
	AS_IF([test "$zip_flags_work" = yes], [$2], [$3])
])

AC_DEFUN([ZIP_WARNINGS], [
	AC_ARG_ENABLE([werror],
		[AS_HELP_STRING([--enable-werror], [treat warnings as errors (CI does)])],
		[], [enable_werror=no])
	ZIP_CFLAGS=
	for zip_flag in -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes \
			-Wold-style-definition -Wpointer-arith -Wvla -Wundef -Wwrite-strings \
			-Wno-unused-parameter -Wno-deprecated-declarations -fvisibility=hidden -ffp-contract=off; do
		ZIP_TRY_FLAGS([$zip_flag], [ZIP_CFLAGS="$ZIP_CFLAGS $zip_flag"], [])
	done
	AS_IF([test "$enable_werror" = yes],
		[ZIP_CFLAGS="$ZIP_CFLAGS -Werror"; zip_werror_state=on],
		[zip_werror_state="off (--enable-werror)"])
	AC_SUBST([ZIP_CFLAGS])
])

AC_DEFUN([ZIP_SANITIZERS], [
	AC_ARG_ENABLE([sanitizers],
		[AS_HELP_STRING([--enable-sanitizers], [build with AddressSanitizer and UndefinedBehaviorSanitizer])],
		[], [enable_sanitizers=no])
	zip_sanitizers_state="off (--enable-sanitizers)"
	ZIP_SANITIZE=
	AS_IF([test "$enable_sanitizers" != no], [
		zip_flags="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
		ZIP_TRY_FLAGS([$zip_flags],
			[ZIP_SANITIZE="$zip_flags"; zip_sanitizers_state="on (ASan, UBSan)"],
			[zip_sanitizers_state="off ($CC cannot link with $zip_flags)"])
	])
	AC_SUBST([ZIP_SANITIZE])
	AM_CONDITIONAL([SANITIZERS], [test -n "$ZIP_SANITIZE"])
])

AC_DEFUN([ZIP_FUZZERS], [
	AC_ARG_ENABLE([fuzzers],
		[AS_HELP_STRING([--enable-fuzzers], [build the libFuzzer targets (needs CC=clang)])],
		[], [enable_fuzzers=no])
	zip_fuzzers_state="off (--enable-fuzzers CC=clang)"
	ZIP_FUZZ_CFLAGS=
	ZIP_FUZZ_LDFLAGS=
	AS_IF([test "$enable_fuzzers" != no], [
		ZIP_TRY_FLAGS([-fsanitize=fuzzer-no-link],
			[ZIP_FUZZ_CFLAGS="-fsanitize=fuzzer-no-link"
			 ZIP_FUZZ_LDFLAGS="-fsanitize=fuzzer"
			 zip_fuzzers_state="on (libFuzzer)"],
			[zip_fuzzers_state="off ($CC has no -fsanitize=fuzzer; configure with CC=clang)"])
	])
	AC_SUBST([ZIP_FUZZ_CFLAGS])
	AC_SUBST([ZIP_FUZZ_LDFLAGS])
	AM_CONDITIONAL([FUZZERS], [test -n "$ZIP_FUZZ_CFLAGS"])
])

dnl The AVX2 files are compiled apart with their own flags and chosen at run time.
AC_DEFUN([ZIP_AVX2], [
	zip_avx2_state="off (the processor family or the compiler has none)"
	AVX2_CFLAGS=
	AS_CASE([$host_cpu], [x86_64|amd64], [
		ZIP_TRY_FLAGS([-mavx2 -mbmi2],
			[AVX2_CFLAGS="-mavx2 -mbmi2"
			 zip_avx2_state="on (chosen at run time)"
			 AC_DEFINE([ZIPC_HAVE_AVX2], [1], [the AVX2 codec is built])], [])
	])
	AC_SUBST([AVX2_CFLAGS])
	AM_CONDITIONAL([HAVE_AVX2], [test -n "$AVX2_CFLAGS"])
])
