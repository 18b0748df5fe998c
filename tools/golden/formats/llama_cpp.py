#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports small random models to GGUF and lets llama.cpp read them: logits and greedy tokens beside transformers'.

Run from the repository root, after `make -s all`: tools/golden/formats/llama_cpp.py [NAME..] (needs torch, transformers,
safetensors and the package llama-cpp-py-sync, which brings llama.cpp's libraries; written with its 0.11739 of
October 2026, transformers 5.24; ten seconds a model). Nothing is written; it ends with exit status 1 when a
model's logits are off by more than a share of 5e-3 of the largest, or its greedy tokens differ.

Each model has random weights, norms included, and one of the tokenizers of tests/golden/tokenizers, whose ids of a
few texts must be llama.cpp's too where TEXTS says so. llama.cpp multiplies fp32 weights by activations in fp32, and
takes GELU from a table of half floats: its logits are not transformers' to the last bits.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers as tf
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

TOKENS = "tests/golden/tokenizers"
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
         "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
KV = {"num_key_value_heads": 2}
GEMMA = SMALL | KV | {"vocab_size": 1003, "head_dim": 32}
LATER = GEMMA | {"query_pre_attn_scalar": 32, "sliding_window": 8}
LLAMA = SMALL | KV | {"vocab_size": 1003}
BYTES = {"vocab_size": 1010, "bos_token_id": 900, "eos_token_id": 900, "pad_token_id": 900}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
LONG = {"rope_type": "longrope", "short_factor": [1 + .1 * i for i in range(6)],
        "long_factor": [1 + i for i in range(6)], "original_max_position_embeddings": 512, "rope_theta": 10000.0,
        "partial_rotary_factor": 0.75}

# name: class, configuration, tokenizer (llama.cpp asks more of the vocabulary of a model with phi3 in its name)
MODELS = {
    "llama": (tf.LlamaForCausalLM, LLAMA, "llama2"),
    "llama-linear": (tf.LlamaForCausalLM, LLAMA | {"rope_parameters": {
        "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}, "llama2"),
    "llama-yarn": (tf.LlamaForCausalLM, LLAMA | {"rope_parameters": YARN}, "llama2"),
    "llama-yarn-factor": (tf.LlamaForCausalLM, LLAMA | {"rope_parameters": YARN | {
        "attention_factor": 1.3, "beta_fast": 16.0, "beta_slow": 2.0}}, "llama2"),
    "llama3": (tf.LlamaForCausalLM, LLAMA | {"rope_parameters": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32, "rope_theta": 10000.0}}, "llama2"),
    "mistral": (tf.MistralForCausalLM, LLAMA | {"sliding_window": None, "head_dim": 24}, "llama2"),
    "qwen2": (tf.Qwen2ForCausalLM, SMALL | KV | BYTES | {"rope_parameters": YARN}, "gpt2_small"),
    "qwen3": (tf.Qwen3ForCausalLM, SMALL | KV | BYTES | {"head_dim": 24, "rope_parameters": YARN}, "gpt2_small"),
    "smollm3": (tf.SmolLM3ForCausalLM, SMALL | KV | BYTES, "gpt2_small"),
    "granite": (tf.GraniteForCausalLM, SMALL | KV | BYTES | {
        "embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5, "logits_scaling": 2.0},
        "gpt2_small"),
    "olmo2": (tf.Olmo2ForCausalLM, SMALL | KV | BYTES | {"tie_word_embeddings": False}, "gpt2_small"),
    "gpt2": (tf.GPT2LMHeadModel, {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64} | BYTES, "gpt2_small"),
    "gemma": (tf.GemmaForCausalLM, GEMMA, "gemma"),
    "gemma2": (tf.Gemma2ForCausalLM, LATER | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}, "gemma"),
    "gemma3": (tf.Gemma3ForCausalLM, LATER | {"num_hidden_layers": 7, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}}}, "gemma"),
    "fused": (tf.Phi3ForCausalLM, LLAMA | {"sliding_window": None}, "llama2"),
    "fused-partial": (tf.Phi3ForCausalLM, LLAMA | {"tie_word_embeddings": True, "original_max_position_embeddings": 64,
                                                  "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}}, "llama2"),
    "fused-long": (tf.Phi3ForCausalLM, LLAMA | {"original_max_position_embeddings": 512, "max_position_embeddings": 1024,
                                               "rope_parameters": LONG},
                  "llama2"),
    "neox": (tf.GPTNeoXForCausalLM, SMALL | BYTES | {"tie_word_embeddings": False}, "gpt2_small"),
    "neox-sequential": (tf.GPTNeoXForCausalLM, SMALL | BYTES | {
        "tie_word_embeddings": False, "use_parallel_residual": False, "hidden_act": "gelu_new"}, "gpt2_small"),
}
LONGEST, NEW = 24, 12  # tokens of the prompt, and generated


def make(name, directory):
    cls, config, tokenizer = MODELS[name]
    torch.manual_seed(sum(map(ord, name)))
    model = cls(cls.config_class(**config)).float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.normal_(0, 0.25 if p.dim() > 1 else 0.2)
            if p.dim() == 1 and key.endswith("weight") and "gemma" not in name:
                p += 1
    model.save_pretrained(directory)
    for file in os.listdir(f"{TOKENS}/{tokenizer}"):
        if file != "texts.txt":
            shutil.copy(f"{TOKENS}/{tokenizer}/{file}", directory)
    return model


class Reader:
    """llama.cpp, by its own library."""

    def __init__(self, path, positions):
        from llama_cpp_py_sync._cffi_bindings import get_ffi, get_lib
        self.ffi, self.lib = get_ffi(), get_lib()
        self.quiet = self.ffi.callback("void(enum ggml_log_level, const char *, void *)", lambda *_: None)
        if not os.environ.get("LOUD"):
            self.lib.llama_log_set(self.quiet, self.ffi.NULL)
        self.lib.llama_backend_init()
        self.model = self.lib.llama_model_load_from_file(path.encode(), self.lib.llama_model_default_params())
        assert self.model != self.ffi.NULL, f"llama.cpp does not load {path}"
        params = self.lib.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = positions
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = 0  # F32
        params.flash_attn_type = 0
        self.context = self.lib.llama_init_from_model(self.model, params)
        assert self.context != self.ffi.NULL
        self.vocabulary = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self.model))

    def logits(self, ids):
        """Of the token behind ids."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        tokens = self.ffi.new("llama_token[]", ids)
        assert self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, len(ids))) == 0
        raw = self.lib.llama_get_logits_ith(self.context, -1)
        return torch.tensor([raw[i] for i in range(self.vocabulary)])

    def tokens(self, text):
        vocab, bytes_ = self.lib.llama_model_get_vocab(self.model), text.encode()
        out = self.ffi.new("llama_token[]", 4 * len(bytes_) + 8)
        n = self.lib.llama_tokenize(vocab, bytes_, len(bytes_), out, len(out), True, True)
        return list(out[0:n])


TEXTS = ["The licence of this software", "  two  spaces, and\n\n\tmore", "na\u00efve caf\u00e9 \u4f60\u597d", "x", "12345 1"]


def ours(*arguments):
    return subprocess.run(["build/release/bedplate", *arguments], check=True, capture_output=True, text=True).stdout


def one(name, work):
    directory, path = f"{work}/{name}", f"{work}/{name}.gguf"
    model = make(name, directory)
    ours("export", "--model", directory, "--to", path, "--dtype", "fp32")
    # Longrope's reader chooses its factors by the room of its context, 256 at least, transformers by the text.
    reader = Reader(path, 64)
    worst = 0.0
    for length in (1, 7, LONGEST):
        ids = torch.randint(3, 250, (1, length))
        with torch.no_grad():
            right = model(ids).logits[0, -1]
        found = reader.logits(ids[0].tolist())
        worst = max(worst, float((found - right).abs().max() / right.abs().max()))
    prompt = ids[0, :8].tolist()
    theirs = list(prompt)
    for _ in range(NEW):
        theirs.append(int(reader.logits(theirs).argmax()))
    end = MODELS[name][1].get("eos_token_id")
    theirs = theirs[8:]
    theirs = theirs[:theirs.index(end)] if end in theirs else theirs
    greedy = [int(t) for t in ours("generate", "--model", directory, "--prompt-ids", ",".join(map(str, prompt)),
                                   "--max-new-tokens", str(NEW), "--temperature", "0").split()]
    again = [int(t) for t in ours("generate", "--model", path, "--prompt-ids", ",".join(map(str, prompt)),
                                  "--max-new-tokens", str(NEW), "--temperature", "0").split()]
    library = Tokenizer.from_file(f"{directory}/tokenizer.json") if os.path.exists(f"{directory}/tokenizer.json") \
        else Tokenizer(BPE.from_file(f"{directory}/vocab.json", f"{directory}/merges.txt"))
    if library.pre_tokenizer is None and library.normalizer is None:
        library.pre_tokenizer = ByteLevel(add_prefix_space=False)
    texts = [t for t in TEXTS if reader.tokens(t) != library.encode(t).ids]
    right = worst < 5e-3 and not texts and greedy[-len(theirs):] == theirs and again == greedy
    print(f"{name:18} logits off by {worst:.1e}, greedy {'equal' if greedy[-len(theirs):] == theirs else 'DIFFER'}"
          f"{'' if again == greedy else ', NOT those of our reading of the file'}, other ids of {texts}",
          "" if right else "  WRONG")
    return right


def main():
    names = sys.argv[1:] or list(MODELS)
    with tempfile.TemporaryDirectory() as work:
        wrong = [name for name in names if not one(name, os.environ.get("KEEP", work))]
    sys.exit(f"wrong: {wrong}" if wrong else 0)


if __name__ == "__main__":
    main()
