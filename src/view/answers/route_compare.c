/* /api/compare: where two runs part, and what differs in their experiments. */
#include "answers/answer.h"

#include <string.h>

enum { MAX_PARTINGS = 500, MAX_SETTINGS = 500 };

static void put_partings(td__output *out, const td_comparison *comparison) {
    for (size_t i = 0; i < comparison->parting_count && i < MAX_PARTINGS; i++) {
        const td_parting *parting = &comparison->partings[i];
        td__put_format(out, "%s{\"step\":%lld,\"by\":\"%s\",\"signal\":", i ? "," : "",
                       (long long)parting->step, parting->by);
        td__put_json(out, parting->signal);
        td__put_text(out, ",\"a\":");
        td__put_number(out, parting->a);
        td__put_text(out, ",\"b\":");
        td__put_number(out, parting->b);
        td__put_text(out, "}");
    }
}

static void put_settings(td__output *out, const td_comparison *comparison) {
    for (size_t i = 0; i < comparison->difference_count && i < MAX_SETTINGS; i++) {
        td__put_format(out, "%s{\"run\":%d,\"text\":", i ? "," : "",
                       comparison->differences[i].run);
        td__put_json(out, comparison->differences[i].text);
        td__put_text(out, "}");
    }
}

/* run=…&other=…: two that compare each other at once wait for each other, but not for ever: see
 * td__cached_run_acquire. */
td_status td__route_compare(td__call *call, td_error *error) {
    const char *id = td__call_text(call, "other");
    if (strcmp(id, call->run->id) == 0) {
        return td_error_set(error, TD_INVALID, "a run is compared with another one");
    }
    td__cached_run *other = td__cached_run_acquire(call->cache, id, error);
    if (!other) {
        return error->status;
    }
    td_comparison *comparison = td_run_compare(call->run->run, other->run, NULL, error);
    if (comparison) {
        td__put_format(call->out, "{\"compared\":%zu,\"count\":%zu,\"partings\":[",
                       comparison->compared, comparison->parting_count);
        put_partings(call->out, comparison);
        td__put_text(call->out, "],\"settings\":[");
        put_settings(call->out, comparison);
        td__put_text(call->out, "]}");
    }
    td_comparison_destroy(comparison);
    td__cached_run_release(other);
    return comparison ? TD_OK : error->status;
}
