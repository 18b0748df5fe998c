# SPDX-License-Identifier: MIT
# tests/golden/pictures: small PNG and JPEG images of the kinds that there are, each beside what Pillow reads of it as RGB
# (or, named grey, as one plane), as PPM or PGM. Needs Pillow (13.0) and numpy from PyPI.
#   V/bin/python tools/golden/pictures.py [DIR]
import io, os, struct, sys, zlib
import numpy as np
from PIL import Image, PngImagePlugin

to = sys.argv[1] if len(sys.argv) > 1 else 'tests/golden/pictures'
rng = np.random.default_rng(16)
base = np.clip(np.add.outer(np.arange(8) * 20, np.arange(10) * 9)[..., None] + rng.integers(0, 60, (8, 10, 3)), 0, 255)
rgb = Image.fromarray(base.astype(np.uint8))
grey = rgb.convert('L')


def keep(name, image, **how):
    path = os.path.join(to, name)
    image.save(path, **how)
    as_read(path)


def as_read(path):
    image = Image.open(path)
    one = os.path.basename(path).startswith('grey')
    image.convert('L' if one else 'RGB').save(os.path.splitext(path)[0] + ('.pgm' if one else '.ppm'))


keep('colour.png', rgb)
keep('palette.png', rgb.quantize(16))
keep('clear.png', Image.fromarray(np.dstack([base, rng.integers(0, 256, (8, 10))]).astype(np.uint8)))
keep('plain.png', grey)  # grey, read as colours
keep('bits.png', grey.point(lambda v: 255 * (v > 120)).convert('1'))
info = PngImagePlugin.PngInfo()
info.add(b'gAMA', struct.pack('>I', 100000))
keep('gamma.png', rgb, pnginfo=info)
keep('grey.png', grey)
keep('photo.jpg', rgb, quality=90)
keep('half.jpg', rgb, quality=60, subsampling=2)
keep('grey2.jpg', grey, quality=80)
rgb.convert('CMYK').save(os.path.join(to, 'inks.jpeg'))


def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))


# 16 bits a number, which Pillow writes of grey only: by hand.
rows = b''.join(b'\0' + (base[y] * 257).astype('>u2').tobytes() for y in range(8))
with open(os.path.join(to, 'wide.png'), 'wb') as f:
    f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 10, 8, 16, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
