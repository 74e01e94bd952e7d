"""Makes the pictures of docs/view.md: TAPEDECK=$PWD/build/tapedeck TD_BUILD=$PWD/build TD_SOURCE=$PWD python3 docs/screens/view.py"""
import json
import os
import subprocess
import sys
import time

SOURCE = os.environ["TD_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "view"))
from browser import Browser  # noqa: E402
from viewer import DEMO, Folder, PROGRAM, Viewer  # noqa: E402

# name, page, size, dark
PICTURES = [("view-layers", "#/layers/RUN?step=330", (1200, 720), False), ("view-layer", "#/layer/RUN?layer=hidden&kind=error&step=200", (1200, 1180), False),
            ("view-runs", "#/runs?pick=RUN,OTHER", (1200, 640), True), ("view-examples", "#/examples/RUN", (1200, 800), False)]


def main():
    folder, docs = Folder(), os.path.abspath(os.path.join(SOURCE, "docs"))
    os.chdir(folder.path)
    for seed in (7, 8):
        subprocess.run([PROGRAM, "train", DEMO, "--set", f"seed={seed}", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    viewer, browser = Viewer("runs"), Browser(1200, 800)
    try:
        browser.open(viewer.url)
        browser.wait("return document.querySelectorAll('tbody tr').length === 2 && !document.body.innerText.includes('is being read')")
        ids = {run["name"]: run["id"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]}
        for name, page, size, dark in PICTURES:
            browser.size(*size)
            browser.scheme("dark" if dark else "light")
            browser.run("location.hash = arguments[0]", page.replace("RUN", ids["demo"]).replace("OTHER", ids["demo-2"]))
            time.sleep(2)
            browser.screenshot(os.path.join(docs, name + ".png"))
            assert browser.errors() == [], name
    finally:
        browser.close()
        viewer.close()
        folder.remove()


if __name__ == "__main__":
    main()
