"""An event file as TensorBoard's own loader and as `tapedeck export` read it: the same values, and how fast."""
import csv
import os
import subprocess
import tempfile
import time
import unittest

import numpy
import tensorflow as tf
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.compat.proto import event_pb2

MEGABYTES = int(os.environ.get("TD_EVENT_MEGABYTES", "16"))
TAGS = ["train/loss", "train/accuracy", "learning_rate", "val/loss"]


class Speed(unittest.TestCase):
    def write(self, path):
        """Scalars of the old style, through TensorFlow's own record writer."""
        values = numpy.random.default_rng(7).random((4096, len(TAGS)), dtype=numpy.float32)
        size = step = 0
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(event_pb2.Event(wall_time=1.7e9, file_version="brain.Event:2").SerializeToString())
            while size < MEGABYTES << 20:
                for tag, value in zip(TAGS, values[step % len(values)]):
                    event = event_pb2.Event(wall_time=1.7e9 + step, step=step)
                    event.summary.value.add(tag=tag, simple_value=value)
                    record = event.SerializeToString()
                    writer.write(record)
                    size += len(record) + 16
                step += 1

    def test_every_value_is_there_sooner(self):
        with tempfile.TemporaryDirectory() as folder:
            logs = os.path.join(folder, "logs")
            os.mkdir(logs)
            path = os.path.join(logs, "events.out.tfevents.1700000000.host")
            self.write(path)
            start = time.process_time()
            theirs = [(event.step, value.tag, numpy.float32(value.tensor.float_val[0]))
                      for event in event_file_loader.EventFileLoader(path).Load() for value in event.summary.value]
            their_time = time.process_time() - start
            before = os.times()
            subprocess.run([os.environ["TAPEDECK"], "export", logs, "--to", "csv", "--out", os.path.join(folder, "out")],
                           check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            our_time = after.children_user + after.children_system - before.children_user - before.children_system
            with open(os.path.join(folder, "out", "metrics.csv"), newline="") as file:
                ours = [(int(row["step"]), tag, numpy.float32(row[tag])) for row in csv.DictReader(file) for tag in TAGS]
            self.assertEqual(ours, theirs)
            megabytes = os.path.getsize(path) / 1e6
            print(f"TensorBoard's loader {megabytes / their_time:.1f} MB/s, "
                  f"tapedeck export {megabytes / our_time:.1f} MB/s of a core's time")
            self.assertLess(our_time, their_time)


if __name__ == "__main__":
    unittest.main()
