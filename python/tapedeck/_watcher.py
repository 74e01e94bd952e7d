"""A PyTorch model that a deck records while it trains.

Taps on modules record outputs (before a later in-place operation can change them) and put a hook on each that records
its error (_layers.py). Gradients are recorded when an optimizer steps, after accumulation, unscaling, clipping and its
closure; parameters and updates when it has stepped. Taps are there only while something is due in the open step. Nothing of
this changes a value.
"""

from __future__ import annotations

import sys
from functools import partial
from time import perf_counter
from typing import Any

import torch

from . import _tensors
from ._layers import EagerHook, Handle, Layer, Tap, bare, clean_name, parts
from ._loop import Loop
from ._network_torch import Network
from ._placement import Activations, placement_of
from ._recording import Recording
from ._scaler import ModelScaler
from ._steps import Clock, Parameter, Updates, stance
from ._torch_attention import Attention
from ._torch_compiled import CompiledLayers, is_available
from ._torch_examples import ExampleGradients
from ._torch_functions import Functions
from ._torch_micro import GradientNoise, MicroGradients
from ._torch_rows import LossRows
from ._zero import ZeroUpdates, is_split, parts_of
from .deck import Deck

_in_backward = torch._C._current_graph_task_id  # -1 outside of one


class Watcher(Recording):
    """What goes with a deck that watches a model."""

    def __init__(self, deck: Deck, model: torch.nn.Module, optimizers: dict[Any, Any], scaler: Any, prefix: str,
                 loop_checks: bool, world: int, local: bool, functions: bool = False, zero: Any = None,
                 compiled: bool = False) -> None:
        super().__init__(deck, prefix)
        self.owns_deck = False  # watch() made it
        self.finished = False
        self.model = bare(model)
        self.handles: list[Any] = []
        self.layers: list[tuple[torch.nn.Module, Layer]] = []
        self.parameters: list[Parameter] = []
        self.latest: Any = None  # what was recorded last, and its place, version and size then
        self.latest_at = (0, 0, 0)
        self.serial = 0  # of the step that is open
        self.passes = 1  # forward passes of it: micro-batches
        self.merges = False  # the pass under way is another micro-batch of the same step
        self.evaluates_again = False  # a closure, for the same update
        self.examples: dict[int, int] = {}  # of each pass
        self.backward_seen = False
        self.sees_backward = False
        self.task, self.task_counts = -1, False  # the backward pass that was asked about last
        self.loss_scale = 1.0  # in it
        self.forgot = False  # to copy parameters before they change, where no optimizer says when
        self.due = False  # something is, in this step
        self.seen = False  # the model was called in it
        self.version = -1  # of a parameter when the step was opened
        self.accepts_evaluation = False
        self.twice = self.skipped = 0
        self.compiled = _is_compiled(model)
        self.parallel = isinstance(model, torch.nn.DataParallel) and len(model.device_ids) > 1
        self.activations = Activations(self.model, world)
        self.times = world > 1  # its own share of each step
        self.local: list[tuple[torch.Tensor, Any]] = []  # parameters, and the signals of their local gradients
        self.since = 0.0  # when the update before was done; 0: not known
        self.network: Network | None = Network()  # until it is noted
        self.zero = zero  # DeepSpeed's optimizer, where that is known
        self.is_split = any(is_split(p) for p in self.model.parameters())
        self.parts = parts_of(self.model, optimizers)
        self._declare()
        if self.times:
            self.declare(f"{prefix}local_seconds", placement="batch")
        if local:
            self._declare_local()
        self.sharded = any(hasattr(p.tensor, "_local_tensor") for p in self.parameters) or any(
            "FullyShardedDataParallel" in type(module).__name__ for module in self.model.modules()) or self.is_split
        self.clock = next((part for part in deck._parts if isinstance(part, Clock)), None)
        if self.clock is None:
            self.clock = Clock(deck)
            deck._parts.append(self.clock)
        self.scaler = ModelScaler(scaler)
        self.loop: Loop | None = None
        if loop_checks and not self.is_split:  # ZeRO's parameters have no gradients, its optimizer none of the parameters
            self.loop = Loop(deck, model, self.model, list(optimizers.values()), self.scaler, prefix)
        self.optimizers = [(ZeroUpdates if self.parts else Updates)(self, word, optimizer) for word, optimizer in optimizers.items()]
        self.clock.count += len(optimizers)
        self.inside: CompiledLayers | None = None  # what the compiled graph has for us
        if compiled:
            self._record_inside()
        self.derived: list[Any] = [LossRows(self), MicroGradients(self), GradientNoise(self, world)]
        if self.inside is None:  # compiled code depends on the function that this replaces, and calls no taps
            self.derived += [Attention(self), ExampleGradients(self, self.derived[0])]
        self.drawn = self.derived[0].numbers.current  # rows of the batches since the last update
        self.scale = self.declare(f"{prefix}loss_scale", kind="derived")
        self.functions = Functions(self) if functions else None

    def _record_inside(self) -> None:
        if self.parallel or not is_available():
            raise ValueError("compiled=True needs PyTorch 2.10 or newer, and a model that is not in DataParallel")
        self.compiled = True
        self.inside = CompiledLayers(self)

    def _declare(self) -> None:
        order = 0
        for name, module in self.model.named_modules():
            is_leaf = not any(True for _ in module.children())
            order += is_leaf
            is_root = module is self.model and not is_leaf
            label = clean_name(name) or ("prediction" if is_root else "model")
            self.layers.append((module, Layer(self, self.prefix + label, max(order, 1), is_root)))
        orders = {layer.name: layer.order for _, layer in self.layers}
        for name, tensor in self.model.named_parameters():
            for part, pick in _tensors.COMPLEX if tensor.is_complex() else (("", None),):
                self._declare_parameter(self.prefix + clean_name(name) + (part and f".{part}"), tensor, pick, orders)

    def _declare_parameter(self, name: str, tensor: torch.nn.Parameter, pick: Any, orders: dict[str, int]) -> None:
        layer, _, parameter = name.rpartition(".")
        if layer + "." == self.prefix or not layer:
            layer = self.prefix + "model" if len(self.layers) == 1 else layer
        split = id(tensor) in self.parts
        common = {"layer": layer, "parameter": parameter, "order": orders.get(layer, 0),
                  "placement": "shard:0" if split else placement_of(tensor)}
        self.parameters.append(Parameter(
            tensor, pick, name,
            self.declare(name, kind="parameter", **common),
            self.declare(f"{name}.gradient", kind="gradient", **common),
            self.declare(f"{name}.update", kind="update", **common), **common, part=self.parts.get(id(tensor)),
        ))

    def _declare_local(self) -> None:
        """Gradients as a rank computes them; read together they are those of all ranks, side by side. Hooks of FSDP2's and of
        other distributed parameters never see one."""
        plain = [p for p in self.parameters if p.is_plain and p.tensor.requires_grad]
        if len(plain) < len(self.parameters) and any(hasattr(p.tensor, "device_mesh") for p in self.parameters):
            self.warn_once("local_gradients", "gradients before they are reduced are recorded of DistributedDataParallel only")
            return
        self.local = [(p.tensor, self.declare(f"{p.name}.local_gradient", placement="batch")) for p in plain]

    def note_facts(self, rank: int, world: int) -> None:
        tensors = [p.tensor for p in self.parameters]
        self.note("framework", f"torch {torch.__version__}")
        self.guard("model", lambda: self.note("model", repr(self.model)[:20000]))
        self.note("parameters", sum(getattr(p, "ds_numel", None) or p.numel() for p in tensors if not torch.nn.parameter.is_lazy(p)))
        if world > 1:
            if not self.owns_deck:
                self.note("rank", rank)
                self.note("world_size", world)
            self.note("replicas", not self.sharded)
        if self.is_split and not self.optimizers:
            self.warn_once("zero", "parameters, gradients and updates of DeepSpeed's ZeRO are recorded with optimizer=engine.optimizer")
        if any(isinstance(module, torch.jit.ScriptModule) for module in self.model.modules()):
            self.warn_once("scripted", "layers of a TorchScript module are called without Python: their outputs and errors are "
                           "not recorded")
        if self.compiled:
            self.note("compiled", "steps that are recorded run eagerly" if self.inside is None else "steps that are recorded are compiled")
        frozen = [p.name for p in self.parameters if not p.tensor.requires_grad]
        if frozen:
            self.note("frozen_parameters", ",".join(frozen))
        if self.optimizers:
            self.note("optimizer", "\n".join(repr(each.optimizer) for each in self.optimizers))
            inside = {id(p) for each in self.optimizers for group in each.groups() for p in group["params"]} | set(self.parts)
            outside = [p.name for p in self.parameters if id(p.tensor) not in inside]
            if outside:
                self.note("parameters_without_optimizer", ",".join(outside))

    # ---- taps -----------------------------------------------------------------------------------

    def after_step(self) -> None:
        """A step is open: taps are put on, or taken off."""
        self.serial += 1
        self.passes = 1
        self.merges = self.evaluates_again = False
        self.examples = {}
        self.backward_seen = self.sees_backward = self.seen = False
        self.latest, self.latest_at = None, (0, 0, 0)
        deck = self.deck
        if self.due or self.handles or deck._names_rows or deck._native.due(deck.steps + 1):  # otherwise nothing is on, and stays so
            self.after_track()

    def after_track(self) -> None:
        self.guard("step", self._open_step)

    def _open_step(self) -> None:
        """Something may be due that was not before."""
        self.due = self.deck._native.due(self.deck.steps + 1)
        for each in self.derived:
            each.open_step(self.due and not self.finished)
        if self.due:
            self._put_on()
            self.version = next((p.tensor._version for p in self.parameters if p.tensor.requires_grad), -1)
            self.forgot = not self.optimizers
        elif self.handles:
            self._take_off()

    def _put_on(self) -> None:
        if self.handles:
            return
        if self.parallel:
            self.warn_once("data_parallel", "DataParallel copies the model in every step: outputs and errors are not "
                           "recorded; DistributedDataParallel has them")
            return
        if self.inside is not None:
            self.inside.switch(True)
            self.handles = [self.inside]
            self.handles += [tensor.register_hook(EagerHook(partial(self._put_local, signal))) for tensor, signal in self.local]
            return
        if self.compiled and not stance.force_eager(self):
            self.warn_once("compiled", "this PyTorch cannot run a compiled model eagerly for a step (2.6 and newer can): its "
                           "outputs and errors are not recorded")
            return
        self.handles = [Handle(module, "after", layer.after_forward) for module, layer in self.layers]
        self.handles[0].tap.around = self.functions  # the first module is the model itself
        self.handles += [tensor.register_hook(EagerHook(partial(self._put_local, signal))) for tensor, signal in self.local]

    def _put_local(self, signal: Any, gradient: torch.Tensor) -> None:
        """Before the reduction: DistributedDataParallel's hooks come behind those of the tensor."""
        if self.passes == 1 and signal.wants() and self.counts():
            self.guard("local_gradients", self.put, signal, gradient if self.loss_scale == 1 else gradient / self.loss_scale)

    def _take_off(self) -> None:
        if self.inside is not None:
            self.inside.switch(False)
        elif self.handles:
            self.handles[0].tap.around = None
        for handle in self.handles:
            if handle is not self.inside:
                handle.remove()
        self.handles.clear()
        stance.release(self)

    def see_unseen(self) -> None:
        """Parameters changed in a step that was due, and no module was called: a compiled function did it."""
        if self.seen or not self.due:
            return
        if self.version == next((p.tensor._version for p in self.parameters if p.tensor.requires_grad), -1):
            return
        missing = "outputs and errors"
        if self.optimizers and not self.clock.stepped:  # the optimizer's step was compiled, too
            missing = "outputs, errors, gradients and updates"
            self._put_values(self.parameters)
        if self.inside is not None:
            self._leave_graph(missing)
            return
        if self.compiled or not _has_compiled():
            self.warn_once("unseen", f"parameters changed and no layer of the model was called: its {missing} are not recorded")
            return
        self.compiled = True
        eager = stance.force_eager(self)
        self.warn_once("compiled", f"step {self.deck.steps + 1} ran in a compiled function: its {missing} are not recorded; " + (
            "from now on steps that are recorded run eagerly" if eager else
            "nor are those of later steps: this PyTorch cannot run them eagerly (2.6 and newer can)"))
        if not eager:
            self._take_off()

    def _leave_graph(self, missing: str) -> None:
        """The compiled code has no operator of ours."""
        self.warn_once("compiled", f"step {self.deck.steps + 1} ran in a function that was compiled before watch(), or has no layer of the model: its "
                       f"{missing} are not recorded; from now on steps that are recorded run eagerly")
        self._take_off()
        self.inside.remove()
        self.inside = None

    def see_added(self, trained: set[int]) -> None:
        """Parameters of the model that an optimizer has, and that were not there when the model was watched."""
        known = {id(p.tensor) for p in self.parameters}
        added = [name for name, p in self.model.named_parameters() if id(p) in trained and id(p) not in known]
        if added:
            self.warn_once("parameters_added", f"parameters that were added after watch() are not recorded: {', '.join(added[:8])}"
                           + ("…" if len(added) > 8 else "") + "; finish the deck and watch the model again to record them")

    def is_known(self, output: Any) -> bool:
        """Whether this was recorded just now: a container gives its last child's output on, Flatten
        another view of it. An in-place operation gives the same memory with another version."""
        if type(output) is torch.Tensor and (count := output.numel()):
            at = (output.data_ptr(), output._version, count)
        else:
            at = (id(output), output._version if isinstance(output, torch.Tensor) else 0, 0)
        if at == self.latest_at:
            return True
        self.latest, self.latest_at = output, at
        return False

    # ---- passes ---------------------------------------------------------------------------------

    def begin_pass(self) -> bool:
        """A part of the model is called: another step, if that is how steps end, or another pass, if the backward pass of the one
        before has been. False: nothing is recorded."""
        if self.clock.is_over:
            self.clock.infer_step()
        if self.backward_seen:
            self.backward_seen = self.sees_backward = False
            self.passes += 1
            self.merges = not self.clock.several and not self.evaluates_again
            if self.merges:
                self.note_once("micro_batches", "statistics and histograms of outputs and errors are over all micro-batches of a "
                               "step; other forms of them have its first")
        return bool(self.handles)

    def count_examples(self, output: Any) -> None:
        sizes = [len(tensor) for _, tensor in parts(output) if tensor.dim() > 0]
        self.examples[self.passes] = self.examples.get(self.passes, 0) + (sizes[0] if sizes else 0)

    def skip_pass(self, output: Any) -> None:
        self.note_once("passes", "outputs and errors are those of a layer's first pass in a step")
        if isinstance(output, torch.Tensor) and output.requires_grad and not self.sees_backward:
            self.sees_backward = True
            output.register_hook(self.see_backward)

    def see_backward(self, *_: Any) -> None:
        self.backward_seen = self.backward_seen or self.counts()

    def counts(self) -> bool:
        """Whether the backward pass under way is the loss's: its gradients reach parameters of the model. That of a
        gradient penalty, or one to inputs, is not."""
        task = _in_backward()
        if task != self.task:
            self.task = task
            self.task_counts = self._is_loss_pass()
            self.loss_scale = self.scaler.scale() if self.zero is None else float(self.zero.loss_scale)
        return self.task_counts

    def _is_loss_pass(self) -> bool:
        if self.inside is not None:
            return self.inside.is_loss_pass()
        if self.sharded:  # other parameters are in the graph, for as long as they are needed
            return not torch.is_grad_enabled()
        if any(p.tensor.requires_grad and _is_reached(p.tensor) for p in self.parameters):
            return True
        trained = [p for p in self.model.parameters() if p.requires_grad]  # they may be others by now
        return not trained or any(map(_is_reached, trained))

    def enter_backward(self) -> None:
        self.backward_seen = True
        if self.since and self.passes == 1:
            self.scalar("local_seconds", perf_counter() - self.since)
            self.since = 0.0
        if self.passes == 1 and self.parameters:
            gradient = self.parameters[0].tensor.grad
            self.scalar("stale_gradients", float(gradient is not None and bool(_tensors.readable(gradient).any())))

    # ---- parameters -----------------------------------------------------------------------------

    def remember(self, parameters: list[Parameter], updates: Updates | None = None) -> None:
        ratios = updates.state.wanted_ratios() if updates is not None else set()
        wanted = [p for p in parameters if (p.update.wants() or id(p) in ratios) and (p.is_plain or not torch.nn.parameter.is_lazy(p.tensor))]
        if wanted:
            with torch.no_grad():
                copies = _clone([p.now if p.is_plain else p.read(p.now) for p in wanted])
            for p, copy in zip(wanted, copies):
                p.before = copy

    def put_gradients(self, parameters: list[Parameter]) -> None:
        self.put_all([p.gradient for p in parameters],
                      [g if p.is_plain or g is None else p.read_wanted(p.gradient, g)
                       for p in parameters for g in (p.gradient_now,)])

    def _put_values(self, parameters: list[Parameter]) -> None:
        self.put_all([p.value for p in parameters],
                      [p.now if p.is_plain else p.read_wanted(p.value, p.now) for p in parameters])

    def put_parameters(self, parameters: list[Parameter]) -> dict[int, torch.Tensor]:
        """Returns the updates that were computed, by the parameter's id."""
        found: dict[int, torch.Tensor] = {}
        self._put_values(parameters)
        changed = [p for p in parameters if p.before is not None]
        if changed:
            with torch.no_grad():
                updates = torch._foreach_sub([p.now if p.is_plain else p.read(p.now) for p in changed],
                                             [p.before for p in changed])
            self.put_all([p.update for p in changed], list(updates))
            found = {id(p): update for p, update in zip(changed, updates)}
        for p in changed:
            p.before = None
        return found

    def before_update(self, updates: Updates) -> None:
        clock = self.clock
        if id(updates) in clock.stepped:
            if clock.inferring is not False:
                clock.infer_step()
            else:
                self.warn_once("several_updates", "an optimizer stepped several times in a step: gradients, updates and "
                               "weights are those of its first; deck.step() after each records them all")
        scalar = self.deck._native.scalar
        for name, group in zip(updates.rates(), updates.groups()):
            scalar(name, group["lr"])
        updates.records = id(updates) not in clock.stepped and (bool(self.handles) or self.deck._native.due(self.deck.steps + 1))
        if updates.records:
            if not self.model.training and not self.accepts_evaluation:
                self.accepts_evaluation = True
                self.note_once("training_mode", "the optimizer stepped while the model was in evaluation mode")
            self.scalar("training_mode", float(self.model.training))
            self.scalar("micro_batches", float(self.passes))
            if self.scale.wants() and self.scaler.find() is not None:
                self.scalar("loss_scale", self.scaler.scale())
            self.remember(updates.parameters(), updates)
            for each in self.derived:
                each.before_update()

    def after_update(self, updates: Updates) -> None:
        if not self.scaler.is_settled:
            self.scaler.settle()
        if updates.records:
            found = self.put_parameters(updates.parameters())
            self.guard("optimizer", updates.state.after, found)
        if self.times:
            self.since = perf_counter()
        self.evaluates_again = False
        self.drawn.clear()
        if self.clock.see_step(id(updates)) and self.deck._native.due(self.deck.steps + 2):
            self._put_on()  # to notice the next forward pass

    # ---- the deck's steps -----------------------------------------------------------------------

    def before_step(self) -> bool:
        if not self.clock.ignoring:
            try:
                self._close_step()
            except Exception as error:
                self.refuse(f"{self.prefix}step", error)
        return True

    def note_network(self) -> None:
        """The layers of the step that ends and how they are connected, once."""
        network, self.network = self.network, None
        if network is not None and network.calls:
            self.note("network", network.text(self.layers))
        elif not self.finished:
            self.network = network

    def _close_step(self) -> None:
        if self.handles:
            self.see_unseen()
        if self.network is not None:
            self.guard("network", self.note_network)
        if not self.optimizers:
            if self.handles:
                self.put_gradients(self.parameters)
                self.put_parameters(self.parameters)
                self.forgot = False
        elif self.backward_seen and not self.clock.stepped and self.loss_scale != 1:
            self.skipped += 1
            self.scalar("skipped_steps", float(self.skipped))
            self.note_once("skipped_steps", "the GradScaler skipped updates: gradients were not finite")
        if self.waiting or self.reductions.waiting:
            self.put_waiting()
        if self.twice:
            self.note_once("backward_twice", "several backward passes in a step: errors are those of the first")

    def warnings(self) -> list[str]:
        return self.loop.warnings() if self.loop is not None else []

    def leave(self) -> None:
        """Ends the recording of this model; the deck goes on."""
        self.finish()
        parts = self.deck._parts
        parts.remove(self)
        self.clock.count -= len(self.optimizers)
        if not any(isinstance(part, Watcher) for part in parts):
            parts.remove(self.clock)

    def finish(self) -> None:
        self.finished = True
        for each in self.derived:
            self.guard("derived", each.finish)
        if self.loop is not None:
            self.loop.finish()
        self.scaler.settle()
        self.guard("step", self.put_waiting)
        self._take_off()
        if self.inside is not None:
            self.inside.remove()
        for updates in self.optimizers:
            for handle in updates.handles:
                handle.remove()


def _clone_each(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


_clone = getattr(torch, "_foreach_clone", _clone_each)  # in one call, in newer versions


def _is_reached(parameter: torch.Tensor) -> bool:
    """Whether the backward pass under way gives this parameter a gradient."""
    node = parameter.grad_fn
    if node is None:  # as torch.autograd.graph.get_gradient_edge finds it
        enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(True)
        try:
            node = parameter.view_as(parameter).grad_fn.next_functions[0][0]
        finally:
            torch._C._set_grad_enabled(enabled)
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # autograd.grad() of the parameter: the loss's, unless another pass goes through it
        return not torch.is_grad_enabled()


def _is_compiled(model: torch.nn.Module) -> bool:
    def call(module: Any) -> Any:
        inside = module.__dict__.get("_compiled_call_impl")
        return inside if not isinstance(inside, Tap) or inside.call != module._call_impl else None

    return any("_orig_mod" in module._modules or call(module) is not None for module in model.modules())


def _has_compiled() -> bool:
    """Whether torch.compile has compiled something."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and sum(utils.counters["frames"].values()) > 0
