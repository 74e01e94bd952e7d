"""Programs of torch.export: Tapedeck puts out what PyTorch does, and its gradients are PyTorch's."""
import os
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import SOURCE, Case  # noqa: E402

sys.path.insert(0, os.path.join(SOURCE, "tests", "fixtures"))
from make_models_exported import cases  # noqa: E402


class Programs(Case):
    def test_outputs_are_pytorchs(self):
        for name, program, given, wanted in cases():
            with self.subTest(name):
                torch.export.save(program, self.path("model.pt2"))
                for count in (len(given), 1):
                    numpy.save(self.path("x.npy"), given[:count])
                    self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy")
                    numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), wanted[:count], rtol=1e-4, atol=1e-5)

    def test_what_is_written_in_place_is_seen_or_refused(self):
        class Alone(torch.nn.Module):
            def forward(self, x):
                return (x * 2).relu_() + 1

        class Shared(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                y.view(-1).relu_()
                return y

        class Turned(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                y.t()[1:].mul_(3)
                return y

        class Lost(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                z = y[:, :2]
                y.mul_(2)
                return y.sum() + z
        x = torch.randn(4, 3)
        numpy.save(self.path("x.npy"), x.numpy())
        for maker in (Alone, Shared, Turned, Lost):
            torch.export.save(torch.export.export(maker(), (x,)), self.path("model.pt2"))
            if maker is Lost:
                self.assertIn("it reads what was written to by way of another tensor",
                              self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", status=1).stderr)
            else:
                self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", "--force")
                numpy.testing.assert_array_equal(numpy.load(self.path("y.npy")), maker()(x).numpy())

    def check_calls(self, calls, x):
        """Each expression of x, exported: what Tapedeck puts out is what PyTorch does, or it is refused with these words."""
        numpy.save(self.path("x.npy"), x.numpy())
        for call, refused in calls.items():
            class Called(torch.nn.Module):
                def forward(self, x):
                    return eval(call)
            with self.subTest(call):
                batch = {0: torch.export.Dim("batch", max=64)}
                program = torch.export.export(Called(), (x.clone(),), dynamic_shapes=(batch,))
                torch.export.save(program, self.path("model.pt2"))
                if refused:
                    self.assertIn(refused, self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", status=1).stderr)
                    continue
                self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", "--force")
                numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), Called()(x.clone()).numpy(), rtol=1e-5, atol=1e-5)

    def test_what_an_operator_without_an_underline_reads_stays(self):
        class Both(torch.nn.Module):
            def forward(self, x):
                a, b = x > 0, x < 1
                return torch.where(a & b, x, -x) + torch.where(a, x * 2, x * 3) + (a | b).float() * a
        x = torch.randn(6, 5)
        numpy.save(self.path("x.npy"), x.numpy())
        torch.export.save(torch.export.export(Both(), (x,)), self.path("model.pt2"))
        self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy")
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), Both()(x).numpy(), rtol=1e-6)

    def test_an_output_that_was_written_to_by_way_of_another_is_refused(self):
        class Chunks(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                y.chunk(2, 1)[0].add_(1)
                return y

        class Parts(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                a, b = y[:, :2], y[:, :3]
                a.add_(1)
                return b
        x = torch.randn(4, 6)
        numpy.save(self.path("x.npy"), x.numpy())
        for maker in (Chunks, Parts):
            program = torch.export.export(maker(), (x,))
            torch.export.save(program, self.path("model.pt2"))
            self.assertIn("was written to by way of another tensor",
                          self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", status=1).stderr)
            torch.export.save(program.run_decompositions({}), self.path("model.pt2"))  # as the message says
            self.run_program("predict", "model.pt2", "x.npy", "--to", "y.npy", "--force")
            numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), maker()(x).numpy(), rtol=1e-6)

    def test_options_of_operators(self):
        self.check_calls({
            "torch.rsub(x, 2.0, alpha=2)": "",
            "torch.rsub(x, 2, alpha=3)": "",
            "torch.nn.functional.avg_pool1d(x[:, None], 3, 2, 1, True, True)": "",
            "torch.nn.functional.avg_pool2d(x[:, None, None].expand(-1, 1, 6, 5), 3, 2, 1, True, True)": "",
            "torch.nn.functional.avg_pool2d(x[:, None, None].expand(-1, 1, 6, 5), 3, 2, 1, True, False)": "",
            "torch.nn.functional.avg_pool2d(x[:, None, None].expand(-1, 1, 6, 5), 3, 2, 0, True, True)": "",
        }, torch.randn(6, 5))

    def test_what_is_not_supported_is_named(self):
        class Odd(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.det(torch.special.i0(x))
        program = torch.export.export(Odd(), (torch.randn(2, 3, 3),))
        torch.export.save(program, self.path("odd.pt2"))
        said = self.run_program("inspect", "odd.pt2", status=1).stderr
        self.assertIn("aten.special_i0.default", said)
        self.assertIn("det", said)


if __name__ == "__main__":
    unittest.main()
