#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/dev/group_members.py: members go into structs inside, where a group may have the name of a member; uses follow.
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" && cd "$work/tree" || exit 1
passed=0
failed=0
count() {
    if eval "$2"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$1"
    fi
}
cat >s.h <<'END'
typedef struct s {
    /* Sequences. */
    int batch;
    int sequence; /* tokens */
    double x;
} s;
END
cat >a.c <<'END'
#include <stddef.h>
#include "s.h"
int f(const s *p) { return p->batch * p->sequence + (int)p->x; }
s g(void) { return (s){.batch = 2, .sequence = 3, .x = 1}; }
size_t h(void) { return offsetof(s, sequence); }
END
echo 'batch s_batch batch=sequences sequence' >map
group() { python3 "$root/tools/dev/group_members.py" s.h s map gcc -c a.c -o ../a.o 2>../error; }
git init -q . && git add -A
group
count 'a tree with changes is refused' '[[ $? -eq 2 ]] && grep -q uncommitted ../error'
git -c user.email=a@b -c user.name=a commit -qm first
group
count 'all uses are mended' '[[ $? -eq 0 && ! -s ../error ]]'
count 'a group with the comments' 'grep -A3 "struct s_batch" s.h | grep -q "int sequences;" && grep -q "/\* Sequences. \*/" s.h'
count 'members of members' 'grep -q "p->batch.sequences \* p->batch.sequence +" a.c'
count 'designators' 'grep -q "{.batch.sequences = 2, .batch.sequence = 3, .x = 1}" a.c && grep -q "(s, batch.sequence)" a.c'
git -c user.email=a@b -c user.name=a commit -qam second
echo 'other s_other nothing' >map
git -c user.email=a@b -c user.name=a commit -qam third
group
count 'a member that is not there is refused' '[[ $? -eq 2 ]] && grep -q "no member nothing" ../error'
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
