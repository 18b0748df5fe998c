# SPDX-License-Identifier: MIT
"""Triton's programs for make.py."""
import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def softmax(o, x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def dot(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :], mask=(rm[:, None] < M) & ((k + rk)[None, :] < K), other=0.)
        y = tl.load(b + (k + rk)[:, None] * N + rn[None, :], mask=((k + rk)[:, None] < K) & (rn[None, :] < N), other=0.)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def histogram(o, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(o + (tl.load(x + i, mask=i < n, other=0) & 15), 1, mask=i < n)


def text(function, signature, constants, capability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    for name in constants:
        signature = dict(signature, **{name: "constexpr"})
    made = triton.compile(ASTSource(function, signature, constants), target=GPUTarget("cuda", capability, 32))
    return made.asm["ptx"]
