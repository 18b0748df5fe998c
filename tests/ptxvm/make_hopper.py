#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the programs of tests/ptxvm/programs that are about Hopper's instructions (tensor_*,
bulk_*, wgmma_*, cluster_* and their faults): one text each, and damaged ones made from it. Answers
come from the definitions in the PTX manual, computed here and never by ptxvm.

    python3 tests/ptxvm/make_hopper.py tests/ptxvm/programs
"""
import random
import struct
import sys
from fractions import Fraction

import make_sums

HEAD = """.version 8.6
.target sm_90a
.address_size 64
"""


def repeated(values):
    """A list whose last value repeats to the end."""
    values = list(values)
    while len(values) > 1 and values[-1] == values[-2]:
        values.pop()
    return " ".join(str(v) for v in values)


class Program:
    def __init__(self, about, kernel):
        self.lines = ["//! about " + about, "//! set PTXVM_DEVICE sm_90", "//! kernel " + kernel]
        self.body = ""

    def say(self, *lines):
        self.lines += ["//! " + line for line in lines]
        return self

    def text(self):
        return "\n".join(self.lines) + "\n" + HEAD + self.body


def write(folder, name, text):
    with open(f"{folder}/{name}.ptx", "w") as out:
        out.write(text)


def damaged(folder, name, program, about, fails, *edits):
    """The program with texts replaced, which must then be reported in these words."""
    body = program.body
    for old, new in edits:
        assert body.count(old) >= 1, (name, old)
        body = body.replace(old, new, 1)
    lines = [line for line in program.lines if not line.startswith(("//! expect", "//! about"))]
    lines.insert(0, "//! about " + about)
    write(folder, name, "\n".join(lines + ["//! fails " + fails]) + "\n" + HEAD + body)


# ---- tensor maps ----

U16, F16, F32, BF16 = 1, 6, 7, 9


def swizzled(address, mode):
    return address ^ (((address >> 7) & ((1 << mode) - 1)) << 4)


def tensor_load(mode, fill, at, box):
    """A box of a tensor of 40 x 20 u16 (pitch 48) into shared memory, and what lies there."""
    width, height, pitch = 40, 20, 48
    values = list(range(pitch * height))
    inner, rows = box
    shared = [None] * (inner * rows)
    for r in range(rows):
        for c in range(inner):
            x, y = at[0] + c, at[1] + r
            inside = 0 <= x < width and 0 <= y < height
            outside = 0x7FFF if fill else 0
            value = values[y * pitch + x] if inside else outside
            shared[swizzled((r * inner + c) * 2, mode) // 2] = value
    count = inner * rows
    kind = F16 if fill else U16
    p = Program(f"a box at {at} of a tensor, pattern {mode}, fill {fill}", "k grid 1 block 32")
    p.say(f"buffer y u16 {count} undefined", f"buffer x u16 {pitch * height} iota",
          f"map m x {kind} {mode} {fill} 2 {width} {height} {2 * pitch} {inner} {rows}",
          "argument m", "argument y", f"operand x r {height} {2 * width} {2 * pitch}", "operand y w",
          "expect y " + repeated(shared))
    p.body = f""".visible .entry k(
    .param .align 128 .b8 k_0[128],
    .param .u64 k_1)
{{
    .reg .pred %p<10>;
    .reg .b16 %h<10>;
    .reg .b32 %r<60>;
    .reg .b64 %d<40>;
    .shared .align 1024 .b8 box[{count * 2}];
    .shared .align 8 .b64 bar[1];
    mov.b64 %d1, k_0;
    cvta.param.u64 %d2, %d1;
    ld.param.u64 %d3, [k_1];
    mov.u32 %r50, %tid.x;
    mov.u32 %r1, box;
    mov.u32 %r2, bar;
    setp.eq.u32 %p1, %r50, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p1 prefetch.tensormap [%d2];
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {count * 2};
    mov.u32 %r3, {at[0] & 0xffffffff};
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d2, {{%r3, {at[1]}}}], [%r2];
wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
    @!%p2 bra wait;
    mov.u32 %r10, %r50;
loop:
    shl.b32 %r11, %r10, 1;
    add.u32 %r12, %r1, %r11;
    ld.shared.u16 %h1, [%r12];
    mad.wide.u32 %d4, %r10, 2, %d3;
    st.global.u16 [%d4], %h1;
    add.u32 %r10, %r10, 32;
    setp.lt.u32 %p3, %r10, {count};
    @%p3 bra loop;
    ret;
}}
"""
    return p


def tensor_loads(folder):
    for name, arguments in {
        "plain": (0, 0, (3, 2), (16, 4)),
        "swizzle_32": (1, 0, (0, 0), (16, 16)),
        "swizzle_64": (2, 0, (-5, 3), (32, 16)),
        "swizzle_128": (3, 0, (-7, 9), (64, 16)),
        "edge": (0, 0, (36, 18), (8, 4)),
        "nan": (0, 1, (36, -2), (8, 4)),
    }.items():
        write(folder, "tensor_" + name, tensor_load(*arguments).text())
    p = tensor_load(0, 0, (3, 2), (16, 4))
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    damaged(folder, "fault_tensor_rank", p, "a copy in one dimension of a map of two",
            "715 a copy in 1 dimensions of a tensor map of 2",
            (load, load.replace("2d", "1d")), ("{%r3, 2}", "{%r3}"))
    damaged(folder, "fault_tensor_bytes", p, "fewer bytes are expected than the box has",
            "702 it waits for 0 arrivals and -32 bytes", ("[%r2], 128;", "[%r2], 96;"))
    damaged(folder, "fault_tensor_align", p, "a box that is not 128-byte aligned",
            "716 a tensor's box lies 128-byte aligned",
            ("mov.u32 %r1, box;", "mov.u32 %r1, box;\n    add.u32 %r1, %r1, 64;"),
            (".b8 box[128]", ".b8 box[256]"))
    damaged(folder, "fault_tensor_map", p, "the map is read 128 bytes before it lies",
            "700 parameter access", ("cvta.param.u64 %d2, %d1;",
                                     "cvta.param.u64 %d2, %d1;\n    add.u64 %d2, %d2, 128;"))
    damaged(folder, "fault_tensor_map_align", p, "the map's address is not aligned",
            "716 a tensor map is 128-byte aligned",
            ("cvta.param.u64 %d2, %d1;", "cvta.param.u64 %d2, %d1;\n    add.u64 %d2, %d2, 64;"))
    damaged(folder, "fault_tensor_early", p, "the box is read before it has come",
            "719 ", ("wait:\n", "    bra over;\nwait:\n"), ("    mov.u32 %r10, %r50;", "over:\n    mov.u32 %r10, %r50;"))


# ---- copies out of shared memory ----


def tensor_store(mode, reduce):
    """32 threads write a box of 16 x 8 f32 or u16 and store it at (30, 15) of 40 x 20."""
    width, height, pitch = 40, 20, 48
    size = 4 if reduce else 2
    inner, rows, x, y = (8 if reduce else 16), 8, 36, 15
    out = [1.0 if reduce else 7] * (pitch * height)
    for r in range(rows):
        for c in range(inner):
            if x + c < width and y + r < height:
                value = r * inner + c
                out[(y + r) * pitch + x + c] = 1.0 + value if reduce else value
    kind, name = (F32, "f32") if reduce else (U16, "u16")
    p = Program("a box " + ("added to" if reduce else "stored into") + " a tensor beyond its edge",
                "k grid 1 block 32")
    p.say(f"buffer y {name} {pitch * height} {1.0 if reduce else 7}",
          f"map m y {kind} {mode} 0 2 {width} {height} {size * pitch} {inner} {rows}",
          "argument m", f"operand y rw {height} {size * width} {size * pitch}",
          "expect y " + repeated(out))
    what = ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group" if reduce else
            "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group")
    mask = (1 << mode) - 1
    put = ("cvt.rn.f32.u32 %f1, %r10;\n    st.shared.f32 [%r12], %f1;" if reduce else
           "cvt.u16.u32 %h1, %r10;\n    st.shared.u16 [%r12], %h1;")
    p.body = f""".visible .entry k(
    .param .align 128 .b8 k_0[128])
{{
    .reg .pred %p<10>;
    .reg .b16 %h<10>;
    .reg .b32 %r<60>;
    .reg .f32 %f<10>;
    .reg .b64 %d<40>;
    .shared .align 1024 .b8 box[{inner * rows * size}];
    mov.b64 %d1, k_0;
    cvta.param.u64 %d2, %d1;
    mov.u32 %r50, %tid.x;
    mov.u32 %r1, box;
    setp.eq.u32 %p1, %r50, 0;
    mov.u32 %r10, %r50;
loop:
    mad.lo.u32 %r12, %r10, {size}, %r1;
    shr.u32 %r13, %r12, 7;
    and.b32 %r13, %r13, {mask};
    shl.b32 %r13, %r13, 4;
    xor.b32 %r12, %r12, %r13;
    {put}
    add.u32 %r10, %r10, 32;
    setp.lt.u32 %p3, %r10, {inner * rows};
    @%p3 bra loop;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%p1 bra over;
    {what} [%d2, {{{x}, {y}}}], [%r1];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
over:
    bar.sync 0;
    st.shared.u16 [%r12], 0;
    ret;
}}
"""
    return p


def tensor_stores(folder):
    write(folder, "tensor_store", tensor_store(0, False).text())
    write(folder, "tensor_store_swizzle", tensor_store(1, False).text())
    write(folder, "tensor_reduce", tensor_store(1, True).text())
    p = tensor_store(0, False)
    fence = "    fence.proxy.async.shared::cta;\n"
    damaged(folder, "fault_proxy_none", p, "no fence before a store through the other proxy",
            "719 no fence.proxy.async of that thread", (fence, ""))
    damaged(folder, "fault_proxy_one", p, "one thread's fence for what all have stored",
            "719 no fence.proxy.async of that thread",
            (fence, "@%p1" + fence))
    damaged(folder, "fault_proxy_late", p, "the fence after the barrier, by the issuer alone",
            "719 no fence.proxy.async of that thread", (fence, ""),
            ("@!%p1 bra over;\n", "@!%p1 bra over;\n" + fence))
    damaged(folder, "fault_proxy_global", p, "a fence of global memory alone",
            "719 no fence.proxy.async of that thread",
            ("fence.proxy.async.shared::cta", "fence.proxy.async.global"))
    damaged(folder, "fault_store_barrier", p, "no barrier between the stores and the copy",
            "719 whose write nothing orders before it", ("    bar.sync 0;\n    @!%p1", "    @!%p1"))
    damaged(folder, "fault_store_commit", p, "a wait for a group that was never closed",
            "719 may still read", ("    cp.async.bulk.commit_group;\n", ""))
    damaged(folder, "fault_store_wait", p, "the box is overwritten without a wait",
            "719 may still read", ("    cp.async.bulk.wait_group.read 0;\n", ""))
    damaged(folder, "fault_store_wait_one", p, "a wait that lets the newest group go on",
            "719 may still read", ("wait_group.read 0", "wait_group.read 1"))
    damaged(folder, "fault_store_reuse", p, "the box is overwritten by threads that did not wait",
            "719 nothing orders the write after the wait", ("over:\n    bar.sync 0;", "over:"))
    damaged(folder, "fault_store_left", p, "a block ends while its memory may be read",
            "719 at the block's end", ("    cp.async.bulk.wait_group.read 0;\n", ""),
            ("    st.shared.u16 [%r12], 0;\n", ""))


# ---- wgmma ----

SPANS = {0: 0, 1: 32, 2: 64, 3: 128}  # of a tensor map's pattern
MODES = {0: 0, 1: 3, 2: 2, 3: 1}  # of a descriptor


def f16_bits(value):
    return struct.unpack("<H", struct.pack("<e", value))[0]


def bf16_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def tf32_bits(value):
    """With low bits that the product must not see."""
    return struct.unpack("<I", struct.pack("<f", value))[0] | 0x1FFF


def eight_bits(exponents):
    """Small whole numbers in four or five exponent bits."""
    fraction = 7 - exponents

    def bits(value):
        sign, value = (0x80 if value < 0 else 0), abs(value)
        if value == 0:
            return sign
        top = value.bit_length() - 1
        part = value << fraction >> top
        return sign | (top + (1 << exponents - 1) - 1) << fraction | part & (1 << fraction) - 1
    return bits


# name: bytes of an element, K of a step, CUtensorMapDataType, bits
KINDS = {"f16": (2, 16, F16, f16_bits), "bf16": (2, 16, BF16, bf16_bits), "tf32": (4, 8, F32, tf32_bits),
         "e4m3": (1, 32, 0, eight_bits(4)), "e5m2": (1, 32, 0, eight_bits(5))}


def operand(name, rows, depth, kind, major, pattern):
    """Buffer lines, map line, loads, descriptor's constant part, its advance for a step of K, bytes.
    Rows are M or N; in memory K runs fastest, or where `major` M or N does."""
    size, step, code, _ = KINDS[kind]
    span = SPANS[pattern]
    inner, outer = (rows, depth) if major else (depth, rows)
    width = (span or 16) // size  # of a box
    panels = inner // width
    panel_bytes = outer * width * size
    if span == 0:
        leading, stride = (128, panel_bytes) if major else (panel_bytes, 128)
        advance = 128 * step // 8 if major else panel_bytes * step * size // 16
    else:
        leading, stride = (panel_bytes if major else 16), 8 * span
        advance = step * span if major else step * size
        assert major or panels == 1
    constant = (leading >> 4) << 16 | (stride >> 4) << 32 | MODES[pattern] << 62
    map_line = f"map m{name} {name} {code} {pattern} 0 2 {inner} {outer} {inner * size} {width} {outer}"
    loads = [(panel_bytes * i, width * i) for i in range(panels)]
    return map_line, loads, constant, advance, inner * outer * size


def bracket(names):
    return "{" + ", ".join(names) + "}"


EIGHT_BITS = {"e4m3": (4, 3), "e5m2": (5, 2)}
EIGHT_SUM = (8, 13)  # exponent and fraction bits of Hopper's sums of these types


def eight_bit_sum(a, b, form_a, form_b):
    """The dot product of two lines of bits, 32 terms at a time: terms and the sum before them are cut toward
    zero at 13 fraction bits below the largest exponent, added, and the sum cut to as many (arXiv 2511.10909)."""
    c = 0
    for at in range(0, len(a), 32):
        terms = [make_sums.decode(c, EIGHT_SUM)]
        for x, y in zip(a[at:at + 32], b[at:at + 32]):
            (p, e), (q, f) = make_sums.decode(x, form_a), make_sums.decode(y, form_b)
            terms += [(p * q, e + f)] if p * q != 0 else []
        largest = max(e for _, e in terms)
        total = sum(int(p * Fraction(2) ** (13 + e - largest)) for p, e in terms)
        c = make_sums.encode(total * Fraction(2) ** (largest - 13), EIGHT_SUM, False)
    p, e = make_sums.decode(c, EIGHT_SUM)
    return float(p * Fraction(2) ** e)


def drawn_bits(pick, form, count):
    """Finite numbers of every size, zeros and subnormal ones among them."""
    exponents, fraction = form
    most = ((1 << exponents) - 1) << fraction
    return [pick.randrange(most) | pick.randrange(2) << exponents + fraction for _ in range(count)]


def product(kind_a, kind_b, columns, depth, major_a=False, major_b=False, pattern_a=3, pattern_b=3,
            registers=False, half=False, minus=False, device="sm_90", drawn=False):
    pick = random.Random(f"{kind_a}{kind_b}{columns}{depth}")
    cycle_a = [pick.randint(-4, 4) for _ in range(61)]
    cycle_b = [pick.randint(-4, 4) for _ in range(67)]
    if drawn:
        cycle_a = drawn_bits(pick, EIGHT_BITS[kind_a], 61)
        cycle_b = drawn_bits(pick, EIGHT_BITS[kind_b], 67)
    laid = lambda cycle, rows, columns: [[cycle[(r * columns + c) % len(cycle)] for c in range(columns)]
                                         for r in range(rows)]
    turned = lambda rows: [list(row) for row in zip(*rows)]
    a = turned(laid(cycle_a, depth, 64)) if major_a else laid(cycle_a, 64, depth)
    b = turned(laid(cycle_b, depth, columns)) if major_b else laid(cycle_b, columns, depth)
    sign = -1 if minus else 1
    d = [[sign * sum(x * y for x, y in zip(p, q)) for q in b] for p in a]
    if drawn:
        d = [[eight_bit_sum(p, q, EIGHT_BITS[kind_a], EIGHT_BITS[kind_b]) for q in b] for p in a]
    size_a, step, _, bits_a = KINDS[kind_a]
    size_b, _, _, bits_b = KINDS[kind_b]
    if drawn:
        bits_a = bits_b = int
    map_a, loads_a, constant_a, advance_a, bytes_a = operand("a", 64, depth, kind_a, major_a, pattern_a)
    map_b, loads_b, constant_b, advance_b, bytes_b = operand("b", columns, depth, kind_b, major_b, pattern_b)
    p = Program(f"wgmma of {kind_a} and {kind_b}, 64 x {columns} x {depth}, A along {'M' if major_a else 'K'} by pattern "
                f"{pattern_a}, B along {'N' if major_b else 'K'} by {pattern_b}", "k grid 1 block 128")
    p.lines[1] = "//! set PTXVM_DEVICE " + device
    hexes = lambda cycle, bits: "cycle " + " ".join(hex(bits(x)) for x in cycle)
    p.say(f"buffer a u{8 * size_a} {64 * depth} " + hexes(cycle_a, bits_a),
          f"buffer b u{8 * size_b} {columns * depth} " + hexes(cycle_b, bits_b),
          f"buffer d {'u16' if half else 'f32'} {64 * columns} undefined", map_a, map_b,
          "argument ma", "argument mb", "argument a", "argument d")
    p.say("expect d " + (" ".join(hex(f16_bits(x)) for row in d for x in row) if half else
                         " ".join(str(x) for row in d for x in row)))
    count = columns // (4 if half else 2)
    wide = "f16" if half else "f32"
    accumulators = bracket(f"%a{i}" for i in range(count))
    loads = "".join(
        f"    add.u32 %r9, %r{base}, {to};\n    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        f".mbarrier::complete_tx::bytes [%r9], [%d{at}, {{{x}, 0}}], [%r3];\n"
        for base, at, pieces in ((1, 1, loads_a), (2, 2, loads_b)) for to, x in pieces)
    steps = ""
    for s in range(depth // step):
        flags = (", " + (f"{int(major_b)}" if registers else f"{int(major_a)}, {int(major_b)}")) if size_a == 2 else ""
        first = bracket(f"%x{4 * s + r}" for r in range(4)) if registers else "%d10"
        steps += f"""    wgmma.mma_async.sync.aligned.m64n{columns}k{step}.{wide}.{kind_a}.{kind_b} {accumulators}, {first}, %d11, %p5, {-1 if minus else 1}, 1{flags};
    setp.eq.u32 %p5, %r50, %r50;
    add.u64 %d10, %d10, {advance_a >> 4};
    add.u64 %d11, %d11, {advance_b >> 4};
"""
    fragments = ""
    if registers:
        fragments = f"    mad.lo.u32 %r20, %r12, {depth * size_a}, 0;\n    mad.lo.u32 %r20, %r13, 4, %r20;\n    cvt.u64.u32 %d20, %r20;\n    add.u64 %d20, %d20, %d3;\n"
        for s in range(depth // step):
            for r in range(4):
                offset = 8 * (r % 2) * depth * size_a + s * 32 + 16 * (r // 2)
                fragments += f"    ld.global.b32 %x{4 * s + r}, [%d20+{offset}];\n"
    stores = ""
    for i in range(count):
        at = 2 * i if half else i
        offset = (8 * (at // 2 % 2) * columns + 8 * (at // 4) + at % 2) * (2 if half else 4)
        stores += f"    st.global.b32 [%d21+{offset}], %a{i};\n"
    p.body = f""".visible .entry k(
    .param .align 128 .b8 k_0[128],
    .param .align 128 .b8 k_1[128],
    .param .u64 k_2,
    .param .u64 k_3)
.maxntid 128
{{
    .reg .pred %p<10>;
    .reg .b32 %r<60>;
    .reg .b32 %a<{count}>;
    .reg .b32 %x<64>;
    .reg .b64 %d<40>;
    .shared .align 1024 .b8 tile_a[{bytes_a}];
    .shared .align 1024 .b8 tile_b[{bytes_b}];
    .shared .align 8 .b64 bar[1];
    mov.b64 %d1, k_0;
    cvta.param.u64 %d1, %d1;
    mov.b64 %d2, k_1;
    cvta.param.u64 %d2, %d2;
    ld.param.u64 %d3, [k_2];
    ld.param.u64 %d4, [k_3];
    mov.u32 %r50, %tid.x;
    mov.u32 %r1, tile_a;
    mov.u32 %r2, tile_b;
    mov.u32 %r3, bar;
    setp.eq.u32 %p1, %r50, 0;
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {bytes_a + bytes_b};
{loads}    shr.u32 %r10, %r50, 5;
    and.b32 %r11, %r50, 31;
    shr.u32 %r12, %r11, 2;
    mad.lo.u32 %r12, %r10, 16, %r12;
    and.b32 %r13, %r11, 3;
wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
    @!%p2 bra wait;
{fragments}    shr.u32 %r14, %r1, 4;
    cvt.u64.u32 %d10, %r14;
    or.b64 %d10, %d10, {constant_a};
    shr.u32 %r14, %r2, 4;
    cvt.u64.u32 %d11, %r14;
    or.b64 %d11, %d11, {constant_b};
    setp.ne.u32 %p5, %r50, %r50;
    wgmma.fence.sync.aligned;
{steps}    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    mad.lo.u32 %r15, %r13, 2, 0;
    mad.lo.u32 %r15, %r12, {columns}, %r15;
    mul.wide.u32 %d21, %r15, {2 if half else 4};
    add.u64 %d21, %d21, %d4;
{stores}    ret;
}}
"""
    return p


def products(folder):
    made = {
        "nt": product("bf16", "bf16", 16, 64),
        "nt_64": product("bf16", "bf16", 24, 32, pattern_a=2, pattern_b=2),
        "nt_32": product("f16", "f16", 8, 16, pattern_a=1, pattern_b=1),
        "nt_plain": product("f16", "f16", 16, 32, pattern_a=0, pattern_b=0),
        "nn": product("bf16", "bf16", 16, 32, major_b=True, pattern_a=2, pattern_b=1),
        "nn_panels": product("f16", "f16", 32, 32, major_b=True, pattern_a=2, pattern_b=1),
        "tn": product("bf16", "bf16", 16, 32, major_a=True, major_b=True, pattern_b=1),
        "tn_64": product("bf16", "bf16", 16, 32, major_a=True, major_b=True, pattern_a=2, pattern_b=1),
        "tn_plain": product("bf16", "bf16", 16, 32, major_a=True, major_b=True, pattern_a=0, pattern_b=0),
        "registers": product("bf16", "bf16", 16, 32, major_b=True, pattern_a=2, pattern_b=1, registers=True),
        "half": product("f16", "f16", 16, 32, pattern_a=2, pattern_b=2, half=True),
        "tf32": product("tf32", "tf32", 8, 16, pattern_a=2, pattern_b=2),
        "e4m3": product("e4m3", "e4m3", 16, 64, pattern_a=2, pattern_b=2),
        "e5m2": product("e5m2", "e4m3", 8, 32, pattern_a=1, pattern_b=1, minus=True),
        "sums": product("bf16", "bf16", 16, 64, device="sm_90:sums"),
        "e4m3_sums": product("e4m3", "e5m2", 8, 32, pattern_a=1, pattern_b=1, device="sm_90:sums"),
        "e4m3_cut": product("e4m3", "e4m3", 8, 64, pattern_a=2, pattern_b=2, device="sm_90:sums", drawn=True),
        "e5m2_cut": product("e5m2", "e4m3", 8, 64, pattern_a=2, pattern_b=2, device="sm_90:sums", drawn=True),
    }
    for name, p in made.items():
        write(folder, "wgmma_" + name, p.text())
    broken_products(folder, made)


def broken_products(folder, made):
    nt, tn, nn = made["nt_64"], made["tn"], made["nn_panels"]
    fence = "    wgmma.fence.sync.aligned;\n"
    commit = "    wgmma.commit_group.sync.aligned;\n"
    wait = "    wgmma.wait_group.sync.aligned 0;\n"
    fault = lambda name, *rest: damaged(folder, "fault_wgmma_" + name, *rest)
    fault("fence", nt, "no wgmma.fence", "715 no wgmma.fence", (fence, ""))
    fault("touched", nt, "an accumulator written behind the fence", "715 no wgmma.fence",
          (fence, fence + "    mov.b32 %a3, 0;\n"))
    fault("between", made["nt"], "an accumulator read between two products", "715 accumulates into",
          ("    setp.eq.u32 %p5, %r50, %r50;\n", "    setp.eq.u32 %p5, %r50, %r50;\n    mov.b32 %r40, %a0;\n"))
    fault("source", made["registers"], "a register of A written behind the fence", "715 a register of A",
          (fence, fence + "    mov.b32 %x0, 0;\n"))
    fault("source_flight", made["registers"], "a register of A written before the wait", "715 in flight reads",
          (commit, "    mov.b32 %x0, 0;\n" + commit))
    fault("commit", nt, "no commit_group", "715 before the wait for its group", (commit, ""))
    fault("wait", nt, "no wait_group", "715 before the wait for its group", (wait, ""))
    fault("wait_one", nt, "a wait that lets the newest group go on", "715 before the wait for its group",
          (wait, wait.replace(" 0;", " 1;")))
    fault("left", nt, "a block ends before the wait", "719 nobody has waited for", (wait, "    ret;\n"))
    fault("stride", nt, "another stride than the box has", "715 does not fit what was copied there",
          ("or.b64 %d10, %d10, ", "or.b64 %d10, %d10, 0x1000000000;\n    or.b64 %d10, %d10, "))
    fault("stride_turned", tn, "another stride along K than the box has", "715 does not fit what was copied",
          ("or.b64 %d10, %d10, ", "or.b64 %d10, %d10, 0x2000000000;\n    or.b64 %d10, %d10, "))
    fault("pattern", nt, "another pattern than the map's", "715 does not fit what was copied there",
          ("or.b64 %d11, %d11, ", "or.b64 %d11, %d11, 0xC000000000000000;\n    or.b64 %d11, %d11, "))
    fault("leading", nn, "panels are looked for beyond the tile", "700 shared access",
          ("or.b64 %d11, %d11, ", "or.b64 %d11, %d11, 0x1000000;\n    or.b64 %d11, %d11, "))
    fault("reserved", nt, "bits of a descriptor that mean nothing", "715 bits that mean nothing",
          ("or.b64 %d11, %d11, ", "or.b64 %d11, %d11, 0x4000;\n    or.b64 %d11, %d11, "))
    fault("base", nt, "a base offset", "715 base offset",
          ("or.b64 %d11, %d11, ", "or.b64 %d11, %d11, 0x2000000000000;\n    or.b64 %d11, %d11, "))
    fault("warps", nt, "another descriptor in one warp", "715 with different descriptors",
          (fence, "    shr.u32 %r41, %r10, 1;\n    mul.wide.u32 %d30, %r41, 65536;\n    add.u64 %d11, %d11, %d30;\n" + fence))
    fault("lanes", nt, "another descriptor in some lanes", "715 lanes disagree about a descriptor",
          (fence, "    mul.wide.u32 %d30, %r13, 2;\n    add.u64 %d11, %d11, %d30;\n" + fence))
    fault("absent", nt, "one warp takes no part", "702 that warp 3 of the warpgroup does not execute",
          (fence, "    setp.eq.u32 %p6, %r10, 3;\n    @%p6 bra over;\n" + fence), ("    ret;", "over:\n    ret;"))
    fault("early", nt, "no wait for the boxes", "719 undefined shared bytes", ("wait:\n", "    bra go;\nwait:\n"),
          ("    @!%p2 bra wait;\n", "    @!%p2 bra wait;\ngo:\n"))
    fault("overwrite", nt, "a tile is overwritten before the wait", "719 may still read",
          (commit, commit + "    @%p1 st.shared.u32 [%r1], 0;\n"))
    stored = "    ld.shared.u32 %r42, [%r1];\n    bar.sync 0;\n    @%p1 st.shared.u32 [%r1], %r42;\n{}    bar.sync 0;\n"
    fault("proxy", nt, "a tile is stored to without a fence", "719 no fence.proxy.async of that thread",
          (fence, stored.format("") + fence))
    body = nt.body
    nt.body = body.replace(fence, stored.format("    @%p1 fence.proxy.async;\n") + fence)
    nt.lines[0] = "//! about a tile that a thread stores to, with the fence that wgmma needs"
    write(folder, "wgmma_stored", nt.text())
    nt.body = body
    refused = lambda name, about, words, old, new: write(
        folder, "refuse_wgmma_" + name, refusal(nt, about, words, old, new))
    refused("target", "wgmma below sm_90a", "wgmma needs .target sm_90a", ".target sm_90a", ".target sm_90")
    refused("shape", "a shape that does not exist", "no such shape", "m64n24k16", "m64n20k16")
    refused("depth", "another K", "no such shape", "m64n24k16", "m64n24k8")
    refused("registers", "too few registers", "wants 12 registers", "%a11}", "%a11, %a0}")
    refused("sign", "a factor that is neither 1 nor -1", "wants a constant", "%p5, 1, 1", "%p5, 0, 1")


def refusal(program, about, words, old, new):
    """The text with one change, refused at the first line that has wgmma or, where it is not to be
    loaded at all, names it."""
    text = (HEAD + program.body)
    assert old in text, old
    text = text.replace(old, new)
    line = next(i for i, l in enumerate(text.split("\n")) if "wgmma.mma" in l or
                ("wgmma.fence" in l and old.startswith(".target")))
    head = ["//! about " + about, "//! set PTXVM_DEVICE sm_90"]
    return "\n".join(head + [f"//! refused {line + 1 + len(head) + 1} {words}"]) + "\n" + text


# ---- registers ----


def registers(folder):
    """Three warpgroups that enter with 168 registers each."""
    p = Program("setmaxnreg: two warpgroups take what one gives back", "k grid 1 block 384")
    p.body = """.visible .entry k()
.maxntid 384
.minnctapersm 1
{
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 256;
    @%p1 bra give;
    setmaxnreg.inc.sync.aligned.u32 240;
    ret;
give:
    setmaxnreg.dec.sync.aligned.u32 24;
    ret;
}
"""
    write(folder, "setmaxnreg_groups", p.text())
    damaged(folder, "fault_setmaxnreg_none", p, "nobody gives back what others wait for",
            "702 setmaxnreg waits for registers that nobody gives back",
            ("u32 24;", "u32 160;"))
    damaged(folder, "fault_setmaxnreg_up", p, "a decrease to more than there are",
            "715 setmaxnreg from 168 registers to 176", ("u32 24;", "u32 176;"))


# ---- clusters ----

CLUSTER_HEAD = """.visible .entry k(
    .param .u64 k_0,
    .param .u64 k_1)
{
    .reg .pred %p<10>;
    .reg .b32 %r<60>;
    .reg .b64 %d<40>;
    .shared .align 128 .b8 box[256];
    .shared .align 8 .b64 bar[1];
    ld.param.u64 %d1, [k_0];
    ld.param.u64 %d2, [k_1];
    mov.u32 %r50, %tid.x;
    mov.u32 %r51, %cluster_ctarank;
    mov.u32 %r1, box;
    mov.u32 %r2, bar;
    setp.eq.u32 %p1, %r50, 0;
    setp.eq.u32 %p3, %r51, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""


def clusters(folder):
    both = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n"
    head = ["buffer y u32 64 undefined", "buffer x u32 64 iota", "argument y", "argument x"]
    p = Program("one block copies into the shared memory of both", "k grid 2 block 32 shared 0 cluster 2")
    p.say(*head, "operand y w", "operand x r", "expect y " + repeated(list(range(10, 42)) * 2))
    p.body = CLUSTER_HEAD + """    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;
    add.u64 %d2, %d2, 32;
    and.pred %p4, %p1, %p3;
    @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d2], 128, [%r2], 3;
wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
    @!%p2 bra wait;
    shl.b32 %r11, %r50, 2;
    add.u32 %r12, %r1, %r11;
    ld.shared.u32 %r10, [%r12];
    add.u32 %r10, %r10, 2;
    mad.lo.u32 %r13, %r51, 32, %r50;
    mad.wide.u32 %d30, %r13, 4, %d1;
    st.global.u32 [%d30], %r10;
""" + both + """    ret;
}
"""
    write(folder, "cluster_multicast", p.text())
    damaged(folder, "fault_multicast_expect", p, "the other block expects fewer bytes", "702 does not end: it waits for 0",
            ("    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;",
             "    @%p3 mov.u32 %r20, 128;\n    @!%p3 mov.u32 %r20, 112;\n"
             "    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], %r20;"))
    damaged(folder, "fault_multicast_blocks", p, "a block beyond the cluster", "715 a copy to blocks 0x5 of a cluster of 2",
            ("[%r2], 3;", "[%r2], 5;"))
    damaged(folder, "fault_multicast_begun", p, "nothing says that the other block has begun",
            "719 no barrier.cluster has said", (both, "    bar.sync 0;\n"))

    q = Program("a block stores into another's shared memory and arrives at its mbarrier",
                "k grid 2 block 32 shared 0 cluster 2")
    q.say(*head, "operand y w", "operand x r", "expect y " + repeated(list(range(32)) + list(range(32))))
    q.body = CLUSTER_HEAD + """    xor.b32 %r52, %r51, 1;
    shl.b32 %r11, %r50, 2;
    add.u32 %r12, %r1, %r11;
    mapa.shared::cluster.u32 %r20, %r12, %r52;
    mapa.shared::cluster.u32 %r21, %r2, %r52;
    st.shared::cluster.u32 [%r20], %r50;
    bar.warp.sync 0xffffffff;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];
wait:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra wait;
    ld.shared.u32 %r10, [%r12];
    mad.lo.u32 %r13, %r51, 32, %r50;
    mad.wide.u32 %d30, %r13, 4, %d1;
    st.global.u32 [%d30], %r10;
""" + both + """    ret;
}
"""
    write(folder, "cluster_remote", q.text())
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _"
    damaged(folder, "fault_cluster_relaxed", q, "an arrival that releases nothing", "719 race: this read is not ordered",
            (arrive, arrive.replace("release", "relaxed")))
    damaged(folder, "fault_cluster_scope", q, "an arrival that releases to its own block alone",
            "719 race: this read is not ordered", (arrive, arrive.replace(".release.cluster", "")))
    damaged(folder, "fault_cluster_acquire", q, "a wait that acquires from its own block alone",
            "719 race: this read is not ordered", ("try_wait.parity.acquire.cluster", "try_wait.parity.acquire.cta"))
    damaged(folder, "fault_cluster_state", q, "a state of another block's mbarrier", "715 has no state to give",
            (arrive, arrive.replace("_", "") + "%d9"))
    damaged(folder, "fault_cluster_wait", q, "a wait on another block's mbarrier", "715 mbarriers of the own block",
            ("b64 %p2, [%r2], 0", "b64 %p2, [%r21], 0"))
    damaged(folder, "fault_cluster_mapa", q, "an address in a block beyond the cluster", "715 mapa to block",
            ("xor.b32 %r52, %r51, 1;", "add.u32 %r52, %r51, 2;"))
    damaged(folder, "fault_cluster_twice", q, "two arrivals without a wait", "715 arrives twice at the cluster's barrier",
            ("    barrier.cluster.arrive.release.aligned;\n", "    barrier.cluster.arrive.release.aligned;\n" * 2))
    damaged(folder, "fault_cluster_stuck", q, "one block never arrives", "702 waits",
            (both + "    ret;", "    @%p3 bra loop;\n    barrier.cluster.arrive;\n    barrier.cluster.wait;\n    ret;\n"
             "loop:\n    mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1;\n    @!%p2 bra loop;\n    ret;"))
    damaged(folder, "fault_cluster_ended", q, "a block ends before another has stored there", "719 which has ended",
            ("    st.shared::cluster.u32 [%r20], %r50;\n", "    @%p3 ret;\n    mov.u32 %r30, 0;\nspin:\n    add.u32 %r30, %r30, 1;\n"
             "    setp.lt.u32 %p5, %r30, 700000;\n    @%p5 bra spin;\n    st.shared::cluster.u32 [%r20], %r50;\n"))


def main():
    folder = sys.argv[1]
    tensor_loads(folder)
    tensor_stores(folder)
    products(folder)
    registers(folder)
    clusters(folder)


if __name__ == "__main__":
    main()
