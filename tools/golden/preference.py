#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/preferences/llama_*.safetensors: losses over pairs of rows, and their gradients, as PyTorch
computes them in float64 for a small Llama by the formulas of TRL's trainers (dpo_trainer.py, kto_trainer.py and the
experimental orpo_trainer.py and cpo_trainer.py of trl 1.16).

Run from the repository root: tools/golden/preference.py (needs what families.py needs; seconds on one core).

Files as families.py has them, and:
  tokens      int32    (rows, sequence + 1)
  lengths     int32    (rows)
  prompts     int32    (rows) tokens that are no answer
  sides       int32    (rows) 1 chosen or desirable, 2 rejected or undesirable, 3 mismatched
  references  float32  (rows)
  numbers     float64  kind, beta, smoothing, gamma, nll, desirable, undesirable
  told        float64  rewards of chosen and rejected, their log-probabilities (means), accuracy or -1,
                       mean loss of chosen rows or the divergence
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import families  # noqa: E402

KINDS = {"dpo": 1, "hinge": 2, "ipo": 3, "orpo": 4, "simpo": 5, "kto": 6}
SHAPE = dict(vocabulary=19, positions=16, width=8, layers=1, heads=2, inner=12, batch=4, sequence=10, accumulation=2,
             kv_heads=1, head_width=4, norm_epsilon=1e-6, rope_theta=10000.0, untied=1)
ROWS = 8


def draw_rows(kind, generator):
    """Two examples of each row: both answers, or, for kto, the answer of the row before in its micro-batch."""
    def ids(n):
        return torch.randint(0, SHAPE["vocabulary"], (n,), generator=generator).tolist()
    prompts = [ids(n) for n in (2, 4, 3, 1)]
    answers = [(ids(a), ids(b)) for a, b in ((4, 6), (2, 7), (8, 1), (5, 3))]
    rows = []
    for i in range(4):
        if kind == "kto":
            other = answers[i ^ 1][0]  # two rows a micro-batch
            rows += [(prompts[i], answers[i][0], 1 + i // 2 if i != 1 else 2), (prompts[i], other, 3)]
        else:
            rows += [(prompts[i], answers[i][0], 1), (prompts[i], answers[i][1], 2)]
    references = (torch.rand(ROWS, generator=generator, dtype=torch.float64) * -20 - 5).float().double()
    return rows, references


def log_probabilities(model, rows):
    """Of every target of every row, and which of them belong to answers."""
    found = []
    for prompt, answer, side in rows:
        ids = (prompt + answer)[: SHAPE["sequence"] + 1]
        logits = model(torch.tensor([ids[:-1]])).logits[0]
        logps = torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
        found.append((logps, logps[len(prompt) - 1 :]))
    return found


def log1mexp(a):
    return torch.log(-torch.expm1(a))


def group_loss(kind, n, found, rows, references):
    """The mean over a micro-batch, and what is told of it as sums."""
    chosen = [found[i][1].sum() for i in range(0, len(rows), 2)]
    second = [found[i + 1][1].sum() for i in range(0, len(rows), 2)]
    c, r = torch.stack(chosen), torch.stack(second)
    cr, rr = references[0::2], references[1::2]
    nc = torch.tensor([float(len(found[i][1])) for i in range(0, len(rows), 2)], dtype=torch.float64)
    nr = torch.tensor([float(len(found[i + 1][1])) for i in range(0, len(rows), 2)], dtype=torch.float64)
    b, e = n["beta"], n["smoothing"]
    nll = torch.cat([-found[i][0] for i in range(0, len(rows), 2)]).mean()
    if kind == "kto":
        z = (r - rr).mean().clamp(min=0).detach()
        ratio = c - cr
        good = torch.tensor([rows[i][2] == 1 for i in range(0, len(rows), 2)])
        losses = torch.where(good, n["desirable"] * (1 - torch.sigmoid(b * (ratio - z))),
                             n["undesirable"] * (1 - torch.sigmoid(b * (z - ratio))))
        told = torch.stack([(b * ratio)[good].sum(), (b * ratio)[~good].sum(), c[good].sum(), c[~good].sum(),
                            torch.tensor(-1.0, dtype=torch.float64), z * len(c)])
        return losses.mean(), told, torch.tensor([good.sum(), (~good).sum()], dtype=torch.float64)
    rewards, logps = (b * (c - cr), b * (r - rr)), (c, r)
    delta = (c - cr) - (r - rr)
    if kind == "dpo":
        losses = -F.logsigmoid(b * delta) * (1 - e) - F.logsigmoid(-b * delta) * e
    elif kind == "hinge":
        losses = torch.relu(1 - b * delta)
    elif kind == "ipo":
        losses = ((c - cr) / nc - (r - rr) / nr - 1 / (2 * b)) ** 2
    else:
        logps = c / nc, r / nr
        rewards = b * logps[0], b * logps[1]
        if kind == "orpo":
            odds = (logps[0] - logps[1]) - (log1mexp(logps[0]) - log1mexp(logps[1]))
            losses = -b * F.logsigmoid(odds)
        else:
            x = b * (logps[0] - logps[1] - n["gamma"] / b)
            losses = -F.logsigmoid(x) * (1 - e) - F.logsigmoid(-x) * e
    told = torch.stack([rewards[0].sum(), rewards[1].sum(), logps[0].sum(), logps[1].sum(),
                        (rewards[0] > rewards[1]).double().sum(), nll * len(c)])
    return losses.mean() + n["nll"] * nll, told, torch.tensor([len(c), len(c)], dtype=torch.float64)


def make(kind, seed, **more):
    generator = torch.Generator().manual_seed(seed)
    n = {"beta": 0.1, "smoothing": 0.0, "gamma": 0.5, "nll": 0.0, "desirable": 1.0, "undesirable": 1.0, **more}
    v = SHAPE
    model = families.draw(transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=v["vocabulary"], max_position_embeddings=v["positions"], hidden_size=v["width"],
        num_hidden_layers=v["layers"], num_attention_heads=v["heads"], num_key_value_heads=v["kv_heads"],
        head_dim=v["head_width"], intermediate_size=v["inner"], rms_norm_eps=v["norm_epsilon"], use_cache=False,
        rope_parameters={"rope_theta": v["rope_theta"], "rope_type": "default"}, tie_word_embeddings=False,
        attn_implementation="sdpa")), generator, 0.5)
    rows, references = draw_rows(kind, generator)
    loss, told, counts = 0.0, 0.0, 0.0
    for first in (0, 4):  # two micro-batches
        part = rows[first : first + 4]
        mean, sums, count = group_loss(kind, n, log_probabilities(model, part), part, references[first : first + 4])
        loss, told, counts = loss + mean / 2, told + sums, counts + count
    loss.backward()
    tensors, square = {}, 0.0
    for name, p in model.named_parameters():
        tensors[name] = families.single(p)
        tensors["grad." + name] = families.single(p.grad)
        square += float(p.grad.pow(2).sum())
    tokens = np.zeros((ROWS, v["sequence"] + 1), np.int32)
    for i, (prompt, answer, _) in enumerate(rows):
        both = (prompt + answer)[: v["sequence"] + 1]
        tokens[i, : len(both)] = both
    tensors |= {
        "shape": np.array([v.get(k, 0) for k in families.SHAPE], np.int32),
        "reals": np.array([v.get(k, 0.0) for k in families.REALS]),
        "tokens": tokens,
        "lengths": np.array([len(p + a) for p, a, _ in rows], np.int32),
        "prompts": np.array([len(p) for p, _, _ in rows], np.int32),
        "sides": np.array([side for _, _, side in rows], np.int32),
        "references": references.float().numpy(),
        "numbers": np.array([KINDS[kind], n["beta"], n["smoothing"], n["gamma"], n["nll"], n["desirable"],
                             n["undesirable"]]),
        "told": (told.detach() / torch.stack([counts[0], counts[1], counts[0], counts[1], counts[0],
                                              counts.sum() if kind == "kto" else counts[0]])).numpy(),
        "loss": np.array([float(loss.detach())]),
        "norm": np.array([square**0.5]),
    }
    families.save_file(tensors, families.OUT + "preferences/llama_" + kind + ".safetensors",
                       metadata={"torch": torch.__version__, "transformers": transformers.__version__})


def main():
    torch.set_num_threads(1)
    os.makedirs(families.OUT + "preferences", exist_ok=True)
    make("dpo", 71, smoothing=0.1, beta=0.3)
    make("hinge", 72, beta=0.05)
    make("ipo", 73, beta=0.2)
    make("orpo", 74, nll=1.0, beta=0.4)
    make("simpo", 75, beta=2.0, gamma=1.0, nll=0.25)
    make("kto", 76, desirable=1.3, undesirable=0.7)


if __name__ == "__main__":
    main()
