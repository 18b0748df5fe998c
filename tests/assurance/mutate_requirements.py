#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make mutation-requirements`: plants small faults into the code of each requirement and looks whether the test
cases that cite it see them.

The code of a requirement is what its cases run in the files that it names with `in`. Faults are those of mutate.py in
operators, constants and conditions, and conditions that are dropped. Each requirement has a list of its own in
tests/assurance/faults; besides, EACH new ones are drawn for it by SEED, which is the date where none is given: some
of each kind. Only the cases that cite the requirement run; where there are none, or none passes or sees a fault, the
scripts of tests/cli that cite it do.

A fault is seen by these cases, or by those of another requirement that names the file (its line is that one's), or
justified by a line of the list or of mutation.survivors, or listed as open, where a case has yet to be written; any
other is a failure. So is a line of a list that is found nowhere, or more than once, in the function that it names.
Requirements come in an order drawn by SEED; after MINUTES no further one begins, and the report names how many are left
to another night. Ends with `N passed, N failed`; build/mutation-requirements/report.txt has each fault.
mutate_programs.py builds and runs the programs. SLOW=20 leaves out cases that take more seconds of the processor.

  mutate_requirements.py [REQUIREMENT..]   all, or these
  mutate_requirements.py check             only looks whether every line of the lists, and of mutation.survivors, is in the
                                           code, once
  mutate_requirements.py figures           what the last runs saw, as a table
  mutate_requirements.py keep              adds to the lists what the last runs drew and the cases saw, the others as open
  EACH=6 SEED=2026-11-30 MINUTES=60 WORKERS=2 ..
  PROGRAMS=1 .. leaves scripts out
"""
import concurrent.futures
import datetime
import hashlib
import json
import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True
import mutate
import mutate_programs as programs
import tracing

ROOT = mutate.ROOT
OUT = programs.OUT
LISTS = os.environ.get("FAULT_LISTS", "tests/assurance/faults")
EACH = int(os.environ.get("EACH", "6"))
SEED = os.environ.get("SEED") or datetime.date.today().isoformat()
MINUTES = float(os.environ.get("MINUTES", "60"))
WORKERS = int(os.environ.get("WORKERS", "2"))
SPENT = float(os.environ.get("SPENT", "60"))    # seconds of the processor for the new faults of a requirement
LENGTH = 160  # characters of an expression at most that is drawn: a longer one is changed too often to be found again
PROGRAMS = bool(os.environ.get("PROGRAMS"))
OTHERS = 20.0  # seconds of the processor for one fault in the cases of other requirements
QUICK = 3.0  # seconds of the processor: what takes longer does not run against faults of another requirement
STATES = ("seen", "other", "justified", "open", "survived")
KINDS = ("boundary", "sign", "constant", "condition", "operator")
LINE = re.compile(r"(\S+?):(\w+) `(.*?)` => `(.*?)`(?: (same|beyond|outside|open): (.+))?$")


def split(tokens, word):
    """The parts of an expression between its outermost `word`s; one part where another operator binds less."""
    parts, depth, begun = [], 0, 0
    for i, (_, t) in enumerate(tokens):
        depth += (t in "([{") - (t in ")]}")
        if depth == 0 and (t in ("?", ",", "=") or (t == "||" and word == "&&")):
            return [tokens]
        if depth == 0 and t == word:
            parts.append(tokens[begun:i])
            begun = i + 1
    return parts + [tokens[begun:]]


def kind_of(old, new, what):
    if what != "operator":
        return what
    signs = sorted(re.sub(r"[^-+]", "", text) for text in (old, new))
    if signs[0] != signs[1]:
        return "sign"
    edges = [re.findall(r"<=|>=|<|>", text) for text in (old, new)]
    return "boundary" if edges[0] != edges[1] and len(old) - len(new) in (-1, 0, 1) else "operator"


def faults_of(path, text):
    """As mutate.collect(), without statements that are left out and with conditions that are dropped."""
    out = []
    for begin, finish, kind, old, mutants in mutate.collect(path, text):
        kept = [m for m in mutants if m.what != "statement"]
        for m in kept:
            m.what = kind_of(m.old, m.new, m.what)
        tokens = [(0, m.group(0)) for m in mutate.TOKEN.finditer(old)]
        for word in ("&&", "||"):
            parts = split(tokens, word)
            for i in range(len(parts) if len(parts) > 1 and kind != "statement" else 0):
                rest = f" {word} ".join(mutate.text_of(p) for k, p in enumerate(parts) if k != i)
                if rest not in [m.new for m in kept]:
                    first = mutants[0]
                    kept.append(mutate.Mutant(path, first.function, first.line, kind, first.old, rest, "condition"))
        if kept:
            out.append((begin, finish, kind, old, kept))
    return out


class Bench:
    """What all requirements share: sources, and programs with their faults."""

    def __init__(self):
        self.requirements, _, problems = tracing.load()
        if problems:
            sys.exit("\n".join(problems))
        named = sorted({f for r in self.requirements for f in r.files if f.endswith(".c")})
        self.sources = {f: programs.Source(f, i, faults_of) for i, f in enumerate(named) if not f.startswith("tools/ptxvm/")}
        self.of_file = {f: [r for r in self.requirements if f in r.files] for f in self.sources}
        self.guard = threading.Lock()
        self.programs = programs.Programs(self.sources)

    def number(self, fault):
        return self.sources[fault.path].base + fault.number

    def evidence(self, requirement, scripts=False):
        """The cases of programs that cite a requirement, or its scripts, traced; the quick first."""
        pattern = r"tests/cli/.*\.sh$" if scripts else r"tests/(unit|golden|fault|house)/.*\.c$"
        if scripts and PROGRAMS:
            return []
        cited = sorted({(tag.path, "" if scripts else tag.case) for tag in requirement.evidence if re.match(pattern, tag.path)})
        hot = self.programs.hot_of(requirement)
        return sorted((self.programs.traced(path, case, hot) for path, case in cited), key=lambda e: e.seconds)

    def seen(self, fault, evidence):
        return next((by for by in (e.sees(self.number(fault)) for e in evidence) if by), "")

    def others(self, fault, requirement):
        """The first requirement that names the fault's file too and whose cases see it."""
        spent, tried = 0.0, set()
        for other in self.of_file[fault.path]:
            if other is requirement:
                continue
            for e in self.evidence(other):
                if e.why or e.seconds > QUICK or not e.reached[self.number(fault)] or e in tried:
                    continue
                tried.add(e)
                if e.sees(self.number(fault)):
                    return other.name
                spent += e.seconds
                if spent > OTHERS:
                    return ""
        return ""


def read_lists(problems):
    """{requirement: [(name of the fault, kind of reason, reason, place)]}."""
    out = {}
    for name in sorted(os.listdir(LISTS)) if os.path.isdir(LISTS) else []:
        last = None
        with open(f"{LISTS}/{name}", encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                place = f"{LISTS}/{name}:{number}"
                begun = re.match(r"FAULTS (\S+)$", line)
                found = LINE.match(line.strip())
                if begun:
                    last = begun[1]
                    if last in out:
                        problems.append(f"{place}: {last} has a list already")
                    out.setdefault(last, [])
                elif line.startswith("  ") and found and last:
                    fault = f"{found[1]}:{found[2]} `{found[3]}` => `{found[4]}`"
                    if fault in [f[0] for f in out[last]]:
                        problems.append(f"{place}: {fault} is listed twice")
                    out[last].append((fault, found[5] or "", found[6] or "", place))
                elif line.strip() and not line.startswith("#"):
                    problems.append(f"{place}: found {line.strip()[:60]}, expected FAULTS REQUIREMENT or "
                                    "FILE:FUNCTION `OLD` => `NEW` [same|beyond|outside|open: REASON]")
    return out


def found_again(bench, lists, problems):
    """What is listed is in the code, once, in a file that its requirement names."""
    names = {r.name: r for r in bench.requirements}
    for name, faults in lists.items():
        if name not in names:
            problems.append(f"{LISTS}: FAULTS {name}: there is no such requirement")
            continue
        for fault, _, _, place in faults:
            path = fault.split(":")[0]
            if path not in names[name].files:
                problems.append(f"{place}: {name} does not name {path}")
                continue
            count = len(bench.sources[path].named(fault)) if path in bench.sources else 0
            if count != 1:
                problems.append(f"{place}: found {count} places in the code for {fault}, expected one: where the line has "
                                "moved away, choose another fault for it")


def survivors_again(problems):
    """The lines of mutation.survivors, of all faults that mutate.py knows."""
    names = {}
    for fault in mutate.listed():
        path = fault.split(":")[0]
        if path not in names:
            text = open(path, encoding="utf-8").read() if os.path.isfile(path) else ""
            names[path] = [m.name for place in mutate.collect(path, text) for m in place[4]]
        count = names[path].count(fault)
        if count != 1:
            problems.append(f"{mutate.LISTED}: found {count} places in the code for {fault}, expected one")


def draw(requirement, candidates, count):
    """`count` of the candidates: of each kind in turn those that hash lowest."""
    order = {k: sorted((m for m in candidates if m.what == k),
                       key=lambda m: hashlib.sha256(f"{SEED} {requirement.name} {m.name}".encode()).digest()) for k in KINDS}
    out = []
    while len(out) < count and any(order.values()):
        for kind in KINDS:
            if order[kind] and len(out) < count:
                out.append(order[kind].pop(0))
    return out


class Outcome:
    def __init__(self, requirement):
        self.name, self.requirement, self.lines, self.why = requirement.name, requirement, [], ""
        self.counts = dict.fromkeys(STATES, 0)
        self.unseen = []  # faults that no case of it sees, until those of others have been tried, and why they are open

    def note(self, state, fault, by):
        self.counts[state] += 1
        self.lines.append(f"{state} {fault.what} {fault.name} {by}".rstrip())


def judge(bench, requirement, listed, excused):
    """Plants the faults of one requirement."""
    out = Outcome(requirement)
    own = [bench.sources[f] for f in requirement.files if f in bench.sources]
    if not own:
        out.why = "names no file of C"
        return out
    # Scripts take long: they run where there is no program, or none of them passes or sees a fault.
    faults = {m.name: m for s in own for m in s.faults if len(s.named(m.name)) == 1}
    every = bench.evidence(requirement)
    by_scripts = not any(e.reached[bench.number(m)] for e in every if not e.why for m in faults.values())
    if by_scripts:
        every = every + bench.evidence(requirement, True)
    good = [e for e in every if not e.why]
    out.lines += [f"left out {e.path}: {e.why}" for e in every if e.why]
    if not good:
        out.why = "no case that can run with faults: " + "; ".join(f"{e.path} {e.why}" for e in every)
        return out
    wanted = [(faults[f], kind, why) for f, kind, why, _ in listed if f in faults]
    have = {f for f, _, _, _ in listed}
    reached = [m for m in faults.values() if m.name not in have and len(m.old) <= LENGTH and any(e.reached[bench.number(m)] for e in good)]
    # A fault that none sees runs all the cases that pass it: those where that is short are drawn first.
    cost = {m.name: 0.05 + sum(e.seconds for e in good if e.reached[bench.number(m)]) for m in reached}
    quick = [m for m in reached if cost[m.name] <= SPENT / max(EACH, 1)]
    count = EACH if quick or not cost else min(EACH, max(1, int(SPENT / min(cost.values()))))
    reached = quick or reached
    # For what they do not see others are drawn, up to as many again.
    fresh = [(m, "", "") for m in draw(requirement, reached, 2 * count)]
    if not reached and not wanted:
        out.why = "its cases run nothing in which a fault can be planted"
    for fault, kind, why in wanted + fresh:
        if (fault, kind, why) in fresh:
            if count == 0:
                break
            count -= 1
        by = bench.seen(fault, good)
        if not by and not kind and not by_scripts:
            by = bench.seen(fault, [e for e in bench.evidence(requirement, True) if not e.why])
        reason = f"{kind}: {why}" if kind else excused.get(fault.name, "")
        if by and kind:
            out.note("survived", fault, f"is not to be seen, and {by} sees it: take the reason out")
        elif by:
            out.note("seen", fault, by)
        elif reason and kind != "open":
            out.note("justified", fault, reason)
        else:
            out.unseen.append((fault, reason))
            count += (fault, kind, why) in fresh
    return out


def look_elsewhere(bench, out):
    """What the cases of a requirement have not seen meets those of others that name its file."""
    for fault, reason in out.unseen:
        other = bench.others(fault, out.requirement)
        out.note("other" if other else "open" if reason else "survived", fault, other or reason)
    out.unseen = []


def keep(bench, lists):
    """Puts what was drawn and not seen by others alone behind what each requirement has, and takes out what was open and
    others have seen; a file has a group's requirements in their order."""
    os.makedirs(LISTS, exist_ok=True)
    have = {name: {f: f"{f} {k}: {w}" if k else f for f, k, w, _ in faults} for name, faults in lists.items()}
    open_ones = {(name, f) for name, faults in lists.items() for f, k, _, _ in faults if k == "open"}
    with open(f"{OUT}/outcomes.json", encoding="utf-8") as file:
        outcomes = json.load(file)
    for name, outcome in outcomes.items():
        for line in outcome["lines"]:
            found = re.match(r"(seen|survived|unseen|other) \w+ (\S+ `.*?` => `.*?`)", line)
            if not found:
                continue
            state, fault = found.groups()
            source = bench.sources.get(fault.split(":")[0])
            mine = have.setdefault(name, {})
            if state == "other" and (name, fault) in open_ones:
                del mine[fault]
            if state != "other" and fault not in mine and fault.index("` => `") < 2 * LENGTH and source and len(source.named(fault)) == 1:
                mine[fault] = fault + ("" if state == "seen" else " open: no case sees it" if state == "survived" else
                                       " open: its cases do not see it, those of others have not met it")
    groups = {}
    for name, mine in have.items():
        if mine:
            groups.setdefault(name.rsplit("-", 1)[0], []).append(name)
    for group, names in groups.items():
        with open(f"{LISTS}/{group}.faults", "w", encoding="utf-8") as file:
            file.write(f"# Faults that the cases of {group}'s requirements must see (mutate_requirements.py).\n")
            for name in sorted(names, key=lambda n: int(n.rsplit("-", 1)[1])):
                file.write(f"\nFAULTS {name}\n" + "".join(f"  {line}\n" for line in have[name].values()))
    print(f"{sum(map(len, have.values()))} faults of {sum(map(bool, have.values()))} requirements")


def save(outcomes):
    """Keeps what became of each requirement, night after night."""
    path = f"{OUT}/outcomes.json"
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
    for o in outcomes:
        kept[o.name] = {"counts": o.counts, "why": o.why, "lines": o.lines + [f"unseen {m.what} {m.name}" for m, _ in o.unseen], "seed": SEED}
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
    os.replace(path + ".new", path)
    return kept


def figures():
    with open(f"{OUT}/outcomes.json", encoding="utf-8") as file:
        kept = json.load(file)
    # What was not seen and has got a line since counts as what that line has.
    lists, groups = read_lists([]), {}
    for name, k in kept.items():
        reasons = {f: kind for f, kind, _, _ in lists.get(name, [])}
        k["counts"]["unseen"] = 0
        for line in k["lines"]:
            found = re.match(r"(survived|unseen) \w+ (\S+ `.*?` => `.*?`)$", line)
            kind = reasons.get(found[2], "") if found else ""
            k["counts"]["unseen"] += bool(found) and found[1] == "unseen"
            if kind:
                k["counts"][found[1]] -= 1
                k["counts"]["open" if kind == "open" else "justified"] += 1
        row = groups.setdefault(name.rsplit("-", 1)[0], dict.fromkeys(("n", "faults", "none", "unseen") + STATES, 0))
        row["n"] += 1
        row["none"] += not sum(k["counts"].values())
        for what, count in k["counts"].items():
            row[what] += count
            row["faults"] += count
    total = {what: sum(row[what] for row in groups.values()) for what in next(iter(groups.values()))}
    print("| requirements | of them without a fault | faults | seen by their cases | by another requirement's | justified | open | survivors | not by their cases, others not tried |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for name, row in [*sorted(groups.items()), ("all", total)]:
        print(f"| {name} {row['n']} | " + " | ".join(str(row[what]) for what in ("none", "faults", *STATES, "unseen")) + " |")


def main():
    os.chdir(ROOT)
    asked = sys.argv[1:]
    if asked == ["figures"]:
        return figures()
    bench = Bench()
    problems = []
    lists = read_lists(problems)
    found_again(bench, lists, problems)
    if asked == ["check"]:
        survivors_again(problems)
    for problem in problems:
        print(problem)
    if asked == ["check"]:
        print(f"{sum(len(f) for f in lists.values())} faults of {len(lists)} requirements")
        return bool(problems)
    if asked == ["keep"]:
        return keep(bench, lists)
    chosen = [r for r in bench.requirements if not asked or r.name in asked]
    if asked and len(chosen) != len(set(asked)):
        sys.exit("there is no requirement " + " ".join(sorted(set(asked) - {r.name for r in chosen})))
    if asked:
        chosen.sort(key=lambda r: asked.index(r.name))
    else:
        chosen.sort(key=lambda r: hashlib.sha256(f"{SEED} {r.name}".encode()).digest())
    excused = mutate.listed()
    bench.programs.build()
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        bench.programs.compile(sorted({f for r in chosen for f in r.files}), pool)
    print(f"compiled after {time.monotonic() - begun:.0f} s", flush=True)

    def one(requirement):
        if time.monotonic() - begun > 60 * MINUTES:
            return None
        try:
            out = judge(bench, requirement, lists.get(requirement.name, []), excused)
        except RuntimeError as error:
            out = Outcome(requirement)
            out.why = str(error)
            out.counts["survived"] += 1
        tell(out)
        return out

    def tell(out):
        print(f"{out.name}: " + (out.why or ", ".join(f"{n} {what}" for what, n in [*out.counts.items(), ("unseen", len(out.unseen))] if n)),
              flush=True)
        for line in out.lines:
            if line.startswith("survived"):
                print(f"  {line}", flush=True)
        with bench.guard:
            save([out])

    def again(out):
        look_elsewhere(bench, out)
        tell(out)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        outcomes = list(pool.map(one, chosen))
        print(f"looking elsewhere after {time.monotonic() - begun:.0f} s", flush=True)
        list(pool.map(again, [o for o in outcomes if o and o.unseen]))
    bench.programs.stop()
    problems += [s.why for s in bench.sources.values() if s.why]
    late = [r.name for r, o in zip(chosen, outcomes) if o is None]
    outcomes = [o for o in outcomes if o]
    return report(outcomes, late, problems)


def report(outcomes, late, problems):
    total = {what: sum(o.counts[what] for o in outcomes) for what in STATES}
    lines = [f"seed {SEED}, {len(outcomes)} requirements, {len(late)} left to another night"]
    lines += [f"{o.name} {line}" for o in outcomes for line in (["no fault: " + o.why] if o.why else []) + o.lines]
    lines.append(f"{sum(total.values())} faults: {total['seen']} seen by the cases of their requirement, {total['other']} by those of another "
                 f"of their file, {total['justified']} justified, {total['open']} open, {total['survived']} survived; {sum(bool(o.why) for o in outcomes)} "
                 "requirements without one")
    passed = total["seen"] + total["other"] + total["justified"] + total["open"]
    failed = total["survived"] + len(problems)
    lines.append(f"{passed} passed, {failed} failed")
    with open(f"{OUT}/report.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines + problems) + "\n")
    print(lines[0], *lines[-2:], sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
