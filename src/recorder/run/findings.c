/* The deck's events of a run, and the findings of its diagnosis. */
#include "base/url.h"
#include "run/ranks.h"
#include "run/run.h"
#include "store/writer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static td_event_kind kind_of(const char *name) {
    td_event_kind kind = (td_event_kind)0;
    while (td_event_name(kind) && strcmp(td_event_name(kind), name) != 0) {
        kind = (td_event_kind)(kind + 1);
    }
    return kind;
}

td_status td_run_events(td_run *run, td_event_function *each, void *user, td_error *error) {
    td__rows *rows = td__run_select_all(run, TD__EVENTS);
    td_status status = TD_OK;
    while (!status && td__run_next(run, rows)) {
        td_event event = {.kind = kind_of(td__run_text(rows, 0)),
                          .epoch = td__rows_integer(rows, 1),
                          .step = td__rows_integer(rows, 2),
                          .wall_time = td__rows_real(rows, 3),
                          .count = td__rows_integer(rows, 4),
                          .signal = td__rows_text(rows, 5, NULL),
                          .text = td__run_text(rows, 6)};
        if (!td_event_name(event.kind)) {
            td__run_problem(&run->problems,
                            "run.db has events '%s', which this program does not "
                            "know",
                            td__run_text(rows, 0));
            continue;
        }
        status = each(user, &event, error);
    }
    td__rows_end(rows);
    return status;
}

td_status td_run_findings(td_run *run, td_run_finding_function *each, void *user, td_error *error) {
    td__rows *rows = td__run_select_all(run, TD__FINDINGS);
    td_status status = TD_OK;
    while (!status && td__run_next(run, rows)) {
        td_run_finding finding = {.cause = td__rows_text(rows, 0, NULL),
                                  .layer = td__rows_text(rows, 1, NULL),
                                  .unit =
                                      td__rows_text(rows, 2, NULL) ? td__rows_integer(rows, 2) : -1,
                                  .since_step = td__rows_integer(rows, 3),
                                  .confidence = td__rows_text(rows, 4, NULL),
                                  .severity = td__rows_text(rows, 5, NULL),
                                  .symptoms = td__rows_text(rows, 6, NULL),
                                  .evidence = td__rows_text(rows, 7, NULL),
                                  .remedy = td__rows_text(rows, 8, NULL),
                                  .origin = td__rows_text(rows, 9, NULL)};
        status = each(user, &finding, error);
    }
    td__rows_end(rows);
    return status;
}

/* Opens the store of a run and a writer on it; a run of several ranks keeps its findings with its first one. */
static td_status open_writer(const char *folder, td__writer *writer, td_error *error) {
    td__store *store = NULL;
    char first[4096];
    (void)snprintf(first, sizeof first, "%s/rank-00000", folder);
    td_status status = td__store_open(td__ranks_are_in(folder) ? first : folder, &store, error);
    return status ? status : td__writer_init(writer, store, 0, error);
}

td_status td_run_write_note(const char *folder, const char *key, const char *value,
                            td_error *error) {
    if (td__url_is(folder)) {
        return td__pg_remark(folder, key, value, error);
    }
    td__writer writer;
    td_status status = open_writer(folder, &writer, error);
    if (status) {
        return status;
    }
    status = td__writer_note(&writer, key, value, error);
    status = status ? status : td__batch_sync(&writer.batch, error);
    td__writer_release(&writer);
    return status;
}

td_status td_run_write_findings(const char *folder, const td_run_finding *findings, size_t count,
                                td_error *error) {
    td__writer writer;
    td_status status = open_writer(folder, &writer, error);
    if (status) {
        return status;
    }
    status = td__batch_clear(&writer.batch, TD__FINDING_ROW, error);
    for (size_t i = 0; i < count && !status; i++) {
        status = td__writer_finding(&writer, &findings[i], error);
    }
    char when[32];
    time_t now = time(NULL);
    struct tm calendar;
    if (!gmtime_r(&now, &calendar) ||
        !strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &calendar)) {
        when[0] = 0;
    }
    status = status ? status : td__writer_note(&writer, "diagnosed", when, error);
    status = status ? status : td__batch_sync(&writer.batch, error);
    td__writer_release(&writer);
    return status;
}
