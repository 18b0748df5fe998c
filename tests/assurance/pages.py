# SPDX-License-Identifier: MIT
"""Pages of the kit: its index, Markdown as HTML, tables; and the contracts above prototypes."""
import html
import os
import re

STYLE = """body{font:16px/1.5 sans-serif;margin:1.5em auto;max-width:62em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;vertical-align:top;padding:.25em .6em;border-top:1px solid #ddd}td a{overflow-wrap:anywhere}
code,pre{font:14px/1.4 monospace}pre{background:#f6f6f6;padding:.5em;overflow:auto}.missing,.wrong{color:#b00;font-weight:bold}.here{color:#060}"""
PROTOTYPE = re.compile(r"^(?!typedef|static|#|extern const|struct|enum|union)[A-Za-z_][\w \*]*?\b(bp_\w+|[a-z]\w*_\w+)\(", re.M)


def page(title, body, up=""):
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>%s</title><style>%s</style></head>\n'
        '<body><p><a href="%sindex.html">the kit</a></p>\n<h1>%s</h1>\n%s</body></html>\n' % (html.escape(title), STYLE, up, html.escape(title), body)
    )


def inline(text):
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"\1 (\2)", text)


def rows_html(lines):
    out = ""
    for number, line in enumerate(lines):
        if number == 1:
            continue
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        kind = "th" if number == 0 else "td"
        out += "<tr>%s</tr>\n" % "".join("<%s>%s</%s>" % (kind, inline(c.replace("\\|", "|")), kind) for c in cells)
    return "<table>\n%s</table>\n" % out


def markdown(text):
    """Headings, paragraphs, lists, tables and indented code: what the kit's documents use."""
    out = ""
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.split("\n")
        heading = re.match(r"(#+) (.*)", lines[0])
        if heading:
            level = len(heading[1])
            out += "<h%d>%s</h%d>\n" % (level, inline(heading[2]), level)
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("|"):
            out += rows_html(lines)
        elif lines[0].startswith("    "):
            out += "<pre>%s</pre>\n" % html.escape("\n".join(line[4:] for line in lines))
        elif re.match(r"(-|\d+\.) ", lines[0]):
            kind = "ul" if lines[0].startswith("-") else "ol"
            items = re.split(r"\n(?=(?:-|\d+\.) )", "\n".join(lines))
            out += "<%s>%s</%s>\n" % (kind, "".join("<li>%s</li>" % inline(re.sub(r"^(-|\d+\.) ", "", i)) for i in items), kind)
        else:
            out += "<p>%s</p>\n" % inline("\n".join(lines))
    return out


def table(rows, up):
    """Rows of a table of text; the fifth column leads to a chapter, the last one is a state."""
    out = "<table>\n<tr>%s</tr>\n" % "".join("<th>%s</th>" % html.escape(c) for c in rows[0])
    for row in rows[1:]:
        cells = [html.escape(c) for c in row]
        if row[4] and row[6] == "here":
            to = row[4].replace(".md", ".html")
            cells[4] = '<a href="%s%s">%s</a>' % (up, to + "index.html" if to.endswith("/") else to, cells[4])
        cells[6] = '<span class="%s">%s</span>' % (row[6], row[6])
        out += "<tr>%s</tr>\n" % "".join("<td>%s</td>" % c for c in cells)
    return out + "</table>\n"


def write_index(kit, rows):
    """The kit's first page; a page for each document, and one for each chapter that has none."""
    body = "<p>Version %s, commit %s. Chapters that are missing say in their folder what would make them.</p>\n<table>\n<tr><th>chapter</th><th>what it is</th><th>state</th><th></th></tr>\n" % (
        html.escape(kit.version), html.escape(kit.commit))
    for name, title, state, said in rows:
        if name.endswith(".md"):
            kit.write(name[:-3] + ".html", page(title, markdown(open(os.path.join(kit.out, name), encoding="utf-8").read())))
            to = name[:-3] + ".html"
        else:
            to = name + "/index.html"
            if not os.path.exists(os.path.join(kit.out, to)):
                kit.write(to, page(title, chapter_body(kit, name, state, said), "../"))
        body += '<tr><td style="white-space:nowrap"><a href="%s">%s</a></td><td>%s</td><td class="%s">%s</td><td>%s</td></tr>\n' % (
            to, name, html.escape(title), state, state, html.escape(said))
    kit.write("index.html", page("Bedplate %s: qualification kit" % kit.version, body + "</table>\n"))


def chapter_body(kit, name, state, said):
    if state == "missing":
        return '<p class="missing">This chapter is missing: %s</p>\n' % html.escape(said)
    body = "<p>%s</p>\n<ul>\n" % html.escape(said)
    folder = os.path.join(kit.out, name)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".md"):
            kit.write("%s/%s.html" % (name, file[:-3]), page(file, markdown(open(os.path.join(folder, file), encoding="utf-8").read()), "../"))
    for file in sorted(os.listdir(folder)):
        body += '<li><a href="%s">%s</a></li>\n' % (file, html.escape(file))
    return body + "</ul>\n"


def contracts(path, text):
    """Functions that a header declares, each with the comment above it."""
    found, comment, start, inside = [], "", 0, False
    for number, line in enumerate(text.split("\n"), 1):
        if inside or line.startswith("/*"):
            comment = line if not inside else comment + "\n" + line
            inside = "*/" not in line
            start = number
            continue
        name = PROTOTYPE.match(line)
        if name and "{" not in line:
            words = re.sub(r"^\s*(/\*|\*/|\*)|\*/\s*$", "", comment, flags=re.M) if number - start <= 12 else ""
            found.append([name[1], path, number, " ".join(words.split())])
        elif line.strip() == "":
            comment = comment if number == start else ""
    return found


def tree(root):
    """Every file of the tree, in order, without what is built."""
    found = []
    for at, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f != "__pycache__" and not (at == root and f in ("build", "shared", ".git")))
        found += [os.path.relpath(os.path.join(at, n), root) for n in names if not (at == root and n == ".git") and os.path.isfile(os.path.join(at, n))]
    return sorted(found)
