#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# How the tree's modules are built, whatever they are built for.  Sourced after
# lib.sh; run on its own it does nothing.

# Warnings of a build, less the notes that say nothing about our code.
warnings_in()
{
	sed -n -E -e '/Skipping BTF generation|pahole/d' \
		-e '/the compiler differs from the one used to build the kernel/d' \
		-e '/warning[: ]/Ip' "$1"
}

# build_modules NAME OUT ENTER MAKEARG..
# ENTER is a function: ENTER DIR COMMAND.. runs a command where the compiler is,
# with DIR as /build.  OUT gets the modules, Module.symvers, pfrag_features.h and
# build.log; a warning makes it fail.
build_modules()
{
	local name="$1" out="$2" enter="$3" work found
	local status=0

	shift 3
	[ -d "$PFRAG_TOP/pfrag_mod" ] || die "no sources: $PFRAG_TOP/pfrag_mod"
	mkdir -p "$out"
	# What an earlier build left must not pass for the outcome of this one.
	rm -f "$out"/*.ko "$out/Module.symvers" "$out/pfrag_features.h"
	work="$(mktemp -d)"
	defer rm -rf "$work"
	# A copy without what an earlier build in the tree may have left.
	tar -c -C "$PFRAG_TOP" --exclude='*.o' --exclude='*.ko' --exclude='*.mod' --exclude='*.mod.c' \
		--exclude='.*.cmd' --exclude='*.symvers' --exclude='pfrag_features.h' pfrag_mod | tar -x -C "$work"

	{
		echo "kernel $name"
		echo "compiler $("$enter" "$work" gcc --version | head -n 1)"
	} >"$out/build.log"
	# The same path in every build: modules of the same sources come out the same.
	run_logged "$out/build.log" "modules for $name" \
		"$enter" "$work" make M=/build/pfrag_mod W=1 "-j$(nproc)" "$@" modules || status=$?
	[ "$status" -eq 0 ] || die "the modules do not build for $name"
	found="$(warnings_in "$out/build.log")"
	if [ -n "$found" ]; then
		printf '%s\n' "$found" >&2
		die "warnings in the build for $name (log: $out/build.log)"
	fi
	find "$work/pfrag_mod" -maxdepth 1 \( -name '*.ko' -o -name Module.symvers -o -name pfrag_features.h \) \
		-exec cp -t "$out" {} +
}
