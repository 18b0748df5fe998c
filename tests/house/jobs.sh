#!/bin/bash
# SPDX-License-Identifier: MIT
# The jobs of docs/getting-started and docs/how-to as a new user would do them: the blocks of commands of every page
# (tests/house/test_pages.sh) in a minimal Debian 12 that has nothing but what others get: once with the package
# installed by dpkg, once with the wheel in a virtual environment. Its last line counts the failures of both.
#
#   tests/house/jobs.sh [PAGE..]     these pages alone
#
# build/dist has what `make dist` makes (made here where it is not there), build/bare the minimal system, kept for the
# next time. Without root, debootstrap or namespaces it says `skipped: REASON` and counts nothing.
cd "$(dirname "$0")/../.." || exit 1
skip() {
    echo "skipped: the jobs in a minimal system ($1)"
    echo '0 passed, 0 failed'
    exit 0
}
unset MAKEFLAGS MAKELEVEL MFLAGS BUILD
[[ $(id -u) -eq 0 ]] || skip 'needs root'
for command in unshare chroot tar dpkg-deb; do
    command -v "$command" >/dev/null || skip "needs $command"
done
unshare --mount --pid --fork --kill-child --mount-proc true 2>/dev/null || skip 'no namespaces of mounts and processes here'
version=$(sed -n 's/^#define BP_VERSION "\(.*\)"$/\1/p' core/base/version.h)
dist=$PWD/build/dist keep=$PWD/build/bare
package=$dist/bedplate_${version}_amd64.deb
if [[ ! -s $package || build/release/bedplate -nt $package ]]; then
    make -s dist >/dev/null || { echo 'FAILED: make dist'; echo '0 passed, 1 failed'; exit 1; }
fi
wheel=$(ls "$dist/bedplate-$version"-py3-none-manylinux_2_3*_x86_64.whl) || exit 1
mkdir -p "$keep"
root=$(mktemp -d "$keep/jobs.XXXXXX")
inside_pid=''
end() {
    [[ -z $inside_pid ]] || kill -KILL "$inside_pid" 2>/dev/null
    wait 2>/dev/null
    rm -rf --one-file-system "$root"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The same system as that of tests/house/dist.sh: minbase with Python.
if [[ ! -s $keep/bookworm-python.tar ]]; then
    command -v debootstrap >/dev/null || skip 'needs debootstrap'
    mkdir "$root/new"
    debootstrap --variant=minbase --include=python3-venv bookworm "$root/new" ${BARE_MIRROR:-} >"$keep/jobs.log" 2>&1 ||
        skip "no minimal Debian 12: $keep/jobs.log"
    tar -cf "$keep/bookworm-python.tar.part" --exclude='./var/cache/apt/archives/*.deb' --one-file-system -C "$root/new" . &&
        mv "$keep/bookworm-python.tar.part" "$keep/bookworm-python.tar"
    rm -rf "$root/new"
fi
tar -xf "$keep/bookworm-python.tar" -C "$root" || exit 1
mkdir -p "$root/dist" "$root/bedplate"
cp "$package" "$wheel" "$root/dist"
# The pages, and what the fixtures of their test are made of; no source and no build.
tar cf - LICENSE docs tests/house/{test_pages,pages_fixture}.sh tests/golden/tokenizers/{qwen2,bert_uncased} tests/golden/vit |
    tar xf - -C "$root/bedplate" || exit 1

# inside LINE: a line of shell as root's login there would run it.
inside() {
    unshare --mount --pid --fork --kill-child bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
        exec chroot "$0" /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c "cd /bedplate && $1"' "$root" "$1" </dev/null &
    inside_pid=$!
    wait "$inside_pid"
    local code=$?
    inside_pid=''
    return $code
}
passed=0
failed=0
# jobs NAME PROGRAM: the blocks of the pages with that program.
jobs_with() {
    local name=$1 program=$2 p f
    inside "BEDPLATE=$program tests/house/test_pages.sh ${pages[*]}" >"$keep/jobs-$name.log" 2>&1
    read -r p f < <(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$keep/jobs-$name.log" | tail -1 | sed 's/[a-z,]//g')
    [[ ${p:-0} -gt 0 || ${f:-0} -gt 0 ]] || f=1
    grep -a -A6 '^FAILED' "$keep/jobs-$name.log"
    echo "jobs with the $name: ${p:-0} blocks passed, ${f:-0} failed"
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
}
pages=("$@")
if inside "dpkg -i /dist/${package##*/} && bedplate --version" >"$keep/jobs.log" 2>&1; then
    jobs_with package bedplate
    inside 'dpkg -r bedplate' >>"$keep/jobs.log" 2>&1
else
    failed=$((failed + 1))
    echo "FAILED: dpkg -i: $(tail -5 "$keep/jobs.log")"
fi
if inside "python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /dist/${wheel##*/} && ! command -v bedplate" >"$keep/jobs.log" 2>&1; then
    jobs_with wheel /opt/venv/bin/bedplate
else
    failed=$((failed + 1))
    echo "FAILED: the wheel: $(tail -5 "$keep/jobs.log")"
fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -gt 0 ]]
