# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shared by quickstart and test/run_*.sh: messages, cache folders, steps with a time limit and a log.
# Set by the caller: zip_top, the root of the source tree.

zip_cache=${XDG_CACHE_HOME:-$HOME/.cache}/zip-net
# Builds of this tree have a folder of their own: two clones do not disturb each other.
zip_work=$zip_cache/builds/$(printf %s "$zip_top" | sha256sum | cut -c1-12)
zip_jobs=$(nproc)

say() { printf '%s\n' "==> $*" >&2; }
note() { printf '%s\n' "    $*" >&2; }
die() { printf '%s\n' "error: $*" >&2; exit 1; }

# A line that the next one overwrites; only on a terminal.
progress() { [ ! -t 2 ] || printf '\r\033[K%s' "    $*" >&2; }
progress_end() { [ ! -t 2 ] || printf '\r\033[K' >&2; }

# run_logged LOG SECONDS COMMAND... (a program, not a function): output goes to LOG, the command and what it started are ended at the time limit.
run_logged() {
	local log=$1 limit=$2 rc=0
	shift 2
	mkdir -p "$(dirname "$log")"
	timeout --kill-after=10 "$limit" "$@" > "$log" 2>&1 < /dev/null || rc=$?
	[ $rc -ne 124 ] || printf 'time limit: stopped after %s seconds\n' "$limit" >> "$log"
	return $rc
}

# must LOG SECONDS WHAT COMMAND...: like run_logged, says WHAT first, and ends the script with the log's tail on failure.
must() {
	local log=$1 limit=$2 what=$3 start=$SECONDS
	shift 3
	progress "$what"
	if ! run_logged "$log" "$limit" "$@"; then
		progress_end
		tail -n 30 "$log" >&2
		die "$what failed (whole log: $log)"
	fi
	progress_end
	note "$what: done in $((SECONDS - start)) s"
}

# Can this user make namespaces? Tests then run apart: their ports, shared memory and processes meet nobody else's.
can_isolate() {
	[ -n "${zip_isolate-}" ] || {
		zip_isolate=no
		! unshare --net --pid --mount --mount-proc --fork true 2> /dev/null || zip_isolate=yes
	}
	[ $zip_isolate = yes ]
}

# isolated COMMAND...: in network, process and mount namespaces of its own where that is possible. All that the command
# leaves running ends with it.
isolated() {
	if ! can_isolate; then
		"$@"
		return
	fi
	# shellcheck disable=SC2016
	unshare --net --pid --mount --mount-proc --fork --kill-child sh -c '
		ip link set lo up && mount -t tmpfs tmpfs /dev/shm || exit 1
		"$@"' sh "$@"
}

# stack_name FI_INFO PROVIDER-DIR STACK: the full name of the RDM provider that FI_PROVIDER=STACK gives, the plainest first.
# Programs that ask for a provider by name (fabtests' and fi_pingpong's -p) must give this one.
stack_name() {
	FI_PROVIDER_PATH=$2 FI_PROVIDER=$3 "$1" -t FI_EP_RDM 2> /dev/null | sed -n 's/^provider: *//p' | grep zip |
		awk '{ print length($0), $0 }' | sort -n | cut -d' ' -f2- | head -n 1 || true
}
