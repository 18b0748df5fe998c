#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coverage_merge.py LINES BRANCHES LEFT_OUT FOLDER..: one record of lcov for each source below the folders.

LINES is llvm-cov's export as lcov, BRANCHES its export as JSON: the first has the lines, and writes branches
of an inline function once for each file that includes it; the second says where each stands, so that they are
added up here. Names that the regular expression LEFT_OUT finds are left out, and so is what is marked:
LCOV_EXCL_LINE, LCOV_EXCL_START to LCOV_EXCL_STOP. Branches within macros are in neither: make mcdc asks them.
"""
import json
import os
import re
import sys

# Threads count without waiting for each other; a count that is the difference of two may end below 0.
MOST = 1 << 62


def marked(path):
    """The numbers of the lines that do not count."""
    numbers, inside = set(), False
    with open(path, encoding='utf-8') as text:
        for number, line in enumerate(text, 1):
            inside = inside or 'LCOV_EXCL_START' in line
            if inside or 'LCOV_EXCL_LINE' in line:
                numbers.add(number)
            inside = inside and 'LCOV_EXCL_STOP' not in line
    return numbers


def lines_of(path):
    """Of each source its (line, count) pairs."""
    sources, source = {}, None
    with open(path, encoding='utf-8') as text:
        for line in text:
            if line.startswith('SF:'):
                source = sources.setdefault(line[3:].strip(), {})
            elif line.startswith('DA:'):
                number, count = line[3:].split(',')[:2]
                source[int(number)] = int(count)
    return sources


def branches_of(path):
    """Of each source its {place: (taken, not taken)}."""
    with open(path, encoding='utf-8') as text:
        files = json.load(text)['data'][0]['files']
    sources = {}
    for one in files:
        places = sources.setdefault(one['filename'], {})
        for branch in one['branches']:
            counts = places.setdefault(tuple(branch[:4]), [0, 0])
            for way in (0, 1):
                counts[way] += branch[4 + way] if branch[4 + way] < MOST else 0
    return sources


def write(source, lines, places):
    skipped = marked(source)
    lines = {n: c for n, c in lines.items() if n not in skipped}
    ways = [(place[0], i, way, counts[way])
            for i, (place, counts) in enumerate(sorted(places.items()))
            for way in (0, 1) if place[0] not in skipped]
    print(f'SF:{source}')
    for number in sorted(lines):
        print(f'DA:{number},{lines[number]}')
    for number, place, way, count in ways:
        print(f'BRDA:{number},{place},{way},{count}')
    print(f'LF:{len(lines)}\nLH:{sum(c > 0 for c in lines.values())}')
    print(f'BRF:{len(ways)}\nBRH:{sum(w[3] > 0 for w in ways)}\nend_of_record')


def main():
    lines, branches = lines_of(sys.argv[1]), branches_of(sys.argv[2])
    left_out, folders = re.compile(sys.argv[3]), tuple(f + '/' for f in sys.argv[4:])
    for source in sorted(lines):
        name = os.path.relpath(source)
        if name.startswith(folders) and not left_out.search(name):
            write(source, lines[source], branches.get(source, {}))


main()
