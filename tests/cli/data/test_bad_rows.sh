#!/bin/bash
# SPDX-License-Identifier: MIT
# Rows that cannot be: templates that do not end, images of another size or damaged, roles that nobody knows, pairs without
# a chosen side, tokenizers that disagree with the model, documents longer than the window. File, and row or line, are named,
# the exit code is 4, and no output directory is made.
# verifies formats-61.cede
. "$(dirname "$0")/../lib.sh"

# bad PATTERN OPTIONS: training with them.
bad() {
    local pattern=$1
    shift
    expect 4 "$pattern" train "$@" --per-device-train-batch-size 2 --max-steps 1 --output-dir "$work/x"
    [[ ! -e $work/x ]]
    check $? "no directory of: $*"
    rm -rf "$work/x"
}

for ((i = 0; i < 6; i++)); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"it is $i\"}]}"
done >"$work/chat.jsonl"
tiny=(--model tiny --max-seq-length 64)

# A limit is said as one.
for label in 3 -1; do
    printf '{"text": "a", "label": 0}\n{"text": "b", "label": %d}\n' "$label" >"$work/classes.jsonl"
    bad "classes.jsonl:2: the label is no class of the model: found $label, expected at $([[ $label -lt 0 ]] && echo least 0 || echo most 2)\$" \
        --model tiny-bert --task classification --num-labels 3 --data "$work/classes.jsonl" --max-seq-length 16
done

# Templates: of those whose text does not end the line is told, of those that would compute without end the row.
while IFS='|' read -r pattern template; do
    printf '{# a template #}\n%s\n' "$template" >"$work/template"
    bad "$pattern" "${tiny[@]}" --data "$work/chat.jsonl" --chat-template "$work/template"
done <<'END2'
the chat template: line 2: a block does not end|{% if messages %}open
the chat template: line 2: a block does not end|{% for m in messages %}{{ m.content }}
the chat template: line [23]: a tag does not end|{{ messages
the chat template: line [23]: a comment does not end|{# comment
chat.jsonl:1: a range is larger|{% for i in range(100000000) %}{% for j in range(100000000) %}x{% endfor %}{% endfor %}
chat.jsonl:1: .*more memory|{% for i in range(60000) %}{% for j in range(60000) %}{% for k in range(60000) %}{% endfor %}{% endfor %}{% endfor %}
chat.jsonl:1: a string is repeated|{{ "x" * 100000000000 }}
chat.jsonl:1: line 2: macros call each other|{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}
chat.jsonl:1: .*more memory|{% set ns = namespace(x="a") %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}
END2

# Roles, of all forms of conversations.
while IFS='|' read -r pattern change; do
    sed "$change" "$work/chat.jsonl" >"$work/said.jsonl"
    bad "said.jsonl:$pattern" "${tiny[@]}" --data "$work/said.jsonl" --chat-template chatml
done <<'END2'
3: the role of a message is unknown.*"robot"|3s/"user"/"robot"/
4: the role of a message is unknown.*"bot"|s/"messages"/"conversations"/; s/"role": "user", "content"/"from": "human", "value"/; s/"role": "assistant", "content"/"from": "gpt", "value"/; 4s/"gpt"/"bot"/
2: a message has no role|2s/"role": "user", //
2: a message has no text|2s/"content": "say 1"/"content": 5/
6: the conversation is no list|6s/.*/{"messages": []}/
END2

# Pairs and judgements.
for ((i = 0; i < 6; i++)); do
    echo "{\"prompt\": \"q$i\", \"chosen\": \"a$i\", \"rejected\": \"b$i\"}" >>"$work/pairs.jsonl"
    echo "{\"prompt\": \"q$i\", \"completion\": \"a$i\", \"label\": true}" >>"$work/judged.jsonl"
done
while IFS='|' read -r task file pattern change; do
    sed "$change" "$work/$file.jsonl" >"$work/rows.jsonl"
    bad "rows.jsonl:3: $pattern" "${tiny[@]}" --task "$task" --data "$work/rows.jsonl"
done <<'END2'
dpo|pairs|the row has no chosen side|3s/, "chosen": "a2"//
dpo|pairs|the row has no chosen side|3s/"chosen": "a2"/"chosen": null/
orpo|pairs|the row has no chosen side|3s/"chosen": "a2"/"chosen": ""/
simpo|pairs|the row has no rejected side|3s/"rejected": "b2"/"rejected": 7/
kto|judged|the row has no label|3s/, "label": true//
kto|judged|the row has no completion|3s/"completion": "a2"/"completion": null/
END2

# Images in files: the list's line.
golden=tests/golden
mkdir "$work/vit" "$work/pictures"
cp $golden/vit/{config.json,model.safetensors} "$work/vit"
# pixels HEAD COUNT FILE
pixels() {
    { printf '%b' "$1" && printf "%$2s" '' | tr ' ' x; } >"$work/pictures/$3"
}
pixels 'P6 8 8 255\n' 192 ok.ppm
pixels 'P6 8 8 255\n' 100 cut.ppm
pixels 'P6 8 8 255\n' 193 long.ppm
pixels 'P6 9 8 255\n' 216 wide.ppm
pixels 'P6 0 8 255\n' 0 none.ppm
pixels 'P6 8 8 0\n' 192 black.ppm
echo hello >"$work/pictures/word.png"
head -c 60 $golden/pictures/photo.jpg >"$work/pictures/cut.jpg"
head -c 200 $golden/pictures/colour.png >"$work/pictures/cut.png"
while IFS='|' read -r file pattern; do
    printf 'file_name,label\nok.ppm,a\n%s,c\n' "$file" >"$work/pictures/list.csv"
    bad "list.csv:3: .*$file: $pattern" --model "$work/vit" --data "$work/pictures/list.csv" --data-format imagefolder
done <<'END2'
cut.ppm|the file's size differs.*found 111, expected 203
long.ppm|the file's size differs.*found 204, expected 203
wide.ppm|the image has another height, width.*found 9, expected 8
none.ppm|the image has another height, width.*found 0, expected 8
black.ppm|the largest number of the image
word.png|the file is no PPM or PGM image
cut.jpg|.*(JPEG|damaged|cut short)
cut.png|.*(PNG|damaged|cut short)
absent.png|there is no such file
END2

# Images in rows and in arrays.
while IFS='|' read -r change pattern; do
    sed "$change" $golden/vit/images.csv >"$work/rows.csv"
    bad "rows.csv:3: $pattern" --model "$work/vit" --data "$work/rows.csv"
done <<'END2'
3s/^[0-9.]*,//|.*found 192, expected 193
3s/^[0-9.]*,/abc,/|the field is not a number
3s/,[0-9]*$/,9/|the label is no class of the model: found 9, expected at most 2
END2
# array SHAPE BYTES FILE: an array of bytes.
array() {
    local head="{'descr': '|u1', 'fortran_order': False, 'shape': ($1), }"
    { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$head" && head -c "$2" /dev/zero; } >"$work/$3"
}
array '4,' 4 y_rows.npy
array '4, 7, 8, 3' 672 x_rows.npy
bad 'x_rows.npy:.*found 168, expected 192' --model "$work/vit" --data "$work/x_rows.npy"
array '4, 8, 8, 3' 100 x_rows.npy
bad 'x_rows.npy: the file.s size differs' --model "$work/vit" --data "$work/x_rows.npy"
array '4, 8, 8, 3' 768 x_rows.npy
printf '\t' | dd of="$work/y_rows.npy" bs=1 seek=130 conv=notrunc 2>/dev/null
bad 'x_rows.npy:3: the label is no class' --model "$work/vit" --data "$work/x_rows.npy"
rm "$work/y_rows.npy"
bad 'y_rows.npy: there is no such file' --model "$work/vit" --data "$work/x_rows.npy"
{ printf '\0\0\x08\x03\0\0\0\x04\0\0\0\x08\0\0\0\x08' && head -c 100 /dev/zero; } >"$work/train-images-idx3-ubyte"
bad 'train-(images-idx3|labels-idx1)-ubyte: ' --model "$work/vit" --data "$work/train-images-idx3-ubyte"

# A tokenizer of more tokens than the model has.
echo "some text for a model, and a little more of it" >"$work/text"
bad 'gpt2_small: the tokenizer has more tokens than the model.s vocabulary: found 901, expected at most 256' \
    --model tiny --max-seq-length 16 --tokenizer $golden/tokenizers/gpt2_small --data "$work/text"

# Documents longer than the window: cut and counted, or refused, as asked.
long=$(printf 'word %.0s' $(seq 40))
for ((i = 0; i < 4; i++)); do
    echo "{\"text\": \"$([[ $i -eq 2 ]] && echo "$long" || echo "short $i")\"}"
done >"$work/texts.jsonl"
echo '{% for m in messages %}{{ m.role[0] + ":" + m.content + ";" }}{% endfor %}' >"$work/short"
sed "5s/it is 4/$long/" "$work/chat.jsonl" >"$work/long.jsonl"
one=(--per-device-train-batch-size 2 --max-steps 1)
expect 4 'texts.jsonl: row 3: it has more tokens than --max-seq-length.*expected at most 6[45]' train "${tiny[@]}" \
    "${one[@]}" --data "$work/texts.jsonl" --packing --long-rows refuse --output-dir "$work/refused"
expect 4 'long.jsonl: row 5: it has more tokens than --max-seq-length' train "${tiny[@]}" "${one[@]}" \
    --data "$work/long.jsonl" --chat-template "$work/short" --long-rows refuse --output-dir "$work/refused2"
run train "${tiny[@]}" --data "$work/texts.jsonl" --packing --per-device-train-batch-size 2 --max-steps 1 --output-dir "$work/cut"
[[ $code -eq 0 ]] && grep -q '136 tokens are beyond the ends of rows' <<<"$err"
check $? "cut, and counted" "$err"
finish
