#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/*_vectors_*.safetensors: the loss of sentence-transformers'
MultipleNegativesRankingLoss (cosine similarity, scale 20) in float64, over vectors of small models, in the files of
tools/golden/families.py.

Run from the repository root: tools/golden/contrast.py (needs torch, transformers, sentence-transformers; some seconds
on one core).

texts    int32    texts of an example (2: anchor and positive; 3: and a negative), bp_pooling
labels   int32    (samples) zeros
logits   float32  (samples, width): the vectors
dense    int32    of each Dense module its width, and whether it has a bias and tanh
"""
import os
import sys

import numpy as np
import peft
import torch
import transformers
from sentence_transformers.base.modules import Dense

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402
import qwen3  # noqa: E402
import today  # noqa: E402

EMBEDDING = 7
POOLING = ["mean", "cls", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"]


class Holder(torch.nn.Module):
    """A model under the name that its parameters have in files."""

    def __init__(self, name, model):
        super().__init__()
        setattr(self, name, model)
        self.of = name

    def forward(self, **inputs):
        return getattr(self, self.of)(**inputs).last_hidden_state


def pool(way, x, mask):
    m = mask.unsqueeze(-1).to(x.dtype)
    n = mask.sum(1)
    if way == "cls":
        return x[:, 0]
    if way == "lasttoken":
        return x[torch.arange(len(x)), n - 1]
    if way == "weightedmean":
        m = m * torch.arange(1, x.shape[1] + 1).to(x.dtype)[None, :, None]
    total = (x * m).sum(1)
    return total / (torch.sqrt(m.sum(1)) if way == "mean_sqrt_len_tokens" else m.sum(1))


def ranking(vectors, texts, scale=20.0):
    """Anchors against the positives of all examples, then the negatives of all."""
    unit = torch.nn.functional.normalize(vectors, dim=1).reshape(-1, texts, vectors.shape[1])
    candidates = torch.cat([unit[:, k] for k in range(1, texts)])
    scores = unit[:, 0] @ candidates.T * scale
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(unit)))


def compare(name, vectors, texts, loss):
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    parts = vectors.detach().reshape(-1, texts, vectors.shape[1])
    found = MultipleNegativesRankingLoss(None).compute_loss_from_embeddings([parts[:, k] for k in range(texts)], None)
    print(name, "differs from sentence-transformers by", abs(float(found) - float(loss)))


def denses(model, rows, width):
    """Dense modules of sentence-transformers, under the directories' names: rows of width, bias and tanh."""
    made = []
    for i, (out, bias, tanh) in enumerate(rows):
        layer = Dense(width, out, bias=bool(bias), activation_function=torch.nn.Tanh() if tanh else torch.nn.Identity())
        model.add_module(f"{2 + i}_Dense", layer)
        made.append(layer)
        width = out
    return made, width


def case(name, prefix, model, v, lengths, texts, way, seed, dense=()):
    generator = torch.Generator().manual_seed(seed)
    model = Holder(prefix, model)
    chain, width = denses(model, dense, v["width"])
    model = families.draw(model, generator)
    v = {**v, "task": EMBEDDING, "classes": width}
    ids, mask = families.samples(v, lengths, generator)

    def vectors():
        x = pool(way, model(input_ids=ids, attention_mask=mask), mask)
        for layer in chain:
            x = layer({"sentence_embedding": x})["sentence_embedding"]
        return x

    tensors = {"tokens": ids.numpy().astype(np.int32), "lengths": np.array(lengths, np.int32),
               "labels": np.zeros(len(lengths), np.int32), "logits": families.single(vectors()),
               "texts": np.array([texts, POOLING.index(way)], np.int32)}
    if dense:
        tensors["dense"] = np.array(dense, np.int32).reshape(-1)
    assert torch.isfinite(vectors()).all(), name # eager attention has NaN where a window has padding alone
    compare(name, vectors(), texts, ranking(vectors(), texts))
    families.finish("families/" + name, model, lambda _: ranking(vectors(), texts), v, tensors)


def bert(v):
    return transformers.BertModel(families.bert_config(v), add_pooling_layer=False)


def gemma(v, window, **more):
    """Gemma 3 that reads in both directions (EmbeddingGemma), whose norms are kept about 0."""
    config = today.llama_like(v, "Gemma3Text", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=8,
                              use_bidirectional_attention=True, sliding_window=window, pad_token_id=0, attn_implementation="sdpa",
                              **more)
    return config, transformers.Gemma3TextModel(config)


def adapted(held, v, generator):
    every = [n + "_proj" for n in ("q", "k", "v", "o", "gate", "up", "down")]
    held = peft.get_peft_model(held, peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], target_modules=every)).double()
    with torch.no_grad():
        for name, p in held.named_parameters():
            if ".lora_" in name:
                p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    return held


def gemma_case(name, v, window, lengths, texts, way, seed, dense=(), **more):
    config, model = gemma(v, window, **more)
    config.architectures = ["Gemma3TextModel"]
    own = families.draw

    def draw(held, generator):
        held = own(held, generator)
        with torch.no_grad():
            for key, p in held.named_parameters():
                if "norm" in key:
                    p.sub_(1.0).copy_(p.float().double())
        model.embed_tokens.embed_scale = model.embed_tokens.embed_scale.double()
        return adapted(held, v, generator) if v.get("rank") else held
    families.draw = draw
    with qwen3.WithConfig(config, "Gemma3TextModel"):
        case(name, "model", model, v, lengths, texts, way, seed, dense)
    families.draw = own


def tower_case(name, clip, v, lengths, texts, seed, projection, act):
    """Towers of texts of CLIP and SigLIP, whose way from tokens to a vector is their own; the last word ends a text."""
    more = dict(vocab_size=v["vocabulary"], hidden_size=v["width"], intermediate_size=v["inner"], hidden_act=act,
                num_hidden_layers=v["layers"], num_attention_heads=v["heads"], max_position_embeddings=v["positions"],
                layer_norm_eps=v["norm_epsilon"], bos_token_id=1, eos_token_id=v["vocabulary"] - 1, pad_token_id=0)
    if clip:
        config = transformers.CLIPTextConfig(projection_dim=projection, **more)
        model, kind = transformers.CLIPTextModelWithProjection(config), "CLIPTextModelWithProjection"
    else:
        config = transformers.SiglipTextConfig(projection_size=projection, **more)
        model, kind = transformers.SiglipTextModel(config), "SiglipTextModel"
    generator = torch.Generator().manual_seed(seed)
    model = families.draw(model, generator)
    if v.get("rank"):
        model = peft.get_peft_model(model, peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], target_modules=[
            "q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"])).double()
        with torch.no_grad():
            for key, p in model.named_parameters():
                if ".lora_" in key:
                    p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    v = {**v, "task": EMBEDDING, "classes": projection}
    ids, mask = families.samples({**v, "vocabulary": v["vocabulary"] - 1}, lengths, generator)
    for row, length in enumerate(lengths):
        ids[row, length - 1] = v["vocabulary"] - 1

    def vectors():
        return model(input_ids=ids, attention_mask=mask).text_embeds if clip else model(input_ids=ids).pooler_output

    tensors = {"tokens": ids.numpy().astype(np.int32), "lengths": np.array(lengths, np.int32),
               "labels": np.zeros(len(lengths), np.int32), "logits": families.single(vectors()),
               "texts": np.array([texts, 0], np.int32)}
    compare(name, vectors(), texts, ranking(vectors(), texts))
    with qwen3.WithConfig(config, kind):
        families.finish("families/" + name, model, lambda _: ranking(vectors(), texts), v, tensors)


def towers():
    own = dict(vocabulary=6, positions=9, width=16, layers=2, heads=2, inner=24, batch=8, sequence=9, accumulation=1,
               norm_epsilon=1e-5)
    lengths = [9, 1, 1, 2, 1, 1, 2, 7] # and few words, so that texts are alike and losses stay far from 0
    tower_case("clip_vectors", True, own, lengths, 2, 81, 12, "quick_gelu")
    tower_case("clip_vectors_two_micros", True, {**own, "positions": 16, "batch": 4, "accumulation": 2, "heads": 4}, lengths, 2,
               82, 16, "gelu")
    tower_case("siglip_vectors", False, own, lengths, 2, 83, 16, "gelu_pytorch_tanh")
    tower_case("siglip_vectors_triplets", False, {**own, "batch": 6, "layers": 1, "heads": 1}, [9, 4, 2, 6, 1, 7], 3, 84, 10,
               "gelu_pytorch_tanh")
    tower_case("clip_vectors_lora", True, {**own, **today.LORA}, lengths, 2, 85, 12, "quick_gelu")
    tower_case("siglip_vectors_lora", False, {**own, **today.LORA}, lengths, 2, 86, 16, "gelu_pytorch_tanh")


def whole():
    """tests/golden/sentences/clip and siglip: a model of both towers as transformers saves it, and in vectors.txt what its tower
    of texts makes of the first lines of tests/golden/embeddings/texts.txt, with the words of bert_uncased."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file="tests/golden/tokenizers/bert_uncased/tokenizer.json",
                                                     pad_token="[PAD]")
    lines = [t.rstrip("\n") for t in open("tests/golden/embeddings/texts.txt", encoding="utf-8")]
    lines = [t for t in lines if t and "[SEP]" not in t][:12]
    vision = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=4, patch_size=2)
    text = dict(hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=12,
                vocab_size=len(tokenizer), bos_token_id=2, eos_token_id=tokenizer.convert_tokens_to_ids("[SEP]"))
    for name in ("clip", "siglip"):
        if name == "clip":
            model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=10))
        else:
            model = transformers.SiglipModel(transformers.SiglipConfig(text_config={**text, "projection_size": 8},
                                                                       vision_config=vision))
        families.draw(model, torch.Generator().manual_seed(91)).float().save_pretrained("tests/golden/sentences/" + name)
        ids = tokenizer(lines, truncation=True, max_length=12, padding="max_length", return_tensors="pt")
        with torch.no_grad():
            found = model.double().eval().get_text_features(ids.input_ids).pooler_output
        with open(f"tests/golden/sentences/{name}/vectors.txt", "w", encoding="utf-8") as f:
            f.writelines(" ".join("%.7f" % x for x in row) + "\n" for row in found.tolist())
        with open(f"tests/golden/sentences/{name}/texts.txt", "w", encoding="utf-8") as f:
            f.writelines(t + "\n" for t in lines)


def main():
    torch.set_num_threads(1)
    towers()
    whole()
    own = dict(vocabulary=41, positions=16, width=16, layers=2, heads=2, inner=24, batch=4, sequence=9, accumulation=2,
               norm_epsilon=1e-12, types=2)
    case("bert_vectors_mean", "bert", bert(own), own, [9, 4, 1, 6, 2, 9, 7, 3], 2, "mean", 61)
    case("bert_vectors_short", "bert", bert(own), {**own, "accumulation": 3}, [5, 4, 9, 6, 2, 1], 2, "weightedmean", 62)
    three = {**own, "batch": 6, "accumulation": 1}
    case("bert_vectors_triplets", "bert", bert(three), three, [9, 4, 1, 6, 2, 9], 3, "cls", 63)
    four = {**own, "batch": 4, "accumulation": 3}
    case("bert_vectors_two_negatives", "bert", bert(four), four, [9, 4, 1, 6, 2, 9, 3, 3, 8, 7, 5, 4], 4,
         "mean_sqrt_len_tokens", 64)
    llama = dict(vocabulary=37, positions=32, width=16, layers=2, heads=2, inner=24, batch=2, sequence=7, accumulation=3,
                 kv_heads=2, head_width=8, norm_epsilon=1e-6, rope_theta=10000.0)
    case("llama_vectors_last", "model", transformers.LlamaModel(families.llama_config({**llama, "task": 1})), llama,
         [7, 3, 1, 5, 4, 6], 2, "lasttoken", 65)
    # Few words, so that texts are alike and losses stay far from 0.
    both = {**today.BASE, "layers": 3, "batch": 8, "sequence": 9, "accumulation": 1, "vocabulary": 6}
    lengths = [9, 1, 1, 2, 1, 1, 2, 7]
    gemma_case("gemma3_vectors_both_ways", both, 6, lengths, 2, "mean", 66, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention"])
    gemma_case("gemma3_vectors_half", {**both, "batch": 4, "accumulation": 2}, 3, lengths, 2, "mean", 67)
    gemma_case("gemma3_vectors_whole", {**both, "layers": 2, "heads": 2, "kv_heads": 1}, 64, lengths, 2, "weightedmean", 68,
               rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})
    case("bert_vectors_dense", "bert", bert(own), own, [9, 4, 1, 6, 2, 9, 7, 3], 2, "cls", 75, [(12, 1, 1), (20, 0, 1)])
    case("llama_vectors_dense", "model", transformers.LlamaModel(families.llama_config({**llama, "task": 1})), llama,
         [7, 3, 1, 5, 4, 6], 2, "lasttoken", 76, [(16, 1, 0)])
    gemma_case("gemma3_vectors_dense", {**both, "batch": 4, "accumulation": 2, "layers": 2}, 4, lengths, 2, "mean", 77,
               [(40, 0, 0), (16, 0, 0)])
    gemma_case("gemma3_vectors_lora", {**both, **today.LORA, "layers": 2}, 4, lengths, 2, "mean", 74)


if __name__ == "__main__":
    main()
