#!/bin/bash
# SPDX-License-Identifier: MIT
# Drift: how far training with narrow states and masters gets from fp32 AdamW. Trains a small GPT on a
# text with each recipe and seed and prints the loss over all held-out text, the mean over the seeds,
# its difference from fp32, and the bound that the project holds it to.
#
#     tools/bench/drift.sh TEXT [STEPS] [SEEDS]        2000 steps and seeds "1 2 3" unless given
#
# BUILD (build/release), DRIFT_OUT (a fresh folder), DRIFT_MODEL (tiny), DRIFT_RECIPES (all), DRIFT_DEVICE
# (host), DRIFT_OPTIONS (more of train's) and DRIFT_BASE (adamw), the recipe that others are compared with,
# are taken from the environment. Products in fp8 are left out where the device has none. Exits 1 when a bound is broken. A short form for CI is
# `DRIFT_RECIPES="adamw adamw_8bit" tools/bench/drift.sh TEXT 200 1`.
set -u
text=${1:?usage: drift.sh TEXT [STEPS] [SEEDS]}
steps=${2:-2000}
seeds=${3:-1 2 3}
bedplate=${BUILD:-build/release}/bedplate
out=${DRIFT_OUT:-$(mktemp -d)}
model=${DRIFT_MODEL:-tiny}
device=${DRIFT_DEVICE:-host}
compared=${DRIFT_BASE:-adamw}
mkdir -p "$out"

# name, bound of the mean and of a seed in percent (- : none), options
recipes() {
    cat <<'END'
adamw                   -    -    --optim adamw
bf16_fp32               1.5  2    --optim adamw --bf16 --master fp32
bf16_split              0.5  1    --optim adamw --bf16 --master split
bf16_split8             0.5  1    --optim adamw --bf16 --master split8
bf16_none               1.5  2    --optim adamw --bf16 --master none
adamw_8bit              0.5  1    --optim adamw_8bit
adamw_8bit_all          0.5  1    --optim adamw_8bit --param-override *:optim_bits=8
adamw_8bit_companded    0.5  1    --optim adamw_8bit_companded
companded_all           0.5  1    --optim adamw_8bit_companded --param-override *:optim_bits=8
split_8bit_all          0.5  1    --optim adamw_8bit --bf16 --master split --param-override *:optim_bits=8
adamw_4bit              1.5  2    --optim adamw_4bit
split8_8bit_all         0.5  1    --optim adamw_8bit --bf16 --master split8 --param-override *:optim_bits=8
split8_4bit_all         1.5  2    --optim adamw_4bit --bf16 --master split8 --param-override *:optim_bits=4
none_8bit_all           1.5  2    --optim adamw_8bit --bf16 --master none --param-override *:optim_bits=8
none_4bit_all           1.5  2    --optim adamw_4bit --bf16 --master none --param-override *:optim_bits=4
tape_fp8                0.5  1    --optim adamw --bf16 --master split --tape-dtype fp8
tape_fp8_8bit_all       0.5  1    --optim adamw_8bit --bf16 --master split --param-override *:optim_bits=8 --tape-dtype fp8
weight_fp8              0.5  1    --optim adamw --bf16 --weight-dtype fp8
weight_fp8_8bit_all     0.5  1    --optim adamw_8bit --bf16 --param-override *:optim_bits=8 --weight-dtype fp8
product_fp8             0.5  1    --optim adamw --bf16 --master split --product-dtype fp8 --product-fp8-from 64
previous_norm           1.5  2    --optim adamw --gradient-release previous-norm
int8_sums_4             1.5  2    --optim adamw --gradient-dtype int8 --per-device-train-batch-size 2 --gradient-accumulation-steps 4
int8_sums_8             1.5  2    --optim adamw_8bit --bf16 --gradient-dtype int8 --per-device-train-batch-size 1 --gradient-accumulation-steps 8
adafactor               -    -    --optim adafactor --learning-rate 3e-3
adam_mini_8bit          -    -    --optim adam_mini_8bit
muon_8bit               -    -    --optim muon_8bit
apollo_mini             -    -    --optim apollo_mini
schedule_free           -    -    --optim schedule_free_adamw --learning-rate 3e-3 --lr-scheduler-type constant_with_warmup
schedule_free_8bit_all  -    -    --optim schedule_free_adamw_8bit --learning-rate 3e-3 --lr-scheduler-type constant_with_warmup --param-override *:optim_bits=8
adama_4                 -    -    --optim adamw --gradient-release adama --max-grad-norm 0 --per-device-train-batch-size 2 --gradient-accumulation-steps 4
END
}

loss_of() { # name seed options..: the loss over the held-out text after training
    local name=$1 seed=$2
    shift 2
    # shellcheck disable=SC2086
    "$bedplate" train --model "$model" --data "$text" --validation-split 0.1 --output-dir "$out/$name-$seed" \
        --max-steps "$steps" --seed "$seed" --learning-rate 1e-3 --lr-scheduler-type cosine \
        --warmup-steps 100 --weight-decay 0.1 --adam-beta2 0.99 --max-grad-norm 1 \
        --per-device-train-batch-size 8 --eval-steps 0 --save-steps 0 --device "$device" --json --quiet ${DRIFT_OPTIONS:-} "$@" |
        sed -n 's/.*"eval_loss": \([0-9.e+-]*\).*/\1/p' | tail -1
}

set -f # patterns are the program's
bad=0
declare -A base
printf '%-22s %-36s %9s %9s %8s\n' recipe 'loss by seed' mean "of $compared" bound
while read -r name mean_bound seed_bound options; do
    [[ -n ${DRIFT_RECIPES:-} && " $DRIFT_RECIPES " != *" $name "* ]] && continue
    [[ $name == product_fp8 && $device != cuda:sm_90a ]] && continue
    losses=()
    for seed in $seeds; do
        # shellcheck disable=SC2086
        loss=$(loss_of "$name" "$seed" $options)
        [[ -n $loss ]] || { echo "$name, seed $seed: no loss" >&2; exit 1; }
        losses+=("$loss")
        [[ $name == "$compared" ]] && base[$seed]=$loss
    done
    i=0 sum=0 base_sum=0 verdict=ok
    for seed in $seeds; do
        loss=${losses[$i]}
        i=$((i + 1))
        sum=$(awk "BEGIN{print $sum + $loss}")
        base_sum=$(awk "BEGIN{print $base_sum + ${base[$seed]:-$loss}}")
        [[ $seed_bound == - ]] || awk "BEGIN{exit !($loss <= ${base[$seed]:-$loss} * (1 + $seed_bound / 100))}" || verdict=SEED
    done
    [[ $mean_bound == - ]] || awk "BEGIN{exit !($sum <= $base_sum * (1 + $mean_bound / 100))}" || verdict=MEAN
    [[ $verdict == ok ]] || bad=1
    printf '%-22s %-36s %9s %8s%% %8s %s\n' "$name" "${losses[*]}" "$(awk "BEGIN{printf \"%.5f\", $sum / $i}")" \
        "$(awk "BEGIN{printf \"%+.3f\", 100 * ($sum / $base_sum - 1)}")" "$mean_bound" "$verdict"
done < <(recipes)
exit $bad
