#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/blocks/written.safetensors: floats, and the blocks that ggml's own functions make of them.

    for f in type_name type_size row_size abort; do echo "void ggml_$f(void) {}"; done >names.c
    cc -O3 -std=gnu11 -DNDEBUG -fPIC -shared -I GGML/src -I GGML/include GGML/src/ggml-quants.c names.c -o libggml-quants.so -lm
    tools/golden/blocks_k.py ./libggml-quants.so

From the repository root; needs numpy and safetensors (written with the ggml of llama-cpp-python 0.3.36; a second). The
functions are quantize_row_NAME_ref: those that llama-quantize takes where it has no importance matrix.
"""
import ctypes
import sys

import numpy
from safetensors.numpy import save_file

OUT = "tests/golden/blocks/written.safetensors"
BYTES = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
BLOCK = 256


def floats():
    """Blocks as weights are, and those with which a fit has nothing to choose or little room."""
    rng = numpy.random.default_rng(21)
    rows = [rng.normal(0, size, BLOCK) for size in (1e-6, 0.02, 0.02, 1, 3000)]
    rows.append(rng.standard_t(3, BLOCK) * 0.02)            # outliers
    rows.append(rng.normal(0, 0.02, BLOCK) * numpy.repeat(10.0 ** numpy.arange(-4, 4), 32))
    rows.append(numpy.abs(rng.normal(0, 0.02, BLOCK)))      # nothing below 0
    rows.append(-numpy.abs(rng.normal(0, 0.02, BLOCK)))     # nothing above 0
    rows.append(numpy.zeros(BLOCK))
    rows.append(numpy.full(BLOCK, 0.25))
    rows.append(numpy.full(BLOCK, -0.25))
    rows.append(numpy.where(numpy.arange(BLOCK) % 32 == 5, 1.0, 0.0))
    rows.append(numpy.where(numpy.arange(BLOCK) < 96, 0.0, rng.normal(0, 0.5, BLOCK)))
    rows.append(rng.normal(0, 1e-12, BLOCK))                # steps that are 0 in half precision
    rows.append(rng.normal(0, 1e-17, BLOCK))
    rows.append(rng.integers(-8, 8, BLOCK) / 8)             # exact in a few codes
    return numpy.concatenate(rows).astype(numpy.float32)


def main():
    library = ctypes.CDLL(sys.argv[1])
    values = floats()
    tensors = {"floats": values}
    for name, size in BYTES.items():
        made = numpy.zeros(len(values) // BLOCK * size, numpy.uint8)
        function = getattr(library, f"quantize_row_{name[0].lower()}{name[1:]}_ref")
        function.restype = None
        function(values.ctypes.data_as(ctypes.c_void_p), made.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(values)))
        tensors[name + ".packed"] = made
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
