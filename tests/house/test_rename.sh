#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/dev/rename.py on a small tree: every form of a rule, what follows from a change, and that what cannot be
# done leaves the tree as it was.
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
count() { # RC NAME
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
    fi
}
command -v clang-format-14 >/dev/null || { echo "clang-format-14 is not installed: 0 passed, 0 failed"; exit 0; }
cd "$tree" || exit 1
git init -q . && git config user.name t && git config user.email t@example.org
cp "$root/.clang-format" .
mkdir -p core tests/assurance/requirements tests/golden docs
cat >core/place.h <<'END'
/* The place of a lane. */
int bp_lane_count(int lane);
END
cat >core/place.c <<'END'
/* What a lane is; several lanes
 * of a step are added. */
#include "core/place.h"

static const char message[] = "there are no lanes "
                              "of a step here; lane is another word";

int bp_lane_count(int lane)
{
    const char *lanes = message; /* lanes and lane */
    return lanes[0] + lane + put("lanes", 2) + option_given(set, "lanes");
}
END
cat >core/options.c <<'END'
/* Options. */
static const option table[] = {{"lanes", OPTION_COUNT}};
END
sentence='A step of several lanes has one sum.'
digest=$(printf %s "$sentence" | sha256sum | cut -c1-4)
printf 'REQ core-1 test: %s\n  in core/place.c\n' "$sentence" >tests/assurance/requirements/core.req
printf '# verifies core-1.%s\nrun --lanes 2 --lanes-x; json lanes; bp_lane_counter\n' "$digest" >tests/test_a.sh
printf '# FILE\ncore/place.c:a\ncore/zebra.c:b\n' >tests/assurance/mcdc.justified
printf '[place](../core/place.h) says `lanes`, `core/place.c`, lanes.\n' >docs/a.md
printf '{"lanes": 1}\n' >tests/golden/a.json
git add -A && git commit -qm one
before=$(git rev-parse HEAD)

rename() {
    out=$(python3 "$root/tools/dev/rename.py" "$@" 2>&1)
    rc=$?
}
whole() { [[ $(git rev-parse HEAD) == "$before" && -z $(git status --porcelain) ]]; }
refuses() { # PATTERN SPEC
    printf '%s\n' "$2" >"$tree/.git/spec"
    rename --apply .git/spec
    [[ $rc -eq 2 && $out == *$1* ]] && whole
    count $? "refused: $2 ($rc): $out"
}
refuses 'no rule' 'rename a b'
refuses 'no rule' 'id a'
refuses 'nothing to change' 'id nowhere somewhere'
refuses 'exists, in core/place' 'code lane message'
refuses 'not a tracked file' 'file core/none.c core/some.c'
refuses 'exists; core/place.c cannot' 'file core/place.c core/place.h'
refuses 'outside the tree' 'file core/place.c ../place.c'
refuses 'expected in or not' 'id a b c'
echo x >>core/place.c
printf 'id lane rank\n' >.git/spec
rename --apply .git/spec
[[ $rc -eq 2 && $out == *'not committed'* ]]
count $? "a dirty tree is refused: $out"
git checkout -q core/place.c

cat >.git/spec <<'END'
id bp_lane_count bp_rank_count
code lanes ranks
text "lanes of a step" "virtual ranks"
text "several lanes" "several virtual ranks" not docs/*
option lanes virtual-ranks
field lanes virtual_ranks
re /verifies (core)/ /verifies \1/
file core/place.c core/alone.c
END
rename .git/spec
[[ $rc -eq 0 && $out == *core/alone.c* ]] && whole
count $? "without --apply nothing is changed: $out"
rename --apply .git/spec
count $rc "the spec is applied: $out"
has() { # FILE WORDS..
    local file=$1
    shift
    grep -qF -- "$*" "$file"
    count $? "$file has $*: $(cat "$file" 2>&1)"
}
has core/place.h 'int bp_rank_count(int lane);'
has core/alone.c '/* What a lane is; several virtual'
has core/alone.c ' * ranks are added. */'
has core/alone.c 'const char *ranks = message; /* lanes and lane */'
has core/alone.c 'lane is another word'
has core/alone.c 'option_given(set, "virtual-ranks")'
has core/alone.c 'put("virtual_ranks", 2)'
tr -d '\n"' <core/alone.c | tr -s ' ' | grep -qF 'there are no virtual ranks here'
count $? "words in two halves of a literal: $(cat core/alone.c)"
has core/options.c '{"virtual-ranks", OPTION_COUNT}'
has tests/test_a.sh 'run --virtual-ranks 2 --lanes-x; json virtual_ranks; bp_lane_counter'
has docs/a.md '[place](../core/place.h) says `virtual_ranks`, `core/alone.c`, lanes.'
has tests/golden/a.json '{"lanes": 1}'
digest=$(printf %s "A step of several virtual ranks has one sum." | sha256sum | cut -c1-4)
has tests/test_a.sh "# verifies core-1.$digest"
[[ $(sed -n 2p tests/assurance/mcdc.justified) == core/alone.c:a && ! -e core/place.c ]]
count $? "files are moved and lists sorted"
clang-format-14 --dry-run -Werror core/*.c
count $? "C is as clang-format makes it"

# The same spec in another branch, which has something more and lacks something.
git add -A && git commit -qm renamed && git tag renamed
git checkout -q -b other "$before"
echo 'int other(int lanes);' >core/other.h
git rm -q core/options.c
printf '\nint more(int lanes)\n{\n    return lanes;\n}\n' >>core/place.c
git add -A && git commit -qm other
before=$(git rev-parse HEAD)
echo 'id nowhere somewhere' >>.git/spec
rename --apply .git/spec
[[ $rc -eq 2 ]] && whole
count $? "a name that is nowhere is refused: $out"
rename --apply --again .git/spec
count $rc "and passed over with --again: $out"
has core/other.h 'int other(int ranks);'
git add -A && git commit -qm again && git diff --quiet renamed -- tests docs core/place.h
count $? "the same spec gives the same result"

# A step that fails: a folder stands where a file is to be written.
git checkout -q renamed
before=$(git rev-parse HEAD)
mkdir "$tree/bin" && printf '#!/bin/sh\nexit 1\n' >"$tree/bin/clang-format-14" && chmod +x "$tree/bin/clang-format-14"
echo bin >>.git/info/exclude
printf 'id bp_rank_count bp_lane_count\n' >.git/spec
PATH=$tree/bin:$PATH rename --apply .git/spec
[[ $rc -eq 1 && $out == *'as it was'* ]] && whole
count $? "a step that fails leaves the tree as it was: $out"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
