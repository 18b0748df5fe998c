# SPDX-License-Identifier: MIT
"""page_check.py PAGE..: that a page is whole and stands alone, by Python's parser of HTML.

Each element ends, in the order in which they began; nothing is loaded from elsewhere and no handler stands in an
attribute; what drawings have for numbers are finite numbers. Prints what is wrong, or the text that a reader sees."""
import html.parser
import re
import sys

VOID = {"meta", "link", "br", "input", "hr"}
NUMBERS = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "dx"}
bad = []


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.text = [], set(), set(), []

    def handle_starttag(self, tag, attributes, alone=False):
        self.seen.add(tag)
        for name, value in attributes:
            if name in {"src", "srcset", "action", "poster", "data"} or name.startswith("on"):
                bad.append(f"line {self.getpos()[0]}: <{tag} {name}=..> may not be on a page")
            if name in {"href", "xlink:href"} and not value.startswith(("#", "data:,")):
                bad.append(f"line {self.getpos()[0]}: <{tag} href={value}> leads elsewhere")
            if name in NUMBERS and tag != "iframe" and not re.fullmatch(r"-?\d+(\.\d+)?%?", value or ""):
                bad.append(f"line {self.getpos()[0]}: <{tag} {name}={value}> is no number")
            if name in {"d", "points", "viewbox"} and re.search(r"nan|inf", value or ""):
                bad.append(f"line {self.getpos()[0]}: <{tag} {name}=..> has what is no number")
            if name == "id":
                if value in self.ids:
                    bad.append(f"the id {value} stands twice")
                self.ids.add(value)
        if tag not in VOID and not alone:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes, True)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            bad.append(f"line {self.getpos()[0]}: </{tag}> ends what did not begin")

    def handle_data(self, data):
        if data.strip() and not {"style", "script"} & set(self.open):
            self.text.append(data.strip())


for path in sys.argv[1:]:
    page, text = Page(), open(path, encoding="utf-8").read()
    page.feed(text)
    page.close()
    if page.open:
        bad.append(f"{path}: not ended: {page.open}")
    bad += [f"{path}: no <{tag}>" for tag in ("html", "head", "title", "style", "body", "h1") if tag not in page.seen]
    bad += [f"{path}: {found}" for found in re.findall(r"https?://[^\s\"<]*|@import|url\([^)]*\)", text)]
    if not text.startswith("<!DOCTYPE html>\n") or not text.endswith("</html>\n"):
        bad.append(f"{path}: not a whole page")
    if not bad:
        print("\n".join(page.text))
print("\n".join(bad), file=sys.stderr)
sys.exit(1 if bad else 0)
