#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds User-Mode Linux from Debian's newest kernel source, builds modules for it,
# and runs a job in it.  Knows nothing of what the job does.

set -euo pipefail

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/kernel_archive.sh
. "$(dirname "${BASH_SOURCE[0]}")/kernel_archive.sh"
# shellcheck source=scripts/uml_build.sh
. "$(dirname "${BASH_SOURCE[0]}")/uml_build.sh"
# shellcheck source=scripts/module_build.sh
. "$(dirname "${BASH_SOURCE[0]}")/module_build.sh"
# shellcheck source=scripts/guest.sh
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage()
{
	cat <<'USAGE'
usage: rig_uml.sh build CONFIG
       rig_uml.sh modules CONFIG OUT [MAKEARG..]
       rig_uml.sh run [OPTION].. [--] COMMAND ARGS..
       rig_uml.sh run [OPTION].. --job SCRIPT
       rig_uml.sh --splats LOG

Builds User-Mode Linux (a kernel that runs as a process) from the newest linux-source-*
in trixie and its backports, and runs COMMAND, or SCRIPT, as root in it.  CONFIG:

  fast      native speed, no checks; memory is cleared as it is allocated, as in Debian's
            kernels (--append init_on_alloc=0: it is not)
  checked   KASAN, lockdep, the debugging of pages, slabs and lists, UBSAN, kmemleak,
            fault injection, KUnit

  build     make the kernel, once (3 and 5 minutes on two idle processors), and print its
            folder.  Kept in $PFRAG_CACHE (/var/cache/pfrag), by the version of the source
            and the fragments in scripts/uml/
  modules   build the tree's pfrag_mod/ for it with the same compiler; OUT gets the
            modules, Module.symvers, pfrag_features.h and build.log.  A warning makes it
            fail.  MAKEARG goes to make.
  run       boot it.  The guest has busybox, bash, kmod and nothing else; it has no network
            and sees no file of the host's
  --splats  print what in a kernel log tells of a fault, less the one splat that this
            kernel causes itself as it boots; exit 1 if anything does, 0 if nothing

options of run:
  --config CONFIG    which kernel (default: fast)
  --modules DIR      put DIR's *.ko into /lib/pfrag, the job's working directory
  --file PATH[:NAME] put a file into /job.d, under NAME if given; may be repeated
  --job SCRIPT       the job is this file (its #! may name sh or bash)
  --append WORDS     more words for the kernel's command line
  --cpus N           virtual CPUs (default 2; at most 8, of checked at most 2)
  --mem MB           memory (default 1024)
  --timeout S        time limit in seconds (default 300)
  --log FILE         where the kernel log goes (default: thrown away if all is well)

Exit status of run: the job's own; 124 hung (time limit); 125 the guest panicked or ended
without a status; 2 usage; 1 the rig itself failed.  An oops panics the guest.

With PFRAG_NO_INSTALL=1 nothing is fetched: what is missing is named.

examples:
  rig_uml.sh build fast
  rig_uml.sh modules checked out
  rig_uml.sh run --config checked --modules out --log kernel.log -- insmod pfrag.ko
  rig_uml.sh run --cpus 1 --append init_on_alloc=0 -- cat /proc/cmdline
USAGE
}

need_config()
{
	case "$1" in
	fast | checked) ;;
	-h | --help)
		usage
		exit 0
		;;
	*) die -s 2 "no such configuration: '$1' (fast, checked)" ;;
	esac
}

# --- build and modules -------------------------------------------------------

cmd_build()
{
	need_config "${1:-}"
	[ $# -eq 1 ] || die -s 2 "build: takes a configuration alone"
	need_kernel "$1"
	echo "$build"
}

# For build_modules.
in_build()
{
	build_in "$source" "$build" "$@"
}

cmd_modules()
{
	need_config "${1:-}"
	[ $# -ge 2 ] || die -s 2 "modules: takes a configuration and a folder for the outcome"
	need_root
	need_kernel "$1"
	need_source "$1"
	need_tools
	build_modules "$name" "$2" in_build -C /uml/build ARCH=um "${@:3}"
}

# --- run ---------------------------------------------------------------------

rig_option()
{
	case "$1" in
	--config)	config="$2" ;;
	*)		return 1 ;;
	esac
}

check_options()
{
	local most=8

	need_config "$config"
	[ -z "$splats" ] || die -s 2 "--splats stands alone"
	cpus="${cpus:-2}"
	# The checked kernel takes a stack trace on the host's stack that a CPU starts on,
	# and reads past its end: that is mapped behind the first such stack alone.
	[ "$config" = fast ] || most=2
	[ "$cpus" -le "$most" ] || die -s 2 "--cpus $cpus: the $config kernel has at most $most"
	check_job
}

# run_uml INITRD WORDS..: returns what timeout(1) does.
#
# UML makes itself a session and a process per address space in the guest, and some of
# them outlive it: all are in a PID namespace, whose end is theirs, and whose first
# process, timeout, UML's parting SIGTERM to its own group does not reach.
run_uml()
{
	local initrd="$1" out pid status=0
	local -a enter=(setpriv --pdeathsig KILL unshare --pid --fork --kill-child=KILL)

	shift
	[ "$(id -u)" -eq 0 ] || enter+=(--user --map-current-user)
	mkdir -p "$work/empty" "$work/uml"
	# The job's output by way of a pipe of our own: UML makes what it writes to
	# nonblocking, and ours is not for us alone.  The kernel log into a file, which
	# takes a burst without loss.
	mkfifo "$work/out"
	cat "$work/out" &
	out=$!
	: >"$logfile"
	(
		ulimit -c 0
		exec "${enter[@]}" timeout -s KILL "$limit" "$build/linux" "mem=${mem}M" "ncpus=$cpus" \
			seccomp=on noreboot "initrd=$initrd" "uml_dir=$work/uml" "hostfs=$work/empty" \
			con=null ssl=null ssl0=null,fd:1 ssl1=null,fd:3 ssl2=null,fd:4 \
			console=ttyS0 oops=panic "$@"
	) </dev/null >>"$logfile" 2>&1 3>"$work/out" 4>>"$work/status" &
	pid=$!
	defer end_uml "$pid"
	wait "$pid" || status=$?
	# All that had the pipe are gone: the rest of the output is on its way.
	wait "$out"
	unset 'pfrag_deferred[-1]'
	return "$status"
}

end_uml()
{
	# kill's complaint that there is none is the answer, not an error.
	if kill -0 "$1" 2>/dev/null; then
		kill -KILL "$1"
	fi
	# What is removed next must not be written to any more.  That it was killed is no
	# news to the user.
	wait "$1" 2>/dev/null
	return 0
}

# A UML that a signal ended is a kernel that died, not a rig that failed.
died_by_signal()
{
	[ "$1" -gt 128 ] && [ "$1" -ne 137 ]
}

cmd_run()
{
	local status=0
	local -a words more

	config=fast
	parse_options "$@"
	check_options
	need_packages busybox-static kmod cpio
	need_kernel "$config"
	work="$(mktemp -d)"
	defer rm -rf "$work"
	[ -n "$logfile" ] || logfile="$work/log"
	make_initrd "$work/root" "$work/initrd"
	# Not page_owner=on: the in-tree bulk allocator then hands out a single page a call.
	words=()
	[ "$config" = fast ] || words=(kasan_multi_shot page_poison=1 debug_pagealloc=on)
	read -r -a more <<<"$append"
	words+=(${more[@]+"${more[@]}"})
	run_uml "$work/initrd" ${words[@]+"${words[@]}"} || status=$?
	! died_by_signal "$status" || status=0
	end_of_guest "$name" UML "$status" "$work/status" "$logfile"
}

# What rig_vm.sh calls a splat, in a log without the one that is known.
find_splats()
{
	local kernlog="$1" rest

	[ -r "$kernlog" ] || die -s 2 "--splats $kernlog: cannot read it"
	rest="$(mktemp)"
	defer rm -f "$rest"
	awk -v known="$HERE/uml/known_splat.txt" -f "$HERE/uml/known_splat.awk" "$kernlog" >"$rest"
	"$HERE/rig_vm.sh" --splats "$rest"
}

main()
{
	local what="${1:-}"

	case "$what" in
	build | modules | run)
		shift
		"cmd_$what" "$@"
		;;
	--splats)
		[ $# -eq 2 ] || die -s 2 "--splats: takes a kernel log"
		find_splats "$2"
		;;
	-h | --help)
		usage
		;;
	*)
		usage >&2
		die -s 2 "unknown command: '$what'"
		;;
	esac
}

main "$@"
