#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs in a guest: the in-kernel tests, and what must hold afterwards.
set -e

insmod pfrag.ko
insmod pfrag_test.ko "steps=$(cat /job.d/steps)"
rmmod pfrag_test
[ "$(cat /sys/kernel/debug/pfrag/live_blocks)" = 0 ]
[ "$(cat /sys/kernel/debug/pfrag/live_pages)" = 0 ]
rmmod pfrag
