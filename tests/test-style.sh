#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# style: checkpatch, sparse, kernel-doc, shellcheck and this project's own rules

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

main()
{
	local check what

	t_start
	while read -r -u 3 check what; do
		t_run "$check: $what" "$PFRAG_TOP/scripts/check_style.sh" "$check"
	done 3< <("$PFRAG_TOP/scripts/check_style.sh" --list)
	t_end
}

main "$@"
