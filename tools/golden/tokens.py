#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the reference data of the tokenizers with Hugging Face's tokenizers library.

    tools/golden/tokens.py train            small tokenizers into tests/golden/tokenizers/NAME (with other
                                            ties each time; digests are due after it)
    tools/golden/tokens.py pieces           the same for the tokenizers that SentencePiece trains
    tools/golden/tokens.py cases            the tokenizers whose patterns tell cases apart
    tools/golden/tokens.py own              tekken_own, Mistral's file of the tokens of tekken; llama3_own, Llama
                                            3's of the same; xlmr_own, XLM-R's file of the pieces of spm_unigram
    tools/golden/tokens.py spaces           the tokenizer `spaces`, and its ids of 100 texts
    tools/golden/tokens.py words            the tokenizer `single_words`, whose added tokens are single words, some among
                                            others and some between those; its ids of 300 texts
    tools/golden/tokens.py clip             clip, CLIP's tokenizer as transformers writes it, and clip_own, its vocab.json and
                                            merges.txt; their ids of 400 texts each
    tools/golden/tokens.py forms            the tokenizers unigram_nfkc (and lower case) and unigram_nfc, Unigram behind
                                            normal forms; their ids of 200 texts each
    tools/golden/tokens.py digests [GPT2]   digests.bin of the ids of 10,000 lines for each of
                                                them, and for OpenAI's GPT-2 if its folder
                                                (vocab.json, merges.txt) is given

digests.bin is, for every tokenizer in the order of NAMES, 10,000 uint32 little-endian: FNV-1a over
the ids of a line as uint32 little-endian. The lines are made from words.txt and a counter alone, here
and in tests/golden/test_tokenizer_golden.c in the same way. Without GPT2 that tokenizer's digests stay
as they are.

decoded.bin is the same of the UTF-8 text that the ids of the first 1,000 lines decode to, special
tokens included. pairs.bin has, for each of PAIRED, two numbers for each of the first 1,000 lines: FNV-1a
over the ids and over the types of the line (odd numbers: paired with the next line) with special tokens,
truncated to 4 + number % 50 ids.

`spaces` has runs of spaces and line ends in its vocabulary, and added tokens of the same bytes. Each line of
its texts.txt is a text in hexadecimal, what its ids decode to in hexadecimal, and its ids.
"""
import base64
import json
import os
import random
import re
import struct
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

try:
    import tiktoken  # for tekken_own alone
except ImportError:
    tiktoken = None

HERE = "tests/golden/tokenizers"
LINES = 10000
DECODED = 1000
PAIRED = ["llama3", "llama2", "bert_uncased"]
NAMES = ["gpt2_small", "llama3", "qwen2", "llama2", "metaspace", "bert_uncased", "bert_cased", "smollm",
         "gpt2", "unigram", "unigram_strip", "unigram_bytes", "gemma", "tekken", "gpt4o", "phi4",
         "spm_unigram", "spm_bytes", "spm_bpe", "spm_bpe_map", "tekken_own", "xlmr_own", "llama3_own"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD, END = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = f"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*" + r"|\p{N}" + REST
GPT4O = f"{LEAD}{UPPER}*{LOWER}+{END}|{LEAD}{UPPER}+{LOWER}*{END}" + r"|\p{N}{1,3}" + REST
PHI4 = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
        r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")

MASK = (1 << 64) - 1


class Numbers:
    """splitmix64 (Steele, Lea, Flood 2014)."""

    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 & MASK

    def below(self, count):
        self.state = self.state + 0x9E3779B97F4A7C15 & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return (z ^ z >> 31) % count


# Ranges in which Unicode 8, 15 and 16 agree about every character.
RANGES = [(0x20, 0x7E), (0x20, 0x7E), (0xA1, 0x17F), (0x300, 0x36F), (0x391, 0x3A1), (0x3B1, 0x3C9),
          (0x410, 0x44F), (0x5D0, 0x5EA), (0x621, 0x63A), (0x64B, 0x652), (0x660, 0x669), (0x905, 0x939),
          (0x93E, 0x94D), (0x966, 0x96F), (0x995, 0x9A8), (0x9BE, 0x9C4), (0xE01, 0xE3A), (0x1100, 0x1112),
          (0x1161, 0x1175), (0x11A8, 0x11C2), (0x1E00, 0x1EFF), (0x2010, 0x2027), (0x2070, 0x2071),
          (0x2074, 0x208E), (0x20A0, 0x20BD), (0x2150, 0x2188), (0x2190, 0x23FA), (0x2580, 0x25A0),
          (0x3001, 0x303F), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x4E80), (0xAC00, 0xD7A3),
          (0xF900, 0xFA6D), (0xFB00, 0xFB06), (0xFE00, 0xFE0F), (0xFF01, 0xFFBE), (0xE000, 0xE010),
          (0xFFF9, 0xFFFD), (0x10330, 0x1034A), (0x1D400, 0x1D454), (0x1F300, 0x1F64F), (0x20000, 0x20020),
          (0xE0001, 0xE0001), (0xE0020, 0xE007F), (0x100000, 0x100003)]
SPACES = [0x20, 0x20, 0x20, 0x09, 0x0A, 0x0A, 0x0D, 0x0B, 0x0C, 0x85, 0xA0, 0x1680, 0x2003, 0x2028, 0x202F,
          0x3000]


def piece(numbers, words):
    kind = numbers.below(12)
    if kind < 5:
        return b" " * (kind % 2) + words[numbers.below(len(words))]
    if kind == 5:
        low, high = RANGES[numbers.below(len(RANGES))]
        count = 1 + numbers.below(5)
        return "".join(chr(low + numbers.below(high - low + 1)) for _ in range(count)).encode()
    if kind == 6:
        count = 1 + numbers.below(6)
        return "".join(chr(SPACES[numbers.below(len(SPACES))]) for _ in range(count)).encode()
    if kind == 7:
        count = 1 + numbers.below(7)
        return bytes(0x30 + numbers.below(10) for _ in range(count))
    if kind == 8:
        count = 1 + numbers.below(3)
        return bytes(numbers.below(33) for _ in range(count))
    if kind == 9:
        count = 1 + numbers.below(6)
        return bytes(numbers.below(256) for _ in range(count))
    if kind == 10:
        count = 1 + numbers.below(60)
        return bytes([0x61 + numbers.below(26)]) * count
    return bytes([0x21 + numbers.below(15)]) * (1 + numbers.below(3))


def line(number, words):
    numbers = Numbers(number + 1)
    return b"".join(piece(numbers, words) for _ in range(1 + numbers.below(14)))


def words_of():
    with open(f"{HERE}/words.txt", "rb") as file:
        return file.read().split(b"\n")[:-1]


def corpus():
    words = words_of()
    for path in sorted(os.listdir("/usr/share/common-licenses")):
        path = f"/usr/share/common-licenses/{path}"
        if not os.path.islink(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                yield file.read()
    for number in range(LINES, 3 * LINES):
        yield line(number, words).decode(errors="replace")
    for word in words:
        for _ in range(30):
            yield " " + word.decode()


def save(tokenizer, name, edit=None):
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    tree = json.loads(tokenizer.to_str())
    if edit is not None:
        edit(tree)
    with open(f"{HERE}/{name}/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tree, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def byte_level(split, specials, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def train_gpt2():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), [], 900)
    tree = json.loads(tokenizer.to_str())["model"]
    os.makedirs(f"{HERE}/gpt2_small", exist_ok=True)
    tree["vocab"]["<|endoftext|>"] = len(tree["vocab"])
    with open(f"{HERE}/gpt2_small/vocab.json", "w", encoding="utf-8") as file:
        json.dump(tree["vocab"], file)  # escaped as OpenAI's is
    with open(f"{HERE}/gpt2_small/merges.txt", "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tree["merges"]))


def behind(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_llama3():
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tree = json.loads(byte_level(behind(LLAMA3), [], 900).to_str())
    # A token that no merge makes: only a whole word is one.
    tree["model"]["ignore_merges"] = True
    tree["model"]["vocab"]["Ġindivisible"] = len(tree["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    tokenizer.add_special_tokens(specials)
    start = tokenizer.token_to_id(specials[0])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{specials[0]} $A",
                                      pair=f"{specials[0]} $A {specials[0]}:1 $B:1",
                                      special_tokens=[(specials[0], start)])])
    save(tokenizer, "llama3")


def train_qwen2():
    tokenizer = byte_level(behind(QWEN2), [], 800)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False, lstrip=True),
                          AddedToken("<tool>x", normalized=False, rstrip=True)])

    def strings(tree):
        tree["model"]["merges"] = [" ".join(pair) for pair in tree["model"]["merges"]]
    save(tokenizer, "qwen2", strings)


def train_smollm():
    split = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer = byte_level(split, [], 700)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    save(tokenizer, "smollm")


def train_llama2():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=1000, show_progress=False, limit_alphabet=150,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.train_from_iterator(corpus(), trainer)
    tree = json.loads(tokenizer.to_str())
    vocab = tree["model"]["vocab"]
    tree["added_tokens"] = tree["added_tokens"][:3]
    # Runs of spaces, as Llama 2 has them.
    for count in (2, 4, 8):
        vocab["▁" * count] = len(vocab)
        tree["model"]["merges"].append(["▁" * (count // 2)] * 2)
    metaspace = json.loads(json.dumps(tree))
    tree["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    tree["pre_tokenizer"] = None
    tree["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    save(tokenizer, "llama2")
    metaspace["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                                  "split": True}
    metaspace["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        {"type": "ByteFallback"}]}
    save(Tokenizer.from_str(json.dumps(metaspace)), "metaspace")


def rules_of_map(path):
    """A character map as nmt_nfkc is one, with fewer rules, so that the file is small."""
    import unicodedata
    rules = {}
    for low, high in RANGES + [(0x1, 0x1F), (0x7F, 0x9F), (0xA0, 0xFF), (0x2000, 0x200F), (0x2028, 0x202F),
                               (0x3000, 0x3000), (0xFEFF, 0xFEFF)]:
        for c in range(low, high + 1):
            if 0xAC00 <= c <= 0xD7A3 or 0x4E00 <= c <= 0x9FFF or 0xF900 <= c <= 0xFA6D:
                continue
            text = unicodedata.normalize("NFKC", chr(c))
            kind = unicodedata.category(chr(c))
            if kind in ("Cc", "Cf"):
                text = " " if c in SPACES or c in (0x200B, 0x200E, 0x200F, 0xFEFF) else ""
            elif kind in ("Zs", "Zl", "Zp"):
                text = " "
            if text != chr(c) and c != 0x20:
                rules[chr(c)] = text
            parts = unicodedata.normalize("NFD", chr(c))
            if c < 0x180 and len(parts) > 1 and text == chr(c):
                rules[parts] = text
    # The library takes the first entry that a cluster of at most five bytes begins with.
    rules.update({chr(c): chr(c).lower() for c in range(0x41, 0x5B)})
    rules["\ufffd"] = " "
    rules["\ufdfa"] = unicodedata.normalize("NFKC", "\ufdfa")
    with open(path, "w", encoding="utf-8") as file:
        for key, value in sorted(rules.items()):
            spell = lambda text: " ".join(f"{ord(c):X}" for c in text)
            file.write(f"{spell(key)}\t{spell(value)}\n")


def sentences(path):
    with open(path, "w", encoding="utf-8") as file:
        for text in corpus():
            for one in text.split("\n"):
                if one.strip() and "\0" not in one:
                    file.write(one[:500] + "\n")


def save_model(model, name):
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    model.trainer_spec.input[:] = []
    model.trainer_spec.model_prefix = ""
    with open(f"{HERE}/{name}/tokenizer.model", "wb") as file:
        file.write(model.SerializeToString())


class Pieces:
    """SentencePiece behind the calls that are used of a Tokenizer."""

    def __init__(self, folder):
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2
        self.own = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
        model = sentencepiece_model_pb2.ModelProto()
        with open(f"{folder}/tokenizer.model", "rb") as file:
            model.ParseFromString(file.read())
        self.prefix = model.normalizer_spec.add_dummy_prefix

    def encode(self, text, add_special_tokens=False):
        class Encoding:
            ids = self.own.encode(text, out_type=int)
        return Encoding

    def bytes_of(self, ids):
        """The pieces' text, unknown ones by their name; of the first without the space before it."""
        out = b""
        for place, one in enumerate(ids):
            piece = self.own.id_to_piece(one)
            if self.own.is_byte(one):
                out += bytes([int(piece[3:5], 16)])
                continue
            text = piece.replace("\u2581", " ")
            out += (text[1:] if place == 0 and self.prefix and text[0] == " " else text).encode()
        return out


def train_pieces():
    import base64
    import tempfile
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    with tempfile.TemporaryDirectory() as work:
        rules_of_map(f"{work}/rules.tsv")
        sentences(f"{work}/text.txt")

        def train(name, **more):
            sentencepiece.SentencePieceTrainer.train(
                input=f"{work}/text.txt", model_prefix=f"{work}/{name}", character_coverage=0.995, num_threads=1,
                minloglevel=2, input_sentence_size=20000, shuffle_input_sentence=False, **more)
            model = sentencepiece_model_pb2.ModelProto()
            with open(f"{work}/{name}.model", "rb") as file:
                model.ParseFromString(file.read())
            model.trainer_spec.input[:] = []
            model.trainer_spec.model_prefix = ""
            return model
        model = train("unigram", vocab_size=900, model_type="unigram", normalization_rule_tsv=f"{work}/rules.tsv")
        save_model(model, "spm_unigram")
        pieces = [(piece.piece, piece.score) for piece in model.pieces]
        charsmap = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(
            model.normalizer_spec.precompiled_charsmap).decode()}
        meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, meta]}
        # As XLM-R has them: <pad>, and every piece one further.
        xlmr = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces[3:] + [("<mask>", 0.0)]
        tokenizer = Tokenizer(models.Unigram(xlmr, 3, False))
        tree = json.loads(tokenizer.to_str())
        tree["normalizer"] = charsmap
        tree["pre_tokenizer"] = words
        tree["decoder"] = meta
        tokenizer = Tokenizer.from_str(json.dumps(tree))
        tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        save(tokenizer, "unigram")
        # As transformers 4 converts such a model.
        strip = [charsmap, {"type": "Strip", "strip_left": False, "strip_right": True},
                 {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]
        tree["normalizer"] = {"type": "Sequence", "normalizers": strip}
        tree["pre_tokenizer"] = meta
        save(Tokenizer.from_str(json.dumps(tree)), "unigram_strip")
        # Unknown text as bytes, no map, U+2581 before the document only.
        blank = train("bytes", vocab_size=1400, model_type="unigram", byte_fallback=True,
                      normalization_rule_name="identity")
        tree["model"]["vocab"] = [(piece.piece, piece.score) for piece in blank.pieces]
        tree["model"].update({"unk_id": 0, "byte_fallback": True})
        first = {**meta, "prepend_scheme": "first"}
        tree["normalizer"] = {"type": "Sequence", "normalizers": strip[1:]}
        tree["normalizer"]["normalizers"][1]["content"] = " "
        tree["pre_tokenizer"] = first
        tree["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
        save(Tokenizer.from_str(json.dumps(tree)), "unigram_bytes")
        # SentencePiece's own files: spaces as they are, BPE with and without bytes, a map and what users defined.
        save_model(train("users", vocab_size=1400, model_type="unigram", byte_fallback=True,
                         normalization_rule_name="identity", remove_extra_whitespaces=False), "spm_bytes")
        save_model(train("bpe", vocab_size=1500, model_type="bpe", byte_fallback=True, split_digits=True,
                         normalization_rule_name="identity", remove_extra_whitespaces=False,
                         user_defined_symbols=["<tool>", "\u2581\u2581\u2581"], allow_whitespace_only_pieces=True),
                   "spm_bpe")
        save_model(train("map", vocab_size=1200, model_type="bpe", normalization_rule_tsv=f"{work}/rules.tsv",
                         add_dummy_prefix=False), "spm_bpe_map")
    train_gemma()
    train_cases()


def train_cases():
    for name, pattern in (("tekken", TEKKEN), ("gpt4o", GPT4O), ("phi4", PHI4)):
        # The tokens of qwen2's file, so that words alone make the difference.
        tree = json.loads(Tokenizer.from_file(f"{HERE}/qwen2/tokenizer.json").to_str())
        tree["normalizer"] = None
        tree["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": pattern}
        # What only a word of upper and of lower case letters is, and what crosses their border.
        vocab = tree["model"]["vocab"]
        for piece in ("McD", "aB", "Ab", "AB", "'s", "x's"):
            if piece not in vocab:
                vocab[piece] = 5000 + len(vocab)
        tree["model"]["vocab"] = {key: number for number, key in enumerate(sorted(vocab, key=vocab.get))}
        tree["added_tokens"] = []
        tree["model"]["merges"] += [["a", "B"], ["A", "b"], ["A", "B"], ["'", "s"], ["x", "'s"]]
        save(Tokenizer.from_str(json.dumps(tree)), name)


def train_gemma():
    tokenizer = Tokenizer.from_file(f"{HERE}/llama2/tokenizer.json")
    tree = json.loads(tokenizer.to_str())
    tree["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    tree["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                             "invert": False}
    tree["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}]}
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False), AddedToken("\t", normalized=False)])
    save(tokenizer, "gemma")


def train_bert(name, lower):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=1600, special_tokens=specials, show_progress=False,
                                        limit_alphabet=400)
    tokenizer.train_from_iterator(corpus(), trainer)
    if lower:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        save(tokenizer, name)
        return
    os.makedirs(f"{HERE}/{name}", exist_ok=True)
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with open(f"{HERE}/{name}/vocab.txt", "w", encoding="utf-8") as file:
        file.write("".join(f"{token}\n" for token, _ in vocab))
    with open(f"{HERE}/{name}/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": False, "unk_token": "[UNK]"}, file)


def indented(number):
    """Source code, or what has as many spaces."""
    numbers = Numbers(number + 1)
    out = ""
    for _ in range(1 + numbers.below(6)):
        out += " " * numbers.below(14)
        out += ["def f():", "return 1", "x  =  2", "é\u3000x", "\t\ty", ""][numbers.below(6)]
        out += "\n" * numbers.below(4)
    return out


def make_single_words():
    """Single words among letters, digits, marks, joiners and other added tokens; ends strip what is a space."""
    rng = random.Random(16)
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    kinds = dict(normalized=True), dict(normalized=False, lstrip=True), dict(normalized=True, rstrip=True)
    tokenizer.add_tokens([AddedToken("tok", single_word=True, **kinds[0]), AddedToken("<x>", single_word=True, **kinds[1]),
                          AddedToken("-k", single_word=True, **kinds[2]), AddedToken("ab", **kinds[0])])
    tokenizer.add_special_tokens([AddedToken("k!", single_word=False, normalized=False)])
    save(tokenizer, "single_words")
    around = ["", " ", "  ", ".", "-", "_", "9", "a", "\u00e9", "\u0301", "\u65e5", "\u200d", "\u24d0", "\n", "\u093c", "\U00010d45",
              "\u20dd", "\u2160", "\u00b2", "\u203f"]
    names = ["tok", "<x>", "-k", "ab", "k!", "toktok", "k"]
    with open(f"{HERE}/single_words/texts.txt", "w", encoding="utf-8") as file:
        for _ in range(300):
            text = "".join(rng.choice(around) + rng.choice(names) + rng.choice(around) for _ in range(rng.randint(1, 5)))
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            file.write(f"{text.encode().hex()},{decoded.encode().hex()},{' '.join(map(str, ids))}\n")


def make_clip():
    """Marks of words' ends, contractions, digits, letters of several scripts, white space, special tokens."""
    from transformers import CLIPTokenizer
    rng = random.Random(33)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=1100, show_progress=False, end_of_word_suffix="</w>", initial_alphabet=alphabet)
    trained.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    trained.train_from_iterator(corpus(), trainer)
    merges = json.loads(trained.to_str())["model"]["merges"]
    # OpenAI's order: bytes, bytes at the end of a word, merges, the two special tokens.
    names = alphabet + [one + "</w>" for one in alphabet]
    vocab = {name: number for number, name in enumerate(names)}
    kept = []
    for left, right in merges:
        if left + right not in vocab and left in vocab and right in vocab:
            vocab[left + right] = len(vocab)
            kept.append((left, right))
    vocab["<|startoftext|>"] = len(vocab)
    vocab["<|endoftext|>"] = len(vocab)
    whole = CLIPTokenizer(vocab=vocab, merges=kept)
    whole.save_pretrained(f"{HERE}/clip")
    os.makedirs(f"{HERE}/clip_own", exist_ok=True)
    with open(f"{HERE}/clip_own/vocab.json", "w", encoding="utf-8") as file:
        json.dump(vocab, file)
    with open(f"{HERE}/clip_own/merges.txt", "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in kept))
    with open(f"{HERE}/clip_own/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "CLIPTokenizer"}, file)
    words = [word.decode() for word in words_of()]
    parts = ["'s", "'S", "'ll", "'Re", "''", "don't", "I'VE", "1234", "\u0661\u0662", "\u00bd", "A\u030a", "e\u0301", "\u212a", "\u0130",
             "\u03a3\u03c2", "\u017f", "\u00df", "\U0001f600!", "...", "<|endoftext|>", "<|startoftext|>", "!<|endoftext|>!", "</w>",
             "a</w>", " ", "  ", "\t", "\n\n", "\u00a0", "\u3000", "\u4e2d\u6587", "\ud55c\u1112\u1161\u11ab", "x" * 70, "_", "-"]
    own = CLIPTokenizer(vocab=f"{HERE}/clip_own/vocab.json", merges=f"{HERE}/clip_own/merges.txt")
    for name, tokenizer in (("clip", CLIPTokenizer.from_pretrained(f"{HERE}/clip")), ("clip_own", own)):
        with open(f"{HERE}/{name}/texts.txt", "w", encoding="utf-8") as file:
            for number in range(400):
                text = "".join(rng.choice((rng.choice(parts), rng.choice(words), " " + rng.choice(words).upper()))
                               for _ in range(rng.randint(0, 15)))
                ids = tokenizer(text).input_ids
                decoded = tokenizer.decode(ids, skip_special_tokens=False)
                file.write(f"{text.encode().hex()},{decoded.encode().hex()},{' '.join(map(str, ids))}\n")


def make_forms(name, steps):
    """Characters that compose, decompose, have another compatible form or two lower ones, cut in every way."""
    rng = random.Random(17)
    parts = ["a", "B", "\u00c5", "\u212b", "e", "\u0301", "\uff76", "\uff9e", "\ufb01", "\u2460", "\u2177", "\u0130", "\u03a3", "\u03c2",
             "\ud55c", "\u1112", "\u1161", "\u11ab", "\uff21", "\u01c6", " ", "  ", "   ", "\n", "\t", "\u3000", "\u00a0", "\u337f", "\ufdfa",
             "\u1ea1\u0308", "\u2100", "\u00bd", "\u212a", "\u017f", "\U0001f600", "\uff8a", "\uff9f", "\u093c", "\u0915", "\u0300",
             "\u0345", "\u1fb3", "\u1fbc", "\u32ff", "\U0001e030", "</s>"]
    normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    pieces = set("\u2581ab\u00e5fik1")
    for _ in range(300):
        text = "".join(normalizer.normalize_str(rng.choice(parts[:-1])) for _ in range(rng.randint(1, 3)))
        pieces.add(text.replace(" ", "\u2581"))
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)] + [(p, -1 - 10 * rng.random()) for p in sorted(pieces - {""})], 0, False))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("</s>", normalized=False)])
    save(tokenizer, name)
    with open(f"{HERE}/{name}/texts.txt", "w", encoding="utf-8") as file:
        for _ in range(200):
            text = "".join(rng.choice(parts) for _ in range(rng.randint(1, 25)))
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            file.write(f"{text.encode().hex()},{decoded.encode().hex()},{' '.join(map(str, ids))}\n")


def make_spaces():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((indented(number) for number in range(1000, 3000)), trainer)
    vocab = tokenizer.get_vocab()
    assert {"Ġ" * 4, "Ġ" * 2, "Ċ" * 2} <= set(vocab)
    added = [AddedToken(" " * 4, normalized=False), AddedToken("\n\n", normalized=False),
             AddedToken("  ", normalized=False), AddedToken("\t", normalized=False)]
    assert tokenizer.add_tokens(added) == 4
    save(tokenizer, "spaces")
    with open(f"{HERE}/spaces/texts.txt", "w", encoding="utf-8") as file:
        for number in range(100):
            text = indented(number)
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            file.write(f"{text.encode().hex()},{decoded.encode().hex()},{' '.join(map(str, ids))}\n")


def open_gpt2(folder):
    tokenizer = Tokenizer(models.BPE.from_file(f"{folder}/vocab.json", f"{folder}/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def open_bert(folder):
    tokenizer = Tokenizer(models.WordPiece.from_file(f"{folder}/vocab.txt", unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


class Offset:
    """SentencePiece's pieces with the ids that XLM-R has of them (transformers 4, XLMRobertaTokenizer)."""

    def __init__(self, folder):
        import sentencepiece
        self.own = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/sentencepiece.bpe.model")
        self.first = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}

    def id_of(self, piece):
        one = self.own.piece_to_id(piece)
        return self.first[piece] if piece in self.first else one + 1 if one else 3

    def encode(self, text, **_):
        return type("Encoding", (), {"ids": [self.id_of(piece) for piece in self.own.encode(text, out_type=str)]})

    def bytes_of(self, ids):
        names = {number: name for name, number in self.first.items()}
        text = "".join(names[i] if i in names else self.own.id_to_piece(i - 1) for i in ids).replace("\u2581", " ")
        return (text[1:] if text[:1] == " " else text).encode()


class Lines:
    """Llama 3's tokenizer.model by tiktoken, as Meta's llama3 reads it; special tokens are found in text first."""

    def __init__(self, path):
        from tiktoken.load import load_tiktoken_bpe
        ranks = load_tiktoken_bpe(path)
        names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
                 "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>",
                 "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"]
        names += [f"<|reserved_special_token_{i}|>" for i in range(3, 256 - len(names) + 3)]
        self.own = tiktoken.Encoding("own", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={
            name: len(ranks) + i for i, name in enumerate(names)})

    def encode(self, text, **_):
        return type("Encoding", (), {"ids": self.own.encode(text, allowed_special="all")})

    def bytes_of(self, ids):
        return self.own.decode_bytes(ids)


class Ranks:
    """tekken.json by tiktoken, which its own library uses; special tokens are found in text first."""

    def __init__(self, path):
        whole = json.load(open(path, encoding="utf-8"))
        config = whole["config"]
        self.first = config["default_num_special_tokens"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"]
                 for v in whole["vocab"][:config["default_vocab_size"] - self.first]}
        self.ranks = tiktoken.Encoding("own", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
        self.special = {t["token_str"]: t["rank"] for t in whole["special_tokens"]}
        self.special |= {f"<SPECIAL_{i}>": i for i in range(len(self.special), self.first)}
        self.names = {i: t.encode() for t, i in self.special.items()}
        self.cut = re.compile("(" + "|".join(map(re.escape, sorted(self.special, key=len, reverse=True))) + ")")

    def encode(self, text, **_):
        parts = self.cut.split(text)
        ids = [[self.special[p]] if p in self.special else [i + self.first for i in self.ranks.encode_ordinary(p)]
               for p in parts]
        return type("Encoding", (), {"ids": sum(ids, [])})

    def bytes_of(self, ids):
        return b"".join(self.names[i] if i < self.first else self.ranks.decode_single_token_bytes(i - self.first)
                        for i in ids)


def make_own():
    """tekken.json of the tokens of the tokenizer `tekken`, five of them beyond the vocabulary's size."""
    model = json.load(open(f"{HERE}/tekken/tokenizer.json", encoding="utf-8"))["model"]
    bytes_of = {c: b for b, c in pre_tokenizers_bytes().items()}
    texts = sorted(model["vocab"], key=model["vocab"].get)
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[mask]", "<pad>"]
    vocab = [{"rank": i, "token_bytes": base64.b64encode(bytes(bytes_of[c] for c in t)).decode(), "token_str": None}
             for i, t in enumerate(texts)]
    whole = {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + 15,
                        "default_num_special_tokens": 20, "version": "v7"},
             "vocab": vocab, "special_tokens": [{"rank": i, "token_str": t, "is_control": True}
                                                for i, t in enumerate(special)]}
    os.makedirs(f"{HERE}/tekken_own", exist_ok=True)
    with open(f"{HERE}/tekken_own/tekken.json", "w", encoding="utf-8") as file:
        json.dump(whole, file, separators=(",", ":"))
        file.write("\n")


def make_llama3_own():
    """Llama 3's tokenizer.model of the tokens of the tokenizer `llama3`, which no merge need make."""
    model = json.load(open(f"{HERE}/llama3/tokenizer.json", encoding="utf-8"))["model"]
    bytes_of = {c: b for b, c in pre_tokenizers_bytes().items()}
    os.makedirs(f"{HERE}/llama3_own", exist_ok=True)
    with open(f"{HERE}/llama3_own/tokenizer.model", "wb") as file:
        for i, t in enumerate(sorted(model["vocab"], key=model["vocab"].get)):
            file.write(base64.b64encode(bytes(bytes_of[c] for c in t)) + b" %d\n" % i)


def make_xlmr_own():
    """XLM-R's file is SentencePiece's as it is."""
    os.makedirs(f"{HERE}/xlmr_own", exist_ok=True)
    with open(f"{HERE}/spm_unigram/tokenizer.model", "rb") as file:
        model = file.read()
    with open(f"{HERE}/xlmr_own/sentencepiece.bpe.model", "wb") as file:
        file.write(model)


def pre_tokenizers_bytes():
    """GPT-2's characters of the bytes."""
    direct = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in direct}
    for n, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(256 + n)
    return table


def open_one(name, gpt2=None):
    if name == "tekken_own":
        return Ranks(f"{HERE}/{name}/tekken.json")
    if name == "xlmr_own":
        return Offset(f"{HERE}/{name}")
    if name == "llama3_own":
        return Lines(f"{HERE}/{name}/tokenizer.model")
    if name.startswith("spm_"):
        return Pieces(f"{HERE}/{name}")
    if name.startswith("gpt2"):
        return open_gpt2(gpt2 if name == "gpt2" else f"{HERE}/{name}")
    if name == "bert_cased":
        return open_bert(f"{HERE}/{name}")
    return Tokenizer.from_file(f"{HERE}/{name}/tokenizer.json")


def digest_bytes(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def digest(ids):
    return digest_bytes(struct.pack(f"<{len(ids)}I", *ids))


def keep(path, place, count):
    """What a file already has for the tokenizer in this place."""
    with open(path, "rb") as file:
        return file.read()[4 * count * place:4 * count * (place + 1)]


def digests(gpt2):
    words = words_of()
    lines = [line(number, words).decode(errors="replace") for number in range(LINES)]
    out = b""
    texts = b""
    for place, name in enumerate(NAMES):
        if name == "gpt2" and gpt2 is None:
            out += keep(f"{HERE}/digests.bin", place, LINES)
            texts += keep(f"{HERE}/decoded.bin", place, DECODED)
            continue
        tokenizer = open_one(name, gpt2)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in lines]
        out += struct.pack(f"<{LINES}I", *map(digest, ids))
        if name.startswith("spm_") or name.endswith("_own"):
            decoded = [tokenizer.bytes_of(one) for one in ids[:DECODED]]
        else:
            decoded = [tokenizer.decode(one, skip_special_tokens=False).encode() for one in ids[:DECODED]]
        texts += struct.pack(f"<{DECODED}I", *map(digest_bytes, decoded))
        print(name, sum(map(len, ids)), "ids")
    with open(f"{HERE}/digests.bin", "wb") as file:
        file.write(out)
    with open(f"{HERE}/decoded.bin", "wb") as file:
        file.write(texts)
    with open(f"{HERE}/pairs.bin", "wb") as file:
        for name in PAIRED:
            tokenizer = open_one(name)
            for number in range(DECODED):
                tokenizer.enable_truncation(4 + number % 50, strategy="longest_first")
                pair = lines[number + 1] if number % 2 else None
                encoding = tokenizer.encode(lines[number], pair)
                file.write(struct.pack("<2I", digest(encoding.ids), digest(encoding.type_ids)))


def main():
    if sys.argv[1:] == ["spaces"]:
        make_spaces()
    elif sys.argv[1:] == ["forms"]:
        make_forms("unigram_nfkc", [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
        make_forms("unigram_nfc", [normalizers.NFC()])
    elif sys.argv[1:] == ["clip"]:
        make_clip()
    elif sys.argv[1:] == ["words"]:
        make_single_words()
    elif sys.argv[1:] == ["pieces"]:
        train_pieces()
    elif sys.argv[1:] == ["own"]:
        make_own()
        make_llama3_own()
        make_xlmr_own()
    elif sys.argv[1:] == ["cases"]:
        train_cases()
    elif sys.argv[1:] == ["train"]:
        train_gpt2()
        train_llama3()
        train_qwen2()
        train_smollm()
        train_llama2()
        train_bert("bert_uncased", True)
        train_bert("bert_cased", False)
    elif sys.argv[1:2] == ["digests"]:
        digests(sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
