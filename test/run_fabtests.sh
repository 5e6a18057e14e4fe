#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libfabric's own tests over zip. What counts is the comparison: every RDM test of `runfabtests.sh -t quick` that passes over the
# core alone must pass over zip on that core, with the default threshold and with every message eligible.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

usage() {
	cat <<'END'
usage: run_fabtests.sh --libfabric PREFIX --fabtests PREFIX --provider-path DIR [OPTIONS]

  --libfabric PREFIX   libfabric 2.1's installation
  --fabtests PREFIX    its fabtests
  --provider-path DIR  where libzip-fi.so is
  --core NAME          core provider (default tcp)
  --alone NAME         no zip: the provider NAME by itself, compared with the core; fabtests/NAME.exclude goes with it
  --rebaseline         test the core alone again, instead of using the remembered result
  --logs DIR           where the tests' output goes (default: a folder in the cache)
  --timeout SECONDS    of one test (default 60)

Prints PASS:, FAIL: or SKIP: for each test; exit status 1 when one failed. fabtests/zip.exclude lists what is left out and why.
END
}

libfabric='' fabtests='' provider_path='' core=tcp alone='' rebaseline=no timeout=60 logs=$zip_work/fabtests
while [ $# -gt 0 ]; do
	case $1 in
	--libfabric) libfabric=$2; shift 2 ;;
	--fabtests) fabtests=$2; shift 2 ;;
	--provider-path) provider_path=$2; shift 2 ;;
	--core) core=$2; shift 2 ;;
	--alone) alone=$2; shift 2 ;;
	--rebaseline) rebaseline=yes; shift ;;
	--logs) logs=$2; shift 2 ;;
	--timeout) timeout=$2; shift 2 ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$libfabric" ] && [ -n "$fabtests" ] && [ -n "$provider_path" ] || { usage >&2; exit 2; }
# runfabtests.sh ends every process whose name begins with fi_ when a test fails
can_isolate || { echo "needs a process namespace of its own, which this user may not make"; exit 77; }

exclude_file=fabtests/${alone:-zip}.exclude
# not RDM: never asked of this provider
other_endpoints="dgram,-e msg,fi_msg,fi_cm_data"
baseline=$zip_cache/fabtests-baseline-$(basename "$libfabric")-$core.txt
mkdir -p "$logs"
exec 8> "$logs/lock"
flock -n 8 || { echo "another run writes to $logs: give --logs DIR"; exit 2; }

# fabtests_run LOG PROVIDER EXCLUDES ENVIRONMENT...: writes LOG.yml and LOG.txt, lines "RESULT<tab>test"
fabtests_run() {
	local log=$1 provider=$2 excludes=$3
	shift 3
	# a folder of its own: runfabtests.sh keeps its output in the current one
	rm -rf "$log.d"
	mkdir -p "$log.d"
	isolated env --chdir="$log.d" LD_LIBRARY_PATH="$libfabric/lib" "$@" "$fabtests/bin/runfabtests.sh" -vvv -t quick \
		-T "$timeout" -p "$fabtests/bin" -e "$excludes" "$provider" > "$log.yml" 2> "$log.err" < /dev/null || true
	awk '/^- name:/ { name = $0; sub(/^- name: */, "", name); sub(/ -p "[^"]*"$/, "", name) }
		/^  result:/ { print $2 "\t" name }' "$log.yml" > "$log.txt"
	rm -rf "$log.d"
}

# The exclude file: "PATTERN  # reason". Patterns go to runfabtests.sh, reasons to the reader.
exclude_patterns() {
	sed -e 's/#.*//' -e 's/[ \t]*$//' -e '/^$/d' "$zip_top/$exclude_file" | paste -sd, -
}

exclude_reason() {
	local pattern reason
	while IFS='#' read -r pattern reason; do
		pattern=$(printf '%s' "$pattern" | sed 's/[ \t]*$//')
		[ -n "$pattern" ] || continue
		[[ $1 =~ $pattern ]] && { printf '%s' "${reason# }"; return; }
	done < "$zip_top/$exclude_file"
}

# How many messages became transfers, from the tables that FI_ZIP_STATS prints.
transfers() {
	sed -n 's/.*all of the domain *\([0-9][0-9]*\) .*/\1/p' "$1.yml" | awk '{ n += $1 } END { print n + 0 }'
}

# compare LOG LABEL: the verdict on every test that passes over the core
compare() {
	local log=$1 label=$2 result test other
	while IFS=$'\t' read -r result test; do
		[ "$result" = Pass ] || continue
		other=$(awk -F'\t' -v test="$test" '$2 == test { print $1 }' "$log.txt")
		case $other in
		Pass) echo "PASS: $test [$label]" ;;
		Excluded) echo "SKIP: $test [$label]: $exclude_file: $(exclude_reason "$test")" ;;
		'') echo "FAIL: $test [$label]: did not run (see $log.err)"; failed=1 ;;
		*)
			echo "FAIL: $test [$label]: $other over ${alone:-zip}, Pass over $core (see $log.yml)"
			failed=1
			;;
		esac
	done < "$baseline"
}

if [ $rebaseline = yes ] || [ ! -s "$baseline" ]; then
	fabtests_run "$logs/baseline" "$core" "$other_endpoints"
	grep -q '^Pass' "$logs/baseline.txt" || {
		tail -n 20 "$logs/baseline.err"
		echo "FAIL: no test passes over $core alone"
		exit 1
	}
	cp "$logs/baseline.txt" "$baseline.new"
	mv "$baseline.new" "$baseline"
fi
echo "over $core alone: $(grep -c '^Pass' "$baseline") of the RDM tests pass ($baseline)"

# Tests that the core cannot do are not run again over zip.
excludes=$other_endpoints,$(awk -F'\t' '$1 == "Fail" || $1 == "Notrun" { print "^" $2 "$" }' "$baseline" | paste -sd, -)
own_excludes=$(exclude_patterns)
[ -z "$own_excludes" ] || excludes=$excludes,$own_excludes

failed=0
if [ -n "$alone" ]; then
	fabtests_run "$logs/$alone" "$alone" "$excludes" FI_PROVIDER_PATH="$provider_path"
	compare "$logs/$alone" "$alone alone"
	exit $failed
fi

name=$(LD_LIBRARY_PATH=$libfabric/lib stack_name "$libfabric/bin/fi_info" "$provider_path" "zip;$core")
[ -n "$name" ] || { echo "FAIL: FI_PROVIDER=\"zip;$core\" gives no zip provider"; exit 1; }
echo "over $name"
zip_environment=(FI_PROVIDER_PATH="$provider_path" FI_PROVIDER="zip;$core" FI_ZIP_STATS=1)
fabtests_run "$logs/default" "$name" "$excludes" "${zip_environment[@]}" &
fabtests_run "$logs/min1" "$name" "$excludes" "${zip_environment[@]}" FI_ZIP_MIN_SIZE=1 FI_ZIP_POLICY=always &
wait

compare "$logs/default" "default threshold"
compare "$logs/min1" "threshold 1 byte"
echo "messages that became transfers: $(transfers "$logs/default") at the default threshold, $(transfers "$logs/min1") with 1 byte"
if [ "$(transfers "$logs/min1")" -gt 0 ]; then
	echo "PASS: with the threshold at 1 byte messages become transfers"
else
	echo "FAIL: with the threshold at 1 byte no message became a transfer"
	failed=1
fi
exit $failed
