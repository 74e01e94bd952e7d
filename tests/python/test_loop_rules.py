"""Rules for errors of the program that trains, on the facts that `watch` records of a loop: no framework is needed."""

import json
import math
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import tapedeck

TAPEDECK = os.environ["TAPEDECK"]
RULES = pathlib.Path(os.environ["TD_SOURCE"], "src", "training", "diagnose", "rules")

HEAD = {"loss": "cross_entropy", "activation": "linear", "axis": 1, "rank": 2, "layer": "last", "losses": 1, "divisor": 1.0,
        "reduction": "mean", "linear_layers": 1, "is_linear": False, "is_narrow": False}
OPTIMIZER = {"kind": "Adam", "lr": 1e-3, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0}
PLAIN = {"head": HEAD, "optimizer": OPTIMIZER, "optimizers": {"ours": 1, "others": 0}, "target": {"minimum": 0.0, "maximum": 3.0},
         "input": {"minimum": -3.0, "maximum": 3.0, "size": 1.0}, "steps": {"count": 16, "median": 0.01, "largest": 0.05},
         "classes": {"count": 4, "batches": 9, "purity": 0.3, "chance": 0.25, "labels": 288},
         "updates": 40, "trainable": 4, "strangers": 0, "labels": {"again": 64, "changed": 1},
         "loader": {"batches": 10, "workers": 2, "stream": True},
         "batches": {"updates": 40, "passes": 40, "ones": 1, "repeated": 1, "copies": 1, "again": 1, "among": 16},
         "validation": {"passes": 8, "training": 1, "kinds": ["Dropout"], "since": 3},
         "scheduler": {"kind": "StepLR", "steps": 4, "early": 0, "updates": 40, "period": 0, "most": 0.1, "rate": 1e-5,
                       "collapsed": 30, "since": 11},
         "clipping": {"kind": "norm", "calls": 120, "norms": 120, "acted": 120, "strong": 60, "largest": 3.0,
                      "limit": 1.0, "scaled": 0, "since": 1},
         "scaler": {"calls": 40, "skipped": 5, "in_a_row": 4, "since": 1},
         "zero_rate_0": {"in_a_row": 0, "of": 40}, "detached": {"count": 1, "since": 1}, "cleared": {"count": 1, "since": 1},
         "evaluating": {"count": 1, "since": 1, "kinds": ["Dropout"]}}

# Rule: facts that differ from PLAIN, the layer that is named, the confidence.
FOUND = {
    "stale_optimizer": ({"strangers": 2, "without_optimizer": {"count": 2, "names": ["fc.weight", "fc.bias"]}}, "fc", "sure"),
    "parameter_without_optimizer": ({"without_optimizer": {"count": 1, "names": ["a.b.weight"], "leading": False}}, "a.b", "sure"),
    "detached_loss": ({"detached": {"count": 16, "since": 1}}, None, "sure"),
    "gradients_cleared": ({"cleared": {"count": 2, "since": 1}}, None, "sure"),
    "gradients_added_up": ({"added_up": {"count": 15, "since": 2}}, None, "sure"),
    "parameter_without_gradient": ({"without_gradient": {"count": 1, "names": ["first.weight"]}}, "first", "likely"),
    "parameter_unchanged": ({"unchanged": {"count": 1, "names": ["first.weight"]}}, "first", "likely"),
    "zero_learning_rate": ({"zero_rate_3": {"in_a_row": 40, "of": 40}}, None, "sure"),
    "evaluation_mode": ({"evaluating": {"count": 30, "since": 11, "kinds": ["Dropout"]}}, None, "likely"),
    "training_mode": ({"validation": {"passes": 4, "training": 4, "kinds": ["Dropout"], "since": 11}}, None, "likely"),
    "dropout_in_evaluation": ({"dropout": {"count": 1, "since": 11, "what": "dropout(training=True)"}}, None, "likely"),
    "scheduler_before_optimizer": ({"scheduler": {"kind": "StepLR", "steps": 3, "early": 1, "updates": 40}}, None, "sure"),
    "scheduler_per_batch": ({"scheduler": {"kind": "StepLR", "steps": 40, "updates": 40, "collapsed": 4, "most": 0.1,
                                           "rate": 1e-9}}, None, "likely"),
    "clipping_before_unscaling": ({"clipping": {"calls": 2, "scaled": 2, "largest": 900.0, "limit": 1.0, "since": 1}}, None, "sure"),
    "clipping_always": ({"clipping": {"calls": 40, "norms": 40, "strong": 39, "largest": 90.0, "limit": 1.0}}, None, "likely"),
    "clipping_never": ({"clipping": {"calls": 120, "norms": 120, "strong": 0, "largest": 0.5, "limit": 100.0}}, None, "maybe"),
    "skipped_updates": ({"scaler": {"calls": 9, "skipped": 9, "in_a_row": 9, "since": 1}}, None, "sure"),
    "workers_repeat_data": ({"batches": {"updates": 16, "repeated": 8, "again": 8, "among": 16, "since": 2}}, None, "sure"),
    "random_state_lost": ({"resumed": {"repeated": 3, "since": 13, "of": 1}}, None, "sure"),
    "repeated_batch": ({"batches": {"updates": 4, "repeated": 3, "since": 2},
                        "loader": {"batches": 10, "workers": 0, "stream": False}}, None, "sure"),
    "labels_shuffled": ({"labels": {"again": 64, "changed": 40, "since": 12}}, None, "sure"),
    "broken_weight_tying": ({"untied": {"names": [["embedding.weight", "head.weight"]], "shared": 0, "since": 1}}, None, "likely"),
    "unregistered_layers": ({"unregistered": {"count": 1, "names": ["blocks.0.weight"]}}, "blocks.0", "sure"),
    "untrained_frozen": ({"frozen": {"count": 1, "names": ["a.weight"]}}, "a", "likely"),
    "broadcast_in_loss": ({"head": HEAD | {"compared": {"output": [8, 1], "compared": [8, 8]}}}, "last", "sure"),
    "redundant_softmax": ({"head": HEAD | {"activation": "softmax"}}, "last", "sure"),
    "missing_output_activation": ({"head": HEAD | {"loss": "nll_loss"}}, "last", "sure"),
    "wrong_output_activation": ({"head": HEAD | {"activation": "relu"}}, "last", "likely"),
    "labels_out_of_range": ({"head": HEAD | {"loss": "binary_cross_entropy_with_logits"},
                             "target": {"minimum": -1.0, "maximum": 1.0}}, "last", "sure"),
    "missing_activation": ({"head": HEAD | {"is_linear": True, "linear_layers": 2}}, "last", "likely"),
    "nonfinite_input": ({"nonfinite": {"what": "input", "row": 3, "loss": "NaN", "since": 7}}, None, "sure"),
    "nonfinite_label": ({"nonfinite": {"what": "label", "row": 3, "loss": "NaN", "since": 7}}, None, "sure"),
    "nonfinite_weights": ({"nonfinite": {"what": "weights", "names": ["a.weight"], "updates": 0, "loss": "NaN", "since": 1}},
                          "a", "sure"),
    "unshuffled_data": ({"classes": {"count": 4, "batches": 9, "purity": 0.9, "chance": 0.25}}, None, "likely"),
    "bad_initialization": ({"start": {"names": ["a.weight"], "equal": 1, "value": 0.5, "ratio": 0.0}}, "a", "sure"),
    "over_regularization": ({"optimizer": OPTIMIZER | {"weight_decay": 1.0}}, None, "maybe"),
    "wrong_optimizer": ({"optimizer": OPTIMIZER | {"eps": 1.0}}, None, "maybe"),
    "learning_rate_too_high": ({"nonfinite": {"what": "weights", "names": ["a.weight"], "updates": 4, "loss": "NaN", "since": 5}},
                               None, "likely"),
    "data_leak": ({"copies": {"rows": 40, "copies": 10, "within": 0.0, "apart": False}}, None, "likely"),
    "bad_labels": ({"said_of_validation": {"examples": 80, "classes": 4, "right": 0.05, "renamed": 0.9, "moved": 4, "label": 1,
                                           "said": 0}}, None, "likely"),
    "overflow": ({"nonfinite": {"what": "pass", "loss": "infinite", "since": 1, "updates": 0, "operation": "exp", "layer": "scale",
                                "is_layer": False, "divides": False, "is_loss": False, "row": 4}}, "scale", "sure"),
    "division_by_zero": ({"nonfinite": {"what": "pass", "loss": "NaN", "since": 1, "updates": 0, "operation": "log", "layer": "head",
                                        "is_layer": False, "divides": True, "is_loss": True, "argument": 0.0}}, "head", "sure"),
    "dropout_too_high": ({"dropping": {"count": 1, "names": ["drop"], "rate": 0.9}}, None, "maybe"),
    "optimizer_of_frozen": ({"frozen_optimizer": {"count": 9, "since": 1, "parameters": 2}}, None, "sure"),
    "idle_updates": ({"idle": {"count": 9, "since": 31, "names": ["fc.weight"]}}, "fc", "likely"),
    "train_not_called": ({"train_not_called": {"count": 2, "since": 1, "names": ["body.0.weight"]}}, "body.0", "likely"),
    "autocast_ignored": ({"autocast": {"count": 1, "since": 1, "names": ["fc.weight"]}}, "fc", "likely"),
    "spectral_norm_unset": ({"spectral": {"count": 1, "since": 1, "share": 0.01, "names": ["fc.weight"]}}, "fc", "likely"),
    "batch_norm_of_one": ({"batches": {"updates": 4, "passes": 4, "ones": 4}}, None, "sure"),
}
# Rule: facts that differ from PLAIN; the loss never falls.
FOUND_BY_LOSS = {
    "learning_rate_too_low": {"steps": {"count": 16, "median": 1e-6, "largest": 1e-5}},
    "learning_rate_too_high": {"steps": {"count": 16, "median": 0.9, "largest": 2.0}},
    "over_regularization": {"optimizer": OPTIMIZER | {"weight_decay": 1.0}},
    "wrong_optimizer": {"optimizer": OPTIMIZER | {"eps": 1.0}},
    "unscaled_inputs": {"input": {"minimum": 0.0, "maximum": 255.0, "size": 130.0}},
    "dropout_too_high": {"dropping": {"count": 1, "names": ["drop"], "rate": 0.9}},
    "bad_initialization": {"biases": {"count": 1, "names": ["h.bias"], "largest": 40.0}},
}
# Rule: what rank 0 and rank 1 have.
APART, SAME = {"1": 7, "2": 8}, {"1": 5, "2": 6}
RANKS = {"replicas_drift": ({"fingerprints": {"1": 1, "2": 2, "4": 3}, "batch_fingerprints": SAME},
                            {"fingerprints": {"1": 1, "2": 9, "4": 8}, "batch_fingerprints": APART}),
         "replicas_same_data": ({"fingerprints": {"1": 1}, "batch_fingerprints": SAME},
                                {"fingerprints": {"1": 1}, "batch_fingerprints": SAME})}


def record(path, loop, **notes):
    with tapedeck.Deck(path) as deck:
        deck.note("loop", loop if isinstance(loop, str) else json.dumps(loop))
        for key, value in notes.items():
            deck.note(key, value)
        deck.log(loss=1.0)
        deck.step()
    return deck.folder


def record_ranks(path, mine, others, **notes):
    others = others if isinstance(others, list) else [others]
    notes = {"world_size": str(1 + len(others)), "replicas": "True"} | notes
    run = record(path, PLAIN | mine, rank="0", **notes)
    for rank, facts in enumerate(others, 1):
        record(f"{path}-rank{rank}", PLAIN | facts, rank=str(rank), **notes)
    return run


def record_seconds(path, *seconds, steps=10):
    """A run of several ranks; in each step rank r took seconds[r]."""
    for rank, taken in enumerate(seconds):
        with tapedeck.Deck(path, rank=rank, world=len(seconds)) as deck:
            deck._native.signal("local_seconds", placement="batch")
            deck.note("loop", json.dumps(PLAIN))
            for step in range(steps):
                deck.log(loss=1.0, local_seconds=taken[step % len(taken)])
                deck.step()
    return path


class LoopRules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def record(self, loop, name="run", **notes):
        return record(os.path.join(self.folder.name, name), loop, **notes)

    def diagnose(self, run, *options):
        out = subprocess.run([TAPEDECK, "diagnose", run, "--json", *options], capture_output=True, text=True, timeout=60)
        self.assertIn(out.returncode, (0, 1), out.stderr)
        return json.loads(out.stdout), out.returncode

    def test_every_rule_has_a_case(self):
        rules = {path.stem for path in RULES.glob("*.c") if "diagnose/loop.h" in path.read_text(encoding="utf-8")}
        on_request = {"bad_row", "moment2_lost", "precision_lost", "rank_collapse"}  # ../unit/diagnose/test_on_request.c
        self.assertEqual(rules, set(FOUND) | set(RANKS) | set(FOUND_BY_LOSS) | {"plateau", "slow_rank", "unscaled_targets", "wrong_loss"} | on_request)

    def test_plain_facts_raise_nothing(self):
        found, status = self.diagnose(self.record(PLAIN))
        self.assertEqual((found["findings"], status), ([], 0))

    def test_each_is_found_and_nothing_else(self):
        for i, (rule, (facts, layer, confidence)) in enumerate(FOUND.items()):
            with self.subTest(rule):
                found, status = self.diagnose(self.record(PLAIN | facts, f"run{i}"))
                self.assertEqual([(f["rule"], f["layer"], f["confidence"]) for f in found["findings"]], [(rule, layer, confidence)])
                self.assertEqual(status, confidence != "maybe")
                since = [fact["since"] for fact in facts.values() if isinstance(fact, dict) and "since" in fact]
                if since and rule not in ("repeated_batch", "scheduler_per_batch"):
                    self.assertEqual(found["findings"][0]["since_step"], since[0])

    def record_losses(self, name, losses, loop=PLAIN, **metrics):
        with tapedeck.Deck(os.path.join(self.folder.name, name)) as deck:
            deck.note("loop", json.dumps(loop))
            for i, loss in enumerate(losses):
                deck.log(**{"loss": loss} | {key: values[i] for key, values in metrics.items()})
                deck.step()
        found, status = self.diagnose(deck.folder)
        return [(f["cause"], f["confidence"], f["since_step"]) for f in found["findings"]], status

    def test_a_loss_that_never_falls_makes_these_likely(self):
        for rule, facts in FOUND_BY_LOSS.items():
            with self.subTest(rule):
                found, status = self.record_losses(rule, [1.0] * 60, PLAIN | facts)
                self.assertEqual(([(cause, confidence) for cause, confidence, _ in found if confidence != "maybe"], status),
                                 ([(rule, "likely")], 1))

    def test_a_loss_that_falls_to_that_of_a_guess(self):
        guess, four = math.log(4), PLAIN | {"head": HEAD | {"columns": 4}}
        found, status = self.record_losses("guess", [guess + 2 * 0.7 ** i for i in range(60)], four)
        self.assertEqual(([entry[:2] for entry in found], status), ([("plateau", "likely")], 1))
        self.assertEqual(self.record_losses("better", [0.5 * guess + 2 * 0.7 ** i for i in range(60)], four)[1], 0)

    def test_targets_that_outputs_do_not_reach(self):
        far = PLAIN | {"head": HEAD | {"loss": "mse_loss"}, "target": {"minimum": 3e5, "maximum": 5e5, "size": 4e5}}
        found, status = self.record_losses("far", [1.6e11 - 1e8 * i for i in range(60)], far)
        self.assertEqual((found[0][:2], status), (("unscaled_targets", "likely"), 1))
        self.assertEqual(self.record_losses("near", [1.6e11 / (i + 1) ** 4 for i in range(60)], far)[1], 0)

    def test_facts_of_keras(self):
        """What `Recorder` alone writes."""
        head = {key: HEAD[key] for key in ("activation", "reduction", "divisor")} | {"losses": 2}
        two = {key: value for key, value in PLAIN.items() if key != "head"}
        value = head | {"output": "value", "layer": "value", "loss": "mse_loss", "activation": "relu", "target": {"minimum": -1.0, "maximum": 1.0}}
        kind = head | {"output": "kind", "layer": "kind", "loss": "cross_entropy", "activation": "softmax"}
        alike = {"examples": 400, "same": 0.25, "chance": 0.25, "told": 0.25, "most": 0.25, "distance": 1.0}
        none, some = {"neighbours": alike}, {"neighbours": alike | {"same": 0.9}}
        left = {"count": 1, "names": ["decoder.kernel"], "left_out": True}
        for name, facts, wanted in (
                ("relu", two | {"heads": [value, head | {"output": "other"}]}, [("wrong_output_activation", "value", "sure")]),
                ("twice", two | {"heads": [kind]}, [("redundant_softmax", "kind", "sure")]),
                ("left", PLAIN | {"unchanged": left | {"new": 1}}, [("parameter_unchanged", "decoder", "likely")]),
                ("teacher", PLAIN | {"unchanged": left | {"new": 0}}, []),
                ("copied", PLAIN | {"copied_targets": {"columns": 2, "of": 2, "validation": 0}}, [("data_leak", None, "likely")]),
                ("known", PLAIN | {"copied_targets": {"columns": 2, "of": 2, "validation": 2}}, []),
                ("part", PLAIN | {"copied_targets": {"columns": 1, "of": 2, "validation": 0}}, []),
                ("moved", PLAIN | {"token_places": {"training": "the token before", "validation": "their own token", "gain": 0.4}},
                 [("bad_labels", None, "likely")]),
                ("own", PLAIN | {"token_places": {"training": "their own token", "validation": "their own token", "gain": 0.0}}, []),
                ("one", PLAIN | {"loader": {"batches": 21}, "batches": {"updates": 16, "repeated": 15, "copies": 15, "since": 2, "passing": True}},
                 [("repeated_batch", None, "likely")])):
            with self.subTest(name):
                found = self.diagnose(self.record(facts, name))[0]["findings"]
                self.assertEqual([(f["rule"], f["layer"], f["confidence"]) for f in found if f["confidence"] != "maybe"], wanted)
        flat = [1.0 - 0.001 * i for i in range(60)]
        for name, heads, wanted in (("all", [head | none, head | none], True), ("one of two", [head | none, head | some], False)):
            found, _ = self.record_losses(name, flat, two | {"heads": heads})
            self.assertEqual(("bad_labels", "likely") in [each[:2] for each in found], wanted, found)
        still = PLAIN | {"optimizers": {"ours": 1, "others": 1}, "steps": {"count": 16, "median": 1e-6, "largest": 1e-5, "way": 1e-4,
                                                                           "way_updates": 40, "drawn": True}}
        self.assertIn(("learning_rate_too_low", "likely"), [each[:2] for each in self.record_losses("still", flat, still)[0]])

    def test_a_loss_without_a_least_value(self):
        for name, losses, wanted in (("endless", [-0.5 * i * i for i in range(60)], True), ("density", [90 - 12 * i ** 0.5 for i in range(60)], False),
                                     ("rest", [-900 * (1 - 0.8 ** i) for i in range(60)], False)):
            found, _ = self.record_losses(name, losses)
            self.assertEqual("wrong_loss" in [cause for cause, _, _ in found], wanted, found)

    def test_a_trained_network_need_not_learn_more(self):
        """A cross-entropy that begins far below that of a guess."""
        little = PLAIN | {"steps": {"count": 16, "median": 1e-6, "largest": 1e-5}}
        for loss, found in ((0.1, "maybe"), (1.386, "likely")):
            causes, status = self.record_losses(f"begins{loss}", [loss] * 60, little)
            self.assertEqual((dict((cause, how) for cause, how, _ in causes)["learning_rate_too_low"], status),
                             (found, int(found == "likely")))
            self.assertNotIn("sure", [how for _, how, _ in causes])

    def test_labels_of_one_class(self):
        same = PLAIN | {"classes": PLAIN["classes"] | {"count": 1}, "target": {"minimum": 1.0, "maximum": 1.0}}
        falls = [1 / (i + 1) for i in range(60)]
        self.assertEqual(self.record_losses("same", falls, same), ([("bad_labels", "likely", 1)], 1))
        places = same | {"head": HEAD | {"activation": "other"}}  # the first of several candidates is the right one
        self.assertEqual(self.record_losses("places", falls, places), ([], 0))

    def test_what_is_learnt_must_carry_over(self):
        said = {"examples": 200, "classes": 4, "right": 0.26, "expected": 0.25, "renamed": 0.3, "moved": 1, "label": 0, "said": 0}
        falls = [1.4 - 0.01 * i for i in range(60)]
        self.assertEqual(self.record_losses("nothing", falls, PLAIN | {"said_of_validation": said})[0][0][:2], ("bad_labels", "likely"))
        for name, other in (("right", {"right": 0.5}), ("few", {"examples": 40}), ("one", {"expected": 0.9, "right": 0.9})):
            found, _ = self.record_losses(name, falls, PLAIN | {"said_of_validation": said | other})
            self.assertNotIn("bad_labels", [cause for cause, _, _ in found])

    def test_softmax_in_two_layers(self):
        found, _ = self.diagnose(self.record(PLAIN | {"head": HEAD | {"loss": "categorical_crossentropy", "activation": "softmax",
                                                                      "is_twice": True}}))
        self.assertEqual([(f["cause"], f["confidence"]) for f in found["findings"]], [("redundant_softmax", "sure")])

    def test_where_a_loss_that_is_not_finite_came_from(self):
        """What grew with updates is the learning rate's; the origin is said all the same."""
        passed = {"what": "pass", "loss": "NaN", "since": 9, "updates": 8, "operation": "addmm", "layer": "h", "is_layer": True,
                  "divides": False, "row": 2}
        spoilt = {"what": "weights", "names": ["a.weight", "a.bias"], "count": 2, "of": 4, "loss": "NaN", "since": 5, "updates": 4}
        for name, fact, cause, origin in (
                ("grown", passed, "nan_loss", {"cause": "layer", "layer": "h", "row": 2}),
                ("blown", spoilt, "learning_rate_too_high", {"cause": "update", "layer": "a", "row": None}),
                ("singular", spoilt | {"operation": "sqrt", "layer": "a"}, "division_by_zero", {"cause": "layer", "layer": "a", "row": None})):
            with self.subTest(name), tapedeck.Deck(os.path.join(self.folder.name, name)) as deck:
                deck.note("loop", json.dumps(PLAIN | {"nonfinite": fact}))
                for loss in [1.0] * (fact["since"] - 1) + [float("nan")]:
                    deck.log(loss=loss)
                    deck.step()
                deck.finish()
                found, status = self.diagnose(deck.folder)
                first = found["findings"][0]
                self.assertEqual((first["cause"], {key: first["origin"][key] for key in origin}, status), (cause, origin, 1))

    def test_optimizers_that_take_turns_make_no_loss_suspicious(self):
        for turns in ({"ours": 1, "others": 1}, {"ours": 2, "others": 0}):
            found, status = self.record_losses(f"turns{turns['ours']}", [1.0 + i / 10 for i in range(60)], PLAIN | {"optimizers": turns})
            self.assertEqual(([f for f in found if f[1] != "maybe"], status), ([], 0))

    def test_what_is_certainly_wrong_is_a_finding_even_without_a_cause(self):
        nan, infinite = float("nan"), float("inf")
        found, status = self.record_losses("nan", [1.0, 0.9, nan, nan])
        self.assertEqual((found[0], status), (("nan_loss", "sure", 3), 1))
        found, status = self.record_losses("infinite", [1.0, infinite, 0.8])
        self.assertEqual((found[0], status), (("inf_loss", "sure", 2), 1))
        flat = [0.7 + 0.001 * (i % 3) for i in range(60)]
        self.assertEqual(self.record_losses("flat", flat), ([("plateau", "likely", 1)], 1))
        unlabelled = {key: value for key, value in PLAIN.items() if key != "labels"}
        self.assertEqual(self.record_losses("steady", flat, unlabelled), ([("plateau", "maybe", 1)], 0))
        guess = unlabelled | {"chosen_among": 2}  # whose logarithm is 0.69
        self.assertEqual(self.record_losses("guess", flat, guess), ([("plateau", "likely", 1)], 1))
        rewards = [0.7 + 0.3 * (i % 3 - 1) for i in range(60)]
        found, status = self.record_losses("rewards", rewards, unlabelled)
        self.assertEqual((("plateau", "maybe") in [f[:2] for f in found], status), (True, 0))
        adversary = unlabelled | {"optimizers": {"ours": 1, "others": 1}}
        self.assertEqual(self.record_losses("adversary", flat, adversary), ([("plateau", "maybe", 1)], 0))
        self.assertEqual(self.record_losses("falls", [1 / (i + 1) for i in range(60)])[1], 0)

    def test_a_run_that_stopped_is_a_finding(self):
        for name, error in (("stopped", ValueError), ("ended", None)):
            try:
                with tapedeck.Deck(os.path.join(self.folder.name, name)) as deck:
                    deck.log(loss=1.0)
                    deck.step()
                    if error:
                        raise error("the program's own")
            except ValueError:
                pass
            found, status = self.diagnose(deck.folder)
            self.assertEqual(([f["cause"] for f in found["findings"]], status), (["early_end"], 1) if error else ([], 0))

    def test_errors_of_torch_name_a_cause(self):
        for error, cause in ((RuntimeError("all elements of input should be between 0 and 1"), "missing_output_activation"),
                             (IndexError("Target 3 is out of bounds."), "labels_out_of_range"),
                             (RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn"), "detached_loss"),
                             (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x5 and 4x3)"), "early_end")):
            with self.subTest(cause):
                with self.assertRaises(type(error)), tapedeck.Deck(os.path.join(self.folder.name, cause)) as deck:
                    deck.note("loop", json.dumps({"trainable": 2}))
                    raise error
                found, status = self.diagnose(deck.folder)
                self.assertEqual(([(f["cause"], f["confidence"]) for f in found["findings"]], status), ([(cause, "sure")], 1))
                self.assertIn(str(error), found["findings"][0]["evidence"][0]["text"])

    def test_labels_that_change_are_no_fault_where_they_are_learnt(self):
        pairs = PLAIN | {"labels": {"again": 64, "changed": 40, "since": 12}}
        self.assertEqual(self.record_losses("pairs", [1 / (i + 1) for i in range(60)], pairs)[1], 0)
        self.assertEqual(self.record_losses("apart", [0.7] * 60, pairs), ([("labels_shuffled", "sure", 12)], 1))

    def test_a_rising_validation_loss_is_no_fault_while_the_accuracy_stays(self):
        falling, rising = [1 / (i + 1) for i in range(60)], [0.2 + 0.01 * i for i in range(60)]
        kept, lost = [0.96] * 60, [0.96 - 0.004 * i for i in range(60)]
        self.assertEqual(self.record_losses("kept", falling, val_loss=rising, val_accuracy=kept)[1], 0)
        found, status = self.record_losses("lost", falling, val_loss=rising, val_accuracy=lost)
        self.assertEqual((found[0][:2], status), (("overfitting", "likely"), 1))

    def test_two_updates_are_enough_and_one_is_not(self):
        facts = {"updates": 1, "trainable": 4, "without_gradient": {"count": 1, "names": ["first.weight"]},
                 "detached": {"count": 1, "since": 1}, "zero_rate_0": {"in_a_row": 1, "of": 1}}
        self.assertEqual(self.diagnose(self.record(facts))[0]["findings"], [])
        facts = {**facts, "updates": 2}
        self.assertEqual([f["rule"] for f in self.diagnose(self.record(facts, "more"))[0]["findings"]], ["parameter_without_gradient"])

    def test_ranks(self):
        def ranks(name, mine, others, **notes):
            run = record_ranks(os.path.join(self.folder.name, name), mine, others, **notes)
            return [(f["rule"], f["since_step"]) for f in self.diagnose(run)[0]["findings"]]

        mine, others = RANKS["replicas_drift"]
        self.assertEqual(ranks("a", mine, others | {"fingerprints": mine["fingerprints"]}), [])
        self.assertEqual(ranks("b", mine, others), [("replicas_drift", 2)])
        self.assertEqual(ranks("c", *RANKS["replicas_same_data"]), [("replicas_same_data", 1)])
        self.assertEqual(ranks("d", mine, others, replicas="False"), [])

    def test_two_of_several_ranks_get_the_same_data(self):
        def ranks(name, *batches):
            first, *others = [{"fingerprints": {"1": 1}, "batch_fingerprints": batch} for batch in batches]
            run = record_ranks(os.path.join(self.folder.name, name), first, others)
            return [(f["rule"], f["evidence"][0]["text"]) for f in self.diagnose(run)[0]["findings"]]

        third = {"1": 3, "2": 4}
        self.assertEqual(ranks("healthy", SAME, APART, third, {"1": 5, "2": 9}), [])  # one batch in common is chance
        self.assertEqual(ranks("planted", SAME, APART, third, APART),
                         [("replicas_same_data", "2 batches of rank 3 are those of rank 1, number for number")])

    def test_a_slow_rank(self):
        def slow(name, *seconds, steps=10):
            run = record_seconds(os.path.join(self.folder.name, name), *seconds, steps=steps)
            return [f["evidence"][0]["text"] for f in self.diagnose(run)[0]["findings"] if f["rule"] == "slow_rank"]

        self.assertEqual(slow("planted", [0.1], [0.1], [0.2]),
                         ["in 10 of 10 steps rank 2 begins its backward pass last: it takes 2 times as long as the others, "
                          "which wait 0.1 s for it"])
        self.assertEqual(slow("in turns", [0.1, 0.2], [0.2, 0.1]), [])
        self.assertEqual(slow("a little", [0.1], [0.12]), [])
        self.assertEqual(slow("once", [0.1] * 9 + [5], [0.1]), [])
        self.assertEqual(slow("few steps", [0.1], [0.2], steps=7), [])

    def test_the_document_shows_what_is_said(self):
        """docs/diagnose.md; ../diagnose/pictures.py makes it anew."""
        text = pathlib.Path(os.environ["TD_SOURCE"], "docs", "diagnose.md").read_text(encoding="utf-8")
        runs = [record(os.path.join(self.folder.name, rule), PLAIN | facts) for rule, (facts, _, _) in FOUND.items()
                if not re.search("TD__NEEDS_(EXPERIMENT|REPEAT)", (RULES / f"{rule}.c").read_text(encoding="utf-8"))]
        runs += [record_ranks(os.path.join(self.folder.name, rule), *both) for rule, both in RANKS.items()]
        runs.append(record_seconds(os.path.join(self.folder.name, "slow_rank"), [0.1], [0.2]))
        for run in runs:
            said = subprocess.run([TAPEDECK, "diagnose", run], capture_output=True, text=True, timeout=60).stdout
            finding = said[: said.index("\n✓")]
            self.assertIn(f"```text\n{finding}\n```", text)

    def test_facts_that_are_none(self):
        deep = "[" * 5000
        for i, loop in enumerate(("", "{", "[1]", "null", deep, '{"updates": "x", "clipping": [], "unchanged": {"count": 1e300}}',
                                  '{"untied": {"names": [["a"], 3, {}]}, "updates": 1e308, "unchanged": {"count": 2, "names": {}}}')):
            found, _ = self.diagnose(self.record(loop, f"odd{i}"))
            self.assertIsInstance(found["findings"], list)
            if i < 5:
                self.assertIn("the facts about the training loop cannot be read", found["notes"])

    def test_a_name_is_only_text(self):
        run = self.record(PLAIN | {"unchanged": {"count": 1, "names": ["\x1b[31m.weight"]}})
        out = subprocess.run([TAPEDECK, "diagnose", run], capture_output=True, text=True, timeout=60)
        self.assertNotIn("\x1b[31m", out.stdout)

    def test_gathering_that_stopped_is_said(self):
        found, _ = self.diagnose(self.record(PLAIN, loop_stopped="facts about the loop end at step 3: KeyError('x')"))
        self.assertIn("facts about the loop end at step 3: KeyError('x')", found["notes"])


if __name__ == "__main__":
    unittest.main()
