#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# All tests of the project; `./quickstart check` runs this. The last line is "N passed, N failed, N skipped".
set -euo pipefail

zip_top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=test/sh/common.sh
. "$zip_top/test/sh/common.sh"
# shellcheck source=test/sh/packages.sh
. "$zip_top/test/sh/packages.sh"
# shellcheck source=test/sh/libfabric21.sh
. "$zip_top/test/sh/libfabric21.sh"
# shellcheck source=test/sh/ucx.sh
. "$zip_top/test/sh/ucx.sh"
# shellcheck source=test/sh/build.sh
. "$zip_top/test/sh/build.sh"
# shellcheck source=test/sh/steps.sh
. "$zip_top/test/sh/steps.sh"

fuzz_seconds=20
with_21=yes
rebaseline=()

parse_options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--only) [ $# -ge 2 ] || die "--only needs a pattern"; steps_only=$2; shift 2 ;;
		--only=*) steps_only=${1#*=}; shift ;;
		--fuzz-seconds) [ $# -ge 2 ] || die "--fuzz-seconds needs a number"; fuzz_seconds=$2; shift 2 ;;
		--fuzz-seconds=*) fuzz_seconds=${1#*=}; shift ;;
		--no-libfabric-2.1) with_21=no; shift ;;
		--rebaseline) rebaseline=(--rebaseline); shift ;;
		-h|--help) exec "$zip_top/quickstart" --help ;;
		*) die "unknown option of check: $1 (see ./quickstart --help)" ;;
		esac
	done
}

# build_step BUILD TARGETS OPTIONS...: a build that fails is a failed test; sets built_<n>
build_step() {
	local build=$1 rc=0
	( build_make "$@" ) || rc=$?
	if [ $rc -eq 0 ]; then
		built="$built $build "
	else
		echo "0 1 0" > "$steps_dir/build-$build.count"
		step_say "FAILED   build-$build"
	fi
}

is_built() { [[ $built = *" $1 "* ]]; }

# requires BUILD VARIABLE WHAT: a part that configure switched off would let its tests pass by not running
requires() {
	is_built "$1" || return 0
	[ -z "$(make -s -C "$(build_dir "$1")" print-"$2")" ] || return 0
	built=${built/ $1 /}
	echo "0 1 0" > "$steps_dir/build-$1.count"
	step_say "FAILED   build-$1: configure found no $3 (log: $zip_work/logs/$1-configure.log)"
}

# Sets ucx, the options of configure for the UCX transport; none when its packages are not to be had, and then why in no_ucx.
ucx=() no_ucx=
ucx_options() {
	steps_wanted ucx || return 0
	local log=$zip_work/logs/ucx-need.log
	mkdir -p "$zip_work/logs"
	# In this shell for what it sets, in one of its own for what ends it.
	if ( ucx_need ) 2> >(tee "$log" >&2) && ucx_need; then
		ucx=(--with-ucx-source="$zip_ucx_source")
	else
		no_ucx=$(sed -n 's/^error: //p' "$log" | tail -n 1)
		no_ucx=${no_ucx:-UCX\'s packages are not to be had}
	fi
}

built=
build_all() {
	local programs="all check-programs"
	autogen_need
	ucx_options
	build_step check "$programs" --enable-werror "${ucx[@]}"
	build_step check-sanitizers "$programs" --enable-werror --enable-sanitizers --without-cuda --without-hip CFLAGS="-O1 -g" \
		"${ucx[@]}"
	build_step check-fuzz all --enable-fuzzers --enable-sanitizers --without-cuda --without-hip CC=clang CFLAGS="-O1 -g"
	requires check CMOCKA_LIBS "cmocka"
	requires check-sanitizers ZIP_SANITIZE "sanitizers"
	requires check-fuzz ZIP_FUZZ_CFLAGS "libFuzzer"
	if [ $with_21 = yes ]; then
		if ( lf21_need ); then
			build_step check-2.1 all --enable-werror --without-cuda --without-hip --with-libfabric="$zip_lf21_prefix"
		else
			echo "0 1 0" > "$steps_dir/libfabric-2.1.count"
			step_say "FAILED   libfabric-2.1 could not be built; what needs it is skipped"
		fi
	fi
}

static_steps() {
	local dir
	is_built check || return 0
	dir=$(build_dir check)
	step headers 120 make -C "$dir" check-headers
	step exports 60 make -C "$dir" check-exports
	step install 120 "$zip_top/test/run_install.sh" "$dir"
	step "enumerate libfabric 1.17" 120 "$zip_top/test/run_enumerate.sh" --build "$dir"
	is_built check-2.1 || return 0
	step "enumerate libfabric 2.1" 120 "$zip_top/test/run_enumerate.sh" --build "$(build_dir check-2.1)" \
		--fi-info "$zip_lf21_prefix/bin/fi_info"
}

unit_steps() {
	local build program
	for build in check check-sanitizers; do
		is_built $build || { step_skip "unit-$build" "build $build failed"; continue; }
		for program in $(build_list $build check_PROGRAMS); do
			step_later "unit $(basename "$program") ($build)" 600 "$zip_top/test/run_isolated.sh" \
				"$(build_dir $build)/$program"
		done
	done
}

fuzz_steps() {
	local program name corpus dir seeds
	is_built check-fuzz || { step_skip fuzz "build check-fuzz failed"; return 0; }
	dir=$(build_dir check-fuzz)
	for program in $(build_list check-fuzz fuzz_programs); do
		name=$(basename "$program")
		corpus=$zip_work/corpus/$name
		seeds=$zip_top/test/corpus/$name
		mkdir -p "$corpus"
		[ -d "$seeds" ] || seeds=
		step_later "$name" $((fuzz_seconds + 120)) "$dir/$program" -max_total_time="$fuzz_seconds" -timeout=10 \
			-rss_limit_mb=3000 -print_final_stats=1 -artifact_prefix="$corpus-" "$corpus" ${seeds:+"$seeds"}
	done
}

# Programs of two processes over stacks of this libfabric.
stack_steps() {
	local build=$1 version=$2
	shift 2
	is_built "$build" || { step_skip "e2e-$build" "build $build failed"; return 0; }
	# one at a time: the programs spin, and slow each other down beyond their limits
	step "e2e libfabric $version ($build)" 900 "$zip_top/test/run_e2e.sh" --build "$(build_dir "$build")" "$@"
}

tools_steps() {
	is_built check || { step_skip tools "build check failed"; return 0; }
	step "tools" 180 "$zip_top/test/run_isolated.sh" "$zip_top/test/run_tools.sh" --build "$(build_dir check)"
}

# The UCX transport: all of it on the plain build, what is our own with sanitizers too.
ucx_steps() {
	[ ${#ucx[@]} -gt 0 ] || { step_skip ucx "$no_ucx"; return 0; }
	is_built check || { step_skip ucx "build check failed"; return 0; }
	step "ucx (check)" 600 "$zip_top/test/run_ucx.sh" --build "$(build_dir check)"
	is_built check-sanitizers || return 0
	step "ucx (check-sanitizers)" 300 "$zip_top/test/run_ucx.sh" --build "$(build_dir check-sanitizers)" --only '^uct_api$'
}

# The link for benches: that it can be relied upon.
link_steps() {
	local build=$1 version=$2
	shift 2
	is_built "$build" || { step_skip "link-$build" "build $build failed"; return 0; }
	step "link libfabric $version ($build)" 300 "$zip_top/test/run_link.sh" --build "$(build_dir "$build")" "$@"
}

fabtests_steps() {
	is_built check-2.1 || return 0
	step "fabtests" 1200 "$zip_top/test/run_fabtests.sh" --libfabric "$zip_lf21_prefix" --fabtests "$zip_lf21_fabtests" \
		--provider-path "$(build_dir check-2.1)/.libs" "${rebaseline[@]}"
	step "fabtests, remote memory" 900 "$zip_top/test/run_fabtests_rma.sh" --libfabric "$zip_lf21_prefix" \
		--fabtests "$zip_lf21_fabtests" --provider-path "$(build_dir check-2.1)/.libs"
}

parse_options "$@"
# shellcheck disable=SC2086
need_packages $zip_packages_build $zip_packages_check
mkdir -p "$zip_work"
exec 7> "$zip_work/check.lock"
flock -n 7 || { say "Another check of this tree is running; waiting for it"; flock 7; }
steps_init
trap 'steps_stop; exit 130' INT
trap 'steps_stop; exit 143' TERM HUP
say "Building (in $zip_work)"
build_all
say "Testing (logs in $steps_dir)"
can_isolate || note "cannot make namespaces here: tests share ports and processes with the machine"
static_steps
[ $with_21 = yes ] || step_skip libfabric-2.1 "--no-libfabric-2.1"
unit_steps
fuzz_steps
if is_built check; then
	step_later "pingpong" 300 "$zip_top/test/run_pingpong.sh" "$(build_dir check)/.libs"
fi
steps_wait
tools_steps
fabtests_steps
[ $with_21 = no ] || stack_steps check-2.1 2.1
stack_steps check 1.17
stack_steps check-sanitizers 1.17 --stacks "tcp;ofi_zip"
ucx_steps
[ $with_21 = no ] || link_steps check-2.1 2.1 --only 'e2e_plain$'
link_steps check 1.17
link_steps check-sanitizers 1.17 --only 'e2e_life$'
steps_end
