#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bytes of training by rewards in little memory: the plan of a step of Qwen3-0.6B's shape in nf4 with adapters of rank 16, eight
completions of 128 tokens of a prompt of 128, and the most that a run with random weights has resident.

    tools/bench/grpo_memory.py [FOLDER [ARENA]]

FOLDER (2 GB) is made if it is not there, with a tokenizer of as many entries as Qwen's; ARENA is 455MiB. Needs numpy."""
import json, os, re, subprocess, sys
import numpy

folder = sys.argv[1] if len(sys.argv) > 1 else "/tmp/grpo_memory"
arena = sys.argv[2] if len(sys.argv) > 2 else "455MiB"
program = os.environ.get("BEDPLATE", "build/release/bedplate")
WIDTH, LAYERS, INNER, HEADS, GROUPS, HEAD, VOCABULARY = 1024, 28, 3072, 16, 8, 128, 151936


def shapes():
    yield "model.embed_tokens.weight", (VOCABULARY, WIDTH)
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (WIDTH,)
        yield at + "post_attention_layernorm.weight", (WIDTH,)
        yield at + "self_attn.q_norm.weight", (HEAD,)
        yield at + "self_attn.k_norm.weight", (HEAD,)
        yield at + "self_attn.q_proj.weight", (HEADS * HEAD, WIDTH)
        yield at + "self_attn.k_proj.weight", (GROUPS * HEAD, WIDTH)
        yield at + "self_attn.v_proj.weight", (GROUPS * HEAD, WIDTH)
        yield at + "self_attn.o_proj.weight", (WIDTH, HEADS * HEAD)
        yield at + "mlp.gate_proj.weight", (INNER, WIDTH)
        yield at + "mlp.up_proj.weight", (INNER, WIDTH)
        yield at + "mlp.down_proj.weight", (WIDTH, INNER)
    yield "model.norm.weight", (WIDTH,)


def write_weights(path):
    head, at = {}, 0
    for name, shape in shapes():
        size = 2 * int(numpy.prod(shape))
        head[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    draw = numpy.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape in shapes():
            value = numpy.ones(shape, "f4") if len(shape) == 1 else draw.standard_normal(shape, "f4") * numpy.float32(0.02)
            file.write((value.view("u4") >> 16).astype("u2").tobytes())


def write_tokenizer(folder):
    """Byte-level BPE: all pairs of bytes, then these with a third one."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters = [chr(b if b in printable else 256 + sum(c not in printable for c in range(b))) for b in range(256)]
    vocabulary, merges = {c: i for i, c in enumerate(letters)}, []
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    for left in letters + [a + b for a in letters for b in letters]:
        for right in letters:
            if len(vocabulary) == 151643:
                break
            merges.append(left + " " + right)
            vocabulary[left + right] = len(vocabulary)
    json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
               "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab": vocabulary, "merges": merges}},
              open(folder + "/tokenizer.json", "w"))
    json.dump({"tokenizer_class": "GPT2Tokenizer"}, open(folder + "/tokenizer_config.json", "w"))


if not os.path.exists(folder + "/p.jsonl"):
    os.makedirs(folder, exist_ok=True)
    json.dump({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "bos_token_id": 151643,
               "eos_token_id": 151645, "head_dim": HEAD, "hidden_act": "silu", "hidden_size": WIDTH, "initializer_range": 0.02,
               "intermediate_size": INNER, "max_position_embeddings": 40960, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
               "num_key_value_heads": GROUPS, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "tie_word_embeddings": True,
               "vocab_size": VOCABULARY}, open(folder + "/config.json", "w"))
    write_weights(folder + "/model.safetensors")
    write_tokenizer(folder)
    with open(folder + "/p.jsonl", "w") as file:  # two letters are a token
        for i in range(8):
            file.write(json.dumps({"prompt": ("ab" * 127 + "x" + chr(97 + i))}) + "\n")

how = ["--task", "grpo", "--model", folder, "--data", folder + "/p.jsonl", "--reward", "regex:[a-m]", "--load-in-4bit", "--bf16",
       "--lora-r", "16", "--optim", "adamw_8bit", "--num-generations", "8", "--max-completion-length", "128", "--gradient-checkpointing",
       "full", "--per-device-train-batch-size", "1", "--gradient-accumulation-steps", "8", "--offload", f"file:{folder}/tier:8GiB",
       "--offload-what", "bases", "--arena", arena]
plan = subprocess.run([program, "plan", *how], check=True, capture_output=True, text=True).stdout
words = {m[1]: int(m[2].replace(",", "")) for m in re.finditer(r"(?m)^(arena|host) +([\d,]+) bytes", plan)}
print("\n".join(line for line in plan.splitlines() if re.match("arena  |generating|training|host  ", line)))
print(f"planned     {words['arena'] + words['host']:,} bytes in all", flush=True)
run = [program, "train", *how, "--max-steps", "1", "--quiet", "--output-dir", folder + "/out", "--overwrite-output-dir"]
child = os.fork()
if child == 0:
    os.execv(program, run)
_, status, usage = os.wait4(child, 0)
print(f"resident    {usage.ru_maxrss * 1024:,} bytes at most, {usage.ru_utime:.0f} s of processor time, status {status}")
