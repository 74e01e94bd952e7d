#include "mcp_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values --------------------------------------------------------------------------------- */

json_t *mcp_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *mcp_words(const char *text) {
    if (!text) {
        return json_null();
    }
    size_t length = strnlen(text, MCP_MAX_TEXT);
    bool cut = text[length] != 0;
    while (cut && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--; /* whole characters */
    }
    char *shown = malloc(TD_VISIBLE_SIZE(length) + sizeof "…");
    size_t used = shown ? td_visible(shown, text, length, true) : 0;
    if (shown && cut) {
        memcpy(shown + used, "…", sizeof "…");
    }
    json_t *made = shown ? json_string(shown) : NULL;
    free(shown);
    return made;
}

const char *mcp_text(const json_t *arguments, const char *name, const char *fallback) {
    const char *text = json_string_value(json_object_get(arguments, name));
    return text ? text : fallback;
}

int64_t mcp_integer(const json_t *arguments, const char *name, int64_t fallback) {
    const json_t *value = json_object_get(arguments, name);
    return value ? json_integer_value(value) : fallback;
}

void mcp_put(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value);
}

void mcp_put_problems(json_t *object, const char *const *texts, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, mcp_words(texts[i]));
    }
    if (count) {
        mcp_put(object, "problems", list);
    } else {
        json_decref(list);
    }
}

/* ---- Runs by name --------------------------------------------------------------------------- */

const char *mcp_place(const char *folder, const char *path) {
    size_t length = strlen(folder);
    const char *rest = strncmp(folder, path, length) == 0 ? path + length : path;
    rest += rest > path && *rest == '#' ? 1 : strspn(rest, "/"); /* URL#RUN */
    return *rest ? rest : ".";
}

typedef struct search {
    const char *folder, *name;
    char path[MCP_MAX_PATH];
    int exact, by_end; /* how many there are */
} search;

static td_status try_run(void *user, const char *path, td_error *error) {
    (void)error;
    search *s = user;
    const char *place = mcp_place(s->folder, path);
    const char *mark = strstr(path, "://") ? strchr(path, '#') : strrchr(path, '/');
    bool exact = strcmp(place, s->name) == 0;
    bool by_end = mark && strcmp(mark + 1, s->name) == 0;
    if (exact || (by_end && !s->exact)) {
        (void)snprintf(s->path, sizeof s->path, "%s", path);
    }
    s->exact += exact;
    s->by_end += by_end;
    return TD_OK;
}

bool mcp_find_run(const char *folder, const char *name, char path[MCP_MAX_PATH], td_error *error) {
    search s = {.folder = folder, .name = name};
    td_status status = td_runs_find(folder, try_run, &s, error);
    if (!status && !s.exact && s.by_end > 1) {
        status =
            td_error_set(error, TD_INVALID, "%d runs are called %.200s: name one as list_runs does",
                         s.by_end, name);
    } else if (!status && !s.exact && !s.by_end) {
        status =
            td_error_set(error, TD_NOT_FOUND, "there is no run %.200s; list_runs names them", name);
    }
    memcpy(path, s.path, MCP_MAX_PATH);
    return !status;
}

td_run *mcp_open_run(const char *folder, const char *name, td_error *error) {
    char path[MCP_MAX_PATH];
    td_run *run = mcp_find_run(folder, name, path, error) ? td_run_open(path, error) : NULL;
    td_run_info info = {.size = sizeof info};
    if (run) {
        td_run_about(run, &info);
    }
    if (run && info.events && td_run_refresh(run, error) != TD_OK) {
        td_run_close(run);
        run = NULL;
    }
    return run;
}

void mcp_put_info(json_t *object, const td_run_info *info) {
    mcp_put(object, "state",
            json_string(info->events ? info->format : td_run_state_name(info->state)));
    mcp_put(object, "started", json_integer((json_int_t)info->started));
    mcp_put(object, "last_record", json_integer((json_int_t)info->last_record));
    mcp_put(object, "step", json_integer(info->last_step));
    mcp_put(object, "epoch", json_integer(info->last_epoch));
    mcp_put(object, "bytes", json_integer(info->bytes));
    if (info->dropped || info->degraded) {
        mcp_put(object, "dropped", json_integer(info->dropped));
        mcp_put(object, "degraded", json_integer(info->degraded));
    }
}
