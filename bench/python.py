"""What recording a PyTorch model costs, beside what people do by hand.

    ./dev bench python [ROUNDS]
    ./dev bench python --ranks [ROUNDS]
    ./dev bench python --loop [ROUNDS]

An MNIST-sized CNN, batch 64, one thread; every output, error, gradient, weight and update. Each variant trains a few steps
in every round, in turns; a small network beside, where the cost of a call counts, not that of a tensor. CPU time of all threads (the writer's too), and of the training thread alone, a
step; the lower quartile over the rounds, divided by the bare step's. Wall time is noise on a shared machine.

With --ranks: one process, and in turns two of DistributedDataParallel (gloo), of which each records what it computes; the mean
of the two processes.

With --loop: what the facts about the training loop cost where nothing is due to be recorded, and what the rest of `watch` costs there. One
training takes short turns: without any hooks or calls of Tapedeck, without those of the facts, and with all of them, so that all have the
same memory. CPU time of the training thread; the difference of the medians. Updates that are looked at are counted apart; together: an idle
update and a share of one that is looked at.
"""

import os
import shutil
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10),
    )


class Variant:
    steps = 6  # in a round

    def __init__(self, folder, name):
        self.folder = os.path.join(folder, name)
        self.model, self.batches = self.prepare()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.begin()

    def prepare(self):
        return network(), [(torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))) for _ in range(2)]

    def begin(self):
        pass

    def after(self):
        pass

    def rest(self):
        """Between rounds, not measured."""

    def finish(self):
        pass

    def train(self, steps):
        for i in range(steps):
            x, y = self.batches[i % 2]
            self.optimizer.zero_grad()
            self.loss = F.cross_entropy(self.model(x), y)
            self.loss.backward()
            self.optimizer.step()
            self.after()


class Watched(Variant):
    options = {}

    def begin(self):
        self.deck = tapedeck.watch(self.model, self.folder, optimizer=self.optimizer, **self.options)

    def after(self):
        self.deck.log(loss=self.loss)
        self.deck.step()

    def rest(self):
        self.deck.flush()

    def finish(self):
        self.deck.finish()


class Small:
    """An MLP 64-64-64-10, batch 32."""

    steps = 40

    def prepare(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        return model, [(torch.randn(32, 64), torch.randint(0, 10, (32,))) for _ in range(2)]


class SmallBare(Small, Variant):
    pass


class SmallStatistics(Small, Watched):
    options = {"every": 1, "form": "stats"}


class Every100(Watched):
    options = {"every": 100}


class Statistics(Watched):
    options = {"every": 1, "form": "stats"}


class Histograms(Watched):
    options = {"every": 1, "form": "histogram"}


class Tensors(Watched):
    options = {"every": 1, "form": "tensor", "queue": 2 << 30}


class ByHand(Variant):
    """Hooks for outputs and errors, the parameters after the step."""

    def begin(self):
        self.step = 0
        for name, module in self.model.named_modules():
            if name:
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def after(module, inputs, output):
            self.put(f"{name}.output", output.detach())
            output.register_hook(lambda error: self.put(f"{name}.error", error))
        return after

    def train(self, steps):
        for i in range(steps):
            before = [p.detach().clone() for p in self.model.parameters()]
            super().train(1)
            for (name, p), old in zip(self.model.named_parameters(), before):
                self.put(name, p.detach())
                self.put(f"{name}.gradient", p.grad)
                self.put(f"{name}.update", p.detach() - old)
            self.step += 1


class Histc(ByHand):
    """As wandb.watch does it."""

    def put(self, name, value):
        flat = value.reshape(-1)
        low, high = flat.min().item(), flat.max().item()
        counts = flat.histc(bins=64, min=low, max=high).tolist()
        self.kept = (name, low, high, counts)


class Summary(ByHand):
    """SummaryWriter.add_histogram."""

    def begin(self):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(self.folder)
        super().begin()

    def put(self, name, value):
        self.writer.add_histogram(name, value, self.step)


class Saved(ByHand):
    """np.save of every tensor."""

    def begin(self):
        os.makedirs(self.folder, exist_ok=True)
        super().begin()

    def put(self, name, value):
        np.save(os.path.join(self.folder, f"{name}-{self.step}.npy"), value.numpy())

    def rest(self):
        shutil.rmtree(self.folder)
        os.makedirs(self.folder)


VARIANTS = {
    "bare": Variant, "tapedeck, every 100 steps": Every100, "tapedeck, statistics every step": Statistics,
    "tapedeck, histograms every step": Histograms, "tapedeck, tensors to NPY, in bursts": Tensors,
    "histc in hooks, as wandb does": Histc, "SummaryWriter.add_histogram": Summary, "np.save": Saved,
}
SMALL = {"small MLP, bare": SmallBare, "small MLP, every step": SmallStatistics}  # alone: watchers see each other's optimizers
GOALS = {"tapedeck, every 100 steps": 1.01, "tapedeck, statistics every step": 1.10, "tapedeck, histograms every step": 1.30,
         "tapedeck, tensors to NPY, in bursts": 1.25, "small MLP, every step": 1.30}


def measure(kinds, rounds):
    """CPU time a step of each: of all threads, and of the training thread."""
    with tempfile.TemporaryDirectory() as folder:
        variants = {name: kind(folder, str(i)) for i, (name, kind) in enumerate(kinds.items())}
        for variant in variants.values():
            variant.train(variant.steps)
            variant.rest()
        every, thread = ({name: [] for name in variants} for _ in range(2))
        for _ in range(rounds):
            for name, variant in variants.items():
                process, own = time.process_time(), time.thread_time()
                variant.train(variant.steps)
                own = time.thread_time() - own
                if isinstance(variant, Watched) and not isinstance(variant, Tensors):
                    variant.rest()  # the writer's part is counted
                every[name].append((time.process_time() - process) / variant.steps)
                thread[name].append(own / variant.steps)
                variant.rest()
        for variant in variants.values():
            variant.finish()
    return {name: (np.percentile(every[name], 25), np.percentile(thread[name], 25)) for name in variants}


class Parallel:
    """Of two processes: a step of both begins and ends together, so their turns do, too."""

    def prepare(self):
        model, batches = super().prepare()
        return nn.parallel.DistributedDataParallel(model), batches


class ParallelBare(Parallel, Variant):
    pass


class ParallelEvery100(Parallel, Every100):
    pass


class ParallelStatistics(Parallel, Statistics):
    pass


class ParallelHistograms(Parallel, Histograms):
    pass


RANKS = (  # the same thing of one process and of two
    ("bare", Variant, ParallelBare), ("every 100 steps", Every100, ParallelEvery100),
    ("statistics every step", Statistics, ParallelStatistics), ("histograms every step", Histograms, ParallelHistograms),
)


def measure_rank(rank, port, rounds, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TAPEDECK_RUN="bench")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    results.put(measure({name: parallel for name, _, parallel in RANKS}, rounds))
    torch.distributed.destroy_process_group()


def compare_ranks(rounds, turns=2):
    """Turns of one process and of two; of each variant the least."""
    import socket

    found = {}
    context = torch.multiprocessing.get_context("spawn")
    for _ in range(turns):
        alone = measure({name: kind for name, kind, _ in RANKS}, rounds)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        results = context.SimpleQueue()
        torch.multiprocessing.spawn(measure_rank, (port, rounds, results), nprocs=2)
        both = [results.get() for _ in range(2)]
        for name, _, _ in RANKS:
            for count, total in (1, alone[name][0]), (2, (both[0][name][0] + both[1][name][0]) / 2):
                found[name, count] = min(total, found.get((name, count), total))
    print(f"PyTorch {torch.__version__}, CPU time a step and process, {turns} x {rounds} rounds; lower quartile, the better turn")
    print(f"{'tapedeck':<28}{'one process':>14}{'x bare':>8}{'each of two':>14}{'x bare':>8}")
    for name, _, _ in RANKS:
        one, two = found[name, 1], found[name, 2]
        print(f"{name:<28}{1e3 * one:>11.2f} ms{one / found['bare', 1]:>8.3f}{1e3 * two:>11.2f} ms{two / found['bare', 2]:>8.3f}")


class Medium:
    """An MLP whose step takes about 1 ms."""

    steps = 20

    def prepare(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
        return model, [(torch.randn(32, 256), torch.randint(0, 10, (32,))) for _ in range(2)]


class NewExamples:
    """An epoch so long that no example comes again: what is followed from epoch to epoch never ends."""

    records = True

    def after(self):
        if self.records:
            super().after()
        for x, _ in self.batches:
            x.view(len(x), -1)[:, 0].normal_()


class SmallBatch:
    """The CNN with a batch of 16: a step takes about 5 ms."""

    steps = 4

    def prepare(self):
        return network(), [(torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))) for _ in range(2)]


LOOP = {"small MLP": Small, "1 ms MLP": Medium, "CNN, batch 16": SmallBatch}
LOOP_TURNS = ("bare", "loop_checks=False", "loop facts")
LOOP_STEPS = 6  # of a turn
LOOP_WARM_UP = 300  # steps: in the first ones, a loop looks at every update


class Switch:
    """Takes what calls a deck, or its loop alone, out of a training and puts it back: each turn then has the same memory."""

    def __init__(self, variant):
        import torch.optim.optimizer as hooks

        self.variant = variant
        self.loop = next(part.loop for part in variant.deck._parts if hasattr(part, "loop"))
        self.module, self.tap = variant.model.__dict__, variant.model.__dict__["_compiled_call_impl"]
        self.backward = {False: torch.autograd.backward.__wrapped__, True: torch.autograd.backward}
        self.of_loop = [hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks]
        self.of_deck = [variant.optimizer._optimizer_step_pre_hooks, variant.optimizer._optimizer_step_post_hooks]
        self.kept = {id(hooks): dict(hooks) for hooks in self.of_loop + self.of_deck}

    def set(self, turn):
        is_whole = turn == "loop facts"
        self.variant.records = turn != "bare"
        torch.autograd.backward = self.backward[is_whole]
        self.module["_compiled_call_impl"] = self.tap if is_whole else None
        for hooks, is_on in [(each, is_whole) for each in self.of_loop] + [(each, turn != "bare") for each in self.of_deck]:
            hooks.clear()
            hooks.update(self.kept[id(hooks)] if is_on else {})


def time_turns(variant, rounds):
    """CPU time of the training thread, of each step: in the three turns, and of updates that a loop looks at."""
    variant.train(LOOP_WARM_UP)
    switch = Switch(variant)
    found = {turn: [] for turn in (*LOOP_TURNS, "looked at")}
    for _ in range(rounds):
        for turn in LOOP_TURNS:
            switch.set("loop facts")
            while variant.deck.steps % 100 > 98 - LOOP_STEPS:  # a turn records nothing
                variant.train(1)
            switch.set(turn)
            variant.train(1)
            for _ in range(LOOP_STEPS):
                kind = "looked at" if turn == "loop facts" and switch.loop.looks else turn
                start = time.thread_time()
                variant.train(1)
                found[kind].append(time.thread_time() - start)
    switch.set("loop facts")
    variant.finish()
    return {kind: np.median(times) for kind, times in found.items()}


def compare_loops(rounds):
    from tapedeck._loop import _SAMPLE_EVERY

    print(f"PyTorch {torch.__version__}, CPU time of the training thread a step, {rounds} rounds of {LOOP_STEPS} steps in turns; median")
    print(f"{'':<16}{'bare':>10}{'rest of watch':>20}{'loop facts':>17}{f'1 of {_SAMPLE_EVERY}':>12}{'together':>18}{'goal':>7}")
    for name, network in LOOP.items():
        with tempfile.TemporaryDirectory() as folder:
            time_of = time_turns(type("Turn", (NewExamples, network, Every100), {})(folder, "run"), rounds)
        bare, plain, facts, looked = time_of.values()
        costs = plain - bare, facts - plain, looked - facts, facts - plain + (looked - facts) / _SAMPLE_EVERY
        rest, idle, look, together = (f"{1e6 * cost:.1f} us" for cost in costs)
        print(f"{name:<16}{1e3 * bare:>7.3f} ms{rest:>12}{costs[0] / bare:>8.1%}{idle:>17}{look:>12}"
              f"{together:>10}{costs[3] / bare:>8.1%}{'2 %' if network is not Small else '':>7}")


def main(rounds):
    print(f"PyTorch {torch.__version__}, CPU time a step, {rounds} rounds; lower quartile")
    print(f"{'':<40}{'all threads':>13}{'x bare':>8}{'training thread':>17}{'x bare':>8}{'goal':>7}")
    for kinds in (VARIANTS, SMALL):
        quartile = measure(kinds, rounds)
        bare = next(iter(quartile.values()))
        for name, (total, own) in quartile.items():
            goal = f"{GOALS[name]:.2f}" if name in GOALS else ""
            print(f"{name:<40}{1e3 * total:>10.2f} ms{total / bare[0]:>8.3f}{1e3 * own:>14.2f} ms{own / bare[1]:>8.3f}{goal:>7}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--ranks" in arguments:
        arguments.remove("--ranks")
        compare_ranks(int(arguments[0]) if arguments else 10)
    elif "--loop" in arguments:
        arguments.remove("--loop")
        compare_loops(int(arguments[0]) if arguments else 400)
    else:
        main(int(arguments[0]) if arguments else 20)
