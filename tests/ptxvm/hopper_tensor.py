# SPDX-License-Identifier: MIT
"""Programs about boxes of tensor maps: copies into shared memory and out of it (tensor_*,
fault_tensor_*, fault_proxy_*, fault_store_*). Used by make_hopper.py."""
from hopper_program import F16, F32, U16, Program, damaged, repeated, swizzled, write


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
