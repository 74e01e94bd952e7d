/* The reader and the tree. Invariants: every node and text belongs to the document's list of blocks
 * and is freed with it; a map's keys are unique; no scalar holds a NUL byte. */
#include "experiment/yaml.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

/* What a document allocated, freed all at once. */
typedef struct block {
    struct block *next;
    _Alignas(16) char bytes[];
} block;

struct td__yaml {
    block *blocks;
    size_t nodes;
    bool reading; /* what a file says is capped, what defaults add to it is not */
    const char *file;
    td__yaml_node *root;
};

static void *take_bytes(td__yaml *yaml, size_t bytes) {
    block *taken = td__calloc(1, sizeof(block) + bytes);
    if (!taken) {
        return NULL;
    }
    taken->next = yaml->blocks;
    yaml->blocks = taken;
    return taken->bytes;
}

void *td__yaml_alloc(td__yaml *yaml, size_t bytes) {
    return take_bytes(yaml, bytes);
}

static char *take_text(td__yaml *yaml, const char *text, size_t length) {
    char *copy = take_bytes(yaml, length + 1);
    if (copy) {
        memcpy(copy, text, length);
    }
    return copy;
}

static td__yaml_node *make(td__yaml *yaml, td__yaml_kind kind) {
    if (yaml->reading && yaml->nodes >= TD__YAML_MAX_NODES) {
        return NULL;
    }
    td__yaml_node *node = take_bytes(yaml, sizeof *node);
    if (node) {
        yaml->nodes++;
        node->kind = kind;
        node->file = yaml->file;
        node->text = "";
    }
    return node;
}

td__yaml_node *td__yaml_scalar(td__yaml *yaml, const char *text, bool quoted) {
    td__yaml_node *node = make(yaml, TD__YAML_SCALAR);
    if (node) {
        node->quoted = quoted;
        node->text = take_text(yaml, text, strlen(text));
    }
    return node && node->text ? node : NULL;
}

td__yaml_node *td__yaml_list(td__yaml *yaml) {
    return make(yaml, TD__YAML_LIST);
}

td__yaml_node *td__yaml_map(td__yaml *yaml) {
    return make(yaml, TD__YAML_MAP);
}

/* Room for one more item; the old array stays with the document. */
static bool make_child_room(td__yaml *yaml, td__yaml_node *node) {
    if (node->count < node->capacity) {
        return true;
    }
    size_t capacity = node->capacity ? 2 * node->capacity : 8;
    td__yaml_node **items = take_bytes(yaml, capacity * sizeof *items);
    const td__yaml_node **keys =
        node->kind == TD__YAML_MAP ? take_bytes(yaml, capacity * sizeof *keys) : NULL;
    if (!items || (node->kind == TD__YAML_MAP && !keys)) {
        return false;
    }
    if (node->count) {
        memcpy(items, node->items, node->count * sizeof *items);
        if (keys) {
            memcpy(keys, node->keys, node->count * sizeof *keys);
        }
    }
    node->items = items;
    node->keys = keys;
    node->capacity = capacity;
    return true;
}

static td_status add_node(td__yaml *yaml, td__yaml_node *node, const td__yaml_node *key,
                          td__yaml_node *value) {
    if (!value || !make_child_room(yaml, node)) {
        return TD_MEMORY;
    }
    if (key) {
        node->keys[node->count] = key;
    }
    node->items[node->count++] = value;
    return TD_OK;
}

td_status td__yaml_append(td__yaml *yaml, td__yaml_node *list, td__yaml_node *value) {
    return add_node(yaml, list, NULL, value);
}

td_status td__yaml_put(td__yaml *yaml, td__yaml_node *map, const char *key, td__yaml_node *value) {
    for (size_t i = 0; value && i < map->count; i++) {
        if (!strcmp(map->keys[i]->text, key)) {
            map->items[i] = value;
            return TD_OK;
        }
    }
    td__yaml_node *name = td__yaml_scalar(yaml, key, false);
    if (name && value) {
        name->line = value->line;
        name->column = value->column;
        name->file = value->file;
    }
    return name ? add_node(yaml, map, name, value) : TD_MEMORY;
}

td__yaml_node *td__yaml_copy(td__yaml *yaml, const td__yaml_node *other) {
    td__yaml_node *node = make(yaml, other->kind);
    if (!node) {
        return NULL;
    }
    node->line = other->line;
    node->column = other->column;
    node->quoted = other->quoted;
    node->text = take_text(yaml, other->text, strlen(other->text));
    node->file = take_text(yaml, other->file, strlen(other->file));
    if (!node->text || !node->file) {
        return NULL;
    }
    for (size_t i = 0; i < other->count; i++) {
        const td__yaml_node *key =
            other->kind == TD__YAML_MAP ? td__yaml_copy(yaml, other->keys[i]) : NULL;
        if ((other->kind == TD__YAML_MAP && !key) ||
            add_node(yaml, node, key, td__yaml_copy(yaml, other->items[i]))) {
            return NULL;
        }
    }
    return node;
}

td__yaml_node *td__yaml_root(td__yaml *yaml) {
    return yaml->root;
}

td__yaml_node *td__yaml_get(const td__yaml_node *node, const char *key) {
    for (size_t i = 0; node->kind == TD__YAML_MAP && i < node->count; i++) {
        if (!strcmp(node->keys[i]->text, key)) {
            return node->items[i];
        }
    }
    return NULL;
}

bool td__yaml_is_null(const td__yaml_node *node) {
    static const char *const spellings[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (node->kind == TD__YAML_SCALAR && !node->quoted && !strcmp(node->text, spellings[i])) {
            return true;
        }
    }
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct reader {
    td__yaml *yaml;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one, to be deleted */
    bool has_event;
    int depth;
    td_error *error;
} reader;

static td_status refuse_yaml(reader *r, size_t line, const char *what) {
    return td_error_set(r->error, TD_FORMAT, "%s:%zu: %s", r->yaml->file, line + 1, what);
}

static td_status out_of_memory(reader *r) {
    if (r->yaml->nodes >= TD__YAML_MAX_NODES) {
        return refuse_yaml(r, r->event.start_mark.line, "more than 200000 values");
    }
    return td_error_set(r->error, TD_MEMORY, "%s: out of memory", r->yaml->file);
}

/* What libyaml says, as somebody who writes an experiment would. */
static const char *rephrase(const yaml_parser_t *p) {
    static const struct {
        const char *context, *problem, *text; /* the first two: parts of libyaml's; NULL: any */
    } texts[] = {
        {NULL, "cannot start any token",
         "a tab, or a character that begins nothing: indent with spaces, put other text in quotes"},
        {"an alias", NULL, "'*' begins an alias here: put globs in quotes, \"*.error\""},
        {"quoted scalar", NULL, "a quote is opened and never closed"},
        {NULL, "mapping values are not allowed",
         "a second ':' in a line, or a line that is indented too far: text with a ':' wants "
         "quotes"},
        {"block mapping", NULL, "this line is indented otherwise than the keys it stands among"},
        {"block collection", NULL, "this line is indented otherwise than the list it stands in"},
        {"flow sequence", NULL, "a '[' without its ']', or a ',' is missing"},
        {"flow mapping", NULL, "a '{' without its '}', or a ',' is missing"},
        {"a simple key", NULL, "a ':' is missing behind the key"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if ((!texts[i].context || (p->context && strstr(p->context, texts[i].context))) &&
            (!texts[i].problem || (p->problem && strstr(p->problem, texts[i].problem)))) {
            return texts[i].text;
        }
    }
    return p->problem ? p->problem : "not YAML";
}

static td_status next(reader *r) {
    if (r->has_event) {
        yaml_event_delete(&r->event);
        r->has_event = false;
    }
    if (yaml_parser_parse(&r->parser, &r->event)) {
        r->has_event = true;
        return TD_OK;
    }
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) {
        return td_error_set(r->error, TD_MEMORY, "%s: out of memory", r->yaml->file);
    }
    size_t line = p->error == YAML_READER_ERROR ? p->mark.line : p->problem_mark.line;
    return refuse_yaml(r, line, rephrase(p));
}

static td_status read_node(reader *r, td__yaml_node **node);

static void stand(td__yaml_node *node, const yaml_mark_t *mark) {
    node->line = (int)mark->line + 1;
    node->column = (int)mark->column + 1;
}

static td_status read_scalar(reader *r, td__yaml_node **node) {
    const yaml_event_t *event = &r->event;
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(text, 0, length)) {
        return refuse_yaml(r, event->start_mark.line, "a NUL byte in a text");
    }
    td__yaml_node *scalar = td__yaml_scalar(r->yaml, text, false);
    if (!scalar) {
        return out_of_memory(r);
    }
    scalar->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    stand(scalar, &event->start_mark);
    *node = scalar;
    return TD_OK;
}

static td_status read_key(reader *r, const td__yaml_node *map, td__yaml_node **key) {
    size_t line = r->event.start_mark.line;
    td_status status = read_node(r, key);
    if (status) {
        return status;
    }
    if ((*key)->kind != TD__YAML_SCALAR) {
        return refuse_yaml(r, line, "a key must be a word, not a list or a map");
    }
    if (map->count >= TD__YAML_MAX_KEYS) {
        return refuse_yaml(r, line, "more than 1000 keys in one map");
    }
    const td__yaml_node *first = td__yaml_get(map, (*key)->text);
    if (first) {
        return td_error_set(r->error, TD_FORMAT, "%s:%zu: key %s is there twice (first in line %d)",
                            r->yaml->file, line + 1, (*key)->text, first->line);
    }
    return next(r);
}

static td_status read_collection(reader *r, td__yaml_kind kind, yaml_event_type_t end,
                                 td__yaml_node **node) {
    td__yaml_node *collection = make(r->yaml, kind);
    if (!collection) {
        return out_of_memory(r);
    }
    stand(collection, &r->event.start_mark);
    td_status status = next(r);
    while (!status && r->event.type != end) {
        td__yaml_node *key = NULL, *value = NULL;
        if (kind == TD__YAML_MAP) {
            status = read_key(r, collection, &key);
        }
        if (!status) {
            status = read_node(r, &value);
        }
        if (!status && add_node(r->yaml, collection, key, value)) {
            status = out_of_memory(r);
        }
        if (!status) {
            status = next(r);
        }
    }
    *node = collection;
    return status;
}

/* The node that starts at the current event; leaves the reader at its last event. */
static td_status read_node(reader *r, td__yaml_node **node) {
    const yaml_event_t *event = &r->event;
    size_t line = event->start_mark.line;
    if (++r->depth > TD__YAML_MAX_DEPTH) {
        return refuse_yaml(r, line, "nested too deeply (32 levels at most)");
    }
    td_status status;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        status = event->data.scalar.anchor
                     ? refuse_yaml(r, line, "anchors (&NAME) are not supported")
                 : event->data.scalar.tag ? refuse_yaml(r, line, "tags (!NAME) are not supported")
                                          : read_scalar(r, node);
        break;
    case YAML_SEQUENCE_START_EVENT:
        status = event->data.sequence_start.anchor
                     ? refuse_yaml(r, line, "anchors (&NAME) are not supported")
                 : event->data.sequence_start.tag
                     ? refuse_yaml(r, line, "tags (!NAME) are not supported")
                     : read_collection(r, TD__YAML_LIST, YAML_SEQUENCE_END_EVENT, node);
        break;
    case YAML_MAPPING_START_EVENT:
        status = event->data.mapping_start.anchor
                     ? refuse_yaml(r, line, "anchors (&NAME) are not supported")
                 : event->data.mapping_start.tag
                     ? refuse_yaml(r, line, "tags (!NAME) are not supported")
                     : read_collection(r, TD__YAML_MAP, YAML_MAPPING_END_EVENT, node);
        break;
    case YAML_ALIAS_EVENT:
        status = refuse_yaml(r, line,
                             "aliases (*NAME) are not supported; put globs in quotes: \"*.error\"");
        break;
    default:
        status = refuse_yaml(r, line, "a value was expected");
        break;
    }
    r->depth--;
    return status;
}

static td_status read_document(reader *r) {
    td_status status = next(r); /* the stream begins */
    if (!status) {
        status = next(r);
    }
    if (!status && r->event.type == YAML_STREAM_END_EVENT) {
        r->yaml->root = td__yaml_map(r->yaml);
        return r->yaml->root ? TD_OK : out_of_memory(r);
    }
    if (!status) {
        status = next(r); /* the document begins */
    }
    if (!status) {
        status = read_node(r, &r->yaml->root);
    }
    if (!status) {
        status = next(r); /* the document ends */
    }
    if (!status) {
        status = next(r);
    }
    if (!status && r->event.type != YAML_STREAM_END_EVENT) {
        status = refuse_yaml(r, r->event.start_mark.line, "a second document; one is expected");
    }
    return status;
}

static td__yaml *create(const char *file, td_error *error) {
    td__yaml *yaml = td__calloc(1, sizeof *yaml);
    if (yaml) {
        yaml->file = take_text(yaml, file, strlen(file));
    }
    if (!yaml || !yaml->file) {
        td__yaml_destroy(yaml);
        td_error_set(error, TD_MEMORY, "%s: out of memory", file);
        return NULL;
    }
    return yaml;
}

td__yaml *td__yaml_parse(const char *file, const char *text, size_t size, td_error *error) {
    if (size > TD__YAML_MAX_BYTES) {
        td_error_set(error, TD_RANGE, "%s: larger than 4 MiB, which no experiment file is", file);
        return NULL;
    }
    td__yaml *yaml = create(file, error);
    if (!yaml) {
        return NULL;
    }
    reader r = {.yaml = yaml, .error = error};
    if (!yaml_parser_initialize(&r.parser)) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", file);
        td__yaml_destroy(yaml);
        return NULL;
    }
    bool marked = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0; /* a byte order mark */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text + (marked ? 3 : 0),
                                 size - (marked ? 3 : 0));
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml->reading = true;
    td_status status = read_document(&r);
    yaml->reading = false;
    if (r.has_event) {
        yaml_event_delete(&r.event);
    }
    yaml_parser_delete(&r.parser);
    if (status) {
        td__yaml_destroy(yaml);
        return NULL;
    }
    return yaml;
}

/* Reads at most one byte more than is allowed, so that a device or a huge file is refused too. */
static char *read_file(const char *path, size_t *size, td_error *error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = file < 0 ? NULL : td__calloc(1, TD__YAML_MAX_BYTES + 1);
    ssize_t got = text ? 1 : -1;
    *size = 0;
    while (got > 0 && *size <= TD__YAML_MAX_BYTES) {
        got = read(file, text + *size, TD__YAML_MAX_BYTES + 1 - *size);
        *size += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == EINTR) {
            got = 1;
        }
    }
    if (file >= 0 && !text) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    } else if (got < 0) {
        td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: cannot read: %s", path,
                     strerror(errno));
        td__free(text);
        text = NULL;
    }
    if (file >= 0) {
        close(file);
    }
    return text;
}

td__yaml *td__yaml_read(const char *path, td_error *error) {
    size_t size;
    char *text = read_file(path, &size, error);
    td__yaml *yaml = text ? td__yaml_parse(path, text, size, error) : NULL;
    td__free(text);
    return yaml;
}

void td__yaml_destroy(td__yaml *yaml) {
    if (!yaml) {
        return;
    }
    for (block *next_block; yaml->blocks; yaml->blocks = next_block) {
        next_block = yaml->blocks->next;
        td__free(yaml->blocks);
    }
    td__free(yaml);
}
