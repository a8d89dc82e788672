#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boots a stock Debian kernel in QEMU and runs a job in it.  Knows nothing of
# what the job does.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

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

need_value()
{
	[ "$2" -ge 2 ] || die -s 2 "$1 wants a value"
}

need_number()
{
	[[ $2 =~ ^[1-9][0-9]*$ ]] || die -s 2 "$1 wants a number above 0, not '$2'"
}

parse_options()
{
	rig=vm kernel=host modules='' job='' append='' cpus='' mem=1024 limit=300 logfile='' splats=''
	files=() command=()

	while [ $# -gt 0 ]; do
		case "$1" in
		-h | --help)
			usage
			exit 0
			;;
		--)
			shift
			break
			;;
		--*)
			need_value "$1" $#
			parse_option "$1" "$2"
			shift 2
			;;
		-*)
			die -s 2 "unknown option: $1 (see: rig_vm.sh --help)"
			;;
		*)
			break
			;;
		esac
	done
	command=("$@")
}

parse_option()
{
	case "$1" in
	--rig)		rig="$2" ;;
	--kernel)	kernel="$2" ;;
	--modules)	modules="$2" ;;
	--file)		files+=("$2") ;;
	--job)		job="$2" ;;
	--append)	append="$2" ;;
	--cpus)		cpus="$2"; need_number "$1" "$2" ;;
	--mem)		mem="$2"; need_number "$1" "$2" ;;
	--timeout)	limit="$2"; need_number "$1" "$2" ;;
	--log)		logfile="$2" ;;
	--splats)	splats="$2" ;;
	*)		die -s 2 "unknown option: $1 (see: rig_vm.sh --help)" ;;
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
	[ -z "$modules" ] || [ -d "$modules" ] || die -s 2 "--modules $modules: no such folder"
	[ -z "$logfile" ] || [ -d "$(dirname "$logfile")" ] ||
		die -s 2 "--log $logfile: no such folder"
	[ -z "$job" ] || [ -f "$job" ] || die -s 2 "--job $job: no such file"
	if [ -n "$job" ]; then
		[ ${#command[@]} -eq 0 ] || die -s 2 "either --job or a command, not both: '${command[*]}'"
	else
		[ ${#command[@]} -gt 0 ] || die -s 2 "no job: give a command or --job SCRIPT"
	fi
}

# --- splats ----------------------------------------------------------------

# What tells of a fault, one pattern a line.  The taint messages that every
# module from outside the tree causes are not among them.  "WARNING:" counts at
# the start of a line alone: some boots print "Spectre V2 : WARNING: ..".
splat_patterns()
{
	cat <<-'PATTERNS'
	BUG: |BUG [a-z_]+ |kernel BUG at
	^(\[[^]]*\])*( *)WARNING:
	---+\[ cut here \]
	Oops: |Kernel panic|invalid opcode: |divide error: |double fault|stack segment:
	general protection|unable to handle|Kernel stack is corrupted
	soft lockup|hard LOCKUP|rcu.* (stall|detected stalls)|INFO: task .* blocked
	INFO: (possible|suspicious|trying to register|inconsistent)
	UBSAN:|KASAN:|KFENCE:|KCSAN:|kmemleak: [1-9]
	list_(add|del) corruption|refcount_t: |Bad page|Bad rss-counter
	page allocation failure|unregister_netdevice: waiting
	PATTERNS
}

find_splats()
{
	[ -r "$1" ] || die -s 2 "--splats $1: cannot read it"
	! tr -d '\r' <"$1" | grep -E -a -f <(splat_patterns)
}

# --- the guest's file system -----------------------------------------------

# A program of the host with the libraries it needs, at the same paths.
add_program()
{
	local root="$1" program="$2" lib

	install -D "$program" "$root$3"
	for lib in $(ldd "$program" | grep -o -E '/[^ ]+'); do
		[ -e "$root$lib" ] || install -D "$(realpath "$lib")" "$root$lib"
	done
}

make_tree()
{
	local root="$1" name file

	mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,dev,proc,sys,tmp,etc,lib/pfrag,job.d}
	cp /bin/busybox "$root/bin/busybox"
	for name in $(/bin/busybox --list | grep -v -x busybox); do
		ln -s /bin/busybox "$root/bin/$name"
	done
	# busybox takes its own applets whatever PATH says, in its shell and in what
	# runs another program, and its insmod runs a failing init a second time.
	for name in bash dash env nice taskset timeout xargs; do
		rm -f "$root/bin/$name"
		add_program "$root" "$(command -v "$name")" "/bin/$name"
	done
	ln -sf dash "$root/bin/sh"
	add_program "$root" "$(command -v kmod)" /bin/kmod
	for name in insmod rmmod lsmod modinfo modprobe depmod; do
		ln -sf kmod "$root/bin/$name"
	done

	install "$HERE/guest_init" "$root/init"
	if [ -n "$modules" ]; then
		find "$modules" -maxdepth 1 -name '*.ko' -exec cp -t "$root/lib/pfrag" {} +
	fi
	for file in ${files[@]+"${files[@]}"}; do
		add_file "$root" "$file"
	done
	if [ -n "$job" ]; then
		install "$job" "$root/job"
	else
		# bash, as its %q may quote in a way that is bash's own.
		printf '#!/bin/bash\nexec%s\n' "$(printf ' %q' "${command[@]}")" >"$root/job"
		chmod 755 "$root/job"
	fi
}

# PATH or PATH:NAME; a file whose own name has a colon is taken as it is.
add_file()
{
	local root="$1" path="$2" name

	name="$(basename "$path")"
	if [ ! -f "$path" ]; then
		name="${path##*:}"
		path="${path%:*}"
	fi
	[ -f "$path" ] || die -s 2 "--file $2: no such file"
	install -D "$path" "$root/job.d/$name"
}

make_initrd()
{
	local root="$1" initrd="$2"

	make_tree "$root"
	# The same content gives the same archive, and the count rig the same boot.
	find "$root" -exec touch -h -d @0 {} +
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --owner=0:0 --reproducible --quiet) >"$initrd"
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

show_tail()
{
	log "the end of the kernel log of $release:"
	tr -d '\r' <"$1" | tail -n 30 | sed 's/^/    /' >&2
}

run_job()
{
	local status=0

	run_qemu "$logfile" "$work/status" "$limit" "$work/initrd" "$append" "${machine[@]}" || status=$?
	if [ -s "$work/status" ]; then
		exit "$(tr -d -c 0-9 <"$work/status")"
	fi
	case "$status" in
	124 | 137)
		show_tail "$logfile"
		die -s 124 "the guest ($release) hung: no end within $limit s"
		;;
	0)
		show_tail "$logfile"
		die -s 125 "the guest ($release) panicked or ended without a status"
		;;
	*)
		[ ! -s "$logfile" ] || show_tail "$logfile"
		die "QEMU failed (status $status)"
		;;
	esac
}

main()
{
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
