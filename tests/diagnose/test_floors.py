#!/usr/bin/env python3
"""What `tapedeck diagnose` says of the cases in cases/ against floors that it must keep."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import score  # noqa: E402

# Percent, of one seed. Measured over five seeds: see docs/diagnose.md.
FLOORS = {"detected": 97, "diagnosed": 90, "localised": 72, "origin": 100}
MOST_FALSE = 4
MOST_SURE_AND_WRONG = 2  # of about 75 findings that are sure
SEED = 1
# A sanitizer's build is ten times slower: one case of each kind.
FEW = ["at-dead-relu", "dc-arm", "mut-lr-zero", "nan-input", "nan-weights", "ok-xor", "so-31880720", "so-43636736",
       "so-44998910", "tdc-over-scaled"]


class Floors(unittest.TestCase):
    def test_cases_are_diagnosed_as_well_as_before(self):
        few = os.environ.get("TD_SANITIZE")
        result = score.run(os.environ["TAPEDECK"], FEW if few else score.all_cases(), [SEED])
        self.assertEqual(result.broken, [])
        for what, floor in FLOORS.items():
            self.assertGreaterEqual(result.share(what), floor, f"{what}: {dict(result.confusion)}")
        self.assertLessEqual(result.share("false"), MOST_FALSE, dict(result.confusion))
        self.assertLessEqual(result.counts["sure wrong"], MOST_SURE_AND_WRONG, dict(result.right))
        words = score.vocabulary()
        self.assertLessEqual(result.words, set(words["faults"]) | set(words["symptoms"]))
        self.assertLessEqual(result.symptoms, set(words["symptoms"]))


if __name__ == "__main__":
    unittest.main()
