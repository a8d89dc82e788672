# SPDX-License-Identifier: GPL-2.0
#
# Prints a kernel log without the one splat that the checked kernel causes itself.
# It must be there word for word, as known_splat.txt has it, and goes once; a splat
# that differs anywhere stays.
#
# usage: awk -v known=known_splat.txt -f known_splat.awk LOG

# A line less what differs from build to build and from boot to boot.
function plain(line)
{
	sub(/^\[ *[0-9]+\.[0-9]+\] ?/, "", line)
	gsub(/\[<[0-9a-f]+>\] /, "", line)
	gsub(/\+0x[0-9a-f]+\/0x[0-9a-f]+/, "", line)
	sub(/\.c:[0-9]+ /, ".c:LINE ", line)
	gsub(/[0-9]+\.[0-9]+(\.[0-9]+)? #[0-9]+/, "VERSION", line)
	sub(/[ \r]+$/, "", line)
	return line
}

# Words of the stack, and what merely lay there.
function noise(line)
{
	return line ~ /^( +[0-9a-f]+)+$/ || line ~ /^ +\? /
}

function give_up()
{
	printf "%s", raw
	raw = text = ""
}

BEGIN {
	while ((getline line <known) > 0)
		if (line !~ /^#/)
			wanted = wanted line "\n"
	if (wanted == "") {
		print "known_splat.awk: cannot read " known >"/dev/stderr"
		exit 2
	}
}

{
	line = plain($0)
	if (line ~ /^=+$/)
		give_up()
	else if (raw == "") {
		print
		next
	}
	raw = raw $0 "\n"
	if (noise(line))
		next
	text = text line "\n"
	if (!seen && text == wanted) {
		seen = 1
		raw = text = ""
	} else if (seen || index(wanted, text) != 1) {
		give_up()
	}
}

END {
	give_up()
}
