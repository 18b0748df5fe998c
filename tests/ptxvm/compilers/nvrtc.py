#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nvrtc.py LIBRARY SOURCE TARGET OPTIONS..: compiles CUDA C to PTX with one version of NVRTC, whose
front and middle end are nvcc's of the same release."""
import ctypes
import sys


def compile_text(library, source, options):
    nvrtc = ctypes.CDLL(library)
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    words = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    size = ctypes.c_size_t()
    if nvrtc.nvrtcCompileProgram(program, len(options), words) != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    return text.value.decode()


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        made = compile_text(sys.argv[1], file.read(), sys.argv[4:])
    with open(sys.argv[3], "w") as file:
        file.write(made)
