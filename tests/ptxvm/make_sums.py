#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes programs/sums_*.ptx: products whose answers are those of the tensor cores of sm_80 and sm_90
by the published model (arXiv 2511.10909), computed here with fractions."""
import os
import random
import struct
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
# name: exponent bits, fraction bits, bits in memory, k, the two types as mma names them
KINDS = {"f16": (5, 10, 16, 16, "f32", "f16"), "bf16": (8, 7, 16, 16, "f32", "bf16"),
         "tf32": (8, 10, 32, 8, "f32", "tf32"), "half": (5, 10, 16, 16, "f16", "f16"),
         "f16_k8": (5, 10, 16, 8, "f32", "f16"), "tf32_k4": (8, 10, 32, 4, "f32", "tf32")}
F32 = (8, 23)
NAN, INF = "nan", "inf"


def decode(bits, form):
    """(significand, exponent) of a finite number, or the name of what it is with its sign."""
    exponents, fraction = form
    sign = -1 if bits >> (exponents + fraction) & 1 else 1
    field = bits >> fraction & ((1 << exponents) - 1)
    part = bits & ((1 << fraction) - 1)
    bias = (1 << (exponents - 1)) - 1
    if field == (1 << exponents) - 1:
        return (NAN if part else INF, sign)
    whole = part + (1 << fraction if field else 0)
    return (sign * Fraction(whole, 1 << fraction), max(field, 1) - bias)


def encode(value, form, nearest):
    """Bits of a fraction: cut toward zero, or to the nearest, halves to even."""
    exponents, fraction = form
    bias = (1 << (exponents - 1)) - 1
    sign = 1 << (exponents + fraction) if value < 0 else 0
    value = abs(value)
    top = 1 - bias
    while value >= Fraction(2) ** (top + 1):
        top += 1
    steps = value / Fraction(2) ** (top - fraction)
    whole = round(steps) if nearest else int(steps)
    bits = whole + ((top + bias - 1) << fraction)
    limit = ((1 << exponents) - 1) << fraction
    return (sign if whole else 0) | min(bits, limit)


def add(products, c, kept, out):
    """One step: products are pairs of bits decoded already."""
    known = [x for pair in products for x in pair] + [c]
    signs = set()
    for a, b in products:
        special = [x for x in (a, b) if x[0] in (NAN, INF)]
        if special:
            other = b if special[0] is a else a
            if any(x[0] == NAN for x in (a, b)) or other[0] == 0:
                return NAN
            sign = special[0][1] * (other[1] if other[0] == INF else (1 if other[0] > 0 else -1))
            signs.add(sign)
    if any(x[0] == NAN for x in known):
        return NAN
    if c[0] == INF:
        signs.add(c[1])
    if len(signs) == 2:
        return NAN
    if signs:
        exponents, fraction = out
        return (((1 << exponents) - 1) << fraction) | (0 if 1 in signs else 1 << (exponents + fraction))
    terms = [(a[0] * b[0], a[1] + b[1]) for a, b in products if a[0] * b[0] != 0]
    terms.append(c if c[0] != 0 else (c[0], -126))
    largest = max(e for _, e in terms)
    total = sum(int(s * Fraction(2) ** (kept + e - largest)) for s, e in terms)
    return encode(total * Fraction(2) ** (largest - kept), out, out != F32)


def element(a, b, c, kind, gpu):
    exponents, fraction, _, k, wide, _ = KINDS[kind]
    out = F32 if wide == "f32" else (5, 10)
    step = k if gpu >= 90 else (4 if "tf32" in kind else 8)
    nan = 0x7FFFFFFF if out == F32 else 0x7FFF
    for at in range(0, k, step):
        pairs = [(decode(x, (exponents, fraction)), decode(y, (exponents, fraction)))
                 for x, y in zip(a[at:at + step], b[at:at + step])]
        c = add(pairs, decode(c, out), 24 if gpu < 90 else 25, out)
        c = nan if c == NAN else c
    return c


def matrices(kind):
    exponents, fraction, _, k, wide, _ = KINDS[kind]
    form = (exponents, fraction)
    out = F32 if wide == "f32" else (5, 10)
    pick = random.Random(kind)
    bias = (1 << (exponents - 1)) - 1

    def number(spread, to):
        value = Fraction(pick.randrange(-4096, 4096), 4096) * Fraction(2) ** pick.randint(-spread, spread)
        return encode(value, to, True)

    def exact(value, to=form):
        return encode(Fraction(value), to, True)
    a = [[number(7, form) for _ in range(k)] for _ in range(16)]
    b = [[number(3, form) for _ in range(8)] for _ in range(k)]
    c = [[number(4, out) for _ in range(8)] for _ in range(16)]
    for r in range(k):
        b[r][0] = exact(1024 if r == 0 else 1)
    if out == F32:
        # 2^23 - 2^23 - 0.5 - 0.25 - 0.125: what is left tells the fraction bits.
        a[0] = [exact(x) for x in (-8192, -0.5, -0.25, -0.125)] + [0] * (k - 4)
        c[0][0] = exact(2 ** 23, out)
    else:
        # 2^-23 + 2^-25 + 2^-40: a subnormal accumulator counts as 2^-14, so that the last is cut off
        # and what is left lies between two f16.
        a[0] = [exact(Fraction(1, 2 ** 15)), exact(Fraction(1, 2 ** 20))] + [0] * (k - 2)
        b[0][6], b[1][6] = exact(Fraction(1, 2 ** 10)), exact(Fraction(1, 2 ** 20))
        c[0][6] = exact(Fraction(1, 2 ** 23), out)
    infinity = ((1 << exponents) - 1) << fraction
    sign = 1 << (exponents + fraction)
    a[1][k - 1] = infinity
    b[k - 1][1] = 0
    a[2][0], a[2][k - 1] = infinity, infinity | sign
    a[3][1] = infinity | 1
    largest = infinity - 1
    a[4] = [largest] * k
    b[0][2] = b[1][2] = largest
    a[5] = [pick.randrange(1, 1 << fraction) | pick.choice((0, sign)) for _ in range(k)]
    c[5] = [0] * 8
    for r in range(k):
        b[r][3] = pick.randrange(1, 1 << fraction)
        b[r][4] = exact(Fraction(2) ** (2 - bias + r % 3))
    c[6] = [pick.randrange(1, 1 << out[1]) for _ in range(8)]
    a[6] = [0] * k
    a[7] = [x & ~sign for x in a[7]]
    c[8] = [exact(x, out) for x in (Fraction(2) ** 15, -(Fraction(2) ** 15)) * 4]
    c[9][5] = ((1 << out[0]) - 1) << out[1]
    return a, b, c


def words(rows, bits, low):
    flat = [x for row in rows for x in row]
    if bits == 32:
        return [x << low for x in flat]
    return [flat[i] | flat[i + 1] << 16 for i in range(0, len(flat), 2)]


def save(path, kind, gpu, about, a, columns, c, expect):
    """The program of one mma.sync: A by rows, B by columns."""
    _, _, bits, k, wide, narrow = KINDS[kind]
    low = 13 if bits == 32 else 0
    wide_bits = 32 if wide == "f32" else 16
    show = lambda values: " ".join("0x%08x" % v for v in values)
    count_a = 16 * k * bits // 32
    row = k * bits // 8
    pairs = row // 16
    text = ["//! about " + about, "//! set PTXVM_DEVICE sm_%d:sums" % gpu, "//! kernel k grid 1 block 32",
            "//! buffer a u32 %d %s" % (count_a, show(words(a, bits, low))),
            "//! buffer b u32 %d %s" % (count_a // 2, show(words(columns, bits, low))),
            "//! buffer c u32 %d %s" % (4 * wide_bits, show(words(c, wide_bits, 0))),
            "//! buffer d u%d 128 undefined" % wide_bits]
    for name, how in zip("abcd", "rrrw"):
        text += ["//! argument " + name, "//! operand %s %s" % (name, how)]
    text += ["//! " + expect, ".version 7.0", ".target sm_80", ".address_size 64",
             ".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)", "{",
             "    .reg .b32 %r<40>;", "    .reg .b64 %d<20>;"]
    text += ["    ld.param.u64 %%d%d, [p%s];" % (i, n) for i, n in enumerate("abcd")]
    text += ["    mov.u32 %r0, %tid.x;", "    shr.u32 %r1, %r0, 2;", "    and.b32 %r2, %r0, 3;",
             "    mad.lo.u32 %%r3, %%r1, %d, %%r2;" % (row // 4), "    mad.wide.u32 %d4, %r3, 4, %d0;",
             "    mad.wide.u32 %d5, %r3, 4, %d1;"]
    for p in range(pairs):
        text += ["    ld.global.u32 %%r%d, [%%d4+%d];" % (10 + 2 * p, 16 * p),
                 "    ld.global.u32 %%r%d, [%%d4+%d];" % (11 + 2 * p, 16 * p + 8 * row),
                 "    ld.global.u32 %%r%d, [%%d5+%d];" % (20 + p, 16 * p)]
    per = 2 if wide == "f32" else 1
    text += ["    mul.lo.u32 %%r5, %%r2, %d;" % per, "    mad.lo.u32 %%r4, %%r1, %d, %%r5;" % (4 * per),
             "    mad.wide.u32 %d6, %r4, 4, %d2;", "    mad.wide.u32 %d7, %r4, 4, %d3;"]
    half = 128 * per
    at = [4 * x for x in range(per)] + [half + 4 * x for x in range(per)]
    text += ["    ld.global.u32 %%r%d, [%%d6+%d];" % (30 + i, o) for i, o in enumerate(at)]
    group = lambda first, n: "{" + ", ".join("%%r%d" % (first + i) for i in range(n)) + "}"
    text += ["    mma.sync.aligned.m16n8k%d.row.col.%s.%s.%s.%s %s, %s, %s, %s;" % (
        k, wide, narrow, narrow, wide, group(34, 2 * per), group(10, 2 * pairs), group(20, pairs),
        group(30, 2 * per))]
    text += ["    st.global.u32 [%%d7+%d], %%r%d;" % (o, 34 + i) for i, o in enumerate(at)]
    text += ["    ret;", "}", ""]
    with open(path, "w") as file:
        file.write("\n".join(text))


def write(kind, gpu):
    k = KINDS[kind][3]
    a, b, c = matrices(kind)
    columns = [[b[r][j] for r in range(k)] for j in range(8)]
    d = [[element(a[i], columns[j], c[i][j], kind, gpu) for j in range(8)] for i in range(16)]
    save(os.path.join(HERE, "programs", "sums_%s_sm%d.ptx" % (kind, gpu)), kind, gpu,
         "the sums of sm_%d's tensor cores, %s (made by make_sums.py)" % (gpu, kind), a, columns, c,
         "expect d " + " ".join(("0x%08x" if KINDS[kind][4] == "f32" else "0x%04x") % x for row in d for x in row))
    return d[0]


def main():
    for kind in KINDS:
        found = [write(kind, gpu) for gpu in (80, 90)]
        if KINDS[kind][4] == "f32":
            assert [struct.unpack("f", struct.pack("I", x[0]))[0] for x in found] == [-0.5, -0.75], (kind, found)
        else:
            assert [x[6] for x in found] == [2, 2], found


if __name__ == "__main__":
    main()
