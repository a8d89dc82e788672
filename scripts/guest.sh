#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the rigs that boot a guest share: their options, the guest's file system,
# and what its end means.  Sourced after lib.sh; run on its own it does nothing.
#
# A rig has a function rig_option NAME VALUE for options of its own, which returns
# false for a name that it does not know, and a usage().

# The options are the rig's to use.
# shellcheck disable=SC2034

# --- options ---------------------------------------------------------------

need_value()
{
	[ "$2" -ge 2 ] || die -s 2 "$1 wants a value"
}

need_number()
{
	[[ $2 =~ ^[1-9][0-9]*$ ]] || die -s 2 "$1 wants a number above 0, not '$2'"
}

unknown_option()
{
	die -s 2 "unknown option: $1 (see: ${0##*/} --help)"
}

parse_options()
{
	modules='' job='' append='' cpus='' mem=1024 limit=300 logfile='' splats=''
	files=() command=()

	while [ $# -gt 0 ]; do
		case "$1" in
		-h | --help)
			usage
			exit 0
			;;
		--)
			shift
			break
			;;
		--*)
			need_value "$1" $#
			parse_option "$1" "$2"
			shift 2
			;;
		-*)
			unknown_option "$1"
			;;
		*)
			break
			;;
		esac
	done
	command=("$@")
}

parse_option()
{
	case "$1" in
	--modules)	modules="$2" ;;
	--file)		files+=("$2") ;;
	--job)		job="$2" ;;
	--append)	append="$2" ;;
	--cpus)		cpus="$2"; need_number "$1" "$2" ;;
	--mem)		mem="$2"; need_number "$1" "$2" ;;
	--timeout)	limit="$2"; need_number "$1" "$2" ;;
	--log)		logfile="$2" ;;
	--splats)	splats="$2" ;;
	*)		rig_option "$1" "$2" || unknown_option "$1" ;;
	esac
}

check_job()
{
	[ -z "$modules" ] || [ -d "$modules" ] || die -s 2 "--modules $modules: no such folder"
	[ -z "$logfile" ] || [ -d "$(dirname "$logfile")" ] ||
		die -s 2 "--log $logfile: no such folder"
	[ -z "$job" ] || [ -f "$job" ] || die -s 2 "--job $job: no such file"
	if [ -n "$job" ]; then
		[ ${#command[@]} -eq 0 ] || die -s 2 "either --job or a command, not both: '${command[*]}'"
	else
		[ ${#command[@]} -gt 0 ] || die -s 2 "no job: give a command or --job SCRIPT"
	fi
}

# --- the guest's file system -----------------------------------------------

# A program of the host with the libraries it needs, at the same paths.
add_program()
{
	local root="$1" program="$2" lib

	install -D "$program" "$root$3"
	for lib in $(ldd "$program" | grep -o -E '/[^ ]+'); do
		[ -e "$root$lib" ] || install -D "$(realpath "$lib")" "$root$lib"
	done
}

make_tree()
{
	local root="$1" name file

	mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,dev,proc,sys,tmp,etc,lib/pfrag,job.d}
	cp /bin/busybox "$root/bin/busybox"
	for name in $(/bin/busybox --list | grep -v -x busybox); do
		ln -s /bin/busybox "$root/bin/$name"
	done
	# busybox takes its own applets whatever PATH says, in its shell and in what
	# runs another program, and its insmod runs a failing init a second time.
	for name in bash dash env nice taskset timeout xargs; do
		rm -f "$root/bin/$name"
		add_program "$root" "$(command -v "$name")" "/bin/$name"
	done
	ln -sf dash "$root/bin/sh"
	add_program "$root" "$(command -v kmod)" /bin/kmod
	for name in insmod rmmod lsmod modinfo modprobe depmod; do
		ln -sf kmod "$root/bin/$name"
	done

	install "$HERE/guest_init" "$root/init"
	if [ -n "$modules" ]; then
		find "$modules" -maxdepth 1 -name '*.ko' -exec cp -t "$root/lib/pfrag" {} +
	fi
	for file in ${files[@]+"${files[@]}"}; do
		add_file "$root" "$file"
	done
	if [ -n "$job" ]; then
		install "$job" "$root/job"
	else
		# bash, as its %q may quote in a way that is bash's own.
		printf '#!/bin/bash\nexec%s\n' "$(printf ' %q' "${command[@]}")" >"$root/job"
		chmod 755 "$root/job"
	fi
}

# PATH or PATH:NAME; a file whose own name has a colon is taken as it is.
add_file()
{
	local root="$1" path="$2" name

	name="$(basename "$path")"
	if [ ! -f "$path" ]; then
		name="${path##*:}"
		path="${path%:*}"
	fi
	[ -f "$path" ] || die -s 2 "--file $2: no such file"
	install -D "$path" "$root/job.d/$name"
}

make_initrd()
{
	local root="$1" initrd="$2"

	make_tree "$root"
	# The same content gives the same archive, and the count rig the same boot.
	find "$root" -exec touch -h -d @0 {} +
	(cd "$root" && find . | LC_ALL=C sort | cpio -o -H newc --owner=0:0 --reproducible --quiet) >"$initrd"
}

# --- the end -----------------------------------------------------------------

show_tail()
{
	log "the end of the kernel log of $2:"
	tr -d '\r' <"$1" | tail -n 30 | sed 's/^/    /' >&2
}

# end_of_guest NAME MACHINE STATUS STATUSFILE LOG: ends the rig with the job's status,
# or with what MACHINE's own STATUS says of a guest that reported none.
end_of_guest()
{
	local name="$1" machine="$2" status="$3" status_file="$4" kernlog="$5"

	if [ -s "$status_file" ]; then
		exit "$(tr -d -c 0-9 <"$status_file")"
	fi
	case "$status" in
	124 | 137)
		show_tail "$kernlog" "$name"
		die -s 124 "the guest ($name) hung: no end within $limit s"
		;;
	0)
		show_tail "$kernlog" "$name"
		die -s 125 "the guest ($name) panicked or ended without a status"
		;;
	*)
		[ ! -s "$kernlog" ] || show_tail "$kernlog" "$name"
		die "$machine failed (status $status)"
		;;
	esac
}
