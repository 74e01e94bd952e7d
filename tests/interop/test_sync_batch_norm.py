"""Batch normalisation over all shards (`sync: true`) against PyTorch: what SyncBatchNorm computes over its processes is BatchNorm of the
whole batch, which PyTorch has on the CPU (SyncBatchNorm itself wants a GPU). Every tensor is within 1e-6."""
import os
import subprocess
import tempfile
import unittest

import numpy as np
import torch
from torch import nn

EXPERIMENT = """
name: run
data: {train: x.npy, labels: y.npy, batch: 24, shuffle: false}
model:
- conv2d: {name: conv, filters: 5, kernel_size: 3}
- batch_normalization: {name: norm, sync: true, momentum: 0.9, epsilon: 1e-5}
- relu: {name: act}
- flatten: {name: flat}
- dense: {name: hidden, units: 6}
- batch_normalization: {name: again, sync: true, momentum: 0.9, epsilon: 1e-5}
- dense: {name: logits, units: 3}
train: {loss: {sparse_categorical_crossentropy: {from_logits: true}}, optimizer: {sgd: {learning_rate: 0.1}}, shards: 8, steps: 1}
record: [{what: "*", every: 1 step, to: [npy]}]
"""


class Sync(unittest.TestCase):
    def test_values_and_gradients_are_pytorchs(self):
        random = np.random.default_rng(2)
        with tempfile.TemporaryDirectory() as folder:
            x = (3 * random.standard_normal((24, 7, 7, 2)) + 5).astype(np.float32)
            y = random.integers(0, 3, 24).astype(np.int32)
            np.save(os.path.join(folder, "x.npy"), x)
            np.save(os.path.join(folder, "y.npy"), y)
            with open(os.path.join(folder, "run.yaml"), "w", encoding="utf-8") as file:
                file.write(EXPERIMENT)
            subprocess.run([os.environ["TAPEDECK"], "train", "run.yaml", "--quiet"], cwd=folder, check=True)

            def recorded(name):
                return np.load(os.path.join(folder, "runs", "run", name + ".npy"))[0]

            def before(name):
                return torch.tensor(recorded(name) - recorded(name + ".update"))
            norms = [nn.BatchNorm2d(5, eps=1e-5, momentum=0.1), nn.BatchNorm1d(6, eps=1e-5, momentum=0.1)]
            layers = [nn.Conv2d(2, 5, 3), norms[0], nn.ReLU(), nn.Flatten(), nn.Linear(125, 6), norms[1], nn.Linear(6, 3)]
            names = ["conv", "norm", "act", "flat", "hidden", "again", "logits"]
            with torch.no_grad():
                layers[0].weight.copy_(before("conv.kernel").permute(3, 2, 0, 1))
                layers[4].weight.copy_(before("hidden.kernel").reshape(5, 5, 5, 6).permute(3, 2, 0, 1).reshape(6, 125))
                layers[6].weight.copy_(before("logits.kernel").T)
                for i in (0, 4, 6):
                    layers[i].bias.zero_()
            outputs = [torch.tensor(x).permute(0, 3, 1, 2)]
            for layer in layers:
                outputs.append(layer(outputs[-1]))
                outputs[-1].retain_grad()
            loss = nn.functional.cross_entropy(outputs[-1], torch.tensor(y, dtype=torch.long))
            loss.backward()
            self.assertAlmostEqual(loss.item(), float(recorded("loss")), delta=1e-6)

            def last(tensor):
                return tensor.detach().permute(0, 2, 3, 1).numpy() if tensor.ndim == 4 else tensor.detach().numpy()
            for i, name in enumerate(names):
                if name != "flat":  # another order of the same values
                    np.testing.assert_allclose(recorded(f"{name}.output"), last(outputs[i + 1]), rtol=1e-5, atol=1e-6, err_msg=name)
                    np.testing.assert_allclose(recorded(f"{name}.error"), last(outputs[i + 1].grad), atol=1e-6, err_msg=name)
            for name, norm, count in (("norm", norms[0], 24 * 25), ("again", norms[1], 24)):
                np.testing.assert_allclose(recorded(f"{name}.gamma.gradient"), norm.weight.grad.numpy(), atol=1e-6)
                np.testing.assert_allclose(recorded(f"{name}.beta.gradient"), norm.bias.grad.numpy(), atol=1e-6)
                np.testing.assert_allclose(recorded(f"{name}.moving_mean"), norm.running_mean.numpy(), rtol=1e-6, atol=1e-6)
                variance = 0.9 + (norm.running_var.numpy() - 0.9) * (count - 1) / count  # PyTorch divides by count - 1
                np.testing.assert_allclose(recorded(f"{name}.moving_variance"), variance, rtol=2e-6, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
