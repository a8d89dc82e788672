#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the kernel's checkers (KASAN, lockdep, kmemleak, UBSAN, fault injection, KUnit) in User-Mode Linux

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RELEASE=uml-checked

# The way through every set-up and every way out. The rest is about values and about
# CPUs that come and go, which User-Mode Linux has not, and has its place on the stock
# kernels; here each case takes ten times as long.
CASES="one_cpu_serves_both
survives_each_failing_step
ends_by_a_signal
unloads_while_it_runs"

main()
{
	local dir status=0

	t_start
	dir=$(mktemp -d)
	defer rm -rf "$dir"
	t_run "the checked kernel and its modules build" t_modules "$RELEASE"

	if [ -n "${PFRAG_QUICK:-}" ]; then echo 5000; else echo 50000; fi >"$dir/steps"
	t_guest "$RELEASE" "$dir/log" "$PFRAG_TOP/tests/job-checked.sh" \
		--file "$dir/steps" >"$T_OUT" 2>&1 || status=$?
	t_report "$status" "$RELEASE no splat, no leak"
	t_kernel_ktap "$RELEASE" "$dir/log"

	if [ -n "${PFRAG_QUICK:-}" ]; then
		t_end
		return
	fi
	echo "$CASES" >"$dir/cases"
	t_guest_ktap "$RELEASE" "$PFRAG_TOP/tests/job-bench.sh" --file "$dir/cases" --timeout 600
	t_end
}

main "$@"
