"""How cost grows with size: ./dev bench growth [--full]

Each row is one thing at growing sizes: CPU seconds of the program and its peak memory, and the exponent
that fits them (1 is linear, 0 constant). A start of the program is subtracted. Takes a few minutes;
--full goes on to the largest sizes.
"""
import argparse
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
  loss: sparse_categorical_crossentropy
  from_logits: true
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


def experiment(folder, name, data=MOONS, batch=16, model=SMALL, length="epochs: 1", record=""):
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(name=name, data=data, batch=batch, model=model, length=length) + record)
    return path


def train(folder, name, **what):
    return measure(folder, "train", experiment(folder, name, **what), "--out", "runs", "--quiet")


def steps(folder, size):
    examples = max(16, size * 16 // 10)
    return train(folder, f"steps-{size}", data=f"generate: {{two_moons: {{examples: {examples}}}}}",
                 length="epochs: 10", record="record:\n  - {what: loss, every: 1 step, to: [sqlite]}\n")


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


def compare(folder, size):
    run = os.path.join(folder, "runs", f"steps-{size}")
    shutil.copytree(run, run + "-copy", dirs_exist_ok=True)
    return measure(folder, "compare", run, run + "-copy")


def export(folder, size):
    shutil.rmtree(os.path.join(folder, "exported"), ignore_errors=True)
    return measure(folder, "export", f"runs/steps-{size}", "--to", "csv", "--out", "exported")


def list_long(folder, size):
    return measure(folder, "runs", f"runs/steps-{size}")


def list_many(folder, size):
    many = os.path.join(folder, f"many-{size}")
    train(folder, "one")
    for i in range(size):
        os.makedirs(os.path.join(many, f"run-{i}"), exist_ok=True)
        shutil.copy(os.path.join(folder, "runs", "one", "run.db"), os.path.join(many, f"run-{i}", "run.db"))
    shutil.rmtree(os.path.join(folder, "runs", "one"))
    return measure(folder, "runs", many)


# What it is, how it is measured, sizes, those that --full adds, the most the exponent may be.
TABLE = [
    ("training, steps", steps, [20000, 80000, 320000], [3000000], 1.1),
    ("compare, steps", compare, [20000, 80000, 320000], [3000000], 1.1),
    ("export to CSV, steps", export, [20000, 80000, 320000], [3000000], 1.1),
    ("runs, of one with steps", list_long, [20000, 80000, 320000], [3000000], 0.2),
    ("training, layers", layers, [50, 200, 800], [5000], 1.1),
    ("training, rows of CSV", rows, [20000, 80000, 320000], [5000000], 1.1),
    ("runs, so many", list_many, [100, 400, 1600], [10000], 1.1),
]


def exponent(sizes, values):
    """The slope of a line through the logarithms, by least squares."""
    x, y = [math.log(s) for s in sizes], [math.log(max(v, 1e-3)) for v in values]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the largest sizes, too")
    options = parser.parse_args()
    print("| what grows | CPU seconds (MB) at each size | exponent of time | of memory | at most |")
    print("|---|---|---|---|---|", flush=True)
    too_steep = 0
    with tempfile.TemporaryDirectory() as folder:
        start, _ = measure(folder, "--version")
        for name, function, small, large, most in TABLE:
            sizes = small + (large if options.full else [])
            measured = [function(folder, size) for size in sizes]
            times = [max(0.0, seconds - start) for seconds, _ in measured]
            time, memory = exponent(sizes, times), exponent(sizes, [peak for _, peak in measured])
            too_steep += time > most
            cells = ", ".join(f"{size:,}: {seconds:.2f} ({peak / 1e6:.0f})".replace(",", " ", 1) if size > 999
                              else f"{size}: {seconds:.2f} ({peak / 1e6:.0f})"
                              for size, seconds, (_, peak) in zip(sizes, times, measured))
            print(f"| {name} | {cells} | {time:.2f} | {memory:.2f} | {most} |", flush=True)
    return too_steep > 0


if __name__ == "__main__":
    raise SystemExit(main())
