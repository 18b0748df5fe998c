#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the suite executes of the kernels: `make ptx-coverage`.

    coverage.py FILE..   merges the .info and .ptx files that PTXVM_COVERAGE left

Prints lines of each .cu and header and instructions of each function, names every line and every
function with instructions that were never executed, and fails below the thresholds.
"""
import re
import sys

LINES_LEAST = 95.0
INSTRUCTIONS_LEAST = 90.0


def merge_lines(paths):
    """{(file, line): executed}"""
    lines = {}
    for path in paths:
        name = ""
        with open(path, encoding="utf-8") as text:
            for row in text:
                if row.startswith("SF:"):
                    name = row[3:].strip()
                if row.startswith("DA:"):
                    line, hits = (int(n) for n in row[3:].split(",")[:2])
                    lines[name, line] = lines.get((name, line), False) or hits > 0
    return lines


def merge_functions(paths):
    """{(function, instructions): PTX lines that no run executed}; two modules may have functions of
    one name."""
    functions = {}
    for path in paths:
        with open(path, encoding="utf-8") as text:
            for row in text:
                match = re.match(r"(\S+) \d+ of (\d+), missed lines:(.*)", row)
                key = match.group(1), int(match.group(2))
                missed = set(int(n) for n in match.group(3).split())
                functions[key] = functions.get(key, missed) & missed
    return functions


def ranges(numbers):
    """1 2 3 7 as 1-3 7"""
    found = []
    for n in sorted(numbers):
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return " ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in found)


def share(hit, total):
    return 100.0 * hit / max(total, 1)


def main(paths):
    lines = merge_lines([p for p in paths if p.endswith(".info")])
    functions = merge_functions([p for p in paths if p.endswith(".ptx")])
    for name in sorted(set(name for name, _ in lines)):
        own = {line: hit for (file, line), hit in lines.items() if file == name}
        missed = [line for line, hit in own.items() if not hit]
        print("%-44s %5d of %5d lines  %s"
              % (name, len(own) - len(missed), len(own), "not: " + ranges(missed) if missed else ""))
    for (name, total), missed in sorted(functions.items()):
        if missed:
            print("%-44s %5d of %5d instructions" % (name, total - len(missed), total))
    hit = share(sum(lines.values()), len(lines))
    total = sum(count for _, count in functions)
    executed = share(total - sum(len(missed) for missed in functions.values()), total)
    print("lines %.1f %% (at least %g), instructions %.1f %% (at least %g)"
          % (hit, LINES_LEAST, executed, INSTRUCTIONS_LEAST))
    sys.exit(0 if hit >= LINES_LEAST and executed >= INSTRUCTIONS_LEAST else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
