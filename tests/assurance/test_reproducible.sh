#!/bin/bash
# SPDX-License-Identifier: MIT
# What is built does not say where, when or by whom: in another folder, time zone, language and umask
# the program, the archive and what is installed are the same to the byte. The other folder begins with
# the objects of this build but for a sample that is compiled anew; BP_TEST_LONG=1 compiles all of them.
# verifies kit-1.bfe7
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build/release}
unset MAKEFLAGS MAKELEVEL MFLAGS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
other=$work/another/place
passed=0
failed=0
count() { # RC NAME [TEXT]
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED: $2"
        head -20 <<<"${3:-}"
    fi
}
made=$(make -s BUILD="$BUILD" all 2>&1)
count $? "the build" "$made"
mkdir -p "$other"
tar cf - --exclude=./build --exclude=./.git --exclude=./shared . | tar xpf - -C "$other"
if [[ -z ${BP_TEST_LONG:-} ]]; then
    mkdir -p "$other/build"
    tar cf - --exclude="$BUILD/tests" --exclude="$BUILD/stage" "$BUILD" | tar xpf - -C "$other"
    # Every folder, each form, and what is made on the way.
    (cd "$other/$BUILD" && rm -f bedplate libbedplate.a source_digest.c source_digest.o arena/layout.o core/run/feed.o \
        core/base/error.o layers/families/gpt2.o optim/rate.o device/host/pool.o device/host/elements/gelu_bf16.o \
        device/host/x86/matmul_avx2.o device/host/x86/words_avx512.o device/cuda/open.o device/fabric/tcp.o \
        tools/formats/gguf/gguf_read.o tools/bedplate/app/main.o)
fi
# The compiler itself, not what remembers its answers.
made=$(cd "$other" && umask 027 && TZ=Asia/Kolkata LC_ALL=C LANG=tr_TR.UTF-8 CCACHE_DISABLE=1 USER=nobody make -s -j2 BUILD="$BUILD" all 2>&1)
count $? "the build in another folder" "$made"
for file in bedplate libbedplate.a; do
    cmp "$BUILD/$file" "$other/$BUILD/$file" >"$work/said" 2>&1
    count $? "$file is the same" "$(cat "$work/said")"
done
! grep -aqF "$PWD" "$BUILD/libbedplate.a" "$BUILD/bedplate" && ! grep -aqF "$other" "$other/$BUILD/libbedplate.a" "$other/$BUILD/bedplate"
count $? "neither names its folder"

# As a package would have it: names, modes, times and contents.
export SOURCE_DATE_EPOCH=1700000000
make -s BUILD="$BUILD" DESTDIR="$work/one" PREFIX=/usr install >"$work/said" 2>&1
count $? "make install" "$(cat "$work/said")"
(cd "$other" && TZ=Asia/Kolkata make -s BUILD="$BUILD" DESTDIR="$work/two" PREFIX=/usr install) >"$work/said" 2>&1
count $? "make install in the other folder" "$(cat "$work/said")"
listing() { (cd "$1" && find . -type f -printf '%P %m %Ts ' -exec sha256sum {} \; | LC_ALL=C sort); }
listing "$work/one" >"$work/one.list"
listing "$work/two" >"$work/two.list"
diff "$work/one.list" "$work/two.list" >"$work/said" && [[ $(wc -l <"$work/one.list") -gt 10 ]]
count $? "what is installed is the same" "$(cat "$work/said")"
grep -qv ' 1700000000 ' "$work/one.list"
[[ $? -eq 1 ]]
count $? "with the time that was asked for" "$(cat "$work/one.list")"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
