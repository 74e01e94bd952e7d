"""Every kind of training loop as one table: what is recorded of it is what autograd gives, bit for bit, and the trained
weights are those of the same loop without a recorder.

A row is a function that trains and tells an observer what happens, at the places where a loop does it:

    def loop(observer):
        model, optimizer = ...
        observer.begin(model, optimizer)        # options of tapedeck.watch may follow
        for x, y in batches():
            ...
            observer.before_update()            # gradients are what the optimizer is about to use
            optimizer.step()
            observer.after_update()
            observer.step()
        return model                            # or a list of models

It runs three times: with `Nobody`, with `Truth` (computes what has to be recorded, with `retain_grad` and copies, without
Tapedeck) and with `Recorder`. A new combination is a function with @row.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)
STEPS = 4
ROWS = {}


def row(function):
    ROWS[function.__name__] = function
    return function


# ---- Observers ------------------------------------------------------------------------------------------------


class Nobody:
    """The loop as it is without a recorder. A row may set `scale`, by which the loss is multiplied."""

    scale = 1.0

    def begin(self, model, optimizer=None, **options):
        pass

    def end_of_pass(self, model=None):
        """Outputs and errors of a step are those up to here; without it, of the whole step. With several models: of this one."""

    def inner_pass(self):
        """A backward pass that is not the loss's is over."""

    def before_update(self, model=None):
        """With several models: of this one."""

    def after_update(self, model=None):
        pass

    def step(self):
        pass

    def finish(self):
        pass


def signals_of(tensor):
    """As it is recorded: what NumPy has no type for is widened."""
    tensor = tensor.detach().clone()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


class Truth(Nobody):
    """What has to be recorded: `values[step][signal]`."""

    def __init__(self):
        self.values = {}
        self.now = {}
        self.outputs = {}  # of the open step: tensors, by label
        self.closed = set()  # prefixes of models whose pass is over
        self.steps = 0
        self.models = []

    def begin(self, model, optimizer=None, prefix="", **options):
        bare = getattr(model, "_orig_mod", model)
        bare = bare.module if isinstance(bare, nn.parallel.DistributedDataParallel) else bare
        self.models.append((bare, f"{prefix}." if prefix else ""))
        for name, module in bare.named_modules():
            if {name for name, _ in module.named_children()} <= {"parametrizations"}:
                module.register_forward_hook(self.hook(f"{prefix}." if prefix else "", name or "model"))

    def hook(self, prefix, name):
        name = prefix + name

        def after_forward(module, inputs, output):
            if prefix in self.closed or not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
                return
            call = 0
            while f"{name}@{call}" in self.outputs:
                call += 1
            label = f"{name}@{call}" if call else name
            self.outputs[f"{name}@{call}"] = label, output
            self.now[f"{label}.output"] = signals_of(output)
            if output.requires_grad:
                output.retain_grad()

        return after_forward

    def end_of_pass(self, model=None):
        for bare, prefix in self.models:
            if model is None or model is bare:
                self.closed.add(prefix)
        for key, (label, output) in list(self.outputs.items()):
            if any(key.startswith(prefix) for prefix in self.closed):
                if output.grad is not None:
                    self.now[f"{label}.error"] = signals_of(output.grad / self.scale)
                del self.outputs[key]

    def inner_pass(self):
        for _, output in self.outputs.values():
            output.grad = None

    def parameters(self, model):
        for bare, prefix in self.models:
            if model is None or model is bare:
                for name, p in bare.named_parameters():
                    yield prefix + name, p

    def before_update(self, model=None):
        self.before = {name: p.detach().clone() for name, p in self.parameters(model)}
        self.now.update((f"{name}.gradient", signals_of(p.grad)) for name, p in self.parameters(model) if p.grad is not None)

    def after_update(self, model=None):
        for name, p in self.parameters(model):
            self.now[name] = signals_of(p)
            self.now[f"{name}.update"] = signals_of(p.detach() - self.before[name])

    def step(self):
        self.end_of_pass()
        self.steps += 1
        self.values[self.steps] = self.now
        self.now, self.closed = {}, set()


class Recorder(Nobody):
    """Tapedeck."""

    def __init__(self, folder):
        self.folder = folder
        self.deck = None

    def begin(self, model, optimizer=None, **options):
        self.deck = tapedeck.watch(model, self.folder, optimizer=optimizer, deck=self.deck,
                                   **{"every": 1, "form": "tensor", **options})

    def step(self):
        self.deck.step()

    def finish(self):
        self.deck.finish()


def recorded(test, folder):
    """The values of a run, by step and signal; each is there once."""
    run = tapedeck.Run(folder)
    rows = sqlite3.connect(os.path.join(folder, "run.db")).execute(
        "select step, name from tensor join signal on signal.id = signal").fetchall()
    test.assertEqual(len(rows), len(set(rows)), "a signal is recorded twice in a step")
    values = {}
    for step, name in rows:
        values.setdefault(step, {})[name] = run[name].at(step)
    return values


def weights(models):
    models = models if isinstance(models, list) else [models]
    return [value.clone() for model in models for value in model.state_dict().values()]


def check(test, loop, folder):
    """Runs a row and compares."""
    bare = weights(loop(Nobody()))
    truth = Truth()
    test.assertTrue(all(map(torch.equal, bare, weights(loop(truth)))), "the test's own hooks change the training")
    observer = Recorder(folder)
    watched = weights(loop(observer))
    observer.finish()
    test.assertTrue(all(map(torch.equal, bare, watched)), "training with a recorder gives other weights")
    found = recorded(test, observer.deck.folder)
    test.assertEqual(sorted(found), sorted(truth.values))
    for step, values in truth.values.items():
        test.assertEqual(set(found[step]), set(values), f"step {step}")
        for name, value in values.items():
            np.testing.assert_array_equal(found[step][name], value, err_msg=f"step {step}: {name}")
    return tapedeck.Run(observer.deck.folder)


# ---- What is trained ------------------------------------------------------------------------------------------


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batches(steps=STEPS, size=5):
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size,), generator=generator)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


def update(observer, optimizer, model=None):
    observer.before_update(model)
    optimizer.step()
    observer.after_update(model)


# ---- The table ------------------------------------------------------------------------------------------------


@row
def plain(observer, model=None, optimizer=None, forward=None):
    model = model or network()
    optimizer = optimizer or sgd(model)
    observer.begin(forward or model, optimizer)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy((forward or model)(x), y).backward()
        update(observer, optimizer)
        observer.step()
    return model


@row
def adam(observer):
    model = network()
    return plain(observer, model, torch.optim.Adam(model.parameters()))


@row
def accumulation_and_clipping(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    pieces = list(batches(3 * STEPS))
    for i in range(STEPS):
        optimizer.zero_grad()
        for x, y in pieces[3 * i : 3 * i + 3]:
            (F.cross_entropy(model(x), y) / 3).backward()
            observer.end_of_pass()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        update(observer, optimizer)
        observer.step()
    return model


@row
def autocast_bfloat16(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for x, y in batches():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        update(observer, optimizer)
        observer.step()
    return model


@row
def grad_scaler(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for x, y in batches():
        observer.scale = scaler.get_scale()
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y)).backward()
        observer.end_of_pass()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        observer.before_update()
        scaler.step(optimizer)
        observer.after_update()
        scaler.update()
        observer.step()
    return model


class Shared(nn.Module):
    """Two inputs through one layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 5)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        return self.head(torch.cat([torch.tanh(self.embed(x)), torch.tanh(self.embed(-x))], 1))


@row
def shared_module(observer):
    torch.manual_seed(0)
    return plain(observer, Shared())


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.block = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.2))
        self.head = nn.Linear(6, 3)
        self.reentrant = reentrant

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return self.head(checkpoint(self.block, self.a(x), use_reentrant=self.reentrant))


@row
def checkpointing(observer):
    torch.manual_seed(0)
    return plain(observer, Checkpointed(False))


def compiled_plainly(function):
    """By dynamo, with a backend that runs the same operations: weights are comparable bit for bit."""
    torch._dynamo.reset()
    return torch.compile(function, backend="eager")


@row
def compiled_model(observer):
    model = network()
    return plain(observer, model, forward=compiled_plainly(model))


@row
def compiled_step(observer):
    """Of its first recorded step only the weights are: that it is compiled is seen then, and said."""
    model = network()
    optimizer = sgd(model)

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    compiled = compiled_plainly(step)
    data = list(batches())
    if isinstance(observer, Truth):
        compiled(*data[0])
        observer.values[1] = {name: signals_of(p) for name, p in model.named_parameters()}
        observer.steps = 1
        observer.begin(model)
        for x, y in data[1:]:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            update(observer, optimizer)
            observer.step()
        return model
    observer.begin(model, optimizer)
    for x, y in data:
        compiled(x, y)
        observer.step()
    return model


def with_closure(observer, model, optimizer, pieces=1, named=False):
    """As Lightning trains: micro-batches but for the last come before the step, the last and clipping are within it."""
    observer.begin(model, optimizer)
    data = list(batches(pieces * STEPS))
    for i in range(STEPS):
        evaluations = 0

        def closure():
            nonlocal evaluations
            if pieces == 1 or isinstance(optimizer, torch.optim.LBFGS):
                optimizer.zero_grad()
            loss = F.cross_entropy(model(data[pieces * i + pieces - 1][0]), data[pieces * i + pieces - 1][1])
            loss.backward()
            observer.end_of_pass()
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            evaluations += 1
            if evaluations == 1:
                observer.before_update()
            return loss

        if pieces > 1:
            optimizer.zero_grad()
        for x, y in data[pieces * i : pieces * i + pieces - 1]:
            F.cross_entropy(model(x), y).backward()
            observer.end_of_pass()
        optimizer.step(**{"closure": closure}) if named else optimizer.step(closure)
        observer.after_update()
        observer.step()
    return model


@row
def closure(observer):
    model = network()
    return with_closure(observer, model, sgd(model))


@row
def closure_by_name(observer):
    model = network()
    return with_closure(observer, model, torch.optim.Adam(model.parameters()), named=True)


@row
def closure_and_accumulation(observer):
    model = network()
    return with_closure(observer, model, sgd(model), pieces=3)


@row
def lbfgs(observer):
    """Its closure runs several times a step: the first evaluation counts."""
    model = network()
    return with_closure(observer, model, torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4))


def several(observer, optimizers):
    model = network()
    first, second = torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())
    observer.begin(model, optimizers(first, second))
    for x, y in batches():
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        observer.before_update()
        first.step()
        second.step()
        observer.after_update()
        observer.step()
    return model


@row
def list_of_optimizers(observer):
    return several(observer, lambda first, second: [first, second])


@row
def dict_of_optimizers(observer):
    return several(observer, lambda first, second: {"body": first, "head": second})


def critic_network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def adversaries(observer, begin):
    """A critic learns to tell rows apart, a generator to deceive it."""
    generator, critic = network(), critic_network()
    g, c = sgd(generator), torch.optim.Adam(critic.parameters())
    begin(generator, critic, g, c)
    for x, y in batches():
        c.zero_grad()
        with torch.no_grad():
            fake = generator(x)
        (F.softplus(critic(fake)) + F.softplus(-critic(x[:, :3]))).mean().backward()
        observer.end_of_pass(critic)
        update(observer, c, critic)
        g.zero_grad()
        F.softplus(-critic(generator(x))).mean().backward()
        observer.end_of_pass(generator)
        update(observer, g, generator)
        observer.step()
    return [generator, critic]


@row
def two_models(observer):
    def begin(generator, critic, g, c):
        observer.begin(generator, g, prefix="generator")
        observer.begin(critic, c, prefix="critic")

    return adversaries(observer, begin)


@row
def two_models_in_one(observer):
    def begin(generator, critic, g, c):
        if isinstance(observer, Truth):  # as the parts of one
            observer.begin(generator, prefix="generator")
            observer.begin(critic, prefix="critic")
        else:
            observer.begin(nn.ModuleDict({"generator": generator, "critic": critic}), [g, c])

    return adversaries(observer, begin)


@row
def gradient_penalty(observer):
    """The error is that of the loss, not of the pass within it."""
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for x, y in batches():
        x.requires_grad_()
        optimizer.zero_grad()
        output = model(x)
        slope, = torch.autograd.grad(output.sum(), x, create_graph=True)
        observer.inner_pass()
        (F.cross_entropy(output, y) + slope.square().mean()).backward()
        update(observer, optimizer)
        observer.step()
    return model


@row
def adversarial_examples(observer):
    """A pass to the inputs comes first; its errors are nobody's."""
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for x, y in batches():
        x.requires_grad_()
        slope, = torch.autograd.grad(F.cross_entropy(model(x), y), x)
        observer.inner_pass()
        optimizer.zero_grad()
        F.cross_entropy(model((x + 0.1 * slope.sign()).detach()), y).backward()
        update(observer, optimizer)
        observer.step()
    return model


@row
def gradients_by_hand(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for x, y in batches():
        outputs = observer.outputs.values() if isinstance(observer, Truth) else ()
        loss = F.cross_entropy(model(x), y)
        tensors = [output for _, output in outputs]
        found = torch.autograd.grad(loss, [*model.parameters(), *tensors])
        for p, gradient in zip(model.parameters(), found):
            p.grad = gradient
        for tensor, gradient in zip(tensors, found[len(list(model.parameters())) :]):
            tensor.grad = gradient
        update(observer, optimizer)
        observer.step()
    return model


@row
def spectral_norm(observer):
    """Reading the weight would change it."""
    torch.manual_seed(0)
    normal = nn.utils.parametrizations.spectral_norm
    model = nn.Sequential(normal(nn.Linear(6, 6)), nn.Tanh(), normal(nn.Linear(6, 3)))
    return plain(observer, model)


@row
def model_that_is_a_layer(observer):
    torch.manual_seed(0)
    return plain(observer, nn.Linear(6, 3))


@row
def hook_that_changes_an_output(observer):
    """What the layer's caller gets is recorded."""
    model = network()
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    return plain(observer, model)


@row
def steps_that_nobody_closes(observer):
    """A step ends with the optimizer's."""
    if isinstance(observer, Recorder):
        observer.step = lambda: None
    return plain(observer)


def ddp(observer):
    torch.manual_seed(torch.distributed.get_rank())
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(5, 6, generator=generator)), torch.arange(5) % 3).backward()
        update(observer, optimizer)
        observer.step()
    return model


class Loops(unittest.TestCase):
    """A test for each row is added below."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def test_two_processes(self):
        for name in RANKS:
            with self.subTest(name):
                environment = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000),
                                   WORLD_SIZE="2", LOOPS_ROW=name, LOOPS_FOLDER=self.path(name))
                processes = [subprocess.Popen([sys.executable, __file__], env=dict(environment, RANK=str(rank)))
                             for rank in range(2)]
                self.assertEqual([process.wait(300) for process in processes], [0, 0])


def run_rank(name):
    torch.distributed.init_process_group("gloo")
    check(unittest.TestCase(), RANKS[name], os.environ["LOOPS_FOLDER"])
    torch.distributed.destroy_process_group()


RANKS = {"ddp": ddp}  # rows that run in two processes; this file is each of them


def add_test(name, loop):
    def test(self):
        if name.startswith("compiled") and not hasattr(torch.compiler, "set_stance"):
            self.skipTest("recording what torch.compile has compiled needs PyTorch 2.6 or newer")
        check(self, loop, self.path())

    setattr(Loops, f"test_{name}", test)


for name, loop in ROWS.items():
    add_test(name, loop)

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "LOOPS_ROW" in os.environ:
        run_rank(os.environ["LOOPS_ROW"])
    else:
        unittest.main()
