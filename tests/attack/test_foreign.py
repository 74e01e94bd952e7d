"""Runs of other programs in which one file was tampered with: read, within limits.

    TD_MUTATIONS   how many, where set"""
import glob
import os
import random
import shutil
import sys
import tempfile
import unittest
import zlib

import mutate
from attack import Attack, SOURCE
from test_runs import change_database

sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import foreign_files  # noqa: E402  pylint: disable=wrong-import-position


def sealed(generator, data):
    """Bytes of pieces changed, and their checksums made to match."""
    data, at = bytearray(data), 7
    while at + 7 <= len(data):
        room = foreign_files.BLOCK - at % foreign_files.BLOCK
        if room < 7:
            at += room
            continue
        length = int.from_bytes(data[at + 4:at + 6], "little")
        for _ in range(generator.choice([0, 0, 1, 3])):
            if length:
                data[at + 7 + generator.randrange(length)] = generator.choice([0, 1, 0x7f, 0x80, 0xff, generator.randrange(256)])
        if generator.random() < 0.05:
            data[at + 6] = generator.randrange(6)
        data[at:at + 4] = zlib.crc32(bytes(data[at + 6:at + 7 + length])).to_bytes(4, "little")
        at += 7 + length
    return bytes(data)


def change(generator, path):
    if path.endswith(".db"):
        change_database(generator, path)
        return
    with open(path, "rb") as file:
        data = file.read()
    rule = generator.choice([sealed, mutate.some_bytes]) if path.endswith(".wandb") else generator.choice([mutate.text, mutate.some_bytes])
    with open(path, "wb") as file:
        file.write(rule(generator, data))


class Foreign(unittest.TestCase):
    def test_reading(self):
        mutations, seed = int(os.environ.get("TD_MUTATIONS", 300)), int(os.environ.get("TD_SEED", 1))
        attack = Attack("read_runs", "")
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            seeds = os.path.join(folder, "seeds")
            foreign_files.write_wandb(os.path.join(seeds, "wandb"))
            foreign_files.write_mlflow(os.path.join(seeds, "mlruns"))
            foreign_files.write_lightning(os.path.join(seeds, "lightning"))
            os.mkdir(os.path.join(seeds, "trackio"))
            foreign_files.write_trackio(os.path.join(seeds, "trackio", "p.db"))
            kinds = {"wandb": "", "mlruns": "0/" + "f" * 32, "lightning": "", "trackio": "p.db/one"}
            for first in range(0, mutations, 50):
                runs = []
                for i in range(first, min(first + 50, mutations)):
                    generator = random.Random(seed * 1000003 + i)
                    kind = generator.choice(list(kinds))
                    copy = os.path.join(folder, str(i))
                    shutil.copytree(os.path.join(seeds, kind), copy)
                    files = [path for path in sorted(glob.glob(os.path.join(copy, "**"), recursive=True)) if os.path.isfile(path)]
                    change(generator, generator.choice(files))
                    runs.append(os.path.join(copy, kinds[kind]).rstrip("/"))
                attack.read(runs)
                for i in range(first, min(first + 50, mutations)):
                    shutil.rmtree(os.path.join(folder, str(i)))
        self.assertEqual(attack.failures, [], "\n".join(attack.failures))


if __name__ == "__main__":
    unittest.main()
