#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bills of materials of the program: SPDX 2.3 (tag and value) and CycloneDX 1.6 (JSON). What is linked
into it comes from the headers that it was compiled with; nothing is looked up in a network.

    sbom.py VERSION MACHINE PROGRAM ARCHIVE EPOCH FOLDER    bedplate.spdx and bedplate.cdx.json in FOLDER

MACHINE is x86_64, aarch64, x86_64-static or aarch64-static."""
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone

# name, header and pattern of its version, licence, how it is used, Debian's source package
PARTS = (
    ("utf8proc", "utf8proc.h", r"UTF8PROC_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", "MIT", "STATIC_LINK", "libutf8proc-dev"),
    ("zlib", "zlib.h", r'ZLIB_VERSION\s+"([^"]+)"', "Zlib", "STATIC_LINK", "zlib1g-dev"),
    ("zstd", "zstd.h", r"ZSTD_VERSION_(?:MAJOR|MINOR|RELEASE)\s+(\d+)", "BSD-3-Clause", "STATIC_LINK", "libzstd-dev"),
    ("xxHash", "xxhash.h", r"XXH_VERSION_(?:MAJOR|MINOR|RELEASE)\s+(\d+)", "BSD-2-Clause", "STATIC_LINK", "libxxhash-dev"),
    ("glibc", "gnu/libc-version.h", None, "LGPL-2.1-or-later", "DYNAMIC_LINK", "libc6"),
)
MUSL = ("musl", None, None, "MIT", "STATIC_LINK", "musl-dev")
SYSROOT = "build/dist/sysroot/packages"  # what tools/pkg/sysroot.sh fetched: PACKAGE VERSION


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def header_version(header, pattern):
    path = os.path.join("/usr/include", header)
    if pattern is None:
        found = re.search(r"(\d+\.\d+)\s*$", output("ldd", "--version").split("\n")[0])
        return found[1] if found else "unknown"
    if not os.path.isfile(path):
        return "unknown"
    with open(path, encoding="utf-8", errors="replace") as file:
        found = re.findall(r"#\s*define\s+" + pattern, file.read())
    return ".".join(found[:3]) or "unknown"


def parts(machine):
    """Each part with its version, and its package's address where it is Debian's."""
    found = []
    fetched = {}
    if machine.startswith("aarch64"):
        with open(SYSROOT, encoding="utf-8") as file:
            fetched = dict(line.split() for line in file)
    for name, header, pattern, licence, use, package in PARTS[:-1] + (MUSL if machine.endswith("-static") else PARTS[-1],):
        debian = fetched.get(package) or output("dpkg-query", "-W", "-f=${Version}", package).strip()
        version = header_version(header, pattern) if header else debian.split("-")[0] or "unknown"
        found.append((name, version, licence, use, debian and purl(package, debian, package in fetched)))
    return found


def purl(package, version, of_arm):
    text = "pkg:deb/debian/%s@%s" % (package, version.replace(":", "%3A").replace("+", "%2B"))
    return text + "?arch=arm64" if of_arm else text


def created(epoch):
    return datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def spdx(version, program, archive, epoch, machine="x86_64"):
    digest = sha256(program)
    lines = [
        "SPDXVersion: SPDX-2.3", "DataLicense: CC0-1.0", "SPDXID: SPDXRef-DOCUMENT",
        "DocumentName: bedplate-%s" % version,
        "DocumentNamespace: https://spdx.invalid/bedplate-%s-%s" % (version, digest),
        "Creator: Tool: bedplate-kit", "Created: " + created(epoch), "",
    ]
    def package(ref, name, of, licence, sum_of=None, url=None):
        lines.extend(["PackageName: " + name, "SPDXID: SPDXRef-" + ref, "PackageVersion: " + of,
                      "PackageDownloadLocation: NOASSERTION", "FilesAnalyzed: false"])
        if sum_of:
            lines.append("PackageChecksum: SHA256: " + sum_of)
        lines.extend(["PackageLicenseConcluded: " + licence, "PackageLicenseDeclared: " + licence, "PackageCopyrightText: NOASSERTION"])
        if url:
            lines.append("ExternalRef: PACKAGE-MANAGER purl " + url)
        lines.append("")
    package("bedplate", "bedplate", version, "MIT", digest)
    package("libbedplate", "libbedplate", version, "MIT", sha256(archive))
    for name, of, licence, _, url in parts(machine):
        package(name, name, of, licence, None, url)
    lines.append("Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-bedplate")
    lines.append("Relationship: SPDXRef-bedplate STATIC_LINK SPDXRef-libbedplate")
    for name, _, _, use, _ in parts(machine):
        lines.append("Relationship: SPDXRef-bedplate %s SPDXRef-%s" % (use, name))
    return "\n".join(lines) + "\n"


def cyclonedx(version, program, archive, epoch, machine="x86_64"):
    digest = sha256(program)
    components = [{"type": "library", "bom-ref": "libbedplate", "name": "libbedplate", "version": version,
                   "licenses": [{"license": {"id": "MIT"}}], "hashes": [{"alg": "SHA-256", "content": sha256(archive)}]}]
    for name, of, licence, _, url in parts(machine):
        component = {"type": "library", "bom-ref": name, "name": name, "version": of, "licenses": [{"license": {"id": licence}}]}
        if url:
            component["purl"] = url
        components.append(component)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": "urn:uuid:%s" % uuid.uuid5(uuid.NAMESPACE_URL, "bedplate:" + digest),
        "version": 1,
        "metadata": {
            "timestamp": created(epoch),
            "component": {"type": "application", "bom-ref": "bedplate", "name": "bedplate", "version": version,
                          "licenses": [{"license": {"id": "MIT"}}], "hashes": [{"alg": "SHA-256", "content": digest}]},
        },
        "components": components,
        "dependencies": [{"ref": "bedplate", "dependsOn": [c["bom-ref"] for c in components]}],
    }
    return json.dumps(bom, indent=2) + "\n"


def main():
    version, machine, program, archive, epoch, folder = sys.argv[1:]
    for name, text in (("bedplate.spdx", spdx), ("bedplate.cdx.json", cyclonedx)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text(version, program, archive, int(epoch), machine))


if __name__ == "__main__":
    main()
