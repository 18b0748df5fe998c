#!/bin/bash
# SPDX-License-Identifier: MIT
# The kit of what is there: the same archive from two folders, chapters that are missing marked as such,
# nothing of an earlier build, links that lead somewhere, bills of materials that their own tools accept
# (python packages spdx-tools and cyclonedx-python-lib; skipped by name where they are not installed).
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build/release}
unset MAKEFLAGS MAKELEVEL MFLAGS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one=$work/one/tree
two=$work/other/place/tree
passed=0
failed=0
count() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
        head -20 <<<"${3:-}"
    fi
}
export SOURCE_DATE_EPOCH=1700000000 BEDPLATE_COMMIT=0123456789abcdef
name=bedplate-$(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h)-kit
kit() { out=$(cd "$1" && BUILD=build/release KIT_OUT=build/kit tests/assurance/kit.sh assemble 2>&1) && rc=0 || rc=$?; }

# A tree with results that are all passed, of this program; with coverage, and what else a goal leaves.
mkdir -p "$one/build/release"
tar cf - --exclude=./build --exclude=./.git --exclude=./shared . | tar xpf - -C "$one"
cp -p "$BUILD/bedplate" "$BUILD/libbedplate.a" "$BUILD/flags" "$one/build/release"
mkdir "$one"/build/{mcdc,mcdc-gcc,prove,derivatives,mutation,mutation-requirements,analysis,ci}
{
    sha256sum <"$BUILD/bedplate" | sed 's/ .*//; s/^/# program /'
    find tests -name 'test_*.c' -o -name 'test_*.sh' | LC_ALL=C sort | sed 's/$/\t-\tpassed/'
} >"$one/build/release/results.tsv"
ls tools/check/*.sh | sed 's/$/\t-\tpassed/' >"$one/build/release/checks.tsv"
for goal in digests tsan boards; do echo "9 0" >"$one/build/ci/$goal.counts"; done
printf '%s\n' "$one/arena/arena.c:" '   12|      3|{' >"$one/build/mcdc/mcdc.txt"
printf 'arena/arena.c\tbp_arena_carve\t12\ta == b\t1\n' >"$one/build/mcdc/conditions.tsv"
printf 'head\narena\t3\t4\ncore\t5\t8\n' >"$one/build/mcdc-gcc/summary.tsv"
touch "$one"/build/mcdc-gcc/{conditions,differences}.tsv
for goal in prove derivatives mutation mutation-requirements analysis; do echo "what $goal found" >"$one/build/$goal/report.txt"; done
# verifies kit-2.1dae
mkdir -p "$two"
cp -a "$one/." "$two"
sed -i "s|$one|$two|" "$two/build/mcdc/mcdc.txt"
# What Python leaves beside its modules is no part of the tree.
mkdir -p "$two/tools/ptx/__pycache__"
touch "$two/tools/ptx/__pycache__/compile.pyc"
kit "$one"
[[ $rc -eq 0 && $out != *missing* ]]
count $? "a kit with every chapter" "$out"
kit "$two"
count $rc "and in another folder" "$out"
cmp "$one/build/kit/$name.tar.gz" "$two/build/kit/$name.tar.gz" >"$work/said" 2>&1
count $? "the same archive" "$(cat "$work/said"; diff -rq "$one/build/kit/$name" "$two/build/kit/$name")"
tar xzf "$one/build/kit/$name.tar.gz" -C "$work" && python3 tests/assurance/links.py "$work/$name" >"$work/said"
count $? "links of the kit" "$(cat "$work/said")"
# The archives of the kits that follow are not looked into: they need not be small.
mkdir "$work/plain"
printf '#!/bin/sh\nexec cat\n' >"$work/plain/gzip"
chmod +x "$work/plain/gzip"
PATH=$work/plain:$PATH
! grep -rqF "$one" "$work/$name" && ! grep -rqF "$two" "$two/build/kit/$name"
count $? "it does not name its folder" "$(grep -rlF "$one" "$work/$name" | head)"
! grep -q $'\twrong$' "$work/$name/objectives/objectives.tsv" && [[ $(grep -c $'\there$' "$work/$name/objectives/objectives.tsv") -gt 40 ]]
count $? "objectives and their evidence" "$(grep -v $'\there$' "$work/$name/objectives/objectives.tsv")"
grep -q "$(sha256sum <"$BUILD/bedplate" | cut -d ' ' -f 1)  build/release/bedplate" "$work/$name/configuration/index.txt" &&
    grep -q 'commit 0123456789abcdef' "$work/$name/configuration/index.txt"
count $? "the configuration has program and commit"
grep -q '^bp_arena_allocate,arena/arena.h,[0-9]*,"\?Allocates `size` bytes' "$work/$name/requirements/contracts.csv"
count $? "contracts of functions" "$(grep bp_arena "$work/$name/requirements/contracts.csv")"

[[ $out == *"; by gcc 8 of 12 outcomes"* && $(ls "$work/$name/coverage/gcc" | grep -c 'tsv$') -eq 3 ]]
count $? "gcc's second opinion is part of the coverage" "$out"

# verifies kit-3.e580
# A part of a chapter that is older than a source is named, and the chapter stays.
touch -d '1 hour ago' "$two"/build/mcdc-gcc/*.tsv
touch -d '30 minutes ago' "$two/arena/arena.c"
# So is a test that failed.
sed -i 's|^tests/unit/arena/test_arena.c\t-\tpassed|tests/unit/arena/test_arena.c\t-\tfailed|' "$two/build/release/results.tsv"
kit "$two"
[[ $rc -eq 1 && $out =~ matrix\ +here\ +[1-9][0-9]*\ failed ]]
count $? "requirements that failed are counted" "$out"
[[ $out == *"MC/DC arena 1 of 1; no second opinion by gcc: build/mcdc-gcc/conditions.tsv is older than "*": make mcdc-gcc (gcc 14)"* &&
    $(ls "$two/build/kit/$name/coverage/gcc" | tr '\n' ' ') =~ ^(index.html )?MISSING.txt\ $ ]]
count $? "a second opinion of older sources is named, and is not there" "$out"
# A goal that did not run, results of another program, results older than a source.
rm -r "$one/build/prove"
sed -i '1s/.*/# program 00/' "$one/build/release/results.tsv"
touch -d '1 hour' "$one/core/base/error.c"
kit "$one"
[[ $rc -eq 0 && $out == *"proofs "*"missing  build/prove holds nothing: make prove"* && $out == *"of another program"* ]]
count $? "what is missing is said" "$out"
for chapter in proofs:prove results:program coverage:older mutation:older mutation-requirements:older analysis:older; do
    dir=$one/build/kit/$name/${chapter%:*}
    grep -q "${chapter#*:}" "$dir/MISSING.txt" && [[ $(ls "$dir" | grep -vcxE 'MISSING.txt|index.html') -eq 0 ]]
    count $? "${chapter%:*} is marked, and holds nothing of before" "$(ls "$dir")"
done
grep -q 'proofs/.*missing$' "$one/build/kit/$name/objectives/objectives.tsv"
count $? "objectives say so as well"
! grep -q ',passed$' "$one/build/kit/$name/matrix/matrix.csv"
count $? "no result of another program or of older sources is in the matrix" "$(grep -m 3 ',passed$' "$one/build/kit/$name/matrix/matrix.csv")"
grep -q '^<p>1 of 1 lines were run' "$two/build/kit/$name/matrix/files/arena_arena.c.html" && ! grep -rqE '^<p>[0-9]+ of [0-9]+ lines were run' "$one/build/kit/$name/matrix/files"
count $? "nor covered lines"
rm "$one/build/release/bedplate"
kit "$one"
[[ $rc -eq 1 && ! -e $one/build/kit/$name ]]
count $? "without a program there is no kit, and no earlier one" "$out"
# A table that names what is not there.
sed -i '2s|requirements/|requirement/|' "$two/tests/assurance/kit/objectives.tsv"
kit "$two"
[[ $rc -eq 1 && $out == *"names requirement/, which the kit does not hold"* ]]
count $? "a stale objective fails" "$out"

# verifies kit-5.56c7
# A tool in another version than the figures are by is named; the same one is not.
sed -i 's/^gcc\t.*/gcc\t99.1/; s/^clang\t.*/clang\t99.2/' "$one/tests/assurance/kit/versions.tsv"
cp "$BUILD/bedplate" "$one/build/release"
mkdir "$work/tools"
printf '#!/bin/sh\necho "gcc (Some 1.5-2) 4.5.6"\n' >"$work/tools/gcc"
printf '#!/bin/sh\necho "clang version 99.2"\n' >"$work/tools/clang"
chmod +x "$work"/tools/*
PATH=$work/tools:$PATH kit "$one"
[[ $out == *"configuration "*"; gcc: found 4.5.6, the figures are by 99.1"* && $out != *"clang: found"* ]] &&
    grep -qx 'another version: gcc: found 4.5.6, the figures are by 99.1' "$one/build/kit/$name/configuration/environment.txt"
count $? "tools in another version" "$out"

# verifies kit-4.cc43
python3 - "$work/$name/sbom" "$(sha256sum <"$BUILD/bedplate" | cut -d ' ' -f 1)" <<'P'
import json, sys
bom = json.load(open(sys.argv[1] + "/bedplate.cdx.json"))
assert bom["bomFormat"] == "CycloneDX" and bom["specVersion"] == "1.6"
assert bom["metadata"]["component"]["hashes"][0]["content"] == sys.argv[2]
names = {c["name"]: c for c in bom["components"]}
assert set(names) == {"libbedplate", "utf8proc", "zlib", "zstd", "xxHash", "glibc"}, names
assert all(c["version"] not in ("", "unknown") and c["licenses"] for c in bom["components"]), bom["components"]
text = open(sys.argv[1] + "/bedplate.spdx").read()
for line in ("SPDXVersion: SPDX-2.3", "PackageChecksum: SHA256: " + sys.argv[2], "Relationship: SPDXRef-bedplate STATIC_LINK SPDXRef-zstd"):
    assert line + "\n" in text, line
P
count $? "what the bills of materials name"
for python in python3 ${BP_PYTHON:-}; do
    if "$python" -c 'import spdx_tools, cyclonedx.validation.json' 2>/dev/null; then
        "$python" - "$work/$name/sbom" >"$work/said" 2>&1 <<'P'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
wrong = validate_full_spdx_document(parse_file(sys.argv[1] + "/bedplate.spdx"))
assert not wrong, wrong
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1] + "/bedplate.cdx.json").read())
assert wrong is None, wrong
P
        count $? "their own tools accept them" "$(tail -5 "$work/said")"
        validated=yes
    fi
done
[[ -n ${validated:-} ]] || echo "skipped: spdx-tools and cyclonedx-python-lib are not installed"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
