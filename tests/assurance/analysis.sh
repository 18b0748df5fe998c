#!/bin/bash
# SPDX-License-Identifier: MIT
# `make analysis`: what can be said without running the tests. Leaves in build/analysis, for the kit:
#
#   stack.txt      the bound of the stack, its chain, what is not counted (stack.py)
#   coupling.tsv   slots of tables of functions, who calls them; who includes whom (coupling.py)
#   cost.tsv       ops, flops of products and bytes of operands of each program of some models: the part of
#                  timing that does not depend on a machine
#   static.tsv     findings of cppcheck and its MISRA addon per rule, beside what static.counts allows
#
# A count that rises fails, one that falls is told. Ends with `N passed, N failed`. A tool that is missing
# leaves its file out and is named.
cd "$(dirname "$0")/../.." || exit 1
. tests/assurance/missing.sh
unset MAKEFLAGS MAKELEVEL MFLAGS
# What remembers the answers of a compiler leaves out its call graph.
export CCACHE_DISABLE=1
BUILD=${BUILD:-build/release}
here=tests/assurance
out=build/analysis
rm -rf $out && mkdir -p $out || exit 1
passed=0
failed=0
count() { # RC NAME FILE
    if [[ $1 -eq 0 ]]; then passed=$((passed + 1)) && echo "ok      $2"; else
        failed=$((failed + 1))
        echo "FAILED: $2"
        grep -E '^FAILED' "$3" | head -20
    fi
}

# verifies house-11.a2ff
# Stack: calls from the compiler, types of functions by its -aux-info.
stack() {
    local source flags
    make -s VARIANT=stack library >build/stack.log 2>&1 || { tail -5 build/stack.log; return 1; }
    rm -rf build/stack.types && mkdir build/stack.types
    find arena core layers optim device tools/formats -name '*.c' ! -path 'device/bare/*' ! -name '*_neon.c' ! -name '*_sve.c' | while read -r source; do
        flags=''
        case $source in *_avx2.c | *_avx512.c) flags='-mavx2 -mfma -mf16c -msha -mavx512f -mavx512bw -mavx512dq -mavx512vl -mamx-tile -mamx-bf16' ;; esac
        # shellcheck disable=SC2086
        gcc -std=c99 -I. -Ibuild/stack/include -D_POSIX_C_SOURCE=200809L $flags -fsyntax-only \
            -aux-info "build/stack.types/${source//\//_}" "$source" || return 1
    done || return 1
    python3 $here/stack.py build/stack build/stack.types >$out/stack.txt 2>&1
}
if [[ $(uname -m) == x86_64 ]] && command -v gcc >/dev/null; then
    stack
    count $? "stack: $(head -1 $out/stack.txt 2>/dev/null)" $out/stack.txt
else
    echo "skipped: the stack is bounded for x86-64 with gcc"
fi

# verifies house-12.a179
coverage=''
[[ ! -f build/mcdc/mcdc.txt ]] || coverage=build/mcdc/mcdc.txt
python3 $here/coupling.py $coverage >$out/coupling.tsv 2>&1
count $? "coupling: $(tail -1 $out/coupling.tsv)${coverage:-, without make mcdc it is not seen which the tests call}" $out/coupling.tsv

cost() {
    local options
    printf 'options of bedplate plan\tprogram\tops\tflops of products\tbytes of operands\n'
    for options in '--model tiny' '--model tiny-llama' '--model tiny-bert --task classification' '--model tiny-mlp' \
        '--model tiny-gru' '--model gpt2 --max-seq-length 64' \
        '--model gpt2 --bf16 --gradient-checkpointing full --max-seq-length 64' \
        '--model llama-3.2-1b --lora-r 8 --load-in-4bit --bf16 --max-seq-length 64'; do
        # shellcheck disable=SC2086
        "$BUILD/bedplate" plan $options --device host --threads 1 --listing |
            sed -nE "s/^program ([a-z ]+): ([0-9]+) ops(, ([0-9,]+) flops of products)?(, ([0-9,]+) bytes of operands)?.*/$options\t\1\t\2\t0\4\t0\6/p" ||
            return 1
    done
}
cost >$out/cost.tsv
sed -i 's/\t0\([0-9]\)/\t\1/g' $out/cost.tsv
[[ $(wc -l <$out/cost.tsv) -eq 17 ]] && ! grep -q $'\t0$' $out/cost.tsv
count $? "cost: $(($(wc -l <$out/cost.tsv) - 1)) programs" $out/cost.tsv

# verifies house-13.35bc
# Findings per rule; the same command gave static.counts.
if command -v cppcheck >/dev/null; then
    # In a copy: beside each source the addon leaves a file.
    rm -rf build/cppcheck && mkdir -p build/cppcheck && cp -r arena core optim layers build/cppcheck
    (cd build/cppcheck && cppcheck -j "$(nproc)" --std=c99 --addon=misra --enable=warning,portability,performance,style \
        --max-configs=1 -I. -I"$OLDPWD/$BUILD/include" -D_POSIX_C_SOURCE=200809L --suppress=missingIncludeSystem \
        '--suppress=*:*/xxhash.h' --template='{id}\t{file}:{line}' -q arena core optim layers) >/dev/null 2>build/findings
    LC_ALL=C sort -u build/findings >$out/findings.txt
    $here/static.sh "$(cppcheck --version)" $out/findings.txt >$out/static.tsv
    count $? "static: $(tail -1 $out/static.tsv)" $out/static.tsv
    cp $here/static.deviations $out/static.deviations.txt
else
    lacks_tool 'cppcheck is not installed; no findings were counted'
fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
