"""SavedModels whose graph is read: what Keras predicted, weights, gradients, and the messages for damaged ones."""
import os
import resource
import shutil
import sys
import unittest

import numpy

from program import Case, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests", "attack"))
from protobuf import write_varint  # noqa: E402

FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "models", "saved_graph")


def field(number, *content):
    """A number, or what its contents are together: bytes and texts."""
    if isinstance(content[0], int):
        return write_varint(number << 3) + write_varint(content[0])
    content = b"".join(c.encode() if isinstance(c, str) else c for c in content)
    return write_varint(number << 3 | 2) + write_varint(len(content)) + content


def node(name, op, inputs=(), **attributes):
    return b"".join([field(1, name), field(2, op), *(field(3, i) for i in inputs),
                     *(field(5, field(1, key), field(2, value)) for key, value in attributes.items())])


def function(name, arguments, results, nodes):
    return b"".join([field(1, field(1, name), *(field(2, field(1, a)) for a in arguments), *(field(3, field(1, r)) for r in results)),
                     *(field(3, n) for n in nodes), *(field(4, field(1, r), field(2, f)) for r, f in results.items())])


def endless_loops(loops, unused):
    """A saved_model.pb whose loops never end, of functions with many nodes that nothing reads."""
    idle = [node("d%d" % i, "NoOp") for i in range(unused)]
    functions = [function("body", ("a", "t"), {"o": "a", "p": "t"}, idle), function("cond", ("a", "t"), {"o": "t"}, idle)]
    nodes = [node("w0", "Placeholder"), node("t", "Const", value=field(8, field(1, 10), field(2, b""), field(4, b"\x01")))]
    for i in range(loops):
        nodes.append(node("w%d" % (i + 1), "While", ("w%d" % i, "t"), cond=field(10, field(1, "cond")), body=field(10, field(1, "body"))))
    shape = field(3, field(2, field(1, 2)), field(2, field(1, 2)))
    ports = [field(number, field(1, key), field(2, field(1, "w%d:0" % place), field(2, 1), shape))
             for number, key, place in ((1, "x", 0), (2, "y", loops))]
    graph = field(2, *(field(1, n) for n in nodes), field(2, *(field(1, f) for f in functions)))
    return field(1, 1) + field(2, graph, field(5, field(1, "serving_default"), field(2, *ports)))


class SavedGraphs(Case):
    def test_outputs_are_what_keras_predicted(self):
        for name in ("images", "words"):
            self.run_program("predict", os.path.join(FIXTURES, name), os.path.join(FIXTURES, name + ".input.npy"), "--to", "y.npy", "--force")
            numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), numpy.load(os.path.join(FIXTURES, name + ".output.npy")),
                                          rtol=1e-5, atol=1e-6)

    def test_weights_have_the_names_of_the_variables(self):
        self.run_program("weights", os.path.join(FIXTURES, "images"), "--to", "w.npz")
        with numpy.load(self.path("w.npz")) as file:
            self.assertIn((3, 3, 2, 3), [file[name].shape for name in file.files if name.endswith("kernel")])

    def test_a_damaged_file_is_refused(self):
        shutil.copytree(os.path.join(FIXTURES, "images"), self.path("bad"))
        with open(self.path("bad", "saved_model.pb"), "r+b") as file:
            file.truncate(9000)
        done = self.run_program("predict", "bad", os.path.join(FIXTURES, "images.input.npy"), "--to", "y.npy", status=1)
        self.assertIn("bad/saved_model.pb", done.stderr)
        self.assertFalse(os.path.exists(self.path("y.npy")))

    def test_loops_that_do_not_end_take_seconds(self):
        os.mkdir(self.path("loops"))
        with open(self.path("loops", "saved_model.pb"), "wb") as file:
            file.write(endless_loops(20, 50000))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = self.run_program("predict", "loops", os.path.join(FIXTURES, "images.input.npy"), "--to", "y.npy", status=1)
        self.assertIn("loops/saved_model.pb: it has too many nodes, with its loops unrolled", done.stderr)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 10)


if __name__ == "__main__":
    unittest.main()
