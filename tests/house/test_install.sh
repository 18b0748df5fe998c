#!/bin/bash
# SPDX-License-Identifier: MIT
# What `make install` puts down is enough: a program of a few lines builds with pkg-config's answer
# alone, the installed program runs, and `make uninstall` leaves nothing.
# verifies house-7.c2ba
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
installed=$(cd "$root/usr" && find . -type f | LC_ALL=C sort)
promised=$(
    for f in bin/bedplate lib/libbedplate.a lib/pkgconfig/bedplate.pc share/man/man1/bedplate.1 \
        share/bash-completion/completions/bedplate share/zsh/site-functions/_bedplate \
        share/fish/vendor_completions.d/bedplate.fish \
        include/bedplate.h $(sed -nE 's/^\| `<(bedplate\/[a-z]+\.h)>`.*/include\/\1/p' docs/library.md); do
        echo "./$f"
    done | LC_ALL=C sort
)
[[ $installed == "$promised" ]]
expect $? "installed is not what docs/library.md says: $(diff <(echo "$promised") <(echo "$installed"))"

# A library for a machine without a system asks for no library of one.
make -sn VARIANT=cortex-m7 DESTDIR="$root" PREFIX=/bare install-library 2>&1 | grep -A2 '^sed .*@SYSTEM@' \
    >"$root/recipe"
(mkdir -p "$root/bare/lib/pkgconfig" && . "$root/recipe") >"$root/said" 2>&1
pc=$(cat "$root/bare/lib/pkgconfig/bedplate.pc")
[[ $pc == *-lbedplate*-lm* && $pc != *@* && $pc != *-lpthread* && $pc != *-ldl* &&
    $(cat "$root/usr/lib/pkgconfig/bedplate.pc") == *-lpthread*-ldl* ]]
expect $? "bedplate.pc of cortex-m7: $pc $(cat "$root/said" "$root/recipe")"
rm -r "$root/bare"

# The smallest program: it trains two steps in memory of its own. Every header is also enough alone.
cat >"$root/use.c" <<'C'
#include <bedplate.h>
#include <string.h>

static uint64_t host_memory[1 << 17], arena_memory[1 << 17];

static bp_status read_tokens(bp_source *source, uint64_t first, uint32_t n, int32_t *to)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (int32_t)((first + i) * (first + i) % 16);
    }
    return source->count >= first + n ? BP_OK : BP_ERR_DATA;
}

int main(void)
{
    bp_spec spec = {.model = &bp_model_gpt2,
                    .config = {.vocabulary = 16, .positions = 8},
                    .optimizer = &bp_optimizer_adamw,
                    .optimizer_options = {.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999,
                                          .epsilon = 1e-8},
                    .device = &bp_device_host,
                    .device_options = {.threads = 1},
                    .batch = 1, .sequence = 8, .accumulation = 1};
    const bp_transformer sizes = {.width = 8, .layers = 1, .heads = 1, .norm_epsilon = 1e-5,
                                  .initializer_range = 0.02};
    bp_family_config_set(&spec.config, &sizes, sizeof sizes);
    static bp_plan_room planned;
    static bp_runtime_room room;
    bp_plan *plan = bp_plan_begin(&planned);
    bp_runtime *runtime = bp_runtime_make(&room);
    bp_source source = {.name = "squares", .count = 100, .read = read_tokens};
    bp_feed feed = {.source = &source, .sequence = 8, .batch = 1, .group = 1, .vocabulary = 16};
    bp_outcome outcome = {.step = 0};
    char *arena = (char *)arena_memory;
    arena += BP_ARENA_ALIGNMENT - (uintptr_t)arena % BP_ARENA_ALIGNMENT;
    bool good = strcmp(bp_version(), BP_VERSION) == 0 &&
                bp_plan_scratch(&spec) <= sizeof host_memory &&
                bp_feed_init(&feed, NULL) == BP_OK &&
                bp_plan_make(plan, &spec, host_memory, sizeof host_memory) == BP_OK &&
                bp_plan_footprint(plan).arena_bytes <= sizeof arena_memory - 256 &&
                bp_runtime_open(runtime, plan, arena, sizeof arena_memory - 256) == BP_OK &&
                bp_runtime_initialize(runtime) == BP_OK &&
                bp_runtime_step(runtime, &feed, &outcome) == BP_OK &&
                bp_runtime_step(runtime, &feed, &outcome) == BP_OK && outcome.step == 2 &&
                bp_runtime_steps(runtime) == 2 && bp_runtime_error(runtime)->code == BP_OK;
    bp_runtime_close(runtime);
    return good ? 0 : 1;
}
C
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig
flags=$(pkg-config --cflags --libs bedplate 2>&1)
expect $? "pkg-config: $flags"
# The library may have been built for the sanitizers, and to count what runs: link as it asks.
# shellcheck disable=SC2086
[[ $build != *sanitize* ]] || CC=clang
out=$(cd "$root" && ${CC:-gcc} -std=c99 -Wall -Werror use.c -o use $flags $(
    [[ $build != *sanitize* ]] || echo -fsanitize=address,undefined -fprofile-instr-generate
) 2>&1 && ./use)
expect $? "a program against the installed library: $out"
# The example of docs/library.md: a budget that fits, one for which something else would do, and none.
awk '/^    \/\* budget\.c/ { on = 1 } on && /^[^ ]/ { exit } on { sub(/^    /, ""); print }' docs/library.md >"$root/budget.c"
# shellcheck disable=SC2086
out=$(cd "$root" && ${CC:-gcc} -std=c99 -Wall -Wextra -Werror budget.c -o budget $flags $(
    [[ $build != *sanitize* ]] || echo -fsanitize=address,undefined -fprofile-instr-generate
) 2>&1)
expect $? "the budget of docs/library.md: $out"
for bytes in 1000000 500000 1 0 99999999999999999999; do
    echo "$("$root/budget" $bytes | tr '\n' ';') $("$root/budget" $bytes >/dev/null; echo $?)"
done | sed -E 's/[0-9]{6,} bytes/N bytes/g' >"$root/said"
diff - "$root/said" >"$root/differs" <<'S'
batch 8 x 1: N bytes; 0
no plan fits the budget: the least is N bytes;plain SGD would take N bytes; 3
no plan fits the budget: the least is N bytes; 3
a budget has bytes; 2
no arena has so many bytes; 2
S
expect $? "what budgets say: $(cat "$root/differs")"
# An application's own functions are its own, whatever private ones of the library are called: these end the program.
{
    printf '#include <stdlib.h>\n'
    for name in plan_order block_read node_piece_rows norm_of map_sort run_group compile_use; do
        printf 'void %s(void);\nvoid %s(void)\n{\n    exit(9);\n}\n' $name $name
    done
} >"$root/own.c"
out=$(cd "$root" && ${CC:-gcc} -std=c99 -Wall -Werror use.c own.c -o own $flags $(
    [[ $build != *sanitize* ]] || echo -fsanitize=address,undefined -fprofile-instr-generate
) 2>&1 && ./own)
expect $? "a program with functions of the names of private ones: $out"
out=$(nm --defined-only -P "$root/usr/lib/libbedplate.a" 2>/dev/null | awk '$2 ~ /^[A-Z]$/ && $1 ~ /^[a-z]/ && $1 !~ /^bp_/')
[[ -z $out ]]
expect $? "the library exports private names: $out"
# The members stay apart, and unused sections go, so that a program links what it uses: no model, rule or device but its own.
out=$(nm "$root/use" 2>/dev/null | grep -E ' bp_(model_(bert|llama|cnn|rnn|vit)|optimizer_(lion|muon|sgd)|device_cuda)$')
[[ -z $out ]]
expect $? "a program links what it does not use: $out"
for header in "$root"/usr/include/bedplate/*.h; do
    out=$(${CC:-gcc} -std=c99 -Wall -Wextra -pedantic -Werror -I"$root/usr/include" -fsyntax-only -x c \
        "$header" 2>&1)
    expect $? "${header##*/} alone: $out"
done
[[ $(pkg-config --modversion bedplate) == "$("$root/usr/bin/bedplate" --version | cut -d' ' -f2)" ]]
expect $? "the program and bedplate.pc are of different versions"
out=$("$root/usr/bin/bedplate" --help 2>&1)
expect $? "the installed program: $out"
out=$(make -s VARIANT="${build##*/}" BUILD="$build" DESTDIR="$root" PREFIX=/usr uninstall 2>&1)
expect $? "make uninstall: $out"
left=$(find "$root/usr" ! -type d)
[[ -z $left ]]
expect $? "uninstall leaves $left"
# Where a release of Debian lacks a package that only tests need, deps.sh installs the others and names it; what
# building needs has to be there.
bin=$root/bin
mkdir "$bin"
sed -e '/^build_needs=(/,/)$/c build_needs=(one one)' -e '/^proof_needs=(/,/)$/c proof_needs=(two two three three)' \
    -e "s|/tmp/bedplate-deps.log|$root/deps.log|" tools/pkg/deps.sh >"$root/deps.sh"
printf '%s\n' '#!/bin/bash' '[[ -z ${OFFLINE:-} ]] || exit 100' '[[ $1 == install ]] || exit 0' "for p; do [[ \$p != \"\$LACKING\" ]] || exit 100; done" \
    "for p in one two three; do [[ \" \$* \" != *\" \$p \"* ]] || : >\"$bin/\$p\"; done; chmod +x \"$bin\"/*" >"$bin/apt-get"
printf '%s\n' '#!/bin/bash' '[[ -z ${OFFLINE:-} && $2 != "$LACKING" ]]' >"$bin/apt-cache"
printf '%s\n' '#!/bin/bash' 'echo 0' >"$bin/id"
chmod +x "$bin"/*
deps() { rm -f "$bin"/{one,two,three}; said=$(LACKING=$2 PATH=$bin:/usr/bin:/bin bash "$root/deps.sh" "$1" 2>&1) && rc=0 || rc=$?; }
deps all three
[[ $rc -eq 0 && $said == *"left out: three" && -x $bin/one && -x $bin/two && ! -e $bin/three ]]
expect $? "a package that a release lacks ($rc): $said"
deps all none
[[ $rc -eq 0 && $said != *"left out"* && -x $bin/three ]]
expect $? "a release that has all ($rc): $said"
deps build one
[[ $rc -eq 1 && $said == *"could not install: one" ]]
expect $? "a release without what building needs ($rc): $said"
deps all one
[[ $rc -eq 1 && $said == *"could not install: one two three" ]]
expect $? "the same, asked for all ($rc): $said"
OFFLINE=1 deps all none
[[ $rc -eq 1 && $said == *"could not install: one two three" && $said != *"left out"* ]]
expect $? "neither lists of packages nor a network ($rc): $said"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
