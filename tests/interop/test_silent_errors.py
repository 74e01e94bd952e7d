"""Training programs with a mistake that raises no error, and plain ones: what `tapedeck diagnose` says of each."""

import copy
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import tapedeck

torch.set_num_threads(1)
TAPEDECK = os.environ["TAPEDECK"]


def data(rows=96, columns=8, classes=3):
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
    return x, (x[:, :classes]).argmax(1)


def loader(shuffle=True, batch_size=16, **options):
    generator = torch.Generator().manual_seed(2)
    return DataLoader(TensorDataset(*data()), batch_size=batch_size, shuffle=shuffle, generator=generator, **options)


def network(*middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *middle, nn.Linear(16, 3))


class Stream(IterableDataset):
    """Rows in their order, all of them from every worker."""

    def __iter__(self):
        return iter(list(zip(*data())))


class ShareOfStream(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        return itertools.islice(zip(*data()), worker.id if worker else 0, None, worker.num_workers if worker else 1)


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def watch(self, model, optimizer, **options):
        return tapedeck.watch(model, os.path.join(self.folder.name, "run"), optimizer=optimizer, form="stats", **options)

    def train(self, model, optimizer, batches, *, steps=6, after=None, deck=None, mode=True):
        """A plain loop; `after` is called at the end of every step."""
        deck = deck or self.watch(model, optimizer)
        for x, y in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            deck.log(loss=loss)
            deck.step()
            if after:
                after()
        deck.finish()
        return deck

    def findings(self, deck):
        out = subprocess.run([TAPEDECK, "diagnose", deck.folder, "--json"], capture_output=True, text=True, timeout=60)
        self.assertIn(out.returncode, (0, 1), out.stderr)
        found = json.loads(out.stdout)
        self.assertFalse([text for text in found["notes"] if "loop" in text], found["notes"])
        return found["findings"]

    def assert_found(self, deck, rule, *, layer=None, confidence=("sure", "likely")):
        found = self.findings(deck)
        self.assertIn(rule, [f["rule"] for f in found])
        self.assertEqual({f["rule"] for f in found if f["confidence"] != "maybe"} - {rule}, set())
        finding = next(f for f in found if f["rule"] == rule)
        self.assertIn(finding["confidence"], confidence)
        self.assertTrue(finding["evidence"][0]["text"])
        self.assertTrue(finding["remedy"])
        if layer:
            self.assertEqual(finding["layer"], layer)
        return finding

    def assert_silent(self, deck):
        """But for the remark that so few steps are too few."""
        found = [(f["rule"], f["confidence"]) for f in self.findings(deck)]
        self.assertEqual([f for f in found if f != ("too_few_epochs", "maybe")], [])


class Planted(Cases):
    """Two steps are enough, but where a comment says otherwise."""

    def test_parameter_without_gradient(self):
        class Cut(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 3)

            def forward(self, x):
                return self.last(torch.relu(self.first(x)).detach())

        model = Cut()
        deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(), steps=2)
        finding = self.assert_found(deck, "parameter_without_gradient", layer="first")
        self.assertIn("first.weight, first.bias", finding["evidence"][0]["text"])

    def test_parameter_that_never_changes(self):
        model = network()
        kept = model[0].weight.detach().clone()

        def restore():
            with torch.no_grad():
                model[0].weight.copy_(kept)

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.register_step_post_hook(lambda *_: restore())
        deck = self.train(model, optimizer, loader(), steps=2)
        self.assert_found(deck, "parameter_unchanged", layer="0")

    def test_parameter_in_no_optimizer(self):
        model = network()
        deck = self.train(model, torch.optim.Adam(model[0].parameters(), lr=0.01), loader(), steps=2)
        self.assert_found(deck, "parameter_without_optimizer", layer="2")

    def test_zero_grad_is_missing(self):
        model, (x, y) = network(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        deck = self.watch(model, optimizer)
        for i in range(2):
            F.cross_entropy(model(x[i * 16 : i * 16 + 16]), y[i * 16 : i * 16 + 16]).backward()
            optimizer.step()
            deck.step()
        deck.finish()
        self.assertEqual(self.assert_found(deck, "gradients_added_up")["since_step"], 2)

    def test_zero_grad_after_backward(self):
        for set_to_none in (True, False):
            model, (x, y) = network(), data()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            deck = self.watch(model, optimizer)
            for i in range(2):
                F.cross_entropy(model(x[i * 16 : i * 16 + 16]), y[i * 16 : i * 16 + 16]).backward()
                optimizer.zero_grad(set_to_none=set_to_none)
                optimizer.step()
                deck.step()
            deck.finish()
            self.assert_found(deck, "gradients_cleared")

    def test_optimizer_before_the_model_was_changed(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model[-1] = nn.Linear(16, 3)
        deck = self.train(model, optimizer, loader(), steps=2)
        self.assert_found(deck, "stale_optimizer", layer="2")

    def test_optimizer_before_the_model_was_exchanged(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.train(copy.deepcopy(model), optimizer, loader(), steps=2)
        self.assert_found(deck, "stale_optimizer")

    def test_the_model_is_changed_after_watch(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        model[-1] = nn.Linear(16, 3)
        self.train(model, optimizer, loader(), steps=2, deck=deck)
        self.assert_found(deck, "stale_optimizer", layer="2")

    def test_evaluation_mode_while_training(self):
        model = network(nn.Dropout(0.2)).eval()
        deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(), steps=2)
        self.assert_found(deck, "evaluation_mode")

    def test_evaluation_mode_is_left_on_after_validation(self):
        model, batches = network(nn.BatchNorm1d(16)), loader()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for epoch in range(2):
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                deck.step()
            model.eval()
            with torch.no_grad():
                model(data()[0])
        deck.finish()
        self.assertEqual(self.assert_found(deck, "evaluation_mode")["since_step"], 7)

    def test_training_mode_while_validating(self):
        model = network(nn.Dropout(0.2))

        def validate():
            with torch.no_grad():
                model(data()[0])

        deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(), steps=2, after=validate)
        self.assert_found(deck, "training_mode")

    def test_loss_is_detached(self):
        model, (x, y) = network(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for _ in range(2):
            optimizer.zero_grad()
            loss = torch.tensor(F.cross_entropy(model(x), y).item(), requires_grad=True)
            loss.backward()
            optimizer.step()
            deck.log(loss=loss)
            deck.step()
        deck.finish()
        self.assert_found(deck, "detached_loss")

    def test_scheduler_before_the_optimizer(self):
        model, batches = network(), loader()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        deck = self.watch(model, optimizer)
        for x, y in itertools.islice(batches, 2):
            scheduler.step()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            deck.step()
        deck.finish()
        self.assert_found(deck, "scheduler_before_optimizer")

    def test_scheduler_per_batch(self):  # within the first epoch
        for make in (lambda o: torch.optim.lr_scheduler.StepLR(o, 3),
                     lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5),
                     lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 5)):
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            deck = self.watch(model, optimizer)
            self.train(model, optimizer, loader(batch_size=4), steps=24, after=make(optimizer).step, deck=deck)
            self.assert_found(deck, "scheduler_per_batch")

    def clipped(self, limit, steps):
        model, batches = network(), loader()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for x, y in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            deck.step()
        deck.finish()
        return deck

    def test_clipping_always(self):  # needs a few steps
        self.assert_found(self.clipped(1e-3, 24), "clipping_always")

    def test_clipping_never(self):  # needs a hundred
        self.assert_found(self.clipped(1e4, 110), "clipping_never", confidence=("maybe",))

    def scaled(self, *, unscale, factor=1.0, steps=2, clip=True):
        model, batches = network(), loader()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        deck = self.watch(model, optimizer)
        for x, y in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y) * factor).backward()
            if unscale:
                scaler.unscale_(optimizer)
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            deck.step()
        deck.finish()
        return deck

    def test_clipping_before_unscaling(self):
        self.assert_found(self.scaled(unscale=False), "clipping_before_unscaling")

    def test_mixed_precision_overflows(self):  # a few skipped steps are usual
        deck = self.scaled(unscale=True, clip=False, factor=math.inf, steps=9)
        self.assert_found(deck, "skipped_updates")

    def test_the_same_batch_again_and_again(self):
        model, batches = network(), loader(shuffle=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for _ in range(2):
            x, y = next(iter(batches))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            deck.step()
        deck.finish()
        self.assert_found(deck, "repeated_batch")

    def test_workers_repeat_data(self):
        model = network()
        batches = DataLoader(Stream(), batch_size=8, num_workers=2)
        deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, steps=6)
        self.assert_found(deck, "workers_repeat_data")

    def test_labels_are_shuffled_apart(self):  # the second epoch shows it
        model, (x, y) = network(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for _ in range(4):
            x = x[torch.randperm(len(x))]
            for i in range(0, len(x), 16):
                optimizer.zero_grad()
                F.cross_entropy(model(x[i : i + 16]), y[i : i + 16]).backward()
                optimizer.step()
                deck.step()
        deck.finish()
        self.assert_found(deck, "labels_shuffled")

    def test_replicas_drift_apart(self):
        """Two processes that each train their own model; then with DistributedDataParallel."""
        for wrap in (False, True):
            folder = os.path.join(self.folder.name, f"ranks{wrap:d}")
            os.mkdir(folder)
            workers = [subprocess.Popen([sys.executable, "-W", "ignore", os.path.abspath(__file__), "rank", str(rank), folder,
                                         str(int(wrap))]) for rank in range(2)]
            self.assertEqual([worker.wait(120) for worker in workers], [0, 0])
            out = subprocess.run([TAPEDECK, "diagnose", os.path.join(folder, "run"), "--json"], capture_output=True, text=True)
            rules = [f["rule"] for f in json.loads(out.stdout)["findings"]]
            self.assertEqual(rules, [] if wrap else ["replicas_drift"])

    def test_weight_tying_is_broken(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
                self.head.weight = self.embedding.weight

            def forward(self, x):
                return self.head(self.embedding(x).mean(1))

        x = torch.randint(0, 12, (64, 5), generator=torch.Generator().manual_seed(0))
        batches = DataLoader(TensorDataset(x, x[:, 0]), batch_size=8)

        def copied(model):
            model.head.weight = nn.Parameter(model.embedding.weight.detach().clone())

        def wrapped(model):
            model.head.weight = nn.Parameter(model.embedding.weight)

        for breaks in (copied, wrapped):
            model = Tied()
            breaks(model)
            deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, steps=2)
            self.assert_found(deck, "broken_weight_tying")
        model = Tied()
        deck = self.watch(model, None)
        copied(model)
        self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, steps=2, deck=deck)
        self.assert_found(deck, "broken_weight_tying")
        model = Tied()
        self.assert_silent(self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, steps=20))

    def test_batch_normalisation_of_one(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
        batches = DataLoader(TensorDataset(torch.randn(20, 1, 6, 6), torch.arange(20) % 2), batch_size=1)
        deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.01), batches, steps=2)
        self.assert_found(deck, "batch_norm_of_one")

    def test_dropout_in_evaluation(self):
        class Functional(nn.Module):
            def __init__(self, drop):
                super().__init__()
                self.first, self.last, self.drop = nn.Linear(8, 16), nn.Linear(16, 3), drop

            def forward(self, x):
                return self.last(self.drop(self, torch.relu(self.first(x))))

        def attention(model, x):
            q = x.reshape(-1, 1, 4, 4)
            return F.scaled_dot_product_attention(q, q, q, dropout_p=0.1).flatten(1)

        for drop, found in ((lambda model, x: F.dropout(x, 0.2), True), (attention, True),
                            (lambda model, x: F.dropout(x, 0.2, model.training), False)):
            model = Functional(drop)

            def validate():
                model.eval()
                with torch.no_grad():
                    model(data()[0])
                model.train()

            deck = self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(), steps=2, after=validate)
            if found:
                self.assert_found(deck, "dropout_in_evaluation")
            else:
                self.assert_silent(deck)

    def test_learning_rate_of_a_group_is_zero(self):
        model = network()
        optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2:].parameters()}], lr=0.1)
        self.assert_found(self.train(model, optimizer, loader(), steps=2), "zero_learning_rate")


class Plain(Cases):
    def test_a_plain_loop_with_validation(self):
        model, batches = network(nn.Dropout(0.2)), loader()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        deck = self.watch(model, optimizer)
        for _ in range(5):
            model.train()
            for x, y in batches:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                deck.log(loss=loss)
                deck.step()
            scheduler.step()
            model.eval()
            with torch.no_grad():
                model(data()[0])
        deck.finish()
        self.assert_silent(deck)

    def test_all_data_at_once(self):
        model, (x, y) = network(), data()
        self.assert_silent(self.train(model, torch.optim.Adam(model.parameters(), lr=0.01), [(x, y)], steps=40))

    def test_accumulation(self):
        model, batches = network(), loader()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        for i, (x, y) in enumerate(itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), 24)):
            (F.cross_entropy(model(x), y) / 3).backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
                deck.step()
        deck.finish()
        self.assert_silent(deck)

    def test_mixed_precision(self):
        for enabled in (False, True):
            model, batches = network(nn.LayerNorm(16)), loader()
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            scaler = torch.amp.GradScaler("cpu", enabled=enabled)
            deck = self.watch(model, optimizer)
            for x, y in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), 30):
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                deck.log(loss=loss)
                deck.step()
            deck.finish()
            self.assert_silent(deck)

    def test_schedules_that_count_batches(self):
        for make in (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=60),
                     lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: min(1, step / 10) * (1 - step / 61)),
                     lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 60),
                     lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 6),
                     lambda o: torch.optim.lr_scheduler.SequentialLR(o, [
                         torch.optim.lr_scheduler.LinearLR(o, 0.01, total_iters=6),
                         torch.optim.lr_scheduler.CosineAnnealingLR(o, 54)], [6])):
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            deck = self.watch(model, optimizer)
            self.train(model, optimizer, loader(), steps=60, after=make(optimizer).step, deck=deck)
            self.assertEqual([f["rule"] for f in self.findings(deck) if f["rule"].startswith(("scheduler", "zero"))], [])

    def test_a_frozen_backbone(self):
        model = network(nn.BatchNorm1d(16))
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)
        trained = [p for p in model.parameters() if p.requires_grad]
        self.assert_silent(self.train(model, torch.optim.SGD(trained, lr=0.05), loader(), steps=30))
        model = network()  # without saying so: a remark, no alarm
        found = self.findings(self.train(model, torch.optim.SGD(model[2:].parameters(), lr=0.05), loader(), steps=30))
        self.assertEqual([(f["rule"], f["confidence"]) for f in found], [("parameter_without_optimizer", "maybe")])

    def test_two_optimizers_and_two_losses(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.body, self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 2)

            def forward(self, x):
                hidden = torch.relu(self.body(x))
                return self.a(hidden), self.b(hidden)

        model, batches = Two(), loader()
        first = torch.optim.Adam(model.body.parameters(), lr=0.01)
        second = torch.optim.SGD(itertools.chain(model.a.parameters(), model.b.parameters()), lr=0.1)
        deck = self.watch(model, first)
        for x, y in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), 40):
            first.zero_grad()
            second.zero_grad()
            a, b = model(x)
            (F.cross_entropy(a, y) + F.cross_entropy(b, y % 2)).backward()
            first.step()
            second.step()
            deck.step()
        deck.finish()
        self.assert_silent(deck)

    def test_a_closure(self):
        model, (x, y) = network(), data()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        deck = self.watch(model, optimizer)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        for _ in range(5):
            optimizer.step(closure)
            deck.step()
        deck.finish()
        self.assert_silent(deck)

    def test_an_adversary(self):
        """Two models, of which the second one's backward pass goes through the first."""
        torch.manual_seed(0)
        judge, maker = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)), nn.Linear(4, 8)
        judge_optimizer, maker_optimizer = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (judge, maker))
        decks = [tapedeck.watch(m, os.path.join(self.folder.name, name), optimizer=o, form="stats")
                 for m, name, o in ((judge, "judge", judge_optimizer), (maker, "maker", maker_optimizer))]
        for x, _ in itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader())), 30):
            judge_optimizer.zero_grad()
            made = maker(torch.randn(len(x), 4))
            ones, zeros = torch.ones(len(x), 1), torch.zeros(len(x), 1)
            (F.binary_cross_entropy_with_logits(judge(x), ones)
             + F.binary_cross_entropy_with_logits(judge(made.detach()), zeros)).backward()
            judge_optimizer.step()
            maker_optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(judge(made), ones).backward()
            maker_optimizer.step()
            for deck in decks:
                deck.step()
        for deck in decks:
            deck.finish()
            self.assert_silent(deck)

    def test_workers_that_share(self):
        model = network()
        batches = DataLoader(ShareOfStream(), batch_size=8, num_workers=2)
        self.assert_silent(self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, steps=24))

    def test_layers_that_begin_alike(self):
        """nn.TransformerEncoder copies its layer."""
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(40, 2))
        batches = DataLoader(TensorDataset(torch.randn(64, 5, 8), torch.arange(64) % 2), batch_size=8, shuffle=True)
        self.assert_silent(self.train(model, torch.optim.Adam(model.parameters(), lr=1e-3), batches, steps=30))

    def test_torch_is_left_as_it_was(self):
        before = (F.cross_entropy, nn.utils.clip_grad_norm_, DataLoader.__iter__, torch.optim.lr_scheduler.StepLR.step)
        model = network()
        self.train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader(), steps=2)
        after = (F.cross_entropy, nn.utils.clip_grad_norm_, DataLoader.__iter__, torch.optim.lr_scheduler.StepLR.step)
        self.assertEqual([a is b for a, b in zip(before, after)], [True] * 4)
        self.assertFalse(model._forward_pre_hooks or model._forward_hooks or model[0].weight._backward_hooks)


def rank_main(rank, folder, wrap):
    """One of two processes: its own data, the same model."""
    import torch.distributed as distributed

    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = network()
    model = nn.parallel.DistributedDataParallel(model) if wrap else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    deck = tapedeck.watch(model, os.path.join(folder, "run"), optimizer=optimizer, form="stats")
    x, y = data()
    batches = DataLoader(TensorDataset(x[rank::2], y[rank::2]), batch_size=8)
    for x, y in itertools.islice(batches, 4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        deck.step()
    deck.finish()
    distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1")
    else:
        unittest.main()
