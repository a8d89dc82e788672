#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the benchmark: its life, bad input, failing steps, signals, in a guest of each kernel

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# example RELEASE DIR: build examples/contestant/ against the modules, into DIR.
example()
{
	local release=$1 dir=$2 modules suite

	modules=$(t_modules "$release")
	suite=$("$PFRAG_TOP/scripts/kernels.sh" list "$release" | awk '{ print $3 }')
	cp "$PFRAG_TOP"/examples/contestant/* "$PFRAG_TOP"/pfrag_mod/*.h \
		"$modules/pfrag_features.h" "$modules/Module.symvers" "$dir"
	mv "$dir/Module.symvers" "$dir/pfrag.symvers"
	"$PFRAG_TOP/scripts/kernels.sh" chroot "$suite" --bind "$dir:/build" \
		make -C "/lib/modules/$release/build" M=/build PFRAG_MOD=/build \
		KBUILD_EXTRA_SYMBOLS=/build/pfrag.symvers W=1 KCFLAGS=-Werror modules
}

bench()
{
	local release=$1 dir status=0

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	example "$release" "$dir" >"$T_OUT" 2>&1 || status=$?
	t_report "$status" "$release example contestant builds"
	[ "$status" -eq 0 ] || return 0
	t_guest_ktap "$release" "$PFRAG_TOP/tests/job-bench.sh" \
		--file "$dir/pfrag_example_contestant.ko"
}

main()
{
	local release

	t_start
	for release in $PFRAG_KERNELS; do
		bench "$release"
	done
	t_end
}

main "$@"
