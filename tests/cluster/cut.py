"""Runs that are cut short: launched, watched, and looked at."""
import os
import signal
import subprocess
import time

from cluster import ENVIRONMENT, Case, command, digits

STEPS = 400
EXPERIMENT = """
name: run
seed: 3
data: {train: x.npy, labels: y.npy, batch: 16}
model:
- dense: {name: hidden, units: 9, activation: relu}
- dropout: {name: drop, rate: 0.3}
- dense: {name: logits, units: 3}
train:
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
  metrics: [accuracy]
  shards: 4
  steps: %d
  checkpoint: {every: 25 steps}
record:
- {what: "*", every: 5 steps, form: stats, to: [csv]}
- {what: "hidden.output", every: 7 steps, to: [npy]}
- {what: loss, to: [csv]}
""" % STEPS
TRAIN = ("train", "run.yaml", "--quiet", "--out", "cut", "--set", "train.steps=1000000")


class Cut(Case):
    def setUp(self):
        super().setUp()
        digits(self.folder)
        with open(self.path("run.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)

    def start(self, mpi, processes, *more, timeout="60"):
        words = command(mpi, processes, *TRAIN)
        words[1:1] = more
        return self.launch(words, timeout)

    def launch(self, words, timeout, after=0):
        """Returns when there is a checkpoint behind this step."""
        child = subprocess.Popen(words, cwd=self.folder, env=dict(ENVIRONMENT, TAPEDECK_GROUP_TIMEOUT=timeout), text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.end, child)
        for _ in range(600):
            if self.last() > after:
                return child
            self.assertIsNone(child.poll(), child.poll() is None or child.stdout.read())
            time.sleep(0.1)
        self.fail("no checkpoint in a minute")

    def end(self, child):
        for process in self.ranks(child).values():
            os.kill(process, signal.SIGKILL)
        child.kill()
        child.wait()
        child.stdout.close()

    def ranks(self, child):
        """The processes of the program that the launcher started, by rank."""
        found = {}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    values = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
                program = os.path.basename(os.readlink(f"/proc/{name}/exe"))
                here = os.readlink(f"/proc/{name}/cwd")
            except (OSError, ValueError):
                continue
            rank = values.get(b"OMPI_COMM_WORLD_RANK") or values.get(b"PMI_RANK")
            if rank and program == "tapedeck" and here == os.path.realpath(self.folder) and state != "Z":
                found[int(rank)] = int(name)
        return found

    def wait(self, child, left=0, seconds=10):
        """Until no more processes than that are left."""
        began = time.monotonic()
        while len(self.ranks(child)) > left:
            self.assertLess(time.monotonic() - began, seconds, self.ranks(child))
            time.sleep(0.05)

    def last(self):
        """The step of the last checkpoint; 0: there is none."""
        folder = self.path("cut", "run", "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return max((int(name[5:14]) for name in names if name.startswith("step-") and name.endswith(".safetensors")), default=0)
