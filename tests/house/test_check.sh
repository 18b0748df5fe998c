#!/bin/bash
# SPDX-License-Identifier: MIT
# The rules of the house are able to fail: each check of `make check` is shown a small tree that
# breaks its rule, and one that keeps it.
# verifies house-1.7e35 house-9.e56b
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
cp -r "$root/Makefile" "$root/.clang-format" "$tree"
mkdir -p "$tree"/{arena,core,layers,device/host,tools,tests} "$tree/core" "$tree/.ci"
cp -r "$root/tools/check" "$root/tools/pkg" "$tree/tools"
rm -f "$tree"/tools/{check,pkg}/README.md # their links lead out of the small tree
cp "$root/.ci/run" "$tree/.ci"
cd "$tree" || exit 1
export BUILD=build/release LIBOBJ=''

count() {
    if [[ $1 == yes ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$2"
    fi
}

# write FILE: a source file of that name with a proper head and standard input as its body.
write() {
    mkdir -p "$(dirname "$1")"
    { printf '/* SPDX-License-Identifier: MIT */\n/* What the file is for. */\n' && cat; } >"$1"
}

compile() {
    make -s all >make.log 2>&1 || { cat make.log; return 1; }
    LIBOBJ=$(find build/release/{arena,core,layers,device} -name '*.o' 2>/dev/null | tr '\n' ' ')
}

# refuses CHECK WORD FILE: with this body in FILE the check fails and says WORD.
refuses() {
    local out rc
    write "$3"
    case $1 in symbols | globals) compile ;; esac
    out=$("tools/check/$1.sh" 2>&1)
    rc=$?
    rm -f "$3"
    if [[ $rc -ne 0 && $rc -ne 77 && $out == *"$2"* ]]; then count yes; else
        count no "$1 should have refused $3 (exit $rc): $out"
    fi
}

write arena/good.h <<<'#ifndef GOOD_H
#define GOOD_H

int good(int a);

#endif'
write arena/good.c <<<'#include "arena/good.h"

static const char *const words[] = {"one", "two"};

int good(int a)
{
    return a + (words[0] != words[1]);
}'
compile
for check in format licence words pages prose includes directives length symbols globals recursion warnings; do
    out=$("tools/check/$check.sh" 2>&1)
    rc=$?
    if [[ $rc -eq 0 || $rc -eq 77 ]]; then count yes; else count no "$check refuses a good tree: $out"; fi
done

refuses includes 'layers may include' layers/a.c <<<'#include "optim/b.h"'
refuses includes 'arena may include' arena/a.c <<<'#include "core/b.h"'
refuses includes 'from the root' core/a.c <<<'#include "b.h"'
refuses includes 'stdio.h' core/a.c <<<'#include <stdio.h>'
refuses includes 'xxhash.h' layers/a.c <<<'#include <xxhash.h>'
refuses includes 'names no device' tools/bedplate/a.c <<<'#include "device/cuda/cuda.h"'
refuses includes 'only tests' tools/a.c <<<'#include "tests/fixtures/b.h"'
refuses json 'a.c:3: JSON by hand' core/a.c <<<'static const char a[] = "{\"b\": ";'
refuses json 'a.c:3: JSON by hand' core/a.c <<<'static const char a[] = ", \"b";'
refuses json 'a.c:3: JSON by hand' core/a.c <<<'static const char a[] = "{\"b\": %d}";'
refuses words 'TODO' core/a.c <<<'/* TODO: more */'
refuses words 'A Placeholder' core/a.c <<<'/* A Placeholder. */'
mkdir -p docs
printf '| word | what it means | where |\n|---|---|---|\n| good | a function | `arena/good.h` |\n' >docs/glossary.md
refuses glossary 'a former word; today: checkpoint' core/a.c <<<'int save_snapshot(void);'
refuses glossary 'a former word; today: ready' core/a.c <<<'int a(const b *c) { return c->due; }'
printf '| good | something else | |\n' >>docs/glossary.md
refuses glossary '"good" stands there more than once' core/a.c <<<'int a(void);'
printf '| word | what it means | where |\n|---|---|---|\n| bad | a function | |\n' >docs/glossary.md
refuses glossary '"bad" is used nowhere' core/a.c <<<'int a(void);'
rm -r docs
mkdir -p tools/formats/family
write tools/formats/family/family_a.c <<<'static const bp_row rows[] = {ROW_COUNT("num_wheels", STACK(wheels), 4, 2, NONE)};'
refuses family 'num_wheels' core/a.c <<<'/* From num_wheels on. */'
refuses family 'config->wheels' core/a.c <<<'int wheels(const bp_model_config *config) { return config->wheels; }'
refuses family 'family' core/a.c <<<'int a(const bp_model_config *config) { return config->family != 0; }'
rm -r tools/formats
refuses pages 'no such file: b.md' core/a.md <<<'See [b](b.md).'
refuses pages 'no such file: core/b.c' core/a.md <<<'It is in `core/b.c`.'
refuses pages 'no such heading: #b' core/a.md <<<'# A
See [b](#b).'
printf '# A one\n\n## The `b`, twice\n\n## The `b`, twice\n\nSee [a](a.md#a-one), [b](#the-b-twice-1).\n' >core/a.md
out=$(tools/check/pages.sh) && count yes || count no "pages refuses anchors that are there: $out"
rm core/a.md
: >tools/check/prose.ratchet # what this tree may still have is not the matter
refuses prose 'a.md:4: 31 words, at most 30' core/a.md <<<"
Short.
A $(printf 'word %.0s' {1..30})."
refuses prose 'core/a.md:4: 31 words' core/a.md <<<"
| a | $(printf 'word %.0s' {1..31}) |"
refuses prose '"hangs on": write: depends on' core/a.md <<<'That hangs
on it.'
refuses prose '"says": write:' core/a.md <<<'The program says so.'
mkdir -p docs
refuses prose 'docs/bedplate.1:6: "told": write:' docs/bedplate.1 <<<'.TP
\fB\-\-a\fR
(train)
What the program is told.'
write core/a.md <<<"
A $(printf 'word %.0s' {1..28}) \`a b\` 1. A
$(printf 'word %.0s' {1..29}).

    $(printf 'says %.0s' {1..40})

\`says\`"
out=$(tools/check/prose.sh) && count yes || count no "prose refuses sentences of 30 words, or code: $out"
echo '3 core/a.md' >>tools/check/prose.ratchet
out=$(tools/check/prose.sh) && count no "prose accepts a page on its ratchet that needs it no longer"
[[ $out == *'core/a.md: nothing to rewrite'* ]] && count yes || count no "prose: $out"
rm core/a.md
rmdir docs
refuses pages 'core/a.md:5: the row of the table has 3 cells, not 2' core/a.md <<<'| a | b |
|---|---|
| `c|d` | e |'
refuses pages 'at most 150' README.md < <(yes '' | head -200)
mkdir -p core/plan
refuses spec 'what 0 means' core/plan/spec.h <<<'
typedef struct bp_spec {
    /* Sequences; 1 to 9; 0 is refused. */
    int batch;
    /* Tokens; 10 to 20, 0.5 on average. */
    int sequence;
} bp_spec;'
refuses interface 'core/a.h is installed and includes core/b.h, which is not' core/a.h <<<'
/* Installed as part of <bedplate/base.h>. */
#include "core/b.h"'
refuses directives 'ifdef' core/a.c <<<'#ifdef __AVX2__
#endif'
refuses directives 'ifndef NDEBUG' core/a.h <<<'#ifndef A_H
#define A_H
#ifndef NDEBUG
#endif
#endif'
refuses length 'columns' core/a.c <<<"/* $(printf '%0100d' 0) */"
refuses length 'lines; at most 1500' core/a.c < <(yes '' | head -1600)
refuses length 'long_one has 70 lines' core/a.c < <(
    echo 'int long_one(int a)'
    echo '{'
    yes '    a++;' | head -70
    echo '}'
)

# parameters N: a list of that many.
parameters() {
    local list='int p1'
    for ((i = 2; i <= $1; i++)); do list+=", int p$i"; done
    printf '%s' "$list"
}
refuses length 'nine has 9 parameters; at most 8' core/a.c <<<"static int nine($(parameters 9))
{
    return p1;
}"
refuses length 'nine has 9 parameters' core/a.c <<<"static int nine(int (*p1)(int a, int b), int p0,
                $(parameters 8 | cut -d, -f2-))
{
    return p2;
}"
# CUDA obeys the same rules, but a kernel may have 16 parameters.
mkdir -p device/cuda/kernels
refuses length 'columns' device/cuda/kernels/a.cu <<<"/* $(printf '%0100d' 0) */"
refuses length 'lines; at most 1500' device/cuda/kernels/a.cuh < <(yes '' | head -1600)
refuses length 'long_one has 70 lines' device/cuda/kernels/a.cuh < <(
    echo 'BP_DEVICE void long_one(int a)'
    echo '{'
    yes '    a++;' | head -70
    echo '}'
)
refuses length 'nine has 9 parameters; at most 8' device/cuda/kernels/a.cuh <<<"BP_DEVICE void nine($(parameters 9))
{
}"
refuses length 'bp_many has 17 parameters; at most 16' device/cuda/kernels/a.cu <<<"BP_KERNEL bp_many($(parameters 17))
{
}"
write device/cuda/kernels/a.cu <<<"BP_KERNEL bp_many(int p1, int p2, int p3, int p4, int p5, int p6, int p7, int p8, int p9)
{
}"
out=$(tools/check/length.sh) && count yes || count no "length refuses a kernel of 9 parameters: $out"
write core/a.c <<<'static int eight(int (*p1)(int a, int b), int p2, int p3, int p4, int p5, int p6, int p7, int p8)
{
    return p1(p2, p3);
}'
out=$(tools/check/length.sh) && count yes || count no "length refuses 8 parameters: $out"
rm core/a.c device/cuda/kernels/a.cu
refuses symbols 'malloc' core/a.c <<<'#include <stdlib.h>
void *a(void);
void *a(void)
{
    return malloc(3);
}'
refuses symbols 'expf' core/a.c <<<'#include <math.h>
float a(float x);
float a(float x)
{
    return expf(x);
}'
refuses symbols 'pthread_create' core/a.c <<<'extern int pthread_create(void);
int a(void);
int a(void)
{
    return pthread_create();
}'
refuses globals 'counter' core/a.c <<<'int a(void);
int a(void)
{
    static int counter;
    return counter++;
}'
refuses recursion 'calls itself' core/a.c <<<'int a(int n);
int a(int n)
{
    return n < 2 ? 1 : n * a(n - 1);
}'
refuses recursion 'loop' core/a.c <<<'int a(int n);
static int b(int n)
{
    return a(n - 1);
}
int a(int n)
{
    return n < 2 ? 1 : n + b(n);
}'
# Objects that something remembered have no graph beside them: they are made anew, not taken for good.
write core/a.c <<<'int a(int n);
int a(int n)
{
    return n < 2 ? 1 : n * a(n - 1);
}'
env -u BUILD make -s VARIANT=unoptimised library >make.log 2>&1
find build/unoptimised -name '*.ci' -delete
out=$(tools/check/recursion.sh 2>&1)
rc=$?
if [[ $rc -eq 1 && $out == *'a calls itself'* ]]; then count yes; else count no "recursion without graphs: exit $rc: $out"; fi
# A call that the optimiser makes a loop of is a call.
refuses recursion 'calls itself' device/host/a.c <<<'int a(int n, int sum);
int a(int n, int sum)
{
    return n < 1 ? sum : a(n - 1, sum + n);
}'
rm -f core/a.c
if command -v clang >/dev/null; then
    # gcc has nothing against this one.
    refuses warnings 'self-assign' core/a.c <<<'int a(int n);
int a(int n)
{
    n = n;
    return n;
}'
fi
if command -v clang-format-14 >/dev/null; then
    refuses format 'core/a.c' core/a.c <<<'int  a;'
    refuses format 'device/cuda/kernels/a.cu' device/cuda/kernels/a.cu <<<'BP_KERNEL bp_a(int  a)
{
}'
    refuses format 'device/cuda/kernels/a.cuh' device/cuda/kernels/a.cuh <<<'#define A  1'
fi
echo 'int b;' >core/b.c
out=$(tools/check/licence.sh) && count no "licence accepts a file without one"
[[ $out == *core/b.c* ]] && count yes
rm core/b.c

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
