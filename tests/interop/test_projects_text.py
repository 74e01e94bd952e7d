"""The projects examples/text and examples/pictures beside the same in Keras, tokens beside Keras's TextVectorization, groups beside
scikit-learn's splitters, and pictures beside Pillow: the numbers agree."""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy
import pandas
from PIL import Image
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

PROGRAM = os.environ["TAPEDECK"]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
EVERYTHING = "record=[{what: prediction, sample: 100000, every: 1 epoch, form: rows, to: [csv]}]"


class Project(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)

    def path(self, *parts):
        return os.path.join(self.temporary.name, *parts)

    def run_program(self, *arguments, program=PROGRAM):
        done = subprocess.run([program, *arguments], cwd=self.temporary.name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def project(self, folder, name, *settings):
        """The first weights, and the rows of the training and of the validation part; then the project, in the file's order."""
        for file in os.listdir(os.path.join(EXAMPLES, folder)):
            shutil.copy(os.path.join(EXAMPLES, folder, file), self.path(file))
        self.run_program(name + ".py", program=sys.executable)
        self.run_program("train", name + ".yaml", "--quiet", "--set", "data.shuffle=false", "--set", "name=first",
                         "--set", "train.steps=1", "--set", "train.optimizer={sgd: {learning_rate: 1e-30}}", "--set", EVERYTHING)
        self.run_program("weights", "runs/first", "--to", "first.npz")
        self.run_program("weights", "runs/first", "--to", "first.safetensors")
        self.run_program("train", name + ".yaml", "--quiet", "--set", "data.shuffle=false", "--set", "weights=first.safetensors",
                         *settings)
        with numpy.load(self.path("first.npz")) as first:
            weights = {key.replace("/", "."): first[key] for key in first}
        return weights, self.validation("first")

    def validation(self, run):
        return sorted(set(pandas.read_csv(self.path("runs", run, "predictions.csv"))["sample"]))

    def compare(self, model, inputs, labels, validation, optimizer, batch, epochs, name):
        training = numpy.setdiff1d(numpy.arange(len(labels)), validation)
        pick = lambda rows: [x[rows] for x in inputs] if isinstance(inputs, list) else inputs[rows]
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        history = model.fit(pick(training), labels[training], batch, epochs, shuffle=False, verbose=0,
                            validation_data=(pick(validation), labels[validation])).history
        ours = pandas.read_csv(self.path("runs", name, "metrics.csv"))
        for metric in ("loss", "val_loss", "accuracy", "val_accuracy"):
            numpy.testing.assert_allclose(ours[metric], history[metric], rtol=2e-3, atol=2e-5, err_msg=metric)

    def test_text(self):
        weights, validation = self.project("text", "reviews", "--set", "train.optimizer={sgd: {learning_rate: 0.5}}")
        # Not Adam: Keras adds up the squares of an id that is twice in a batch, instead of squaring the sum.
        frame = pandas.read_csv(self.path("reviews.csv"))
        authors = set(frame["author"][validation])
        self.assertFalse(authors & set(frame["author"].drop(validation)))
        words = keras.layers.TextVectorization(max_tokens=30, output_sequence_length=12)
        words.adapt(frame["review"].to_numpy())
        ids = numpy.asarray(words(frame["review"].to_numpy()))
        times = pandas.to_datetime(frame["written"], format="%d/%m/%Y")
        turn = 2 * numpy.pi * (times.dt.month - 1) / 12
        when = numpy.stack([numpy.sin(turn), numpy.cos(turn), (times - times.min()).dt.days], 1)
        when = when - (mean := numpy.delete(when, validation, 0).mean(0))
        when = (when / numpy.delete(when + mean, validation, 0).std(0)).astype("float32")
        labels = (frame["verdict"] == "good").to_numpy().astype("int32")

        read, dates = keras.Input((12,)), keras.Input((3,))
        embed, memory, logits = keras.layers.Embedding(30, 8, mask_zero=True), keras.layers.LSTM(12), keras.layers.Dense(2)
        model = keras.Model([read, dates], logits(keras.layers.Concatenate()([memory(embed(read)), dates])))
        embed.set_weights([weights["embed.embeddings"]])
        memory.set_weights([weights["memory." + k] for k in ("kernel", "recurrent_kernel", "bias")])
        logits.set_weights([weights["logits." + k] for k in ("kernel", "bias")])
        self.compare(model, [ids, when], labels, validation, keras.optimizers.SGD(0.5), 32, 6, "reviews")
        self.run_program("predict", "runs/reviews", "reviews.csv", "--to", "p.csv")
        numpy.testing.assert_allclose(pandas.read_csv(self.path("p.csv")).filter(like="class_"),
                                      model.predict([ids, when], verbose=0), atol=5e-3)

    def test_pictures(self):
        weights, validation = self.project("pictures", "pictures")
        frame = pandas.read_csv(self.path("photos.csv"))
        images = numpy.stack([numpy.asarray(Image.open(self.path(p)).resize((20, 20), Image.BILINEAR)) for p in frame["path"]])
        labels = (frame["kind"] == "square").to_numpy().astype("int32")
        model = keras.Sequential([keras.Input((20, 20, 3)), keras.layers.Conv2D(8, 3, activation="relu"),
                                  keras.layers.MaxPooling2D(2), keras.layers.Flatten(), keras.layers.Dense(2)])
        model.set_weights([weights[k] for k in ("conv.kernel", "conv.bias", "logits.kernel", "logits.bias")])
        self.compare(model, images.astype("float32") * numpy.float32(1 / 255), labels, validation, keras.optimizers.Adam(0.005), 15, 8, "pictures")
        found = json.loads(self.run_program("evaluate", "runs/pictures", "photos.csv", "--json"))
        self.assertEqual(found["outputs"][0]["metrics"]["accuracy"] > 0.5, True)

    def test_tokens_are_those_of_keras(self):
        random = numpy.random.default_rng(7)
        letters = list("abcdeABCDE'.,!?-_(){}[]\"\\/@#$%^&*+=<>:;|~` \t\n\v\f\r") + ["é", "Ü", "日", "ß", "\u00a0", "\u3000", "’"]
        texts = ["".join(random.choice(letters, random.integers(0, 60))) for _ in range(400)]
        with open(self.path("t.csv"), "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, quoting=csv.QUOTE_ALL)
            out.writerow(["t", "y"])
            out.writerows([text, i % 2] for i, text in enumerate(texts))
        for how, options in (("whitespace", "lower: ascii"), ("whitespace", "lower: ascii, vocabulary: 20"),
                             ("character", "lower: ascii, tokens: characters"),
                             ("character", "lower: ascii, tokens: characters, vocabulary: 9")):
            self.write("t.yaml", "name: t\ndata: {train: t.csv, label: y, text: {t: {length: 15, %s}}, shuffle: false}\n"
                       "model: [embedding: {output_dim: 2}, flatten: , dense: {units: 1}]\ntrain: {loss: mse, epochs: 1}\n"
                       "record: [{what: input, form: rows, to: [csv]}]\n" % options)
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            self.run_program("train", "t.yaml", "--quiet")
            ours = pandas.read_csv(self.path("runs", "t", "input.csv")).iloc[:, 3:].to_numpy()
            most = int(options.split("vocabulary: ")[1]) if "vocabulary" in options else None
            theirs = keras.layers.TextVectorization(max_tokens=most, output_sequence_length=15, split=how)
            theirs.adapt(numpy.array(texts, dtype=object))
            numpy.testing.assert_array_equal(ours, numpy.asarray(theirs(numpy.array(texts, dtype=object))), err_msg=options)

    def test_groups_are_those_of_scikit_learn(self):
        random = numpy.random.default_rng(3)
        sizes = random.permutation(numpy.arange(1, 41))
        groups = random.permutation(numpy.repeat(numpy.arange(40), sizes))
        labels = (random.random(len(groups)) < (groups % 5 + 1) / 7).astype(int)
        pandas.DataFrame({"g": groups, "x": random.random(len(groups)), "y": labels}).to_csv(self.path("g.csv"), index=False)
        text = ("name: g\ndata: {train: g.csv, label: y, groups: g, validation: %s}\nmodel: [dense: {units: 2}]\n"
                "train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}\n" + EVERYTHING.replace("=", ": ", 1) + "\n")
        self.write("g.yaml", text % "{folds: 5}")
        self.run_program("train", "g.yaml", "--quiet")
        ours = sorted(sorted(set(groups[self.validation("g-fold-%d" % (i + 1))])) for i in range(5))
        theirs = sorted(sorted(set(groups[test])) for _, test in GroupKFold(5).split(groups, labels, groups))
        self.assertEqual(ours, theirs)  # sizes are all different: there is one way only
        self.write("s.yaml", (text % "{folds: 5, stratified: true}").replace("name: g", "name: s"))
        self.run_program("train", "s.yaml", "--quiet")

        def spread(parts):
            shares = [labels[part].mean() for part in parts]
            return max(shares) - min(shares), max(map(len, parts)) - min(map(len, parts))
        own = [self.validation("s-fold-%d" % (i + 1)) for i in range(5)]
        self.assertEqual(sorted(sum(own, [])), list(range(len(groups))))
        other = [test for _, test in StratifiedGroupKFold(5).split(groups, labels, groups)]
        for a, b in zip(spread(own), spread(other)):
            self.assertLessEqual(a, b * 1.5 + 0.02)

    def test_pictures_are_those_of_pillow(self):
        random = numpy.random.default_rng(0)

        def noise(channels):
            blocks = random.integers(0, 256, (10, 14, channels)).repeat(4, 0).repeat(4, 1)[:37, :53]
            return numpy.clip(blocks + random.integers(-9, 9, (37, 53, channels)), 0, 255).astype("uint8")
        grey, colour, alpha = Image.fromarray(noise(1)[:, :, 0]), Image.fromarray(noise(3)), Image.fromarray(noise(4))
        kinds = {"grey": grey, "colour": colour, "alpha": alpha, "palette": colour.quantize(200), "bits": grey.convert("1")}
        names = []

        def save(name, image, **options):
            image.save(self.path(name), **options)
            names.append(name)
        for kind, image in kinds.items():
            save(kind + ".bmp", image)
            for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
                save("%s-%s.tiff" % (kind, compression), image, **({"compression": compression} if compression else {}))
        save("jpeg.tiff", colour, compression="jpeg")
        save("fax.tiff", kinds["bits"], compression="group4")
        for kind in ("grey", "colour", "alpha"):
            save(kind + ".webp", kinds[kind])
            save(kind + "-lossless.webp", kinds[kind], lossless=True)
        self.write("list.csv", "path,y\n" + "".join(name + ",1\n" for name in names))
        for channels, mode in ((1, "L"), (3, "RGB"), (4, "RGBA")):
            self.write("p.yaml", "name: p%d\ndata: {train: list.csv, images: path, label: y, input: [37, 53, %d], batch: 100, "
                       "shuffle: false}\nmodel: [flatten: , dense: {units: 1}]\ntrain: {loss: mse, epochs: 1}\n"
                       "record: [{what: input, form: tensor, to: [npy]}]\n" % (channels, channels))
            self.run_program("train", "p.yaml", "--quiet")
            ours = numpy.load(self.path("runs", "p%d" % channels, "input.npy")).reshape(-1, 37, 53, channels)
            for i, name in enumerate(names):
                theirs = numpy.asarray(Image.open(self.path(name)).convert(mode)).reshape(37, 53, channels)
                numpy.testing.assert_array_equal(ours[i], theirs, err_msg="%s as %s" % (name, mode))


if __name__ == "__main__":
    unittest.main()
