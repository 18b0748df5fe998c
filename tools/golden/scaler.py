#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference values for tests/unit/core/run/test_half_training.c: torch.amp.GradScaler over 20 steps of which
the 7th and the 8th overflow. For each growth interval a tensor (20, 3) of doubles: the scale after
the step, whether the step was skipped, and the growth tracker after it.

    python3 tools/golden/scaler.py tests/golden/scaler.safetensors
"""
import json
import struct
import sys

import numpy as np
import torch

STEPS, OVERFLOWS = 20, (7, 8)
SCALES = {1: 16.0, 3: 65536.0, 5: 65536.0, 2000: 65536.0}  # where each interval starts


def run(interval, scale):
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    rows = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        before = weight.detach().clone()
        loss = (weight * (float("inf") if step in OVERFLOWS else 1.0)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped = bool(torch.equal(before, weight.detach()))
        rows.append([scaler.get_scale(), float(skipped), float(scaler._get_growth_tracker())])
    return np.array(rows, dtype="<f8")


def main():
    header, data = {}, b""
    for interval, scale in SCALES.items():
        raw = run(interval, scale).tobytes()
        header["interval_%d" % interval] = {
            "dtype": "F64", "shape": [STEPS, 3], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
