"""deck.curvature against exact Hessians in double precision and finite differences; and that it changes nothing."""
import os
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))

NAMES = "hessian.max_eigenvalue,hessian.update_curvature"


def exact(model, loss_of):
    """The Hessian of a loss in all parameters, by torch.func."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    shapes = [(name, p.shape, p.numel()) for name, p in parameters.items()]

    def of(flat):
        parts = torch.split(flat, [count for *_, count in shapes])
        return loss_of(lambda x: torch.func.functional_call(model, {name: part.view(shape) for (name, shape, _), part in zip(shapes, parts)}, (x,)))

    flat = torch.cat([p.flatten() for p in parameters.values()])
    return torch.func.hessian(of)(flat), of, flat


class Curvature(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        torch.manual_seed(0)
        self.x = torch.randn(32, 6, dtype=torch.float64)
        self.y = torch.randint(0, 3, (32,))

    def watch(self, model, optimizer, name="run", every=1):
        deck = tapedeck.watch(model, os.path.join(self.folder.name, name), optimizer=optimizer, log="")
        deck.track(NAMES, every=every)
        self.addCleanup(deck.finish)
        return deck

    def test_exact_hessians_of_small_networks(self):
        for seed, activation in enumerate((nn.Tanh(), nn.GELU(), nn.Softplus())):
            torch.manual_seed(seed)
            model = nn.Sequential(nn.Linear(6, 5), activation, nn.Linear(5, 3)).double()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            deck = self.watch(model, optimizer, f"run{seed}")
            for step in range(3):
                before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
                optimizer.zero_grad()
                loss = F.cross_entropy(model(self.x), self.y)
                loss.backward()
                optimizer.step()
                found = deck.curvature(lambda: F.cross_entropy(model(self.x), self.y), iterations=3000, tolerance=1e-4)
                deck.step()
                hessian, of, now = exact(model, lambda call: F.cross_entropy(call(self.x), self.y))
                largest = torch.linalg.eigvalsh(hessian)[-1].item()
                self.assertAlmostEqual(found["hessian.max_eigenvalue"] / largest, 1, delta=1e-5)
                if step == 0:  # the first call asks the optimizer to keep what it steps from
                    self.assertNotIn("hessian.update_curvature", found)
                    continue
                d = now - before
                along = (d @ hessian @ d / (d @ d)).item()
                self.assertAlmostEqual(found["hessian.update_curvature"] / along, 1, delta=1e-5)
                unit, h = d / d.norm(), 1e-4
                difference = ((of(now + h * unit) - 2 * of(now) + of(now - h * unit)) / h**2).item()
                self.assertAlmostEqual(found["hessian.update_curvature"], difference, delta=1e-4 * max(1, abs(difference)))

    def test_the_largest_is_found_where_a_negative_one_is_greater(self):
        model = nn.Linear(4, 1, bias=False).double()
        scales = torch.tensor([-8.0, 1.0, 3.0, -2.0], dtype=torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        optimizer.zero_grad()
        model(self.x[:, :4]).sum().backward()
        optimizer.step()
        found = deck.curvature(lambda: 0.5 * (scales * model.weight[0] ** 2).sum(), iterations=500, tolerance=1e-7)
        self.assertAlmostEqual(found["hessian.max_eigenvalue"], 3, delta=1e-6)

    def train(self, curved, every=2):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        folder = os.path.join(self.folder.name, f"bits{curved}")
        deck = tapedeck.watch(model, folder, optimizer=optimizer, every=1, form="stats")
        deck.track(NAMES, every=every)
        x, found = self.x.float(), []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), self.y)
            loss.backward()
            optimizer.step()
            if curved:
                found.append(sorted(deck.curvature(lambda: F.cross_entropy(model(x), self.y))))
            deck.log(loss=loss)
            deck.step()
        deck.finish()
        state = [value.clone() for value in model.state_dict().values()] + [p.grad.clone() for p in model.parameters()]
        return state, torch.get_rng_state(), found, folder

    def test_nothing_changes_and_only_recorded_steps_cost(self):
        plain, plain_random, _, plain_folder = self.train(False)
        curved, random, found, folder = self.train(True)
        for a, b in zip(plain, curved, strict=True):
            self.assertTrue(torch.equal(a, b))
        self.assertTrue(torch.equal(plain_random, random))
        self.assertEqual(found, [[], NAMES.split(",")] * 3)  # the first call was in step 1
        recorded, alone = tapedeck.Run(folder), tapedeck.Run(plain_folder)
        np.testing.assert_array_equal(recorded["0.output"].stats["mean"], alone["0.output"].stats["mean"])
        self.assertEqual({name for name in set(recorded) - set(alone) if not name.startswith("system.")}, set(NAMES.split(",")))

    def test_attention_has_second_derivatives(self):
        model = nn.MultiheadAttention(8, 2, batch_first=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = self.watch(model, optimizer)
        x = torch.randn(2, 5, 8)

        def loss():
            return model(x, x, x, need_weights=False)[0].square().mean()

        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        self.assertGreater(deck.curvature(loss)["hessian.max_eigenvalue"], 0)

    def test_what_is_no_loss_is_an_error_that_says_so(self):
        model = nn.Linear(6, 3).double()
        deck = self.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(ValueError, "has to return the loss"):
            deck.curvature(lambda: model(self.x))
        plain = tapedeck.Deck(os.path.join(self.folder.name, "plain"))
        self.addCleanup(plain.finish)
        with self.assertRaisesRegex(ValueError, "watches no PyTorch model"):
            plain.curvature(lambda: None)


if __name__ == "__main__":
    unittest.main()
