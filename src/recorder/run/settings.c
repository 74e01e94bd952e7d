/* The settings of a run, one by one: the notes of its experiment, of which Python writes nested ones as objects of JSON,
 * or the lines of the experiment's file, which the program writes in a canonical form: blocks by indentation, short maps
 * and lists in braces. What is not of that form is kept as text under the path that leads to it. */
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 512, MAX_VALUE = 512, DEEPEST = 32 };

typedef struct walk {
    td_note_function *each;
    void *user;
    char path[MAX_PATH];
    bool file; /* the run has an experiment's file */
} walk;

/* ---- Texts ---------------------------------------------------------------------------------- */

/* The end of a quoted text that begins at `text`; the texts are the program's own, but may be cut. */
static const char *skip_quoted(const char *text, const char *end) {
    char quote = *text++;
    while (text < end && *text != quote) {
        text += *text == '\\' && quote == '"' && text + 1 < end ? 2 : 1;
    }
    return text < end ? text + 1 : end;
}

/* The first of `wanted` outside of quotes and brackets; end when there is none. */
static const char *find_outside(const char *text, const char *end, char wanted) {
    int depth = 0;
    while (text < end) {
        if (*text == wanted && depth == 0) {
            return text;
        }
        if (*text == '"' || *text == '\'') {
            text = skip_quoted(text, end);
            continue;
        }
        depth += *text == '{' || *text == '[';
        depth -= *text == '}' || *text == ']';
        text++;
    }
    return end;
}

static void trim(const char **text, const char **end) {
    while (*text < *end && (**text == ' ' || **text == '\n')) {
        ++*text;
    }
    while (*text < *end && ((*end)[-1] == ' ' || (*end)[-1] == '\n')) {
        --*end;
    }
}

/* Writes "base.name" at the end of the path; the length of the path before it. */
static size_t push_name(walk *w, const char *name, const char *end) {
    size_t before = strlen(w->path);
    (void)snprintf(w->path + before, sizeof w->path - before, "%s%.*s", before ? "." : "",
                   (int)(end - name), name);
    return before;
}

static void report_value(walk *w, const char *text, const char *end) {
    char value[MAX_VALUE];
    trim(&text, &end);
    bool quoted = end - text >= 2 && (*text == '"' || *text == '\'') && end[-1] == *text;
    text += quoted;
    end -= quoted;
    (void)snprintf(value, sizeof value, "%.*s", (int)(end - text), text);
    w->each(w->user, w->path, value);
}

/* Reports a value: each entry of "{a: 1, b: {c: 2}}" by itself, all else as one. */
static void walk_value(walk *w, const char *text, const char *end, int depth) {
    trim(&text, &end);
    if (end - text < 2 || *text != '{' || end[-1] != '}' || depth > DEEPEST) {
        report_value(w, text, end);
        return;
    }
    for (text++, end--; text < end;) {
        const char *stop = find_outside(text, end, ','), *colon = find_outside(text, stop, ':');
        const char *name = text, *name_end = colon;
        trim(&name, &name_end);
        if (colon < stop) {
            size_t before = push_name(w, name, name_end);
            walk_value(w, colon + 1, stop, depth + 1);
            w->path[before] = 0;
        }
        text = stop < end ? stop + 1 : end;
    }
}

/* ---- The file ------------------------------------------------------------------------------- */

/* A line, which goes on until its brackets and quotes are closed. */
static const char *logical_end(const char *text) {
    return find_outside(text, text + strlen(text), '\n');
}

typedef struct level {
    long indent;
    size_t length; /* of the path above it */
    int64_t items; /* so far, of a list; 0: it is a key */
} level;

static void walk_file(walk *w, const char *yaml) {
    level levels[DEEPEST] = {{-1, 0, 0}};
    int depth = 0;
    for (const char *end; *yaml; yaml = *end ? end + 1 : end) {
        end = logical_end(yaml);
        const char *text = yaml + strspn(yaml, " ");
        long indent = text - yaml;
        /* "- " of a list is a level of its own, between its key and what it holds. */
        for (bool item = true; item && text < end;) {
            item = text[0] == '-' && text[1] == ' ';
            while (depth > 0 &&
                   (levels[depth].indent > indent || (levels[depth].indent == indent && !item))) {
                w->path[levels[depth--].length] = 0;
            }
            if (!item || depth + 2 >= DEEPEST) {
                break;
            }
            if (levels[depth].indent != indent || levels[depth].items == 0) {
                levels[++depth] = (level){indent, strlen(w->path), 0};
            }
            w->path[levels[depth].length] = 0;
            char index[24];
            int digits = snprintf(index, sizeof index, "%lld", (long long)levels[depth].items++);
            (void)push_name(w, index, index + digits);
            text += 2;
            indent += 2;
        }
        if (text >= end || *text == '#' || depth + 1 >= DEEPEST) {
            continue;
        }
        const char *colon = find_outside(text, end, ':');
        levels[++depth] = (level){indent, strlen(w->path), 0};
        (void)push_name(w, text, colon < end ? colon : text);
        if (colon == end) {
            report_value(w, text, end);
        } else if (colon + 1 < end) {
            walk_value(w, colon + 1, end, 0);
        }
    }
}

static void keep_file(void *user, const char *key, const char *value) {
    walk *w = user;
    if (strcmp(key, "yaml") == 0) {
        w->file = true;
        walk_file(w, value);
        w->path[0] = 0;
    }
}

/* ---- Notes ---------------------------------------------------------------------------------- */

/* Reports the members of an object by their paths; all else, lists too, as one text. */
static void walk_json(walk *w, const json_t *value, int depth) {
    if (json_is_object(value) && json_object_size(value) && depth < DEEPEST) {
        for (void *i = json_object_iter((json_t *)value); i;
             i = json_object_iter_next((json_t *)value, i)) {
            const char *name = json_object_iter_key(i);
            size_t before = push_name(w, name, name + strlen(name));
            walk_json(w, json_object_iter_value(i), depth + 1);
            w->path[before] = 0;
        }
        return;
    }
    char number[TD__NUMBER_ROOM];
    char *text = NULL;
    if (json_is_real(value)) {
        number[td__format_double(number, json_real_value(value))] = 0;
    } else if (!json_is_string(value)) {
        text = json_dumps(value, JSON_ENCODE_ANY);
    }
    const char *shown = json_is_real(value) ? number : text ? text : json_string_value(value);
    w->each(w->user, w->path, shown ? shown : "");
    free(text); // NOLINT: jansson's own
}

static void keep_note(void *user, const char *key, const char *value) {
    walk *w = user;
    size_t length = strlen(value);
    json_t *object =
        *value == '{' ? td__json_read(key, value, length, td__json_budget(length), NULL) : NULL;
    if (json_is_object(object) && json_object_size(object)) {
        (void)push_name(w, key, key + strlen(key));
        walk_json(w, object, 0);
        w->path[0] = 0;
    } else if (strcmp(key, "yaml") != 0) {
        w->each(w->user, key, value);
    }
    json_decref(object);
}

td_status td_run_settings(td_run *run, td_note_function *each, void *user, td_error *error) {
    walk w = {.each = each, .user = user};
    td_status status = td_run_notes(run, "experiment", keep_file, &w, error);
    if (!status && !w.file) {
        status = td_run_notes(run, "experiment", keep_note, &w, error);
    }
    return status;
}
