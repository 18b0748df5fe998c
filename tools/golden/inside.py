#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/inside/{gemma3,mistral3}/: a small Gemma 3 and a Mistral with an image model beside their text, as
transformers' save_pretrained writes them, and in tests/golden/inside/loss and loss_mistral3 the mean loss of text.txt's
bytes in windows of 16.

Run from the repository root: tools/golden/inside.py (needs torch, transformers; written with transformers 5.23).
"""
import os
import shutil

import torch
import transformers

OUT = "tests/golden/inside/"
WINDOW = 16


def gemma3():
    torch.manual_seed(5)
    text = transformers.Gemma3TextConfig(
        vocab_size=256, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8, sliding_window=4, max_position_embeddings=64,
        layer_types=["sliding_attention", "full_attention"], bos_token_id=2, eos_token_id=1, pad_token_id=0,
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})
    vision = transformers.SiglipVisionConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                             num_attention_heads=1, image_size=8, patch_size=4)
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=1)
    model = transformers.Gemma3ForConditionalGeneration(config)
    save(model, "gemma3", "loss")


def mistral3():
    torch.manual_seed(6)
    text = transformers.MistralConfig(
        vocab_size=256, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, sliding_window=None, max_position_embeddings=64, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
    vision = transformers.PixtralVisionConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                              num_attention_heads=1, image_size=8, patch_size=4, head_dim=8)
    config = transformers.Mistral3Config(text_config=text, vision_config=vision, tie_word_embeddings=False)
    save(transformers.Mistral3ForConditionalGeneration(config), "mistral3", "loss_mistral3")


def save(model, name, loss):
    """Draws the weights, and writes the model and its loss."""
    with torch.no_grad():
        for _, p in model.named_parameters():
            p.copy_(torch.randn(p.shape) * 0.2)
    shutil.rmtree(OUT + name, ignore_errors=True)
    model.save_pretrained(OUT + name)
    generation = OUT + name + "/generation_config.json"
    if os.path.exists(generation):
        os.remove(generation)
    with open(OUT + "text.txt", "w", encoding="utf-8") as file:
        file.write("".join(f"line {i} of a text\n" for i in range(12)))
    with open(OUT + "text.txt", "rb") as file:
        tokens = list(file.read())
    total = count = 0
    for first in range(0, len(tokens) - 1, WINDOW):
        part = torch.tensor([tokens[first:first + WINDOW + 1]])
        logits = model(input_ids=part[:, :-1]).logits
        total += float(torch.nn.functional.cross_entropy(logits[0], part[0, 1:], reduction="sum"))
        count += part.shape[1] - 1
    with open(OUT + loss, "w", encoding="utf-8") as file:
        file.write(f"{total / count:.6f}\n")
    print(total / count)


if __name__ == "__main__":
    gemma3()
    mistral3()
