#!/bin/bash
# SPDX-License-Identifier: MIT
# tools/board/table.sh [CORE] [NAME..]: what emitted trainers take on a microcontroller (cortex-m7), as a table: flash (code,
# constants), static memory, stack (painted at the start and looked at at the end; and bounded by gcc's call graph, stack.py),
# and instructions of a step (counted by a plugin of QEMU, the difference of two runs). Needs arm-none-eabi-gcc,
# qemu-system-arm, python3, and build/CORE/kit (make VARIANT=CORE board-kit); builds the library with a call graph in
# build/CORE-stack.
cd "$(dirname "$0")/../.." || exit 1
core=cortex-m7
[[ ${1:-} != cortex-* ]] || { core=$1 && shift; }
case $core in
cortex-m4) board=mps2-an386 ;;
cortex-m33) board=mps2-an505 ;;
cortex-m55) board=mps3-an547 ;;
*) board=mps2-an500 ;;
esac
kit=$PWD/build/$core/kit graph=build/$core-stack
for tool in arm-none-eabi-gcc arm-none-eabi-nm qemu-system-arm python3; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not here: make deps" >&2; exit 2; }
done
[[ -f $kit/kit.mk ]] || { echo "$kit is not there: make VARIANT=$core board-kit" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=$(sed -n 's/^CFLAGS = //p' "$kit/kit.mk")
export CCACHE_DISABLE=1 # it keeps no call graphs

# The part of qemu-plugin.h (QEMU 7.2, version 1) that this needs.
cat >"$work/count.c" <<'END'
#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>
#define EXPORT __attribute__((visibility("default")))
typedef uint64_t id_type;
struct qemu_plugin_tb;
extern void qemu_plugin_register_vcpu_tb_trans_cb(id_type, void (*)(id_type, struct qemu_plugin_tb *));
extern unsigned long qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
extern void qemu_plugin_register_atexit_cb(id_type, void (*)(id_type, void *), void *);
EXPORT int qemu_plugin_version = 1;
static uint64_t count;
static void translated(id_type id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &count, qemu_plugin_tb_n_insns(tb));
}
static void ended(id_type id, void *user)
{
    (void)id;
    (void)user;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}
EXPORT int qemu_plugin_install(id_type id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
END
cc -shared -fPIC -O2 "$work/count.c" -o "$work/count.so" || exit 1
for part in startup cortex; do
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $flags -std=c99 -DBOARD_PAINT -I. -fcallgraph-info=su -c tools/board/$part.c -o "$work/$part.o" || exit 1
done
make -s VARIANT="$core" BUILD="$graph" OPT="-Os -fcallgraph-info=su" library >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
mkdir "$work/types"
find arena core layers optim device -name '*.c' | while read -r source; do
    # shellcheck disable=SC2086
    [[ ! -f $graph/${source%.c}.o ]] || arm-none-eabi-gcc $flags -std=c99 -I. -DBP_THREADS_MAX=1 -D_POSIX_C_SOURCE=200809L \
        -include device/bare/fused.h -isystem "$graph/include" -fsyntax-only -aux-info "$work/types/${source//\//_}" "$source" || exit 1
done || exit 1

# said NAME STEPS: builds and runs that trainer; what it prints is in $said.
said() {
    rm -f "$work/$1/example" "$work/$1/"*.o
    make -s -C "$work/$1" STEPS="$2" BOARD="$work/startup.o $work/cortex.o" CFLAGS="$flags -fcallgraph-info=su" example || exit 1
    said=$(qemu-system-arm -M $board -nographic -semihosting-config enable=on,target=native -plugin "$work/count.so" \
        -kernel "$work/$1/example" </dev/null 2>&1)
}

# row NAME CONFIG OPTION..
row() {
    local name=$1 config=$2 flash ram first stack bound
    shift 2
    [[ -z $wanted || " $wanted " == *" $name "* ]] || return 0
    mkdir -p "$work/$name-model"
    echo "$config" >"$work/$name-model/config.json"
    build/release/bedplate plan --model "$work/$name-model" --max-steps 20 --alignment 32 --kernels portable "$@" \
        --emit-c "$work/$name" >/dev/null || exit 1
    mv "$work/$name/Makefile" "$work/$name/Makefile.emitted"
    cat "$kit/kit.mk" "$work/$name/Makefile.emitted" >"$work/$name/Makefile"
    said "$name" 2
    first=$(sed -n 's/^instructions //p' <<<"$said")
    said "$name" 6
    read -r flash ram < <(arm-none-eabi-size "$work/$name/example" | awk 'NR == 2 { print $1 + $2, $2 + $3 }')
    stack=$(sed -n 's/^stack //p' <<<"$said")
    cp "$work/startup.ci" "$work/cortex.ci" "$work/$name/"
    arm-none-eabi-nm "$work/$name/example" >"$work/symbols"
    bound=$(tools/board/stack.py "$graph" "$work/types" "$work/$name" "$work/symbols" 2>"$work/chain") || cat "$work/chain" >&2
    echo "$name $flash $ram $((stack)) $bound $((($(sed -n 's/^instructions //p' <<<"$said") - first) / 4))" |
        sed -E ':a; s/([0-9])([0-9]{3})( |,|$)/\1,\2\3/; ta' | sed 's/ / | /g; s/^/| /; s/$/ |/'
}
wanted=$*
echo "| trainer | flash | static memory | stack, painted | stack, bound | instructions of a step |"
echo "|---|---|---|---|---|---|"
row mlp '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' \
    --per-device-train-batch-size 8 --optim sgd
row cnn '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3,
    "layers": ["conv 4 3", "separable 8 3 stride 2", "basic 8", "mean-pool all"]}' --per-device-train-batch-size 4 --optim sgd
row gru '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128,
    "max_position_embeddings": 64}' --per-device-train-batch-size 2 --max-seq-length 32
row gpt '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}' --per-device-train-batch-size 4 --max-seq-length 32
llama='{"model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 512, "tie_word_embeddings": true}'
lora=(--per-device-train-batch-size 1 --max-seq-length 32 --lora-r 4 --gradient-release --gradient-checkpointing memory-poor
    --offload flash:2MB)
row llama "$llama" "${lora[@]}"
row llama8 "$llama" "${lora[@]}" --load-in-8bit
