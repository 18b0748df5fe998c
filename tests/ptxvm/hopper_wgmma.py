# SPDX-License-Identifier: MIT
"""Programs about products of a warpgroup (wgmma_*, fault_wgmma_*, refuse_wgmma_*). Used by make_hopper.py."""
import random
import struct
from fractions import Fraction

import make_sums
from hopper_program import BF16, F16, F32, HEAD, Program, damaged, write

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
