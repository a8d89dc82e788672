# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# What jobs in a guest share (busybox sh); the host's side is t_guest_ktap.
#
# g_case FUNCTION runs one case, marks its place in the kernel's log and prints
# "ok - FUNCTION" or "not ok - FUNCTION" behind what it wrote.

G_DEBUG=/sys/kernel/debug/pfrag
G_BENCH=$G_DEBUG/bench
G_FAILED=0

# A case that failed must not fail the next.
g_tidy()
{
	echo 0 >$G_DEBUG/fail/nth
	echo 1 >/sys/devices/system/cpu/cpu1/online
	for module in pfrag_example_contestant pfrag_bench; do
		if grep -q "^$module " /proc/modules; then
			rmmod $module
		fi
	done
}

g_case()
{
	echo "pfrag-test: case $1" >/dev/kmsg
	# Not in a condition: the function would lose its `set -e`.
	( set -e; "$1" ) >/tmp/case.out 2>&1
	g_status=$?
	if [ $g_status -eq 0 ]; then
		echo "ok - $1"
	else
		cat /tmp/case.out
		echo "not ok - $1"
		# shellcheck disable=SC2034 # the job's exit status
		G_FAILED=1
		g_tidy
	fi
	echo "pfrag-test: case between" >/dev/kmsg
}

g_fail()
{
	echo "$*"
	exit 1
}

# g_log: the kernel's log since the case began.
g_log()
{
	dmesg | awk '/pfrag-test: case / { text = "" } { text = text $0 "\n" } END { printf "%s", text }'
}

g_log_has()
{
	g_log | grep -qF -- "$1" || { g_log; g_fail "the kernel's log lacks: $1"; }
}

g_equal() # WHAT GOT EXPECTED
{
	[ "$2" = "$3" ] || g_fail "$1 is $2, not $3"
}

# g_gone: wait until the benchmark is unloaded: whoever loads it may be killed first.
g_gone()
{
	tries=0
	while grep -q '^pfrag_bench ' /proc/modules; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || g_fail "pfrag_bench is still loaded"
		sleep 0.1
	done
}

# g_clean: no benchmark is loaded and no block is held.
g_clean()
{
	if grep -q '^pfrag_bench ' /proc/modules; then
		g_fail "pfrag_bench is still loaded"
	fi
	g_equal "threads left" "$(pgrep pfrag_bench/ | wc -l)" 0
	g_equal live_blocks "$(cat $G_DEBUG/live_blocks)" 0
	g_equal live_pages "$(cat $G_DEBUG/live_pages)" 0
}

# g_insmod TEXT ARGS..: loading the benchmark must fail with this text.
g_insmod()
{
	text=$1
	shift
	if insmod pfrag_bench.ko "$@" 2>/tmp/insmod.err; then
		rmmod pfrag_bench
		g_fail "insmod $* succeeded"
	fi
	grep -qF "$text" /tmp/insmod.err ||
		g_fail "insmod $*: not \"$text\" but $(cat /tmp/insmod.err)"
}

# g_refused FILE TEXT ERROR: the write must fail with this error. (dd: the shell's
# echo calls every error an I/O error.)
g_refused()
{
	if echo "$2" | dd of="$1" bs=4096 2>/tmp/write.err; then
		g_fail "\"$2\" was accepted"
	fi
	grep -qF "$3" /tmp/write.err || g_fail "\"$2\": not \"$3\" but $(cat /tmp/write.err)"
}

# g_wait STATE: until the run has ended, in that state.
g_wait()
{
	tries=0
	while grep -q '^running' $G_BENCH/progress; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || g_fail "still $(cat $G_BENCH/progress)"
		sleep 0.2
	done
	read -r state rest <$G_BENCH/progress
	g_equal "state of the run ($rest)" "$state" "$1"
}
