#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/speech/flac: the same sounds as WAV files, and as FLAC files that the reference encoder made of them
(flac, of the Xiph.Org Foundation), of several widths, channels, rates and predictors.

Run from the repository root: FLAC=/usr/bin/flac tools/golden/speech/flac.py (needs flac 1.4, numpy; a second).
"""
import os
import subprocess
import wave

import numpy as np

OUT = "tests/golden/speech/flac/"
# name, bits, channels, rate, samples, options of the encoder
FORMS = (
    ("mono16", 16, 1, 16000, 2500, "-8 -b 576"),
    ("stereo16", 16, 2, 44100, 3000, "-5 -b 1152"),
    ("mono24", 24, 1, 16000, 1500, "-8 -b 576"),
    ("stereo24", 24, 2, 48000, 1500, "-0 -m -b 576"),
    ("eight", 8, 1, 8000, 1000, "-5"),
    ("six16", 16, 6, 16000, 700, "-3"),
    ("wide32", 32, 1, 16000, 500, "-5"),
    ("noise16", 16, 1, 16000, 600, "-8 -b 192"),
    ("silence16", 16, 2, 16000, 4000, "-5"),
)


def sound(name, bits, channels, rate, count, generator):
    t = np.arange(count)[:, None] / rate
    pitch = 220.0 * (1 + np.arange(channels))[None, :]
    x = 0.5 * np.sin(2 * np.pi * pitch * t) + 0.2 * np.sin(2 * np.pi * 90 * t) + 0.001 * generator.standard_normal((count, channels))
    if name.startswith("noise"):
        x = generator.uniform(-1, 1, (count, channels))
    if name.startswith("silence"):
        x = np.where(t < 0.1, 0, x)
    most = 2 ** (bits - 1)
    return np.clip(np.round(x * most), -most, most - 1).astype(np.int64)


def main():
    os.makedirs(OUT, exist_ok=True)
    generator = np.random.default_rng(33)
    for name, bits, channels, rate, count, options in FORMS:
        x = sound(name, bits, channels, rate, count, generator)
        x[:2] = [[2 ** (bits - 1) - 1], [-(2 ** (bits - 1))]]  # the largest and the least
        width = bits // 8
        bytes_of = (x + 128 if bits == 8 else x).astype("<i8").view(np.uint8).reshape(count, channels, 8)[..., :width]
        raw = np.ascontiguousarray(bytes_of).tobytes()
        with wave.open(OUT + name + ".wav", "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(width)
            file.setframerate(rate)
            file.writeframes(raw)
        subprocess.run([os.environ.get("FLAC", "flac"), "--silent", "--force", "--no-padding", "--lax", *options.split(),
                        "--force-raw-format", "--endian=little", f"--sign={'unsigned' if bits == 8 else 'signed'}",
                        f"--channels={channels}", f"--bps={bits}", f"--sample-rate={rate}", "-o", OUT + name + ".flac", "-"],
                       input=raw, check=True)


if __name__ == "__main__":
    main()
