# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Debian packages: install what is missing and nothing else. Needs common.sh.

zip_packages_build="gcc make autoconf automake libtool pkg-config libfabric-dev libcmocka-dev libcjson-dev"
zip_packages_demo="iproute2"
zip_packages_check="clang libclang-rt-dev llvm libfabric-bin iproute2 util-linux procps python3"
# for libfabric 2.1 and its tests
zip_packages_libfabric21="xz-utils libibverbs-dev librdmacm-dev"

package_installed() {
	[ "$(dpkg-query -W -f '${Status}' "$1" 2> /dev/null)" = "install ok installed" ]
}

# need_packages NAME...
need_packages() {
	local missing=() name
	command -v dpkg-query > /dev/null || {
		note "this is no Debian system: make sure that these are installed: $*"
		return
	}
	for name; do
		package_installed "$name" || missing+=("$name")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "Installing Debian packages: ${missing[*]}"
	[ "$(id -u)" -eq 0 ] || die "packages are missing and this is not root; run: apt-get install ${missing[*]}"
	# The lists that are there may be good enough; fresh ones are fetched when they are not.
	install_packages "${missing[@]}" || {
		retry 3 run_logged "$zip_cache/logs/apt-update.log" 300 apt-get update ||
			note "apt-get update failed (log: $zip_cache/logs/apt-update.log); trying with the lists at hand"
		retry 3 install_packages "${missing[@]}" || {
			tail -n 20 "$zip_cache/logs/apt-install.log" >&2
			die "apt-get install ${missing[*]} failed (log: $zip_cache/logs/apt-install.log)"
		}
	}
}

install_packages() {
	run_logged "$zip_cache/logs/apt-install.log" 900 env DEBIAN_FRONTEND=noninteractive \
		apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

# retry TIMES COMMAND...
retry() {
	local times=$1 i
	shift
	for ((i = 1; i <= times; i++)); do
		if "$@"; then return 0; fi
		[ "$i" -eq "$times" ] || sleep $((i * 3))
	done
	return 1
}
