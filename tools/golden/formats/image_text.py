#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/families/{clip,siglip}_both*.safetensors: what CLIPModel and SiglipModel compute in float64 of images and
their texts, in the files of tools/golden/families.py, with their config.json in the tensor `config`, and

  features float32  (samples, height, width, channels) the images
  labels   int32    (samples) the number of each one's image
  logits   float32  (samples, 2 * width) the vector of each text, then that of its image, before they are scaled to length 1
  texts    int32    1, 0

and tests/golden/image_text: a small CLIP as transformers saves it, with its tokenizer and preprocessor_config.json, pictures
and their texts (metadata.jsonl), and in siglip/ a SigLIP with the same; in `values` what transformers computes of them in float64: the loss of a batch of all,
then how many texts find their image among the first 1, 3, 5, 10, and the same of images.

Run from the repository root: tools/golden/formats/image_text.py [folder] (needs torch, transformers, peft, numpy, safetensors; written with
transformers 5.24 and peft 0.21; some seconds on one core).
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


def folder():
    path = "tests/golden/image_text"
    rng, side = np.random.default_rng(7), 12
    os.makedirs(path + "/pictures", exist_ok=True)
    tokenizer = transformers.CLIPTokenizer.from_pretrained("tests/golden/tokenizers/clip")
    end = tokenizer.eos_token_id
    text = dict(vocab_size=len(tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
                max_position_embeddings=16, bos_token_id=tokenizer.bos_token_id, eos_token_id=end, pad_token_id=end)
    vision = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, image_size=side, patch_size=4)
    clip = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=10))
    siglip = transformers.SiglipModel(transformers.SiglipConfig(text_config={**text, "projection_size": 12}, vision_config=vision))
    for model, folder in ((clip, path), (siglip, path + "/siglip")):
        families.draw(model, torch.Generator().manual_seed(401), 0.3)
        with torch.no_grad():
            model.logit_scale.fill_(2.6592)
        model.float().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    for folder in (path, path + "/siglip"):
        f = open(folder + "/preprocessor_config.json", "w", encoding="utf-8")
        json.dump(dict(image_processor_type="CLIPImageProcessor", do_resize=True, size=dict(shortest_edge=side), resample=3,
                       do_center_crop=True, crop_size=dict(height=side, width=side), do_rescale=True,
                       rescale_factor=1 / 255, do_normalize=True, image_mean=mean, image_std=std), f, indent=1)
        f.close()
    colours = dict(red=(220, 30, 20), green=(20, 200, 40), blue=(30, 40, 230), white=(240, 240, 240))
    rows, images = [], []
    for number, (colour, shape) in enumerate((c, s) for c in colours for s in ("left", "right", "top")):
        image = rng.integers(0, 40, (side, side, 3))
        part = {"left": np.s_[:, :6], "right": np.s_[:, 6:], "top": np.s_[:6]}[shape]
        image[part] += np.array(colours[colour]) * 4 // 5
        image = np.clip(image, 0, 255).astype(np.uint8)
        with open(f"{path}/pictures/{number}.ppm", "wb") as f:
            f.write(f"P6\n{side} {side}\n255\n".encode() + image.tobytes())
        images.append(image)
        rows.append({"file_name": f"pictures/{number}.ppm", "text": f"{colour} {shape}!"})
    with open(path + "/metadata.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    x = tokenizer([row["text"] for row in rows], padding=True, truncation=True, max_length=16, return_tensors="pt")
    pixels = (torch.tensor(np.stack(images)).double() / 255 - torch.tensor(mean).double()) / torch.tensor(std).double()
    pixels = pixels.permute(0, 3, 1, 2)
    full = tokenizer([row["text"] for row in rows], padding="max_length", truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        values(path, clip.double().eval()(input_ids=x.input_ids, attention_mask=x.attention_mask, pixel_values=pixels,
                                          return_loss=True))
        values(path + "/siglip", siglip.double().eval()(input_ids=full.input_ids, pixel_values=pixels, return_loss=True))


def values(path, out):
    scores = out.logits_per_text
    own = scores.diagonal()

    def found(s):
        rank = (s > own[:, None]).sum(1)
        return [f"{(rank < k).double().mean().item():.6f}" for k in (1, 3, 5, 10)]
    with open(path + "/values", "w", encoding="utf-8") as f:
        print(f"{out.loss.item():.8f}", *found(scores), *found(scores.T), file=f)
    print(path, open(path + "/values", encoding="utf-8").read())


def main():
    if sys.argv[1:] == ["folder"]:
        folder()
        return
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
        if clip: # PEFT's adapters of torch.nn.MultiheadAttention are not read by it
            both(start + "_lora", clip, {**own, **LORA}, lengths, 303, size, act, 1.0)
        both(start + "_small", clip, {**own, "batch": 2, "positions": 9, "image": 4, "image_heads": 1, "heads": 1, "layers": 1,
                                      "image_layers": 1}, [9, 1], 304, size, "relu", 4.0)


if __name__ == "__main__":
    main()
