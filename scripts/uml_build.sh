#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# How rig_uml.sh comes by its kernels.  Sourced after lib.sh and kernel_archive.sh; run
# on its own it does nothing.

# Where the newest source is, and the release whose compiler and libc build it: what
# comes out runs on that release and on all later ones.
SOURCE_SUITE=trixie
BUILD_SUITE=bookworm
BUILD_PACKAGES=(flex bison bc libelf-dev)

# --- where things are ------------------------------------------------------

source_package()
{
	need_lists "$SOURCE_SUITE"
	suite_apt "$SOURCE_SUITE" apt-cache pkgnames linux-source- |
		grep -x -E 'linux-source-[0-9.]+' | sort -V | tail -n 1
}

source_version()
{
	suite_apt "$SOURCE_SUITE" apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p'
}

fragments()
{
	cat "$HERE/uml/common.config" "$HERE/uml/$1.config"
}

# Names what is built from: the package, its version, both folders.
locate()
{
	local config="$1" hash

	package="$(source_package)"
	version="$(source_version "$package")"
	[ -n "$version" ] || die "no linux-source in the archives of $SOURCE_SUITE"
	hash="$(fragments "$config" | sha256sum | cut -c 1-12)"
	source="$PFRAG_CACHE/uml/source-$version"
	build="$PFRAG_CACHE/uml/$version-$hash/$config"
	name="UML $version $config"
}

# --- the kernel --------------------------------------------------------------

# build_in SOURCE BUILD DIR COMMAND..: run it where the compiler is.  The paths in there
# are always the same, so that a folder can be renamed when it is whole.
build_in()
{
	"$HERE/kernels.sh" chroot "$BUILD_SUITE" --bind "$1:/uml/source" --bind "$2:/uml/build" \
		--bind "$3:/build" "${@:4}"
}

missing_tools()
{
	local root package state

	root="$(chroot_dir "$BUILD_SUITE")"
	for package in "${BUILD_PACKAGES[@]}"; do
		# A package dpkg has never heard of is an answer, not an error.
		state="$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${db:Status-Status}' \
			"$package" 2>&1)" && [ "$state" = installed ] || echo "$package"
	done
}

install_tools()
{
	cp -r "$(apt_dir "$BUILD_SUITE")"/state/lists/*_* "$(chroot_dir "$BUILD_SUITE")/var/lib/apt/lists/" &&
		"$HERE/kernels.sh" chroot "$BUILD_SUITE" env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y --no-install-recommends "$@" &&
		"$HERE/kernels.sh" chroot "$BUILD_SUITE" apt-get clean
}

need_tools()
{
	local log
	local -a missing

	need_packages xz-utils
	# It takes the lock itself where it has to make the chroot.
	"$HERE/kernels.sh" chroot "$BUILD_SUITE" true
	mapfile -t missing < <(missing_tools)
	[ ${#missing[@]} -gt 0 ] || return 0
	may_fetch "${missing[*]} in the chroot of $BUILD_SUITE"
	need_lists "$BUILD_SUITE"
	lock_suite "$BUILD_SUITE"
	log="$(chroot_dir "$BUILD_SUITE").log"
	run_logged "$log" "installing ${missing[*]} ($BUILD_SUITE)" install_tools "${missing[@]}" || {
		log "the lists may be out of date: fetching them again"
		refresh_lists "$BUILD_SUITE"
		run_logged "$log" "installing ${missing[*]} ($BUILD_SUITE)" install_tools "${missing[@]}" ||
			die "could not install: ${missing[*]}"
	}
	unlock_suite "$BUILD_SUITE"
}

# Runs below `||`, where set -e is off: hence the chain.  The drivers of hardware that
# UML never sees are left out, but for their Kconfig files: half of the 1.5 GB.
fetch_source()
{
	local into="$1" dir
	local -a skip=()

	for dir in gpu infiniband media net/ethernet net/wireless scsi staging; do
		skip+=("--exclude=*/drivers/$dir/*.[ch]")
	done
	cd "$into" && suite_apt "$SOURCE_SUITE" apt-get download "$package=$version" &&
		dpkg-deb --fsys-tarfile ./*.deb | tar -x -O "./usr/src/$package.tar.xz" |
		xz -d -c -T 0 | tar -x --strip-components=1 "${skip[@]}" \
			--exclude='*/sound/*.[ch]' --exclude='*/tools/testing/*' --exclude='*.dts' \
			--exclude='*.dtsi' --exclude='*/Documentation/*.rst' --exclude='*/Documentation/*.yaml' &&
		rm ./*.deb
}

# Below `||` as well.
try_source()
{
	rm -rf "$source.new"
	# apt downloads as a user of its own, which must be able to write here.
	mkdir -p "$source.new" && chown _apt "$source.new" &&
		run_logged "$PFRAG_CACHE/uml/log" "fetching $package $version (170 MB)" \
			fetch_source "$source.new" &&
		chown root "$source.new" && mv "$source.new" "$source"
}

# need_source CONFIG: leaves what locate() names, which may be a newer source by then.
need_source()
{
	[ ! -e "$source" ] || return 0
	may_fetch "$package $version"
	lock_suite uml-source
	defer rm -rf "$source.new"
	[ -e "$source" ] || try_source || {
		log "the lists may be out of date: fetching them again"
		lock_suite "$SOURCE_SUITE"
		refresh_lists "$SOURCE_SUITE"
		unlock_suite "$SOURCE_SUITE"
		locate "$1"
		defer rm -rf "$source.new"
		[ -e "$source" ] || try_source || die "could not fetch $package $version"
	}
	unlock_suite uml-source
}

# Every option that a fragment asks for must have come out as asked.
check_options_set()
{
	local missing

	missing="$(comm -23 <(grep '^CONFIG_' "$1/fragments" | sort) <(sort "$1/.config"))"
	[ -z "$missing" ] || die "this kernel does not take: $(xargs <<<"$missing")"
}

make_kernel()
{
	local config="$1" new="$2"
	local -a make=(build_in "$source" "$new" "$new" make -C /uml/source ARCH=um O=/uml/build)

	fragments "$config" >"$new/fragments"
	run_logged "$new/build.log" "configuring $name" "${make[@]}" \
		KCONFIG_ALLCONFIG=/uml/build/fragments allnoconfig || die "no configuration for $name"
	check_options_set "$new"
	run_logged "$new/build.log" "building $name" "${make[@]}" "-j$(nproc)" all ||
		die "could not build $name"
	# Modules need the headers, the scripts and Module.symvers; the kernel needs nothing.
	find "$new" -path "$new/scripts" -prune -o -type f \
		\( -name '*.o' -o -name '*.a' -o -name '.*.cmd' -o -name '.tmp_vmlinux*' \
		-o -name 'vmlinux*' -o -name '*.export.c' \) -exec rm {} +
}

# Leaves what locate() names.
need_kernel()
{
	local config="$1"

	locate "$config"
	[ ! -e "$build" ] || return 0
	need_root
	lock_suite "uml-$config"
	if [ ! -e "$build" ]; then
		need_source "$config"
		need_tools
		rm -rf "$build.new"
		mkdir -p "$build.new"
		defer rm -rf "$build.new"
		make_kernel "$config" "$build.new"
		mv "$build.new" "$build"
	fi
	unlock_suite "uml-$config"
}
