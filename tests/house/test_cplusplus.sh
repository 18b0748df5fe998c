#!/bin/bash
# SPDX-License-Identifier: MIT
# The installed headers as C++: each alone and all together, by g++ and clang++, in each standard from C++11 to
# C++20, without a warning; every enumerator without qualification; and a program that trains two steps with the
# installed library.
# verifies house-15.9583
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build/release}
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
flags=()
# The library may have been built for the sanitizers, and to count what runs: clang++ links as it asks.
compilers="g++ clang++"
if [[ $build == *sanitize* ]]; then
    compilers=clang++
    flags=(-fsanitize=address,undefined -fprofile-instr-generate)
fi
out=$(make -s VARIANT="${build##*/}" BUILD="$build" DESTDIR="$root" PREFIX=/usr install-library 2>&1)
expect $? "make install-library: $out"
include=$root/usr/include

# Every enumerator: what follows a brace or a comma of an enum.
{
    printf '#include <bedplate.h>\nvoid all_enumerators();\nvoid all_enumerators()\n{\n'
    cat "$include"/bedplate/*.h | "${CC:-cc}" -fpreprocessed -dD -E -P - 2>/dev/null | tr '\n' ' ' |
        grep -oE '\benum( bp_[a-z0-9_]+)? *\{[^}]*\}' | grep -oE '[{,] *BP_[A-Z0-9_]+' | tr -d '{, ' |
        sed 's/.*/    static_cast<void>(&);/'
    echo '}'
} >"$root/all.cc"
[[ $(grep -c static_cast "$root/all.cc") -gt 100 ]] && grep -q BP_RULE_TRAIN "$root/all.cc"
expect $? "too few enumerators were found: $(wc -l <"$root/all.cc")"

cat >"$root/use.cc" <<'C'
#include <bedplate.h>
#include <cstdint>
#include <cstring>

static std::uint64_t host_memory[1 << 17], arena_memory[1 << 17];

static bp_status read_tokens(bp_source *source, std::uint64_t first, std::uint32_t n, std::int32_t *to)
{
    for (std::uint32_t i = 0; i < n; i++) {
        to[i] = static_cast<std::int32_t>((first + i) * (first + i) % 16);
    }
    return source->count >= first + n ? BP_OK : BP_ERR_DATA;
}

BP_FAMILY_CONFIG_FITS(bp_transformer);

static bp_status train(bp_runtime *runtime, const bp_spec &spec, bp_outcome *outcome)
{
    bp_source source = bp_source();
    source.name = "squares";
    source.count = 100;
    source.read = read_tokens;
    bp_feed feed = bp_feed();
    feed.source = &source;
    feed.sequence = 8;
    feed.batch = 1;
    feed.group = 1;
    feed.vocabulary = 16;
    BP_TRY(bp_feed_init(&feed, nullptr));
    static bp_plan_room planned;
    bp_plan *plan = bp_plan_begin(&planned);
    BP_TRY(bp_plan_make(plan, &spec, host_memory, sizeof host_memory));
    char *arena = reinterpret_cast<char *>(arena_memory);
    arena += BP_ARENA_ALIGNMENT - reinterpret_cast<std::uintptr_t>(arena) % BP_ARENA_ALIGNMENT;
    BP_TRY(bp_runtime_open(runtime, plan, arena, sizeof arena_memory - BP_ARENA_ALIGNMENT));
    BP_TRY(bp_runtime_initialize(runtime));
    BP_TRY(bp_runtime_step(runtime, &feed, outcome));
    return bp_runtime_step(runtime, &feed, outcome);
}

int main()
{
    bp_parameter_rule frozen = bp_parameter_rule();
    frozen.glob = "*.wpe.*";
    frozen.kind = BP_RULE_FREEZE;
    bp_transformer sizes = bp_transformer();
    sizes.width = 8;
    sizes.layers = 1;
    sizes.heads = 1;
    sizes.norm_epsilon = 1e-5F;
    sizes.initializer_range = 0.02F;
    bp_spec spec = bp_spec();
    spec.model = &bp_model_gpt2;
    spec.config.vocabulary = 16;
    spec.config.positions = 8;
    spec.optimizer = &bp_optimizer_adamw;
    spec.optimizer_options.learning_rate = 1e-3;
    spec.optimizer_options.beta1 = 0.9;
    spec.optimizer_options.beta2 = 0.999;
    spec.optimizer_options.epsilon = 1e-8;
    spec.device = &bp_device_host;
    spec.device_options.threads = 1;
    spec.batch = 1;
    spec.sequence = 8;
    spec.accumulation = 1;
    spec.rules = &frozen;
    spec.rule_count = 1;
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    static bp_runtime_room room;
    bp_runtime *runtime = bp_runtime_make(&room);
    bp_outcome outcome = bp_outcome();
    const bool good = std::strcmp(bp_version(), BP_VERSION) == 0 && train(runtime, spec, &outcome) == BP_OK &&
                      outcome.step == 2 && bp_runtime_steps(runtime) == 2;
    bp_runtime_close(runtime);
    return good ? 0 : 1;
}
C

for compiler in $compilers; do
    command -v $compiler >/dev/null || {
        echo "skipped: $compiler is not installed"
        continue
    }
    # In the short form the oldest and the newest; headers alone by one compiler of each.
    standards="11 20"
    [[ -z ${BP_TEST_LONG:-}${BP_TEST_WHOLE:-} ]] || standards="11 14 17 20"
    for standard in $standards; do
        call=("$compiler" -std=c++$standard -Wall -Wextra -pedantic -Werror "${flags[@]}" "-I$include")
        headers=("$include"/bedplate.h "$include"/bedplate/*.h)
        [[ $standards == *14* || $compiler$standard == g++11 || $compiler$standard == clang++20 ]] || headers=()
        for header in "${headers[@]}"; do
            out=$(echo "#include <${header#"$include"/}>" | "${call[@]}" -fsyntax-only -x c++ - 2>&1)
            expect $? "$compiler, C++$standard, ${header##*/} alone: $out"
        done
        out=$("${call[@]}" -fsyntax-only "$root/all.cc" 2>&1)
        expect $? "$compiler, C++$standard, enumerators: $out"
        out=$("${call[@]}" "$root/use.cc" -o "$root/use" -L"$root/usr/lib" -lbedplate -lm -lpthread -ldl 2>&1 && "$root/use" 2>&1)
        expect $? "$compiler, C++$standard, a program that trains two steps: $out"
    done
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
