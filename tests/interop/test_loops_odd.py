"""Rows of test_loops.py's table for loops that are written less often: the model or the optimizer changes while it trains,
others have hooks on the same modules, something raises.

`check` compares every recorded value with autograd; rows of UNCHANGED only compare the training itself, with and without a
recorder, bit for bit."""

import os
import sys
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_loops import Nobody, Recorder, batches, check, network, plain, sgd, update, weights  # noqa: E402

warnings.simplefilter("ignore")
ROWS, UNCHANGED = {}, {}


def row(function):
    ROWS[function.__name__] = function
    return function


def unchanged(function):
    UNCHANGED[function.__name__] = function
    return function


@unchanged
def functional_gradients(observer):
    """torch.func: the model is called within a transform, and there is no backward()."""
    model = network()
    observer.begin(model)

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)

    for x, y in batches():
        parameters = dict(model.named_parameters())
        gradients = torch.func.grad(loss_of)(parameters, x, y)
        torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))(parameters, x[:, None], y[:, None])
        with torch.no_grad():
            for name, p in parameters.items():
                p -= 0.1 * gradients[name]
        observer.step()
    return model


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2)), nn.Linear(8, 3)

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        return self.head(checkpoint(self.second, torch.tanh(self.first(x)), use_reentrant=False))


@unchanged
def checkpointing_and_mixed_precision_and_accumulation(observer):
    torch.manual_seed(0)
    model = Checkpointed()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    observer.begin(model, optimizer)
    for i, (x, y) in enumerate(batches(12)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y) / 3
        scaler.scale(loss).backward()
        if i % 3 == 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            observer.step()
    return model


@row
def averaged_weights(observer):
    """An exponential moving average and SWA beside the model, both deep copies of it, and their batch statistics."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = sgd(model)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
    observer.begin(model, optimizer)
    moving = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    mean = torch.optim.swa_utils.AveragedModel(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        update(observer, optimizer)
        schedule.step()
        moving.update_parameters(model)
        mean.update_parameters(model)
        observer.step()
    torch.optim.swa_utils.update_bn(((x, y) for x, y in batches()), mean)
    return [model, moving, mean]


@unchanged
def frozen_in_between(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for i, (x, y) in enumerate(batches(8)):
        model[0].requires_grad_(i < 3 or i > 5)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        update(observer, optimizer)
        observer.step()
    return model


@unchanged
def parameters_added_in_between(observer):
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for i, (x, y) in enumerate(batches(6)):
        if i == 3:
            torch.manual_seed(1)
            model.append(nn.Linear(3, 3))
            optimizer.add_param_group({"params": model[-1].parameters(), "lr": 0.02})
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        observer.step()
    return model


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(12, 6), nn.Linear(6, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(torch.tanh(self.embedding((x.abs() * 4).long().clamp(max=11)).mean(1)))


@row
def tied_weights(observer):
    torch.manual_seed(0)
    return plain(observer, Tied())


@row
def data_parallel_on_the_cpu(observer):
    model = network()
    optimizer = sgd(model)
    parallel = nn.DataParallel(model)
    observer.begin(model, optimizer)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(parallel(x), y).backward()
        update(observer, optimizer)
        observer.step()
    return model


@unchanged
def hooks_of_others(observer):
    """They are added before and after the recorder's, change what they see, and are removed again."""
    model = network()
    optimizer = sgd(model)
    seen = []
    model[0].register_forward_hook(lambda module, inputs, output: output * 1.5)
    early = model[2].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0.5,))
    observer.begin(model, optimizer)
    model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    late = model[1].register_forward_hook(lambda module, inputs, output: output + 0.25)
    model[1].register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 2,))
    optimizer.register_step_post_hook(lambda *_: seen.append(float(model[0].weight.detach().sum())))
    for i, (x, y) in enumerate(batches(6)):
        optimizer.zero_grad()
        output = model(x)
        output.register_hook(lambda gradient: gradient * 0.9)
        F.cross_entropy(output, y).backward()
        optimizer.step()
        observer.step()
        if i == 2:
            early.remove()
            late.remove()
    model.register_buffer("seen", torch.tensor(seen))
    return model


@unchanged
def another_type_in_between(observer):
    """model.double() and model.half() give the same parameters other memory."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    observer.begin(model, optimizer)
    for i, (x, y) in enumerate(batches(6)):
        kind = (torch.float32, torch.float64, torch.float16)[i // 2]
        model.to(kind)
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(kind)).float(), y).backward()
        optimizer.step()
        observer.step()
    return model


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("in the backward pass")


@unchanged
def exceptions_that_are_caught(observer):
    """In the forward pass, in the backward pass, in the optimizer's closure; the loop goes on with the next batch."""
    model = network()
    optimizer = sgd(model)
    observer.begin(model, optimizer)
    for i, (x, y) in enumerate(batches(8)):
        optimizer.zero_grad()
        try:
            if i == 2:
                model(x[:, :5])
            output = model(x)
            if i == 4:
                output = Fails.apply(output)
            loss = F.cross_entropy(output, y)
            if i == 5:
                loss.backward()
                optimizer.step(lambda: 1 / 0)
            loss.backward()
            optimizer.step()
        except (RuntimeError, ZeroDivisionError):
            continue
        observer.step()
    return model


class Odd(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)


def add_test(name, loop, compares):
    def test(self):
        if compares:
            check(self, loop, self.path())
            return
        bare = weights(loop(Nobody()))
        observer = Recorder(self.path())
        watched = weights(loop(observer))
        observer.finish()
        self.assertEqual(len(bare), len(watched))
        self.assertTrue(all(map(torch.equal, bare, watched)), "training with a recorder gives other weights")

    setattr(Odd, f"test_{name}", test)


for table, compares in ((ROWS, True), (UNCHANGED, False)):
    for name, loop in table.items():
        add_test(name, loop, compares)

if __name__ == "__main__":
    unittest.main()
