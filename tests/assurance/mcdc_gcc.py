#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mcdc_gcc.py OUT [CLANG]: what gcc's condition coverage says of the library, and where clang differs.

Reads from standard input what `gcov --conditions --json-format --stdout` prints, one object a line, and
from CLANG what mcdc_conditions.awk prints with places=1. Writes to the folder OUT

    conditions.tsv   FILE FUNCTION LINE DECISION CONDITION TRUE FALSE: 1 where this outcome was shown to decide;
                     `2 of 3`: the second decision of three conditions of this line
    differences.tsv  conditions that one compiler holds for shown and the other does not
    summary.tsv      the table that it prints

gcc says a line of each decision and no columns: what is compared are decisions of as many conditions
that can only be the same (pair). Fails where nothing was measured."""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("arena", "core", "optim", "layers", "tools/formats", "device/host")
# As mcdc_conditions.awk: what one instruction set alone compiles is left out.
VECTORS = re.compile(r"_(avx2|avx512)\.[ch]$|^device/host/(elements/(elements|mask)|attention/attention)_vector\.h$")


# So many differences are printed; the file has all.
PRINTED = 60


def folder_of(path):
    return next((f for f in FOLDERS if path.startswith(f + "/")), None)


def read_gcov(lines):
    """{(file, line, conditions, nth): [[true, false] per condition]} and {(file, line): function}; an outcome that
    one object shows is shown: a file may be compiled for several types, a header into many objects."""
    decisions, functions = {}, {}
    for line in lines:
        for source in json.loads(line)["files"] if line.strip() else ():
            path = os.path.normpath(source["file"])
            if folder_of(path) is None or VECTORS.search(path) or not os.path.isfile(os.path.join(ROOT, path)):
                continue
            for at in source["lines"]:
                seen = {}
                for decision in at.get("conditions", ()):
                    count = decision["count"] // 2
                    seen[count] = seen.get(count, 0) + 1
                    key = (path, at["line_number"], count, seen[count])
                    functions[key[:2]] = min(at.get("function_name", "?"), functions.get(key[:2], "~"))
                    outcomes = decisions.setdefault(key, [[False, False] for _ in range(count)])
                    for i in range(count):
                        outcomes[i][0] |= i not in decision["not_covered_true"]
                        outcomes[i][1] |= i not in decision["not_covered_false"]
    return decisions, functions


def read_clang(path):
    """[(file, first line, last line, [(function, line, text, shown) per condition])], in order."""
    whole = {}
    for line in open(path, encoding="utf-8"):
        file, function, row, text, shown, place, number = line.rstrip("\n").split("\t")
        of = whole.setdefault((file,) + tuple(int(n) for n in re.split("[:-]", place)), {})
        before = of.get(int(number), (0, 0, 0, False))[3]
        of[int(number)] = (function, int(row), text, before or shown == "1")
    # As gcc counts them, conditions that are constant are left out, and with them decisions of one that stay.
    found = [(key[0], key[1], key[3], [c for _, c in sorted(of.items())]) for key, of in sorted(whole.items())]
    return [decision for decision in found if len(decision[3]) > 1]


def pair(decisions, clang):
    """{index in clang: outcomes of the same decision by gcc}. gcc's line is that of the first condition or, where a
    decision has several lines, any of them: those of one line are taken in order if both have as many, what is
    left then where there is only one on either side."""
    by_line, pairs, left = {}, {}, {}
    for key in sorted(decisions):
        by_line.setdefault(key[:3], []).append(key)
    on_line = {}
    for index, (file, _, _, conditions) in enumerate(clang):
        on_line.setdefault((file, conditions[0][1], len(conditions)), []).append(index)
    for at, indices in on_line.items():
        if len(by_line.get(at, ())) == len(indices):
            pairs.update(zip(indices, by_line.pop(at)))
    for (file, _, count), keys in by_line.items():
        left.setdefault((file, count), []).extend(keys)
    wanted = {}
    for index, (file, first, last, conditions) in enumerate(clang):
        near = [k for k in left.get((file, len(conditions)), ()) if first - 1 <= k[1] <= last] if index not in pairs else []
        if len(near) == 1:
            wanted.setdefault(near[0], []).append(index)
    pairs.update((indices[0], key) for key, indices in wanted.items() if len(indices) == 1)
    return {index: decisions[key] for index, key in pairs.items()}


def read_justified():
    reasons = {}
    for line in open(os.path.join(ROOT, "tests/assurance/mcdc.justified"), encoding="utf-8"):
        parts = line.rstrip("\n").split("`")
        if not line.startswith("#") and len(parts) == 3:
            reasons[parts[0].strip(), parts[1]] = parts[2].strip()
    return reasons


def compare(decisions, clang, reasons):
    """Rows of differences, {folder: counts}, and how many of clang's conditions have no equal of gcc's."""
    rows, counts, alone = [], {f: dict.fromkeys(("compared", "clang", "gcc", "justified"), 0) for f in FOLDERS}, 0
    pairs = pair(decisions, clang)
    for index, (file, _, _, conditions) in enumerate(clang):
        if index not in pairs:
            alone += len(conditions)
            continue
        of = counts[folder_of(file)]
        for (function, line, text, shown), outcome in zip(conditions, pairs[index]):
            reason = reasons.get((file + ":" + function, text), "")
            of["compared"] += 1
            of["justified"] += bool(reason) and not all(outcome)
            if shown != all(outcome):
                of["clang" if shown else "gcc"] += 1
                lacks = [word for word, it in zip(("true", "false"), outcome) if not it]
                said = "clang alone, gcc lacks " + " and ".join(lacks) if shown else "gcc alone"
                rows.append((file, line, function, text, said, reason))
    return [("%s:%d" % row[:2],) + row[2:] for row in sorted(rows)], counts, alone


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("".join("\t".join(str(c) for c in row) + "\n" for row in rows))


def tally(decisions):
    """{folder: [outcomes shown, of; conditions of decisions with two or more shown, of]}"""
    total = {f: [0, 0, 0, 0] for f in FOLDERS}
    for (path, _, count, _), outcomes in decisions.items():
        of = total[folder_of(path)]
        of[0] += sum(sum(o) for o in outcomes)
        of[1] += 2 * count
        if count > 1:
            of[2] += sum(all(o) for o in outcomes)
            of[3] += count
    return total


def share(part, whole):
    return "%.1f %%" % (100 * part / whole) if whole else "-"


def main(arguments):
    out = arguments[0]
    decisions, functions = read_gcov(sys.stdin)
    write(os.path.join(out, "conditions.tsv"),
          [(key[0], functions[key[:2]], key[1], "%d of %d" % (key[3], key[2]), i + 1, int(o[0]), int(o[1])) for key in sorted(decisions) for i, o in enumerate(decisions[key])])
    total = tally(decisions)
    head = ["folder", "outcomes shown", "of", "share", "conditions of decisions with two or more", "of", "share"]
    table = [[f, t[0], t[1], share(t[0], t[1]), t[2], t[3], share(t[2], t[3])] for f, t in total.items()]
    differences, alone = [], 0
    if len(arguments) > 1:
        differences, counts, alone = compare(decisions, read_clang(arguments[1]), read_justified())
        head += ["compared with clang", "clang alone", "gcc alone", "justified"]
        for row in table:
            row += counts[row[0]].values()
        write(os.path.join(out, "differences.tsv"), [("place", "function", "condition", "shown by", "justified")] + differences)
    write(os.path.join(out, "summary.tsv"), [head] + table)
    print("%-13s %21s %8s   %21s %8s%s" % ("folder", "outcomes shown", "", "two or more: shown", "", "   compared, clang alone, gcc alone, justified" if len(arguments) > 1 else ""))
    for row in table:
        print("%-13s %12d/%8d %8s   %12d/%8d %8s" % tuple(row[:7]) + ("   %8d %8d %8d %8d" % tuple(row[7:]) if row[7:] else ""))
    for row in differences[:PRINTED]:
        print("    %s %s `%s` %s%s" % (row[0], row[1], row[2], row[3], " (justified: %s)" % row[4] if row[4] else ""))
    if len(differences) > PRINTED:
        print("    and %d more in %s/differences.tsv" % (len(differences) - PRINTED, out))
    if alone:
        print("%d conditions of clang are in no decision that gcc counts alike: simplified, or told apart otherwise" % alone)
    if not decisions:
        print("gcov said nothing of any condition")
    return 0 if decisions else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
