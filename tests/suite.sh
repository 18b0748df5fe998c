#!/bin/bash
# SPDX-License-Identifier: MIT
# suite.sh SUITE "USED.." TEST.o..: prepares the objects of a folder's tests to be linked into one program with
# tests/suite.c: leaves copies of them and a table of their mains in SUITE.parts, whose `list` names them for the
# linker. A copy's main is called as the test, its calls of cmocka's runner go to the suite's, and what else it
# defines is its own: tests may include the same source. CC makes the table.
#
# A test that defines what others use as well (USED: the library, the support of tests, the system's calls in them)
# puts itself in its place for the whole program. Such a test, or one that starts itself anew, says in its head
# `A program of its own (tests/suite.sh)`, and is linked alone.
suite=$1
used=$2
shift 2
parts=$suite.parts
rm -rf "$parts" && mkdir -p "$parts" || exit 1
names=()
others=()
for object in "$@"; do
    name=${object##*/}
    name=${name%.o}
    names+=("$name")
    others=("--redefine-sym=main=$name" --redefine-sym=_cmocka_run_group_tests=suite_run_group)
    while read -r symbol; do
        if [[ -z ${known:-} ]]; then
            # shellcheck disable=SC2086
            known=$'\n'$(nm -gP $used 2>/dev/null | cut -d ' ' -f 1 | sort -u)$'\n'
        fi
        if [[ $known == *$'\n'"$symbol"$'\n'* ]]; then
            echo "$name.c defines $symbol, which others call: say that it is" \
                "\"A program of its own (tests/suite.sh)\"" >&2
            exit 1
        fi
        others+=("--localize-symbol=$symbol")
    done < <(nm -g --defined-only -P "$object" | awk '$1 != "main" && $2 ~ /[TDBRC]/ { print $1 }')
    objcopy "${others[@]}" "$object" "$parts/$name.o" || exit 1
done
{
    echo '#include "tests/suite.h"'
    printf 'int %s(void);\n' "${names[@]}"
    echo 'const suite_test suite_tests[] = {'
    printf '    {"%s", %s},\n' $(for name in "${names[@]}"; do echo "$name $name"; done)
    echo '};'
    echo 'const size_t suite_count = sizeof suite_tests / sizeof suite_tests[0];'
} >"$parts/table.c"
${CC:-cc} -std=c99 -I. -c "$parts/table.c" -o "$parts/table.o" || exit 1
printf '%s\n' "$parts"/*.o >"$parts/list"
