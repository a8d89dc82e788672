#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The Debian kernels pfrag is built for: which there are, their headers in a
# chroot of their own release, their images, and modules built for them.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/kernel_archive.sh
. "$(dirname "${BASH_SOURCE[0]}")/kernel_archive.sh"
# shellcheck source=scripts/module_build.sh
. "$(dirname "${BASH_SOURCE[0]}")/module_build.sh"

usage()
{
	cat <<'USAGE'
usage: kernels.sh list [SERIES|RELEASE|host|all]
       kernels.sh prepare RELEASE..
       kernels.sh build RELEASE OUT [MAKEARG..]
       kernels.sh vmlinuz RELEASE
       kernels.sh chroot SUITE [--bind DIR:PATH].. COMMAND ARGS..
       kernels.sh update [SUITE]..

Debian's stock amd64 kernels 5.10, 6.1, 6.12, 7.2 and 7.3.

  list      one line a kernel: SERIES RELEASE SUITE.  A series gives its newest
            kernel, "host" the newest of this machine's own Debian release,
            "all" (the default) every kernel that is tested.
  prepare   make what a build and a boot of RELEASE need: a chroot of its Debian
            release, its headers therein, its image
  build     build the tree's pfrag_mod/ for RELEASE with that release's compiler;
            OUT gets the modules, Module.symvers, pfrag_features.h and build.log.
            A warning makes it fail.  MAKEARG goes to make.
  vmlinuz   print the path of RELEASE's image, fetched if need be
  chroot    run a command in the chroot of SUITE (bullseye, bookworm, trixie);
            --bind shows DIR as PATH in there
  update    fetch the archives' lists again: only then do newer kernels appear

Everything is kept in $PFRAG_CACHE (/var/cache/pfrag).  Files come from the mirror
of this machine's apt configuration, or from $PFRAG_MIRROR; apt checks the
signatures.  With PFRAG_NO_INSTALL=1 nothing is fetched: what is missing is named.
A series may stand wherever RELEASE does.

examples:
  kernels.sh list 6.1
  kernels.sh prepare 6.1.0-57-amd64
  kernels.sh build 6.1 /tmp/out
  kernels.sh chroot trixie gcc --version
USAGE
}

# --- which kernels there are ------------------------------------------------

# list_series SERIES yes|no: every kernel that is tested, or the newest alone
list_series()
{
	local series="$1" every="$2" suite archive newest
	local -a found=()

	suite="$(suite_of_release "$series")"
	need_lists "$suite"
	for archive in $(archives_of "$series"); do
		newest="$(releases_in "$suite" "$archive" "$series." | sort -V | tail -n 1)"
		[ -z "$newest" ] || found+=("$newest")
	done
	[ ${#found[@]} -gt 0 ] || die "no kernel $series in the archives of $suite"
	# Of 5.10 the archive's last point release and its last security update differ
	# by years; elsewhere only the newest counts.
	if [ "$every" = no ] || [ "$series" != 5.10 ]; then
		mapfile -t found < <(printf '%s\n' "${found[@]}" | sort -V | tail -n 1)
	fi
	printf '%s\n' "${found[@]}" | sort -Vu | sed "s/.*/$series & $suite/"
}

list_release()
{
	local release="$1" series suite archive known=''

	series="$(cut -d. -f1,2 <<<"$release")"
	suite="$(suite_of_release "$release")"
	# A kernel that is here already may have left the archive since.
	if [ ! -e "$(image_path "$release")" ]; then
		need_lists "$suite"
		for archive in $(archives_of "$series"); do
			known+="$(releases_in "$suite" "$archive" "$series.")"$'\n'
		done
		grep -F -x -q -- "$release" <<<"$known" ||
			die "no such kernel: '$release' is not in the archives of $suite (see: kernels.sh list)"
	fi
	echo "$series $release $suite"
}

cmd_list()
{
	local what="${1:-all}" series codename

	case "$what" in
	all)
		while read -r series _; do
			list_series "$series" yes </dev/null
		done <<<"$SERIES_TABLE"
		;;
	host)
		codename="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
		series="$(awk -v c="$codename" '$2 == c { print $1; exit }' <<<"$SERIES_TABLE")"
		list_series "${series:-7.3}" no
		;;
	*)
		if series_line "$what" >/dev/null; then
			list_series "$what" no
		else
			list_release "$what"
		fi
		;;
	esac
}

# A release from what the user said: a series or a release.
resolve()
{
	local line

	line="$(cmd_list "$1")"
	[ "$(wc -l <<<"$line")" -eq 1 ] || die "one kernel is wanted here, not '$1'"
	cut -d' ' -f2 <<<"$line"
}

# --- chroots and headers ---------------------------------------------------

make_chroot()
{
	local suite="$1" root new
	local -a sources

	root="$(chroot_dir "$suite")"
	new="$PFRAG_CACHE/chroots/.$suite.new"
	need_packages mmdebstrap mount
	mkdir -p "$PFRAG_CACHE/chroots"
	# Left over from a run that was killed outright; we hold the lock.
	rm -rf --one-file-system "$new"
	defer rm -rf --one-file-system "$new"
	log "making a chroot of $suite (about 350 MB, 20 s and more)"
	: >"$root.log"
	mapfile -t sources <"$(apt_dir "$suite")/sources.list"
	# What the modules' build never reads is not unpacked.  The modules of an
	# image that headers depend on (6.12's do) are the largest part of that.
	run_logged "$root.log" "chroot of $suite" \
		mmdebstrap --mode=root --variant=apt --skip=cleanup/apt/lists \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Check-Date "false"' \
		--dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/lib/modules/*/kernel/*' \
		--dpkgopt='path-exclude=/usr/lib/modules/*/kernel/*' \
		--include=gcc,make,dkms,kmod,perl \
		"$suite" "$new" "${sources[@]}" ||
		die "could not make the chroot of $suite"
	mv "$new" "$root"
}

need_chroot()
{
	local suite="$1"

	[ ! -e "$(chroot_dir "$suite")" ] || return 0
	may_fetch "the chroot of $suite"
	need_root
	need_lists "$suite"
	lock_suite "$suite"
	[ -e "$(chroot_dir "$suite")" ] || make_chroot "$suite"
	unlock_suite "$suite"
}

# Runs in a mount namespace of its own, so that no mount can be left behind.
in_chroot()
{
	local root

	root="$(chroot_dir "$1")"
	shift
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount -- bash -c 'set -e
		root="$1"
		shift
		mount -t proc proc "$root/proc"
		while [ "$1" = --bind ]; do
			mkdir -p "$root${2##*:}"
			mount --bind "${2%:*}" "$root${2##*:}"
			shift 2
		done
		export LC_ALL=C.UTF-8 HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
		# A folder of the host for temporary files need not exist in there.
		unset TMPDIR
		exec chroot "$root" "$@"' in_chroot "$root" "$@"
}

have_headers()
{
	local state

	# A package dpkg has never heard of is an answer, not an error.
	state="$(dpkg-query --admindir="$(chroot_dir "$1")/var/lib/dpkg" \
		-W -f '${db:Status-Status}' "linux-headers-$2" 2>&1)" && [ "$state" = installed ]
}

install_headers()
{
	local suite="$1" release="$2" root

	root="$(chroot_dir "$suite")"
	# The chroot's apt goes by our lists, so that both know the same kernels.
	cp "$(apt_dir "$suite")/sources.list" "$root/etc/apt/sources.list"
	cp -r "$(apt_dir "$suite")"/state/lists/*_* "$root/var/lib/apt/lists/"
	# An image that comes along needs no initramfs.
	in_chroot "$suite" env DEBIAN_FRONTEND=noninteractive INITRD=No \
		apt-get install -y --no-install-recommends "linux-headers-$release" &&
		in_chroot "$suite" apt-get clean
}

need_headers()
{
	local suite="$1" release="$2" root

	root="$(chroot_dir "$suite")"
	! have_headers "$suite" "$release" || return 0
	may_fetch "linux-headers-$release"
	need_root
	need_lists "$suite"
	lock_suite "$suite"
	if ! have_headers "$suite" "$release"; then
		run_logged "$root.log" "headers of $release" install_headers "$suite" "$release" || {
			log "the lists may be out of date: fetching them again"
			refresh_lists "$suite"
			run_logged "$root.log" "headers of $release" install_headers "$suite" "$release" ||
				die "could not install linux-headers-$release"
		}
	fi
	unlock_suite "$suite"
}

# --- images ----------------------------------------------------------------

need_image()
{
	local suite="$1" release="$2" into image

	image="$(image_path "$release")"
	[ ! -e "$image" ] || return 0
	lock_suite "$suite"
	if [ ! -e "$image" ]; then
		into="$PFRAG_CACHE/kernels/.$release.new"
		rm -rf "$into"
		mkdir -p "$into" "$(dirname "$image")"
		defer rm -rf "$into"
		# Headers of 6.12 brought the image along.
		if [ -s "$(chroot_dir "$suite")/boot/vmlinuz-$release" ]; then
			cp "$(chroot_dir "$suite")/boot/vmlinuz-$release" "$into/vmlinuz"
		else
			may_fetch "the image of $release"
			need_lists "$suite"
			# apt downloads as a user of its own, which must be able to write here.
			[ "$(id -u)" -ne 0 ] || chown _apt "$into"
			run_logged "$(apt_dir "$suite")/log" "image of $release" \
				fetch_image "$suite" "$release" "$into" ||
				die "could not fetch the image of $release"
		fi
		mv "$into/vmlinuz" "$image"
	fi
	unlock_suite "$suite"
}

# --- commands --------------------------------------------------------------

cmd_prepare()
{
	local what release suite

	[ $# -gt 0 ] || die -s 2 "prepare: which kernel? (see: kernels.sh list)"
	for what in "$@"; do
		release="$(resolve "$what")"
		suite="$(suite_of_release "$release")"
		need_chroot "$suite"
		need_headers "$suite" "$release"
		need_image "$suite" "$release"
	done
}

cmd_vmlinuz()
{
	local release

	[ $# -eq 1 ] || die -s 2 "vmlinuz: takes one kernel"
	release="$(resolve "$1")"
	need_image "$(suite_of_release "$release")" "$release"
	image_path "$release"
}

cmd_build()
{
	local release suite out

	[ $# -ge 2 ] || die -s 2 "build: takes a kernel and a folder for the outcome"
	release="$(resolve "$1")"
	out="$2"
	shift 2
	suite="$(suite_of_release "$release")"
	need_root
	need_chroot "$suite"
	need_headers "$suite" "$release"
	build_modules "$release" "$out" in_suite -C "/lib/modules/$release/build" "$@"
}

# For build_modules, below cmd_build, whose $suite it is.
in_suite()
{
	local dir="$1"

	shift
	in_chroot "$suite" --bind "$dir:/build" "$@"
}

cmd_chroot()
{
	local suite="${1:-}"

	[ $# -ge 2 ] || die -s 2 "chroot: takes a suite and a command"
	awk -v s="$suite" '$2 == s { found = 1 } END { exit !found }' <<<"$SERIES_TABLE" ||
		die -s 2 "chroot: no such suite: '$suite' (bullseye, bookworm, trixie)"
	shift
	need_root
	need_chroot "$suite"
	in_chroot "$suite" "$@"
}

cmd_update()
{
	local suite
	local -a suites=("$@")

	[ $# -gt 0 ] || mapfile -t suites < <(cut -d' ' -f2 <<<"$SERIES_TABLE" | sort -u)
	for suite in "${suites[@]}"; do
		lock_suite "$suite"
		refresh_lists "$suite"
		unlock_suite "$suite"
	done
}

main()
{
	local command="${1:-}"

	[ $# -eq 0 ] || shift
	case "$command" in
	list | prepare | build | vmlinuz | chroot | update)
		"cmd_$command" "$@"
		;;
	-h | --help)
		usage
		;;
	*)
		usage >&2
		die -s 2 "unknown command: '$command'"
		;;
	esac
}

main "$@"
