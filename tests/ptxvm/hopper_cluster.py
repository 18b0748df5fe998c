# SPDX-License-Identifier: MIT
"""Programs about registers that warpgroups pass on and about clusters (setmaxnreg_*, cluster_*, and
their faults). Used by make_hopper.py."""
from hopper_program import Program, damaged, repeated, write

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
