#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference weights for tests/unit/optim/test_rules.c: 50 steps of each update rule in double.

SGD, Adam, AdamW, RMSprop and Adagrad are torch.optim's own, schedule-free AdamW that of schedulefree 1.4.1; Lion, LAMB, LARS and AdEMAMix are the
algorithms of their papers, written out below. Gradients are a formula of step and element that is
exact in single precision, so only weights are stored.

    python3 tools/golden/optim.py tests/golden/optim.safetensors
"""
import json
import math
import struct
import sys

import numpy as np
import schedulefree
import torch

COUNT, STEPS = 300, 50


def noise(step):
    """Numbers in [0, 1) with 16 bits."""
    x = (np.arange(COUNT, dtype=np.uint64) * 2654435761 + step * 2246822519 + 374761393) & 0xFFFFFFFF
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(13)
    return (x >> np.uint64(16)).astype(np.float64) / 65536.0


def gradient(step):
    return (noise(step) - 0.5) + 0.25 * (noise(0) - 0.5)


def start():
    return noise(1000) * 2.0 - 1.0


def by_torch(make):
    w = torch.nn.Parameter(torch.tensor(start(), dtype=torch.float64))
    optimizer = make([w])
    for t in range(1, STEPS + 1):
        w.grad = torch.tensor(gradient(t), dtype=torch.float64)
        optimizer.step()
    return w.detach().numpy()


def schedule_free(lr, decay, warm, average):
    """y, or the average x; the rate rises over `warm` steps."""
    w = torch.nn.Parameter(torch.tensor(start(), dtype=torch.float64))
    optimizer = schedulefree.AdamWScheduleFree([w], lr=lr, weight_decay=decay, warmup_steps=warm, foreach=False)
    optimizer.train()
    for t in range(1, STEPS + 1):
        w.grad = torch.tensor(gradient(t), dtype=torch.float64)
        optimizer.step()
    if average:
        optimizer.eval()
    return w.detach().numpy()


def lion(lr, beta1, beta2, decay):
    """Chen et al., arXiv 2302.06675, algorithm 2."""
    w, m = start(), np.zeros(COUNT)
    for t in range(1, STEPS + 1):
        g = gradient(t)
        update = np.sign(beta1 * m + (1 - beta1) * g)
        m = beta2 * m + (1 - beta2) * g
        w = w - lr * (update + decay * w)
    return w


def lamb(lr, beta1, beta2, epsilon, decay):
    """You et al., arXiv 1904.00962, algorithm 2, with phi(z) = z."""
    w, m, v = start(), np.zeros(COUNT), np.zeros(COUNT)
    for t in range(1, STEPS + 1):
        g = gradient(t)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        r = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + epsilon) + decay * w
        w = w - lr * np.linalg.norm(w) / np.linalg.norm(r) * r
    return w


def lars(lr, momentum, coefficient, decay):
    """You, Gitman and Ginsburg, arXiv 1708.03888, algorithm 1."""
    w, v = start(), np.zeros(COUNT)
    for t in range(1, STEPS + 1):
        g = gradient(t)
        local = coefficient * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
        v = momentum * v + lr * local * (g + decay * w)
        w = w - v
    return w


def ademamix(lr, beta1, beta2, beta3, epsilon, alpha, t_alpha, t_beta3, decay):
    """Pagliardini, Ablin and Grangier, arXiv 2409.03137, algorithm 1."""
    w, m1, m2, v = start(), np.zeros(COUNT), np.zeros(COUNT), np.zeros(COUNT)
    for t in range(1, STEPS + 1):
        g = gradient(t)
        a = min(t * alpha / t_alpha, alpha) if t_alpha else alpha
        b3 = beta3
        if t_beta3:
            s = min(t / t_beta3, 1.0)
            l1, l3 = math.log(beta1), math.log(beta3)
            b3 = min(math.exp(l1 * l3 / ((1 - s) * l3 + s * l1)), beta3)
        m1 = beta1 * m1 + (1 - beta1) * g
        m2 = b3 * m2 + (1 - b3) * g
        v = beta2 * v + (1 - beta2) * g * g
        step = (m1 / (1 - beta1**t) + a * m2) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
        w = w - lr * (step + decay * w)
    return w


o = torch.optim
CASES = {
    "sgd": by_torch(lambda p: o.SGD(p, 0.01, weight_decay=0.01)),
    "sgd_momentum": by_torch(lambda p: o.SGD(p, 0.01, momentum=0.9, dampening=0.5, weight_decay=0.01)),
    "sgd_nesterov": by_torch(lambda p: o.SGD(p, 0.01, momentum=0.9, nesterov=True)),
    "adam": by_torch(lambda p: o.Adam(p, 0.01, weight_decay=0.1)),
    "adamw": by_torch(lambda p: o.AdamW(p, 0.01, weight_decay=0.1)),
    "rmsprop": by_torch(lambda p: o.RMSprop(p, 0.01, alpha=0.9, weight_decay=0.1)),
    "rmsprop_momentum": by_torch(lambda p: o.RMSprop(p, 0.001, momentum=0.9)),
    "adagrad": by_torch(lambda p: o.Adagrad(p, 0.01, weight_decay=0.1)),
    "lion": lion(0.01, 0.9, 0.99, 0.1),
    "lamb": lamb(0.01, 0.9, 0.999, 1e-6, 0.1),
    "lars": lars(1.0, 0.9, 0.01, 0.1),
    "ademamix": ademamix(0.01, 0.9, 0.999, 0.9999, 1e-8, 5.0, 0, 0, 0.1),
    "schedule_free": schedule_free(0.01, 0.1, 0, False),
    "schedule_free_warm": schedule_free(0.01, 0.1, 10, False),
    "schedule_free_average": schedule_free(0.01, 0.1, 10, True),
    "ademamix_scheduled": ademamix(0.01, 0.9, 0.999, 0.9999, 1e-8, 5.0, 40, 60, 0.1),
}


def main():
    header, data = {}, b""
    for name, w in CASES.items():
        raw = w.astype("<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": [COUNT], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
