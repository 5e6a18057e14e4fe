# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What the UCX transport is built with and run on: Debian's packages of UCX and Open MPI, and the source package of the UCX that
# is installed, for its headers. Needs common.sh, packages.sh and libfabric21.sh (where does this machine fetch Debian from?).

zip_packages_ucx="libucx0 libucx-dev ucx-utils openmpi-bin libopenmpi-dev xz-utils"
zip_ucx_logs=$zip_cache/logs/ucx
zip_ucx_source=		# set by ucx_need: the source tree

# ucx_need: after it, UCX and Open MPI are installed and $zip_ucx_source is there. Fails, having said why, when that cannot be.
ucx_need() {
	local version suite
	# shellcheck disable=SC2086
	( need_packages $zip_packages_ucx ) || return 1
	command -v dpkg-query > /dev/null || { note "no Debian: no source package of UCX"; return 1; }
	version=$(dpkg-query -W -f '${source:Upstream-Version}' libucx0)
	suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	zip_ucx_source=$zip_cache/ucx-$version
	[ ! -e "$zip_ucx_source/src/uct/base/uct_iface.h" ] || return 0
	mkdir -p "$zip_cache"
	(
		flock 9
		[ ! -e "$zip_ucx_source/src/uct/base/uct_iface.h" ] || exit 0	# somebody else fetched it while we waited
		say "Fetching the source package of UCX $version (once, for its headers)"
		work=$(mktemp -d "$zip_cache/ucx.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		ucx_fetch "$work" "$version" "$suite"
	) 9> "$zip_cache/ucx.lock"
}

# ucx_fetch WORK VERSION SUITE: the verified upstream archive, unpacked in $zip_ucx_source
ucx_fetch() {
	local work=$1 version=$2 suite=$3 apt=$1/apt origin uris key line sum orig
	origin=$(lf21_origin)
	uris=${origin%%$'\t'*}
	key=${origin#*$'\t'}
	[ -n "$uris" ] && [ -n "$suite" ] || die "no Debian archive in apt's configuration: cannot fetch the source of UCX"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$work/source"
	{
		printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n' "$uris" "$suite"
		[ -z "$key" ] || printf 'Signed-By: %s\n' "$key"
	} > "$apt/source.sources"
	zip_apt=(apt-get -o Dir::Etc::sourcelist="$apt/source.sources" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root
		-o Acquire::Languages=none)
	retry 4 run_logged "$zip_ucx_logs/update.log" 300 "${zip_apt[@]}" -o APT::Update::Error-Mode=any update ||
		die "cannot read Debian $suite's source index (log: $zip_ucx_logs/update.log)"
	line=$("${zip_apt[@]}" --print-uris --download-only source ucx | awk '$2 ~ /\.orig\.tar\.[a-z0-9]+$/ { print; exit }') || true
	orig=$(printf '%s' "$line" | cut -d' ' -f2)
	sum=$(printf '%s' "$line" | sed -n 's/.*SHA256:\([0-9a-f]\{64\}\).*/\1/p')
	[ -n "$sum" ] || die "Debian $suite's index names no source archive of UCX with its SHA256"
	case $orig in
	ucx_"$version".orig.*) ;;
	*) die "Debian $suite has $orig, but UCX $version is installed" ;;
	esac
	retry 4 ucx_download "$work" "$orig" "$sum" || die "could not fetch $orig (log: $zip_ucx_logs/download.log)"
	must "$zip_ucx_logs/unpack.log" 120 "unpacking $orig" tar -xf "$work/$orig" -C "$work/source" --strip-components=1
	rm -rf "$zip_ucx_source"
	mv "$work/source" "$zip_ucx_source"
	note "$orig fetched; its SHA256 is that of Debian's signed index"
}

# apt-get source fetches the upstream archive too, whatever becomes of the other files: its exit status says nothing here.
ucx_download() {
	local work=$1 orig=$2 sum=$3
	run_logged "$zip_ucx_logs/download.log" 300 env --chdir="$work" "${zip_apt[@]}" --download-only source ucx || true
	printf '%s  %s\n' "$sum" "$work/$orig" | sha256sum --check --quiet >> "$zip_ucx_logs/download.log" 2>&1
}
