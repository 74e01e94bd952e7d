"""Whether the random generators of a resumed training go on from where they were: the fact ``resumed`` of the loop."""

from __future__ import annotations

from typing import Any

_STEPS = 8  # after resuming that are looked at
_KNOWN = 4  # steps before that are needed
_SHARE = 0.9  # of them that begin with the state that the one before left

STATE, LEFT = "random_state", "random_state.left"  # of a step's first pass, and at its end


class Continuity:
    """Goes with a deck that was resumed."""

    def __init__(self, deck: Any) -> None:
        self.before: dict[int, int] = {}
        self.left: dict[int, int] = {}
        self.fact: dict[str, int] = {}
        self.seen = 0
        if not deck._resumed:
            return
        from ._resume import ENDED
        from .run import Run

        run = Run(deck.folder)
        for name, states in ((STATE, self.before), (LEFT, self.left)):
            if name in run:
                states.update({int(each["step"]): int(each["value"]) for each in run[name].values if each["step"] <= deck.steps})
        self.epoch_ended = run.notes.get(ENDED) == str(deck.steps)

    @property
    def is_known(self) -> bool:
        """States differ from step to step, so that one that is there again means something."""
        return len(self.before) >= _KNOWN and 2 * len(set(self.before.values())) > len(self.before)

    def see(self, step: int, state: int) -> dict[str, int] | None:
        """The fact, when it has changed."""
        self.seen += 1
        if self.seen > _STEPS or not self.is_known:
            return None
        earlier = next((number for number, known in self.before.items() if known == state), None)
        if earlier is not None:
            self.fact = {"repeated": self.fact.get("repeated", 0) + 1, "since": self.fact.get("since", step),
                         "of": self.fact.get("of", earlier)}
            return self.fact
        if self.seen == 1 and self._goes_on() and self.left.get(step - 1, state) != state:
            self.fact = {"skipped": 1, "since": step}
            return self.fact
        return None

    def _goes_on(self) -> bool:
        pairs = [self.left[step] == self.before[step + 1] for step in self.left if step + 1 in self.before]
        return not self.epoch_ended and len(pairs) >= _KNOWN and sum(pairs) >= _SHARE * len(pairs)
