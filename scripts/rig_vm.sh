#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boots a stock Debian kernel in QEMU and runs a job in it.  Knows nothing of
# what the job does.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/guest.sh
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage()
{
	cat <<'USAGE'
usage: rig_vm.sh [OPTION].. [--] COMMAND ARGS..
       rig_vm.sh [OPTION].. --job SCRIPT
       rig_vm.sh --splats LOG

Boots a stock Debian kernel in QEMU and runs COMMAND, or SCRIPT, as root in it.
The guest has busybox, bash, kmod and nothing else; it has no network and no disk.

  --rig vm|count     vm (default): time is time.  count: one CPU and a clock that
                     steps one nanosecond an instruction, so that figures repeat
  --kernel WHICH     a release or a series, as kernels.sh takes it (default: the
                     newest kernel of this machine's own Debian release)
  --modules DIR      put DIR's *.ko into /lib/pfrag, the job's working directory
  --file PATH[:NAME] put a file into /job.d, under NAME if given; may be repeated
  --job SCRIPT       the job is this file (its #! may name sh or bash)
  --append WORDS     more words for the kernel's command line
  --cpus N           virtual CPUs (default 2; count: always 1)
  --mem MB           memory (default 1024)
  --timeout S        time limit in seconds (default 300)
  --log FILE         where the kernel log goes (default: thrown away if all is well)
  --splats LOG       print what in a kernel log tells of a fault; exit 1 if anything
                     does, 0 if nothing

Exit status: the job's own; 124 hung (time limit); 125 the guest panicked or ended
without a status; 2 usage; 1 the rig itself failed.  An oops panics the guest.

examples:
  rig_vm.sh --kernel 6.1 -- uname -r
  rig_vm.sh --rig count --modules out -- insmod pfrag.ko
  rig_vm.sh --kernel 7.3 --modules out --file data.txt --job job.sh --log kernel.log
USAGE
}

# --- options ---------------------------------------------------------------

rig_option()
{
	case "$1" in
	--rig)		rig="$2" ;;
	--kernel)	kernel="$2" ;;
	*)		return 1 ;;
	esac
}

check_options()
{
	case "$rig" in
	vm)	cpus="${cpus:-2}" ;;
	count)	[ "${cpus:-1}" -eq 1 ] || die -s 2 "--cpus $cpus: the count rig has one CPU"
		cpus=1 ;;
	*)	die -s 2 "--rig $rig: no such rig (vm, count)" ;;
	esac
	check_job
}

# --- splats ----------------------------------------------------------------

# What tells of a fault, one pattern a line.  The taint messages that every
# module from outside the tree causes are not among them.  "WARNING:" counts at
# the start of a line alone: some boots print "Spectre V2 : WARNING: ..".
splat_patterns()
{
	cat <<-'PATTERNS'
	BUG: |BUG [a-z_]+ |BUG [A-Za-z0-9_-]+ \(|kernel BUG at
	^(\[[^]]*\])*( *)WARNING:
	---+\[ cut here \]
	Oops: |Kernel panic|invalid opcode: |divide error: |double fault|stack segment:
	general protection|unable to handle|Kernel stack is corrupted
	soft lockup|hard LOCKUP|rcu.* (stall|detected stalls)|INFO: task .* blocked
	INFO: (possible|suspicious|trying to register|inconsistent)
	UBSAN:|KASAN:|KFENCE:|KCSAN:|kmemleak: [1-9]
	list_(add|del) corruption|refcount_t: |Bad page|Bad rss-counter
	pagealloc: (memory corruption|single bit error)
	page allocation failure|unregister_netdevice: waiting
	PATTERNS
}

find_splats()
{
	[ -r "$1" ] || die -s 2 "--splats $1: cannot read it"
	! tr -d '\r' <"$1" | grep -E -a -f <(splat_patterns)
}

# --- the machine -----------------------------------------------------------

# /dev/kvm may open and still not run a stock kernel: believe the CPU's flags and
# a trial boot alone.  The trial's outcome holds until this machine boots again.
kvm_works()
{
	local initrd="$1" verdict

	grep -q -w -E 'vmx|svm' /proc/cpuinfo && [ -w /dev/kvm ] || return 1
	verdict="$PFRAG_CACHE/kvm/$(cat /proc/sys/kernel/random/boot_id)-$release"
	if [ ! -e "$verdict" ]; then
		log "trying whether KVM runs $release"
		mkdir -p "$(dirname "$verdict")"
		# A job of no consequence: the guest ends before it gets there.
		if run_qemu "$work/trial.log" "$work/trial.status" 20 \
			"$initrd" "pfrag_trial=1" -cpu max -accel kvm >"$work/trial.out" && [ -s "$work/trial.status" ]; then
			echo yes >"$verdict"
		else
			echo no >"$verdict"
		fi
	fi
	[ "$(cat "$verdict")" = yes ]
}

# run_qemu LOG STATUSFILE LIMIT INITRD WORDS MACHINE-ARGS..
# Returns what timeout(1) does.
run_qemu()
{
	local kernlog="$1" status_file="$2" limit="$3" initrd="$4" words="$5"
	local pid status=0

	shift 5
	# The job's output goes to our stdout; the comma is QEMU's separator.
	timeout -k 5 "$limit" qemu-system-x86_64 -M q35 -m "$mem" -smp "$cpus" "$@" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$image" -initrd "$initrd" \
		-append "console=ttyS0 panic=-1 oops=panic $words" \
		-chardev "file,id=log,path=${kernlog//,/,,}" -serial chardev:log \
		-chardev stdio,id=out,signal=off -serial chardev:out \
		-chardev "file,id=status,path=${status_file//,/,,}" -serial chardev:status </dev/null &
	pid=$!
	# timeout passes the signal on to QEMU.
	defer end_qemu "$pid"
	wait "$pid" || status=$?
	unset 'pfrag_deferred[-1]'
	return "$status"
}

end_qemu()
{
	# kill's complaint that there is none is the answer, not an error.
	if kill -0 "$1" 2>/dev/null; then
		kill -TERM "$1"
	fi
}

machine_args()
{
	local initrd="$1"

	machine=(-cpu max)
	if [ "$rig" = count ]; then
		# erms and fsrm off: a `rep stosb` would count an instruction a byte.
		# The date, the random numbers and the addresses are the same in every boot.
		machine=(-accel tcg -icount "shift=0,sleep=off" -cpu "max,-erms,-fsrm"
			-rtc "base=2024-01-01,clock=vm" -seed 1)
		append="nokaslr $append"
	elif kvm_works "$initrd"; then
		machine+=(-accel kvm)
	else
		machine+=(-accel "tcg,thread=multi")
	fi
}

run_job()
{
	local status=0

	run_qemu "$logfile" "$work/status" "$limit" "$work/initrd" "$append" "${machine[@]}" || status=$?
	end_of_guest "$release" QEMU "$status" "$work/status" "$logfile"
}

main()
{
	rig=vm kernel=host
	parse_options "$@"
	if [ -n "$splats" ]; then
		find_splats "$splats"
		return
	fi
	check_options
	need_packages qemu-system-x86 busybox-static kmod cpio
	image="$("$HERE/kernels.sh" vmlinuz "$kernel")"
	release="$(basename "$(dirname "$image")")"

	work="$(mktemp -d)"
	defer rm -rf "$work"
	[ -n "$logfile" ] || logfile="$work/log"
	make_initrd "$work/root" "$work/initrd"
	machine_args "$work/initrd"
	run_job
}

main "$@"
