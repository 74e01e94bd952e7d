"""Models that are no stack, and losses of their layers, as an experiment has them."""
import unittest

import numpy
from program import Case

HEAD = "name: g\nseed: 3\nthreads: 1\n"


class Graphs(Case):
    def values(self, name):
        return numpy.load(self.path("runs", "g", name + ".npy"))

    def rows(self, *path):
        return [line.split(",") for line in self.read(*path).splitlines()]

    def test_inputs_take_an_example_apart(self):
        generator = numpy.random.default_rng(1)
        table = generator.standard_normal((20, 6))
        names = ["rooms", "area", "age", "x", "y", "price"]
        numpy.savetxt(self.path("houses.csv"), table, delimiter=",", header=",".join(names), comments="")
        self.train(HEAD + "data: {train: houses.csv, label: price, shuffle: false, batch: 20}\n"
                   "model:\n  - input: {name: facts, shape: [3]}\n  - input: {name: place, shape: [2]}\n"
                   "  - dense: {name: a, units: 4, from: facts}\n  - dense: {name: b, units: 4, from: place}\n"
                   "  - concatenate: {from: [a, b]}\n  - dense: {name: out, units: 1}\n"
                   "train: {loss: mse, epochs: 1}\n"
                   "record:\n  - {what: [facts.output, place.output], form: tensor, to: [npy]}\n", "--quiet")
        self.assertTrue(numpy.allclose(self.values("facts.output")[0], table[:, :3], atol=1e-6))
        self.assertTrue(numpy.allclose(self.values("place.output")[0], table[:, 3:5], atol=1e-6))
        self.run_program("predict", self.path("runs", "g"), self.path("houses.csv"), "--to", "y.csv")
        self.assertEqual(len(self.rows("y.csv")), 21)

    def test_a_name_used_twice_is_one_layer(self):
        numpy.savez(self.path("d.npz"), x=numpy.ones((8, 3), "float32"), y=numpy.ones((8, 3), "float32"))
        self.train(HEAD + "data: {train: d.npz, batch: 8}\n"
                   "model:\n  - dense: {name: tower, units: 3, activation: tanh}\n  - dense: {name: tower}\n"
                   "train: {loss: mse, epochs: 2}\n"
                   "record:\n  - {what: '*.output', form: rows, to: [csv]}\n", "--quiet")
        self.assertTrue(self.exists("runs", "g", "tower%402.output.csv"))
        self.run_program("weights", self.path("runs", "g"), "--to", "w.csv")
        layers = {row[0] for row in self.rows("w.csv")[1:]}
        self.assertEqual(layers, {"tower"})
        self.run_program("predict", self.path("runs", "g"), self.path("d.npz"), "--to", "y.npy")
        text = self.train(HEAD + "data: {train: d.npz}\nmodel:\n  - dense: {name: tower, units: 3}\n"
                          "  - dense: {name: tower, units: 4}\ntrain: {loss: mse, epochs: 1}\n", status=2).stderr
        self.assertIn("there is a layer 'tower' already, with another 'units'", text)

    def test_a_layer_has_a_loss_of_its_own(self):
        generator = numpy.random.default_rng(2)
        x = generator.standard_normal((12, 3)).astype("float32")
        y = generator.standard_normal((12, 1)).astype("float32")
        target = generator.standard_normal((12, 4)).astype("float32")
        numpy.savez(self.path("d.npz"), x=x, y=y)
        numpy.save(self.path("target.npy"), target)
        experiment = (HEAD + "data: {{train: d.npz, batch: 5, shuffle: false}}\n"
                      "model:\n  - dense: {{name: hidden, units: 4}}\n  - dense: {{name: out, units: 1}}\n"
                      "train:\n  loss: mse\n  optimizer: {{sgd: {{learning_rate: 0.1}}}}\n  steps: 3\n{losses}"
                      "record:\n  - {{what: [loss, hidden.loss], to: [csv]}}\n"
                      "  - {{what: [hidden.output, hidden.error, hidden.loss.error, out.output], form: tensor, to: [npy]}}\n")
        self.train(experiment.format(
            losses="  layer_losses: {hidden: {target: target.npy, weight: 0.5}}\n"), "--quiet")
        table = self.rows("runs", "g", "metrics.csv")
        output, own = self.values("hidden.output")[0], self.values("hidden.loss.error")[0]
        difference = output - target[:5]
        self.assertAlmostEqual(float(table[1][3]), float((difference ** 2).mean()), places=5)
        self.assertTrue(numpy.allclose(own, 2 * difference / difference.size, atol=1e-7))
        # The error at the layer is what comes from behind and its own share.
        self.assertTrue(self.exists("runs", "g", "hidden.error.npy"))
        plain = float(((self.values("out.output")[0].reshape(-1) - y[:5, 0]) ** 2).mean())
        self.assertAlmostEqual(float(table[1][2]), plain + 0.5 * float((difference ** 2).mean()), places=5)
        with_own = self.values("hidden.error")[0]
        self.train(experiment.format(losses="").replace(
            "{what: [loss, hidden.loss], to: [csv]}", "{what: hidden.loss, target: target.npy, to: [csv]}"),
            "--out", "plain", "--quiet")
        without = numpy.load(self.path("plain", "g", "hidden.error.npy"))[0]
        self.assertTrue(numpy.allclose(with_own, without + 0.5 * own, atol=1e-6))
        text = self.train(experiment.format(
            losses="  layer_losses: {hiden: {target: target.npy}}\n"), status=2).stderr
        self.assertIn("there is no layer 'hiden'", text)

    def test_a_layer_target_is_read_for_more_examples_than_a_batch_has(self):
        """The check before training passes up to 256 examples at once, whatever data.batch says."""
        generator = numpy.random.default_rng(4)
        numpy.savez(self.path("d.npz"), x=generator.standard_normal((300, 3)).astype("float32"),
                    y=generator.standard_normal((300, 1)).astype("float32"))
        numpy.save(self.path("target.npy"), generator.standard_normal((300, 64)).astype("float32"))
        experiment = (HEAD + "data: {train: d.npz, batch: 2}\n"
                      "model:\n  - dense: {name: hidden, units: 64}\n  - dense: {name: out, units: 1}\n"
                      "train:\n  loss: mse\n  steps: 3\n"
                      "  layer_losses: {hidden: {target: target.npy, weight: 0.5}}\n")
        self.train(experiment)
        self.assertTrue(self.exists("runs", "g", "model.safetensors"))
        self.run_program("check", "experiment.yaml")

    def test_steps_that_do_not_count(self):
        x = numpy.ones((6, 4, 2), "float32")
        x[:, 2:] = 0
        y = numpy.zeros((6, 4, 1), "float32")
        numpy.savez(self.path("d.npz"), x=x, y=y)
        done = self.train(HEAD + "data: {train: d.npz, batch: 6}\n"
                          "model:\n  - masking: {name: m}\n  - dense: {name: out, units: 1}\n"
                          "train: {loss: mse, metrics: [mse], epochs: 1}\n"
                          "record:\n  - {what: [loss, mse], to: [csv]}\n"
                          "  - {what: out.output, form: tensor, to: [npy]}\n", "--quiet")
        table = self.rows("runs", "g", "metrics.csv")
        counted = float((self.values("out.output")[0][:, :2] ** 2).mean())
        self.assertAlmostEqual(float(table[1][2]), counted, places=5)
        self.assertAlmostEqual(float(table[1][3]), counted, places=5)
        self.assertNotIn("mask", done.stderr)
        done = self.train(HEAD + "data: {train: d.npz, batch: 6}\n"
                          "model:\n  - masking: {name: m}\n  - conv1d: {name: c, filters: 2, kernel: 1}\n"
                          "  - dense: {name: out, units: 1}\ntrain: {loss: mse, epochs: 1}\n")
        self.assertIn("layer 'c' (conv1d) can do nothing with the mask", done.stderr)


if __name__ == "__main__":
    unittest.main()
