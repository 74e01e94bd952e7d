"""Executes the steps of a capsule again, with everything recorded, and compares the losses bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ._origin import Replay


def replay(
    path: str | os.PathLike[str],
    model: Any,
    optimizer: Any = None,
    loss_fn: Callable[[Any, Any], Any] | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    form: str = "tensor,stats",
    to: str = "npy,sqlite",
) -> Replay:
    """Executes the steps of a capsule again and records all of them.

    >>> found = tapedeck.replay("runs/a/capsules/1213", model, optimizer, torch.nn.functional.cross_entropy)
    >>> print(found)
    steps 1206 to 1213: identical losses; the first number that is not finite: step 1213, 4: output

    Each step begins with the random states of then, the model gets the batches of then, and losses are compared bit for bit
    with those of then. Afterwards model and optimizer are as the last step left them.

    Args:
        path: ``RUN/capsules/STEP``.
        model, optimizer: made as for the training; their state is replaced by the capsule's. A Keras model is compiled and has
            its own optimizer and loss.
        loss_fn: PyTorch: ``(output, target) -> loss``. The target is the one that the training's loss function had; None where
            it was none of PyTorch's. By default ``output.loss``, as Hugging Face's models have it.
        folder: of the run that is written; by default ``replay`` in the capsule.
        form, to: as of `watch`.

    Raises:
        ValueError: the capsule is damaged, of a newer version, or of another model. Nothing was changed.
    """
    from ._grad import _is_keras

    if _is_keras(model):
        from ._keep_keras import replay as replay_keras

        return replay_keras(path, model, folder=folder, form=form, to=to)
    from ._replay_torch import replay as replay_torch

    return replay_torch(path, model, optimizer, loss_fn, folder=folder, form=form, to=to)
