# SPDX-License-Identifier: MIT
# tests/golden/pictures: small PNG and JPEG images of the kinds that there are, each beside what Pillow reads of it as RGB
# (or, named grey, as one plane), as PPM or PGM. Needs Pillow (13.0) and numpy from PyPI.
#   V/bin/python tools/golden/formats/pictures.py [DIR]
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
rgb.save(os.path.join(to, 'wide.ppm'))


# 16 bits a number, of all kinds, and PPM of the same: each number is the nearest of 255. Pillow takes a PNG's upper byte, and
# of grey files what is above 255 as white.
def png16(name, kind, planes):
    rows = b''.join(b'\0' + planes[y].astype('>u2').tobytes() for y in range(8))
    with open(os.path.join(to, name), 'wb') as f:
        f.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 10, 8, 16, kind, 0, 0, 0)) +
                chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


deep = rng.integers(0, 65536, (8, 10, 4))
near = np.rint(deep / 257.0).astype(np.uint8)
png16('deep.png', 2, deep[..., :3])
png16('deep_clear.png', 6, deep)
png16('grey_deep.png', 0, deep[..., 0])
png16('grey_deep_clear.png', 4, deep[..., [0, 3]])
for name in 'deep.ppm', 'deep_clear.ppm':
    Image.fromarray(near[..., :3]).save(os.path.join(to, name))
for name in 'grey_deep.pgm', 'grey_deep_clear.pgm':
    Image.fromarray(near[..., 0]).save(os.path.join(to, name))
for name, magic, planes in ('as_deep.ppm', 'P6', deep[..., :3]), ('as_grey_deep.pgm', 'P5', deep[..., 0]):
    with open(os.path.join(to, name), 'wb') as f:
        f.write(f'{magic} 10 8 65535\n'.encode() + planes.astype('>u2').tobytes())
