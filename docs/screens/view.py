#!/usr/bin/env python3
"""Makes the pictures of docs/view.md: every page of the viewer, light, dark and on a telephone, in docs/screens/.

    ./dev build && docs/screens/view.py
"""
import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("TD_SOURCE", SOURCE)
os.environ.setdefault("TD_BUILD", os.path.join(SOURCE, "build"))
os.environ.setdefault("TAPEDECK", os.path.join(os.environ["TD_BUILD"], "tapedeck"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "view"))
from browser import Browser  # noqa: E402
from viewer import Folder, Viewer, train_demo  # noqa: E402

RATES = ("0.3", "0.03", "0.01", "0.003", "0.001")
PAGES = {
    "runs": "?pick=all",
    "layers": "",
    "layer": "?layer=conv2",
    "network": "",
    "tensor": "",
    "triggers": "",
    "examples": "",
    "media": "",
    "compare": "?with=@",
    "findings": "",
    "recorder": "",
}
SIZES = {"light": (1280, 800, "light"), "dark": (1280, 800, "dark"), "phone": (390, 780, "light")}


def save(browser, path):
    """WebP: a tenth of what PNG takes."""
    picture = browser.devtools("Page.captureScreenshot", format="webp", quality=62)["data"]
    with open(path, "wb") as file:
        file.write(base64.b64decode(picture))


def main():
    folder = Folder()
    for number, rate in enumerate(RATES, 1):
        train_demo(folder.path, "--set", f"name=digits-{number}", "--set", f"seed={number}", "--set", "train.epochs=8",
                   "--set", f"train.optimizer={{adam: {{learning_rate: {rate}}}}}")
    viewer = Viewer(folder.path, "--port", "0")
    browser = Browser()
    try:
        browser.open(viewer.url)
        browser.wait(f"return document.querySelectorAll('tbody tr').length === {len(RATES)} && !document.body.innerText.includes('is being read')")
        ids = {run["name"]: run["id"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]}
        for name, (width, height, scheme) in SIZES.items():
            browser.size(width, height)
            browser.scheme(scheme)
            for page, query in PAGES.items():
                run = ids["digits-1" if page in ("findings", "triggers") else "digits-3"]
                browser.run("location.hash = arguments[0]", f"#/{page}" + ("" if page == "runs" else f"/{run}") + query.replace("@", ids["digits-2"]))
                browser.run("return new Promise((resolve) => setTimeout(resolve, 1500))")
                save(browser, os.path.join(HERE, f"{page}-{name}.webp"))
    finally:
        browser.close()
        viewer.close()
        folder.remove()


if __name__ == "__main__":
    main()
