"""Mistakes planted into random PyTorch trainings that no threshold was chosen with, and healthy ones: floors of what is found.
`bench/loops.py` has more of them, of Keras too."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops"))
import score  # noqa: E402
import torch_cases  # noqa: E402
import torch_tutorials  # noqa: E402

SEED = 211
SAMPLE = ("softmax_twice", "nll_of_logits", "broadcast", "labels_shifted", "validation_labels_off_by_one", "leaked_data",
          "one_row_is_nan", "rate_through_1000", "forgotten_activation", "constant_weights", "list_of_layers", "no_zero_grad")
OF_TUTORIALS = ("targets_permuted", "relu_before_the_loss", "one_row_is_nan", "detached_loss", "frozen_by_mistake", "scaled_twice",
                "evaluation_mode")


class LoopCases(unittest.TestCase):
    def check(self, cases, names):
        found = score.Score()
        for name in names:
            part = score.run(cases, [SEED], name, with_healthy_ones=False)
            for counter in ("planted", "detected", "named", "false"):
                getattr(found, counter).update(getattr(part, counter))
            found.healthy += part.healthy
            found.lines += part.lines
        shares = found.shares()
        self.assertGreaterEqual(shares["detected"], 90, found.lines)
        self.assertGreaterEqual(shares["named"], 80, found.lines)
        self.assertEqual(shares["false"], 0, found.lines)

    def test_a_sample(self):
        self.check(torch_cases, SAMPLE)

    def test_a_sample_of_tutorials(self):
        self.check(torch_tutorials, OF_TUTORIALS)


if __name__ == "__main__":
    unittest.main()
