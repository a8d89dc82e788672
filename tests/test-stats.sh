#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# the statistics: pfrag_stats.py against figures worked out by hand

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

main()
{
	local log line status=0 ran=0

	t_start
	need_packages python3
	log=$(mktemp)
	defer rm -f "$log"
	# Debian's own python, whatever else is first in PATH.
	/usr/bin/python3 "$PFRAG_TOP/tests/test-stats.py" -v >"$log" 2>&1 || status=$?
	while read -r line; do
		ran=$((ran + 1))
		cp "$log" "$T_OUT"
		case $line in
		*" ... ok") t_report 0 "${line%% *}" ;;
		*) t_report 1 "${line%% *}" ;;
		esac
	done < <(grep -E '^test_[a-z0-9_]+ .* \.\.\. ' "$log")
	cp "$log" "$T_OUT"
	[ "$ran" -gt 0 ] || status=1
	t_report "$status" "unittest ran all of its $ran cases"
	t_end
}

main "$@"
