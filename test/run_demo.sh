#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Run zip_demo over a link of a known rate: two network namespaces joined by a veth pair, each end limited with tbf. Without the
# right to make namespaces: over the loopback device, which nothing limits.
set -euo pipefail

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

# Names of this process's own: two demos may run at once.
ns_sender=zip-s-$$
ns_receiver=zip-r-$$

link_remove() {
	ip netns del "$ns_sender" 2> /dev/null || true
	ip netns del "$ns_receiver" 2> /dev/null || true
}

# The bucket holds what the link moves in 4 ms, and never less than a large segment: a timer tick must not starve it.
link_limit() {
	local ns=$1 device=$2
	tc -n "$ns" qdisc add dev "$device" root tbf rate "$rate" burst 512kb latency 100ms
}

link_make() {
	ip netns add "$ns_sender" &&
		ip netns add "$ns_receiver" &&
		ip link add zip0 netns "$ns_sender" type veth peer name zip1 netns "$ns_receiver" &&
		ip -n "$ns_sender" addr add 10.99.0.1/24 dev zip0 &&
		ip -n "$ns_receiver" addr add 10.99.0.2/24 dev zip1 &&
		ip -n "$ns_sender" link set lo up && ip -n "$ns_receiver" link set lo up &&
		ip -n "$ns_sender" link set zip0 up && ip -n "$ns_receiver" link set zip1 up &&
		link_limit "$ns_sender" zip0 && link_limit "$ns_receiver" zip1
}

child=
stop() {
	[ -z "$child" ] || kill "$child" 2> /dev/null || true
	exit "$1"
}

# In the background, so that a signal reaches this script at once and the namespaces are removed.
run_program() {
	"$@" &
	child=$!
	wait "$child"
}

trap link_remove EXIT
trap 'stop 130' INT
trap 'stop 143' TERM HUP
problem=
if [ "$(id -u)" -ne 0 ]; then
	problem="not root"
elif ! error=$(link_make 2>&1); then
	problem=${error##*$'\n'}
fi
if [ -n "$problem" ]; then
	echo "No link of a known rate ($problem): plain loopback, unlimited. The bytes are right, the speedup says nothing" \
		"about a network." >&2
	run_program "$@" --link "loopback device" --rate unlimited
	exit
fi
run_program "$@" --sender-netns "$ns_sender" --receiver-netns "$ns_receiver" --sender-address 10.99.0.1 --receiver-address 10.99.0.2 \
	--device zip0 --link "veth pair between two network namespaces" --rate "$rate"
