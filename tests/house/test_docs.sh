#!/bin/bash
# SPDX-License-Identifier: MIT
# Numbers in pages that a command gives again are what it gives:
#   - tables with a column `arena, bytes`, whose first cells are options of `bedplate plan`; a line
#     "`bedplate plan OPTIONS` and:" above the table says what they have in common, "the same and" those
#     of the last row without these words;
#   - indented lines `$ bedplate ARGUMENTS` with what is printed below them; `...` leaves lines out.
# verifies face-16.b1e7 face-6.0806
cd "$(dirname "$0")/../.." || exit 1
program=${BUILD:-build/release}/bedplate
passed=0
failed=0
verdict() { # RC MESSAGE
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}

plan_row() { # PAGE OPTIONS BYTES
    local found words
    # A word in single quotes is one argument, as in a shell.
    mapfile -t words < <(xargs -n1 <<<"$2")
    found=$("$program" plan "${words[@]}" --json 2>&1 | grep -oE '"arena_bytes": ?[0-9]+' | head -1 | grep -oE '[0-9]+')
    [[ $found == "${3//,/}" ]]
    verdict $? "$1: plan $2: $3 bytes on the page, the plan has ${found:-none}"
}

rows=0
# A plan with a file of offload takes two seconds, a hundred times the others: in the short form one of each page.
whole=${BP_TEST_LONG:-}${BP_TEST_WHOLE:-} offloads=''
while IFS=$'\t' read -r page options bytes; do
    rows=$((rows + 1))
    if [[ $options == *'--offload '* && -z $whole ]]; then
        [[ $offloads != *" $page "* ]] || continue
        offloads+=" $page "
    fi
    plan_row "$page" "$options" "$bytes"
done < <(awk -F'|' '
    FNR == 1 { common = ""; table = 0 }
    /^`bedplate plan .*` and:$/ { common = $0; sub(/^`bedplate plan */, "", common); sub(/` and:$/, "", common) }
    /^\|/ && /arena, bytes/ { table = 1; next }
    !/^\|/ { if (table) common = ""; table = 0 }
    table && $2 ~ /`--/ {
        more = $2; gsub(/^ *(the same and )?`|` *$/, "", more); gsub(/ /, "", $3)
        options = $2 ~ /^ *the same and / ? whole " " more : more
        if ($2 !~ /^ *the same and /) whole = more
        print FILENAME "\t" common " " options "\t" $3
    }' README.md docs/*.md docs/*/*.md)
[[ $rows -ge 14 ]]
verdict $? "only $rows rows of plans were found"

# What a command prints, against what stands below it.
sample() { # PAGE COMMAND EXPECTED
    local words printed
    mapfile -t words < <(xargs -n1 <<<"${2#bedplate }")
    printed=$("$program" "${words[@]}" 2>&1)
    awk -v expected="$3" '
        BEGIN { n = split(expected, want, "\n"); at = 1 }
        at <= n && want[at] == "..." { at++; loose = 1 }
        at <= n && $0 == want[at] { at++; loose = 0; next }
        at <= n && !loose { exit }
        END { while (at <= n && (want[at] == "" || want[at] == "...")) at++; exit at <= n }' <<<"$printed"
    verdict $? "$1: \$ $2: prints something else than the page says"
}
samples=0
while IFS= read -r -d $'\x1e' entry; do
    IFS=$'\x1f' read -r -d '' page command expected <<<"$entry"
    sample "$page" "$command" "${expected%$'\n'}"
    samples=$((samples + 1))
done < <(awk '
    function flush() { if (command != "") printf "%s\x1f%s\x1f%s\x1e", page, command, text; command = "" }
    FNR == 1 { flush() }
    /^    \$ bedplate / { flush(); page = FILENAME; command = substr($0, 7); text = ""; next }
    command != "" && /^    / { text = text substr($0, 5) "\n"; next }
    command != "" && /^$/ { text = text "\n"; next }
    { flush() }
    END { flush() }' README.md docs/*.md docs/*/*.md)
[[ $samples -ge 1 ]]
verdict $? "no sample was found"

# Hopper's tiles by the model of waves: the page has what the table says.
while read -r line; do
    grep -qxF "    $line" docs/figures/gpu.md
    verdict $? "docs/figures/gpu.md has not: $line"
done < <(tools/bench/hopper_tiles.py)

# The first fine-tune of the README, line by line, on a small model with room for its tokens; in the short form
# tests/cli/runs/test_first.sh has these lines for a model of this family.
if [[ -z $whole ]]; then
    echo "$passed passed, $failed failed"
    [[ $failed -eq 0 ]]
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
program=$(realpath "$program")
mkdir "$work/config"
echo '{"model_type": "gpt2", "vocab_size": 257, "n_positions": 512, "n_embd": 32, "n_layer": 2,
    "n_head": 2}' >"$work/config/config.json"
yes 'In what distant deeps or skies, burnt the fire of thine eyes?' | head -c 20000 >"$work/my.txt"
mapfile -t lines < <(sed -n '/^## A first fine-tune/,/^## Two/s/^    bedplate //p' README.md)
cd "$work" || exit 1
"$program" train --model config --data my.txt --max-steps 0 --output-dir DIR >/dev/null 2>&1
verdict $? "no model for the first fine-tune"
[[ ${#lines[@]} -eq 5 ]]
verdict $? "README.md: the first fine-tune has ${#lines[@]} lines"
for line in "${lines[@]}"; do
    eval "\"$program\" $line" >output 2>&1
    verdict $? "README.md: bedplate $line: $(tail -1 output)"
done
[[ -f tuned/adapter_model.safetensors && -f merged/model.safetensors ]]
verdict $? "README.md: the first fine-tune leaves no adapter, or no merged model"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
