#!/bin/bash
# SPDX-License-Identifier: MIT
# A name is found in one file (docs/contributing.md): lists
#   - static functions whose name stands in more than one file of the product; those that did when this
#     began are in names.shared, which may only lose lines;
#   - types that two headers define, which no file could include both.
# verifies house-14.a466
cd "$(dirname "$0")/../.." || exit 1
folders=(arena core layers optim device tools/formats tools/bedplate)
headers=(arena core layers optim tools/formats tools/bedplate) # those of device/ are chosen by instruction set
shared=$(mktemp)
trap 'rm -f "$shared"' EXIT
git ls-files -- "${folders[@]/%//*.c}" | xargs awk '
    /^static / { held = $0; sub(/__attribute__\(\([^)]*\)?\)\)? */, "", held) }
    held != "" && !/^static / { held = "" }
    held != "" && match(held, /[a-z_][a-z0-9_]*\(/) {
        name = substr(held, RSTART, RLENGTH - 1)
        if (held !~ /[=;]/ && !((name, FILENAME) in seen)) {
            seen[name, FILENAME] = 1
            count[name]++
        }
        held = ""
    }
    END { for (name in count) if (count[name] > 1) print name }' | LC_ALL=C sort >"$shared"
bad=$(
    LC_ALL=C comm -23 "$shared" tools/check/names.shared |
        sed 's/$/: a static function of this name stands in several files: say its subject/'
    LC_ALL=C comm -13 "$shared" tools/check/names.shared |
        sed 's/$/: stands in one file by now: take its line out of tools\/check\/names.shared/'
    git ls-files -- "${headers[@]/%//*.h}" | xargs sed -nE \
        's/^typedef .*\(\*([a-z_0-9]+)\)\(.*/\1/p; s/^\} ([a-z_0-9]+);$/\1/p; s/^typedef .*[ *]([a-z_0-9]+);$/\1/p' |
        LC_ALL=C sort | uniq -d | while read -r name; do
            [[ $(git grep -lE "^typedef (struct|union|enum) $name $name;" -- '*.h' | wc -l) -gt 0 ]] ||
                echo "$name: two headers define it"
        done
)
[[ -z $bad ]] && echo "$(wc -l <tools/check/names.shared) static names stand in several files" && exit 0
echo "$bad"
exit 1
