"""Forty networks exported by torch.export: outputs are PyTorch's, with any batch and with the one of the export, and
gradients are."""
import os
import sys
import unittest
import warnings

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from exported_networks import NETWORKS, example  # noqa: E402
from program import Case  # noqa: E402

TURNED = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def make(name):
    torch.manual_seed(0)
    maker, shape, ids, batch = NETWORKS[name]
    model = maker().eval()
    for part in model.modules():
        if getattr(part, "running_mean", None) is not None:
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return model, example(shape, ids), batch


class Networks(Case):
    def export(self, model, x, batch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=512)},) if batch else None)
        torch.export.save(program, self.path("model.pt2"))
        numpy.save(self.path("x.npy"), x.numpy())

    def check_outputs(self, name):
        model, x, batch = make(name)
        wanted = model(x).detach().numpy()
        for any_batch in (True, False) if batch else (False,):
            self.export(model, x, any_batch)
            for count in (len(x), 1) if any_batch else (len(x),):
                numpy.save(self.path("x.npy"), x.numpy()[:count])
                layout = ("--layout", "channels_first") if x.dim() == 4 else ()
                self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", "--force", *layout)
                scale = max(1, numpy.abs(wanted).max())
                numpy.testing.assert_allclose(numpy.load(self.path("y.npy")) / scale, wanted[:count] / scale, atol=1e-5,
                                              err_msg=f"{name}, batch {any_batch}, {count}")

    def check_gradients(self, name):
        model, x, batch = make(name)
        self.export(model, x, batch)
        x.requires_grad_(x.is_floating_point())
        y = model(x)
        labels = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        # Images have their channels last within; what a reshape ends with stays as it is.
        turned = TURNED[4] if y.dim() == x.dim() == 4 and name not in ("MaxVit", "ShuffleNet") else range(y.dim())
        numpy.save(self.path("labels.npy"), labels.numpy().transpose(*turned))
        torch.nn.functional.mse_loss(y, labels).backward()
        layout = ("--layout", "channels_first") if x.dim() == 4 else ()
        self.run_program("gradients", "model.pt2", "x.npy", "--labels", "labels.npy", "--loss", "mse", "--batch", str(len(x)),
                         "--layer", "*,input" if x.grad is not None else "*", "--to", "g.npz", "--force", "--quiet", *layout)
        with numpy.load(self.path("g.npz")) as file:
            ours = {key: file[key] for key in file.files}
        if x.grad is not None:
            wanted, got = x.grad.numpy(), ours["input.error"]
            orders = [wanted, *([wanted.transpose(TURNED[wanted.ndim])] if wanted.ndim in TURNED else [])]
            apart = min(numpy.abs(got - order).max() for order in orders if order.shape == got.shape)
            self.assertLess(apart, 1e-5 * max(1, numpy.abs(wanted).max()), name)
        # Parameters have the layouts of Keras, and their layers' names: each is found by its values.
        made = [numpy.sort(array.ravel()) for key, array in ours.items() if key.endswith(".gradient")]
        for key, parameter in model.named_parameters():
            wanted = numpy.sort(parameter.grad.numpy().ravel())
            near = [numpy.abs(array - wanted).max() for array in made if array.shape == wanted.shape]
            self.assertLess(min(near, default=numpy.inf), 1e-5 * max(1, numpy.abs(wanted).max()), f"{name}: {key}")


# Written has constants for what it writes to: its input has no gradient of its own to compare.
GRADIENTS = sorted(set(NETWORKS) - {"Written"})

for title in NETWORKS:
    setattr(Networks, "test_outputs_of_" + title, lambda self, title=title: self.check_outputs(title))
for title in GRADIENTS:
    setattr(Networks, "test_gradients_of_" + title, lambda self, title=title: self.check_gradients(title))


if __name__ == "__main__":
    unittest.main()
