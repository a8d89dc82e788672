#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Turn the raw rounds of pfrag_bench into medians, intervals and verdicts."""

import argparse
import errno
import json
import math
import statistics
import sys

# The smallest relative difference each rig can vouch for: emulated time moves with the
# load of the host, whatever the rounds say; counted instructions repeat to a thousandth;
# native time in User-Mode Linux repeats to 3 % from one run to the next.
RESOLUTION = {"vm": 0.05, "count": 0.001, "uml": 0.03}
UNIT = {"vm": "ns", "count": "instructions", "uml": "ns"}

# A contestant of this name is its twin's code once more: A against A.
SELF_SUFFIX = "_aa"

GROUP_FIELDS = ("workload", "size", "align", "depth", "batch", "cpus")
INTEGERS = ("run", "round", "size", "align", "depth", "batch", "asked", "failed_allocs", "ns")
STRINGS = ("workload", "contestant", "per", "status")
LISTS = ("cpus", "done")

EPILOG = """\
Each FILE holds the raw lines of one boot; several are pooled. Exit status: 0 all measured,
1 a contestant failed or a line is malformed, 2 usage, 3 nothing was measured.

examples:
  pfrag_stats.py --kernel 6.1.0-53-amd64 --rig vm raw.jsonl
  pfrag_stats.py --kernel 7.2.12+deb13-amd64 --rig count --boot plain --json raw.jsonl
"""


class Malformed(Exception):
    """A raw line that cannot be used; the text names the line."""


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def check_raw(raw):
    """Say what is wrong with a decoded raw line, or None."""
    if not isinstance(raw, dict):
        return "not a JSON object"
    for field in INTEGERS + STRINGS + LISTS + ("twin", "leaked"):
        if field not in raw:
            return f"field '{field}' is missing"
    good = {field: is_integer(raw[field]) for field in INTEGERS}
    good.update((field, isinstance(raw[field], str)) for field in STRINGS)
    good.update((field, isinstance(raw[field], list) and all(map(is_integer, raw[field])))
                for field in LISTS)
    good["twin"] = raw["twin"] is None or isinstance(raw["twin"], str)
    good["leaked"] = isinstance(raw["leaked"], dict) and all(
        is_integer(raw["leaked"].get(what)) for what in ("blocks", "pages"))
    for field, is_good in good.items():
        if not is_good:
            return f"field '{field}' has a value of the wrong type: {raw[field]!r}"
    if raw["status"] not in ("ok", "failed", "absent"):
        return f"field 'status' is none of ok, failed, absent: {raw['status']!r}"
    if raw["status"] == "ok" and (raw["ns"] <= 0 or raw["asked"] <= 0):
        return "status is ok, but 'ns' or 'asked' is not above zero"
    return None


class Contestant:
    """All rounds of one contestant under one description, and what they say."""

    def __init__(self, first):
        self.name = first["contestant"]
        self.twin = first["twin"]
        self.per = first["per"]
        self.rounds = {}    # (file, run, round) -> raw line
        self.figures = {}   # the same keys -> cost of one unit
        self.error = None   # why there are no figures, if it failed

    def add(self, key, raw):
        if (raw["twin"], raw["per"]) != (self.twin, self.per):
            return "'twin' or 'per' differs from this contestant's earlier lines"
        if self.rounds.setdefault(key, raw) is not raw:
            return f"round {raw['round']} of run {raw['run']} is there twice"
        return None

    def judge(self, expected):
        """Find out whether the rounds may be used; expected: rounds of the group."""
        if any(raw["status"] == "absent" for raw in self.rounds.values()):
            self.status = "absent"
            return
        faults = [fault for fault in map(self.fault, self.rounds.values()) if fault]
        missing = len(expected - self.rounds.keys())
        if missing:
            faults.append(f"{missing} of {len(expected)} rounds are missing")
        if faults:
            self.status, self.error = "failed", faults[0]
            return
        self.status = "ok"
        self.figures = {key: raw["ns"] / raw["asked"] for key, raw in self.rounds.items()}

    @staticmethod
    def fault(raw):
        where = f"round {raw['round']}"
        if raw["status"] == "failed":
            reason = raw.get("error", "no reason given")
            if is_integer(reason) and -reason in errno.errorcode:
                reason = f"-{errno.errorcode[-reason]}"
            return f"{reason} in {where}"
        if not raw["done"] or any(done != raw["asked"] for done in raw["done"]):
            return f"done {raw['done']} of {raw['asked']} in {where}"
        if raw["leaked"]["blocks"] or raw["leaked"]["pages"]:
            return "leaked {blocks} blocks, {pages} pages in ".format(**raw["leaked"]) + where
        return None

    def median(self):
        return statistics.median(self.figures.values())

    def scatter(self):
        """How far the middle half of the rounds spreads, relative to the median."""
        costs = self.figures.values()
        return (nearest_rank(costs, 75) - nearest_rank(costs, 25)) / self.median()

    def leaked(self):
        """The worst round, so that a leak and a double free cannot cancel."""
        return {what: max((raw["leaked"][what] for raw in self.rounds.values()), key=abs)
                for what in ("blocks", "pages")}


def read_groups(paths):
    """Return {group key: {contestant's name: Contestant}}, in order of appearance."""
    groups = {}
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for number, line in enumerate(stream, 1):
                fault = line.strip() and add_line(groups, path, line)
                if fault:
                    raise Malformed(f"{path}:{number}: {fault}")
    for group in groups.values():
        expected = {key for contestant in group.values()
                    for key, raw in contestant.rounds.items() if raw["status"] != "absent"}
        for contestant in group.values():
            contestant.judge(expected)
    return groups


def add_line(groups, path, line):
    try:
        raw = json.loads(line)
    except ValueError as error:
        return f"not JSON: {error}"
    fault = check_raw(raw)
    if fault:
        return fault
    raw["cpus"] = tuple(raw["cpus"])    # a key must not change
    group = groups.setdefault(tuple(raw[field] for field in GROUP_FIELDS), {})
    contestant = group.setdefault(raw["contestant"], Contestant(raw))
    return contestant.add((path, raw["run"], raw["round"]), raw)


def nearest_rank(values, percent):
    ordered = sorted(values)
    return ordered[max(math.ceil(percent * len(ordered) / 100), 1) - 1]


def median_interval(values):
    """Bounds of the median at 95 % or more; with fewer than 6 values min and max.

    Order statistics (the sign test turned round), not a bootstrap: rounds are few and
    their noise is lopsided, and this assumes no distribution, needs no random numbers, and
    can be checked by hand. It takes the tightest pair of ranks k and n + 1 - k that misses
    the median in at most one case of twenty.
    """
    ordered = sorted(values)
    count = len(ordered)
    rank, missed_by_next = 1, 1 + count
    while 2 * missed_by_next * 20 <= 2 ** count:
        rank += 1
        missed_by_next += math.comb(count, rank)
    return ordered[rank - 1], ordered[count - rank]


def compare(ours, other):
    """Ratio of the medians with an interval; judge() saw to it that both have the same rounds.

    Rounds are paired: neighbours in time share the machine's drift, which cancels in
    their ratio. The median of those ratios need not be the ratio of the medians, so the
    interval is widened to hold it where it does not.
    """
    if not ours.figures or not other.figures:
        return None
    ratio = ours.median() / other.median()
    low, high = median_interval([cost / other.figures[key]
                                 for key, cost in ours.figures.items()])
    return ratio, min(low, ratio), max(high, ratio)


def verdict_of(ratio, low, high, resolution):
    if low <= 1 <= high or abs(ratio - 1) <= resolution:
        return "same"
    return "faster" if ratio < 1 else "slower"


def self_spread(group):
    """How far A against A strays from 1, at the far end of its interval; None without one."""
    spreads = []
    for contestant in group.values():
        twin = group.get(contestant.twin)
        if contestant.name.endswith(SELF_SUFFIX) and twin:
            comparison = compare(contestant, twin)
            if comparison:
                spreads.append(max(abs(one - 1) for one in comparison))
    return max(spreads, default=None)


def resolution_of(group, about):
    """The smallest difference to be claimed: the rig's, or its own spread if that is more."""
    return max(RESOLUTION[about.rig], self_spread(group) or 0)


def summarise(key, group, contestant, about):
    """One JSON object of the runner's output."""
    figures = contestant.figures.values()
    noop = group.get("noop")
    twin = group.get(contestant.twin)
    row = dict(kernel=about.kernel, rig=about.rig, boot=about.boot, workload=key[0],
               contestant=contestant.name, **dict(zip(GROUP_FIELDS[1:], key[1:])),
               mtu=None, gro=None, unit=about.unit, per=contestant.per, noop=None,
               median=None, min=None, max=None, p99=None, rounds=None,
               baseline=contestant.twin, ratio=None, ratio_lo=None, ratio_hi=None,
               verdict=None, leaked=contestant.leaked(), status=contestant.status)
    if contestant.status == "absent" or (twin and twin.status == "absent"):
        row["verdict"] = "absent"
    if not figures:
        return row
    row.update(median=round(contestant.median(), 4), min=round(min(figures), 4),
               max=round(max(figures), 4), p99=round(nearest_rank(figures, 99), 4),
               rounds=len(figures))
    if noop and noop.figures:
        row["noop"] = round(noop.median(), 4)
    comparison = twin and compare(contestant, twin)
    if comparison:
        row["ratio"], row["ratio_lo"], row["ratio_hi"] = (round(one, 5) for one in comparison)
        row["verdict"] = verdict_of(*comparison, resolution_of(group, about))
    return row


def describe(key, per, unit):
    name, size, align, depth, batch, cpus = key
    words = [name, f"{size} bytes", align and f"aligned to {align}", f"depth {depth}",
             batch != 1 and f"batch {batch}", "CPU " + ",".join(map(str, cpus))]
    return f"{', '.join(filter(None, words))}: {unit} per {per}"


def words_of(row, contestant):
    """The verdict column."""
    if contestant.status == "failed":
        return f"FAILED: {contestant.error}"
    if contestant.status == "absent":
        return "absent: this kernel does not have it"
    if contestant.name == "noop":
        return "the harness alone"
    if contestant.name.endswith(SELF_SUFFIX):
        return f"{row['baseline']} against itself"
    if row["baseline"] is None:
        return "in-tree"
    words = {"faster": "faster than {}", "slower": "slower than {}", "same": "same as {}"}
    return words.get(row["verdict"], "no {} to compare with").format(row["baseline"])


def winner_line(group, about):
    """Name the cheapest contestant, and how the others stand to it."""
    ranked = sorted((one for one in group.values() if one.figures and one.name != "noop"
                     and not one.name.endswith(SELF_SUFFIX)), key=Contestant.median)
    if len(ranked) < 2:
        return "No winner: fewer than two can be compared."
    best, tied, behind = ranked[0], [], []
    for other in ranked[1:]:
        ratio, low, high = compare(other, best)
        if verdict_of(ratio, low, high, resolution_of(group, about)) == "same":
            tied.append(other.name)
        else:
            behind.append(f"{other.name} takes {ratio:.2f} [{low:.2f} {high:.2f}] times as "
                          + ("many instructions" if about.unit == "instructions" else "long"))
    head = (f"No winner: {' and '.join([best.name] + tied)} are the same within the error"
            if tied else f"Winner: {best.name}")
    return "; ".join([head] + behind) + "."


def table_rows(pairs):
    yield ("contestant", "median", "min", "", "max", "rounds", "ratio", "95 % interval", "verdict")
    # The harness first, then the cheapest; what has no figure comes last.
    for contestant, row in sorted(pairs, key=lambda pair: (
            pair[0].name != "noop", pair[1]["median"] is None, pair[1]["median"] or 0)):
        cells = [contestant.name] + [""] * 7
        if row["median"] is not None:
            cells[1:6] = (f"{row['median']:.2f}", f"{row['min']:.2f}", "…",
                          f"{row['max']:.2f}", str(row["rounds"]))
        if row["ratio"] is not None:
            cells[6:8] = (f"{row['ratio']:.3f}",
                          f"[{row['ratio_lo']:.3f} {row['ratio_hi']:.3f}]")
        yield (*cells, words_of(row, contestant))


def notes_on(group, rows, about):
    spread = self_spread(group)
    if spread is not None:
        yield (f"A against A strays {spread:.2%}: differences below "
               f"{resolution_of(group, about):.2%} are called the same.")
    for contestant, row in zip(group.values(), rows):
        name = contestant.name
        refused = sum(raw["failed_allocs"] for raw in contestant.rounds.values())
        if refused:
            yield f"{refused} allocations of {name} failed."
        if contestant.figures and name != "noop" and contestant.scatter() > 0.1:
            yield f"the rounds of {name} scatter: was the machine busy?"
        if row["ratio"] is not None and row["rounds"] < 6:
            yield f"the interval of {name} is less than 95 %: it takes 6 rounds."


def print_group(key, group, rows, about):
    print(describe(key, rows[0]["per"], about.unit) + "\n")
    cells = list(table_rows(zip(group.values(), rows)))
    widths = [max(map(len, column)) for column in zip(*cells)]
    left = (0, len(widths) - 1)     # names and words; figures stand to the right
    for line in cells:
        padded = (text.ljust(width) if column in left else text.rjust(width)
                  for column, (text, width) in enumerate(zip(line, widths)))
        print("  " + "  ".join(padded).rstrip())
    print()
    for note in notes_on(group, rows, about):
        print(f"  Note: {note}")
    print(f"  {winner_line(group, about)}\n")


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", required=True, help="release the rounds come from")
    parser.add_argument("--rig", required=True, choices=sorted(RESOLUTION))
    parser.add_argument("--boot", default="zeroing", choices=("zeroing", "plain"))
    parser.add_argument("--unit", choices=("instructions", "ns"), help="default: the rig's own")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON lines instead of the table")
    form.add_argument("--plot", action="store_true", help="label, median, min, max for gnuplot")
    parser.add_argument("files", nargs="+", metavar="FILE", help="raw lines of one boot")
    about = parser.parse_args(argv)
    about.unit = about.unit or UNIT[about.rig]
    return about


def main(argv):
    about = parse_arguments(argv)
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        groups = read_groups(about.files)
    except (Malformed, OSError) as error:
        print(f"pfrag_stats.py: {error}", file=sys.stderr)
        return 1
    everything = []
    for key, group in groups.items():
        rows = [summarise(key, group, one, about) for one in group.values()]
        everything += rows
        if not about.json and not about.plot:
            print_group(key, group, rows, about)
    for row in everything:
        if about.json:
            print(json.dumps(row))
        elif about.plot and row["median"] is not None:
            print(f"\"{row['workload']} {row['size']}x{row['depth']} {row['contestant']}\" "
                  f"{row['median']} {row['min']} {row['max']}")
    statuses = {row["status"] for row in everything}
    return 1 if "failed" in statuses else 0 if "ok" in statuses else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
