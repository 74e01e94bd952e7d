#!/usr/bin/env python3
"""Makes the pictures of docs/view.md: every page of the viewer, light, dark and on a telephone, in docs/screens/.

    ./dev build && docs/screens/view.py [PAGE…]

Ranks is of a PyTorch training of four processes: run this with a Python that has PyTorch 2 and NumPy, as ./dev interop keeps one in ~/.cache/tapedeck.
"""
import base64
import json
import os
import shutil
import subprocess
import sys

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("TD_SOURCE", SOURCE)
os.environ.setdefault("TD_BUILD", os.path.join(SOURCE, "build"))
os.environ["TAPEDECK"] = "tapedeck"  # what is recorded, and so seen, has no path of this machine
os.environ["PATH"] = os.environ["TD_BUILD"] + os.pathsep + os.environ["PATH"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "view"))
from browser import Browser  # noqa: E402
from viewer import BUILD, Folder, Viewer  # noqa: E402

RATES = ("0.3", "0.03", "0.01", "0.003", "0.001")
PAGES = {
    "runs": "?pick=all&find=digits",
    "layers": "",
    "layer": "?layer=conv2",
    "transformer": "",
    "network": "",
    "tensor": "",
    "triggers": "",
    "examples": "",
    "media": "",
    "compare": "?with=@",
    "findings": "",
    "recorder": "",
    "ranks": "?stat=norm",
    "origin": "",
    "diff": "?with=@",
}
RUNS = {"findings": "digits-1", "triggers": "digits-1", "ranks": "four-processes", "origin": "planted", "transformer": "transformer"}
# The pages that execute steps again: what is clicked, and the text that then comes.
CLICKS = {"origin": ("find its origin", "row 20"), "diff": ("find where they part", "They part")}
PLANTED = """
name: planted
threads: 1
data: {train: x.npy, labels: y.npy, batch: 8, shuffle: false}
model: [{dense: {name: hidden, units: 5, activation: relu}}, {dense: {name: out, units: 1}}]
train: {loss: mse, optimizer: {sgd: {}}, epochs: 3}
"""
# Four processes with torch.distributed; rank 2 gets data of another scale.
RANKS = """
import sys, torch, torch.distributed as dist, tapedeck
from torch import nn
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
rank = dist.get_rank()
data = torch.randn(2048, 32, generator=torch.Generator().manual_seed(rank)) * (3 if rank == 2 else 1)
target = data[:, :1] * 2 - data[:, 1:2]
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
deck = tapedeck.watch(model, sys.argv[1], optimizer=optimizer, every=2)
for epoch in range(3):
    for part in torch.randperm(2048).split(32):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data[part]), target[part])
        loss.backward()
        optimizer.step()
        deck.log(loss=loss)
        deck.step(epoch=epoch + 1)
deck.finish()
"""
SIZES = {"light": (1280, 800, "light"), "dark": (1280, 800, "dark"), "phone": (390, 780, "light")}


def save(browser, path):
    """WebP: a tenth of what PNG takes."""
    picture = browser.devtools("Page.captureScreenshot", format="webp", quality=62)["data"]
    with open(path, "wb") as file:
        file.write(base64.b64decode(picture))


def tapedeck(*arguments, status=0):
    done = subprocess.run(["tapedeck", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
    if status is not None and done.returncode != status:
        raise RuntimeError(f"tapedeck {' '.join(arguments)}: {done.stderr}")


def record_planted():
    """One value of the data is NaN."""
    rng = numpy.random.default_rng(1)
    inputs = rng.normal(size=(40, 3)).astype("float32")
    numpy.save("y.npy", inputs.sum(axis=1, keepdims=True))
    inputs[19, 1] = numpy.nan
    numpy.save("x.npy", inputs)
    with open("planted.yaml", "w", encoding="ascii") as file:
        file.write(PLANTED)
    tapedeck("train", "planted.yaml", "--quiet", status=1)


def record_runs():
    for number, rate in enumerate(RATES, 1):
        tapedeck("train", "examples/demo/demo.yaml", "--quiet", "--set", f"name=digits-{number}", "--set", f"seed={number}", "--set", "train.epochs=8",
                 "--set", f"train.optimizer={{adam: {{learning_rate: {rate}}}}}")
    for run in ("digits-1", "digits-3"):
        tapedeck("diagnose", f"runs/{run}", status=None)
    tapedeck("train", "--from", "runs/digits-3@225", "--quiet", "--set", "train.optimizer.adam.learning_rate=0.1", "--set", "name=digits-3-faster")
    record_planted()
    tapedeck("train", "examples/transformer/transformer.yaml", "--quiet", "--set", "record.0.every=1 step")
    environment = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "python"), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT="29761", TAPEDECK_RUN="four")
    writers = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", RANKS, "runs/four-processes"], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
               for rank in range(4)]
    if any(writer.wait(300) for writer in writers):
        raise RuntimeError("the training of four processes failed")


def show(browser, page, run, query):
    browser.run("location.hash = arguments[0]", f"#/{page}" + (f"/{run}" if run else "") + query)
    browser.run("return new Promise((resolve) => setTimeout(resolve, 1500))")
    if page in CLICKS:
        button, text = CLICKS[page]
        browser.run("[...document.querySelectorAll('main button')].find((each) => each.innerText === arguments[0]).click()", button)
        browser.wait_text(text)


def main():
    folder = Folder()
    for part in ("demo", "data", "transformer"):
        shutil.copytree(os.path.join(SOURCE, "examples", part), folder / f"examples/{part}")
    os.chdir(folder.path)
    record_runs()
    viewer = Viewer("runs", "--port", "0")
    browser = Browser()
    try:
        browser.open(viewer.url)
        browser.wait(f"return document.querySelectorAll('tbody tr').length === {len(RATES) + 4} && !document.body.innerText.includes('is being read')")
        ids = {run["name"]: run["id"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]}
        for name, (width, height, scheme) in SIZES.items():
            browser.size(width, height)
            browser.scheme(scheme)
            for page, query in PAGES.items():
                if sys.argv[1:] and page not in sys.argv[1:]:
                    continue
                run = "" if page == "runs" else ids[RUNS.get(page, "digits-3")]
                show(browser, page, run, query.replace("@", ids["digits-3-faster" if page == "diff" else "digits-2"]))
                save(browser, os.path.join(HERE, f"{page}-{name}.webp"))
    finally:
        browser.close()
        viewer.close()
        folder.remove()


if __name__ == "__main__":
    main()
