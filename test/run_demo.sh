#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run zip_demo over a link of a known rate: two network namespaces joined by a veth pair, each end limited with tbf. Without the
# right to make namespaces: over the loopback device, which nothing limits.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/link.sh
. "$zip_top/test/sh/link.sh"

usage() {
	cat <<'END'
usage: run_demo.sh [--rate RATE] PROGRAM [OPTIONS...]

  --rate RATE   rate of the link as tc writes it, e.g. 500mbit or 1gbit (default 1gbit)

Runs PROGRAM (zip_demo) with OPTIONS. Root only for the limited link.
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

link_open "$rate"
if [ -n "$link_problem" ]; then
	echo "No link of a known rate ($link_problem): plain loopback, unlimited. The bytes are right, the speedup says nothing" \
		"about a network." >&2
	link_start "$@" --link "loopback device" --rate unlimited
else
	link_start "$@" --sender-netns "$link_ns_sender" --receiver-netns "$link_ns_receiver" --sender-address $link_sender \
		--receiver-address $link_receiver --device $link_device --link "veth pair between two network namespaces" --rate "$rate"
fi
link_wait
