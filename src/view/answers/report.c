/* Reports: the page with the answers to what it will ask, in one file.
 *
 * An answer is what a browser would have got, compressed on its own and written as base64, so that
 * the page unpacks only what it shows. The most useful answers come
 * first, until the file is full; the page shows how many answers were left out. */
#include "tapedeck/view.h"

#include "answers/answer.h"
#include "answers/page.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const size_t max_bytes = (size_t)4500 << 10; /* of all answers */
enum { MAX_STEPS = 6, TARGET = 256, MAX_COMPARED = 4 };

typedef struct report {
    td__run_cache *cache;
    td__output out;
    size_t answers, left_out, budget;
    td_error unread; /* the first thing that is there and could not be read */
} report;

/* Keeps the first read error. A missing answer is not an error. */
static void note_unread(report *r, const char *run, td_status status, const char *text) {
    if (!r->unread.status && (status == TD_IO || status == TD_FORMAT)) {
        td_error_set(&r->unread, status, "%s%s%s", run ? run : "", run ? ": " : "", text);
    }
}

static void note_problems(void *user, const td__cached_run *run, bool loading) {
    const char *const *texts;
    if (!loading && run->error.status) {
        note_unread(user, NULL, TD_IO, run->error.text);
    } else if (!loading && run->run && td_run_problems(run->run, &texts) > 0) {
        note_unread(user, run->place, TD_IO, texts[0]);
    }
}

/* Adds the answer to `target` under its key. A request without an answer is skipped: the page does
 * not send it either. */
static td_status keep_answer(report *r, const char *key, const char *target, td_error *error) {
    td__output plain = {0}, packed = {0};
    td_error reason = {0};
    td_status status = td__answer_route(r->cache, target, &plain, &reason);
    if (!status && plain.size && !td__output_gzip(&plain, 6, &packed)) {
        status = td_error_set(error, TD_MEMORY, "out of memory for a report");
    } else if (status) {
        note_unread(r, NULL, status, reason.text);
        status = TD_OK;
    } else if (packed.size / 3 * 4 > r->budget) {
        r->left_out++;
    } else {
        r->budget -= packed.size / 3 * 4;
        td__put_text(&r->out, r->answers++ ? ",\n" : "");
        td__put_json(&r->out, key);
        td__put_text(&r->out, ":\"");
        char *text = td__base64_encode(packed.data, packed.size);
        r->out.failed |= !text;
        td__put_text(&r->out, text ? text : "");
        td__free(text);
        td__put_text(&r->out, "\"");
    }
    td__output_release(&plain);
    td__output_release(&packed);
    return status;
}

/* The requests for each signal, the most useful first. */
static const struct wish {
    uint32_t forms;
    const char *key, *more; /* the page requests `key`; the report requests key + more */
    bool steps;             /* at several of them */
} wishes[] = {
    {TD_SCALAR, "/api/series?run=%s&signals=%lld&stat=", "&points=768", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=norm", "&points=512", false},
    {TD_ROWS, "/api/examples?run=%s&signal=%lld", "", false},
    {TD_HISTOGRAM, "/api/histograms?run=%s&signal=%lld", "&bins=1&most=40", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=mean", "&points=256", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=std", "&points=256", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=max", "&points=256", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=min", "&points=256", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=zeros", "&points=256", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=nan", "&points=64", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=inf", "&points=64", false},
    {TD_STATS, "/api/series?run=%s&signals=%lld&stat=count", "&points=64", false},
    {TD_TENSOR, "/api/units?run=%s&signal=%lld", "", false},
    {TD_TENSOR, "/api/tensor?run=%s&signal=%lld&at=sheet", "", true},
    {TD_IMAGE, "/api/image?run=%s&signal=%lld", "", true},
    {TD_TEXT, "/api/texts?run=%s&signal=%lld", "", false},
};

static td_status keep_wish(report *r, const struct wish *wish, const char *id,
                           const td_run_signal *signal, td_error *error) {
    char key[TARGET], target[TARGET + 64], stepped[TARGET + 32];
    td_status status = TD_OK;
    int made = snprintf(key, sizeof key, wish->key, id, (long long)signal->id); // NOLINT: a table's
    if (made < 0 || (size_t)made >= sizeof key) {
        return td_error_set(error, TD_RANGE, "a signal's number is too long");
    }
    if (!wish->steps) {
        (void)snprintf(target, sizeof target, "%s%s", key, wish->more);
        return keep_answer(r, key, target, error);
    }
    for (int64_t i = 0; !status && i < MAX_STEPS; i++) { /* the last one first */
        double span = (double)signal->last_step - (double)signal->first_step;
        int64_t step = signal->last_step - (int64_t)(span * (double)i / (MAX_STEPS - 1));
        (void)snprintf(stepped, sizeof stepped, "%s&step=%lld", key, (long long)step);
        status = keep_answer(r, stepped, stepped, error);
    }
    return status;
}

static td_status keep_run(report *r, const char *id, td_error *error) {
    static const char *const about[] = {"/api/run?run=%s", "/api/steps?run=%s",
                                        "/api/files?run=%s"};
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < sizeof about / sizeof *about; i++) {
        char target[TARGET];
        (void)snprintf(target, sizeof target, about[i], id); // NOLINT: a table's
        status = keep_answer(r, target, target, error);
    }
    td__cached_run *run = status ? NULL : td__cached_run_acquire(r->cache, id, error);
    if (!run) {
        return status ? status : error->status;
    }
    size_t count = td_run_signal_count(run->run);
    td__cached_run_release(run); /* nobody else is there: the signals stay */
    for (size_t k = 0; !status && k < sizeof wishes / sizeof *wishes; k++) {
        for (size_t i = 0; !status && i < count; i++) {
            const td_run_signal *signal = td_run_signal_at(run->run, i);
            if (signal->forms & wishes[k].forms) {
                status = keep_wish(r, &wishes[k], id, signal, error);
            }
        }
    }
    return status;
}

static td_status keep_comparison(report *r, const char *a, const char *b, td_error *error) {
    char target[TARGET];
    (void)snprintf(target, sizeof target, "/api/compare?run=%s&other=%s", a, b);
    return keep_answer(r, target, target, error);
}

typedef struct ids {
    char (*ids)[TD__ID_SIZE];
    size_t count;
} ids;

static void keep_id(void *user, const td__cached_run *run, bool loading) {
    (void)loading;
    ids *list = user;
    memcpy(list->ids[list->count++], run->id, TD__ID_SIZE);
}

/* Opens each run, so that the list of runs is complete. */
static td_status open_runs(report *r, ids *list, td_error *error) {
    td__run_cache_each(r->cache, keep_id, list);
    for (size_t i = 0; i < list->count; i++) {
        td__cached_run *run = td__cached_run_acquire(r->cache, list->ids[i], error);
        td_status status = run ? td__cached_run_read(run, error) : error->status;
        if (run) {
            td__cached_run_release(run);
        }
        if (status) {
            return status;
        }
    }
    return TD_OK;
}

/* The page's parts, in place of the links to them. */
static bool put_page(report *r, const td__output *answers) {
    static const struct {
        const char *link, *before, *path, *after;
    } parts[] = {
        {"<link rel=\"stylesheet\" href=\"app.css\">", "<style>\n", "/app.css", "</style>"},
        {"<script src=\"app.js\" defer></script>", "<script type=\"module\">\n", "/app.js",
         "</script>"},
    };
    td__output page = {0};
    bool good = td__page_text(td__page_find("/"), &page);
    td__put(&page, "", 1);
    const char *rest = (const char *)page.data;
    for (size_t i = 0; good && i < sizeof parts / sizeof *parts; i++) {
        const char *at = strstr(rest, parts[i].link);
        good = at != NULL;
        if (good) {
            td__put(&r->out, rest, (size_t)(at - rest));
            td__put_text(&r->out, parts[i].before);
            good = td__page_text(td__page_find(parts[i].path), &r->out);
            td__put_text(&r->out, parts[i].after);
            rest = at + strlen(parts[i].link);
        }
    }
    if (good) {
        td__put_text(&r->out, "<script type=\"application/json\" id=\"report\">");
        td__put(&r->out, answers->data, answers->size);
        td__put_text(&r->out, "</script>");
        td__put_text(&r->out, rest);
    }
    td__output_release(&page);
    return good && !r->out.failed;
}

static td_status fill_report(report *r, size_t count, const char *view, td_error *error) {
    ids list = {td__calloc(count, TD__ID_SIZE), 0};
    td_status status = list.ids ? open_runs(r, &list, error)
                                : td_error_set(error, TD_MEMORY, "out of memory for a report");
    td__put_text(&r->out, "{\"answers\":{");
    if (!status) {
        status = keep_answer(r, "/api/runs", "/api/runs", error);
    }
    if (!status) { /* what runs are compared by */
        r->budget += (size_t)1 << 20;
        status = keep_answer(r, "/api/settings", "/api/settings", error);
    }
    for (size_t i = 0; !status && list.count <= MAX_COMPARED && i < list.count * list.count; i++) {
        size_t a = i / list.count, b = i % list.count;
        status = a == b ? TD_OK : keep_comparison(r, list.ids[a], list.ids[b], error);
    }
    for (size_t i = 0; !status && i < list.count; i++) {
        r->budget += max_bytes / list.count;
        status = keep_run(r, list.ids[i], error);
    }
    td__put_format(&r->out, "},\"leftOut\":%zu,\"view\":", r->left_out);
    td__put_json(&r->out, view ? view : "");
    td__put_text(&r->out, "}");
    td__output answers = r->out;
    r->out = (td__output){0};
    if (!status && (answers.failed || !put_page(r, &answers))) {
        status = td_error_set(error, TD_MEMORY, "out of memory for a report");
    }
    td__output_release(&answers);
    td__free(list.ids);
    return status;
}

td_status td_report(const char *const *runs, size_t count, const char *path, td_error *error) {
    return td_report_view(runs, count, path, NULL, error);
}

td_status td_report_view(const char *const *runs, size_t count, const char *path, const char *view,
                         td_error *error) {
    td_error reason = {0};
    const char *name;
    report r = {.budget = (size_t)1 << 18}; /* for the descriptions of the runs */
    r.cache = td__run_cache_create_of(runs, count, &reason);
    td_status status = r.cache ? fill_report(&r, count, view, &reason) : reason.status;
    int folder = status ? -1 : td__folder_of(path, &name, &reason);
    if (!status && folder < 0) {
        status = reason.status;
    }
    if (!status) {
        status = td__file_publish(folder, name, r.out.data, r.out.size, false, &reason);
    }
    if (folder >= 0) {
        close(folder);
    }
    if (!status) {
        td__run_cache_each(r.cache, note_problems, &r);
    }
    if (!status && r.unread.status) {
        status =
            td_error_set(&reason, TD_INCOMPLETE,
                         "%s is written, without what could not be read: %s", path, r.unread.text);
    }
    td__output_release(&r.out);
    td__run_cache_destroy(r.cache);
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
