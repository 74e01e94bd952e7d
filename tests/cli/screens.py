"""Puts real screens into docs/show.md: each block that follows `<!-- screen: COMMAND -->` becomes what
COMMAND prints on a terminal of 100 columns, without colours.

    TAPEDECK=build/tapedeck TD_SOURCE=. python3 tests/cli/screens.py

The runs it shows are two of the demo, made first, with seeds 7 and 8.
"""
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import tempfile
import termios

PROGRAM = os.path.abspath(os.environ["TAPEDECK"])
SOURCE = os.path.abspath(os.environ["TD_SOURCE"])
PAGE = os.path.join(SOURCE, "docs", "show.md")


def screen(command, folder):
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    environment = dict(os.environ, NO_COLOR="1", TERM="xterm-256color")
    process = subprocess.Popen([PROGRAM, *shlex.split(command)[1:]], cwd=folder, env=environment, stdout=side,
                               stderr=side)
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
    return "\n".join(line.rstrip() for line in out.decode().replace("\r\n", "\n").splitlines())


with tempfile.TemporaryDirectory() as folder:
    demo = os.path.join(SOURCE, "examples", "demo", "demo.yaml")
    for seed in ("7", "8"):
        subprocess.run([PROGRAM, "train", demo, "--quiet", "--set", "seed=" + seed], cwd=folder, check=True)
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"(<!-- screen: (.*?) -->\n```\n).*?(```)",
                  lambda m: f"{m[1]}$ {m[2]}\n{screen(m[2], folder)}\n{m[3]}", text, flags=re.S)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)
