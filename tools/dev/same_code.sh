#!/bin/bash
# SPDX-License-Identifier: MIT
# Proves that moving and renaming changed no code: builds a commit and the tree as it is, both without debug
# information, and compares the sections .text* and .rodata* of every object.
#
#   same_code.sh [COMMIT]        COMMIT: before the change, HEAD~1 unless given
#   same_code.sh BEFORE AFTER    two build folders that are there already (build/release of two trees)
#
# Objects are paired by git's renames between the commit and the tree. Prints each object that differs with the
# sections that do, and each that has no partner; ends with `N objects equal, N differ, N alone`.
# Exit status 0 when all are equal, 1 when not, 2 when something could not be built.
set -u
cd "$(git rev-parse --show-toplevel)" || exit 2
unset MAKEFLAGS MAKELEVEL MFLAGS
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" >/dev/null 2>&1; rm -rf "$work"' EXIT
commit=HEAD~1
[[ $# -ne 1 ]] || commit=$1
if [[ $# -eq 2 ]]; then
    before=$1 after=$2
    commit=$(git -C "$before" rev-parse HEAD) || exit 2
else
    before=$work/tree/build/same after=build/same
    git worktree add -q --detach "$work/tree" "$commit" || exit 2
    for tree in "$work/tree" .; do
        make -s -C "$tree" OPT=-O2 BUILD=build/same all >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 2; }
    done
fi
git diff -M30% --name-status --diff-filter=R -l 20000 "$commit" >"$work/renames" 2>/dev/null
python3 - "$before" "$after" "$work/renames" <<'PYTHON'
import os
import re
import struct
import sys


def sections(path):
    """Contents of .text* and .rodata* by name (ELF, 64 or 32 bits, little endian)."""
    with open(path, "rb") as file:
        data = file.read()
    wide = data[4] == 2
    at, = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)
    size, count, names = struct.unpack_from("<HHH", data, 58 if wide else 46)
    rows = []
    for i in range(count):
        name, kind = struct.unpack_from("<II", data, at + i * size)
        place, length = struct.unpack_from("<QQ" if wide else "<II", data, at + i * size + (24 if wide else 16))
        rows.append((name, kind, place, length))
    table = rows[names][2]
    found = {}
    for name, kind, place, length in rows:
        text = data[table + name:data.index(b"\0", table + name)].decode()
        if re.match(r"\.(text|rodata)", text) and kind == 1:
            found.setdefault(text, []).append(data[place:place + length])
    return found


def objects(folder):
    """Every object of the library and the program below a build folder."""
    for top in ("arena", "core", "layers", "optim", "device", "tools"):
        for base, _, names in os.walk(os.path.join(folder, top)):
            yield from (os.path.relpath(os.path.join(base, n), folder) for n in names if n.endswith(".o"))


before, after, renames = sys.argv[1:]
partner = {}
with open(renames, encoding="utf-8") as lines:
    for line in lines:
        _, old, new = line.rstrip("\n").split("\t")
        if old.endswith(".c"):
            for ending in (".o", "_bf16.o", "_f16.o"):
                partner[old[:-2] + ending] = new[:-2] + ending
there = set(objects(after))
equal, differ, alone = 0, 0, 0
for old in sorted(objects(before)):
    new = partner.get(old, old)
    if new not in there:
        alone += 1
        print(f"alone: {old}")
        continue
    there.discard(new)
    one, other = sections(os.path.join(before, old)), sections(os.path.join(after, new))
    if one == other:
        equal += 1
    else:
        differ += 1
        where = sorted(s for s in {*one, *other} if one.get(s) != other.get(s))
        print(f"differs: {old} -> {new}: {' '.join(where)}")
for new in sorted(there):
    alone += 1
    print(f"alone: {new}")
print(f"{equal} objects equal, {differ} differ, {alone} alone")
sys.exit(0 if differ == alone == 0 else 1)
PYTHON
