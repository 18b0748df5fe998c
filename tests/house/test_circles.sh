#!/bin/bash
# SPDX-License-Identifier: MIT
# Objects of the library that call each other in a circle are few: at most 5. What is listed in a table calls nothing of
# the file that has the table. With --largest only the size of the largest circle is printed (tools/bench/house.sh).
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build/release}
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
most=5
passed=0
failed=0

# Of lines OBJECT: [ADDRESS] KIND SYMBOL, as nm -A writes them, the circles above $most: their objects.
circles() {
    python3 -c '
import sys
home, needs = {}, {}
for line in sys.stdin:
    words = line.split()
    object, kind, symbol = words[0].split(":")[0], words[-2], words[-1]
    if kind == "U":
        needs.setdefault(object, set()).add(symbol)
    elif kind in "TDRBVW":
        home[symbol] = object
calls = {o: {home[s] for s in names if s in home} - {o} for o, names in needs.items()}

def reached(object):
    seen, left = set(), [object]
    while left:
        for other in calls.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen

all_of = {o: reached(o) for o in calls}
for o in sorted(calls):
    circle = sorted(p for p in all_of[o] if o in all_of.get(p, ()))
    if len(circle) > int(sys.argv[1]) and circle[0] == o:
        print(len(circle), "objects:", *circle)
' "$most"
}
expect() { # WHAT WANTED FOUND
    if [[ $3 == "$2" ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf '%s: found %s, expected %s\n' "$1" "$3" "$2"
    fi
}
ring() { # COUNT: objects of which each calls the next one
    for ((i = 0; i < $1; i++)); do
        printf 'x%d.o: 0 T f%d\nx%d.o: U f%d\n' "$i" "$i" "$i" $(((i + 1) % $1))
    done
}
objects=$(find "$build"/{arena,core,layers,optim,device} -name '*.o')
if [[ $1 == --largest ]]; then
    most=1
    # shellcheck disable=SC2086
    nm -A $objects 2>/dev/null | circles | sort -n | awk 'END { print NR ? $1 : 1 }'
    exit
fi
expect "a ring of 5" "" "$(ring 5 | circles)"
expect "a ring of 6" "6 objects: x0.o x1.o x2.o x3.o x4.o x5.o" "$(ring 6 | circles)"
[[ $(wc -l <<<"$objects") -gt 300 ]]
expect "objects of the library" 0 $?
# shellcheck disable=SC2086
expect "circles" "" "$(nm -A $objects 2>/dev/null | circles)"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
