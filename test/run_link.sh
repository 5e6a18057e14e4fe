#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The link for benches (test/link): its own test, over host memory and over a device, and some end-to-end programs of zip over it.
# With --bench: whether it keeps the rate and the latency it was told.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

usage() {
	cat <<'END'
usage: run_link.sh --build DIR [--cuda LIBRARY] [--only PATTERN] [--bench]

  --build DIR     build tree: its test/.libs/libzlink-fi.so, test/link_test and test/e2e_* are used
  --cuda LIBRARY  CUDA's driver library (default: a stand-in of the build tree; libcuda.so.1 is the real one)
  --only PATTERN  end-to-end programs to run over "zip;zlink", an extended regular expression (default: some quick ones)
  --bench         measure instead of test: round trips and messages of 16 MiB in host memory, at several rates and latencies. The
                  machine must be quiet; as root the processes run with real-time priority.
END
}

build='' cuda='' only='e2e_(plain|order|life|kill)$' bench=no failed=0
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	--cuda) cuda=$2; shift 2 ;;
	--only) only=$2; shift 2 ;;
	--bench) bench=yes; shift ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$build" ] || { usage >&2; exit 2; }
[ -n "$cuda" ] || cuda=$build/test/.libs/libfakecuda.so

# run_test WHAT LIBRARY
run_test() {
	local log rc=0 start=$SECONDS
	log=$(mktemp)
	isolated timeout --kill-after=5 120 env FI_PROVIDER_PATH="$build/test/.libs" FI_PROVIDER=zlink FI_ZLINK_CUDA="$2" \
		ASAN_OPTIONS="${ASAN_OPTIONS-detect_leaks=1:detect_stack_use_after_return=1}" \
		LSAN_OPTIONS="${LSAN_OPTIONS-use_tls=0:suppressions=$zip_top/test/lsan.supp:print_suppressions=0}" \
		"$build/test/link_test" > "$log" 2>&1 < /dev/null || rc=$?
	if [ $rc -eq 0 ] && [ "$(tail -n 1 "$log")" = "$1 memory" ]; then
		echo "PASS: link_test, $1 memory ($((SECONDS - start)) s)"
	else
		failed=1
		sed 's/^/    | /' "$log" | tail -n 60
		echo "FAIL: link_test, $1 memory (exit status $rc)"
	fi
	rm -f "$log"
}

# pingpong BYTES ITERATIONS RATE LATENCY: prints microseconds for one way
pingpong() {
	local bytes=$1 iterations=$2 priority='' port=47444 server
	[ "$(id -u)" -ne 0 ] || priority="chrt -f 5"
	export FI_PROVIDER_PATH=$build/test/.libs FI_PROVIDER=zlink FI_ZLINK_RATE=$3 FI_ZLINK_LATENCY=$4
	# shellcheck disable=SC2086
	timeout 60 $priority fi_pingpong -p zlink -e rdm -m tagged -I "$iterations" -S "$bytes" -B $port > /dev/null &
	server=$!
	sleep 1
	# shellcheck disable=SC2086
	timeout 60 $priority fi_pingpong -p zlink -e rdm -m tagged -I "$iterations" -S "$bytes" -P $port 127.0.0.1 |
		awk 'END { print $7 }'
	wait $server
}

measure() {
	local rate latency us
	echo "link: two processes of this host, host memory, fi_pingpong; one message at a time"
	for latency in 0 8 50; do
		us=$(pingpong 8 2000 0 $latency)
		echo "8 bytes, latency $latency us, no rate: one way $us us"
	done
	for rate in 1 2 4 0; do
		us=$(pingpong 16777216 20 $rate 8)
		echo "16 MiB, latency 8 us, rate $rate GB/s: $(awk -v us="$us" 'BEGIN { printf "%.3f", 16777216 / us / 1000 }') GB/s"
	done
}

if [ $bench = yes ]; then
	measure
	exit 0
fi
run_test "host" /nonexistent
run_test "host and device" "$cuda"
"$zip_top/test/run_e2e.sh" --build "$build" --only "$only" --stacks "zip;zlink" || failed=1
exit $failed
