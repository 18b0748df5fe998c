#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plans for the nets that MCUNetV3 trains on a microcontroller, beside the bytes that it publishes.

    tools/bench/peers/mcunet.py CLONE [--bedplate PROGRAM] [--work DIR]

CLONE: https://github.com/mit-han-lab/tiny-training, whose algorithm/assets/mcu_models hold the nets; of these only the
shapes are read, by a reader that makes nothing but lists. They become descriptions of Bedplate's cnn: each convolution a
layer with batch norm and ReLU, without the nets' skip connections and without their biases. Theirs are int8, these fp32.
"""
import argparse
import collections
import json
import os
import pickle
import subprocess
import sys
import zipfile

# Name, published KB (arXiv 2206.15472): whole, some tensors, these with operations reordered.
NETS = [("mbv2-w0.35", 2939, 335, 141), ("proxyless-w0.3", 2745, 326, 135), ("mcunet-5fps", 3650, 560, 173)]
BASE = ["--per-device-train-batch-size", "1", "--optim", "sgd", "--max-grad-norm", "0", "--device", "host", "--kernels",
        "portable", "--threads", "1", "--alignment", "32", "--json"]
LAYERS_MOST = 60
POOR = ["--gradient-release", "--gradient-checkpointing", "memory-poor"]


class Nothing:
    def __init__(self, *_, **__):
        pass

    def __setstate__(self, _):
        pass


class Shapes(pickle.Unpickler):
    """Whatever is named is Nothing: a file can run no code of its own."""

    def find_class(self, module, name):
        return collections.OrderedDict if (module, name) == ("collections", "OrderedDict") else Nothing

    def persistent_load(self, _):
        return Nothing()


def layer(conv):
    k = conv["kernel_size"][0]
    stride = f" stride {conv['stride']}" if conv["stride"] > 1 else ""
    if conv["depthwise"]:
        return f"depthwise {k}{stride} padding same"
    return f"conv {conv['out_channel']} {k}{stride}" + (" padding same" if k > 1 else "")


def description(path):
    net = Shapes(zipfile.ZipFile(path).open("archive/data.pkl")).load()
    convs = [net["first_conv"]]
    for block in net["blocks"]:
        convs += [block[part] for part in ("pointwise1", "depthwise", "pointwise2") if block[part]]
    if net.get("feature_mix"):
        convs.append(net["feature_mix"])
    layers = [layer(c) for c in convs]
    at = len(layers) - 1
    while len(layers) > LAYERS_MOST - 1:  # the last of these, which are small: depthwise and what follows in one
        if layers[at - 1].startswith("depthwise") and layers[at].startswith("conv"):
            layers[at - 1:at + 1] = [layers[at - 1].replace("depthwise", f"separable {convs[at]['out_channel']}")]
        at -= 1
    side = net["first_conv"]["in_shape"]
    return {"model_type": "cnn", "image_height": side, "image_width": side, "num_channels": 3, "num_labels": 10,
            "freeze_batch_norm": True, "layers": layers + ["mean-pool all"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("clone")
    parser.add_argument("--bedplate", default="build/release/bedplate")
    parser.add_argument("--work", default="/tmp/bedplate-mcunet")
    args = parser.parse_args()
    print("| net | layers, parameters | whole | released, memory-poor | last 12 layers | last 6 weights, 22 biases "
          "| last 12 layers, the rest in flash: arena, flash | last 6 weights, 22 biases, likewise "
          "| published, int8, KB: whole, sparse, reordered |\n|---|---|---|---|---|---|---|---|---|")
    for name, *published in NETS:
        config = description(f"{args.clone}/algorithm/assets/mcu_models/{name}.pkl")
        directory = os.path.join(args.work, name)
        os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/config.json", "w") as file:
            json.dump(config, file)
        convs = len(config["layers"]) - 1

        def plan(*more):
            done = subprocess.run([args.bedplate, "plan", "--model", directory] + BASE + list(more), capture_output=True,
                                  text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            return json.loads(done.stdout.splitlines()[-1])

        def above(what, count):
            return [f"--trainable=layers.{i}.{what}" for i in range(convs - count, convs)]

        whole = plan()
        cells = [name, f"{convs}, {whole['parameters']:,}", f"{whole['arena_bytes']:,}", f"{plan(*POOR)['arena_bytes']:,}"]
        last = ["--freeze=*", "--trainable=classifier.*"]
        cells.append(f"{plan(*POOR, *last, *above('*', 12))['arena_bytes']:,}")
        sparse = above("*convolution.weight", 6) + above("*normalization.bias", 22)
        cells.append(f"{plan(*POOR, *last, *sparse)['arena_bytes']:,}")
        for trained in above("*", 12), sparse:
            flash = plan(*POOR, *last, *trained, "--offload", "flash:64MB")
            cells.append(f"{flash['arena_bytes']:,}, {flash['flash']['arena_bytes']:,}")
        cells.append(", ".join(f"{kb:,}" for kb in published))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
