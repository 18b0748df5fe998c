#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference weights for tests/unit/optim/test_matrix_rules.c: the update rules over whole matrices, in
double, after their papers' and authors' code (transformers' Adafactor, OpenLMLab's AdaLomo, zyushun's
Adam-mini, Keller Jordan's Muon, zhuhanqing's APOLLO, whose decay goes before the step here, as AdamW's).

The gradient of a matrix W is W (I + K), that of a vector w / 2, so that each step depends on those
before. APOLLO's projections are the counter generator's (core/base/random.h).

    python3 tools/golden/matrix_rules.py tests/golden/matrix_rules.safetensors
"""
import json
import math
import struct
import sys

import numpy as np

STEPS, RATE, DECAY = 12, 0.01, 0.1
# name, shape, stored input-major, outputs of a head, index of the parameter in the test's model
TENSORS = [("tall.weight", (12, 7), False, 1, 1), ("wide.weight", (6, 13), False, 1, 2),
           ("conv.weight", (8, 9), True, 1, 3), ("query.weight", (8, 6), False, 4, 4),
           ("some.bias", (5,), False, 1, 5), ("some.norm", (9,), False, 1, 6)]
M32 = 0xFFFFFFFF


def value(i, salt):
    x = (i * 2654435761 + salt * 2246822519 + 374761393) & M32
    x ^= x >> 15
    x = (x * 2246822519) & M32
    x ^= x >> 13
    return (x >> 16) / 65536.0 - 0.5


def filled(shape, salt):
    count = int(np.prod(shape))
    return np.array([value(i, salt) for i in range(count)]).reshape(shape)


def philox(counter, key):
    c, k0, k1 = list(counter), key & M32, key >> 32 & M32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32 ^ c[1] ^ k0) & M32, b & M32, (a >> 32 ^ c[3] ^ k1) & M32, a & M32]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def normals(seed, stream, count, deviation, interval):
    key = seed ^ 0x70726F6A656374 ^ (interval * 0x9E3779B97F4A7C15 & (1 << 64) - 1)
    out = []
    for pair in range((count + 1) // 2):
        w = philox([pair & M32, pair >> 32, stream, 0], key ^ 0x6E6F726D616C0000)
        u = [((w[0] << 32 | w[1]) >> 11) * 2.0**-53, ((w[2] << 32 | w[3]) >> 11) * 2.0**-53]
        radius, angle = math.sqrt(-2.0 * math.log(1.0 - u[0])), 2.0 * math.pi * u[1]
        out += [deviation * radius * math.cos(angle), deviation * radius * math.sin(angle)]
    return np.array(out[:count]).astype(np.float32).astype(np.float64)


def rms(x):
    return math.sqrt(np.mean(x * x))


def adafactor(scale_parameter):
    def step(s, t, w, g, info):
        beta2 = 1.0 - t**-0.8
        square = g * g + 1e-30
        if w.ndim == 2:
            r = s["r"] = beta2 * s.get("r", 0.0) + (1 - beta2) * square.mean(axis=1)
            c = s["c"] = beta2 * s.get("c", 0.0) + (1 - beta2) * square.mean(axis=0)
            u = g / np.sqrt(r / r.mean())[:, None] / np.sqrt(c)[None, :]
        else:
            v = s["v"] = beta2 * s.get("v", 0.0) + (1 - beta2) * square
            u = g / np.sqrt(v)
        u = u / max(1.0, rms(u))
        lr = RATE * max(1e-3, rms(w)) if scale_parameter else RATE
        return w * (1 - lr * info["decay"]) - lr * u
    return step


def adamw(s, t, w, g, info, epsilon=1e-8):
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * g * g
    u = s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + epsilon)
    return w * (1 - RATE * info["decay"]) - RATE * u


def adam_mini(s, t, w, g, info):
    if w.ndim == 2:
        rows = g.T if info["input_major"] else g
        blocks = rows.reshape(rows.shape[0] // info["together"], -1)
        mean = (blocks * blocks).mean(axis=1)
    else:
        mean = g * g if info["name"].endswith("bias") else np.mean(g * g)
    s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * g
    v = s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * mean
    h = np.sqrt(v / (1 - 0.999**t)) + 1e-8
    if w.ndim == 2:
        h = np.repeat(h, info["together"])
        h = h[None, :] if info["input_major"] else h[:, None]
    return w * (1 - RATE * info["decay"]) - RATE * (s["m"] / (1 - 0.9**t)) / h


def muon(match_rms):
    def step(s, t, w, g, info):
        if w.ndim != 2:
            return adamw(s, t, w, g, info)
        m = s["m"] = 0.95 * s.get("m", 0.0) + 0.05 * g
        x = 0.05 * g + 0.95 * m
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (np.linalg.norm(x) + 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if tall else x
        out, into = w.shape[::-1] if info["input_major"] else w.shape
        size = 0.2 * math.sqrt(max(w.shape)) if match_rms else math.sqrt(max(1.0, out / into))
        return w * (1 - RATE * info["decay"]) - RATE * size * x
    return step


def apollo(rank, scale, whole):
    def step(s, t, w, g, info):
        if w.ndim != 2:
            return adamw(s, t, w, g, info, 1e-6)
        tall = w.shape[0] >= w.shape[1]
        side = min(w.shape)
        r = min(rank, side)
        p = normals(42, 0x40000000 + info["index"], r * side, 1.0 / math.sqrt(r), (t - 1) // 5)
        low = (g if tall else g.T) @ p.reshape(r, side).T
        m = s["m"] = 0.9 * s.get("m", 0.0) + 0.1 * low
        v = s["v"] = 0.999 * s.get("v", 0.0) + 0.001 * low * low
        n = m / (np.sqrt(v) + 1e-6)
        if whole:
            u = g * np.linalg.norm(n) / (np.linalg.norm(low) + 1e-8)
        else:
            factor = np.linalg.norm(n, axis=1) / (np.linalg.norm(low, axis=1) + 1e-8)
            u = g * (factor[:, None] if tall else factor[None, :])
        norm = np.linalg.norm(u)
        if "norm" in s:
            limiter = max(norm / (s["norm"] + 1e-8), 1.01) / 1.01
            u, norm = u / limiter, norm / limiter
        s["norm"] = norm
        size = RATE * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return w * (1 - RATE * info["decay"]) - size * math.sqrt(scale) * u
    return step


RULES = {"adafactor": adafactor(False), "adalomo": adafactor(True), "adam_mini": adam_mini,
         "muon": muon(True), "muon_plain": muon(False), "apollo": apollo(3, 1.0, False),
         "apollo_mini": apollo(1, 128.0, True)}


def train(rule, tensor):
    name, shape, input_major, together, index = tensor
    w, state = filled(shape, index), {}
    info = {"name": name, "input_major": input_major, "together": together, "index": index,
            "decay": DECAY if len(shape) == 2 else 0.0}
    k = np.eye(shape[-1]) + filled((shape[-1], shape[-1]), 100 + index)
    for t in range(1, STEPS + 1):
        g = w @ k if len(shape) == 2 else 0.5 * w
        w = rule(state, t, w, g, info)
    return w


def main():
    header, data = {}, b""
    for rule, step in RULES.items():
        for tensor in TENSORS:
            raw = train(step, tensor).astype("<f8").tobytes()
            header[rule + "/" + tensor[0]] = {"dtype": "F64", "shape": [len(raw) // 8],
                                              "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
