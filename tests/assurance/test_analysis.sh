#!/bin/bash
# SPDX-License-Identifier: MIT
# The analyses can fail: each is shown a small tree with what it has to find, and one without. (make analysis
# runs them over this tree.)
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/assurance
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What remembers the answers of a compiler leaves out its call graph.
export CCACHE_DISABLE=1
passed=0
failed=0
count() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
        head -20 <<<"${3:-}"
    fi
}

# verifies house-11.a2ff
# A table whose row has a large frame; a second table of the same types with a larger one.
mkdir -p "$work/tree/arena" "$work/tree/core" "$work/lists" "$work/types"
cat >"$work/tree/arena/table.h" <<'C'
typedef struct table {
    int (*act)(int *at, int n);
    int (*rest)(int *at, int n);
} table;
typedef int other(double x);
C
cat >"$work/tree/arena/rows.c" <<'C'
#include "arena/table.h"
int use(int *at);
static int small(int *at, int n)
{
    int here[8] = {n};
    return use(here) + *at;
}
static int large(int *at, int n)
{
    int here[1000] = {n};
    return use(here) + *at;
}
static int alone(double x)
{
    int here[5000] = {(int)x};
    return use(here);
}
const table rows = {.act = small, .rest = large};
other *const others[] = {alone};
C
cat >"$work/tree/core/call.c" <<'C'
#include "arena/table.h"
int call(const table *t, int *at);
int call(const table *t, int *at)
{
    return t->act(at, 1) + 1;
}
C
bound() { # LIMIT [LOOPS]: of that tree, in $out and $rc
    echo "$1" >"$work/lists/stack.limit"
    printf '%s\n' "${2:-}" >"$work/lists/stack.loops"
    rm -rf "$work/stack" && mkdir -p "$work/stack/arena" "$work/stack/core"
    (
        cd "$work/tree" || exit 1
        for f in arena/rows core/call; do
            gcc -O1 -I. -fcallgraph-info=su -c $f.c -o "$work/stack/$f.o" && gcc -I. -fsyntax-only -aux-info "$work/types/${f//\//_}" $f.c
        done
        STACK_LISTS=$work/lists python3 "$here/stack.py" "$work/stack" "$work/types"
    ) >"$work/out" 2>&1
    rc=$?
    out=$(cat "$work/out")
}
bytes() { sed -nE 's/^bound ([0-9]+) bytes.*/\1/p' <<<"$out"; }
chain() { sed -n '/^the deepest chain:/,/^the largest/p' <<<"$out"; }
# The chain from call() is what counts; alone() is deeper by itself, so it is taken away first.
sed -i 's/here\[5000\]/here[5]/' "$work/tree/arena/rows.c"
bound 6000
[[ $rc -eq 0 && $(bytes) -gt 4000 && $(bytes) -lt 4200 && $(chain) != *call* ]]
count $? "a member is what initialisers put there: call reaches small only" "$out"
sed -i 's/\.act = small, \.rest = large/.act = large, .rest = small/' "$work/tree/arena/rows.c"
bound 6000
[[ $rc -eq 0 && $(chain) == *call*large* ]]
count $? "a call through a table is in the chain" "$out"
sed -i 's/\.act = large, \.rest = small/small, large/' "$work/tree/arena/rows.c"
bound 6000
[[ $rc -eq 0 && $(chain) == *call*large* ]]
count $? "without names all functions of its type are" "$out"
bound 4000
[[ $rc -eq 1 && $out == *"FAILED: the bound is above the declared 4000 bytes"* ]]
count $? "a bound above the declared one" "$out"
sed -i 's/return use(here) + \*at;/return call(0, here) + *at;/; s/int use(int \*at);/int use(int *at); int call(const table *t, int *at);/' "$work/tree/arena/rows.c"
bound 20000
[[ $rc -eq 1 && $out == *"LOOP "* && $out == *"FAILED: chains that call themselves"* ]]
count $? "a chain that calls itself through a table" "$out"
bound 20000 'call small told
call large told'
[[ $rc -eq 0 ]]
count $? "unless it is said why it ends" "$out"

# verifies house-12.a179
coupling() { # COUNT [JUSTIFIED]: of a tree whose call was run so often
    rm -rf "$work/own" && mkdir -p "$work/own/tests/assurance/requirements" "$work/own/arena" "$work/own/core"
    printf '%s\n' 'typedef struct table {' '    int (*act)(int n);' '    int (*rest)(void (*each)(int), int n);' '} table;' >"$work/own/arena/table.h"
    printf '%s\n' '#include "arena/table.h"' 'int call(const table *t)' '{' '    return t->act(1) + t->rest(0, 1);' '}' >"$work/own/core/call.c"
    printf '%s\n' 'REQ one-1 test: One.' '  in core/call.c' >"$work/own/tests/assurance/requirements/one.req"
    printf '%s\n' "${2:-}" >"$work/own/tests/assurance/coupling.justified"
    printf '%s\n' "$work/own/core/call.c:" "    4|      $1|    return t->act(1) + t->rest(0, 1);" >"$work/mcdc.txt"
    out=$(TRACING_ROOT=$work/own python3 "$here/coupling.py" "$work/mcdc.txt" 2>&1)
    rc=$?
}
coupling 3
[[ $rc -eq 0 && $out == *$'table\tact\tarena/table.h:2\t1\tyes\tone-1'* && $out == *"2 slots, 0 not shown called" ]]
count $? "slots that are called, and a parameter that is none" "$out"
coupling 0
[[ $rc -eq 1 && $out == *"FAILED: table.act (arena/table.h:2) is never called"* && $out == *"2 slots, 2 not shown called" ]]
count $? "slots that are not" "$out"
coupling 0 'table.act somebody
table.rest somebody else'
[[ $rc -eq 0 && $out == *"no: somebody"* ]]
count $? "unless it is said who calls them" "$out"
coupling 3 'table.act somebody'
[[ $rc -eq 1 && $out == *"table.act is called by now"* ]]
count $? "which must not be said of one that is" "$out"

# verifies house-13.35bc
static() { # VERSION FINDINGS..: one line each
    printf '%s\n' "${@:2}" | sed 's/$/\tcore\/a.c:1/' >"$work/findings"
    out=$("$here/static.sh" "$1" "$work/findings" "$work/counts" "$work/deviations" 2>&1)
    rc=$?
}
printf '%s\n' '# version tool 1' '2 rule-1' '1 rule-2' >"$work/counts"
printf 'rule-%s\tall\twhy\tnone\n' 1 2 >"$work/deviations"
static 'tool 1' rule-1 rule-1 rule-2
[[ $rc -eq 0 && $out == *"3 findings" ]]
count $? "as many as allowed" "$out"
static 'tool 1' rule-1 rule-1 rule-2 rule-2
[[ $rc -eq 1 && $out == *"FAILED: rule-2: 2 findings, allowed are 1"* ]]
count $? "one more" "$out"
static 'tool 1' rule-1
[[ $rc -eq 0 && $out == *"fewer: rule-1: 1 findings"* ]]
count $? "one less is told" "$out"
static 'tool 2' rule-1 rule-2 rule-2
[[ $rc -eq 0 && $out == *"more: rule-2"* && $out == *"made by tool 1, not by tool 2" ]]
count $? "another version of the tool" "$out"
echo '1 rule-3' >>"$work/counts"
static 'tool 1' rule-3
[[ $rc -eq 1 && $out == *"FAILED: rule-3: no line of static.deviations"* ]]
count $? "a rule without a deviation" "$out"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
