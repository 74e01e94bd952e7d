"""PyTorch: outputs, errors, gradients, weights and updates of a model, while it trains.

How: a forward hook on every module, which records the output (before a later in-place operation can
change it) and puts a hook on it that records the error; parameters and their gradients when the
optimizer steps, after accumulation, unscaling and clipping. Hooks are there only while something is due in
the open step. None of them changes a value.
"""

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any, Unpack

import torch

from ._loop import Loop
from ._options import DeckOptions
from .deck import Deck, leaves_no_folder

_GROUPS = ("outputs", "errors", "gradients", "weights", "updates")
_SINKS = {"tensor": "npy", "rows": "csv", "long": "csv", "units": "csv", "stats": "sqlite", "histogram": "tensorboard",
          "image": "png", "scalar": "tensorboard", "hash": "csv"}
_in_backward = torch._C._current_graph_task_id  # -1 outside of one
_scaler: Any = None  # a weak reference to the GradScaler that last scaled a loss


@leaves_no_folder
def watch(
    model: torch.nn.Module,
    folder: str | os.PathLike[str] = "runs/run",
    *,
    optimizer: torch.optim.Optimizer | None = None,
    every: int | str = 100,
    log_freq: int = 0,
    log: str = "outputs,errors,gradients,weights,updates",
    form: str = "histogram",
    to: str | None = None,
    scaler: Any = None,
    deck: Deck | None = None,
    **options: Unpack[DeckOptions],
) -> Deck:
    """Records what happens inside a PyTorch model while it trains.

    >>> deck = tapedeck.watch(model, "runs/a", optimizer=opt, every=100)
    >>> for x, y in loader:
    ...     opt.zero_grad()
    ...     loss = F.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     opt.step()
    ...     deck.log(loss=loss)          # no .item()
    ...     deck.step()                  # may be left out: a step ends with the optimizer's
    >>> deck.finish()

    Signals have the framework's own names: ``0.output``, ``0.error``, ``0.weight``, ``0.weight.gradient``,
    ``0.weight.update``; the second call of a shared module in a step is ``0@1.output``, parts of a tuple or dict
    ``lstm.0.output``. `Deck.track` adds to what is recorded. Loss and weights are those of training without
    it, bit for bit (with ``torch.compile`` the steps that are recorded run eagerly).

    Args:
        optimizer: needed for updates, and for gradients after clipping and unscaling.
        every: steps, or ``"N epochs"``; ``log_freq`` is another word for it.
        log: which groups of signals; ``"all"`` for all of them, ``""`` to leave everything to tracks.
        form: ``stats``, ``histogram``, ``tensor``, …
        to: sinks; by default those that suit the form.
        scaler: the ``GradScaler`` whose scale errors are freed of; found by itself when it is torch's.
        deck: a deck that there is already.
        options: of `Deck`.
    """
    rank, world = _rank()
    if deck is None:
        path = os.fspath(folder)
        deck = Deck(path if rank == 0 else f"{path}-rank{rank}", rank=rank, **options)
    deck._native.layout = "channels_first"
    watcher = Watcher(deck, model, optimizer, scaler)
    deck._parts.append(watcher)
    _add_tracks(deck, watcher, log, form, to, log_freq or every)
    watcher.note_facts(rank, world)
    deck._tracked = True  # also when log is empty
    deck._prepare()
    watcher.after_step()
    return deck


def _rank() -> tuple[int, int]:
    import torch.distributed as distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _add_tracks(deck: Deck, watcher: "Watcher", log: str, form: str, to: str | None, every: int | str) -> None:
    groups = _GROUPS if log == "all" else [word.strip() for word in log.split(",") if word.strip()]
    what: list[str] = []
    for group in groups:
        if group not in _GROUPS:
            raise ValueError(f"log has no {group!r} (there are: {', '.join(_GROUPS)})")
        if group == "weights":
            what += [_escaped(name) for name in watcher.parameters]
        else:
            what.append(f"*.{group[:-1]}")
    forms = [word.strip() for word in form.split(",")]
    sinks = to or ",".join(sorted({_SINKS.get(word, "csv") for word in forms}))
    if what:
        deck.track(what, every=every, form=form, to=sinks)


def _escaped(name: str) -> str:
    return "".join("\\" + c if c in "*?[]\\,!" else c for c in name)


def _inert(*_: Any) -> None:
    """What a copy of a hook does."""


def _copied() -> Any:
    return _inert


class _Hook:
    """A hook that works for the model it was put on: copies of the model (an average of its weights, a
    saved file) have one that does nothing."""

    __slots__ = ("call",)

    def __init__(self, call: Any) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> None:
        self.call(*arguments)

    def __deepcopy__(self, memo: dict) -> Any:
        return _inert

    def __copy__(self) -> Any:
        return _inert

    def __reduce__(self) -> Any:
        return _copied, ()


class _Layer:
    """A module, and the signals of its outputs: by call within a step, and part of the output."""

    __slots__ = ("watcher", "name", "order", "calls", "repeats", "signals", "is_root")

    def __init__(self, watcher: "Watcher", name: str, order: int) -> None:
        self.watcher = watcher
        self.name = name
        self.order = order
        self.is_root = name == ""
        self.calls = 0  # of this step's forward pass
        self.repeats = 0  # during its backward pass: checkpointing computes again
        self.signals: dict[tuple[int, str], tuple[Any, Any]] = {}

    def signals_of(self, call: int, part: str) -> tuple[Any, Any]:
        found = self.signals.get((call, part))
        if found is None:
            layer = self.name + (f"@{call}" if call else "") + part
            declare = self.watcher.deck._native.signal
            if self.is_root:
                layer = "prediction" + (f"@{call}" if call else "") + part
                found = (declare(layer, kind="prediction", batched=True, rank=self.watcher.deck.rank), None)
            else:
                found = tuple(
                    declare(f"{layer}.{kind}", kind=kind, layer=layer, order=self.order, batched=True,
                            rank=self.watcher.deck.rank)
                    for kind in ("output", "error")
                )
            self.signals[call, part] = found
        return found

    def after_forward(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        watcher = self.watcher
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return
        if not watcher.model.training and not watcher.accepts_evaluation:
            return
        again = _in_backward() != -1
        if watcher.stepped and watcher.inferring is not False and not again:
            watcher.infer_step()
            if not watcher.handles:
                return
        if again:
            call = self.repeats
            self.repeats += 1
            if call < self.calls:
                return
        else:
            if watcher.backward_seen:
                watcher.next_pass()
            if watcher.passes > 1:
                if isinstance(output, torch.Tensor) and output.requires_grad and not watcher.sees_backward:
                    watcher.sees_backward = True
                    output.register_hook(_Hook(watcher.see_backward))
                return
            call = self.calls
            self.calls += 1
        if watcher.is_known(output):
            return
        if isinstance(output, torch.Tensor):
            self.record(call, "", output)
        else:
            for part, tensor in _parts(output):
                self.record(call, part, tensor)

    def record(self, call: int, part: str, tensor: torch.Tensor) -> None:
        watcher = self.watcher
        output, error = self.signals_of(call, part)
        if output.wants():
            watcher.put(output, tensor)
        if tensor.requires_grad and error is not None and (error.wants() or not watcher.sees_backward):
            watcher.sees_backward = True
            tensor.register_hook(_Error(watcher, error))


class _Error:
    """The hook on an output: its gradient is the layer's error."""

    __slots__ = ("watcher", "signal", "serial")

    def __init__(self, watcher: "Watcher", signal: Any) -> None:
        self.watcher = watcher
        self.signal = signal
        self.serial = watcher.serial

    def __call__(self, gradient: torch.Tensor) -> None:
        watcher = self.watcher
        if self.serial != watcher.serial:
            if self.serial >= 0:
                watcher.late += 1  # of a step that is closed
            else:
                watcher.twice += 1  # a second backward pass
            return
        watcher.enter_backward()
        self.serial = -1
        scale = watcher.scale()
        watcher.put(self.signal, gradient if scale == 1 else gradient / scale)

    def __deepcopy__(self, memo: dict) -> Any:
        return _inert

    def __reduce__(self) -> Any:
        return _copied, ()


def _parts(output: Any, prefix: str = "") -> Any:
    """The tensors of a nested output, and where they are in it."""
    if isinstance(output, torch.Tensor):
        yield prefix, output
    elif isinstance(output, (tuple, list)):
        for i, item in enumerate(output):
            yield from _parts(item, f"{prefix}.{i}")
    elif isinstance(output, dict):
        for key, item in output.items():
            yield from _parts(item, f"{prefix}.{key}")
    elif hasattr(output, "__dataclass_fields__"):
        for key in output.__dataclass_fields__:
            yield from _parts(getattr(output, key), f"{prefix}.{key}")


def _bare(model: torch.nn.Module) -> torch.nn.Module:
    """The model without what wraps it: DDP, DataParallel, torch.compile."""
    while True:
        if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


def _clean(name: str) -> str:
    return ".".join(word for word in name.split(".") if word not in ("_orig_mod", "_checkpoint_wrapped_module"))


class _Parameter:
    __slots__ = ("tensor", "value", "gradient", "update", "before")

    def __init__(self, tensor: torch.nn.Parameter, value: Any, gradient: Any, update: Any) -> None:
        self.tensor = tensor
        self.value = value
        self.gradient = gradient
        self.update = update
        self.before: torch.Tensor | None = None


class Watcher:
    """What goes with a deck that watches a model."""

    def __init__(self, deck: Deck, model: torch.nn.Module, optimizer: Any, scaler: Any) -> None:
        self.deck = deck
        self.model = _bare(model)
        self.optimizer = optimizer
        self.handles: list[Any] = []
        self.layers: list[tuple[torch.nn.Module, _Layer]] = []
        self.parameters: dict[str, _Parameter] = {}
        self.waiting: list[tuple[Any, torch.Tensor, Any]] = []  # copies from a device, under way
        self.latest: Any = None  # what was recorded last, and its version then
        self.latest_version = 0
        self.serial = 0  # of the step that is open
        self.passes = 1  # forward passes of it: micro-batches
        self.backward_seen = False
        self.sees_backward = False
        self.stepped = False  # the optimizer has, since the step was opened
        self.inferring: bool | None = None  # steps end with the optimizer's; None: not known yet
        self.inferred = False  # the step before this one was ended so, before that was known
        self.closing = False
        self.accepts_evaluation = False
        self.scaler = None if scaler is None else weakref.ref(scaler)
        self.late = self.twice = self.skipped = 0
        self.said: set[str] = set()
        self.compiled = _is_compiled(model)
        self._declare()
        self.loop = Loop(deck, model, self.model, optimizer, self.scale)
        if scaler is None:
            _follow_scalers()
        if optimizer is not None:
            self.optimizer_handles = [
                optimizer.register_step_pre_hook(_Hook(self.before_update)),
                optimizer.register_step_post_hook(_Hook(self.after_update)),
            ]
        else:
            self.optimizer_handles = []

    def _declare(self) -> None:
        native = self.deck._native
        order = 0
        for name, module in self.model.named_modules():
            order += not any(True for _ in module.children())
            self.layers.append((module, _Layer(self, _clean(name), max(order, 1))))
        orders = {layer.name: layer.order for _, layer in self.layers}
        for name, tensor in self.model.named_parameters():
            name = _clean(name)
            layer, _, parameter = name.rpartition(".")
            common = {"layer": layer, "parameter": parameter, "order": orders.get(layer, 0), "rank": self.deck.rank}
            self.parameters[name] = _Parameter(
                tensor,
                native.signal(name, kind="parameter", **common),
                native.signal(f"{name}.gradient", kind="gradient", **common),
                native.signal(f"{name}.update", kind="update", **common),
            )
        self.tensor_signals = [s for p in self.parameters.values() for s in (p.value, p.gradient, p.update)]

    def note_facts(self, rank: int, world: int) -> None:
        note = self.deck.note
        note("framework", f"torch {torch.__version__}")
        note("model", repr(self.model)[:20000])
        note("parameters", sum(p.tensor.numel() for p in self.parameters.values()))
        if world > 1:
            note("rank", rank)
            note("world_size", world)
            note("replicas", not any(hasattr(p.tensor, "_local_tensor") for p in self.parameters.values())
                 and not any("FullyShardedDataParallel" in type(m).__name__ for m in self.model.modules()))
        if self.compiled:
            note("compiled", "steps that are recorded run eagerly")
        frozen = [name for name, p in self.parameters.items() if not p.tensor.requires_grad]
        if frozen:
            note("frozen_parameters", ",".join(frozen))
        if self.optimizer is not None:
            note("optimizer", repr(self.optimizer))
            inside = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
            outside = [name for name, p in self.parameters.items() if id(p.tensor) not in inside]
            if outside:
                note("parameters_without_optimizer", ",".join(outside))

    # ---- hooks ----------------------------------------------------------------------------------

    def after_step(self) -> None:
        """A step is open: hooks are put on, or taken off."""
        self.serial += 1
        self.passes = 1
        self.backward_seen = self.sees_backward = self.stepped = False
        self.latest = None
        due = self.deck._native.due(self.deck.steps + 1)
        if due:
            for _, layer in self.layers:
                layer.calls = layer.repeats = 0
            self._put_on()
            if self.optimizer is None:
                self._remember()
        elif self.handles:
            self._take_off()

    def _put_on(self) -> None:
        if self.handles:
            return
        if self.compiled and not _force_eager(True):
            self._say_once("compiled", "this PyTorch cannot run a compiled model eagerly for a step: its outputs and "
                           "errors are not recorded")
            return
        for module, layer in self.layers:
            self.handles.append(module.register_forward_hook(_Hook(layer.after_forward)))

    def _take_off(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.compiled:
            _force_eager(False)

    def put(self, signal: Any, tensor: torch.Tensor) -> None:
        """Records a tensor; one on a device is copied while it goes on, and recorded at the step's end."""
        if tensor.is_cpu:
            _put(signal, tensor)
        elif signal.wants():
            source = tensor.detach()
            host = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
            host.copy_(source, non_blocking=True)
            done = None
            if source.is_cuda:
                done = torch.cuda.Event()
                done.record(torch.cuda.current_stream(source.device))
            self.waiting.append((signal, host, done))

    def is_known(self, output: Any) -> bool:
        """Whether this was recorded just now: a container gives its last child's output on, Flatten
        another view of it. An in-place operation gives the same memory with another version."""
        if not isinstance(output, torch.Tensor):
            known = output is self.latest
            self.latest, self.latest_version = output, 0
            return known
        latest, version = self.latest, output._version
        known = version == self.latest_version and (
            output is latest
            or (isinstance(latest, torch.Tensor) and output._is_view() and output.numel() == latest.numel() > 0
                and output.device == latest.device and output.data_ptr() == latest.data_ptr())
        )
        if not known:
            self.latest, self.latest_version = output, version
        return known

    def next_pass(self) -> None:
        self.backward_seen = self.sees_backward = False
        self.passes += 1
        if self.passes == 2:
            self._note_once("micro_batches", "outputs and errors are those of a step's first micro-batch")

    def see_backward(self, *_: Any) -> None:
        self.backward_seen = True

    def enter_backward(self) -> None:
        if self.backward_seen:
            return
        self.backward_seen = True
        if self.passes == 1:
            first = next(iter(self.parameters.values()), None)
            stale = first is not None and first.tensor.grad is not None and bool(first.tensor.grad.any())
            self.deck._native.scalar("stale_gradients", float(stale))

    def scale(self) -> float:
        reference = self.scaler or _scaler
        scaler = reference() if reference else None
        return float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() else 1.0

    # ---- parameters -----------------------------------------------------------------------------

    def _remember(self) -> None:
        for p in self.parameters.values():
            if p.update.wants():
                p.before = p.tensor.detach().clone()

    def _put_gradients(self) -> None:
        for p in self.parameters.values():
            if p.tensor.grad is not None and p.gradient.wants():
                gradient = p.tensor.grad
                self.put(p.gradient, gradient.coalesce().to_dense() if gradient.is_sparse else gradient)

    def _put_parameters(self) -> None:
        for p in self.parameters.values():
            if p.value.wants():
                self.put(p.value, p.tensor)
            if p.before is not None:
                self.put(p.update, torch.sub(p.tensor.detach(), p.before, out=p.before))
                p.before = None

    def before_update(self, optimizer: Any, *_: Any) -> None:
        if self.stepped and self.inferring is not False:
            self.infer_step()
        native = self.deck._native
        for i, group in enumerate(optimizer.param_groups):
            native.scalar(f"learning_rate_{i}" if i else "learning_rate", group["lr"])
        if self.handles or native.due(self.deck.steps + 1):
            if not self.model.training and not self.accepts_evaluation:
                self.accepts_evaluation = True
                self._note_once("training_mode", "the optimizer stepped while the model was in evaluation mode")
            native.scalar("training_mode", float(self.model.training))
            native.scalar("micro_batches", float(self.passes))
            self._put_gradients()
            self._remember()

    def after_update(self, *_: Any) -> None:
        if self.handles or self.deck._native.due(self.deck.steps + 1):
            self._put_parameters()
        self.stepped = True
        if self.inferring is not False and self.deck._native.due(self.deck.steps + 2):
            self._put_on()  # to notice the next forward pass

    def infer_step(self) -> None:
        """The model is called, or the optimizer steps, again, and nobody closed the step. The first time this may
        be a loop that closes it a little later: that call is then ignored."""
        self.inferring = True if self.inferred else None
        self.inferred = True
        self.closing = True
        self.deck.step()
        self.closing = False

    # ---- the deck's steps -----------------------------------------------------------------------

    def before_step(self) -> bool:
        """False: there is no step to close."""
        if not self.closing:
            early = self.inferred and self.inferring is None and not self.stepped
            self.inferring = False
            if early:
                return False
        if self.optimizer is None:
            if self.handles:
                self._put_gradients()
                self._put_parameters()
        elif self.backward_seen and not self.stepped and self.scale() != 1:
            self.skipped += 1
            self.deck._native.scalar("skipped_steps", float(self.skipped))
            self._note_once("skipped_steps", "the GradScaler skipped updates: gradients were not finite")
        for signal, host, done in self.waiting:
            if done is not None:
                done.synchronize()
            _put(signal, host)
        self.waiting.clear()
        if self.twice:
            self._note_once("backward_twice", "several backward passes in a step: errors are those of the first")
        return True

    def warnings(self) -> list[str]:
        return self.loop.warnings()

    def finish(self) -> None:
        self.loop.finish()
        for signal, host, done in self.waiting:
            if done is not None:
                done.synchronize()
            _put(signal, host)
        self.waiting.clear()
        self._take_off()
        for handle in self.optimizer_handles:
            handle.remove()
        self.optimizer_handles.clear()

    def _note_once(self, key: str, text: str) -> None:
        if key not in self.said:
            self.said.add(key)
            self.deck.note(key, text)

    def _say_once(self, key: str, text: str) -> None:
        if key not in self.said:
            warnings.warn(f"tapedeck: {text}", stacklevel=3)
        self._note_once(key, text)


def _put(signal: Any, tensor: torch.Tensor) -> None:
    try:
        signal.put(tensor)
    except (TypeError, BufferError, RuntimeError):
        tensor = tensor.detach()
        if tensor.dtype == torch.bfloat16:
            signal.record(tensor.contiguous().view(torch.int16).numpy(), dtype="bfloat16")
        else:
            signal.record(tensor.resolve_conj().resolve_neg().numpy())


def _is_compiled(model: torch.nn.Module) -> bool:
    return any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def _force_eager(on: bool) -> bool:
    set_stance = getattr(torch.compiler, "set_stance", None)
    if set_stance is not None:
        set_stance("force_eager" if on else "default")
    return set_stance is not None


def _follow_scalers() -> None:
    """Learns which GradScaler scales losses: their gradients carry its scale until the optimizer steps."""
    scaler_class = getattr(getattr(torch, "amp", None), "GradScaler", None)
    if scaler_class is None or hasattr(scaler_class.scale, "_tapedeck"):
        return
    plain = scaler_class.scale

    def scale(self: Any, outputs: Any) -> Any:
        global _scaler
        _scaler = weakref.ref(self)
        return plain(self, outputs)

    scale._tapedeck = True  # type: ignore[attr-defined]
    scaler_class.scale = scale
