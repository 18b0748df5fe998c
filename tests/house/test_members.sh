#!/bin/bash
# SPDX-License-Identifier: MIT
# The archives have the objects of the list that the build is asked for now, also where no object is newer: a file that is
# gone leaves them, and what was left out for a while (aarch64-short) comes back.
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
mkdir -p "$tree"/{arena,core,layers,optim,device/host,tools/formats,tools/bedplate} "$tree/core/base"
cp "$root/Makefile" "$tree"
cp "$root/core/base/version.h" "$tree/core/base"
cd "$tree" || exit 1
unset BUILD MAKEFLAGS MAKELEVEL
for name in arena/one core/two device/three; do
    echo "int bp_${name#*/}(void); int bp_${name#*/}(void) { return 1; }" >$name.c
done
# has WANTED OPTIONS..: both archives have these members after such a build.
has() {
    local wanted=$1 archive found
    shift
    make -s "$@" build/release/libbedplate.a build/release/objects.a >make.log 2>&1 || cat make.log
    for archive in libbedplate.a objects.a; do
        found=$(ar t build/release/$archive | sed 's|.*/||' | sort | tr '\n' ' ')
        if [[ $found == "$wanted" ]]; then passed=$((passed + 1)); else
            failed=$((failed + 1))
            echo "FAILED: $archive $*: found $found, expected $wanted"
        fi
    done
}
has 'one.o three.o two.o '
has 'one.o two.o ' LEFT-=device/three.c
has 'one.o three.o two.o '
rm core/two.c
has 'one.o three.o '
touch arena/one.c
has 'one.o three.o '
was=$(stat -c %Y.%i build/release/libbedplate.a)
has 'one.o three.o '
if [[ $(stat -c %Y.%i build/release/libbedplate.a) == "$was" ]]; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAILED: the same list makes an archive anew"
fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
