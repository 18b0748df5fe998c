#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make.py FOLDER: compiles the programs here with compilers of several makers and years and writes
each as PTX headed by its launch and its answers (see ../programs/README.md), the answers computed
here by numpy. FOLDER holds 12.0, 12.4 and 12.9: pip's nvidia-cuda-nvrtc-cu12 12.0.140, 12.4.127 and
12.9.86 unpacked (and nvidia-cuda-runtime-cu12 12.4.127 in 12.4, for cuda_fp16.h). clang-14, nvcc and
pip's triton 3.9 must be there too. The results are committed; tests need none of this."""
import glob
import math
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE)
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
random = np.random.RandomState(20261121)
T = range


def words(values, kind):
    values = np.ascontiguousarray(values)
    if kind in ("f32", "f64", "b16", "b64", "u64"):
        bits = values.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[values.itemsize])
        return " ".join("0x%x" % x for x in bits.reshape(-1))
    return " ".join("%d" % x for x in values.reshape(-1))


class Program:
    """A launch, its buffers and what they must hold afterwards."""

    def __init__(self, about, grid, block, shared=0, kernel="k"):
        self.head = ["about " + about, "kernel %s grid %d block %d shared %d" % (kernel, grid, block, shared)]
        self.tail = []

    def give(self, name, kind, values):
        self.head += ["buffer %s %s %d %s" % (name, kind, np.size(values), words(values, kind)), "argument " + name]

    def want(self, name, kind, values, near=None):
        self.head += ["buffer %s %s %d 0" % (name, kind, np.size(values)), "argument " + name]
        how = "near %s %g" % (name, near) if near else "expect " + name
        self.tail.append("%s %s" % (how, words(values, kind)))

    def scalar(self, kind, value):
        self.head.append("argument %s %s" % (kind, value))

    def line(self, text):
        self.head.append(text)

    def write(self, name, text):
        text = text.replace(HERE + "/", "")
        head = "".join("//! %s\n" % line for line in self.head + self.tail)
        with open(name + ".ptx", "w") as file:
            file.write(head + text.rstrip("\0\n") + "\n")


def nvrtc(version, macro, options):
    library = glob.glob("%s/%s/**/libnvrtc.so.12" % (sys.argv[1], version), recursive=True)[0]
    include = glob.glob("%s/12.4/**/cuda_runtime/include" % sys.argv[1], recursive=True)[0]
    subprocess.check_call([sys.executable, "nvrtc.py", library, "programs.cu", "/tmp/made.ptx", "-D" + macro,
                           "-I" + include, "-w"] + options)
    return open("/tmp/made.ptx").read()


def nvcc(macro, options):
    subprocess.check_call(["nvcc", "-w", "-ptx", "-D" + macro, "programs.cu", "-o", "/tmp/made.ptx"] + options)
    return open("/tmp/made.ptx").read()


def clang(macro, options):
    subprocess.check_call(["clang-14", "-w", "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "-S",
                           "-Xclang", "-target-feature", "-Xclang", "+ptx70", "-D" + macro, "programs.cu", "-o",
                           "/tmp/made.ptx"] + options)
    return open("/tmp/made.ptx").read()


# ---- answers ----

def wide():
    p = Program("64-bit quotients, products and shifts", 2, 32)
    a = random.randint(0, 1 << 63, 64, dtype=np.uint64) * np.uint64(2) >> random.randint(0, 60, 64).astype(np.uint64)
    b = random.randint(0, 1 << 63, 64, dtype=np.uint64) * np.uint64(2) >> random.randint(0, 60, 64).astype(np.uint64)
    s = lambda x: x - (1 << 64) if x >> 63 else x
    r = []
    for x, y in zip(map(int, a), map(int, b)):
        y |= 1
        q = abs(s(x)) // abs(s(y)) * (1 if (s(x) < 0) == (s(y) < 0) else -1)
        r.append((x // y + 3 * (x % y) + q * 5 + (s(x) - q * s(y)) * 7 + (x << (y & 63)) + x * y + (x >> 7) + x % 1000)
                 & (1 << 64) - 1)
    p.want("o", "u64", np.array(r, np.uint64))
    p.give("a", "u64", a)
    p.give("b", "u64", b)
    return p


def choice():
    p = Program("a jump table, fall-through and loops left early", 2, 64)
    a = random.randint(-1, 11, 128)

    def loop(i):
        r = 0
        for j in T(i):
            if j * j % 13 == 4:
                continue
            if j > 20:
                break
            r += j
        return r
    r = [{0: 11, 1: x * 7 + i, 2: 104 + i, 3: 99 + i, 4: -x, 5: i * i, 6: i ^ x, 7: -7, 8: loop(i), 9: i // 3}.get(x, -1)
         for i, x in enumerate(map(int, a))]
    p.want("o", "s32", np.array(r, np.int32))
    p.give("a", "s32", a.astype(np.int32))
    return p


def record():
    p = Program("structures by value", 1, 64)
    twist = lambda q, i: (q[0] * 3 + i, q[1] * .5 + q[2][i % 3], [q[2][2 - j] + i for j in T(3)])
    q = [twist(twist((33, 4.5, [1, 2, 3]), i), i + 1) for i in T(64)]
    p.want("o", "f64", np.array([x[0] + x[1] + x[2][0] * 10 + x[2][1] * 100 + x[2][2] * 1000 for x in q], np.float64))
    p.scalar("s32", 33)
    return p


def local():
    p = Program("arrays of threads, tables of constants", 2, 40)
    r = [sorted((i * 31 + j * 17) % 23 for j in T(12))[i % 12] * [1, -2, 3, 40, 500][i % 5] + [-7, 8, 300][i % 3] for i in T(80)]
    p.want("o", "s32", np.array(r, np.int32))
    return p


def halves():
    p = Program("halves, single and packed", 1, 48)
    v = (random.randn(48, 2) * 8).astype(np.float16)
    x, y = v[:, 0], v[:, 1]
    d, e = x.astype(np.float64), y.astype(np.float64)
    up, down = np.float16(np.inf), np.float16(-np.inf)
    rz = (x.astype(np.float32) * np.float32(1.3))
    z = rz.astype(np.float16)
    z = np.where(np.abs(z.astype(np.float32)) > np.abs(rz), np.nextafter(z, np.float16(0)), z)
    ru = (y.astype(np.float32) * np.float32(1.3))
    u = ru.astype(np.float16)
    u = np.where(u.astype(np.float32) < ru, np.nextafter(u, up), u)
    r = np.zeros((48, 8), np.float16)
    for j, w in enumerate((d + e, d * e, d * d + e, e * e + d, np.where(x > y, np.maximum(x, y), -y), z, u)):
        r[:, j] = w.astype(np.float16)
    r = r.view(np.uint16)
    r[:, 7] = np.floor(d).astype(np.int32).astype(np.uint16)
    p.want("o", "b16", r)
    p.give("a", "b16", v)
    return p


def packed():
    p = Program("packed integers, bytes and bits", 1, 64)
    v = random.randint(0, 1 << 32, (64, 2), dtype=np.uint64)
    m = (1 << 32) - 1
    r = []
    for x, y in ((int(a), int(b)) for a, b in v):
        by = lambda w, n, s=False: [(c - (1 << n) if s and c >> n - 1 else c) for c in [(w >> k) & (1 << n) - 1 for k in T(0, 32, n)]]
        join = lambda parts, n: sum((c & (1 << n) - 1) << n * k for k, c in enumerate(parts))
        far = [abs(a - b) for a, b in zip(by(x, 8), by(y, 8))]
        pick = by(x, 8) + by(y, 8)
        n = x & 31
        r.append((join(far, 8) + 3 * sum(far) + 5 * join([abs(a - b) for a, b in zip(by(x, 16), by(y, 16))], 16) +
                  7 * join([max(a, b) for a, b in zip(by(x, 16, True), by(y, 16, True))], 16) +
                  9 * join([pick[3], pick[7], pick[1], pick[5]], 8) +
                  11 * (sum(a * b for a, b in zip(by(x, 8, True), by(y, 8, True))) + 5) + 13 * (abs(x - y) + 1) +
                  17 * (x * y >> 32) + 19 * (((y << 32 | x) << n) >> 32 & m) + 23 * (32 - x.bit_length()) +
                  29 * int(format(y, "032b")[::-1], 2) + 31 * bin(x).count("1")) & m)
    p.want("o", "u32", np.array(r, np.uint32))
    p.give("a", "u32", v.astype(np.uint32))
    return p


def tensor():
    p = Program("cp.async, ldmatrix and mma", 1, 32)
    a = random.randint(-16, 17, (16, 16)).astype(np.float32) / 4
    b = random.randint(-16, 17, (16, 8)).astype(np.float32) / 4
    brain = lambda x: (x.view(np.uint32) >> 16).astype(np.uint16)
    p.want("o", "f32", a @ b)
    p.give("a", "b16", brain(a))
    p.give("b", "b16", brain(b))
    return p


def atoms():
    p = Program("atomics of every width and scope", 3, 32)
    n, x = 96, 0
    for t in T(n):
        x ^= 3 << (t & 15)
    cas = ((1 << n) - 1) & 0xffffffff
    for name, kind, before, after in (
            ("p", "s32", [0] * 9, [n * (n - 1) // 2, n - 1, -(n - 1), -1, x, n % 10, 2 * n, 3 * n, -1 if cas >> 31 else cas]),
            ("l", "s64", [0, 1 << 40], [n * (n - 1) // 2 << 20, 1 << 40])):
        p.give(name, kind, np.array(before, np.int64))
        p.tail.append("expect %s %s" % (name, words(np.array(after, np.int64), kind)))
    p.want("f", "f32", np.array([n / 2], np.float32))
    return p


def ring():
    p = Program("tiles through a ring of two stages, by bulk copies and mbarriers", 1, 96)
    a = random.randint(-50, 50, 5 * 64).astype(np.float32)
    o = np.zeros(64, np.float32)
    for t in T(64):
        for i in T(5):
            o[t] = o[t] * 2 + a[64 * i + (t ^ i)]
    p.want("o", "f32", o)
    p.give("a", "f32", a)
    return p


def shares():
    p = Program("blocks of a cluster read each other's shared memory", 8, 32)
    a = np.random.RandomState(1).randint(-50, 50, (8, 32)).astype(np.int32)
    o = np.zeros((8, 32), np.int32)
    for block in T(8):
        for other in T(4):
            rank = (block % 4 + other) % 4
            o[block] = o[block] * 3 + [a[block // 4 * 4 + rank, t ^ other] * (rank + 1) for t in T(32)]
    p.want("o", "s32", o)
    p.give("a", "s32", a)
    return p


def group():
    p = Program("a product of a warpgroup from operands that threads have stored", 1, 128)
    draw = np.random.RandomState(2)
    made = [draw.randint(-16, 17, n).astype(np.float32) for n in (61, 67)]
    a, b = np.resize(made[0], (64, 48)), np.resize(made[1], (8, 48))
    p.want("o", "f32", a @ b.T)
    for name, x, count in (("a", made[0], a.size), ("b", made[1], b.size)):
        p.head += ["buffer %s u16 %d cycle %s" % (name, count, words(x.view(np.uint32) >> 16, "u16")), "argument " + name]  # bf16
    return p


def lanes():
    p = Program("shuffles, votes, matches, reductions", 1, 32)
    ballot = lambda c: sum(1 << t for t in T(32) if c(t))
    odd = 0
    for t in T(1, 32, 2):
        odd ^= t
    r = []
    for t in T(32):
        v = (t ^ 5) * 3 + 100 * (t - 3 if t >= 3 else t) + 10000 * (t + 2 if t % 8 + 2 < 8 else t)
        v += ballot(lambda s: s % 3 == 0) ^ ballot(lambda s: s % 5 == t % 5)
        v += 7 * 496 + 31 + (odd + 1 if t & 1 else 0)
        r.append(v & 0xffffffff)
    p.want("o", "u32", np.array(r, np.uint32))
    return p


def tree():
    p = Program("shared memory, dynamic and static", 2, 64, 256)
    a = random.randint(-50, 50, (2, 64)).astype(np.float32)
    p.want("o", "f32", np.array([[row.sum() * (t % 2 + 1) + t for t in T(64)] for row in a], np.float32))
    p.give("a", "f32", a)
    return p


def device():
    p = Program("a device function, a table, widths", 1, 50)
    a = random.randint(-900, 900, 50)
    o = [math.gcd(i * 12 + 60, i * 18 + 90) * (i % 5 + 1) + a[i] / 8 + float(a[i] * a[i]) for i in T(50)]
    p.want("o", "f64", np.array(o, np.float64))
    p.give("a", "s16", a.astype(np.int16))
    p.want("c", "u8", ((a * 3 - np.arange(50)) & 255).astype(np.uint8))
    return p


def rounds():
    from fractions import Fraction as F
    p = Program("directed rounding, conversion of NaN and infinities", 1, 24)
    v = (random.randn(24, 2) * 10.0 ** random.randint(-9, 9, (24, 2))).astype(np.float32)
    v[0] = [np.nan, np.nan]
    v[1] = [np.inf, -np.inf]
    v[2] = [3e9, -1e19]

    def cut(exact, mode):  # nearest, then one step where it lies on the wrong side
        f = np.float32(float(exact))
        g = F(float(f))
        if mode == "d" and g > exact or mode == "z" and g > exact > 0:
            f = np.nextafter(f, np.float32(-np.inf))
        if mode == "u" and g < exact or mode == "z" and g < exact < 0:
            f = np.nextafter(f, np.float32(np.inf))
        return f
    r = np.zeros((24, 8), np.uint32)
    bits = lambda f: np.float32(f).view(np.uint32) if f == f else np.uint32(0x7fffffff)
    whole = lambda f, n, top: top if f != f else max(-(1 << n - 1), min((1 << n - 1) - 1, f if math.isinf(f) else f))
    for i, (x, y) in enumerate(v):
        with np.errstate(all="ignore"):
            if np.isfinite(x) and np.isfinite(y):
                X, Y = F(float(x)), F(float(y))
                r[i, :3] = [bits(cut(X + Y, "d")), bits(cut(X * Y, "u")), bits(cut(X / Y, "z"))]
                e = X * Y + X
                d = np.float64(float(e))  # round to odd, then once more
                if F(float(d)) != e:
                    w = d.view(np.uint64) - np.uint64(abs(F(float(d))) > abs(e)) | np.uint64(1)
                    d = w.view(np.float64)
                r[i, 4] = bits(np.float32(d))
            else:
                r[i, :3] = [bits(x + y), bits(x * y), bits(x / y)]
                r[i, 4] = bits(x * y + x)
            r[i, 3] = bits(np.sqrt(np.abs(x)))
        f = float(x)
        r[i, 5] = (0 if f != f else int(max(-2.0**31, min(2.0**31 - 1, f if math.isinf(f) else float(np.rint(f)))))) & 0xffffffff
        g = float(y)
        q = -(1 << 63) if g != g or g <= -2.0**63 else (1 << 63) - 1 if g >= 2.0**63 else int(g)
        r[i, 6] = (q >> 32) & 0xffffffff
        h = f * 1e3
        r[i, 7] = (-(1 << 31) if h != h else int(max(-2.0**31, min(2.0**31 - 1, h if math.isinf(h) else math.floor(h))))) & 0xffffffff
    p.want("o", "u32", r)
    p.give("a", "f32", v)
    return p


def triton():
    import kernels
    scratch = lambda p: [p.scalar("u64", 0), p.scalar("u64", 0)]
    setting = lambda p: p.line("set PTXVM_DRIVER 14000")
    p = Program("Triton: a sum", 3, 128, kernel="add")
    setting(p)
    x, y = random.randn(2, 300).astype(np.float32)
    p.give("x", "f32", x)
    p.give("y", "f32", y)
    p.want("o", "f32", x + y)
    p.scalar("s32", 300)
    scratch(p)
    p.write("triton_add", kernels.text(kernels.add, {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32"}, {"B": 128}, 80))

    p = Program("Triton: rows to probabilities", 3, 128, 64, kernel="softmax")
    setting(p)
    p.line("set PTXVM_PERMIT equal-writes")
    x = random.randn(3, 90).astype(np.float32)
    e = np.exp(x.astype(np.float64))
    p.want("o", "f32", (e / e.sum(1, keepdims=True)).astype(np.float32), 1e-5)
    p.give("x", "f32", x)
    p.scalar("s32", 90)
    scratch(p)
    text = kernels.text(kernels.softmax, {"o": "*fp32", "x": "*fp32", "n": "i32"}, {"B": 128}, 80)
    p.write("triton_softmax", text)
    q = Program("Triton: lanes of one store write the same word", 1, 128, 64, kernel="softmax")
    q.head += [line for line in p.head[2:] if "PERMIT" not in line]
    q.line("fails 719 race: this write is not ordered after a write by thread")
    q.write("triton_equal", text)

    p = Program("Triton: a product of halves on tensor cores, three stages", 1, 128, 16384, kernel="dot")
    setting(p)
    p.line("set PTXVM_PERMIT equal-writes")
    a = random.randint(-8, 9, (20, 36)).astype(np.float16)
    b = random.randint(-8, 9, (36, 12)).astype(np.float16)
    p.give("a", "b16", a)
    p.give("b", "b16", b)
    p.want("c", "f32", a.astype(np.float32) @ b.astype(np.float32))
    for n in (20, 12, 36):
        p.scalar("s32", n)
    scratch(p)
    dot = list(p.head)
    p.write("triton_dot", kernels.text(kernels.dot, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"},
                                       {"BM": 32, "BN": 32, "BK": 32}, 80))

    p = Program("Triton: a histogram by atomics", 2, 128, kernel="histogram")
    setting(p)
    x = random.randint(0, 1000, 200).astype(np.int32)
    p.want("o", "s32", np.bincount(x & 15, minlength=16).astype(np.int32))
    p.give("x", "s32", x)
    p.scalar("s32", 200)
    scratch(p)
    p.write("triton_histogram", kernels.text(kernels.histogram, {"o": "*i32", "x": "*i32", "n": "i32"}, {"B": 128}, 80))

    text = kernels.text(kernels.dot, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"},
                        {"BM": 64, "BN": 32, "BK": 32}, 90)
    p = Program("Triton for Hopper: the same product on wgmma", 1, 128, 16384, kernel="dot")
    p.head += dot[2:]
    p.line("set PTXVM_DEVICE sm_90")
    p.write("triton_hopper", text)


MADE = (
    ("nvrtc120_wide", wide, nvrtc, "12.0", "WIDE", ["-arch=compute_80"]),
    ("nvrtc120_choice", choice, nvrtc, "12.0", "CHOICE", ["-arch=compute_80", "-G"]),
    ("nvrtc120_record", record, nvrtc, "12.0", "RECORD", ["-arch=compute_80"]),
    ("nvrtc120_tree", tree, nvrtc, "12.0", "TREE", ["-arch=compute_75", "-lineinfo"]),
    ("nvrtc120_rounds", rounds, nvrtc, "12.0", "ROUNDS", ["-arch=compute_80"]),
    ("nvrtc124_halves", halves, nvrtc, "12.4", "HALVES", ["-arch=compute_80"]),
    ("nvrtc124_packed", packed, nvrtc, "12.4", "PACKED", ["-arch=compute_86"]),
    ("nvrtc124_local", local, nvrtc, "12.4", "LOCAL", ["-arch=compute_80", "-G"]),
    ("nvrtc124_lanes", lanes, nvrtc, "12.4", "LANES", ["-arch=compute_80"]),
    ("nvrtc129_tensor", tensor, nvrtc, "12.9", "TENSOR", ["-arch=compute_80"]),
    ("nvrtc129_atoms", atoms, nvrtc, "12.9", "ATOMS", ["-arch=compute_90"]),
    ("nvrtc129_choice", choice, nvrtc, "12.9", "CHOICE", ["-arch=compute_90"]),
    ("nvrtc129_record", record, nvrtc, "12.9", "RECORD", ["-arch=compute_120", "-G"]),
    ("nvcc130_packed", packed, nvcc, "PACKED", ["-arch=sm_90"]),
    ("nvcc130_rounds", rounds, nvcc, "ROUNDS", ["-arch=sm_100"]),
    ("nvcc130_atoms", atoms, nvcc, "ATOMS", ["-arch=sm_80", "-G"]),
    ("nvcc130_ring", ring, nvcc, "RING", ["-arch=sm_90a"]),
    ("nvcc130_shares", shares, nvcc, "SHARES", ["-arch=sm_90a"]),
    ("nvcc130_group", group, nvcc, "GROUP", ["-arch=sm_90a"]),
    ("clang14_wide", wide, clang, "WIDE", ["-O2", "--cuda-gpu-arch=sm_80"]),
    ("clang14_choice", choice, clang, "CHOICE", ["-O1", "--cuda-gpu-arch=sm_70"]),
    ("clang14_record", record, clang, "RECORD", ["-O0", "--cuda-gpu-arch=sm_80"]),
    ("clang14_local", local, clang, "LOCAL", ["-O3", "-g", "--cuda-gpu-arch=sm_80"]),
    ("clang14_device", device, clang, "DEVICE", ["-O2", "--cuda-gpu-arch=sm_75"]),
)

if __name__ == "__main__":
    for name, answer, compiler, *rest in MADE:
        program = answer()
        if any(word in " ".join(map(str, rest)) for word in ("_90", "_100", "_120", "_86")):
            program.line("set PTXVM_DEVICE sm_" + str(rest[-1]).split("_")[1].split("'")[0].rstrip("a"))
        program.write(name, compiler(*rest))
    triton()
