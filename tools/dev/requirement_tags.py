# SPDX-License-Identifier: MIT
"""Ids of requirements when the words of their sentences are renamed.

A requirement's id carries four digits of its sentence's digest (tests/assurance/methods.md), so that a test case
goes stale with the sentence. A path or a name that was renamed by a tool changes the digest and not the meaning:
the tools of this folder carry the new digest over to the cases, and only they may.
"""
import hashlib
import re

FOLDER = "tests/assurance/requirements/"


def tags(text):
    """The id with its digest of each requirement of a .req file, by name."""
    found = {}
    name = None
    for line in text.split("\n"):
        begun = re.match(r"REQ (\S+) \w+: (.+)", line)
        if begun:
            name = begun[1]
            found[name] = begun[2]
        elif line.startswith("    ") and name:
            found[name] += " " + line.strip()
    return {name: name + "." + hashlib.sha256(" ".join(words.split()).encode()).hexdigest()[:4]
            for name, words in found.items()}


def renamed(before, after):
    """{old id: new id} of the requirements whose sentence differs; both arguments are texts of one .req file."""
    old, new = tags(before), tags(after)
    return {old[name]: new[name] for name in old if name in new and old[name] != new[name]}


def carry(text, table):
    """The text with ids replaced by the table."""
    if not table:
        return text
    names = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    return re.sub(r"(?<![\w-])(?:%s)(?![\w-])" % names, lambda match: table[match.group(0)], text)
