#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the Debian package: built, linted, installed, built by DKMS, loaded, purged
#
# Everything happens in throw-away copies of the cached chroots; what is loaded is
# loaded in guests.

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/chroot_copy.sh
. "$(dirname "${BASH_SOURCE[0]}")/chroot_copy.sh"

# The suite the package is built in; the same .deb is installed in all.
BUILD_SUITE=bookworm
MODULES="pfrag pfrag_bench pfrag_test"
# A kernel that dkms.conf excludes; its tree is faked.
EXCLUDED=4.19.0-99-amd64

# --- the tree ----------------------------------------------------------------

# The files that git knows or would add; an export has nothing else.
tree_files()
{
	cd "$PFRAG_TOP"
	if [ -e .git ]; then
		# A file deleted and not yet committed is listed all the same.
		git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$file" ] || printf '%s\0' "$file"
			done
	else
		find . -type f -print0
	fi
}

export_tree()
{
	mkdir -p "$1"
	(tree_files) | tar -c -C "$PFRAG_TOP" --null -T - | tar -x -C "$1"
}

conf_version()
{
	sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$PFRAG_TOP/dkms.conf"
}

kernels_before_5_10_excluded()
{
	local regex kernel

	regex=$(sed -n 's/^BUILD_EXCLUSIVE_KERNEL="\(.*\)"$/\1/p' "$PFRAG_TOP/dkms.conf")
	for kernel in 2.6.32 3.16.0-11-amd64 4.19.0-27-amd64 4.20.17 5.0.0 5.1.21 5.4.0-150-generic 5.9.16; do
		[[ ! $kernel =~ $regex ]] || die "$kernel is not excluded by $regex"
	done
	for kernel in $PFRAG_KERNELS 5.10.0-32-amd64 5.15.0-91-generic 5.19.17 6.1.0-57-amd64 6.12.118+deb13-amd64 \
		7.3.4+deb13-amd64 8.0.0 9.9.9 10.0.1 19.2.0; do
		[[ $kernel =~ $regex ]] || die "$kernel is excluded by $regex"
	done
}

# --- the package -------------------------------------------------------------

# What runs in the build chroot, in /pfrag/source.
build_in_chroot()
{
	cd /pfrag/source/pfrag
	dpkg-buildpackage -us -uc
	mkdir -p /pfrag/repo
	cd /pfrag/repo
	cp ../source/*.deb .
	# A name apt can install by, in every release.
	dpkg-scanpackages . >Packages
}

package_builds()
{
	local source=$SHARED/source

	export_tree "$source/pfrag"
	tar -c -J -C "$source" --exclude=pfrag/debian -f "$source/pfrag_$(conf_version).orig.tar.xz" pfrag
	copy_make "$SCRATCH/build" "$(layer_dir "$BUILD_SUITE" build):$PFRAG_CACHE/chroots/$BUILD_SUITE"
	inside "$SCRATCH/build" build_in_chroot
	[ "$(find "$SHARED/repo" -name '*.deb' | wc -l)" -eq 1 ]
	# The sources alone: nothing that some build has left.
	if dpkg-deb --fsys-tarfile "$SHARED"/repo/*.deb | tar -t | grep -E '\.(o|ko|mod|cmd|symvers)$|features'; then
		die "the package holds what a build left"
	fi
}

lintian_in_chroot()
{
	cd /pfrag/source
	lintian --version
	lintian --allow-root --no-cfg --show-overrides --fail-on error,warning --info ./*.changes
	# Hints that are overridden count as well: the package has no overrides.
	[ -z "$(find pfrag/debian -name '*lintian-overrides')" ]
}

lintian_is_silent()
{
	local suite=$1 layer=$2

	copy_make "$SCRATCH/lintian-$suite" "$(layer_dir "$suite" "$layer"):$PFRAG_CACHE/chroots/$suite"
	inside "$SCRATCH/lintian-$suite" lintian_in_chroot
}

# --- its life in one release; what follows runs in the copy --------------------

# All that DKMS or a package of ours may put down. depmod's indexes and DKMS's own
# key and version are not of a package.
listing()
{
	find /usr/src /var/lib/dkms /lib/modules \( -path '/lib/modules/*/modules.*' -o \
		-path '/var/lib/dkms/mok.*' -o -path /var/lib/dkms/dkms_dbversion \) -prune -o -print | sort
}

# set_stage EXCLUDED RELEASE..: exactly these kernels, the excluded one and our archive.
set_stage()
{
	local excluded=$1 dir
	shift

	for dir in /lib/modules/*; do
		[[ " $* " == *" ${dir##*/} "* ]] || rm -r "$dir"
	done
	for release in "$@"; do
		[ -d "/lib/modules/$release/build" ] || { echo "no headers of $release"; return 1; }
	done
	mkdir "/lib/modules/$excluded"
	ln -s "$(readlink -f "/lib/modules/$1/build")" "/lib/modules/$excluded/build"
	echo "deb [trusted=yes] file:/pfrag/repo ./" >/etc/apt/sources.list.d/pfrag.list
	apt-get update -o Dir::Etc::SourceList=/etc/apt/sources.list.d/pfrag.list \
		-o Dir::Etc::SourceParts=/dev/null -o APT::Get::List-Cleanup=0
}

# modules_sound VERSION MODULES RELEASE..: what DKMS has built and installed.
modules_sound()
{
	local version=$1 modules=$2 release module file
	shift 2

	for release in "$@"; do
		for module in $modules; do
			file=$(find "/lib/modules/$release/updates/dkms" -name "$module.ko*")
			[ -n "$file" ] || { echo "$release: no $module"; return 1; }
			echo "$file: version $(modinfo -F version "$file"), $(modinfo -F vermagic "$file")"
			[ "$(modinfo -F version "$file")" = "$version" ]
			[[ "$(modinfo -F vermagic "$file")" == "$release "* ]]
			[ "$module" = pfrag ] || [ "$(modinfo -F import_ns "$file")" = PFRAG ]
		done
	done
}

# nothing_built RELEASE: neither installed nor in DKMS's tree.
nothing_built()
{
	local found

	found=$(find /lib/modules /var/lib/dkms/pfrag -path "*/$1/*" -name '*.ko*')
	[ -z "$found" ] || { echo "built for $1:" "$found"; return 1; }
}

dkms_refuses()
{
	local version=$1 excluded=$2 status=0

	dkms build -m pfrag -v "$version" -k "$excluded" || status=$?
	# 2.8.4 says 9, later ones 77.
	[ "$status" -eq 77 ] || [ "$status" -eq 9 ]
}

# What dkms-autopkgtest does, which in bullseye cannot be told the package's name.
autopkgtest_by_hand()
{
	local version=$1 excluded=$2 release status
	shift 2

	touch /etc/dkms/no-autoinstall
	apt-get install -y --no-install-recommends pfrag-dkms
	if dpkg --remove dkms; then
		echo "pfrag-dkms does not depend on dkms"
		return 1
	fi
	for release in "$excluded" "$@"; do
		status=0
		dkms build -m pfrag -v "$version" -k "$release" || status=$?
		if [ "$status" -eq 9 ]; then
			echo "I: SKIP $release"
			continue
		fi
		[ "$status" -eq 0 ]
		dkms install --force -m pfrag -v "$version" -k "$release"
		dkms status pfrag -k "$release" | tee /dev/stderr | grep -q 'installed$'
		echo "I: PASS $release"
	done
	rm /etc/dkms/no-autoinstall
}

clone_builds()
{
	local version=$1 release=$2

	cd /pfrag/clone
	dkms add .
	dkms build "pfrag/$version" -k "$release"
	dkms install "pfrag/$version" -k "$release"
	dkms status
	dkms remove "pfrag/$version" --all
	# `dkms add` put it there, and only the user takes it away.
	rm -r "/usr/src/pfrag-$version"
}

# --- ... and what runs here ---------------------------------------------------

staged()
{
	local suite=$1 lower=$PFRAG_CACHE/chroots/$1
	shift

	[ "$suite" = bullseye ] || lower=$(layer_dir "$suite" dkms):$lower
	copy_make "$SCRATCH/$suite" "$lower"
	inside "$SCRATCH/$suite" set_stage "$EXCLUDED" "$@"
	inside "$SCRATCH/$suite" listing >"$SCRATCH/$suite.before"
}

installing_builds_for_every_kernel()
{
	local suite=$1
	shift

	in_copy "$SCRATCH/$suite" apt-get install -y --no-install-recommends pfrag-dkms || {
		# Of a build that failed DKMS says no more than where its log is.
		in_copy "$SCRATCH/$suite" find /var/lib/dkms/pfrag -name make.log -exec tail -n 30 {} +
		return 1
	}
	inside "$SCRATCH/$suite" modules_sound "$(conf_version)" "$MODULES" "$@"
}

excluded_kernel_is_skipped()
{
	inside "$SCRATCH/$1" nothing_built "$EXCLUDED"
	inside "$SCRATCH/$1" dkms_refuses "$(conf_version)" "$EXCLUDED"
	inside "$SCRATCH/$1" nothing_built "$EXCLUDED"
}

purge_leaves_nothing()
{
	in_copy "$SCRATCH/$1" apt-get purge -y pfrag-dkms
	inside "$SCRATCH/$1" listing >"$SCRATCH/$1.after"
	diff "$SCRATCH/$1.before" "$SCRATCH/$1.after"
}

autopkgtest_passes()
{
	local suite=$1 out=$SCRATCH/$1.autopkgtest release
	shift

	if [ "$suite" = bullseye ]; then
		inside "$SCRATCH/$suite" autopkgtest_by_hand "$(conf_version)" "$EXCLUDED" "$@" | tee "$out"
	else
		in_copy "$SCRATCH/$suite" /usr/lib/dkms/dkms-autopkgtest pfrag-dkms | tee "$out"
	fi
	for release in "$@"; do
		grep -F -x -e "I: PASS $release" -e "I: PASS pfrag/$(conf_version) $release" "$out"
	done
	grep -F -x -e "I: SKIP $EXCLUDED" -e "I: SKIP pfrag/$(conf_version) $EXCLUDED" "$out"
	inside "$SCRATCH/$suite" modules_sound "$(conf_version)" "$MODULES" "$@"
	purge_leaves_nothing "$suite"
}

built_from_clone()
{
	local suite=$1 release=$2

	export_tree "$SHARED/clone"
	inside "$SCRATCH/$suite" clone_builds "$(conf_version)" "$release"
	inside "$SCRATCH/$suite" listing >"$SCRATCH/$suite.after"
	diff "$SCRATCH/$suite.before" "$SCRATCH/$suite.after"
}

# Modules of one kernel as DKMS built them, for the guest.
fetch_modules()
{
	local out=/pfrag/modules/$1

	mkdir -p "$out"
	cp "/lib/modules/$1/updates/dkms/"*.ko* "$out"
	find "$out" -name '*.xz' -exec unxz {} +
}

write_guest_job()
{
	cat >"$1" <<-'JOB'
	#!/bin/sh
	set -e
	# Where DKMS puts them, so that modprobe finds them.
	mkdir -p "/lib/modules/$(uname -r)/updates/dkms" /tmp/bin
	cp ./*.ko "/lib/modules/$(uname -r)/updates/dkms"
	for file in order builtin builtin.modinfo; do
		: >"/lib/modules/$(uname -r)/modules.$file"
	done
	ln -s "$(readlink -f "$(command -v modprobe)")" /tmp/bin/depmod
	/tmp/bin/depmod
	exec /job.d/load
	JOB
}

what_dkms_built_loads()
{
	local suite=$1 release=$2 log=$SCRATCH/kernel.log

	inside "$SCRATCH/$suite" fetch_modules "$release"
	write_guest_job "$SCRATCH/job"
	"$PFRAG_TOP/scripts/rig_vm.sh" --kernel "$release" --modules "$SHARED/modules/$release" \
		--file "$PFRAG_TOP/debian/tests/load" --job "$SCRATCH/job" --log "$log" || {
		tail -n 40 "$log"
		return 1
	}
	"$PFRAG_TOP/scripts/rig_vm.sh" --splats "$log"
}

# --- the run -----------------------------------------------------------------

# suites_chosen: lines SUITE RELEASE..
suites_chosen()
{
	local release

	for release in $PFRAG_KERNELS; do
		"$PFRAG_TOP/scripts/kernels.sh" list "$release"
	done | awk '{ releases[$3] = releases[$3] " " $2 } END { for (suite in releases) print suite releases[suite] }' |
		sort
}

all_prepared()
{
	local suite releases

	while read -r suite releases; do
		# shellcheck disable=SC2086 # a list
		"$PFRAG_TOP/scripts/kernels.sh" prepare $releases
		[ "$suite" = bullseye ] || need_layer "$suite" dkms openssl
		[ "$suite" != trixie ] || need_layer trixie lintian lintian
	done <"$SCRATCH/suites"
	"$PFRAG_TOP/scripts/kernels.sh" chroot "$BUILD_SUITE" true
	need_layer "$BUILD_SUITE" build build-essential debhelper dh-dkms lintian
}

test_suite()
{
	local suite=$1 release
	shift

	t_run "$suite: a chroot with $# kernels, none running, and an excluded one" staged "$suite" "$@"
	t_run "$suite: installing builds for every kernel" installing_builds_for_every_kernel "$suite" "$@"
	t_run "$suite: an excluded kernel is skipped" excluded_kernel_is_skipped "$suite"
	for release in "$@"; do
		t_run "$release: what DKMS built loads and runs" what_dkms_built_loads "$suite" "$release"
	done
	t_run "$suite: purge leaves nothing behind" purge_leaves_nothing "$suite"
	t_run "$suite: dkms-autopkgtest passes for every kernel" autopkgtest_passes "$suite" "$@"
	t_run "$suite: dkms add works from a clone" built_from_clone "$suite" "$1"
}

main()
{
	local suite releases failed

	need_root
	t_start
	need_packages xz-utils
	SCRATCH=$PFRAG_WORK/dkms
	SHARED=$SCRATCH/shared
	mkdir -p "$SHARED"
	defer rm -rf --one-file-system "$SCRATCH"
	suites_chosen >"$SCRATCH/suites"

	t_run "one version everywhere" "$PFRAG_TOP/scripts/check_style.sh" version
	t_run "kernels before 5.10 are excluded, later ones are not" kernels_before_5_10_excluded
	failed=$T_FAILED
	t_run "chroots and kernels are at hand" all_prepared
	t_run "the package builds" package_builds
	if [ "$T_FAILED" -gt "$failed" ]; then
		# Without these the rest says nothing.
		t_end
	fi
	t_run "$BUILD_SUITE: lintian has nothing to say" lintian_is_silent "$BUILD_SUITE" build
	if grep -q '^trixie ' "$SCRATCH/suites"; then
		t_run "trixie: lintian has nothing to say" lintian_is_silent trixie lintian
	fi
	while read -r -u 3 suite releases; do
		# shellcheck disable=SC2086 # a list
		test_suite "$suite" $releases
	done 3<"$SCRATCH/suites"
	t_end
}

main "$@"
