"""What terminals that are narrow, or know only ASCII, get to see."""
import json
import unittest

from program import Case, SMALL

RECORD = """
record:
  - {what: [loss, val_loss], every: 1 epoch}
  - {what: "*.error", every: 2 steps, form: [stats, histogram], to: [csv, print]}
  - {what: hidden.kernel, every: 2 epochs, form: tensor, to: npy}
"""
PLAIN = {"LC_ALL": "C"}


class Ascii(Case):
    def train_small(self, **variables):
        self.write("experiment.yaml", SMALL + RECORD)
        return self.terminal("train", "experiment.yaml", **variables)

    def test_a_locale_without_utf_8_gets_ascii(self):
        page = self.train_small(**PLAIN)
        self.assertTrue(page.isascii(), ascii(page))
        self.assertIn(" -> ", page)
        for command in (["show", "runs/small"], ["show", "runs/small", "hidden.error"], ["show", "runs/small", "loss"],
                        ["show", "runs/small", "hidden.kernel"], ["runs"], ["inspect", "runs/small/model.safetensors"],
                        ["compare", "runs/small", "runs/small"], ["predict", "--help"], ["--help"]):
            for variables in (PLAIN, dict(PLAIN, NO_COLOR="")):
                page = self.terminal(*command, **variables)
                self.assertTrue(page.isascii(), ascii(page))

    def test_the_first_variable_that_is_set_decides(self):
        self.train_small()
        for variables, plain in (({"LC_ALL": "", "LC_CTYPE": "", "LANG": "C"}, True),
                                 ({"LC_ALL": "", "LC_CTYPE": "POSIX", "LANG": "C.UTF-8"}, True),
                                 ({"LC_ALL": "en_US.utf8", "LC_CTYPE": "C", "LANG": "C"}, False),
                                 ({"LC_ALL": "", "LC_CTYPE": "de_DE.UTF-8", "LANG": "de_DE.ISO-8859-1"}, False),
                                 ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, False)):
            self.assertEqual(self.terminal("show", "runs/small", **variables).isascii(), plain, variables)

    def test_names_are_in_json_as_they_are(self):
        self.write("experiment.yaml", SMALL.replace("name: small", "name: größe→\U0001f3b2"))
        self.terminal("train", "experiment.yaml", "--quiet", **PLAIN)
        text = self.terminal("runs", "--json", **PLAIN)
        self.assertTrue(text.isascii(), ascii(text))
        self.assertEqual(json.loads(text)[0]["name"], "größe→\U0001f3b2")


class Narrow(Case):
    NAME = "a_name_so_long_that_it_takes_all_of_a_line_größe"

    def setUp(self):
        super().setUp()
        for name in ("small", self.NAME):
            self.train(SMALL.replace("name: small", "name: " + name) +
                       "record: [{what: [loss, accuracy, val_loss, val_accuracy]}]\n", "--quiet")

    def assert_fits(self, page, columns):
        for line in page.splitlines():
            self.assertLessEqual(len(line), columns, line)

    def test_runs_fit(self):
        for columns in (44, 60, 61, 79, 80, 100, 120, 150):
            for variables in ({}, PLAIN):
                page = self.terminal("runs", columns=columns, **variables)
                self.assert_fits(page, columns)
                self.assertRegex(page, r"small +(....-..-.. ..:..)? *finished +4 +20")
            if columns >= 60:
                self.assertIn("  loss 0.", page)
        self.assertIn("  val_accuracy 0.", self.terminal("runs", columns=250))
        self.assertIn(" …\n", self.terminal("runs", columns=60))
        self.assertIn(self.NAME, self.terminal("runs", columns=250))

    def test_inspect_fits(self):
        branches = """
  - dense: {name: a_layer_with_quite_a_long_name, units: 4}
  - dense: {name: another_layer_with_a_name_as_long, units: 4, from: input}
  - add: {name: sum, from: [a_layer_with_quite_a_long_name, another_layer_with_a_name_as_long]}
"""
        self.train(SMALL.replace("name: small", "name: graph").replace("model:\n", "model:" + branches), "--quiet")
        for run in ("small", "graph"):
            model = f"runs/{run}/model.safetensors"
            for columns in (60, 61, 80, 100, 130):
                page = self.terminal("inspect", model, columns=columns)
                self.assert_fits(page, columns)
                self.assertRegex(page, r"logits.bias +\(2,\) +-?[0-9]")
                self.assertEqual("a wider terminal" in page, " zeros\n" not in page)
            self.assertEqual(self.terminal("inspect", model, columns=400), self.run_program("inspect", model).stdout)
        self.assertIn("a_layer_with_quite_a_long_name.kernel  ", page)
        self.assert_fits(self.terminal("train", "experiment.yaml", "--dry-run", columns=60).partition("params:")[0], 60)

    def test_columns_decides_and_a_pipe_gets_all(self):
        self.assert_fits(self.terminal("runs", columns=200, COLUMNS="60"), 60)
        self.assertGreater(len(self.terminal("runs", columns=200, COLUMNS="none").splitlines()[1]), 100)
        page = self.run_program("runs").stdout
        self.assertIn(self.NAME, page)
        self.assertEqual(page.count("  val_accuracy 0."), 2)


if __name__ == "__main__":
    unittest.main()
