#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# usage: run_pingpong.sh PROVIDER-DIR   libfabric's own fi_pingpong over the stack, both spellings, with data checked
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

provider_dir=$1
command -v fi_pingpong > /dev/null || { echo "fi_pingpong is missing (package libfabric-bin)"; exit 77; }

# pingpong NAME ENVIRONMENT... -- OPTIONS...
pingpong() {
	local name=$1 env=() rc=0
	shift
	while [ "$1" != -- ]; do env+=("$1"); shift; done
	shift
	echo "-- $name: ${env[*]} fi_pingpong $*"
	# shellcheck disable=SC2016
	isolated timeout 90 env FI_PROVIDER_PATH="$provider_dir" "${env[@]}" bash -c '
		fi_pingpong "$@" & server=$!
		sleep 1
		fi_pingpong "$@" 127.0.0.1 || { kill $server; exit 1; }
		wait $server' bash "$@" || rc=$?
	if [ $rc -eq 0 ]; then echo "PASS: fi_pingpong $name"; else echo "FAIL: fi_pingpong $name (exit status $rc)"; fi
}

for stack in "zip;tcp" "tcp;ofi_zip"; do
	name=$(stack_name fi_info "$provider_dir" "$stack")
	if [ -z "$name" ]; then
		echo "FAIL: FI_PROVIDER=\"$stack\" gives no zip provider"
		continue
	fi
	pingpong "$stack" "FI_PROVIDER=$stack" -- -e rdm -p "$name" -c -I 20
	pingpong "$stack large" "FI_PROVIDER=$stack" -- -e rdm -p "$name" -c -I 5 -S 4194304
	pingpong "$stack threshold 1" "FI_PROVIDER=$stack" FI_ZIP_MIN_SIZE=1 -- -e rdm -p "$name" -c -I 20
done
