#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# usage: run_install.sh BUILD   `make install` puts one file where libfabric looks, and that file needs no libfabric
set -euo pipefail
build=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
make -C "$build" install DESTDIR="$stage"
provider=$(find "$stage" -name libzip-fi.so)
[ -n "$provider" ] || { echo "FAIL: install: no libzip-fi.so was installed"; exit 1; }
where=$(pkg-config --variable=libdir libfabric)/libfabric
if [ "$provider" = "$stage$where/libzip-fi.so" ]; then
	echo "PASS: install: $where"
else
	echo "FAIL: install: libzip-fi.so is in ${provider#"$stage"}, libfabric looks in $where"
fi
needed=$(readelf -d "$provider" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if printf '%s\n' "$needed" | grep -vE '^$|^(libc|libm|libpthread|libdl|libgcc_s|ld-linux.*)\.so'; then
	echo "FAIL: install: libzip-fi.so is linked with more than the C library"
else
	echo "PASS: install: libzip-fi.so needs only the C library"
fi
