#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the committed PTX: `make check` runs it as tools/check/ptx.sh.

Everywhere: each text is up to date by its digest, of the stated .version and .target, and free of what
shipped PTX must not have; all of it together is small. Where the nvcc that made it is: its bytes are
what compiling gives. Where ptxas is: every target assembles it, without spills and without advice.
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import compile as ptx

# Products with weights in 4 or 8 bits on tensor cores: 64 mma for 4,096 warps' multiply-adds. Hopper's attention,
# 319 KB: its weights stay in registers, so that what sm_80's loops do is there for each element. And its products
# with such weights, 46 KB: a tile of 128 decodes b once for 128 rows, where one of 64 does for 64, and wgmma reaches
# what mma.sync has 63 % of there. Its products in five tiles are one kernel, whose shape is a parameter: 66 KB, where
# two kernels of a tile each had 101. And products of e4m3 numbers, 51 KB: by published rates they take 0.57 of the time
# of bf16's in wide layers. Windows whose places lie apart: 323 bytes. Masks from an element on, values rounded to even:
# 255 bytes. What follows the sums of a product on tensor cores is there once for each form, 217 KB, so that a thread has
# 6 to 20 instructions for four sums where it had 133 to 410 (docs/figures/gpu-slots.md). Hopper's attention without loops
# over a thread's two rows, 30 KB: 29 instructions for a score where it had 40. Labels that are
# chances: 78 bytes. On Hopper sums become 16-bit elements before they go by shared memory, without loops over a tile's
# pieces, 135 KB: 5, 9, 14 and 45 instructions for four sums, plain, with bias, added and with GELU, where it had 10, 14,
# 24 and 117. And attention without dropout's factors and without a rescaling by 1: 601 bytes. Attention whose
# weights are one 16-bit element each and powers of 2 needs 120 KB less; a kernel that dequantizes a matrix of codes 11 more, quick_gelu 2.
# Products with a narrow side, in one launch where they took two or three: 61 KB. Attention's log-sum-exp above its error: 1.
TOTAL_MOST = (12 << 17) + 890100
PARAMETERS_MOST = 4352
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# The .version of a target's texts: what the oldest driver that a target asks for takes (target.c).
VERSIONS = {"sm_80": "7.4", "sm_90": "8.0", "sm_90a": "8.0"}
# Threads of the largest blocks of kernels that do not state their own most; tests/unit/device/cuda/test_launch.c
# holds the launches to it. Their registers have to be there.
THREADS_MOST = {"bp_layernorm_backward_parameters": 1024, "bp_bias_backward": 1024,
                "bp_rmsnorm_backward_weight": 1024}
THREADS_OTHERS = 256
REGISTERS = 65536 # of a multiprocessor
# Kernels that may use .local memory, each with its reason.
LOCAL_ALLOWED = {}
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
# What no shipped text has: pattern, reason.
FORBIDDEN = (
    (r"^(?:@!?%?p\d+ )?(?:add|sub|mul|mad)(?:\.ftz|\.sat)*\.(?:f32|f64|f32x2)\b",
     "without a rounding mode the driver may fuse it: compile with -fmad=false, write .rn"),
    (r"\.(?:approx|full)\b", "the result depends on the GPU"),
    (r"\.ftz\b", "subnormal numbers are kept"),
    (r"\.extern\s+\.func", "no functions from elsewhere"),
    (r"\b(?:vprintf|__assertfail|malloc)\b", "kernels do not print, assert or allocate"),
    (r"\b(?:atom|red)\S*\.f(?:16|32|64)", "no floating-point atomics"),
    (r"\bactivemask\b", "it says how the machine schedules"),
    (r"%(?:clock|clock64|globaltimer|smid|nsmid|warpid)\b", "it says where and when a kernel runs"),
    (r"\bnanosleep\b", "no kernel waits for another block"),
)


# Where a result rounded to bfloat16 cannot show what the GPU's approximation was: GELU (gelu_bfloat.h), with an error
# of 2^-21 at every bfloat16 number, by tests/unit/device/cuda/test_gelu.c. And weights of 16-bit attention
# (attention_power.cuh), which are rounded to 16 bits: another GPU's 2^x may round one of 2^10 the other way.
APPROXIMATE = ("matmul_16", "quantised_16", "matmul_hopper", "attention_16", "attention_hopper")
APPROXIMATE_LINE = re.compile(r"(?:ex2|rcp)\.approx\.ftz\.f32 ")


def parameters(line_list):
    """Bytes of a parameter list."""
    total = 0
    for line in line_list:
        match = re.match(r"\.param (?:\.align (\d+) )?\.[ubsf](\d+) \S+?(?:\[(\d+)\])?,?$", line)
        if match:
            size = BYTES[match.group(2)] * int(match.group(3) or 1)
            align = int(match.group(1) or BYTES[match.group(2)])
            total = (total + align - 1) // align * align + size
    return total


ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
LOCAL = re.compile(r"\.local\b")
# Asked of each line at once; which of them it was, of the few lines that have one.
ANY_FORBIDDEN = re.compile("|".join("(?:%s)" % pattern for pattern, _ in FORBIDDEN))


def check_text(row, text):
    """What is wrong with one text, line by line."""
    name = row["name"]
    lines = text.split("\n")
    if VERSIONS.get(row["target"]) != row["version"]:
        yield "%s: a text for %s has .version %s" % (
            name, row["target"], VERSIONS.get(row["target"], "of no rule in tools/ptx/check.py"))
    if "// digest " + ptx.digest(row) not in lines:
        yield "%s: not made from these sources; run make ptx" % name
    for wanted in (".version " + row["version"], ".target " + row["target"]):
        if wanted not in lines:
            yield "%s: %s is missing" % (name, wanted)
    kernel = ""
    for number, line in enumerate(lines, 1):
        if line.startswith("//") or line.startswith(".loc "):
            continue
        entry = line.startswith(".visible") and ENTRY.match(line)
        if entry:
            kernel = entry.group(1)
            end = lines.index(")", number)
            if parameters(lines[number:end]) > PARAMETERS_MOST:
                yield "%s: %s takes more than %d bytes" % (name, kernel, PARAMETERS_MOST)
        if LOCAL.match(line) and kernel not in LOCAL_ALLOWED:
            yield "%s:%d: %s has local memory: %s" % (name, number, kernel, line)
        if name in APPROXIMATE and APPROXIMATE_LINE.match(line):
            continue
        for pattern, reason in FORBIDDEN if ANY_FORBIDDEN.search(line) else ():
            if re.search(pattern, line):
                yield "%s:%d: %s: %s" % (name, number, line, reason)


def check_table(rows):
    """device/cuda/ptx_table.def names the same texts for the same targets."""
    with open(os.path.join(ptx.ROOT, "device/cuda/ptx_table.def"), encoding="ascii") as file:
        found = re.findall(r'^MODULE\((\w+), (\w*), (\w+), "(\w+)"\)', file.read(), re.M)
    table = [(family + suffix, target) for family, suffix, types, target in found]
    for name, target in set(table) ^ {(row["name"], row["target"]) for row in rows}:
        yield "%s for %s: in one of tools/ptx/modules and device/cuda/ptx_table.def" % (name, target)


def texts():
    """Rows and their committed texts."""
    for row in ptx.modules():
        path = os.path.join(ptx.ROOT, ptx.text_of(row))
        if not os.path.exists(path):
            yield row, ""
            continue
        with open(path, encoding="ascii") as file:
            yield row, file.read()


def check_bytes(pairs):
    """Compiles again where that must give the same bytes."""
    version = "// nvcc " + ptx.compiler()
    same = [row["name"] for row, text in pairs if version in text.split("\n")]
    if not same:
        return
    with tempfile.TemporaryDirectory() as out:
        ptx.main(["--out", out] + same)
        for row, text in pairs:
            if row["name"] in same:
                with open(os.path.join(out, row["name"] + ".ptx"), encoding="ascii") as made:
                    if made.read() != text:
                        yield "%s: compiling gives another text; run make ptx" % row["name"]


def assemble(job):
    """ptxas on one text for one GPU."""
    row, gpu = job
    path = os.path.join(ptx.ROOT, ptx.text_of(row))
    done = subprocess.run(["ptxas", "-v", "-arch=" + gpu, path, "-o", "/dev/null"],
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    found = []
    if done.returncode != 0:
        found.append("%s: ptxas for %s refuses it:\n%s" % (row["name"], gpu, said))
    for line in said.split("\n"):
        if re.search(r"warning|\(C\d+\)|[Pp]otential", line):
            found.append("%s for %s: %s" % (row["name"], gpu, line.strip()))
    with open(path, encoding="ascii") as file:
        most = dict(re.findall(r"\.entry (\w+)\([^{]*?\.maxntid (\d+)", file.read()))
    kernels = re.findall(r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill"
                         r".*?Used (\d+) registers", said, re.S)
    for kernel, stack, spilled, registers in kernels:
        if int(stack) + int(spilled) > 0 and kernel not in LOCAL_ALLOWED:
            found.append("%s for %s: %s spills %s bytes and has %s of stack"
                         % (row["name"], gpu, kernel, spilled, stack))
        threads = int(most.get(kernel, THREADS_MOST.get(kernel, THREADS_OTHERS)))
        if (int(registers) + 7) // 8 * 8 * threads > REGISTERS:
            found.append("%s for %s: %s has %s registers in %d threads"
                         % (row["name"], gpu, kernel, registers, threads))
    if done.returncode == 0 and not kernels:
        found.append("%s for %s: ptxas says nothing of registers" % (row["name"], gpu))
    return found


def check_ptxas(pairs):
    """Every text for every GPU that may load it."""
    known = subprocess.run(["ptxas", "--help"], capture_output=True, text=True, check=True).stdout
    jobs = []
    for row, _ in pairs:
        gpus = (row["target"],) if row["target"].endswith("a") else GPUS
        jobs += [(row, gpu) for gpu in gpus if "'%s'" % gpu in known]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(assemble, jobs):
            yield from found


def main():
    pairs = list(texts())
    bad = [message for row, text in pairs for message in check_text(row, text)]
    bad += check_table([row for row, _ in pairs])
    known = {ptx.text_of(row) for row, _ in pairs}
    for file in sorted(glob.glob(ptx.KERNELS + "/**/*.ptx", root_dir=ptx.ROOT, recursive=True)):
        if file not in known:
            bad.append("%s: not in tools/ptx/modules" % file)
    total = sum(len(text) for _, text in pairs)
    if total > TOTAL_MOST:
        bad.append("all texts have %d bytes; at most %d" % (total, TOTAL_MOST))
    notes = []
    if shutil.which("nvcc"):
        bad += list(check_bytes(pairs))
    else:
        notes.append("bytes skipped, no nvcc")
    if shutil.which("ptxas"):
        bad += list(check_ptxas(pairs))
    else:
        notes.append("assembly skipped, no ptxas")
    print("\n".join(bad or notes))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
