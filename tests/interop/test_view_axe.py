"""axe, the checker of accessibility that browsers' tools use, finds nothing on any page, light or dark."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "view"))
from browser import Browser  # noqa: E402
from viewer import HELPER, PROGRAM, SOURCE, Folder, Viewer, record, train_demo  # noqa: E402

VERSION = "4.14.0"
PAGES = ["layers", "layer", "network", "tensor", "triggers", "examples", "media", "compare", "findings", "recorder", "origin", "diff"]
RULES = """return axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }).then((result) =>
    result.violations.map((v) => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 160), v.nodes[0].failureSummary.slice(0, 300)]))"""


def axe_script():
    """The script, installed once beside the environments of Python packages."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tapedeck" / f"axe-{VERSION}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), f"axe-core@{VERSION}"], check=True, timeout=300)
    return script.read_text(encoding="utf-8")


class Axe(unittest.TestCase):
    def test_no_page_has_a_violation(self):
        axe, folder = axe_script(), Folder()
        self.addCleanup(folder.remove)
        for seed in (1, 2):
            train_demo(folder.path, "--set", f"seed={seed}", "--set", f"name=demo{seed}")
        record(folder / "odd", "odd")
        subprocess.run([PROGRAM, "train", os.path.join(SOURCE, "examples", "transformer", "transformer.yaml"), "--out", folder.path,
                        "--set", "train.epochs=1", "--quiet"], check=True, timeout=300)
        for rank in range(2):
            subprocess.run([HELPER, folder / "ranks", "rank"], check=True, timeout=60,
                           env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), TAPEDECK_RUN="one"))
        viewer = Viewer(folder.path, "--port", "0", "--write")
        self.addCleanup(viewer.close)
        browser = Browser(1440, 900)
        self.addCleanup(browser.close)
        browser.open(viewer.url)
        browser.wait("return document.querySelectorAll('tbody tr').length >= 5 && !document.body.innerText.includes('is being read')")
        browser.devtools("Runtime.evaluate", expression=axe)
        ids = {run["name"]: run["id"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]}
        found = []
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for page in ["runs", *PAGES, "ranks", "transformer"]:
                for run in {"runs": ("",), "ranks": ("ranks",), "transformer": ("transformer",), "origin": ("demo1",), "diff": ("demo1",)}.get(page, ("demo1", "odd")):
                    query = f"?pick={ids['demo1']},{ids['demo2']}" if page == "runs" else ""
                    browser.run("location.hash = arguments[0]", f"#/{page}" + (f"/{ids[run]}" if run else "") + query)
                    browser.run("return new Promise((resolve) => setTimeout(resolve, 350))")
                    browser.wait("return !document.querySelector('main').innerText.includes('reading the run')")
                    found += [(scheme, page, run, *violation) for violation in browser.run(RULES)]
            browser.run("location.hash = arguments[0]", f"#/layers/{ids['demo1']}")
            for opener in (".boards button", ".exports button:nth-last-child(2)", "header .state button"):  # a dashboard, a chart's axis, the keys
                browser.wait(f"return document.querySelector({json.dumps(opener)})")
                browser.run(f"[...document.querySelectorAll({json.dumps(opener)})].at(-1).click()")
                browser.wait("return document.querySelector('dialog[open]')")
                found += [(scheme, opener, *violation) for violation in browser.run(RULES)]
                browser.run("document.querySelector('dialog').close()")
        self.assertEqual(found, [], "\n".join(map(str, found)))


if __name__ == "__main__":
    unittest.main()
