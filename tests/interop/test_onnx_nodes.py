"""Operators of onnxruntime's own and scikit-learn's, one at a time: onnxruntime and Tapedeck agree."""
import os
import sys
import unittest

import numpy
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import SOURCE, Case  # noqa: E402

sys.path.insert(0, os.path.join(SOURCE, "tests", "fixtures"))
from make_onnx_nodes import cases, run  # noqa: E402


class Nodes(Case):
    def test_one_node_at_a_time(self):
        for name, proto, inputs in cases():
            with self.subTest(name):
                wanted = run(proto, inputs)
                onnx.save(proto, self.path("model.onnx"))
                arguments = []
                for key, value in inputs.items():
                    numpy.save(self.path(key + ".npy"), value)
                    arguments += ["--input", "%s=%s.npy" % (key, key)]
                outputs = [output.name for output in proto.graph.output]
                for key in outputs:
                    arguments += ["--output", "%s=out_%s.npy" % (key, key)]
                self.run_program("predict", "model.onnx", *arguments)
                for key, value in zip(outputs, wanted):
                    ours = numpy.load(self.path("out_%s.npy" % key))
                    self.assertEqual((ours.dtype, ours.shape), (value.dtype, value.shape))
                    if value.dtype.kind == "f":
                        numpy.testing.assert_allclose(ours, value, rtol=1e-4, atol=1e-5, err_msg=name)
                    else:
                        numpy.testing.assert_array_equal(ours, value, err_msg=name)


if __name__ == "__main__":
    unittest.main()
