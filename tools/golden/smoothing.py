#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Losses with smoothed labels and weighted classes as PyTorch and transformers compute them in float64, as a
table in C for tests/unit/device/host/rows/test_loss_golden.c:

    python tools/golden/smoothing.py >tests/golden/smoothing.def

A row is LOSS(kind, smoothing, loss, (weights), (gradients)) over the rows of logits and labels at the top;
kind 0: transformers' LabelSmoother, labels of -1 ignored; 1: torch.nn.functional.cross_entropy with class
weights and label_smoothing, over the rows with a label."""

import torch
import transformers
from transformers.trainer_pt_utils import LabelSmoother

ROWS, CLASSES = 4, 5
torch.manual_seed(7)
LOGITS = (torch.randn(ROWS, CLASSES) * 16).round() / 8
LABELS = torch.tensor([3, -1, 0, 4])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25, 3.0], dtype=torch.float64)


def smoothed(logits, smoothing):
    labels = LABELS.clone()
    labels[labels < 0] = -100
    return LabelSmoother(epsilon=smoothing)({"logits": logits[None]}, labels[None])


def weighted(logits, smoothing, weights):
    rows = LABELS >= 0
    return torch.nn.functional.cross_entropy(
        logits[rows], LABELS[rows], weight=weights, label_smoothing=smoothing)


def numbers(values):
    return ", ".join(repr(v) for v in values)


def row(kind, smoothing, weights):
    logits = LOGITS.double().requires_grad_()
    loss = smoothed(logits, smoothing) if kind == 0 else weighted(logits, smoothing, weights)
    loss.backward()
    print(f"LOSS({kind}, {smoothing}, {loss.item()!r},")
    print(f"     ({numbers(weights.tolist())}),")
    lines = ",\n      ".join(numbers(g) for g in logits.grad.tolist())
    print(f"     ({lines}))")


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by tools/golden/smoothing.py with torch {torch.__version__.split('+')[0]} and"
          f" transformers {transformers.__version__}. */")
    print(f"LOGITS({numbers(LOGITS.flatten().tolist())})")
    print(f"LABELS({numbers(LABELS.tolist())})")
    ones = torch.ones(CLASSES, dtype=torch.float64)
    for smoothing in (0.0, 0.1, 0.5):
        row(0, smoothing, ones)
        row(1, smoothing, ones)
        row(1, smoothing, WEIGHTS)


main()
