/* /api/runs, /api/run, /api/steps, /api/files: what runs there are, and what one is. */
#include "view/answer.h"
#include "view/kinds.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_STEPS = 4096, MOST_FILES = 4096, DEEPEST = 8 };

/* ---- All runs ------------------------------------------------------------------------------- */

typedef struct listing {
    td__output *out;
    size_t count;
} listing;

static void put_metric(td__output *out, const td__summary *metric) {
    const td_extremes *e = &metric->values;
    td__put_text(out, "{\"name\":");
    td__put_json(out, metric->name);
    td__put_text(out, ",\"last\":");
    td__put_number(out, e->last);
    td__put_text(out, ",\"best\":");
    td__put_number(out, metric->larger ? e->greatest : e->least);
    td__put_format(out, ",\"bestStep\":%lld,\"larger\":%s}",
                   (long long)(metric->larger ? e->greatest_step : e->least_step),
                   metric->larger ? "true" : "false");
}

static void put_about(td__output *out, const td__shelf_run *run) {
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

static void put_run(void *user, const td__shelf_run *run, bool loading) {
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
    const char *folder = td__shelf_folder(call->shelf);
    char problem[256];
    td__put_text(call->out, "{\"folder\":");
    td__put_json(call->out, folder ? folder : "");
    td__put_text(call->out, ",\"problem\":");
    td__put_json(call->out, td__shelf_problem(call->shelf, problem));
    td__put_text(call->out, ",\"version\":");
    td__put_json(call->out, td_version());
    td__put_text(call->out, ",\"runs\":[");
    listing l = {call->out, 0};
    td__shelf_each(call->shelf, put_run, &l);
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

static void put_part(td__output *out, const char *key, const char *text, int length) {
    char copy[256];
    size_t size = (size_t)length < sizeof copy ? (size_t)length : sizeof copy - 1;
    memcpy(copy, text, size);
    copy[size] = 0;
    td__put_format(out, ",\"%s\":", key);
    td__put_json(out, copy);
}

static void put_signal(td__output *out, const td_run_signal *signal) {
    td__kind kind = td__kind_of(signal);
    td__put_format(out, "{\"id\":%lld,\"forms\":%u,\"first\":%lld,\"last\":%lld,\"kind\":\"%s\"",
                   (long long)signal->id, signal->forms, (long long)signal->first_step,
                   (long long)signal->last_step, kind.kind);
    td__put_text(out, ",\"name\":");
    td__put_json(out, signal->name);
    put_part(out, "layer", kind.layer, kind.layer_length);
    put_part(out, "parameter", kind.parameter, kind.parameter_length);
    td__put_text(out, td__larger_is_better(signal) ? ",\"larger\":true}" : "}");
}

td_status td__route_run(td__call *call, td_error *error) {
    td__output *out = call->out;
    const td_run_signal *signals;
    size_t count = td_run_signals(call->run->run, &signals);
    td__put_format(out, "{\"id\":\"%s\",\"name\":", call->run->id);
    td__put_json(out, call->run->place);
    put_about(out, call->run);
    td__put_text(out, ",\"folder\":");
    td__put_json(out, call->run->folder);
    td__put_text(out, ",\"signals\":[");
    for (size_t i = 0; i < count; i++) {
        td__put_text(out, i ? "," : "");
        put_signal(out, &signals[i]);
    }
    td__put_text(out, "]");
    td_status status = put_notes(call, error);
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
    int64_t points = td__call_number(call, "points", 2, MOST_STEPS, 256);
    td_run_step steps[MOST_STEPS];
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
    while (l->count < MOST_FILES && (entry = readdir(entries))) {
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
    int folder = open(call->run->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return td_error_set(error, TD_NOT_FOUND, "the run's folder is gone");
    }
    listing l = {call->out, 0};
    td__put_text(call->out, "{\"files\":[");
    put_files(&l, folder, "", 0);
    td__put_format(call->out, "],\"all\":%s}", l.count < MOST_FILES ? "true" : "false");
    return TD_OK;
}
