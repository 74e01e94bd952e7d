"""How cost grows with size: ./dev bench growth [--full] [--only WORD]

Each row is one thing at growing sizes: CPU seconds of the program and its peak memory, and the exponent
that fits them (1 is linear, 0 constant). A start of the program is subtracted. Takes a few minutes;
--full goes on to the largest sizes.
"""
import argparse
import array
import math
import os
import shutil
import subprocess
import tempfile

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "build", "tapedeck")
HEAD = """
name: {name}
seed: 1
threads: 1
data:
  {data}
  batch: {batch}
model:
{model}
train:
  {loss}
  optimizer: {{adam: {{learning_rate: 0.001}}}}
  {length}
"""
SMALL = "  - dense: {name: hidden, units: 8, activation: tanh}\n  - dense: {name: logits, units: 2}"
MOONS = "generate: {two_moons: {examples: 1000, noise: 0.1}}"


def measure(folder, *arguments):
    """CPU seconds and peak bytes of one call of the program."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([PROGRAM, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=said,
                                   stdin=subprocess.DEVNULL, env={**os.environ, "TAPEDECK_CACHE": folder + "/cache"})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode:
            raise RuntimeError(f"tapedeck {' '.join(arguments)}: {said.read()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


CLASSES = "sparse_categorical_crossentropy\n  from_logits: true"


def experiment(folder, name, data=MOONS, batch=16, model=SMALL, length="epochs: 1", record="", loss=CLASSES, more=""):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(name=name, data=data, batch=batch, model=model, length=length,
                               loss=f"loss: {loss}" + (more and f"\n  {more}")) + record)
    return path


def train(folder, name, **what):
    return measure(folder, "train", experiment(folder, name, **what), "--out", "runs", "--quiet")


def steps(folder, size):
    examples = max(16, size * 16 // 10)
    return train(folder, f"steps-{size}", data=f"generate: {{two_moons: {{examples: {examples}}}}}",
                 length="epochs: 10", record="record:\n  - {what: loss, every: 1 step, to: [sqlite]}\n")


def run_of_steps(folder, size):
    """A run of `size` steps, trained unless a row before has."""
    run = os.path.join(folder, "runs", f"steps-{size}")
    if not os.path.isdir(run):
        steps(folder, size)
    return run


def layers(folder, size):
    model = "\n".join(f"  - dense: {{name: l{i}, units: 4, activation: tanh}}" for i in range(size))
    return train(folder, f"layers-{size}", model=model + "\n  - dense: {name: logits, units: 2}", batch=200,
                 record='record:\n  - {what: "*", every: 1 step, form: stats, to: [csv, sqlite]}\n')


def rows(folder, size):
    with open(os.path.join(folder, "rows.csv"), "w", encoding="ascii") as file:
        file.write("a,b,c,d,class\n")
        for i in range(size):
            file.write(f"{i % 97 / 97},{i % 89 / 89},{i % 83 / 83},{i % 79 / 79},{i % 2}\n")
    return train(folder, f"rows-{size}", data=f"train: {folder}/rows.csv\n  label: last", batch=size)


def parameters(folder, size):
    """Adam on this many million parameters: the memory, which is 4 times theirs, is what matters."""
    width = int((size * 1e6 / 2) ** 0.5)
    layer = f", units: {width}, activation: tanh}}"
    return train(folder, f"parameters-{size}", model=f"  - dense: {{name: a{layer}\n  - dense: {{name: b{layer}\n"
                 f"  - dense: {{name: c{layer}\n  - dense: {{name: logits, units: 2}}", data="generate: {two_moons: {examples: 32}}")


def positions(folder, size):
    """Attention among this many positions."""
    return train(folder, f"positions-{size}", data=f"generate: {{adding: {{length: {size}, examples: 2}}}}", batch=1,
                 model="  - multi_head_attention: {name: attention, heads: 2, key_dim: 16}\n"
                 "  - global_average_pool1d:\n  - dense: {name: sum, units: 1}", loss="mse")


def megabytes(folder, size):
    """This many million bytes of NPY in their own order, standardised."""
    path, width = os.path.join(folder, "large.npy"), 1000
    count = size * 1000000 // (4 * width)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        block = array.array("f", (i * 7 % 13 / 13 for i in range(width * 250)))
        for _ in range(0, count, 250):
            file.write(block.tobytes())
    used = train(folder, f"megabytes-{size}", data=f"train: {path}\n  label_kind: none\n  standardize: true\n"
                 "  shuffle: false", batch=250, model="  - dense: {name: code, units: 4}\n"
                 f"  - dense: {{name: again, units: {width}}}", loss="mse", more="target: input")
    os.remove(path)
    return used


def compare(folder, size):
    run = run_of_steps(folder, size)
    shutil.copytree(run, run + "-copy", dirs_exist_ok=True)
    return measure(folder, "compare", run, run + "-copy")


def export(folder, size):
    shutil.rmtree(os.path.join(folder, "exported"), ignore_errors=True)
    return measure(folder, "export", run_of_steps(folder, size), "--to", "csv", "--out", "exported")


def list_long(folder, size):
    return measure(folder, "runs", run_of_steps(folder, size))


def list_many(folder, size):
    many = os.path.join(folder, f"many-{size}")
    train(folder, "one")
    for i in range(size):
        os.makedirs(os.path.join(many, f"run-{i}"), exist_ok=True)
        shutil.copy(os.path.join(folder, "runs", "one", "run.db"), os.path.join(many, f"run-{i}", "run.db"))
    shutil.rmtree(os.path.join(folder, "runs", "one"))
    return measure(folder, "runs", many)


# What it is, how it is measured, sizes, those that --full adds, the most the exponents of time and memory may be.
TABLE = [
    ("training, steps", steps, [20000, 80000, 320000], [3000000], 1.1, 1.1),
    ("compare, steps", compare, [20000, 80000, 320000], [3000000], 1.1, 0.1),
    ("export to CSV, steps", export, [20000, 80000, 320000], [3000000], 1.1, 0.1),
    ("runs, of one with steps", list_long, [20000, 80000, 320000], [3000000], 0.2, 0.1),
    ("training, layers", layers, [50, 200, 800], [5000, 11000], 1.1, 1.1),
    ("training, rows of CSV", rows, [20000, 80000, 320000], [5000000], 1.1, 1.1),
    ("runs, many", list_many, [400, 800, 1600], [10000], 1.1, 0.2),
    ("Adam, millions of parameters", parameters, [2, 8, 32], [128], 1.1, 1.1),
    ("attention, positions", positions, [500, 1000, 2000], [5000], 2.1, 1.1),
    ("standardised NPY in its order, MB", megabytes, [100, 400], [1600], 1.1, 0.1),
]


def exponent(sizes, values):
    """The slope of a line through the logarithms, by least squares."""
    x, y = [math.log(s) for s in sizes], [math.log(max(v, 1e-3)) for v in values]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the largest sizes, too")
    parser.add_argument("--only", default="", metavar="WORD", help="the rows that have it in their name")
    options = parser.parse_args()
    print("| what grows | CPU seconds (MB) at each size | exponent of time | of memory | at most |")
    print("|---|---|---|---|---|", flush=True)
    too_steep = 0
    with tempfile.TemporaryDirectory() as folder:
        start, _ = measure(folder, "--version")
        for name, function, small, large, most, most_memory in TABLE:
            if options.only not in name:
                continue
            sizes = small + (large if options.full else [])
            measured = [function(folder, size) for size in sizes]
            times = [max(0.0, seconds - start) for seconds, _ in measured]
            slope, memory = exponent(sizes, times), exponent(sizes, [peak for _, peak in measured])
            too_steep += slope > most or memory > most_memory
            cells = ", ".join(f"{f'{size:,}'.replace(',', ' ')}: {seconds:.2f} ({peak / 1e6:.0f})"
                              for size, seconds, (_, peak) in zip(sizes, times, measured))
            print(f"| {name} | {cells} | {slope:.2f} | {memory:.2f} | {most}, {most_memory} |", flush=True)
    return too_steep > 0


if __name__ == "__main__":
    raise SystemExit(main())
