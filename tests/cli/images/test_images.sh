#!/bin/bash
# SPDX-License-Identifier: MIT
# Images in files: PNG and JPEG hold the pixels that Pillow reads of them, folders of classes are data; damaged ones.
# verifies formats-51.a173
. "$(dirname "$0")/../lib.sh"
pictures=tests/golden/pictures
net() { # net CHANNELS WIDTH [MORE]
    mkdir -p "$work/net"
    echo '{"model_type": "cnn", "image_height": 8, "image_width": '"$2"', "num_channels": '"$1${3:-}"',
           "layers": ["conv 4 3", "mean-pool all"]}' >"$work/net/config.json"
}
learn() { rm -rf "$work/x"; run train --model "$work/net" --data-format imagefolder --per-device-train-batch-size 4 --max-steps 3 --learning-rate 1e-2 "$@"; }

# The same bits after training on images and on what Pillow read of them.
same() { # same NAME ENDING FILES..: lists of the files and of what has the ending instead
    local name=$1 ending=$2 file i=0
    shift 2
    for list in as-is read; do echo file_name,label >"$work/$list.csv"; done
    for file; do
        echo "$PWD/$pictures/$file,$((i % 2))" >>"$work/as-is.csv"
        echo "$PWD/$pictures/${file%.*}.$ending,$((i++ % 2))" >>"$work/read.csv"
    done
    learn --data "$work/as-is.csv" --output-dir "$work/$name-1" --json
    local digest=$(json state_digest)
    check $code "$name are read" "$err"
    learn --data "$work/read.csv" --output-dir "$work/$name-2" --json
    [[ $code -eq 0 && -n $digest && $(json state_digest) == "$digest" ]]
    check $? "$name hold what Pillow reads" "$digest $out$err"
}
net 3 10 ', "num_labels": 2'
missing='' # where the machine lacks a reader, its message is what is tested
for kind in colour.png photo.jpg; do
    printf 'file_name,label\n%s,0\n' "$PWD/$pictures/$kind" >"$work/one.csv"
    learn --data "$work/one.csv" --output-dir "$work/x"
    [[ $code -eq 0 ]] || missing+=" $kind"
done
echo "not on this machine:${missing:- nothing}"
[[ $missing == *png* ]] || same PNG ppm colour.png palette.png clear.png plain.png bits.png gamma.png wide.png deep.png deep_clear.png
[[ $missing == *jpg* ]] || same JPEG ppm photo.jpg half.jpg
# 16 bits a number.
digests=()
for file in as_deep.ppm deep.ppm; do
    printf 'file_name,label\n%s,1\n' "$PWD/$pictures/$file" >"$work/one.csv"
    learn --data "$work/one.csv" --output-dir "$work/x" --json
    digests+=("$(json state_digest)")
done
[[ -n ${digests[0]} && ${digests[0]} == "${digests[1]}" ]]
check $? "a PPM of 16 bits holds the nearest of 255" "${digests[*]} $err"
net 1 10 ', "num_labels": 2'
[[ $missing == *png* ]] || same 'grey PNG' pgm grey.png grey_deep.png grey_deep_clear.png
[[ $missing == *jpg* ]] || same 'grey JPEG' pgm grey2.jpg

# A machine without the readers: a file that is no library stands where they are looked for.
mkdir "$work/none"
: >"$work/none/libpng16.so.16"
: >"$work/none/libturbojpeg.so.0"
net 3 10 ', "num_labels": 2'
for pair in colour.png:libpng16.so.16 photo.jpg:libturbojpeg.so.0; do
    printf 'file_name,label\n%s,0\n' "$PWD/$pictures/${pair%:*}" >"$work/one.csv"
    LD_LIBRARY_PATH=$work/none learn --data "$work/one.csv" --output-dir "$work/x"
    [[ $code -eq 4 ]] && grep -q "one.csv:2: .*${pair%:*}: .*this machine has no ${pair#*:}" <<<"$err"
    check $? "the missing reader is named" "$err"
done

# Damaged and others' images.
refused() { # refused FILE PATTERN
    printf 'file_name,label\n%s,1\n' "$1" >"$work/one.csv"
    learn --data "$work/one.csv" --output-dir "$work/x"
    [[ $code -eq 4 ]] && grep -qE "one.csv:2: $1: .*$2" <<<"$err"
    check $? "$1: refused ($2; $code)" "$err"
}
if [[ $missing != *png* ]]; then
    for bytes in 5 20 40 100 200 304; do
        head -c $bytes "$pictures/colour.png" >"$work/cut.png"
        refused "$work/cut.png" 'cut short|damaged'
    done
    { head -c 150 "$pictures/colour.png"; printf X; tail -c +152 "$pictures/colour.png"; } >"$work/odd.png"
    refused "$work/odd.png" damaged
    { head -c 16 "$pictures/colour.png"; printf '\177\377\377\377'; tail -c +21 "$pictures/colour.png"; } >"$work/vast.png"
    refused "$work/vast.png" 'too many numbers'
    net 3 9 ', "num_labels": 2'
    refused "$PWD/$pictures/colour.png" 'another height, width.*found 10, expected 9'
    net 1 10 ', "num_labels": 2'
    refused "$PWD/$pictures/colour.png" 'another height.*found 3, expected 1'
    net 3 10 ', "num_labels": 2'
fi
if [[ $missing != *jpg* ]]; then
    refused "$PWD/$pictures/inks.jpeg" 'four inks'
    for bytes in 20 300 680; do
        head -c $bytes "$pictures/photo.jpg" >"$work/cut.jpg"
        refused "$work/cut.jpg" 'cut short'
    done
fi

# A folder of classes, which name the model's; with a trailing slash and without.
for class in 'a cat' dog; do mkdir -p "$work/pets/$class"; done
cp "$pictures"/{colour,clear}.ppm "$work/pets/a cat"
cp "$pictures"/{bits,plain}.ppm "$work/pets/dog"
cp "$pictures/photo.ppm" "$work/pets/dog/so, \"it\".PPM"
echo text >"$work/pets/dog/note.txt"
echo text >"$work/pets/readme"
net 3 10
learn --data "$work/pets" --output-dir "$work/told" --json
[[ $code -eq 0 ]] && grep -q '5 rows of 240 numbers and a label' <<<"$err" &&
    grep -q '"id2label": {"0": "a cat", "1": "dog"}' "$work/told/config.json"
check $? "five images of two classes" "$err$(cat "$work/told/config.json")"
digest=$(json state_digest)
learn --data "$work/pets/" --output-dir "$work/slash" --json
[[ $code -eq 0 && $(json state_digest) == "$digest" ]]
check $? "the same with a slash" "$out$err"
learn --data "$work/pets///" --output-dir "$work/slash"
[[ $(head -1 "$work/slash/record.jsonl") == *'"data":[{"name":"pets",'* ]]
check $? "whose record has the name without its folders" "$(head -1 "$work/slash/record.jsonl")$err"
expect 0 '3 of 3 steps proven' replay "$work/slash"
expect 0 'accuracy' eval --model "$work/told" --data "$work/pets" --data-format imagefolder
expect 0 '3 of 3 steps proven' replay "$work/told"
# Images are samples: nothing counts them as tokens.
learn --data "$work/pets" --output-dir "$work/seen" --metrics "$work/seen.prom" --report-to tensorboard
run watch "$work/seen"
[[ $out == *' samples/s'* && $out != *tokens* ]] && ! grep -q 'tokens' "$work/seen/events.jsonl" "$work/seen.prom" &&
    grep -q '^bedplate_samples_total{.*} [1-9]' "$work/seen.prom" && grep -qa 'perf/samples_per_second' "$work"/seen/runs/* &&
    ! grep -qa 'perf/tokens' "$work"/seen/runs/*
check $? "samples in watch, events, metrics and TensorBoard" "$out$(grep tokens "$work/seen/events.jsonl" "$work/seen.prom")"
run report "$work/seen" --output "$work/seen.html"
grep -q 'samples per second' "$work/seen.html" && ! grep -q 'tokens per second' "$work/seen.html"
check $? "and on the page" "$err"
run plan --model "$work/net" --data "$work/pets"
[[ $out == *' numbers, '* && $out != *' tokens, '* ]]
check $? "and in the plan" "$out"
mkdir "$work/pets/bird"
learn --data "$work/pets" --output-dir "$work/x"
[[ $code -eq 4 ]] && grep -q 'another number of classes.*found 3, expected 2' <<<"$err"
check $? "three folders for two classes" "$err"
learn --data "$work/pets" --output-dir "$work/x" --num-labels 3
check $code "three are asked for" "$err"
cp "$pictures/colour.ppm" "$work/pets/bird"
expect 4 ':4: the label is neither' eval --model "$work/told" --data "$work/pets" --data-format imagefolder
mkdir -p "$work/empty/a" "$work/empty/b"
rm -rf "$work/x"
expect 4 'empty: .*no image in it' train --model "$work/net" --data "$work/empty" --data-format imagefolder --output-dir "$work/x"
expect 4 'task: classification, 3 classes, from the folders of ' train --model "$work/net" --data "$work/pets" --output-dir "$work/x"
rm -r "$work/pets/bird"
head -c 50 "$pictures/colour.ppm" >"$work/pets/dog/plain.ppm"
learn --data "$work/pets" --output-dir "$work/x"
[[ $code -eq 4 ]] && grep -q 'pets/dog/plain.ppm: .*cut short' <<<"$err"
check $? "the damaged image is named" "$err"
finish
