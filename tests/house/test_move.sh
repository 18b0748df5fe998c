#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/dev/move.py moves a file with every mention of it, refuses what it must, and leaves everything as it was
# when a step fails; tools/dev/same_code.sh sees code that changed; tools/check/folders.sh is able to fail.
root=$(cd "$(dirname "$0")/../.." && pwd)
for command in git python3; do
    command -v $command >/dev/null || { echo "skipped: no $command"; exit 77; }
done
tree=$(mktemp -d)
trap 'rm -rf "$tree" "$tree.bin"' EXIT
passed=0
failed=0
# check NAME CONDITION..: counts one check.
check() {
    local name=$1
    shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
cd "$tree" || exit 1
git init -q .
mkdir -p core/a core/b tests/assurance/requirements tests/unit/core/a docs tools
cp -r "$root/tools/check" tools
printf '#include "core/a/one.h"\nint one(void) { return 1; }\n' >core/a/one.c
printf 'int one(void);\n' >core/a/one.h
printf '#include "core/a/one.h"\nint two(void) { return one(); }\n' >core/b/two.c
printf 'int three;\n' >core/a/one_more.c
printf 'REQ a-1 test: The file core/a/one.c says one.\n  in core/a/one.c\n' >tests/assurance/requirements/a.req
digest=$(printf 'The file core/a/one.c says one.' | sha256sum | cut -c 1-4)
printf '/* verifies a-1.%s */\n' "$digest" >tests/unit/core/a/test_one.c
printf 'core/a/one.c:one why\ncore/a/one_more.c:three why\n' >tests/assurance/mcdc.justified
printf '[one](../core/a/one.c) and `core/a/one.h`\n' >docs/page.md
printf 'all: $(BUILD)/core/a/one.o build/x/core/a/one_f16.o core/a/one_more.o\n' >Makefile
git add -A && git commit -qm first
move() { "$root/tools/dev/move.py" "$@" >out 2>&1; rc=$?; text=$(cat out); rm -f out; return $rc; }
grown() { git status --porcelain; }

move core/a/one.c core/b/two.c
check "a target that exists is refused: $rc $text" test "$rc" -eq 2
check "and named" grep -q 'core/b/two.c: exists' <<<"$text"
move core/a/one.c ../one.c
check "a path outside the tree is refused: $text" test "$rc" -eq 2
move core/a/none.c core/b/none.c
check "what is not tracked is refused: $text" test "$rc" -eq 2
check "nothing has changed" test -z "$(grown)"
echo >>core/b/two.c
move core/a/one.c core/c/one.c
check "a tree with changes is refused: $text" test "$rc" -eq 2
git checkout -q core/b/two.c
# A step that fails: a file stands where a folder has to be made.
echo >blocked
git add blocked && git commit -qm blocked
move core/a/one.c blocked/one.c
check "a step that fails says so: $rc $text" test "$rc" -eq 1
check "and leaves everything as it was" test -z "$(grown)"
git rm -q blocked && git commit -qm free
for place in .git/one.c .git/hooks/post-commit core/.git/one.c; do
    move core/a/one.c $place
    check "a target in the repository is refused: $place: $rc $text" test "$rc" -eq 2
done
check "and is not there" test ! -e .git/one.c -a -f core/a/one.c
ln -s "${TMPDIR:-/tmp}" away && git add away && git commit -qm link
move core/a/one.c away/one.c
check "a target behind a link is refused: $rc $text" test "$rc" -eq 2
git rm -q away && git commit -qm unlink
# What is called for files that change fails, or a signal comes while it is at work.
mkdir "$tree.bin"
for step in 'exit 1' 'kill -TERM $PPID; exec tail -f /dev/null' 'kill -INT $PPID; exec tail -f /dev/null'; do
    printf '#!/bin/sh\n%s\n' "$step" >"$tree.bin/clang-format-14"
    chmod +x "$tree.bin/clang-format-14"
    PATH=$tree.bin:$PATH move core/a/one.h core/new/place/one.h
    check "a step that fails ($step): $rc $text" test "$rc" -eq 1
    check "everything is as it was ($step): $(grown)" test -z "$(grown)" -a ! -e core/new -a -f core/a/one.h
done
rm -r "$tree.bin"

printf 'core/a/one.c core/d/uno.c\ncore/a/one.h core/d/uno.h # with its header\n' >list
move --list list
rm -f list
check "a list is carried out: $rc $text" test "$rc" -eq 0
check "files are there" test -f core/d/uno.c -a -f core/d/uno.h -a ! -e core/a/one.c
check "includes" grep -q '"core/d/uno.h"' core/b/two.c
check "the moved file's own include" grep -q '"core/d/uno.h"' core/d/uno.c
check "objects in make" grep -q '^all: $(BUILD)/core/d/uno.o build/x/core/d/uno_f16.o core/a/one_more.o$' Makefile
check "links of pages" grep -q '^\[one\](../core/d/uno.c) and `core/d/uno.h`$' docs/page.md
check "justifications, sorted again" test "$(cut -d: -f1 tests/assurance/mcdc.justified | tr '\n' ' ')" = 'core/a/one_more.c core/d/uno.c '
check "requirements" grep -q '^  in core/d/uno.c$' tests/assurance/requirements/a.req
digest=$(printf 'The file core/d/uno.c says one.' | sha256sum | cut -c 1-4)
check "digests of sentences that name a path" grep -q "verifies a-1.$digest " tests/unit/core/a/test_one.c
git add -A && git commit -qm moved

# Equal code, and code that is not.
if command -v gcc >/dev/null; then
    build() { mkdir -p "$1/core/d" && gcc -c core/d/uno.c -I. -o "$1/core/d/uno.o"; }
    mkdir -p one two && build one && build two
    "$root/tools/dev/same_code.sh" one two >out
    check "equal objects: $(cat out)" grep -q '^1 objects equal, 0 differ, 0 alone$' out
    sed -i 's/return 1/return 7/' core/d/uno.c && build two
    "$root/tools/dev/same_code.sh" one two >out
    check "a changed constant is seen: $(cat out)" grep -q '^differs: core/d/uno.o -> core/d/uno.o: .text$' out
    rm -rf one two out
    git checkout -q .
fi

mkdir -p arena layers optim device
for folder in core/a core/b core/d docs tools tools/check; do echo "# $folder" >$folder/README.md; done
echo '# a line' >tools/check/budget
echo 100000 >>tools/check/budget
out=$(tools/check/folders.sh 2>&1)
check "folders that keep the rule: $out" test -z "$out"
rm core/b/README.md
check "a folder without a page" grep -q '^core/b: no README.md' <(tools/check/folders.sh)
echo "# core/b" >core/b/README.md
for n in {1..46}; do echo 'int a;' >core/b/f$n.c; done
check "a folder with too many files" grep -q '^core/b: 47 source files; at most 45' <(tools/check/folders.sh)
rm core/b/f*.c
echo 3 >tools/check/budget
check "more lines than the budget" grep -q 'tools/check/budget has 3' <(tools/check/folders.sh)

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
