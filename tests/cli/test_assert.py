"""tapedeck assert: what holds of a run is what its database says, and mistakes are no answers."""
import json
import sqlite3
import unittest
import xml.etree.ElementTree

from program import Case, SMALL

RECORD = """
record:
  - {what: [loss, accuracy, val_loss], every: 1 epoch, to: csv}
  - {what: "*.gradient", every: 2 steps, form: stats, to: csv}
  - {what: "hidden.kernel", every: 1 epoch, form: tensor, to: npy}
"""


class Assert(Case):
    def setUp(self):
        super().setUp()
        self.train(SMALL + RECORD, "--quiet")
        self.database = sqlite3.connect(self.path("runs", "small", "run.db"))
        self.addCleanup(self.database.close)

    def number(self, sql):
        return self.database.execute(sql).fetchone()[0]

    def check(self, expression, status=0):
        done = self.run_program("assert", "runs/small", expression, "--json", status=status)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["holds"], status == 0)
        return answer["terms"]

    def test_values_are_the_last_ones_recorded(self):
        loss = self.number("select value from scalar join signal on id = signal where name = 'loss' order by step desc limit 1")
        mean = self.number("select avg(value) from (select value from scalar join signal on id = signal where name = 'loss'"
                           " order by step desc limit 3)")
        norm = self.number("select max(norm) from (select norm, max(step) from stats join signal on id = signal"
                           " where name like '%.gradient' group by name)")
        for text, value in (("loss", loss), ("mean(loss, 3)", mean), ("max(*.gradient.norm)", norm)):
            self.check(f"{text} < {value * (1 + 1e-9)!r} and {text} > {value * (1 - 1e-9)!r}")
            self.check(f"{text} > {value * (1 + 1e-9)!r}", status=1)
        self.check("epoch == 4 and step == 20 and hidden.kernel.count == 16 and delta(loss) != 0")
        terms = self.check(f"loss < {loss / 2!r} and not nan(*)", status=1)
        self.assertEqual([(term["text"], term["holds"]) for term in terms], [(f"loss < {loss / 2!r}", False), ("not nan(*)", True)])
        self.assertAlmostEqual(float(terms[0]["values"].split(" = ")[1]), loss, places=6)

    def test_nan_counts_over_all_steps(self):
        step = self.number("select min(step) from stats") + 2
        self.database.execute("update stats set nan = 3 where step = ? and signal = (select id from signal where name ="
                              " 'hidden.bias.gradient')", (step,))
        self.database.commit()
        terms = self.check("not nan(*)", status=1)
        self.assertEqual(terms[0]["values"], f"nan(*) = 3 (first: hidden.bias.gradient, step {step})")
        self.check("not nan(*.kernel.gradient) and nan(*) == 3")

    def test_parentheses_are_one_term(self):
        terms = self.check("(loss < 100 and loss > 0) and (loss > 100 or epoch == 4)")
        self.assertEqual([term["text"] for term in terms], ["(loss < 100 and loss > 0)", "(loss > 100 or epoch == 4)"])
        terms = self.check("loss > 100 or epoch == 4")
        self.assertEqual([term["text"] for term in terms], ["loss > 100 or epoch == 4"])

    def test_mistakes_are_no_answers(self):
        for expression, message in (("los < 1", "did you mean loss"), ("loss <", "ends where"), ("nan(*.nothing) == 0", "matches no signal"),
                                    ("hidden.kernel.gradient < 1", "is a tensor"), ("loss && 1", "write and"), ("", "ends where")):
            done = self.run_program("assert", "runs/small", expression, status=2)
            self.assertEqual(done.stdout, "")
            self.assertIn(message, done.stderr)
            self.assertNotIn("when:", done.stderr)
        self.run_program("assert", "runs/none", "loss < 1", status=1)
        self.run_program("assert", "runs/small", status=2)
        self.run_program("assert", "runs/small", "loss < 1", "--tolerance", "1", status=2)

    def test_junit_is_xml_with_a_case_for_each_term(self):
        self.run_program("assert", "runs/small", 'loss > 100 and "loss" < 1e9', "epoch == 4", "--junit", "result.xml", status=1)
        suite = xml.etree.ElementTree.parse(self.path("result.xml")).getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("3", "1"))
        self.assertEqual([case.get("name") for case in suite], ["loss > 100", '"loss" < 1e9', "epoch == 4"])
        self.assertIn("loss = ", suite[0][0].get("message"))
        self.assertEqual(len(suite[1]), 0)
        done = self.run_program("assert", "runs/small", "epoch == 4", "--junit", "no/such/folder.xml", status=1)
        self.assertIn("cannot write", done.stderr)

    def test_two_runs(self):
        self.train((SMALL + RECORD).replace("name: small", "name: same"), "--quiet")
        self.train((SMALL + RECORD).replace("name: small", "name: other").replace("seed: 3", "seed: 4"), "--quiet")
        for sign in ("~=", "≈"):
            self.run_program("assert", "runs/small", sign, "runs/same")
            done = self.run_program("assert", "runs/small", sign, "runs/other", status=1)
            self.assertIn("FAILED", done.stdout)
        self.run_program("assert", "runs/small", "~=", "runs/other", "--what", "*loss", "--tolerance", "0.999")
        self.run_program("assert", "runs/small", "~=", "runs/other", "--what", "nothing", status=1)
        self.run_program("assert", "runs/small", "~=", status=2)

    def test_a_damaged_run_does_not_hold(self):
        path = self.path("runs", "small", "run.db")
        self.database.execute("pragma wal_checkpoint(truncate)")
        self.database.close()
        with open(path, "r+b") as file:
            file.truncate(len(file.read()) - 5000)
        done = self.run_program("assert", "runs/small", "epoch >= 0", "--junit", "result.xml", status=1)
        self.assertIn("damaged", done.stderr)
        suite = xml.etree.ElementTree.parse(self.path("result.xml")).getroot()[0]
        self.assertNotEqual(suite.get("failures"), "0")


if __name__ == "__main__":
    unittest.main()
