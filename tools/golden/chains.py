#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/{mlp,rnn}_*.safetensors: what PyTorch computes in float64 for small chains of
dense layers and small recurrent language models.

Run from the repository root: tools/golden/chains.py (needs torch, numpy, safetensors; written with
torch 2.15; some seconds on one core).

The models are nn.Linear with an activation between them, and nn.Embedding, nn.GRU or nn.LSTM (state 0
at the start of each window) and nn.Linear, in float64 after their weights were drawn and rounded to
float32. Streams of tokens follow the feed's rule as in gpt2.py.

Files, all tensors row-major:
  <names of the family>   float32  initial weights
  grad.<name>             float32  gradients of the first group
  shape                   int32    see SHAPE
  tokens                  int32    the stream, or the bits of the rows (rows, inputs)
  labels                  int32    mlp: (rows) of classes or 32 bits
  loss                    float64  mean loss of each of STEPS steps of AdamW (rate 1e-2, betas 0.9 and
                                   0.999, epsilon 1e-8, weight decay 0.1 of matrices, no clipping), the
                                   first of them that of `grad`
  norm                    float64  global gradient norm of the first group
  logits                  float32  rnn: (sequence, vocabulary) of the first window; mlp: of all rows
"""
import math

import numpy as np
import torch
from safetensors.numpy import save_file

OUT = "tests/golden/"
STEPS = 50
SHAPE = ["vocabulary", "positions", "width", "layers", "inner", "batch", "accumulation", "untied",
         "task", "classes", "activation", "cell", "chunks", "size0", "size1", "size2"]
CLASSES, LABELS, REGRESSION = 2, 3, 4
GELU, TANH, RELU = 0, 1, 2
GRU, LSTM = 0, 1


class Mlp(torch.nn.Module):
    def __init__(self, v):
        super().__init__()
        widths = [v["positions"], *(v.get(f"size{i}") or v["width"] for i in range(v["layers"]))]
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:]))
        self.classifier = torch.nn.Linear(widths[-1], v["classes"])
        self.activation = [torch.nn.functional.gelu, torch.tanh, torch.relu][v["activation"]]

    def forward(self, x):
        for layer in self.layers:
            x = self.activation(layer(x))
        return self.classifier(x)


class Rnn(torch.nn.Module):
    def __init__(self, v):
        super().__init__()
        embedding = v["inner"] or v["width"]
        kind = torch.nn.LSTM if v["cell"] == LSTM else torch.nn.GRU
        self.encoder = torch.nn.Embedding(v["vocabulary"], embedding)
        self.rnn = kind(embedding, v["width"], v["layers"], batch_first=True)
        self.decoder = torch.nn.Linear(v["width"], v["vocabulary"])
        if not v["untied"]:
            self.decoder.weight = self.encoder.weight

    def forward(self, ids):
        return self.decoder(self.rnn(self.encoder(ids))[0])


def single(tensor):
    return np.ascontiguousarray(tensor.detach().float().numpy())


def draw(model, generator, deviation):
    model = model.double().train()
    with torch.no_grad():
        for p in model.parameters():
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * deviation
            p.copy_(drawn.float().double())
    return model


def train(name, model, v, tensors, loss_of):
    """loss_of(step) is the mean loss of the group of a step."""
    tensors.update({n: single(p) for n, p in model.named_parameters()})
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(step)
        loss.backward()
        if step == 0:
            norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
            tensors.update({"grad." + n: single(p.grad) for n, p in model.named_parameters()})
        optimizer.step()
        losses.append(loss.item())
    tensors["shape"] = np.array([int(v.get(k, 0)) for k in SHAPE], np.int32)
    tensors["loss"] = np.array(losses, np.float64)
    tensors["norm"] = np.array([norm], np.float64)
    save_file(tensors, f"{OUT}{name}.safetensors", metadata={"format": "pt"})
    print(name, sum(t.nbytes for t in tensors.values()), "bytes, loss", losses[0], losses[-1])


def group_of(step, count, group):
    first = step % math.ceil(count / group) * group
    return slice(first, min(first + group, count))


def mlp(name, v, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    model = draw(Mlp(v), generator, 0.5)
    x = torch.randn((rows, v["positions"]), generator=generator).float()
    logits_of = lambda at: model(x[at].double())
    if v["task"] == CLASSES:
        labels = torch.randint(v["classes"], (rows,), generator=generator)
        words = labels.numpy().astype(np.int32)
        loss_at = lambda at: torch.nn.functional.cross_entropy(logits_of(at), labels[at])
    elif v["task"] == LABELS:
        bits = torch.randint(2, (rows, v["classes"]), generator=generator)
        words = (bits << torch.arange(v["classes"])).sum(1).numpy().astype(np.int32)
        loss_at = lambda at: torch.nn.functional.binary_cross_entropy_with_logits(
            logits_of(at), bits[at].double())
    else:
        values = torch.randn((rows,), generator=generator).float()
        words = values.numpy().view(np.int32)
        loss_at = lambda at: torch.nn.functional.mse_loss(logits_of(at)[:, 0], values[at].double())
    tensors = {"tokens": x.numpy().view(np.int32), "labels": words,
               "logits": single(logits_of(slice(None)))}
    group = v["batch"] * v["accumulation"]
    train(name, model, v, tensors, lambda step: loss_at(group_of(step, rows, group)))


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


def rnn(name, v, token_count, seed):
    generator = torch.Generator().manual_seed(seed)
    model = draw(Rnn(v), generator, 0.3)
    tokens = torch.randint(v["vocabulary"], (token_count,), generator=generator).numpy()
    ids, labels = windows_of(tokens, v["positions"])

    def loss_of(step):
        at = group_of(step, len(ids), v["batch"] * v["accumulation"])
        return torch.nn.functional.cross_entropy(
            model(ids[at]).reshape(-1, v["vocabulary"]), labels[at].reshape(-1), ignore_index=-1)

    tensors = {"tokens": tokens.astype(np.int32), "logits": single(model(ids[:1])[0])}
    train(name, model, v, tensors, loss_of)


def main():
    torch.set_num_threads(1)
    base = dict(positions=5, width=8, layers=2, batch=4, accumulation=1, activation=RELU)
    mlp("mlp_classes", {**base, "task": CLASSES, "classes": 3, "layers": 3, "size0": 7, "size1": 13,
                        "size2": 3}, 22, 1)
    mlp("mlp_labels", {**base, "task": LABELS, "classes": 5, "activation": TANH, "accumulation": 2},
        17, 2)
    mlp("mlp_regression", {**base, "task": REGRESSION, "classes": 1, "activation": GELU, "layers": 1,
                           "positions": 1}, 12, 3)
    mlp("mlp_no_hidden", {**base, "task": CLASSES, "classes": 2, "layers": 0, "batch": 3}, 9, 4)
    base = dict(vocabulary=23, positions=12, width=6, layers=1, inner=0, batch=3, accumulation=1,
                untied=1, chunks=4)
    rnn("rnn_gru", {**base, "cell": GRU}, 70, 11)
    rnn("rnn_gru_deep", {**base, "cell": GRU, "layers": 2, "inner": 9, "width": 7, "positions": 11,
                         "batch": 2, "accumulation": 2}, 80, 12)
    rnn("rnn_lstm", {**base, "cell": LSTM, "untied": 0}, 70, 13)
    rnn("rnn_lstm_deep", {**base, "cell": LSTM, "layers": 2, "inner": 5, "width": 9, "positions": 13,
                          "batch": 1, "chunks": 3}, 60, 14)
    rnn("rnn_one_token", {**base, "cell": LSTM, "positions": 1, "batch": 2, "chunks": 1}, 4, 15)


if __name__ == "__main__":
    main()
