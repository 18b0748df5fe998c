#!/bin/bash
# SPDX-License-Identifier: MIT
# Whether a change of the sources changed what is planned and computed. Plans every preset under every
# policy in several forms with two builds of the program: bytes of the arena, number of ops, counted
# seconds, the ops themselves and their addresses. Then trains the small presets a few steps and
# compares the digests of their states, and what they generate.
#
#     tools/bench/compare_plans.sh BEFORE AFTER [PATTERN]
#
# BEFORE and AFTER are programs, or files of rows that a run with ROWS=FILE left of one (then only
# that program is given). PATTERN: an extended regular expression over "preset policy form", of those
# wanted. Ends with 1 where an arena is larger, a plan slower or a digest another.
set -u
pattern=${3:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

presets="gpt2 gpt2-medium gpt2-xl llama-3.2-1b tinyllama-1.1b llama-7b bert-base demo tiny tiny-llama
tiny-bert mlp tiny-mlp gru lstm tiny-gru tiny-lstm"
policies="none full memory-poor every:3 sqrt selective:norm selective:gelu selective:attention
selective:norm,gelu selective:norm,attention selective:gelu,attention selective:norm,gelu,attention"
forms="fp32 bf16 released lora qlora accumulated still frozen"
small="tiny tiny-llama tiny-bert tiny-mlp tiny-gru tiny-lstm"

form_options() {
    case $1 in
    bf16) echo --bf16 ;;
    released) echo --bf16 --gradient-release ;;
    lora) echo --lora-r 8 ;;
    qlora) echo --lora-r 8 --load-in-4bit ;;
    accumulated) echo --gradient-accumulation-steps 3 ;;
    still) echo --dropout 0 ;;
    drops) echo --dropout 0.1 ;;
    frozen) echo --freeze '*' --trainable '*.1.*' ;;
    esac
}

value() { grep -oE "\"$1\": [^,}]*" "$2" | head -1 | sed 's/.*: //'; }

# PROGRAM PRESET POLICY FORM ARENA: one row: arena bytes, ops, seconds, digest of the ops, and with addresses.
plan_row() {
    local program=$1 key="plan $2 $3 $4"
    # shellcheck disable=SC2046 # the options are words
    (set -f && exec "$program" plan --model "$2" --per-device-train-batch-size 2 --validation-split 0.1 --listing --json \
        --device host --threads 2 --arena "$5" --gradient-checkpointing "$3" $(form_options "$4")) >"$work/plan" 2>/dev/null
    local code=$?
    if [[ $code -ne 0 ]]; then
        echo "$key - - - exit $code"
        return
    fi
    sed -n '2,$p' "$work/plan" >"$work/listing"
    echo "$key $(value arena_bytes "$work/plan") $(grep -cE '^ *[0-9]+  [a-z]' "$work/listing")" \
        "$(value estimated_seconds "$work/plan") $(sed 's/ @0x[0-9a-f]*//' "$work/listing" | cksum | cut -d' ' -f1)" \
        "$(cksum <"$work/listing" | cut -d' ' -f1)"
}

# Between the least and the most that the preset needs, auto chooses.
auto_rows() {
    local program=$1 preset=$2 form=$3 least most tenths
    most=$(plan_row "$program" "$preset" none "$form" 100TiB | cut -d' ' -f5)
    least=$(plan_row "$program" "$preset" full "$form" 100TiB | cut -d' ' -f5)
    [[ $most == - || $least == - ]] && return
    for tenths in 1 3 5 7 9; do
        plan_row "$program" "$preset" auto "$form" $((least + (most - least) * tenths / 10)) |
            sed "s/ auto / auto:$tenths /"
    done
}

train_data() {
    case $1 in
    tiny-mlp) for i in {1..60}; do echo "0.$i,0.$((i * 7 % 10)),-0.$i,1.5,$((i % 3))"; done >"$work/data.csv" ;;
    *) for i in {1..400}; do printf "row %d of %d. " "$i" $((i * i % 97)); done >"$work/data.txt" ;;
    esac
}

# PROGRAM PRESET POLICY FORM: the digest of the state after some steps.
train_row() {
    local program=$1 key="train $2 $3 $4" data=$work/data.txt length=
    [[ $2 == tiny-mlp ]] && data=$work/data.csv
    [[ $2 == tiny-mlp ]] || length="--max-seq-length 64"
    rm -rf "$work/run"
    # shellcheck disable=SC2046
    (set -f && exec "$program" train --model "$2" --per-device-train-batch-size 4 --device host --threads 1 --max-steps 3 \
        $length --data "$data" --output-dir "$work/run" --gradient-checkpointing "$3" --json $(form_options "$4")) \
        >"$work/out" 2>/dev/null
    local code=$?
    echo "$key - - - $(value state_digest "$work/out" | tr -d '"') exit $code"
    if [[ $code -eq 0 && $3 == none && ! $2 =~ bert|mlp && ! $4 =~ lora ]]; then
        echo "generate $2 - $4 - - - $("$program" generate --model "$work/run" --prompt 'row 3' --max-new-tokens 12 \
            --temperature 0 --json 2>/dev/null | grep -o '"ids": [^]]*' | cksum | cut -d' ' -f1)"
    fi
}

rows() {
    local program=$1 preset policy form
    for preset in $presets; do
        for form in $forms; do
            for policy in $policies; do
                [[ "$preset $policy $form" =~ $pattern ]] && plan_row "$program" "$preset" "$policy" "$form" 100TiB
            done
            [[ "$preset auto $form" =~ $pattern ]] && auto_rows "$program" "$preset" "$form"
        done
    done
    for preset in $small; do
        train_data "$preset"
        for form in $forms drops; do
            for policy in none full selective:norm,gelu selective:attention selective:norm,gelu,attention; do
                [[ "$preset $policy $form" =~ $pattern ]] && train_row "$program" "$preset" "$policy" "$form"
            done
        done
    done
}

rows_of() {
    if [[ -x $1 ]]; then
        rows "$1"
    else
        awk -v pattern="$pattern" '{ key = $2 " " $3 " " $4; sub(/auto:[0-9]+/, "auto", key) }
            key ~ pattern' "$1"
    fi
}

if [[ -n ${ROWS:-} ]]; then
    pattern=${2:-.}
    rows "$1" >"$ROWS"
    exit
fi
rows_of "$1" >"$work/before"
rows_of "$2" >"$work/after"
awk '
NR == FNR { before[$1 " " $2 " " $3 " " $4] = $0; next }
{
    key = $1 " " $2 " " $3 " " $4
    if (!(key in before)) next
    count[$1]++
    split(before[key], b, " ")
    line = before[key]
    if (line == $0) { same[$1]++; next }
    if ($1 != "plan" || $5 == "-" || b[5] == "-") { print key ": " line " -> " $0; bad++; next }
    what = ""
    # what auto chooses fits its budget: its time counts
    if ($5 != b[5]) {
        what = what sprintf(" arena %s -> %s (%+.0f)", b[5], $5, $5 - b[5])
        larger += $5 > b[5] && $3 !~ /auto/
        smaller += $5 < b[5] && $3 !~ /auto/
    }
    if ($6 != b[6]) what = what " ops " b[6] " -> " $6
    if ($7 != b[7]) { what = what " seconds " b[7] " -> " $7; slower += $7 > b[7]; faster += $7 < b[7] }
    if (what == "" && $8 != b[8]) { what = " other ops, as many"; ops++ }
    if (what == "") { what = " other addresses"; moved++; next }
    print key ":" what
}
END {
    for (kind in count) printf "%s: %d compared, %d the same\n", kind, count[kind], same[kind]
    printf "arenas: %d larger, %d smaller; seconds: %d more, %d fewer; other ops: %d; other addresses only: %d; other results: %d\n",
        larger, smaller, slower, faster, ops, moved, bad
    exit larger + slower + bad > 0
}' "$work/before" "$work/after"
