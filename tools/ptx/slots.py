#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the kernels take of a GPU, counted in the code that ptxas makes of their PTX: no GPU is needed.

    slots.py --fetch               puts the compilers of VERSIONS into build/ptx-tools (PyPI packages)
    slots.py [MODULE..]            prints kernels and loops of the newest compiler that is there
    slots.py --check               holds every compiler that is there to tools/ptx/bounds (make check-ptx)
    slots.py --write PAGE          writes the tables of docs/figures/gpu-slots.md

A loop's instructions are issue slots: a scheduler issues one a clock. `clocks` adds what the compiler
tells the scheduler to wait, for one warp alone. Both are counted, not measured: what memory, barriers
and tensor cores add is not in them. Figures per four sums, or per score, are of the shortest way
through the loops of a form (with a bias: of the longest): see ends().
"""
import argparse
import concurrent.futures
import datetime
import glob
import heapq
import os
import re
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
import check
import compile as ptx

TOOLS = os.path.join(ptx.ROOT, "build/ptx-tools")
# Compilers: the oldest and the newest that the driver of a Hopper may have, and what lies between.
VERSIONS = (("nvidia-cuda-nvcc-cu12", "12.8.93"), ("nvidia-cuda-nvcc-cu12", "12.9.86"),
            ("nvidia-cuda-nvcc", "13.0.88"), ("nvidia-cuda-nvcc", "13.5.37"))
DISASSEMBLER = ("nvidia-cuda-nvdisasm", "13.5.37")
BOUNDS = os.path.join(ptx.ROOT, "tools/ptx/bounds")


def fetch():
    """The compilers' programs out of their packages: for this program only."""
    for package, version in VERSIONS + (DISASSEMBLER,):
        to = os.path.join(TOOLS, version + ("-disassembler" if (package, version) == DISASSEMBLER else ""))
        if os.path.isdir(to):
            continue
        with tempfile.TemporaryDirectory() as wheels:
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels,
                            "%s==%s" % (package, version)], check=True)
            with zipfile.ZipFile(glob.glob(wheels + "/*.whl")[0]) as wheel:
                for name in wheel.namelist():
                    if name.endswith(("/bin/ptxas", "/bin/nvdisasm")):
                        os.makedirs(to, exist_ok=True)
                        path = os.path.join(to, os.path.basename(name))
                        with open(path, "wb") as file:
                            file.write(wheel.read(name))
                        os.chmod(path, 0o755)


def found(name):
    """(version, path) of the programs of that name, the oldest version first."""
    paths = glob.glob(os.path.join(TOOLS, "*", name))
    if not paths:
        paths = [path for path in (os.path.join(folder, name) for folder in
                                   os.environ["PATH"].split(":") + ["/usr/local/cuda/bin"])
                 if os.access(path, os.X_OK)][:1]
    pairs = []
    for path in paths:
        said = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
        pairs.append((re.search(r"V(\d+\.\d+\.\d+)", said).group(1), path))
    return sorted(set(pairs), key=lambda pair: [int(part) for part in pair[0].split(".")])


class Code:
    """A kernel's instructions, and the graph of its blocks."""

    def __init__(self, name, lines):
        self.name = name
        self.ops, self.stall, self.labels, self.target, self.label = [], [], {}, {}, {}
        for line in lines:
            label = re.match(r"\s*(\.L_x_\d+):", line)
            op = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s*/\* 0x", line)
            word = re.match(r"\s*/\* 0x([0-9a-f]{16}) \*/", line)
            if label:
                self.labels[label.group(1)] = len(self.ops)
            elif op:
                self.ops.append(op.group(1).rstrip(" ;"))
            elif word and len(self.stall) < len(self.ops):
                self.stall.append(int(word.group(1), 16) >> 41 & 15)
        barriers = {}
        for i, op in enumerate(self.ops):
            names = re.findall(r"\.L_x_\d+", op)
            kind = self.kind(i)
            if kind.startswith("BSSY"):
                barriers[op.split()[1].rstrip(",")] = names[0]
            elif kind.startswith("BSYNC"):
                self.target[i] = [self.labels[barriers[op.split()[-1]]]]
            elif names and kind.startswith(("BRA", "BRX")):
                self.target[i] = [self.labels[name] for name in names]

    def kind(self, i):
        """The instruction's name without its guard."""
        words = self.ops[i].split()
        return words[1] if words[0].startswith("@") else words[0]

    def after(self, i):
        """Where the instruction may lead."""
        op, kind = self.ops[i], self.kind(i)
        guarded = op.startswith("@") or kind.startswith(("BRA.U", "BRA.DIV")) or " UP" in op or " !UP" in op
        ways = list(self.target.get(i, ()))
        ends = kind.startswith(("EXIT", "BRX", "RET")) or (kind.startswith("BRA") and ways)
        if (not ends or guarded) and i + 1 < len(self.ops) and not (
                kind.startswith("BSYNC") and i in self.target):
            ways.append(i + 1)
        return ways

    def loops(self):
        """(first, last) of the loops: jumps back, the innermost first. Code of divisions that a jump
        back leaves behind the kernel is not one."""
        pairs = {(way, i) for i in self.target for way in self.target[i] if way <= i}
        return sorted((a, b) for a, b in pairs if b > a)

    def within(self, loop):
        """Instructions of a loop: from which its last one is reached without leaving its range."""
        first, last = loop
        back = {}
        for i in range(first, last + 1):
            for way in self.after(i):
                if first <= way <= last:
                    back.setdefault(way, []).append(i)
        seen, todo = {last}, [last]
        while todo:
            i = todo.pop()
            if i == first:
                continue
            for j in back.get(i, ()):
                if j not in seen:
                    seen.add(j)
                    todo.append(j)
        return sorted(seen)

    def way(self, start, end, inside, longest=False):
        """Instructions and clocks of the shortest way (or the longest without a turn back) from one
        instruction to another, both counted; None: there is none."""
        if longest:
            best = {end: (1, self.stall[end])}
            for i in reversed([i for i in inside if i < end]):
                ways = [best[j] for j in self.after(i) if j > i and j in best]
                if ways:
                    most = max(ways)
                    best[i] = (most[0] + 1, most[1] + self.stall[i])
            return best.get(start)
        heap, done = [(1, self.stall[start], start)], set()
        while heap:
            count, clocks, i = heapq.heappop(heap)
            if i == end:
                return count, clocks
            if i in done:
                continue
            done.add(i)
            for j in self.after(i):
                if j in inside and j not in done:
                    heapq.heappush(heap, (count + 1, clocks + self.stall[j], j))
        return None

    def count(self, inside, *kinds):
        return sum(self.kind(i).startswith(kinds) for i in inside)


def disassemble(ptxas, nvdisasm, row, gpu):
    """Kernels of a module, and what the compiler said: (codes, {kernel: (registers, spill, stack)},
    warnings)."""
    path = os.path.join(ptx.ROOT, ptx.text_of(row))
    with tempfile.TemporaryDirectory() as out:
        cubin = os.path.join(out, "cubin")
        done = subprocess.run([ptxas, "-v", "-arch=" + gpu, path, "-o", cubin], capture_output=True,
                              text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise SystemExit("%s for %s: ptxas refuses it:\n%s" % (row["name"], gpu, said))
        facts = {name: (int(registers), int(spill), int(stack)) for name, stack, spill, registers in
                 re.findall(r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill"
                            r".*?Used (\d+) registers", said, re.S)}
        warnings = [line for line in said.split("\n") if re.search(r"warning|\(C\d+\)|[Pp]otential", line)]
        codes = []
        if nvdisasm:
            text = subprocess.run([nvdisasm, "-c", "-hex", cubin], capture_output=True, text=True,
                                  check=True).stdout
            for name, body in re.findall(r"^\.text\.(\w+):\n(.*?)(?=^//---|\Z)", text, re.S | re.M):
                codes.append(Code(name, body.split("\n")))
    return codes, facts, warnings


def tile_loop(code):
    """The loop over tiles of a product by wgmma whose sums go out by stmatrix: (its first
    instruction behind the sums, its last); None: there is none."""
    loops = code.loops()
    tiles = [loop for loop in loops if code.count(code.within(loop), "STSM") and
             code.count(range(loop[0], loop[1] + 1), "HGMMA")]
    if not tiles:
        return None
    first, last = max(tiles, key=lambda loop: loop[1] - loop[0])
    a, b = max((loop for loop in loops if first < loop[0] and loop[1] < last and
                code.count(range(loop[0], loop[1] + 1), "HGMMA")), key=lambda loop: loop[1])
    ways = [j for i in range(a, b + 1) for j in code.after(i) if b < j <= last]
    return min(ways), last


def straight(code):
    """The forms that go out without a loop of their own: stores of eight elements of which each leads
    to the next; name -> as ends() has it."""
    made, tile = {}, tile_loop(code)
    if not tile:
        return made
    start, last = tile
    inside = list(range(start, last + 1))
    small = [loop for loop in code.loops() if start < loop[0] and loop[1] < last]
    groups = []
    for i in inside: # a form's stores follow each other; those of another cannot be reached
        if not code.kind(i).startswith("STG.E.128") or any(a <= i <= b for a, b in small):
            continue
        if groups and code.way(groups[-1][-1], i, inside, longest=True):
            groups[-1].append(i)
        else:
            groups.append([i])
    for group in groups:
        if len(group) < 8 or not code.count(range(group[0], group[-1]), "STSM"):
            continue
        name = "adds" if code.count(range(group[0], group[-1]), "LDSM") else "plain"
        for word, longest in ((name, False), (name + " with bias", True)):
            ways = [code.way(a, b, inside if longest else set(inside), longest=longest)
                    for a, b in zip([start] + group, group + [last])]
            if None in ways:
                continue
            per = 1 / (2 * len(group))
            piece = (ways[4][0], ways[4][1]) # the first piece is among what there is once a tile
            loop = [per * (sum(way[k] for way in ways[1:-1]) - (len(ways) - 2) * (k == 0) + piece[k])
                    for k in (0, 1)]
            once = [per * (ways[0][k] + ways[-1][k] - piece[k]) for k in (0, 1)]
            figures = loop + [0, 0] + once
            better = max if longest else min
            made[word] = better(made.get(word, figures), figures)
    return made


def around_pieces(code, loop, outer, longest):
    """What is around an innermost loop, in the loop over pieces of 32 sums of a thread, and once a
    tile of 192: instructions and clocks for four sums, of each."""
    a, b = outer
    inside = list(range(a, b + 1))
    tile = tile_loop(code)

    def way(start, end):
        return code.way(start, end, inside if longest else set(inside), longest=longest)

    to = way(a, loop[0])
    ways = [found for found in (way(j, b) for i in code.within(loop) for j in code.after(i)
                                if not loop[0] <= j <= loop[1]) if found]
    if not to or not ways:
        return 0, 0, 0, 0
    back = min(ways)
    once = (0, 0)
    if tile:
        every = set(range(tile[0], tile[1] + 1))
        once = tuple(x + y for x, y in zip(code.way(tile[0], a, every), code.way(b, tile[1], every)))
    return (to[0] - 1 + back[0]) / 8, (to[1] + back[1]) / 8, once[0] / 48, once[1] / 48


def ends(code):
    """The forms in which a product's sums go out: the innermost loops that read sums from shared
    memory in fours and store 16-bit elements eight at a time; name -> per four sums, instructions
    and clocks: in the loop, around it, and once a tile. With a bias the longest way counts, without
    one the shortest."""
    made = straight(code)
    loops = code.loops()
    for loop in loops:
        inside = code.within(loop)
        if any(a >= loop[0] and b <= loop[1] and (a, b) != loop for a, b in loops):
            continue
        lds, fma, added = (code.count(inside, *kinds) for kinds in
                           (("LDS",), ("FFMA",), ("FADD",)))
        packs = code.count(inside, "F2FP.BF16")
        if lds == 0 or packs == 0 or code.count(inside, "STG.E.128", "STG.E.64") == 0 or code.count(inside, "HGMMA", "HMMA"):
            continue
        outer = [(a, b) for a, b in loops if a < loop[0] and b > loop[1] and
                 code.count(range(a, b), "STSM") >= 4 and not code.count(range(a, b), "HGMMA")]
        sums = (code.count(inside, "LDS.64") * 2 or
                code.count(inside, "LDS.128") * (8 if outer else 4))
        name = "gelu" if code.count(inside, "MUFU") >= sums else "adds" if code.count(inside, "LDG") else "plain"
        short = code.way(loop[0], loop[1], set(inside))
        long = code.way(loop[0], loop[1], inside, longest=True)
        for word, way, longest in ((name, short, False), (name + " with bias", long, True)):
            around = around_pieces(code, loop, min(outer, key=lambda l: l[1] - l[0]), longest) if outer else (0, 0, 0, 0)
            figures = [4 / sums * way[0], 4 / sums * way[1], *around]
            better = max if longest else min
            made[word] = better(made.get(word, figures), figures)
    return made


def scores(code):
    """Instructions and clocks for a score of attention: of the shortest way through the loop over
    tiles of keys of 64, in which a thread has 32 scores; None: the kernel is not of this kind."""
    loops = [loop for loop in code.loops() if code.count(code.within(loop), "HGMMA")]
    if "attention" not in code.name or not loops:
        return None
    loop = max(loops, key=lambda l: l[1] - l[0])
    way = code.way(loop[0], loop[1], set(code.within(loop)))
    return way[0] / 32, way[1] / 32


def mainloops(code):
    """The innermost loops with tensor instructions: how many of these, and how many instructions."""
    loops = code.loops()
    for loop in loops:
        inside = code.within(loop)
        inner = [l for l in loops if l != loop and l[0] >= loop[0] and l[1] <= loop[1] and
                 code.count(code.within(l), "HGMMA", "HMMA")]
        tensor = code.count(inside, "HGMMA", "HMMA")
        if tensor and not inner:
            yield tensor, len(inside)


def figures_of(code):
    """What bounds hold of a kernel: name -> figure."""
    figures = {name: figures[0] + figures[2] for name, figures in ends(code).items()}
    if scores(code):
        figures["a score"] = scores(code)[0]
    return figures


def said_wrong(version, row, gpu, facts, warnings):
    """What no compiler may say of a module: spills, serialised products, too many registers."""
    for line in warnings:
        yield "%s for %s by %s: %s" % (row["name"], gpu, version, line.strip())
    with open(os.path.join(ptx.ROOT, ptx.text_of(row)), encoding="ascii") as file:
        threads = dict(re.findall(r"\.entry (\w+)\([^{]*?\.maxntid (\d+)", file.read()))
    for kernel, (registers, spill, stack) in facts.items():
        if spill + stack > 0:
            yield "%s for %s by %s: %s spills %d bytes, and has %d of stack" % (
                row["name"], gpu, version, kernel, spill, stack)
        count = int(threads.get(kernel, check.THREADS_MOST.get(kernel, check.THREADS_OTHERS)))
        if (registers + 7) // 8 * 8 * count > check.REGISTERS:
            yield "%s for %s by %s: %s has %d registers in %d threads" % (
                row["name"], gpu, version, kernel, registers, count)


def bounds():
    """(module, kernel, figure) -> most."""
    with open(BOUNDS, encoding="ascii") as file:
        rows = [line.split("\t") for line in file if line.strip() and not line.startswith("#")]
    return {tuple(row[:3]): float(row[3]) for row in rows}


def over(row, codes, version):
    """Figures above their bounds, and bounds of figures that are not there."""
    known = {key[1:]: most for key, most in bounds().items() if key[0] == row["name"]}
    there = {(code.name, name): figure for code in codes for name, figure in figures_of(code).items()}
    for key, most in known.items():
        if key not in there:
            yield "%s by %s: %s has no loop that is %s" % (row["name"], version, *key)
        elif there[key] > most:
            yield "%s by %s: %s, %s: found %.1f instructions, at most %.1f are expected" % (
                row["name"], version, *key, there[key], most)


def every(pairs, nvdisasm, rows):
    """All modules by all compilers, for their own target: (version, row, codes, facts, warnings)."""
    jobs = [(version, ptxas, row) for version, ptxas in pairs for row in rows]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda job: disassemble(job[1], nvdisasm, job[2], job[2]["target"]), jobs)
        for (version, _, row), (codes, facts, warnings) in zip(jobs, made):
            yield version, row, codes, facts, warnings


def hold(pairs, nvdisasm, rows):
    """make check-ptx."""
    bad, assembled = [], 0
    for version, row, codes, facts, warnings in every(pairs, nvdisasm, rows):
        assembled += len(facts)
        bad += said_wrong(version, row, row["target"], facts, warnings)
        bad += over(row, codes, version) if codes else []
    print("\n".join(bad) or "%d kernels by ptxas %s: no spills, no serialised products; loops %s" % (
        assembled, ", ".join(version for version, _ in pairs),
        "within their bounds" if nvdisasm else "not counted, no nvdisasm"))
    return 1 if bad else 0


PAGE = """# Figures: issue slots of GPU kernels

What GPU kernels take of a multiprocessor's schedulers, counted in the code that NVIDIA's compilers make of the
PTX. Nothing of this page was measured on a GPU: waits for memory, barriers and tensor cores are not in it.

    tools/ptx/slots.py --fetch
    tools/ptx/slots.py --write docs/figures/gpu-slots.md

Made %s by ptxas %s and nvdisasm %s. `make check-ptx` holds
all of these compilers to no spills, no warning, registers that fit, and to the bounds of `tools/ptx/bounds`.

## What follows the sums of a product

Instructions of a thread for four sums are those in the innermost loop and around it. Around is counted where a loop
goes through pieces of a tile; where nothing is a loop, all pieces count as one. What there is once a tile is by
itself: of tiles of 256 x 192, and of 128 x 128 of the quantised ones. A scheduler of a multiprocessor issues one a
clock. Clocks are those of one warp alone, with what the compiler makes it wait. Commit
072d79fc had 133 to 410 instructions for four sums.

| module | kernel | form | loop | around | together | once a tile | clocks |
|---|---|---|---|---|---|---|---|
%s

## Attention on Hopper

Instructions of a thread for a score, of heads of 64, in a turn of the loop over tiles of 64 keys or queries.

| kernel | instructions | clocks |
|---|---|---|
%s

## Loops with tensor instructions

All ways of an operand's layout and type are in one loop; a turn goes one of them.

| module | kernel | registers | bytes of code | tensor instructions, and all, of each loop |
|---|---|---|---|---|
%s

## What each compiler makes of all modules

| ptxas | kernels | most registers | spilled bytes | warnings |
|---|---|---|---|---|
%s
"""


def write(path, pairs, nvdisasm, rows):
    newest, said, ends_rows, loop_rows, score_rows = pairs[-1][0], {}, [], [], []
    for version, row, codes, facts, warnings in every(pairs, nvdisasm[1], rows):
        known = said.setdefault(version, [0, 0, 0, 0])
        known[0] += len(facts)
        known[1] = max([known[1]] + [fact[0] for fact in facts.values()])
        known[2] += sum(fact[1] for fact in facts.values())
        known[3] += len(warnings)
        for code in codes if version == newest else ():
            ends_rows += ["| %s | %s | %s | %.1f | %s | %.1f | %s | %.0f |" % (
                row["name"], code.name, name, f[0], "%.1f" % f[2] if f[2] else "-", f[0] + f[2],
                "%.1f" % f[4] if f[4] else "-", f[1] + f[3] + f[5]) for name, f in ends(code).items()]
            if scores(code):
                score_rows.append("| %s | %.1f | %.1f |" % (code.name, *scores(code)))
            loops = ", ".join("%d of %d" % loop for loop in mainloops(code))
            if loops:
                loop_rows.append("| %s | %s | %d | %d | %s |" % (
                    row["name"], code.name, facts[code.name][0], 16 * len(code.ops), loops))
    with open(path, "w", encoding="ascii") as page:
        page.write(PAGE % (datetime.date.today().isoformat(), ", ".join(v for v, _ in pairs),
                           nvdisasm[0], "\n".join(ends_rows), "\n".join(score_rows), "\n".join(loop_rows),
                           "\n".join("| %s | %d | %d | %d | %d |" % (v, *k) for v, k in said.items())))


def show(pairs, nvdisasm, rows):
    for _, row, codes, facts, _ in every(pairs[-1:], nvdisasm, rows):
        for code in codes:
            print("%s %s: %d registers, %d instructions" % (
                row["name"], code.name, facts[code.name][0], len(code.ops)))
            for loop in code.loops():
                inside = code.within(loop)
                counts = ["%s %d" % (kind, code.count(inside, kind)) for kind in (
                    "HGMMA", "HMMA", "LDS", "STS", "LDG", "STG", "FFMA", "FADD", "MUFU", "SHFL", "BAR")]
                print("    %5d to %5d: %4d instructions, %s" % (
                    *loop, len(inside), ", ".join(c for c in counts if not c.endswith(" 0"))))
            if scores(code):
                print("    %.1f instructions and %.1f clocks for a score" % scores(code))
            for name, figures in ends(code).items():
                print("    %s: %.1f, %.1f around and %.1f once a tile for four sums" % (
                    name, figures[0], figures[2], figures[4]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("modules", nargs="*")
    told = parser.parse_args()
    if told.fetch:
        fetch()
        return 0
    rows = [row for row in ptx.modules() if not told.modules or row["name"] in told.modules]
    pairs, readers = found("ptxas"), found("nvdisasm")
    if not pairs or not (readers or told.check):
        print("no ptxas and nvdisasm: tools/ptx/slots.py --fetch")
        return 77
    nvdisasm = readers[-1] if readers else (None, None)
    if told.check:
        return hold(pairs, nvdisasm[1], rows)
    if told.write:
        write(told.write, pairs, nvdisasm, rows)
    else:
        show(pairs, nvdisasm[1], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
