#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The learning-rate schedules of Hugging Face transformers, as a table in C for
tests/unit/optim/test_rate_golden.c:

    python tools/golden/rates.py >tests/golden/rates.def

A row is RATE(name, peak, warm-up steps, steps, cycles, power, end, timescale, the rates of steps 0 ..).
A number that is not given to transformers is 0."""

import torch
import transformers
from transformers import get_scheduler

PEAK = 3e-3
CASES = [
    ("linear", 4, 17, {}),
    ("cosine", 4, 17, {"num_cycles": 1.25}),
    ("cosine_with_restarts", 4, 17, {}),
    ("cosine_with_restarts", 3, 23, {"num_cycles": 3}),
    ("cosine_with_restarts", 0, 12, {"num_cycles": 2}),
    ("polynomial", 4, 17, {}),
    ("polynomial", 3, 20, {"power": 2.0, "lr_end": 1e-4}),
    ("polynomial", 0, 11, {"power": 0.5, "lr_end": 0.0}),
    ("inverse_sqrt", 4, 17, {}),
    ("inverse_sqrt", 0, 17, {}),
    ("inverse_sqrt", 5, 17, {"timescale": 3}),
]


def rates(name, warmup, steps, kwargs):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=PEAK)
    schedule = get_scheduler(name, optimizer, warmup, steps, dict(kwargs))
    found = []
    for _ in range(steps + 1):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by tools/golden/rates.py with transformers {transformers.__version__}. */")
    for name, warmup, steps, kwargs in CASES:
        end = kwargs.get("lr_end", 1e-7 if name == "polynomial" else 0.0)
        numbers = [kwargs.get("num_cycles", 0), kwargs.get("power", 0), end, kwargs.get("timescale", 0)]
        row = ", ".join(repr(float(n)) for n in numbers)
        print(f'RATE("{name}", {PEAK!r}, {warmup}, {steps}, {row},')
        print(",\n".join(f"     {rate!r}" for rate in rates(name, warmup, steps, kwargs)) + ")")


main()
