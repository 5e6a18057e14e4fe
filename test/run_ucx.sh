#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The UCX transport under UCX's own tools, a program over the UCT API, and Open MPI. Each runs in namespaces of its own.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"
# shellcheck source=test/sh/link.sh
. "$zip_top/test/sh/link.sh"

usage() {
	cat <<'END'
usage: run_ucx.sh --build DIR [--only PATTERN] [--largest BYTES] [--rate RATE] [--latency]

  --build DIR       build tree: its libuct_zip.so and test/ucx_zip are used
  --only PATTERN    only tests whose name matches this extended regular expression
  --largest BYTES   largest message of the MPI program (default 16777216)
  --rate RATE       rate of the limited link, as tc writes it (default 300mbit)
  --latency         only this: latency of small messages, UCX_TLS=tcp,self and zip,tcp,self in turns

Prints PASS:, FAIL: or SKIP: for each test; exit status 1 when one failed.
END
}

build='' only=. largest=16777216 rate=300mbit latency=no failed=0
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	--only) only=$2; shift 2 ;;
	--largest) largest=$2; shift 2 ;;
	--rate) rate=$2; shift 2 ;;
	--latency) latency=yes; shift ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$build" ] || { usage >&2; exit 2; }
module=$build/.libs/libuct_zip.so
[ -e "$module" ] || { echo "no $module: configure found no UCX"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"; link_remove' EXIT

# A module that is built with ASan wants it first.
preload=$module
sanitized=no
if readelf -d "$module" | grep -q libasan; then
	preload=$(ldd "$module" | awk '/lib(asan|ubsan)/ { print $3 }' | tr '\n' ' ')$module
	sanitized=yes
fi
export ASAN_OPTIONS="${ASAN_OPTIONS-detect_leaks=0:detect_stack_use_after_return=1}"

wanted() { [[ $1 =~ $only ]]; }

# verdict NAME STATUS LOG [PATTERN]: passed with status 0 and, if a pattern is given, a line of the log that matches it
verdict() {
	local name=$1 rc=$2 log=$3 pattern=${4-}
	if [ "$rc" -eq 0 ] && { [ -z "$pattern" ] || grep -Eq "$pattern" "$log"; }; then
		echo "PASS: $name"
		return
	fi
	failed=1
	{ grep -v WARN "$log" || true; } | sed 's/^/    | /' | tail -n 40
	echo "FAIL: $name (exit status $rc${pattern:+, wanted: $pattern})"
}

# ---- what UCX's tools say

test_info() {
	local log=$work/info
	LD_PRELOAD=$preload timeout 30 ucx_info -d > "$log" 2>&1 || true
	verdict "ucx_info -d lists the transport" 0 "$log" '^# +Transport: zip$'
	LD_PRELOAD=$preload timeout 30 ucx_info -c > "$log" 2>&1 || true
	verdict "ucx_info -c lists the settings" 0 "$log" '^UCX_ZIP_MIN_SIZE=64K$'
	# loaded into what does not use UCX it does nothing
	LD_PRELOAD=$preload timeout 30 echo hello > "$log" 2>&1 || true
	verdict "preloaded into another program" 0 "$log" '^hello$'
}

# perftest NAME PATTERN ENVIRONMENT... -- OPTIONS...: both sides; the pattern is looked for in the output of both
perftest() {
	local name=$1 pattern=$2 env=() rc=0 log=$work/perftest
	shift 2
	while [ "$1" != -- ]; do env+=("$1"); shift; done
	shift
	# shellcheck disable=SC2016
	isolated timeout --kill-after=5 60 env LD_PRELOAD="$preload" UCX_ZIP_STATS=y UCX_WARN_UNUSED_ENV_VARS=n "${env[@]}" bash -c '
		ucx_perftest "$@" & server=$!
		sleep 0.3
		ucx_perftest "$@" 127.0.0.1 || { kill $server; exit 1; }
		wait $server' bash "$@" > "$log" 2>&1 || rc=$?
	verdict "ucx_perftest $name: $*" $rc "$log" "$pattern"
}

# Transfers of the engine were sent, and none failed.
compressed='^zip: sends [1-9][0-9]* bytes [0-9]+ wire [0-9]+, .* errors 0,'
plain='^zip: sends 0 .* plain puts [1-9]'
plain_gets='^zip: sends 0 .* gets [1-9]'

test_perftest_uct() {
	local options=(-x zip -d lo -w 10 -n 300)
	perftest uct '' -- "${options[@]}" -t am_lat -D short -s 8
	perftest uct '' -- "${options[@]}" -t am_bw -D bcopy -s 8000
	perftest uct '' -- "${options[@]}" -t am_bw -D zcopy -s 60000
	perftest uct "$plain" -- "${options[@]}" -t put_bw -D short -s 100
	perftest uct "$plain" -- "${options[@]}" -t put_lat -D bcopy -s 8000
	perftest uct "$plain" -- "${options[@]}" -t put_bw -D zcopy -s 20000
	perftest uct "$compressed" UCX_ZIP_POLICY=ratio -- "${options[@]}" -t put_bw -D zcopy -s 300000
	perftest uct "$plain_gets" -- "${options[@]}" -t get -D bcopy -s 8000
	perftest uct "$plain_gets" -- "${options[@]}" -t get -D zcopy -s 20000
	perftest uct "$compressed" UCX_ZIP_POLICY=ratio -- "${options[@]}" -t get -D zcopy -s 300000
}

test_perftest_ucp() {
	local stack=UCX_TLS=zip,tcp,self big=(-s 1048576 -n 60 -w 10) t
	for t in tag_lat tag_bw ucp_am_lat ucp_am_bw stream_bw stream_lat ucp_put_lat ucp_put_bw ucp_get; do
		perftest ucp '' $stack -- -t $t -s 8 -n 100 -w 10
	done
	for t in tag_lat tag_bw ucp_am_bw; do
		perftest ucp,get "$compressed" $stack UCX_ZIP_POLICY=ratio UCX_RNDV_SCHEME=get_zcopy -- -t $t "${big[@]}"
		perftest ucp,put "$compressed" $stack UCX_ZIP_POLICY=ratio UCX_RNDV_SCHEME=put_zcopy -- -t $t "${big[@]}"
	done
	perftest ucp "$compressed" $stack UCX_ZIP_POLICY=ratio -- -t ucp_put_bw "${big[@]}"
	perftest ucp "$compressed" $stack UCX_ZIP_POLICY=ratio -- -t ucp_get "${big[@]}"
	perftest ucp,auto '' $stack -- -t tag_bw "${big[@]}"
	perftest ucp,alone "$compressed" UCX_TLS=zip,self UCX_ZIP_POLICY=ratio -- -t tag_bw "${big[@]}"
	perftest ucp,threads '' $stack UCX_ZIP_POLICY=ratio -- -t tag_bw -T 2 "${big[@]}"
	perftest ucp,sleep "$compressed" $stack UCX_ZIP_POLICY=ratio -- -t tag_bw -E sleep "${big[@]}"
}

# ---- over the UCT API: order, keys, death, hostile messages

test_uct_api() {
	local policy log=$work/api rc
	for policy in ratio auto; do
		rc=0
		isolated timeout --kill-after=5 120 env LD_PRELOAD="$preload" UCX_ZIP_POLICY=$policy UCX_HANDLE_ERRORS=none ZIP_CORPUS="$zip_top/test/corpus/fuzz_control" \
			"$build/test/ucx_zip" all > "$log" 2>&1 < /dev/null || rc=$?
		grep -E '^(PASS|FAIL): ' "$log" | sed "s/$/ ($policy)/"
		[ $rc -eq 0 ] || verdict "ucx_zip ($policy)" $rc "$log"
	done
}

# ---- Open MPI

# mpi RANKS ENVIRONMENT... -- ARGUMENTS...; the last line says how many bytes went over the loopback device
mpi() {
	local ranks=$1 env=()
	shift
	while [ "$1" != -- ]; do env+=(-x "$1"); shift; done
	shift
	# shellcheck disable=SC2016
	isolated timeout --kill-after=5 150 bash -c '"$@"; rc=$?; sed -n "s/^ *lo: *\([0-9]*\) .*/lo \1/p" /proc/net/dev; exit $rc' bash \
		mpirun --allow-run-as-root --oversubscribe -n "$ranks" --mca pml ucx \
		--mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl ^openib,vader,tcp --mca osc ucx \
		-x LD_PRELOAD="$preload" -x UCX_ZIP_STATS=y -x UCX_WARN_UNUSED_ENV_VARS=n "${env[@]}" "$@" < /dev/null
}

mpi_build() {
	command -v mpicc > /dev/null || { echo "SKIP: mpi: no mpicc (package libopenmpi-dev)"; return 1; }
	local sources=("$zip_top/test/mpi_zip.c" "$zip_top/test/ucx_data.c" "$zip_top/test/zipt_data.c") rc=0
	mpicc -std=gnu11 -O2 -Wall -Wextra -Werror -ffp-contract=off -I"$zip_top/common" -I"$zip_top/test" "${sources[@]}" \
		-o "$work/mpi_zip" > "$work/mpicc" 2>&1 || rc=$?
	[ $rc -eq 0 ] || { verdict "mpi: mpicc" $rc "$work/mpicc"; return 1; }
}

mpi_test() {
	local name=$1 rc=0
	shift
	mpi "$@" > "$work/mpi" 2>&1 || rc=$?
	verdict "mpi: $name" $rc "$work/mpi" '^mpi_zip: all right'
	grep -Eq "$compressed" "$work/mpi" || verdict "mpi: $name: something was compressed" 1 "$work/mpi"
}

test_mpi() {
	mpi_build || return 0
	mpi_test "2 ranks" 2 UCX_TLS=zip,tcp,self UCX_ZIP_POLICY=ratio -- "$work/mpi_zip" "$largest"
	mpi_test "2 ranks, rendezvous by put" 2 UCX_TLS=zip,tcp,self UCX_ZIP_POLICY=ratio UCX_RNDV_SCHEME=put_zcopy -- \
		"$work/mpi_zip" 1048576
	mpi_test "4 ranks" 4 UCX_TLS=zip,tcp,self -- "$work/mpi_zip" 4194304
}

# Bytes that messages of floats put on the loopback device of a network namespace.
mpi_bytes() {
	mpi 2 "$1" UCX_ZIP_POLICY=ratio -- "$work/mpi_zip" floats 2> /dev/null | sed -n 's/^lo //p'
}

test_mpi_wire() {
	mpi_build || return 0
	can_isolate || { echo "SKIP: mpi wire bytes: no namespaces here"; return 0; }
	local raw zip
	raw=$(mpi_bytes UCX_TLS=tcp,self)
	zip=$(mpi_bytes UCX_TLS=zip,tcp,self)
	echo "    32 messages of 4 MiB of Gaussian bf16: $raw bytes on the device with tcp, $zip with zip"
	verdict "mpi: fewer bytes on the wire" "$([ "$((zip * 100))" -lt "$((raw * 75))" ] && echo 0 || echo 1)" /dev/null
}

# ---- a link of a known rate

test_rate() {
	local raw zip
	if [ "$(id -u)" -ne 0 ] || ! link_make "$rate" > "$work/link" 2>&1; then
		link_remove
		echo "SKIP: link of a known rate: $(tail -n 1 "$work/link" 2> /dev/null || echo "not root")"
		return 0
	fi
	raw=$(rate_run "$link_ns_sender" "$link_ns_receiver" raw)
	zip=$(rate_run "$link_ns_sender" "$link_ns_receiver" entropy)
	link_remove
	echo "    12 puts of 8 MiB of Gaussian bf16 at $rate: $raw ms and bytes raw, $zip with zip"
	read -r raw _ <<< "$raw"
	read -r zip _ <<< "$zip"
	verdict "faster on a link of $rate" "$([ "${zip:-0}" -gt 0 ] && [ "$((zip * 120))" -lt "$((raw * 100))" ] && echo 0 || echo 1)" /dev/null
}

# rate_run NS NS CODEC: prints milliseconds and bytes that left
rate_run() {
	local before after ms
	before=$(ip netns exec "$1" cat /sys/class/net/zip0/statistics/tx_bytes)
	ms=$(ip netns exec "$1" timeout --kill-after=5 60 env LD_PRELOAD="$preload" UCX_ZIP_CODEC="$3" UCX_ZIP_POLICY=ratio \
		"$build/test/ucx_zip" -d zip0 -D zip1 -n "/run/netns/$2" -c 12 bw 2> "$work/bw" | sed -n 's/^bw: .* in \([0-9]*\) ms/\1/p')
	after=$(ip netns exec "$1" cat /sys/class/net/zip0/statistics/tx_bytes)
	echo "${ms:-0} $((after - before))"
}

# ---- latency, not a test

run_latency() {
	local i stack
	for i in 1 2 3 4 5 6 7 8 9 10 11; do
		for stack in tcp,self zip,tcp,self zip,self; do
			# shellcheck disable=SC2016
			isolated timeout 60 env LD_PRELOAD="$preload" UCX_TLS=$stack UCX_WARN_UNUSED_ENV_VARS=n bash -c '
				ucx_perftest -t tag_lat -s 8 -n 20000 -w 2000 > /dev/null 2>&1 & sleep 0.3
				ucx_perftest -t tag_lat -s 8 -n 20000 -w 2000 127.0.0.1; wait' 2> /dev/null |
				awk -v stack="$stack" '/^Final:/ { print stack, $3 }' | tee -a "$work/latency" > /dev/null
		done
	done
	for stack in tcp,self zip,tcp,self zip,self; do
		grep "^$stack " "$work/latency" | sort -k 2 -n | awk -v stack="$stack" \
			'{ v[NR] = $2 } END { printf "%-14s median of %d medians: %.3f us (least %.3f, most %.3f)\n", stack, NR, v[int((NR + 1) / 2)], v[1], v[NR] }'
	done
}

if [ $latency = yes ]; then
	run_latency
	exit
fi
for name in info uct_api mpi mpi_wire rate perftest_uct perftest_ucp; do
	wanted $name || continue
	[ $sanitized = no ] || [ $name = uct_api ] || continue # the tools of others are not built for it
	"test_$name"
done
exit $failed
