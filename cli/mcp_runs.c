/* Which runs there are, and what one of them holds. */
#include "mcp_values.h"

#include <string.h>

enum { MAX_RUNS = 200 };

/* ---- list_runs ------------------------------------------------------------------------------ */

typedef struct listing {
    const char *folder;
    json_t *list;
    int64_t limit, left_out;
} listing;

static td_status list_one(void *user, const td_run_summary *summary, td_error *error) {
    (void)error;
    listing *l = user;
    if ((int64_t)json_array_size(l->list) >= l->limit) {
        l->left_out++;
        return TD_OK;
    }
    json_t *run = json_object();
    mcp_put(run, "run", mcp_words(mcp_place(l->folder, summary->info->folder)));
    if (summary->error) {
        mcp_put(run, "error", mcp_words(summary->error));
    } else {
        mcp_put_info(run, summary->info);
        json_t *metrics = json_object();
        for (size_t i = 0; i < summary->metric_count; i++) {
            const td_run_metric *metric = &summary->metrics[i];
            json_t *name = mcp_words(metric->name);
            mcp_put(metrics, json_string_value(name),
                    json_pack("{s:o, s:o, s:I}", "last", mcp_number(metric->values.last), "best",
                              mcp_number(metric->best), "best_step",
                              (json_int_t)metric->best_step));
            json_decref(name);
        }
        mcp_put(run, "metrics", metrics);
        mcp_put_problems(run, summary->problems, summary->problem_count);
    }
    (void)json_array_append_new(l->list, run);
    return TD_OK;
}

json_t *mcp_list_runs(const char *folder, const json_t *arguments, td_error *error) {
    listing l = {
        .folder = folder, .list = json_array(), .limit = mcp_integer(arguments, "limit", 50)};
    td_status status = td_runs_list(folder, list_one, &l, error);
    if (status) {
        json_decref(l.list);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:I}", "folder", mcp_words(folder), "runs", l.list, "left_out",
                     (json_int_t)l.left_out);
}

/* ---- describe_run --------------------------------------------------------------------------- */

static void put_note(void *user, const char *key, const char *value) {
    json_t *name = mcp_words(key);
    if (json_string_value(name) && json_object_size(user) < MCP_MAX_LISTED) {
        mcp_put(user, json_string_value(name), mcp_words(value));
    }
    json_decref(name);
}

static json_t *forms_of(uint32_t forms) {
    json_t *list = json_array();
    for (int bit = 0; bit < 32; bit++) {
        const char *name = forms & 1U << bit ? td_form_name(1U << bit) : NULL;
        if (name) {
            (void)json_array_append_new(list, json_string(name));
        }
    }
    return list;
}

static json_t *signal_facts(const td_run_signal *signal) {
    json_t *facts = json_object();
    mcp_put(facts, "signal", mcp_words(signal->name));
    if (*td_signal_kind_name(signal->info->kind)) {
        mcp_put(facts, "kind", json_string(td_signal_kind_name(signal->info->kind)));
    }
    if (*signal->info->layer) {
        mcp_put(facts, "layer", mcp_words(signal->info->layer));
    }
    mcp_put(facts, "forms", forms_of(signal->forms));
    mcp_put(facts, "first_step", json_integer(signal->first_step));
    mcp_put(facts, "last_step", json_integer(signal->last_step));
    return facts;
}

static json_t *extremes_of(td_run *run, const td_run_signal *signal) {
    td_extremes e;
    return td_run_extremes(run, signal, &e)
               ? json_pack("{s:o, s:o, s:I, s:o, s:I}", "last", mcp_number(e.last), "least",
                           mcp_number(e.least), "least_step", (json_int_t)e.least_step, "greatest",
                           mcp_number(e.greatest), "greatest_step", (json_int_t)e.greatest_step)
               : json_null();
}

static td_status count_event(void *user, const td_event *event, td_error *error) {
    (void)error;
    json_t *kinds = user;
    const char *kind = td_event_name(event->kind);
    mcp_put(kinds, kind, json_integer(1 + json_integer_value(json_object_get(kinds, kind))));
    return TD_OK;
}

static td_status add_finding(void *user, const td_run_finding *finding, td_error *error) {
    (void)error;
    if (json_array_size(user) < 20) {
        (void)json_array_append_new(
            user, json_pack("{s:o, s:o, s:I, s:o, s:o}", "cause", mcp_words(finding->cause),
                            "layer", mcp_words(finding->layer), "since_step",
                            (json_int_t)finding->since_step, "confidence",
                            mcp_words(finding->confidence), "remedy", mcp_words(finding->remedy)));
    }
    return TD_OK;
}

static void put_signals(json_t *object, td_run *run, int64_t limit) {
    json_t *metrics = json_object(), *signals = json_array();
    size_t count = td_run_signal_count(run), listed = 0;
    for (size_t i = 0; i < count && (int64_t)listed < limit; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        listed++;
        if (signal->forms == TD_SCALAR) {
            json_t *name = mcp_words(signal->name);
            mcp_put(metrics, json_string_value(name), extremes_of(run, signal));
            json_decref(name);
        } else {
            (void)json_array_append_new(signals, signal_facts(signal));
        }
    }
    mcp_put(object, "metrics", metrics);
    mcp_put(object, "signals", signals);
    mcp_put(object, "signals_left_out", json_integer((json_int_t)(count - listed)));
}

json_t *mcp_describe_run(const char *folder, const json_t *arguments, td_error *error) {
    td_run *run = mcp_open_run(folder, mcp_text(arguments, "run", ""), error);
    if (!run) {
        return NULL;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    json_t *made = json_object(), *events = json_object(), *findings = json_array();
    mcp_put(made, "run", mcp_words(mcp_place(folder, info.folder)));
    mcp_put_info(made, &info);
    put_signals(made, run, mcp_integer(arguments, "limit", 100));
    static const char *const tables[] = {"run", "experiment", "environment"};
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !status; i++) {
        json_t *notes = json_object();
        status = td_run_notes(run, tables[i], put_note, notes, error);
        mcp_put(made, i == 0 ? "notes" : i == 1 ? "config" : "environment", notes);
    }
    status = status ? status : td_run_events(run, count_event, events, error);
    status = status ? status : td_run_findings(run, add_finding, findings, error);
    mcp_put(made, "events", events);
    mcp_put(made, "kept_findings", findings);
    const char *const *problems;
    size_t problem_count = td_run_problems(run, &problems);
    mcp_put_problems(made, problems, problem_count);
    td_run_close(run);
    if (status) {
        json_decref(made);
        return NULL;
    }
    return made;
}
