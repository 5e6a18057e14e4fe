#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Which stacks libfabric enumerates, and what it calls them. What stands over efa and verbs is asked of a core provider that only
# enumerates (test/fake_core.c): there need not be a device.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

usage() {
	cat <<'END'
usage: run_enumerate.sh --build DIR [--fi-info PROGRAM]

  --build DIR        build tree: its providers in .libs and test/.libs are used
  --fi-info PROGRAM  fi_info of the libfabric to ask (default fi_info)
END
}

build='' fi_info=fi_info failed=0
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	--fi-info) fi_info=$2; shift 2 ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$build" ] || { usage >&2; exit 2; }

# expect STACK FAKE-CORE NAME: FI_PROVIDER=STACK enumerates an RDM provider of this NAME, or with NAME "" none, without a crash
expect() {
	local stack=$1 fake=$2 name=$3 path=$build/.libs found rc=0
	[ -z "$fake" ] || path=$path:$build/test/.libs
	found=$(FI_PROVIDER_PATH=$path FI_PROVIDER=$stack ZIP_FAKE_CORE=$fake timeout 60 "$fi_info" -t FI_EP_RDM 2>&1) || rc=$?
	found=$(sed -n 's/^provider: *//p' <<< "$found" | sort -u)
	if [ $rc -le 128 ] && { [ -z "$name" ] && [ -z "$found" ] || grep -qxF -- "${name:-none}" <<< "$found"; }; then
		echo "PASS: $stack${fake:+ (no device)} -> ${name:-nothing}"
	else
		echo "FAIL: $stack${fake:+ (no device)} -> ${found:-nothing}, exit status $rc; expected ${name:-nothing}"
		failed=1
	fi
}

expect "zip;efa" efa "zip;efa;ofi_zip"
expect "efa;ofi_zip" efa "efa;ofi_zip"
expect "zip;verbs" verbs "zip;verbs;ofi_rxm;ofi_zip"
expect "verbs;ofi_zip" verbs "verbs;ofi_zip"
expect "verbs;ofi_rxm;ofi_zip" verbs "verbs;ofi_rxm;ofi_zip"
expect "zip;shm" "" "zip;shm;ofi_zip"
expect "tcp;ofi_rxm;ofi_zip" "" "tcp;ofi_rxm;ofi_zip"
expect "zip;nosuchcore" "" ""
expect "nosuchcore;ofi_zip" "" ""
exit $failed
