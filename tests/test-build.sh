#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the build matrix: no warning, the probes' answers, names, descriptions, versions

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

MODULES="pfrag pfrag_bench pfrag_test"

builds_without_a_warning()
{
	local dir module

	dir=$(t_modules "$1")
	for module in $MODULES; do
		test -s "$dir/$module.ko"
	done
}

# What each series has, from its headers and release notes, not from the probes.
expected_features()
{
	case $1 in
	5.10) echo BARE_NAMESPACE ;;
	6.1) echo BARE_NAMESPACE FOLIO_PUT PAGE_FRAG_ALLOC_ALIGN ;;
	6.12) echo BARE_NAMESPACE FOLIO_PUT PAGE_FRAG_ALIGN_VALUE PAGE_FRAG_ALLOC_ALIGN PAGE_FRAG_CACHE_DRAIN ;;
	7.*) echo FOLIO_PUT PAGE_FRAG_ALIGN_VALUE PAGE_FRAG_ALLOC_ALIGN PAGE_FRAG_CACHE_DRAIN ;;
	esac
}

probes_answer_right()
{
	local release=$1 series dir got want

	series=$("$PFRAG_TOP/scripts/kernels.sh" list "$release" | awk '{ print $1 }')
	dir=$(t_modules "$release")
	got=$(sed -n 's/^#define PFRAG_HAVE_\([A-Z_]*\) 1$/\1/p' "$dir/pfrag_features.h" | sort | xargs)
	want=$(expected_features "$series")
	echo "got $got, want $want"
	[ "$got" = "$want" ]
}

names_have_our_prefix()
{
	local dir module bad

	dir=$(t_modules "$1")
	for module in $MODULES; do
		# The kernel's macros make names that start with two underscores,
		# objtool's tables and the notes aside.
		bad=$(nm --defined-only "$dir/$module.ko" | awk '
			$3 ~ /^(__pfx_)?(init|cleanup)_module$/ { next }
			$3 ~ /^(__|_note_|orc_|\.L)/ && $3 !~ /^__pfx_/ { next }
			$3 !~ /^(__pfx_)?pfrag_/ { print $3 }')
		echo "$module: $bad"
		[ -z "$bad" ]
	done
}

describes_itself()
{
	local release=$1 dir module param version

	dir=$(t_modules "$release")
	version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$PFRAG_TOP/dkms.conf")
	for module in $MODULES; do
		modinfo "$dir/$module.ko"
		[ "$(modinfo -F license "$dir/$module.ko")" = GPL ]
		[ "$(modinfo -F version "$dir/$module.ko")" = "$version" ]
		[ -n "$(modinfo -F description "$dir/$module.ko")" ]
		[ "$(modinfo -F vermagic "$dir/$module.ko" | cut -d' ' -f1)" = "$release" ]
		# From the symbols, not from modinfo: a parameter of a type of its own and
		# without a description is in no line of modinfo.
		while IFS= read -r param; do
			modinfo -F parm "$dir/$module.ko" | grep -E "^$param:[A-Z0-9]" ||
				{ echo "no description: $param"; return 1; }
		done < <(nm "$dir/$module.ko" | sed -n 's/.* __param_\([a-z_]*\)$/\1/p' | grep -v '^str_')
	done
	[ "$(modinfo -F import_ns "$dir/pfrag_bench.ko")" = PFRAG ]
	grep -q "pfrag_alloc_slow.*PFRAG" "$dir/Module.symvers"
}

# One unknown flag must stop the build, not turn every answer into "no".
probes_stop_when_nothing_compiles()
{
	local dir status=0

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	"$PFRAG_TOP/scripts/kernels.sh" build "$1" "$dir" KCFLAGS=-fno-such-flag || status=$?
	[ "$status" -ne 0 ]
	grep -q "control.c does not compile" "$dir/build.log"
}

probes_stop_when_everything_compiles()
{
	local dir

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	if sh "$PFRAG_TOP/pfrag_mod/probe.sh" "$dir/out.h" "$PFRAG_TOP/pfrag_mod/probe" true 2>"$dir/err"; then
		return 1
	fi
	cat "$dir/err"
	grep -q "control_no.c compiles although it must not" "$dir/err"
	[ ! -e "$dir/out.h" ]
}

main()
{
	local release

	t_start
	need_packages binutils kmod
	for release in $PFRAG_KERNELS; do
		t_run "$release builds without a warning" builds_without_a_warning "$release"
		t_run "$release probes answer right" probes_answer_right "$release"
		t_run "$release names have our prefix" names_have_our_prefix "$release"
		t_run "$release modules describe themselves" describes_itself "$release"
	done
	release=${PFRAG_KERNELS%% *}
	t_run "$release probes stop when nothing compiles" probes_stop_when_nothing_compiles "$release"
	t_run "probes stop when everything compiles" probes_stop_when_everything_compiles
	t_end
}

main "$@"
