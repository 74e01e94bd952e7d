"""The site of the documentation: axe finds nothing serious on its pages, they fit a telephone, and nothing is fetched from elsewhere."""
import functools
import http.server
import os
import pathlib
import re
import subprocess
import sys
import threading
import unittest

from test_view_axe import axe_script

SOURCE = pathlib.Path(os.environ["TD_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests" / "view"))
from browser import Browser  # noqa: E402

SITE = SOURCE / "build" / "site"
PAGES = ("index", "tutorial/pytorch", "how-to/layer-errors", "diagnose", "performance", "experiment", "reference/python-api", "reference/c-deck")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["/usr/bin/python3", "-B", "-m", "mkdocs", "--quiet", "build", "--clean"], cwd=SOURCE, check=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.address = f"http://127.0.0.1:{server.server_port}/"

    def test_pages_fit_and_are_accessible(self):
        axe, browser = axe_script(), Browser(1280, 900)
        self.addCleanup(browser.close)
        found = []
        for page in PAGES:
            for scheme in ("light", "dark"):
                browser.size(1280, 900)
                browser.scheme(scheme)
                browser.open(f"{self.address}{page}.html")
                browser.devtools("Runtime.evaluate", expression=axe)
                found += [(page, scheme, *violation) for violation in browser.run(
                    """return axe.run(document.querySelector("article")).then((result) => result.violations
                        .filter((v) => v.impact === "serious" || v.impact === "critical")
                        .map((v) => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 160)]))""")]
            browser.size(390, 800)
            wide = browser.run("return document.documentElement.scrollWidth")
            if wide > 390:
                found.append((page, "is wider than a telephone", wide))
        self.assertEqual(found, [], "\n".join(map(str, found)))

    def test_nothing_comes_from_elsewhere(self):
        loaded = re.compile(r"""<(?:script|img|link|iframe)[^>]*\s(?:src|href)=["']?(https?://[^"' >]+)""")
        for page in SITE.rglob("*.html"):
            self.assertEqual(loaded.findall(page.read_text(encoding="utf-8")), [], page)


if __name__ == "__main__":
    unittest.main()
