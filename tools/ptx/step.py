#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Estimates the time of a training step on a Hopper from its list of launches: no GPU is needed, none was asked.

    build/release/tools/bench/gpu_launches preset=gpt2 chunk=4096 | step.py
    step.py --write PAGE         the table of docs/figures/gpu-steps.md, of the steps in STEPS

ideal:  what tensor cores multiply at their peak, or what memory moves at its rate, op by op.
hard:   tiles in waves over 132 multiprocessors (device/cuda/hopper_tiles.h), and the instructions that tools/ptx/bounds
        allows for what follows a product's sums and for a score, four a clock, not overlapped with the products.
likely: hard, memory at 85 % of its rate, 700 clocks until the first slice of each wave has come, and 1.5
        microseconds between two kernels of a graph. A block of attention waits for each of its products, 60 clocks
        longer than these take; the blocks of a multiprocessor fill each other's waits. These four are assumed.
"""
import collections
import datetime
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMS, CLOCK, FLOPS, BANDWIDTH = 132, 1.70e9, 4096, 3.35e12  # an H100 SXM: of a multiprocessor and clock; bytes a second
SCHEDULERS, WARP, ROWS = 4, 32, 64
FIRST, BETWEEN, REACHED, WAIT = 700, 1.5e-6, 0.85, 60
# Of a thread that dequantizes eight weights in NF4, in the loop of bp_matmul_quantised_hopper that begins at its STS.128,
# by nvdisasm 13.5.37 on 2026-11-30; two of four warpgroups do so for each slice of 128 x 64.
DEQUANTIZES = 98
STEPS = (
    ("GPT-2 124M, 16 x 1,024", 16384, ("preset=gpt2", "batch=16", "sequence=1024", "chunk=4096")),
    ("GPT-2 1.5B, 16 x 1,024", 16384, ("preset=gpt2-xl", "batch=16", "sequence=1024", "chunk=4096")),
    ("Llama 3 8B, QLoRA r 16 on NF4, 4 x 2,048, checkpointed", 8192,
     ("preset=llama-3-8b", "batch=4", "sequence=2048", "policy=full", "lora=16", "quant=nf4", "chunk=4096")),
)
GROUPS = (("attention", r"attention"), ("loss", r"cross_entropy|loss_sum"), ("update", r"adamw|norm_partial|step_decide"),
          ("products of adapters", r"low"), ("products", r"matmul"), ("norms, embeddings, others", r""))


def table(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.M)


TILES = [tuple(map(int, row)) for row in table("device/cuda/hopper_tiles.h", r"\{(\d+), (\d+), \d+, (\d+), \d+\}")]
# (clocks of one warp for a score, by docs/figures/gpu-slots.md; products of a tile; blocks of a multiprocessor)
ALONE = dict(table("docs/figures/gpu-slots.md", r"^\| (bp_attention_\w+) \| [\d.]+ \| ([\d.]+) \|$"))
ATTENTION = {"forward": (("bp_attention_forward_hopper", 2, 3),),
             "backward": (("bp_attention_backward_keys_hopper", 4, 2), ("bp_attention_backward_queries_hopper", 3, 2))}
BOUND = {row[:3]: float(row[3]) for row in table("tools/ptx/bounds", r"^(\w+)\t(\w+)\t([^\t]+)\t([\d.]+)$")}


def cut(whole, part):
    return -(-whole // part)


def instructions(module, kernel, after):
    """Those of a thread for four sums of a product, or for a score; 0 of a kernel that has no row."""
    name = "adds with bias" if after == "adds bias" else {
        "": "plain", "bias": "plain with bias", "gelu bias": "gelu with bias"}.get(after, after)
    return BOUND.get((module, kernel, name), BOUND.get((module, kernel, "plain"), 0))


def product(row, m, n, k):
    """Clocks of the slices of a product in the tile that takes fewest, how many waves, clocks of what follows. Of few tiles
    the terms are split, so that half of the multiprocessors at least have work."""
    found, tiles = [], TILES
    if "quantised" in row["kernel"]:
        issued = 128 * 64 / 8 * DEQUANTIZES / WARP / SCHEDULERS
        tiles = [(rows, columns, max(per_slice, issued)) for rows, columns, per_slice in TILES[:1]]
    for rows, columns, per_slice in tiles:
        waves = cut(cut(m, rows) * cut(n, columns), SMS)
        work = cut(m, rows) * cut(n, columns) * cut(k, 64) * per_slice / SMS  # split where they are few
        found.append((max(work, min(waves * cut(k, 64) * per_slice, work * 2)), waves))
    slices, waves = min(found)
    issues = m * n / 4 * instructions(row["module"], row["kernel"], row["after"].strip()) / WARP
    return slices, waves, issues / (SMS * SCHEDULERS)


def times(row):
    """(ideal, hard, likely) seconds of a launch."""
    flops, moved = float(row["flops"]), float(row["bytes"]) / BANDWIDTH
    ideal = max(flops / (SMS * FLOPS * CLOCK), moved)
    hard, likely = max(ideal, moved), max(ideal, moved / REACHED)
    size = re.match(r"(\d+)x(\d+)x(\d+)$", row["shape"])
    if row["kernel"] == "bp_quantised_dequantize":
        weights = int(size.group(2)) * int(size.group(3))
        moved = weights * 2.5 / BANDWIDTH
        hard = max(moved, weights / 8 * DEQUANTIZES / WARP / (SMS * SCHEDULERS) / CLOCK)
        likely = max(moved / REACHED, hard)
    elif size and flops > 0:
        slices, waves, issues = product(row, *map(int, size.groups()))
        hard = max((slices + issues) / CLOCK, moved)
        likely = max((slices + issues + waves * FIRST) / CLOCK, moved / REACHED)
    elif row["op"].startswith("attention") and flops > 0:
        way = "forward" if row["op"].endswith("forward") else "backward"
        scores = flops / row["width"] / (4 if way == "forward" else 10) / SMS
        each = 2 * row["width"] / ROWS ** 2  # clocks of tensor cores for a score
        issued = sum(scores * BOUND["attention_hopper", name, "a score"] for name, _, _ in ATTENTION[way])
        sums = sum(scores * count * each for _, count, _ in ATTENTION[way])
        turns = sum(scores / ROWS ** 2 * (ROWS ** 2 / 128 * float(ALONE[name]) + count * (each * ROWS ** 2 + WAIT)) /
                    blocks for name, count, blocks in ATTENTION[way])
        hard = max(max(issued / WARP / SCHEDULERS, sums) / CLOCK, moved)
        likely = max(turns / CLOCK, hard)
    return ideal, hard, likely + BETWEEN


def group_of(row):
    size = re.match(r"(\d+)x(\d+)x(\d+)$", row["shape"])
    low = size and min(map(int, size.groups())) <= 64
    name = "low" if low else row["op"]
    return next(group for group, pattern in GROUPS if re.search(pattern, name))


def read(lines, width):
    head, rows = None, []
    for line in lines:
        cells = line.rstrip("\n").split("\t")
        if head is None and not line.startswith("#"):
            head = cells
        elif head is not None:
            row = dict(zip(head, cells), width=width)
            rows.append(row)
    return rows


def summed(rows):
    sums = collections.OrderedDict((group, [0, 0.0, 0.0, 0.0]) for group, _ in GROUPS)
    for row in rows:
        to = sums[group_of(row)]
        to[0] += 1
        for i, seconds in enumerate(times(row)):
            to[i + 1] += seconds
    return collections.OrderedDict((group, to) for group, to in sums.items() if to[0])


def printed(sums, tokens=0):
    lines = ["| group | kernels | ideal, ms | hard, ms | likely, ms |", "|---|---|---|---|---|"]
    total = [sum(column) for column in zip(*sums.values())]
    for group, row in list(sums.items()) + [("sum", total)]:
        lines.append("| %s | %d | %s |" % (group, row[0], " | ".join("%.1f" % (1e3 * x) for x in row[1:])))
    if tokens:
        lines.append("| tokens a second | | %s |" % " | ".join("%s" % format(round(tokens / x), ",") for x in total[1:]))
    return "\n".join(lines)


def write(page):
    program = os.path.join(ROOT, "build/release/tools/bench/gpu_launches")
    parts = []
    for name, tokens, words in STEPS:
        out = subprocess.run([program, *words], stdout=subprocess.PIPE, check=True, text=True).stdout
        width = 128 if "llama" in words[0] else 64
        parts.append("## %s\n\n    gpu_launches %s\n\n%s\n" % (
            name, " ".join(words), printed(summed(read(out.splitlines(), width)), tokens)))
    text = HEAD % datetime.date.today().isoformat() + "\n".join(parts)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


HEAD = """# Figures: estimates of training steps on a Hopper

GPU performance is not measured yet. These times are estimates from lists of launches and counted instructions
([gpu-slots](gpu-slots.md)); no GPU was asked. `tools/ptx/step.py` states what each column assumes.

    make build/release/tools/bench/gpu_launches
    tools/ptx/step.py --write docs/figures/gpu-steps.md

Made %s for an H100 with 132 multiprocessors at 1.70 GHz and 3.35 TB/s.

"""

if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2])
    else:
        print(printed(summed(read(sys.stdin, int(os.environ.get("WIDTH", "64"))))))
