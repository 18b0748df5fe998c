#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/whisper*.safetensors: what WhisperForConditionalGeneration computes in float64, in the files of
tools/golden/families.py, with its config.json in the tensor `config`, and

  tokens    int32    of each sample the decoder's start token, and the labels
  prompts   int32    (samples) 0
  lengths   int32    (samples) labels
  source    int32    the encoder's positions
  features  float32  (samples, frames, mels) spectra, which the class reads as (samples, mels, frames)
  greedy    int32    the likeliest tokens of the first sample, one after the other

Run from the repository root: tools/golden/speech/whisper.py (needs torch, transformers, peft, numpy, safetensors; written with torch
2.15, transformers 5.24 and peft 0.21; some seconds on one core).
"""
import json
import os
import sys

import numpy as np
import peft
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import families  # noqa: E402


def whole(name, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    config = transformers.WhisperConfig(
        vocab_size=v["vocabulary"], d_model=v["width"], encoder_layers=v["layers"], decoder_layers=v["decoder"],
        encoder_attention_heads=v["heads"], decoder_attention_heads=v["decoder_heads"], encoder_ffn_dim=v["inner"],
        decoder_ffn_dim=v["decoder_inner"], num_mel_bins=v["mels"], max_source_positions=v["source"],
        max_target_positions=v["positions"], decoder_start_token_id=v["start"], pad_token_id=1, bos_token_id=1,
        eos_token_id=1, activation_function=v.get("act", "gelu"), suppress_tokens=None, begin_suppress_tokens=None,
        attn_implementation="eager")
    model = transformers.WhisperForConditionalGeneration(config)
    sinusoids = model.model.encoder.embed_positions.weight.detach().clone()
    model = families.draw(model, generator)
    with torch.no_grad():
        model.model.encoder.embed_positions.weight.copy_(sinusoids)
    if v.get("rank"):
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0,
            target_modules=["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"])).double()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if ".lora_" in n:
                    p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    count, frames = len(lengths), 2 * v["source"]
    features = torch.randn((count, frames, v["mels"]), generator=generator).float()
    labels = torch.randint(2, v["vocabulary"], (count, v["sequence"]), generator=generator)
    labels = torch.where(torch.arange(v["sequence"])[None] < torch.tensor(lengths)[:, None], labels, -100)
    inputs = dict(input_features=features.double().transpose(1, 2), labels=labels)
    group = v["batch"] * v["accumulation"]

    def losses(step):
        first = step * group % count
        part = {k: x[first : first + group] for k, x in inputs.items()}
        logits = model(**part).logits
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), part["labels"].reshape(-1))

    written = json.loads(config.to_json_string(use_diff=False))
    written.update(architectures=["WhisperForConditionalGeneration"])
    rows = [[v["start"], *labels[i, : lengths[i]].tolist()] for i in range(count)]
    logits = families.single(model(**inputs).logits)
    tensors = {"tokens": np.array(sum(rows, []), np.int32), "prompts": np.zeros(count, np.int32),
               "lengths": np.array(lengths, np.int32), "source": np.array([v["source"]], np.int32),
               "features": features.numpy(), "logits": logits.reshape(-1, logits.shape[-1]),
               "config": np.frombuffer(json.dumps(written).encode(), np.uint8)}
    if not v.get("rank"): # before the weights move
        ids = torch.tensor([[v["start"]]])
        for _ in range(v["sequence"] - 1):
            last = model(input_features=inputs["input_features"][:1], decoder_input_ids=ids).logits[:, -1]
            ids = torch.cat([ids, last.argmax(-1, keepdim=True)], 1)
        tensors["greedy"] = ids[0, 1:].numpy().astype(np.int32)
    families.finish("families/" + name, model, losses, v, tensors)


def main():
    torch.set_num_threads(1)
    own = dict(vocabulary=41, positions=12, width=16, layers=2, decoder=2, heads=2, decoder_heads=2, inner=24, decoder_inner=24,
               mels=8, source=10, batch=4, sequence=8, accumulation=1, start=2)
    whole("whisper", own, [8, 3, 6, 1], 170)
    whole("whisper_turbo", {**own, "layers": 3, "decoder": 1, "decoder_heads": 4, "decoder_inner": 20, "mels": 13, "source": 9,
                            "batch": 2, "accumulation": 2, "start": 5}, [5, 8, 6, 2], 171)
    whole("whisper_one", {**own, "layers": 1, "decoder": 1, "source": 1, "mels": 1, "act": "relu", "batch": 1}, [8], 172)
    whole("whisper_lora", {**own, "rank": 2, "alpha": 4, "all_linear": 1}, [8, 3, 6, 1], 173)


if __name__ == "__main__":
    main()
