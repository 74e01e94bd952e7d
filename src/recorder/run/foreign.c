#include "run/foreign.h"

#include "base/folder.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <yaml.h>

static const td__foreign *const foreign[] = {&td__foreign_wandb, &td__foreign_mlflow,
                                             &td__foreign_trackio, &td__foreign_csv};
enum {
    FOREIGN = sizeof foreign / sizeof *foreign,
    MAX_NAME = 4096,
    MAX_DEPTH = 16,
    MAX_SETTINGS = 10000
};

const td__foreign *td__foreign_of(const char *path) {
    for (size_t i = 0; i < FOREIGN; i++) {
        if (foreign[i]->is_run(path)) {
            return foreign[i];
        }
    }
    return NULL;
}

const char *td_run_foreign(const char *path) {
    const td__foreign *found = td__foreign_of(path);
    return found ? found->name : NULL;
}

bool td__foreign_marks(const char *name) {
    for (size_t i = 0; i < FOREIGN; i++) {
        const char *mark = foreign[i]->mark;
        if (mark && (strcmp(name, mark) == 0 || (*mark == '.' && td__ends_in(name, mark)))) {
            return true;
        }
    }
    return false;
}

td_status td__foreign_find(const char *file, td_folder_function *each, void *user,
                           td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < FOREIGN && !status; i++) {
        status = foreign[i]->find ? foreign[i]->find(file, each, user, error) : TD_OK;
    }
    return status;
}

td_status td__foreign_import(const td__foreign *from, const char *path, td__problems *problems,
                             td__store **made, td_error *error) {
    td__store *store = NULL;
    td_status status = td__store_temporary(&store, error);
    if (status) {
        return status;
    }
    td__writer writer;
    td__intake intake = {.writer = &writer, .problems = problems};
    status = td__writer_init(&writer, store, 0, error);
    status = status ? status : from->read(&intake, path, error);
    status = status ? status : td__batch_commit(&writer.batch, error);
    if (!status) {
        *made = store;
        writer.batch.store = NULL; /* outlives its writer */
    }
    td__tags_release(&intake.tags);
    td__writer_release(&writer);
    return status;
}

/* ---- Records -------------------------------------------------------------------------------- */

static td_status take_record(td__intake *intake, const char *name, const td__moment_of *at,
                             td_record *record, td_error *error) {
    const td__tag *tag = td__tags_find(&intake->tags, name, strlen(name));
    if (!tag) {
        return td_error_set(error, TD_MEMORY, "out of memory for the names of a run");
    }
    record->signal = tag->name;
    record->signal_index = (int32_t)(tag - intake->tags.tags);
    record->step = at->step;
    record->wall_time = at->wall_time;
    record->epoch = at->epoch;
    return td__writer_record(intake->writer, record, error);
}

td_status td__intake_number(td__intake *intake, const char *name, const td__moment_of *at,
                            double value, td_error *error) {
    static const td_signal_info system = {.size = sizeof system, .kind = TD_SIGNAL_SYSTEM};
    bool load = strncmp(name, "system.", 7) == 0;
    td_record record = {.form = TD_SCALAR, .value = value, .info = load ? &system : NULL};
    return take_record(intake, name, at, &record, error);
}

td_status td__intake_text(td__intake *intake, const char *name, const td__moment_of *at,
                          const char *text, td_error *error) {
    td_record record = {.form = TD_TEXT, .text = text, .text_length = strlen(text)};
    return take_record(intake, name, at, &record, error);
}

td_status td__intake_note(td__intake *intake, const char *key, const char *value, td_error *error) {
    return td__writer_note(intake->writer, key, value, error);
}

td_status td__intake_started(td__intake *intake, double seconds, td_error *error) {
    char text[32];
    struct tm utc;
    time_t whole = (time_t)seconds;
    if (!(seconds > 0 && seconds < 1e11) || !gmtime_r(&whole, &utc) ||
        !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)) {
        return TD_OK;
    }
    return td__intake_note(intake, "started", text, error);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static td_status take_histogram(td__intake *intake, const char *name, const td__moment_of *at,
                                const json_t *object, td_error *error) {
    const json_t *counts = json_object_get(object, "values"),
                 *edges = json_object_get(object, "bins");
    size_t count = json_array_size(counts);
    if (count == 0 || count > INT32_MAX || json_array_size(edges) != count + 1) {
        td__run_problem(intake->problems, "%s: a histogram without edges is left out", name);
        return TD_OK;
    }
    td_range *ranges = td__calloc(count, sizeof *ranges);
    if (!ranges) {
        return td_error_set(error, TD_MEMORY, "out of memory for a histogram");
    }
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (td_range){json_number_value(json_array_get(edges, i)),
                               json_number_value(json_array_get(edges, i + 1)),
                               json_number_value(json_array_get(counts, i))};
    }
    td_histogram histogram = {.ranges = ranges, .bin_count = (int32_t)count};
    td_record record = {.form = TD_HISTOGRAM, .histogram = &histogram};
    td_status status = take_record(intake, name, at, &record, error);
    td__free(ranges);
    return status;
}

/* Numbers that JSON has no words for. */
static bool is_special(const char *text, double *value) {
    static const struct {
        const char *text;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].text) == 0) {
            *value = words[i].value;
            return true;
        }
    }
    return false;
}

static td_status take_value(td__intake *intake, const char *name, const td__moment_of *at,
                            const json_t *value, int depth, td_error *error);

static td_status take_members(td__intake *intake, const char *name, const td__moment_of *at,
                              const json_t *object, int depth, td_error *error) {
    td_status status = TD_OK;
    const char *type = json_string_value(json_object_get(object, "_type"));
    if (type) {
        if (strcmp(type, "histogram") == 0) {
            return take_histogram(intake, name, at, object, error);
        }
        td__run_problem(intake->problems, "%s: what wandb calls %.40s is left out", name, type);
        return TD_OK;
    }
    for (void *i = json_object_iter((json_t *)object); i && !status;
         i = json_object_iter_next((json_t *)object, i)) {
        char member[MAX_NAME];
        int length = snprintf(member, sizeof member, "%s%s%s", name, *name ? "." : "",
                              json_object_iter_key(i));
        if (length < 0 || (size_t)length >= sizeof member || depth == MAX_DEPTH) {
            td__run_problem(intake->problems, "%.100s: names that are too long are left out", name);
        } else {
            status = take_value(intake, member, at, json_object_iter_value(i), depth + 1, error);
        }
    }
    return status;
}

static td_status take_value(td__intake *intake, const char *name, const td__moment_of *at,
                            const json_t *value, int depth, td_error *error) {
    double special;
    if (json_is_number(value) || json_is_boolean(value)) {
        double number = json_is_number(value) ? json_number_value(value) : json_is_true(value);
        return td__intake_number(intake, name, at, number, error);
    }
    if (json_is_object(value)) {
        return take_members(intake, name, at, value, depth, error);
    }
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        return is_special(text, &special) ? td__intake_number(intake, name, at, special, error)
                                          : td__intake_text(intake, name, at, text, error);
    }
    if (json_is_array(value)) {
        td__run_problem(intake->problems, "%s: lists are left out", name);
    }
    return TD_OK; /* null: nothing was logged */
}

/* A list with the value in it, as JSON's readers want one; NaN and Infinity as Python writes them, outside of strings,
 * become strings. A copy, to be freed. */
static char *make_plain(const char *json, size_t *length) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    char *copy = *length < SIZE_MAX / 2 ? td__calloc(2 * *length + 3, 1) : NULL, *out = copy;
    bool inside = false;
    if (copy) {
        *out++ = '[';
    }
    for (size_t i = 0; copy && i < *length;) {
        size_t word = 0;
        for (size_t k = 0; !inside && !word && k < sizeof words / sizeof *words; k++) {
            size_t size = strlen(words[k]);
            word = *length - i >= size && memcmp(json + i, words[k], size) == 0 ? size : 0;
        }
        if (word) {
            *out++ = '"';
            memcpy(out, json + i, word);
            out += word;
            *out++ = '"';
            i += word;
            continue;
        }
        inside ^= json[i] == '"';
        if (inside && json[i] == '\\' && i + 1 < *length) {
            *out++ = json[i++];
        }
        *out++ = json[i++];
    }
    if (copy) {
        *out++ = ']';
        *length = (size_t)(out - copy);
    }
    return copy;
}

/* *value is the only item of *list, to be released; NULL and TD_OK: it is no JSON, which is a problem. */
static td_status read_json(td__intake *intake, const char *name, const char *json, size_t length,
                           json_t **list, const json_t **value, td_error *error) {
    td_error reason = {0};
    char *plain = make_plain(json, &length);
    *list = plain ? td__json_read(name, plain, length, td__json_budget(length), &reason) : NULL;
    *value = json_array_size(*list) == 1 ? json_array_get(*list, 0) : NULL;
    td__free(plain);
    if (!plain || reason.status == TD_MEMORY) {
        return td_error_set(error, TD_MEMORY, "out of memory for a value");
    }
    if (!*value) {
        td__run_problem(intake->problems, "%.100s: a value is no JSON and is left out", name);
    }
    return TD_OK;
}

td_status td__intake_json(td__intake *intake, const char *name, const td__moment_of *at,
                          const char *json, size_t length, td_error *error) {
    json_t *list = NULL;
    const json_t *value = NULL;
    td_status status = read_json(intake, name, json, length, &list, &value, error);
    if (!status && value) {
        status = take_value(intake, name, at, value, 0, error);
    }
    json_decref(list);
    return status;
}

/* ---- Settings ------------------------------------------------------------------------------- */

static td_status take_setting(td__intake *intake, const char *key, const json_t *value, int depth,
                              td_error *error) {
    char name[MAX_NAME];
    td_status status = TD_OK;
    if (json_is_object(value) && json_object_size(value) && depth < MAX_DEPTH) {
        for (void *i = json_object_iter((json_t *)value); i && !status;
             i = json_object_iter_next((json_t *)value, i)) {
            const char *member = json_object_iter_key(i);
            int length = snprintf(name, sizeof name, "%s%s%s", key, *key ? "." : "", member);
            if (length > 0 && (size_t)length < sizeof name && (*key || member[0] != '_')) {
                status = take_setting(intake, name, json_object_iter_value(i), depth + 1, error);
            }
        }
        return status;
    }
    int length = snprintf(name, sizeof name, "experiment.%s", key);
    char *text = json_is_string(value)
                     ? NULL
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (*key && length > 0 && (size_t)length < sizeof name && (text || json_is_string(value))) {
        status = td__intake_note(intake, name, text ? text : json_string_value(value), error);
    }
    free(text); // NOLINT: jansson's own
    return status;
}

td_status td__intake_settings(td__intake *intake, const char *key, const char *json, size_t length,
                              td_error *error) {
    json_t *list = NULL;
    const json_t *value = NULL;
    td_status status = read_json(intake, *key ? key : "config", json, length, &list, &value, error);
    if (!status && value) {
        status = take_setting(intake, key, value, 0, error);
    }
    json_decref(list);
    return status;
}

/* ---- YAML ----------------------------------------------------------------------------------- */

/* The keys on the way to what is being read. Of a list, the texts of its items with commas between. */
typedef struct flat {
    td_note_function *each;
    void *user;
    char keys[MAX_DEPTH][256];
    bool map[MAX_DEPTH], has_key[MAX_DEPTH];
    int depth;
    size_t settings;
    char list[MAX_NAME];
} flat;

static void emit(flat *f, const char *value) {
    char name[MAX_DEPTH * 256 + MAX_DEPTH] = "";
    size_t used = 0;
    for (int i = 0; i < f->depth; i++) {
        used += (size_t)snprintf(name + used, sizeof name - used, "%s%s",
                                 used && f->map[i] ? "." : "", f->map[i] ? f->keys[i] : "");
    }
    if (*name && f->settings++ < MAX_SETTINGS) {
        f->each(f->user, name, value);
    }
}

static void see_scalar(flat *f, const char *text) {
    int top = f->depth - 1;
    if (top < 0) {
        return;
    }
    if (!f->map[top]) {
        size_t used = strlen(f->list);
        (void)snprintf(f->list + used, sizeof f->list - used, "%s%s", used ? ", " : "", text);
    } else if (!f->has_key[top]) {
        (void)snprintf(f->keys[top], sizeof f->keys[top], "%s", text);
        f->has_key[top] = true;
    } else {
        emit(f, text);
        f->has_key[top] = false;
    }
}

static void end_collection(flat *f) {
    bool list = !f->map[f->depth - 1];
    f->depth--;
    if (list && (f->depth == 0 || f->map[f->depth - 1])) { /* the outermost list */
        emit(f, f->list);
        f->list[0] = 0;
    }
    if (f->depth && f->map[f->depth - 1]) {
        f->has_key[f->depth - 1] = false;
    }
}

/* False: nested too deeply. Aliases are not followed, so that a small file stays small. */
static bool see_event(flat *f, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        see_scalar(f, (const char *)event->data.scalar.value);
        return true;
    case YAML_ALIAS_EVENT:
        see_scalar(f, (const char *)event->data.alias.anchor);
        return true;
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        if (f->depth == MAX_DEPTH) {
            return false;
        }
        f->map[f->depth] = event->type == YAML_MAPPING_START_EVENT;
        f->has_key[f->depth] = false;
        f->keys[f->depth++][0] = 0;
        return true;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        end_collection(f);
        return true;
    default:
        return true;
    }
}

td_status td__foreign_yaml(const char *path, td_note_function *each, void *user, td_error *error) {
    enum { LIMIT = 4 << 20 };
    size_t length = 0;
    char *text = td__foreign_load(path, LIMIT, &length, error);
    yaml_parser_t parser;
    if (!text || !yaml_parser_initialize(&parser)) {
        td__free(text);
        return error && error->status ? error->status
                                      : td_error_set(error, TD_MEMORY, "out of memory");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    flat *f = td__calloc(1, sizeof *f);
    bool good = f != NULL;
    if (f) {
        f->each = each;
        f->user = user;
    }
    for (bool ended = false; good && !ended;) {
        yaml_event_t event;
        good = yaml_parser_parse(&parser, &event) != 0;
        if (good) {
            ended = event.type == YAML_STREAM_END_EVENT;
            good = see_event(f, &event);
            yaml_event_delete(&event);
        }
    }
    td_status status =
        good ? TD_OK
             : td_error_set(error, TD_FORMAT, "%s: line %zu: no YAML that can be read", path,
                            parser.problem_mark.line + 1);
    yaml_parser_delete(&parser);
    td__free(f);
    td__free(text);
    return status;
}

/* ---- Files ---------------------------------------------------------------------------------- */

double td__foreign_time(const char *text) {
    struct tm utc = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
    double fraction = 0;
    int hours = 0, minutes = 0;
    char sign = 0;
    if (!rest) {
        return 0;
    }
    if (*rest == '.') {
        const char *end = td__parse_float64(rest, &fraction);
        rest = end ? end : rest;
    }
    double seconds = (double)timegm(&utc) + fraction;
    if (sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) == 3 && (sign == '+' || sign == '-')) {
        seconds -= (sign == '-' ? -1 : 1) * 60.0 * (60 * hours + minutes);
    }
    return seconds;
}

char *td__foreign_load(const char *path, size_t limit, size_t *length, td_error *error) {
    struct stat about;
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: %s", path,
                     file < 0 ? td__file_reason(errno) : "it is no file");
    } else if ((uint64_t)about.st_size > limit) {
        td_error_set(error, TD_RANGE, "%s: it is longer than %zu bytes", path, limit);
    } else {
        char *text = td__calloc((size_t)about.st_size + 1, 1);
        if (text && td__read_all(file, text, (size_t)about.st_size, 0)) {
            close(file);
            *length = (size_t)about.st_size;
            return text;
        }
        td_error_set(error, text ? TD_IO : TD_MEMORY, "%s: %s", path,
                     text ? "cannot be read" : "out of memory");
        td__free(text);
    }
    if (file >= 0) {
        close(file);
    }
    return NULL;
}
