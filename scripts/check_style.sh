#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What can be checked without running anything: the kernel's own checkers, the
# shell's, and a few rules of this project.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/kernel_archive.sh
. "$(dirname "${BASH_SOURCE[0]}")/kernel_archive.sh"

# The checkers are those of this release, and so are the headers for sparse.
SUITE=bookworm
SERIES=6.1

# check, what must hold; in the order in which they run, the quick ones first
CHECKS="version the same version in dkms.conf, debian/changelog and the modules
spdx every source file says its license
paths no file names a developer's folder or a mirror
compat only pfrag_compat.h knows that kernels differ
probes each probe is short and listed in docs/compat.md
shellcheck the shell scripts
kernel-doc the public headers
checkpatch the kernel's coding style
sparse the kernel's annotations"

# Types of checkpatch's that are wrong here, each with its reason:
# MACRO_WITH_FLOW_CONTROL: KUNIT_ASSERT_*() returns from its caller, as KUnit's does.
CHECKPATCH_IGNORE=MACRO_WITH_FLOW_CONTROL

usage()
{
	cat <<'USAGE'
usage: check_style.sh [CHECK]..
       check_style.sh --list

Runs the checks named, or all, and prints what is wrong. Looks at the files that git
tracks or would add; in a tree without .git, at all.

The checkers come from Debian: checkpatch.pl out of linux-source, sparse, both kept in
$PFRAG_CACHE (/var/cache/pfrag); kernel-doc out of the chroot that kernels.sh makes.
With PFRAG_NO_INSTALL=1 nothing is fetched: what is missing is named.

  --list    name the checks and what must hold

Exit status: 0 nothing found; 1 something; 2 usage.

examples:
  check_style.sh
  check_style.sh checkpatch sparse
USAGE
}

# --- the files ---------------------------------------------------------------

all_files()
{
	if [ -e .git ]; then
		git ls-files --cached --others --exclude-standard
	else
		find . -type f -printf '%P\n' | sort
	fi
}

# list_files [PATTERN..]: a * in a pattern matches / as well.
list_files()
{
	local file pattern

	while read -r file; do
		# Deleted and not yet committed: git lists it still.
		[ -f "$file" ] || continue
		[ $# -gt 0 ] || echo "$file"
		for pattern in "$@"; do
			# shellcheck disable=SC2053 # it is a pattern
			if [[ $file == $pattern ]]; then
				echo "$file"
				break
			fi
		done
	done <<<"$FILES"
}

# Scripts, and what they source.
list_shell_files()
{
	local file

	list_files | while read -r file; do
		if sed -n '1{/^#!.*[/ ]\(ba\|da\)\?sh\b/p};1,3{/^# shellcheck shell=/p}' "$file" | grep -q .; then
			echo "$file"
		fi
	done
}

# none_in PATTERN FILE..: the lines that match an extended pattern are what is wrong.
none_in()
{
	local status=0

	[ $# -gt 1 ] || die "no file to look at"

	grep -n -H -I -E -e "$@" || status=$?
	[ "$status" -eq 1 ]
}

# --- rules of this project -----------------------------------------------------

check_version()
{
	local conf changelog header

	conf=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' dkms.conf)
	changelog=$(sed -n '1s/^pfrag (\(.*\)-[^-]*) .*/\1/p' debian/changelog)
	header=$(sed -n 's/^#define PFRAG_VERSION "\(.*\)"$/\1/p' pfrag_mod/pfrag_internal.h)
	if [ -z "$conf" ] || [ "$conf" != "$changelog" ] || [ "$conf" != "$header" ]; then
		echo "dkms.conf has '$conf', debian/changelog '$changelog', PFRAG_VERSION is '$header'"
		return 1
	fi
}

check_spdx()
{
	local file status=0

	while read -r file; do
		if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: GPL-2\.0'; then
			echo "$file: no SPDX line among the first three"
			status=1
		fi
	done < <(
		list_files '*.[chS]' '*.sh' '*.py' '*Kbuild' '*Makefile' dkms.conf debian/rules
		list_shell_files
	)
	return "$status"
}

# The hosts that this machine's apt talks to.
apt_hosts()
{
	# shellcheck disable=SC2016 # expanded by apt
	apt-get indextargets --format '$(REPO_URI)' | sed -n 's,^https\?://\([^/:]*\).*,\1,p' | sort -u
}

check_paths()
{
	local status=0 host
	local -a files

	mapfile -t files < <(list_files)
	none_in '(^|[[:space:]"'\''=:(`])/(home|root|work|Users)/[[:alnum:]]' "${files[@]}" || status=1
	none_in '\<(deb|security|snapshot|archive|cdn[a-z-]*|ftp[a-z0-9.-]*)\.debian\.(org|net)\>' "${files[@]}" || status=1
	for host in $(apt_hosts); do
		none_in "\\<${host//./\\.}\\>" "${files[@]}" || status=1
	done
	# Where this very tree lies, unless that is a place with a name of one word.
	if [[ $PFRAG_TOP == /*/* ]]; then
		none_in "(^|[^[:alnum:]_.}-])${PFRAG_TOP//./\\.}(/|\\>)" "${files[@]}" || status=1
	fi
	return "$status"
}

check_compat()
{
	local -a files

	mapfile -t files < <(list_files '*.[ch]' | grep -v -x pfrag_mod/pfrag_compat.h)
	none_in '\<(LINUX_VERSION_CODE|KERNEL_VERSION|PFRAG_HAVE_[A-Z0-9_]*)\>' "${files[@]}"
}

check_probes()
{
	local file name lines status=0

	[ -f docs/compat.md ] || die "no table of the probes: docs/compat.md"
	while read -r file; do
		lines=$(wc -l <"$file")
		if [ "$lines" -gt 15 ]; then
			echo "$file: $lines lines, 15 are allowed"
			status=1
		fi
		name=$(basename "$file" .c)
		# The controls ask nothing about kernels.
		case $name in control | control_no) continue ;; esac
		if ! grep -q -F "\`$name\`" docs/compat.md; then
			echo "$file: docs/compat.md does not list \`$name\`"
			status=1
		fi
	done < <(list_files 'pfrag_mod/probe/*.c')
	return "$status"
}

check_shellcheck()
{
	local -a files

	need_packages shellcheck
	mapfile -t files < <(list_shell_files)
	shellcheck -x "${files[@]}"
}

# --- the kernel's checkers -----------------------------------------------------

tools_dir() { echo "$PFRAG_CACHE/tools"; }

# unpack_tool PACKAGE INTO FUNCTION: runs FUNCTION DEB INTO on the package's file.
# Below `||`, where set -e is off: hence the chain.
unpack_tool()
{
	local package=$1 into=$2 function=$3

	# apt downloads as a user of its own, which must be able to write here.
	{ [ "$(id -u)" -ne 0 ] || chown _apt "$into"; } &&
		(cd "$into" && suite_apt "$SUITE" apt-get download "$package") &&
		"$function" "$into/$package"_*.deb "$into" &&
		rm "$into/$package"_*.deb
}

# need_tool PACKAGE FUNCTION: what FUNCTION takes out of a package, kept in the cache.
need_tool()
{
	local package=$1 function=$2 tool new
	tool=$(tools_dir)/$package
	new=$tool.new

	[ ! -e "$tool" ] || return 0
	need_lists "$SUITE"
	lock_suite "$SUITE"
	if [ ! -e "$tool" ]; then
		may_fetch "$package of $SUITE"
		rm -rf "$new"
		mkdir -p "$new"
		run_logged "$(tools_dir)/log" "fetching $package" unpack_tool "$package" "$new" "$function" || {
			log "the lists may be out of date: fetching them again"
			refresh_lists "$SUITE"
			run_logged "$(tools_dir)/log" "fetching $package" unpack_tool "$package" "$new" "$function" ||
				die "could not fetch $package"
		}
		mv "$new" "$tool"
	fi
	unlock_suite "$SUITE"
}

take_sparse()
{
	dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --strip-components=3 ./usr/bin/sparse
}

# The source is 1.4 GB unpacked, and three of its files are wanted. Where tar has got
# them it stops, which those that feed it take amiss: tar's status counts.
take_checkpatch()
(
	set +o pipefail
	dpkg-deb --fsys-tarfile "$1" |
		tar -x -O --occurrence=1 "./usr/src/linux-source-$SERIES.tar.xz" | xz -d -c -T 0 |
		tar -x -C "$2" --strip-components=2 --occurrence=1 "linux-source-$SERIES/scripts/checkpatch.pl" \
			"linux-source-$SERIES/scripts/const_structs.checkpatch" \
			"linux-source-$SERIES/scripts/spelling.txt"
)

# in_chroot_with DIR COMMAND..: DIR is /build in there.
in_chroot_with()
{
	local dir=$1
	shift

	"$PFRAG_TOP/scripts/kernels.sh" chroot "$SUITE" --bind "$dir:/build" "$@"
}

# copy_sources [TOOL]: the C sources as they are in git, and a checker beside them; the
# folder's name is left in $copy.
copy_sources()
{
	copy=$(mktemp -d)
	defer rm -rf "$copy"
	list_files 'pfrag_mod/*' 'examples/*' | tar -c -T - | tar -x -C "$copy"
	[ $# -eq 0 ] || cp -r "$(tools_dir)/$1" "$copy/tool"
}

check_checkpatch()
{
	local copy
	local -a files

	need_packages xz-utils
	need_tool "linux-source-$SERIES" take_checkpatch
	copy_sources "linux-source-$SERIES"
	mapfile -t files < <(list_files 'pfrag_mod/*.[ch]' 'examples/*.[ch]')
	[ ${#files[@]} -gt 0 ] || die "no file to look at"
	# It knows by name what may follow a function without a blank line.
	sed -i 's/^pfrag_export_symbol(/EXPORT_SYMBOL_GPL(/' "${files[@]/#/$copy/}"
	# shellcheck disable=SC2016 # expanded in the chroot
	in_chroot_with "$copy" sh -c 'cd /build && exec perl tool/checkpatch.pl "$@"' checkpatch \
		--no-tree --strict --terse --no-summary --show-types --color=never \
		--ignore "$CHECKPATCH_IGNORE" -f "${files[@]}"
}

check_kernel-doc()
{
	local copy
	local -a files

	"$PFRAG_TOP/scripts/kernels.sh" prepare "$SERIES"
	copy_sources
	mapfile -t files < <(list_files pfrag_mod/pfrag.h pfrag_mod/pfrag_bench.h)
	# shellcheck disable=SC2016 # expanded in the chroot
	in_chroot_with "$copy" sh -c 'cd /build && exec perl "$@"' kernel-doc \
		"/usr/lib/linux-kbuild-$SERIES/scripts/kernel-doc" -none -Werror "${files[@]}"
}

check_sparse()
{
	local copy release log found

	need_tool sparse take_sparse
	release=$("$PFRAG_TOP/scripts/kernels.sh" list "$SERIES" | cut -d' ' -f2)
	"$PFRAG_TOP/scripts/kernels.sh" prepare "$release"
	copy_sources sparse
	log=$copy/log
	run_logged "$log" "sparse" in_chroot_with "$copy" make -C "/lib/modules/$release/build" \
		M=/build/pfrag_mod W=1 C=2 CHECK=/build/tool/sparse "-j$(nproc)" modules || return 1
	# It looked at each object, or its silence means nothing.
	grep -q '^  CHECK .*pfrag_core\.c$' "$log" || die "sparse did not run"
	found=$(sed -n -E '/(warning|error):/s,/build/,,p' "$log")
	[ -z "$found" ] || { echo "$found"; return 1; }
}

# --- the run -----------------------------------------------------------------

known()
{
	cut -d' ' -f1 <<<"$CHECKS" | grep -q -x -F -e "$1"
}

# In a subshell, so that a check that dies is one that failed.
run_check()
{
	(
		pfrag_deferred=()
		trap pfrag_run_deferred EXIT
		set -e
		"check_$1"
	)
}

main()
{
	local check status
	local -a chosen=() failed=()

	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help)
			usage
			exit 0
			;;
		--list)
			echo "$CHECKS"
			exit 0
			;;
		-*) die -s 2 "unknown option: $1 (see --help)" ;;
		esac
		known "$1" || die -s 2 "no such check: '$1' (see --list)"
		chosen+=("$1")
		shift
	done
	[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen < <(cut -d' ' -f1 <<<"$CHECKS")

	cd "$PFRAG_TOP"
	FILES=$(all_files)
	for check in "${chosen[@]}"; do
		# Not in a condition, which would switch set -e off in there.
		set +e
		run_check "$check"
		status=$?
		set -e
		[ "$status" -eq 0 ] || failed+=("$check")
	done
	[ ${#failed[@]} -eq 0 ] || die "not in order: ${failed[*]}"
	log "in order: ${chosen[*]}"
}

main "$@"
