#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{clip,siglip}_both*.safetensors: what CLIPModel and SiglipModel compute in float64 of images and
their texts, in the files of tools/golden/families.py, with their config.json in the tensor `config`, and

  features float32  (samples, height, width, channels) the images
  labels   int32    (samples) the number of each one's image
  logits   float32  (samples, 2 * width) the vector of each text, then that of its image, before they are scaled to length 1
  texts    int32    1, 0

Run from the repository root: tools/golden/image_text.py (needs torch, transformers, peft, numpy, safetensors; written with
transformers 5.24 and peft 0.21; some seconds on one core).
"""
import json
import os
import sys

import numpy as np
import peft
import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402

EMBEDDING = 7
LORA = dict(rank=3, alpha=6, all_linear=1)
LAYERS = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"]


def config_of(clip, v, projection, act):
    same = dict(hidden_act=act, layer_norm_eps=v["norm_epsilon"])
    text = dict(vocab_size=v["vocabulary"], hidden_size=v["width"], intermediate_size=v["inner"], num_hidden_layers=v["layers"],
                num_attention_heads=v["heads"], max_position_embeddings=v["positions"], bos_token_id=1,
                eos_token_id=v["vocabulary"] - 1, pad_token_id=0, **same)
    vision = dict(hidden_size=v["image_width"], intermediate_size=v["image_inner"], num_hidden_layers=v["image_layers"],
                  num_attention_heads=v["image_heads"], image_size=v["image"], patch_size=v["patch"],
                  num_channels=v["channels"], **same)
    if clip:
        return transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=projection)
    return transformers.SiglipConfig(text_config={**text, "projection_size": projection}, vision_config=vision)


def both(name, clip, v, lengths, seed, projection, act, scale):
    config = config_of(clip, v, projection, act)
    kind = "CLIPModel" if clip else "SiglipModel"
    generator = torch.Generator().manual_seed(seed)
    model = families.draw(getattr(transformers, kind)(config), generator)
    with torch.no_grad():
        model.logit_scale.fill_(scale)
    if v.get("rank"):
        model = peft.get_peft_model(model, peft.LoraConfig(r=v["rank"], lora_alpha=v["alpha"], target_modules=LAYERS)).double()
        with torch.no_grad():
            for key, p in model.named_parameters():
                if ".lora_" in key:
                    p.copy_((torch.randn(p.shape, generator=generator, dtype=torch.float64) * 0.2).float().double())
    v = {**v, "task": EMBEDDING, "classes": 2 * projection}
    ids, mask = families.samples({**v, "vocabulary": v["vocabulary"] - 1}, lengths, generator)
    for row, length in enumerate(lengths):
        ids[row, length - 1] = v["vocabulary"] - 1
    images = torch.randn((len(lengths), v["image"], v["image"], v["channels"]), generator=generator).float()
    pixels = images.double().permute(0, 3, 1, 2)

    def loss(step):
        total, batch = 0.0, v["batch"]
        for micro in range(v["accumulation"]):
            part = slice(micro * batch, (micro + 1) * batch)
            more = dict(attention_mask=mask[part]) if clip else {}
            out = model(input_ids=ids[part], pixel_values=pixels[part], return_loss=True, **more)
            total = total + out.loss / v["accumulation"]
        return total

    inner = model.base_model.model if v.get("rank") else model
    with torch.no_grad():
        more = dict(attention_mask=mask) if clip else {}
        vectors = [inner.get_text_features(input_ids=ids, **more).pooler_output,
                   inner.get_image_features(pixel_values=pixels).pooler_output]
    tensors = {"tokens": ids.numpy().astype(np.int32), "lengths": np.array(lengths, np.int32), "features": images.numpy(),
               "labels": np.arange(len(lengths), dtype=np.int32), "logits": families.single(torch.cat(vectors, 1)),
               "texts": np.array([1, 0], np.int32)}
    text = json.dumps({**config.to_dict(), "architectures": [kind]}).encode()
    tensors["config"] = np.frombuffer(text, np.uint8).copy()
    families.finish("families/" + name, model, loss, v, tensors)


def main():
    torch.set_num_threads(1)
    own = dict(vocabulary=20, positions=9, width=16, layers=2, heads=2, inner=24, batch=4, sequence=9, accumulation=1,
               norm_epsilon=1e-5, image_width=12, image_inner=20, image_layers=2, image_heads=3, image=8, patch=4, channels=3)
    lengths = [9, 2, 5, 7]
    for clip in (True, False):
        start = "clip_both" if clip else "siglip_both"
        act = "quick_gelu" if clip else "gelu_pytorch_tanh"
        size = 14 if clip else 12
        both(start, clip, own, lengths, 301, size, act, 1.5)
        both(start + "_two_micros", clip, {**own, "batch": 3, "accumulation": 2, "layers": 1, "image_layers": 3, "heads": 4, "channels": 1,
                                           "image": 11, "patch": 3}, lengths + [3, 6], 302, size, "gelu", 2.6592)
        both(start + "_lora", clip, {**own, **LORA}, lengths, 303, size, act, 1.0)
        both(start + "_small", clip, {**own, "batch": 2, "positions": 9, "image": 4, "image_heads": 1, "heads": 1, "layers": 1,
                                      "image_layers": 1}, [9, 1], 304, size, "relu", 4.0)
        if clip and len(sys.argv) < 2:
            break


if __name__ == "__main__":
    main()
