"""Mistakes planted into random PyTorch trainings that no threshold was chosen with, and healthy ones: floors of what is found.
`bench/loops.py` has more of them, of Keras too."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops"))
import score  # noqa: E402
import torch_cases  # noqa: E402

SEED = 211
SAMPLE = ("softmax_twice", "nll_of_logits", "broadcast", "labels_shifted", "validation_labels_off_by_one", "leaked_data",
          "one_row_is_nan", "rate_through_1000", "forgotten_activation", "constant_weights", "list_of_layers", "no_zero_grad")


class LoopCases(unittest.TestCase):
    def test_a_sample(self):
        found = score.Score()
        for name in SAMPLE:
            part = score.run(torch_cases, [SEED], name, with_healthy_ones=False)
            for counter in ("planted", "detected", "named", "false"):
                getattr(found, counter).update(getattr(part, counter))
            found.healthy += part.healthy
            found.lines += part.lines
        shares = found.shares()
        self.assertGreaterEqual(shares["detected"], 90, found.lines)
        self.assertGreaterEqual(shares["named"], 80, found.lines)
        self.assertEqual(shares["false"], 0, found.lines)


if __name__ == "__main__":
    unittest.main()
