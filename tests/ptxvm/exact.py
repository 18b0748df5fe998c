# SPDX-License-Identifier: MIT
"""Exact rational arithmetic with the rounding of IEEE 754, and drawn operands: a part of make_cases.py."""
import random
from fractions import Fraction as F

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
NAN = {"f16": 0x7fff, "bf16": 0x7fff, "f32": 0x7fffffff, "f64": 0x7fffffffffffffff}
INF, NEGINF, QNAN = "inf", "-inf", "nan"


class Zero:
    """A signed zero is not a rational number."""

    def __init__(self, negative):
        self.negative = negative


def width(fmt):
    e, m = FORMATS[fmt]
    return 1 + e + m


def decode(bits, fmt):
    e, m = FORMATS[fmt]
    sign = bits >> (e + m) & 1
    exp = bits >> m & ((1 << e) - 1)
    frac = bits & ((1 << m) - 1)
    bias = (1 << (e - 1)) - 1
    if exp == (1 << e) - 1:
        return QNAN if frac else (NEGINF if sign else INF)
    if exp == 0 and frac == 0:
        return Zero(bool(sign))
    value = F(frac, 1 << m) * F(2) ** (1 - bias) if exp == 0 else (1 + F(frac, 1 << m)) * F(2) ** (exp - bias)
    return -value if sign else value


def encode(value, fmt, rnd="rn"):
    e, m = FORMATS[fmt]
    top = ((1 << e) - 1) << m
    if isinstance(value, Zero):
        return int(value.negative) << (e + m)
    if value == QNAN:
        return NAN[fmt]
    if value in (INF, NEGINF):
        return top | (int(value == NEGINF) << (e + m))
    sign = value < 0
    v = abs(value)
    bias = (1 << (e - 1)) - 1
    exp = v.numerator.bit_length() - v.denominator.bit_length()
    if F(2) ** exp > v:
        exp -= 1
    exp = max(exp, 1 - bias)
    scaled = v / F(2) ** (exp - m)
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    up = {"rn": rest > F(1, 2) or (rest == F(1, 2) and whole & 1), "rz": False,
          "rm": sign and rest > 0, "rp": (not sign) and rest > 0,
          "rna": rest >= F(1, 2)}[rnd]
    whole += 1 if up else 0
    if whole >= 1 << (m + 1):
        whole >>= 1
        exp += 1
    if exp > bias:
        to_max = rnd == "rz" or (rnd == "rm" and not sign) or (rnd == "rp" and sign)
        bits = top - 1 if to_max else top
    elif whole < 1 << m:
        bits = whole
    else:
        bits = ((exp + bias) << m) | (whole - (1 << m))
    return bits | (int(sign) << (e + m))


def is_number(x):
    return not isinstance(x, (Zero, str))


def rational(x):
    return F(0) if isinstance(x, Zero) else x


def negative(x):
    return x.negative if isinstance(x, Zero) else (x == NEGINF if isinstance(x, str) else x < 0)


def add(a, b, rnd):
    if QNAN in (a, b):
        return QNAN
    if isinstance(a, str) or isinstance(b, str):
        if isinstance(a, str) and isinstance(b, str) and a != b:
            return QNAN
        return a if isinstance(a, str) else b
    total = rational(a) + rational(b)
    if total != 0:
        return total
    if isinstance(a, Zero) and isinstance(b, Zero) and a.negative == b.negative:
        return a
    return Zero(rnd == "rm")


def mul(a, b):
    if QNAN in (a, b):
        return QNAN
    sign = negative(a) != negative(b)
    if isinstance(a, str) or isinstance(b, str):
        return QNAN if isinstance(a, Zero) or isinstance(b, Zero) else (NEGINF if sign else INF)
    if isinstance(a, Zero) or isinstance(b, Zero):
        return Zero(sign)
    return a * b


def div(a, b):
    if QNAN in (a, b):
        return QNAN
    sign = negative(a) != negative(b)
    if isinstance(a, str):
        return QNAN if isinstance(b, str) else (NEGINF if sign else INF)
    if isinstance(b, str):
        return Zero(sign)
    if isinstance(b, Zero):
        return QNAN if isinstance(a, Zero) else (NEGINF if sign else INF)
    return Zero(sign) if isinstance(a, Zero) else a / b


def flush(bits, fmt):
    e, m = FORMATS[fmt]
    return bits & (1 << (e + m)) if (bits >> m & ((1 << e) - 1)) == 0 else bits


def specials(fmt):
    e, m = FORMATS[fmt]
    top = ((1 << e) - 1) << m
    one = ((1 << (e - 1)) - 1) << m
    some = [0, 1, (1 << m) - 1, 1 << m, one, one + 1, one + (1 << (m - 1)), top - 1, top]
    return some + [x | 1 << (e + m) for x in some] + [top | 1 << (m - 1)]


def draw(fmt):
    e, m = FORMATS[fmt]
    kind = random.random()
    if kind < 0.25:
        return random.choice(specials(fmt))
    if kind < 0.75:  # near one another, so that cancellation and ties happen
        bias = (1 << (e - 1)) - 1
        return (random.getrandbits(1) << (e + m)) | ((bias + random.randint(-3, 3)) << m) | \
            (random.getrandbits(m) & ~((1 << random.randint(0, m)) - 1))
    return random.getrandbits(1 + e + m)


out = []


def block(text, types, rows):
    out.append("= %s | %s" % (text, " ".join(types)))
    for row in rows:
        out.append(" ".join("%x" % x for x in row))


def not_nan(fmt, bits):
    return decode(bits, fmt) != QNAN


# NaN payloads of f64 follow the processor's rules, which the manual leaves open: left out.
def floats(fmt, count, n):
    rows = []
    while len(rows) < n:
        row = [draw(fmt) for _ in range(count)]
        if fmt != "f64" or all(not_nan(fmt, x) for x in row):
            rows.append(row)
    return rows


def keep(fmt, rows):
    return [r for r in rows if fmt != "f64" or not_nan(fmt, r[0])]
