#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the tiles of device/cuda/hopper_tiles.h take by its model of waves, for products of training.

    hopper_tiles.py          clocks of all products of a step: in tiles of 128 x 128 alone, with 256 x 128,
                             with all; and the share of what 132 multiprocessors multiply in that time
    hopper_tiles.py MODEL    the products of one model, each with its tile

Rows of a micro-batch, layers, dense layers as (outputs, inputs), head. No GPU is needed or asked.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCKS, DEPTH, SPLIT_LEAST = 132, 64, 384 # as device/cuda/plan_matmul.c has them
MODELS = {
    "gpt2-8x1024": (8192, 12, ((2304, 768), (768, 768), (3072, 768), (768, 3072)), (50304, 768)),
    "gpt2-64x1024": (65536, 12, ((2304, 768), (768, 768), (3072, 768), (768, 3072)), (50304, 768)),
    "gpt2-xl-16x1024": (16384, 48, ((4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400)),
                        (50304, 1600)),
    "llama-1b-8x2048": (16384, 16, ((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)),
                        (128256, 2048)),
    "llama-8b-2x8192": (16384, 32, ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),
                        (128256, 4096)),
}


def cut(whole, part):
    return -(-whole // part)


def tiles():
    """(rows, columns, clocks of a slice, clocks of a tile beside its slices)"""
    with open(os.path.join(ROOT, "device/cuda/hopper_tiles.h"), encoding="ascii") as table:
        rows = re.findall(r"\{(\d+), (\d+), \d+, (\d+), (\d+)\}", table.read())
    return [tuple(int(n) for n in row) for row in rows]


def splits_of(m, n, k):
    """How many parts the terms have, and the terms of one."""
    splits = min(k // SPLIT_LEAST, BLOCKS // (cut(m, 128) * cut(n, 128)))
    if splits < 2:
        return 1, k
    depth = cut(cut(k, splits), DEPTH) * DEPTH
    return cut(k, depth), depth


def least(product, known):
    """Fewest clocks of a product, and the tile that takes them."""
    m, n, k = product
    splits, depth = splits_of(m, n, k)
    found = []
    for rows, columns, per_slice, beside in known:
        count = cut(m, rows) * cut(n, columns)
        waves = cut(count, min(count, max(BLOCKS // splits, 1)))
        found.append((waves * (cut(depth, DEPTH) * per_slice + beside), -len(found), rows, columns))
    clocks, _, rows, columns = min(found, key=lambda f: (f[0], -f[1]))
    return clocks, "%d x %d" % (rows, columns)


def products(model):
    """How often, what for, and m, n, k of each product of a step."""
    batch, layers, dense, head = MODELS[model]
    for often, (outputs, inputs) in [(layers, pair) for pair in dense] + [(1, head)]:
        yield often, "forward", (batch, outputs, inputs)
        yield often, "backward, input", (batch, inputs, outputs)
        yield often, "backward, weight", (outputs, inputs, batch)


def total(model, known):
    return sum(often * least(product, known)[0] for often, _, product in products(model))


def main(names):
    known = tiles()
    for model in names:
        for often, what, product in products(model):
            clocks, tile = least(product, known)
            print("%2d %-16s %6d x %6d x %6d  %-9s %10d clocks, %.2f of 128 x 128 alone"
                  % ((often, what) + product + (tile, clocks, clocks / least(product, known[:1])[0])))
    for model in () if names else MODELS:
        alone, two, every = (total(model, known[:count]) for count in (1, 2, len(known)))
        work = sum(often * m * n * k for often, _, (m, n, k) in products(model))
        print("%-16s 128 x 128 %10d, with 256 x 128 %10d, with all %10d clocks: %.3f and %.3f of the "
              "first, %.2f of the peak" % (model, alone, two, every, two / alone, every / alone,
                                           work / (2048 * BLOCKS) / every))


if __name__ == "__main__":
    main(sys.argv[1:])
