#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run zip_perf over a link of a known rate: its server and its client in two network namespaces joined by a veth pair, each end limited
# with tbf. Without the right to make namespaces: over the loopback device, which nothing limits.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/link.sh
. "$zip_top/test/sh/link.sh"

usage() {
	cat <<'END'
usage: run_perf.sh [--rate RATE] PROGRAM [OPTIONS...]

  --rate RATE   rate of the link as tc writes it, e.g. 500mbit or 1gbit (default 1gbit)

Runs PROGRAM (zip_perf) as server and, with OPTIONS, as client. Root only for the limited link.
END
}

rate=1gbit
while [ $# -gt 0 ]; do
	case $1 in
	--rate) [ $# -ge 2 ] || { usage >&2; exit 2; }; rate=$2; shift 2 ;;
	--rate=*) rate=${1#*=}; shift ;;
	--help|-h) usage; exit 0 ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || { usage >&2; exit 2; }
program=$1
shift

link_open "$rate"
if [ -n "$link_problem" ]; then
	echo "No link of a known rate ($link_problem): plain loopback, unlimited. The bits are compared, the speedup says nothing" \
		"about a network." >&2
	link_start "$program" --local --link "loopback, unlimited" "$@"
else
	link_start ip netns exec "$link_ns_receiver" "$program"
	link_start ip netns exec "$link_ns_sender" "$program" $link_receiver --link "veth pair, $rate" "$@"
fi
link_wait
