/* /api/runs, /api/run, /api/steps, /api/files: what runs there are, and what one is. */
#include "answers/answer.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_STEPS = 4096, MAX_FILES = 4096, DEEPEST = 8 };
enum { MAX_UNITS = 256, MAX_EVENTS = 2000, MAX_FINDINGS = 200 };

/* ---- All runs ------------------------------------------------------------------------------- */

typedef struct listing {
    td__output *out;
    size_t count;
} listing;

static void put_pair(td__output *out, const char *key, const char *text) {
    td__put_format(out, ",\"%s\":", key);
    td__put_json(out, text ? text : "");
}

static void put_metric(td__output *out, const td__metric_summary *metric) {
    td__put_text(out, "{\"name\":");
    td__put_json(out, metric->name);
    td__put_text(out, ",\"last\":");
    td__put_number(out, metric->last);
    td__put_text(out, ",\"best\":");
    td__put_number(out, metric->best);
    td__put_format(out, ",\"bestStep\":%lld}", (long long)metric->best_step);
}

static void put_about(td__output *out, const td__cached_run *run) {
    const td_run_info *info = &run->info;
    td__put_format(out,
                   ",\"state\":\"%s\",\"events\":%s,\"step\":%lld,\"epoch\":%lld,\"bytes\":%lld,"
                   "\"signalCount\":%zu,\"started\":",
                   td_run_state_name(info->state), info->events ? "true" : "false",
                   (long long)info->last_step, (long long)info->last_epoch, (long long)info->bytes,
                   run->signal_count);
    td__put_number(out, info->started);
    td__put_text(out, ",\"lastRecord\":");
    td__put_number(out, info->last_record);
}

static void put_run(void *user, const td__cached_run *run, bool loading) {
    listing *l = user;
    td__output *out = l->out;
    td__put_format(out, "%s{\"id\":\"%s\",\"name\":", l->count++ ? "," : "", run->id);
    td__put_json(out, run->place);
    bool known = !loading && run->name;
    td__put_format(out, ",\"loading\":%s",
                   known || (!loading && *run->error.text) ? "false" : "true");
    if (!loading && *run->error.text) {
        td__put_text(out, ",\"error\":");
        td__put_json(out, run->error.text);
    }
    if (known) {
        put_about(out, run);
        put_pair(out, "problem", run->problem);
        td__put_text(out, ",\"verdict\":");
        if (run->verdict.size) {
            td__put(out, run->verdict.data, run->verdict.size);
        } else {
            td__put_text(out, "null");
        }
        td__put_text(out, ",\"remarks\":");
        td__put(out, run->remarks.data, run->remarks.size);
        td__put_text(out, ",\"metrics\":[");
        for (size_t i = 0; i < run->metric_count; i++) {
            td__put_text(out, i ? "," : "");
            put_metric(out, &run->metrics[i]);
        }
        td__put_text(out, "],\"spark\":[");
        for (size_t i = 0; i < run->spark_count; i++) {
            td__put_text(out, i ? "," : "");
            td__put_number(out, run->spark[i]);
        }
        td__put_text(out, "]");
    }
    td__put_text(out, "}");
}

td_status td__route_runs(td__call *call, td_error *error) {
    (void)error;
    const char *folder = td__run_cache_folder(call->cache);
    char problem[256];
    td__put_text(call->out, "{\"folder\":");
    td__put_json(call->out, folder ? folder : "");
    td__put_text(call->out, ",\"problem\":");
    td__put_json(call->out, td__run_cache_problem(call->cache, problem));
    td__put_text(call->out, ",\"version\":");
    td__put_json(call->out, td_version());
    td__put_format(call->out, ",\"writable\":%s,\"executes\":%s,\"runs\":[",
                   call->writable ? "true" : "false",
                   call->work && call->work->program ? "true" : "false");
    listing l = {call->out, 0};
    td__run_cache_each(call->cache, put_run, &l);
    td__put_text(call->out, "]}");
    return TD_OK;
}

/* ---- One run -------------------------------------------------------------------------------- */

static void put_note(void *user, const char *key, const char *value) {
    listing *l = user;
    td__put_text(l->out, l->count++ ? "," : "");
    td__put_json(l->out, key);
    td__put_text(l->out, ":");
    td__put_json(l->out, value);
}

static td_status put_notes(td__call *call, td_error *error) {
    static const char *const tables[] = {"run", "environment", "experiment"};
    td_status status = TD_OK;
    td__put_text(call->out, ",\"notes\":{");
    for (size_t i = 0; !status && i < sizeof tables / sizeof *tables; i++) {
        listing l = {call->out, 0};
        td__put_format(call->out, "%s\"%s\":{", i ? "," : "", tables[i]);
        status = td_run_notes(call->run->run, tables[i], put_note, &l, error);
        td__put_text(call->out, "}");
    }
    td__put_text(call->out, "}");
    return status;
}

static void put_signal(td__output *out, const td_run_signal *signal) {
    const td_signal_info *info = signal->info;
    td__put_format(out, "{\"id\":%lld,\"forms\":%u,\"first\":%lld,\"last\":%lld",
                   (long long)signal->id, signal->forms, (long long)signal->first_step,
                   (long long)signal->last_step);
    put_pair(out, "name", signal->name);
    put_pair(out, "kind", td_signal_kind_name(info->kind));
    put_pair(out, "layer", info->layer);
    put_pair(out, "parameter", info->parameter);
    td__put_format(out, ",\"order\":%lld,\"classes\":%lld,\"threshold\":", (long long)info->order,
                   (long long)info->classes);
    td__put_number(out, info->threshold);
    td__put_format(out, ",\"better\":%d,\"units\":[", (int)info->better);
    for (size_t i = 0; i < info->unit_count && i < MAX_UNITS; i++) {
        td__put_text(out, i ? "," : "");
        td__put_json(out, info->units[i] ? info->units[i] : "");
    }
    td__put_text(out, "]}");
}

static td_status put_event(void *user, const td_event *event, td_error *error) {
    listing *l = user;
    if (l->count >= MAX_EVENTS) {
        return td_error_set(error, TD_RANGE, "enough");
    }
    const char *kind = td_event_name(event->kind);
    td__put_format(
        l->out, "%s{\"step\":%lld,\"epoch\":%lld,\"count\":%lld,\"time\":", l->count++ ? "," : "",
        (long long)event->step, (long long)event->epoch, (long long)event->count);
    td__put_number(l->out, event->wall_time);
    put_pair(l->out, "kind", kind);
    put_pair(l->out, "signal", event->signal);
    put_pair(l->out, "text", event->text);
    td__put_text(l->out, "}");
    return TD_OK;
}

static td_status put_finding(void *user, const td_run_finding *finding, td_error *error) {
    listing *l = user;
    if (l->count >= MAX_FINDINGS) {
        return td_error_set(error, TD_RANGE, "enough");
    }
    td__put_format(l->out, "%s{\"unit\":%lld,\"since\":%lld", l->count++ ? "," : "",
                   (long long)finding->unit, (long long)finding->since_step);
    put_pair(l->out, "cause", finding->cause);
    put_pair(l->out, "layer", finding->layer);
    put_pair(l->out, "confidence", finding->confidence);
    put_pair(l->out, "severity", finding->severity);
    put_pair(l->out, "symptoms", finding->symptoms);
    put_pair(l->out, "evidence", finding->evidence);
    put_pair(l->out, "remedy", finding->remedy);
    put_pair(l->out, "origin", finding->origin);
    td__put_text(l->out, "}");
    return TD_OK;
}

/* Writes what the deck did and what is wrong: the first MAX_EVENTS events and MAX_FINDINGS
 * findings. */
static td_status put_events(td__call *call, td_error *error) {
    listing l = {call->out, 0};
    td__put_text(call->out, ",\"events_\":[");
    td_status status = td_run_events(call->run->run, put_event, &l, error);
    td__put_format(call->out, "],\"allEvents\":%s,\"findings\":[", status ? "false" : "true");
    if (!status || status == TD_RANGE) {
        l.count = 0;
        status = td_run_findings(call->run->run, put_finding, &l, error);
    }
    td__put_text(call->out, "]");
    return status == TD_RANGE ? TD_OK : status;
}

td_status td__route_run(td__call *call, td_error *error) {
    td__output *out = call->out;
    size_t count = td_run_signal_count(call->run->run);
    td__put_format(out, "{\"id\":\"%s\",\"name\":", call->run->id);
    td__put_json(out, call->run->place);
    put_about(out, call->run);
    td__put_text(out, ",\"folder\":");
    td__put_json(out, call->run->folder);
    td__put_text(out, ",\"signals\":[");
    for (size_t i = 0; i < count; i++) {
        const td_run_signal *signal = td_run_signal_at(call->run->run, i);
        td__put_text(out, i ? "," : "");
        put_signal(out, signal);
    }
    td__put_text(out, "]");
    td__put_ranks(out, call->run->run);
    td_status status = put_notes(call, error);
    if (!status) {
        status = put_events(call, error);
    }
    const char *const *texts;
    size_t problems = td_run_problems(call->run->run, &texts);
    td__put_text(out, ",\"problems\":[");
    for (size_t i = 0; i < problems; i++) {
        td__put_text(out, i ? "," : "");
        td__put_json(out, texts[i]);
    }
    td__put_text(out, "]}");
    return status;
}

/* ---- When its steps were -------------------------------------------------------------------- */

/* Three arrays: step, epoch, seconds since 1970; evenly over the run, at most `points`. */
td_status td__route_steps(td__call *call, td_error *error) {
    (void)error;
    int64_t points = td__call_number(call, "points", 2, MAX_STEPS, 256);
    td_run_step steps[MAX_STEPS];
    td_run_step first, last;
    size_t count = 0;
    if (td_run_when(call->run->run, INT64_MIN, &first) &&
        td_run_when(call->run->run, INT64_MAX, &last)) {
        double span = (double)last.step - (double)first.step;
        for (int64_t i = 0; i < points; i++) {
            double at = (double)first.step + span * (double)i / (double)(points - 1);
            td_run_step *when = &steps[count];
            bool found =
                td_run_when(call->run->run, i + 1 < points ? (int64_t)at : last.step, when);
            count += found && (count == 0 || when->step > steps[count - 1].step);
        }
    }
    td__output head = {0};
    td__put_format(&head, "{\"count\":%zu}", count);
    td__call_binary(call, &head);
    for (size_t i = 0; i < count; i++) {
        td__put_double(call->out, (double)steps[i].step);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(call->out, (double)steps[i].epoch);
    }
    for (size_t i = 0; i < count; i++) {
        td__put_double(call->out, steps[i].wall_time);
    }
    return TD_OK;
}

/* ---- Its files ------------------------------------------------------------------------------ */

static void put_files(listing *l, int folder, const char *below, int depth) {
    DIR *entries = fdopendir(folder);
    if (!entries) {
        close(folder);
        return;
    }
    const struct dirent *entry;
    while (l->count < MAX_FILES && (entry = readdir(entries))) {
        char path[1024];
        struct stat about;
        int length = snprintf(path, sizeof path, "%s%s%s", below, *below ? "/" : "", entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path ||
            fstatat(folder, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (S_ISDIR(about.st_mode) && depth < DEEPEST) {
            int inner =
                openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (inner >= 0) {
                put_files(l, inner, path, depth + 1);
            }
        } else if (S_ISREG(about.st_mode)) {
            td__put_text(l->out, l->count++ ? ",{\"name\":" : "{\"name\":");
            td__put_json(l->out, path);
            td__put_format(l->out, ",\"bytes\":%lld}", (long long)about.st_size);
        }
    }
    closedir(entries);
}

td_status td__route_files(td__call *call, td_error *error) {
    char path[PATH_MAX];
    td_status status = td_run_files(call->run->run, path, sizeof path, error);
    if (status) {
        return status;
    }
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return td_error_set(error, TD_NOT_FOUND, "the run's folder is gone");
    }
    listing l = {call->out, 0};
    td__put_text(call->out, "{\"files\":[");
    put_files(&l, folder, "", 0);
    td__put_format(call->out, "],\"all\":%s}", l.count < MAX_FILES ? "true" : "false");
    return TD_OK;
}
