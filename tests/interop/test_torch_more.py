"""What stands around watch: grad, weights, samples, the adapters."""

import csv
import io
import os
import tempfile
import unittest
from contextlib import redirect_stdout

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))


X = torch.randn(10, 1, 6, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(10) % 4


class More(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def test_grad_is_autograds_and_leaves_the_model_alone(self):
        model = network()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        printed = io.StringIO()
        with redirect_stdout(printed):
            found = tapedeck.grad(model, F.cross_entropy, X, Y, layer="0")
        self.assertEqual(set(found), {"loss", "0.output", "0.error", "0.weight.gradient", "0.bias.gradient"})
        self.assertIn("0.error", printed.getvalue())
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(before[name], value), name)
        self.assertIsNone(model[0].weight.grad)
        middle = model[0](X)
        middle.retain_grad()
        loss = F.cross_entropy(model[1:](middle), Y)
        loss.backward()
        np.testing.assert_array_equal(found["0.error"], middle.grad.numpy())
        np.testing.assert_array_equal(found["0.weight.gradient"], model[0].weight.grad.numpy())
        self.assertEqual(found["loss"], loss.item())
        with self.assertRaisesRegex(KeyError, "no layer 'nothing'"):
            tapedeck.grad(model, F.cross_entropy, X, Y, layer="nothing")

    def test_weights_go_to_a_table_and_back(self):
        model, other = network(), network()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.7).add_(1e-9)
        tapedeck.weights(model).to_csv(self.path("w.csv"))
        with open(self.path("w.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(rows[0], {"layer": "0", "parameter": "weight", "index": "0,0,0,0",
                                   "value": rows[0]["value"]})
        tapedeck.weights(other).load_csv(self.path("w.csv"))
        for (name, a), b in zip(model.state_dict().items(), other.state_dict().values()):
            self.assertTrue(torch.equal(a, b), name)
        with open(self.path("w.csv"), "a") as file:
            file.write('9,weight,"0,0",1\n')
        with self.assertRaisesRegex(ValueError, "the model has no 9.weight"):
            tapedeck.weights(other).load_csv(self.path("w.csv"))

    def test_samples_have_labels_beside_predictions(self):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, log="")
        deck.sample(X, Y, n=3, every_epochs=2, to="csv")
        for epoch in range(4):
            for i in range(2):
                optimizer.zero_grad()
                F.cross_entropy(model(X), Y).backward()
                optimizer.step()
                deck.step(last=i == 1)
            if epoch == 3:
                model.eval()
                expected = model(X).detach().numpy()
        deck.finish()
        with open(os.path.join(deck.folder, "prediction.csv" if os.path.exists(
                os.path.join(deck.folder, "prediction.csv")) else "predictions.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(r["epoch"], r["step"]) for r in rows], [("2", "4")] * 3 + [("4", "8")] * 3)
        for row in rows[3:]:
            sample = int(row["sample"])
            self.assertEqual(int(row["label"]), int(Y[sample]))
            values = [float(row[f"class_{i}"]) for i in range(4)]
            np.testing.assert_allclose(values, expected[sample], rtol=1e-5)

    def test_samples_are_tables_and_leave_the_modes_of_layers(self):
        import pyarrow

        x, y = torch.randn(12, 4), torch.arange(12) % 3
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        model[1].eval()  # frozen
        deck = tapedeck.watch(model, self.path(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1), log="")
        deck.sample(x, y, n=3, every=1, to="csv,sqlite")
        model(x).sum().backward()
        deck.step()
        self.assertEqual([module.training for module in model.modules()], [True, True, False])
        deck.finish()
        table = pyarrow.table(tapedeck.Run(deck.folder)["prediction"])
        self.assertEqual(table["label"].to_pylist(), [int(y[row]) for row in table["sample"].to_pylist()])
        model.eval()
        np.testing.assert_allclose(table["value"].to_pylist(), model(x[table["sample"].to_pylist()]).detach().numpy(), rtol=1e-5)

    def test_lightning(self):
        import lightning.pytorch as lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = network()

            def training_step(self, batch, index):
                loss = F.cross_entropy(self.net(batch[0]), batch[1])
                self.log("train_loss", loss)
                return loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        def train(callbacks):
            torch.manual_seed(0)
            module = Module()
            data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=4)
            lightning.Trainer(max_epochs=2, callbacks=callbacks, logger=False, enable_checkpointing=False,
                              enable_progress_bar=False, enable_model_summary=False, accelerator="cpu").fit(module, data)
            return [p.detach().clone() for p in module.parameters()]

        bare = train([])
        recorder = tapedeck.lightning.Recorder(self.path(), every=2, form="stats")
        for a, b in zip(bare, train([recorder])):
            self.assertTrue(torch.equal(a, b))
        run = tapedeck.Run(recorder.deck.folder)
        self.assertEqual(run.steps, 6)
        self.assertLessEqual({"net.0.error", "net.4.weight.gradient", "loss", "train_loss"}, set(run))

    def test_hugging_face(self):
        from transformers import Trainer, TrainingArguments

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = network()

            def forward(self, x=None, labels=None):
                logits = self.net(x)
                return {"loss": F.cross_entropy(logits, labels), "logits": logits}

        def train(callbacks):
            torch.manual_seed(0)
            model = Model()
            rows = [{"x": x, "labels": y} for x, y in zip(X, Y)]
            arguments = TrainingArguments(self.path("out"), num_train_epochs=2, per_device_train_batch_size=4, report_to=[],
                                          save_strategy="no", logging_steps=1, use_cpu=True, disable_tqdm=True, seed=1)
            with redirect_stdout(io.StringIO()):
                Trainer(model, arguments, train_dataset=rows, callbacks=callbacks).train()
            return [p.detach().clone() for p in model.parameters()]

        bare = train([])
        recorder = tapedeck.transformers.Recorder(self.path(), every=2, form="stats")
        for a, b in zip(bare, train([recorder])):
            self.assertTrue(torch.equal(a, b))
        run = tapedeck.Run(recorder.deck.folder)
        self.assertEqual(run.steps, 6)
        self.assertLessEqual({"net.0.error", "net.4.weight.gradient", "loss"}, set(run))


if __name__ == "__main__":
    unittest.main()
