#!/bin/bash
# SPDX-License-Identifier: MIT
# Whatever comes from a file, an argument or the environment neither moves a terminal's cursor nor begins a line of its
# own: each source of words is given an escape sequence, a bell, C1 controls, a byte that is no UTF-8 and a newline.
. "$(dirname "$0")/../lib.sh"

evil=$'\e[31m\a\x9b\xc2\x9b\x7f\nFORGED\r'
utf8=${evil/$'\x9b'/} # a name that is no UTF-8 is refused, unprinted: test_bad_rows.sh
json='\u001b[31m\u0007\u009b\u007f\nFORGED\r'
mkdir "$work/m" "$work/named"
printf 'one two three four five\n%.0s' {1..200} >"$work/text"

# plain NAME ARGUMENTS..: the words are told, and harmless.
plain() {
    local name=$1 raw ok=0
    shift
    "$program" "$@" >"$work/.out" 2>&1 </dev/null
    raw=$(LC_ALL=C grep -caP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(^|[^\xc2-\xf4\x80-\xbf])[\x80-\xbf]|^FORGED' "$work/.out")
    [[ $raw -eq 0 ]] || ok=1
    grep -q '31m' "$work/.out" || ok=1
    check $ok "$name is printed without controls" "$(cat -v "$work/.out")"
}
train=(train --model tiny --max-seq-length 16 --max-steps 2 --threads 1)

plain "a command" "$evil"
plain "an option" train "--$evil"
plain "an option's value" train --model tiny --max-steps "$evil"
plain "a choice" train --model tiny --data "$work/text" --optim "$evil"
plain "an argument of an optimizer" "${train[@]}" --data "$work/text" --optim-args "$utf8=1" --output-dir "$work/o"
plain "an argument of a schedule" "${train[@]}" --data "$work/text" --lr-scheduler-kwargs "$utf8=1" --output-dir "$work/o"
plain "a model" train --model "$utf8" --data "$work/text"
plain "a data file that is not there" "${train[@]}" --data "$work/$utf8" --output-dir "$work/o"
plain "an output directory" verify "$work/$evil"
plain "a configuration file" train --config "$work/$evil"
printf '%s = 1\n' $'\e[31m\a\x9b\x7f' >"$work/config"
plain "a key of a configuration" train --config "$work/config"
printf 'max-steps = %s\n' $'\e[31m\a\x9b\x7f' >"$work/config"
plain "a value of a configuration" train --config "$work/config"
printf '%s\n' $'\e[31m\a\x9b\x7f' >"$work/config"
plain "a line of a configuration" train --config "$work/config"
touch "$work/named/${evil/$'\x9b'/}"
plain "a data file" "${train[@]}" --data "$work/named/${evil/$'\x9b'/}" --output-dir "$work/o2"
plain "a fabric" "${train[@]}" --data "$work/text" --fabric "$utf8" --output-dir "$work/o"
plain "an offload tier" plan --model tiny --offload "$evil"
plain "a time" "${train[@]}" --data "$work/text" --time-limit "$evil" --output-dir "$work/o"

# Names of classes, tags and columns of data.
printf '{"text":"a b","label":"%s"}\n{"text":"c d","label":"x"}\n' "$json" >"$work/labels.jsonl"
plain "a class" "${train[@]}" --task classification --data "$work/labels.jsonl" --output-dir "$work/c"
plain "a column" "${train[@]}" --task classification --data "$work/labels.jsonl" --text-column "$utf8" --output-dir "$work/c3"
printf '{"messages":[{"role":"%s","content":"x"}]}\n' "$json" >"$work/roles.jsonl"
plain "a role" "${train[@]}" --data "$work/roles.jsonl" --chat-template chatml --output-dir "$work/c4"
printf '{"messages":[{"role":"user","content":"%s"},{"role":"assistant","content":"y"}]}\n' "$json" >"$work/chat.jsonl"
printf "{{ raise_exception(messages[0]['content']) }}" >"$work/template.jinja"
plain "an exception of a template" "${train[@]}" --data "$work/chat.jsonl" --chat-template "$work/template.jinja" --output-dir "$work/c5"

# Names in a model's files.
run "${train[@]}" --data "$work/text" --output-dir "$work/run"
check $code "a run" "$err"
cp "$work"/run/*.json "$work/m"
header="{\"$json\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
header=$(printf '%s' "${header//\\u009b/$'\xc2\x9b'}")
{
    n=$(printf '%s' "$header" | wc -c)
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\0\0\0\0\0\0%s\0\0\0\0" "$header"
} >"$work/m/model.safetensors"
plain "a tensor" train --model "$work/m" --data "$work/text" --max-seq-length 16 --max-steps 1 --output-dir "$work/c6"

# Lines of a run that somebody else wrote.
mkdir "$work/w"
printf '{"event":"%s","seq":0,"unix":1e300,"step":1e300,"text":"%s"}\n' "$json" $'\e[31m\a\xc2\x9b\x7f' >"$work/w/events.jsonl"
printf '{"event":"exit","seq":1,"unix":-1e300,"step":-1,"code":1e300,"replays":1e300}\n' >>"$work/w/events.jsonl"
printf '{"event":"progress","seq":1,"unix":5,"step":1e300,"tokens_per_second":1e308,"eta_seconds":1e300}\n' >>"$work/w/events.jsonl"
plain "an event" watch --once "$work/w"
expect 0 '' report --output "$work/page.html" "$work/w"

# One place prints what is not the program's own.
raw=$(grep -nE '(^|[^a-z_])v?printf\(|\bfprintf\(\s*std|\bfputs\(.*, stderr' tools/bedplate/*/*.c |
    grep -vE '^tools/bedplate/(app/(main|options_show|output)|verbs/cmd_(completion|selftest))\.c:')
[[ -z $raw ]]
check $? "output_print prints" "$raw"
finish
