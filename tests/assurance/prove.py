#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make prove`: proves functions of the tree by Frama-C's WP, without bounds on sizes.

A unit is a file proofs/NAME.proof: C with contracts in ACSL, into which functions are taken as they stand
in the tree (docs in README.md). Each function must be proved, all goals of it; and each broken copy that
the unit names (one change of the text) must not be. Writes build/prove/report.txt and ends with
`N passed, N failed`. Where a tool is missing it fails, or, with OPTIONAL=1, prints `skipped`; it leaves no earlier report.

  prove.py [UNIT..]     all units, or those named
  prove.py -v UNIT      and shows what the prover says
  prove.py texts        proves nothing: only whether every unit, and every broken copy, can be put together
"""
import os
import re
import shutil
import subprocess
import sys

# verifies arena-1.6463
# verifies arena-5.8205
# verifies arena-6.72d9
# verifies file-11.43bf
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = "tests/assurance/proofs"
OUT = "build/prove"
TOOLS = {"frama-c": "frama-c-base", "why3": "why3", "z3": "z3", "cvc4": "cvc4"}
PROVERS = "z3,cvc4"
SECONDS = 10  # for one goal; the slowest of what is proved takes a tenth of it
BROKEN_SECONDS = 2


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def take(path, name):
    """The definition of a function, or the line of a macro, as it stands in the tree; `NAME as OTHER`
    where a header that is included has it too."""
    name, _, other = name.partition(" as ")
    text = read(path)
    if name.startswith("#"):
        found = re.search("^" + re.escape(name) + r"\b.*$", text, re.M)
        if not found:
            sys.exit(f"{path}: no line {name}")
        return found.group(0)
    found = re.search(r"^[A-Za-z_][^;{}()#]*\b" + name + r"\([^;{}]*\)\s*\{.*?^\}", text, re.M | re.S)
    if not found:
        sys.exit(f"{path}: no function {name}")
    return re.sub(r"\b" + name + r"\(", other + "(", found.group(0), 1) if other else found.group(0)


def table(path, name):
    """The definition of a table of constants, as it stands in the tree."""
    found = re.search(r"^static const [^;{}()]*\b" + name + r"\[[^;]*?\n?};", read(path), re.M | re.S)
    if not found:
        sys.exit(f"{path}: no table {name}")
    return found.group(0)


def annotate(text, loops, hints, path, name):
    """Puts annotations above the loops of a function, by their number from 1 on, and above lines."""
    number = 0
    lines = []
    for line in text.split("\n"):
        if re.match(r"\s*(for|while) \(|\s*do \{", line):
            number += 1
            if number in loops:
                lines.append("/*@ " + loops[number] + " */")
        lines += [f"/*@ {hint} */" for at, hint in hints if at in line]
        lines.append(line)
    if loops and max(loops) > number:
        sys.exit(f"{path}: {name} has {number} loops")
    return "\n".join(lines)


def frama_c(path, functions, seconds, smoke, lines=()):
    """Proves functions of a file, or its lemmas where none is named; (goals proved, goals, output)."""
    command = ["frama-c", f"-cpp-extra-args=-I. -I{HERE} -std=c99", path, "-wp", "-wp-rte", "-warn-unsigned-overflow",
               "-wp-fct" if functions else "-wp-prop", ",".join(functions) or "@lemma", "-wp-prover", PROVERS,
               "-wp-timeout", str(seconds), "-wp-par", "2", *([] if "//! together" in lines else ["-wp-split"]),
               *(["-no-warn-signed-overflow", "-warn-special-float", "none"] if "//! indices" in lines else []),
               *(["-wp-smoke-tests", "-wp-smoke-timeout", "1", "-wp-no-smoke-dead-code", "-wp-no-smoke-dead-loop"]
                 if smoke else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    with open(path[:-2] + ".log", "w", encoding="utf-8") as file:
        file.write(done.stdout)
    found = re.search(r"Proved goals:\s+(\d+) / (\d+)", done.stdout)
    if done.returncode != 0 or not found:
        return 0, 0, done.stdout
    return int(found.group(1)), int(found.group(2)), done.stdout


def holes_of(output):
    """What makes a proof say less than it seems to."""
    return [line for line in output.split("\n")
            if re.search(r"Cast with incompatible|\[Failed\] Smoke|Doomed|[Nn]ot yet implemented|"
                         r"Missing assigns|reads nothing|Neither code nor", line)]


def not_proved(output):
    return [line for line in output.split("\n") if re.match(r"\[wp\] \[(?!Qed|CVC4|Z3|Passed).*Goal", line)]


def prove_extents(report):
    """The formulas of kernels.def, all in one file, and the broken copies of them all in another."""
    with open(f"{OUT}/extents.c", encoding="utf-8") as file:
        text = file.read()
    functions = re.findall(r"^uint64_t (\w+)\(", text, re.M)
    proved, goals, output = frama_c(f"{OUT}/extents.c", functions, SECONDS, True)
    good = goals > 0 and proved == goals and not holes_of(output)
    print(f"extents: {proved} of {goals} goals of {len(functions)} functions" + ("" if good else "   FAILED"))
    print("".join(line + "\n" for line in not_proved(output) + holes_of(output)), end="")
    report.append(f"unit extents {'proved' if good else 'FAILED'} {proved} {goals}\n"
                  f"  about {text[len('/* '):text.index(' */')]} Each is exact in whole numbers, or invalid.\n"
                  "  assumes contracts of the saturating sizes (size.proof); constants, and sizes that another function "
                  "makes, are any number")
    output = "\n".join(not_proved(frama_c(f"{OUT}/extents-broken.c", functions, BROKEN_SECONDS, False)[2]))
    kept = [name for name in functions if f"_{name}_" not in output]
    for name in functions:
        report.append(f"  function {name}\n  broken {name} {'NOT REFUTED' if name in kept else 'refuted'}")
    print(f"extents: {len(functions) - len(kept)} of {len(functions)} broken copies are not proved", *kept)
    return good + len(functions) - len(kept), (not good) + len(kept)


class Unit:
    """One file of proofs/: its text, the functions it takes and the changes that break them."""

    def __init__(self, name):
        self.name = name
        self.path = f"{HERE}/{name}.proof"
        self.functions = []
        self.broken = []  # (function, old, new)
        self.lines = read(self.path).split("\n")
        text = "\n".join(self.lines)
        self.about = self.comment(text, "about")
        self.assumes = self.comment(text, "assumes")
        for line in self.lines:
            words = line.split()
            if line.startswith("//! take ") and not words[3].startswith("#"):
                self.functions.append(words[-1])
            elif line.startswith("//! broken "):
                name, change = line[len("//! broken "):].split(": ", 1)
                old, _, new = change.partition(" =>")
                self.broken.append((name, old, new[1:]))
        for function in self.functions:
            if function not in [b[0] for b in self.broken]:
                sys.exit(f"{self.path}: {function} has no broken copy")

    @staticmethod
    def comment(text, word):
        found = re.search(r"^ \* " + word + r": (.*?)(?=^ \* \w+: |\*/)", text, re.M | re.S)
        return re.sub(r"\s+\*?\s*", " ", found.group(1)).strip() if found else "?"

    def source(self, change=None):
        """The C text, with one function changed where `change` says so."""
        out = []
        loops = {}
        hints = []
        for line in self.lines:
            if line.startswith("//! hint "):
                hints.append(line[len("//! hint "):].split(" => ", 1))
            elif line.startswith("//! loop "):
                number, text = line[len("//! loop "):].split(": ", 1)
                loops[int(number)] = loops.get(int(number), "") + text + " "
            elif line.startswith("//! take "):
                _, _, path, name = line.split(None, 3)
                text = take(path, name)
                if change and change[0] == name.split()[-1]:
                    text = self.changed(text, change)
                out.append(annotate(text, loops, hints, self.path, name))
                loops = {}
                hints = []
            elif line.startswith("//! table "):
                out.append(table(*line.split()[2:]))
            elif not line.startswith("//!"):
                out.append(line)
        text = "\n".join(out) + "\n"
        return text

    def changed(self, text, change):
        if text.count(change[1]) != 1:
            sys.exit(f"{self.path}: `{change[1]}` is there {text.count(change[1])} times in {change[0]}")
        return text.replace(change[1], change[2])

    def lemmas(self):
        """Lemmas are no function's goals: they are proved by themselves, else they would be assumed."""
        if not re.search(r"\blemma\b", "\n".join(self.lines)):
            return 0, 0, ""
        return self.run([], SECONDS, "-lemmas")

    def run(self, functions, seconds, label, change=None):
        """Proves functions; (goals proved, goals, output)."""
        path = f"{OUT}/{self.name}{label}.c"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source(change))
        return frama_c(path, functions, seconds, functions and change is None, self.lines)

    def prove(self, report, verbose):
        passed = failed = 0
        proved, goals, output = self.run(self.functions, SECONDS, "")
        lemmas, lemma_goals, lemma_output = self.lemmas()
        proved, goals, output = proved + lemmas, goals + lemma_goals, output + lemma_output
        holes = holes_of(output)
        good = goals > 0 and proved == goals and not holes
        say = f"{self.name}: {proved} of {goals} goals of {len(self.functions)} functions"
        print(say + ("" if good else "   FAILED"))
        if verbose or not good:
            print(output if verbose or not goals else "\n".join(holes + not_proved(output)))
        report.append(f"unit {self.name} {'proved' if good else 'FAILED'} {proved} {goals}")
        report.append(f"  about {self.about}\n  assumes {self.assumes}")
        report += [f"  function {function}" for function in self.functions]
        passed, failed = passed + good, failed + (not good)
        refuted = 0
        for number, change in enumerate(self.broken):
            proved, goals, output = self.run([change[0]], BROKEN_SECONDS, f"-broken-{number + 1}", change)
            good = 0 < goals and proved < goals
            report.append(f"  broken {change[0]} {'refuted' if good else 'NOT REFUTED'} "
                          f"`{change[1]}` => `{change[2]}`")
            if not good:
                print(f"{self.name}: the broken {change[0]} (`{change[1]}` => `{change[2]}`) is "
                      f"{'proved' if goals else 'no C'}: {OUT}/{self.name}-broken-{number + 1}.log")
            refuted += good
            passed, failed = passed + good, failed + (not good)
        print(f"{self.name}: {refuted} of {len(self.broken)} broken copies are not proved")
        return passed, failed


def units():
    return sorted(f[:-len(".proof")] for f in os.listdir(HERE) if f.endswith(".proof"))


def texts():
    """Units name functions and pieces of their text, which change: this sees it without a prover."""
    count = 0
    for name in units():
        unit = Unit(name)
        for change in [None, *unit.broken]:
            count += len(unit.source(change)) > 0
    print(f"{count} passed, 0 failed")
    return 0


def main():
    os.chdir(ROOT)
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    if names == ["texts"]:
        return texts()
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        optional = os.environ.get("OPTIONAL") == "1"
        print(f"{'skipped' if optional else 'missing'}: not installed: {' '.join(missing)} (Debian's packages); "
              "nothing was proved")
        if not optional:
            print("try: OPTIONAL=1, which skips goals whose tools are not installed")
        print(f"0 passed, {int(not optional)} failed")
        return int(not optional)
    # The provers are found anew in a file of our own; a user's own choice plays no part.
    os.environ["WHY3CONFIG"] = os.path.abspath(f"{OUT}/why3.conf")
    subprocess.run(["why3", "-C", os.environ["WHY3CONFIG"], "config", "detect"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    subprocess.run([sys.executable, f"{HERE}/extents.py", OUT], check=True)
    report = ["tool " + subprocess.run([tool, "--version" if tool != "frama-c" else "-version"],
                                       stdout=subprocess.PIPE, text=True, check=False).stdout.split("\n")[0]
              for tool in TOOLS]
    report[0] = report[0].replace("tool ", "tool frama-c ")
    passed = failed = 0
    for name in [name for name in names if name != "extents"] if names else units():
        p, f = Unit(name).prove(report, "-v" in sys.argv)
        passed, failed = passed + p, failed + f
    if not names or "extents" in names:
        p, f = prove_extents(report)
        passed, failed = passed + p, failed + f
    report.append(f"{passed} passed, {failed} failed")
    with open(f"{OUT}/report.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(report) + "\n")
    print(f"what is assumed, and every function: {OUT}/report.txt")
    print(report[-1])
    return failed > 0


sys.exit(main())
