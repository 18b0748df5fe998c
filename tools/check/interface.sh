#!/bin/bash
# SPDX-License-Identifier: MIT
# The public interface is what docs/library.md says, no more and no less:
#   - the headers that make install puts down are those of its table;
#   - every function and object that they declare is in the library, and named in the page in
#     backticks (bp_model_* and the like stand for all of a kind); every name there is declared;
#   - every function of them has a row in the test that calls it in every wrong state;
#   - the integrator's example needs nothing else.
# verifies house-7.c2ba
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
bad=$(
    tools/pkg/headers.sh "$made" 2>&1 || exit
    (cd "$made" && echo bedplate.h && ls bedplate/*.h) | LC_ALL=C sort >"$made/headers"
    sed -nE 's/^\| `<(bedplate[a-z\/]*\.h)>`.*/\1/p' docs/library.md | LC_ALL=C sort |
        diff "$made/headers" - | sed -n 's/^</docs\/library.md says nothing of /p; s/^>/not installed: /p'

    # Declarations are what ends with a semicolon outside of braces and is no type or static function.
    cat "$made"/bedplate/*.h | sed -e ':a' -e '/\\$/{N; s/\\\n//; ba' -e '}' | sed '/^#ifdef __cplusplus/,/^#endif/d; /^ *#/d' | "${CC:-cc}" -E -P -x c - 2>/dev/null | tr '\n' ' ' | awk '{
        depth = 0; statement = ""
        for (i = 1; i <= length($0); i++) {
            c = substr($0, i, 1)
            if (c == "{") { if (depth++ == 0) statement = statement "{" }
            else if (c == "}") { if (--depth == 0 && statement ~ /static inline/) statement = "" }
            else if (depth > 0) continue
            else if (c == ";") { print statement; statement = "" }
            else statement = statement c
        }
    }' | grep -vE '^ *(typedef|struct|enum|union) [^(]*\{|^ *typedef|^ *(struct|enum|union) bp_[a-z_]+ *$' |
        sed -nE 's/^ *extern .*[ *](bp_[a-z0-9_]+)(\[.*)?$/object \1/p; t; s/^[^(]*[ *](bp_[a-z0-9_]+)\(.*/function \1/p' |
        LC_ALL=C sort -u >"$made/kinds_declared"
    cut -d' ' -f2 "$made/kinds_declared" | LC_ALL=C sort -u >"$made/declared"
    sed -n 's/^function //p' "$made/kinds_declared" >"$made/functions"
    grep -ohE '"bp_[a-z0-9_]+"' tests/unit/core/run/test_states.c | tr -d '"' | LC_ALL=C sort >"$made/rows"
    LC_ALL=C comm -3 "$made/functions" "$made/rows" | tr -d '\t' |
        sed 's/$/: has no row in tests\/unit\/core\/run\/test_states.c, or a row and is not public/'
    nm --defined-only -P "$BUILD/libbedplate.a" 2>/dev/null | awk '$2 ~ /[A-Z]/ { print $1 }' |
        LC_ALL=C sort -u >"$made/defined"
    grep -v '^bp_' "$made/defined" | grep '^[a-z]' | sed 's/^/in the library, and not bp_: /'
    LC_ALL=C comm -23 "$made/declared" "$made/defined" | sed 's/^/declared, and not in the library: /'
    [[ $(wc -l <"$made/declared") -gt 50 ]] || echo "too few declarations were found"

    grep -oE '`bp_[a-z0-9_*]+`' docs/library.md | tr -d '`' | LC_ALL=C sort -u >"$made/named"
    grep -F '*' "$made/named" | sed 's/\*/[a-z0-9_]+/' >"$made/kinds"
    grep -oE '\bbp_[a-z0-9_]+' "$made"/bedplate/*.h -h | LC_ALL=C sort -u >"$made/words"
    grep -vxEf "$made/kinds" "$made/declared" | LC_ALL=C comm -23 - "$made/named" |
        sed 's/^/docs\/library.md does not name /'
    grep -v '\*' "$made/named" | LC_ALL=C comm -23 - "$made/words" | sed 's/^/no longer public: /'

    grep -rlE --include='*.h' '^extern const bp_(model|optimizer|device) ' layers optim device |
        xargs grep -LE '^/\* Installed as part of' |
        sed 's/$/: a model, an update rule or a device is public: say where it is installed/'

    example=$BUILD/tools/embed/embed.o
    [[ -f $example ]] || echo "there is no $example: run make check"
    nm -u -P "$example" | awk '$1 ~ /^bp_/ { print $1 }' | LC_ALL=C sort |
        LC_ALL=C comm -23 - "$made/declared" | sed 's/^/the example needs what is not public: /'
)
[[ -z $bad ]] && exit 0
echo "$bad"
exit 1
