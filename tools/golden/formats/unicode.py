#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks Hugging Face's tokenizers library what it makes of every character.

    tools/golden/formats/unicode.py

Writes
    tools/formats/unicode/unicode_ranges.c              the ranges of BERT's punctuation and accents, which the
                                                library takes from an older Unicode than utf8proc has, and
                                                letters and numbers that utf8proc 2.8 does not know yet
    tests/golden/tokenizers/characters.txt      FIRST FLAGS in hexadecimal, of each run of characters with
                                                the same flags: 1 removed by clean_text, 2 white space,
                                                4 punctuation, 8 ideograph, 16 letter, 32 number
    tests/golden/tokenizers/characters.bin      of each 256 characters FNV-1a over what strip_accents makes
                                                of them, what lowercase does, and what both do (UTF-8, each
                                                followed by a zero byte)
    tests/golden/tokenizers/bert_uncased/texts.txt   lines as in spaces/texts.txt (tokens.py): characters of
                                                which Python's tables say something else than the library
"""
import struct
import unicodedata

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

GOLDEN = "tests/golden/tokenizers"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
FNV = 0x811C9DC5


def normalizer(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


CLEAN = normalizer(clean_text=True)
IDEOGRAPHS = normalizer(handle_chinese_chars=True)
ACCENTS = normalizer(strip_accents=True)
LOWER = normalizer(lowercase=True)
BOTH = normalizer(strip_accents=True, lowercase=True)
PUNCTUATION = pre_tokenizers.BertPreTokenizer()


def matched(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    return {c for c in ALL if not split.pre_tokenize_str(chr(c))}


def classes():
    letters, numbers, spaces = matched(r"\p{L}"), matched(r"\p{N}"), matched(r"\s")
    found = {}
    for c in ALL:
        text = f"a{chr(c)}b"
        flags = 1 if CLEAN.normalize_str(text) == "ab" else 0
        flags |= 2 if c in spaces else 0
        flags |= 4 if len(PUNCTUATION.pre_tokenize_str(text)) == 3 else 0
        flags |= 8 if IDEOGRAPHS.normalize_str(text) == f"a {chr(c)} b" else 0
        flags |= 16 if c in letters else 0
        flags |= 32 if c in numbers else 0
        found[c] = flags
    return found


def ranges(of):
    out = []
    for c in ALL:
        if of(c):
            if out and out[-1][1] == c - 1 and c - out[-1][0] < 2048:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def write_rows(file, name, rows):
    words = [f"0x{first << 11 | last - first:08x}," for first, last in rows]
    file.write(f"\nstatic const uint32_t {name}[] = {{\n")
    for at in range(0, len(words), 8):
        file.write("    " + " ".join(words[at:at + 8]) + "\n")
    file.write(f"}};\n\nconst bp_unicode_ranges bp_unicode_{name} = {{{name}, "
               f"sizeof {name} / sizeof {name}[0]}};\n")


def write_tables(found):
    def known(c, category):
        # What utf8proc 2.8 knows is Unicode 15; Python's tables may be older, which costs a row or two.
        return unicodedata.category(chr(c))[0] == category
    with open("tools/formats/unicode/unicode_ranges.c", "w", encoding="utf-8") as file:
        file.write("/* SPDX-License-Identifier: MIT */\n"
                   "/* Made by tools/golden/formats/unicode.py from what the tokenizers library does. */\n"
                   '#include "tools/formats/unicode/unicode_ranges.h"\n')
        write_rows(file, "punctuation", ranges(lambda c: c >= 0x80 and found[c] & 4))
        write_rows(file, "marks", ranges(lambda c: ACCENTS.normalize_str(chr(c)) == ""))
        write_rows(file, "letters", ranges(lambda c: found[c] & 16 and not known(c, "L")))
        write_rows(file, "numbers", ranges(lambda c: found[c] & 32 and not known(c, "N")))


def write_classes(found):
    with open(f"{GOLDEN}/characters.txt", "w", encoding="utf-8") as file:
        last = None
        for c in ALL:
            if found[c] != last:
                file.write(f"{c:x} {found[c]:x}\n")
                last = found[c]


def write_folds():
    with open(f"{GOLDEN}/characters.bin", "wb") as file:
        for first in range(0, 0x110000, 256):
            value = FNV
            for c in range(first, first + 256):
                surrogate = 0xD800 <= c < 0xE000
                for fold in () if surrogate else (ACCENTS, LOWER, BOTH):
                    for byte in fold.normalize_str(chr(c)).encode() + b"\0":
                        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
            file.write(struct.pack("<I", value))


def differs(c, flags):
    category = unicodedata.category(chr(c))
    plain = "".join(x for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn")
    return (flags & 1 and category not in ("Cc", "Cf", "Co") or not flags & 1 and category == "Cf"
            or c >= 0x80 and bool(flags & 4) != (category[0] == "P")
            or ACCENTS.normalize_str(chr(c)) != plain or chr(c).lower() != LOWER.normalize_str(chr(c)))


def write_texts(found):
    tokenizer = Tokenizer.from_file(f"{GOLDEN}/bert_uncased/tokenizer.json")
    named = [0x8CD, 0x7FD, 0xAFE, 0x1DF7, 0x8D8, 0x11C33, 0xC84]
    with open(f"{GOLDEN}/bert_uncased/texts.txt", "w", encoding="utf-8") as file:
        for c in named + [c for c in ALL if differs(c, found[c])]:
            text = f"a{chr(c)}n {chr(c)}"
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            file.write(f"{text.encode().hex()},{decoded.encode().hex()},{' '.join(map(str, ids))}\n")


def main():
    found = classes()
    write_tables(found)
    write_classes(found)
    write_folds()
    write_texts(found)


if __name__ == "__main__":
    main()
