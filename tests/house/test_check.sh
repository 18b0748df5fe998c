#!/bin/bash
# SPDX-License-Identifier: MIT
# The rules of the house are able to fail: each check of `make check` is shown a small tree that
# breaks its rule, and one that keeps it.
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
cp -r "$root/Makefile" "$root/.clang-format" "$tree"
mkdir -p "$tree"/{arena,core,layers,device/host,tools,tests} "$tree/core" "$tree/.ci"
cp -r "$root/tools/check" "$root/tools/pkg" "$tree/tools"
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
for check in format licence words pages includes directives length symbols globals recursion warnings; do
    out=$("tools/check/$check.sh" 2>&1)
    rc=$?
    if [[ $rc -eq 0 || $rc -eq 77 ]]; then count yes; else count no "$check refuses a good tree: $out"; fi
done

refuses includes 'layers may include' layers/a.c <<<'#include "optim/b.h"'
refuses includes 'arena may include' arena/a.c <<<'#include "core/b.h"'
refuses includes 'from the root' core/a.c <<<'#include "b.h"'
refuses includes 'stdio.h' core/a.c <<<'#include <stdio.h>'
refuses includes 'xxhash.h' layers/a.c <<<'#include <xxhash.h>'
refuses includes 'only tests' tools/a.c <<<'#include "tests/support/b.h"'
refuses words 'TODO' core/a.c <<<'/* TODO: more */'
refuses words 'A Placeholder' core/a.c <<<'/* A Placeholder. */'
refuses pages 'no such file: b.md' core/a.md <<<'See [b](b.md).'
refuses pages 'no such file: core/b.c' core/a.md <<<'It is in `core/b.c`.'
refuses pages 'at most 150' README.md < <(yes '' | head -200)
refuses directives 'ifdef' core/a.c <<<'#ifdef __AVX2__
#endif'
refuses directives 'ifndef NDEBUG' core/a.h <<<'#ifndef A_H
#define A_H
#ifndef NDEBUG
#endif
#endif'
refuses length 'columns' core/a.c <<<"/* $(printf '%0100d' 0) */"
refuses length 'lines; at most 600' core/a.c < <(yes '' | head -700)
refuses length 'long_one has 70 lines' core/a.c < <(
    echo 'int long_one(int a)'
    echo '{'
    yes '    a++;' | head -70
    echo '}'
)
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
fi
echo 'int b;' >core/b.c
out=$(tools/check/licence.sh) && count no "licence accepts a file without one"
[[ $out == *core/b.c* ]] && count yes
rm core/b.c

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
