#!/usr/bin/env python3
"""tapedeck diagnose and check: findings, their form, and what happens when something is missing."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
import sys
import unittest

import numpy
import program

# A rate at which a small network diverges.
DIVERGES = program.SMALL.replace("{adam: {learning_rate: 0.02}}", "{sgd: {learning_rate: 900}}").replace("epochs: 4", "epochs: 30")
HEALTHY = program.SMALL.replace("epochs: 4", "epochs: 60")
EXPLODES = """
name: explodes
seed: 1
threads: 1
data:
  generate: {adding: {length: 100, examples: 64}}
  batch: 16
model:
  - simple_rnn: {name: rnn, units: 32, activation: linear, recurrent_initializer: glorot_normal}
  - dense: {name: out, units: 1}
train: {loss: mse, optimizer: {sgd: {learning_rate: 0.5}}, epochs: 2}
"""
SOFTMAX_OF_ONE = """
name: one
seed: 3
threads: 1
data:
  generate: {xor: {examples: 64}}
  label_kind: values
  batch: 16
model:
  - dense: {name: hidden, units: 8, activation: tanh}
  - dense: {name: out, units: 1, activation: softmax}
train: {loss: binary_crossentropy, optimizer: {adam: {learning_rate: 0.02}}, epochs: 40}
record:
  - {what: loss, every: 1 epoch, to: [csv]}
"""


HEADS = """
name: heads
seed: 1
threads: 1
data: {train: x.npy, labels: {price: price.npy, kind: kind.npy, flag: flag.npy}, validation: 0.2, batch: 16}
model:
  layers:
  - dense: {name: hidden, units: 16, activation: relu}
  - dense: {name: price, units: 1, activation: PRICE}
  - dense: {name: kind, units: 2, activation: KIND, from: hidden}
  - dense: {name: flag, units: 1, activation: FLAG, from: hidden}
  outputs: [price, kind, flag]
train: {loss: {price: mse, kind: sparse_categorical_crossentropy, flag: binary_crossentropy}, optimizer: {adam: {learning_rate: 0.01}}, epochs: 20}
"""


class Diagnose(program.Case):
    def trained(self, text, *options, status=0):
        self.write("e.yaml", text)
        self.run_program("train", "e.yaml", "--out", "runs", "--quiet", *options, status=status)
        return os.path.join("runs", sorted(os.listdir(os.path.join(self.folder, "runs")))[-1])

    def diagnosed(self, run, *options, status=1):
        return json.loads(self.run_program("diagnose", run, "--json", *options, status=status).stdout)

    def test_a_healthy_run_has_no_findings(self):
        found = self.diagnosed(self.trained(HEALTHY), status=0)
        self.assertEqual(found["findings"], [])
        self.assertGreater(found["rules"], 40)

    def test_a_contradiction_is_found_explained_and_put_right(self):
        run = self.trained(SOFTMAX_OF_ONE)
        finding = self.diagnosed(run, "--fix")["findings"][0]
        self.assertEqual((finding["cause"], finding["layer"], finding["confidence"]), ("wrong_output_activation", "out", "sure"))
        self.assertGreater(finding["trial"]["score_after"], finding["trial"]["score_before"] + 0.3)
        with open(os.path.join(self.folder, run, "experiment.fixed.yaml"), encoding="utf-8") as file:
            self.assertIn("activation: sigmoid", file.read())
        fixed = os.path.join(run, "experiment.fixed.yaml")
        self.run_program("train", fixed, "--out", "again", "--quiet")

    def test_findings_are_kept_in_the_run(self):
        run = self.trained(SOFTMAX_OF_ONE)
        self.diagnosed(run, "--no-keep")
        database = os.path.join(self.folder, run, "run.db")
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            self.assertEqual(db.execute("SELECT count(*) FROM finding WHERE cause = 'wrong_output_activation'").fetchone(), (0,))
        self.diagnosed(run)
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            cause, evidence = db.execute("SELECT cause, evidence FROM finding").fetchone()
        self.assertEqual(cause, "wrong_output_activation")
        self.assertIn("always 1", json.loads(evidence)[0]["text"])

    def test_a_run_is_compared_with_runs_that_went_well(self):
        every = HEALTHY + 'record:\n  - {what: loss, to: [csv]}\n  - {what: "*.kernel", every: 5 steps, form: stats, to: [csv]}\n'
        for seed in range(1, 6):
            self.trained(every, "--set", f"seed={seed}", "--set", f"name=good-{seed}")
        same = self.diagnosed("runs/good-3", "--baseline", "runs/good-*", "--no-trial", status=0)
        self.assertEqual((same["baseline"], same["unusual"]), (4, []))
        self.trained(every, "--set", "name=odd", "--set", "train.optimizer.adam.learning_rate=0")
        odd = self.diagnosed("runs/odd", "--baseline", "runs/good-1,runs/good-[2-5]", "--no-trial")
        self.assertEqual(odd["baseline"], 5)
        self.assertIn("learning_rate: 0", odd["unusual"][0]["text"])   # the setting comes first
        self.assertIsNone(odd["unusual"][0]["signal"])
        broken = [u["signal"] for u in odd["unusual"] if u["signal"] and u["size"] is None]
        self.assertIn("hidden.kernel", broken)   # it changed in all the others
        sizes = [u["size"] for u in odd["unusual"] if u["size"] is not None]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        text = self.run_program("diagnose", "runs/odd", "--baseline", "runs/good-*", "--no-trial", status=1).stdout
        self.assertIn("not as in 5 runs that went well", text)
        self.run_program("diagnose", "runs/odd", "--baseline", "runs/none-*", status=2)
        self.run_program("diagnose", "runs/odd", "--baseline", "runs/odd", status=2)

    def test_a_recurrence_that_explodes_at_its_second_step_has_an_origin(self):
        run = self.trained(EXPLODES, status=1)
        found = self.diagnosed(run)["findings"][0]
        self.assertEqual((found["origin"]["cause"], found["origin"]["layer"], found["origin"]["step"]), ("update", "rnn", 2))
        self.assertTrue(any("came from simple_rnn of layer rnn" in e["text"] for e in found["evidence"]), found["evidence"])
        self.assertIn("early_end", self.diagnosed(run, "--no-trial")["findings"][0]["symptoms"])   # at least the symptom

    def test_each_of_several_outputs_is_looked_at(self):
        rng = numpy.random.default_rng(3)
        x = rng.normal(size=(200, 5)).astype(numpy.float32)
        for name, array in {"x": x, "price": 2 * x[:, :1], "kind": (x[:, 1] > 0).astype(numpy.int32), "flag": (x[:, 2:3] > 0).astype(numpy.float32)}.items():
            numpy.save(os.path.join(self.folder, name + ".npy"), array)
        for price, kind, flag, wrong in (("linear", "softmax", "sigmoid", []), ("sigmoid", "softmax", "sigmoid", ["price"]),
                                         ("linear", "relu", "sigmoid", ["kind"]), ("linear", "softmax", "softmax", ["flag"])):
            text = HEADS.replace("PRICE", price).replace("KIND", kind).replace("FLAG", flag)
            found = self.diagnosed(self.trained(text), status=1 if wrong else 0)["findings"]
            heads = [f for f in found if f["cause"] == "wrong_output_activation"]
            self.assertEqual([f["layer"] for f in heads], wrong)
            self.assertEqual({f["confidence"] for f in heads}, {"likely"} if wrong else set())

    def test_only_and_ignore_choose_rules(self):
        run = self.trained(SOFTMAX_OF_ONE)
        self.assertEqual(self.diagnosed(run, "--only", "unscaled*,dead_relu", status=0)["findings"], [])
        causes = [f["cause"] for f in self.diagnosed(run, "--ignore", "wrong_loss")["findings"]]
        self.assertIn("wrong_output_activation", causes)

    def test_without_its_data_a_run_is_judged_by_what_it_recorded(self):
        data = os.path.join(self.folder, "data.csv")
        rows = [f"{i / 50},{(i * 7 % 13) / 13},{i % 2}" for i in range(60)]
        self.write("data.csv", "a,b,label\n" + "\n".join(rows) + "\n")
        text = DIVERGES.replace("generate: {two_moons: {examples: 90, noise: 0.1}}", "train: data.csv\n  label: label")
        run = self.trained(text + "record:\n  - {what: loss, to: [csv]}\n")
        os.remove(data)
        found = self.diagnosed(run)
        self.assertEqual(found["findings"][0]["cause"], "learning_rate_too_high")
        self.assertIn("divergence", found["findings"][0]["symptoms"])
        self.assertIn("cannot be repeated", found["notes"][0])
        # what symptoms point to is chosen by name, too
        self.assertEqual(self.diagnosed(run, "--only", "dead_relu", status=0)["findings"], [])

    def test_event_files_are_diagnosed_too(self):
        run = self.trained(DIVERGES + "record:\n  - {what: loss, to: [tensorboard]}\n")
        events = [f for f in os.listdir(os.path.join(self.folder, run)) if "tfevents" in f]
        os.mkdir(os.path.join(self.folder, "board"))
        shutil.copy(os.path.join(self.folder, run, events[0]), os.path.join(self.folder, "board"))
        self.assertEqual(self.diagnosed("board")["findings"][0]["cause"], "learning_rate_too_high")

    def test_no_trial_runs_nothing(self):
        for finding in self.diagnosed(self.trained(SOFTMAX_OF_ONE), "--no-trial")["findings"]:
            self.assertIsNone(finding["trial"])

    def test_every_rule_explains_itself(self):
        said = self.run_program("diagnose", "--explain", "dead_relu").stdout
        self.assertIn("never put out anything but 0", said)
        self.assertIn("did you mean 'dead_relu'", self.run_program("diagnose", "--explain", "dead_rulu", status=2).stderr)

    def test_the_document_has_every_rule(self):
        """../diagnose/pictures.py makes docs/diagnose.md anew."""
        sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "diagnose"))
        import pictures

        with open(os.path.join(os.environ["TD_SOURCE"], "docs", "diagnose.md"), encoding="utf-8") as file:
            text = file.read()
        for rule in pictures.rule_names():
            words = pictures.explained(program.PROGRAM, rule)
            if "advises" in words:
                self.assertIn(f"### {rule}\n{pictures.paragraph(words)}\n```text\n", text)
            else:
                self.assertIn(f"| `{rule}` | {words['meaning']} | {words['computes']} | {words['says']} |", text)
                self.assertRegex(text, f"\n{rule:27}\\S")

    def test_what_is_no_run_is_an_error(self):
        self.assertIn("nowhere", self.run_program("diagnose", "nowhere", status=2).stderr)
        self.run_program("diagnose", status=2)

    def test_check_knows_before_training(self):
        self.write("e.yaml", SOFTMAX_OF_ONE)
        found = json.loads(self.run_program("check", "e.yaml", "--json", status=1).stdout)["findings"]
        self.assertEqual((found[0]["cause"], found[0]["confidence"]), ("wrong_output_activation", "sure"))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "runs")))
        self.write("e.yaml", HEALTHY)
        self.run_program("check", "e.yaml", status=0)
        self.write("e.yaml", HEALTHY + "unknown: 1\n")
        self.assertIn("unknown", self.run_program("check", "e.yaml", status=2).stderr)

    def test_check_probes_learning_rates(self):
        self.write("e.yaml", DIVERGES)
        found = json.loads(self.run_program("check", "e.yaml", "--probe", "--json", status=1).stdout)
        self.assertEqual([(f["cause"], f["confidence"]) for f in found["findings"]], [("learning_rate_too_high", "likely")])
        self.assertRegex(found["notes"][-1], "range test of [0-9]+ steps: the loss falls fastest at a rate of .* the experiment has 900")
        self.run_program("check", "e.yaml", status=0)
        self.write("e.yaml", HEALTHY)
        found = json.loads(self.run_program("check", "e.yaml", "--probe", "--json", status=0).stdout)
        self.assertEqual(found["findings"], [])
        tiny = json.loads(self.run_program("check", "e.yaml", "--probe", "--json", "--set",
                                           "train.optimizer.adam.learning_rate=1e-8", status=0).stdout)
        self.assertIn("learning_rate_too_low", [f["cause"] for f in tiny["findings"]])

    def test_a_finding_has_a_plot_in_the_terminal_and_none_in_json(self):
        run = self.trained(DIVERGES + "record:\n  - {what: loss, to: [csv]}\n")
        said = self.run_program("diagnose", run, "--no-trial", status=1).stdout
        plot = next(line for line in said.splitlines() if re.match(r"    loss [\u2581-\u2588 ]{8,} ", line))
        self.assertIn("\u2588", plot)
        self.assertRegex(plot, r"; steps 1\u2013\d+$")
        self.assertNotIn("plot", self.diagnosed(run, "--no-trial")["findings"][0])

    def test_a_finding_names_the_first_unit(self):
        dead = program.SMALL.replace("activation: tanh", "activation: relu, bias_initializer: {constant: {value: -90}}")
        self.assertIn("relu", dead)
        finding = self.diagnosed(self.trained(dead))["findings"][0]
        self.assertIn("dead_relu", finding["symptoms"])
        self.assertEqual(finding["unit"], 0)

    def test_train_says_before_what_cannot_work(self):
        self.write("e.yaml", SOFTMAX_OF_ONE)
        said = self.run_program("train", "e.yaml", "--out", "runs").stderr
        self.assertIn("wrong output activation in layer out: softmax of one unit is always 1", said)
        said = self.run_program("train", "e.yaml", "--out", "runs", "--set", "diagnose=false").stderr
        self.assertNotIn("softmax of one unit", said)
        self.write("e.yaml", HEALTHY)
        self.assertNotIn("note", self.run_program("train", "e.yaml", "--out", "runs").stderr)

    def test_divergence_is_said_while_training_and_stops_it_where_asked(self):
        self.write("e.yaml", DIVERGES)
        said = self.run_program("train", "e.yaml", "--out", "runs").stderr
        self.assertIn("divergence", said)
        self.assertIn("tapedeck diagnose", said)
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder, "runs", "small", "run.db"))) as db, db:
            self.assertIn(("divergence",), db.execute("SELECT cause FROM finding").fetchall())
        stopped = self.run_program("train", "e.yaml", "--out", "runs", "--set", "stop_on=[nan, divergence]", status=1)
        self.assertIn("stop_on has divergence", stopped.stderr)
        quiet = self.run_program("train", "e.yaml", "--out", "runs", "--set", "diagnose=false").stderr
        self.assertNotIn("divergence", quiet)


if __name__ == "__main__":
    unittest.main()
