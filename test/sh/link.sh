# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A link of a known rate: two network namespaces joined by a veth pair, each end limited with tbf.

# Names of this process's own: two may run at once.
link_ns_sender=zip-s-$$
link_ns_receiver=zip-r-$$
link_sender=10.99.0.1
link_receiver=10.99.0.2
link_device=zip0
link_problem=			# why there is no link, after link_open

link_remove() {
	ip netns del "$link_ns_sender" 2> /dev/null || true
	ip netns del "$link_ns_receiver" 2> /dev/null || true
}

# The bucket holds what the link moves in 4 ms, and never less than a large segment: a timer tick must not starve it.
link_limit() {
	local ns=$1 device=$2 rate=$3
	tc -n "$ns" qdisc add dev "$device" root tbf rate "$rate" burst 512kb latency 100ms
}

link_make() {
	local rate=$1
	ip netns add "$link_ns_sender" &&
		ip netns add "$link_ns_receiver" &&
		ip link add $link_device netns "$link_ns_sender" type veth peer name zip1 netns "$link_ns_receiver" &&
		ip -n "$link_ns_sender" addr add $link_sender/24 dev $link_device &&
		ip -n "$link_ns_receiver" addr add $link_receiver/24 dev zip1 &&
		ip -n "$link_ns_sender" link set lo up && ip -n "$link_ns_receiver" link set lo up &&
		ip -n "$link_ns_sender" link set $link_device up && ip -n "$link_ns_receiver" link set zip1 up &&
		link_limit "$link_ns_sender" $link_device "$rate" && link_limit "$link_ns_receiver" zip1 "$rate" &&
		link_settle "$link_ns_sender" $link_device && link_settle "$link_ns_receiver" zip1
}

# The kernel says a moment later that a device runs, and programs that list devices (UCX) leave out one that does not.
link_settle() {
	local ns=$1 device=$2 i
	for ((i = 0; i < 50; i++)); do
		[[ $(ip -n "$ns" link show "$device") != *"state UP"* ]] || return 0
		sleep 0.1
	done
	echo "$device does not come up" >&2
	return 1
}

link_children=()
link_stop() {
	[ ${#link_children[@]} -eq 0 ] || kill "${link_children[@]}" 2> /dev/null || true
	exit "$1"
}

# link_open RATE: makes the link, to be removed when the script ends
link_open() {
	local error
	trap link_remove EXIT
	trap 'link_stop 130' INT
	trap 'link_stop 143' TERM HUP
	if [ "$(id -u)" -ne 0 ]; then
		link_problem="not root"
	elif ! error=$(link_make "$1" 2>&1); then
		link_problem=${error##*$'\n'}
	fi
}

# link_start COMMAND...: in the background; link_wait waits for the last one. A signal reaches the script at once this way.
link_start() {
	"$@" &
	link_children+=($!)
}

link_wait() {
	wait "${link_children[-1]}"
}
