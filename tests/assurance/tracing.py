#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requirements and what is evidence for them (methods.md describes how they are written).

    tracing.py check           what is wrong: exit 1; else what there is, and how many tests have no id
    tracing.py list [PATTERN]  each requirement with the tag that tests cite
    tracing.py untraced        test cases without an id, one per line
    tracing.py traced          test cases with one
    tracing.py matrix OUT [BUILD]   writes OUT/matrix.csv and the pages, with the results in BUILD
"""
import hashlib
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.environ.get("TRACING_ROOT", os.path.dirname(os.path.dirname(HERE)))
FOLDER = "tests/assurance/requirements"
METHODS = ("test", "proof", "analysis", "inspection")
# The comparison in the README is what people decide by: every row needs a requirement.
CLAIMS = ("README.md", "## Compared with other programs")
EVIDENCE = ("tests", "tools/check")
TAG = re.compile(r"(?:/\*|#) verifies ([^*\n]*?)(?: \*/)?$")
# What was meant as a tag: an id with four digits of its digest.
LOST = re.compile(r"verifies [a-z0-9-]+-\d+\.[0-9a-f]{4}\b")
CASE = re.compile(r"^(?:(?:    )?static void |[A-Z][A-Z_]+\()(\w+)[(,)]")
LISTED = re.compile(r"cmocka_unit_test\w*\(\s*(\w+)")


class Requirement:
    def __init__(self, name, method, text, place):
        self.name, self.method, self.text, self.place = name, method, text, place
        self.files, self.claims, self.evidence = [], [], []
        self.derived = ""  # the reason, where no page states it

    def digest(self):
        return hashlib.sha256(" ".join(self.text.split()).encode()).hexdigest()[:4]

    def tag(self):
        return self.name + "." + self.digest()


class Tag:
    """One id of one `verifies` line: where it stands and the test case below it."""

    def __init__(self, cited, path, line, case):
        self.cited, self.path, self.line, self.case = cited, path, line, case


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def read_requirements(problems):
    """The requirements in the order of files and lines."""
    found, reasons, last = [], {}, None
    folder = os.path.join(ROOT, FOLDER)
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if not name.endswith(".req"):
            continue
        path = FOLDER + "/" + name
        for number, line in enumerate(read(path).split("\n"), 1):
            place = "%s:%d" % (path, number)
            begun = re.match(r"REQ (\S+) (\w+): (.+)", line)
            derived = re.match(r"DERIVED ([a-z]+): (.+)", line)
            if derived:
                last = derived[1]
                if last in reasons:
                    problems.append("%s: %s has a reason already" % (place, last))
                reasons[last] = derived[2]
            elif line.startswith("    ") and last:
                reasons[last] += " " + line.strip()
            elif begun:
                last = None
                found.append(Requirement(begun[1], begun[2], begun[3], place))
            elif line.startswith("    ") and found:
                found[-1].text += " " + line.strip()
            elif line.startswith("  in ") and found:
                found[-1].files += line.split()[1:]
            elif re.match(r'  from \S+ ".*"$', line) and found:
                page, text = re.match(r'  from (\S+) "(.*)"$', line).groups()
                found[-1].claims.append((page, text))
            elif line.strip() and not line.startswith("#"):
                problems.append("%s: this line is none of REQ, in, from, DERIVED" % place)
    used = set()
    for r in found:
        r.text = " ".join(r.text.split())
        group = r.name.rsplit("-", 1)[0]
        used.add(group)
        if not r.claims:
            r.derived = reasons.get(group, "")
            if not r.derived:
                problems.append("%s: %s is neither from a page nor derived: DERIVED %s: REASON" % (r.place, r.name, group))
    problems += ["%s: no requirement is called %s-N" % (FOLDER, group) for group in sorted(set(reasons) - used)]
    return found


def listed(*folders):
    """Files of the tree in these folders: what git knows, or what lies there."""
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    got = subprocess.run(command + list(folders), capture_output=True, text=True, check=False)
    if got.returncode == 0 and got.stdout:
        return sorted(set(p for p in got.stdout.split("\n") if p and os.path.isfile(os.path.join(ROOT, p))))
    found = []
    for folder in folders:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.relpath(os.path.join(at, name), ROOT) for name in names]
    return sorted(found)


def read_tags(problems):
    """Every id that a test, a check or a proof cites."""
    found = []
    for path in listed(*EVIDENCE):
        if path.endswith((".req", ".md", ".py")) and not path.startswith(("tests/assurance/prove", "tests/assurance/derivatives")):
            continue
        lines = read(path).split("\n")
        for number, line in enumerate(lines, 1):
            if "verifies " not in line:
                continue
            tag = TAG.search(line)
            if not tag or line.split("verifies")[0].strip() not in ("/*", "#", "//"):
                if LOST.search(line):
                    problems.append("%s:%d: this id is within another comment; it needs a line of its own" % (path, number))
                continue
            case = None
            for later in lines[number : number + 12]:
                case = CASE.match(later)
                if case:
                    break
            for cited in tag[1].split():
                if not re.fullmatch(r"[a-z0-9-]+-\d+\.\w+", cited):
                    problems.append("%s:%d: %s is no id with its digest" % (path, number, cited))
                    continue
                found.append(Tag(cited, path, number, case[1] if case else ""))
    return found


def join(requirements, tags, problems):
    by_name = {}
    for r in requirements:
        if r.name in by_name:
            problems.append("%s: %s stands at %s too" % (r.place, r.name, by_name[r.name].place))
        by_name.setdefault(r.name, r)
        if r.method not in METHODS:
            problems.append("%s: %s: method %s, right would be one of %s" % (r.place, r.name, r.method, ", ".join(METHODS)))
    for tag in tags:
        name, digest = tag.cited.rsplit(".", 1)
        where = "%s:%d: verifies %s" % (tag.path, tag.line, tag.cited)
        if name not in by_name:
            problems.append("%s: there is no such requirement" % where)
        elif digest != by_name[name].digest():
            problems.append(
                "%s: the sentence of %s was changed since (now %s): look whether this still shows it, at %s"
                % (where, name, by_name[name].tag(), by_name[name].place)
            )
        else:
            by_name[name].evidence.append(tag)
    for r in requirements:
        if not r.evidence:
            problems.append("%s: nothing verifies %s" % (r.place, r.tag()))


def collapse(text):
    return " ".join(text.split())


def check_places(requirements, problems):
    """Files and quotations that requirements name are there; every row of the comparison is claimed."""
    pages = {}
    for r in requirements:
        for path in r.files:
            if not os.path.isfile(os.path.join(ROOT, path)):
                problems.append("%s: %s: there is no file %s" % (r.place, r.name, path))
        for page, text in r.claims:
            if page not in pages:
                pages[page] = collapse(read(page)) if os.path.isfile(os.path.join(ROOT, page)) else ""
            if collapse(text) not in pages[page]:
                problems.append('%s: %s: %s does not say "%s"' % (r.place, r.name, page, text))
    for number, row in claim_rows():
        if not claimed_by(requirements, row):
            problems.append("%s:%d: no requirement is derived from this claim: %s" % (CLAIMS[0], number, row[:60]))


def claim_rows():
    """Rows of the comparison, each a line number and its text."""
    path = os.path.join(ROOT, CLAIMS[0])
    if not os.path.isfile(path) or CLAIMS[1] not in read(CLAIMS[0]):
        return []
    rows, inside = [], False
    for number, line in enumerate(read(CLAIMS[0]).split("\n"), 1):
        if line.startswith("## "):
            inside = line == CLAIMS[1]
        elif inside and line.startswith("| ") and not line.startswith("| |"):
            rows.append((number, line))
    return rows


def claimed_by(requirements, row):
    row = collapse(row)
    return [r for r in requirements if any(p == CLAIMS[0] and collapse(t) in row for p, t in r.claims)]


def test_cases():
    """Every test: programs by case, scripts as a whole."""
    found = []
    for path in listed("tests"):
        name = os.path.basename(path)
        if name.startswith("test_") and name.endswith(".c"):
            text = read(path)
            cases = LISTED.findall(text)
            found += [(path, case) for case in cases] or [(path, "")]
        elif name.startswith("test_") and name.endswith(".sh"):
            found.append((path, ""))
    return found


def untraced(tags, cited_ones=False):
    cited = set((t.path, t.case if t.path.endswith(".c") else "") for t in tags)
    return [c for c in test_cases() if (c in cited) == cited_ones]


def load():
    problems = []
    requirements = read_requirements(problems)
    tags = read_tags(problems)
    join(requirements, tags, problems)
    check_places(requirements, problems)
    if not requirements:
        problems.append("%s: there are no requirements" % FOLDER)
    return requirements, tags, problems


def main(arguments):
    what = arguments[0] if arguments else ""
    requirements, tags, problems = load()
    if what == "check":
        for problem in problems:
            print(problem)
        if not problems:
            without = untraced(tags)
            files = len(set(t.path for t in tags))
            print(
                "%d requirements (%d from a page, %d derived), %d ids in %d files; %d of %d test cases have none (tests/assurance/tracing.py untraced)"
                % (len(requirements), sum(bool(r.claims) for r in requirements), sum(not r.claims for r in requirements), len(tags), files, len(without), len(test_cases()))
            )
        return 1 if problems else 0
    if what == "list":
        for r in requirements:
            if len(arguments) < 2 or arguments[1] in r.tag() or arguments[1] in r.text:
                print("%-16s %-8s %s" % (r.tag(), r.method, r.text))
        return 0
    if what in ("untraced", "traced"):
        for path, case in untraced(tags, what == "traced"):
            print(path + (":" + case if case else ""))
        return 0
    if what == "matrix" and len(arguments) > 1:
        import matrix

        return matrix.write(arguments[1], arguments[2] if len(arguments) > 2 else "build/release", requirements, tags)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
