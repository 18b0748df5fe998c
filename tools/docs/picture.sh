#!/bin/bash
# SPDX-License-Identifier: MIT
# picture.sh PROGRAM [FILE]: makes docs/plan.svg, the picture of a plan that README.md shows, from the page of
# `bedplate plan --html`: its drawing of every buffer with its legend, as one file that loads nothing. `make picture`.
set -eu
program=$1
picture=${2:-docs/plan.svg}
page=$(mktemp)
trap 'rm -f "$page"' EXIT
"$program" plan --model gpt2 --per-device-train-batch-size 4 --max-seq-length 512 --html "$page" >/dev/null
text() { sed -n "s/^$1\(.*\)$2\$/\1/p" "$page" | head -1; }
{
    echo '<svg xmlns="http://www.w3.org/2000/svg" width="1100" height="730" viewBox="0 0 1100 730">'
    echo '<!-- made by tools/docs/picture.sh -->'
    sed -n '/^<style>$/,/^<\/style>$/p' "$page" | grep -vE '^(body|h1|\.sub|\.card|\.good|\.legend|\.scroll|\.bars|\.most|\.part|span|table|td|code|@media\(max)|vertical-align'
    echo '<rect width="1100" height="730" style="fill:var(--paper)"/>'
    echo "<text x=\"20\" y=\"30\" style=\"font-size:20px;font-weight:600;fill:var(--ink)\">$(text '<h1>' '<\/h1>')</text>"
    echo "<text x=\"20\" y=\"52\" style=\"font-size:13px\">$(text '<p class="sub">' '<\/p>')</text>"
    sed -n 's|^<span><i class="\(c[0-9]*\)"></i>\(.*\)</span>$|\1 \2|p' "$page" | awk 'BEGIN { x = 20 } {
        class = $1; sub(/^[^ ]* /, "")
        printf "<rect class=\"%s\" x=\"%d\" y=\"66\" width=\"12\" height=\"12\"/>", class, x
        printf "<text x=\"%d\" y=\"77\" style=\"font-size:13px\">%s</text>\n", x + 18, $0
        x += 40 + 7.2 * length($0) }'
    echo '<svg x="84" y="84" width="996" height="644" overflow="visible">'
    # What hovering shows is not seen in a picture.
    sed -n '/aria-label="offset of every/,/^<\/svg><\/div>$/p' "$page" | sed '1d;$d' |
        awk '{ text = text $0 "\n" } END { gsub(/<title>[^<]*<\/title>/, "", text); gsub(/<g>|<\/g>/, "", text); gsub("></rect>", "/>", text); printf "%s", text }'
    echo '</svg>'
    echo '</svg>'
} >"$picture"
echo "$picture: $(wc -c <"$picture") bytes"
