#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The benchmark's job on the machine under test: load the modules, write each
# run description, hand out the raw rounds, unload, check that nothing is left.
# Written for any POSIX sh with busybox behind it.

set -eu

DEBUGFS=/sys/kernel/debug/pfrag
# A poll interrupts the very CPU that is measured where there is only one, so
# polls are rare; they cost no fork apart from the sleep.
POLL_SECONDS=${POLL_SECONDS:-1}
status=0

usage()
{
	cat <<'END'
usage: guest_bench.sh DESCRIPTIONS

Run in the directory that holds pfrag.ko and pfrag_bench.ko. DESCRIPTIONS is a
file with one run description a line, as debugfs takes it. Lines printed:

  #info WORD TEXT       what is known here only
  #progress STATE DONE TOTAL TEXT
  #result JSON          one raw round of one contestant
  #error TEXT           something went wrong

Exit status: 0 all runs ended well and nothing leaked; 1 a run failed, the rest
can be used; 2 usage; 3 the modules cannot be trusted, and no figure of theirs.

example: guest_bench.sh /job.d/descriptions
END
}

# error STATUS TEXT: say it; the gravest status is the script's own.
error()
{
	[ "$1" -le "$status" ] || status=$1
	shift
	echo "#error $*"
}

# The file's first line, without a fork.
first_line()
{
	read -r line <"$1" || [ -n "$line" ]
}

inform()
{
	echo "#info processor $(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
	echo "#info cmdline $(cat /proc/cmdline)"
}

# A kernel that has just booted is still busy: the crypto self-tests of 6.12 and
# later would share the CPU with the first run for a second. Go on once nobody
# but us was runnable five times in a row, or after a while in any case.
await_quiet()
{
	quiet=0
	looks=0
	while [ "$quiet" -lt 5 ] && [ "$looks" -lt 100 ]; do
		sleep 0.2
		read -r _ _ _ runnable _ </proc/loadavg
		[ "${runnable%/*}" -gt 1 ] && quiet=0 || quiet=$((quiet + 1))
		looks=$((looks + 1))
	done
	[ "$quiet" -eq 5 ] || echo "other work keeps this machine busy: expect noise"
}

# Wait for the end of the run; its last state is left in $state.
follow()
{
	shown=
	while :; do
		first_line "$DEBUGFS/bench/progress"
		[ "$line" = "$shown" ] || echo "#progress $line"
		shown=$line
		state=${line%% *}
		[ "$state" = "running" ] || return 0
		sleep "$POLL_SECONDS"
	done
}

run_one()
{
	if ! echo "$1" >"$DEBUGFS/bench/run"; then
		error 1 "the module refused '$1'; the kernel log says why"
		return
	fi
	follow
	# A run cut short may have left whole rounds behind. They are handed out
	# only if they say themselves which contestant failed.
	if [ "$state" = "done" ] || grep -q '"status":"failed"' "$DEBUGFS/bench/results"; then
		sed 's/^/#result /' "$DEBUGFS/bench/results"
	fi
	[ "$state" = "done" ] || error 1 "the run '$1' ended as '$line'"
}

check_empty()
{
	for what in live_blocks live_pages; do
		first_line "$DEBUGFS/$what"
		[ "$line" = 0 ] || error 3 "$line left in $what after pfrag_bench was unloaded"
	done
}

# All modules, or none.
load()
{
	insmod ./pfrag.ko || { error 3 "pfrag.ko does not load"; return 1; }
	insmod ./pfrag_bench.ko && return
	error 3 "pfrag_bench.ko does not load"
	rmmod pfrag
	return 1
}

unload()
{
	rmmod pfrag_bench || error 3 "pfrag_bench does not unload"
	check_empty
	rmmod pfrag || error 3 "pfrag does not unload"
}

main()
{
	case ${1:-} in
	--help|-h)
		usage
		exit 0
		;;
	esac
	if [ $# -ne 1 ] || [ ! -r "$1" ]; then
		usage >&2
		exit 2
	fi
	inform
	load || exit "$status"
	await_quiet
	while read -r description; do
		run_one "$description"
	done <"$1"
	unload
	exit "$status"
}

main "$@"
