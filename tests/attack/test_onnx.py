"""Mutated ONNX files are loaded, inspected and run, or refused with a sentence."""
import glob
import os
import unittest

import protobuf
from attack import Attack, SOURCE

SCHEMA = {
    "Model": {7: "Graph", 8: "Opset"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Info", 12: "Info", 13: "Info"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor"},
    "Info": {2: "Type"},
    "Type": {1: "TensorType"},
    "TensorType": {2: "Shape"},
    "Shape": {1: "Dim"},
    "Tensor": {13: "Entry"},
}


# ONNX's own tests (Debian's libonnx-testdata): a small graph for each operator.
OPERATORS = "/usr/share/libonnx-testdata/data/*/*/model.onnx"


def read(pattern):
    trees = []
    for path in sorted(glob.glob(pattern)):
        if os.path.getsize(path) < 1 << 20:
            with open(path, "rb") as file:
                trees.append(protobuf.parse(SCHEMA, "Model", file.read()))
    return trees


class Onnx(unittest.TestCase):
    def test_mutations(self):
        fixtures = read(os.path.join(SOURCE, "tests", "fixtures", "models", "onnx", "*.onnx"))
        nodes = read(os.path.join(SOURCE, "tests", "fixtures", "onnx_nodes", "*", "model.onnx"))
        trees = fixtures * 8 + nodes * 3 + read(OPERATORS)
        self.assertGreater(len(trees), 1000)
        donors = [message for tree in trees for message in protobuf.messages(tree)]
        words = sorted({field[2] for message in donors for field in message
                        if isinstance(field[2], bytes) and len(field[2]) < 40})

        def mutate(random):
            tree = protobuf.copy(random.choice(trees))
            for _ in range(random.choice([1, 1, 1, 2, 2, 3, 5, 9])):
                protobuf.change(random, tree, words, donors)
            return protobuf.serialise(tree)

        attack = Attack("read_models", ".onnx")
        attack.run(3500, mutate)
        self.assertEqual(attack.failures, [], f"\n{len(attack.failures)} of {attack.count}\n" +
                         "\n".join(attack.failures))


if __name__ == "__main__":
    unittest.main()
