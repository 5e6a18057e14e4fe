dnl SPDX-License-Identifier: BSD-3-Clause
dnl Optional parts: CUDA, HIP, libraries of the tests. Each switches itself off with a line in the
dnl summary; one that was asked for by name and is missing is an error.

dnl NVCC, CUDA_CFLAGS (host files that want cuda.h), conditional HAVE_CUDA
AC_DEFUN([ZIP_CUDA], [
	AC_ARG_WITH([cuda],
		[AS_HELP_STRING([--with-cuda=PREFIX], [CUDA toolkit to compile kernels with (default: found if there)])],
		[], [with_cuda=check])
	AC_ARG_VAR([NVCC], [CUDA compiler])
	zip_cuda_path="$PATH:/usr/local/cuda/bin"
	AS_CASE([$with_cuda], [yes|no|check], [], [zip_cuda_path="$with_cuda/bin"])
	CUDA_CFLAGS=
	AS_IF([test "$with_cuda" = no],
		[zip_cuda_state="off (--without-cuda)"; NVCC=],
		[AC_PATH_PROG([NVCC], [nvcc], [], [$zip_cuda_path])
		 AS_IF([test -n "$NVCC"],
			[zip_cuda_home=`dirname "$NVCC"`; zip_cuda_home=`dirname "$zip_cuda_home"`
			 CUDA_CFLAGS="-isystem $zip_cuda_home/include"
			 zip_cuda_state="on ($NVCC)"
			 AC_DEFINE([ZIPG_HAVE_CUDA], [1], [CUDA kernels are embedded])],
			[zip_cuda_state="off (no nvcc; give --with-cuda=PREFIX)"
			 AS_IF([test "$with_cuda" != check], [AC_MSG_ERROR([--with-cuda=$with_cuda: no nvcc in $zip_cuda_path])])])])
	AC_SUBST([CUDA_CFLAGS])
	AM_CONDITIONAL([HAVE_CUDA], [test -n "$NVCC"])
])

dnl HIPCC, conditional HAVE_HIP
AC_DEFUN([ZIP_HIP], [
	AC_ARG_WITH([hip],
		[AS_HELP_STRING([--with-hip=PREFIX], [ROCm or Debian's hipcc to compile kernels with (default: found if there)])],
		[], [with_hip=check])
	AC_ARG_VAR([HIPCC], [HIP compiler])
	zip_hip_path="$PATH:/opt/rocm/bin"
	AS_CASE([$with_hip], [yes|no|check], [], [zip_hip_path="$with_hip/bin"])
	AS_IF([test "$with_hip" = no],
		[zip_hip_state="off (--without-hip)"; HIPCC=],
		[AC_PATH_PROG([HIPCC], [hipcc], [], [$zip_hip_path])
		 AS_IF([test -n "$HIPCC"],
			[zip_hip_state="on ($HIPCC)"
			 AC_DEFINE([ZIPG_HAVE_HIP], [1], [HIP kernels are embedded])],
			[zip_hip_state="off (no hipcc; give --with-hip=PREFIX)"
			 AS_IF([test "$with_hip" != check], [AC_MSG_ERROR([--with-hip=$with_hip: no hipcc in $zip_hip_path])])])])
	AM_CONDITIONAL([HAVE_HIP], [test -n "$HIPCC"])
])

dnl conditional HAVE_UCP: libucp, for zip_perf --api ucp
AC_DEFUN([ZIP_UCP], [
	PKG_CHECK_MODULES([UCP], [ucx >= 1.13], [zip_ucp_state=on], [zip_ucp_state="off (libucx-dev is missing)"])
	AM_CONDITIONAL([HAVE_UCP], [test "$zip_ucp_state" = on])
])

AC_DEFUN([ZIP_TEST_LIBRARIES], [
	PKG_CHECK_MODULES([CMOCKA], [cmocka >= 1.1], [zip_cmocka_state=on],
		[zip_cmocka_state="off (libcmocka-dev is missing)"])
	AM_CONDITIONAL([HAVE_CMOCKA], [test "$zip_cmocka_state" = on])
	PKG_CHECK_MODULES([CJSON], [libcjson],
		[zip_cjson_state=on; AC_DEFINE([ZIPT_HAVE_CJSON], [1], [safetensors files can be read])],
		[zip_cjson_state="off (libcjson-dev is missing)"])
	AM_CONDITIONAL([HAVE_CJSON], [test "$zip_cjson_state" = on])
])
