#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stack.py BUILD SIGNATURES: bounds the stack of the library from gcc's call graph (-fcallgraph-info=su).

A call through a pointer may reach every function whose address is taken and whose parameters and result have the
types that the pointer's declaration has; of a member that initialisers name, those that they put there. Where
a pointer has no declaration that is understood, every function whose address is taken. SIGNATURES is a folder of gcc -aux-info files. Writes the deepest chain, the
largest frames and what is not counted; exits 1 where the bound is above the one in stack.limit or where a
chain would call itself through pointers and stack.loops does not say why it does not."""
import os
import re
import sys

HERE = os.environ.get("STACK_LISTS", os.path.dirname(os.path.abspath(__file__)))
NODE = re.compile(r'node: \{ title: "([^"]+)" label: "([^"]*)"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"(?: label: "([^"]*)")?')
INFO = re.compile(r"^/\* ([^:]+):(\d+):NF \*/ (extern|static) (.*?)\b(\w+) \((.*)\); /\*", re.M)
POINTER = re.compile(r"([\w *]*)\(\*(?:const )?(\w+)(?:\[[^\]]*\])?\)\(((?:[^()]|\([^()]*\))*)\)")
FUNCTION_TYPE = re.compile(r"typedef ([\w ]+?[ *])(\w+)\(((?:[^()]|\([^()]*\))*)\);")
BUILTIN = {"void", "int", "char", "float", "double", "unsigned", "signed", "long", "short", "bool", "_Bool"}


def split(text):
    parts, depth, at = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(at)
            at = ""
        else:
            at += c
    return parts + [at] if at.strip() else parts


def parameter(text):
    """A parameter's type without names, qualifiers and blanks."""
    if "(*" in text or "(" in text:
        return "function"
    stars = text.count("*") + text.count("[")
    words = [w for w in re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", text)) if w not in ("const", "struct", "enum", "union", "restrict", "volatile", "extern", "register")]
    if len(words) > 1 and words[-1] not in BUILTIN and not words[-1].endswith("_t"):
        words = words[:-1]
    name = " ".join(sorted(words)).replace("_Bool", "bool")
    return name + "*" * stars


def signature(text):
    found = tuple(parameter(p) for p in split(re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)))
    return () if found == ("void",) else found


def result(text):
    """The type of a result; "" where it is not to be seen."""
    return parameter(" ".join(re.sub(r"\b(typedef|static|inline|return)\b", "", text).split()))


class Graph:
    def __init__(self):
        self.frame, self.calls, self.indirect, self.place = {}, {}, {}, {}
        self.bounded, self.external = [], {}

    def read(self, folder):
        for at, _, names in os.walk(folder):
            for name in sorted(names):
                source = os.path.relpath(os.path.join(at, name), folder)[:-3] + ".c"
                if name.endswith(".ci") and os.path.isfile(re.sub(r"_(bf16|f16)\.c$", ".c", source)):
                    self.read_file(os.path.join(at, name))

    def read_file(self, path):
        text = open(path, encoding="utf-8").read()
        for title, label in NODE.findall(text):
            bytes_of = re.search(r"(\d+) bytes \((\w+[^)]*)\)", label)
            if bytes_of:
                self.frame[title] = max(self.frame.get(title, 0), int(bytes_of[1]))
                self.place[title] = label.split("\\n")[1] if "\\n" in label else ""
                if bytes_of[2] != "static":
                    self.bounded.append((title, bytes_of[2]))
        for source, target, label in EDGE.findall(text):
            if target == "__indirect_call":
                self.indirect.setdefault(source, set()).add(label)
            else:
                self.calls.setdefault(source, set()).add(target)


def read_signatures(folder, sources):
    """{title: signature} and {title: result} of every function that is defined; static ones of a header belong to the
    file that was compiled."""
    found, results = {}, {}
    compiled = {path.replace("/", "_"): path for path in sources}
    for name in sorted(os.listdir(folder)):
        for path, _, kind, type_of, function, parameters in INFO.findall(open(os.path.join(folder, name), encoding="utf-8").read()):
            path = compiled.get(name, path[2:] if path.startswith("./") else path)
            title = path + ":" + function if kind == "static" else function
            found[title], results[title] = signature(parameters), result(type_of)
    return found, results


def read_pointers(texts):
    """{name: signatures} and {name: results} of pointers to functions, members and types alike."""
    found, results = {}, {}
    for text in texts.values():
        for type_of, name, parameters in POINTER.findall(text) + FUNCTION_TYPE.findall(text):
            found.setdefault(name, set()).add(signature(parameters))
            results.setdefault(name, set()).add(result(type_of))
    # Members and parameters of such a type.
    typed = re.compile(r"\b(%s)\s+\*?(?:const )?(\w+)(?:\[\w*\])?(?:[;,)]| =)" % "|".join(map(re.escape, found)))
    for text in texts.values():
        for type_of, name in typed.findall(text):
            found.setdefault(name, set()).update(found[type_of])
            results.setdefault(name, set()).update(results[type_of])
    return found, results


def read_tables(texts):
    """{member: functions} of what initialisers and assignments put into members by name."""
    found = {}
    for text in texts.values():
        for member, function in re.findall(r"(?:\.|->)(\w+) = &?(\w+)\b(?!\()", text):
            found.setdefault(member, set()).add(function)
    return found


def count_arguments(text):
    """How many arguments the call has whose opening parenthesis lies right before; 0: not to be seen."""
    depth, count = 1, 1
    for c in text:
        depth += (c == "(") - (c == ")")
        count += c == "," and depth == 1
        if depth == 0:
            return 0 if text.strip().startswith(")") else count
    return 0


def first_type(arguments, lines):
    """The type of a call's first argument, by the nearest declaration above; None: not a plain name."""
    name = re.match(r"\s*&?(\w+)\s*[,)]", arguments)
    for line in reversed(lines) if name else ():
        declared = re.search(r"\b(\w+)\s+\**\s*%s\b" % name[1], line)
        if declared and declared[1] not in ("return", "const", "else", "case"):
            return declared[1]
    return None


def declared(path, signatures, pointers):
    """What stack.pointers says of calls in a file that are not understood: FILE like FUNCTION, FILE is TYPE, or
    FILE system (what is called lies outside the library)."""
    for row in lines_of("stack.pointers"):
        words = row.split()
        if words[0] == path:
            if words[1] == "system":
                return set(), None, None
            if words[1] == "is":
                return pointers[words[2]], None, None
            return set(s for t, s in signatures.items() if t.split(":")[-1] == words[2]), None, None
    return None


def site(label, texts, pointers, tables, results):
    """A call through a pointer at FILE:LINE:COLUMN: the signatures that it can have, the names of functions that
    tables put there (None: any of that signature), its results (None: any); None where it is not understood."""
    path, line, column = label.rsplit(":", 2)
    path = path[2:] if path.startswith("./") else path
    if path not in texts:
        return None
    lines = texts[path].split("\n")
    number = int(line) - 1
    here = "\n".join(lines[number : number + 6])
    from_column = here[max(0, int(column) - 1) :]
    for where, text in (("at", from_column), ("line", here)):
        for found in re.finditer(r"(->|\.)?\b(\w+)(?:\[[^\[\]]*\])?\)?\(", text):
            name = found[2]
            if name not in pointers:
                typed = re.search(r"\b(%s)\s*\*?\s*(?:const )?%s\b" % ("|".join(map(re.escape, pointers)), re.escape(name)), texts[path])
                if not typed:
                    continue
                return pointers[typed[1]], None, None
            of = pointers[name]
            first = first_type(text[found.end() :], lines[max(0, number - 80) : number + 1])
            number_of = count_arguments(text[found.end() :])
            of = set(s for s in of if len(s) == number_of) or of
            narrow = set(s for s in of if s and s[0].rstrip("*") == first)
            return narrow or of, tables.get(name), None if "" in results[name] else results[name]
    return None


def taken(graph, texts, signatures):
    """Functions whose address is taken: named without being called, or defined and never called."""
    called = set(t for targets in graph.calls.values() for t in targets)
    whole = "\n".join(texts.values())
    named = set(re.findall(r"\b(\w+)\b(?!\s*\()", whole))
    return set(t for t in graph.frame if t in signatures and (t not in called or t.split(":")[-1] in named))


class Bound:
    def __init__(self, graph, edges, loops):
        self.graph, self.edges, self.loops, self.refused = graph, edges, loops, set()
        self.best, self.path = {}, []

    def of(self, title):
        """The deepest bytes from here on; an edge back into the chain counts nothing and is told."""
        if title in self.best:
            return self.best[title]
        self.path.append(title)
        deepest, next_one = 0, ""
        for target in sorted(self.edges.get(title, ())):
            if target in self.path:
                self.refused.add((title, target))
                continue
            if target in self.graph.frame and self.of(target) > deepest:
                deepest, next_one = self.best[target], target
        self.path.pop()
        self.best[title] = self.graph.frame[title] + deepest
        self.chain = getattr(self, "chain", {})
        self.chain[title] = next_one
        return self.best[title]


def read_texts():
    texts = {}
    for folder in ("arena", "core", "layers", "optim", "device", "tools/formats"):
        for at, _, names in os.walk(folder):
            for name in names:
                if name.endswith((".c", ".h", ".def")):
                    texts[os.path.join(at, name)] = open(os.path.join(at, name), encoding="utf-8").read()
    return texts


def lines_of(name):
    path = os.path.join(HERE, name)
    rows = open(path, encoding="utf-8").read().split("\n") if os.path.isfile(path) else []
    return [r for r in rows if r and not r.startswith("#")]


def main(build, folder):
    sys.setrecursionlimit(10000)
    graph, texts = Graph(), read_texts()
    graph.read(build)
    signatures, result_of = read_signatures(folder, texts)
    pointers, results = read_pointers(texts)
    tables = read_tables(texts)
    addresses = taken(graph, texts, signatures)
    by_signature = {}
    for title in addresses:
        by_signature.setdefault(signatures[title], set()).add(title)
    edges = {k: set(v) for k, v in graph.calls.items()}
    sites, vague, outside = 0, [], []
    for source, labels in graph.indirect.items():
        for label in sorted(labels):
            sites += 1
            of = site(label, texts, pointers, tables, results) or declared(os.path.normpath(label.rsplit(":", 2)[0]), signatures, pointers)
            if of is None:
                vague.append((source, label))
                targets = addresses
            else:
                targets = set().union(*(by_signature.get(s, set()) for s in of[0]))
                narrow = set(t for t in targets if of[1] and t.split(":")[-1] in of[1])
                targets = set(t for t in narrow or targets if of[2] is None or result_of[t] in of[2])
            if not targets:
                outside.append((source, label))
            edges.setdefault(source, set()).update(targets)
    loops = {tuple(row.split()[:2]): row for row in lines_of("stack.loops")}
    edges = {s: set(t for t in targets if (s.split(":")[-1], t.split(":")[-1]) not in loops) for s, targets in edges.items()}
    bound = Bound(graph, edges, loops)
    deepest = max(graph.frame, key=bound.of)
    limit = int((lines_of("stack.limit") or ["0"])[0])
    print("bound %d bytes (declared %d), %d functions, %d calls through pointers" % (bound.best[deepest], limit, len(graph.frame), sites))
    at, chain = deepest, []
    while at:
        chain.append("%6d %s" % (graph.frame[at], at))
        at = bound.chain[at]
    print("the deepest chain:\n" + "\n".join(chain))
    print("the largest frames:")
    for title in sorted(graph.frame, key=lambda t: (-graph.frame[t], t))[:12]:
        print("%6d %s" % (graph.frame[title], title))
    for title, kind in sorted(set(graph.bounded)):
        print("frame is %s: %s" % (kind, title))
    for source, label in sorted(vague):
        print("any function whose address is taken: %s at %s" % (source, label))
    for source, label in sorted(outside):
        print("reaches nothing in the library (the application's or the system's): %s at %s" % (source, label))
    for source, target in sorted(bound.refused):
        print("LOOP %s %s" % (source.split(":")[-1], target.split(":")[-1]))
    names = set(t for targets in graph.calls.values() for t in targets) - set(graph.frame) - {"__indirect_call"}
    print("not counted: " + ", ".join(sorted(n for n in names if not n.startswith("__builtin"))))
    failed = bound.best[deepest] > limit or bool(bound.refused)
    if bound.best[deepest] > limit:
        print("FAILED: the bound is above the declared %d bytes (tests/assurance/stack.limit)" % limit)
    if bound.refused:
        print("FAILED: chains that call themselves through pointers (LOOP above): change them, or say in tests/assurance/stack.loops why they end")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
