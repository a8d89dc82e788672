#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs in a guest with two CPUs: the life of the benchmark module.
#
# Cases are called by name, "done" is a state, no name here has a blank:
# shellcheck disable=SC2317,SC1010,SC2086
# shellcheck source=tests/guest_lib.sh
. /job.d/guest_lib.sh

AGAIN="Resource temporarily unavailable"
INVALID="Invalid parameters"
NOMEM="Cannot allocate memory"

# The newest run's lines that hold all of the words.
lines()
{
	text=$(cat "$G_DEBUG/runs/$(cat $G_DEBUG/runs/last)")
	for word in "$@"; do
		text=$(echo "$text" | grep -F "$word") || text=
	done
	[ -z "$text" ] || echo "$text"
}

count()
{
	lines "$@" | wc -l
}

reports_time_and_ns_per_fragment()
{
	g_insmod "$AGAIN" test_push_cpu=0 test_pop_cpu=1 nr_test=20000
	for c in noop pfrag page_frag; do
		g_log | grep -Eq "run [0-9]+: $c: 20000 fragments of 2048 bytes in [1-9][0-9]* ns, [0-9]+\.[0-9] ns per fragment" ||
			{ g_log; g_fail "no report of $c"; }
	done
	g_equal "lines of the run" "$(count '"workload":"pushpop"')" 3
	g_equal "balanced lines" "$(count '"asked":20000,"done":[20000,20000]' '"failed_allocs":0' '"leaked":{"blocks":0,"pages":0}' '"status":"ok"')" 3
	g_equal "lines on CPUs 0 and 1" "$(count '"cpus":[0,1]')" 3
	g_clean
}

aligns_to_cache_lines()
{
	g_insmod "$AGAIN" test_push_cpu=0 test_pop_cpu=1 nr_test=20000 test_align=1 test_alloc_len=100
	g_equal "aligned lines" "$(count '"size":100,"align":64')" 3
	case $(uname -r) in
	5.10.*)
		g_equal "page_frag" "$(count '"page_frag"' '"contestant":"page_frag"' '"status":"absent"')" 1
		g_equal "lines ok" "$(count '"status":"ok"')" 2
		;;
	*) g_equal "lines ok" "$(count '"status":"ok"')" 3 ;;
	esac
	g_clean
}

one_cpu_serves_both()
{
	g_insmod "$AGAIN" test_push_cpu=1 test_pop_cpu=1 nr_test=20000
	g_equal "lines ok" "$(count '"cpus":[1,1]' '"done":[20000,20000]' '"status":"ok"')" 3
	g_clean
}

slow_consumer_is_no_error()
{
	taskset 2 nice -n -20 sh -c 'while :; do :; done' &
	hog=$!
	g_insmod "$AGAIN" test_push_cpu=0 test_pop_cpu=1 nr_test=20000 test_contestants=pfrag
	kill $hog
	g_equal "lines ok" "$(count '"done":[20000,20000]' '"status":"ok"')" 1
	g_clean
}

repeats_a_hundred_times()
{
	before=$(cat $G_DEBUG/runs/last)
	i=0
	while [ $i -lt 100 ]; do
		g_insmod "$AGAIN" test_push_cpu=0 test_pop_cpu=1 nr_test=1000 test_contestants=pfrag
		i=$((i + 1))
	done
	g_equal "last run" "$(cat $G_DEBUG/runs/last)" $((before + 100))
	i=$((before + 1))
	while [ $i -le $((before + 100)) ]; do
		g_equal "lines ok of run $i" "$(grep -c '"status":"ok"' $G_DEBUG/runs/$i)" 1
		i=$((i + 1))
	done
	g_clean
}

# Each is refused by name, before there is a run.
refuses()
{
	before=$(cat $G_DEBUG/runs/last)
	name=$1
	shift
	g_insmod "$INVALID" "$@"
	g_log | grep -q "pfrag_bench: $name: " || { g_log; g_fail "$*: $name is not named"; }
	g_equal "last run" "$(cat $G_DEBUG/runs/last)" "$before"
	g_clean
	echo "pfrag-test: case $CASE" >/dev/kmsg
}

refuses_bad_cpus()
{
	CASE=refuses_bad_cpus
	for bad in -1 2 4000 99999999 4294967296 x ""; do
		refuses test_push_cpu test_push_cpu=$bad test_pop_cpu=1
		refuses test_pop_cpu test_push_cpu=0 test_pop_cpu=$bad
	done
	refuses test_push_cpu test_pop_cpu=1
	refuses test_pop_cpu test_push_cpu=1
	echo 0 >/sys/devices/system/cpu/cpu1/online
	refuses test_push_cpu test_push_cpu=1 test_pop_cpu=0
	refuses test_pop_cpu test_push_cpu=0 test_pop_cpu=1
	echo 1 >/sys/devices/system/cpu/cpu1/online
}

refuses_bad_numbers()
{
	CASE=refuses_bad_numbers
	for bad in 0 -1 32769 4294967296 4294967552 99999999999999999999 x ""; do
		refuses test_alloc_len test_push_cpu=0 test_pop_cpu=1 test_alloc_len=$bad
	done
	for bad in 0 -1 4294967296 x ""; do
		refuses nr_test test_push_cpu=0 test_pop_cpu=1 nr_test=$bad
	done
	for bad in 2 -1 64 y ""; do
		refuses test_align test_push_cpu=0 test_pop_cpu=1 test_align=$bad
	done
}

refuses_bad_contestants()
{
	CASE=refuses_bad_contestants
	for bad in nobody "pfrag,nobody" "pfrag," "pfrag,pfrag" ""; do
		refuses contestants test_push_cpu=0 test_pop_cpu=1 "test_contestants=$bad"
	done
}

survives_each_failing_step()
{
	step=1
	while :; do
		[ $step -lt 100 ] || g_fail "step $step still fails"
		if insmod pfrag_bench.ko test_push_cpu=0 test_pop_cpu=1 nr_test=1000 fail_step=$step 2>/tmp/insmod.err; then
			g_fail "insmod succeeded"
		fi
		g_clean
		grep -qF "$NOMEM" /tmp/insmod.err || break
		step=$((step + 1))
	done
	grep -qF "$AGAIN" /tmp/insmod.err || { cat /tmp/insmod.err; g_fail "step $step: neither"; }
	# run, results; for each contestant job, state, ring, two threads; outcome.
	g_equal "failing steps" $((step - 1)) 18

	for step in 1 2 3; do
		if insmod pfrag_bench.ko fail_step=$step 2>/tmp/insmod.err; then
			rmmod pfrag_bench
			break
		fi
		grep -qF "$NOMEM" /tmp/insmod.err
	done
	g_equal "failing steps of loading" $((step - 1)) 1
	g_clean
}

goes_on_after_failed_allocations()
{
	# Two visits to the page allocator for each allocation: six fail three.
	echo 6 >$G_DEBUG/fail/times
	echo 10 >$G_DEBUG/fail/nth
	g_insmod "$AGAIN" test_push_cpu=0 test_pop_cpu=1 nr_test=20000 test_contestants=pfrag
	g_equal "lines" "$(count '"done":[20000,20000]' '"status":"ok"')" 1
	failed=$(lines pfrag | sed 's/.*"failed_allocs":\([0-9]*\).*/\1/')
	case $failed in
	2 | 3) ;;
	*) g_fail "$failed allocations failed" ;;
	esac
	g_equal "nth" "$(cat $G_DEBUG/fail/nth)" 0
	g_clean
}

fails_without_memory()
{
	# From the first block on: a block that is there is started again, and lasts.
	echo 4294967295 >$G_DEBUG/fail/times
	echo 1 >$G_DEBUG/fail/nth
	g_insmod "$NOMEM" test_push_cpu=0 test_pop_cpu=1 nr_test=20000 test_contestants=noop,pfrag,page_frag
	echo 0 >$G_DEBUG/fail/nth
	g_equal "failed lines" "$(count '"contestant":"pfrag"' '"error":-12' '"status":"failed"')" 1
	g_log_has "pfrag: failed with error -12"
	# No figures of who failed; the others went on.
	g_equal "lines ok" "$(count '"status":"ok"')" 2
	g_equal "pfrag ok" "$(count '"contestant":"pfrag"' '"status":"ok"')" 0

	# Through debugfs as well: out after its first turn, be it the warm-up.
	insmod pfrag_bench.ko
	echo 1 >$G_DEBUG/fail/nth
	echo "workload=local rounds=3 nr=1000" >$G_BENCH/run
	g_wait failed
	echo 0 >$G_DEBUG/fail/nth
	g_equal "progress" "$(cat $G_BENCH/progress)" "failed 16 16 error -12"
	g_equal "failed lines" "$(count '"status":"failed"')" 1
	g_equal "lines ok" "$(count '"status":"ok"')" 9
	grep -q "^pfrag  *-  *-  *-  *0 failed$" $G_BENCH/table || { cat $G_BENCH/table; g_fail "the table has figures of pfrag"; }
	rmmod pfrag_bench
	g_clean
}

ends_by_a_signal()
{
	for signal in INT TERM KILL; do
		if timeout -s $signal 1 insmod pfrag_bench.ko test_push_cpu=0 test_pop_cpu=1 nr_test=4000000000; then
			g_fail "insmod succeeded"
		fi
		g_gone
		g_equal "stopped lines" "$(count '"error":-4' '"status":"failed"')" 1
		g_clean
	done
}

runs_a_description()
{
	insmod pfrag_bench.ko
	g_equal "idle" "$(cat $G_BENCH/progress)" "idle 0 0"
	g_equal "contestants" "$(grep -c -E '^((pushpop|local) (noop -|pfrag page_frag|page_frag -)|local page_frag_aa page_frag)$' $G_BENCH/list)" 7
	echo "workload=local contestants=page_frag,pfrag size=300 align=128 depth=7 rounds=3 nr=5000 cpus=1" >$G_BENCH/run
	g_wait done
	g_equal "progress" "$(cat $G_BENCH/progress)" "done 8 8"
	# They take turns, and the first is who was named first.
	turns=$(sed 's/.*"contestant":"\([a-z_]*\)".*"round":\([0-9]*\),.*"status":"\([a-z]*\)".*/\1 \2 \3,/' $G_BENCH/results | tr -d '\n')
	case $(uname -r) in
	5.10.*) g_equal "turns" "$turns" "page_frag 0 absent,pfrag 0 ok,pfrag 1 ok,pfrag 2 ok," ;;
	*) g_equal "turns" "$turns" "page_frag 0 ok,pfrag 0 ok,page_frag 1 ok,pfrag 1 ok,page_frag 2 ok,pfrag 2 ok," ;;
	esac
	g_equal "lines of pfrag as asked" "$(grep -c '"contestant":"pfrag".*"size":300,"align":128,"depth":7,"batch":1,"cpus":\[1\],"asked":5000,"done":\[5000\]' $G_BENCH/results)" 3
	grep -q "^pfrag .* 3 ok$" $G_BENCH/table || { cat $G_BENCH/table; g_fail "the table lacks pfrag"; }
	grep -q "^workload=local contestants" $G_BENCH/run || g_fail "the description is lost"

	# The same outcome under its number, which outlives the module.
	cmp $G_BENCH/results "$G_DEBUG/runs/$(cat $G_DEBUG/runs/last)"
	# (The page_frag of 7.x has no second fragment that is larger than a page.)
	for size in 1 64 2048 4096 4097 32768; do
		echo "workload=pushpop contestants=noop,pfrag size=$size rounds=2 nr=3000" >$G_BENCH/run
		g_wait done
		g_equal "results" "$(grep -c '"done":\[3000,3000\].*"status":"ok"' $G_BENCH/results)" 4
	done
	rmmod pfrag_bench
	g_clean
}

free_kib()
{
	# Compaction gives the free pages of each CPU's lists back.
	echo 1 >/proc/sys/vm/compact_memory
	awk '/^MemFree:/ { print $2 }' /proc/meminfo
}

# A block lost in each round of one contestant would add up to 2 x 64 MiB.
gives_memory_back()
{
	insmod pfrag_bench.ko
	before=$(free_kib)
	for workload in local pushpop; do
		echo "workload=$workload contestants=pfrag,page_frag rounds=2000 nr=10" >$G_BENCH/run
		g_wait done
	done
	after=$(free_kib)
	[ $((before - after)) -lt 65536 ] || g_fail "$((before - after)) KiB are missing"
	rmmod pfrag_bench
	g_clean
}

# Ten runs stopped with up to 512 blocks in the ring, 16 MiB each.
frees_what_is_queued()
{
	insmod pfrag_bench.ko
	before=$(free_kib)
	taskset 2 nice -n -20 sh -c 'while :; do :; done' &
	hog=$!
	i=0
	while [ $i -lt 10 ]; do
		echo "workload=pushpop contestants=pfrag size=32768 nr=4000000000 cpus=0,1" >$G_BENCH/run
		sleep 0.3
		echo stop >$G_BENCH/run
		g_wait stopped
		i=$((i + 1))
	done
	kill $hog
	after=$(free_kib)
	[ $((before - after)) -lt 65536 ] || g_fail "$((before - after)) KiB are missing"
	rmmod pfrag_bench
	g_clean
}

refuses_bad_descriptions()
{
	insmod pfrag_bench.ko
	err="Invalid argument"
	g_refused $G_BENCH/run "workload=nothing" "$err"
	g_log_has 'workload: there is no "nothing"'
	g_refused $G_BENCH/run "workload=a_name_longer_than_any_workload_has" "$err"
	g_refused $G_BENCH/run "workload=local contestants=nobody" "$err"
	g_log_has 'contestants: there is no "nobody" in workload "local"'
	g_refused $G_BENCH/run "workload=local contestants=pfrag,pfrag" "$err"
	g_refused $G_BENCH/run "workload=local colour=red" "$err"
	g_log_has 'colour: no such key'
	g_refused $G_BENCH/run "workload=local fast" "$err"
	for bad in size=0 size=32769 size=-1 size=4294967552 size=x size= align=3 align=65536 \
		depth=0 depth=65537 batch=0 batch=513 rounds=0 rounds=100000 nr=0 nr=4294967296 \
		warmup=-1 cpus=-1 cpus=2 cpus=0,1 cpus=0,1,0 cpus= cpus=x; do
		g_refused $G_BENCH/run "workload=local $bad" "$err"
		g_log | tail -n 1 | grep -q "pfrag_bench: ${bad%%=*}: " || { g_log; g_fail "$bad is not named"; }
	done
	g_refused $G_BENCH/run "workload=pushpop cpus=0" "$err"
	echo 0 >/sys/devices/system/cpu/cpu1/online
	g_refused $G_BENCH/run "workload=local cpus=1" "$err"
	echo 1 >/sys/devices/system/cpu/cpu1/online
	g_refused $G_BENCH/run "workload=local rounds=8000" "$err"
	g_log_has 'rounds: 8000 of 4 contestants'
	g_refused $G_BENCH/run "$(head -c 2000 /dev/zero | tr '\0' x)" "$err"
	g_equal "still idle" "$(cat $G_BENCH/progress)" "idle 0 0"
	rmmod pfrag_bench
	g_clean
}

one_run_at_a_time()
{
	insmod pfrag_bench.ko
	echo "workload=local nr=4000000000" >$G_BENCH/run
	g_refused $G_BENCH/run "workload=local" "resource busy"
	g_log_has "run: another run is under way"
	grep -q "^running 0 8 local noop" $G_BENCH/progress
	echo stop >$G_BENCH/run
	g_wait stopped
	# And after that another.
	echo "workload=local nr=1000" >$G_BENCH/run
	g_wait done
	rmmod pfrag_bench
	g_clean
}

unloads_while_it_runs()
{
	for workload in local pushpop; do
		insmod pfrag_bench.ko
		echo "workload=$workload contestants=pfrag nr=4000000000" >$G_BENCH/run
		sleep 0.5
		rmmod pfrag_bench
		g_equal "stopped lines" "$(count '"error":-4' '"status":"failed"')" 1
		g_clean
	done
}

fails_when_its_cpu_goes()
{
	insmod pfrag_bench.ko
	echo "workload=pushpop contestants=pfrag nr=4000000000 cpus=0,1" >$G_BENCH/run
	sleep 0.5
	echo 0 >/sys/devices/system/cpu/cpu1/online
	g_wait failed
	echo 1 >/sys/devices/system/cpu/cpu1/online
	g_equal "failed lines" "$(count '"error":-19' '"status":"failed"')" 1
	rmmod pfrag_bench
	g_clean
}

takes_a_foreign_contestant()
{
	insmod pfrag_bench.ko
	insmod /job.d/pfrag_example_contestant.ko
	grep -q "^local kmalloc page_frag$" $G_BENCH/list
	echo "workload=local contestants=kmalloc,page_frag size=256 rounds=3 nr=5000" >$G_BENCH/run
	g_wait done
	g_equal "its lines" "$(grep -c '"contestant":"kmalloc","twin":"page_frag".*"status":"ok"' $G_BENCH/results)" 3
	# It stays while it is used, and so does the benchmark while it is there.
	echo "workload=local contestants=kmalloc size=256 nr=4000000000" >$G_BENCH/run
	if rmmod pfrag_example_contestant 2>/tmp/rmmod.err; then
		g_fail "the contestant's module went while it ran"
	fi
	if rmmod pfrag_bench 2>/tmp/rmmod.err; then
		g_fail "the benchmark went before its contestant"
	fi
	echo stop >$G_BENCH/run
	g_wait stopped
	rmmod pfrag_example_contestant
	if grep -q kmalloc $G_BENCH/list; then
		g_fail "still listed"
	fi
	# Its name outlives it in the results.
	grep -q '"contestant":"kmalloc"' $G_BENCH/results
	rmmod pfrag_bench
	g_clean
}

CASES="
reports_time_and_ns_per_fragment
aligns_to_cache_lines
one_cpu_serves_both
slow_consumer_is_no_error
repeats_a_hundred_times
refuses_bad_cpus
refuses_bad_numbers
refuses_bad_contestants
survives_each_failing_step
goes_on_after_failed_allocations
fails_without_memory
ends_by_a_signal
runs_a_description
gives_memory_back
frees_what_is_queued
refuses_bad_descriptions
one_run_at_a_time
unloads_while_it_runs
fails_when_its_cpu_goes
takes_a_foreign_contestant
"

main()
{
	# Some rigs cannot do all: a file names what is asked of them.
	if [ -e /job.d/cases ]; then
		CASES=$(cat /job.d/cases)
	fi
	insmod pfrag.ko || exit
	for case in $CASES; do
		g_case "$case"
	done
	rmmod pfrag || exit
	exit $G_FAILED
}

main
