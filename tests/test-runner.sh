#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run_bench.sh: options, exit status, JSON, and the figures that must be reached

set -euo pipefail

# shellcheck source=tests/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RUN=$PFRAG_TOP/scripts/run_bench.sh

# refused TEXT OPTIONS..: exit status 2, and the text on stderr.
refused()
{
	local text=$1 out status=0
	shift

	out=$("$RUN" "$@" 2>&1) || status=$?
	echo "$* gives $status: $out"
	[ "$status" -eq 2 ]
	[[ $out == *"$text"* ]]
}

refuses_bad_options()
{
	refused "no option '--fast'" --fast
	refused "--rig: there is no 'moon'" --rig moon
	refused "--kernel: there is no '4.19'" --kernel 4.19
	refused "--suite: there is no 'slow'" --suite slow
	refused "--workload: there is no 'work'" --workload work
	refused "--contestant: there is no 'nobody'" --contestant pfrag,nobody
	refused "--contestant: there is no ''" --contestant pfrag,
	refused "--boot: there is no 'cold'" --boot cold
	refused "--rounds: '0'" --rounds 0
	refused "--rounds: '-1'" --rounds -1
	refused "--rounds: '1001'" --rounds 1001
	refused "--json: which file" --json
	refused "--json: cannot write" --json /nonexistent/file
	refused "--kernel" --kernel
}

tells_what_there_is()
{
	local word list help

	help=$("$RUN" --help)
	list=$("$RUN" --list)
	[[ $help == *"--no-install"* ]]
	for word in vm count 5.10 7.3 quick pushpop local noop pfrag page_frag zeroing; do
		grep -qw -- "$word" <<<"$list"
	done
}

measures_nothing_when_nothing_may_be_fetched()
{
	local status=0

	PFRAG_CACHE=$(mktemp -d)
	export PFRAG_CACHE
	defer rm -rf "$PFRAG_CACHE"
	"$RUN" --no-install --kernel 6.1 || status=$?
	[ "$status" -eq 3 ]
}

ends_in_the_table()
{
	local dir out

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	out=$("$RUN" --kernel "$1" --rounds 6 --workload local --report "$dir/report" --json "$dir/json")
	echo "$out"
	[[ $out == *"kernel    $1"* ]]
	grep -Eq '^ +pfrag +[0-9.]+ +[0-9.]+ +… +[0-9.]+ +6 +[0-9.]+ +\[' <<<"$out"
	[ "$(wc -l <"$dir/json")" -eq 6 ]
	test -s "$dir/report/report.md"
	test -s "$dir/report/plot-$1-zeroing.png"
}

# Every field of the runner's description, and no other.
FIELDS="align baseline batch boot contestant cpus depth gro kernel leaked max median min mtu noop p99 per ratio ratio_hi ratio_lo rig rounds size status unit verdict workload"

# Instructions are exact enough to be tested; time is not, and is never tested.
# A kernel's figures: what must be reached, and that a second boot says the same.
counts_reach_the_figures()
{
	local dir=$1 release=$2 limit=$3

	"$RUN" --rig count --kernel "$release" --suite quick --json "$dir/one"
	"$RUN" --rig count --kernel "$release" --suite quick --json "$dir/two"
	[ "$(jq -rs 'map(keys) | add | unique | join(" ")' "$dir/one")" = "$FIELDS" ]
	[ "$(jq -s length "$dir/one")" -eq 9 ]
	jq -es 'all(.status == "ok" and .unit == "instructions" and .leaked == {"blocks": 0, "pages": 0})' "$dir/one"

	jq -es --argjson limit "$limit" 'map(select(.workload == "local" and .depth == 1 and
		.size == 256 and .contestant == "pfrag")) | length == 1 and .[0].ratio <= $limit and
		.[0].baseline == "page_frag" and .[0].verdict == "faster"' "$dir/one"

	# Less than 0.5 % in every figure.
	jq -es --slurpfile two "$dir/two" '[., $two] | transpose | all(
		.[0] as $a | .[1] as $b | ["median", "min", "max", "p99", "noop", "ratio"] | all(
			($a[.] == $b[.]) or (($a[.] - $b[.]) / $a[.] | fabs < 0.005)))' "$dir/one"
}

# Native time is never asserted; that five boots were pooled and that the kernel's own
# was measured against itself is.
uml_measures_itself_along()
{
	local dir out

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	out=$("$RUN" --rig uml --rounds 6 --json "$dir/json")
	echo "$out"
	[[ $out == *"5 boots pooled"* ]]
	[[ $out == *"A against A strays"* ]]
	jq -es 'length == 8 and all(.status == "ok" and .unit == "ns" and .rounds == 30)' "$dir/json"
	jq -es 'map(select(.contestant == "page_frag_aa")) | length == 2 and all(.baseline == "page_frag" and .verdict == "same")' "$dir/json"
	refused "--kernel: rig uml has" --rig uml --kernel 5.10
}

main()
{
	local release dir

	t_start
	need_packages jq python3 kmod
	t_run "refuses bad options by name" refuses_bad_options
	t_run "tells what there is" tells_what_there_is
	t_run "exit status 3 when nothing may be fetched" measures_nothing_when_nothing_may_be_fetched
	dir=$(mktemp -d)
	defer rm -rf "$dir"
	for release in $PFRAG_KERNELS; do
		case $release in
		6.1.*)
			t_run "$release ends in the table" ends_in_the_table "$release"
			t_run "$release local 256: pfrag <= 0.55, repeats to 0.5 %" counts_reach_the_figures "$dir" "$release" 0.55
			;;
		7.2.*) t_run "$release local 256: pfrag <= 0.55, repeats to 0.5 %" counts_reach_the_figures "$dir" "$release" 0.55 ;;
		esac
	done
	if [ -z "${PFRAG_QUICK:-}" ]; then
		t_run "rig uml measures, and the kernel's own against itself" uml_measures_itself_along
	fi
	t_end
}

main "$@"
