/* /api/settings, /api/note: the settings of all runs, and what people note about a run. */
#include "answers/answer.h"

#include <string.h>

enum { MAX_REMARK = 4096 };

/* ---- Settings ------------------------------------------------------------------------------- */

static void put_settings(void *user, const td__cached_run *run, bool loading) {
    td__output *out = user;
    if (!loading && run->settings.size) {
        td__put_format(out, "%s\"%s\":", out->data[out->size - 1] == '{' ? "" : ",", run->id);
        td__put(out, run->settings.data, run->settings.size);
    }
}

/* {"runs": {ID: {"train.epochs": "3", …}, …}} */
td_status td__route_settings(td__call *call, td_error *error) {
    (void)error;
    td__put_text(call->out, "{\"runs\":{");
    td__run_cache_each(call->cache, put_settings, call->out);
    td__put_text(call->out, "}}");
    return TD_OK;
}

/* ---- Remarks -------------------------------------------------------------------------------- */

bool td__is_remark(const char *key) {
    static const char *const keys[] = {"tags", "notes", "starred", "archived"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Dashboards are of the run's own pages; the list of runs does without. */
static bool is_kept(const char *key) {
    return td__is_remark(key) || strcmp(key, "dashboards") == 0;
}

/* run=…&key=…&value=…: keeps it in the run. */
td_status td__route_note(td__call *call, td_error *error) {
    const char *key = td__call_text(call, "key"), *value = td__call_text(call, "value");
    if (!is_kept(key) || strlen(value) > MAX_REMARK) {
        return td_error_set(
            error, TD_INVALID,
            "a remark is tags, notes, starred, archived or dashboards, of up to %d bytes",
            MAX_REMARK);
    }
    if (call->run->info.events) {
        return td_error_set(error, TD_UNSUPPORTED, "event files have no place for remarks");
    }
    td_status status = td_run_write_note(call->run->folder, key, value, error);
    status = status ? status : td__cached_run_read(call->run, error);
    td__put_text(call->out, "{}");
    return status;
}
