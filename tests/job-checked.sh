#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs in a kernel with its checkers on: the in-kernel tests, and what kmemleak says.
set -e

for attr in fail_page_alloc failslab; do
	# A failure that is asked for is no splat.
	echo 0 >/sys/kernel/debug/$attr/verbose
done
# Every page allocation may fail, single pages and sleeping ones too.
echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order

insmod pfrag.ko
echo clear >/sys/kernel/debug/kmemleak
insmod pfrag_test.ko "steps=$(cat /job.d/steps)"
rmmod pfrag_test
[ "$(cat /sys/kernel/debug/pfrag/live_blocks)" = 0 ]
[ "$(cat /sys/kernel/debug/pfrag/live_pages)" = 0 ]
rmmod pfrag

# kmemleak believes what it sees twice, and only some seconds old.
sleep 6
echo scan >/sys/kernel/debug/kmemleak
echo scan >/sys/kernel/debug/kmemleak
leaks=$(cat /sys/kernel/debug/kmemleak)
echo "$leaks"
[ -z "$leaks" ]
