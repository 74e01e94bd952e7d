"""tapedeck.diagnose: suspected causes are tried out on copies, and nothing of the caller's changes."""

import copy
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tapedeck

torch.set_num_threads(1)


def setting(rate, scale=1.0, **options):
    torch.manual_seed(3)
    y = torch.randint(0, 4, (320,))
    x = (torch.randn(4, 10)[y] * 1.5 + torch.randn(320, 10)) * scale
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    return model, torch.optim.Adam(model.parameters(), lr=rate, **options), F.cross_entropy, loader


class Trials(unittest.TestCase):
    def causes(self, *arguments, **options):
        return [(f.cause, f.confidence) for f in tapedeck.diagnose(*arguments, **options).findings if f.confidence != "maybe"]

    def test_a_healthy_training_raises_nothing(self):
        self.assertEqual(self.causes(*setting(3e-3)), [])

    def test_a_rate_too_low_is_tried(self):
        found = tapedeck.diagnose(*setting(1e-7), steps=60).findings
        self.assertEqual((found[0].cause, found[0].confidence), ("learning_rate_too_low", "sure"))
        self.assertRegex(found[0].evidence[-1]["text"], r"tried for 60 steps: loss .* instead of .* with lr=0.001 \(from 1e-07\)")

    def test_a_rate_too_high_is_tried(self):
        self.assertIn("learning_rate_too_high", [cause for cause, _ in self.causes(*setting(3.0))])

    def test_eps_is_tried(self):
        self.assertEqual(self.causes(*setting(3e-3, eps=1.0))[0], ("wrong_optimizer", "sure"))

    def test_nothing_of_the_callers_changes(self):
        model, optimizer, loss, loader = setting(3e-3)
        F.cross_entropy(model(loader.dataset.tensors[0]), loader.dataset.tensors[1]).backward()
        optimizer.step()
        before, state, draw = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()), torch.get_rng_state()
        tapedeck.diagnose(model, optimizer, loss, loader, steps=20)
        self.assertTrue(torch.equal(torch.get_rng_state(), draw))
        self.assertEqual([key for key, value in model.state_dict().items() if not torch.equal(value, before[key])], [])
        self.assertEqual(str(optimizer.state_dict()), str(state))
        self.assertFalse(model._forward_hooks or model._forward_pre_hooks)

    def test_what_it_cannot_take_is_said(self):
        model, optimizer, loss, loader = setting(3e-3)
        for wrong, text in ((iter(loader), "read again"), ([], "no batches"), ([torch.ones(3)], r"\(inputs, target\)")):
            with self.assertRaisesRegex((TypeError, ValueError), text):
                tapedeck.diagnose(model, optimizer, loss, wrong)
        with self.assertRaisesRegex(TypeError, "Keras"):
            tapedeck.diagnose(object(), optimizer, loss, loader)


if __name__ == "__main__":
    unittest.main()
