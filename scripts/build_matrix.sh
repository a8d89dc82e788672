#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the modules for every kernel that is tested, one line a kernel.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

KERNELS="$(dirname "${BASH_SOURCE[0]}")/kernels.sh"

usage()
{
	cat <<'USAGE'
usage: build_matrix.sh [--kernel SERIES|RELEASE|all] [OUTDIR]

Builds pfrag_mod/ for Debian's stock kernels, each with the compiler of its own
release, and prints one line a kernel: RELEASE ok|FAILED SECONDS COMPILER.
What a build gives is left in OUTDIR/RELEASE (default: thrown away).  A warning is
a failure.  Headers and compilers are fetched on the first run (see kernels.sh).

  --kernel WHICH   one series or release only (default: all); may be repeated

Exit status: 0 all built, 1 any failed, 2 usage.

examples:
  build_matrix.sh
  build_matrix.sh --kernel 7.3 --kernel 5.10 /tmp/out
USAGE
}

build_one()
{
	local release="$1" outdir="$2/$1" start=$SECONDS status=0

	# Making chroots and fetching headers is not part of the build's time.
	"$KERNELS" prepare "$release" || status=$?
	start=$SECONDS
	mkdir -p "$outdir"
	[ "$status" -ne 0 ] || "$KERNELS" build "$release" "$outdir" || status=$?
	if [ "$status" -eq 0 ]; then
		report "$release" ok $((SECONDS - start)) "$outdir"
	else
		report "$release" FAILED $((SECONDS - start)) "$outdir"
	fi
	return "$status"
}

report()
{
	local compiler='-'

	[ ! -e "$4/build.log" ] || compiler="$(sed -n '/^compiler /{s///p;q}' "$4/build.log")"
	printf '%-26s %-6s %3d s  %s\n' "$1" "$2" "$3" "$compiler"
}

main()
{
	local outdir='' failed=0 list what release
	local -a kernels=()

	while [ $# -gt 0 ]; do
		case "$1" in
		-h | --help)
			usage
			exit 0
			;;
		--kernel)
			[ $# -ge 2 ] || die -s 2 "--kernel wants a value"
			kernels+=("$2")
			shift 2
			;;
		-*)
			die -s 2 "unknown option: $1 (see: build_matrix.sh --help)"
			;;
		*)
			[ -z "$outdir" ] || die -s 2 "one OUTDIR, not two: '$outdir' and '$1'"
			outdir="$1"
			shift
			;;
		esac
	done
	[ ${#kernels[@]} -gt 0 ] || kernels=(all)
	if [ -z "$outdir" ]; then
		outdir="$(mktemp -d)"
		defer rm -rf "$outdir"
	fi

	for what in "${kernels[@]}"; do
		list="$("$KERNELS" list "$what")"
		while read -r _ release _; do
			build_one "$release" "$outdir" </dev/null || failed=1
		done <<<"$list"
	done
	exit "$failed"
}

main "$@"
