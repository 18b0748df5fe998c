#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make install` puts down is enough: a program of a few lines builds with pkg-config's answer
# alone, the installed program runs, and `make uninstall` leaves nothing.
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build/release}
command -v pkg-config >/dev/null || {
    echo "skipped: pkg-config is not installed"
    echo "1 passed, 0 failed"
    exit 0
}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
failed=0
expect() {
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "$2"
    fi
}

out=$(make -s VARIANT="${build##*/}" BUILD="$build" DESTDIR="$root" PREFIX=/usr install 2>&1)
expect $? "make install: $out"
cat >"$root/use.c" <<'C'
#include "core/run/runtime.h"
#include "device/host/host.h"
#include "layers/gpt2.h"
#include "optim/adamw.h"

int main(void)
{
    bp_spec spec = {.model = &bp_model_gpt2,
                    .config = {.vocabulary = 16, .positions = 8, .width = 8, .layers = 1, .heads = 1,
                               .norm_epsilon = 1e-5},
                    .optimizer = &bp_optimizer_adamw,
                    .optimizer_options = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999,
                                          .epsilon = 1e-8},
                    .device = &bp_device_host,
                    .device_options = {.threads = 1},
                    .batch = 1, .sequence = 8, .accumulation = 1};
    return bp_runtime_scratch(&spec) == BP_SIZE_INVALID;
}
C
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig
flags=$(pkg-config --cflags --libs bedplate 2>&1)
expect $? "pkg-config: $flags"
# The library may have been built for a sanitizer or for coverage: link as it asks.
# shellcheck disable=SC2086
out=$(cd "$root" && ${CC:-gcc} -std=c99 -Wall -Werror use.c -o use $flags $(
    case $build in
    *sanitize*) echo -fsanitize=address,undefined ;;
    *coverage*) echo --coverage ;;
    esac
) 2>&1 && ./use)
expect $? "a program against the installed library: $out"
out=$("$root/usr/bin/bedplate" --help 2>&1)
expect $? "the installed program: $out"
out=$(make -s VARIANT="${build##*/}" BUILD="$build" DESTDIR="$root" PREFIX=/usr uninstall 2>&1)
expect $? "make uninstall: $out"
left=$(find "$root/usr" ! -type d)
[[ -z $left ]]
expect $? "uninstall leaves $left"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
