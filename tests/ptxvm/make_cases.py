#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes cases.txt: instructions, operands and answers, the answers from exact rational arithmetic.

Each block is a line `= statements | d a b c types` and lines of hexadecimal words `d a b c`.
"""
import random
from fractions import Fraction as F

from exact import (add, block, decode, div, draw, encode, floats, flush, FORMATS, INF, is_number,
                   keep, mul, NAN, negative, NEGINF, out, QNAN, rational, Zero)

random.seed(20240607)

# ---- floating point ----
for fmt in ("f32", "f64"):
    for rnd in ("rn", "rz", "rm", "rp"):
        binary = [("add", lambda a, b: add(a, b, rnd)), ("mul", mul), ("div", div),
                  ("sub", lambda a, b: add(a, b if b == QNAN else mul(b, F(-1)), rnd))]
        for name, op in binary:
            rows = []
            for a, b in floats(fmt, 2, 60):
                r = encode(op(decode(a, fmt), decode(b, fmt)), fmt, rnd)
                rows.append((r, a, b))
            block("%s.%s.%s %%d, %%a, %%b;" % (name, rnd, fmt), [fmt] * 3, keep(fmt, rows))
        rows = []
        for a, b, c in floats(fmt, 3, 100):
            product = mul(decode(a, fmt), decode(b, fmt))
            if fmt == "f64" and is_number(product) and abs(product) > F(2) ** 1020:
                continue  # stated limit: an overflowing product and a c that brings it back
            total = add(product, decode(c, fmt), rnd)
            rows.append((encode(total, fmt, rnd), a, b, c))
        block("fma.%s.%s %%d, %%a, %%b, %%c;" % (rnd, fmt), [fmt] * 4, keep(fmt, rows))
        rows = []
        for (a,) in floats(fmt, 1, 60):
            x = decode(a, fmt)
            if is_number(x) and x > 0:
                # floor of the root with 200 bits is enough to round
                shift = 400 if fmt == "f32" else 2400
                num = x * F(2) ** shift
                n = num.numerator // num.denominator
                root = int(n)
                guess = 1 << ((root.bit_length() + 1) // 2)
                while guess * guess > root:
                    guess = (guess + root // guess) // 2
                value = F(guess) / F(2) ** (shift // 2)
                if value * value != x:
                    value += F(1, 2 ** (shift // 2 + 1))
                rows.append((encode(value, fmt, rnd), a))
            elif isinstance(x, Zero) or x == INF:
                rows.append((encode(x, fmt), a))
            elif fmt == "f32":
                rows.append((NAN[fmt], a))
        block("sqrt.%s.%s %%d, %%a;" % (rnd, fmt), [fmt] * 2, rows)
        rows = []
        for (a,) in floats(fmt, 1, 60):
            q = div(F(1), decode(a, fmt))
            rows.append((encode(q, fmt, rnd), a))
        block("rcp.%s.%s %%d, %%a;" % (rnd, fmt), [fmt] * 2, rows)

rows = []
for a, b in floats("f32", 2, 60):
    x, y = decode(flush(a, "f32"), "f32"), decode(flush(b, "f32"), "f32")
    rows.append((flush(encode(add(x, y, "rn"), "f32"), "f32"), a, b))
block("add.rn.ftz.f32 %d, %a, %b;", ["f32"] * 3, rows)
rows = []
for a, b, c in floats("f32", 3, 60):
    v = add(mul(decode(a, "f32"), decode(b, "f32")), decode(c, "f32"), "rn")
    r = encode(v, "f32")
    r = 0 if v == QNAN or r >> 31 else min(r, 0x3f800000)
    rows.append((r, a, b, c))
block("fma.rn.sat.f32 %d, %a, %b, %c;", ["f32"] * 4, rows)

for fmt in ("f16", "bf16"):
    for name, op in (("add", lambda a, b: add(a, b, "rn")), ("mul", mul),
                     ("sub", lambda a, b: add(a, b if b == QNAN else mul(b, F(-1)), "rn"))):
        rows = [(encode(op(decode(a, fmt), decode(b, fmt)), fmt), a, b) for a, b in floats(fmt, 2, 100)]
        block("%s.%s %%d, %%a, %%b;" % (name, fmt), [fmt] * 3, rows)
        pairs = [(r | rows[-1 - i][0] << 16, a | rows[-1 - i][1] << 16, b | rows[-1 - i][2] << 16)
                 for i, (r, a, b) in enumerate(rows)]
        block("%s.%sx2 %%d, %%a, %%b;" % (name, fmt), [fmt + "x2"] * 3, pairs)
    rows = [(encode(add(mul(decode(a, fmt), decode(b, fmt)), decode(c, fmt), "rn"), fmt), a, b, c)
            for a, b, c in floats(fmt, 3, 200)]
    block("fma.rn.%s %%d, %%a, %%b, %%c;" % fmt, [fmt] * 4, rows)

# ---- conversions ----
for src in ("f16", "bf16", "f32", "f64"):
    for dst in ("f16", "bf16", "f32", "f64"):
        e1, m1 = FORMATS[src]
        e2, m2 = FORMATS[dst]
        if src == dst:
            continue
        widens = m2 >= m1 and e2 >= e1
        for rnd in ([""] if widens else ["rn", "rz", "rm", "rp"] if dst in ("f32", "f16") else ["rn", "rz"]):
            if dst == "bf16" and src in ("f16", "f64"):
                continue
            rows = [(encode(decode(a, src), dst, rnd or "rn"), a) for (a,) in floats(src, 1, 80)]
            dot = "." + rnd if rnd else ""
            block("cvt%s.%s.%s %%d, %%a;" % (dot, dst, src), [dst, src], keep(dst, rows))


def to_int(x, bits, signed, rnd, src):
    lo, hi = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if x == QNAN:
        return 1 << (bits - 1) if src == "f64" or bits == 64 else 0
    if isinstance(x, str):
        return (hi if x == INF else lo) & ((1 << bits) - 1)
    v = rational(x)
    fl = v.numerator // v.denominator
    rest = v - fl
    if rnd == "rn":
        fl += 1 if rest > F(1, 2) or (rest == F(1, 2) and fl & 1) else 0
    elif rnd == "rz":
        fl += 1 if v < 0 and rest != 0 else 0
    elif rnd == "rp":
        fl += 1 if rest != 0 else 0
    return min(max(fl, lo), hi) & ((1 << bits) - 1)


for src in ("f32", "f64", "f16"):
    for bits in (16, 32, 64):
        for signed in (True, False):
            for rnd in ("rn", "rz", "rm", "rp"):
                e, m = FORMATS[src]
                rows = []
                for (a,) in floats(src, 1, 40):
                    if random.random() < 0.5:
                        bias = (1 << (e - 1)) - 1
                        a = (random.getrandbits(1) << (e + m)) | \
                            (min(bias + random.randint(-2, bits + 1), (1 << e) - 2) << m) | random.getrandbits(m)
                    rows.append((to_int(decode(a, src), bits, signed, rnd, src), a))
                name = ("s" if signed else "u") + str(bits)
                block("cvt.%si.%s.%s %%d, %%a;" % (rnd, name, src), [name, src], rows)


def signed(x, bits):
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def ints(bits, count, n):
    rows = []
    edge = [0, 1, 2, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 31, 32, 33, 64]
    for _ in range(n):
        rows.append([random.choice(edge) & ((1 << bits) - 1) if random.random() < 0.3
                     else random.getrandbits(random.choice([bits, bits // 2, 6])) for _ in range(count)])
    return rows


for dst in ("f32", "f64", "f16"):
    for bits in (16, 32, 64):
        for s in (True, False):
            for rnd in ("rn", "rz", "rm", "rp"):
                rows = []
                for (a,) in ints(bits, 1, 30):
                    v = signed(a, bits) if s else a
                    rows.append((encode(F(v) if v else Zero(False), dst, rnd), a))
                name = ("s" if s else "u") + str(bits)
                block("cvt.%s.%s.%s %%d, %%a;" % (rnd, dst, name), [dst, name], rows)

for fb in (8, 16, 32, 64):
    for tb in (8, 16, 32, 64):
        for fs in "us":
            for ts in "us":
                for sat in ("", ".sat"):
                    if fb == 8 or tb == 8:
                        rb_from, rb_to = max(fb, 16), max(tb, 16)
                    else:
                        rb_from, rb_to = fb, tb
                    rows = []
                    for (a,) in ints(rb_from, 1, 12):
                        v = a & ((1 << fb) - 1)
                        v = signed(v, fb) if fs == "s" else v
                        lo, hi = (-(1 << (tb - 1)), (1 << (tb - 1)) - 1) if ts == "s" else (0, (1 << tb) - 1)
                        v = min(max(v, lo), hi) if sat else v & ((1 << tb) - 1)
                        v = signed(v & ((1 << tb) - 1), tb) if ts == "s" else v
                        rows.append((v & ((1 << rb_to) - 1), a))
                    block("cvt%s.%s%d.%s%d %%d, %%a;" % (sat, ts, tb, fs, fb),
                          ["b%d" % rb_to, "b%d" % rb_from], rows)

# ---- integers ----
for bits in (16, 32, 64):
    mask = (1 << bits) - 1
    for s in "us":
        def v(x):
            return signed(x, bits) if s == "s" else x

        def quotient(a, b):
            q = abs(v(a)) // abs(v(b))
            return -q if (v(a) < 0) != (v(b) < 0) else q
        ops = [("add", lambda a, b: a + b), ("sub", lambda a, b: a - b),
               ("mul.lo", lambda a, b: a * b), ("mul.hi", lambda a, b: (v(a) * v(b)) >> bits),
               ("min", lambda a, b: min(v(a), v(b))), ("max", lambda a, b: max(v(a), v(b)))]
        name = "%s%d" % (s, bits)
        for op, fn in ops:
            block("%s.%s %%d, %%a, %%b;" % (op, name), [name] * 3,
                  [(fn(a, b) & mask, a, b) for a, b in ints(bits, 2, 40)])
        block("div.%s %%d, %%a, %%b;" % name, [name] * 3,
              [(quotient(a, b) & mask, a, b) for a, b in ints(bits, 2, 40) if b])
        block("rem.%s %%d, %%a, %%b;" % name, [name] * 3,
              [((v(a) - quotient(a, b) * v(b)) & mask, a, b) for a, b in ints(bits, 2, 40) if b])
        block("mad.lo.%s %%d, %%a, %%b, %%c;" % name, [name] * 4,
              [((a * b + c) & mask, a, b, c) for a, b, c in ints(bits, 3, 40)])
        if bits > 16:
            block("mad.hi.%s %%d, %%a, %%b, %%c;" % name, [name] * 4,
                  [(((v(a) * v(b) >> bits) + c) & mask, a, b, c) for a, b, c in ints(bits, 3, 40)])
        if bits < 64:
            wide = "%s%d" % (s, bits * 2)
            block("mul.wide.%s %%d, %%a, %%b;" % name, [wide, name, name],
                  [(v(a) * v(b) & ((1 << 2 * bits) - 1), a, b) for a, b in ints(bits, 2, 40)])
            block("mad.wide.%s %%d, %%a, %%b, %%c;" % name, [wide, name, name, wide],
                  [((v(a) * v(b) + c) & ((1 << 2 * bits) - 1), a, b, c)
                   for (a, b), (c,) in zip(ints(bits, 2, 40), ints(2 * bits, 1, 40))])
        block("shr.%s %%d, %%a, %%b;" % name, [name, name, "u32"],
              [((v(a) >> min(b, 1000)) & mask, a, b) for (a,), (b,) in zip(ints(bits, 1, 40), ints(32, 1, 40))])
        for cmp, fn in (("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b),
                        ("ge", lambda a, b: a >= b), ("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b)):
            block("setp.%s.%s %%p, %%a, %%b; selp.b32 %%d, 1, 0, %%p;" % (cmp, name), ["b32", name, name],
                  [(int(fn(v(a), v(b))), a, b) for a, b in ints(bits, 2, 20) + [[7, 7]]])
    name = "b%d" % bits
    for op, fn in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
        block("%s.%s %%d, %%a, %%b;" % (op, name), [name] * 3,
              [(fn(a, b) & mask, a, b) for a, b in ints(bits, 2, 20)])
    block("not.%s %%d, %%a;" % name, [name] * 2, [(~a & mask, a) for (a,) in ints(bits, 1, 20)])
    block("cnot.%s %%d, %%a;" % name, [name] * 2, [(int(a == 0), a) for (a,) in ints(bits, 1, 20) + [[0]]])
    block("shl.%s %%d, %%a, %%b;" % name, [name, name, "u32"],
          [((a << min(b, 100)) & mask, a, b) for (a,), (b,) in zip(ints(bits, 1, 40), ints(32, 1, 40))])
    for op, fn in (("neg", lambda a: -a), ("abs", lambda a: abs(signed(a, bits)))):
        block("%s.s%d %%d, %%a;" % (op, bits), [name] * 2, [(fn(a) & mask, a) for (a,) in ints(bits, 1, 20)])

for bits in (32, 64):
    mask = (1 << bits) - 1
    name = "b%d" % bits
    block("popc.%s %%d, %%a;" % name, ["u32", name], [(bin(a).count("1"), a) for (a,) in ints(bits, 1, 30)])
    block("clz.%s %%d, %%a;" % name, ["u32", name], [(bits - a.bit_length(), a) for (a,) in ints(bits, 1, 30)])
    block("brev.%s %%d, %%a;" % name, [name, name],
          [(int(format(a, "0%db" % bits)[::-1], 2), a) for (a,) in ints(bits, 1, 30)])
    for s in "us":
        rows, shifted = [], []
        for (a,) in ints(bits, 1, 40):
            x = a ^ mask if s == "s" and a >> (bits - 1) else a
            place = x.bit_length() - 1
            rows.append((place & 0xffffffff, a))
            shifted.append((0xffffffff if place < 0 else bits - 1 - place, a))
        block("bfind.%s%d %%d, %%a;" % (s, bits), ["u32", name], rows)
        block("bfind.shiftamt.%s%d %%d, %%a;" % (s, bits), ["u32", name], shifted)
        rows = []
        for a, b, c in ints(bits, 3, 60):
            pos, length = random.choice([b & 255, b % bits]), random.choice([c & 255, c % bits])
            sign = a >> min(pos + length - 1, bits - 1) & 1 if s == "s" and length else 0
            r = 0
            for i in range(bits):
                bit = a >> (pos + i) & 1 if i < length and pos + i < bits else sign
                r |= bit << i
            rows.append((r, a, pos | length << 8))
        block("and.b32 %%x, %%b, 255; shr.u32 %%y, %%b, 8; bfe.%s%d %%d, %%a, %%x, %%y;" % (s, bits),
              [name, name, "b32"], rows)
    rows = []
    for a, b, c in ints(bits, 3, 60):
        pos, length = c % (bits + 8), c // 7 % (bits + 8)
        r = b
        for i in range(length):
            if pos + i < bits:
                r = r & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        rows.append((r, a, b, pos | length << 8))
    block("and.b32 %%x, %%c, 255; shr.u32 %%y, %%c, 8; bfi.b%d %%d, %%a, %%b, %%x, %%y;" % bits,
          [name, name, name, "b32"], rows)

rows = []
for a, b, c in ints(32, 3, 80):
    pool = list(a.to_bytes(4, "little") + b.to_bytes(4, "little"))
    r = 0
    for i in range(4):
        sel = c >> (4 * i) & 15
        byte = pool[sel & 7]
        byte = (255 if byte & 128 else 0) if sel & 8 else byte
        r |= byte << (8 * i)
    rows.append((r, a, b, c))
block("prmt.b32 %d, %a, %b, %c;", ["b32"] * 4, rows)
for table in (0x96, 0xe8, 0x1b, 0xf8):
    rows = []
    for a, b, c in ints(32, 3, 20):
        r = sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))
        rows.append((r, a, b, c))
    block("lop3.b32 %%d, %%a, %%b, %%c, 0x%x;" % table, ["b32"] * 4, rows)
for way in "lr":
    for mode in ("wrap", "clamp"):
        rows = []
        for a, b, c in ints(32, 3, 40):
            n = c & 31 if mode == "wrap" else min(c, 32)
            both = b << 32 | a
            rows.append((((both << n) >> 32 if way == "l" else both >> n) & 0xffffffff, a, b, c))
        block("shf.%s.%s.b32 %%d, %%a, %%b, %%c;" % (way, mode), ["b32"] * 4, rows)
for sa in "us":
    for sb in "us":
        rows = []
        for a, b, c in ints(32, 3, 30):
            total = c
            for i in range(4):
                x, y = a >> 8 * i & 255, b >> 8 * i & 255
                total += (signed(x, 8) if sa == "s" else x) * (signed(y, 8) if sb == "s" else y)
            rows.append((total & 0xffffffff, a, b, c))
        block("dp4a.%s32.%s32 %%d, %%a, %%b, %%c;" % (sa, sb), ["b32"] * 4, rows)
for s in "us":
    rows = []
    for a, b, c in ints(32, 3, 30):
        x, y = (signed(a, 32), signed(b, 32)) if s == "s" else (a, b)
        rows.append(((c + abs(x - y)) & 0xffffffff, a, b, c))
    block("sad.%s32 %%d, %%a, %%b, %%c;" % s, ["b32"] * 4, rows)
clamp = lambda x: max(min(x, 2 ** 31 - 1), -2 ** 31) & 0xffffffff
block("add.sat.s32 %d, %a, %b;", ["s32"] * 3,
      [(clamp(signed(a, 32) + signed(b, 32)), a, b) for a, b in ints(32, 2, 30)])
block("sub.sat.s32 %d, %a, %b;", ["s32"] * 3,
      [(clamp(signed(a, 32) - signed(b, 32)), a, b) for a, b in ints(32, 2, 30)])
# extended precision: 64-bit sums and products from 32-bit parts
split = "mov.b64 {%x, %y}, %a;"
M64 = (1 << 64) - 1
block(".reg .b32 %m, %n; mov.b64 {%x, %y}, %a; mov.b64 {%m, %n}, %b; add.cc.u32 %x, %x, %m; "
      "addc.u32 %y, %y, %n; mov.b64 %d, {%x, %y};", ["b64"] * 3,
      [((a + b) & M64, a, b) for a, b in ints(64, 2, 40)])
block(".reg .b32 %m, %n; mov.b64 {%x, %y}, %a; mov.b64 {%m, %n}, %b; sub.cc.u32 %x, %x, %m; "
      "subc.u32 %y, %y, %n; mov.b64 %d, {%x, %y};", ["b64"] * 3,
      [((a - b) & M64, a, b) for a, b in ints(64, 2, 40)])
block(".reg .b32 %m, %n; mov.b64 {%m, %n}, %c; mad.lo.cc.u32 %x, %a, %b, %m; madc.hi.u32 %y, %a, %b, %n;"
      " mov.b64 %d, {%x, %y};", ["b64", "b32", "b32", "b64"],
      [((a * b + c) & M64, a, b, c) for (a, b), (c,) in zip(ints(32, 2, 40), ints(64, 1, 40))])

# ---- comparisons and extrema of floats ----
for fmt in ("f32", "f64", "f16", "bf16"):
    for cmp in ("lt", "le", "gt", "ge", "eq", "ne", "ltu", "geu", "equ", "neu", "num", "nan"):
        rows = []
        for _ in range(40):
            a, b = draw(fmt), draw(fmt)
            b = a if random.random() < 0.2 else b
            x, y = decode(a, fmt), decode(b, fmt)
            un = QNAN in (x, y)
            rank = lambda z: F(2) ** 2000 if z == INF else -F(2) ** 2000 if z == NEGINF else rational(z)
            if cmp in ("num", "nan"):
                r = un == (cmp == "nan")
            elif un:
                r = cmp.endswith("u")
            else:
                p, q = rank(x), rank(y)
                r = {"lt": p < q, "le": p <= q, "gt": p > q, "ge": p >= q, "eq": p == q, "ne": p != q}[cmp[:2]]
            rows.append((int(r), a, b))
        block("setp.%s.%s %%p, %%a, %%b; selp.b32 %%d, 1, 0, %%p;" % (cmp, fmt), ["b32", fmt, fmt], rows)
    for name in ("min", "max"):
        for nan in ("", ".NaN"):
            if fmt == "f64" and nan:
                continue
            rows = []
            for a, b in floats(fmt, 2, 60):
                x, y = decode(a, fmt), decode(b, fmt)
                if QNAN in (x, y):
                    r = NAN[fmt] if nan or x == y else (b if x == QNAN else a)
                else:
                    key = lambda z: (F(2) ** 2000 if z == INF else -F(2) ** 2000 if z == NEGINF else rational(z),
                                     0 if negative(z) else 1)
                    r = a if (key(x) <= key(y)) == (name == "min") else b
                rows.append((r, a, b))
            block("%s%s.%s %%d, %%a, %%b;" % (name, nan, fmt), [fmt] * 3, rows)

rows = []
for (a,) in floats("f32", 1, 60):
    x = decode(a, "f32")
    if x == QNAN or isinstance(x, str):
        rows.append((0x7fffffff if x == QNAN else a, a))
        continue
    kept = a & ~0x1fff
    rows.append((kept + 0x2000 if a & 0x1000 else kept, a))
block("cvt.rna.tf32.f32 %d, %a;", ["b32", "f32"], rows)
rows = []
for a, b in floats("f32", 2, 60):
    rows.append((encode(decode(a, "f32"), "bf16") << 16 | encode(decode(b, "f32"), "bf16"), a, b))
block("cvt.rn.bf16x2.f32 %d, %a, %b;", ["b32", "f32", "f32"], rows)
rows = []
for a, b in floats("f32", 2, 60):
    rows.append((encode(decode(a, "f32"), "f16") << 16 | encode(decode(b, "f32"), "f16"), a, b))
block("cvt.rn.f16x2.f32 %d, %a, %b;", ["b32", "f32", "f32"], rows)

# ---- quotients below the least subnormal, conversions of NaN ----
for fmt, big, tiny in (("f32", (0x7f7fffff, 0xff7fffff), (1, 0x80000003)),
                       ("f64", (0x7fefffffffffffff, 0xffefffffffffffff), (1, 0x8000000000000003))):
    for rnd in ("rn", "rz", "rm", "rp"):
        rows = [(encode(div(decode(a, fmt), decode(b, fmt)), fmt, rnd), a, b) for a in tiny for b in big]
        block("div.%s.%s %%d, %%a, %%b;" % (rnd, fmt), [fmt] * 3, rows)
for src, nans in (("f16", (0x7e00, 0xfe01)), ("f32", (0x7fc00000, 0xffc00001)), ("f64", (0x7ff8 << 48, 0xfff8 << 48))):
    for bits in (16, 32, 64):
        for name in ("u%d" % bits, "s%d" % bits):
            rows = [(to_int(QNAN, bits, name[0] == "s", "rz", src), a) for a in nans]
            block("cvt.rzi.%s.%s %%d, %%a;" % (name, src), [name, src], rows)


# ---- packed integers ----
def parts(x, bits, is_signed):
    cut = [(x >> at) & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(p, bits) if is_signed else p for p in cut]


PACKED = {"vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b),
          "vmin": min, "vmax": max}
ORDER = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
         "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}
for bits in (16, 8):
    count = str(32 // bits)
    for op, fn in PACKED.items():
        for types in ("u32.u32.u32", "s32.s32.s32", "s32.u32.s32", "u32.s32.u32"):
            for extra in ("", ".sat", ".add"):
                d, ta, tb = (t[0] == "s" for t in types.split("."))
                rows = []
                for a, b, c in ints(32, 3, 6):
                    r = [fn(p, q) for p, q in zip(parts(a, bits, ta), parts(b, bits, tb))]
                    if extra == ".sat":
                        lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if d else (0, (1 << bits) - 1)
                        r = [min(max(x, lo), hi) for x in r]
                    word = sum((x & ((1 << bits) - 1)) << i * bits for i, x in enumerate(r))
                    rows.append(((sum(r) + c) & 0xffffffff if extra == ".add" else word, a, b, c))
                block("%s%s.%s%s %%d, %%a, %%b, %%c;" % (op, count, types, extra), ["u32"] * 4, rows)
    for name, fn in ORDER.items():
        for t in "us":
            rows = []
            for a, b, c in ints(32, 3, 6):
                r = [int(fn(p, q)) for p, q in zip(parts(a, bits, t == "s"), parts(b, bits, t == "s"))]
                rows.append((sum(x << i * bits for i, x in enumerate(r)), a, b, c))
            block("vset%s.%s32.%s32.%s %%d, %%a, %%b, %%c;" % (count, t, t, name), ["u32"] * 4, rows)
    rows = []
    for a, b, c in ints(32, 3, 6):
        r = [(p + q + 1) >> 1 for p, q in zip(parts(a, bits, False), parts(b, bits, False))]
        rows.append((sum(x << i * bits for i, x in enumerate(r)), a, b, c))
    block("vavrg%s.u32.u32.u32 %%d, %%a, %%b, %%c;" % count, ["u32"] * 4, rows)

# ---- products of 24 bits, distances, the n-th set bit ----
for t in "us":
    v = (lambda x: signed(x & 0xffffff, 24)) if t == "s" else (lambda x: x & 0xffffff)
    for half, shift in (("lo", 0), ("hi", 16)):
        block("mul24.%s.%s32 %%d, %%a, %%b;" % (half, t), ["u32"] * 3,
              [((v(a) * v(b) >> shift) & 0xffffffff, a, b) for a, b in ints(32, 2, 12)])
        block("mad24.%s.%s32 %%d, %%a, %%b, %%c;" % (half, t), ["u32"] * 4,
              [(((v(a) * v(b) >> shift) + c) & 0xffffffff, a, b, c) for a, b, c in ints(32, 3, 12)])
    for bits in (16, 32, 64):
        w = (lambda x: signed(x, bits)) if t == "s" else (lambda x: x)
        name = "%s%d" % (t, bits)
        block("sad.%s %%d, %%a, %%b, %%c;" % name, [name] * 4,
              [((abs(w(a) - w(b)) + c) & ((1 << bits) - 1), a, b, c) for a, b, c in ints(bits, 3, 12)])
for ta in "us":
    for tb in "us":
        for half in ("lo", "hi"):
            rows = []
            for a, b, c in ints(32, 3, 8):
                p = parts(a, 16, ta == "s")
                q = parts(b, 8, tb == "s")[2 if half == "hi" else 0:]
                rows.append(((p[0] * q[0] + p[1] * q[1] + c) & 0xffffffff, a, b, c))
            block("dp2a.%s.%s32.%s32 %%d, %%a, %%b, %%c;" % (half, ta, tb), ["u32"] * 4, rows)
rows = []
for _ in range(40):
    a, b, c = random.getrandbits(32) & random.getrandbits(32), random.randrange(34), random.randrange(-9, 10)
    if c == 0:
        found = [b] if b < 32 and a >> b & 1 else []
    else:
        line = range(b, 32) if c > 0 else range(min(b, 31) if b < 32 else -1, -1, -1)
        found = [i for i in line if a >> i & 1][abs(c) - 1:]
    rows.append((found[0] if found else 0xffffffff, a, b, c & 0xffffffff))
block("fns.b32 %d, %a, %b, %c;", ["u32"] * 4, rows)

print("# Written by make_cases.py from exact rational arithmetic; see there.")
print("\n".join(out))
