"""Columns of dates become numbers: compared with pandas."""
import itertools
import unittest

import numpy
import pandas

from program import Case

EXPERIMENT = """
name: d
seed: 1
data: {train: sales.csv, label: y, dates: DATES, shuffle: false, batch: 100}
model: [dense: {units: 1}]
train: {loss: mse, epochs: 1}
record: [{what: input, form: rows, to: [csv]}]
"""
PARTS = ["year", "month", "day", "weekday", "day_of_year", "hour", "minute", "second", "month_sin", "month_cos",
         "weekday_sin", "weekday_cos", "day_of_year_sin", "day_of_year_cos", "hour_sin", "hour_cos", "days"]


def expected(times, since=None):
    """What pandas has of times in UTC."""
    t = pandas.DatetimeIndex(times)
    hours = t.hour + t.minute / 60 + t.second / 3600 + t.microsecond / 3.6e9
    cycles = {"month": (t.month - 1) / 12, "weekday": t.weekday / 7, "hour": hours / 24,
              "day_of_year": (t.dayofyear - 1) / numpy.where(t.is_leap_year, 366, 365)}
    since = pandas.Timestamp(since) if since else t.min().normalize()
    found = {"year": t.year, "month": t.month, "day": t.day, "weekday": t.weekday, "day_of_year": t.dayofyear,
             "hour": t.hour, "minute": t.minute, "second": t.second + t.microsecond / 1e6,
             "days": (t - since) / pandas.Timedelta(days=1)}
    for name, value in cycles.items():
        found[name + "_sin"] = numpy.sin(2 * numpy.pi * numpy.asarray(value))
        found[name + "_cos"] = numpy.cos(2 * numpy.pi * numpy.asarray(value))
    return found


class Dates(Case):
    folders = itertools.count()

    def times(self, count=60, first="1996-01-01", days=12000):
        random = numpy.random.default_rng(5)
        return pandas.DatetimeIndex(pandas.Timestamp(first) + pandas.to_timedelta(
            random.integers(0, days * 86400, count), unit="s"))

    def put(self, texts, name="sales.csv", x=None):
        pandas.DataFrame({"when": texts, "x": x if x is not None else numpy.arange(len(texts)),
                          "y": numpy.arange(len(texts)) % 7}).to_csv(self.path(name), index=False)

    def inputs(self, run="d"):
        return pandas.read_csv(self.path("runs", run, "input.csv")).iloc[:, 3:].to_numpy()

    def check(self, texts, times, dates="{when: {parts: [%s]}}" % ", ".join(PARTS), parts=tuple(PARTS), since=None):
        self.put(texts)
        folder = f"runs/{next(self.folders)}"
        out = self.train(EXPERIMENT.replace("DATES", dates), "--quiet", "--out", folder)
        found = pandas.read_csv(self.path(folder, "d", "input.csv")).iloc[:, 3:].to_numpy()
        wanted = expected(times, since)
        for i, part in enumerate(parts):
            numpy.testing.assert_allclose(found[:, i], numpy.asarray(wanted[part], "float64"), rtol=1e-6, atol=2e-6,
                                          err_msg=part)
        numpy.testing.assert_array_equal(found[:, len(parts)], numpy.arange(len(texts)))
        return out

    def test_spellings(self):
        times = self.times()
        for pattern in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p",
                        "%d/%m/%Y, %H:%M:%S", "%d %B %Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%B %d, %Y %H:%M:%S",
                        "%Y%m%dT%H%M%S", "%Y/%m/%d %H:%M:%S"):
            with self.subTest(pattern):
                self.check(list(times.strftime(pattern)), times)

    def test_fractions(self):
        times = self.times(first="2020-01-01", days=9) + pandas.Timedelta(microseconds=250000)
        self.check([t.isoformat() for t in times], times)

    def test_without_a_time(self):
        times = self.times().normalize()
        parts = [p for p in PARTS if p in ("year", "month", "day", "weekday", "month_sin", "month_cos", "weekday_sin",
                                           "weekday_cos", "days")]
        for pattern in ("%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%d %b %Y"):
            self.check(list(times.strftime(pattern)), times, "when", parts)

    def test_with_a_time(self):
        parts = [p for p in PARTS if p not in ("minute", "second") and "day_of_year" not in p]
        times = self.times()
        self.check(list(times.strftime("%Y-%m-%d %H:%M:%S")), times, "[when]", parts)

    def test_time_zones(self):
        times = self.times()
        zones = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"]
        texts = [t.tz_localize("UTC").tz_convert(zones[i % 4]).isoformat() for i, t in enumerate(times)]
        self.check(texts, times)

    def test_some_without_a_zone_are_reported(self):
        times = self.times()
        texts = [t.isoformat() + ("Z" if i else "") for i, t in enumerate(times)]
        self.put(texts)
        out = self.train(EXPERIMENT.replace("DATES", "when"))
        self.assertIn("sales.csv, column 'when': 1 of 60 dates have no time zone; they are taken as UTC", out.stderr)

    def test_order_and_beginning_that_are_asked_for(self):
        times = pandas.DatetimeIndex(["2024-05-01", "2024-07-06", "2023-01-12"])
        self.check(list(times.strftime("%d/%m/%Y")), times,
                   "{when: {parts: [month, days], order: day_first, since: 2020-02-29}}", ("month", "days"), "2020-02-29")
        self.check(list(times.strftime("%m-%d-%Y")), times,
                   "{when: {parts: [month, days], order: month_first}}", ("month", "days"))

    def test_new_data_as_in_training(self):
        self.put(["31/12/2023 10:00", "01/02/2024 11:30", "03/04/2024 23:00"])
        self.train(EXPERIMENT.replace("DATES", "when"), "--quiet")
        self.put(["05/06/2024", "07/08/2024"], "new.csv", x=[3, 4])
        wanted = expected(["2024-06-05", "2024-08-07"], "2023-12-31")
        for model in ("runs/d", "m.keras", "m.safetensors"):
            if model != "runs/d":
                self.run_program("weights", "runs/d", "--to", model)
            self.run_program("predict", model, "new.csv", "--to", "p.csv", "--force")
            self.run_program("gradients", model, "new.csv", "--layer", "dense", "--loss", "mse")
        kernel = pandas.read_csv(self.path("p.csv"))
        self.run_program("weights", "runs/d", "--to", "w.npz")
        with numpy.load(self.path("w.npz")) as weights:
            parts = ["year", "month", "day", "weekday", "hour", "month_sin", "month_cos", "weekday_sin", "weekday_cos",
                     "hour_sin", "hour_cos", "days"]
            x = numpy.stack([numpy.asarray(wanted[p], "float64") for p in parts] + [numpy.array([3.0, 4])], 1)
            numpy.testing.assert_allclose(kernel.iloc[:, -1], (x @ weights["dense.kernel"] + weights["dense.bias"])[:, 0],
                                          rtol=1e-4)
        self.run_program("evaluate", "runs/d", "new.csv")

    def test_a_model_goes_on_with_what_the_experiment_says(self):
        self.put(["2023-12-30", "2024-02-01", "2024-04-03"])
        self.train(EXPERIMENT.replace("DATES", "when"), "--quiet")
        self.put(["31/12/2023", "01/02/2024", "03/04/2024"])
        again = EXPERIMENT.replace("name: d", "name: e").replace("model: [dense: {units: 1}]", "model: {file: runs/d}")
        self.train(again.replace("DATES", "{when: {order: day_first, since: 2023-12-01}}"), "--quiet")
        rows = pandas.read_csv(self.path("runs", "e", "input.csv"))
        names = [part for part in PARTS if part in ("year", "month", "day", "weekday", "month_sin", "month_cos", "weekday_sin", "weekday_cos", "days")]
        self.assertEqual(rows[f"input_{names.index('days')}"].tolist(), [30, 62, 124])
        self.assertEqual(rows["input_2"].tolist(), [31, 1, 3])

        done = self.run_program("train", "experiment.yaml", "--set", "data.dates={when: [days, year]}", status=2)
        self.assertIn("leave `parts` out", done.stderr)

    def test_columns_whose_names_begin_alike(self):
        self.write("sales.csv", "when,when.day,y\n2024-01-01,3,1\n2024-01-02,4,0\n")
        done = self.train(EXPERIMENT.replace("DATES", "when"), "--quiet", status=2)
        self.assertIn("column 'when.day' is called as an input that column 'when' becomes", done.stderr)
        self.write("sales.csv", "when,when.spent,y\n2024-01-01,3,1\n2024-01-02,4,0\n2024-02-03,5,1\n")
        self.train(EXPERIMENT.replace("DATES", "{when: [month]}"), "--quiet")
        rows = pandas.read_csv(self.path("runs", "d", "input.csv"))
        self.assertEqual((rows["input_0"].tolist(), rows["input_1"].tolist()), ([1, 1, 2], [3, 4, 5]))

    def test_a_validation_file_and_the_cache(self):
        self.put(["31/12/2023", "01/02/2024"] * 400)
        self.put(["01/02/2024", "03/02/2024"], "other.csv")
        text = EXPERIMENT.replace("DATES", "{when: [month, days]}, validation: other.csv").replace("input, form", "[input, prediction], form")
        self.train(text, "--quiet")
        for _ in range(2):
            self.train(text, "--quiet", "--set", "data.memory=4 KiB")
        self.assertEqual(sorted({tuple(r[:2]) for r in self.inputs()}), [(2.0, 32.0), (12.0, 0.0)])
        for run in ("d-2", "d-3"):
            self.assertEqual(self.bytes("runs", "d", "input.csv"), self.bytes("runs", run, "input.csv"))
            self.assertEqual(self.bytes("runs", "d", "model.safetensors")[-8:], self.bytes("runs", run, "model.safetensors")[-8:])

    def test_missing_dates(self):
        self.put(["2024-05-01", "", "2024-05-03", "2024-05-08"])
        text = EXPERIMENT.replace("DATES", "{when: [day]}")
        self.assertIn("when: 1, the first in line 3", self.train(text, status=2).stderr)
        self.train(text, "--quiet", "--set", "data.missing=mean")
        self.assertEqual(list(self.inputs()[:, 0]), [1, 4, 3, 8])

    def test_grouped_and_resumed(self):
        self.put(["31/12/2023", "01/02/2024"] * 4)
        self.train(EXPERIMENT.replace("DATES", "{when: [month, days]}"), "--quiet")
        self.put(["01/02/2024", "03/02/2024"] * 4)
        self.run_program("train", "--resume", "runs/d", "--set", "train.epochs=2", "--quiet")
        self.assertEqual({tuple(r[:2]) for r in self.inputs()[8:]}, {(2.0, 32.0), (2.0, 34.0)})

    def test_mistakes(self):
        def refused(texts, sentence, dates="when"):
            self.put(texts)
            self.assertIn(sentence, self.train(EXPERIMENT.replace("DATES", dates), "--out", "none", status=2).stderr)
        refused(["2024-05-01", "yesterday"], "sales.csv line 3 (row 2), column 'when': 'yesterday' is no date")
        refused(["2024-02-29", "2023-02-29"], "line 3 (row 2), column 'when': '2023-02-29' is no date")
        refused(["2024-02-29", "2023-02-01 24:61"], "is no date")
        refused(["2024-02-29", "1/2/24"], "is no date")
        refused(["01/02/2024", "03/04/2024"], "do its dates have the day first (31/5/2024) or the month")
        refused(["13/02/2024", "03/14/2024"], "some dates have the day first, others the month")
        refused(["13/02/2024", "03/04/2024"], "'13/02/2024' is no date, with the month first",
                "{when: {order: month_first}}")
        refused(["2024-05-01"] * 2, "'moon' is no part of a date", "{when: [moon]}")
        refused(["2024-05-01"] * 2, "expected a date as 2024-05-31", "{when: {since: soon}}")
        refused(["2024-05-01"] * 2, "no column 'then'", "then")


if __name__ == "__main__":
    unittest.main()
