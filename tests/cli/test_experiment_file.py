"""What is wrong with an experiment file is reported in one go, with file, line, key and a suggestion."""
import unittest

from program import Case, SMALL


class ExperimentFile(Case):
    def assert_problem(self, lines, *parts):
        self.assertTrue(any(all(part in line for part in parts) for line in lines),
                        f"{parts} not in {lines}")

    def test_a_mistyped_key_names_line_and_nearest(self):
        lines = self.problems(SMALL.replace("epochs: 4", "epoch: 4"))
        number = 1 + SMALL.splitlines().index("  epochs: 4")
        self.assert_problem(lines, f"experiment.yaml:{number}: train: there is no 'epoch'",
                            "did you mean 'epochs'?")

    def test_all_problems_in_one_go(self):
        text = (SMALL.replace("batch: 16", "batch: many").replace("units: 8", "unit: 8")
                .replace("adam", "adm").replace("[accuracy]", "[acuracy]")
                .replace("seed: 3", "seed: -3") + "record:\n  - {what: loss, to: [cvs]}\n")
        lines = self.problems(text)
        self.assert_problem(lines, "data.batch", "whole number of at least 1", "'many'")
        self.assert_problem(lines, "model[0]", "unit")
        self.assert_problem(lines, "train.optimizer", "adam")
        self.assert_problem(lines, "train.metrics", "did you mean 'accuracy'?")
        self.assert_problem(lines, "seed:", "-3")
        self.assert_problem(lines, "record[0].to", "did you mean 'csv'?")
        self.assertGreaterEqual(len(lines), 6)

    def test_layers_losses_forms_schedules(self):
        text = (SMALL.replace("- dense: {name: logits", "- dens: {name: logits")
                .replace("sparse_categorical_crossentropy", "sparse_categorical_crossentropi")
                + "record:\n  - {what: loss, form: hystogram, every: 3 weeks}\n")
        lines = self.problems(text)
        self.assert_problem(lines, "model[1]", "dens")
        self.assert_problem(lines, "train.loss", "sparse_categorical_crossentropy'?")
        self.assert_problem(lines, "record[0].form", "did you mean 'histogram'?")
        self.assert_problem(lines, "record[0].every", "'N steps' or 'N epochs'", "3 weeks")

    def test_missing_sections_and_files(self):
        lines = self.problems("name: x\nweights: nowhere.safetensors\n")
        for part in ("data: is missing", "model: is missing", "train: is missing"):
            self.assert_problem(lines, part)
        self.assert_problem(lines, "weights:", "nowhere.safetensors")
        lines = self.problems(SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}",
                                            "train: nowhere.csv"))
        self.assert_problem(lines, "data.train", "nowhere.csv")

    def test_what_is_not_yaml_has_its_line(self):
        self.assert_problem(self.problems("name: a\ndata: [1\nx: 2\n"), "experiment.yaml:3:")
        self.assert_problem(self.problems("what: *.error\n"), "experiment.yaml:1:", "quotes",
                            '"*.error"')
        self.assert_problem(self.problems("a: 1\nb:\n\tc: 2\n"), "experiment.yaml:3:", "a tab")
        self.assert_problem(self.problems("a: b: c\n"), "experiment.yaml:1:", "a second ':'")
        self.assert_problem(self.problems('a: "b\n'), "a quote is opened and never closed")
        self.assert_problem(self.problems(SMALL + "seed: 4\n"), "key seed is there twice")

    def test_a_file_that_is_no_map_is_no_experiment(self):
        for text in ("hello\n", "- a\n- b\n", "null\n", "~\n", "a,b,c\n1,2,3\n", '"x"\n', "3\n"):
            for arguments in ((), ("--set", "train.epochs=3")):
                lines = self.problems(text, *arguments)
                self.assert_problem(lines, "experiment.yaml", "an experiment")
                self.assertEqual(len(lines), 1)

    def test_an_unknown_signal_is_named_before_anything_is_written(self):
        text = SMALL + "record:\n  - {what: hiden.error, to: [csv]}\n"
        self.assert_problem(self.problems(text), "hiden.error", "did you mean 'hidden.error'?")
        text = SMALL + "record:\n  - {what: loss, when: loss >}\n"
        lines = self.problems(text)
        self.assert_problem(lines, "record: when:")
        self.assertNotIn("when: when:", "".join(lines))
        self.assertFalse(self.exists("runs"))

    def test_names_in_conditions_are_checked_too(self):
        for when, at, told in (
                ("los > 1.0", 0, "there is no signal los; did you mean loss?"),
                ("loss > 1 and hidden.error.nrm < 1e-6", 13,
                 "hidden.error has no statistic nrm; did you mean norm?"),
                ("hiden.error.norm < 1", 0,
                 "there is no signal hiden.error.norm; did you mean hidden.error.norm?"),
                ("hidden.error > 1", 0, "hidden.error is a tensor; take a statistic of it: "
                                        "hidden.error.norm"),
                ("loss.norm > 1", 0, "loss is one number and has no norm"),
                ("mean(accurcy, 5) > 1", 5, "did you mean accuracy?"),
                ("nan(hidden.outptu)", 4, "did you mean hidden.output?")):
            lines = self.problems(SMALL + f'record:\n  - {{what: loss, when: "{when}"}}\n')
            self.assert_problem(lines, "experiment.yaml:", "record: when:", told)
            self.assertEqual(lines[-1], "    " + " " * at + "^", when)
        lines = self.problems(SMALL.replace("  validation: 0.2\n", "")
                              + "record:\n  - {what: loss, when: val_loss > 1}\n")
        self.assert_problem(lines, "there is no validation part: give data.validation")
        self.assertFalse(self.exists("runs"))

    def test_a_glob_that_matches_nothing_is_a_warning(self):
        done = self.train(SMALL + """record:
  - {what: ["*.gamma", loss], to: [csv]}
  - {what: loss, when: "nan(*.gamma)", to: [csv]}
""")
        self.assertIn("note: experiment.yaml:19: record: '*.gamma' matches no signal of this model",
                      done.stderr)
        self.assertIn("when: '*.gamma' matches no signal", done.stderr)

    def test_a_track_that_recorded_nothing_is_said_at_the_end(self):
        done = self.train(SMALL + """record:
  - {what: hidden.output, when: loss > 1000, form: tensor, to: [npy]}
  - {what: [loss, accuracy], every: 3 epochs, to: [csv]}
  - {what: val_loss, at: [1, 2], to: [csv]}
  - {what: hidden.error, every: 7 steps, form: stats, to: [csv]}
""")
        self.assertEqual(done.stderr.splitlines(), [
            "tapedeck: note: experiment.yaml:19: record[0]: nothing was recorded: it never held that "
            "loss > 1000",
            "tapedeck: note: experiment.yaml:21: record[2]: nothing was recorded: no value in any of its steps"])

    def test_a_comma_list_of_signals(self):
        self.train(SMALL + "record:\n  - {what: 'hidden.preactivation,logits.error', form: stats, "
                   "to: [csv]}\n", "--quiet")
        for name in ("hidden.preactivation.csv", "logits.error.csv"):
            self.assertTrue(self.exists("runs", "small", name), name)

    def test_twenty_thousand_layers(self):
        layers = "  - activation: {function: tanh}\n" * 20000
        self.train(SMALL.replace("model:\n", "model:\n" + layers).replace("epochs: 4", "steps: 1"),
                   "--quiet")

    def test_shapes_that_do_not_fit_name_the_layer(self):
        text = SMALL.replace("  - dense: {name: hidden", "  - conv2d: {name: conv1, filters: 2, "
                             "kernel: 3}\n  - dense: {name: hidden")
        self.assert_problem(self.problems(text), "experiment.yaml:", "conv1")

    def test_set_edits_before_checking(self):
        self.train(SMALL, "--set", "train.epochs=1", "--set", "model.0.dense.units=5", "--quiet")
        text = self.read("runs", "small", "experiment.yaml")
        self.assertIn("units: 5", text)
        self.assertIn("epochs: 1", text)
        lines = self.problems(SMALL, "--set", "train.epochs=none")
        self.assert_problem(lines, "--set train.epochs=none: train.epochs", "whole number")
        lines = self.problems(SMALL, "--set", "model.7.dense.units=5")
        self.assert_problem(lines, "--set model.7.dense.units=5", "'7'")

    def test_the_written_experiment_has_defaults_and_runs_again_to_the_same_bits(self):
        self.train(SMALL, "--quiet")
        text = self.read("runs", "small", "experiment.yaml")
        for part in ("shuffle: true", "kernel_initializer: glorot_uniform", "beta_1: 0.9",
                     "queue: 256 MiB", "batch: 16"):
            self.assertIn(part, text)
        self.run_program("train", "runs/small/experiment.yaml", "--quiet")
        self.assertEqual(self.bytes("runs", "small", "model.safetensors"),
                         self.bytes("runs", "small-2", "model.safetensors"))

    def test_usage(self):
        self.assertIn("tapedeck demo", self.run_program("--help").stdout)
        self.assertRegex(self.run_program("--version").stdout, r"^tapedeck \d+\.\d+\.\d+\n$")
        self.assertIn("Examples", self.run_program("train", "--help").stdout)
        self.assertEqual(self.run_program("help", "train").stdout,
                         self.run_program("train", "--help").stdout)
        self.assertIn("did you mean 'train'?", self.run_program("help", "trian", status=2).stderr)
        self.assertIn("did you mean 'train'?", self.run_program("trian", status=2).stderr)
        self.assertIn("did you mean '--dry-run'?",
                      self.run_program("train", "--dryrun", "x.yaml", status=2).stderr)
        self.assertIn("needs a value", self.run_program("train", "--out", status=2).stderr)
        self.run_program("train", status=2)
        self.assertIn("nowhere.yaml", self.run_program("train", "nowhere.yaml", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
