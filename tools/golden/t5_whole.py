#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{t5,mt5}_whole*.safetensors: what T5ForConditionalGeneration and MT5's compute in float64, in the
files of tools/golden/families.py, with their config.json in the tensor `config`, and

  tokens   int32  of each sample its source, the decoder's start token, and the labels
  prompts  int32  (samples) tokens of the source
  lengths  int32  (samples) labels
  source   int32  what sources are padded to
  greedy   int32  the likeliest tokens of the first source, one after the other

and tests/golden/seq2seq: a small T5 with its decoder and a tokenizer, as transformers saves them, rows of two texts, and what
transformers computes of the first ten in float64 (`loss`, of sources cut to 12 tokens and targets to 8, and the targets) and
writes of them (`greedy`, a line of ids for each, 10 at most).

Run from the repository root: tools/golden/t5_whole.py (needs torch, transformers, tokenizers, peft, numpy, safetensors; written
with torch 2.15, transformers 5.24 and peft 0.21; some seconds on one core).
"""
import json
import os
import random
import sys

import numpy as np
import peft
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402


FOLDER = "tests/golden/seq2seq/"
WORDS = "the a cat dog house tree runs sleeps eats big small red blue green under over near king queen river".split()
SOURCE, TARGET = 12, 8


def sizes(v):
    return dict(vocab_size=v["vocabulary"], d_model=v["width"], d_kv=v["head_width"], d_ff=v["inner"], num_layers=v["layers"],
                num_heads=v["heads"], relative_attention_num_buckets=v.get("buckets", 32),
                relative_attention_max_distance=v.get("distance", 128), dropout_rate=0.0, feed_forward_proj=v["act"],
                layer_norm_epsilon=1e-6, pad_token_id=v["pad"], attn_implementation="eager")


def normalise(self, x):
    """The norm, which transformers computes in float32 whatever the type."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


transformers.models.t5.modeling_t5.T5LayerNorm.forward = normalise
transformers.models.mt5.modeling_mt5.MT5LayerNorm.forward = normalise


def whole(name, v, prompts, lengths, seed, old=False):
    """A model with its decoder; old: its config.json is that of transformers 4. The samples of a group are its batches."""
    generator = torch.Generator().manual_seed(seed)
    stem = "MT5" if name.startswith("mt5") else "T5"
    more = {} if v.get("tied") else dict(tie_word_embeddings=False)
    config = getattr(transformers, stem + "Config")(**sizes(v), num_decoder_layers=v.get("decoder"),
                                                    decoder_start_token_id=v.get("start", 0), **more)
    model = getattr(transformers, stem + "ForConditionalGeneration")(config)
    if not v.get("tied"): # as a file's own head is
        model.lm_head.weight = torch.nn.Parameter(torch.empty(v["vocabulary"], v["width"]))
    model = families.draw(model, generator)
    if v.get("rank"):
        model = peft.get_peft_model(model, peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0,
                                                           target_modules=["q", "k", "v", "o", "wi", "wo"], task_type="SEQ_2_SEQ_LM")).double()
        with torch.no_grad():
            for n, p in model.named_parameters():
                if ".lora_" in n:
                    p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    count, start = len(prompts), v.get("start", 0)
    ids = torch.randint(2, v["vocabulary"], (count, v["source"]), generator=generator)
    mask = (torch.arange(v["source"])[None] < torch.tensor(prompts)[:, None]).long()
    ids = torch.where(mask == 1, ids, v["pad"])
    labels = torch.randint(1, v["vocabulary"], (count, v["sequence"]), generator=generator)
    labels = torch.where(torch.arange(v["sequence"])[None] < torch.tensor(lengths)[:, None], labels, -100)
    inputs = dict(input_ids=ids, attention_mask=mask, labels=labels)
    group = v["batch"] * v["accumulation"]

    def losses(step):
        first = step * group % count
        part = {k: x[first : first + group] for k, x in inputs.items()}
        logits = model(**part).logits
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), part["labels"].reshape(-1))

    written = json.loads(config.to_json_string(use_diff=False))
    written.update(architectures=[stem + "ForConditionalGeneration"], decoder_start_token_id=start)
    if old:
        written.pop("scale_decoder_outputs", None)
        written["tie_word_embeddings"] = bool(v.get("tied"))
    rows = [[*ids[i, : prompts[i]].tolist(), start, *labels[i, : lengths[i]].tolist()] for i in range(count)]
    logits = families.single(model(**inputs).logits)
    tensors = {"tokens": np.array(sum(rows, []), np.int32), "prompts": np.array(prompts, np.int32),
               "lengths": np.array(lengths, np.int32), "source": np.array([v["source"]], np.int32),
               "logits": logits.reshape(-1, logits.shape[-1]), "config": np.frombuffer(json.dumps(written).encode(), np.uint8)}
    if not v.get("rank"): # before the weights move
        first = dict(input_ids=ids[:1, : prompts[0]], attention_mask=mask[:1, : prompts[0]])
        greedy = model.eval().generate(**first, max_new_tokens=v["sequence"] - 1, do_sample=False, num_beams=1, use_cache=False,
                                       decoder_start_token_id=start, eos_token_id=None, pad_token_id=v["pad"])
        tensors["greedy"] = greedy[0, 1:].numpy().astype(np.int32)
        model.train()
    families.finish("families/" + name, model, losses, v, tensors)


def tokenizer(texts):
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer, tok.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tok.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=64, special_tokens=["<pad>", "</s>", "<unk>"],
                                                           unk_token="<unk>"))
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def folder():
    torch.manual_seed(3)
    random.seed(3)
    os.makedirs(FOLDER, exist_ok=True)
    rows = []
    for _ in range(48):
        words = [random.choice(WORDS) for _ in range(random.randint(1, 6))]
        rows.append({"source": " ".join(words), "target": " ".join(reversed(words[:3]))})
    tok = tokenizer([r["source"] for r in rows])
    config = transformers.T5Config(vocab_size=len(tok) + 2, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=3,
                                   dropout_rate=0.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                                   decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(config.vocab_size, 24) * 0.3)
    model.save_pretrained(FOLDER)
    tok.save_pretrained(FOLDER)
    model = model.double().eval()
    with open(FOLDER + "rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in rows)
    held = rows[:10]
    with open(FOLDER + "held.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in held)
    x = tok([r["source"] for r in held], max_length=SOURCE, truncation=True, padding=True, return_tensors="pt")
    y = tok([r["target"] for r in held], max_length=TARGET, truncation=True, padding=True, return_tensors="pt").input_ids
    y[y == 0] = -100
    with open(FOLDER + "loss", "w", encoding="utf-8") as file:
        loss = model(input_ids=x.input_ids, attention_mask=x.attention_mask, labels=y).loss
        print(f"{loss.item():.8f} {int((y >= 0).sum())}", file=file)
    with open(FOLDER + "greedy", "w", encoding="utf-8") as file:
        for row in held:
            one = tok(row["source"], return_tensors="pt")
            ids = model.generate(input_ids=one.input_ids, attention_mask=one.attention_mask, max_new_tokens=10, do_sample=False,
                                 num_beams=1)
            print(*ids[0, 1:].tolist(), file=file)


def main():
    torch.set_num_threads(1)
    folder()
    own = dict(vocabulary=41, positions=64, width=16, layers=2, heads=2, head_width=6, inner=24, batch=4, source=11, sequence=8,
               accumulation=1, pad=0, act="relu")
    whole("t5_whole", {**own, "tied": True}, [11, 4, 1, 6], [8, 3, 6, 1], 160)
    whole("t5_whole_old", {**own, "act": "gated-gelu", "decoder": 3, "head_width": 5, "start": 3}, [9, 4, 11, 6], [5, 8, 6, 2],
          151, old=True)
    whole("mt5_whole", {**own, "act": "gated-gelu", "batch": 2, "accumulation": 2, "heads": 4}, [11, 4, 2, 6], [8, 3, 6, 4], 152)
    whole("t5_whole_far", {**own, "tied": True, "source": 40, "sequence": 150, "batch": 2, "act": "gated-silu", "layers": 1},
          [40, 33], [150, 91], 153)
    whole("t5_whole_source", {**own, "tied": True, "source": 150, "sequence": 4, "batch": 2, "decoder": 1, "buckets": 10,
                              "distance": 12}, [150, 133], [4, 2], 154)
    whole("t5_whole_lora", {**own, "tied": True, "rank": 2, "alpha": 4, "all_linear": 1}, [11, 4, 1, 6], [8, 3, 6, 1], 155)


if __name__ == "__main__":
    main()
