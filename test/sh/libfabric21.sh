# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# libfabric 2.1 and its fabtests, built from the source package of Debian trixie into the cache. The system's own apt
# configuration is read (where does this machine fetch Debian from?) and never changed. Needs common.sh, packages.sh.

zip_lf21_release=trixie
zip_lf21_recipe=2		# raise it when the way of building changes: the cached build is then made anew
zip_lf21_prefix=$zip_cache/libfabric-2.1-r$zip_lf21_recipe
zip_lf21_fabtests=$zip_cache/fabtests-2.1-r$zip_lf21_recipe
zip_lf21_logs=$zip_cache/logs/libfabric-2.1

# lf21_need: after it, libfabric is in $zip_lf21_prefix and fabtests in $zip_lf21_fabtests
lf21_need() {
	lf21_ready && return 0
	# shellcheck disable=SC2086
	need_packages $zip_packages_libfabric21
	mkdir -p "$zip_cache"
	(
		flock 9
		! lf21_ready || exit 0	# somebody else built it while we waited
		say "Building libfabric 2.1 and fabtests from Debian $zip_lf21_release's source package (once, about 3 minutes)"
		work=$(mktemp -d "$zip_cache/libfabric-2.1.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		lf21_fetch "$work"
		lf21_build "$work"
	) 9> "$zip_cache/libfabric-2.1.lock"
}

lf21_ready() {
	[ -e "$zip_lf21_prefix/lib/libfabric.so" ] && [ -e "$zip_lf21_fabtests/bin/fi_rdm_tagged_pingpong" ]
}

# lf21_origin: prints "URIS<tab>SIGNED-BY" of the first Debian archive that this machine's apt knows, from deb822 files
# (*.sources) or one-line files (*.list). Suites for security, updates and backports are other archives.
lf21_origin() {
	local parts=/etc/apt/sources.list.d
	local main=/etc/apt/sources.list
	{
		cat "$parts"/*.sources 2> /dev/null | awk '
			function flush() {
				if (types ~ /deb/ && uris != "" && enabled != "no" && suites !~ /-(security|backports)( |$)/ &&
						uris !~ /security/ && components ~ /main/)
					printf "%s\t%s\n", uris, key
				types = uris = suites = components = key = enabled = ""
			}
			/^[ \t]*$/ { flush(); next }
			/^#/ { next }
			{ colon = index($0, ":"); name = tolower(substr($0, 1, colon - 1))
			  value = substr($0, colon + 1); gsub(/^[ \t]+|[ \t]+$/, "", value) }
			name == "types" { types = value }
			name == "uris" { uris = value }
			name == "suites" { suites = value }
			name == "components" { components = value }
			name == "enabled" { enabled = value }
			name == "signed-by" { key = value }
			END { flush() }'
		cat "$main" "$parts"/*.list 2> /dev/null | awk '
			($1 == "deb" || $1 == "deb-src") && !/cdrom:/ {
				key = ""; i = 2
				if ($2 ~ /^\[/) {
					for (; i <= NF; i++) {
						option = $i; gsub(/[][]/, "", option)
						if (option ~ /^signed-by=/) key = substr(option, 11)
						if ($i ~ /\]$/) { i++; break }
					}
				}
				if ($i !~ /security/ && $(i + 1) !~ /-(security|backports)/)
					printf "%s\t%s\n", $i, key
			}'
	} | head -n 1 || true	# files that are not there are no error
}

# lf21_fetch WORK: the verified upstream archive, unpacked in WORK/source
lf21_fetch() {
	local work=$1 origin uris key apt=$1/apt
	origin=$(lf21_origin)
	uris=${origin%%$'\t'*}
	key=${origin#*$'\t'}
	[ -n "$uris" ] || die "no Debian archive in /etc/apt/sources.list or /etc/apt/sources.list.d: cannot fetch libfabric 2.1"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$work/source"
	{
		printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\n' "$uris" "$zip_lf21_release"
		[ -z "$key" ] || printf 'Signed-By: %s\n' "$key"
	} > "$apt/source.sources"
	# apt with sources and lists of our own
	zip_apt=(apt-get -o Dir::Etc::sourcelist="$apt/source.sources" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root
		-o Acquire::Languages=none)
	progress "reading Debian $zip_lf21_release's source index"
	retry 4 run_logged "$zip_lf21_logs/update.log" 300 "${zip_apt[@]}" -o APT::Update::Error-Mode=any update || {
		progress_end
		tail -n 15 "$zip_lf21_logs/update.log" >&2
		die "cannot read Debian $zip_lf21_release's source index (log: $zip_lf21_logs/update.log)"
	}
	progress_end
	lf21_fetch_orig "$work"
	must "$zip_lf21_logs/unpack.log" 120 "unpacking $zip_lf21_orig" \
		tar -xf "$work/$zip_lf21_orig" -C "$work/source" --strip-components=1
}

# Only the upstream archive is used: the packaging around it is not, and some archives no longer serve it.
lf21_fetch_orig() {
	local work=$1 line sum
	line=$("${zip_apt[@]}" --print-uris --download-only source libfabric |
		awk '$2 ~ /\.orig\.tar\.[a-z0-9]+$/ { print; exit }') || true
	[ -n "$line" ] || die "Debian $zip_lf21_release's index names no source archive for libfabric"
	zip_lf21_orig=$(printf '%s' "$line" | cut -d' ' -f2)
	sum=$(printf '%s' "$line" | sed -n 's/.*SHA256:\([0-9a-f]\{64\}\).*/\1/p')
	[ -n "$sum" ] || die "Debian's index gives no SHA256 for $zip_lf21_orig"
	case $zip_lf21_orig in
	libfabric_2.1.*) ;;
	*) die "Debian $zip_lf21_release now has $zip_lf21_orig, not libfabric 2.1: adjust test/sh/libfabric21.sh" ;;
	esac
	progress "fetching $zip_lf21_orig"
	retry 4 lf21_download "$work" "$sum" || {
		progress_end
		tail -n 15 "$zip_lf21_logs/download.log" >&2
		die "could not fetch $zip_lf21_orig with the SHA256 of Debian's index (log: $zip_lf21_logs/download.log)"
	}
	progress_end
	note "$zip_lf21_orig fetched; its SHA256 is that of Debian's signed index"
}

# apt-get source fetches the upstream archive too, whatever becomes of the other files: its exit status says nothing here.
lf21_download() {
	local work=$1 sum=$2
	run_logged "$zip_lf21_logs/download.log" 300 env --chdir="$work" "${zip_apt[@]}" --download-only source libfabric || true
	printf '%s  %s\n' "$sum" "$work/$zip_lf21_orig" | sha256sum --check --quiet >> "$zip_lf21_logs/download.log" 2>&1
}

# lf21_build WORK: both are installed into WORK/stage first and moved into place whole
lf21_build() {
	local work=$1 logs=$zip_lf21_logs
	local providers="--enable-tcp --enable-rxm --enable-shm --enable-udp --enable-rxd --enable-sockets --enable-verbs --enable-efa"
	cd "$work/source"
	must "$logs/autogen.log" 300 "libfabric 2.1: autogen" ./autogen.sh
	# shellcheck disable=SC2086
	must "$logs/configure.log" 300 "libfabric 2.1: configure" \
		./configure --prefix="$zip_lf21_prefix" --enable-only $providers \
		--without-cuda --without-rocr --without-ze --without-neuron --without-synapseai CFLAGS="-O2"
	must "$logs/make.log" 1200 "libfabric 2.1: build" make -j "$zip_jobs"
	must "$logs/install.log" 120 "libfabric 2.1: install" make install DESTDIR="$work/stage"
	lf21_move "$work/stage" "$zip_lf21_prefix"
	cd fabtests
	must "$logs/fabtests-autogen.log" 300 "fabtests: autogen" ./autogen.sh
	must "$logs/fabtests-configure.log" 300 "fabtests: configure" \
		./configure --prefix="$zip_lf21_fabtests" --with-libfabric="$zip_lf21_prefix" CFLAGS="-O2"
	must "$logs/fabtests-make.log" 1200 "fabtests: build" make -j "$zip_jobs"
	must "$logs/fabtests-install.log" 120 "fabtests: install" make install DESTDIR="$work/stage"
	lf21_move "$work/stage" "$zip_lf21_fabtests"
}

lf21_move() {
	rm -rf "$2"
	mv "$1$2" "$2"
}
