# SPDX-License-Identifier: MIT
"""The matrix of tracing.py: a CSV, and pages that lead from a claim to requirement, test, result and
covered lines, and back. Pages need no script and no network; they hold no time, host or path outside
the tree, so that the same inputs give the same bytes."""
import csv
import hashlib
import html
import os
import re

import tracing

STYLE = """body{font:15px/1.45 sans-serif;margin:1.5em auto;max-width:75em;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25em .6em;border-top:1px solid #ddd}td a{overflow-wrap:anywhere}
code,pre{font:13px/1.4 monospace}pre{margin:0}.passed{color:#060}.failed{color:#b00;font-weight:bold}
.not-run,.skipped,.none{color:#850}.passed,.failed,.not-run,.skipped,.claim-id{white-space:nowrap}.n{color:#888;text-align:right;user-select:none}.never{background:#fdd}
:target{background:#ffd}nav{border-bottom:1px solid #ccc;padding-bottom:.4em;margin-bottom:1em}"""
# What runs in builds of its own is known by the goal of make that runs it.
GOALS = {
    "tests/variants/digests.sh": "digests",
    "tests/variants/threads.sh": "tsan",
    "tests/variants/boards.sh": "boards",
    "tests/assurance/mcdc.sh": "mcdc",
    "tests/assurance/prove.py": "prove",
    "tests/assurance/mutate.py": "mutation",
    "tests/assurance/analysis.sh": "analysis",
}
COUNTED = re.compile(r"^\s*(\d+)\|\s*([0-9.]*[kMGTE]?)\|")


def escape(text):
    return html.escape(text, quote=True)


def page_name(path):
    return "files/" + path.replace("/", "_") + ".html"


def newest(folders, endings=(".c", ".h", ".def")):
    """The source that was changed last: (time, path)."""
    last = (0, "")
    for folder in folders:
        for at, _, names in os.walk(os.path.join(tracing.ROOT, folder)):
            for name in names:
                if name.endswith(endings):
                    path = os.path.join(at, name)
                    last = max(last, (os.stat(path).st_mtime, os.path.relpath(path, tracing.ROOT)))
    return last


def read_results(build):
    """{(path, case): outcome}; the case of a whole program or script is -. What checks and goals said of
    sources that were changed since counts for nothing; the results of tests name their program."""
    results = {}
    changed = newest(("arena", "core", "layers", "optim", "device", "tools"))[0]
    for name in ("results.tsv", "checks.tsv"):
        path = os.path.join(build, name)
        if os.path.isfile(path) and (name == "results.tsv" or os.stat(path).st_mtime >= changed):
            for line in open(path, encoding="utf-8"):
                parts = line.rstrip("\n").split("\t")
                if len(parts) == 3:
                    results[(parts[0], parts[1])] = parts[2]
    for path, goal in GOALS.items():
        counts = os.path.join(tracing.ROOT, "build/ci", goal + ".counts")
        if os.path.isfile(counts) and os.stat(counts).st_mtime >= changed:
            passed, failed = (open(counts, encoding="utf-8").read().split() + ["0", "0"])[:2]
            results[(path, "-")] = "failed" if failed != "0" else "passed" if passed != "0" else "skipped"
    return results


def result_of(tag, results):
    """The case's own result; a program's where its cases are made by a macro; none where it did not run."""
    whole = results.get((tag.path, "-"), "not run")
    own = results.get((tag.path, tag.case)) if tag.path.endswith(".c") else None
    return own or whole


def result_of_requirement(requirement, results):
    all_of_them = [result_of(t, results) for t in requirement.evidence]
    for worst in ("failed", "not run", "skipped"):
        if worst in all_of_them:
            return worst
    return "passed" if all_of_them else "none"


def read_coverage(root, path="build/mcdc/mcdc.txt"):
    """{path: {line: count}} of llvm-cov's text, where `make mcdc` left one; without the instances of a line."""
    path, found, lines = os.path.join(root, path), {}, None
    if not os.path.isfile(path):
        return found
    for line in open(path, encoding="utf-8", errors="replace"):
        if line.startswith("/") and line.rstrip().endswith(":"):
            name = line.rstrip()[:-1]
            name = os.path.relpath(name, root) if name.startswith(root + "/") else name
            lines = found.setdefault(name, {})
            continue
        counted = COUNTED.match(line)
        if counted and lines is not None:
            lines.setdefault(int(counted[1]), counted[2])
    return found


def page(title, body, up=""):
    links = [("index.html", "claims"), ("requirements.html", "requirements"), ("tests.html", "tests"), ("matrix.csv", "CSV")]
    bar = " | ".join('<a href="%s%s">%s</a>' % (up, to, name) for to, name in links)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>%s</title><style>%s</style></head>\n'
        "<body><nav>%s</nav>\n<h1>%s</h1>\n%s</body></html>\n" % (escape(title), STYLE, bar, escape(title), body)
    )


def mark(result):
    return '<span class="%s">%s</span>' % (result.replace(" ", "-"), result)


def link_requirement(r, up=""):
    return '<a class="claim-id" href="%srequirements.html#%s" title="%s">%s</a>' % (up, r.name, escape(r.text), r.name)


def link_sentences(of, up=""):
    """Requirements one below the other, each with its sentence: an id alone says nothing to a reader."""
    return "<br>".join("%s %s" % (link_requirement(r, up), prose(r.text)) for r in of)


def prose(text):
    """A cell of Markdown as it is read: code, and the words of a link without its mark."""
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"\1", text.replace("\\|", "|"))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def link_line(path, line, text, up=""):
    return '<a href="%s%s#L%d">%s</a>' % (up, page_name(path), line, escape(text))


def note(results):
    """What `not run` means, where it stands."""
    if results:
        return ""
    return '<p class="none">No results are here: <code>make test</code> and <code>make check</code> were not run on this program, so that every result is "not run".</p>\n'


def claim_place(where, text):
    """Where a claim stands in the page of claims."""
    return "claim-" + hashlib.sha256((where + " " + text).encode()).hexdigest()[:12]


def claims_page(requirements, results):
    rows = []
    for number, row in tracing.claim_rows():
        cells = [c.strip() for c in row.strip("| \n").split("|")]
        of = tracing.claimed_by(requirements, row)
        there = sorted({c for r in of for c in r.claims if c[0] == tracing.CLAIMS[0] and tracing.collapse(c[1]) in tracing.collapse(row)})
        rows.append((cells[0] + ": " + cells[1], of, there))
    in_rows = {c for _, _, there in rows for c in there}
    others = {}
    for r in requirements:
        for where, text in r.claims:
            if (where, text) not in in_rows:
                others.setdefault((where, text), []).append(r)
    rows += [("%s: %s" % key if key[0] != "README.md" else key[1], of, [key]) for key, of in sorted(others.items())]
    body = "<p>What the README and the pages that it names claim, and the requirements that are derived from it. A requirement " \
        "leads to the files that do it, with the lines that tests ran, and to the tests that show it.</p>\n%s<table><tr><th>claim</th><th>requirements</th><th>result</th></tr>\n" % note(results)
    placed = set()
    for claim, of, there in rows:
        of_all = [result_of_requirement(r, results) for r in of]
        worst = next((w for w in ("failed", "none", "not run", "skipped") if w in of_all), "passed")
        places = "".join('<a id="%s"></a>' % claim_place(*c) for c in there if c not in placed)
        placed.update(there)
        body += "<tr><td>%s%s</td><td>%s</td><td>%s</td></tr>\n" % (places, prose(claim), link_sentences(of), mark(worst))
    return page("Claims", body + "</table>\n")


def requirements_page(requirements, results, pages):
    counts = {}
    for r in requirements:
        counts[result_of_requirement(r, results)] = counts.get(result_of_requirement(r, results), 0) + 1
    body = "<p>%d requirements: %s.</p>\n%s<table><tr><th>id</th><th>sentence</th><th>done by</th><th>shown by</th><th>result</th></tr>\n" % (
        len(requirements),
        ", ".join("%d %s" % (counts[k], k) for k in sorted(counts)),
        note(results),
    )
    for r in requirements:
        done = "<br>".join(link_line(p, 1, p) if p in pages else escape(p) for p in r.files)
        shown = "<br>".join(
            "%s %s" % (link_line(t.path, t.line, t.path + (":" + t.case if t.case else "")), mark(result_of(t, results))) for t in r.evidence
        )
        derived = "".join('<br><small>from %s: <a href="index.html#%s"><q>%s</q></a></small>' % (escape(p), claim_place(p, t), escape(t))
                          for p, t in r.claims)
        if r.derived:
            derived = "<br><small>derived: %s</small>" % escape(r.derived)
        body += '<tr id="%s"><td><code>%s</code><br>%s</td><td>%s%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n' % (
            r.name, r.tag(), r.method, prose(r.text), derived, done, shown, mark(result_of_requirement(r, results)))
    return page("Requirements", body + "</table>\n")


def tests_page(requirements, results, pages):
    """Every test with the ids that it cites: the way back, and what cites nothing."""
    cited = {}
    for r in requirements:
        for t in r.evidence:
            cited.setdefault((t.path, t.case if t.path.endswith(".c") else ""), []).append((r, t))
    known = sorted(set(cited) | set(tracing.test_cases()))
    body = "<p>%d tests, of which %d cite a requirement.</p>\n<table><tr><th>test</th><th>requirements</th><th>result</th></tr>\n" % (
        len(known), len(cited))
    for path, case in known:
        of = cited.get((path, case), [])
        name = path + (":" + case if case else "")
        shown = link_line(path, of[0][1].line, name) if of and path in pages else escape(name)
        result = results.get((path, case if case and path.endswith(".c") else "-")) or results.get((path, "-"), "not run")
        body += "<tr><td>%s</td><td>%s</td><td>%s</td></tr>\n" % (shown, ", ".join(link_requirement(r) for r, _ in of), mark(result))
    return page("Tests", body + "</table>\n")


def with_links(line, names):
    """A line of source, escaped; ids that it cites lead back to their requirements."""
    if "verifies " not in line:
        return line
    return re.sub(r"[a-z0-9-]+-\d+\.\w+", lambda m: '<a href="../requirements.html#%s">%s</a>' % (names[m[0]].name, m[0]) if m[0] in names else m[0], line)


def file_page(path, text, of, counts):
    body = "<p>%s</p>\n" % (link_sentences(of, "../") or "no requirement")
    names = {r.tag(): r for r in of}
    lines = escape(text).split("\n")
    if counts:
        run = sum(1 for c in counts.values() if c not in ("0", ""))
        of_all = sum(1 for c in counts.values() if c != "")
        body += "<p>%d of %d lines were run by the tests that <code>make mcdc</code> runs (the third column counts).</p>\n" % (run, of_all)
    elif path.endswith(".c") and not path.startswith("tests/"):
        body += '<p class="none">No coverage of this file is here: <code>make mcdc</code> was not run before, or does not measure it.</p>\n'
    body += "<table>\n"
    for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, 1):
        count = counts.get(number, "") if counts else ""
        never = ' class="never"' if count == "0" else ""
        body += '<tr id="L%d"%s><td class="n">%d</td><td class="n">%s</td><td><pre>%s</pre></td></tr>\n' % (number, never, number, count, with_links(line, names))
    return page(path, body + "</table>\n", "../")


def write_csv(path, requirements, results):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["requirement", "digest", "method", "sentence", "derived from", "done by", "shown by", "line", "case", "result"])
        for r in requirements:
            head = [r.name, r.digest(), r.method, r.text, "; ".join("%s: %s" % c for c in r.claims) or "derived: " + r.derived, " ".join(r.files)]
            for t in r.evidence:
                out.writerow(head + [t.path, t.line, t.case, result_of(t, results)])
            if not r.evidence:
                out.writerow(head + ["", "", "", "none"])


def write(out, build, requirements, tags, covered="build/mcdc/mcdc.txt", kit=False):
    results = read_results(build)
    coverage = read_coverage(tracing.ROOT, covered)
    by_file = {}
    for r in requirements:
        for path in r.files + [t.path for t in r.evidence]:
            if r not in by_file.setdefault(path, []):
                by_file[path].append(r)
    os.makedirs(os.path.join(out, "files"), exist_ok=True)
    write_csv(os.path.join(out, "matrix.csv"), requirements, results)
    texts = {
        "index.html": claims_page(requirements, results),
        "requirements.html": requirements_page(requirements, results, by_file),
        "tests.html": tests_page(requirements, results, by_file),
    }
    for path, of in by_file.items():
        if os.path.isfile(os.path.join(tracing.ROOT, path)):
            texts[page_name(path)] = file_page(path, tracing.read(path), of, coverage.get(path))
    for name, text in texts.items():
        if kit:
            text = text.replace("<nav>", '<nav><a href="%sindex.html">the kit</a> | ' % ("../" * (1 + name.count("/"))), 1)
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.write(text)
    all_of_them = [result_of_requirement(r, results) for r in requirements]
    print("%d requirements: %s" % (len(requirements), ", ".join("%d %s" % (all_of_them.count(k), k) for k in sorted(set(all_of_them)))))
    return 1 if "failed" in all_of_them else 0
