# SPDX-License-Identifier: MIT
"""Test programs and scripts with planted faults, for mutate_requirements.py.

Every file that a requirement names is compiled once with all its faults, one of which is chosen at run time (BP_MUTANT).
These objects stand before the library's in one archive, so that the tests of a folder, their suite, are linked once for
all requirements. Loops of kernels would take many times as long with a question in each expression: files of HOT take
part only in the programs of requirements that name them. A test that includes a source is compiled anew with that
source's faults, and linked alone.

A suite stays running (mutant_cases.c): for each fault it starts a process of itself, which runs one case.
"""
import hashlib
import json
import mmap
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import mutate

BUILD = "build/release"
OUT = "build/mutation-requirements"
HOT = ("core/ops/", "device/host/")
PER_FILE = 2048  # numbers of one file's faults
TOTAL = 1 << 20  # bytes of a trace: one for each fault
SLOW = int(os.environ.get("SLOW", "20"))  # seconds of the processor that a case may take, by the clock three times that
LINKER = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []
WITH_FAULTS = ["-w", "-include", "tests/assurance/mutant_chosen.h"]
SAME_ENVIRONMENT = {"BP_TEST_SHORT": "1", "PTXVM_THREADS": "1"}


def flat(path):
    return re.sub(r"\W", "_", path)


class Source:
    """A file with all its faults, read when it is needed, compiled once: an object for each form in which the build
    has it."""

    def __init__(self, path, index, faults_of):
        self.path, self.base, self.faults_of = path, index * PER_FILE, faults_of
        self.lock = threading.RLock()
        self.objects, self.read, self.of_name, self.why = None, False, {}, ""

    def take(self):
        with self.lock:
            if self.read:
                return self
            with open(self.path, encoding="utf-8") as file:
                self.text = file.read()
            self.places = self.faults_of(self.path, self.text)
            for place in self.places:
                for m in place[4]:
                    m.lines = place[3].count("\n")
            self.faults = [m for place in self.places for m in place[4]][:PER_FILE - 1]
            for number, m in enumerate(self.faults, 1):
                m.number = number
                self.of_name.setdefault(m.name, []).append(m)
            self.read = True
            return self

    def named(self, name):
        return self.take().of_name.get(name, [])

    def hot(self):
        return self.path.startswith(HOT)

    def written(self, chosen):
        return mutate.written(self.text, self.places, chosen)

    def compiled(self, commands, newest):
        """{object of the build: the same with faults}; faults that are no C are taken out."""
        with self.take().lock:
            if self.objects is None:
                self.objects = {}
                chosen = {m.number for m in self.faults}
                try:
                    for to, command in commands.get(self.path, {}).items():
                        self.objects[to], chosen = self.compile_one(to, command, newest, chosen)
                except RuntimeError as error:
                    self.objects, self.why, chosen = {}, str(error), set()
                self.faults = [m for m in self.faults if m.number in chosen]
            return self.objects

    def compile_one(self, to, command, newest, chosen):
        source = f"{OUT}/src/{self.path}"
        target = f"{OUT}/obj/{os.path.relpath(to, BUILD).replace('/', '_')}"
        os.makedirs(os.path.dirname(source), exist_ok=True)
        words = [w for w in shlex.split(command) if w not in ("-Werror", "-MMD", "-MP", "-pedantic", "-g")]
        words[words.index("-c") + 1] = source
        words[words.index("-o") + 1] = target
        words += [*WITH_FAULTS, f"-DBP_MUTANT_BASE={self.base}"]
        words = [("-O1" if self.hot() else "-O0") if w == "-O2" else w for w in words]
        key = hashlib.sha256(f"{self.text} {words} {newest} {len(chosen)}".encode()).hexdigest()
        if os.path.exists(target) and os.path.exists(f"{target}.key"):
            with open(f"{target}.key", encoding="utf-8") as file:
                kept = json.load(file)
            if kept["key"] == key:
                self.write(source, set(kept["chosen"]))
                return target, set(kept["chosen"])
        while True:
            self.write(source, chosen)
            done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 0:
                with open(f"{target}.key", "w", encoding="utf-8") as file:
                    json.dump({"key": key, "chosen": sorted(chosen)}, file)
                return target, chosen
            bad = {int(n) - 1000000 for n in re.findall(r":(10\d{5}):\d+: error", done.stderr)} & chosen
            # A macro that is a statement is none any more within an expression.
            lines = {int(n) for n in re.findall(re.escape(source) + r":(\d+):\d+: (?:error|note: in expansion)", done.stderr)}
            bad |= {m.number for m in self.faults if any(m.line <= n <= m.line + m.lines for n in lines)} & chosen
            if not bad:
                raise RuntimeError(f"{self.path}: does not compile with faults:\n{done.stderr[:2000]}")
            chosen = chosen - bad

    def write(self, source, chosen):
        text = self.written(chosen)
        if os.path.exists(source):
            with open(source, encoding="utf-8") as file:
                if file.read() == text:
                    return
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)


class Traced:
    """A case of a program, or a script, with what it passes: made by one run without a fault."""

    def __init__(self, path):
        self.path, self.script = path, path.endswith(".sh")
        self.seconds, self.waits, self.reached, self.why = 0.0, 0.0, b"", ""

    def judged(self, code):
        if code != 0:
            self.why = "skips" if code == 77 else f"takes more than {SLOW} s" if code in mutate.OVERDUE else \
                f"fails without a fault, {code}"

    def sees(self, number):
        """Who sees a fault: "" where it passes."""
        if not self.reached[number]:
            return ""
        code, _, _ = self.run(number, 2 + int(4 * self.seconds), 20 + int(5 * self.waits))
        return "" if code in (0, 77) else self.path + (" (time)" if code in mutate.OVERDUE else "")


class Case(Traced):
    def __init__(self, program, path, name):
        super().__init__(path)
        self.program, self.name = program, name

    def trace(self):
        with self.program.lock:
            self.program.forget()
            code, self.seconds, self.waits = self.run(0, SLOW, 3 * SLOW)
            self.reached = self.program.passed()
        self.judged(code)

    def run(self, number, limit, wait):
        return self.program.ask(self.path, self.name, number, limit, wait)


class Script(Traced):
    """A script of tests/cli: it runs the program of a folder that is the build's with another program in it, and ends at
    the first check that fails."""

    def __init__(self, path, build):
        super().__init__(path)
        self.build = build

    def trace(self):
        with tempfile.NamedTemporaryFile(dir=OUT) as file:
            file.truncate(TOTAL)
            code, self.seconds, self.waits = self.run(0, SLOW, 6 * SLOW, os.path.abspath(file.name))
            self.reached = file.read()
        if code == 0 and self.seconds > SLOW:
            code = mutate.OVERDUE[0]
        self.judged(code)

    def run(self, number, limit, wait, trace=""):
        environment = dict(os.environ, **SAME_ENVIRONMENT, BP_MUTANT=str(number), BUILD=self.build)
        if trace:
            environment["BP_MUTANT_TRACE"] = trace
        with tempfile.TemporaryDirectory(dir=OUT, ignore_cleanup_errors=True) as folder:
            environment["TMPDIR"] = os.path.abspath(folder)
            begun = time.monotonic()
            run = subprocess.Popen(["prlimit", f"--cpu={limit}", "bash", self.path], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            overdue = threading.Event()
            watch = threading.Timer(wait, lambda: (overdue.set(), kill(run.pid)))
            watch.start()
            failed = False
            for line in run.stdout:
                if line.startswith(b"FAILED"):
                    failed = True
                    break
            if failed:
                kill(run.pid)
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            watch.cancel()
            kill(run.pid)
            run.stdout.close()
            code = 1 if failed else mutate.OVERDUE[0] if overdue.is_set() else run.returncode
            return code, usage.ru_utime + usage.ru_stime, time.monotonic() - begun


def kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Program:
    """A suite with faults that stays running."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.RLock()
        self.running = None

    def start(self):
        os.makedirs(f"{self.path}.tmp", exist_ok=True)
        with open(f"{self.path}.trace", "wb") as file:
            file.truncate(TOTAL)
        with open(f"{self.path}.trace", "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), TOTAL)
        environment = dict(os.environ, **SAME_ENVIRONMENT, BP_MUTANT_TRACE=os.path.abspath(f"{self.path}.trace"), BUILD=BUILD,
                           TMPDIR=os.path.abspath(f"{self.path}.tmp"), MALLOC_TRIM_THRESHOLD_="2000000000",
                           MALLOC_MMAP_THRESHOLD_="2000000000", MALLOC_TOP_PAD_="16777216")
        self.running = subprocess.Popen([self.path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1)

    def forget(self):
        if self.running is None:
            self.start()
        self.bytes[:] = bytes(TOTAL)

    def passed(self):
        return self.bytes[:]

    def ask(self, path, name, number, limit, wait):
        """(exit code, seconds of the processor, by the clock)."""
        with self.lock:
            if self.running is None:
                self.start()
            test = os.path.basename(path)[:-2]
            self.running.stdin.write(f"{test} {name or '*'} {number} {limit} {wait}\n")
            words = self.running.stdout.readline().split()
            if len(words) != 3:
                raise RuntimeError(f"{self.path} ended")
            for entry in os.scandir(f"{self.path}.tmp"):
                shutil.rmtree(entry.path, ignore_errors=True) if entry.is_dir(follow_symlinks=False) else os.remove(entry.path)
            return int(words[0]), float(words[1]), float(words[2])

    def stop(self):
        if self.running is not None:
            self.running.stdin.close()
            self.running.wait()
            self.running = None


class Programs:
    """What requirements share: objects with faults, programs, traced cases."""

    def __init__(self, sources):
        self.sources = sources  # {path: Source}
        self.made, self.guard = {}, threading.Lock()

    def once(self, key, make):
        """What `make` gives for a key, made by whoever asks first."""
        with self.guard:
            entry = self.made.setdefault(key, [threading.Lock(), None, False])
        with entry[0]:
            if not entry[2]:
                entry[1], entry[2] = make(), True
            return entry[1]

    def build(self):
        """Reads how the build compiles each file; takes the youngest of the headers as their state."""
        os.makedirs(f"{OUT}/obj", exist_ok=True)
        os.makedirs(f"{OUT}/bin/tests", exist_ok=True)
        if not os.path.lexists(f"{OUT}/bin/ptxvm"):
            os.symlink(os.path.abspath(f"{BUILD}/ptxvm"), f"{OUT}/bin/ptxvm")
        made = subprocess.run(["make", "-nB", "V=1", f"BUILD={BUILD}", "objects"], capture_output=True, text=True, check=False,
                              env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
        self.commands = {}
        for line in made.stdout.split("\n"):
            found = re.search(r" -c (\S+\.c) -o (\S+)", line)
            if found:
                self.commands.setdefault(found[1], {})[found[2]] = line.strip()
        self.newest = max((os.path.getmtime(h) for h in mutate.HEADERS), default=0)
        for name in ("mutant_chosen", "mutant_cases"):
            subprocess.run(["gcc", "-O1", "-D_DEFAULT_SOURCE", "-I.", "-c", f"tests/assurance/{name}.c", "-o", f"{OUT}/obj/{name}.o"],
                           check=True)
        self.support = [to for path, all_of in self.commands.items() for to in all_of
                        if re.match(r"tests/fixtures/(formats/|kernels/|plans/)?\w+\.c$", path)]
        self.program = [to for path, all_of in self.commands.items() for to in all_of
                        if path.startswith("tools/bedplate/")] + [f"{BUILD}/source_digest.o"]

    def compile(self, paths, pool):
        """Compiles files with their faults; those that are not among them take part in no program."""
        self.cold = sorted(p for p in paths if p in self.sources and not self.sources[p].hot())
        hot = [p for p in paths if p in self.sources and self.sources[p].hot()]
        list(pool.map(lambda p: self.sources[p].compiled(self.commands, self.newest), self.cold + hot))

    def hot_of(self, requirement):
        return tuple(sorted(f for f in requirement.files if f in self.sources and self.sources[f].hot()))

    def objects(self, hot):
        """{object of the build: the same with faults} of the cold files and these."""
        out = {}
        for path in (*self.cold, *hot):
            out.update(self.sources[path].compiled(self.commands, self.newest))
        return out

    def archive(self, hot):
        def make():
            path = f"{OUT}/bin/{self.folder(hot)}.a"
            if os.path.exists(path):
                os.remove(path)
            members = [now for to, now in self.objects(hot).items() if to not in self.program]
            if members:
                subprocess.run(["ar", "qcT", path, *members], check=True)
            return [path] if members else []
        return self.once(("archive", hot), make)

    @staticmethod
    def folder(hot):
        return hashlib.sha256(" ".join(hot).encode()).hexdigest()[:8] if hot else "cold"

    def link(self, what, objects, hot, libraries):
        words = ["gcc", *objects, f"{OUT}/obj/mutant_chosen.o", "-Wl,--start-group", *self.archive(hot), f"{BUILD}/objects.a",
                 "-Wl,--end-group", *libraries, "-s", *LINKER, "-o", what]
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{what} cannot be linked: {done.stderr.strip()[:300]}")

    def bedplate(self, hot):
        """The folder of a build whose program has faults."""
        def make():
            folder = f"{OUT}/bin/{self.folder(hot)}.build"
            os.makedirs(folder, exist_ok=True)
            for name in os.listdir(BUILD):
                if name != "bedplate" and not os.path.lexists(f"{folder}/{name}"):
                    os.symlink(os.path.abspath(f"{BUILD}/{name}"), f"{folder}/{name}")
            objects = self.objects(hot)
            self.link(f"{folder}/bedplate", [objects.get(to, to) for to in self.program], hot, mutate.LIBS[:6])
            return folder
        return self.once(("bedplate", hot), make)

    def included(self, path):
        """The sources with faults that a test includes."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        alone = "A program of its own (tests/suite.sh)" in text
        return alone, [f for f in re.findall(r'#include "([^"]*\.c)"', text) if f in self.sources and self.sources[f].objects is not None]

    def suite(self, path, hot):
        """The program that has a test: its folder's suite, or its own."""
        alone, included = self.included(path)
        included = [f for f in included if f in self.cold or f in hot]
        if alone or included:
            return self.once((path, hot), lambda: self.make_suite(flat(path[:-2]), [self.test_object(path, included, hot)], alone, hot))
        folder = os.path.dirname(path)

        def make():
            mine = [f"{folder}/{n}" for n in sorted(os.listdir(folder)) if re.match(r"test_\w+\.c$", n)]
            mine = [p for p in mine if not any(self.included(p)) and os.path.exists(f"{BUILD}/{p[:-2]}.o")]
            return self.make_suite(flat(folder), [f"{BUILD}/{p[:-2]}.o" for p in mine], False, hot)
        return self.once((folder, hot), make)

    def test_object(self, path, included, hot):
        """A test that includes sources, with their faults."""
        own = f"{BUILD}/{path[:-2]}.o"
        if not included:
            return own
        folder = f"{OUT}/bin/{self.folder(hot)}.{flat(path[:-2])}.own"
        command = shlex.split(self.commands[path][own])
        for name in included:
            inside = f"{folder}/src/{name}"
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            source = self.sources[name]
            with open(inside, "w", encoding="utf-8") as file:
                text = source.written({m.number for m in source.faults})
                file.write(f"#undef BP_MUTANT_BASE\n#define BP_MUTANT_BASE {source.base}\n#line 1\n{text}")
        own = f"{folder}/{os.path.basename(path)[:-2]}.o"
        command[command.index("-o") + 1] = own
        words = ["-O0" if w == "-O2" else w for w in command if w not in ("-Werror", "-MMD", "-MP")] + WITH_FAULTS
        words.insert(1, f"-I{folder}/src")
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{path} cannot be compiled with faults: {done.stderr.strip()[:300]}")
        return own

    def make_suite(self, name, objects, alone, hot):
        path = f"{OUT}/bin/tests/{self.folder(hot)}.{name}"  # tests look for ptxvm beside tests/
        parts = f"{path}.parts"
        if alone:
            # What it defines may stand for what others call: its names stay.
            test = os.path.basename(objects[0])[:-2]
            os.makedirs(parts, exist_ok=True)
            subprocess.run(["objcopy", f"--redefine-sym=main={test}", "--redefine-sym=_cmocka_run_group_tests=suite_run_group", objects[0],
                            f"{parts}/{test}.o"], check=True)
            with open(f"{parts}/table.c", "w", encoding="utf-8") as file:
                file.write(f'#include "tests/suite.h"\nint {test}(void);\nconst suite_test suite_tests[] = {{{{"{test}", {test}}}}};\n'
                           "const size_t suite_count = 1;\n")
            subprocess.run(["gcc", "-std=c99", "-I.", "-c", f"{parts}/table.c", "-o", f"{parts}/table.o"], check=True)
            members = [f"{parts}/{test}.o", f"{parts}/table.o"]
        else:
            done = subprocess.run(["bash", "tests/suite.sh", path, "", *objects], stderr=subprocess.PIPE, text=True, check=False,
                                  env=dict(os.environ, CC="gcc"))
            if done.returncode != 0:
                raise RuntimeError(f"{path}: {done.stderr[:300]}")
            with open(f"{parts}/list", encoding="utf-8") as file:
                members = file.read().split()
        self.link(path, [*members, f"{OUT}/obj/mutant_cases.o", *self.support], hot, mutate.LIBS)
        shutil.rmtree(parts)
        return Program(path)

    def traced(self, path, name, hot):
        """A case of a test, or a script where name is "", after its run without a fault."""
        def make():
            out = Traced(path)
            try:
                out = Script(path, self.bedplate(hot)) if path.endswith(".sh") else Case(self.suite(path, hot), path, name)
                out.trace()
            except RuntimeError as error:
                out.why = str(error)
            return out
        return self.once((path, name, hot), make)

    def stop(self):
        for entry in self.made.values():
            if isinstance(entry[1], Program):
                entry[1].stop()
