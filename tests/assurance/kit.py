#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kit.py OUT BUILD: puts the kit together in the folder OUT, of what BUILD and its neighbours hold.

Nothing is run here (kit.sh does that). A chapter whose inputs are missing, are of another program or
are older than the sources holds MISSING.txt with the reason and the command, and nothing else. The
same inputs give the same bytes: no time but SOURCE_DATE_EPOCH, no host, no path outside the tree."""
import csv
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import matrix
import pages
import tracing

ROOT = tracing.ROOT
sys.path.insert(1, os.path.join(ROOT, "tools/pkg"))
import sbom

HERE = "tests/assurance/kit/"
LIBRARY = ("arena", "core", "layers", "optim", "device", "tools/formats")


class Missing(Exception):
    """Why a chapter is not there, and what makes it."""


class Kit:
    def __init__(self, out, build):
        self.out, self.build = out, build
        self.program = os.path.join(ROOT, build, "bedplate")
        self.archive = os.path.join(ROOT, build, "libbedplate.a")
        self.version = re.search(r'BP_VERSION "(.*)"', tracing.read("core/base/version.h"))[1]
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
        self.commit = os.environ.get("BEDPLATE_COMMIT", "unknown")
        self.requirements, self.tags, self.problems = tracing.load()
        self.counts = {}

    def place(self, name):
        path = os.path.join(self.out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, name, text):
        with open(self.place(name), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)

    def copy(self, source, name):
        shutil.copyfile(os.path.join(ROOT, source), self.place(name))


def current(path, command, folders):
    """A result of a goal, which no source may be newer than."""
    whole = os.path.join(ROOT, path)
    if not os.path.exists(whole):
        raise Missing("%s was not made: %s" % (path, command))
    time, source = matrix.newest(folders)
    if os.stat(whole).st_mtime < time:
        raise Missing("%s is older than %s: %s" % (path, source, command))


def copy_all(kit, folder, to, endings):
    names = sorted(n for n in os.listdir(os.path.join(ROOT, folder)) if n.endswith(endings))
    for name in names:
        kit.copy(folder + "/" + name, to + "/" + name)
    return names


def chapter_requirements(kit):
    copy_all(kit, tracing.FOLDER, "requirements", ".req")
    with open(kit.place("requirements/contracts.csv"), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["function", "header", "line", "contract"])
        rows = [row for path in tracing.listed(*LIBRARY) if path.endswith(".h") for row in pages.contracts(path, tracing.read(path))]
        out.writerows(rows)
    return "%d high-level, %d contracts of functions" % (len(kit.requirements), len(rows))


def check_results(kit):
    path = os.path.join(ROOT, kit.build, "results.tsv")
    if not os.path.isfile(path):
        raise Missing("no results of tests are here: make test")
    first = open(path, encoding="utf-8").readline().strip()
    if first != "# program " + sbom.sha256(kit.program):
        raise Missing("the results are of another program than %s/bedplate: make test" % kit.build)


def chapter_matrix(kit):
    build = os.path.join(ROOT, kit.build)
    try:
        check_results(kit)
        said = ""
    except Missing as why:
        build, said = os.path.join(ROOT, "build/none"), " (%s)" % why
    try:
        current("build/mcdc/conditions.tsv", "make mcdc", ("arena", "core", "layers", "optim"))
        covered = "build/mcdc/mcdc.txt"
    except Missing:
        covered = "build/none"
    silent = open(os.devnull, "w", encoding="utf-8")
    saved, sys.stdout = sys.stdout, silent
    try:
        matrix.write(os.path.join(kit.out, "matrix"), build, kit.requirements, kit.tags, covered, True)
    finally:
        sys.stdout = saved
    results = matrix.read_results(build)
    of_all = [matrix.result_of_requirement(r, results) for r in kit.requirements]
    kit.counts = {k: of_all.count(k) for k in sorted(set(of_all))}
    return ", ".join("%d %s" % (n, k) for k, n in kit.counts.items()) + said


def chapter_results(kit):
    check_results(kit)
    kit.copy(kit.build + "/results.tsv", "results/results.tsv")
    checks = os.path.join(ROOT, kit.build, "checks.tsv")
    kit.write("results/checks.tsv", open(checks, encoding="utf-8").read() if os.path.isfile(checks) else "make check was not run\n")
    goals = []
    folder = os.path.join(ROOT, "build/ci")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".counts"):
            passed, failed = open(os.path.join(folder, name), encoding="utf-8").read().split()
            goals.append("make %s\t%s\t%s\n" % (name[:-7], passed, failed))
    kit.write("results/goals.tsv", "goal\tpassed\tfailed\n" + "".join(goals))
    lines = [l.rstrip("\n").split("\t") for l in open(os.path.join(ROOT, kit.build, "results.tsv"), encoding="utf-8") if "\t" in l]
    outcome = [l[2] for l in lines if l[1] != "-" or l[0].endswith(".sh")]
    return ", ".join("%d %s" % (outcome.count(k), k) for k in sorted(set(outcome)))


def chapter_coverage(kit):
    current("build/mcdc/conditions.tsv", "make mcdc (clang-19)", ("arena", "core", "layers", "optim"))
    kit.copy("build/mcdc/conditions.tsv", "coverage/conditions.tsv")
    for name in ("mcdc.justified", "mcdc.open", "mcdc.missing"):
        kit.copy("tests/assurance/" + name, "coverage/" + name)
    total = {}
    for line in open(os.path.join(ROOT, "build/mcdc/conditions.tsv"), encoding="utf-8"):
        parts = line.rstrip("\n").split("\t")
        shown, of = total.get(parts[0].split("/")[0], (0, 0))
        total[parts[0].split("/")[0]] = (shown + (parts[4] == "1"), of + 1)
    kit.write("coverage/summary.tsv", "folder\tshown\tconditions\n" + "".join("%s\t%d\t%d\n" % (k, *total[k]) for k in sorted(total)))
    return "MC/DC " + ", ".join("%s %d of %d" % (k, *total[k]) for k in sorted(total)) + "; " + second_opinion(kit)


def second_opinion(kit):
    """What gcc's condition coverage says beside clang: a part of its chapter, which names it where it is not there."""
    folder = "build/mcdc-gcc"
    try:
        names = ["conditions.tsv", "summary.tsv"]
        if os.path.isfile(os.path.join(ROOT, folder, "differences.tsv")):
            names.append("differences.tsv")
        for name in names:
            current(folder + "/" + name, "make mcdc-gcc (gcc 14)",
                    ("arena", "core", "layers", "optim", "tools/formats", "device/host"))
    except Missing as why:
        kit.write("coverage/gcc/MISSING.txt", "This part is missing: %s\n" % why)
        return "no second opinion by gcc: %s" % why
    for name in names:
        kit.copy(folder + "/" + name, "coverage/gcc/" + name)
    rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(ROOT, folder, "summary.tsv"), encoding="utf-8")][1:]
    return "by gcc %d of %d outcomes" % (sum(int(r[1]) for r in rows), sum(int(r[2]) for r in rows))


def folder_chapter(folder, to, command, sources):
    """What a goal left in build/FOLDER, as it is."""

    def chapter(kit):
        names = [n for n in os.listdir(os.path.join(ROOT, folder)) if n.endswith((".tsv", ".txt", ".csv", ".md", ".html"))] if os.path.isdir(os.path.join(ROOT, folder)) else []
        if not names:
            raise Missing("%s holds nothing: %s" % (folder, command))
        for name in names:
            current(folder + "/" + name, command, sources)
        copy_all(kit, folder, to, (".tsv", ".txt", ".csv", ".md", ".html"))
        return ", ".join(sorted(names))

    return chapter


def chapter_faults(kit):
    """Classes of hostile files and of failing calls, each with its tests' results."""
    build = os.path.join(ROOT, kit.build)
    try:
        check_results(kit)
        results = matrix.read_results(build)
    except Missing:
        results = {}
    rows = [["class or test", "shown by", "result"]]
    for line in tracing.read("tests/cli/app/test_hostile.sh").split("\n"):
        found = re.match(r"#\s+(\d+) (.*?)\s{2,}(class_\w+)\s+(.*)", line)
        if found:
            rows.append(["hostile files %s: %s" % (found[1], found[2]), "tests/cli/app/test_hostile.sh %s; %s" % (found[3], found[4]),
                         results.get(("tests/cli/app/test_hostile.sh", "-"), "not run")])
    for path, case in tracing.test_cases():
        if re.search(r"fault|hostile|damage|faulty|tests/soak|refused|patience", path) or re.search(r"may_fail|fail|power_cut|refused|hostile|lost", case):
            rows.append([case or os.path.basename(path), path, results.get((path, case or "-")) or results.get((path, "-"), "not run")])
    kit.write("faults/faults.tsv", "".join("\t".join(r) + "\n" for r in rows))
    return "%d rows" % (len(rows) - 1)


def chapter_sbom(kit):
    kit.write("sbom/bedplate.spdx", sbom.spdx(kit.version, kit.program, kit.archive, kit.epoch))
    kit.write("sbom/bedplate.cdx.json", sbom.cyclonedx(kit.version, kit.program, kit.archive, kit.epoch))
    return "SPDX 2.3, CycloneDX 1.6"


def chapter_configuration(kit):
    lines = ["# version %s, commit %s" % (kit.version, kit.commit)]
    for path in (kit.build + "/bedplate", kit.build + "/libbedplate.a"):
        lines.append("%s  %s" % (sbom.sha256(os.path.join(ROOT, path)), path))
    count = 0
    for path in pages.tree(ROOT):
        lines.append("%s  %s" % (sbom.sha256(os.path.join(ROOT, path)), path))
        count += 1
    kit.write("configuration/index.txt", "\n".join(lines) + "\n")
    others = other_versions()
    kit.write("configuration/environment.txt", environment(kit) + "".join("another version: %s\n" % o for o in others))
    return "%d files of the tree, program and archive%s" % (count, "".join("; " + o for o in others))


def first_line(*command):
    try:
        got = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "not installed"
    return (got.stdout or got.stderr).split("\n")[0].strip()


def other_versions():
    """Tools that are here in another version than that by which the figures were measured (versions.tsv)."""
    out = []
    for line in tracing.read(HERE + "versions.tsv").split("\n"):
        name, tab, expected = line.partition("\t")
        said = first_line(name, "-version" if name == "frama-c" else "--version") if tab else "not installed"
        if said == "not installed":
            continue
        found = re.search(r"\d+\.\d+(\.\d+)*", said.split(")")[-1]) or re.search(r"\d+\.\d+(\.\d+)*", said)
        found = found[0] if found else said
        if found != expected:
            out.append("%s: found %s, the figures are by %s" % (name, found, expected))
    return out


def environment(kit):
    tools = (("gcc", "gcc", "--version"), ("ld", "ld", "--version"), ("make", "make", "--version"), ("clang", "clang", "--version"),
             ("clang-19", "clang-19", "--version"), ("gcc-14", "gcc-14", "--version"), ("libc", "ldd", "--version"), ("cmocka", "pkg-config", "--modversion", "cmocka"),
             ("python3", "python3", "--version"), ("frama-c", "frama-c", "-version"), ("cbmc", "cbmc", "--version"), ("cppcheck", "cppcheck", "--version"))
    text = "".join("%s: %s\n" % (t[0], first_line(*t[1:])) for t in tools)
    found = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo", encoding="utf-8").read()) if os.path.isfile("/proc/cpuinfo") else None
    flags = open("/proc/cpuinfo", encoding="utf-8").read() if found else ""
    text += "processor: %s\n" % (found[1] if found else "unknown")
    text += "vectors: %s\n" % " ".join(f for f in ("avx2", "avx512f", "amx_tile") if " %s" % f in flags)
    flags_file = os.path.join(ROOT, kit.build, "flags")
    return text + "flags: %s" % (open(flags_file, encoding="utf-8").read() if os.path.isfile(flags_file) else "unknown\n")


def document(source, name):
    def chapter(kit):
        kit.copy(HERE + source, name)
        return ""

    return chapter


CHAPTERS = (
    ("plan.md", "plan and summary: what is claimed and what is not", document("plan.md", "plan.md")),
    ("safety_manual.md", "safety manual: assumptions, duties, exit codes, limits", document("safety_manual.md", "safety_manual.md")),
    ("hazards.md", "hazards of the tool and what stands against them", document("hazards.md", "hazards.md")),
    ("tools.md", "tools and their need of qualification", document("tools.md", "tools.md")),
    ("how", "evidence about the learning process", document("learning.md", "how/learning.md")),
    ("problems", "known problems", document("known_problems.md", "problems/known_problems.md")),
    ("requirements", "requirements, high and low level", chapter_requirements),
    ("matrix", "claims, requirements, tests, results, covered lines: start here in a browser", chapter_matrix),
    ("results", "results of the tests of this program file", chapter_results),
    ("coverage", "structural coverage to MC/DC, with justifications", chapter_coverage),
    ("proofs", "proofs, with their assumptions", folder_chapter("build/prove", "proofs", "make prove (Frama-C, CBMC)", ("arena", "core", "tools/formats"))),
    ("derivatives", "backward formulas, proved to be derivatives", folder_chapter("build/derivatives", "derivatives", "make derivatives (sympy)", ("core/ops",))),
    ("mutation", "mutation of the code itself", folder_chapter("build/mutation", "mutation", "make mutation", ("arena", "core", "optim"))),
    ("mutation-requirements", "faults in the code of each requirement", folder_chapter("build/mutation-requirements", "mutation-requirements", "make mutation-requirements", ("arena", "core", "optim", "layers", "device", "tools/formats", "tools/bedplate"))),
    ("analysis", "static analysis, stack, coupling, ops", folder_chapter("build/analysis", "analysis", "make analysis", LIBRARY)),
    ("faults", "faults and hostile files", chapter_faults),
    ("sbom", "bills of materials", chapter_sbom),
    ("configuration", "configuration index and environment", chapter_configuration),
)


def objectives(kit, missing):
    """The table of objectives, each with the state of the evidence that it names."""
    rows = [line.split("\t") for line in tracing.read(HERE + "objectives.tsv").rstrip("\n").split("\n")]
    problems, out = [], [rows[0] + ["state"]]
    for row in rows[1:]:
        row += [""] * (6 - len(row))
        chapter = row[4].split("/")[0] if "/" in row[4] else row[4]
        there = row[4] and os.path.exists(os.path.join(kit.out, row[4]))
        state = "user" if row[3] == "user" else "missing" if chapter in missing else "here" if there else "wrong"
        if state == "wrong":
            problems.append("objectives.tsv: %s %s names %s, which the kit does not hold" % (row[0], row[1], row[4]))
        out.append(row[:6] + [state])
    kit.write("objectives/objectives.tsv", "".join("\t".join(r) + "\n" for r in out))
    kit.write("objectives/index.html", pages.page("Objectives and evidence", pages.table(out, "../"), "../"))
    return problems


def hazards_name_requirements(kit):
    names = set(r.name for r in kit.requirements)
    text = tracing.read(HERE + "hazards.md")
    return ["hazards.md: there is no requirement %s" % n for n in re.findall(r"\b([a-z]+-\d+)\b", text) if n not in names]


def main(arguments):
    kit = Kit(arguments[0], arguments[1])
    problems = kit.problems + hazards_name_requirements(kit)
    missing, rows = {}, []
    for name, title, make in CHAPTERS:
        try:
            said = make(kit)
        except Missing as why:
            missing[name] = str(why)
            shutil.rmtree(os.path.join(kit.out, name), ignore_errors=True)
            kit.write(name + "/MISSING.txt", "This chapter is missing: %s\n" % why)
            said = ""
        rows.append((name, title, "missing" if name in missing else "here", missing.get(name, said)))
        print("%-18s %-8s %s" % (name, rows[-1][2], rows[-1][3]))
    problems += objectives(kit, missing)
    rows.append(("objectives", "objectives of the standards and the evidence for each", "here", ""))
    kit.write("chapters.tsv", "".join("\t".join(r) + "\n" for r in rows))
    pages.write_index(kit, rows)
    for problem in problems:
        print("FAILED: " + problem)
    failed = kit.counts.get("failed", 0) + len(problems)
    print("%d passed, %d failed" % (len(rows) - len(missing), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
