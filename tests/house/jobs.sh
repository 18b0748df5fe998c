#!/bin/bash
# SPDX-License-Identifier: MIT
# The jobs of docs/getting-started and docs/how-to as a new user would do them: the blocks of commands of every page
# (tests/house/test_pages.sh) in a minimal Debian 12 that has nothing but what others get: once with the package
# installed by dpkg, once with the wheel in a virtual environment. Its last line counts the failures of both.
#
#   tests/house/jobs.sh [PAGE..]     these pages alone
#
# build/dist has what `make dist` makes (made here where it is not there), build/bare the minimal system, kept for the
# next time. Without root, debootstrap or namespaces it fails, or is skipped with OPTIONAL=1.
cd "$(dirname "$0")/../.." || exit 1
. tests/house/minimal.sh
unset MAKEFLAGS MAKELEVEL MFLAGS BUILD
minimal_begin 'the jobs in a minimal system' debootstrap dpkg-deb
version=$(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h)
dist=$PWD/build/dist
package=$dist/bedplate_${version}_amd64.deb
if [[ ! -s $package || build/release/bedplate -nt $package ]]; then
    make -s dist >/dev/null || { echo 'FAILED: make dist'; echo '0 passed, 1 failed'; exit 1; }
fi
wheel=$(ls "$dist/bedplate-$version"-py3-none-manylinux_2_3*_x86_64.whl) || exit 1
minimal_system bookworm python3-venv || { tail -20 "$keep/system.log"; echo "there is no minimal system ($keep/system.log)"; exit 1; }
mkdir -p "$root/dist" "$root/bedplate"
cp "$package" "$wheel" "$root/dist"
# The pages, and what the fixtures of their test are made of; no source and no build.
tar cf - LICENSE docs tests/house/{test_pages,pages_fixture}.sh tests/golden/tokenizers/{qwen2,bert_uncased} tests/golden/vit |
    tar xf - -C "$root/bedplate" || exit 1

# jobs_with NAME PROGRAM: the blocks of the pages with that program.
jobs_with() {
    inside /bedplate "BEDPLATE=$2 tests/house/test_pages.sh ${pages[*]}" >"$keep/jobs-$1.log" 2>&1
    local rc=$?
    grep -a -A6 '^FAILED' "$keep/jobs-$1.log"
    count_log "$keep/jobs-$1.log" $rc "jobs with the $1"
}
pages=("$@")
if inside / "dpkg -i /dist/${package##*/} && bedplate --version" >"$keep/jobs.log" 2>&1; then
    jobs_with package bedplate
    inside / 'dpkg -r bedplate' >>"$keep/jobs.log" 2>&1
else
    failed=$((failed + 1))
    echo "FAILED: dpkg -i: $(tail -5 "$keep/jobs.log")"
fi
if inside / "python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /dist/${wheel##*/} && ! command -v bedplate" >"$keep/jobs.log" 2>&1; then
    jobs_with wheel /opt/venv/bin/bedplate
else
    failed=$((failed + 1))
    echo "FAILED: the wheel: $(tail -5 "$keep/jobs.log")"
fi
counted
