#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/peft/<case>/: adapters that Bedplate trained, and what PEFT makes of them.

Run from the repository root, after `make -s build/release/tests/golden/test_adapters_golden`: tools/golden/adapters.py
(needs what families.py needs; written with peft 0.21.2, transformers 5.23; some seconds).

The bases are cases of families.py, whose files hold their weights. The test program trains adapters beside each of
them and writes what the program writes into an adapter directory; here PEFT opens that directory over Hugging Face's
model of the same weights, without a tensor missing or left over, and computes in float64:
  adapter_model.safetensors, adapter_config.json   by Bedplate
  saved_by_peft.safetensors                        PEFT's save_pretrained of the model that it opened
  logits.safetensors   logits: float32, of all windows of the stream (windows * sequence, vocabulary), or of all samples
                       (samples, classes)
"""
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file, save_file

import families

OUT = "tests/golden/peft/"
PROGRAM = "build/release/tests/golden/test_adapters_golden"
CASES = {"gpt2": "gpt2_lm_short", "llama": "llama_grouped", "qwen2": "qwen2_short", "bert": "bert_classes",
         "gpt2_labels": "gpt2_labels", "llama_regression": "llama_regression", "bert_all": "bert_labels",
         "llama_dora": "llama_grouped", "gpt2_dora": "gpt2_lm_short", "gpt2_bias_all": "gpt2_lm_short",
         "gpt2_bias_some": "gpt2_lm_short", "bert_bias_all": "bert_classes",
         "llama_table": "llama_grouped", "gpt2_table": "gpt2_lm_short", "llama_rows": "llama_grouped",
         "gpt2_rows": "gpt2_lm_short", "gemma3": "families/gemma3_two_bases",
         "distilbert": "families/distilbert_classes"}


def values_of(golden):
    v = dict(zip(families.SHAPE, (int(n) for n in golden["shape"])))
    return v | dict(zip(families.REALS, (float(n) for n in golden["reals"])))


def base_of(name, golden, v):
    """Hugging Face's model with the weights of the file."""
    if "config" in golden: # a case of today.py or encoders.py
        importlib.import_module("today")
        config = json.loads(golden["config"].tobytes())
        kind = getattr(transformers, config["architectures"][0].replace("Gemma3Text", "Gemma3"))
        model = kind(kind.config_class.from_dict(config))
        state = {n: torch.from_numpy(golden[n]) for n, _ in model.named_parameters()}
        result = model.load_state_dict(state, strict=False)
        assert not result.unexpected_keys and all("lm_head" in k for k in result.missing_keys), result
        model.tie_weights()
        for module in model.modules():
            if hasattr(module, "embed_scale") and torch.is_tensor(module.embed_scale):
                module.embed_scale = module.embed_scale.double()
        return model.eval()
    judges = {"num_labels": v["classes"], "problem_type": families.PROBLEM[v["task"]]} if v["task"] else {}
    if name.startswith("bert"):
        model = transformers.BertForSequenceClassification(families.bert_config(v, **judges))
    elif name.startswith("gpt2"):
        kind = transformers.GPT2ForSequenceClassification if judges else transformers.GPT2LMHeadModel
        model = kind(families.gpt2_config(v, **judges))
    elif name.startswith("qwen2"):
        model = transformers.Qwen2ForCausalLM(families.llama_config(v, qwen=True))
    else:
        kind = transformers.LlamaForSequenceClassification if judges else transformers.LlamaForCausalLM
        model = kind(families.llama_config(v, **judges))
    state = {n: torch.from_numpy(golden[n]) for n, _ in model.named_parameters()}
    result = model.load_state_dict(state, strict=False)
    assert not result.unexpected_keys and all("lm_head" in k for k in result.missing_keys), result
    model.tie_weights()
    return model.eval()


def logits_of(model, golden, v):
    if not v["task"]:
        ids, _ = families.windows_of(golden["tokens"], v["sequence"])
        return model(input_ids=ids).logits.reshape(-1, v["vocabulary"])
    ids = torch.from_numpy(golden["tokens"].astype(np.int64))
    mask = (torch.arange(ids.shape[1])[None] < torch.from_numpy(golden["lengths"])[:, None]).long()
    return model(input_ids=ids, attention_mask=mask).logits


def bias_trained(model, name):
    """Whether PEFT trains this bias beside its adapters."""
    kind = model.peft_config["default"].bias
    own = name.endswith(".bias") and "original_module" not in name
    return own and (kind == "all" or kind == "lora_only" and ".base_layer." in name)


def ours_are_in(model, directory):
    """Every tensor of the file is in the model, bit for bit."""
    own = {n.replace(".modules_to_save.default", "").removesuffix(".default.weight" * ("magnitude" in n))
            .replace(".default", ""): p
           for n, p in model.named_parameters()
           if ".lora_" in n or ".modules_to_save." in n or "trainable_tokens_delta" in n or bias_trained(model, n)}
    ours = load_file(f"{directory}/adapter_model.safetensors")
    assert own.keys() == ours.keys(), own.keys() ^ ours.keys()
    for name, p in own.items():
        assert np.array_equal(p.detach().numpy(), ours[name]), name


def make(name):
    golden = load_file(f"{families.OUT}{CASES[name]}.safetensors")
    v = values_of(golden)
    directory = OUT + name
    plain = logits_of(base_of(CASES[name], golden, v).double(), golden, v)
    model = peft.PeftModel.from_pretrained(base_of(CASES[name], golden, v), directory).eval()
    ours_are_in(model, directory)
    with tempfile.TemporaryDirectory() as to:
        model.save_pretrained(to)
        shutil.copy(f"{to}/adapter_model.safetensors", f"{directory}/saved_by_peft.safetensors")
    with torch.no_grad():
        logits = logits_of(model.double(), golden, v)
    save_file({"logits": families.single(logits)}, f"{directory}/logits.safetensors", metadata={"format": "pt"})
    print(name, tuple(logits.shape), "moved by", float((logits - plain).abs().max()), "of", float(plain.abs().max()))


def main():
    torch.set_num_threads(1)
    for name in CASES:
        os.makedirs(OUT + name, exist_ok=True)
    subprocess.run([PROGRAM], env=os.environ | {"BP_ADAPTERS_OUT": OUT}, check=True)
    for name in sys.argv[1:] or CASES:
        make(name)


if __name__ == "__main__":
    main()
