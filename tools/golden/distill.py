#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The loss against a label and a teacher's top-k log-probabilities, as PyTorch computes it in float64, as a table
in C for tests/unit/device/host/rows/test_distill.c:

    python tools/golden/distill.py >tests/golden/distill.def

The teacher's log-probabilities over its k tokens are divided by the temperature and normalised over the k; the
student's logits are divided by it and normalised over the vocabulary. A row is LOSS(alpha, temperature, (losses),
(gradients of the mean over the rows with a label)) over the logits, labels, tops and log-probabilities at the top."""

import torch

ROWS, CLASSES, TOP = 4, 7, 3
torch.manual_seed(11)
LOGITS = (torch.randn(ROWS, CLASSES) * 16).round() / 8
LABELS = torch.tensor([3, -1, 0, 6])
TEACHER = torch.log_softmax((torch.randn(ROWS, CLASSES) * 16).round().double() / 8, -1)
LOGPS, TOPS = TEACHER.topk(TOP, dim=-1)
LOGPS = LOGPS.float()


def numbers(values):
    return ", ".join(repr(v) for v in values)


def row(alpha, temperature):
    logits = LOGITS.double().requires_grad_()
    there = LABELS >= 0
    target = torch.log_softmax(LOGPS.double() / temperature, -1)
    student = torch.log_softmax(logits / temperature, -1).gather(1, TOPS)
    kl = torch.nn.functional.kl_div(student, target, reduction="none", log_target=True).sum(-1)
    entropy = torch.nn.functional.cross_entropy(logits, LABELS.clamp(min=0), reduction="none")
    losses = torch.where(there, (1 - alpha) * entropy + alpha * temperature**2 * kl, torch.zeros(()).double())
    (losses.sum() / there.sum()).backward()
    print(f"LOSS({alpha}, {temperature}, ({numbers(losses.tolist())}),")
    print("     (" + ",\n      ".join(numbers(g) for g in logits.grad.tolist()) + "))")


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by tools/golden/distill.py with torch {torch.__version__.split('+')[0]}. */")
    print(f"LOGITS({numbers(LOGITS.flatten().tolist())})")
    print(f"LABELS({numbers(LABELS.tolist())})")
    print(f"TOPS({numbers(TOPS.flatten().tolist())})")
    print(f"LOGPS({numbers(LOGPS.flatten().tolist())})")
    for alpha, temperature in ((0.5, 1.0), (0.9, 2.0), (1.0, 0.5), (0.0, 3.0), (0.25, 4.0)):
        row(alpha, temperature)


main()
