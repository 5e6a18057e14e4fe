#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libfabric's own tests of remote memory over zip, those that `runfabtests.sh -t quick` leaves out among them: what passes over the
# core alone must pass over zip on it, with the default threshold and with every write and read eligible.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

usage() {
	cat <<'END'
usage: run_fabtests_rma.sh --libfabric PREFIX --fabtests PREFIX --provider-path DIR [--cores "NAME ..."] [--timeout SECONDS]

  --libfabric PREFIX   libfabric 2.1's installation
  --fabtests PREFIX    its fabtests
  --provider-path DIR  where libzip-fi.so is
  --cores LIST         core providers (default: tcp shm)
  --timeout SECONDS    of one test (default 20)

Prints PASS:, FAIL: or SKIP: for each test; exit status 1 when one failed.
END
}

libfabric='' fabtests='' provider_path='' cores="tcp shm" timeout=20 failed=0
while [ $# -gt 0 ]; do
	case $1 in
	--libfabric) libfabric=$2; shift 2 ;;
	--fabtests) fabtests=$2; shift 2 ;;
	--provider-path) provider_path=$2; shift 2 ;;
	--cores) cores=$2; shift 2 ;;
	--timeout) timeout=$2; shift 2 ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$libfabric" ] && [ -n "$fabtests" ] && [ -n "$provider_path" ] || { usage >&2; exit 2; }
can_isolate || { echo "needs a process namespace of its own, which this user may not make"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tests=(
	"fi_rma_bw -e rdm -o write -I 5 -v"
	"fi_rma_bw -e rdm -o read -I 5 -v"
	"fi_rma_bw -e rdm -o writedata -I 5 -v"
	"fi_rma_pingpong -e rdm -o write -I 5 -v"
	"fi_rma_pingpong -e rdm -o writedata -I 5 -v"
	"fi_rdm_rma_event"
	"fi_cq_data -e rdm -o writedata"
	"fi_multi_mr -e rdm -V"
)

# pair PROVIDER ENVIRONMENT... -- TEST...: server and client; 0 when both end well
pair() {
	local provider=$1 environment=()
	shift
	while [ "$1" != -- ]; do environment+=("$1"); shift; done
	shift
	# shellcheck disable=SC2016
	isolated env LD_LIBRARY_PATH="$libfabric/lib" FI_ZIP_STATS=1 "${environment[@]}" timeout --kill-after=5 "$timeout" bash -c '
		program=$1 provider=$2
		shift 2
		"$program" "$@" -p "$provider" -E & server=$!
		sleep 0.5
		"$program" "$@" -p "$provider" -E 127.0.0.1 && wait $server' pair "$fabtests/bin/$1" "$provider" "${@:2}" \
		> "$work/log" 2>&1 < /dev/null
}

# uber PROVIDER ENVIRONMENT...: fi_ubertest's set of remote memory
uber() {
	local provider=$1
	shift
	cat > "$work/uber.test" <<END
{
	prov_name: $provider,
	test_type: [ FT_TEST_BANDWIDTH, ],
	class_function: [
		FT_FUNC_WRITE, FT_FUNC_WRITEV, FT_FUNC_WRITEMSG, FT_FUNC_WRITEDATA, FT_FUNC_INJECT_WRITE, FT_FUNC_INJECT_WRITEDATA,
		FT_FUNC_READ, FT_FUNC_READV, FT_FUNC_READMSG,
	],
	ep_type: [ FI_EP_RDM, ],
	test_class: [ FT_CAP_RMA, ],
	comp_type: [ FT_COMP_QUEUE, FT_COMP_CNTR, ],
	test_flags: FT_FLAG_QUICKTEST
},
END
	# shellcheck disable=SC2016
	isolated env LD_LIBRARY_PATH="$libfabric/lib" FI_ZIP_STATS=1 "$@" timeout --kill-after=5 $((timeout * 3)) bash -c '
		"$1" -x & server=$!
		sleep 1
		"$1" -u "$2" 127.0.0.1 && wait $server' uber "$fabtests/bin/fi_ubertest" "$work/uber.test" > "$work/log" 2>&1 < /dev/null &&
		grep -q '^Success: [1-9]' "$work/log" && ! grep -E '^(ENODATA|ENOSYS *|EIO *|ERROR *): [1-9]' "$work/log" > /dev/null
}

run_test() {
	local test=$1
	shift
	if [ "$test" = "fi_ubertest (remote memory)" ]; then
		uber "$@"
	else
		# shellcheck disable=SC2086
		pair "$@" -- $test
	fi
}

# core_passes CORE TEST: is it passed over the core alone? Remembered for this libfabric, as finding out means waiting for timeouts.
core_passes() {
	local known=$zip_cache/fabtests-rma-baseline-$(basename "$libfabric")-$1.txt found
	mkdir -p "$zip_cache"
	found=$(grep -sF "	$2" "$known" | cut -f 1 | tail -n 1) || true
	if [ -z "$found" ]; then
		found=FAIL
		! run_test "$2" "$1" || found=PASS
		printf '%s\t%s\n' "$found" "$2" >> "$known"
	fi
	[ "$found" = PASS ]
}

verdict() {
	local label=$1 rc=0
	shift
	run_test "$@" || rc=$?
	transfers=$((transfers + $(sed -n 's/.*all of the domain *\([0-9][0-9]*\) .*/\1/p' "$work/log" | awk '{ n += $1 } END { print n + 0 }')))
	if [ $rc -eq 0 ]; then
		echo "PASS: $label"
	else
		tail -n 15 "$work/log" | sed 's/^/    | /'
		echo "FAIL: $label (exit status $rc)"
		failed=1
	fi
}

transfers=0
for core in $cores; do
	name=$(LD_LIBRARY_PATH=$libfabric/lib stack_name "$libfabric/bin/fi_info" "$provider_path" "zip;$core")
	[ -n "$name" ] || { echo "FAIL: FI_PROVIDER=\"zip;$core\" gives no zip provider"; exit 1; }
	stack=(FI_PROVIDER_PATH="$provider_path" FI_PROVIDER="zip;$core")
	for test in "${tests[@]}" "fi_ubertest (remote memory)"; do
		if ! core_passes "$core" "$test"; then
			echo "SKIP: $test: does not pass over $core alone"
			continue
		fi
		verdict "$test over zip;$core" "$test" "$name" "${stack[@]}"
		verdict "$test over zip;$core, threshold 1 byte" "$test" "$name" "${stack[@]}" FI_ZIP_MIN_SIZE=1 FI_ZIP_POLICY=always
	done
done
echo "operations that became transfers: $transfers"
if [ $transfers -eq 0 ]; then
	echo "FAIL: nothing became a transfer"
	failed=1
fi
exit $failed
