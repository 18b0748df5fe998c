#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Moves members of a struct into structs inside it, and mends each use where the compiler finds it.

    group_members.py HEADER STRUCT MAP COMMAND..

A line of MAP is a group: its name, its type, and the members that go there, MEMBER or MEMBER=NEW:

    batch bp_batch batch=sequences sequence=tokens accumulation

HEADER gets a type for each group before STRUCT, with the members' comments. Then COMMAND (make -k all tests, say) runs
repeatedly, and every use that gcc calls no member of STRUCT gets its group. What other errors are left is printed.
Refused, with nothing changed: a tree with uncommitted changes, a member that STRUCT has not. Exit status 0, 1 errors
are left, 2 refused. The tree then stays as far as it came, for a person to finish: clang-format-14, and git checkout
to give up."""
import re
import subprocess
import sys

ERROR = re.compile(r"^([^:\s]+):(\d+):(\d+): error: .*has no member named .(\w+)\W", re.M)
PREFIX = "group_of_"  # a group may have the name of a member until all uses are mended


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout


def refuse(text):
    print("group_members: " + text, file=sys.stderr)
    sys.exit(2)


def read_map(path):
    """Member -> (group, its new name), and group -> type, in their order."""
    members, types = {}, {}
    for line in open(path):
        words = line.split()
        if words and not line.startswith("#"):
            types[words[0]] = words[1]
            for word in words[2:]:
                old, _, new = word.partition("=")
                members[old] = (words[0], new or old)
    return members, types


def regroup(header, struct, members, types):
    text = open(header).read()
    found = re.search(r"typedef struct %s \{\n(.*?)\n\} %s;\n" % (struct, struct), text, re.S)
    if not found:
        refuse("%s has no typedef struct %s" % (header, struct))
    inside, rest = {group: [] for group in types}, []
    # A declaration, with the comments before it and one behind it on its line.
    for part in re.findall(r"(?:\s*/\*.*?\*/)*\s*[^;/]*;(?:[ \t]*/\*.*?\*/)?", found[1], re.S):
        code = re.sub(r"/\*.*?\*/", "", part, flags=re.S)
        name = re.search(r"(\w+)\s*(?:\[[^]]*\])*\s*;", code)[1]
        group, new = members.get(name, (None, name))
        if group is None:
            rest.append(part)
        else:
            inside[group].append(re.sub(r"\b%s(?=\s*(?:\[[^]]*\])*\s*;)" % name, new, part))
            if len(inside[group]) == 1:
                rest.append("\n    %s %s%s;" % (types[group], PREFIX, group))
            members[name] = (group, new, True)
    for name, entry in members.items():
        if len(entry) == 2:
            refuse("%s has no member %s" % (struct, name))
    made = "".join("typedef struct %s {\n%s\n} %s;\n\n" % (types[g], "".join(inside[g]), types[g]) for g in types)
    body = "typedef struct %s {%s\n} %s;\n" % (struct, "".join(rest), struct)
    open(header, "w").write(text[:found.start()] + made + body + text[found.end():])


def mend(members, errors):
    """Inserts groups, from the last place of a file to the first; how many."""
    places = sorted({(f, int(l), int(c), n) for f, l, c, n in errors if n in members}, reverse=True)
    for path, line, column, name in places:
        lines = open(path).read().split("\n")
        at = re.compile(r"\b%s\b" % name).search(lines[line - 1], column - 1)
        if at:
            lines[line - 1] = "%s%s%s.%s%s" % (lines[line - 1][:at.start()], PREFIX, members[name][0],
                                               members[name][1], lines[line - 1][at.end():])
            open(path, "w").write("\n".join(lines))
    return len(places)


def main(argv):
    if len(argv) < 5:
        refuse(__doc__)
    if git("status", "--porcelain"):
        refuse("the tree has uncommitted changes")
    members, types = read_map(argv[3])
    regroup(argv[1], argv[2], members, types)
    while True:
        run = subprocess.run(argv[4:], capture_output=True, text=True)
        if not mend(members, ERROR.findall(run.stderr + run.stdout)):
            for path in git("diff", "--name-only").split():
                text = open(path).read()
                open(path, "w").write(text.replace(PREFIX, ""))
            sys.stderr.write(run.stderr if run.returncode else "")
            return 1 if run.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
