"""The documentation as a site: hooks of mkdocs, which `./dev docs` runs.

docs/index.md is the only list of pages: its tables give the navigation and llms.txt. The pages `reference/c-*.md` and
`reference/python-api.md` are made here, from the public headers and from docstrings.
"""
import ast
import os
import posixpath
import re

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\) \| (.+) \|$")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


# ---- The list of pages --------------------------------------------------------------------------


def contents():
    """[(section, [(title, path, what it is about)])] of docs/index.md."""
    found = []
    for line in read("docs", "index.md").splitlines():
        if line.startswith("## "):
            found.append((line[3:], []))
        elif match := ROW.match(line):
            found[-1][1].append(match.groups())
    return [section for section in found if section[1]]


def llms():
    """The text of llms.txt: what there is to read, for programs that read."""
    title, about = re.search(r"^# ([^\n]*)\n\n(.*?)\n\n", read("docs", "index.md"), re.S | re.M).groups()
    lines = [f"# {title}", "", "> " + " ".join(about.split()), "",
             "A run is a folder with `run.db` (SQLite) and files beside it. Agents: use `tapedeck mcp runs` (Model Context Protocol,",
             "read-only), or the program with `--json`."]
    for section, pages in contents():
        lines += ["", f"## {section}"]
        lines += [f"- [{name}]({posixpath.normpath('docs/' + path)}): {words}" for name, path, words in pages
                  if os.path.exists(os.path.join(SOURCE, "docs", path))]
    return "\n".join(lines) + "\n"


# ---- The C reference ----------------------------------------------------------------------------


def header_page(name):
    """A public header as a page: its first comment, then each declaration below its comment."""
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", read("include", "tapedeck", name), flags=re.S | re.M)
    text = re.sub(r"^#(ifndef|define) TAPEDECK_\w+_H\n|^#endif\s*\Z|^#include .*\n", "", text, flags=re.M)
    out = [f"# tapedeck/{name}"]
    code = []

    def flush():
        block = "\n".join(code).strip("\n")
        code.clear()
        if not block.strip():
            return
        names = re.findall(r"\b(td_[a-z0-9_]+)\(", block) + re.findall(r"^} (td_\w+);|^typedef (?:struct|enum) (td_\w+)", block, re.M)
        named = next((name if isinstance(name, str) else name[0] or name[1] for name in names), None)
        if named:
            out.insert(len(out) - (1 if comment_waits[0] else 0), f"### {named}")
        out.append(f"```c\n{block}\n```")
        comment_waits[0] = False

    comment_waits = [False]
    for piece in re.split(r"(^/\*.*?\*/\n)", text, flags=re.S | re.M):
        if not piece.startswith("/*"):
            for block in re.split(r"\n\s*\n", piece):
                code.append(block)
                flush()
        elif match := re.match(r"/\* -+ (.*?) -+ \*/", piece):
            out.append(f"## {match[1]}")
            comment_waits[0] = False
        else:
            words = re.sub(r"^/\* ?|\s*\*/\s*$", "", piece)
            lines = re.sub(r"^ \* ?", "", words, flags=re.M).splitlines()
            out.append("\n".join("  " + line if line.startswith("  ") else line.replace("<", "&lt;") for line in lines))
            comment_waits[0] = True
    return "\n\n".join(out) + "\n"


def headers():
    return sorted(os.listdir(os.path.join(SOURCE, "include", "tapedeck")))


# ---- The Python reference -----------------------------------------------------------------------


def public_names():
    """{name: module} of what `import tapedeck` offers, in the order of __init__.py."""
    tree = ast.parse(read("python", "tapedeck", "__init__.py"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                if node.module and not alias.name.startswith("_") and alias.name != "version":
                    found[alias.name] = node.module
                elif not node.module:
                    found[alias.name] = alias.name
    return found


def signature(node):
    words = re.sub(r"\s+", " ", ast.unparse(node.args))
    words = re.sub(r"^self,? ?", "", words)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({words}){result}"


def docstring(node):
    """A docstring in Markdown: its examples are code, double backquotes are single ones."""
    words = (ast.get_docstring(node) or "").replace("``", "`") + "\n"
    words = re.sub(r"((?:^(?:>>>|\.\.\.).*\n(?:^(?!>>>|\.\.\.|\s*$).+\n)*)+)", r"\n```pycon\n\1```\n", words, flags=re.M)
    words = re.sub(r"^(Args|Returns|Raises):\n", r"**\1**\n\n", words, flags=re.M)
    return re.sub(r"^    ([\w, *]+): ", r"- `\1`: ", words, flags=re.M)


def python_entry(name, node, level):
    if isinstance(node, ast.ClassDef):
        made = next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None)
        yield f"{'#' * level} {name}\n\n```python\n{name}{signature(made) if made else '()'}\n```\n\n{docstring(node)}\n"
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_") and ast.get_docstring(item):
                yield from python_entry(f"{name}.{item.name}", item, level + 1)
    else:
        given = any(getattr(item, "id", "") == "property" for item in node.decorator_list)
        yield f"{'#' * level} {name}\n\n```python\n{name}{'' if given else signature(node)}\n```\n\n{docstring(node)}\n"


def python_page():
    out = ["# Python: every name\n\nMade from the docstrings of the package. [Python](../python.md) explains them with examples.\n"]
    modules = {}
    for name, module in public_names().items():
        path = os.path.join(SOURCE, "python", "tapedeck", module + ".py")
        if not os.path.exists(path):
            continue
        tree = modules.setdefault(module, ast.parse(read("python", "tapedeck", module + ".py")))
        if name == module:  # a module for one framework
            for node in tree.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                    out += python_entry(f"tapedeck.{module}.{node.name}", node, 2)
        for node in tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                out += python_entry(f"tapedeck.{name}", node, 2)
    return "\n".join(out)


def made_pages():
    """{path below docs/: text} of the pages that no file holds."""
    pages = {"reference/python-api.md": python_page()}
    index = ["# C: every header\n\nMade from the public headers. [The C interface](../c-api.md) explains them with examples.\n",
             "| header | about |", "|---|---|"]
    for name in headers():
        text = header_page(name)
        pages[f"reference/c-{name[:-2]}.md"] = text
        first = re.sub(r"^# .*\n", "", text).strip().split("\n\n", maxsplit=1)[0]
        sentence = re.split(r"(?<=[.:])\s|\n\n|\n {2,}", first)[0].rstrip(":").replace("\n", " ").replace("|", "\\|")
        index.append(f"| [tapedeck/{name}](c-{name[:-2]}.md) | {sentence} |")
    pages["reference/c-headers.md"] = "\n".join(index) + "\n"
    return pages


# ---- What mkdocs calls --------------------------------------------------------------------------


def on_config(config):
    sections = {section: [{title: path} for title, path, _ in pages] for section, pages in contents()}
    sections["Reference"] += [{"Python: every name": "reference/python-api.md"}, {"C: every header": "reference/c-headers.md"}]
    config.nav = [{"Home": "index.md"}, *({section: pages} for section, pages in sections.items())]
    config.nav.append({"Changes": "changelog.md"})
    return config


def copied(config, path, text):
    """A page or file that is not in docs/, written where mkdocs finds it."""
    from mkdocs.structure.files import File

    folder = os.path.join(os.path.dirname(config.site_dir), "site-source")
    place = os.path.join(folder, path)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(text)
    return File(path, folder, config.site_dir, config.use_directory_urls)


def on_files(files, config):
    for path, text in made_pages().items():
        files.append(copied(config, path, text))
    files.append(copied(config, "changelog.md", read("CHANGELOG.md").replace("](docs/", "](")))
    listed = {path for _, pages in contents() for _, path, _ in pages} | {"index.md", "changelog.md"}
    missing = [file.src_uri for file in files.documentation_pages()
               if file.src_uri not in listed and not file.src_uri.startswith("reference/")]
    if missing:
        from mkdocs.exceptions import PluginError

        raise PluginError(f"docs/index.md does not list {', '.join(missing)}")
    # Files of the repository that pages link to are put into the site.
    for page in list(files.documentation_pages()):
        for target in re.findall(r"\]\(((?:\.\./)+[^)#]+)", read_page(page)):
            path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.src_uri), target))
            full = os.path.join(SOURCE, path)
            if path.startswith("docs/") or not os.path.exists(full):
                continue
            name = f"files/{path}/index.txt" if os.path.isdir(full) else f"files/{path}.txt"
            text = "\n".join(sorted(os.listdir(full))) if os.path.isdir(full) else read(path)
            if name not in {file.src_uri for file in files}:
                files.append(copied(config, name, text))
    return files


def read_page(page):
    with open(page.abs_src_path, encoding="utf-8") as file:
        return file.read()


def on_page_markdown(markdown, page, config, files):
    """Without the comments that direct tests; links out of docs/ go to the copies."""
    markdown = re.sub(r"<!-- test:.*?-->\n?", "", markdown, flags=re.S)
    here = posixpath.dirname(page.file.src_uri)

    def link(match):
        path = posixpath.normpath(posixpath.join("docs", here, match[1]))
        if path.startswith("docs/"):
            return match[0]
        full = os.path.join(SOURCE, path)
        name = f"files/{path}/index.txt" if os.path.isdir(full) else f"files/{path}.txt"
        return f"]({posixpath.relpath(name, here or '.')}{match[2] or ''})"

    markdown = re.sub(r"\]\(((?:\.\./)+[^)#]+)(#[^)]*)?\)", link, markdown)
    return re.sub(r"^```text output$", "```text", markdown, flags=re.M)


def on_post_build(config):
    with open(os.path.join(config.site_dir, "llms.txt"), "w", encoding="utf-8") as file:
        file.write(llms())
