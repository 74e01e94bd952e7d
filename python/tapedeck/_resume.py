"""Going on with a run: after which step, in which epoch, and what becomes of what was recorded after it."""

from __future__ import annotations

import itertools
import operator
import os
import shutil

from . import _native

ENDED = "epoch.ended"  # the note that says which step was its epoch's last


def plan(folder: str, resume: bool | str | int | None, discard: bool) -> tuple[int, int]:
    """(the native deck's `resume`, the epoch that goes on).

    Steps after the one to go on from are removed only when `discard` says so, and the run as it is now is kept in
    ``FOLDER/before-resume-STEP``.
    """
    words = {True: "allow", "allow": "allow", "must": "must"}
    word = words.get(resume) if isinstance(resume, (bool, str)) else None
    if isinstance(resume, str) and not word:
        raise ValueError(f'resume is True, "allow", "must" or a step, not {resume!r}')
    step = None if word else operator.index(resume or 0)
    if step is not None and step < 0:
        raise ValueError(f"resume is a step from 1 on, not {step}")
    if not word and not step:
        return 0, 1
    there = os.path.exists(os.path.join(folder, "run.db"))
    if not there:
        if word == "allow":
            return 0, 1
        raise FileNotFoundError(f"there is no run {folder} to go on with")
    run = _native.Run(folder)
    try:
        about = run.about()
        if about["state"] == "running":
            raise _native.Error(f"another deck is writing into {folder}: finish it first")
        last = about["last_step"] if step is None else step
        _, epoch, later = run.when(last)
        ended = run.notes("run").get(ENDED)
    finally:
        run.close()
    if later and not discard:
        raise ValueError(f"{folder}: {later} recorded step{'s' if later > 1 else ''} after step {last} would be lost; "
                         "resume=True goes on after the last one, discard=True removes them (a copy is kept)")
    if later:
        _back_up(folder, last)
    return last or -1, max(1, epoch + (ended == str(last)))


def _back_up(folder: str, step: int) -> None:
    for number in itertools.count(1):
        name = f"before-resume-{step}" + (f"-{number}" if number > 1 else "")
        copy = os.path.join(folder, name)
        if not os.path.exists(copy):
            break
    others = shutil.ignore_patterns("before-resume-*", "run.db-shm")
    draft = os.path.join(folder, f".{name}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder, draft, ignore=lambda path, names: others(path, names) | {f".{name}"}, symlinks=True)
    os.rename(draft, copy)
