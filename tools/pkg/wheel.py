#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a wheel of the program and tools/pkg/python, with the standard library alone.

    wheel.py VERSION TAG PROGRAM STAGE FOLDER

TAG is the last part of its name (manylinux_2_34_x86_64), STAGE the folder of the tarball, whose licences and bill of
materials it takes. The same inputs give the same bytes: files are sorted and have the time of SOURCE_DATE_EPOCH."""
import base64
import hashlib
import os
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def metadata(version):
    head = """Metadata-Version: 2.1
Name: bedplate
Version: %s
Summary: Fine-tunes models in an exact memory budget: one program, no dependencies
Author: The Bedplate authors
License: MIT
Requires-Python: >=3.8
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

""" % version
    return head.encode() + read(HERE, "python", "README.md")


def contents(version, tag, program, stage):
    """Name in the wheel: bytes."""
    info = "bedplate-%s.dist-info/" % version
    files = {"bedplate/_version.py": b'__version__ = "%s"\n' % version.encode(), "bedplate/bin/bedplate": read(program),
             info + "METADATA": metadata(version),
             info + "WHEEL": ("Wheel-Version: 1.0\nGenerator: bedplate (tools/pkg/wheel.py)\nRoot-Is-Purelib: false\n" +
                              "".join("Tag: py3-none-%s\n" % each for each in tag.split("."))).encode(),
             info + "entry_points.txt": b"[console_scripts]\nbedplate = bedplate:_main\n",
             info + "top_level.txt": b"bedplate\n",
             info + "licenses/LICENSE": read(stage, "LICENSE")}
    package = os.path.join(HERE, "python")
    for name in os.listdir(package):
        if name.endswith((".py", ".typed")):
            files["bedplate/" + name] = read(package, name)
    doc = os.path.join(stage, "share", "doc", "bedplate")
    for name in os.listdir(doc):
        if name.endswith(".copyright"):
            files[info + "licenses/" + name] = read(doc, name)
        elif name.endswith((".cdx.json", ".spdx")):
            files[info + "sboms/" + name] = read(doc, name)
    return info, files


def main():
    version, tag, program, stage, folder = sys.argv[1:]
    info, files = contents(version, tag, program, stage)
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(files[name]))
    record += info + "RECORD,,\n"
    stamp = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    path = os.path.join(folder, "bedplate-%s-py3-none-%s.whl" % (version, tag))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        # RECORD comes last, as the specification recommends.
        for name, data in [(name, files[name]) for name in sorted(files)] + [(info + "RECORD", record.encode())]:
            entry = zipfile.ZipInfo(name, stamp)
            entry.create_system = 3
            entry.external_attr = (0o100755 if name.endswith("bin/bedplate") else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    print(path)


main()
