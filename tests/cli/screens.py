"""Puts real screens into docs/show.md and docs/models.md: each block that follows
`<!-- screen: COMMAND -->` becomes what COMMAND prints on a terminal of 100 columns (models.md: 130), without
colours; with `| head -N` at its end, the first N lines of it. A file that the command writes with `--to` can
be shown by `<!-- screen: head -N FILE -->`.

    TAPEDECK=build/tapedeck TD_SOURCE=. python3 tests/cli/screens.py [PAGE …]

The runs it shows are two of the demo, made first, with seeds 7 and 8; the models are fixtures of the tests.
"""
import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

PROGRAM = os.path.abspath(os.environ["TAPEDECK"])
SOURCE = os.path.abspath(os.environ["TD_SOURCE"])
WIDTHS = {"show.md": 100, "models.md": 130}
MODELS = {"model.keras": "keras/images.keras", "images.npy": "keras/images.input.npy",
          "labels.npy": "keras/images.output.npy", "epoch1.pt": "weights/epoch1.pt", "epoch2.pt": "weights/epoch2.pt"}


def screen(command, folder, width):
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = dict(os.environ, NO_COLOR="1", TERM="xterm-256color")
    command, _, most = command.partition(" | head -")
    words = shlex.split(command)
    process = subprocess.Popen([PROGRAM if words[0] == "tapedeck" else words[0], *words[1:]], cwd=folder,
                               env=environment, stdout=side, stderr=side)
    os.close(side)
    out = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        out += piece
    process.wait()
    # A line of progress is written over, and gone in the end.
    lines = [line.rpartition("\r")[2].replace("\x1b[K", "").rstrip()
             for line in out.decode().replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(line + "\n" for line in (lines if not most else lines[:int(most)] + ["…"]))


with tempfile.TemporaryDirectory() as folder:
    demo = os.path.join(SOURCE, "examples", "demo", "demo.yaml")
    for seed in ("7", "8"):
        subprocess.run([PROGRAM, "train", demo, "--quiet", "--set", "seed=" + seed], cwd=folder, check=True)
    os.symlink(os.path.join(SOURCE, "examples"), os.path.join(folder, "examples"))
    for name, fixture in MODELS.items():
        shutil.copy(os.path.join(SOURCE, "tests", "fixtures", "models", fixture), os.path.join(folder, name))
    for page in sys.argv[1:] or WIDTHS:
        path = os.path.join(SOURCE, "docs", page)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(<!-- screen: (.*?) -->\n```\n).*?(```)",
                      lambda m, w=WIDTHS[page]: f"{m[1]}$ {m[2].partition(' | head')[0]}\n"
                                                f"{screen(m[2], folder, w)}{m[3]}",
                      text, flags=re.S)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
