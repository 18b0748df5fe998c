# SPDX-License-Identifier: MIT
# tests/golden/prep: for some preprocessor_config.json what transformers' image processors make of two images, as an array
# (x.npy: rows, height, width, channels) that Bedplate reads. Needs transformers (written with 5.24), Pillow (13.0), numpy;
# run after tools/golden/formats/pictures.py, from the repository root.
import json, os
import numpy as np
import transformers
from PIL import Image
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil as ConvNext
from transformers.models.mobilenet_v2.image_processing_pil_mobilenet_v2 import MobileNetV2ImageProcessorPil as MobileNet
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil as ViT

OUT = "tests/golden/prep/"
os.makedirs(OUT, exist_ok=True)
rng = np.random.default_rng(7)
y, x = np.mgrid[0:53, 0:37]
waves = np.stack([127 + 90 * np.sin(x / 5 + y / (3 + c)) for c in range(3)], -1) + rng.normal(0, 25, (53, 37, 3))
Image.fromarray(np.clip(waves, 0, 255).astype(np.uint8)).save(OUT + "tall.png")
images = [Image.open(OUT + "tall.png").convert("RGB"), Image.open("tests/golden/pictures/colour.png").convert("RGB")]
IMAGENET = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
HALF = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])


def case(name, kind, written, **settings):
    out = OUT + name + "/"
    os.makedirs(out, exist_ok=True)
    values = kind(**settings)(images, return_tensors="np")["pixel_values"]
    np.save(out + "x.npy", np.ascontiguousarray(np.stack(list(values)).transpose(0, 2, 3, 1)).astype(np.float32))
    np.save(out + "y.npy", np.array([0, 1], np.uint8))
    if written is None:
        kind(**settings).save_pretrained(out)
    else:
        with open(out + "preprocessor_config.json", "w") as f:
            json.dump(written, f, indent=1)
    print(name, values.shape, values.mean())


case("convnext", ConvNext, None, size={"shortest_edge": 16}, crop_pct=0.875, resample=3, **IMAGENET)
old = dict(crop_pct=0.8, size=16, do_resize=True, do_normalize=True, resample=2, **IMAGENET)
case("convnext_old", ConvNext, dict(old, feature_extractor_type="ConvNextFeatureExtractor"),
     **dict(old, size={"shortest_edge": 16}))
case("vit", ViT, None, size={"height": 16, "width": 16}, resample=2, **HALF)
old = dict(do_resize=True, do_normalize=True, resample=3, **HALF)
case("vit_old", ViT, dict(old, size=16, feature_extractor_type="ViTFeatureExtractor"), size={"height": 16, "width": 16}, **old)
case("mobilenet", MobileNet, None, size={"shortest_edge": 19}, crop_size={"height": 16, "width": 16}, resample=2, **HALF)
case("plain", MobileNet, None, size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, resample=3,
     do_normalize=False, rescale_factor=1 / 127.5)
