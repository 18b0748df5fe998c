#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From core/ops/kernels.def, two files of C for `make prove`: every formula of an extent as a function of
its scalars, with a contract that says what it is in whole numbers, and a broken copy of each, in which one
word is another. Constants, and sizes that another function makes, become parameters: any value.

  extents.py FOLDER    writes FOLDER/extents.c and FOLDER/extents-broken.c
"""
import re
import subprocess
import sys

WORDS = "IN OUT INOUT IN_OPTIONAL OUT_OPTIONAL INOUT_OPTIONAL".split()
MACROS = ("#define KERNEL(name) @row name\n#define BLOCK(r, w, p) r @ w @ p\n#define FLAT(n) 1 @ n @ n\n" +
        "".join(f"#define {word}(x, type, ...) @extent x @ __VA_ARGS__ @end\n" for word in WORDS) +
        "#define OUT_OR_ADD(x, type, extent, flag) @extent x @ extent @end\n" +
        '#include "core/ops/kernels.def"\n')
EXACT = {"MUL": "({0} * {1})", "ADD": "({0} + {1})", "SUB": "({0} - {1})", "SELECT": "({0} != 0 ? {1} : {2})",
         "CEIL_DIV": "({0} / {1} + ({0} % {1} != 0 ? 1 : 0))"}
SATURATING = {"MUL": "bp_size_mul({0}, {1})", "ADD": "bp_size_add({0}, {1})", "SUB": "bp_size_sub({0}, {1})",
              "SELECT": "({0} != 0 ? {1} : {2})", "CEIL_DIV": "bp_size_ceil_div({0}, {1})"}
BREAK = {"MUL": "ADD", "ADD": "MUL", "SUB": "ADD", "CEIL_DIV": "MUL", "SELECT": "SELECT"}


def parse(text):
    """('MUL', [..]), a number, or the name of a parameter."""
    tokens = re.findall(r"[A-Za-z_]\w*|\d+|[(),]", text)
    if re.sub(r"\s+", "", text) != "".join(tokens):
        sys.exit(f"kernels.def: {text} is no formula that this knows")

    def term():
        word = tokens.pop(0)
        if not tokens or tokens[0] != "(":
            return word
        tokens.pop(0)
        arguments = [term()]
        while tokens.pop(0) == ",":
            arguments.append(term())
        if word == "S":
            return arguments[0]
        if word in EXACT:
            return (word, arguments)
        return "_".join([word.lower()] + [re.sub(r"\W+", "_", str(a)) for a in arguments])

    result = term()
    if tokens:
        sys.exit(f"kernels.def: {text} goes on after a formula")
    return result


def shown(tree, form):
    if isinstance(tree, str):
        return tree
    return form[tree[0]].format(*[shown(argument, form) for argument in tree[1]])


def names(tree):
    if isinstance(tree, str):
        return [] if tree.isdigit() else [tree]
    return [name for argument in tree[1] for name in names(argument)]


def broken(tree):
    word, arguments = tree
    if word == "SELECT":
        return (word, [arguments[0], arguments[2], arguments[1]])
    return (BREAK[word], arguments)


def depth(tree):
    return 0 if isinstance(tree, str) else 1 + max(depth(argument) for argument in tree[1])


def steps(body):
    """The lines of a function. Where each side is made of what is made, both are said by themselves first: provers do
    not see through three products at once."""
    word, arguments = body
    if any(depth(argument) < 2 for argument in arguments):
        return f"    return {shown(body, SATURATING)};\n"
    lines = ""
    for i, argument in enumerate(arguments):
        lines += (f"    const uint64_t part_{i} = {shown(argument, SATURATING)};\n"
                  f"    /*@ assert part_{i} != BP_SIZE_INVALID ==> part_{i} == {shown(argument, EXACT)}; */\n")
    return lines + f"    return {shown((word, [f'part_{i}' for i in range(len(arguments))]), SATURATING)};\n"


def function(name, tree, body):
    parameters = ", ".join(f"uint64_t {p}" for p in dict.fromkeys(names(tree)))
    return (f"/*@ assigns \\nothing;\n    ensures \\result != BP_SIZE_INVALID ==> \\result == {shown(tree, EXACT)}; */\n"
            f"uint64_t {name}({parameters})\n{{\n{steps(body)}}}\n\n")


def main():
    done = subprocess.run(["gcc", "-E", "-P", "-I.", "-x", "c", "-"], input=MACROS, stdout=subprocess.PIPE,
                          text=True, check=True)
    text = re.sub(r"\s+", " ", done.stdout)
    row = ""
    formulas = {}
    extents = 0
    for piece in text.split("@row ")[1:]:
        row = piece.split()[0]
        for extent in re.findall(r"@extent (.*?) @end", piece):
            operand, *parts = [part.strip() for part in extent.split(" @ ")]
            extents += 1
            for part in parts:
                tree = parse(part)
                if not isinstance(tree, str):
                    formulas.setdefault(shown(tree, EXACT), (f"{row}_{operand}", tree))
    head = f"/* Made of core/ops/kernels.def: {len(formulas)} formulas of {extents} extents. */\n" \
           '#include "size.acsl"\n\n'
    for path, change in (("extents.c", lambda tree: tree), ("extents-broken.c", broken)):
        with open(f"{sys.argv[1]}/{path}", "w", encoding="utf-8") as file:
            file.write(head)
            for number, (name, tree) in enumerate(formulas.values()):
                file.write(function(f"{name}_{number}", tree, change(tree)))


main()
