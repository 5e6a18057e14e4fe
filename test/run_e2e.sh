#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The project's end-to-end programs (test/e2e_*.c) over a matrix of stacks. A program starts both sides itself, takes the stack
# from FI_PROVIDER, and ends with 0, with 77 when the stack cannot do what it tests (last line says why), or fails.
set -euo pipefail
zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"

usage() {
	cat <<'END'
usage: run_e2e.sh --build DIR [--only PATTERN] [--stacks "STACK ..."] [--timeout SECONDS]

  --build DIR       build tree: its libzip-fi.so and test/e2e_* are used
  --only PATTERN    only programs whose name matches this extended regular expression
  --stacks LIST     values of FI_PROVIDER, separated by spaces; hook:CORE is FI_PROVIDER=CORE with FI_HOOK=zip
                    (default: zip;tcp tcp;ofi_zip zip;shm hook:tcp)
  --timeout N       seconds a program may take over one stack (default 120)

Prints PASS:, FAIL: or SKIP: for each program and stack; exit status 1 when one failed.
END
}

build='' only=. timeout=120 failed=0 asked=no
stacks="zip;tcp tcp;ofi_zip zip;shm hook:tcp"
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift 2 ;;
	--only) only=$2; shift 2 ;;
	--stacks) stacks=$2 asked=yes; shift 2 ;;
	--timeout) timeout=$2; shift 2 ;;
	-h|--help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ -n "$build" ] || { usage >&2; exit 2; }

# run_one PROGRAM STACK. Leaks are looked for everywhere but in thread-local storage: the leak checker of Debian 12 crashes there
# (signal 11 in its tracer) once libraries have been opened at run time.
run_one() {
	local program=$1 stack=$2 name log rc=0 start=$SECONDS hook=() path=$build/.libs
	name="$(basename "$program") [$stack]"
	log=$(mktemp)
	[[ $stack != hook:* ]] || hook=(FI_HOOK=zip FI_ZIP_RELAXED_ORDER=1)
	# the link for benches (test/link) is not installed
	[[ $stack != *zlink* ]] || path=$path:$build/test/.libs
	isolated timeout --kill-after=5 "$timeout" env FI_PROVIDER_PATH="$path" FI_PROVIDER="${stack#hook:}" "${hook[@]}" \
		ASAN_OPTIONS="${ASAN_OPTIONS-detect_leaks=1:detect_stack_use_after_return=1}" \
		LSAN_OPTIONS="${LSAN_OPTIONS-use_tls=0:suppressions=$zip_top/test/lsan.supp:print_suppressions=0}" "$program" > "$log" 2>&1 < /dev/null || rc=$?
	case $rc in
	0) echo "PASS: $name ($((SECONDS - start)) s)" ;;
	77) echo "SKIP: $name: $(tail -n 1 "$log")" ;;
	*)
		failed=1
		sed 's/^/    | /' "$log" | tail -n 60
		[ $rc -ne 124 ] || echo "    | stopped after $timeout seconds"
		echo "FAIL: $name (exit status $rc)"
		;;
	esac
	rm -f "$log"
}

# is_repetition PROGRAM STACK: one of the slow programs (kernels on the CPU, waits for the dead) over another way to the same stack.
# They run there only when the stack is asked for.
is_repetition() {
	[ $asked = no ] && [[ $1 = e2e_hmem || $1 = e2e_kill ]] && [[ $2 = "tcp;ofi_zip" || $2 = hook:* ]]
}

found=no
for program in $(make -s -C "$build" print-noinst_PROGRAMS); do
	[[ $(basename "$program") = e2e_* && $program =~ $only ]] || continue
	found=yes
	for stack in $stacks; do
		! is_repetition "$(basename "$program")" "$stack" || continue
		run_one "$build/$program" "$stack"
	done
done
[ $found = yes ] || { echo "no end-to-end programs in $build"; exit 77; }
exit $failed
