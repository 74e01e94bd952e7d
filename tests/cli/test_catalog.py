"""The lists of layers, losses, metrics, …: complete, the same in all forms, and what the documents say."""
import json
import os
import unittest

from program import Case, SOURCE

LISTS = ("layers", "losses", "metrics", "optimizers", "schedules", "initializers", "activations")
DOCUMENTS = {"layers.md": LISTS[:1], "catalogue.md": LISTS[1:]}


class Catalog(Case):
    def entries(self, name):
        return json.loads(self.run_program("list", name, "--json").stdout)

    def test_the_documents_are_what_the_program_prints(self):
        for document, lists in DOCUMENTS.items():
            with open(os.path.join(SOURCE, "docs", document), encoding="utf-8") as file:
                printed = "\n".join(self.run_program("list", name, "--markdown").stdout for name in lists)
                self.assertEqual(file.read(), printed, "make it anew, with an empty line between lists: for list in "
                                 f"{' '.join(lists)}: build/tapedeck list $list --markdown, to docs/{document}")

    def test_every_list_has_text_json_and_single_entries(self):
        for name in LISTS:
            entries = self.entries(name)
            self.assertGreater(len(entries), 5)
            text = self.run_program("list", name).stdout
            for entry in entries:
                self.assertIn("\n" + entry["name"], "\n" + text)
                for option in entry["options"]:
                    self.assertIn(f"  {option['name']} ", text)
                    self.assertEqual(option["required"], option["default"] is None and option["required"])
            one = json.loads(self.run_program("list", name, entries[2]["name"], "--json").stdout)
            self.assertEqual(one, [entries[2]])

    def test_each_list_is_a_command_too(self):
        for name in LISTS:
            self.assertEqual(self.run_program(name, "--json").stdout, self.run_program("list", name, "--json").stdout)
            self.assertIn("tapedeck list [KIND [NAME]]", self.run_program(name, "--help").stdout)

    def test_without_a_name_the_lists_are_listed(self):
        counts = {entry["name"]: entry["entries"] for entry in json.loads(self.run_program("list", "--json").stdout)}
        self.assertEqual(counts, {name: len(self.entries(name)) for name in LISTS})
        text = self.run_program("list").stdout
        for name, count in counts.items():
            self.assertRegex(text, rf"tapedeck list {name} +{count}\n")

    def test_defaults_are_what_a_layer_gets(self):
        dense = {option["name"]: option["default"] for option in self.entries("layers")[0]["options"]}
        self.assertEqual(dense["kernel_initializer"], "glorot_uniform")
        self.assertEqual(dense["use_bias"], "true")
        self.assertIsNone(dense["units"])
        losses = {entry["name"]: [option["name"] for option in entry["options"]] for entry in self.entries("losses")}
        self.assertEqual(losses["huber"], ["delta"])
        self.assertEqual(losses["mse"], [])

    def test_what_there_is_not_gets_the_nearest(self):
        self.assertIn("did you mean 'adam'?", self.run_program("list", "optimizers", "adm", status=1).stderr)
        self.run_program("list", "metrics", "auc", "f1", status=2)
        self.assertIn("did you mean 'layers'?", self.run_program("list", "layer", status=2).stderr)
        self.run_program("list", "layers", "--json", "--markdown", status=2)
        self.run_program("list", "--markdown", status=2)


if __name__ == "__main__":
    unittest.main()
