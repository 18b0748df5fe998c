#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/{llama,qwen2,bert,lora}_*.safetensors and gpt2_classes: what PyTorch computes in float64 for
small models of these families, and PEFT for adapters of them.

Run from the repository root: tools/golden/families.py (needs torch, transformers, peft, numpy, safetensors;
written with torch 2.15, transformers 5.23 and peft 0.21; some seconds on one core).

The models are Hugging Face's classes with sdpa attention, no dropout, converted to float64 after their
weights were drawn and rounded to float32; Llama's norm, which computes in float32 whatever the type, is
replaced by the same formula in float64. Streams of tokens follow the feed's rule as in gpt2.py; samples
(classifiers, masked language models) are given row by row with their lengths.

Files, all tensors row-major:
  <names of the family>   float32  weights, in the files' own layouts and names; adapters by PEFT's names
  grad.<name>             float32  gradients of the first group, of what is trained
  shape                   int32    see SHAPE
  reals                   float64  see REALS
  tokens                  int32    the source of a causal language model, or (samples, sequence) ids
  labels                  int32    (samples, sequence) labels, or (samples) of classes or 32 bits
  lengths                 int32    (samples)
  seconds                 int32    pairs of texts: (samples) where the second begins, whose token types are 1; 0: none
  loss                    float64  mean loss
  norm                    float64  global gradient norm
  logits                  float32  causal models: (sequence, vocabulary) of the first window; masked ones: (samples *
                                   sequence, vocabulary); classifiers: (samples, classes)
  curve                   float64  mean losses of 50 steps of AdamW (RATE, no decay, no clipping) over the groups in
                                   order, round and round; the first is loss
"""
import math

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import save_file

OUT = "tests/golden/"
SHAPE = ["vocabulary", "positions", "width", "layers", "heads", "inner", "batch", "sequence",
         "accumulation", "kv_heads", "head_width", "qkv_bias", "output_bias", "mlp_bias", "untied",
         "types", "task", "classes", "rank", "rslora", "all_linear"]
REALS = ["norm_epsilon", "rope_theta", "factor", "low", "high", "original", "alpha"]
RATE = 2e-3
STEPS = 50
TASKS = {"causal": 0, "masked": 1, "classes": 2, "labels": 3, "regression": 4}


def exact_norm(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * hidden_states * torch.rsqrt(variance + self.variance_epsilon)


transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = exact_norm
transformers.models.qwen2.modeling_qwen2.Qwen2RMSNorm.forward = exact_norm


def single(tensor):
    return np.ascontiguousarray(tensor.detach().float().numpy())


def draw(model, generator, deviation=0.15):
    model = model.double().train()
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = "norm" in name.lower() and name.endswith("weight")
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * deviation
            p.copy_(((1.0 if norm else 0.0) + drawn).float().double())
    return model


def windows_of(tokens, sequence):
    count = math.ceil((len(tokens) - 1) / sequence)
    ids = np.zeros((count, sequence), np.int64)
    labels = np.full((count, sequence), -1, np.int64)
    for w in range(count):
        part = tokens[w * sequence : w * sequence + sequence + 1]
        n = len(part) - 1
        ids[w, :n] = part[:-1]
        labels[w, :n] = part[1:]
    return torch.from_numpy(ids), torch.from_numpy(labels)


def token_loss(logits, labels):
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-1)


def own_name(name):
    """PEFT's name of a parameter as its files (adapters) and the base's (the others) have it."""
    if ".lora_" in name:
        return name.replace("magnitude_vector.default.weight", "magnitude_vector").replace(".default", "")
    if ".original_module." in name:
        return None # what the trained copy stands for
    name = name.replace(".modules_to_save.default", "")
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


def curve_of(model, losses):
    """The losses of STEPS steps; losses(step) is the loss of a step's group."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE,
                                  betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    curve = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = losses(step)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return np.array(curve, np.float64)


def finish(name, model, losses, values, tensors):
    loss = losses(0)
    loss.backward()
    parameters = {own_name(n): p for n, p in model.named_parameters() if own_name(n)}
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in parameters.values() if p.grad is not None))
    tensors.update({n: single(p) for n, p in parameters.items()})
    tensors.update({"grad." + n: single(p.grad if p.grad is not None else torch.zeros_like(p))
                    for n, p in parameters.items() if p.requires_grad})
    tensors["shape"] = np.array([int(values.get(k, 0)) for k in SHAPE], np.int32)
    tensors["reals"] = np.array([float(values.get(k, 0)) for k in REALS], np.float64)
    tensors["loss"] = np.array([loss.item()], np.float64)
    tensors["norm"] = np.array([norm], np.float64)
    tensors["curve"] = curve_of(model, losses)
    save_file(tensors, f"{OUT}{name}.safetensors", metadata={"format": "pt"})
    print(name, sum(t.nbytes for t in tensors.values()), "bytes, loss", loss.item(), "norm", norm)


def llama_config(v, qwen=False, **more):
    rope = {"rope_theta": v["rope_theta"], "rope_type": "default"}
    if v.get("factor"):
        rope = {"rope_theta": v["rope_theta"], "rope_type": "llama3", "factor": v["factor"],
                "low_freq_factor": v["low"], "high_freq_factor": v["high"],
                "original_max_position_embeddings": v["original"]}
    common = dict(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"],
        num_key_value_heads=v["kv_heads"], intermediate_size=v["inner"],
        rms_norm_eps=v["norm_epsilon"], rope_parameters=rope, use_cache=False, bos_token_id=1,
        eos_token_id=2, pad_token_id=0 if v.get("task") else None, tie_word_embeddings=not v.get("untied"),
        attn_implementation="sdpa", **more)
    if qwen:
        return transformers.Qwen2Config(**common)
    return transformers.LlamaConfig(
        head_dim=v["head_width"], attention_bias=bool(v.get("output_bias")),
        mlp_bias=bool(v.get("mlp_bias")), **common)


def adapted(model, v, targets, generator, parameters=None):
    """The model with adapters of random A and B; everything else is frozen."""
    every = "all-linear"
    if isinstance(model, transformers.BertForSequenceClassification):
        every = ["query", "key", "value", "intermediate.dense", "output.dense"] # of the blocks: not the pooler
    config = peft.LoraConfig(
        r=v["rank"], lora_alpha=v["alpha"], lora_dropout=0.0, use_rslora=bool(v.get("rslora")),
        target_modules=every if v.get("all_linear") else targets, target_parameters=parameters or None,
        task_type="SEQ_CLS" if v.get("task") else "CAUSAL_LM")
    model = peft.get_peft_model(model, config).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".lora_" in name:
                drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2
                p.copy_(drawn.float().double())
    return model


def llama_stream(name, v, token_count, seed, qwen=False):
    generator = torch.Generator().manual_seed(seed)
    kind = transformers.Qwen2ForCausalLM if qwen else transformers.LlamaForCausalLM
    model = draw(kind(llama_config(v, qwen)), generator)
    if v.get("rank"):
        model = adapted(model, v, ["q_proj", "v_proj", "down_proj"], generator)
    stream(name, model, v, token_count, generator)


def gpt2_stream(name, v, token_count, seed):
    generator = torch.Generator().manual_seed(seed)
    model = draw(transformers.GPT2LMHeadModel(gpt2_config(v)), generator)
    if v.get("rank"):
        model = adapted(model, v, ["c_attn", "mlp.c_proj"], generator)
    stream(name, model, v, token_count, generator)


def stream(name, model, v, token_count, generator):
    tokens = torch.randint(v["vocabulary"], (token_count,), generator=generator).numpy()
    ids, labels = windows_of(tokens, v["sequence"])
    group = v["batch"] * v["accumulation"]
    groups = math.ceil(len(ids) / group)

    def losses(step):
        first = step % groups * group
        part = slice(first, first + group)
        return token_loss(model(input_ids=ids[part]).logits, labels[part])

    tensors = {"tokens": tokens.astype(np.int32),
               "logits": single(model(input_ids=ids[:group]).logits[0])}
    finish(name, model, losses, v, tensors)


def samples(v, lengths, generator, low=3):
    ids = torch.randint(low, v["vocabulary"], (len(lengths), v["sequence"]), generator=generator)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, length:] = 0
        mask[row, :length] = 1
    return ids, mask


def sample_labels(v, count, generator):
    """The labels as the classes want them, and as 32-bit words."""
    if v["task"] == TASKS["classes"]:
        labels = torch.randint(v["classes"], (count,), generator=generator)
        return labels, labels.numpy().astype(np.int32)
    if v["task"] == TASKS["labels"]:
        bits = torch.randint(2, (count, v["classes"]), generator=generator)
        words = (bits << torch.arange(v["classes"])).sum(1).numpy().astype(np.int32)
        return bits.double(), words
    values = torch.randn((count,), generator=generator).float()
    return values.double(), values.numpy().view(np.int32)


PROBLEM = {2: "single_label_classification", 3: "multi_label_classification", 4: "regression"}


def judge(name, model, v, lengths, generator, seconds=None):
    ids, mask = samples(v, lengths, generator)
    labels, words = sample_labels(v, len(lengths), generator)
    more = {}
    if seconds is not None:
        begin = torch.tensor([s or v["sequence"] for s in seconds])[:, None]
        more["token_type_ids"] = (torch.arange(v["sequence"])[None] >= begin).long() * mask

    def losses(_):
        return model(input_ids=ids, attention_mask=mask, labels=labels, **more).loss

    tensors = {"tokens": ids.numpy().astype(np.int32), "labels": words,
               "lengths": np.array(lengths, np.int32),
               "logits": single(model(input_ids=ids, attention_mask=mask, **more).logits)}
    if seconds is not None:
        tensors["seconds"] = np.array(seconds, np.int32)
    finish(name, model, losses, v, tensors)


def llama_judge(name, v, lengths, seed, qwen=False):
    generator = torch.Generator().manual_seed(seed)
    config = llama_config(v, qwen, num_labels=v["classes"], problem_type=PROBLEM[v["task"]])
    kind = transformers.Qwen2ForSequenceClassification if qwen else transformers.LlamaForSequenceClassification
    model = draw(kind(config), generator)
    judge(name, model, v, lengths, generator)


def gpt2_config(v, **more):
    return transformers.GPT2Config(
        vocab_size=v["vocabulary"], n_positions=v["positions"], n_embd=v["width"],
        n_layer=v["layers"], n_head=v["heads"], n_inner=v["inner"], embd_pdrop=0.0, attn_pdrop=0.0,
        resid_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        tie_word_embeddings=not v.get("untied"),
        layer_norm_epsilon=v["norm_epsilon"], attn_implementation="sdpa", **more)


def gpt2_judge(name, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    config = gpt2_config(v, num_labels=v["classes"], problem_type=PROBLEM[v["task"]])
    model = draw(transformers.GPT2ForSequenceClassification(config), generator)
    judge(name, model, v, lengths, generator)


def bert_config(v, **more):
    return transformers.BertConfig(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], intermediate_size=v["inner"],
        layer_norm_eps=v["norm_epsilon"], type_vocab_size=v["types"], hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, pad_token_id=0, attn_implementation="sdpa", **more)


def bert_judge(name, v, lengths, seed, seconds=None):
    generator = torch.Generator().manual_seed(seed)
    config = bert_config(v, num_labels=v["classes"], problem_type=PROBLEM[v["task"]])
    model = draw(transformers.BertForSequenceClassification(config), generator)
    if v.get("rank"):
        model = adapted(model, v, ["query", "value"], generator)
    judge(name, model, v, lengths, generator, seconds)


def bert_masked(name, v, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    model = draw(transformers.BertForMaskedLM(bert_config(v)), generator)
    ids, mask = samples(v, lengths, generator)
    hidden = (torch.rand(ids.shape, generator=generator) < 0.4) & (mask == 1)
    hidden[0, 0] = True
    labels = torch.where(hidden, ids, -1)
    ids = torch.where(hidden, 2, ids)

    def losses(_):
        return token_loss(model(input_ids=ids, attention_mask=mask).logits, labels)

    logits = single(model(input_ids=ids, attention_mask=mask).logits)
    tensors = {"tokens": ids.numpy().astype(np.int32), "labels": labels.numpy().astype(np.int32),
               "lengths": np.array(lengths, np.int32), "logits": logits.reshape(-1, v["vocabulary"])}
    finish(name, model, losses, v, tensors)


def main():
    torch.set_num_threads(1)
    base = dict(vocabulary=37, positions=32, width=16, layers=2, heads=2, inner=24, batch=2,
                sequence=7, accumulation=1, kv_heads=2, head_width=8, norm_epsilon=1e-6,
                rope_theta=10000.0)
    llama_stream("llama_one_head", {**base, "layers": 1, "heads": 1, "kv_heads": 1, "head_width": 16,
                                    "untied": 1}, 40, 1)
    llama_stream("llama_grouped", {**base, "vocabulary": 53, "heads": 4, "head_width": 4,
                                   "rope_theta": 500.0, "factor": 8.0, "low": 1.0, "high": 4.0,
                                   "original": 8, "sequence": 13, "accumulation": 2}, 100, 2)
    llama_stream("llama_biases", {**base, "width": 24, "heads": 6, "kv_heads": 3, "head_width": 6, "qkv_bias": 1,
                                  "output_bias": 1, "mlp_bias": 1, "untied": 1}, 40, 3)
    llama_stream("llama_one_token", {**base, "sequence": 1, "batch": 1}, 3, 4)
    llama_stream("qwen2_grouped", {**base, "heads": 4, "kv_heads": 1, "head_width": 4,
                                   "qkv_bias": 1}, 40, 5, qwen=True)
    llama_stream("lora_llama", {**base, "heads": 4, "head_width": 4, "untied": 1, "rank": 3, "alpha": 6,
                                "all_linear": 1}, 40, 8)
    llama_stream("lora_some", {**base, "rank": 4, "alpha": 2, "rslora": 1, "accumulation": 2}, 60, 9)
    gpt2_stream("lora_gpt2", {**base, "rank": 2, "alpha": 4, "all_linear": 1}, 40, 10)
    llama_judge("llama_classes", {**base, "heads": 4, "head_width": 4, "task": 2, "classes": 3,
                                  "batch": 4}, [7, 3, 1, 5], 6)
    gpt2_judge("gpt2_classes", {**base, "task": 2, "classes": 4, "batch": 4}, [7, 3, 1, 5], 7)
    bert = dict(vocabulary=41, positions=16, width=16, layers=2, heads=2, inner=24, batch=4,
                sequence=9, accumulation=1, norm_epsilon=1e-12, types=2)
    bert_judge("bert_classes", {**bert, "task": 2, "classes": 2}, [9, 4, 1, 6], 11)
    bert_judge("bert_labels", {**bert, "task": 3, "classes": 5, "heads": 1}, [9, 9, 2, 3], 12)
    bert_judge("bert_regression", {**bert, "task": 4, "classes": 1, "heads": 4}, [5, 4, 3, 8], 13)
    bert_judge("bert_one_token", {**bert, "task": 2, "classes": 2, "sequence": 1, "batch": 1}, [1],
               14)
    bert_masked("bert_masked", {**bert, "task": 1}, [9, 4, 7, 6], 15)
    bert_judge("bert_pairs", {**bert, "task": 2, "classes": 3}, [9, 7, 4, 2], 29, [4, 6, 0, 1])
    bert_judge("bert_pairs_regression", {**bert, "task": 4, "classes": 1, "types": 3, "heads": 1}, [9, 9, 5, 8], 30,
               [1, 8, 3, 4])
    bert_judge("lora_bert", {**bert, "task": 2, "classes": 3, "rank": 2, "alpha": 4, "all_linear": 1}, [9, 4, 1, 6], 31)
    # Three windows of four places, the last a half: targets that are not there, and an empty row.
    llama_stream("llama_short", {**base, "vocabulary": 29, "sequence": 10, "accumulation": 2}, 26, 16)
    llama_judge("llama_regression", {**base, "heads": 1, "kv_heads": 1, "head_width": 16, "untied": 1, "task": 4,
                                     "classes": 1, "batch": 4}, [2, 7, 7, 6], 17)
    llama_judge("llama_one_sample", {**base, "task": 3, "classes": 5, "batch": 1, "sequence": 1}, [1], 18)
    llama_stream("qwen2_short", {**base, "vocabulary": 53, "heads": 1, "kv_heads": 1, "head_width": 16, "qkv_bias": 1,
                                 "untied": 1, "sequence": 10, "accumulation": 2}, 26, 19, qwen=True)
    llama_stream("qwen2_one_token", {**base, "qkv_bias": 1, "sequence": 1, "batch": 1}, 3, 20, qwen=True)
    llama_judge("qwen2_classes", {**base, "heads": 4, "kv_heads": 2, "head_width": 4, "qkv_bias": 1, "task": 2,
                                  "classes": 3, "batch": 4}, [5, 7, 2, 1], 21, qwen=True)
    gpt2_stream("gpt2_lm_one_head", {**base, "vocabulary": 29, "heads": 1, "kv_heads": 1, "layers": 1}, 40, 22)
    gpt2_stream("gpt2_lm_short", {**base, "vocabulary": 53, "heads": 4, "sequence": 10, "accumulation": 2}, 26, 23)
    gpt2_stream("gpt2_lm_one_token", {**base, "sequence": 1, "batch": 1}, 3, 24)
    gpt2_stream("gpt2_lm_untied", {**base, "vocabulary": 43, "untied": 1, "accumulation": 2}, 40, 29)
    gpt2_judge("gpt2_labels", {**base, "heads": 1, "kv_heads": 1, "task": 3, "classes": 5, "batch": 4},
               [7, 7, 2, 4], 25)
    gpt2_judge("gpt2_one_sample", {**base, "task": 4, "classes": 1, "batch": 1, "sequence": 1}, [1], 26)
    bert_masked("bert_masked_one_head", {**bert, "heads": 1, "vocabulary": 53, "types": 1, "layers": 1, "task": 1},
                [3, 9, 1, 8], 27)
    bert_masked("bert_masked_one_token", {**bert, "task": 1, "sequence": 1, "batch": 1}, [1], 28)


if __name__ == "__main__":
    main()
