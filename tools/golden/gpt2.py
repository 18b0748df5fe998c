#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/gpt2_*.safetensors: what PyTorch computes in float64 for small GPT-2 models.

Run from the repository root: tools/golden/gpt2.py (needs torch, transformers, numpy, safetensors;
written with torch 2.15 and transformers 5.23; about half a minute on one core).

The model is Hugging Face's GPT2LMHeadModel with eager attention, no dropout, converted to float64
after its weights were drawn and rounded to float32. Batches follow the feed's rule without shuffling
(core/run/feed.h): N tokens are cut into ceil((N - 1) / T) windows; window w has the inputs
t[wT .. wT+T-1] and the targets one further on; places without a target are -1; step s takes the next
batch * accumulation windows of its epoch, and a group never crosses the end of an epoch. The loss is
the sum over all targets of the group divided by their number.

Files, all tensors row-major:
  transformer.*           float32  initial weights, in the files' own layouts and names
  grad.transformer.*      float32  gradients of the first group (gradient cases)
  tokens                  int32    the source
  shape                   int32    vocabulary, positions, width, layers, heads, inner,
                                   batch, sequence, accumulation
  loss                    float64  mean loss of each step (gradient cases: of the only group)
  norm                    float64  global gradient norm of each step before clipping
  held_out, held_out_loss          tokens and mean loss after the last step (training case)
The training case: AdamW, rate 2e-3 with 20 steps of warm-up and a cosine to 0 over 500 steps, betas
0.9 and 0.98, epsilon 1e-8, weight decay 0.1 (not on norms and biases), clipping at 1.0; text: the
bytes of the GNU General Public License 3, the last tenth held out.
"""
import math
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup

TEXT = "/usr/share/common-licenses/GPL-3"
OUT = "tests/golden/"


def make_model(shape, deviation, generator):
    vocabulary, positions, width, layers, heads, inner = shape
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=positions, n_embd=width, n_layer=layers, n_head=heads,
        n_inner=inner, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    model = GPT2LMHeadModel(config).double().train()
    with torch.no_grad():
        for name, p in model.named_parameters():
            # Norms near 1, everything else near 0, biases too, so that no gradient is trivial.
            centre = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64) * deviation
            p.copy_((centre + drawn).float().double())
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


def group_of(ids, labels, group, step):
    per_epoch = math.ceil(len(ids) / group)
    first = step % per_epoch * group
    return ids[first : first + group], labels[first : first + group]


def mean_loss(model, ids, labels):
    logits = model(input_ids=ids).logits
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-1)


def single(array):
    return np.ascontiguousarray(array.detach().float().numpy())


def weights_of(model):
    return {n: single(p) for n, p in model.named_parameters()}


def write(name, tensors):
    save_file(tensors, f"{OUT}gpt2_{name}.safetensors", metadata={"format": "pt"})
    print(name, sum(t.nbytes for t in tensors.values()), "bytes, loss", tensors["loss"][-1])


def gradient_case(name, shape, batch, sequence, accumulation, token_count, seed):
    generator = torch.Generator().manual_seed(seed)
    model = make_model(shape, 0.15, generator)
    tokens = torch.randint(shape[0], (token_count,), generator=generator).numpy()
    ids, labels = windows_of(tokens, sequence)
    ids, labels = group_of(ids, labels, batch * accumulation, 0)
    loss = mean_loss(model, ids, labels)
    loss.backward()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
    tensors = weights_of(model)
    tensors.update({"grad." + n: single(p.grad) for n, p in model.named_parameters()})
    tensors["tokens"] = tokens.astype(np.int32)
    tensors["shape"] = np.array([*shape, batch, sequence, accumulation], np.int32)
    tensors["loss"] = np.array([loss.item()], np.float64)
    tensors["norm"] = np.array([norm], np.float64)
    write(name, tensors)


def training_case(name, shape, batch, sequence, accumulation, steps):
    generator = torch.Generator().manual_seed(9)
    model = make_model(shape, 0.05, generator)
    tensors = weights_of(model)
    text = np.frombuffer(open(TEXT, "rb").read(), np.uint8).astype(np.int64)
    cut = len(text) * 9 // 10
    ids, labels = windows_of(text[:cut], sequence)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=2e-3, betas=(0.9, 0.98), eps=1e-8)
    schedule = get_cosine_schedule_with_warmup(optimizer, 20, steps)
    losses, norms = [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss = mean_loss(model, *group_of(ids, labels, batch * accumulation, step))
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    held_ids, held_labels = windows_of(text[cut:], sequence)
    with torch.no_grad():
        held = mean_loss(model, held_ids, held_labels).item()
    tensors["tokens"] = text[:cut].astype(np.int32)
    tensors["held_out"] = text[cut:].astype(np.int32)
    tensors["shape"] = np.array([*shape, batch, sequence, accumulation], np.int32)
    tensors["loss"] = np.array(losses, np.float64)
    tensors["norm"] = np.array(norms, np.float64)
    tensors["held_out_loss"] = np.array([held], np.float64)
    print("held out", held)
    write(name, tensors)


def main():
    torch.set_num_threads(1)
    #             vocabulary, positions, width, layers, heads, inner
    gradient_case("one_head", (11, 8, 8, 1, 1, 32), 1, 5, 1, 6, 1)
    gradient_case("two_layers", (65, 16, 32, 2, 2, 128), 3, 16, 1, 49, 2)
    gradient_case("odd", (37, 9, 24, 2, 3, 41), 2, 7, 1, 15, 3)
    gradient_case("one_token", (17, 4, 8, 2, 2, 32), 4, 1, 1, 5, 4)
    # Three windows of four, the last a half: labels of -1, and a micro-batch with an empty row.
    gradient_case("short", (29, 12, 16, 2, 4, 64), 2, 10, 2, 26, 5)
    training_case("train", (128, 32, 32, 2, 2, 128), 4, 32, 2, 500)
    return 0


if __name__ == "__main__":
    sys.exit(main())
