#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stack.py BUILD SIGNATURES TRAINER SYMBOLS: bounds the stack of an emitted trainer from gcc's call graph.

BUILD is a build of the library with -fcallgraph-info=su, TRAINER the trainer's folder built so, SYMBOLS what nm says
of the linked program, SIGNATURES a folder of gcc -aux-info files. Only functions that were linked count. Calls through
pointers are resolved as tests/assurance/stack.py does. Prints bytes from the start on; libc and libgcc have no call
graph and are not counted. Exits 1 where a chain calls itself."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "assurance"))
import stack  # noqa: E402


def read_own(graph, folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".ci"):
            graph.read_file(os.path.join(folder, name))


def keep(graph, linked):
    """Only what was linked; gcc's clones have a suffix there and here."""
    graph.frame = {t: b for t, b in graph.frame.items() if t.split(":")[-1].split(".")[0] in linked}


def main(build, folder, trainer, symbols):
    sys.setrecursionlimit(10000)
    linked = set(row.split()[-1].split(".")[0] for row in open(symbols, encoding="utf-8") if row.split()[-2] in "tT")
    graph, texts = stack.Graph(), stack.read_texts()
    graph.read(build)
    read_own(graph, trainer)
    keep(graph, linked)
    signatures, results_of = stack.read_signatures(folder, texts)
    pointers, results = stack.read_pointers(texts)
    tables = stack.read_tables(texts)
    addresses = stack.taken(graph, texts, signatures)
    edges = {source: set(targets) for source, targets in graph.calls.items() if source in graph.frame}
    for source, labels in graph.indirect.items():
        for label in labels if source in graph.frame else ():
            of = stack.site(label, texts, pointers, tables, results)
            targets = addresses if of is None else set(t for t in addresses if signatures[t] in of[0])
            narrow = set(t for t in targets if of and of[1] and t.split(":")[-1] in of[1])
            edges.setdefault(source, set()).update(narrow or targets)
    loops = set(tuple(row.split()[:2]) for row in stack.lines_of("stack.loops"))
    edges = {s: set(t for t in to if (s.split(":")[-1], t.split(":")[-1]) not in loops) for s, to in edges.items()}
    bound = stack.Bound(graph, edges, loops)
    at = "board_reset" if "board_reset" in graph.frame else "main"
    print(bound.of(at))
    while at:
        print("%6d %s" % (graph.frame[at], at), file=sys.stderr)
        at = bound.chain[at]
    for source, target in sorted(bound.refused):
        print("LOOP %s %s" % (source, target), file=sys.stderr)
    return 1 if bound.refused else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
