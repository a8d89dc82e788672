#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the tests: each tests/test-*.sh prints KTAP, this adds up.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage()
{
	cat <<'USAGE'
usage: run_tests.sh [--kernel SERIES|RELEASE|all] [--only PATTERN] [--quick] [--list]

Everything that is tested, one KTAP part after the other, and a last line
"N passed, N failed, N skipped". Needs root; installs what is missing and says so.
Modules are loaded in guests only, never here.

  --kernel K      test with one kernel only (default: all). May be repeated.
  --only PATTERN  only parts whose name matches the shell pattern. May be repeated.
  --quick         one kernel, and the short form of each part; under 5 minutes
  --list          name the parts and what they test

examples:
  run_tests.sh                       all parts, all kernels
  run_tests.sh --quick               before each commit
  run_tests.sh --only core --kernel 7.2
USAGE
}

ONLY=()
KERNELS=()
QUICK=
PASSED=0
FAILED=0
SKIPPED=0

# name_of FILE: tests/test-core.sh is the part "core".
name_of()
{
	local name

	name=$(basename "$1" .sh)
	echo "${name#test-}"
}

chosen()
{
	local pattern

	[ ${#ONLY[@]} -gt 0 ] || return 0
	for pattern in "${ONLY[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		if [[ $1 == $pattern ]]; then
			return 0
		fi
	done
	return 1
}

# The third line of each part's file says what it tests.
list_parts()
{
	local file

	cat <<-'LIST'
	rig                 covers
	QEMU, rig vm        core, bench, dkms, runner: what users run, Debian's stock kernels
	QEMU, rig count     runner: figures that repeat
	UML, checked        sanitizers: KUnit under the kernel's own checkers
	UML, fast           runner: native figures, and what the rig takes for a difference
	none                build, stats, style

	part       tests
	LIST
	for file in "$PFRAG_TOP"/tests/test-*.sh; do
		printf '%-10s %s\n' "$(name_of "$file")" "$(sed -n '3s/^# //p' "$file")"
	done
}

# run_part FILE: its lines as they come; then counted.
run_part()
{
	local file=$1 out=$2 name status=0 ok skip bad
	name=$(name_of "$file")

	echo "# part $name"
	"$file" </dev/null | tee "$out" || status=$?
	skip=$(grep -c '^ok [0-9].* # SKIP' "$out") || [ "$skip" = 0 ]
	ok=$(grep -c '^ok [0-9]' "$out") || [ "$ok" = 0 ]
	bad=$(grep -c '^not ok [0-9]' "$out") || [ "$bad" = 0 ]
	if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || ! grep -q '^1\.\.' "$out"; }; then
		echo "not ok - part $name ended early, with status $status"
		bad=1
	fi
	PASSED=$((PASSED + ok - skip))
	SKIPPED=$((SKIPPED + skip))
	FAILED=$((FAILED + bad))
}

parse()
{
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel | --only)
			[ $# -ge 2 ] || die -s 2 "$1 needs a value"
			if [ "$1" = --only ]; then ONLY+=("$2"); else KERNELS+=("$2"); fi
			shift
			;;
		--quick) QUICK=1 ;;
		--list)
			list_parts
			exit 0
			;;
		-h | --help)
			usage
			exit 0
			;;
		*) die -s 2 "unknown option: $1 (see --help)" ;;
		esac
		shift
	done
}

main()
{
	local out file kernel part start=$SECONDS ran=

	parse "$@"
	need_root
	if [ ${#KERNELS[@]} -eq 0 ]; then
		if [ -n "$QUICK" ]; then KERNELS=(host); else KERNELS=(all); fi
	fi

	PFRAG_KERNELS=
	for kernel in "${KERNELS[@]}"; do
		part=$("$PFRAG_TOP/scripts/kernels.sh" list "$kernel" | awk '{ print $2 }' | xargs)
		PFRAG_KERNELS+="${PFRAG_KERNELS:+ }$part"
	done
	PFRAG_WORK=$(mktemp -d)
	defer rm -rf "$PFRAG_WORK"
	export PFRAG_KERNELS PFRAG_WORK
	if [ -n "$QUICK" ]; then export PFRAG_QUICK=1; fi
	out=$(mktemp)
	defer rm -f "$out"

	for file in "$PFRAG_TOP"/tests/test-*.sh; do
		chosen "$(name_of "$file")" || continue
		ran=1
		run_part "$file" "$out"
	done
	[ -n "$ran" ] || die -s 2 "--only: no part matches (see --list)"

	log "took $((SECONDS - start)) s"
	echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
	[ "$FAILED" -eq 0 ]
}

main "$@"
