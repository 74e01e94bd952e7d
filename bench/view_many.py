"""./dev bench view_many: a list of 2 000 runs, a run of 1 000 layers with 5 histograms each, 1 000 metrics of 10 000 steps: how long
until the list is there, and what it costs to apply a filter, to scrub a step, to point at a chart. Prints a table."""
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "view"))
os.environ.setdefault("TD_SOURCE", os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))
os.environ.setdefault("TD_BUILD", os.path.join(os.environ["TD_SOURCE"], "build"))
os.environ.setdefault("TAPEDECK", os.path.join(os.environ["TD_BUILD"], "tapedeck"))
from browser import Browser  # noqa: E402
from viewer import Folder, Viewer, record  # noqa: E402

RUNS = 2000
# Does something and waits for the frame that it leads to.
FRAME = """const [script, i] = arguments; new Function("i", script)(i);
    return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))));"""


def memory(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main_thread(browser):
    """CPU time of the page's main thread until now: script, layout, drawing. Other programs on the machine do not count."""
    return {each["name"]: each["value"] for each in browser.devtools("Performance.getMetrics")["metrics"]}["TaskDuration"]


def interact(browser, what, script, times=40):
    browser.devtools("Performance.enable", timeDomain="threadTicks")
    taken = []
    for i in range(times):
        before = main_thread(browser)
        browser.run(FRAME, script, i)
        taken.append(1000 * (main_thread(browser) - before))
    taken.sort()
    print(f"{what:<48} {taken[times // 2]:8.1f} ms of CPU   at most {taken[-1]:6.1f} ms", flush=True)


def many_runs():
    folder = Folder()
    record(folder / "run-0", "odd")
    for i in range(1, RUNS):
        os.mkdir(folder / f"run-{i}")
        shutil.copy(os.path.join(folder / "run-0", "run.db"), folder / f"run-{i}")
    viewer = Viewer(folder.path, "--port", "0")
    began = time.monotonic()
    while True:
        runs = json.loads(viewer.get("/api/runs")[2])["runs"]
        if len(runs) == RUNS and not any(run["loading"] for run in runs):
            break
        time.sleep(0.1)
    print(f"{RUNS} runs are read after {time.monotonic() - began:.1f} s")
    browser = Browser(1440, 900)
    try:
        browser.open(viewer.url)
        browser.wait("return document.querySelectorAll('.rows tbody tr').length > 20")
        shown = browser.run("return performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint').startTime")
        browser.open(viewer.url.replace("/?", "/?again&"))
        listed = browser.wait("return document.querySelectorAll('.rows tbody tr').length > 20 && performance.now()")
        print(f"{'the list is there':<48} {listed:8.0f} ms   first paint {shown:.0f} ms")
        interact(browser, "a filter", "const f = document.querySelector('.filter'); f.value = 'run-' + i; f.dispatchEvent(new Event('input'))")
        interact(browser, "a filter by a metric", "const f = document.querySelector('.filter'); f.value = 'val_loss < ' + (i + 10); f.dispatchEvent(new Event('input'))")
        print(f"the viewer's memory: {memory(viewer.process):.0f} MB")
    finally:
        browser.close()
        viewer.close()
        folder.remove()


def large_run(signals, steps):
    folder = Folder()
    subprocess.run([os.path.join(os.environ["TD_BUILD"], "bench", "view_record"), folder / "large", str(signals), str(steps), "sqlite"], check=True)
    record(folder / "many", "layers")
    viewer = Viewer(folder.path, "--port", "0")
    browser = Browser(1440, 900)
    try:
        browser.open(viewer.url)
        browser.wait("return document.querySelectorAll('.rows tbody tr').length >= 2 && !document.body.innerText.includes('is being read')", seconds=120)
        ids = {run["name"]: run["id"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]}
        scrub = "const s = document.querySelector('.slider'); s.value = 1 + i % Number(s.max); s.dispatchEvent(new Event('input'))"
        hover = "const c = document.querySelector('.plot .over'), b = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent('pointermove', { clientX: b.left + 100 + 5 * i, clientY: b.top + 40, bubbles: true }))"
        for name, page in (("large", "layers"), ("many", "layers"), ("many", "layer"), ("many", "network")):
            browser.run("location.hash = arguments[0]", f"#/{page}/{ids[name]}")
            browser.wait("return document.querySelector('.slider') && document.querySelector('main canvas, main svg')", seconds=60)
            browser.run("return new Promise((resolve) => setTimeout(resolve, 6000))")
            interact(browser, f"{name}, {page}: scrub", scrub)
            if page != "network":
                interact(browser, f"{name}, {page}: point", hover)
        print(f"the viewer's memory: {memory(viewer.process):.0f} MB")
    finally:
        browser.close()
        viewer.close()
        folder.remove()


if __name__ == "__main__":
    many_runs()
    if "--runs" not in sys.argv:
        large_run(1000, 10000)
