/* Changing a document and writing it back. */
#include "experiment/yaml.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- --set ----------------------------------------------------------------------------------- */

/* One part of the path: where it leads, or NULL. */
static td__yaml_node **child(const td__yaml_node *node, const char *part) {
    if (node->kind == TD__YAML_LIST) {
        char *end;
        unsigned long index = strtoul(part, &end, 10);
        return *part && !*end && index < node->count ? &node->items[index] : NULL;
    }
    for (size_t i = 0; node->kind == TD__YAML_MAP && i < node->count; i++) {
        if (!strcmp(node->keys[i]->text, part)) {
            return &node->items[i];
        }
    }
    return NULL;
}

static td_status cannot(td_error *error, const char *assignment, const char *part) {
    return td_error_set(
        error, TD_INVALID,
        "--set %s: nothing can be set at '%s'; expected KEY.KEY=VALUE, with an index "
        "from 0 for an item of a list",
        assignment, part);
}

/* Appends when part is the index behind a list's last item. */
static td_status append_at(td__yaml *yaml, td__yaml_node *list, const char *part,
                           td__yaml_node *value, const char *assignment, td_error *error) {
    char *end;
    unsigned long index = strtoul(part, &end, 10);
    if (list->kind != TD__YAML_LIST || *end || index != list->count) {
        return cannot(error, assignment, part);
    }
    return td__yaml_append(yaml, list, value)
               ? td_error_set(error, TD_MEMORY, "--set %s: out of memory", assignment)
               : TD_OK;
}

static void remove_at(td__yaml_node *map, td__yaml_node **place) {
    size_t index = (size_t)(place - map->items);
    map->count--;
    for (size_t i = index; i < map->count; i++) {
        map->items[i] = map->items[i + 1];
        map->keys[i] = map->keys[i + 1];
    }
}

/* Puts value at path (whose dots become ends of parts). Null removes a section, or a key of a section; below that it is
 * a value: the options of `adam: null` are all defaults. */
static td_status put_at(td__yaml *yaml, char *path, td__yaml_node *value, const char *assignment,
                        td_error *error) {
    td__yaml_node *node = td__yaml_root(yaml);
    int depth = 0;
    for (char *part = path, *rest; part; part = rest) {
        rest = strchr(part, '.');
        depth++;
        if (rest) {
            *rest++ = 0;
        }
        td__yaml_node **place = child(node, part);
        if (*part && !place && !rest && node->kind != TD__YAML_MAP) {
            return append_at(yaml, node, part, value, assignment, error);
        }
        if (!*part || (!place && node->kind != TD__YAML_MAP)) {
            return cannot(error, assignment, part);
        }
        if (!rest && depth <= 2 && node->kind == TD__YAML_MAP && td__yaml_is_null(value)) {
            if (place) {
                remove_at(node, place);
            }
            return TD_OK;
        }
        if (!place || (rest && td__yaml_is_null(*place))) {
            td__yaml_node *made = rest ? td__yaml_map(yaml) : value;
            if (made && rest) {
                made->file = value->file;
            }
            if (td__yaml_put(yaml, node, part, made)) {
                return td_error_set(error, TD_MEMORY, "--set %s: out of memory", assignment);
            }
            node = made;
        } else if (rest) {
            node = *place;
        } else {
            *place = value;
        }
    }
    return TD_OK;
}

static void forget_lines(td__yaml_node *node) {
    node->line = 0;
    for (size_t i = 0; i < node->count; i++) {
        forget_lines(node->items[i]);
    }
}

td_status td__yaml_set(td__yaml *yaml, const char *assignment, td_error *error) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) {
        return td_error_set(error, TD_INVALID,
                            "--set %s: expected KEY=VALUE, as in --set train.epochs=3", assignment);
    }
    size_t room = strlen(assignment) + 8;
    char *origin = td__calloc(1, room);
    char *path = td__calloc(1, room);
    td__yaml *parsed = NULL;
    td__yaml_node *value = NULL;
    td_status status = TD_MEMORY;
    if (origin && path) {
        (void)snprintf(origin, room, "--set %s", assignment);
        memcpy(path, assignment, (size_t)(equals - assignment));
        td_error reason = {0};
        parsed = td__yaml_parse(origin, equals + 1, strlen(equals + 1), &reason);
        status = reason.status;
        if (status) {
            td_error_set(error, status, "%s", reason.text);
        } else if (!equals[1]) {
            value = td__yaml_scalar(yaml, "", false);
        } else {
            value = td__yaml_copy(yaml, td__yaml_root(parsed));
        }
    }
    if (value) {
        forget_lines(value);
        status = put_at(yaml, path, value, assignment, error);
    } else if (!status) {
        status = td_error_set(error, TD_MEMORY, "--set %s: out of memory", assignment);
    }
    td__yaml_destroy(parsed);
    td__free(path);
    td__free(origin);
    return status;
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct output {
    char *text;
    size_t size, capacity;
} output;

static int put_bytes(void *user, unsigned char *bytes, size_t size) {
    output *out = user;
    if (!td__grow(&out->text, &out->capacity, out->size + size + 1, 16u << 20, 1)) {
        return 0;
    }
    memcpy(out->text + out->size, bytes, size);
    out->size += size;
    out->text[out->size] = 0;
    return 1;
}

/* A list of scalars and a small map of scalars stand in one line. */
static bool is_flat(const td__yaml_node *node) {
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->kind != TD__YAML_SCALAR) {
            return false;
        }
    }
    return true;
}

static bool emit_node(yaml_emitter_t *emitter, const td__yaml_node *node, int depth);

static bool emit_scalar(yaml_emitter_t *emitter, const td__yaml_node *node) {
    yaml_event_t event;
    yaml_scalar_style_t style =
        node->quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE;
    const char *text = td__yaml_is_null(node) ? "null" : node->text;
    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text,
                                        (int)strlen(text), 1, 1, style) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_collection(yaml_emitter_t *emitter, const td__yaml_node *node, int depth) {
    yaml_event_t event;
    bool flow = is_flat(node) && depth > (node->kind == TD__YAML_LIST ? 0 : 1);
    bool good =
        node->kind == TD__YAML_LIST
            ? yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                   flow ? YAML_FLOW_SEQUENCE_STYLE
                                                        : YAML_BLOCK_SEQUENCE_STYLE)
            : yaml_mapping_start_event_initialize(
                  &event, NULL, NULL, 1, flow ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE);
    good = good && yaml_emitter_emit(emitter, &event);
    for (size_t i = 0; good && i < node->count; i++) {
        good = (node->kind == TD__YAML_LIST || emit_scalar(emitter, node->keys[i])) &&
               emit_node(emitter, node->items[i], depth + 1);
    }
    return good &&
           (node->kind == TD__YAML_LIST ? yaml_sequence_end_event_initialize(&event)
                                        : yaml_mapping_end_event_initialize(&event)) &&
           yaml_emitter_emit(emitter, &event);
}

static bool emit_node(yaml_emitter_t *emitter, const td__yaml_node *node, int depth) {
    return node->kind == TD__YAML_SCALAR ? emit_scalar(emitter, node)
                                         : emit_collection(emitter, node, depth);
}

char *td__yaml_write(const td__yaml *yaml, size_t *size) {
    output out = {0};
    yaml_emitter_t emitter;
    yaml_event_t event;
    if (!yaml_emitter_initialize(&emitter)) {
        return NULL;
    }
    yaml_emitter_set_output(&emitter, put_bytes, &out);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, 100);
    bool good = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
                yaml_emitter_emit(&emitter, &event) &&
                yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
                yaml_emitter_emit(&emitter, &event) &&
                emit_node(&emitter, td__yaml_root((td__yaml *)yaml), 0) &&
                yaml_document_end_event_initialize(&event, 1) &&
                yaml_emitter_emit(&emitter, &event) && yaml_stream_end_event_initialize(&event) &&
                yaml_emitter_emit(&emitter, &event) && yaml_emitter_flush(&emitter);
    yaml_emitter_delete(&emitter);
    if (!good) {
        td__free(out.text);
        return NULL;
    }
    *size = out.size;
    return out.text;
}
