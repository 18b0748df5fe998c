#!/bin/bash
# SPDX-License-Identifier: MIT
# `make kit`: one archive of all evidence for this version, build/kit/bedplate-VERSION-kit.tar.gz.
# Runs what gives results (checks, tests, MC/DC, proofs, mutation, analysis), then puts the chapters
# together (kit.py); what a missing tool leaves out is named and marked in the kit. Ends with
# `N passed, N failed`: chapters that are there, requirements that failed and links that are stale.
#
#   kit.sh            all of it: an hour or two, where `make nightly` has passed for this commit; else it ends with 3
#   kit.sh assemble   of what is there; seconds
#
# The same inputs give the same archive to the byte: SOURCE_DATE_EPOCH is the commit's time unless it is given.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS
BUILD=${BUILD:-build/release}
out=${KIT_OUT:-build/kit}
if [[ -z ${BEDPLATE_COMMIT:-} ]]; then
    BEDPLATE_COMMIT=$(git rev-parse HEAD 2>/dev/null || echo unknown)
    [[ -z $(git status --porcelain 2>/dev/null) ]] || BEDPLATE_COMMIT+=", with changes"
fi
nightly=$(head -1 build/nightly.stamp 2>/dev/null)
if [[ ${1:-} != assemble && $nightly != "$BEDPLATE_COMMIT" ]]; then
    echo "no kit: this is commit $BEDPLATE_COMMIT, and make nightly has passed for ${nightly:-none} (build/nightly.stamp)"
    echo "0 passed, 1 failed"
    exit 3
fi
# What an earlier build said is of no account any more, whatever becomes of this one.
rm -rf "$out" && mkdir -p "$out" || exit 1
if [[ ${1:-} != assemble ]]; then
    goals=(all check test)
    for goal in mcdc mcdc-gcc prove derivatives mutation mutation-requirements analysis; do
        make -n $goal >/dev/null 2>&1 && goals+=($goal)
    done
    tests/goals.sh "${goals[@]}"
fi
for file in "$BUILD/bedplate" "$BUILD/libbedplate.a"; do
    [[ -f $file ]] && continue
    echo "$file is not there: make"
    echo "0 passed, 1 failed"
    exit 1
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH BEDPLATE_COMMIT
name=bedplate-$(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h)-kit
said=$(python3 tests/assurance/kit.py "$out/$name" "$BUILD" 2>&1)
rc=$?
counts=$(tail -1 <<<"$said")
sed '$d' <<<"$said"
if [[ -f $out/$name/index.html ]]; then
    tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        -C "$out" -cf - "$name" | gzip -n >"$out/$name.tar.gz"
    sha256sum "$out/$name.tar.gz"
else
    rc=1
fi
echo "$counts"
exit $rc
