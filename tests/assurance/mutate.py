#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make mutation`: changes the code of arena, core and optim, one small fault at a time, and looks whether a test
sees it.

Every mutant changes one operator, constant, condition or statement inside a function. All mutants of a file are
compiled into it at once and one is chosen at run time (BP_MUTANT), so that a file is compiled once and a test linked
once. One run of each test notes which mutants it reaches; only these tests run against a mutant, the quickest first.
The sample is the FAULTS ones whose names and lines hash lowest with SEED: a change of another file hardly moves it.

A mutant that no test sees is a failure, unless tests/assurance/mutation.survivors says why none can. Ends with
`N passed, N failed`; build/mutation/report.txt has each mutant with what became of it.

  mutate.py [COUNT] [SEED]
  AGAIN=1 mutate.py ..     after new tests: what the report that is there says was found is not tried again
  AGAIN=1 SURE=1 ..        they are tried again, first with the test that found them: a report of the tests as they are
  SLOW=60 mutate.py ..     tests that take up to a minute take part (20 seconds); seconds of the processor, so that
                           other work on the machine leaves no test out

  WORKERS=6 mutate.py ..   so many tests at a time (2)
  SCRIPTS=. mutate.py ..   what survives the test programs meets the scripts of tests/cli whose names have this pattern,
                           with the program `bedplate`
  LISTED=1 mutate.py ..    what mutation.survivors lists meets every test; without it only those named after its file and
                           those of a second or less, since what none finds would run them all

What was found is written down at once (build/mutation/found.txt), and so is what each test reaches and what it let
pass (passed.list): AGAIN=1 goes on where a run was cut off, and compiles, links, traces and runs only what has changed.
A mutant meets the test named after its file first, then those of a second or less, then the others, so that what
survives is known early.
"""
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = "build/mutation"
BUILD = "build/release"
LISTED = "tests/assurance/mutation.survivors"
FOLDERS = ("arena", "core", "optim")
TESTS = ("tests/unit/arena", "tests/unit/core", "tests/unit/optim", "tests/unit/layers", "tests/golden", "tests/fault",
         "tests/house")
SCRIPTS = "tests/cli"
HEADERS = [os.path.join(base, f) for folder in ("arena", "core", "device", "layers", "optim") for base, _, files in
           os.walk(os.path.join(ROOT, folder)) for f in files if f.endswith((".h", ".def"))]
FLAGS = ("-std=c99 -O1 -w -ffp-contract=off -fno-math-errno -I. -D_POSIX_C_SOURCE=200809L "
         "-include tests/assurance/mutant_chosen.h").split()
LIBS = "-l:libutf8proc.a -l:libz.a -l:libzstd.a -lm -lpthread -ldl -lcmocka -ljansson".split()
SLOW = int(os.environ.get("SLOW", "20"))  # of the processor; a test that takes longer does not take part
WORKERS = int(os.environ.get("WORKERS", "2"))
ALL_MEET_LISTED = bool(os.environ.get("LISTED"))
SURE = bool(os.environ.get("SURE"))
QUICK = 1.0  # seconds of the processor
OVERDUE = (124, 137, 128 + 24)  # by the clock, and by the processor (SIGXCPU)

TOKEN = re.compile(r"""\s+|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*(?:[eE][-+]\d+\w*)?"""
                   r"""|->|\+\+|--|<<=|>>=|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||\.\.\.|.""", re.S)
OTHER = {"<": ["<=", ">"], "<=": ["<", ">"], ">": [">=", "<"], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
         "&&": ["||"], "||": ["&&"], "+=": ["-="], "-=": ["+="], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"],
         "true": ["false"], "false": ["true"]}
BINARY = {"+": "-", "-": "+", "*": "/", "&": "|", "|": "&"}
TYPES = set("const static struct enum union unsigned signed int char float double void long short bool size_t".split())


class Mutant:
    """One change of one region: its tokens with one of them another, or all of them another text."""

    def __init__(self, path, function, line, kind, old, new, what):
        self.path, self.function, self.line, self.kind = path, function, line, kind
        self.old, self.new, self.what = old, new, what
        self.name = f"{path}:{function} `{old}` => `{new}`"
        self.number = 0
        self.state = "survived"
        self.by = ""
        self.before = ""  # the test that found it in the run before

    def line_of(self, state="", why=""):
        return f"{state or self.state} {self.path}:{self.line} {self.what} {self.name} {self.by}{why}"


def text_of(tokens):
    return re.sub(r"\s+", " ", "".join(t for _, t in tokens if not t.startswith(("//", "/*")))).strip()


def closing(tokens, i, opener, closer):
    """Index of what closes tokens[i]."""
    depth = 0
    while i < len(tokens):
        depth += (tokens[i][1] == opener) - (tokens[i][1] == closer)
        if depth == 0:
            return i
        i += 1
    return -1


def solid(tokens, i, step=1):
    while 0 <= i < len(tokens) and (tokens[i][1].isspace() or tokens[i][1].startswith(("//", "/*"))):
        i += step
    return i


def end_of(tokens, i):
    """Index of the `;` that ends the statement or clause that begins at i, -1 where a block comes first."""
    depth = 0
    while i < len(tokens):
        t = tokens[i][1]
        if depth == 0 and t == ";":
            return i
        depth += (t in "([{") - (t in ")]}")
        if depth < 0:
            return -1
        i += 1
    return -1


def declares(words):
    """Whether a statement of these words is a declaration."""
    if words[0] in TYPES or re.match(r"(u?int\d+_t|uintptr_t|ptrdiff_t)$", words[0]):
        return True
    i = 1
    while i < len(words) and words[i] == "*":
        i += 1
    return re.match(r"[A-Za-z_]\w*$", words[0]) is not None and i < len(words) and \
        re.match(r"[A-Za-z_]\w*$", words[i]) is not None


def regions(tokens, first, last):
    """(kind, first, last) of the expressions in a function's body."""
    i = first
    while i < last:
        t = tokens[i][1]
        if t in ("if", "while", "for", "switch"):
            opened = solid(tokens, i + 1)
            shut = closing(tokens, opened, "(", ")")
            if t == "if":
                yield "if", opened + 1, shut
            elif t == "while":
                yield "loop", opened + 1, shut
            elif t == "for":
                one = end_of(tokens, opened + 1)
                two = end_of(tokens, one + 1) if one > 0 else -1
                if 0 < one < two < shut and text_of(tokens[one + 1:two]):
                    yield "loop", one + 1, two
            i = shut + 1
        elif t == "return":
            end = end_of(tokens, i + 1)
            if end > 0 and text_of(tokens[i + 1:end]) and tokens[solid(tokens, i + 1)][1] != "{":
                yield "return", i + 1, end
            i = end + 1
        elif t == "case" or t == "default":
            while tokens[i][1] != ":":
                i += 1
            i += 1
        elif t in ("else", "do", "{", "}", ";", "break", "continue", "goto") or t.isspace() or t.startswith(("//", "/*")):
            i += 1
        else:
            end = end_of(tokens, i)
            if end < 0:
                i += 1
                continue
            words = [w for _, w in tokens[i:end] if not w.isspace()]
            if words[0] == "BP_TRY":
                yield "try", solid(tokens, i + 1) + 1, solid(tokens, end - 1, -1)
            elif declares(words):
                equal = next((k for k in range(i, end) if tokens[k][1] == "="), -1)
                begin = solid(tokens, equal + 1)
                if equal > 0 and words[0] != "static" and tokens[begin][1] != "{" and "[" not in text_of(tokens[i:equal]):
                    depth = [0]
                    comma = False
                    for _, w in tokens[begin:end]:
                        depth[0] += (w in "([{") - (w in ")]}")
                        comma = comma or (w == "," and depth[0] == 0)
                    if not comma:
                        yield "value", equal + 1, end
            elif words[0] != "typedef":
                yield "statement", i, end
            i = end + 1


def changes(kind, tokens):
    """(new text, what) of each change of a region."""
    whole = text_of(tokens)
    if kind == "statement":
        yield "", "statement"
    elif kind == "try":
        yield "BP_OK", "statement"
    elif kind == "if":
        yield "true", "condition"
        yield "false", "condition"
    for i, (_, t) in enumerate(tokens):
        before = tokens[solid(tokens, i - 1, -1)][1] if i > 0 and solid(tokens, i - 1, -1) >= 0 else "("
        after_at = solid(tokens, i + 1)
        after = tokens[after_at][1] if after_at < len(tokens) else ")"
        operand = re.match(r"[\w.]+$|\)$|\]$", before) and before not in ("return", "sizeof")
        new = []
        what = "operator"
        if t in OTHER:
            new = OTHER[t]
        elif t in BINARY and operand and after not in (")", "*", ","):
            # `(type *)x` and `(type)-x` are no products and no differences.
            cast = before == ")" and re.search(r"\((const )?(u?int\d+_t|size_t|int|float|double|char|bp_\w+|void|unsigned char)( \*+)?\)$",
                                               text_of(tokens[:i]))
            new = [] if cast else [BINARY[t]]
        elif t == "!" and after != "=":
            new = [""]
        elif re.match(r"\d+[uU]?$", t) and before != ".":
            value = int(t.rstrip("uU"))
            new = [str(value + 1)] + ([str(value - 1)] if value > 0 else [])
            what = "constant"
        elif re.match(r"BP_ERR_\w+$", t):
            new = ["BP_OK"]
            what = "constant"
        for n in new:
            yield text_of(tokens[:i] + [(0, n)] + tokens[i + 1:]), what
    del whole


def functions(path, text):
    """(name, tokens, first, last) of the functions of a file; those with directives inside are left out."""
    for found in re.finditer(r"^[A-Za-z_][^;{}()#=]*\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", text, re.M | re.S):
        body = found.group(2)
        if re.search(r"^\s*#", body, re.M):
            continue
        yield found.group(1), found.start(2), body


def collect(path, text):
    """(start, end, kind, original, [mutants]) of the regions of a file, in the order of the text."""
    out = []
    for name, start, body in functions(path, text):
        tokens = [(start + m.start(), m.group(0)) for m in TOKEN.finditer(body)]
        for kind, first, last in regions(tokens, 0, len(tokens)):
            piece = tokens[first:last]
            old = text_of(piece)
            line = text.count("\n", 0, piece[solid(piece, 0)][0]) + 1
            mutants = {}
            for new, what in changes(kind, piece):
                if new != old:
                    mutants[new] = Mutant(path, name, line, kind, old, new, what)
            if mutants:
                begin = piece[0][0]
                finish = piece[-1][0] + len(piece[-1][1])
                out.append((begin, finish, kind, text[begin:finish], list(mutants.values())))
    return out


def written(text, places, chosen):
    """The text with the chosen mutants in it, and which of them stands in which line."""
    out = []
    at = 0
    for begin, finish, kind, old, mutants in places:
        mutants = [m for m in mutants if m.number in chosen]
        if not mutants:
            continue
        void = "(void)" if kind == "statement" else ""
        out.append(text[at:begin])
        for m in mutants:
            new = m.new or "0"
            out.append(f"\n#line {1000000 + m.number}\nBP_MUTANT({m.number}) ? {void}({new}) :")
        line = text.count("\n", 0, begin) + 1
        out.append(f"\n#line {line}\n{void}({old})")
        at = finish
    return "".join(out) + text[at:]


def newer(target, sources):
    """Whether a file is there and none of the others is younger."""
    return os.path.exists(target) and all(os.path.getmtime(s) <= os.path.getmtime(target) for s in sources)


def compile_file(path, text, places):
    """Compiles a file with its mutants; what is no C is left out and told."""
    chosen = {m.number for place in places for m in place[4]}
    source = f"{OUT}/src/{path}"
    target = f"{OUT}/obj/{path[:-2].replace('/', '_')}.o"
    os.makedirs(os.path.dirname(source), exist_ok=True)
    lost = []
    before = ""
    if os.path.exists(source) and os.path.exists(target):
        with open(source, encoding="utf-8") as file:
            before = file.read()
    while True:
        now = written(text, places, chosen)
        if now == before and newer(target, HEADERS):
            return target, lost
        with open(source, "w", encoding="utf-8") as file:
            file.write(now)
        extra = ["-O3", "-fno-trapping-math"] if path in ("core/ops/convert.c", "core/ops/quantised.c") else []
        done = subprocess.run(["gcc", *FLAGS, *extra, "-c", source, "-o", target],
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            return target, lost
        bad = {int(n) - 1000000 for n in re.findall(r":(10\d{5}):\d+: error", done.stderr)} & chosen
        if not bad:
            sys.exit(f"{path}: does not compile with mutants:\n{done.stderr[:2000]}")
        lost += bad
        chosen -= bad
        before = ""


class Test:
    def __init__(self, name):
        self.name = name
        self.program = f"{OUT}/{name.replace('/', '_')}"
        self.seconds = 0.0  # of the processor
        self.waits = 0.0    # by the clock
        self.reached = b""
        self.command = [self.program]
        self.build = BUILD

    def is_of(self, path):
        """Whether it is named after a source file: the tests that most of its mutants are found by."""
        return self.name.startswith(f"tests/unit/{os.path.dirname(path)}/test_{os.path.basename(path)[:-2]}")

    def beside(self, path):
        return os.path.dirname(self.name) == f"tests/unit/{os.path.dirname(path)}"

    def run(self, mutant, limit, wait, trace=None):
        """(exit code, seconds of the processor, by the clock); it is stopped at `limit` of the first, `wait` of the second."""
        environment = dict(os.environ, BP_TEST_SHORT="1", BP_TEST_WHOLE="1", BP_MUTANT=str(mutant), BUILD=self.build)
        with tempfile.TemporaryDirectory(dir=OUT) as folder:
            environment["TMPDIR"] = folder
            if trace:
                environment["BP_MUTANT_TRACE"] = trace
            begun = time.monotonic()
            run = subprocess.Popen(["timeout", "-k", "1", str(wait), "prlimit", f"--cpu={limit}", *self.command],
                                   env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            return run.returncode, usage.ru_utime + usage.ru_stime, time.monotonic() - begun


class Script(Test):
    """A script of tests/cli; it runs the program of a folder that is the build's with another program in it."""

    def __init__(self, name):
        super().__init__(name)
        self.command = ["bash", f"{name}.sh"]
        self.build = f"{OUT}/build"
        self.program = f"{OUT}/{name.replace('/', '_')}"


def scripts(objects):
    """The scripts, and the program with mutants that they run."""
    folder = f"{OUT}/build"
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(BUILD):
        if name != "bedplate" and not os.path.lexists(f"{folder}/{name}"):
            os.symlink(os.path.abspath(f"{BUILD}/{name}"), f"{folder}/{name}")
    own = sorted(f"{BUILD}/tools/bedplate/{f[:-2]}.o" for f in os.listdir("tools/bedplate") if f.endswith(".c"))
    bind([*own, f"{BUILD}/source_digest.o", *objects], f"{folder}/bedplate")
    out = [Script(f[:-3]) for f in sorted(glob.glob(f"{SCRIPTS}/*/test_*.sh")) if re.search(os.environ["SCRIPTS"], os.path.basename(f))]
    for script in out:
        # What stands for its program: as old as the younger of the two that it is made of.
        if not newer(script.program, [f"{script.name}.sh", f"{folder}/bedplate"]):
            with open(script.program, "w", encoding="utf-8"):
                pass
    return out


def bind(objects, program):
    made = [f"{BUILD}/objects.a", *objects]
    if newer(program, made):
        return
    done = subprocess.run(["gcc", *objects, f"{OUT}/obj/chosen.o", f"{BUILD}/objects.a", *LIBS, "-o", program],
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program}: {done.stderr[:1000]}")


def link(test, objects):
    support = sorted(f"{BUILD}/{f[:-2]}.o" for f in glob.glob("tests/fixtures/**/*.c", recursive=True)
                     if f.split("/")[2] not in ("cross", "mpi", "nccl"))
    bind([f"{BUILD}/{test.name}.o", *support, *objects], test.program)


def trace(test, count):
    """One run without a mutant: how long it takes, and which mutants it comes by."""
    path = f"{test.program}.reached"
    told = f"{test.program}.seconds"
    if not newer(told, [test.program]):
        with open(path, "wb") as file:
            file.truncate(count + 1)
        code, seconds, waits = test.run(0, SLOW, 30 * SLOW, path)
        with open(told, "w", encoding="utf-8") as file:
            file.write(f"{code} {seconds} {waits} {SLOW}\n")
    with open(told, encoding="utf-8") as file:
        code, test.seconds, test.waits, limit = (float(word) for word in file.read().split())
    if code != 0 and limit < SLOW:
        os.remove(told)
        return trace(test, count)
    with open(path, "rb") as file:
        test.reached = file.read()
    return code == 0 and test.seconds <= SLOW


def judge(mutant, tests, passed):
    """Holds a mutant against those of some tests that reach it and have not let it pass before."""
    mine = sorted((t for t in tests if t.reached[mutant.number]), key=lambda t: t.seconds)
    for test in mine:
        pair = f"{mutant.line} {mutant.name}\t{test.name}\t{os.path.getmtime(test.program)}"
        if pair in passed:
            continue
        code, _, _ = test.run(mutant.number, max(10, int(10 * test.seconds)), max(60, int(20 * test.waits)))
        if code not in (0, 77):
            mutant.state = "found"
            mutant.by = test.name + (" (time)" if code in OVERDUE else "")
            note("found.txt", mutant.line_of())
            return
        note("passed.list", pair)
        passed.add(pair)
    if mine:
        mutant.state = "survived"


def note(name, line):
    with open(f"{OUT}/{name}", "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def rounds(mutants, tests, objects, passed):
    """The tests meet the mutants in turn: each file's own, the quick, the others, the scripts. Listed ones meet the quick."""
    reasons = {} if ALL_MEET_LISTED else listed()
    turns = [("named after the file", lambda m: [t for t in tests if t.is_of(m.path)]),
             (f"of its folder, of {QUICK} s or less", lambda m: [t for t in tests if t.seconds <= QUICK and t.beside(m.path)]),
             (f"of {QUICK} s or less", lambda m: [t for t in tests if t.seconds <= QUICK]),
             (f"of {SLOW} s or less", lambda m: tests)]
    brief = len(turns) - 1 + SURE
    if SURE:
        turns.insert(0, ("that found them before", lambda m: [t for t in tests if t.name == m.before]))
    if os.environ.get("SCRIPTS"):
        more = []
        turns.append(("and scripts", lambda m: more))
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for turn, (what, mine) in enumerate(turns):
            if what == "and scripts":
                more += traced(pool, scripts(objects), max(m.number for m in mutants))
            left = [m for m in mutants if m.state != "found" and (turn < brief or m.name not in reasons)]
            list(pool.map(lambda m: judge(m, mine(m), passed), left))
            print(f"{sum(m.state == 'found' for m in mutants)} found by tests {what}", flush=True)
            with open(f"{OUT}/alive.list", "w", encoding="utf-8") as file:
                file.writelines(f"{m.line_of()}\n" for m in mutants if m.state != "found")


def passed_before():
    if not os.path.exists(f"{OUT}/passed.list"):
        return set()
    with open(f"{OUT}/passed.list", encoding="utf-8") as file:
        return set(file.read().splitlines())


def traced(pool, tests, count):
    """Those tests that pass in time without a mutant."""
    kept = list(pool.map(lambda t: trace(t, count), tests))
    left_out = [t.name for t, good in zip(tests, kept) if not good]
    if left_out:
        print(f"left out, they fail or take more than {SLOW} s: {' '.join(left_out)}", flush=True)
    return [t for t, good in zip(tests, kept) if good]


def listed():
    reasons = {}
    with open(LISTED, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#") and line.strip():
                found = re.match(r"(\S+ `.*?` => `.*?`) (\w+: .+)$", line.strip())
                if not found:
                    sys.exit(f"{LISTED}: not FILE:FUNCTION `OLD` => `NEW` KIND: REASON: {line}")
                reasons[found.group(1)] = found.group(2)
    return reasons


def main():
    os.chdir(ROOT)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    before = {}
    for name in ("report.txt", "found.before", "found.txt") if os.environ.get("AGAIN") else ():
        if not os.path.exists(f"{OUT}/{name}"):
            continue
        with open(f"{OUT}/{name}", encoding="utf-8") as file:
            for line in file:
                found = re.match(r"found \S+:(\d+) \w+ (\S+ `.*` => `.*`) (\S+.*)$", line)
                if found:
                    before[f"{found.group(1)} {found.group(2)}"] = found.group(3)
    if not os.environ.get("AGAIN"):
        shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(f"{OUT}/obj", exist_ok=True)
    if os.path.exists(f"{OUT}/report.txt"):
        os.remove(f"{OUT}/report.txt")
    paths = sorted(os.path.join(base, f) for folder in FOLDERS for base, _, files in os.walk(folder) for f in files
                   if f.endswith(".c"))
    texts = {p: open(p, encoding="utf-8").read() for p in paths}
    places = {p: collect(p, texts[p]) for p in paths}
    everything = [m for p in paths for place in places[p] for m in place[4]]
    everything.sort(key=lambda m: hashlib.sha256(f"{seed} {m.name} {m.line}".encode()).digest())
    mutants = [m for m in everything if only in m.path][:count]
    for number, m in enumerate(mutants):
        m.number = number + 1
    objects = []
    lost = []
    mine = {}
    for p in sorted({m.path for m in mutants}):
        mine[p] = [(b, f, k, o, [m for m in ms if m.number]) for b, f, k, o, ms in places[p]]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for target, bad in pool.map(lambda p: compile_file(p, texts[p], mine[p]), mine):
            objects.append(target)
            lost += bad
    mutants = [m for m in mutants if m.number not in lost]
    subprocess.run(["gcc", "-O1", "-D_DEFAULT_SOURCE", "-I.", "-c", "tests/assurance/mutant_chosen.c", "-o", f"{OUT}/obj/chosen.o"],
                   check=True)
    tests = [Test(os.path.join(base, f)[:-2]) for folder in TESTS for base, _, files in os.walk(folder)
             for f in sorted(files) if re.match(r"test_.*\.c$", f) and os.path.exists(f"{BUILD}/{os.path.join(base, f)[:-2]}.o")]
    print(f"{len(mutants)} of {len(everything)} mutants in {len(objects)} files ({len(lost)} were no C), {len(tests)} test programs",
          flush=True)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda t: link(t, objects), tests))
        tests = traced(pool, tests, count)
    for m in mutants:
        m.state = "unreached"
        was = before.get(f"{m.line} {m.name}", "")
        m.before = was.split(" ")[0]
        if was and not SURE:
            m.state, m.by = "found", was
    # In one go: a run that is cut off before this leaves what the last one found. What SURE has not tried yet is kept.
    with open(f"{OUT}/found.before", "w", encoding="utf-8") as file:
        file.writelines(f"{m.line_of('found')}{before[f'{m.line} {m.name}']}\n" for m in mutants
                        if SURE and f"{m.line} {m.name}" in before)
    with open(f"{OUT}/found.new", "w", encoding="utf-8") as file:
        file.writelines(f"{m.line_of()}\n" for m in mutants if m.state == "found")
    os.replace(f"{OUT}/found.new", f"{OUT}/found.txt")
    rounds(mutants, tests, objects, passed_before())
    return report(mutants, count, seed, [m.name for m in everything])


def report(mutants, count, seed, names):
    reasons = listed()
    lost = [n for n in reasons if names.count(n) != 1]
    found = [m for m in mutants if m.state == "found"]
    excused = [m for m in mutants if m.state != "found" and m.name in reasons]
    alive = [m for m in mutants if m.state != "found" and m.name not in reasons]
    stale = [m for m in found if m.name in reasons]
    lines = [f"seed {seed}, {count} asked for, {len(mutants)} mutants"]
    lines += [m.line_of("listed" if m in excused else "", reasons.get(m.name, "")) for m in mutants]
    for m in alive:
        print(f"{m.state} {m.path}:{m.line} {m.name}")
    for m in stale:
        print(f"{LISTED}: {m.name} is seen by {m.by}: take the line out")
    for n in lost:
        print(f"{LISTED}: {n} stands in the tree {names.count(n)} times: a line is for one fault")
    for what in ("operator", "constant", "condition", "statement"):
        of = [m for m in mutants if m.what == what]
        lines.append(f"{what}: {sum(m.state == 'found' for m in of)} of {len(of)} found")
        print(lines[-1])
    told = len(mutants) - len(excused)
    lines.append(f"share found {100 * len(found) / max(1, len(mutants)):.1f} % of all, "
                 f"{100 * len(found) / max(1, told):.1f} % without the {len(excused)} listed")
    print(lines[-1])
    lines.append(f"{len(found) + len(excused)} passed, {len(alive) + len(stale) + len(lost)} failed")
    with open(f"{OUT}/report.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(lines[-1])
    return bool(alive or stale or lost)


if __name__ == "__main__":
    sys.exit(main())
