"""What signals of today's networks cost in a transformer, every step, beside plain statistics.

    ./dev bench derived [ROW …]

The network of examples/transformer, 20 and 60 steps; the difference, a step, is printed. Instructions of the training
thread and of the writer's are counted by callgrind with AVX2 kernels (valgrind has no AVX-512): they do not depend on
what else the machine does. The writer's run beside the training where there is a core for them."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "build", "tapedeck")
EXAMPLE = os.path.join(HERE, "..", "examples", "transformer", "transformer.yaml")
STEPS = (20, 60)

PLAIN = '  - {what: ["*.output", "*.error", "*.gradient"], form: stats, to: [sqlite]}\n'
MOMENTS = '  - {what: ["*.moment1", "*.moment2"], form: stats, to: [sqlite]}\n'
ENTROPY = '  - {what: "*.entropy", form: stats, to: [sqlite]}\n'
LOSSES = "  - {what: loss.rows, form: rows, to: [sqlite]}\n"
ROWS = {"plain": PLAIN, "moments": PLAIN + MOMENTS, "entropy": PLAIN + ENTROPY, "rows": PLAIN + LOSSES,
        "together": PLAIN + MOMENTS + ENTROPY + LOSSES}


def count(text, steps):
    """Instructions of the training thread and of the writer's."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "network.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={folder}/out",
                        PROGRAM, "train", "network.yaml", "--quiet", "--set", f"train.steps={steps}"],
                       cwd=folder, env={**os.environ, "TAPEDECK_CPU": "avx2"}, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts = []
        for name in sorted(glob.glob(os.path.join(folder, "out-*"))):
            with open(name, encoding="utf-8") as file:
                counts.append(int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.M).group(1)))
        return counts[0], sum(counts[1:])


def main():
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed; ./dev setup installs it")
    with open(EXAMPLE, encoding="utf-8") as file:
        network = file.read().split("record:")[0]
    network = network.replace("../data", os.path.join(HERE, "..", "examples", "data")).replace("epochs: 6", "steps: 60")
    plain = None
    for row in ["plain"] + [name for name in ROWS if name != "plain" and (not sys.argv[1:] or name in sys.argv[1:])]:
        few, many = (count(f"{network}record:\n{ROWS[row]}", steps) for steps in STEPS)
        training, writer = ((b - a) / (STEPS[1] - STEPS[0]) for a, b in zip(few, many))
        plain = plain or training
        print(f"{row:9} {training:12,.0f} instructions a step, {training / plain:.3f} of plain statistics; "
              f"the writer {writer:10,.0f}", flush=True)


main()
