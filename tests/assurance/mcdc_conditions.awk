# SPDX-License-Identifier: MIT
# From what `llvm-cov show -show-mcdc` prints: for each condition of arena, core, optim, layers, tools/formats
# and the portable form of device/host
# FILE, FUNCTION, LINE, CONDITION (its text on one line) and 1 where it is shown to decide by itself,
# else 0, with tabs between; with places=1 also where its decision lies (LINE:COLUMN-LINE:COLUMN) and its
# number in it.
# root: the folder of the tree.
function load(path,    line) {
    count = 0
    while ((getline line < path) > 0) source[++count] = line
    close(path)
}

# The name of the function whose definition comes last before a line.
function function_at(row,    i, name) {
    for (i = row; i > 0; i--)
        if (source[i] ~ /^[A-Za-z_].*\(/ && source[i] !~ /;$/) {
            name = source[i]
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
            return name
        }
    return "?"
}

# The text from a place to the end of the condition: the next && or || or what closes it.
function text_at(row, column,    text, c, two, depth, quote) {
    for (; row <= count; row++) {
        for (; column <= length(source[row]); column++) {
            c = substr(source[row], column, 1)
            two = substr(source[row], column, 2)
            if (quote != "") {
                if (c == "\\") { text = text two; column++; continue }
                if (c == quote) quote = ""
            } else if (c == "'" || c == "\"") quote = c
            else if (c == "(" || c == "[") depth++
            else if ((c == ")" || c == "]") && depth-- == 0) return trim(text)
            else if (depth == 0 && (two == "&&" || two == "||" || c == ";" || c == "?" || c == ",")) return trim(text)
            text = text c
        }
        column = 1
        text = text " "
    }
    return trim(text)
}

function trim(text) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    return text
}

/^[^ |].*:$/ {
    path = substr($0, 1, length($0) - 1)
    if (index(path, root "/") == 1) path = substr(path, length(root) + 2)
    counted = path ~ /^(arena|core|optim|layers|tools\/formats|device\/host)\// && path !~ /_(avx2|avx512)\.[ch]$/
    # Included by vector forms alone: each instruction set's copy of them is held against the portable form bit
    # by bit (tests/variants/digests.sh), and the machine has one of the sets.
    counted = counted && path !~ /^device\/host\/(elements\/(elements|mask)|attention\/attention)_vector\.h$/
    if (counted) load(path)
}
counted && /MC\/DC Decision Region/ {
    delete row
    delete column
    decision = $0
    sub(/[^(]*\(/, "", decision)
    sub(/\) to \(/, "-", decision)
    sub(/\).*/, "", decision)
}
counted && /Condition C[0-9]+ -->/ {
    number = $0
    sub(/.*Condition C/, "", number)
    place = number
    sub(/ .*/, "", number)
    sub(/.*\(/, "", place)
    sub(/\).*/, "", place)
    split(place, at, ":")
    row[number] = at[1]
    column[number] = at[2]
}
counted && /C[0-9]+-Pair:/ {
    number = $0
    sub(/-Pair.*/, "", number)
    sub(/.*C/, "", number)
    shown = $0 ~ /-Pair: covered/
    # A constant condition has no pair and no text of interest.
    if ($0 ~ /constant folded/) next
    printf "%s\t%s\t%d\t%s\t%d%s\n", path, function_at(row[number]), row[number], \
        text_at(row[number], column[number]), shown, places ? "\t" decision "\t" number : ""
}
