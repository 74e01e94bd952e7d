"""Mistakes planted into random PyTorch trainings that no threshold was chosen with, and healthy ones: floors of what is found.
`bench/loops.py` has more of them, of Keras too."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops"))
import score  # noqa: E402
import torch_cases  # noqa: E402
import strangers  # noqa: E402
import torch_tutorials  # noqa: E402

SEED = 211
SAMPLE = ("softmax_twice", "broadcast", "labels_shifted", "leaked_data", "one_row_is_nan", "rate_through_1000", "list_of_layers", "no_zero_grad")
OF_TUTORIALS = ("targets_permuted", "one_row_is_nan", "detached_loss", "frozen_by_mistake", "evaluation_mode")
OF_STRANGERS = {
    "class_and_box": ("softmax_before_loss", "box_head_left_out"), "linear_machine": ("broadcast",), "makemore_mlp": ("constant_weights",),
    "neural_collaborative_filtering": (), "unet_with_dice": ("no_activations", "sigmoid_twice"), "two_towers": ("scores_through_softmax",),
    "score_matching": ("energy_detached",), "dcgan": ("wrong_optimizer_for_g",), "min_gpt": ("blocks_in_a_list",), "reinforce": (),
}


class LoopCases(unittest.TestCase):
    def check(self, cases, names):
        found = score.Score()
        for name in names:
            part = score.run(cases, [SEED], name, with_healthy_ones=False)
            for counter in ("planted", "detected", "named", "false"):
                getattr(found, counter).update(getattr(part, counter))
            found.healthy += part.healthy
            found.lines += part.lines
        self.compare(found)

    def compare(self, found, detected=90):
        shares = found.shares()
        self.assertGreaterEqual(shares["detected"], detected, found.lines)
        self.assertGreaterEqual(shares["named"], 80, found.lines)
        self.assertEqual(shares["false"], 0, found.lines)

    def test_a_sample(self):
        self.check(torch_cases, SAMPLE)

    def test_a_sample_of_tutorials(self):
        self.check(torch_tutorials, OF_TUTORIALS)

    def test_a_sample_of_strangers(self):
        self.compare(strangers.run([SEED], wanted=OF_STRANGERS), 85)  # of losses written by hand the targets are not seen


if __name__ == "__main__":
    unittest.main()
