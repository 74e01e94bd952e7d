/* replay: steps executed again, recorded into a folder that is gone before the answer. */
#include "mcp_values.h"

#include "tapedeck/replay.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECONDS = 60 };

/* False, with text, where it would take too long for an answer. */
static bool is_short(void *text, const td_replay_plan *plan) {
    if (plan->seconds > MAX_SECONDS) {
        (void)snprintf(text, TD_REPLAY_TEXT,
                       "%lld steps from the nearest checkpoint would take about %.0f s, and %d s "
                       "at most are spent: "
                       "ask for steps nearer to a checkpoint, or run `tapedeck replay`",
                       (long long)plan->steps, plan->seconds, MAX_SECONDS);
        return false;
    }
    return true;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)about, (void)kind, (void)place;
    return remove(path);
}

static json_t *result_answer(const td_replay_result *result) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "checkpoint",
                     (json_int_t)result->checkpoint, "executed_to", (json_int_t)result->last,
                     "compared", (json_int_t)result->compared, "identical_to",
                     (json_int_t)result->identical_to, "differs_at", (json_int_t)result->differs_at,
                     "differs_in", mcp_words(result->signal), "reason", mcp_words(result->reason));
}

/* Executes the steps in `place`, a new folder, and reads there what was recorded. */
static json_t *replay_in(const char *place, const char *run, const json_t *arguments,
                         td_error *error) {
    char out[MCP_MAX_PATH + 8], refused[TD_REPLAY_TEXT] = "";
    int64_t first = mcp_integer(arguments, "first", 1);
    td_replay_options how = {.size = sizeof how,
                             .first = first,
                             .last = mcp_integer(arguments, "last", first),
                             .what = mcp_text(arguments, "signals", NULL),
                             .form = TD_STATS,
                             .to = "csv",
                             .out = out,
                             .plan = is_short,
                             .user = refused};
    td_replay_result result = {.size = sizeof result};
    (void)snprintf(out, sizeof out, "%s/replay", place);
    td_status status = td_replay_run(run, &how, &result, error);
    if (status) {
        if (*refused) {
            td_error_set(error, TD_INTERRUPTED, "%s", refused);
        }
        return NULL;
    }
    json_t *answer = result_answer(&result);
    td_run *made = how.what ? td_run_open(out, error) : NULL;
    json_t *series = made ? mcp_series_of(made, arguments, error) : NULL;
    if (how.what && !series) {
        json_decref(answer);
        answer = NULL;
    } else if (series) {
        (void)json_object_update(answer, series);
    }
    json_decref(series);
    td_run_close(made);
    return answer;
}

json_t *mcp_replay(const char *folder, const json_t *arguments, td_error *error) {
    char path[MCP_MAX_PATH], place[MCP_MAX_PATH];
    const char *temporary = getenv("TMPDIR");
    if (!mcp_find_run(folder, mcp_text(arguments, "run", ""), path, error)) {
        return NULL;
    }
    (void)snprintf(place, sizeof place, "%.4000s/tapedeck-XXXXXX",
                   temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(place)) {
        td_error_set(error, TD_IO, "%s: no folder can be made there", place);
        return NULL;
    }
    json_t *answer = replay_in(place, path, arguments, error);
    (void)nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return answer;
}
