#!/bin/bash
# SPDX-License-Identifier: MIT
# Trainers of plan --emit-c that answer: outputs, classes, vectors and generated tokens are those of `bedplate eval`, `embed`
# and `generate` over the same weights, bit for bit, which come in by their names; what cannot be answered is refused, and an
# answer that the plan lacks is an error of the linker that names the option.
. "$(dirname "$0")/../lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work"/{mlp,cnn,bert,llama,gpt,gru}
echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' >"$work/mlp/config.json"
echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3,
    "layers": ["conv 4 3", "separable 8 3 stride 2", "basic 8", "mean-pool all"]}' >"$work/cnn/config.json"
echo '{"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 256, "max_position_embeddings": 32, "type_vocab_size": 2, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0}' >"$work/bert/config.json"
echo '{"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "vocab_size": 256, "max_position_embeddings": 64}' >"$work/llama/config.json"
echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 256}' \
    >"$work/gpt/config.json"
echo '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 256,
    "max_position_embeddings": 64}' >"$work/gru/config.json"
# rows NUMBERS CLASSES: 24 rows.
rows() {
    awk -v n="$1" -v classes="$2" 'BEGIN { for (j = 0; j < n; j++) printf "f%d,", j; print "label"
        for (i = 0; i < 24; i++) { for (j = 0; j < n; j++) printf "%.6f,", ((i * n + j) * 7919 % 257 - 128) / 64
            print i % classes } }'
}
rows 16 4 >"$work/mlp.csv"
rows 64 3 >"$work/cnn.csv"
sed -n 's/^    "\(.*\)"[;]*$/\1/p' tools/embed/poem.h | tr -d '\n' | sed 's/\\n/\n/g' >"$work/text"

# Weights of a model.safetensors by their names, then each sample of a file (a line of numbers, or a text); what is expected
# stands in another, or tokens are printed.
cat >"$work/answers.c" <<'END'
#include "trainer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char file[1 << 20], line[1 << 16];

static int load(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t bytes = f != NULL ? fread(file, 1, sizeof file - 1, f) : 0;
    uint64_t header;
    int loaded = 0;
    memcpy(&header, file, 8);
    if (bytes < 8) return -1;
    char *data = malloc(bytes);
    memcpy(data, file + 8 + header, bytes - 8 - header);
    file[8 + header] = '\0';
    for (uint32_t i = 0; i < PLAN_TENSORS; i++) {
        const bp_state_tensor *t = &plan_tensors[i];
        char quoted[300];
        snprintf(quoted, sizeof quoted, "\"%s\":", t->name);
        char *at = strstr(file + 8, quoted);
        if (!t->weight) continue;
        at = at != NULL ? strstr(at, "data_offsets") : NULL;
        if (at == NULL) return -1;
        long first = strtol(strchr(at, '[') + 1, NULL, 10);
        if (trainer_put(t->name, data + first, (size_t)t->bytes) != BP_OK) return -1;
        loaded++;
    }
    return loaded;
}

static uint32_t sample(int32_t *to)
{
    uint32_t n = 0;
    if (PLAN_VOCABULARY == 0) {
        for (char *at = strtok(line, " ,\n"); at != NULL && n < PLAN_SAMPLE_ELEMENTS; at = strtok(NULL, " ,\n")) {
            float x = strtof(at, NULL);
            memcpy(&to[n++], &x, 4);
        }
        return n;
    }
    for (; line[n] != '\0' && line[n] != '\n'; n++) to[n] = (unsigned char)line[n];
    return n;
}

#if PLAN_OUTPUTS > 0
static int predict(FILE *samples, FILE *expected)
{
    static int32_t in[PLAN_SAMPLE_ELEMENTS + 64];
    static float out[PLAN_OUTPUTS];
    int equal = 0, all = 0;
    while (fgets(line, sizeof line, samples) != NULL) {
        uint32_t n = sample(in);
        uint64_t before, after;
        if (trainer_digest(&before) != BP_OK || trainer_predict(in, n, out) != BP_OK || trainer_digest(&after) != BP_OK) return -1;
        int same = before == after;
        for (int i = 0; i < PLAN_OUTPUTS; i++) {
            float x;
            if (fscanf(expected, "%f", &x) != 1) return -2;
            same = same && memcmp(&x, &out[i], 4) == 0;
            if (i < 4 && memcmp(&x, &out[i], 4) != 0) printf("%.9g %.9g\n", out[i], x);
        }
        all++;
        equal += same;
#if PLAN_CLASSIFIES
        uint32_t best = 99;
        int right = 0;
        if (trainer_classify(in, n, &best) != BP_OK) return -3;
        for (int i = 1; i < PLAN_OUTPUTS; i++) right = out[i] > out[right] ? i : right;
        if ((int)best != right) return -4;
#endif
    }
    printf("%d of %d\n", equal, all);
    /* What is refused. */
    const int32_t nan = 0x7fc00000, infinite = -8388608, beyond = (int32_t)PLAN_VOCABULARY;
    uint32_t whole = PLAN_VOCABULARY == 0 ? plan.input[0].elements : 3;
    printf("width %d %d %d", trainer_predict(in, 0, out), trainer_predict(in, plan.input[0].elements + 1, out),
           trainer_predict(NULL, whole, out));
    if (PLAN_VOCABULARY == 0) printf(" %d", trainer_predict(in, whole - 1, out));
    in[whole - 1] = PLAN_VOCABULARY == 0 ? nan : beyond;
    printf(", value %d", trainer_predict(in, whole, out));
    in[whole - 1] = PLAN_VOCABULARY == 0 ? infinite : -1;
    printf(" %d\n", trainer_predict(in, whole, out));
    return 0;
}
#endif

static int by_name(void)
{
    static unsigned char bytes[1 << 16];
    const bp_state_tensor *t = plan_tensors;
    const int32_t nan = 0x7fc00000;
    int said[5];
    while (!t->weight) t++;
    said[0] = trainer_get(t->name, bytes, (size_t)t->bytes);
    memcpy(bytes, &nan, 4);
    said[1] = trainer_put(t->name, bytes, (size_t)t->bytes);
    said[2] = trainer_put(t->name, bytes, (size_t)t->bytes - 1);
    said[3] = trainer_get("none", bytes, 4);
    said[4] = trainer_put("none", bytes, 4);
    printf("by name %d %d %d %d %d\n", said[0], said[1], said[2], said[3], said[4]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || trainer_init() != BP_OK || load(argv[1]) <= 0) return 1;
    by_name();
#if PLAN_OUTPUTS > 0
    return predict(fopen(argv[2], "r"), fopen(argv[3], "r"));
#elif PLAN_CONTEXT > 0
    static int32_t prompt[PLAN_CONTEXT], to[PLAN_CONTEXT];
    const float *logits;
    const uint32_t n = (uint32_t)strlen(argv[2]), most = (uint32_t)atoi(argv[3]);
    for (uint32_t i = 0; i < n; i++) prompt[i] = (unsigned char)argv[2][i];
    if (trainer_generate(prompt, n, to, most, NULL, NULL) != BP_OK) return 2;
    for (uint32_t i = 0; i < most; i++) printf("%d%s", (int)to[i], i + 1 < most ? " " : "\n");
    /* Token by token it is the same text. */
    int same = trainer_accept(true, prompt, n - 2, &logits) == BP_OK && trainer_accept(false, prompt + n - 2, 2, &logits) == BP_OK;
    for (uint32_t i = 0; i < most && same; i++) {
        uint32_t best = 0;
        same = bp_trainer_class(logits, PLAN_VOCABULARY, &best) == BP_OK && (int32_t)best == to[i] &&
               trainer_accept(false, &to[i], 1, &logits) == BP_OK;
    }
    printf("same %d", same);
    printf(", long %d %d", trainer_generate(prompt, n, to, PLAN_CONTEXT - n + 1, NULL, NULL), trainer_generate(prompt, 0, to, 1, NULL, NULL));
    prompt[1] = (int32_t)PLAN_VOCABULARY;
    printf(", beyond %d", trainer_generate(prompt, n, to, 1, NULL, NULL));
    prompt[1] = -1;
    printf(" %d\n", trainer_generate(prompt, n, to, 1, NULL, NULL));
    return 0;
#endif
}
END

# build NAME OPTION..: a trainer, and the program above with it.
build() {
    local name=$1
    shift
    rm -rf "$work/c"
    run plan --model "$work/$name" --max-steps 3 --emit-c "$work/c" "$@"
    make -s -C "$work/c" BEDPLATE="$kit" CFLAGS='-O1 -Wall -Wextra -Werror' plan.o trainer.o >"$work/made" 2>&1 &&
        cc -std=c99 -O1 -I"$kit/include" -I"$work/c" "$work/answers.c" "$work/c/"{plan,trainer}.o -L"$kit/lib" -lbedplate -lm \
            -o "$work/answers" >>"$work/made" 2>&1
    check $? "$name $*: made" "$(cat "$work/made")$out$err"
}

# verifies device-39.6454
# classes NAME BATCH OPTION..: logits of a model of numbers.
classes() {
    local name=$1 said
    shift
    rm -rf "$work/run"
    run train --model "$work/$name" --data "$work/$name.csv" --max-steps 3 --output-dir "$work/run" --quiet \
        --per-device-train-batch-size 4 "$@"
    run eval --model "$work/run" --data "$work/$name.csv" --predictions "$work/predictions" --quiet
    sed -n 's/.*"logits": \[\([^]]*\)\].*/\1/p' "$work/predictions" | tr ',' ' ' >"$work/expected"
    sed 1d "$work/$name.csv" | sed 's/,[^,]*$//' >"$work/samples"
    build "$name" --per-device-train-batch-size 4 --predict "$@"
    said=$("$work/answers" "$work/run/model.safetensors" "$work/samples" "$work/expected")
    [[ $said == "by name 0 3 1 1 1
24 of 24
width 1 1 1 1, value 3 3" ]]
    check $? "$name $*: the logits of eval" "$said"
}
classes mlp
classes mlp --per-device-eval-batch-size 5
classes cnn

# Vectors of texts.
head -c 1200 "$work/text" | tr '\n' ' ' | fold -w 23 | awk 'length > 2' >"$work/samples"
awk '{ gsub(/"/, ""); printf "{\"query\": \"%s\", \"positive\": \"%s\"}\n", $1, $0 }' "$work/samples" >"$work/pairs.jsonl"
common=(--task embedding --length-buckets none --max-seq-length 24 --per-device-train-batch-size 4)
run train --model "$work/bert" "${common[@]}" --data "$work/pairs.jsonl" --max-steps 3 --output-dir "$work/vectors" --quiet \
    --json
trained=$(json state_digest)
run embed --model "$work/vectors" --length-buckets none --max-seq-length 24 --normalize false --data "$work/samples" --output "$work/v.jsonl" --quiet
sed -E 's/.*"embedding": \[//; s/[],}]/ /g' "$work/v.jsonl" >"$work/expected"
build bert "${common[@]}" --predict
said=$("$work/answers" "$work/vectors/model.safetensors" "$work/samples" "$work/expected")
count=$(wc -l <"$work/samples")
[[ $count -gt 5 && $said == "by name 0 3 1 1 1
$count of $count
width 1 1 1, value 3 3" ]]
check $? "bert: the vectors of embed" "$said$trained"

# They are learned to the digest of train, over what the example makes up: windows of the text, two to a row.
awk -v n=16 'BEGIN { RS = "\001" } { sub(/\n$/, ""); text = $0 "\n"; l = length(text)
    for (i = 0; i < 64; i++) { piece = ""; for (j = 0; j < n; j++) piece = piece substr(text, (i * n + j) % l + 1, 1)
        gsub(/\n/, "\\n", piece)
        printf i % 2 ? "\"positive\": \"%s\"}\n" : "{\"query\": \"%s\", ", piece } }' "$work/text" >"$work/windows.jsonl"
common=(--task embedding --length-buckets none --max-seq-length 16 --per-device-train-batch-size 4 --max-steps 20)
run plan --model "$work/bert" "${common[@]}" --emit-c "$work/c"
make -s -C "$work/c" clean
make -s -C "$work/c" BEDPLATE="$kit" CFLAGS='-O1 -Wall -Wextra -Werror' >"$work/made" 2>&1
said=$("$work/c/example" | sed -n 's/^state digest //p')
run train --model "$work/bert" "${common[@]}" --data "$work/windows.jsonl" --output-dir "$work/learned" --quiet --json
[[ -n $said && $(json state_digest) == "$said" ]]
check $? "bert: the digest of train over pairs" "$said $out$err$(cat "$work/made")"

# Texts that are generated.
# generates NAME OPTION..
generates() {
    local name=$1 said
    shift
    rm -rf "$work/run"
    run train --model "$work/$name" --data "$work/text" --data-format bytes --max-steps 40 --output-dir "$work/run" --quiet \
        --per-device-train-batch-size 2 --max-seq-length 32 --learning-rate 1e-2 "$@"
    for prompt in 'Tyger Tyger, b' 'what immortal hand or eye could frame'; do
        run generate --model "$work/run" --prompt-ids "$(printf '%s' "$prompt" | od -An -v -tu1 | tr -s ' \n' , | sed 's/^,//; s/,$//')" \
            --temperature 0 --max-new-tokens 11 --output-ids --ignore-eos
        told=$out
        [[ -n ${made:-} ]] || build "$name" --per-device-train-batch-size 2 --max-seq-length 32 --generate-context 60 "$@"
        made=yes
        said=$("$work/answers" "$work/run/model.safetensors" "$prompt" 11)
        [[ -n $told && $said == "by name 0 3 1 1 1
$told
same 1, long 2 1, beyond 3 3" ]]
        check $? "$name $* $prompt: the tokens of generate" "$said
$told"
    done
    made=''
}
generates gpt
generates llama
generates gru

# What the plan lacks.
cat >"$work/asks.c" <<'END'
#include "trainer.h"
int main(void)
{
#if ASKS == 1
    return (int)trainer_evaluate(0, 0);
#elif ASKS == 2
    return (int)trainer_predict(0, 0, 0);
#elif ASKS == 3
    return (int)trainer_generate(0, 0, 0, 0, 0, 0);
#else
    return (int)trainer_classify(0, 0, 0);
#endif
}
END
run plan --model "$work/mlp" --max-steps 3 --emit-c "$work/c"
make -s -C "$work/c" BEDPLATE="$kit" CFLAGS=-O1 plan.o trainer.o >"$work/made" 2>&1
asks=0
for word in trainer_evaluate_needs_plan_with_eval_data trainer_predict_needs_plan_with_predict \
    trainer_generate_needs_plan_with_generate_context trainer_classify_needs_plan_with_predict_and_classes; do
    asks=$((asks + 1))
    cc -std=c99 -DASKS=$asks -I"$kit/include" -I"$work/c" "$work/asks.c" "$work/c/"{plan,trainer}.o -L"$kit/lib" -lbedplate \
        -lm -o "$work/asks" >"$work/made" 2>&1
    [[ $? -ne 0 && $(cat "$work/made") == *"$word"* ]]
    check $? "the linker names $word" "$(cat "$work/made")"
done
expect 2 'expected --generate-context' plan --model "$work/gpt" --max-steps 3 --predict --emit-c "$work/x"
expect 2 'generate-context: only a causal language model' plan --model "$work/mlp" --max-steps 3 --generate-context 8 --emit-c "$work/x"
expect 2 'generate-context' plan --model "$work/gpt" --max-steps 3 --generate-context 65 --emit-c "$work/x"
finish
