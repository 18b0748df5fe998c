#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles device/cuda/kernels/**/*.cu to the PTX that is committed beside them.

    compile.py [--out DIR] [NAME..]   compiles the modules of tools/ptx/modules (all, or those named)
    compile.py --digest NAME          prints the digest of what a module is made from

The text depends on the sources and on nvcc's version only: sources are compiled from copies in one
fixed directory, and the text is put into a plain form, which also keeps it small: repository paths,
no comments, no lines of system headers, short names, each place once in a block of instructions, and
names of functions as they are in the source.
"""
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = "device/cuda/kernels"
WORK = "/tmp/bedplate-ptx"
# Headers whose functions have no branches but loops: each inlined one is one place, at its first
# line. What they inline themselves belongs to that place too.
STRAIGHT = ("core/base/math_inline.h",) + tuple(
    KERNELS + "/" + name for name in ("async.cuh", "attention/attention_tensor.cuh", "attention/attention_tile.cuh",
                                      "base.cuh", "double.cuh", "philox.cuh", "products/tensor.cuh"))
FLAGS = ["-ptx", "-O3", "-fmad=false", "-lineinfo", "-I."]


def modules():
    """The rows of tools/ptx/modules."""
    rows = []
    with open(os.path.join(ROOT, "tools/ptx/modules"), encoding="ascii") as table:
        for line in table:
            if line.strip() and not line.startswith("#"):
                rows.append(dict(zip(("name", "source", "target", "version"), line.split())))
    return rows


def text_of(row):
    """The path of a module's text: beside its source."""
    return os.path.join(KERNELS, os.path.dirname(row["source"]), row["name"] + ".ptx")


def flags(row):
    """What nvcc is told for a module."""
    return FLAGS + ["-arch=" + row["target"].replace("sm_", "compute_")]


def closure(path, seen):
    """The file and what it includes from the repository, each once, in order of first mention."""
    if path in seen:
        return seen
    seen.append(path)
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read(), re.M):
            closure(name, seen)
    return seen


def digest(row):
    """Of the sources, the flags and this program's form of the text."""
    total = hashlib.sha256()
    total.update(repr((flags(row), row["version"])).encode())
    for path in closure(KERNELS + "/" + row["source"], []) + ["tools/ptx/compile.py"]:
        with open(os.path.join(ROOT, path), "rb") as source:
            total.update(path.encode() + b"\0" + source.read() + b"\0")
    return total.hexdigest()


def compiler():
    """nvcc's own words about its version."""
    text = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"release [0-9.]+, V([0-9.]+)", text).group(1)


def plain_name(mangled):
    """The function's name in the source, out of its C++ name."""
    rest = re.sub(r"^_ZN?", "", mangled)
    while True:
        match = re.match(r"(\d+)(.*)", rest, re.S)
        if not match:
            return mangled
        # a length may be followed by a name that starts with digits only inside "_INTERNAL_"
        length = int(match.group(1))
        name, rest = match.group(2)[:length], match.group(2)[length:]
        if not name.startswith("_INTERNAL_"):
            return name


def strings(text):
    """The labelled strings of .debug_str."""
    found = {}
    for label, body in re.findall(r"^(\$L__info_string\d+):\n((?:\s*\.b8 [0-9,]+\n)+)", text, re.M):
        numbers = [int(n) for n in re.findall(r"\d+", re.sub(r"\.b8", "", body))]
        found[label] = bytes(numbers).rstrip(b"\0").decode("ascii")
    return found


def single_places(lines):
    """A function that a kernel inlines at one place only needs no word of where: its lines say it."""
    kernel, places, numbers = 0, {}, []
    for line in lines:
        kernel += line.startswith(".visible")
        numbers.append(kernel)
        name, _, place = line.partition(",inlined_at ")
        if place:
            name = name.split("function_name ")[1]
            places.setdefault((kernel, name), set()).add(place)
    for number, line in zip(numbers, lines):
        start, _, rest = line.partition(",function_name ")
        if rest and len(places[number, rest.split(",")[0]]) == 1:
            line = start
        yield line


def watched(line):
    """Whether a report may name this instruction: its place is kept to the line."""
    words = re.sub(r"^@!?%p\d+ ", "", line).split(" ")[0].split(".")
    if words[0] in ("ld", "st", "ldu", "cp"):
        return "param" not in words
    return words[0] in ("atom", "red", "bar", "barrier", "shfl", "vote", "ldmatrix", "mma", "trap")


def groups(lines):
    """The lines in runs: a place with its instructions, or what has no place of its own. The word
    of the run says whether a block of instructions begins there."""
    run, begins = [], True
    for line in lines:
        if run and (line.startswith((".loc ", ".visible", "$")) or begins):
            yield run
            run = []
        run.append(line)
        begins = bool(re.match(r"(@\S+ )?(bra|ret|exit)\b", line))
    yield run


def needed_places(lines):
    """Leaves out places without an instruction of their own that only repeat the newest one of that
    file and line, which is what inlined_at goes by; and places that their block of instructions had
    before, unless an instruction is watched: what they count for is counted already."""
    kept, newest, here, active = [], {}, set(), ""
    for run in groups(lines):
        first = run[0]
        if first.startswith((".visible", "$")):
            here, active = set(), ""
        if first.startswith(".visible"):
            newest = {}
        if first.startswith(".loc "):
            key = first.split(" 0", 1)[0]
            report = any(watched(line) for line in run[1:]) and first != active
            fresh = len(run) > 1 and first not in here
            if report or fresh or newest.get(key) != first:
                kept.append(first)
                active = first
            newest[key] = first
            here.add(first)
            run = run[1:]
        kept += run
        if run and re.match(r"(@\S+ )?(bra|ret|exit)\b", run[-1]):
            here, active = set(), ""
    return kept


def shorter_jumps(lines):
    """A jump over a jump becomes one of the opposite condition; labels that nothing names go."""
    turned, i = [], 0
    while i < len(lines):
        over = re.match(r"@(!?)(%p\d+) bra (\$\w+);$", lines[i])
        jump = over and re.match(r"bra\.uni (\$\w+);$", lines[i + 1])
        if jump and lines[i + 2] == over.group(3) + ":":
            turned.append("@%s%s bra %s;" % ("" if over.group(1) else "!", over.group(2), jump.group(1)))
            i += 2
        else:
            turned.append(lines[i])
            i += 1
    named = set(re.findall(r"\bbra(?:\.uni)? (\$\w+);", "\n".join(turned)))
    return [line for line in turned if not re.match(r"\$L__BB\w+:$", line) or line[:-1] in named]


# What registers of nvcc's names are called here, and in a scope of their own inside a function.
REGISTERS = {"p": "p", "rs": "h", "r": "r", "f": "f", "rd": "d", "fd": "g"}
REGISTER = re.compile(r"%(p|rs|r|f|rd|fd)(\d+)\b")


def short_function(lines):
    """Parameters, labels and registers of a function get short names, the shortest where they are
    named most."""
    count, scope, inner = {}, {}, []
    for line in lines:
        for name in REGISTER.findall(line):
            count[name] = count.get(name, 0) + 1
    order = sorted(count, key=lambda name: (-count[name], int(name[1])))
    kinds = {kind: [name for name in order if name[0] == kind] for kind in REGISTERS}
    names = {name: "%s%d" % (REGISTERS[name[0]], kinds[name[0]].index(name)) for name in order}
    for number, line in enumerate(lines):
        own = re.match(r"\.reg \.\w+ %(\w+?)(\d+);", line)
        many = re.match(r"(\.reg \.\w+) %(\w+)<\d+>;", line)
        if line == "{":
            inner.append(dict(scope))
        if own:
            scope[own.groups()] = "q%s%s" % own.groups()
        if many:
            yield "%s %s<%d>;" % (many.group(1), REGISTERS[many.group(2)], len(kinds[many.group(2)]))
            continue
        if line == "}" and inner:
            scope = inner.pop()
        line = REGISTER.sub(lambda m: scope.get(m.groups()) or names[m.groups()], line)
        line = re.sub(r"\b\w+_param_(\d+)\b", r"a\1", line)
        yield re.sub(r"\$L__BB\d+_", "$", line)


def variable_name(mangled):
    """bp_block_max_part for a variable `part` of a function bp_block_max."""
    rest, function = re.sub(r"^_ZZ?N?", "", mangled), ""
    while re.match(r"\d", rest):
        length, rest = re.match(r"(\d+)(.*)", rest).groups()
        function, rest = rest[:int(length)], rest[int(length):]
    length, rest = re.search(r"E(\d+)([A-Za-z_]\w*)$", rest).groups() if rest else ("0", "")
    return function + ("_" + rest[:int(length)] if rest else "")


def short_names(lines):
    """The lines with short names in every function."""
    text = "\n".join(lines)
    long = sorted(set(re.findall(r"\b_Z\w+", text)))
    short = [variable_name(name) for name in long]
    assert len(set(short)) == len(short), short
    for name, instead in zip(long, short):
        text = re.sub(r"\b%s\b" % name, instead, text)
    function = []
    for line in text.split("\n"):
        if line.startswith(".visible"):
            yield from short_function(function)
            function = []
        function.append(line)
    yield from short_function(function)


def plain(text, row):
    """The committed form of nvcc's text."""
    names = strings(text)
    text = text.split("\t.section\t.debug_str")[0]
    files = dict(re.findall(r'\.file\s+(\d+) "([^"]+)"', text))
    own = {n: os.path.normpath(p[len(WORK) + 1:]) for n, p in files.items() if p.startswith(WORK)}
    short = {}
    places = {}
    lines = []
    last = None
    for line in text.split("\n"):
        line = re.sub(r"\s+", " ", re.sub(r"//.*", "", line)).strip()
        if not line or line.startswith(".file"):
            continue
        line = re.sub(r"\s*, ", ",", line)
        location = re.match(r"\.loc (\d+) (\d+) \d+(.*)", line)
        if location:
            if location.group(1) not in own or location.group(2) == "0":
                continue
            number, place = location.group(1, 2)
            rest = location.group(3)
            inlined = re.search(r"function_name (\$L__info_string\d+)(?:\+\d+)?,inlined_at (\d+) (\d+)", rest)
            if inlined and own.get(inlined.group(2)) in STRAIGHT:
                continue
            if inlined and own[number] in STRAIGHT:
                place = places.setdefault((number, names[inlined.group(1)]), place)
            line = ".loc %s %s 0" % (number, place)
            if inlined:
                label = short.setdefault(plain_name(names[inlined.group(1)]), "I%d" % len(short))
                line += ",function_name %s,inlined_at %s %s 0" % ((label,) + inlined.group(2, 3))
            if line == last:
                continue
            last = line
        elif line.endswith(":"):
            last = None
        lines.append(line)
    lines = needed_places(shorter_jumps(list(single_places(lines))))
    text = "\n".join(short_names(lines))
    text = text.replace("bra.uni ", "bra ") # an unguarded jump takes all lanes that are there
    text = re.sub(r"\.version [0-9.]+", ".version " + row["version"], text, count=1)
    used = set(re.findall(r"(?:\.loc|inlined_at) (\d+)", text))
    tail = ['.file %s "%s"' % (n, own.get(n, "nvcc")) for n in sorted(used, key=int)]
    short = {name: label for name, label in short.items() if "function_name " + label + "," in text}
    if short:
        tail.append(".section .debug_str{")
        for name, label in short.items():
            tail.append("%s:\n.b8 %s,0" % (label, ",".join(str(b) for b in name.encode())))
        tail.append("}")
    return text + "\n" + "\n".join(tail) + "\n"


def compile_module(row, out, version):
    """Writes one module's PTX: beside its source, or into the folder `out`."""
    for path in closure(KERNELS + "/" + row["source"], []):
        target = os.path.join(WORK, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), target)
    result = os.path.join(WORK, row["name"] + ".ptx")
    source = os.path.join(WORK, KERNELS, row["source"])
    subprocess.run(["nvcc"] + flags(row) + [source, "-o", result], check=True, cwd=WORK)
    with open(result, encoding="ascii") as made:
        text = plain(made.read(), row)
    header = ("// SPDX-License-Identifier: MIT\n// Made by tools/ptx/compile.py from %s/%s; do not edit.\n"
              "// nvcc %s\n// digest %s\n" % (KERNELS, row["source"], version, digest(row)))
    text_path = os.path.join(out, row["name"] + ".ptx") if out else os.path.join(ROOT, text_of(row))
    with open(text_path, "w", encoding="ascii") as target:
        target.write(header + text)


def main(arguments):
    out = None
    if arguments[:1] == ["--digest"]:
        print(digest(next(row for row in modules() if row["name"] == arguments[1])))
        return
    if arguments[:1] == ["--out"]:
        out, arguments = arguments[1], arguments[2:]
    os.makedirs(WORK, exist_ok=True)
    version = compiler()
    with open(os.path.join(WORK, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for row in modules():
            if not arguments or row["name"] in arguments:
                compile_module(row, out, version)


if __name__ == "__main__":
    main(sys.argv[1:])
