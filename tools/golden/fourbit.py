#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NF4 and FP4 with blocks of 32 to 4096 elements and double quantisation, as bitsandbytes 0.50.2 makes them on a
CPU with one thread.

    tools/golden/fourbit.py      tests/golden/fourbit.txt: of each layer nf4 or fp4, the block's size, ROWS COLUMNS
                                KIND (nested.py), the offset's bits, and FNV-1a over the codes, the scales' codes,
                                the scales' scales, and the values with scales that are not nested
"""
import bitsandbytes.functional as bnb
import numpy as np
import torch

import nested

OUT = "tests/golden/fourbit.txt"
SHAPES = [(1, 1), (3, 7), (65, 64), (77, 333)]


def values_of(packed, book, absmax, block, count):
    pairs = packed.reshape(-1).astype(np.int64)
    codes = np.stack([pairs >> 4, pairs & 15], 1).reshape(-1)[:count]
    return book[codes] * np.repeat(absmax, block)[:count]


def main():
    torch.set_num_threads(1)
    with open(OUT, "w", encoding="utf-8") as file:
        for kind in ("nf4", "fp4"):
            book = bnb.get_4bit_type(kind, device="cpu").numpy()
            for block in (32, 64, 128, 256, 512, 1024, 2048, 4096):
                for number, (rows, columns) in enumerate(SHAPES + SHAPES[2:]):
                    made = number % 2 if number < len(SHAPES) else 2
                    layer = nested.layer(rows, columns, made)
                    _, plain = bnb.quantize_4bit(torch.from_numpy(layer), blocksize=block, quant_type=kind)
                    codes, state = bnb.quantize_4bit(torch.from_numpy(layer), blocksize=block, quant_type=kind,
                                                     compress_statistics=True)
                    values = values_of(codes.numpy(), book, plain.absmax.numpy(), block, layer.size)
                    parts = (codes, state.absmax, state.state2.absmax, torch.from_numpy(values))
                    offset = np.float32(state.offset.item()).view(np.uint32)
                    file.write(f"{kind} {block} {rows} {columns} {made} {offset:08x} " + " ".join(
                        f"{nested.digest(part.numpy().tobytes()):08x}" for part in parts) + "\n")


if __name__ == "__main__":
    main()
