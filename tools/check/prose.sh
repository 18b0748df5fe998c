#!/bin/bash
# SPDX-License-Identifier: MIT
# Plain English: a sentence of a page or of docs/bedplate.1 (which has the texts of every command and option) has at
# most 30 words, and none of the turns of tools/check/forbidden_turns. Code blocks and tables that a command makes are
# left out, a piece of code is one word, a link is its text, and what has no letter is no word. In tables and in the man
# page a semicolon ends a sentence too: they list values. tools/check/prose.ratchet lists pages that may have more, with
# how many; it only shrinks.
#
#   tools/check/prose.sh PAGE..   these pages alone, each finding on a line
turns=tools/check/forbidden_turns ratchet=tools/check/prose.ratchet
[[ -f $turns ]] || exit 0
pages=("$@")
[[ $# -gt 0 ]] || mapfile -t pages < <(find . \( -path './build*' -o -path './.*' \) -prune -o -type f \
    \( -name '*.md' -o -path ./docs/bedplate.1 \) -printf '%P\n' | LC_ALL=C sort)
[[ ${#pages[@]} -gt 0 ]] || exit 0

# PAGE:LINE<tab>SENTENCE of every sentence, without its code and links.
sentences() {
    LC_ALL=C awk -v OFS='\t' '
    function flush() { if (text != "") divide(text, first, 0); text = "" }
    # Sentences of one paragraph, item or cell; values: a semicolon ends one too.
    function divide(t, line, values,    n, i, parts) {
        gsub(/<!--[^>]*-->/, " ", t)
        gsub(/``[^`]+``|`[^`]*`/, "Code", t)
        gsub(/!\[[^]]*\]\([^)]*\)/, " ", t)
        while (match(t, /\[[^][]*\]\([^)]*\)/)) {
            part = substr(t, RSTART + 1, RLENGTH - 1)
            sub(/\].*/, "", part)
            t = substr(t, 1, RSTART - 1) part substr(t, RSTART + RLENGTH)
        }
        gsub(/\\f[A-Z]|\\-|\\&|[*]|https?:[^ ]*/, "", t)
        gsub(/(e\.g|i\.e|et al|vs|cf)\./, "&,", t)
        gsub(/[.!?]["\047)]*[ \t]+["\047(]*[A-Z0-9]/, "&\001", t)
        n = split(t, parts, "\001")
        rest = ""
        for (i = 1; i <= n; i++) {
            # The letter that begins the next sentence came along.
            s = rest parts[i]
            rest = ""
            if (i < n) { rest = substr(s, length(s)); s = substr(s, 1, length(s) - 1) }
            emit(s, line, values)
        }
    }
    function emit(s, line, values,    n, i, parts) {
        n = values ? split(s, parts, ";") : 0
        if (!n) { n = 1; parts[1] = s }
        for (i = 1; i <= n; i++) {
            gsub(/[ \t]+/, " ", parts[i]); sub(/^ /, "", parts[i])
            if (parts[i] ~ /[A-Za-z]/) print page ":" line, parts[i]
        }
    }
    FNR == 1 { flush(); page = FILENAME; fence = made = item = 0; blank = 1; man = FILENAME ~ /\.1$/ }
    man {
        if (/^\.(TP|PP|SH|IP|nf|fi|B|BR|I|TH|RS|RE|SS)/ || /^\047/ || /^\.\\"/ || /^\(.*\)$/) { flush(); next }
        if (text == "") first = FNR
        text = text " " $0
        if (text ~ /;$/) flush()
        next
    }
    /^ *```/ { flush(); fence = !fence; next }
    fence { next }
    /^<!-- made by/ { flush(); made = 1 }
    /^<!-- end -->/ { made = 0; next }
    made { next }
    /^[ \t]*$/ { flush(); blank = 1; next }
    /^    / && blank && !item { next }
    /^        / && blank { next }
    /^\|/ {
        flush()
        gsub(/\\\|/, "/")
        n = split($0, cells, "|")
        for (c = 2; c < n; c++) divide(cells[c], FNR, 1)
        blank = 0; item = 0
        next
    }
    /^#/ { flush(); sub(/^#+ */, ""); divide($0, FNR, 0); item = 0; next }
    /^ *([-*]|[0-9]+[.)]) / { flush(); item = 1; sub(/^ *([-*]|[0-9]+[.)]) /, "") }
    /^[^ ]/ && blank && text == "" { if ($0 !~ /^([-*]|[0-9]+[.)]) /) item = item && /^ / }
    { if (text == "") first = FNR; text = text " " $0; blank = 0 }
    END { flush() }' "$@" | sed 's/\x01//g'
}

found=$(mktemp)
trap 'rm -f "$found" "$found".*' EXIT
sentences "${pages[@]}" >"$found.sentences"
awk -F'\t' '{
    n = split($2, words, " "); count = 0
    for (i = 1; i <= n; i++) count += words[i] ~ /[A-Za-z]/
    if (count > 30) print $1 ": " count " words, at most 30: " substr($2, 1, 70) " .."
}' "$found.sentences" >"$found"
while IFS=$'\t' read -r expression instead; do
    [[ -z $expression || $expression == \#* ]] && continue
    # The turn is looked for behind the tab, so that ^ is where a sentence begins.
    [[ $expression == '(^|'* ]] && expression="(\t|${expression#'(^|'}"
    grep -iP -- "\t.*?(?:$expression)|^[^\t]*$expression" "$found.sentences" | while IFS=$'\t' read -r place text; do
        printf '%s: "%s": write: %s\n' "$place" "$(grep -oiP -m1 -- "${expression/\\t/^}" <<<"$text" | head -1)" "$instead"
    done
done <"$turns" >>"$found"
LC_ALL=C sort -t: -k1,1 -k2,2n "$found" -o "$found"
if [[ $# -gt 0 ]]; then
    cat "$found"
    [[ ! -s $found ]]
    exit
fi
# What the ratchet allows, against what there is.
bad=$(awk -F: -v ratchet="$ratchet" '
    BEGIN { while ((getline line < ratchet) > 0) if (line !~ /^#/ && split(line, part, " ") > 1) most[part[2]] = part[1] }
    { count[$1]++; lines[$1] = lines[$1] "    " $0 "\n" }
    END {
        for (page in count)
            if (count[page] > most[page] + 0)
                printf "%s: %d sentences to rewrite; at most %d\n%s", page, count[page], most[page], lines[page]
        for (page in most)
            if (!(page in count) && (getline line < page) >= 0) print page ": nothing to rewrite: take its line out of " ratchet
    }' "$found" | head -60)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
