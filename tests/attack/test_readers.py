"""Every reader of files that others may have written, over mutated files: see attack.py for the limits."""
import glob
import os
import unittest

import mutate
from attack import Attack, SOURCE

FUZZ = os.path.join(SOURCE, "tests", "fuzz", "corpus")
FIXTURES = os.path.join(SOURCE, "tests", "fixtures")
KERAS = mutate.archive((".json", mutate.json_text), (".h5", mutate.some_bytes))

# target: ending, mutator, more seeds than its corpus, how many
READERS = {
    "architecture": (".json", mutate.json_text, (), 3000),
    "condition": (".txt", mutate.text, (), 4000),
    "csv": (".csv", mutate.text, ("data/*.csv",), 3000),
    "events": (".tfevents", mutate.events, ("events/*",), 3000),
    "exported": (".pt2", mutate.archive((".json", mutate.json_text), ("weight_0", mutate.some_bytes)),
                 ("models/exported/*.pt2",), 2000),
    "hdf5": (".h5", mutate.some_bytes, ("hdf5/*.h5",), 3000),
    "histogram": (".bins", mutate.some_bytes, (), 3000),
    "idx": (".idx", mutate.some_bytes, (), 3000),
    "image": (".png", mutate.either(mutate.png, mutate.some_bytes),
              ("data/*.png", "data/*.jpg", "pictures/*.bmp", "pictures/*.webp", "pictures/*.tiff"), 4000),
    "keras": (".keras", KERAS, ("models/keras/*.keras",), 2000),
    "npy": (".npy", mutate.npy, ("data/*.npy",), 3000),
    "npz": (".npz", mutate.archive((".npy", mutate.npy)), ("data/*.npz",), 3000),
    "pytorch": (".safetensors", mutate.safetensors, (), 2000),
    "saved_model": (".saved", mutate.some_bytes, (), 2000),
    "saved_graph": (".saved", mutate.some_bytes, (), 2000),
    "safetensors": (".safetensors", mutate.safetensors, ("models/*/*.safetensors",), 3000),
    "tflite": (".tflite", mutate.some_bytes, ("models/tflite/*.tflite",), 2000),
    "torch": (".pt", mutate.either(mutate.archive((".pkl", mutate.some_bytes)), mutate.some_bytes), (), 3000),
    "weights_csv": (".csv", mutate.text, (), 3000),
    "weights_npz": (".npz", mutate.archive((".npy", mutate.npy)), (), 2000),
    "yaml": (".yaml", mutate.either(mutate.text, mutate.some_bytes), ("../../examples/*/*.yaml",), 4000),
}


def seeds(name, more):
    found = []
    for pattern in (os.path.join(FUZZ, name, "*"), *(os.path.join(FIXTURES, pattern) for pattern in more)):
        for path in sorted(glob.glob(pattern)):
            if os.path.isfile(path) and os.path.getsize(path) < 200_000:
                with open(path, "rb") as file:
                    found.append(file.read())
    return found


class Readers(unittest.TestCase):
    def test_every_target_is_attacked(self):
        targets = {os.path.basename(path)[:-2] for path in glob.glob(os.path.join(SOURCE, "tests", "fuzz", "*.c"))}
        others = {"replay", "onnx", "onnx_model", "view"}  # test_onnx.py; requests of the viewer have tests of their own
        self.assertEqual(targets - others, set(READERS))


def attack_of(name, ending, mutator, more, count):
    def test(self):
        sources = seeds(name, more)
        self.assertGreater(len(sources), 0)
        attack = Attack.of_target(name, ending)
        attack.run(count, lambda random: mutator(random, random.choice(sources)))
        self.assertEqual(attack.failures, [], f"\n{len(attack.failures)} of {attack.count}\n" +
                         "\n".join(attack.failures))
    return test


for target, how in READERS.items():
    setattr(Readers, "test_" + target, attack_of(target, *how))


if __name__ == "__main__":
    unittest.main()
