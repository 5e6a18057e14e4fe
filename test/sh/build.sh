# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Out-of-tree builds of this project in the cache. Needs common.sh.

# autogen_need: ./configure is there and not older than what it is made from
autogen_need() {
	local stamp=$zip_top/config/autogen.stamp
	mkdir -p "$zip_work"
	(
		flock 9
		if [ -x "$zip_top/configure" ] && [ -e "$stamp" ] && [ -z "$(cd "$zip_top" && find configure.ac Makefile.am \
				m4/zip_*.m4 common/Makefile.inc gpu/Makefile.inc prov/zip/Makefile.inc uct/zip/Makefile.inc test/Makefile.inc tools/Makefile.inc \
				-newer "$stamp" -print)" ]; then
			exit 0
		fi
		must "$zip_work/logs/autogen.log" 300 "autogen" "$zip_top/autogen.sh"
		touch "$stamp"
	) 9> "$zip_work/autogen.lock"
}

build_dir() { printf '%s\n' "$zip_work/$1"; }

# build_make NAME "MAKE TARGETS" CONFIGURE-OPTIONS...: configure (when the options changed) and make in $zip_work/NAME
build_make() {
	local name=$1 targets=$2 dir=$zip_work/$1
	shift 2
	mkdir -p "$dir"
	if [ ! -e "$dir/Makefile" ] || [ "$(cat "$dir/configure.options" 2> /dev/null)" != "$*" ]; then
		must "$zip_work/logs/$name-configure.log" 300 "$name: configure" \
			env --chdir="$dir" "$zip_top/configure" "$@"
		printf '%s\n' "$*" > "$dir/configure.options"
	fi
	# shellcheck disable=SC2086
	must "$zip_work/logs/$name-make.log" 1500 "$name: build" make -C "$dir" -j "$zip_jobs" $targets
}

# build_list NAME VARIABLE: the words of a make variable of build NAME
build_list() {
	make -s -C "$zip_work/$1" print-"$2" | tr ' ' '\n' | sed '/^$/d'
}
