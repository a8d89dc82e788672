#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the allocators: pfrag_test.ko in a guest of each kernel, red zones and counts

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

core()
{
	local release=$1 dir status=0

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	if [ -n "${PFRAG_QUICK:-}" ]; then echo 100000; else echo 1000000; fi >"$dir/steps"
	t_guest "$release" "$dir/log" "$PFRAG_TOP/tests/job-core.sh" \
		--append movablecore=256M --file "$dir/steps" >"$T_OUT" 2>&1 || status=$?
	t_report "$status" "$release pfrag_test loads and leaves no block"
	t_kernel_ktap "$release" "$dir/log"
}

main()
{
	local release

	t_start
	for release in $PFRAG_KERNELS; do
		core "$release"
	done
	t_end
}

main "$@"
