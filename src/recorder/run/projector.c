#include "run/projector.h"

#include "base/memory.h"
#include "base/parse.h"
#include "run/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 512, MAX_PATH = 1024 };
static const size_t max_config = (size_t)1 << 20, max_table = (size_t)256 << 20;

/* An entry of the configuration. */
typedef struct embedding {
    char name[MAX_NAME], tensor[MAX_NAME], metadata[MAX_NAME];
} embedding;

/* ---- The configuration ---------------------------------------------------------------------- */

/* Copies the quoted text after `key:` on a line; the rest of the line is left out. */
static void read_entry(const char *line, const char *key, char out[MAX_NAME]) {
    size_t length = strlen(key);
    line += strspn(line, " \t");
    if (strncmp(line, key, length) == 0 && line[length] == ':') {
        const char *text = line + length + 1 + strspn(line + length + 1, " \"");
        (void)snprintf(out, MAX_NAME, "%.*s", (int)strcspn(text, "\"\r\n"), text);
    }
}

/* A path that the configuration gives, in the folder; false when it leads out of it, or there is none. */
static bool path_of(const char *folder, const char *file, char out[MAX_PATH]) {
    return *file && *file != '/' && !strstr(file, "..") &&
           snprintf(out, MAX_PATH, "%s/%s", folder, file) < MAX_PATH;
}

/* ---- Tables --------------------------------------------------------------------------------- */

static size_t count_char(const char *text, const char *end, char wanted) {
    size_t count = 0;
    for (; text < end; text++) {
        count += *text == wanted;
    }
    return count;
}

static size_t count_rows(const char *text, size_t length) {
    return count_char(text, text + length, '\n') + (length > 0 && text[length - 1] != '\n');
}

/* Rows of numbers between tabs, all of one length. */
static bool parse_table(const char *text, float *values, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows * columns; i++) {
        bool ends_row = (i + 1) % columns == 0;
        text = td__parse_float32(text, &values[i]);
        if (!text || (ends_row ? *text != '\n' && *text != '\r' && *text : *text != '\t')) {
            return false;
        }
        text += *text == '\r';
        text += *text != 0;
    }
    return true;
}

/* The label of each line: its number, or the line in which its text was first. */
static bool parse_labels(const char *text, size_t length, int64_t *labels, size_t rows) {
    td__tags texts = {0};
    bool good = count_rows(text, length) == rows;
    for (size_t i = 0; good && i < rows; i++) {
        size_t size = strcspn(text, "\n");
        char *end = NULL;
        labels[i] = strtoll(text, &end, 10);
        if (end == text || (*end != '\n' && *end != '\r' && *end)) {
            const td__tag *tag = td__tags_find(&texts, text, size);
            good = tag != NULL;
            labels[i] = good ? tag - texts.tags : 0;
        }
        text += size + (text[size] == '\n');
    }
    td__tags_release(&texts);
    return good;
}

/* ---- One embedding -------------------------------------------------------------------------- */

/* Its name is TAG:STEP. */
static td_status hand_on_table(td__decoder *decoder, const embedding *e, const td_view *view,
                               const td_view *labels, td_error *error) {
    const char *colon = strrchr(e->name, ':');
    size_t length = colon ? (size_t)(colon - e->name) : strlen(e->name);
    td__tag *tag = td__tags_find(&decoder->tags, e->name, length);
    if (!tag) {
        return td_error_set(error, TD_MEMORY, "out of memory for an embedding");
    }
    td_record record = {.step = colon ? strtoll(colon + 1, NULL, 10) : 0,
                        .signal = tag->name,
                        .signal_index = (int32_t)(tag - decoder->tags.tags),
                        .form = TD_TENSOR,
                        .view = view,
                        .labels = labels};
    if ((decoder->wants && !decoder->wants(decoder->user, tag->name)) ||
        record.step < decoder->first_step || record.step > decoder->last_step) {
        return TD_OK;
    }
    decoder->records++;
    return decoder->each(decoder->user, &record, error);
}

static td_status read_embedding(const char *folder, td__decoder *decoder, const embedding *e,
                                td_error *error) {
    char path[MAX_PATH];
    size_t length = 0, label_length = 0;
    td_error damage = {0};
    char *text = path_of(folder, e->tensor, path)
                     ? td__foreign_load(path, max_table, &length, &damage)
                     : NULL;
    char *label_text = path_of(folder, e->metadata, path)
                           ? td__foreign_load(path, max_table, &label_length, NULL)
                           : NULL;
    size_t rows = text ? count_rows(text, length) : 0;
    size_t columns = rows ? count_char(text, text + strcspn(text, "\n"), '\t') + 1 : 0;
    float *values = td__calloc(rows * columns + 1, sizeof *values);
    int64_t *labels = td__calloc(rows + 1, sizeof *labels);
    td_status status = TD_OK;
    if (!values || !labels) {
        status = td_error_set(error, TD_MEMORY, "out of memory for an embedding");
    } else if (rows > 0 && rows * columns <= length && parse_table(text, values, rows, columns)) {
        td_view view = {TD_FLOAT32, TD_SHAPE((int64_t)rows, (int64_t)columns), values, NULL, NULL};
        td_view of_rows = {TD_INT64, TD_SHAPE((int64_t)rows), labels, NULL, NULL};
        bool known = label_text && parse_labels(label_text, label_length, labels, rows);
        status = hand_on_table(decoder, e, &view, known ? &of_rows : NULL, error);
    } else if (*e->tensor) { /* without: in a checkpoint of TensorFlow */
        td__run_problem(decoder->problems, "%s: no rows of numbers%s%s", e->tensor,
                        damage.status ? ": " : "", damage.text);
    }
    td__free(values);
    td__free(labels);
    td__free(text);
    td__free(label_text);
    return status;
}

td_status td__projector_read(const char *folder, td__decoder *decoder, td_error *error) {
    char path[MAX_PATH];
    size_t length;
    char *text = path_of(folder, "projector_config.pbtxt", path)
                     ? td__foreign_load(path, max_config, &length, NULL)
                     : NULL;
    td_status status = TD_OK;
    embedding e = {0};
    int depth = 0;
    for (const char *line = text; line && *line && !status;) {
        read_entry(line, "tensor_name", e.name);
        read_entry(line, "tensor_path", e.tensor);
        read_entry(line, "metadata_path", e.metadata);
        size_t size = strcspn(line, "\n"), indent = strspn(line, " \t");
        depth += memchr(line, '{', size) != NULL;
        if (line[indent] == '}' && --depth == 0) {
            status = *e.tensor ? read_embedding(folder, decoder, &e, error) : TD_OK;
            e = (embedding){0};
        }
        line += size;
        line += *line == '\n';
    }
    td__free(text);
    return status;
}
