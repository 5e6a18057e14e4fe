#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# usage: run_install.sh BUILD   `make install` puts the modules where libfabric looks, none of them needs a libfabric, and programs and
# manuals are there too
set -euo pipefail
build=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
make -C "$build" install DESTDIR="$stage"
where=$(pkg-config --variable=libdir libfabric)/libfabric
for module in $(make -s -C "$build" print-provider_LTLIBRARIES | sed 's/\.la/.so/g'); do
	installed=$stage$where/$module
	if [ ! -e "$installed" ]; then
		echo "FAIL: install: no $module in $where, where libfabric looks; installed: $(find "$stage" -name "$module")"
		continue
	fi
	echo "PASS: install: $module in $where"
	needed=$(readelf -d "$installed" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	if printf '%s\n' "$needed" | grep -vE '^$|^(libc|libm|libpthread|libdl|libgcc_s|ld-linux.*)\.so'; then
		echo "FAIL: install: $module is linked with more than the C library"
	else
		echo "PASS: install: $module needs only the C library"
	fi
done
for program in $(make -s -C "$build" print-bin_PROGRAMS) $(make -s -C "$build" print-dist_man_MANS); do
	if [ -n "$(find "$stage" -name "$(basename "$program")")" ]; then
		echo "PASS: install: $(basename "$program")"
	else
		echo "FAIL: install: no $(basename "$program")"
	fi
done
