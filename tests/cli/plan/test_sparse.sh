#!/bin/bash
# SPDX-License-Identifier: MIT
# plan --sparse-update-bytes: the tensors that a loop over plans of its own takes, in the order of a file or of biases and
# weights; the plan is that of --freeze and --trainable, and a trainer of it ends with the digest of train.
. "$(dirname "$0")/../lib.sh"

mkdir -p "$work/net"
echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3, "freeze_batch_norm": true,
    "layers": ["conv 4 3", "depthwise 3", "conv 8 1", "mean-pool all"]}' >"$work/net/config.json"
options=(--model "$work/net" --max-steps 20 --optim sgd --learning-rate 1e-2 --per-device-train-batch-size 2
    --gradient-release --gradient-checkpointing memory-poor --alignment 32 --kernels portable --max-grad-norm 0)
flash=(--offload flash:1MB)

arena_of() {
    "$program" plan "${options[@]}" "${flash[@]}" --json "$@" 2>/dev/null | tail -1 |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["arena_bytes"])'
}
# greedy BUDGET NAME..: what is taken of the names, each where the plan with it stays within the budget.
greedy() {
    local budget=$1 name arena taken=()
    shift
    for name in "$@"; do
        arena=$(arena_of --freeze '*' "${taken[@]/#/--trainable=}" --trainable="$name")
        ((arena > budget)) || taken+=("$name")
    done
    echo "${taken[*]}"
}
# chosen OPTION..: what the program takes, and its bytes.
chosen() {
    "$program" plan "${options[@]}" "${flash[@]}" --json "$@" 2>"$work/err" | tail -1 | python3 -c '
import json, sys
d = json.load(sys.stdin)
s = d["sparse_update"]
assert s["arena_bytes"] == d["arena_bytes"] <= s["budget_bytes"], s
assert s["parameters"] == d["trainable_parameters"], s
print(" ".join(t["name"] for t in s["trainable"]))'
}

# verifies face-72.0061
tensors=$("$program" plan "${options[@]}" --freeze '*' --trainable classifier.bias --json | tail -1 | python3 -c '
import json, sys
names = [t["name"] for t in json.load(sys.stdin)["frozen"] if "running" not in t["name"]]
names.append("classifier.bias")
last = list(reversed(names))
print(*[n for n in last if n.endswith("bias")], *[n for n in last if not n.endswith("bias")])')
read -ra names <<<"$tensors"
[[ ${#names[@]} -eq 11 ]]
check $? "the net has eleven tensors" "$tensors"
least=$(arena_of --freeze '*' --trainable classifier.bias) most=$(arena_of)
for budget in "$least" $(((least + most) / 2)) $((most - 1)) "$most"; do
    right=$(greedy "$budget" "${names[@]}") found=$(chosen --sparse-update-bytes "$budget")
    [[ -n $right && $found == "$right" ]]
    check $? "$budget bytes: biases, then weights" "$found; $right is right; $(cat "$work/err")"
done

# A file's order, and what it leaves out is not trained.
# verifies face-72.0061
cat >"$work/contributions" <<'END'
# accuracy in points
layers.2.convolution.weight 2.5
layers.1.normalization.weight	1
classifier.weight 3e-1
layers.0.convolution.weight 9
layers.0.normalization.bias 0
END
for budget in $((least + 256)) $(((least + most) / 2)) "$most"; do
    right=$(greedy "$budget" layers.0.convolution.weight layers.2.convolution.weight layers.1.normalization.weight classifier.weight)
    found=$(chosen --sparse-update-bytes "$budget" --contributions "$work/contributions")
    [[ $found == "$right" ]]
    check $? "$budget bytes: the file's order" "$found; $right is right; $(cat "$work/err")"
done

# Rows: of what does not fit a half, a quarter or an eighth, of matrices and convolutions alone. windows NAME: the first rows
# of these parts, where the name has rows. greedy_rows BUDGET NAME..: as greedy, with those.
# verifies face-74.768c
declare -A rows=([layers.0.convolution.weight]=4 [layers.2.convolution.weight]=8 [classifier.weight]=3)
windows() {
    local count=${rows[$1]:-0} part
    for part in 2 4 8; do
        ((count / part == 0)) || echo "$1:0-$((count / part - 1))"
    done
}
greedy_rows() {
    local budget=$1 name form taken=()
    shift
    for name in "$@"; do
        for form in "$name" $(windows "$name"); do
            if (($(arena_of --freeze '*' "${taken[@]/#/--trainable=}" --trainable="$form") <= budget)); then
                taken+=("$form")
                break
            fi
        done
    done
    echo "${taken[*]}"
}
chosen_rows() {
    "$program" plan "${options[@]}" "${flash[@]}" --sparse-update-rows "$@" --json 2>"$work/err" | tail -1 | python3 -c '
import json, sys
d = json.load(sys.stdin)
s = d["sparse_update"]
assert s["arena_bytes"] == d["arena_bytes"] <= s["budget_bytes"], s
assert s["parameters"] == d["trainable_parameters"], s
print(" ".join(t["name"] + (":%d-%d" % (t["first_row"], t["first_row"] + t["rows"] - 1) if "rows" in t else "")
    for t in s["trainable"]))'
}
some=0
sgd=("${options[@]}") least_sgd=$least
options=("${options[@]/sgd/adamw}") # whose states are of rows
least=$(arena_of --freeze '*' --trainable classifier.bias) most=$(arena_of)
for budget in $(((least + most) / 2)) $((least + (most - least) / 4)) $((most - 1)); do
    right=$(greedy_rows "$budget" "${names[@]}") found=$(chosen_rows --sparse-update-bytes "$budget")
    [[ -n $right && $found == "$right" ]]
    check $? "$budget bytes: rows" "$found; $right is right; $(cat "$work/err")"
    [[ $found != *:* ]] || some=1
done
check $((1 - some)) "rows were chosen"

# A checkpoint's second moments: the tensors by their sum for each parameter, of one that does not fit the rows with most.
# verifies face-74.768c
awk 'BEGIN { for (j = 0; j < 64; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 64; j++) printf "%.6f,", ((i * 64 + j) * 7919 % 257 - 128) / 64
        print i % 3 } }' >"$work/measure.csv"
run train --model "$work/net" --data "$work/measure.csv" --per-device-train-batch-size 8 --max-steps 5 --save-steps 5 --quiet \
    --output-dir "$work/measured"
python3 - "$work/measured/checkpoint-5/state.safetensors" >"$work/order" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
found = []
for name, v in json.loads(data[8 : 8 + n]).items():
    if name.endswith(".exp_avg_sq"):
        a, b = v["data_offsets"]
        flat = struct.unpack("<%df" % ((b - a) // 4), data[8 + n + a : 8 + n + b])
        width = len(flat) // v["shape"][0]
        sums = [sum(flat[i : i + width]) for i in range(0, len(flat), width)]
        forms = [name[: -len(".exp_avg_sq")]]
        for part in (2, 4, 8):
            count = len(sums) // part
            if count > 0 and len(v["shape"]) in (2, 4) and not (len(v["shape"]) == 4 and v["shape"][1] == 1 and v["shape"][0] == 4 and "layers.1" in name):
                first = max(range(len(sums) - count + 1), key=lambda i: sum(sums[i : i + count]))
                forms.append("%s:%d-%d" % (forms[0], first, first + count - 1))
        found.append((sum(sums) / len(flat), forms))
for _, forms in sorted(found, key=lambda f: -f[0]):
    print(*forms)
END
[[ $code -eq 0 && $(wc -l <"$work/order") -eq 11 ]]
check $? "eleven tensors are measured" "$out$err"
for budget in $(((least + most) / 2)) $((most - 1)) $((most - 300)); do
    taken=()
    while read -ra forms; do
        for form in "${forms[@]}"; do
            if (($(arena_of --freeze '*' "${taken[@]/#/--trainable=}" --trainable="$form" </dev/null) <= budget)); then
                taken+=("$form")
                break
            fi
        done
    done <"$work/order"
    found=$(chosen_rows --sparse-update-bytes "$budget" --contributions "$work/measured/checkpoint-5")
    [[ -n $found && $found == "${taken[*]}" ]]
    check $? "$budget bytes: measured rows" "$found; ${taken[*]} is right; $(cat "$work/err")"
    [[ $found != *:* ]] || some=2
done
[[ $some -eq 2 ]]
check $? "measured rows were chosen"
options=("${sgd[@]}") least=$least_sgd most=$(arena_of)
run train "${options[@]}" --data "$work/measure.csv" --max-steps 2 --save-steps 2 --quiet --output-dir "$work/sgd"
expect 4 'the checkpoint has no second moments' plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/sgd/checkpoint-2"
expect 2 'needs --sparse-update-bytes' plan "${options[@]}" --sparse-update-rows

# The bits of train with the options that the table prints.
# verifies face-72.0061
budget=$(((least + most) / 2))
run plan "${options[@]}" "${flash[@]}" --sparse-update-bytes $budget --emit-c "$work/c"
same=$(sed -n 's/.*; for train: //p' <<<"$out")
[[ $code -eq 0 && -n $same ]]
check $? "the options of train" "$out$err"
make -s install-library PREFIX="$work/kit" DESTDIR= >/dev/null 2>&1 && make -s -C "$work/c" BEDPLATE="$work/kit" CFLAGS=-O1 STEPS=20
digest=$("$work/c/example" | sed -n 's/^state digest //p')
awk 'BEGIN { for (j = 0; j < 64; j++) printf "f%d,", j; print "label"
    for (i = 0; i < 64; i++) { for (j = 0; j < 64; j++) printf "%.6f,", ((i * 64 + j) * 7919 % 257 - 128) / 64
        print i % 3 } }' >"$work/rows.csv"
read -ra same <<<"${same//\'/}"
set -f
run train "${options[@]}" "${same[@]}" --data "$work/rows.csv" --quiet --json --output-dir "$work/run"
set +f
[[ $code -eq 0 && -n $digest && $(sed -n 's/.*"state_digest": "\([^"]*\)".*/\1/p' <<<"$out") == "$digest" ]]
check $? "the trainer's digest is that of train" "$digest $out$err"

# verifies face-72.0061
expect 3 'sparse-update-bytes: no tensor can be trained in this: found 100, expected at least' plan "${options[@]}" --sparse-update-bytes 100
expect 2 'arena: the option chooses tensors' plan "${options[@]}" --sparse-update-bytes 1MB --arena 1MB
expect 2 'needs --sparse-update-bytes' plan "${options[@]}" --contributions "$work/contributions"
expect 2 'cannot be read' plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/none"
while IFS=: read -r words line; do
    printf '\n%b\n' "$line" >"$work/bad"
    expect 4 "$work/bad:2: .*$words" plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/bad"
done <<'END'
the model trains no tensor of this name:layers.9.bias 1
the model trains no tensor of this name:layers.0.normalization.running_mean 1
a tensor's name and a number:classifier.bias
a tensor's name and a number:classifier.bias -1
a tensor's name and a number:classifier.bias nan
a tensor's name and a number:classifier.bias 1 2
END
printf 'classifier.bias 1\nclassifier.bias 2\n' >"$work/bad"
expect 4 "the tensor is there twice" plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/bad"
printf 'classifier.bias 1%0200d\n' 0 >"$work/bad"
expect 4 "the line is too long" plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/bad"
printf '# none\n' >"$work/bad"
expect 2 'no tensor has a contribution above 0' plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/bad"
mkdir "$work/folder"
expect 6 'folder/state.safetensors.*no such file' plan "${options[@]}" --sparse-update-bytes 1MB --contributions "$work/folder"
printf '  %s 1\n' classifier.bias >"$work/spaces"
[[ $(chosen --sparse-update-bytes 1MB --contributions "$work/spaces") == classifier.bias ]]
check $? "spaces before a name" "$(cat "$work/err")"
finish
