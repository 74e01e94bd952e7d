"""Pictures, sounds and tables of a deck, read by TensorBoard, TensorFlow, the standard library and pandas."""

import io
import os
import tempfile
import unittest
import wave

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import pandas
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tapedeck


class Media(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        random = np.random.default_rng(0)
        cls.photo = random.integers(0, 256, (20, 30, 3), np.uint8)
        cls.sound = random.uniform(-1, 1, (500, 2))
        cls.table = pandas.DataFrame({"word": ["a,b", "ü\"x"], "count": [1, 2]})
        with tapedeck.Deck(os.path.join(cls.folder.name, "run"), metrics=0) as deck:
            deck.track("nothing", every=1000, to="csv")
            for step in range(3):
                deck.image("photo", cls.photo.transpose(2, 0, 1), layout="CHW")
                deck.image("grey", cls.photo[..., 0] / 255)
                cls.place = deck.audio("noise", cls.sound, rate=22050)
                deck.table("words", cls.table)
                deck.step()
        cls.run_folder = deck.folder
        cls.run_read = tapedeck.Run(deck.folder)

    def test_tensorboard_shows_pictures(self):
        events = EventAccumulator(self.run_folder, size_guidance={"tensors": 0})
        events.Reload()
        for name, expected in (("photo", self.photo), ("grey", self.photo[..., :1])):
            found = events.Tensors(name)
            self.assertEqual([event.step for event in found], [1, 2, 3])
            width, height, png = found[1].tensor_proto.string_val
            self.assertEqual((int(width), int(height)), (30, 20))
            np.testing.assert_array_equal(tf.io.decode_png(png).numpy(), expected)
        self.assertIn("words", events.Tags()["tensors"])

    def test_files_are_pictures(self):
        with open(os.path.join(self.run_folder, "images", "photo", "step-000002.png"), "rb") as file:
            np.testing.assert_array_equal(tf.io.decode_png(file.read()).numpy(), self.photo)
        np.testing.assert_array_equal(tf.io.decode_png(self.run_read["photo"].at(3)).numpy(), self.photo)

    def test_files_are_sounds(self):
        path = os.path.join(self.run_folder, self.place)
        samples, rate = tf.audio.decode_wav(tf.io.read_file(path))
        self.assertEqual(int(rate), 22050)
        np.testing.assert_allclose(samples.numpy(), self.sound, atol=1e-4)
        with wave.open(path) as file:
            self.assertEqual(file.getnchannels(), 2)

    def test_tables_are_csv(self):
        pandas.testing.assert_frame_equal(self.run_read["words"].table(2), self.table)
        rows = pandas.read_csv(os.path.join(self.run_folder, "texts.csv"))
        pandas.testing.assert_frame_equal(pandas.read_csv(io.StringIO(rows[rows.step == 3].iloc[-1]["text"])), self.table)


if __name__ == "__main__":
    unittest.main()
