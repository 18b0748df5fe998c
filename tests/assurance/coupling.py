#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coupling.py [MCDC_TXT]: control and data coupling. Every slot of every table of functions that a header
declares (struct members that point to functions), with the places that call it; with llvm-cov's text of
`make mcdc`, whether the tests called it, and the requirements of the files that do. Then which folder's
headers each folder includes, by how many files. Exits 1 where a slot was not called and coupling.justified
does not say why."""
import os
import re
import sys

sys.dont_write_bytecode = True
import matrix
import tracing

STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\n\} \w+;|\nstruct (\w+) \{(.*?)\n\};", re.S)
SLOT = re.compile(r"\(\*(\w+)\)\(")
FOLDERS = ("arena", "core", "layers", "optim", "device", "tools/formats")


def sources():
    return {p: tracing.read(p) for p in tracing.listed(*FOLDERS) if p.endswith((".c", ".h")) and not p.startswith("device/bare")}


def slots(texts):
    """(table, slot, header, line) of every member that points to a function."""
    found = []
    for path, text in sorted(texts.items()):
        if not path.endswith(".h"):
            continue
        for block in STRUCT.finditer(text):
            body = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), block[2] or block[4], flags=re.S)
            start = block.start(2) if block[2] else block.start(4)
            depth = 0
            for member in SLOT.finditer(body):
                line = body[body.rfind("\n", 0, member.start()) + 1 : member.start()]
                depth = line.count("(") - line.count(")")
                if depth == 0 and re.match(r"    \w", line):
                    found.append((block[1] or block[3], member[1], path, text.count("\n", 0, start + member.start()) + 1))
    return found


def calls(texts, slot):
    """Lines that call a slot of this name, or hand it on as an argument: (path, line)."""
    found, call = [], re.compile(r"(?:->|\.)%s(?:\(|\)|, )" % slot)
    for path, text in texts.items():
        if slot in text:
            found += [(path, n) for n, line in enumerate(text.split("\n"), 1) if call.search(line)]
    return sorted(found)


def justified():
    path = os.path.join(tracing.ROOT, "tests/assurance/coupling.justified")
    rows = open(path, encoding="utf-8").read().split("\n") if os.path.isfile(path) else []
    return {r.split()[0]: r.split(None, 1)[1] for r in rows if r and not r.startswith("#")}


def includes(texts):
    count = {}
    for path, text in texts.items():
        own = next(f for f in FOLDERS if path.startswith(f + "/"))
        of = set(next((f for f in FOLDERS if i.startswith(f + "/")), "") for i in re.findall(r'#include "([^"]+)"', text))
        for other in of - {own, ""}:
            count[(own, other)] = count.get((own, other), 0) + 1
    return count


def main(arguments):
    texts = sources()
    requirements, _, _ = tracing.load()
    by_file = {}
    for r in requirements:
        for path in r.files:
            by_file.setdefault(path, []).append(r.name)
    coverage = matrix.read_coverage(tracing.ROOT, arguments[0]) if arguments else {}
    why, failed, total = justified(), [], 0
    print("table\tslot\tdeclared\tcalls\tcalled by tests\trequirements of the callers")
    for table, slot, path, line in slots(texts):
        total += 1
        places = calls(texts, slot)
        run = [(p, n) for p, n in places if coverage.get(p, {}).get(n, "0") not in ("0", "")]
        state = "not measured" if not coverage else "yes" if run else "no"
        name = table + "." + slot
        if state == "no" and name in why:
            state = "no: " + why[name]
        elif state == "no":
            failed.append("%s (%s:%d) is never called by the tests that make mcdc runs" % (name, path, line))
        elif state == "yes" and name in why:
            failed.append("coupling.justified: %s is called by now" % name)
        of = sorted(set(r for p, _ in (run or places) for r in by_file.get(p, [])))
        print("%s\t%s\t%s:%d\t%d\t%s\t%s" % (table, slot, path, line, len(places), state, " ".join(of)))
    print("\nfolder\tincludes headers of\tfiles that do")
    for (own, other), count in sorted(includes(texts).items()):
        print("%s\t%s\t%d" % (own, other, count))
    for line in failed:
        print("FAILED: " + line)
    print("%d slots, %d not shown called" % (total, len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
