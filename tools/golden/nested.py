#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NF4 with double quantisation as bitsandbytes 0.50.2 makes it on a CPU with one thread.

    tools/golden/nested.py           tests/golden/nested.txt: of each layer ROWS COLUMNS KIND, the offset's
                                     bits, and FNV-1a over the codes, the scales' codes and the scales' scales
    tools/golden/nested.py COUNT     compares so many layers of random shapes with core/ops, which it
                                     compiles with gcc, element by element

A layer is made from a counter, here and in tests/golden/test_quantised_golden.c in the same way. KIND 0 is the
cube of uniform numbers, 1 has every third block zero, 2 is two values only, 3 all zero, 4 so small that scales
have no inverse.
"""
import ctypes
import os
import subprocess
import sys
import tempfile

import bitsandbytes.functional as bnb
import numpy as np
import torch

OUT = "tests/golden/nested.txt"
SHAPES = [(1, 1), (3, 7), (1, 63), (1, 64), (1, 65), (5, 64), (7, 64), (8, 64), (9, 63), (31, 64), (33, 64),
          (63, 65), (64, 64), (100, 37), (129, 130), (255, 64), (256, 64), (257, 64), (512, 64), (300, 100),
          (333, 222), (768, 64), (768, 768), (777, 333), (1024, 512), (1500, 701), (2048, 1024)]


def numbers(count):
    """splitmix64 of 1, 2, .. (Steele, Lea, Flood 2014), the upper 24 bits as floats from -1 to 1."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z = z ^ z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)


def layer(rows, columns, kind):
    values = numbers(rows * columns)
    if kind in (0, 1):
        values = values * values * values
    if kind == 1:
        values[np.arange(len(values)) // 64 % 3 == 0] = 0
    if kind == 2:
        values = np.where(values > 0, np.float32(0.3), np.float32(-0.7))
    if kind == 3:
        values = values * np.float32(0)
    if kind == 4:
        values = values * np.float32(1e-20) * np.float32(1e-20)
    return values.reshape(rows, columns)


def quantised(values):
    codes, state = bnb.quantize_4bit(torch.from_numpy(values), blocksize=64, quant_type="nf4",
                                     compress_statistics=True)
    return (codes.numpy().reshape(-1), state.absmax.numpy(), state.state2.absmax.numpy(),
            np.float32(state.offset.item()))


def digest(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def golden():
    with open(OUT, "w", encoding="utf-8") as file:
        for shape in SHAPES:
            for kind in range(5 if shape[0] * shape[1] < 30000 else 2):
                codes, scales, nested, offset = quantised(layer(*shape, kind))
                file.write(f"{shape[0]} {shape[1]} {kind} {offset.view(np.uint32):08x} "
                           f"{digest(codes.tobytes()):08x} {digest(scales.tobytes()):08x} "
                           f"{digest(nested.tobytes()):08x}\n")


GLUE = r"""
#include "core/ops/cascade.h"
#include "core/ops/quantised.h"
void quantise(const float *values, uint64_t count, uint8_t *codes, uint8_t *scales, float *nested, float *offset)
{
    static float absmax[1 << 20];
    uint64_t blocks = (count + 63) / 64;
    bp_cascade sum;
    bp_cascade_begin(&sum, blocks);
    for (uint64_t b = 0; b < blocks; b++) {
        uint32_t some = count - 64 * b < 64 ? (uint32_t)(count - 64 * b) : 64;
        absmax[b] = bp_four_block(BP_QUANTISED_NF4, values + 64 * b, some, codes + 32 * b);
        bp_cascade_add(&sum, absmax[b]);
    }
    *offset = bp_cascade_mean(&sum);
    for (uint64_t g = 0; 256 * g < blocks; g++)
        nested[g] = bp_nested_block(absmax + 256 * g, blocks - 256 * g < 256 ? (uint32_t)(blocks - 256 * g) : 256,
                                    *offset, scales + 256 * g);
}
"""


def prove(count):
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/glue.c", "w", encoding="utf-8") as file:
            file.write(GLUE)
        names = [f"core/ops/{name}.c" for name in ("cascade", "quantised", "quantised_map")]
        subprocess.run(["gcc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I.", f"{folder}/glue.c", *names, "-lm",
                        "-o", f"{folder}/own.so"], check=True)
        own = ctypes.CDLL(os.path.join(folder, "own.so"))
    generator = np.random.default_rng(1)
    wrong = 0
    for number in range(count):
        most = (40, 300, 1200)[number % 3]
        rows, columns = generator.integers(1, most, 2)
        values = (generator.standard_normal((rows, columns)) * 10.0 ** generator.integers(-4, 2)).astype(np.float32)
        if number % 5 == 0:
            values = values.astype(np.float16).astype(np.float32)
        codes, scales, nested, offset = quantised(values)
        found = [np.zeros(len(codes) + 64, np.uint8), np.zeros_like(scales), np.zeros_like(nested),
                 np.zeros(1, np.float32)]
        own.quantise(values.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(values.size),
                     *(array.ctypes.data_as(ctypes.c_void_p) for array in found))
        same = (np.array_equal(found[0][:len(codes)], codes), np.array_equal(found[1], scales),
                np.array_equal(found[2], nested), found[3][0] == offset)
        if not all(same):
            wrong += 1
            print(rows, columns, "codes, scales, nested, offset:", *same)
    print(f"{count} layers, {wrong} with other bytes")


def main():
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        prove(int(sys.argv[1]))
    else:
        golden()


if __name__ == "__main__":
    main()
