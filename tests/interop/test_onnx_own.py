"""ONNX's own tests of single operators, as the installed package has them: all pass, but for those that are named here."""
import os
import subprocess
import sys
import unittest

import onnx.backend.test.case.node
from onnx import TensorProto, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

RUNNER = os.path.join(os.environ["TD_BUILD"], "tests", "onnx_test_backend")
GRADIENTS = os.path.join(os.environ["TD_BUILD"], "tests", "onnx_test_gradients")
# What is not supported, by the beginning of the tests' names, and why.
UNSUPPORTED = {
    "test_flexattention": "FlexAttention, a preview",
    "test_image_decoder_": "ImageDecoder",
    "test_regex_": "RegexFullMatch",
    "test_attention_local_window_gqa_rank4_mask_expanded": "MatMul in double",
}


def serialize(value, info):
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    for kind, make in (("map_type", numpy_helper.from_dict), ("sequence_type", numpy_helper.from_list),
                       ("optional_type", numpy_helper.from_optional)):
        if info.type.HasField(kind):
            return make(value, info.name).SerializeToString()
    return numpy_helper.from_array(value, info.name).SerializeToString()


def write(folder):
    """Every test as a folder with a model, inputs and outputs; their names."""
    names = []
    for case in onnx.backend.test.case.node.collect_testcases(None):
        names.append(case.name)
        os.makedirs(os.path.join(folder, case.name))
        with open(os.path.join(folder, case.name, "model.onnx"), "wb") as file:
            file.write(case.model.SerializeToString())
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = os.path.join(folder, case.name, "test_data_set_%d" % number)
            os.makedirs(data)
            for role, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for i, value in enumerate(values):
                    with open(os.path.join(data, "%s_%d.pb" % (role, i)), "wb") as file:
                        file.write(serialize(value, infos[i]))
    return names


class OwnTests(Case):
    def test_none_fails_and_what_is_not_supported_is_named(self):
        folder = self.path("node")
        names = write(folder)
        answer = subprocess.run([RUNNER, "-v", folder], capture_output=True, text=True)
        lines = answer.stdout.splitlines()
        self.assertEqual([line for line in lines if line.startswith("FAILED")], [])
        unsupported = {line.split()[1].rstrip(":"): line for line in lines if line.startswith("unsupported")}
        unexpected = [line for name, line in unsupported.items() if not name.startswith(tuple(UNSUPPORTED))]
        self.assertEqual(unexpected, [])
        for begin in UNSUPPORTED:
            self.assertTrue(any(name.startswith(begin) for name in unsupported), begin + " is supported now")
        self.assertIn("%d passed" % (len(names) - len(unsupported)), lines[-1])
        print("\n%d tests: %s" % (len(names), lines[-1]))
        gradients = subprocess.run([GRADIENTS, folder], capture_output=True, text=True)
        self.assertEqual(gradients.returncode, 0, gradients.stdout)
        print(gradients.stdout.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
