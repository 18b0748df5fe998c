#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/speech: a small Whisper that hears one second, with a tokenizer and a feature extractor, as transformers
saves them; sounds with their texts (rows.jsonl, metadata.csv), and what transformers computes of them in float64:

  loss     the mean loss of the rows, and how many labels they have
  greedy   the likeliest ids of each sound behind the prefix, 12 at most, a line each
  features.safetensors  `features` (rows, frames, mels) of transformers' feature extractor

Run from the repository root: tools/golden/speech/folder.py (needs torch, transformers, tokenizers, safetensors, numpy; some seconds).
"""
import csv
import json
import os
import wave

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

OUT = "tests/golden/speech/"
WORDS = "low high rise fall long".split()
PREFIX = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]


def tokenizer():
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|de|>", "<|translate|>", "<|transcribe|>",
               "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer, tok.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tok.train_from_iterator([" ".join(WORDS)] * 9, trainers.BpeTrainer(
        vocab_size=268, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_special_tokens(special)
    end = tok.token_to_id("<|endoftext|>")
    ids = [tok.token_to_id(p) for p in PREFIX]
    tok.post_processor = processors.TemplateProcessing(
        single=" ".join(f"{p}:0" for p in PREFIX) + " $A:0 <|endoftext|>:0",
        special_tokens=[*zip(PREFIX, ids), ("<|endoftext|>", end)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|endoftext|>", bos_token="<|endoftext|>",
                                                pad_token="<|endoftext|>", unk_token="<|endoftext|>")


def sound(words, generator):
    """A tone for each word, one behind the other."""
    pieces = []
    for word in words:
        t = np.arange(0, 0.18 if word != "long" else 0.3, 1 / 16000)
        share = t / t[-1]
        f = {"low": 300 + 0 * share, "high": 1800 + 0 * share, "rise": 400 + 900 * share, "fall": 1300 - 900 * share,
             "long": 700 + 0 * share}[word]
        tone = 0.4 * np.sin(2 * np.pi * np.cumsum(f) / 16000) * np.sin(np.pi * share)
        pieces += [tone, np.zeros(400)]
    x = np.concatenate(pieces)
    return np.round((x + 0.002 * generator.standard_normal(len(x))) * 32768).clip(-32768, 32767).astype("<i2")


def write(path, samples):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    generator = np.random.default_rng(7)
    os.makedirs(OUT + "sounds", exist_ok=True)
    tok = tokenizer()
    extractor = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    end, start = tok.convert_tokens_to_ids("<|endoftext|>"), tok.convert_tokens_to_ids("<|startoftranscript|>")
    config = transformers.WhisperConfig(
        vocab_size=len(tok), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=20, max_source_positions=50,
        max_target_positions=32, decoder_start_token_id=start, pad_token_id=end, bos_token_id=end, eos_token_id=end,
        suppress_tokens=None, begin_suppress_tokens=None, init_std=0.08)
    model = transformers.WhisperForConditionalGeneration(config)
    model.save_pretrained(OUT)
    tok.save_pretrained(OUT)
    extractor.save_pretrained(OUT)
    model = model.double().eval()
    rows, waves = [], []
    for i in range(12):
        words = [WORDS[j] for j in generator.integers(0, len(WORDS), generator.integers(1, 4))]
        samples = sound(words, generator)[:16000]
        write(f"{OUT}sounds/{i}.wav", samples)
        rows.append({"audio": f"sounds/{i}.wav", "text": " ".join(words)})
        waves.append(samples.astype(np.float64) / 32768)
    with open(OUT + "rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in rows)
    with open(OUT + "metadata.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["transcription", "file_name"])
        out.writerows([r["text"], r["audio"]] for r in rows)
    padded = np.stack([np.pad(w, (0, 16000 - len(w))) for w in waves])
    # in float64: transformers has torch compute the same in float32
    features = np.stack([extractor._np_extract_fbank_features(w[None], "cpu")[0] for w in padded]).astype(np.float32)
    save_file({"features": np.ascontiguousarray(features.transpose(0, 2, 1))}, OUT + "features.safetensors")
    labels = [tok(r["text"]).input_ids[1:] for r in rows]
    most = max(map(len, labels))
    y = torch.tensor([ids + [-100] * (most - len(ids)) for ids in labels])
    x = torch.from_numpy(features).double()
    with torch.no_grad():
        loss = model(input_features=x, labels=y).loss
        with open(OUT + "loss", "w", encoding="utf-8") as file:
            print(f"{loss.item():.8f} {int((y >= 0).sum())}", file=file)
        with open(OUT + "greedy", "w", encoding="utf-8") as file:
            for i in range(len(rows)):
                ids = torch.tensor([tok.convert_tokens_to_ids(PREFIX)])
                while ids.shape[1] < len(PREFIX) + 12 and (ids.shape[1] == len(PREFIX) or ids[0, -1] != end):
                    last = model(input_features=x[i : i + 1], decoder_input_ids=ids).logits[:, -1]
                    ids = torch.cat([ids, last.argmax(-1, keepdim=True)], 1)
                print(*ids[0, len(PREFIX):].tolist(), file=file)


if __name__ == "__main__":
    main()
