# SPDX-License-Identifier: MIT
"""Programs about stmatrix (stmatrix_*): a warp's fragments of one, two and four matrices, plain and turned, into rows
that lie in no order. Used by make_hopper.py."""
from hopper_program import Program, damaged, write


def stmatrix(count, turned):
    """Register i of lane l holds row l / 4 of matrix i, columns 2 * (l % 4) and the next; lane 8 * i + r has the address of
    its row r."""
    rows = 8 * count
    place = lambda k: (5 * k + 3) % rows
    shared = [None] * (8 * rows)
    for i in range(count):
        for lane in range(32):
            for half in range(2):
                row, column = lane // 4, 2 * (lane % 4) + half
                if turned:
                    row, column = column, row
                shared[8 * place(8 * i + row) + column] = 100 * i + 2 * lane + half
    name = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if turned else ''}.shared.b16"
    p = Program(name, "k grid 1 block 32")
    p.say(f"buffer y u16 {8 * rows} undefined", "argument y", "operand y w", "expect y " + " ".join(map(str, shared)))
    fragments = "".join(f"    mad.lo.u32 %r{20 + i}, %r50, 0x20002, {0x10000 + 100 * i * 0x10001};\n" for i in range(count))
    listed = ", ".join(f"%r{20 + i}" for i in range(count))
    p.body = f""".visible .entry k(
    .param .u64 k_0)
{{
    .reg .pred %p<10>;
    .reg .b16 %h<10>;
    .reg .b32 %r<60>;
    .reg .b64 %d<40>;
    .shared .align 16 .b8 box[{16 * rows}];
    ld.param.u64 %d1, [k_0];
    mov.u32 %r50, %tid.x;
    mov.u32 %r1, box;
    rem.u32 %r2, %r50, {rows};
    mad.lo.u32 %r2, %r2, 5, 3;
    rem.u32 %r2, %r2, {rows};
    mad.lo.u32 %r2, %r2, 16, %r1;
{fragments}    {name} [%r2], {{{listed}}};
    bar.sync 0;
    mov.u32 %r10, %r50;
loop:
    mad.lo.u32 %r12, %r10, 2, %r1;
    ld.shared.u16 %h1, [%r12];
    mad.wide.u32 %d2, %r10, 2, %d1;
    st.global.u16 [%d2], %h1;
    add.u32 %r10, %r10, 32;
    setp.lt.u32 %p1, %r10, {8 * rows};
    @%p1 bra loop;
    ret;
}}
"""
    return p


def stores(folder):
    for count in (1, 2, 4):
        for turned in (False, True):
            write(folder, f"stmatrix_x{count}" + ("_trans" if turned else ""), stmatrix(count, turned).text())
    p = stmatrix(2, False)
    damaged(folder, "fault_stmatrix_aligned", p, "rows of matrices that do not begin at multiples of 16 bytes",
            "716 misaligned", ("16, %r1;", "8, %r1;"))
    damaged(folder, "fault_stmatrix_bounds", p, "a row of a matrix behind the block's shared memory", "700 shared access",
            ("16, %r1;", "32, %r1;"))
