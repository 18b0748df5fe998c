#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Collects the external commands that scripts and Makefiles call, and where each comes from.

    commands.py TABLE DEPS FILE..      FILE is a shell script, a Makefile, or a Python file

TABLE has lines `PACKAGE: COMMAND..`, Debian's packages in two parts: those of a minimal system below `[base]`,
and others below `[installed]`, each of which DEPS (tools/pkg/deps.sh) has to install. A command that no table has
is fine in a script that asks for it (`command -v NAME`) and says `skipped: ` where it is lacking, itself or in
what it sources, and in scripts below `[by hand]`, a list of folders whose scripts no goal of the tests runs.
Prints a line for each other command, FILE:LINE: NAME, and ends with 1 if there is one.

It reads shell as the shell does: words, quotes, substitutions, here-documents that are scripts, what `env`, `timeout`,
`xargs`, `bash -c` and the like are given to run, arrays that are run, functions that run their arguments.
"""
import os
import re
import sys

KEYWORDS = {"if", "then", "elif", "else", "fi", "do", "done", "while", "until", "!", "{", "}", "time", "in", "esac", "coproc"}
BUILTINS = set(""". : [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown
    echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf
    pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask
    unalias unset wait""".split())
# What runs its arguments: how many words of its own come before them (options and NAME=VALUE aside), and which of its
# options take a word.
RUNNERS = {"env": (0, "-u -C -S"), "timeout": (1, "-k -s"), "nice": (0, "-n"), "xargs": (0, "-n -P -I -d -L -a -s -E"),
           "nohup": (0, ""), "exec": (0, "-a"), "builtin": (0, ""), "command": (0, ""), "setsid": (0, ""), "time": (0, "-f -o"),
           "taskset": (1, ""), "stdbuf": (0, "-i -o -e"), "sudo": (0, "-u -g"), "unshare": (0, ""), "nsenter": (0, "-t"),
           "chroot": (1, ""), "prlimit": (0, ""), "strace": (0, "-e -o -p"), "ionice": (0, "-c -n"), "chrt": (1, ""),
           "setarch": (0, "")}
SHELLS = {"bash", "sh", "dash"}
PLAIN = re.compile(r"[^ \t\n;|&<>()\\'\"$`]*")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?\+?=")


class Script:
    """Commands of one text. A word is (text, literal, line): literal is what it says without quotes, None if that
    is known only when it runs."""

    def __init__(self, text, line=1):
        self.text, self.at, self.line = text, 0, line
        self.calls = []        # (words after the assignments)
        self.functions = set()
        self.arrays = {}       # name -> words of the list that was assigned to it first
        self.sourced = []
        self.pending = []      # here-documents that begin at the next line
        self.runs = {}         # a function that runs its arguments -> how many come before the command

    def peek(self, n=1):
        return self.text[self.at:self.at + n]

    def step(self, n=1):
        taken = self.text[self.at:self.at + n]
        self.line += taken.count("\n")
        self.at += n
        return taken

    def inner(self, text, line):
        """What a substitution, or a script in a string, runs."""
        part = Script(text, line)
        part.list(None)
        self.adopt(part)

    def adopt(self, part):
        self.calls += part.calls
        self.functions |= part.functions
        self.arrays.update(part.arrays)
        self.sourced += part.sourced
        self.runs.update(part.runs)

    def substitution(self):
        """At `$(`, `<(` or `>(`: up to the bracket that ends it."""
        self.step(2)
        part = Script(self.text, self.line)
        part.at = self.at
        part.list(")")
        self.at, self.line = part.at, part.line
        self.step()
        self.adopt(part)

    def arithmetic(self, end):
        """Up to END, with the substitutions in it."""
        depth = 0
        while self.at < len(self.text):
            if depth == 0 and self.peek(len(end)) == end:
                self.step(len(end))
                return
            c = self.peek()
            if self.peek(2) == "$(" and self.peek(3) != "$((":
                self.substitution()
                continue
            if end in ("))", ")") and c in "()":
                depth += 1 if c == "(" else -1
            elif end == "}" and c == "{":
                depth += 1
            elif end == "}" and c == "}":
                depth -= 1
            elif end == "}" and c == '"':
                self.double()
                continue
            elif end == "}" and c == "'":
                self.step()
                while self.peek() not in ("'", ""):
                    self.step()
            elif c == "\\":
                self.step()
            elif c == "`":
                self.backquote()
                continue
            self.step()

    def dollar(self):
        """At `$`. Returns whether it stands for something that only running tells."""
        if self.peek(3) == "$((":
            self.step(3)
            self.arithmetic("))")
        elif self.peek(2) == "$(":
            self.substitution()
        elif self.peek(2) == "${":
            self.step(2)
            self.arithmetic("}")
        else:
            self.step()
            if re.match(r"[A-Za-z_]", self.peek() or " "):
                while re.match(r"\w", self.peek() or " "):
                    self.step()
            elif self.peek() and self.peek() in "@*#?$!-0123456789":
                self.step()
            else:
                return False
        return True

    def backquote(self):
        line = self.line
        self.step()
        begin = self.at
        while self.at < len(self.text) and self.peek() != "`":
            self.step(2 if self.peek() == "\\" else 1)
        text = self.text[begin:self.at]
        self.step()
        self.inner(text.replace("\\`", "`"), line)

    def double(self):
        """A string in double quotes: its text, None if something in it is known only at run time."""
        self.step()
        text, known = "", True
        while self.at < len(self.text) and self.peek() != '"':
            c = self.peek()
            if c == "\\":
                text += self.step(2)[1]
            elif c == "$":
                begin = self.at
                known = not self.dollar() and known
                text += self.text[begin:self.at]
            elif c == "`":
                self.backquote()
                known = False
            else:
                text += self.step()
        self.step()
        return text, known

    def word(self):
        begin, line = self.at, self.line
        text, known = "", True
        while self.at < len(self.text):
            plain = PLAIN.match(self.text, self.at).end()
            if plain > self.at:
                text += self.text[self.at:plain]
                self.at = plain
                continue
            c = self.peek()
            if c in " \t\n;|&<>)" and self.peek(2) not in ("<(", ">("):
                break
            if c == "(":
                if not re.fullmatch(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=", text):
                    break
                self.array(text)
                known = False
            elif self.peek(2) in ("<(", ">("):
                self.substitution()
                known = False
            elif c == "\\":
                taken = self.step(2)
                text += "" if taken == "\\\n" else taken[1:]
            elif c == "'":
                self.step()
                from_ = self.at
                while self.at < len(self.text) and self.peek() != "'":
                    self.step()
                text += self.text[from_:self.at]
                self.step()
            elif c == '"':
                more, ok = self.double()
                text, known = text + more, known and ok
            elif self.peek(2) == "$'":
                self.step(2)
                while self.at < len(self.text) and self.peek() != "'":
                    text += self.step(2 if self.peek() == "\\" else 1)
                self.step()
            elif c == "$":
                from_ = self.at
                known = not self.dollar() and known
                text += self.text[from_:self.at]
            elif c == "`":
                self.backquote()
                known = False
            else:
                text += self.step()
        return self.text[begin:self.at], (text if known else None), line, text

    def array(self, name):
        self.step()
        words = []
        while self.at < len(self.text):
            self.blank(True)
            if self.peek() in (")", ""):
                break
            before = self.at
            word = self.word()
            if self.at == before:
                self.step()
                continue
            words.append(word)
        self.step()
        if words and "+" not in name:
            self.arrays.setdefault(ASSIGNED.match(name).group(1), words)

    def blank(self, lines=False):
        while self.at < len(self.text):
            c = self.peek()
            if c in " \t" or (lines and c == "\n"):
                self.newline() if c == "\n" else self.step()
            elif self.peek(2) == "\\\n":
                self.step(2)
            elif c == "#" and (self.at == 0 or self.text[self.at - 1] in " \t\n;|&()"):
                while self.at < len(self.text) and self.peek() != "\n":
                    self.step()
            else:
                return

    def newline(self):
        self.step()
        for end, quoted, strip, script in self.pending:
            line, body = self.line, []
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                row = self.text[self.at:stop]
                self.step(stop - self.at + 1)
                if (row.lstrip("\t") if strip else row) == end:
                    break
                body.append(row)
            body = "\n".join(body) + "\n"
            if script() or re.match(r"#! ?/\S*(bash|sh)\b", body) or re.match(r"#! ?/usr/bin/env bash", body):
                # Of one whose names are filled in, a backslash takes them for the script itself.
                self.inner(body if quoted else re.sub(r"\\([$`\\])", r"\1", body), line)
            elif not quoted:
                part = Script('"' + body.replace('"', "'") + '"', line)
                part.double()
                self.adopt(part)
        self.pending = []

    def redirection(self, words):
        """At < or >, or a number before it: the file is no argument."""
        operator = re.match(r"\d*(<<<|<<-?|<&|>&|>>|>\||<>|<|>)", self.text[self.at:self.at + 8]).group(0)
        self.step(len(operator))
        self.blank()
        raw, literal, line, text = self.word()
        if "<<" in operator and "<<<" not in operator:
            # The command runs it if it is a shell that reads its input; or writes it to a file of shell.
            place = [w[3] for w in words]
            script = lambda: (bool(place) and place[0] in SHELLS and len(place) == 1) or \
                any(re.search(r"\.sh$", t) for t in self.targets)
            self.pending.append((re.sub(r"[\"'\\]", "", raw), bool(re.search(r"[\"'\\]", raw)), operator.endswith("-"), script))
        elif ">" in operator:
            self.targets.append(text)

    def simple(self):
        """A simple command, from its first word: what it runs is noted."""
        words = []
        self.targets = []
        while self.at < len(self.text):
            self.blank()
            rest = self.text[self.at:self.at + 8]
            if re.match(r"\d*[<>]", rest) and not re.match(r"[<>]\(", rest):
                self.redirection(words)
                continue
            if rest.startswith("&>"):
                self.step(2 + (rest[2:3] == ">"))
                self.blank()
                self.word()
                continue
            if rest[:1] in ("", "\n", ";", "|", "&", ")"):
                break
            if rest[:1] == "(":
                # NAME () defines a function; whatever else it is, it is over.
                if words and re.match(r"\(\s*\)", self.text[self.at:]):
                    self.step(re.match(r"\(\s*\)", self.text[self.at:]).end())
                    self.define(words[-1][3])
                break
            if not words and self.peek(2) == "[[":
                self.test()
                words.append(("[[", "[[", self.line, "[["))
                continue
            before = self.at
            words.append(self.word())
            if self.at == before:
                self.step()
            if len(words) == 1 and words[0][0] in KEYWORDS | {"for", "select", "case", "function"}:
                self.keyword(words[0][0])
                return
            # An assignment before the command, or instead of it.
            if ASSIGNED.match(words[0][0]) and len(words) == 1:
                self.assigned.append(words.pop())
        if words:
            self.calls.append(words)

    def define(self, name):
        self.functions.add(name)
        begin = self.at
        self.blank(True)
        closing = {"{": "}", "(": ")"}.get(self.peek())
        if not closing:
            return
        # Read here to see what it does with its arguments; what it calls is collected on the way.
        part = Script(self.text, self.line)
        part.at = self.at
        part.step()
        part.list(closing)
        if closing == ")":
            part.step()
        body = self.text[begin:part.at]
        self.at, self.line = part.at, part.line
        shifted = sum(int(n or 1) for n in re.findall(r"\bshift\b(?: (\d))?", body))
        if any(w[0][0] == '"$@"' for w in part.calls if w):
            self.runs[name] = shifted
        self.adopt(part)

    def test(self):
        """[[ .. ]], with the substitutions in it."""
        self.step(2)
        while self.at < len(self.text):
            if re.match(r"\s\]\](\s|[;)|&]|$)", self.text[self.at:self.at + 4]):
                self.step(3)
                return
            c = self.peek()
            if c == '"':
                self.double()
            elif c == "'":
                self.step()
                while self.peek() not in ("'", ""):
                    self.step()
                self.step()
            elif c == "$":
                self.dollar()
            elif c == "\\":
                self.step(2)
            elif c == "`":
                self.backquote()
            else:
                self.step()

    def keyword(self, name):
        self.blank()
        if name in ("for", "select"):
            if self.peek(2) == "((":
                self.step(2)
                self.arithmetic("))")
                return
            self.word()
            self.blank(True)
            if re.match(r"in\b", self.text[self.at:]):
                self.step(2)
                while self.at < len(self.text):
                    self.blank()
                    if self.peek() in ("", "\n", ";"):
                        return
                    before = self.at
                    self.word()
                    if self.at == before:
                        self.step()
        elif name == "case":
            self.word()
            self.blank(True)
            self.step(2)
            self.cases()
        elif name == "function":
            found = self.word()[3]
            self.blank()
            if self.peek(2) == "()":
                self.step(2)
            self.define(found)

    def cases(self):
        while self.at < len(self.text):
            self.blank(True)
            if re.match(r"esac\b", self.text[self.at:]):
                self.step(4)
                return
            if self.peek() == "(":
                self.step()
            while self.at < len(self.text) and self.peek() != ")":
                before = self.at
                self.blank(True)
                self.word()
                if self.at == before:
                    self.step()
            self.step()
            self.list("case")

    def list(self, end):
        """Commands up to END: a closing bracket, or `case` for the end of one of its branches."""
        self.assigned = []
        while self.at < len(self.text):
            self.blank()
            c = self.peek()
            if end == ")" and c == ")":
                return
            if end == "case" and (self.peek(2) == ";;" or self.peek(2) == ";&"):
                self.step(2 + (self.peek(3) == ";;&"))
                return
            if end == "case" and re.match(r"esac\b", self.text[self.at:]):
                return
            if end == "}" and c == "}" and self.depth == 0:
                self.step()
                return
            if c == "\n":
                self.newline()
            elif self.peek(2) == "((":
                self.step(2)
                self.arithmetic("))")
            elif c == "(":
                part = Script(self.text, self.line)
                part.at = self.at + 1
                part.list(")")
                self.at, self.line = part.at, part.line
                self.step()
                self.adopt(part)
            elif c in ";|&":
                self.step()
            elif c == ")":
                self.step()
            else:
                if c == "{" and self.peek(2) in ("{ ", "{\n"):
                    self.depth += 1
                    self.step()
                    continue
                if c == "}":
                    self.depth -= 1
                    self.step()
                    continue
                before = self.at
                self.simple()
                if self.at == before:
                    self.step()

    depth = 0
    assigned = ()
    targets = ()


def unwrapped(script, words, found):
    """Notes in FOUND the command that WORDS run, and what that runs."""
    while words and (ASSIGNED.match(words[0][0])):
        words = words[1:]
    if not words:
        return
    raw, literal, line, text = words[0]
    array = re.fullmatch(r'"?\$\{(\w+)\[@\]\}"?', raw)
    if array and array.group(1) in script.arrays:
        listed = script.arrays[array.group(1)]
        if not re.match(r'"?\$\{' + array.group(1) + r'\b', listed[0][0]):
            unwrapped(script, listed + words[1:], found)
        return
    if literal is None:
        return
    name = os.path.basename(literal) if literal.startswith(("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/")) else literal
    rest = words[1:]
    if name in (".", "source"):
        if rest:
            script.sourced.append(rest[0][3])
        return
    # A shell's completion is a function whose name begins with _.
    if not NAME.match(name) or name.startswith("_"):
        return
    if name not in ("exec", "builtin", "command"):
        found.append((name, line))
    if name in script.runs:
        unwrapped(script, rest[script.runs[name]:], found)
        return
    if name in ("eval", "trap") and rest and rest[0][1] and not rest[0][1].startswith("-"):
        inner(script, rest[0], found)
    elif name == "ip" and [word[3] for word in rest[:2]] == ["netns", "exec"]:
        unwrapped(script, rest[3:], found)
    elif name in SHELLS | {"script"}:
        for i, word in enumerate(rest[:-1]):
            if re.fullmatch(r"-[a-z]*c", word[3]):
                inner(script, rest[i + 1], found)
                break
    elif name == "find":
        for i, word in enumerate(rest[:-1]):
            if word[3] in ("-exec", "-execdir", "-ok"):
                unwrapped(script, rest[i + 1:], found)
    elif name == "command" and rest and rest[0][3] in ("-v", "-V"):
        return
    elif name in RUNNERS:
        own, with_word = RUNNERS[name]
        with_word = with_word.split()
        i = 0
        while i < len(rest):
            word = rest[i][3]
            if word in with_word:
                i += 2
            elif word.startswith("-") or ASSIGNED.match(word):
                i += 1
            elif own > 0:
                own -= 1
                i += 1
            else:
                break
        unwrapped(script, rest[i:], found)


def inner(script, word, found):
    """A script in a word. What is filled in when it runs stays as it is written."""
    part = Script(word[3], word[2])
    part.list(None)
    part.arrays, part.runs = {**script.arrays, **part.arrays}, {**script.runs, **part.runs}
    script.functions |= part.functions
    for words in part.calls:
        unwrapped(part, words, found)


def recipes(text):
    """Makefile -> shell: recipes and $(shell ..), line for line; what make fills in is a word that nobody knows."""
    lines, into, going = [], [], False
    for row in text.split("\n"):
        recipe = going or row.startswith("\t")
        body = row.lstrip("\t")
        if row.startswith("\t") and not going:
            body = body.lstrip("@+-")
        lines.append(body if recipe else "")
        if not recipe:
            into += re.findall(r"\$\(shell (.*)", row)
        going = recipe and row.endswith("\\")
    shell = "\n".join(lines)
    shell = shell.replace("$$", "\0")
    while True:
        more = re.sub(r"\$\([^()]*\)|\$\{[^{}]*\}|\$[@<^*?]", "${made}", shell.replace("${made}", "\1")).replace("\1", "${made}")
        if more == shell:
            break
        shell = more
    # A command whose name make fills in, with a call around it, is over at its brackets.
    for made in into:
        depth, end = 0, len(made)
        for i, c in enumerate(made):
            depth += (c == "(") - (c == ")")
            if depth < 0:
                end = i
                break
        shell += "\n" + re.sub(r"\$\([^()]*\)", "${made}", made[:end].replace("$$", "\0"))
    return shell.replace("\0", "$")


def python_calls(text):
    found = []
    for match in re.finditer(r"(?:subprocess\.\w+|Popen)\(\s*\[\s*[\"']([A-Za-z0-9_.+-]+)[\"']", text):
        found.append((match.group(1), text[:match.start()].count("\n") + 1))
    return found


def read(path):
    """-> commands with their lines, functions, what it sources, the text"""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if path.endswith(".py"):
        return python_calls(text), set(), [], text
    script = Script(recipes(text) if re.search(r"(Makefile|\.mk)$", path) else text)
    script.list(None)
    found = []
    for words in script.calls:
        unwrapped(script, words, found)
    return found, script.functions, script.sourced, text


def table(path):
    """-> {command: package}, {package: part}, folders of scripts that are run by hand"""
    commands, parts, hand, part = {}, {}, [], ""
    with open(path, encoding="utf-8") as file:
        for row in file:
            row = row.split("#")[0].strip()
            if row.startswith("["):
                part = row.strip("[]")
            elif row and part == "by hand":
                hand.append(row)
            elif row:
                package, names = row.split(":")
                parts[package.strip()] = part
                for name in names.split():
                    commands[name] = package
    return commands, parts, hand


def asked(text):
    """Commands that a script looks for."""
    names, variables = set(), set()
    for match in re.finditer(r"\bcommand -v ([^;|&>)\n]*)", text):
        names |= set(re.findall(r"[A-Za-z0-9_.+-]+", match.group(1)))
        variables |= set(re.findall(r"\$\{?(\w+)", match.group(1)))
    # NAME() { command -v "$1" ..; NAME A
    for function in set(re.findall(r"^(\w+)\(\) \{[^}]*command -v \"\$1\"", text, re.M) if variables else ()):
        names |= set(re.findall(r"\b" + function + r" ([A-Za-z0-9_.+-]+)", text))
    # for x in A B; do command -v "$x"
    for variable in variables:
        for listed in re.findall(r"\bfor " + variable + r" in ([^;\n]*)", text):
            names |= set(re.findall(r"[A-Za-z0-9_.+-]+", listed))
    return names


def main(arguments):
    commands, parts, hand = table(arguments[0])
    with open(arguments[1], encoding="utf-8") as file:
        installed = set(re.findall(r"[a-z0-9][a-z0-9.+-]+", "\n".join(
            row for row in file.read().split("\n") if not row.startswith("#"))))
    bad = [f"{arguments[1]} does not install {package}, which {arguments[0]} names"
           for package, part in parts.items() if part == "installed" and package not in installed]
    files = {path: read(path) for path in arguments[2:]}

    def with_sourced(path, seen):
        if path in seen:
            return seen
        seen.add(path)
        for name in files[path][2]:
            for other in files:
                if os.path.basename(other) == os.path.basename(name):
                    with_sourced(other, seen)
        return seen

    above = {path: with_sourced(path, set()) for path in files}
    used = set()
    for path, (found, _, _, _) in files.items():
        # What is sourced calls functions of those who source it, and they ask for what it needs.
        scope = set().union(*(seen for seen in above.values() if path in seen))
        functions = set().union(*(files[other][1] for other in scope))
        text = "\n".join(files[other][3] for other in scope)
        looked = asked(text) if "skipped: " in text else set()
        by_hand = any(path.startswith(folder) for folder in hand)
        for name, line in sorted(set(found), key=lambda pair: (pair[1], pair[0])):
            if name in KEYWORDS | BUILTINS | functions:
                continue
            used.add(name)
            if name not in commands and name not in looked and not by_hand:
                bad.append(f"{path}:{line}: {name}")
    bad += [f"{arguments[0]}: nothing calls {name} of {package}" for name, package in commands.items() if name not in used]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
