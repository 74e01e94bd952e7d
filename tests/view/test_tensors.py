"""Values of tensors as the viewer answers them, beside what NumPy reads of the run's files, for every element type."""
import glob
import json
import os
import struct
import unittest

import numpy

import viewer


def unpacked(body):
    """The JSON head and the doubles of a binary answer."""
    length = struct.unpack("<I", body[:4])[0]
    return json.loads(body[4:4 + length]), numpy.frombuffer(body[4 + length:], "<f8")


class Tensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = viewer.Folder()
        cls.addClassCleanup(cls.folder.remove)
        viewer.record(cls.folder / "run", "types")
        cls.viewer = viewer.Viewer(cls.folder.path)
        cls.addClassCleanup(cls.viewer.close)
        cls.run_id = cls.viewer.first_run()
        cls.signals = {s["name"]: s["id"] for s in json.loads(cls.viewer.get(f"/api/run?run={cls.run_id}")[2])["signals"]}

    def test_values_of_every_element_type(self):
        files = glob.glob(os.path.join(self.folder / "run", "*.output.npy"))
        self.assertEqual(len(files), 13)
        for path in files:
            name = os.path.basename(path)[:-len(".npy")]
            wanted = numpy.load(path)[0].astype("float64")
            status, _, body = self.viewer.get(f"/api/tensor?run={self.run_id}&signal={self.signals[name]}&step=1&at=:,:")
            self.assertEqual(status, 200, name)
            head, values = unpacked(body)
            self.assertEqual(head["shape"], list(wanted.shape), name)
            numpy.testing.assert_array_equal(values.reshape(wanted.shape), wanted, name)
            self.assertEqual(head["nan"], numpy.isnan(wanted).sum(), name)
            self.assertEqual(head["inf"], numpy.isinf(wanted).sum(), name)


if __name__ == "__main__":
    unittest.main()
