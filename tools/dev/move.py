#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Moves files of the tree and rewrites every mention of them.

    move.py OLD NEW              one file or one folder
    move.py --list FILE          many: a line `OLD NEW` each; # begins a comment
    move.py --missing-ok ..      lines whose OLD is not tracked are left out (another branch's list)
    move.py --dry-run ..         says which files would change, and changes nothing

A mention is the file's path from the root of the tree, with its ending, as an object (`.o`, `.d`, `_bf16.o`,
`_f16.o`), without an ending (a test program's name), or as the target of a relative link of a Markdown page.
Includes, Makefiles, scripts, requirements, justifications, lists of faults, proofs and pages all use one of
these. Lists that are kept sorted by path are sorted again where they were sorted before. Requirements whose
sentence names a path get their new digest, in the cases that cite them too. Rewritten C files are formatted.

Patterns with * that meant a file that moves cannot be rewritten; they are printed, for a look.

Refused, with nothing changed: a tree with uncommitted changes, a target that exists, a path outside the tree (also
by a link) or in .git, an OLD that is not tracked. When a step fails, the tree is put back as it was. Exit status 0, 2 refused, 1 failed.
Prove a move with tools/dev/same_code.sh.
"""
import argparse
import os
import posixpath
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True

import requirement_tags  # noqa: E402

SUFFIX = re.compile(r"\.(?:c|h|cu|cuh|def|py|sh|awk|mk|md|ptx|s|S)$")
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
SORTED = re.compile(r"(\.justified|\.missing|\.open|\.survivors|\.pointers|\.loops|\.counts|\.deviations|/exceptions)$")


FORMATTER = shutil.which("clang-format-14")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Refused(Exception):
    """Nothing was changed: why."""


def git(*arguments):
    """The output of a git command, as text."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def tracked():
    """Every tracked path."""
    return git("ls-files", "-z").split("\0")[:-1]


def read_list(path):
    """The pairs of a list file."""
    pairs = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if words and len(words) != 2:
                raise Refused(f"{path}:{number}: expected `OLD NEW`, found {len(words)} words")
            if words:
                pairs.append(tuple(words))
    return pairs


def inside(path):
    """The path in its plain form; refused when it leaves the tree."""
    plain = posixpath.normpath(path)
    if not path or posixpath.isabs(path) or plain.startswith("..") or plain == ".":
        raise Refused(f"{path or 'an empty path'}: outside the tree")
    if ".git" in plain.lower().split("/"):
        raise Refused(f"{path}: in the repository, not in the tree")
    # A folder of the way may be a link that leads out.
    root, folder = os.path.realpath("."), os.path.realpath(posixpath.dirname(plain) or ".")
    if folder != os.path.normpath(os.path.join(root, posixpath.dirname(plain))):
        raise Refused(f"{path}: outside the tree, or behind a link")
    return plain


def expand(pairs, files, missing_ok):
    """Pairs of files, folders replaced by what they hold, all checked."""
    known, moves = set(files), {}
    for old, new in pairs:
        old, new = inside(old), inside(new)
        members = [f for f in files if f.startswith(old + "/")]
        if old in known:
            found = [(old, new)]
        elif members:
            found = [(f, new + f[len(old):]) for f in members]
        elif missing_ok:
            continue
        else:
            raise Refused(f"{old}: not a tracked file or folder")
        for one, other in found:
            if one in moves:
                raise Refused(f"{one}: moved twice, to {moves[one]} and {other}")
            moves[one] = other
    moves = {old: new for old, new in moves.items() if old != new}
    targets = set()
    for old, new in moves.items():
        if new in targets:
            raise Refused(f"{new}: two files would be moved there")
        targets.add(new)
        if (new in known and new not in moves) or (os.path.lexists(new) and new not in known):
            raise Refused(f"{new}: exists; {old} cannot be moved there")
    return moves


def mentions(moves, files):
    """How each moved file may be mentioned, and what replaces it."""
    folders = {posixpath.dirname(f) for f in files}
    table = {}
    for old, new in moves.items():
        table[old] = new
        stem, other = SUFFIX.sub("", old), SUFFIX.sub("", new)
        if stem == old:
            continue
        for ending in (".o", ".d", "_bf16.o", "_f16.o", "_bf16.d", "_f16.d"):
            table.setdefault(stem + ending, other + ending)
        # A name without an ending belongs to the .c file before its header, and to no folder of that name.
        if stem not in folders and (old.endswith(".c") or stem not in table):
            table[stem] = other
    # Comments leave out the first folder (`formats/data/data.h` in tools/): where that is one file only.
    for old, new in moves.items():
        first, _, rest = old.partition("/")
        if "/" in rest and new.startswith(first + "/") and rest not in table and not os.path.lexists(rest):
            table[rest] = new[len(first) + 1:]
    return table


def rewrite(text, table):
    """The text with each mention replaced."""

    def one(match):
        word = match.group(0)
        if "/" not in word:
            return word
        start = 0
        while True:
            tail = word[start:]
            if tail in table:
                return word[:start] + table[tail]
            # `build/release/core/x.o`, `$BUILD/core/x.o`, `a//b`: a mention may follow any slash.
            slash = word.find("/", start)
            if slash < 0:
                return word
            start = slash + 1

    return re.sub(r"[A-Za-z0-9_./-]*[A-Za-z0-9_]", one, text)


def rewrite_links(text, page, new_page, moves):
    """Relative links of a Markdown page, whether it or what it points to has moved."""

    def one(match):
        target = match.group(2)
        if "://" in target or target.startswith(("#", "/")):
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        goal = moves.get(path, path)
        if goal == path and page == new_page:
            return match.group(0)
        relative = posixpath.relpath(goal, posixpath.dirname(new_page) or ".")
        return match.group(1) + relative + ("/" if target.endswith("/") else "") + match.group(3)

    return LINK.sub(one, text)


def resort(before, after):
    """Lines in order again, block by block, where the block was in order before."""
    if before == after:
        return after
    old, new = before.split("\n"), after.split("\n")
    if len(old) != len(new):
        return after

    def is_row(line):
        return bool(line) and not line.startswith("#")

    result, i = [], 0
    while i < len(new):
        j = i
        while j < len(new) and is_row(new[j]) and is_row(old[j]):
            j += 1
        block = new[i:j]
        result += sorted(block) if old[i:j] == sorted(old[i:j]) else block
        if j < len(new):
            result.append(new[j])
            j += 1
        i = j
    return "\n".join(result)


def texts_of(files):
    """The text of each file that is text."""
    for path in files:
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, "rb") as source:
            data = source.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            yield path, text


def plan(moves, files):
    """What each changed file becomes: new path -> text, and lines with patterns for a look."""
    table = mentions(moves, files)
    dirs = {posixpath.dirname(old) for old in moves}
    star = re.compile(r"(?:%s)/[A-Za-z0-9_{},$()-]*\*" % "|".join(sorted(map(re.escape, dirs), reverse=True)))
    before, texts, ids = {}, {}, {}
    for path, text in texts_of(files):
        new_path = moves.get(path, path)
        after = rewrite(text, table)
        if path.endswith(".md"):
            after = rewrite_links(after, path, new_path, moves)
        if SORTED.search(path):
            after = resort(text, after)
        if path.startswith(requirement_tags.FOLDER):
            ids.update(requirement_tags.renamed(text, after))
        before[new_path], texts[new_path] = text, after
    changed, doubtful = {}, []
    for path, text in texts.items():
        text = requirement_tags.carry(text, ids)
        if text != before[path]:
            changed[path] = text
        for number, line in enumerate(text.split("\n"), 1):
            if star.search(line):
                doubtful.append(f"{path}:{number}: {line.strip()}")
    return changed, doubtful


def stop(number, _frame):
    """A signal that ends this program fails the step that it came in."""
    raise OSError(f"stopped by signal {number}")


def make_folder(folder, made):
    """Makes a folder with those above it; `made` gets what was not there."""
    if folder and not os.path.isdir(folder):
        make_folder(posixpath.dirname(folder), made)
        os.mkdir(folder)
        made.append(folder)


def put_back(moves, made):
    """Everything as it was before carry_out: the tree had no changes then."""
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    git("reset", "-q")
    for old, new in moves.items():
        for place in (old + ".moving", new):
            if os.path.lexists(place) and not os.path.lexists(old):
                os.rename(place, old)
    git("checkout", "-q", "--", ".")
    for folder in reversed(made):
        os.rmdir(folder)


def carry_out(moves, changed):
    """Moves and writes; puts everything back when a step fails."""
    made = []
    for number in ENDS:
        signal.signal(number, stop)
    try:
        for new in moves.values():
            make_folder(posixpath.dirname(new), made)
        # Two steps, so that files may change places.
        for old in moves:
            os.rename(old, old + ".moving")
        for old, new in moves.items():
            os.rename(old + ".moving", new)
        for path, text in changed.items():
            mode = os.stat(path).st_mode
            with open(path, "w", encoding="utf-8", newline="") as target:
                target.write(text)
            os.chmod(path, mode)
        wide = [p for p, text in changed.items() if p.endswith((".c", ".h", ".cu", ".cuh")) and FORMATTER]
        if wide:
            subprocess.run([FORMATTER, "-i", *sorted(wide)], check=True)
        if moves:
            git("add", "-A", "--", *sorted({*moves.values(), *changed}))
            git("rm", "-q", "--cached", "--ignore-unmatch", "--", *sorted(set(moves) - set(moves.values())))
    except Exception as error:  # whatever it is, nothing stays half done
        put_back(moves, made)
        print(f"move.py: {error}; everything is as it was", file=sys.stderr)
        return 1
    for old in moves:
        folder = posixpath.dirname(old)
        while folder and os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
            folder = posixpath.dirname(folder)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="FILE")
    parser.add_argument("--missing-ok", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("paths", nargs="*", metavar="OLD NEW")
    given = parser.parse_args()
    try:
        if bool(given.list) == bool(given.paths) or len(given.paths) not in (0, 2):
            raise Refused("expected OLD NEW, or --list FILE")
        pairs = read_list(given.list) if given.list else [tuple(given.paths)]
        os.chdir(git("rev-parse", "--show-toplevel").strip())
        if git("status", "--porcelain", "--untracked-files=no"):
            raise Refused("the tree has changes that are not committed")
        files = tracked()
        moves = expand(pairs, files, given.missing_ok)
        changed, doubtful = plan(moves, files)
    except (Refused, OSError, subprocess.CalledProcessError) as error:
        print(f"move.py: {error}", file=sys.stderr)
        return 2
    if given.dry_run:
        print("\n".join(sorted(changed)))
    elif carry_out(moves, changed):
        return 1
    print(f"{len(moves)} files moved, {len(changed)} files rewritten")
    for line in doubtful:
        print(f"look: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
