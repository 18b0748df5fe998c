#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renames identifiers, files, options, JSON fields and words of messages, everywhere at once.

    rename.py SPEC..               says which files would change, and changes nothing
    rename.py --apply SPEC..       changes them
    rename.py --apply --again SPEC..   .. in the tree of another branch: names that are not there, and targets that
                                 are, are no reason to refuse

A line of a spec is a rule; # begins a comment. Rules are applied one after the other.

    id OLD NEW           an identifier, whole, wherever it stands: code, comments, scripts, lists, pages
    code OLD NEW         the same in C outside comments and strings (a member that is an English word)
    text "OLD" "NEW"     words, outside C code: messages, comments, pages, requirements, scripts. A blank in OLD
                         is also the end of a line, in a comment or between two halves of a literal
    re /OLD/ /NEW/       a regular expression of Python, in whole files
    option OLD NEW       an option of the program: --OLD, and where its name stands in quotes or in a key
    field OLD NEW        a key of JSON: in quotes, behind `json` of scripts, in backquotes
    file OLD NEW         a file of the tree, with all its mentions (as move.py does it). Where NEW has no slash, OLD is
                         a pattern, and what it matches gets that name in its folder

Behind a rule may stand `in GLOB..` and `not GLOB..`, which choose files (* matches / too). References (golden
values, corpora, PTX and what it was made of) are never changed.

What follows from a change is done as well: the digests of requirements' sentences, wherever tests cite them;
the order of lists that were in order; clang-format-14 over changed C files.

Refused, with nothing changed: a tree with uncommitted changes, a spec that cannot be read, a target that
exists, an OLD that is nowhere. When a step fails, the tree is put back. Exit status 0, 2 refused, 1 failed.
Prove a renaming with tools/dev/same_code.sh. The same spec gives the same result in every tree.
"""
import argparse
import fnmatch
import hashlib
import os
import re
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import move  # noqa: E402

# What other programs made, or a device runs, keeps its names; so do the words of what happened.
FIXED = ("tests/golden/*.safetensors", "tests/golden/old/*", "tests/golden/*.json", "tests/golden/*.txt",
         "tests/fuzz/corpus/*", "tests/ptxvm/*", "device/cuda/kernels/*", "CHANGELOG.md",
         "tools/bench/results/*", "tests/assurance/kit/known_problems.md", "tools/dev/*", "tests/house/test_rename.sh",
         "tests/house/test_move.sh")
C_FILE = re.compile(r"\.(?:c|h|def|proof)$")
FORMATTED = re.compile(r"\.(?:c|h)$")
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.S)
GAP = r"(\s*\"\s*\n\s*\"\s*|[ \t]*\n[ \t]*(?:(?:\*|#|//)[ \t]+)?|[ \t]+)"
KINDS = {"id": 2, "code": 2, "text": 2, "re": 2, "option": 2, "field": 2, "file": 2}


class Rule:
    """A line of the spec."""

    def __init__(self, number, line):
        self.number, self.line = number, line
        words = self.split(line)
        self.kind = words[0]
        if self.kind not in KINDS or len(words) < 3:
            raise move.Refused(f"line {number}: no rule: {line}")
        self.old, self.new = words[1], words[2]
        self.chosen, self.passed = [], []
        to = None
        for word in words[3:]:
            if word in ("in", "not"):
                to = self.chosen if word == "in" else self.passed
            elif to is None:
                raise move.Refused(f"line {number}: expected in or not, found {word}")
            else:
                to.append(word)
        self.found = 0
        try:
            self.patterns = [(re.compile(p), r) for p, r in self.compile()]
        except re.error as error:
            raise move.Refused(f"line {number}: {error}") from error

    @staticmethod
    def split(line):
        match = re.match(r"re\s+/((?:[^/\\]|\\.)*)/\s+/((?:[^/\\]|\\.)*)/\s*(.*)$", line)
        if match:
            return ["re", *(match.group(i).replace("\\/", "/") for i in (1, 2)), *match.group(3).split()]
        return shlex.split(line)

    def compile(self):
        """Patterns and what replaces them."""
        old, new = re.escape(self.old), self.new.replace("\\", "\\\\")
        if self.kind in ("id", "code"):
            return [(r"(?<![A-Za-z0-9_])" + old + r"(?![A-Za-z0-9_])", new)]
        if self.kind == "re":
            return [("(?m)" + self.old, self.new)]
        if self.kind == "option":
            low, new_low = re.escape(self.old.replace("-", "_")), new.replace("-", "_")
            return [(r"(?<![A-Za-z0-9-])--" + old + r"(?![A-Za-z0-9_-])", "--" + new),
                    (r"(?<![A-Za-z0-9-])--" + low + r"(?![A-Za-z0-9_-])", "--" + new_low),
                    (r"\b(result|run)\." + old + r"(?![A-Za-z0-9_.-])", r"\g<1>." + new),
                    (r"(?<=\{\")" + old + r"(?=\", OPTION_)", new),
                    (r"(option_given\([^;]*?\")" + old + r"(?=\"\))", r"\g<1>" + new)]
        if self.kind == "field":
            return [(r"(?<=\")" + old + r"(?=\\?\")", new), (r"(?<=\\\")" + old + r"(?=\\\")", new),
                    (r"(?<=\bjson )" + old + r"(?![A-Za-z0-9_])", new), (r"(?<=`)" + old + r"(?=`)", new)]
        return []  # text and file have ways of their own

    def takes(self, path):
        """Whether a file is one of those that the rule is about."""
        def one_of(globs):
            return any(fnmatch.fnmatchcase(path, g) for g in globs)
        return (not self.chosen or one_of(self.chosen)) and not one_of(self.passed) and not one_of(FIXED)

    def hint(self, text):
        """Whether it may be worth a search."""
        if self.kind == "re":
            return True
        first = self.old.split(" ")[0] if self.kind == "text" else self.old
        return first in text or (self.kind == "option" and self.old.replace("-", "_") in text)

    def apply(self, text, path):
        """The text with the rule applied."""
        if not self.hint(text):
            return text
        if self.kind == "text":
            return self.words(text, path)
        for pattern, new in self.patterns:
            if self.kind == "code":
                text = self.outside(text, path, pattern, new)
            else:
                text, count = pattern.subn(new, text)
                self.found += count
        return text

    def outside(self, text, path, pattern, new):
        """In C, outside comments and literals."""
        if not C_FILE.search(path):
            return text
        parts, at = [], 0
        for token in TOKEN.finditer(text):
            parts += [self.one(pattern, new, text[at:token.start()]), token.group(0)]
            at = token.end()
        return "".join(parts) + self.one(pattern, new, text[at:])

    def one(self, pattern, new, text):
        text, count = pattern.subn(new, text)
        self.found += count
        return text

    def words(self, text, path):
        """Words of messages: in C in comments and literals, elsewhere anywhere."""
        olds, news = self.old.split(" "), self.new.split(" ")
        edge = r"[A-Za-z0-9_]"
        before = "(?<![A-Za-z0-9_/])" if re.match(edge, self.old) else ""
        after = r"(?![A-Za-z0-9_/]|\.[a-z]+\b)" if re.search(edge + "$", self.old) else ""
        pattern = re.compile(before + GAP.join(map(re.escape, olds)) + after)

        def put(match):
            self.found += 1
            gaps = list(match.groups())
            if len(news) != len(olds):
                # A half of a literal ends where it ended: behind the first word.
                gaps = ([g for g in gaps if "\n" in g] + [" "] * len(news))[:len(news) - 1]
            return "".join(w + g for w, g in zip(news, gaps + [""]))

        if not C_FILE.search(path):
            return pattern.sub(put, text)
        # Neighbouring literals are one text.
        run = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"(?:\s*\"(?:[^\"\\\n]|\\.)*\")*", re.S)
        return run.sub(lambda m: pattern.sub(put, m.group(0)), text)


def read_spec(path):
    rules = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if line and not line.startswith("#"):
                rules.append(Rule(number, line))
    if not rules:
        raise move.Refused(f"{path}: no rule")
    return rules


def read_tree(files):
    """Every text of the tree that may change."""
    texts = {}
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
            texts[path] = text
    return texts


def check_targets(rules, texts):
    """An identifier that is there already would be joined with another one."""
    words = {}
    for path, text in texts.items():
        if C_FILE.search(path):
            for word in set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", TOKEN.sub(" ", text))):
                words.setdefault(word, []).append(path)
    gone = {rule.old for rule in rules if rule.kind in ("id", "code")}
    for rule in rules:
        if rule.kind in ("id", "code") and rule.new in words and rule.new not in gone and not rule.chosen:
            raise move.Refused(f"line {rule.number}: {rule.new} exists, in {words[rule.new][0]}")


REQUIREMENT = re.compile(r"^REQ ([a-z0-9-]+) [a-z]+: ((?:.*\n)(?:    .*\n)*)", re.M)


def tags(texts):
    """The tag of each requirement, as tests/assurance/tracing.py makes it."""
    found = {}
    for path, text in texts.items():
        if path.startswith("tests/assurance/requirements/") and path.endswith(".req"):
            for name, sentence in REQUIREMENT.findall(text):
                found[name] = hashlib.sha256(" ".join(sentence.split()).encode()).hexdigest()[:4]
    return found


def retag(before, after):
    """Tags of sentences that changed, wherever they are cited."""
    old, new = tags(before), tags(after)
    changed = {f"{n}.{old[n]}": f"{n}.{new[n]}" for n in old if n in new and old[n] != new[n]}
    if not changed:
        return
    pattern = re.compile(r"(?<![A-Za-z0-9-])(?:%s)(?![0-9a-z])" % "|".join(map(re.escape, changed)))
    for path, text in after.items():
        after[path] = pattern.sub(lambda m: changed[m.group(0)], text)


def plan(rules, files, before, again):
    """Moves, and the text of each file by its old path."""
    if not again:
        check_targets(rules, before)
    after = dict(before)
    pairs = []
    for rule in rules:
        if rule.kind == "file":
            found = [(rule.old, rule.new)]
            if "/" not in rule.new:
                found = [(path, os.path.join(os.path.dirname(path), rule.new)) for path in files
                         if fnmatch.fnmatchcase(path, rule.old) and rule.takes(path)]
            elif again and rule.old not in before:
                found = []
            pairs += found
            rule.found += len(found)
            continue
        for path in after:
            if rule.takes(path):
                after[path] = rule.apply(after[path], path)
    idle = [f"line {rule.number}: nothing to change: {rule.line}" for rule in rules if rule.found == 0]
    if idle and not again:
        raise move.Refused("\n    ".join(idle))
    moves = move.expand(pairs, files, again)
    table = move.mentions(moves, files)
    if moves:
        for path, text in after.items():
            text = move.rewrite(text, table)
            if path.endswith(".md"):
                text = move.rewrite_links(text, path, moves.get(path, path), moves)
            after[path] = text
    retag(before, after)
    for path in after:
        if move.SORTED.search(path) or path.endswith(".shared"):
            after[path] = move.resort(before[path], after[path])
    return moves, after


def plan_all(specs, again):
    """The same of one spec after the other: rules, moves, and what has changed by its old path."""
    files = move.tracked()
    first = texts = read_tree(files)
    origin = {path: path for path in files}
    done = []
    for rules in specs:
        moves, texts = plan(rules, files, texts, again)
        done += rules
        files = [moves.get(path, path) for path in files]
        texts = {moves.get(path, path): text for path, text in texts.items()}
        origin = {moves.get(path, path): old for path, old in origin.items()}
    moves = {old: new for new, old in origin.items() if old != new}
    return done, moves, {origin[p]: t for p, t in texts.items() if t != first[origin[p]]}


def tidy(paths):
    """Changed C as clang-format makes it."""
    sources = [p for p in paths if FORMATTED.search(p)]
    if sources:
        subprocess.run(["clang-format-14", "-i", *sources], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("specs", nargs="+", metavar="SPEC")
    given = parser.parse_args()
    try:
        specs = [read_spec(path) for path in given.specs]
        os.chdir(move.git("rev-parse", "--show-toplevel").strip())
        if given.apply and move.git("status", "--porcelain", "--untracked-files=no"):
            raise move.Refused("the tree has changes that are not committed")
        rules, moves, changed = plan_all(specs, given.again)
    except (move.Refused, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"rename.py: {error}", file=sys.stderr)
        return 2
    for rule in rules:
        print(f"{rule.found:6} {rule.line}")
    renamed = {moves.get(path, path): text for path, text in changed.items()}
    if not given.apply:
        print("\n".join(sorted(renamed)))
    elif move.carry_out(moves, renamed):
        return 1
    else:
        try:
            tidy(sorted(renamed))
        except (OSError, subprocess.CalledProcessError) as error:
            move.git("reset", "-q", "--hard")
            print(f"rename.py: {error}; everything is as it was", file=sys.stderr)
            return 1
    print(f"{len(moves)} files moved, {len(renamed)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
