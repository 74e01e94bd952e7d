/* Puts the page into the library: writes C with the compressed bytes of each file.
 *
 *     embed OUT.c WEB-FOLDER MODULE.js…
 *
 * index.html, app.css and icon.svg are taken as they are. The modules become one script, /app.js, in the
 * order given, so that a page is one request, and a report one file: each becomes a function that
 * is called at once and returns what it exports. Modules use these forms only, each at the start of
 * a line: `import { a, b } from "./other.js";`, `export function f`, `export async function f`,
 * `export const c`, `export class C`. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct text {
    char *data;
    size_t size, capacity;
} text;

static void fail(const char *what, const char *name) {
    (void)fprintf(stderr, "embed: %s: %s\n", name, what);
    exit(1);
}

static void add(text *to, const char *data, size_t size) {
    if (to->size + size + 1 > to->capacity) {
        to->capacity = 2 * (to->size + size + 1);
        to->data = realloc(to->data, to->capacity);
        if (!to->data) {
            fail("out of memory", "text");
        }
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = 0;
}

static void add_text(text *to, const char *data) {
    add(to, data, strlen(data));
}

static text read_file(const char *folder, const char *name) {
    char path[4096], buffer[65536];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("cannot be read", path);
    }
    text made = {0};
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;) {
        add(&made, buffer, got);
    }
    (void)fclose(file);
    add(&made, "", 0);
    return made;
}

/* "chart.js" is module_chart. */
static void add_module_name(text *to, const char *name, size_t length) {
    add_text(to, "module_");
    for (size_t i = 0; i < length && name[i] != '.'; i++) {
        add(to, name[i] == '-' ? "_" : &name[i], 1);
    }
}

/* import { a } from "./x.js"; -> const { a } = module_x; */
static void add_import(text *to, const char *line, size_t length, const char *name) {
    const char *names = memchr(line, '{', length), *end = memchr(line, '}', length);
    const char *from = end ? strstr(end, "from \"./") : NULL;
    const char *quote = from ? strchr(from + 8, '"') : NULL;
    if (!names || !quote || quote > line + length) {
        fail("an import that is not `import { a, b } from \"./other.js\";`", name);
    }
    text wanted = {0};
    add_text(&wanted, "const ");
    add_module_name(&wanted, from + 8, (size_t)(quote - from - 8));
    add_text(&wanted, " = (");
    if (!strstr(to->data, wanted.data)) {
        fail("imports a module that comes after it", name);
    }
    free(wanted.data);
    add_text(to, "const ");
    add(to, names, (size_t)(end + 1 - names));
    add_text(to, " = ");
    add_module_name(to, from + 8, (size_t)(quote - from - 8));
    add_text(to, ";");
}

/* The declaration without `export`; its name is added to exports. */
static void add_export(text *to, text *exports, const char *line, size_t length, const char *name) {
    static const char *const words[] = {"async function ", "function ", "const ", "class "};
    const char *declaration = line + strlen("export ");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(declaration, words[i], strlen(words[i])) == 0) {
            const char *start = declaration + strlen(words[i]);
            add(exports, start, strcspn(start, " (={\n"));
            add_text(exports, ", ");
            add(to, declaration, (size_t)(line + length - declaration));
            return;
        }
    }
    fail("an export that is not of a function, const or class", name);
}

static void add_module(text *to, const char *folder, const char *name) {
    text source = read_file(folder, name), exports = {0};
    add(&exports, "", 0);
    add_text(to, "const ");
    add_module_name(to, name, strlen(name));
    add_text(to, " = (() => {\n");
    for (const char *line = source.data; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "import ", 7) == 0) {
            add_import(to, line, length, name);
        } else if (strncmp(line, "export ", 7) == 0) {
            add_export(to, &exports, line, length, name);
        } else {
            add(to, line, length);
        }
        add_text(to, "\n");
        line += length + (line[length] == '\n');
    }
    add_text(to, "return { ");
    add_text(to, exports.data);
    add_text(to, "};\n})();\n");
    free(source.data);
    free(exports.data);
}

static void write_file(FILE *out, const char *name, const text *plain) {
    uLong room = compressBound((uLong)plain->size) + 64;
    unsigned char *packed = malloc(room);
    z_stream stream = {.next_in = (Bytef *)plain->data,
                       .avail_in = (uInt)plain->size,
                       .next_out = packed,
                       .avail_out = (uInt)room};
    if (!packed || deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END) {
        fail("cannot be compressed", name);
    }
    (void)fprintf(out, "static const uint8_t %s[] = {", name);
    for (uLong i = 0; i < stream.total_out; i++) {
        (void)fprintf(out, "%s%d,", i % 24 ? "" : "\n", packed[i]);
    }
    (void)fprintf(out, "\n};\n");
    deflateEnd(&stream);
    free(packed);
}

int main(int count, char **arguments) {
    if (count < 4) {
        fail("usage: embed OUT.c FOLDER MODULE.js…", "arguments");
    }
    const char *folder = arguments[2];
    text script = {0}, page = read_file(folder, "index.html"), style = read_file(folder, "app.css");
    text icon = read_file(folder, "icon.svg");
    add_text(&script, "\"use strict\";\n");
    for (int i = 3; i < count; i++) {
        add_module(&script, folder, arguments[i]);
    }
    FILE *out = fopen(arguments[1], "w");
    if (!out) {
        fail("cannot be written", arguments[1]);
    }
    (void)fputs("#include \"answers/page.h\"\n", out);
    write_file(out, "page", &page);
    write_file(out, "script", &script);
    write_file(out, "style", &style);
    write_file(out, "icon", &icon);
    (void)fprintf(
        out,
        "const td__page_file td__page_files[] = {\n"
        "    {\"/\", \"text/html; charset=utf-8\", page, sizeof page, %zu},\n"
        "    {\"/app.js\", \"text/javascript; charset=utf-8\", script, sizeof script, %zu},\n"
        "    {\"/app.css\", \"text/css; charset=utf-8\", style, sizeof style, %zu},\n"
        "    {\"/favicon.ico\", \"image/svg+xml\", icon, sizeof icon, %zu},\n"
        "};\n"
        "const size_t td__page_file_count = sizeof td__page_files / sizeof *td__page_files;\n",
        page.size, script.size, style.size, icon.size);
    free(page.data);
    free(script.data);
    free(style.data);
    free(icon.data);
    return fclose(out) == 0 ? 0 : 1;
}
