#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the scripts share: messages, deferred cleanup, host packages, logged
# steps.  Sourced by them; run on its own it does nothing.
#
# A script that sources this must not set traps of its own: EXIT runs what
# defer() collected, and INT, TERM and HUP lead there.

# An error inside $(..) is an error; bash by itself goes on in there.
shopt -s inherit_errexit

PFRAG_TOP="${PFRAG_TOP:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
PFRAG_CACHE="${PFRAG_CACHE:-/var/cache/pfrag}"

declare -a pfrag_deferred=()

log()
{
	printf 'pfrag: %s\n' "$*" >&2
}

warn()
{
	log "warning: $*"
}

# die [-s STATUS] MESSAGE..
die()
{
	local status=1

	if [ "$1" = -s ]; then
		status="$2"
		shift 2
	fi
	log "error: $*"
	exit "$status"
}

# Run a command when the script ends, however it ends; the last one deferred
# runs first.  A subshell has its own list and runs none of ours.
defer()
{
	pfrag_deferred+=("$(printf '%q ' "$@")")
}

pfrag_run_deferred()
{
	local status=$?
	local i

	# A second signal must not cut the cleanup short.
	trap '' INT TERM HUP
	set +e
	for ((i = ${#pfrag_deferred[@]} - 1; i >= 0; i--)); do
		eval "${pfrag_deferred[i]}" || warn "cleanup failed: ${pfrag_deferred[i]}"
	done
	exit "$status"
}

trap pfrag_run_deferred EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

need_root()
{
	[ "$(id -u)" -eq 0 ] || die "this needs root; try: sudo $0"
}

pfrag_installed()
{
	local state

	# dpkg-query complains about a name it has never heard of: that is an answer.
	state="$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>&1)" && [ "$state" = installed ]
}

# Install what is missing of the packages named.
need_packages()
{
	local -a missing=()
	local logfile package

	for package in "$@"; do
		pfrag_installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	if [ -n "${PFRAG_NO_INSTALL:-}" ]; then
		die "packages are missing and nothing may be installed: ${missing[*]}"
	fi
	[ "$(id -u)" -eq 0 ] || die "packages are missing: apt-get install ${missing[*]}"
	log "installing from the host's own archive: ${missing[*]}"
	logfile="$(mktemp)"
	defer rm -f "$logfile"
	# The lists of a fresh machine are empty or too old: then fetch them and try again.
	run_logged "$logfile" "installing packages" pfrag_apt_install "${missing[@]}" ||
		die "could not install: ${missing[*]}"
}

pfrag_apt_install()
{
	local -a install=(apt-get install -y --no-install-recommends "$@")

	export DEBIAN_FRONTEND=noninteractive
	"${install[@]}" || { apt-get update && "${install[@]}"; }
}

# End a child of ours with all it started: it leads a process group of its own.
pfrag_end_group()
{
	# kill's complaint that there is none is the answer, not an error.
	if kill -0 -- "-$1" 2>/dev/null; then
		kill -TERM -- "-$1"
	fi
	# What is removed next must not be written to any more.
	wait "$1"
	return 0
}

# run_logged LOGFILE TITLE COMMAND ARGS..
# Returns the command's status.  Output goes to LOGFILE (appended), whose tail
# is shown when the command fails.  Says how long it has been at it.
run_logged()
{
	local logfile="$1" title="$2"
	local start=$SECONDS status=0 said=0 pid

	shift 2
	# Its own process group: INT from the terminal reaches us alone, and we
	# end the whole of it.
	set -m
	"$@" </dev/null >>"$logfile" 2>&1 &
	pid=$!
	set +m
	defer pfrag_end_group "$pid"

	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		if ((SECONDS - start >= said + 10)); then
			said=$((SECONDS - start))
			log "$title: $said s"
		fi
	done
	wait "$pid" || status=$?
	unset 'pfrag_deferred[-1]'

	if [ "$status" -ne 0 ]; then
		log "error: $title failed (status $status); the end of $logfile:"
		tail -n 25 "$logfile" | sed 's/^/    /' >&2
	elif ((said > 0)); then
		log "$title: done, $((SECONDS - start)) s"
	fi
	return "$status"
}
