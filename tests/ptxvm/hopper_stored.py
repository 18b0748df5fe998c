# SPDX-License-Identifier: MIT
"""Programs about global memory that threads of a launch store to and bulk copies of the same launch read (stored_*,
fault_stored_*): the last of two blocks copies what both have stored. Used by make_hopper.py."""
from hopper_program import Program, damaged, write

FENCE = "    fence.proxy.async;\n"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 256, [%r2];"
TENSOR = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d5, {0}], [%r2];"


def stored(copy, about):
    p = Program(about, "k grid 2 block 32")
    p.say("buffer z u32 64 undefined", "buffer y u32 64 undefined", "buffer n u32 1 0", "map m z 2 0 0 1 64 64",
          "argument m", "argument z", "argument y", "argument n", "operand z rw", "operand y w", "operand n rw",
          "expect y " + " ".join(str(3 * i + 5) for i in range(64)))
    p.body = f""".visible .entry k(
    .param .align 128 .b8 k_0[128],
    .param .u64 k_1,
    .param .u64 k_2,
    .param .u64 k_3)
{{
    .reg .pred %p<10>;
    .reg .b32 %r<60>;
    .reg .b64 %d<40>;
    .shared .align 128 .b8 box[256];
    .shared .align 8 .b64 bar[1];
    mov.b64 %d4, k_0;
    cvta.param.u64 %d5, %d4;
    ld.param.u64 %d1, [k_1];
    ld.param.u64 %d2, [k_2];
    ld.param.u64 %d3, [k_3];
    mov.u32 %r50, %tid.x;
    mov.u32 %r51, %ctaid.x;
    mov.u32 %r1, box;
    mov.u32 %r2, bar;
    setp.eq.u32 %p1, %r50, 0;
    mad.lo.u32 %r10, %r51, 32, %r50;
    mad.lo.u32 %r11, %r10, 3, 5;
    mul.wide.u32 %d10, %r10, 4;
    add.u64 %d10, %d10, %d1;
    st.global.u32 [%d10], %r11;
{FENCE}    bar.sync 0;
    @!%p1 bra over;
    atom.acq_rel.gpu.global.add.u32 %r12, [%d3], 1;
    setp.ne.u32 %p2, %r12, 1;
    @%p2 bra over;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
    {copy}
wait:
    mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
    @!%p3 bra wait;
    mov.u32 %r13, 0;
loop:
    mad.lo.u32 %r14, %r13, 4, %r1;
    ld.shared.u32 %r15, [%r14];
    mul.wide.u32 %d11, %r13, 4;
    add.u64 %d11, %d11, %d2;
    st.global.u32 [%d11], %r15;
    add.u32 %r13, %r13, 1;
    setp.lt.u32 %p4, %r13, 64;
    @%p4 bra loop;
over:
    ret;
}}
"""
    return p


def stores(folder):
    p = stored(BULK, "a bulk copy of what threads of this and another block have stored, behind their fences")
    box = stored(TENSOR, "the same by a tensor map")
    box.lines = [line for line in box.lines if "operand" not in line]  # z is in it twice, as a map and as an address
    write(folder, "stored", p.text())
    write(folder, "stored_tensor", box.text())
    body = p.body
    p.body = body.replace(FENCE, "    fence.proxy.async.global;\n")
    p.lines[0] = "//! about a fence of global memory alone, which is what such a copy needs"
    write(folder, "stored_global", p.text())
    p.body = body
    p.lines[0] = "//! about a bulk copy of what both warps of a block have stored"
    p.lines = [line.replace("grid 2 block 32", "grid 1 block 64").replace("n u32 1 0", "n u32 1 1") for line in p.lines]
    write(folder, "stored_warps", p.text())
    p = stored(BULK, "")
    words = "719 a bulk copy reads global bytes that a thread of this launch stored and no fence.proxy.async"
    damaged(folder, "fault_stored_none", p, "no fence between stores to global memory and a bulk copy of it", words, (FENCE, ""))
    damaged(folder, "fault_stored_tensor", box, "the same by a tensor map", words, (FENCE, ""))
    damaged(folder, "fault_stored_shared", p, "a fence of shared memory alone", words, (FENCE, "    fence.proxy.async.shared::cta;\n"))
    damaged(folder, "fault_stored_one", p, "one thread's fence is not that of the others", words, (FENCE, "    @%p1" + FENCE[3:]))
    damaged(folder, "fault_stored_late", p, "a fence of the one that copies, not of those that stored", words, (FENCE, ""),
            ("    atom.acq", FENCE + "    atom.acq"))
