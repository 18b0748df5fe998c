#!/bin/bash
# SPDX-License-Identifier: MIT
# MobileNetV2: a directory that transformers saved is read, judges as transformers does, comes out to the last bit, and
# trains (every policy's bits, stopped and resumed), adapters too; what is not computed is refused.
# verifies layers-32.af69 layers-33.4818
golden=tests/golden/mobilenet
. "$(dirname "$0")/images.sh"

judges
keys=depth_multiplier,depth_divisible_by,min_depth,expand_ratio,output_stride,first_layer_is_expansion,finegrained_output,hidden_act
comes_back 314 $keys,tf_padding,id2label,classifier_dropout_prob,layer_norm_eps,image_size,architectures,num_channels
sixteen 314
exported 314
same_steps whole 4 2 -- --model "$golden" -- --learning-rate 1e-3
# Images turn.
on_gpu whole 2 --learning-rate 1e-3 --random-horizontal-flip 0.5
five_classes

# Adapters of all convolutions but those of each channel by itself.
same_steps adapters 4 2 -- --model "$golden" --lora-r 2 --lora-alpha 4 -- --learning-rate 1e-2
run export --model "$golden" --adapter "$work/adapters" --merge --to "$work/merged"
[[ $code -eq 0 ]] && run eval --model "$golden" --adapter "$work/adapters" "${data[@]}" --json
beside=$(json loss)
run eval --model "$work/merged" "${data[@]}" --json
awk -v a="$beside" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-8) }'
check $? "merged, it judges the same" "$beside $out$err"
if command -v python3 >/dev/null; then
    same_tensors "$golden" "$work/merged" 200 "" 'convolution.weight$|^classifier'
    check $? "merged, what has no adapter is whole, counts of batches too"
fi
on_gpu adapters 2 --learning-rate 1e-3 --lora-r 2
expect 2 'conv_3x3.convolution.weight.*each channel' plan --model "$golden" --lora-r 2 --target-modules convolution

# Strides that become holes, as output_stride asks.
mkdir "$work/eighth"
sed 's/"output_stride": 32/"output_stride": 8/' $golden/config.json >"$work/eighth/config.json"
cp $golden/model.safetensors $golden/preprocessor_config.json "$work/eighth" 2>/dev/null
same_steps apart 4 2 -- --model "$work/eighth" -- --learning-rate 1e-3
grep -q '"output_stride": 8' "$work/apart/config.json"
check $? "output_stride comes out as it went in"
golden=$work/eighth on_gpu apart 2 --learning-rate 1e-3

# A preset.
run plan --model mobilenet-v2 --per-device-train-batch-size 1 --json
[[ $code -eq 0 && $(json parameters) -eq 3540265 ]]
check $? "the parameters and running statistics of transformers, 3,506,153 and 34,112" "$out$err"

# Of 128 x 128 x 3, at 0.35 of its width: 1,287,712 bytes with whole images.
mkdir "$work/narrow"
sed 's/"depth_multiplier": 0.1/"depth_multiplier": 0.35/; s/"image_size": 32/"image_size": 128/
    s/"depth_divisible_by": 4/"depth_divisible_by": 8/; s/"min_depth": 4/"min_depth": 8/
    s/"finegrained_output": false/"finegrained_output": true/' tests/golden/mobilenet/config.json >"$work/narrow/config.json"
narrow=(--model "$work/narrow" --per-device-train-batch-size 1 --optim sgd --gradient-release --max-grad-norm 0 --json
    --gradient-checkpointing memory-poor --alignment 32 --kernels portable --freeze 'mobilenet*' --offload flash:64MB)
run plan "${narrow[@]}"
[[ $code -eq 0 && $(json arena_bytes) -le 338464 ]]
check $? "the classifier of MobileNetV2-0.35" "$out$err"
run plan "${narrow[@]}" --max-steps 9 --emit-c "$work/narrow-c" --byte-images
[[ $code -eq 0 && $(json arena_bytes) -le 191008 ]]
check $? "and of images in bytes" "$out$err"
# The classifier and the last 22 biases, as MCUNetV3 trains them: 331,424 bytes where backward holds what a block makes again.
# verifies layers-57.d913
sed 's/{/{"freeze_batch_norm": true,/;' "$work/narrow/config.json" | sed '2,$s/{"freeze_batch_norm": true,/{/' >"$work/narrow/fixed"
mv "$work/narrow/fixed" "$work/narrow/config.json"
biases=(--freeze '*' --trainable 'classifier*' --trainable '*conv_1x1.normalization.bias'
    --trainable '*layer.9.*normalization.bias' --trainable '*layer.1[0-5].*normalization.bias')
run plan "${narrow[@]}" "${biases[@]}" --max-steps 9 --emit-c "$work/biases-c" --byte-images
[[ $code -eq 0 && $(json arena_bytes) -le 208672 && $(json trainable_parameters) -eq 8955 ]]
check $? "its classifier and 22 biases" "$out$err"
mkdir "$work/fixed"
cp $golden/model.safetensors "$work/fixed"
sed '1s/{/{"freeze_batch_norm": true,/' $golden/config.json >"$work/fixed/config.json"
same_steps biases 4 2 -- --model "$work/fixed" "${biases[@]}" -- --learning-rate 1e-2
same_steps weights 4 2 -- --model "$work/fixed" "${biases[@]}" --trainable '*layer.1[45]*convolution.weight' \
    --trainable '*layer.15*normalization.weight' -- --learning-rate 1e-2

refused <<'END2'
4 s/"hidden_act":."relu6"/"hidden_act":"gelu"/ hidden_act
4 s/"output_stride":.32/"output_stride":0/ output_stride
4 s/"depth_divisible_by":.4/"depth_divisible_by":0/ depth_divisible_by
2 s/"depth_multiplier":.0.1/"depth_multiplier":0.0/ depth_multiplier
2 s/"expand_ratio":.6.0/"expand_ratio":0.0/ expand_ratio
4 s/"depth_multiplier":.0.1/"depth_multiplier":0.3/ convolution.weight
END2
finish
