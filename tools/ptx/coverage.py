#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the suite executes of the kernels: `make ptx-coverage`.

    coverage.py FILE..   merges the .info and .ptx files that PTXVM_COVERAGE left

Prints lines of each .cu and header, instructions of each function, and how many instructions were never
executed for each reason of tools/ptx/unexecuted. Fails below the thresholds, and where an instruction
was not executed that no row of that table covers.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import compile as ptx

LINES_LEAST = 95.0
INSTRUCTIONS_LEAST = 90.0
TABLE = os.path.join(ptx.ROOT, "tools/ptx/unexecuted")
# The head of a function in a source: its name, which a macro may make.
HEAD = re.compile(r"^(?:BP_KERNEL|BP_DEVICE|static|extern)\b[^;=]*|^    (?=NAME\(bp_|bp_\w+\(void)")
NAME = re.compile(r"(?:NAME\()?\b(?!NAME\b|__launch_bounds__)(\w+)\)?\(")

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
    """{(function, its first instruction's line): [instructions, PTX lines that no run executed]}; two
    modules may have functions of one name."""
    functions = {}
    for path in paths:
        with open(path, encoding="utf-8") as text:
            for row in text:
                match = re.match(r"(\S+) \d+ of (\d+), missed lines:(.*) from (\d+)$", row)
                missed = set(int(n) for n in match.group(3).split())
                known = functions.setdefault((match.group(1), int(match.group(4))),
                                             [int(match.group(2)), missed])
                known[1] &= missed
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


def read_table():
    """Rows of the table as (file, function, instruction, reason), * for any, and the reasons' words."""
    rows, words = [], {}
    with open(TABLE, encoding="ascii") as table:
        for line in table:
            reason = re.match(r"(\w+): (.*)", line)
            if reason:
                words[reason.group(1)] = reason.group(2)
            elif line.strip() and not line.startswith(("#", " ")):
                rows.append(tuple(line.split()))
    return rows, words


def is_instruction(line):
    return line.endswith(";") and not line.startswith(".")


def entries():
    """{(function, its first instruction's line): (module, lines of its text, source files)}"""
    found = {}
    for row in ptx.modules():
        with open(os.path.join(ptx.ROOT, ptx.text_of(row)), encoding="ascii") as file:
            lines = [""] + file.read().split("\n")
        files = dict(re.findall(r'^\.file (\d+) "([^"]+)"', "\n".join(lines), re.M))
        name = ""
        for number, line in enumerate(lines):
            head = re.match(r"\.visible \.entry (\w+)\(", line)
            name = head.group(1) if head else name
            if name and is_instruction(line):
                found[name, number] = row["name"], lines, files
                name = ""
    return found


def function_at(path, line, cache={}):
    """The C function of a source line: the last one that begins at it or before."""
    if path not in cache:
        heads, name = [""], ""
        with open(os.path.join(ptx.ROOT, path), encoding="utf-8") as source:
            for text in source:
                head = HEAD.match(text) and NAME.search(text)
                name = head.group(1) if head else name
                heads.append(name)
        cache[path] = heads
    return cache[path][min(line, len(cache[path]) - 1)]


def blocks(lines, first, missed):
    """Blocks of instructions that were not executed, as lists of (instruction, file, line)."""
    block, place = [], (None, 0)
    number, depth = first, 1
    while depth > 0: # inline assembly has braces of its own
        line = lines[number]
        depth += (line == "{") - (line == "}")
        at = re.match(r"\.loc (\d+) (\d+)", line)
        place = at.groups() if at else place
        if number in missed:
            block.append((line,) + place)
        ends = line.endswith(":") or re.match(r"(@\S+ )?(bra|ret|exit)\b", line)
        if block and (ends or (is_instruction(line) and number not in missed)):
            yield block
            block = []
        number += 1
        if number + 1 >= len(lines) or lines[number].startswith(".visible"):
            break
    if block:
        yield block


def covers(row, block, path, line, executed):
    """Whether a row of the table is about one instruction of a block."""
    file, function, instruction, reason = row
    if file not in ("*", os.path.basename(path)) or function not in ("*", function_at(path, line)):
        return False
    words = [text.split(" ")[0] for text, _, _ in block]
    if instruction.startswith("only:"):
        return all(word in (instruction[5:], "bra") for word in words)
    if reason == "elsewhere" and not executed.get((path, line), False):
        return False
    return instruction == "*" or instruction in words


def explain(functions, executed):
    """{reason: instructions} of the table, and what no row covers."""
    rows, words = read_table()
    known = entries()
    counts = {reason: 0 for reason in words}
    unlisted, used = [], set()
    for (name, first), (_, missed) in sorted(functions.items()):
        if missed and (name, first) not in known:
            unlisted.append("%s: no module has it at line %d" % (name, first))
            continue
        module, lines, files = known.get((name, first), ("", [], {}))
        for block in blocks(lines, first, missed) if missed else ():
            for text, file, line in block:
                path = files.get(file, "")
                row = next((r for r in rows if covers(r, block, path, int(line), executed)),
                           None)
                if row:
                    counts[row[3]] += 1
                    used.add(row)
                else:
                    unlisted.append("%s, %s: %s:%s (%s): %s"
                                    % (module, name, path, line, function_at(path, int(line)), text))
    unused = [" ".join(row) for row in rows if row not in used]
    return counts, words, unlisted, unused


def main(paths):
    lines = merge_lines([p for p in paths if p.endswith(".info")])
    functions = merge_functions([p for p in paths if p.endswith(".ptx")])
    for name in sorted(set(name for name, _ in lines)):
        own = {line: hit for (file, line), hit in lines.items() if file == name}
        missed = [line for line, hit in own.items() if not hit]
        print("%-44s %5d of %5d lines  %s"
              % (name, len(own) - len(missed), len(own), "not: " + ranges(missed) if missed else ""))
    for (name, _), (total, missed) in sorted(functions.items()):
        if missed:
            print("%-44s %5d of %5d instructions" % (name, total - len(missed), total))
    hit = share(sum(lines.values()), len(lines))
    total = sum(count for count, _ in functions.values())
    executed = share(total - sum(len(missed) for _, missed in functions.values()), total)
    counts, words, unlisted, unused = explain(functions, lines)
    for reason, count in counts.items():
        print("%5d instructions not executed: %s" % (count, words[reason]))
    for row in unused:
        print("tools/ptx/unexecuted: of no use now: %s" % row)
    for message in unlisted:
        print("not executed, and not in tools/ptx/unexecuted: %s" % message)
    print("lines %.1f %% (at least %g), instructions %.1f %% (at least %g) of %d"
          % (hit, LINES_LEAST, executed, INSTRUCTIONS_LEAST, total))
    failed = (hit < LINES_LEAST) + (executed < INSTRUCTIONS_LEAST) + bool(unlisted)
    print("%d passed, %d failed" % (3 - failed, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
