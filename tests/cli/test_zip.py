"""CSV files in zip archives: the only member, or one that is named."""
import os
import unittest
import zipfile

from program import Case

EXPERIMENT = """
name: NAME
seed: 1
data: {train: TRAIN, label: y, batch: 2}
model: [dense: {units: 1}]
train: {loss: mse, epochs: 2}
record: [{what: [input, loss], form: rows, to: [csv]}]
"""
ROWS = "a,b,y\n" + "".join("%d,%d,%d\n" % (i, i * i, i % 3) for i in range(20))


class Zip(Case):
    def pack(self, name, members, how=zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(self.path(name), "w", how) as archive:
            for member, text in members.items():
                archive.writestr(member, text)

    def fit(self, name, train, *arguments, status=0):
        return self.train(EXPERIMENT.replace("NAME", name).replace("TRAIN", train), "--quiet", *arguments, status=status)

    def test_one_member_is_the_file(self):
        self.write("plain.csv", ROWS)
        self.pack("one.zip", {"folder/": "", "folder/data.csv": ROWS, "__MACOSX/folder/._data.csv": "x"})
        self.pack("stored.zip", {"data.csv": ROWS}, zipfile.ZIP_STORED)
        self.pack("two.zip", {"x.csv": "c,y\n1,2\n", "data.csv": ROWS})
        self.fit("plain", "plain.csv")
        for name, train in (("one", "one.zip"), ("stored", "stored.zip"), ("two", "two.zip/data.csv"),
                            ("absolute", self.path("one.zip/folder/data.csv"))):
            self.fit(name, train)
            self.assertEqual(self.bytes("runs/plain/input.csv"), self.bytes("runs", name, "input.csv"))
            self.assertIn("identical", self.run_program("replay", "runs/" + name, "--steps", "1..2", "--record",
                                                        "dense.output", "--out", "again-" + name).stdout)
            self.run_program("train", "--resume", "runs/" + name, "--set", "train.epochs=3", "--quiet")
        self.run_program("predict", "runs/plain", "two.zip/data.csv", "--to", "p.csv")
        self.run_program("predict", "runs/plain", "plain.csv", "--to", "q.csv")
        self.assertEqual(self.read("p.csv"), self.read("q.csv"))

    def test_members_are_parts(self):
        lines = ROWS.splitlines(keepends=True)
        self.write("plain.csv", ROWS)
        self.pack("parts.zip", {"1.csv": "".join(lines[:7]), "2.csv": lines[0] + "".join(lines[7:])})
        self.fit("plain", "plain.csv")
        self.fit("parts", "[parts.zip/1.csv, parts.zip/2.csv]")
        self.assertEqual(self.bytes("runs/plain/input.csv"), self.bytes("runs/parts/input.csv"))

    def test_from_the_cache(self):
        self.pack("one.zip", {"data.csv": ROWS + "".join(ROWS.splitlines(keepends=True)[1:]) * 500})
        self.fit("memory", "one.zip", "--set", "data.batch=4000")
        for _ in range(2):
            self.fit("cached", "one.zip", "--set", "data.memory=16 KiB", "--set", "data.batch=4000")
        self.assertEqual(self.bytes("runs/memory/input.csv"), self.bytes("runs/cached-2/input.csv"))

    def refused(self, train, sentence):
        self.assertIn(sentence, self.fit("none", train, status=2).stderr)
        self.assertFalse(self.exists("runs", "none"))

    def test_mistakes(self):
        self.pack("two.zip", {"x.csv": "c,y\n1,2\n", "data.csv": ROWS})
        self.refused("two.zip", "a zip archive of several files; it has: data.csv, x.csv: name one, ARCHIVE.zip/MEMBER")
        self.refused("two.zip/z.csv", "two.zip: no member 'z.csv'; it has: data.csv, x.csv")
        self.refused("nothing.zip/z.csv", "nothing.zip' that can be read")
        self.pack("empty.zip", {})
        self.refused("empty.zip", "a zip archive without arrays (.npy) and without a CSV file")
        self.write("fake.zip", "a,b,y\n1,2,3\n")
        self.refused("fake.zip/x.csv", "fake.zip is no zip archive")
        self.pack("good.zip", {"data.csv": ROWS})
        data = bytearray(self.bytes("good.zip"))
        data[50] ^= 255
        with open(self.path("bad.zip"), "wb") as file:
            file.write(data)
        self.refused("bad.zip", "bad.zip")
        with open(self.path("cut.zip"), "wb") as file:
            file.write(data[:60])
        self.refused("cut.zip", "cut.zip")

    def test_a_bomb_is_bounded(self):
        with zipfile.ZipFile(self.path("bomb.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("data.csv", "w", force_zip64=True) as member:
                for _ in range(2100):
                    member.write(b"0" * (1 << 20))
        self.assertLess(os.path.getsize(self.path("bomb.zip")), 3 << 20)
        self.refused("bomb.zip", "data.csv")


if __name__ == "__main__":
    unittest.main()
