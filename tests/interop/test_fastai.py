"""fastai: what is recorded equals what its CSVLogger writes, and training is as without it. Its packages are those of
packages.txt, in $TD_PACKAGES: pip would install others than PyTorch's of this environment for it."""

import csv
import glob
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

import torch

import tapedeck

EXAMPLE = os.path.join(os.environ["TD_SOURCE"], "examples", "python", "fastai_recorder.py")
NAMES = ("beartype", "cloudpickle", "fastai", "fastcore", "fastdownload", "fastprogress", "fasttransform", "plum_dispatch")


def series(run, name):
    return {int(row["step"]): float(row["value"]) for row in run[name].values}


class Fastai(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.site = place.name
        for name in NAMES:
            (wheel,) = glob.glob(os.path.join(os.environ["TD_PACKAGES"], f"{name}-*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(cls.site)
        sys.path.insert(0, cls.site)
        warnings.simplefilter("ignore")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def learner(self, **options):
        import fastai.callback.all  # adds fit_one_cycle
        from fastai.basics import DataLoader, DataLoaders, Learner, accuracy

        torch.manual_seed(0)
        x = torch.randn(50, 4)
        examples = list(zip(x, (x[:, 0] > 0).long()))
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
        learner = Learner(DataLoaders(DataLoader(examples[:40], bs=8), DataLoader(examples[40:], bs=8)), model,
                          loss_func=torch.nn.CrossEntropyLoss(), metrics=accuracy, path=self.folder, **options)
        learner.remove_cb(learner.progress)
        return learner

    def fit(self, learner, *callbacks, epochs=3):
        with learner.no_logging():
            learner.fit_one_cycle(epochs, 0.05, cbs=list(callbacks))

    def test_example(self):
        done = subprocess.run([sys.executable, "-W", "ignore", EXAMPLE, self.path("run")], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join([self.site, os.environ.get("PYTHONPATH", "")])))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("after step 18, 3 records of 0.error", done.stdout)

    def test_values_are_those_of_the_csv_logger(self):
        from fastai.callback.core import Callback
        from fastai.callback.progress import CSVLogger

        class Losses(Callback):
            order, values, rates = 70, [], []

            def before_step(self):
                self.rates.append(float(self.opt.hypers[0]["lr"]))

            def after_batch(self):
                if self.training:
                    self.values.append(float(self.loss))

        bare, learner = self.learner(), self.learner()
        self.fit(bare)
        self.fit(learner, tapedeck.fastai.Recorder(self.path("run"), every=1, form="stats"), CSVLogger("log.csv"), Losses())
        for ours, theirs in zip(learner.model.parameters(), bare.model.parameters()):
            self.assertTrue(torch.equal(ours, theirs))
        run = tapedeck.Run(self.path("run"))
        self.assertEqual((run.steps, run.state), (15, "finished"))
        self.assertEqual(series(run, "loss"), dict(enumerate(Losses.values, 1)))
        self.assertEqual(series(run, "learning_rate"), dict(enumerate(Losses.rates, 1)))
        with open(self.path("log.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for name in ("train_loss", "valid_loss", "accuracy"):
            self.assertEqual(series(run, name), {5 * (i + 1): float(row[name]) for i, row in enumerate(rows)}, name)
        for name in ("0.error", "2.bias.gradient", "0.weight.update"):
            self.assertEqual(list(run[name].stats.index), list(range(1, 16)), name)
        self.assertNotIn("recording_ended", run.notes)
        self.assertNotIn("step", vars(learner.opt))

    def test_accumulated_batches_are_a_step(self):
        from fastai.callback.training import GradientAccumulation

        learner = self.learner()
        self.fit(learner, tapedeck.fastai.Recorder(self.path("run"), every=1, form="stats"), GradientAccumulation(16), epochs=2)
        run = tapedeck.Run(self.path("run"))
        self.assertEqual(run.steps, 5)
        self.assertEqual(list(run["0.weight.gradient"].stats.index), list(range(1, 6)))

    def test_each_fit_is_a_run_and_a_learner_is_exported(self):
        from fastai.optimizer import OptimWrapper

        learner = self.learner(cbs=tapedeck.fastai.Recorder(self.path("run"), every=1, form="stats"),
                               opt_func=lambda groups, **options: OptimWrapper(groups, torch.optim.Adam))
        self.fit(learner, epochs=1)
        self.fit(learner, epochs=2)
        learner.get_preds()
        self.assertEqual([tapedeck.Run(self.path(name)).steps for name in ("run", "run-2")], [5, 10])
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("run")), ["run", "run-2"])
        self.assertEqual(pickle.loads(pickle.dumps(learner.tapedeck))._options, {"every": 1, "form": "stats"})
        self.assertIs(type(learner.recorder).__module__.startswith("fastai"), True)


if __name__ == "__main__":
    unittest.main()
