# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests share; sourced by tests/test-*.sh, never run.
#
# A test is a function named for what must hold. t_run calls it and prints one KTAP
# line; what it wrote is shown only if it failed. It passes with status 0, skips
# with 4 (its last line is the reason), and fails with any other.
#
# From run_tests.sh: PFRAG_KERNELS, the releases to test; PFRAG_WORK, a folder that
# the scripts of one run share; PFRAG_QUICK, set for the short form.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

T_NR=0
T_FAILED=0

t_start()
{
	if [ -z "${PFRAG_WORK:-}" ]; then
		PFRAG_WORK=$(mktemp -d)
		defer rm -rf "$PFRAG_WORK"
	fi
	if [ -z "${PFRAG_KERNELS:-}" ]; then
		PFRAG_KERNELS=$("$PFRAG_TOP/scripts/kernels.sh" list all | awk '{ print $2 }' | xargs)
	fi
	export PFRAG_WORK PFRAG_KERNELS
	T_OUT=$(mktemp)
	defer rm -f "$T_OUT"
	echo "KTAP version 1"
}

# t_report STATUS NAME: one KTAP line from a status and the output in $T_OUT.
t_report()
{
	local status=$1 name=$2

	T_NR=$((T_NR + 1))
	case $status in
	0) echo "ok $T_NR $name" ;;
	4) echo "ok $T_NR $name # SKIP $(tail -n 1 "$T_OUT")" ;;
	*)
		T_FAILED=$((T_FAILED + 1))
		echo "not ok $T_NR $name"
		echo "# exit status $status; the end of its output:"
		tail -n 60 "$T_OUT" | sed 's/^/# /'
		;;
	esac
}

# t_run NAME FUNCTION ARGS..: in a subshell of its own, with `set -e` in force.
t_run()
{
	local name=$1 status=0
	shift

	set +e
	(
		# Its own cleanup, and none of ours.
		pfrag_deferred=()
		trap pfrag_run_deferred EXIT
		set -e
		"$@"
	) >"$T_OUT" 2>&1
	status=$?
	set -e
	t_report "$status" "$name"
}

t_end()
{
	echo "1..$T_NR"
	[ "$T_FAILED" -eq 0 ]
}

# A kernel is a release of Debian's, or uml-CONFIG for one of rig_uml.sh's.

# t_modules RELEASE: the folder with the modules for it, built at most once a run.
t_modules()
{
	local release=$1
	local out=$PFRAG_WORK/modules/$release

	if [ ! -f "$out/.built" ]; then
		mkdir -p "$out"
		case $release in
		uml-*) "$PFRAG_TOP/scripts/rig_uml.sh" modules "${release#uml-}" "$out" >&2 ;;
		*) "$PFRAG_TOP/scripts/kernels.sh" build "$release" "$out" >&2 ;;
		esac
		touch "$out/.built"
	fi
	echo "$out"
}

# t_boot RELEASE MODULES OPTION..
t_boot()
{
	local release=$1 modules=$2
	shift 2

	case $release in
	uml-*) "$PFRAG_TOP/scripts/rig_uml.sh" run --config "${release#uml-}" --modules "$modules" "$@" ;;
	*) "$PFRAG_TOP/scripts/rig_vm.sh" --kernel "$release" --modules "$modules" "$@" ;;
	esac
}

# t_splats RELEASE LOG: print what the log tells of a fault; fail if it does.
t_splats()
{
	case $1 in
	uml-*) "$PFRAG_TOP/scripts/rig_uml.sh" --splats "$2" ;;
	*) "$PFRAG_TOP/scripts/rig_vm.sh" --splats "$2" ;;
	esac
}

# t_guest RELEASE LOG JOB [OPTION..]: run a job in a guest with the modules;
# a splat in the kernel's log is a failure too.
t_guest()
{
	local release=$1 log=$2 job=$3 modules status=0
	shift 3

	modules=$(t_modules "$release")
	t_boot "$release" "$modules" --log "$log" --job "$job" "$@" || status=$?
	if ! t_splats "$release" "$log"; then
		echo "the kernel's log holds a splat"
		[ "$status" -ne 0 ] || status=1
	fi
	return "$status"
}

# A serial console ends its lines with CR LF.
t_strip_cr()
{
	sed -i 's/\r$//' "$1"
}

# t_kernel_ktap RELEASE LOG: report each case that the kernel itself ran: KTAP in its
# log, of our own stand-in or of KUnit, which indents the cases and ends with a line
# for the suite. A splat belongs to the case whose result follows it; the plan must
# be met.
t_kernel_ktap()
{
	local release=$1 log=$2 segment line seen=0 plan status indent=
	local result

	segment=$(mktemp)
	defer rm -f "$segment"
	t_strip_cr "$log"
	if grep -q '# Subtest: pfrag$' "$log"; then indent='    '; fi
	result="^$indent(not )?ok [0-9]+ "
	plan=$(sed -n "s/^\[[^]]*\] ${indent}1\.\.\([0-9]*\)\$/\1/p" "$log" | tail -n 1)
	: >"$segment"
	while IFS= read -r line; do
		printf '%s\n' "$line" >>"$segment"
		line=${line#*] }
		[[ $line =~ $result ]] || continue
		seen=$((seen + 1))
		cp "$segment" "$T_OUT"
		status=0
		if [[ $line =~ ^\ *not ]] || ! t_splats "$release" "$segment" >>"$T_OUT"; then
			status=1
		fi
		t_report "$status" "$release ${line##* }"
		: >"$segment"
	done <"$log"
	printf '%s results of %s planned\n' "$seen" "${plan:-no}" >"$T_OUT"
	status=0
	[ "$seen" = "${plan:-0}" ] && [ "$seen" -gt 0 ] || status=1
	t_report "$status" "$release ran all of its cases"
}

# t_guest_ktap RELEASE JOB [OPTION..]: run a job that uses
# guest_lib.sh and report each of its cases; a splat belongs to the case that ran.
t_guest_ktap()
{
	local release=$1 job=$2 modules dir status=0 line name case_status
	local result='^(not )?ok - '
	shift 2

	dir=$(mktemp -d)
	defer rm -rf "$dir"
	if ! modules=$(t_modules "$release" 2>"$T_OUT"); then
		t_report 1 "$release builds"
		return
	fi
	t_boot "$release" "$modules" --log "$dir/log" --file "$PFRAG_TOP/tests/guest_lib.sh" \
		--job "$job" "$@" >"$dir/out" 2>"$dir/err" || status=$?

	t_strip_cr "$dir/log"
	# The kernel's log in pieces: case-NAME holds what came while NAME ran.
	awk -v dir="$dir" '
		BEGIN { file = dir "/case-boot" }
		/pfrag-test: case / { file = dir "/case-" $NF }
		{ print > file }' "$dir/log"

	: >"$dir/detail"
	while IFS= read -r line; do
		if ! [[ $line =~ $result ]]; then
			printf '%s\n' "$line" >>"$dir/detail"
			continue
		fi
		name=${line##* }
		case_status=0
		[[ $line == ok* ]] || case_status=1
		cp "$dir/detail" "$T_OUT"
		touch "$dir/case-$name"
		if ! t_splats "$release" "$dir/case-$name" >>"$T_OUT"; then
			case_status=1
		fi
		if [ "$case_status" -ne 0 ]; then
			echo "kernel's log:" >>"$T_OUT"
			tail -n 20 "$dir/case-$name" >>"$T_OUT"
		fi
		t_report "$case_status" "$release $name"
		: >"$dir/detail"
	done <"$dir/out"

	# The guest's own end: a panic, a hang, or a case that never reported.
	{ cat "$dir/detail" "$dir/err"; tail -n 30 "$dir/log"; } >"$T_OUT"
	t_report "$status" "$release guest ends well"
}
