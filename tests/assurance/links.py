# SPDX-License-Identifier: MIT
"""links.py FOLDER: every link of every page below FOLDER leads to a file of it, and to a place in that."""
import os
import re
import sys

pages, bad, links = {}, 0, 0
for at, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".html"):
            with open(os.path.join(at, name), encoding="utf-8") as file:
                pages[os.path.join(at, name)] = file.read()
places = {path: set(re.findall(r' id="([^"]+)"', text)) for path, text in pages.items()}
for path, text in sorted(pages.items()):
    for to in re.findall(r'href="([^"]+)"', text):
        links += 1
        name, _, place = to.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        inside = not os.path.relpath(target, sys.argv[1]).startswith("..")
        if not inside or not os.path.exists(target) or (place and place not in places.get(target, ())):
            bad += 1
            print("%s: %s leads nowhere" % (path, to))
if links == 0:
    print("%s: no links" % sys.argv[1])
sys.exit(bad > 0 or links == 0)
