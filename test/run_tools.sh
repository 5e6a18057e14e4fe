#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# zip_perf and zip_stat as users run them: what they print is parsed, and what must fail does.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)

usage() {
	cat <<'END'
usage: run_tools.sh --build DIR

Prints PASS:, FAIL: or SKIP: for each case; exit status 1 when one failed. Run it apart (run_isolated.sh): it looks for pages of
counters in /dev/shm.
END
}

build=''
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$build" ] || { usage >&2; exit 2; }
perf=$build/tools/zip_perf
stat=$build/tools/zip_stat
export FI_PROVIDER_PATH=$build/.libs
unset FI_PROVIDER
work=$(mktemp -d)
failed=0
trap 'rm -rf "$work"' EXIT

# verdict NAME STATUS [LOG]
verdict() {
	if [ "$2" -eq 0 ]; then
		echo "PASS: $1"
	else
		failed=1
		[ -z "${3-}" ] || sed 's/^/    | /' "$3" | tail -n 30
		echo "FAIL: $1"
	fi
}

# holds NAME FILE EXPRESSION: FILE is one JSON object, d, of which the Python expression is true
holds() {
	local rc=0
	python3 - "$2" "$3" > "$work/holds" 2>&1 <<'END' || rc=$?
import json, sys
d = json.load(open(sys.argv[1]))
if not eval(sys.argv[2], {"d": d, "all": all, "len": len, "sum": sum, "any": any}):
    sys.exit("not so: %s\n%s" % (sys.argv[2], json.dumps(d)[:3000]))
END
	verdict "$1" $rc "$work/holds"
}

# Every operation, small sizes, both directions; what can be compressed is.
operations() {
	local op expect
	for op in tagged msg write writedata read; do
		timeout -k 2 30 env FI_ZIP_POLICY=ratio "$perf" --local --op $op --sizes 1,4097,64K,1M --window 3 --rounds 2 --time 0.02 --json \
			> "$work/$op" 2> "$work/err" || true
		[ -s "$work/$op" ] || cat "$work/err" > "$work/$op"
		expect='d["bit_exact"] is True and [r["size"] for r in d["results"]] == [1, 4097, 65536, 1 << 20]'
		expect="$expect and all(r['raw_GBps'] > 0 and r['zip_GBps'] > 0 and len(r['zip_seconds']) == 2 for r in d['results'])"
		[ $op != tagged ] || expect="$expect and d['results'][3]['ratio'] < 0.7 and d['results'][3]['zipped'] > 0.99"
		[ $op != tagged ] || expect="$expect and d['results'][0]['zipped'] == 0"
		holds "zip_perf --op $op" "$work/$op" "$expect"
	done
	timeout -k 2 30 "$perf" --local -b --sizes 300K --window 2 --rounds 1 --iters 10 --dtype fp32 --dist mixed --breakdown --json > "$work/both" || true
	holds "zip_perf both ways" "$work/both" \
		'd["bidirectional"] and d["bit_exact"] is True and d["results"][0]["messages"] == 10 and "wire" in d["results"][0]["share_of_time"]'
	timeout -k 2 30 "$perf" --local --provider shm --sizes 64K --rounds 1 --time 0.02 --json > "$work/shm" || true
	holds "zip_perf over shm" "$work/shm" 'd["bit_exact"] is True and "shm" in d["raw_provider"] and "zip" in d["zip_provider"]'
}

# A file in the format of models, and two processes that meet over a port.
client_and_server() {
	python3 - "$work/model.safetensors" <<'END'
import json, struct, sys
data = bytes((i * 7 + i // 512) % 251 for i in range(200001))
head = json.dumps({"a": {"dtype": "BF16", "shape": [100000], "data_offsets": [0, 200000]}}).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
END
	timeout -k 2 30 "$perf" --bind 127.0.0.1 --port 47321 > "$work/server" 2>&1 &
	timeout -k 2 30 "$perf" 127.0.0.1 --port 47321 --sizes 64K,300K --rounds 1 --time 0.02 --file "$work/model.safetensors" \
		> "$work/client" 2>&1 || true
	wait $! || echo "the server failed" >> "$work/server"
	verdict "zip_perf client and server, with a file" \
		"$(grep -q '300 KiB .* yes$' "$work/client" && [ ! -s "$work/server" ] && echo 0 || echo 1)" "$work/client"
	verdict "zip_perf shows no progress where there is no terminal" "$(grep -q $'\r\|\033' "$work/client" && echo 1 || echo 0)" "$work/client"
}

# refuses NAME WHAT COMMAND...: exit status 2, and the message says WHAT
refuses() {
	local name=$1 what=$2 rc=0
	shift 2
	timeout -k 2 30 "$@" > "$work/out" 2>&1 || rc=$?
	verdict "$name" "$([ $rc -eq 2 ] && grep -q -- "$what" "$work/out" && echo 0 || echo 1)" "$work/out"
}

refusals() {
	refuses "zip_perf without a server" "start the server there first" "$perf" 127.0.0.1 --port 1 --timeout 1
	refuses "zip_perf over a provider that is not there" "fi_info" "$perf" --local --provider nothing
	refuses "zip_perf without zip" "libzip-fi.so was not found" env FI_PROVIDER_PATH=/nonexistent "$perf" --local --sizes 1
	refuses "zip_perf in memory that is not there" "not available here" "$perf" --local --memory cuda
	refuses "zip_perf --plot without gnuplot" "apt-get install gnuplot" env PATH=/nonexistent "$perf" --local --plot "$work/x.png"
	refuses "zip_stat in a directory that is not there" "No such file" "$stat" --directory /nonexistent
}

plot() {
	command -v gnuplot > /dev/null || { echo "SKIP: zip_perf --plot: no gnuplot"; return 0; }
	timeout -k 2 30 "$perf" --local --sizes 4K:64K --rounds 1 --time 0.01 --plot "$work/it's.png" > "$work/out" 2>&1 || true
	verdict "zip_perf --plot" "$(head -c 4 "$work/it's.png" 2> /dev/null | grep -q PNG && echo 0 || echo 1)" "$work/out"
}

# look EXPRESSION: until zip_stat shows it, at most ten seconds
look() {
	local i
	for ((i = 0; i < 100; i++)); do
		timeout -k 2 10 "$stat" --json > "$work/stat" || return 1
		python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))["domains"]
sys.exit(not eval(sys.argv[2], {"d": d, "len": len, "all": all, "any": any}))' "$work/stat" "$1" 2> /dev/null && return 0
		sleep 0.1
	done
	return 1
}

watching() {
	local rc=0 child
	FI_ZIP_POLICY=ratio timeout -k 2 60 "$perf" --local --sizes 1M --rounds 1 --time 20 > /dev/null 2>&1 &
	child=$!
	look 'len(d) == 2 and any(p["total"]["sent"] > 50 for p in d) and any(p["total"]["received"] > 50 for p in d)' || rc=1
	verdict "zip_stat sees both sides at work" $rc "$work/stat"
	rc=0
	look 'all(e["npeers"] == 1 and e["peers"][0]["ready"] for p in d for e in p["endpoints"]) and d[0]["command"] == "zip_perf"' || rc=1
	verdict "zip_stat lists peers" $rc "$work/stat"
	verdict "pages are their owner's" "$(stat -c %a /dev/shm/zip-net.* | grep -vx 600 > /dev/null && echo 1 || echo 0)"
	timeout -k 2 10 "$stat" > "$work/table"
	verdict "zip_stat's table" "$(grep -q '^zip_perf\[[0-9]*\], libfabric over tcp' "$work/table" && grep -q '  all of the domain' "$work/table" &&
		echo 0 || echo 1)" "$work/table"
	rc=0
	timeout -k 2 2 "$stat" --watch=0.2 > "$work/table" || rc=$?
	verdict "zip_stat --watch" "$([ "$(grep -c 'now: sending' "$work/table")" -ge 4 ] && echo 0 || echo 1)" "$work/table"
	pkill -KILL -P "$child" || true
	wait "$child" || true
	rc=0
	look 'len(d) == 0' || rc=1
	verdict "zip_stat forgets processes that were killed" "$([ $rc = 0 ] && [ -z "$(find /dev/shm -name 'zip-net.*')" ] && echo 0 || echo 1)" "$work/stat"
}

settings() {
	FI_ZIP_STATS=on FI_ZIP_POLICY=ratio timeout -k 2 30 "$perf" --local --sizes 64K --rounds 1 --time 0.02 > "$work/out" 2>&1 || true
	verdict "FI_ZIP_STATS=on prints the table once" "$([ "$(grep -c 'all of the domain' "$work/out")" -eq 2 ] && grep -q 'seconds: sample' "$work/out" &&
		echo 0 || echo 1)" "$work/out"
	FI_ZIP_STAT_PAGE=off timeout -k 2 30 "$perf" --local --sizes 64K --rounds 1 --time 2 > "$work/out" 2>&1 &
	sleep 1
	verdict "FI_ZIP_STAT_PAGE=off publishes nothing" "$([ -z "$(find /dev/shm -name 'zip-net.*')" ] && echo 0 || echo 1)"
	wait $! || true
	refuses "FI_ZIP_STATS=loud" "fi_getinfo\|was not found" env FI_ZIP_STATS=loud "$perf" --local --sizes 1
}

operations
client_and_server
refusals
plot
watching
settings
exit $failed
