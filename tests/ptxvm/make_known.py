#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes programs/known_*.ptx: what tensor cores of sm_80 and sm_90 answered to the questions by which arXiv 2511.10909
finds how they sum. The questions and answers were published with the paper; nothing here computes a sum.

A program has eight of them, one to a column of B, and in the next eight rows of A the same with all signs turned:

    0  a large product in the first place, its negative in the accumulator, small products elsewhere: those fused with it are lost
    1  the same in the last place
    2  x + p - p where p is the least power of two that costs x its last bit: cut toward zero
    3  where p is half of that: x
    4  where p is twice that: three units less
    5  p as 1.5 * 1.5 of that: products are not normalised before they are aligned
    6  a subnormal factor has the exponent of the least normal number
    7  what is cut behind the last bit of the result (f32), or rounded (f16)
"""
import os
import sys
from fractions import Fraction

import hopper_wgmma
import make_sums

# exponent bits, fraction bits, least exponent of a normal number
FORMS = {"f16": (5, 10, -14), "bf16": (8, 7, -126), "tf32": (8, 10, -126), "e4m3": (4, 3, -6), "e5m2": (5, 2, -14)}
HALF = (5, 10)


def power(exponent):
    return Fraction(2) ** exponent


def questions(k, kind, kept, split, half):
    """Of each column: terms of A, of B, the accumulator and the answer."""
    least = FORMS[kind][2]
    large, small = power(7), power(-9)
    first, last = [small] * k, [small] * k
    first[0] = last[k - 1] = large
    x, unit = (2 - power(-10)) * power(-14), power(-24)
    p = kept - 23
    y, z = power(-7 + (p + 15) // 2), power(-7 + (p + 14) // 2)
    low = power(least)
    other = max(low, power(-25 if half else -126) / low)
    end = ([Fraction(3, 2)], [Fraction(1)], power(10), power(10) + 2) if half else \
        ([Fraction(1, 4)] * 4, [Fraction(1)] * 4, Fraction(3, 4) * power(-13 if kept == 13 else -23), Fraction(1))
    return [(first, first, -large * large, k // 2 * small * small if split else Fraction(0)),
            (last, last, -large * large, Fraction(0)),
            ([y, -y], [z, z], x, x - unit),
            ([y / 2, -y / 2], [z, z], x, x),
            ([y, -y], [2 * z, 2 * z], x, x - 3 * unit),
            ([3 * y / 2, -3 * y / 2], [3 * z / 2, 3 * z / 2], x, x - unit),
            ([low / 2, low / 2, low, low], [other * power(kept + 1), -other * power(kept + 1), other, other],
             Fraction(0), Fraction(0)), end]


def bits_of(value, form):
    """Of a number that the form has; the greatest exponent may be that of e4m3's last binade."""
    exponents, fraction = form[:2]
    bits = make_sums.encode(value, (exponents, fraction), True)
    field = bits >> fraction & ((1 << exponents) - 1)
    part = (bits & ((1 << fraction) - 1)) + ((1 << fraction) if field else 0)
    assert part * power(max(field, 1) - (1 << exponents - 1) + 1 - fraction) == abs(value), (value, form)
    return bits


def matrices(k, kind, kept, split, half):
    """A's rows, B's columns, C, and D with None where no question is."""
    form, out = FORMS[kind], HALF if half else make_sums.F32
    asked = questions(k, kind, kept, split, half)
    line = lambda terms, sign: [bits_of(sign * t, form) for t in terms] + [0] * (k - len(terms))
    a = [line(asked[r % 8][0], 1 - 2 * (r // 8)) for r in range(16)]
    columns = [line(q[1], 1) for q in asked]
    c, d = [[0] * 8 for _ in range(16)], [[None] * 8 for _ in range(16)]
    for r in range(16):
        sign = 1 - 2 * (r // 8)
        c[r][r % 8] = bits_of(sign * asked[r % 8][2], out)
        d[r][r % 8] = bits_of(sign * asked[r % 8][3], out)
    return a, columns, c, d


def expected(d):
    return "expect d " + " ".join("*" if x is None else hex(x) for row in d for x in row)


def ordinary(folder, kind, gpu):
    """mma.sync, of a type of make_sums.KINDS."""
    _, _, _, k, wide, narrow = make_sums.KINDS[kind]
    split = gpu < 90 and k * (2 if narrow == "tf32" else 1) > 8
    a, columns, c, d = matrices(k, narrow, 25 if gpu >= 90 else 24, split, wide == "f16")
    make_sums.save(os.path.join(folder, f"known_{kind}_sm{gpu}.ptx"), kind, gpu,
                   f"what tensor cores of sm_{gpu} answered, {kind} (made by make_known.py)", a, columns, c, expected(d))


def warpgroup(folder, kind, half=False):
    size, k, _, _ = hopper_wgmma.KINDS[kind]
    a, columns, c, d = matrices(k, kind, 13 if size == 1 else 25, False, half)
    p = hopper_wgmma.product(kind, kind, 8, k, pattern_a=1, pattern_b=1, half=half, device="sm_90:sums")
    low = 13 if kind == "tf32" else 0
    flat = lambda rows: " ".join(hex(x << low) for row in rows for x in row)
    rest = [[0] * 8] * 48
    wide = 16 if half else 32
    new = {"//! buffer a": f"//! buffer a u{8 * size} {64 * k} {flat(a)} 0",
           "//! buffer b": f"//! buffer b u{8 * size} {8 * k} {flat(columns)}",
           "//! buffer d": f"//! buffer d u{wide} 512 " + " ".join(hex(x) for row in c + rest for x in row),
           "//! expect d": "//! " + expected(d + [[None] * 8] * 48),
           "//! about": f"//! about what tensor cores of sm_90 answered, wgmma of {kind}{' to f16' if half else ''} (made by make_known.py)"}
    p.lines = [next((n for o, n in new.items() if line.startswith(o)), line) for line in p.lines]
    # The accumulators come from d.
    fence = "    wgmma.fence.sync.aligned;\n"
    count = 2 if half else 4
    at = "".join(line for line in p.body.splitlines(True) if "%r15" in line or "%d21, " in line and "st." not in line)
    loads = "".join(f"    ld.global.b32 %a{i}, [%d21+{(8 * ((2 * i if half else i) // 2 % 2) * 8 + (0 if half else i % 2)) * wide // 8}];\n"
                    for i in range(count))
    assert p.body.count(fence) == 1 and p.body.count("setp.ne.u32 %p5") == 1
    p.body = p.body.replace(at, "").replace("setp.ne.u32 %p5", "setp.eq.u32 %p5").replace(fence, at + loads + fence)
    hopper_wgmma.write(folder, f"known_wgmma_{kind}{'_half' if half else ''}", p.text())


def main():
    folder = sys.argv[1]
    for kind in make_sums.KINDS:
        for gpu in (80, 90):
            ordinary(folder, kind, gpu)
    for kind in hopper_wgmma.KINDS:
        warpgroup(folder, kind)
    warpgroup(folder, "f16", half=True)


if __name__ == "__main__":
    main()
