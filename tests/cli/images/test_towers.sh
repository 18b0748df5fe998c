#!/bin/bash
# SPDX-License-Identifier: MIT
# The vision towers of CLIP and SigLIP as classifiers: directories that transformers saved are read, judge as transformers does,
# come out to the last bit, and train (every policy's bits, stopped and resumed, adapters too); what is not computed is refused.
# verifies layers-53.afdb
golden=tests/golden/clip
. "$(dirname "$0")/images.sh"

# inside: what config.json says of each tower is what transformers wrote.
inside() {
    python3 - "$golden" "$work/same" <<'END2'
import json, sys
a, b = (json.load(open(d + "/config.json")) for d in sys.argv[1:])
a["vision_config"]["vision_use_head"] = False
bad = [k for t in ("text_config", "vision_config") for k, v in b[t].items() if a[t].get(k, v) != v]
sys.exit(bool(bad) or len(b["vision_config"]) < 12 or len(b["text_config"]) < 13)
END2
}

lora=(--lora-r 2 --lora-alpha 4 --target-modules all-linear)
for family in clip siglip; do
    golden=tests/golden/$family
    data=(--data "$golden/images.csv")
    rm -rf "${work:?}"/*
    judges
    comes_back 33 architectures,id2label,label2id,model_type '^vision_model.head'
    if command -v python3 >/dev/null; then
        inside
        check $? "$family: config.json of the towers" "$(cat "$work/same/config.json")"
    fi
    same_steps whole 6 3 -- --model "$golden" -- --learning-rate 1e-2
    same_steps adapters 4 2 -- --model "$golden" "${lora[@]}" -- --learning-rate 1e-2
    run eval --model "$golden" --adapter "$work/adapters" "${data[@]}" --json
    loss=$(json loss)
    run export --model "$golden" --adapter "$work/adapters" --merge --to "$work/merged"
    run eval --model "$work/merged" "${data[@]}" --json
    awk -v a="$loss" -v b="$(json loss)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-10) }'
    check $? "$family: merged, it judges the same" "$loss $out$err"
    grep -aq 'base_model.model.vision_model.encoder.layers.1.self_attn.out_proj.lora_A.weight' \
        "$work/adapters/adapter_model.safetensors"
    check $? "$family: adapters have PEFT's names"
    on_gpu whole 2 --learning-rate 1e-2
    [[ $family == siglip ]] || five_classes # whose pooling head no classifier has
    expect 2 'bf16|fp32' train --model "$golden" "${data[@]}" --output-dir "$work/x" --bf16
    expect 2 'task' plan --model "$golden" --task causal-lm
done

# What is not computed is refused by name.
golden=tests/golden/clip
data=(--data "$golden/images.csv")
refused <<'END2'
4 s/"hidden_act":."quick_gelu"/"hidden_act":"swish"/ hidden_act
4 s/"patch_size":.4/"patch_size":0/ vision_config.patch_size
4 s/"patch_size":.4/"patch_size":2/ embeddings
4 s/"image_size":.8/"image_size":[8,8]/ vision_config.image_size
4 s/"clip_vision_model"/"siglip_vision_model"/ vision_config.model_type
4 s/"vision_config":.{/"vision_config":7,"other":{/ vision_config
END2
finish
