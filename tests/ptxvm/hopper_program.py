# SPDX-License-Identifier: MIT
"""What the programs about Hopper's instructions have in common: their head, the lines that say what
comes out, damaged ones, and the patterns of tensor maps. Used by make_hopper.py."""

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


# ---- what tensor maps are made of ----

U16, F16, F32, BF16 = 1, 6, 7, 9


def swizzled(address, mode):
    return address ^ (((address >> 7) & ((1 << mode) - 1)) << 4)
