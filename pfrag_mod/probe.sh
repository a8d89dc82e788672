#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Ask the target kernel what it has: compile each probe/*.c the way the module is
# compiled and write the answers as a header.
#
# usage: probe.sh OUT.h PROBE_DIR CC [FLAGS..]
#
# A probe that compiles answers "yes". Two controls keep the answers honest:
# control.c must compile (else an unknown flag would turn every answer into
# "no"), control_no.c must not (else an undeclared function would be a "yes").
set -eu

[ $# -ge 3 ] || { echo "usage: probe.sh OUT.h PROBE_DIR CC [FLAGS..]" >&2; exit 2; }
out=$1
dir=$2
shift 2

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

compiles() { # NAME CC FLAGS..
	probe=$1
	shift
	"$@" -c -o "$tmp/$probe.o" "$dir/$probe.c" >"$tmp/$probe.log" 2>&1
}

compiles control "$@" || {
	echo "probe.sh: $dir/control.c does not compile, so no probe can be trusted:" >&2
	cat "$tmp/control.log" >&2
	exit 1
}
if compiles control_no "$@"; then
	echo "probe.sh: $dir/control_no.c compiles although it must not: no probe can be trusted" >&2
	exit 1
fi

{
	echo "/* Written by probe.sh for one kernel tree; do not edit. */"
	for file in "$dir"/*.c; do
		probe=$(basename "$file" .c)
		case $probe in control | control_no) continue ;; esac
		name=PFRAG_HAVE_$(echo "$probe" | tr '[:lower:]' '[:upper:]')
		if compiles "$probe" "$@"; then
			echo "#define $name 1"
		else
			echo "/* $name is not set */"
		fi
	done
} >"$tmp/features.h"
mv "$tmp/features.h" "$out"
