#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on the GPU that bedplate was just timed on: copies, matrix products, a training step of GPT-2.

    tools/bench/torch_gpu.py [--side N] [--batch N] [--sequence N] [--kernels FILE]

The step is GPT-2 124M as a user of PyTorch writes it for speed: bfloat16 autocast, flash attention, fused
AdamW, clipping at 1.0, no dropout; eager, then torch.compile. FILE is what tools/bench/gpu_kernels
printed; its products are then given in per cent of PyTorch's. `make gpu` runs it.
"""
import argparse
import re
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS = 50257, 1024, 768, 12, 12
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ROUNDS = 3


def best_seconds(work, repeats):
    """Of one call: the best of some rounds of `repeats` calls, after a round that warms up."""
    best = 1e30
    for number in range(ROUNDS + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        torch.cuda.synchronize()
        if number > 0:
            best = min(best, (time.perf_counter() - began) / repeats)
    return best


def copies(side):
    x = torch.randn(side * 16 * 768, device="cuda")
    y = torch.empty_like(x)
    took = best_seconds(lambda: y.copy_(x), 20)
    print("  f32  copy                   %10.1f GB/s" % (2e-9 * x.nbytes / took))


def products(side):
    """GFLOP/s by type, x w^T of random numbers."""
    found = {}
    for name, dtype in TYPES.items():
        for tf32 in (False, True) if name == "f32" else (False,):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            x = torch.randn(side, side, device="cuda").to(dtype)
            w = torch.randn(side, side, device="cuda").to(dtype)
            took = best_seconds(lambda x=x, w=w: F.linear(x, w), 20)
            word = "tf32" if tf32 else name
            found[word] = 2e-9 * side ** 3 / took
            print("  %-4s forward  x w^T  %10.3f ms  %10.1f GFLOP/s" % (word, 1e3 * took, found[word]))
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def compare(path, found):
    with open(path, encoding="ascii", errors="replace") as text:
        for line in text:
            row = re.match(r"\s+(\w+)\s+(forward  x w\^T|inputs   d w|weights  d\^T x)\s.*?([0-9.]+) GFLOP/s",
                           line)
            if row and row.group(1) in found:
                print("  %-4s %-14s of bedplate is %5.1f %% of PyTorch's forward"
                      % (row.group(1), row.group(2), 100.0 * float(row.group(3)) / found[row.group(1)]))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), labels.view(-1))


def steps(batch, sequence, compiled):
    torch.manual_seed(1)
    model = Model().cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    network = torch.compile(model) if compiled else model
    ids = torch.randint(0, VOCABULARY, (batch, sequence + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = network(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    took = best_seconds(step, 10)
    print("  GPT-2 124M, %d x %d tokens, bf16, %-8s  %8.2f ms  %10.0f tokens/s  %d bytes at most"
          % (batch, sequence, "compiled" if compiled else "eager", 1e3 * took, batch * sequence / took,
             torch.cuda.max_memory_allocated()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--kernels", default="")
    args = parser.parse_args()
    print("torch %s, %s" % (torch.__version__, torch.cuda.get_device_name()))
    copies(args.side)
    found = products(args.side)
    if args.kernels:
        compare(args.kernels, found)
    for compiled in (False, True):
        steps(args.batch, args.sequence, compiled)


main()
