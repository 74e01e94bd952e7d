"""Columns of text: their ids by a few lines of Python, the vocabulary kept with the model, and what is wrong reported."""
import collections
import csv
import json
import string
import unittest

from program import Case

EXPERIMENT = """
name: t
seed: 2
data:
  train: texts.csv
  label: label
  text: {review: OPTIONS}
  shuffle: false
  batch: 64
model:
  - embedding: {name: words, output_dim: 3, mask_zero: true}
  - lstm: {units: 3}
  - dense: {units: 2}
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}
record:
  - {what: input, form: rows, to: [csv]}
"""
REVIEWS = ["The film, it's good!", "Über ÉTÉ film\tthe\nthe  end", "", "bad bad ÀÇ bad; \"the\" (end)", "don't STOP the film",
           "日本語 ist gut", "a b c d e f g h i j", "it ẞ it İ"]


def small(text):
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def tokens(text, lower=small, strip=True):
    text = lower(text)
    if strip:
        text = text.translate({ord(c): None for c in string.punctuation})
    return text.split()


def vocabulary(texts, cut):
    counts = collections.Counter(t for text in texts for t in cut(text))
    return sorted(counts, key=lambda t: (counts[t], t.encode()), reverse=True)


def ids(text, words, cut, length):
    known = {w: i + 2 for i, w in enumerate(words)}
    found = [known.get(t, 1) for t in cut(text)][:length]
    return found + [0] * (length - len(found))


class Text(Case):
    def write_reviews(self, reviews, name="texts.csv", labels=True):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(["review"] + ["label"] * labels)
            for i, review in enumerate(reviews):
                out.writerow([review] + ["ab"[i % 2]] * labels)

    def ids(self, run):
        with open(self.path("runs", run, "input.csv"), encoding="utf-8") as file:
            return [[int(v) for v in row[3:]] for row in list(csv.reader(file))[1:]]

    def check(self, options, cut, length, most=None, minimum=1):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", options), "--out", "runs")
        words = vocabulary(REVIEWS, cut)
        counts = collections.Counter(t for text in REVIEWS for t in cut(text))
        words = [w for w in words[:most] if counts[w] >= minimum]
        self.assertEqual(self.ids("t"), [ids(text, words, cut, length) for text in REVIEWS])

    def test_words(self):
        self.check("{length: 6}", tokens, 6)

    def test_frequent_words_only(self):
        self.check("{length: 5, vocabulary: 5}", tokens, 5, most=3)

    def test_words_that_are_seen_twice(self):
        self.check("{length: 7, min_count: 2}", tokens, 7, minimum=2)

    def test_length_of_the_longest(self):
        self.check("", tokens, 10)

    def test_letters_as_they_are(self):
        self.check("{length: 6, lower: false, punctuation: true}", lambda t: tokens(t, lambda x: x, False), 6)

    def test_small_letters_of_ascii(self):
        ascii_only = lambda t: "".join(c.lower() if c < "\x80" else c for c in t)
        self.check("{length: 6, lower: ascii}", lambda t: tokens(t, ascii_only), 6)

    def test_characters(self):
        def cut(text):
            return list(small(text).translate({ord(c): None for c in string.punctuation}))
        self.check("{tokens: characters, length: 30}", cut, 30)

    def test_bytes(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{tokens: bytes, length: 20}"), "--out", "runs")
        wanted = [([b + 2 for b in text.encode()] + [0] * 20)[:20] for text in REVIEWS]
        self.assertEqual(self.ids("t"), wanted)
        self.assertIn("vocabulary: 258", self.read("runs", "t", "experiment.yaml"))

    def test_small_letters_are_those_of_python(self):
        import unicodedata
        letters = [chr(c) for c in range(0x80, 0x110000)
                   if not 0xD800 <= c < 0xE000 and len(chr(c).lower()) == 1 and chr(c).lower() != chr(c)
                   and unicodedata.unidata_version.split(".")[0] in ("14", "15", "16")]
        self.write_reviews(["".join(letters), "".join(c.lower() for c in letters)])
        self.train(EXPERIMENT.replace("OPTIONS", "{tokens: characters, length: %d}" % len(letters)), "--out", "runs")
        big, little = self.ids("t")
        self.assertGreater(len(letters), 1300)
        self.assertEqual(big, little)

    def test_new_texts_are_read_as_in_training(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{length: 6}"), "--out", "runs")
        new = ["film nowhere the", "the the the the the the the the"]
        self.write_reviews(new, "new.csv", labels=False)
        words = vocabulary(REVIEWS, tokens)
        wanted = [ids(text, words, tokens, 6) for text in new]
        for model in ("runs/t", "model.keras", "again.safetensors"):
            if model != "runs/t":
                self.run_program("weights", "runs/t", "--to", model)
            out = self.run_program("predict", model, "new.csv", "--record", "input", "--form", "rows", "--to", "p.csv",
                                   "--force")
            self.assertIn("new.csv, column 'review': 1 of 2 texts have more than 6 words and are cut; 1 of 11 words are "
                          "not in its vocabulary of %d (id 1)" % len(words), out.stderr)
        self.run_program("predict", "runs/t", "new.csv", "--to", "p.npy", "--force")
        self.assertEqual(wanted[0][1], 1)
        self.run_program("gradients", "runs/t", "texts.csv", "--layer", "words")
        self.run_program("evaluate", "runs/t", "texts.csv", "--json")

    def test_the_vocabulary_of_a_model_cannot_become_smaller(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{length: 6}"), "--out", "runs")
        self.write("again.yaml", EXPERIMENT.replace("OPTIONS", "{length: 6, vocabulary: 5}").split("model:")[0] +
                   "model: {file: runs/t}\ntrain: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}\n")
        done = self.run_program("train", "again.yaml", status=2)
        self.assertIn("leave `vocabulary` out", done.stderr)
        self.write("again.yaml", self.read("again.yaml").replace("vocabulary: 5", "min_count: 2"))
        self.assertIn("leave `min_count` out", self.run_program("train", "again.yaml", status=2).stderr)

    def test_a_validation_file_has_the_vocabulary_of_training(self):
        self.write_reviews(REVIEWS)
        self.write_reviews(["film other", "other film"], "other.csv")
        text = EXPERIMENT.replace("OPTIONS", "{length: 6}").replace("  shuffle", "  validation: other.csv\n  shuffle")
        out = self.train(text, "--out", "runs")
        self.assertIn("other.csv, column 'review': 2 of 4 words are not in its vocabulary", out.stderr)

    def test_a_large_file_comes_from_the_cache(self):
        self.write_reviews(REVIEWS * 50)
        text = EXPERIMENT.replace("OPTIONS", "{length: 6}")
        self.train(text, "--out", "runs")
        for _ in range(2):
            self.train(text, "--out", "runs", "--set", "data.memory=4 KiB", "--set", "name=cached")
        for run in ("cached", "cached-2"):
            self.assertEqual(self.bytes("runs", "t", "input.csv"), self.bytes("runs", run, "input.csv"))
        self.write_reviews(REVIEWS * 49 + ["x"] * 8)
        self.train(text, "--out", "runs", "--set", "data.memory=4 KiB", "--set", "name=changed")
        self.assertNotEqual(self.ids("t"), self.ids("changed"))

    def test_texts_beside_numbers(self):
        with open(self.path("texts.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["stars", "review", "label", "price"])
            out.writerows([i, r, "ab"[i % 2], 2 * i] for i, r in enumerate(REVIEWS))
        text = EXPERIMENT.replace("OPTIONS", "{length: 4}").replace(
            "  shuffle", "  inputs: {more: [price, stars], words: review}\n  standardize: true\n  shuffle")
        text = text[:text.index("model:")] + """
model:
  inputs: [more, words]
  layers:
  - embedding: {name: e, from: words, output_dim: 3}
  - lstm: {units: 3}
  - concatenate: {from: [lstm, more]}
  - dense: {units: 2}
""" + text[text.index("train: {"):]
        self.train(text, "--out", "runs")
        with open(self.path("runs/t/input.csv"), encoding="utf-8") as file:
            rows = [[float(v) for v in row[3:]] for row in list(csv.reader(file))[1:]]
        words = vocabulary(REVIEWS, tokens)
        self.assertEqual([row[2:] for row in rows], [ids(r, words, tokens, 4) for r in REVIEWS])
        self.assertAlmostEqual(sum(row[0] for row in rows), 0, places=5)
        self.run_program("predict", "runs/t", "texts.csv", "--to", "p.csv")

    def test_resumed_on_a_file_that_has_grown(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{length: 6}"), "--out", "runs")
        self.write_reviews(REVIEWS + ["zebra zebra zebra zebra zebra"])
        self.run_program("train", "--resume", "runs/t", "--set", "train.epochs=2")
        words = vocabulary(REVIEWS, tokens)
        self.assertEqual(self.ids("t")[-9:-1], [ids(r, words, tokens, 6) for r in REVIEWS])
        self.assertEqual(self.ids("t")[-1], [1] * 5 + [0])

    def test_replayed(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{length: 6}"), "--out", "runs")
        out = self.run_program("replay", "runs/t", "--steps", "1..1", "--record", "words.output", "--out", "again")
        self.assertIn("identical", out.stdout + out.stderr)

    def refused(self, options, sentence, data=None):
        if data is None:
            self.write_reviews(REVIEWS)
        else:
            with open(self.path("texts.csv"), "wb") as file:
                file.write(data)
        self.write("t.yaml", EXPERIMENT.replace("OPTIONS", options))
        out = self.run_program("train", "t.yaml", "--out", "none", status=2)
        self.assertIn(sentence, out.stderr)
        self.assertFalse(self.exists("none", "t"))

    def test_mistakes(self):
        self.refused("", "texts.csv line 3 (row 2), column 'review': byte 4 of the text, 0xFC, is not UTF-8",
                     b"review,label\nx,a\nam \xfcber,b\n")
        self.refused("{tokens: wrods}", "words")
        self.refused("{length: 0}", "length")
        self.refused("{lower: maybe}", "expected true, false, or ascii")
        self.refused("{tokens: bytes, vocabulary: 30}", "of bytes there are 258")
        self.refused("{min_count: 100}", "no token is in its vocabulary")
        self.refused("{vocabulary: 2}", "vocabulary")
        self.refused("{wrods: 2}", "wrods")
        self.refused("", "no column 'review'", b"text,label\nx,a\ny,b\n")

    def test_an_array_has_no_texts(self):
        import numpy
        numpy.save(self.path("x.npy"), numpy.zeros((4, 3)))
        self.write("t.yaml", EXPERIMENT.replace("OPTIONS", "").replace("texts.csv", "x.npy").replace("label: label", "label: last"))
        out = self.run_program("train", "t.yaml", status=2)
        self.assertIn("`text` names columns of a CSV file", out.stderr)

    def test_a_malformed_vocabulary_in_a_model(self):
        self.write_reviews(REVIEWS)
        self.train(EXPERIMENT.replace("OPTIONS", "{length: 6}"), "--out", "runs")
        model = self.bytes("runs", "t", "model.safetensors")
        size = int.from_bytes(model[:8], "little")
        head = json.loads(model[8:8 + size])
        note = next(k for k, v in head["__metadata__"].items() if '"words"' in v and '"review[0]"' in v)
        good = json.loads(head["__metadata__"][note])
        for change in ({"tokens": "x"}, {"words": [1]}, {"words": ["a", "a"]}, {"column": None}, {"words": []}):
            data = json.loads(json.dumps(good))
            data["text"][0].update(change)
            head["__metadata__"][note] = json.dumps(data)
            text = json.dumps(head).encode()
            text += b" " * (-len(text) % 8)
            with open(self.path("bad.safetensors"), "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text + model[8 + size:])
            out = self.run_program("predict", "bad.safetensors", "texts.csv", "--to", "bad.csv", status=1)
            self.assertRegex(out.stderr, "malformed|twice", change)
            self.assertFalse(self.exists("bad.csv"))


if __name__ == "__main__":
    unittest.main()
