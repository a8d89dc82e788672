#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Options -> rig -> raw rounds -> pfrag_stats.py.  This script measures nothing
# and computes nothing: the rigs boot, the module measures, the python judges.

set -euo pipefail

SCRIPTS="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=scripts/lib.sh
. "$SCRIPTS/lib.sh"

# What there is.  Everything else is refused by name.
RIGS="vm count uml"
SERIES="5.10 6.1 6.12 7.2 7.3"
SUITES="quick"
WORKLOADS="local pushpop"
CONTESTANTS="noop pfrag page_frag"
BOOTS="zeroing plain both"

rig=vm
kernel=host	# as kernels.sh calls it
suite=quick
workload=''
contestants="${CONTESTANTS// /,}"
boot=zeroing
rounds=''
json=''
report=''
given="none"
boots=1		# how often a kernel is booted, and its rounds pooled
work=''
failed=0	# something that should have worked did not
measured=0	# boots with at least one figure
barred=0	# kernels that could not be had, or not be booted

usage()
{
	cat <<END
usage: run_bench.sh [OPTION]..

Benchmarks pfrag against the kernel's own allocator on a stock Debian kernel, in
a virtual machine: no module is loaded into this machine's kernel.  Installs and
fetches what is missing, says so, and ends with the table.

  --rig RIG          vm     QEMU; time, with KVM only where that works  (default)
                     count  QEMU counting instructions: repeats on any machine
                     uml    User-Mode Linux: native time, five boots pooled; one
                            kernel, local only, and the kernel's against itself
  --kernel KERNEL    $SERIES, a release such as 6.1.0-44-amd64, or all
                     (default: the kernel of this machine's own distribution)
  --suite SUITE      quick: local with 1 and with 64 fragments of 256 bytes
                     alive, pushpop with 2048 bytes  (default)
  --workload W       only this one of the suite: $WORKLOADS
  --contestant C,C   only these: ${CONTESTANTS// /,}
  --boot BOOT        zeroing  pages are zeroed when allocated, as Debian boots
                              (default)
                     plain    init_on_alloc=0
                     both     one after the other
  --rounds N         rounds of every contestant, 1 to 1000
  --json FILE        also write one JSON object a line and contestant
  --report DIR       also write report.md, plots, raw rounds and kernel logs
  --no-install       fetch and install nothing; what is missing is named
  --list             print what there is, and exit
  --help             print this, and exit

Exit status: 0 measured, 1 something failed, 2 usage, 3 nothing could be measured.

examples:
  run_bench.sh
  run_bench.sh --rig count --kernel 6.1 --json out.json
  run_bench.sh --rig count --kernel all --boot both --report report
  run_bench.sh --workload local --contestant pfrag,page_frag --rounds 51
END
}

print_list()
{
	printf '%s\n' "rigs:        $RIGS" "kernels:     $SERIES" "suites:      $SUITES" \
		"workloads:   $WORKLOADS" "contestants: $CONTESTANTS" "boots:       $BOOTS"
}

# one_of OPTION VALUE WORDS: refuse a value that is none of the words.
one_of()
{
	local word

	for word in $3; do
		[ "$word" != "$2" ] || return 0
	done
	die -s 2 "$1: there is no '$2'; there is: $3"
}

parse_options()
{
	[ $# -eq 0 ] || given="$*"
	while [ $# -gt 0 ]; do
		case "$1" in
		--rig)		one_of "$1" "${2-}" "$RIGS"; rig="$2" ;;
		--kernel)	check_kernel "${2-}"; kernel="$2" ;;
		--suite)	one_of "$1" "${2-}" "$SUITES"; suite="$2" ;;
		--workload)	one_of "$1" "${2-}" "$WORKLOADS"; workload="$2" ;;
		--contestant)	check_contestants "${2-}"; contestants="$2" ;;
		--boot)		one_of "$1" "${2-}" "$BOOTS"; boot="$2" ;;
		--rounds)	check_rounds "${2-}"; rounds="$2" ;;
		--json)		[ -n "${2-}" ] || die -s 2 "$1: which file?"; json="$2" ;;
		--report)	[ -n "${2-}" ] || die -s 2 "$1: which folder?"; report="$2" ;;
		--no-install)	export PFRAG_NO_INSTALL=1; shift; continue ;;
		--list)		print_list; exit 0 ;;
		--help | -h)	usage; exit 0 ;;
		*)		die -s 2 "there is no option '$1'; see --help" ;;
		esac
		shift 2
	done
}

# Releases are many and change: kernels.sh says later which of a series there are.
check_kernel()
{
	if [[ "$1" =~ ^([0-9]+\.[0-9]+)\.[0-9.]+[-+] ]]; then
		one_of --kernel "${BASH_REMATCH[1]}" "$SERIES"
	else
		one_of --kernel "$1" "$SERIES all"
	fi
}

check_contestants()
{
	local name
	local -a names

	IFS=, read -r -a names <<<"$1,"
	for name in "${names[@]}"; do
		one_of --contestant "$name" "$CONTESTANTS"
	done
}

check_rounds()
{
	[[ "$1" =~ ^([1-9][0-9]{0,2}|1000)$ ]] ||
		die -s 2 "--rounds: '$1' is not a number from 1 to 1000"
}

# A file that cannot be written is found out before the long part, not after.
prepare_outputs()
{
	[ -z "$json" ] || true >"$json" || die -s 2 "--json: cannot write '$json'"
	[ -n "$report" ] || return 0
	{ mkdir -p "$report" && printf '# pfrag benchmark\n\n' >"$report/report.md" &&
		true >"$report/results.jsonl"; } || die -s 2 "--report: cannot write into '$report'"
}

# A process of its own, whose failure leaves the exit status to us.
host_packages()
{
	bash -euc '. "$1"; shift; need_packages "$@"' run_bench "$SCRIPTS/lib.sh" "$@"
}

# Run COMMAND so that a signal ends it at once, with all it started, and not
# only after it has ended by itself.
run_child()
{
	local at=${#pfrag_deferred[@]} status=0 pid

	set -m
	"$@" </dev/null &
	pid=$!
	set +m
	defer pfrag_end_group "$pid"
	wait "$pid" || status=$?
	unset "pfrag_deferred[$at]"
	return "$status"
}

# shellcheck disable=SC2317 # called by the suite's name
suite_quick()
{
	local pair=0,1

	if [ "$rig" = uml ]; then
		# Two threads on two CPUs spread too much there to say anything.
		echo "workload=local size=256 align=0 depth=1 cpus=0 irqoff=1 nr=2000000"
		echo "workload=local size=256 align=0 depth=64 cpus=0 irqoff=1 nr=1000000"
		return
	fi
	local -a nr=(1500000 300000 40000)	# a tenth of a second when emulated

	# One CPU, and counts that repeat without long rounds.
	[ "$rig" != count ] || { pair=0,0; nr=(1000000 500000 200000); }
	echo "workload=local size=256 align=0 depth=1 cpus=0 nr=${nr[0]}"
	echo "workload=local size=256 align=0 depth=64 cpus=0 nr=${nr[1]}"
	echo "workload=pushpop size=2048 align=0 cpus=$pair nr=${nr[2]}"
}

# The run descriptions, one a line, for the options given.
describe_runs()
{
	local n line who="$contestants"

	case "$rig" in
	count) n="${rounds:-9}" ;;
	uml) n="${rounds:-15}" ;;
	vm) n="${rounds:-31}" ;;	# time under emulation is noisy
	esac
	# What the rig takes for a difference is measured along.
	if [ "$rig" = uml ] && [[ ",$who," = *,page_frag,* ]]; then
		who+=,page_frag_aa
	fi
	"suite_$suite" | while read -r line; do
		if [ -z "$workload" ] || [[ "$line" = "workload=$workload "* ]]; then
			echo "$line contestants=$who rounds=$n"
		fi
	done
}

# Sort what the guest prints: rounds into a file, progress to the user.
# shellcheck disable=SC2317 # called by boot_guest
take_output()
{
	local dir="$1" where="$2" number="$3" line said=-5

	while IFS= read -r line; do
		case "$line" in
		"#result "*) echo "${line#\#result }" >>"$dir/raw-$number.jsonl" ;;
		"#info "*) echo "${line#\#info }" >>"$dir/info" ;;
		"#error "*) log "error: $where: ${line#\#error }" ;;
		"#progress "*)
			if [ -t 2 ]; then
				printf '\r\033[K%s: %s' "$where" "${line#\#progress }" >&2
			elif ((SECONDS - said >= 5)); then
				said=$SECONDS
				log "$where: ${line#\#progress }"
			fi
			;;
		*) log "$where: guest: $line" ;;
		esac
	done
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# The one kernel of rig uml, built if need be.
find_uml()
{
	local folder release

	folder="$("$SCRIPTS/rig_uml.sh" build fast)" || return 3
	release="$("$folder/linux" --version)"
	case "$kernel" in
	host | "$release" | "$(cut -d. -f1,2 <<<"$release")") echo "$release" ;;
	*) die -s 2 "--kernel: rig uml has $release only, no '$kernel'" ;;
	esac
}

# Print the releases that the kernel asked for stands for.
find_releases()
{
	local lines status=0

	if [ "$rig" = uml ]; then
		find_uml
		return
	fi

	lines="$("$SCRIPTS/kernels.sh" list "$kernel")" || status=$?
	if [ "$status" -ne 0 ] && [[ "$kernel" = *[-+]* ]]; then
		# Unknown, or is the archive out of reach?  Its series tells.
		lines="$("$SCRIPTS/kernels.sh" list "$(cut -d. -f1,2 <<<"$kernel")")" ||
			return 3
		die -s 2 "--kernel: there is no '$kernel'; there is:" \
			"$(cut -d' ' -f2 <<<"$lines" | xargs)"
	fi
	[ "$status" -eq 0 ] || return 3
	cut -d' ' -f2 <<<"$lines"
}

# A round takes a fraction of a second: the time limit only ends what hangs.
# shellcheck disable=SC2317 # called by run_child
boot_guest()
{
	local dir="$1" release="$2" mode="$3" number="$4" n="${rounds:-31}"
	local where="$release, $mode"
	local -a boot_it append=()

	if [ "$rig" = uml ]; then
		boot_it=("$SCRIPTS/rig_uml.sh" run --config fast --cpus 1)
		where+=", boot $number of $boots"
	else
		boot_it=("$SCRIPTS/rig_vm.sh" --rig "$rig" --kernel "$release")
	fi
	[ "$mode" = zeroing ] || append=(--append init_on_alloc=0)
	"${boot_it[@]}" --modules "$work/$release" \
		"${append[@]}" --timeout "$((300 + n * 20))" --log "$dir/kernel-$number.log" \
		--file "$SCRIPTS/guest_bench.sh" --file "$dir/descriptions" -- \
		sh /job.d/guest_bench.sh /job.d/descriptions |
		take_output "$dir" "$where" "$number"
}

# Print what a kernel's log tells of a fault.
splats_in()
{
	if [ "$rig" = uml ]; then
		"$SCRIPTS/rig_uml.sh" --splats "$1"
	else
		"$SCRIPTS/rig_vm.sh" --splats "$1"
	fi
}

# Boot and measure, as often as the rig wants it.
measure()
{
	local release="$1" mode="$2" dir number

	dir="$work/$release.$mode"
	mkdir "$dir"
	touch "$dir/info"
	describe_runs >"$dir/descriptions"
	log "$release, $mode: booting in rig $rig"
	for ((number = 1; number <= boots; number++)); do
		measure_boot "$dir" "$release" "$mode" "$number" || return 0
	done
	judge "$dir" "$release" "$mode"
}

# Figures of a boot that crashed, hung or left something behind are worth nothing
# and are not shown; failed runs are shown as failed.
measure_boot()
{
	local dir="$1" release="$2" mode="$3" number="$4" status=0
	local where="$release, $mode"

	touch "$dir/raw-$number.jsonl" "$dir/kernel-$number.log"
	run_child boot_guest "$dir" "$release" "$mode" "$number" || status=$?
	[ -z "$report" ] || cp "$dir/kernel-$number.log" "$report/kernel-$release-$mode-$number.log"

	if [ "$status" -eq 1 ] && [ ! -s "$dir/info" ]; then
		barred=1	# the rig itself failed, before the job said a word
		return 1
	fi
	if ! splats_in "$dir/kernel-$number.log" >"$dir/splats"; then
		log "error: $where: the kernel complained:"
		sed 's/^/    /' "$dir/splats" >&2
		failed=1
		return 1
	fi
	[ "$status" -eq 0 ] || failed=1
	if [ "$status" -gt 1 ]; then
		log "error: $where: the guest failed (status $status)"
		return 1
	fi
}

# Raw rounds -> table, JSON, report.
judge()
{
	local dir="$1" release="$2" mode="$3" status=0
	local -a stats=("$SCRIPTS/pfrag_stats.py" --kernel "$release" --rig "$rig" --boot "$mode")

	"${stats[@]}" "$dir"/raw-*.jsonl >"$dir/table" || status=$?
	case "$status" in
	0) measured=1 ;;
	3) ;;
	*) failed=1 ;;
	esac
	{
		print_header "$dir" "$release" "$mode"
		cat "$dir/table"
	} | tee "$dir/text"
	"${stats[@]}" --json "$dir"/raw-*.jsonl >"$dir/json" || status=$?	# as above
	[ -z "$json" ] || cat "$dir/json" >>"$json"
	[ -z "$report" ] || write_report "$dir" "$release" "$mode" "${stats[@]}"
}

print_header()
{
	local dir="$1" release="$2" mode="$3"
	local governor=/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
	local accel=kvm commit=

	! grep -q '^processor .*TCG' "$dir/info" || accel="tcg (software emulation)"
	[ "$rig" != uml ] || accel="none (User-Mode Linux), $boots boots pooled"
	if [ -e "$PFRAG_TOP/.git" ] && [ -n "$(type -P git)" ]; then
		commit="$(git -C "$PFRAG_TOP" describe --always --dirty 2>&1)" || commit=unknown
	fi
	[ "$mode" = plain ] && mode="plain (init_on_alloc=0)" || mode="zeroing (Debian's default)"
	cat <<-END
	kernel    $release
	rig       $rig, accel $accel
	boot      $mode
	host CPU  $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $(nproc) online
	governor  $([ -r "$governor" ] && cat "$governor" || echo "none visible")
	date      $(date -u '+%Y-%m-%d %H:%M UTC')
	module    $(modinfo -F version "$work/$release/pfrag.ko")${commit:+, commit $commit}
	options   $given

	END
}

write_report()
{
	local dir="$1" release="$2" mode="$3" name="$2-$3"

	shift 3
	cat "$dir"/raw-*.jsonl >"$report/raw-$name.jsonl"
	cat "$dir/json" >>"$report/results.jsonl"
	{
		printf '## %s, %s, boot %s\n\n```\n' "$release" "$rig" "$mode"
		cat "$dir/text"
		printf '```\n\nRaw rounds: raw-%s.jsonl; kernel logs: kernel-%s-*.log\n' "$name" "$name"
	} >>"$report/report.md"
	"$@" --plot "$dir"/raw-*.jsonl >"$dir/plot" || return 0
	[ -n "$(type -P gnuplot)" ] || return 0
	gnuplot <<-END
	set terminal pngcairo size 900,600
	set output "$report/plot-$name.png"
	set title "$release, $rig, $mode: median with minimum and maximum" noenhanced
	set ylabel "$([ "$rig" = count ] && echo instructions || echo ns) per unit"
	set style fill solid 0.5; set boxwidth 0.6; set yrange [0:*]
	set xtics rotate by 35 right noenhanced; set bmargin 8; set lmargin 12
	plot "$dir/plot" using 0:2:xtic(1) with boxes notitle, "" using 0:2:3:4 with yerrorbars notitle
	END
	printf '\n![plot](plot-%s.png)\n' "$name" >>"$report/report.md"
}

prepare_host()
{
	[ "$(id -u)" -eq 0 ] || die -s 3 "chroots of other releases need root; try: sudo $0"
	host_packages python3 kmod || die -s 3 "nothing can be measured without these packages"
	[ -z "$report" ] || host_packages gnuplot-nox || warn "the report will have no plots"
	work="$(mktemp -d)"
	defer rm -rf "$work"
}

build_modules()
{
	if [ "$rig" = uml ]; then
		run_child "$SCRIPTS/rig_uml.sh" modules fast "$work/$1"
	else
		run_child "$SCRIPTS/kernels.sh" build "$1" "$work/$1"
	fi
}

main()
{
	local release mode
	local releases modes

	parse_options "$@"
	prepare_outputs
	prepare_host
	releases="$(find_releases)" || exit $?
	[ "$boot" != both ] && modes="$boot" || modes="zeroing plain"

	[ "$rig" != uml ] || boots=5
	for release in $releases; do
		if [ "$rig" != uml ] && ! run_child "$SCRIPTS/kernels.sh" prepare "$release"; then
			barred=1
			continue
		fi
		if ! build_modules "$release"; then
			failed=1
			continue
		fi
		for mode in $modes; do
			measure "$release" "$mode"
		done
	done
	[ "$failed" -eq 0 ] || exit 1
	[ "$measured" -eq 1 ] || die -s 3 "nothing was measured"
	exit "$barred"
}

main "$@"
