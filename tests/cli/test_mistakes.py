"""Mistakes of usage are named, once, with what to do instead."""
import os
import unittest

from program import Case, SMALL

TABLE = """
name: table
threads: 1
data: {{train: d.csv, label: y}}
model: [{{dense: {{name: out, units: 2}}}}]
train: {{loss: {loss}, epochs: 1{train}}}
{more}
"""


class Experiments(Case):
    def setUp(self):
        super().setUp()
        self.write("d.csv", "a,y\n3,0\n2,1\n")

    def said(self, loss="sparse_categorical_crossentropy", train="", more="", status=2):
        return self.train(TABLE.format(loss=loss, train=train, more=more), status=status).stderr

    def test_keys_that_are_elsewhere_are_pointed_to(self):
        self.assertIn("train: there is no 'learning_rate' here: it is the optimizer's: optimizer: {adam: {learning_rate",
                      self.said(train=", learning_rate: 0.1"))
        self.assertIn("train: there is no 'batch_size' here: it is data.batch", self.said(train=", batch_size: 2"))

    def test_a_name_with_a_part_left_out_is_recognised(self):
        self.assertIn("did you mean 'sparse_categorical_crossentropy'?", self.said(loss="sparse_crossentropy"))

    def test_the_norm_of_gradients_says_what_it_needs(self):
        track = "record: [{what: gradient_norm, every: 1 step, to: [csv]}]"
        self.assertIn("no signal 'gradient_norm'; it is there with train.clip_norm (1e30 clips nothing)",
                      self.said(more=track))
        self.said(more=track, train=", clip_norm: 1e30", status=0)
        self.assertIn("gradient_norm", self.read("runs", "table", "metrics.csv"))

    def test_one_problem_is_reported_once(self):
        said = self.said(status=0)
        self.assertEqual(said.count("probabilities"), 1, said)
        self.assertEqual(said.count("from_logits: true"), 1, said)

    def test_labels_that_a_loss_cannot_use_are_reported_once_with_their_line(self):
        self.write("d.csv", "a,y\n3,1\n2,2\n")
        said = self.train(TABLE.format(loss="binary_crossentropy", train="", more="").replace(
            "units: 2", "units: 1, activation: sigmoid")).stderr
        self.assertIn("d.csv line 3 (row 2): the label is 2; expected is a number from 0 to 1", said)
        self.assertNotIn("labels out of range", said)

    def test_a_byte_order_mark_and_spellings_of_yaml_are_taken(self):
        self.train("\ufeff" + SMALL.replace("from_logits: true", "from_logits: True").replace("0.2", "20%"))
        self.train(SMALL.replace("from_logits: true", "from_logits: FALSE").replace("0.2", "20 %"), "--dry-run")
        self.assertIn("data.validation: is 1.2, it must be 0.999 or less",
                      self.train(SMALL.replace("0.2", "120%"), status=2).stderr)

    def test_a_file_that_cannot_be_read_is_not_one_that_is_missing(self):
        self.assertIn("'d.csv/x' cannot be read: Not a directory", self.run_program(
            "train", self.write("e.yaml", TABLE.format(loss="mse", train="", more="").replace("d.csv", "d.csv/x")),
            status=2).stderr)
        if os.geteuid() != 0: # who may read everything
            os.chmod(self.path("d.csv"), 0)
            self.assertIn("'d.csv' cannot be read: Permission denied", self.said())


class Options(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL)

    def test_settings_are_no_options(self):
        said = self.run_program("train", "experiment.yaml", "--epochs", "3", status=2).stderr
        self.assertIn("no option '--epochs'; the experiment file has it: --set train.epochs=3", said)
        said = self.run_program("train", "experiment.yaml", "--set", "train.epochs", status=2).stderr
        self.assertIn("--set train.epochs: expected KEY=VALUE, as in --set train.epochs=3", said)

    def test_a_rule_that_is_not_there_is_no_rule_that_found_nothing(self):
        for command in (("check", "experiment.yaml"), ("diagnose", "runs/small", "--no-trial")):
            said = self.run_program(*command, "--only", "dead_rlu", status=2).stderr
            self.assertIn("--only: there is no rule 'dead_rlu'; did you mean 'dead_relu'?", said)
            self.assertIn("--ignore: there is no rule 'typo'", self.run_program(
                *command, "--ignore", "overfitting,typo", status=2).stderr)
        self.assertIn("others look at a run",
                      self.run_program("check", "experiment.yaml", "--only", "dead_relu", status=2).stderr)
        self.assertIn(" 1 check: nothing unusual",
                      self.run_program("check", "experiment.yaml", "--only", "wrong_loss").stdout)

    def test_a_folder_without_runs_has_none(self):
        os.mkdir(self.path("empty"))
        os.chdir(self.path("empty"))
        self.addCleanup(os.chdir, "/")
        self.folder = self.path("empty")
        self.assertIn("no runs in runs", self.run_program("runs").stderr)
        self.assertEqual(self.run_program("runs", "--json").stdout, "[]\n")
        self.run_program("runs", "elsewhere", status=1)

    def test_runs_with_nothing_in_common_are_not_equal(self):
        self.train(SMALL.replace("name: small", "name: other") + "record: [{what: learning_rate, every: 1 step}]\n")
        done = self.run_program("compare", "runs/small", "runs/other", status=1)
        self.assertIn("nothing can be compared", done.stdout)
        self.assertNotIn("0 of 0", done.stdout)
        many = ["runs/small"] * 20
        self.assertEqual(self.run_program("compare", *many).stdout.count("first step apart"), 19)


class Columns(Case):
    def test_widths_count_characters(self):
        text = SMALL.replace("name: hidden", "name: größenänderung")
        done = self.train(text, "--dry-run")
        lines = [line for line in done.stdout.splitlines() if "│" in line]
        self.assertEqual(len(lines), 2)
        self.assertEqual({len(line) for line in lines}, {len(lines[0])}, done.stdout)


if __name__ == "__main__":
    unittest.main()
