#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Blocks of floats as PyTorch rounds them to float8_e4m3fn, as a table in C for
tests/unit/device/host/elements/test_tape.c:

    python tools/golden/tape.py >tests/golden/tape.def

A row is BLOCK(byte of the scale, (bits of x), (codes), (bits of the values)); the scale's exponent is found
by trying them all from -117 up. The bits are those of fp32."""

import numpy
import torch

COUNT = 128


def bits(x):
    return ", ".join("0x%08x" % b for b in x.numpy().view(numpy.uint32))


def block(x):
    most = x.abs().max().double().item()
    e = next(e for e in range(-117, 128) if most / 2.0**e <= 448.0)
    codes = (x.double() / 2.0**e).float().to(torch.float8_e4m3fn)
    values = (codes.double() * 2.0**e).float()
    listed = ", ".join(str(c) for c in codes.view(torch.uint8).tolist())
    print(f"BLOCK({e + 127}, ({bits(x)}),\n      ({listed}),\n      ({bits(values)}))")


def ties():
    """Points half-way between neighbours, and those beside them, with the largest number."""
    all_codes = torch.arange(0, 127, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    middle = (all_codes[1:] + all_codes[:-1]) / 2
    return middle, torch.nextafter(middle, torch.tensor(0.0)), torch.nextafter(middle, torch.tensor(1e9))


torch.manual_seed(11)
print("/* SPDX-License-Identifier: MIT */")
print(f"/* Made by tools/golden/tape.py with torch {torch.__version__.split('+')[0]}. */")
for points in ties():
    block(torch.cat([points, torch.tensor([448.0, -0.0])]))
block(torch.randn(COUNT) * torch.exp(4 * torch.randn(COUNT)))
block(torch.randn(COUNT) * 1e-36)
block(torch.randn(COUNT) * 1e38)
block(torch.cat([torch.full((1,), 448.5), torch.linspace(-3, 3, COUNT - 1)]))
block(torch.zeros(COUNT))
