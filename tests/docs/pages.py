"""Runs every block of README.md, the pages below docs/ and examples/*/README.md, and compares what is printed with what is shown.

A block's language decides what happens to it:

    console     `$ COMMAND` lines are run by sh on a terminal of 100 columns; what follows is their output
    sh          commands without output; each must exit with 0
    python      a script; blocks of one page share their variables
    yaml        an experiment, or sections that replace those of the page's base experiment: `train --dry-run` takes it
    sql         queries, run on runs/demo/run.db; or its CREATE statements, compared with it
    c, cpp      statements, compiled without being linked
    text        an illustration (synopsis, folder tree), or what the command of a direction `prints`;
                `text output` is the output of the block before it

In a shown output a line `…` stands for any lines, `…` within a line for any text. Times, dates and sizes may differ.
Comments that a reader of the page does not see direct the test of the next block:

    <!-- test: setup COMMANDS -->   run by sh first; may have several lines
    <!-- test: exit N -->           the commands exit with N
    <!-- test: columns N -->        the width of the terminal
    <!-- test: base FILE -->        the experiment whose sections a yaml block replaces, for the rest of the page
    <!-- test: prints COMMAND -->   prints what the next text block shows
    <!-- test: set KEY=VALUE … -->  what a yaml block leaves out, in the words of `--set`
    <!-- test: interop -->          needs PyTorch or Keras: run by tests/interop/test_docs.py
    <!-- test: context CODE -->     what precedes a python block, or the c blocks from here on: imports, declarations
    <!-- test: session -->         one interpreter runs the python blocks from here on, as it does for all that need a framework; else each block
                                   runs those before it again
    <!-- test: not run: WHY -->     only where no test can

A page of docs/ is run in a folder that has examples/ and the runs `demo` and `demo-2` (the demo with seeds 7 and 8);
the README of an example in a copy of its folder. The kernels are the portable ones, whose digits are the same
on every machine.
"""
import fcntl
import os
import pty
import re
import shlex
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios

SOURCE = os.path.abspath(os.environ["TD_SOURCE"])
BUILD = os.path.abspath(os.environ["TD_BUILD"])
PROGRAM = os.path.abspath(os.environ["TAPEDECK"])

LANGUAGES = ("console", "sh", "python", "yaml", "sql", "c", "cpp", "text", "text output")

# What differs from run to run, and what takes its place in a comparison.
VOLATILE = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "DATE"),
    (r"\b\d+(\.\d+)? (s|ms|us|min)\b", "TIME"),
    (r"\b\d+(\.\d+)? (B|KiB|MiB|GiB)(/s)?(?=\s|,|$)", "SIZE"),
    (r"events\.out\.tfevents\.\S+", "EVENTS"),
    (r"[ \t]+", " "),
)


# An interpreter that runs the files whose names it is sent, all with the same variables.
SESSION = """
import sys, traceback
variables = {"__name__": "__main__"}
for path in iter(sys.stdin.readline, ""):
    try:
        exec(compile(open(path.strip()).read(), path.strip(), "exec"), variables)
    except BaseException:
        print("\\0failed", traceback.format_exc())
    print("\\0", flush=True)
"""


class Block:
    def __init__(self, language, text, line):
        self.language, self.text, self.line = language, text, line
        self.directions = []  # (key, value) of the comments before it

    def direction(self, key):
        return next((value for name, value in self.directions if name == key), None)


def blocks(text):
    """The fenced blocks of a page, each with the directions that precede it."""
    waiting = []
    pattern = r"<!-- test: ([a-z]+(?: run:)?)(?:[ \n](.*?))?\s*-->|^```([^\n]*)\n(.*?)^```$"
    for match in re.finditer(pattern, text, re.M | re.S):
        if match[1]:
            waiting.append((match[1].rstrip(":"), match[2] or ""))
        else:
            block = Block(match[3].strip(), match[4], text[:match.start()].count("\n") + 1)
            block.directions, waiting = waiting, []
            yield block


def pages():
    """Every page, as a path below the source folder."""
    found = ["README.md"]
    for folder, _, names in os.walk(os.path.join(SOURCE, "docs")):
        found += [os.path.relpath(os.path.join(folder, name), SOURCE) for name in names if name.endswith(".md")]
    for name in os.listdir(os.path.join(SOURCE, "examples")):
        if os.path.exists(os.path.join(SOURCE, "examples", name, "README.md")):
            found.append(f"examples/{name}/README.md")
    return sorted(found)


def simplified(line):
    for pattern, word in VOLATILE:
        line = re.sub(pattern, word, line)
    return line.strip()


def matches(shown, printed):
    """Whether printed lines are those that a page shows."""
    pattern = ""
    for line in shown:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += re.escape(simplified(line)).replace("…", ".*") + "\n"
    return re.fullmatch(pattern, "".join(simplified(line) + "\n" for line in printed)) is not None


class Page:
    """Runs the blocks of one page in a folder."""

    def __init__(self, name, folder, interop=False):
        self.name, self.folder, self.interop = name, folder, interop
        self.base = "examples/demo/demo.yaml"
        self.context = ""
        self.printed = ""  # by the block before
        self.session = None  # the interpreter of a page that keeps one
        self.problems = []
        with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
            self.text = file.read()

    def environment(self):
        tools = os.path.join(self.folder, ".tools")
        if not os.path.exists(tools):
            os.mkdir(tools)
            os.symlink(PROGRAM, os.path.join(tools, "tapedeck"))
            for python in ("python", "python3"):  # a link would lose the packages of a virtual environment
                script = os.path.join(tools, python)
                with open(script, "w", encoding="utf-8") as file:
                    file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
                os.chmod(script, 0o755)
        return dict(os.environ, NO_COLOR="1", TERM="xterm-256color", LC_ALL="C.UTF-8", TAPEDECK_CPU="portable", TAPEDECK_ENVIRONMENT="off",
                    PATH=tools + os.pathsep + os.environ["PATH"], PYTHONPATH=os.path.join(BUILD, "python"),
                    XDG_CACHE_HOME=os.path.join(self.folder, ".cache"),
                    PYTHONDONTWRITEBYTECODE="1", TF_CPP_MIN_LOG_LEVEL="3",
                    TF_ENABLE_ONEDNN_OPTS="0")  # with which TensorFlow prints that it uses it

    def run(self):
        """Returns the page's problems, a sentence each."""
        for block in blocks(self.text):
            self.take(block)
        if self.session:
            self.session.communicate()
        return self.problems

    def take(self, block):
        if block.language not in LANGUAGES:
            self.problem(block, f"its language is {block.language!r}; expected is one of {', '.join(LANGUAGES)}")
            return
        for key, value in block.directions:
            if key == "base":
                self.base = value
            elif key == "context" and block.language != "python":
                self.context = value
            elif key == "setup":
                done = self.shell(value, capture_output=True)
                if done.returncode:
                    self.problem(block, f"its setup exits with {done.returncode}\n{done.stdout}{done.stderr}")
        if block.direction("not run") is None and (block.direction("interop") is not None) == self.interop:
            getattr(self, "run_" + block.language.replace(" ", "_"))(block)

    def problem(self, block, words):
        self.problems.append(f"{self.name}:{block.line}: {words}")

    def shell(self, command, **options):
        return subprocess.run(["sh", "-e", "-c", command], cwd=self.folder, env=self.environment(), text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=600, **options)

    def terminal(self, command, columns):
        """What a command prints on a terminal, and its exit status."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(["timeout", "600", "sh", "-c", command], cwd=self.folder, env=self.environment(), stdout=side, stderr=side,
                                   stdin=subprocess.DEVNULL)
        os.close(side)
        out = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        os.close(main)
        # A line of progress is written over, and gone in the end.
        lines = [line.rpartition("\r")[2].replace("\x1b[K", "").rstrip()
                 for line in out.decode().replace("\r\n", "\n").split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines, process.wait()

    # ---- one for each language ------------------------------------------------------------------

    def run_console(self, block):
        columns = int(block.direction("columns") or 100)
        expected = int(block.direction("exit") or 0)
        for command, shown in commands(block.text):
            printed, status = self.terminal(command, columns)
            if status != expected:
                self.problem(block, f"`{command}` exits with {status}\n" + "\n".join(printed))
            elif not matches(shown, printed):
                self.problem(block, f"`{command}` does not print what is shown, but:\n" + "\n".join(printed))

    def run_sh(self, block):
        done = self.shell(block.text, capture_output=True)
        self.printed = done.stdout
        if done.returncode:
            self.problem(block, f"exits with {done.returncode}\n{done.stdout}{done.stderr}")

    def run_python(self, block):
        if self.session or self.interop or block.direction("session") is not None:
            self.run_in_session(block)
            return
        with open(os.path.join(self.folder, ".block.py"), "a+", encoding="utf-8") as file:
            file.seek(0)
            before = file.read()
            mark = "\nprint('\\0')\n" if before else ""
            file.write(mark + (block.direction("context") or "") + "\n" + block.text)
        done = self.shell(shlex.join([sys.executable, "-W", "ignore", ".block.py"]), capture_output=True)
        self.printed = done.stdout.rpartition("\0\n")[2]
        if done.returncode:
            self.problem(block, f"fails:\n{done.stderr}")

    def run_in_session(self, block):
        if not self.session:
            self.session = subprocess.Popen([sys.executable, "-W", "ignore", "-c", SESSION], cwd=self.folder, env=self.environment(), text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with open(os.path.join(self.folder, f".block-{block.line}.py"), "w", encoding="utf-8") as file:
            file.write((block.direction("context") or "") + "\n" + block.text)
        self.session.stdin.write(file.name + "\n")
        self.session.stdin.flush()
        self.printed = ""
        while not self.printed.endswith("\0\n"):
            line = self.session.stdout.readline()
            if not line:
                self.problem(block, "the interpreter died")
                return
            self.printed += line
        self.printed, _, failure = self.printed[:-2].partition("\0failed")
        if failure:
            self.problem(block, f"fails:{failure}")

    def run_text_output(self, block):
        if not matches(block.text.splitlines(), self.printed.splitlines()):
            self.problem(block, f"the block before it prints:\n{self.printed}")

    def run_text(self, block):
        command = block.direction("prints")
        if command is not None:
            printed = self.shell(command, capture_output=True).stdout
            if not matches(block.text.splitlines(), printed.splitlines()):
                self.problem(block, f"`{command}` prints:\n{printed}")

    def run_yaml(self, block):
        shown = sections(block.text)
        if not shown:
            self.problem(block, "has no section such as `model:`")
        merged = sections(read(os.path.join(self.folder, self.base))) if "data" not in shown or "model" not in shown else {}
        merged.update(shown)
        path = os.path.join(os.path.dirname(os.path.join(self.folder, self.base)), "block.yaml")
        folder = os.path.dirname(path)
        if os.path.islink(os.path.join(self.folder, "examples")):  # nothing is written into the sources
            path = os.path.join(self.folder, "block.yaml")
            merged = {key: value.replace("../data/", "examples/data/") for key, value in merged.items()}
            folder = self.folder
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(merged.values()))
        settings = [word for setting in shlex.split(block.direction("set") or "") for word in ("--set", setting)]
        done = subprocess.run([PROGRAM, "train", path, "--dry-run", *settings], cwd=folder, env=self.environment(), text=True,
                              capture_output=True, check=False)
        if done.returncode != int(block.direction("exit") or 0):
            self.problem(block, f"`tapedeck train --dry-run` exits with {done.returncode}:\n{done.stderr}")

    def run_sql(self, block):
        database = sqlite3.connect(os.path.join(self.folder, "runs", "demo", "run.db"))
        try:
            if block.text.startswith("CREATE"):
                shown = sqlite3.connect(":memory:")
                shown.executescript(re.sub(r"CREATE VIEW (\w+\([^)]*\)) AS …", r"CREATE TABLE \1", block.text))
                if columns(shown) != columns(database):
                    self.problem(block, f"the tables of run.db are {columns(database)}, not {columns(shown)}")
            else:
                database.executescript(block.text)
        except sqlite3.Error as error:
            self.problem(block, f"fails: {error}")
        finally:
            database.close()

    def run_c(self, block, compiler="CC", standard="c17", suffix=".c"):
        code = block.text.replace("(…)", "(;;)").replace("…", ";")
        functions = ""
        if "int main(" in code:  # a program that goes on where the block ends
            functions, code = code + "return 0;\n}\n", ""
        while (match := re.search(r"^static .*?^}\n", code, re.M | re.S)):
            functions += match[0]
            code = code.replace(match[0], "")
        code = (f'#include <tapedeck/tapedeck.h>\n#include <stdio.h>\n{self.context}\n{functions}\n'
                f"void page(td_error error);\nvoid page(td_error error) {{\n{code}\n}}\n")
        path = os.path.join(self.folder, "block" + suffix)
        with open(path, "w", encoding="utf-8") as file:
            file.write(code)
        done = subprocess.run([*shlex.split(os.environ.get(compiler, {"CC": "cc", "CXX": "c++"}[compiler])), f"-std={standard}",
                               "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused", "-I", os.path.join(SOURCE, "include"), path],
                              text=True, capture_output=True, check=False)
        if done.returncode:
            self.problem(block, f"does not compile:\n{done.stderr}")

    def run_cpp(self, block):
        self.run_c(block, "CXX", "c++20", ".cc")


def columns(database):
    """The columns of every table and view of a database, by its name."""
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")]
    return {name: [row[1] for row in database.execute(f"PRAGMA table_info('{name}')")] for name in names}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sections(text):
    """The top-level sections of a YAML text, by key."""
    found = {}
    for match in re.finditer(r"^(\w+):.*\n(?:(?:[ #-].*)?\n)*", text, re.M):
        found[match[1]] = match[0]
    return found


def commands(text):
    """Pairs of a command and the lines shown of its output; a command goes on while its quotes are open."""
    pairs = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            if not pairs:
                raise ValueError(f"a console block begins with `$ COMMAND`, not with {line!r}")
            pairs[-1][1].append(line)
            continue
        command = line[2:]
        while lines and (command.endswith("\\") or unfinished(command)):
            command += "\n" + lines.pop(0)
        pairs.append((command, []))
    return pairs


def unfinished(command):
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def folder_for(page, place, runs):
    """A folder in which the page's blocks can be run; returns it."""
    folder = os.path.join(place, "page")
    if page.startswith("examples/") and os.path.dirname(page) != "examples/data":
        os.mkdir(folder)
        os.symlink(os.path.join(SOURCE, "examples", "data"), os.path.join(folder, "data"))
        folder = os.path.join(folder, os.path.basename(os.path.dirname(page)))
        shutil.copytree(os.path.join(SOURCE, os.path.dirname(page)), folder,
                        ignore=shutil.ignore_patterns("runs", "*.npy", "*.npz"))
    else:
        shutil.copytree(runs, folder)
        os.symlink(os.path.join(SOURCE, "examples"), os.path.join(folder, "examples"))
    return folder


def demo_runs(place):
    """Trains the demo with two seeds; returns the folder that holds runs/."""
    os.makedirs(place)
    for seed in ("7", "8"):
        subprocess.run([PROGRAM, "train", os.path.join(SOURCE, "examples", "demo", "demo.yaml"), "--quiet", "--set",
                        "seed=" + seed], cwd=place, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, TAPEDECK_CPU="portable"))
    return place


def shortened(shown, printed):
    """Printed lines, left out where a page that is out of date has `…` for them."""
    if not matches(shown, printed):
        marks = [i for i, line in enumerate(shown) if line.strip() == "…"]
        if len(marks) == 1:
            after = len(shown) - marks[0] - 1
            printed = printed[:marks[0]] + [shown[marks[0]]] + (printed[-after:] if after else [])
        shown = printed
    return "".join(line + "\n" for line in shown)


def updated(page, folder):
    """The page's text with the real output in every console block, and in text blocks whose command is known."""
    runner = Page(page, folder)
    text = runner.text
    for block in blocks(runner.text):
        for key, value in block.directions:
            if key == "setup":
                runner.shell(value, capture_output=True)
        if block.language == "sh" and block.direction("not run") is None:
            runner.run_sh(block)
        if block.direction("prints") is not None:
            printed = runner.shell(block.direction("prints"), capture_output=True).stdout
            new = shortened(block.text.splitlines(), printed.splitlines())
            text = text.replace("```text\n" + block.text + "```", "```text\n" + new + "```")
        if block.language != "console" or block.direction("not run") is not None:
            continue
        new = ""
        for command, shown in commands(block.text):
            printed, _ = runner.terminal(command, int(block.direction("columns") or 100))
            new += f"$ {command}\n" + shortened(shown, printed)
        text = text.replace("```console\n" + block.text + "```", "```console\n" + new + "```")
    return text
