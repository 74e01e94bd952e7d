"""Adding a part touches the files that its row of docs/architecture.md ("Where a new one goes") names, and no others:
a layer, an optimizer, a sink, a format of models, a rule, a page and a store are added beside the library's own
objects, by a new file and rows alone; what is made of both has all of them, and they work."""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TD_SOURCE"]).resolve()
BUILD = Path(os.environ["TD_BUILD"]).resolve()
# Generated from lists that grow at their end: objects made of these are made again.
GENERATED = re.compile(r'TD_(LAYER|OPTIMIZER)_(LIST|KIND_COUNT)\b|#include "nn/(model|optimizer)\.h"')

# row: (its first words in the table, its new file, what that has, [(file, what is there, what takes its place)])
PARTS = {
    "layer": ("layer", "src/engine/nn/layers/doubling.c", """
#include "nn/operators.h"

static const td__field fields[] = {TD__LAYER_FIELDS};

static td_status plan_doubling(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)error;
    layer->info.output = *inputs;
    return TD_OK;
}

static td_tensor *forward_doubling(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    (void)layer;
    return td_add(tape, inputs[0], inputs[0]);
}

const td__layer_kind td__doubling_kind = {
    TD__KIND_OF_ONE(fields, td_doubling_layer, plan_doubling, forward_doubling), TD__IS(SCALING, KEPT), TD__TORCH(""),
    TD__KERAS_PLAIN};
""", [("include/tapedeck/layers.h", r'(X\(ADDITIVE_ATTENTION,.*\))', r'\1 X(DOUBLING, doubling, "Doubling", doubling)'),
      ("include/tapedeck/layers.h", r"\n(typedef struct td_dot_layer)",
       r"\ntypedef struct td_doubling_layer { TD_LAYER_FIELDS } td_doubling_layer;\n\1"),
      ("include/tapedeck/network.h", r"\n(#define td_add_conv1d\()",
       r"\n#define td_add_doubling(...) TD_ADD_LAYER(doubling, __VA_ARGS__)\n\1")]),
    "optimizer": ("optimizer", None, None, [
        ("include/tapedeck/optimizers.h", r'(X\(LION, "lion"\))', r'\1 X(SIGN, "sign")'),
        ("src/engine/nn/optimizer.c", r"(\nstatic const td__optimizer_kind kinds)", r"""
static void run_sign(const td_optimizer_options *options, const td__step_numbers *numbers, int64_t n, const float *g,
                     float *const s[TD__MAX_STATES], float *w) {
    (void)options, (void)s;
    for (int64_t i = 0; i < n; i++) {
        w[i] -= g[i] > 0 ? numbers->rate : -numbers->rate;
    }
}
\1"""),
        ("src/engine/nn/optimizer.c", r"(    \[TD_LION\])", r"    [TD_SIGN] = {FIELDS(sgd_fields), .step_size = same_step, .run = run_sign},\n\1"),
        ("src/engine/nn/catalog.c", r'(\{"lion", "Lion", NULL\},)', r'\1 {"sign", NULL, NULL},')]),
    "sink": ("sink", "src/recorder/sink/lines.c", """
#include "base/memory.h"
#include "sink/classes.h"

#include <stdio.h>

struct td_sink {
    FILE *file;
};

static td_status open_lines(const td_sink_options *options, td_sink **sink, td_error *error) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/lines.txt", options->folder);
    *sink = td__calloc(1, sizeof **sink);
    if (!*sink || !((*sink)->file = fopen(path, "w"))) {
        td__free(*sink);
        return td_error_set(error, TD_IO, "%s: cannot be made", path);
    }
    return TD_OK;
}

static td_status write_line(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    return fprintf(sink->file, "%lld %s %g\\n", (long long)record->step, record->signal, record->value) < 0 ? TD_IO : TD_OK;
}

static td_status flush_lines(td_sink *sink, td_error *error) {
    (void)error;
    return fflush(sink->file) ? TD_IO : TD_OK;
}

static td_status close_lines(td_sink *sink, td_error *error) {
    (void)error;
    int failed = fclose(sink->file);
    td__free(sink);
    return failed ? TD_IO : TD_OK;
}

const td_sink_class td__sink_lines = {.size = sizeof(td_sink_class), .name = "lines", .forms = TD_SCALAR,
    .default_forms = TD_SCALAR, .open = open_lines, .write = write_line, .flush = flush_lines, .close = close_lines};
""", [("src/recorder/sink/classes.h", r"(\nextern const td_sink_class td__sink_csv;)",
       r"\nextern const td_sink_class td__sink_lines;\1"),
      ("src/recorder/sink/open.c", r"(&td__sink_sqlite,)", r"\1 &td__sink_lines,")]),
    "format": ("format of models", "src/formats/model/numbers.c", """
#include "model/numbers.h"

#include <string.h>

bool td__is_numbers(const td__model_file *file) {
    return file->bytes.size > 8 && !memcmp(file->bytes.data, "NUMBERS\\n", 8);
}

td_model *td__numbers_load(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    td_model *model = td_model_create("numbers", TD_SHAPE(file->bytes.data[8] - '0'));
    td_add_doubling(model, .name = "twice");
    if (td_model_build(model, 0, error)) {
        td_model_destroy(model);
        return NULL;
    }
    return model;
}
""", [("src/formats/model/format.c", r"(\nstatic const td__format formats\[\] = \{)",
       r'\1\n    {"numbers", td__is_numbers, td__numbers_load, NULL, NULL, NULL},'),
      ("src/formats/model/format.c", r'(#include "model/native.h")', r'\1\n#include "model/numbers.h"')]),
    "rule": ("rule", "src/training/diagnose/rules/even_steps.c", """
#include "diagnose/rule.h"

static void find_even_steps(td__case *c) {
    (void)c;
}

const td__rule td__rule_even_steps = {
    .info = {.name = "even_steps", .meaning = "the number of steps is even", .reads = "steps", .statistic = "steps",
             .threshold = "even", .remedy = "one step more"},
    .title = "even steps", .explains = TD__LOSS_FLOOR, .needs = TD__NEEDS_LOSS, .find = find_even_steps};
""", [("src/training/diagnose/rules.c", r"(    X\(clipping_never\))", r"    X(even_steps) \\\n\1")]),
    "page": ("page of the viewer", "web/clock.js", """
import { el } from "./dom.js";

export const clockPage = { name: "clock", title: "Clock", show: () => el("p", {}, "noon") };
""", [("web/app.js", r'(import \{ originPage \} from "./origin.js";)', r'\1\nimport { clockPage } from "./clock.js";'),
      ("web/app.js", r"(\n    originPage,)", r"\1 clockPage,"),
      ("cmake/libraries.cmake", r" app\.js\)", " clock.js app.js)")]),
    "store": ("store", "src/recorder/store/plain.c", """
#include "base/memory.h"
#include "store/plain.h"

#include <stdio.h>

typedef struct plain {
    td__store store;
    FILE *file;
} plain;

static td_status insert_rows(td__store *store, const uint8_t *rows, size_t size, td_error *error) {
    (void)error;
    return fwrite(rows, 1, size, ((plain *)store)->file) == size ? TD_OK : TD_IO;
}

static void close_plain(td__store *store) {
    (void)fclose(((plain *)store)->file);
    td__free(store);
}

static const td__store_class plain_class = {.insert = insert_rows, .close = close_plain};

td_status td__plain_create(const char *folder, td__store **store, td_error *error) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/rows", folder);
    plain *made = td__calloc(1, sizeof *made);
    if (!made || !(made->file = fopen(path, "w"))) {
        td__free(made);
        return td_error_set(error, TD_IO, "%s: cannot be made", path);
    }
    made->store.class = &plain_class;
    *store = &made->store;
    return TD_OK;
}
""", [("src/recorder/store/sqlite.c", r"(td_status td__store_create\(const char \*folder, td__store \*\*store, td_error \*error\) \{)",
       r'\1\n    if (strstr(folder, ".plain")) {\n        return td__plain_create(folder, store, error);\n    }'),
      ("src/recorder/store/sqlite.c", r'\n(#include "base/)', r'\n#include "store/plain.h"\n\1')]),
}
# The headers of new files, which nobody else reads but the rows' files.
HEADERS = {
    "src/formats/model/numbers.h": """
#include "model/format.h"

bool td__is_numbers(const td__model_file *file);
td_model *td__numbers_load(const td__model_file *file, td__model_for *data, td_error *error);
""",
    "src/recorder/store/plain.h": """
#include "store/store.h"

td_status td__plain_create(const char *folder, td__store **store, td_error *error);
""",
}
PROGRAM = """
#include "store/store.h"
#include "tapedeck/tapedeck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(truth)                                                                                                   \\
    if (!(truth)) {                                                                                                    \\
        printf("%s: %s\\n", #truth, error.text);                                                                        \\
        return 1;                                                                                                      \\
    }

int main(int count, char **arguments) {
    td_error error = {0};
    CHECK(count == 4);
    td_model *model = td_model_load(arguments[1], &error); /* a format, and a layer in it */
    CHECK(model && !strcmp(td_model_layer(model, 0)->type, "Doubling"));
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(1, 3), &error);
    CHECK(tape && x);
    ((float *)td_tensor_data(x))[2] = 21;
    td_tensor *y = td_model_forward(model, tape, x);
    CHECK(y && ((float *)td_tensor_data(y))[2] == 42);

    td_optimizer_options options = {.size = sizeof options};
    CHECK(!td_optimizer_configure(&options, "sign", NULL, 0, &error));
    options.learning_rate = TD_SET(0.5);
    td_optimizer *optimizer = td_optimizer_create(&options, 1, &x, &error);
    td_tensor *gradient = td_tensor_create("g", TD_FLOAT32, TD_SHAPE(1, 3), &error);
    CHECK(optimizer && gradient);
    ((float *)td_tensor_data(gradient))[2] = 7;
    CHECK(!td_optimizer_step(optimizer, &gradient, &error) && ((float *)td_tensor_data(x))[2] == 20.5f);

    td_deck *deck = td_deck_open(arguments[2], &error);
    CHECK(deck && !td_deck_track(deck, .what = "loss", .to = "lines"));
    CHECK(!td_deck_scalar(deck, "loss", 0.25) && !td_deck_step(deck, 1, 1) && !td_deck_close(deck, &error));

    bool found = false;
    for (size_t i = 0; td_diagnose_rule(i); i++) {
        found = found || !strcmp(td_diagnose_rule(i)->name, "even_steps");
    }
    CHECK(found);

    td__store *store;
    CHECK(!td__store_create(arguments[3], &store, &error));
    CHECK(!store->class->insert(store, (const uint8_t *)"row", 3, &error));
    td__store_close(store);

    td_optimizer_destroy(optimizer);
    td_model_destroy(model);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(gradient);
    return 0;
}
"""


def change(place, path, *edits):
    target = place / path
    target.parent.mkdir(parents=True, exist_ok=True)
    text = target.read_text() if target.exists() else (SOURCE / path).read_text()
    for before, after in edits:
        text, times = re.subn(before, after, text, count=1)
        if not times:
            raise AssertionError(f"{path}: {before} is not there")
    target.write_text(text)


class AddOne(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.place = Path(cls.folder.name)
        for _, own, text, rows in PARTS.values():
            if own:
                (cls.place / own).parent.mkdir(parents=True, exist_ok=True)
                (cls.place / own).write_text(text.lstrip())
            for path, *edit in rows:
                change(cls.place, path, edit)
        for path, text in HEADERS.items():
            (cls.place / path).write_text(text.lstrip())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, *arguments):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{shlex.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_rows_of_the_page_name_every_file_that_changes(self):
        page = (SOURCE / "docs/architecture.md").read_text().split("\n")
        for kind, (words, own, _, rows) in PARTS.items():
            row = next(line for line in page if line.startswith(f"| {words} |"))
            for path in {path for path, *_ in rows} | ({own} if own else set()):
                with self.subTest(f"{kind}: {path}"):
                    folder, name = os.path.split(path)
                    self.assertTrue(name in row or path == own and folder in row or kind == "store" and folder in row, row)

    def test_a_library_with_one_more_of_each_works(self):
        commands = {entry["file"]: shlex.split(entry["command"])
                    for entry in json.loads((BUILD / "compile_commands.json").read_text())}
        headers = self.place / "headers"
        for header in self.place.rglob("*.h"):
            module = "tapedeck" if header.parent.name == "tapedeck" else header.parent.name
            (headers / module).mkdir(parents=True, exist_ok=True)
            (headers / module / header.name).symlink_to(header)
        again = [path.relative_to(SOURCE) for path in (SOURCE / "src").rglob("*.c") if GENERATED.search(path.read_text())]
        sources = {path.relative_to(self.place) for path in self.place.rglob("*.c")} | set(again)

        def compile_one(path):
            known = commands.get(str(SOURCE / path)) or next(command for file, command in commands.items()
                                                             if Path(file).parent == SOURCE / path.parent)
            own = self.place / path
            target = self.place / f"{str(path).replace('/', '-')}.o"
            flags = [word for word in known[1:] if word not in ("-c", "-o") and not word.endswith((".o", ".c"))]
            self.run_program(*[word for word in known[:1] if "ccache" not in word] or ["cc"], f"-I{headers}", *flags, "-O0", "-c",
                             own if own.exists() else SOURCE / path, "-o", target)
            return target

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, sorted(sources)))
        rule = re.search(r"build tests/unit_nn_test_kinds: (?:.*\n)(?:  .*\n)*", (BUILD / "build.ninja").read_text()).group()
        libraries = re.search(r"LINK_LIBRARIES = (.*)", rule).group(1).split()
        program = self.place / "program"
        (self.place / "main.c").write_text(PROGRAM)
        flags = re.search(r"\n  FLAGS = (.*)", rule).group(1).split() + re.findall(r"-fsanitize=\S+", rule)
        includes = [f"-I{headers}", f"-I{SOURCE / 'include'}", f"-I{SOURCE / 'src/core'}", f"-I{SOURCE / 'src/recorder'}"]
        made = [BUILD / library if (BUILD / library).exists() else library for library in libraries]
        self.run_program("c++", *flags, "-o", program, self.compile_main(includes, flags), *objects, *made)
        (self.place / "model").write_text("NUMBERS\n3")
        (self.place / "x.plain").mkdir()
        self.run_program(program, self.place / "model", self.place / "run", self.place / "x.plain")
        self.assertEqual((self.place / "run/lines.txt").read_text(), "1 loss 0.25\n")
        self.assertEqual((self.place / "x.plain/rows").read_text(), "row")

    def compile_main(self, includes, flags):
        target = self.place / "main.o"
        self.run_program("cc", "-std=gnu17", *includes, *flags, "-O0", "-c", self.place / "main.c", "-o", target)
        return target

    def test_a_page_more_is_in_the_viewer(self):
        for path in (SOURCE / "web").iterdir():
            if path.is_file() and not (self.place / "web" / path.name).exists():
                (self.place / "web" / path.name).symlink_to(path)
        modules = re.search(r"TD_WEB_MODULES ([^)]*)\)", (self.place / "cmake/libraries.cmake").read_text()).group(1).split()
        self.assertIn("clock.js", modules)
        self.run_program(BUILD / "embed", self.place / "page.c", self.place / "web", *modules)
        self.assertIn("noon", self.script(self.place / "page.c"))

    @staticmethod
    def script(path):
        """The script of the page: the bytes that embed wrote, unpacked."""
        import zlib
        for numbers in re.findall(r"\{([\d,\s]{1000,})\}", path.read_text()):
            data = bytes(int(number) for number in numbers.replace(",", " ").split())
            text = zlib.decompress(data, 47).decode()
            if "clockPage" in text:
                return text
        return ""


if __name__ == "__main__":
    unittest.main()
