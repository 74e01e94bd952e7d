"""Runs of ``tapedeck train`` executed again: what the program finds, as dicts."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from . import _native


def run_json(program: str, command: str, *arguments: str) -> dict[str, Any]:
    """What a command of the program prints with --json. Its exit status 1 is also that of a result: a step differs."""
    words = [program, command, "--json", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if done.returncode not in (0, 1) or not done.stdout:
        message = done.stderr.strip() or f"tapedeck {command} ended with status {done.returncode}"
        raise _native.Error(message.removeprefix("tapedeck: "))
    return json.loads(done.stdout)
