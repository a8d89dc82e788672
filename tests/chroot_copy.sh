# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Throw-away copies of the chroots that kernels.sh keeps; sourced after lib.sh.
#
# What a copy needs on top of its chroot is a layer, made once and kept in the cache.
# The user of this names a folder in $SHARED, which is /pfrag in each copy.

# What the base holds: a layer made on another base is not used.
base_stamp()
{
	dpkg-query --admindir="$1/var/lib/dpkg" -W | sha256sum | cut -c 1-16
}

# copy_make DIR LOWER[:LOWER]: a copy of chroots laid over each other, topmost first.
# An overlay where the file system of DIR can carry one, else a true copy.
copy_make()
{
	local dir=$1 lower=$2 why layer
	local -a layers

	mkdir -p "$dir/upper" "$dir/work" "$dir/root"
	echo "$lower" >"$dir/lower"
	if why=$(in_copy "$dir" true 2>&1); then
		return
	fi
	log "no overlay in $dir, copying: $why"
	rm "$dir/lower"
	IFS=: read -r -a layers <<<"$lower"
	for ((layer = ${#layers[@]} - 1; layer >= 0; layer--)); do
		cp -a --reflink=auto "${layers[layer]}/." "$dir/root/"
	done
}

# in_copy DIR COMMAND..: run it in there; $SHARED is /pfrag. The mounts are gone when
# it ends, as they are in a namespace of its own.
in_copy()
{
	local dir=$1
	shift

	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount -- bash -c 'set -e
		dir=$1 shared=$2
		shift 2
		if [ -e "$dir/lower" ]; then
			mount -t overlay overlay "$dir/root" -o \
				"lowerdir=$(cat "$dir/lower"),upperdir=$dir/upper,workdir=$dir/work"
		fi
		mkdir -p "$dir/root/pfrag"
		mount --bind "$shared" "$dir/root/pfrag"
		mount -t proc proc "$dir/root/proc"
		export LC_ALL=C.UTF-8 HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin
		export DEBIAN_FRONTEND=noninteractive INITRD=No
		unset TMPDIR
		exec chroot "$dir/root" "$@"' in_copy "$dir" "$SHARED" "$@"
}

# inside DIR FUNCTION ARGS..: a function of this file, run in the copy.
inside()
{
	local dir=$1 function=$2
	shift 2

	in_copy "$dir" bash -c "set -euo pipefail
		$(declare -f "$function")
		$function \"\$@\"" "$function" "$@"
}

layer_dir()
{
	echo "$PFRAG_CACHE/packaging/$1-$2-$(base_stamp "$PFRAG_CACHE/chroots/$1")"
}

install_packages()
{
	apt-get install -y --no-install-recommends "$@" ||
		{ apt-get update && apt-get install -y --no-install-recommends "$@"; }
	apt-get clean
}

# need_layer SUITE NAME PACKAGE..: packages on top of a chroot, kept in the cache.
need_layer()
{
	local suite=$1 name=$2 layer fd
	shift 2
	layer=$(layer_dir "$suite" "$name")

	[ ! -e "$layer" ] || return 0
	[ -z "${PFRAG_NO_INSTALL:-}" ] || die "missing, and nothing may be fetched: $* ($suite)"
	mkdir -p "$PFRAG_CACHE/packaging"
	exec {fd}>"$PFRAG_CACHE/lock.packaging"
	flock "$fd"
	if [ ! -e "$layer" ]; then
		# Of an older base, or left over from a run that was cut off.
		rm -rf --one-file-system "$PFRAG_CACHE/packaging/$suite-$name-"* "$layer.new"
		copy_make "$layer.new" "$PFRAG_CACHE/chroots/$suite"
		run_logged "$PFRAG_CACHE/packaging/$suite-$name.log" "installing $* ($suite)" \
			inside "$layer.new" install_packages "$@"
		if [ -e "$layer.new/lower" ]; then
			mv "$layer.new/upper" "$layer"
		else
			mv "$layer.new/root" "$layer"
		fi
		rm -rf --one-file-system "$layer.new"
	fi
	exec {fd}>&-
}
