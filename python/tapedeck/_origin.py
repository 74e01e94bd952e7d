"""What executing a capsule's steps again has found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Origin:
    """The first layer, in the order of execution, that made a number that is not finite out of finite ones."""

    step: int
    layer: str
    what: str  #: ``output``; ``weights`` where the layer's own parameters were not finite; ``error`` in the backward pass

    def __str__(self) -> str:
        return f"step {self.step}, {self.layer}: {self.what}"


@dataclass
class Replay:
    """What `replay` did."""

    trigger: str  #: why the capsule was written
    losses: list[tuple[int, float, float]] = field(default_factory=list)  #: step, loss then, loss now
    difference: int | None = None  #: the first step whose loss has other bits; None: there is none
    origin: Origin | None = None  #: where the first number that is not finite came from; None: all were finite
    folder: str = ""  #: of the run that has everything that was recorded

    @property
    def identical(self) -> bool:
        return self.difference is None

    def add(self, step: int, then: float, now: float, same: bool) -> None:
        self.losses.append((step, then, now))
        if not same and self.difference is None:
            self.difference = step

    def __str__(self) -> str:
        text = "no step was complete" if not self.losses else f"steps {self.losses[0][0]} to {self.losses[-1][0]}: " + (
            "identical losses" if self.identical else f"step {self.difference} has another loss")
        return text + (f"; the first number that is not finite: {self.origin}" if self.origin else "")
