"""Makes the registry's PyTorch importable without NVIDIA's libraries, which are several gigabytes.

    python without_cuda.py SITE_PACKAGES

The wheel for Linux links them although a machine without a GPU never calls them. Each library that its files
need and that is not there is replaced by one made here, with the names and versions that are asked of it; every
function returns 100, which is CUDA's "no device".
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NVIDIA = re.compile(r"lib(cu|nv|nccl)")


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Wanted:
    """What libraries ask of others."""

    def __init__(self, libraries):
        self.libraries = set()
        self.names = defaultdict(lambda: defaultdict(set))  # library -> version -> names
        self.anywhere = set()  # names that are asked of no library in particular
        provided = set()
        for library in libraries:
            self.libraries.update(re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-d", library)))
            owner = self.versions(library)
            for line in tool("nm", "-D", library).splitlines():
                kind, symbol = line.split()[-2:]
                name, _, version = symbol.partition("@")
                version = version.strip("@")
                if kind not in "Uwv":
                    provided.add(name)
                elif version in owner:
                    self.names[owner[version]][version].add(name)
                elif kind == "U" and re.match(r"_*(cu|nv|nccl|Nv)", name):
                    self.anywhere.add(name)
        self.anywhere -= provided

    @staticmethod
    def versions(library):
        """version -> the library that has it"""
        owner, file = {}, None
        for line in tool("readelf", "-VW", library).splitlines():
            if found := re.search(r"File: (\S+)", line):
                file = found[1]
            elif (found := re.search(r"Name: (\S+) ", line)) and file:
                owner[found[1]] = file
        return owner


def make(target, versions, more):
    names = sorted(more.union(*versions.values()))
    nodes = [f"{version} {{ global: {' '.join(f'{name};' for name in sorted(found))} }};"
             for version, found in sorted(versions.items())]
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "a.c"), Path(folder, "a.map")
        source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names) or "int unused;\n")
        script.write_text("\n".join(nodes))
        flags = [f"-Wl,--version-script={script}"] if nodes else []
        tool("cc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{target.name}", *flags, "-o", str(target),
             str(source))


def main(packages):
    folder = Path(packages, "torch", "lib")
    wanted = Wanted([str(path) for path in folder.glob("lib*.so*")])
    missing = [name for name in sorted(wanted.libraries) if NVIDIA.match(name) and not (folder / name).exists()]
    for name in missing:
        make(folder / name, wanted.names[name], wanted.anywhere if name.startswith("libcudart") else set())


main(sys.argv[1])
