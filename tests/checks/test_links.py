"""Links between pages lead somewhere; docs/index.md lists every page, and llms.txt is made from it."""

import os
import re
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TD_SOURCE"])
sys.path.insert(0, str(SOURCE / "tools"))
import site_pages  # noqa: E402

PAGES = sorted([*SOURCE.glob("*.md"), *SOURCE.glob("docs/**/*.md"), *SOURCE.glob("examples/**/*.md"), *SOURCE.glob("packaging/**/*.md")])


def without_code(text):
    return re.sub(r"^( *)```.*?^\1```$|`[^`\n]*`", "", text, flags=re.S | re.M)


def anchors(text):
    """The anchors of a page's headings, as GitHub and the site make them."""
    found = {}
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")
        number = found[words] = found.get(words, -1) + 1
        if number:
            found[f"{words}-{number}"] = 0
    return set(found) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        broken = []
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
                path, _, anchor = target.partition("#")
                if re.match(r"[a-z]+:", path):
                    continue
                place = (page.parent / path).resolve() if path else page
                if not place.exists():
                    broken.append(f"{page.relative_to(SOURCE)}: {target}: there is no such file")
                elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
                    broken.append(f"{page.relative_to(SOURCE)}: {target}: no heading has this anchor")
        self.assertFalse(broken, "\n".join(["", *broken]))

    def test_the_index_lists_every_page(self):
        listed = {path for _, pages in site_pages.contents() for _, path, _ in pages} | {"index.md"}
        there = {str(path.relative_to(SOURCE / "docs")) for path in SOURCE.glob("docs/**/*.md")}
        self.assertEqual(listed, there)

    def test_llms_txt_is_what_the_index_says(self):
        self.assertEqual((SOURCE / "llms.txt").read_text(encoding="utf-8"), site_pages.llms(), "./dev docs writes it")


if __name__ == "__main__":
    unittest.main()
