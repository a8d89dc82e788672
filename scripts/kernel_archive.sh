#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What kernels.sh knows of Debian's archive: which kernels are where, and an apt
# beside the host's own that finds and fetches them.  Sourced after lib.sh.

# apt's formats look like the shell's and are not to be expanded by it.
# shellcheck disable=SC2016

# series, chroot, archives that carry it (oldest kernel first)
SERIES_TABLE="5.10 bullseye bullseye bullseye-security
6.1 bookworm bookworm bookworm-security
6.12 trixie trixie trixie-security
7.2 trixie trixie-backports
7.3 trixie trixie-backports"

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# --- where things are ------------------------------------------------------

chroot_dir()	{ echo "$PFRAG_CACHE/chroots/$1"; }
apt_dir()	{ echo "$PFRAG_CACHE/apt/$1"; }
image_path()	{ echo "$PFRAG_CACHE/kernels/$1/vmlinuz"; }

series_line()
{
	awk -v series="$1" '$1 == series { print; found = 1 } END { exit !found }' <<<"$SERIES_TABLE"
}

archives_of()
{
	series_line "$1" | cut -d' ' -f3-
}

suite_of_release()
{
	local series line

	series="$(cut -d. -f1,2 <<<"$1")"
	line="$(series_line "$series")" ||
		die "no such kernel: '$1' (known series: $(cut -d' ' -f1 <<<"$SERIES_TABLE" | xargs))"
	cut -d' ' -f2 <<<"$line"
}

declare -A locked=()

# One at a time per suite: the lock is held until this process ends.
lock_suite()
{
	local suite="$1" file="$PFRAG_CACHE/lock.$1" fd

	[ -z "${locked[$suite]:-}" ] || return 0
	mkdir -p "$PFRAG_CACHE"
	exec {fd}>"$file"
	if ! flock -n "$fd"; then
		log "waiting for another run that prepares $suite"
		flock "$fd"
	fi
	locked[$suite]=$fd
}

unlock_suite()
{
	local fd="${locked[$1]}"

	exec {fd}>&-
	unset "locked[$1]"
}

may_fetch()
{
	[ -z "${PFRAG_NO_INSTALL:-}" ] || die "missing, and nothing may be fetched: $1"
}

# --- the archives' lists ---------------------------------------------------

# The mirror this machine uses for LABEL, Debian or Debian-Security.
mirror()
{
	local label="$1" uri

	if [ -n "${PFRAG_MIRROR:-}" ]; then
		[ "$label" = Debian ] && echo "$PFRAG_MIRROR" || echo "${PFRAG_MIRROR%/}-security"
		return
	fi
	uri="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
		'Origin: Debian' "Label: $label" | head -n 1)"
	# Without lists apt knows no labels yet; the folder's name is the next best sign.
	[ -n "$uri" ] || uri="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
		awk -v end="/${label,,}/?\$" '$0 ~ end && !n++')"
	echo "$uri"
}

# The mirror mmdebstrap would take for SUITE: its own sources, of which only the
# line for the archive wanted is kept.
default_mirror()
{
	local suite="$1" security="$2" dir

	need_packages mmdebstrap
	# Not deferred: this runs in a subshell, which has no cleanup of its own.
	dir="$(apt_dir "$suite")/default-mirror"
	rm -rf --one-file-system "$dir"
	mkdir -p "$dir/root"
	# The hook runs when the sources are written; failing there ends it early.
	mmdebstrap --mode=root --variant=custom --quiet \
		--setup-hook="cp \"\$1/etc/apt/sources.list\" '$dir/sources'; exit 3" \
		"$suite" "$dir/root" >"$dir/log" 2>&1 || [ -s "$dir/sources" ] ||
		die "no mirror: $(tail -n 1 "$dir/log")"
	awk -v suite="$suite" -v security="$security" '$1 == "deb" &&
		(security ? $3 ~ /security/ : $3 == suite) { print $2; exit }' "$dir/sources"
	rm -rf --one-file-system "$dir"
}

write_sources()
{
	local suite="$1" main security

	main="$(mirror Debian)"
	[ -n "$main" ] || main="$(default_mirror "$suite" 0)"
	security="$(mirror Debian-Security)"
	[ -n "$security" ] || security="$(default_mirror "$suite" 1)"
	# Mirrors may be frozen and old suites expire: the date is no reason to refuse.
	echo "deb [check-valid-until=no] $main $suite main"
	echo "deb [check-valid-until=no] $security $suite-security main"
	[ "$suite" != trixie ] ||
		echo "deb [check-valid-until=no] $main $suite-backports main"
}

# An apt of our own beside the host's: its own sources, lists and no packages.
write_apt_conf()
{
	local dir="$1"

	cat <<-CONF
	Dir::State "$dir/state";
	Dir::State::status "$dir/status";
	Dir::Cache "$dir/cache";
	Dir::Cache::srcpkgcache "";
	Dir::Etc::sourcelist "$dir/sources.list";
	Dir::Etc::sourceparts "/dev/null";
	Dir::Etc::main "/dev/null";
	Dir::Etc::parts "/dev/null";
	Dir::Etc::trusted "/dev/null";
	Dir::Etc::trustedparts "$dir/keys";
	APT::Architecture "amd64";
	APT::Architectures "amd64";
	Acquire::Languages "none";
	Acquire::Check-Date "false";
	CONF
	# How this machine gets out is the one thing taken over.
	apt-config dump | sed -n -E '/^Acquire::https?::Proxy/p'
}

suite_apt()
{
	local suite="$1"

	shift
	APT_CONFIG="$(apt_dir "$suite")/apt.conf" "$@"
}

refresh_lists()
{
	local suite="$1" dir

	dir="$(apt_dir "$suite")"
	may_fetch "the archive's lists of $suite"
	need_packages debian-archive-keyring
	mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/keys"
	ln -sf "$KEYRING" "$dir/keys/"
	write_apt_conf "$dir" >"$dir/apt.conf"
	write_sources "$suite" >"$dir/sources.list"
	: >"$dir/status"
	: >"$dir/log"
	run_logged "$dir/log" "fetching the lists of $suite" \
		suite_apt "$suite" apt-get update -o APT::Update::Error-Mode=any ||
		die "could not fetch the archive's lists of $suite"
	touch "$dir/complete"
}

need_lists()
{
	[ -e "$(apt_dir "$1")/complete" ] || {
		lock_suite "$1"
		[ -e "$(apt_dir "$1")/complete" ] || refresh_lists "$1"
		unlock_suite "$1"
	}
}

# Releases with headers in ARCHIVE (bullseye-security ..) whose name begins with PREFIX.
releases_in()
{
	local suite="$1" archive="$2" prefix="$3" index

	index="$(suite_apt "$suite" apt-get indextargets --format '$(FILENAME)' \
		'Created-By: Packages' "Codename: $archive")"
	[ -n "$index" ] || die "the lists of $archive are missing; try: kernels.sh update $suite"
	# Not the cloud and rt flavours: -amd64 follows the ABI number or +debNN.
	sed -n -E "s/^Package: linux-headers-(${prefix//./\\.}[0-9.]*(-[0-9]+|\+deb[0-9.]+)-amd64)\$/\1/p" "$index"
}

# The package that holds the image: 7.x has split it from linux-image.
image_package()
{
	local suite="$1" release="$2" names name

	names="$(suite_apt "$suite" apt-cache pkgnames linux-)"
	for name in "linux-binary-$release" "linux-image-$release" \
		"linux-binary-unsigned-$release" "linux-image-$release-unsigned"; do
		if grep -F -x -q -- "$name" <<<"$names"; then
			echo "$name"
			return
		fi
	done
	die "no image of $release in the archives of $suite"
}

# Runs below `||`, where set -e is off: hence the chain.
fetch_image()
{
	local suite="$1" release="$2" into="$3" package member

	package="$(image_package "$suite" "$release")" || return
	case "$package" in
	linux-binary-*)	member="./usr/lib/modules/$release/vmlinuz" ;;
	*)		member="./boot/vmlinuz-$release" ;;
	esac
	cd "$into" && suite_apt "$suite" apt-get download "$package" || return
	# tar stops at the image, which dpkg-deb takes amiss: tar's status counts.
	set +o pipefail
	dpkg-deb --fsys-tarfile ./*.deb | tar -x -O --occurrence=1 "$member" >vmlinuz
}
