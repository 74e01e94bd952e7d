/* run.db: the run's index, which can be read while it is written. The store does the work. */
#include "base/file.h"
#include "base/memory.h"
#include "sink/classes.h"
#include "sink/resume.h"
#include "store/upload.h"
#include "store/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The database and its log. */
enum { FILES = 2 };
static const char *const file_names[FILES] = {"run.db", "run.db-wal"};

struct td_sink {
    td__writer writer;
    int folder;
    struct stat files[FILES]; /* as they were opened */
    int generation;           /* of the store, when they were looked at */
    int64_t taken;            /* records */
    int64_t committed;        /* of those */
    int64_t *held;            /* the others; see td_sink_options */
    int64_t own_count;
    char state[16];     /* the run's, as last noted */
    td__upload *upload; /* sends to a database what has been committed; NULL: none */
    void (*report)(void *listener, const td_error *problem);
    void *listener;
};

static td_status look_at_files(td_sink *sink, td_error *error) {
    for (int i = 0; i < FILES; i++) {
        if (fstatat(sink->folder, file_names[i], &sink->files[i], AT_SYMLINK_NOFOLLOW) != 0) {
            return td__file_error(error, file_names[i], "open");
        }
    }
    sink->generation = sink->writer.batch.store->generation;
    return TD_OK;
}

/* A deleted file still accepts writes, but no reader can open it. */
static td_status check_files(td_sink *sink, td_error *error) {
    struct stat now;
    if (sink->generation != sink->writer.batch.store->generation) {
        return look_at_files(sink, error);
    }
    for (int i = 0; i < FILES; i++) {
        const struct stat *then = &sink->files[i];
        if (fstatat(sink->folder, file_names[i], &now, AT_SYMLINK_NOFOLLOW) != 0 ||
            now.st_dev != then->st_dev || now.st_ino != then->st_ino) {
            return td_error_set(error, TD_IO,
                                "%s was removed or replaced while the run was being recorded: "
                                "what was written since is lost",
                                file_names[i]);
        }
    }
    return TD_OK;
}

/* After whatever may have committed: everything or nothing. */
static td_status update_held_records(td_sink *sink, td_status status, td_error *error) {
    bool all = sink->writer.batch.rows == 0 && !sink->writer.batch.more;
    if (all && sink->committed != sink->taken) {
        td_status lost = check_files(sink, error);
        sink->committed = lost ? 0 : sink->taken;
        status = lost ? lost : status;
    }
    *sink->held = sink->taken - sink->committed;
    return status;
}

static td_status sqlite_write(td_sink *sink, const td_record *record, td_error *error) {
    td_status status = td__writer_record(&sink->writer, record, error);
    sink->taken += !status;
    return update_held_records(sink, status, error);
}

static void say_problem(td_sink *sink, const td_error *problem) {
    if (sink->report) {
        sink->report(sink->listener, problem);
    }
}

static td_status sqlite_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    td_error problem = {0};
    if (sink->upload && td__upload_problem(sink->upload, &problem)) {
        say_problem(sink, &problem);
    }
    return update_held_records(sink, td__batch_commit_if_old(&sink->writer.batch, error), error);
}

static td_status sqlite_event(td_sink *sink, const td_event *event, td_error *error) {
    return td__writer_event(&sink->writer, event, error);
}

static td_status sqlite_note(td_sink *sink, const char *key, const char *value, td_error *error) {
    if (strcmp(key, "state") == 0) {
        (void)snprintf(sink->state, sizeof sink->state, "%s", value);
    }
    return td__writer_note(&sink->writer, key, value, error);
}

static td_status sqlite_flush(td_sink *sink, td_error *error) {
    td_status status = update_held_records(sink, td__batch_sync(&sink->writer.batch, error), error);
    td_error lost;
    if (check_files(sink, &lost) == TD_OK) {
        return status;
    }
    sink->committed = 0;
    *sink->held = sink->taken;
    return td_error_set(error, TD_IO, "%s", lost.text);
}

/* Sends the rest to the database: from run.db, which is closed. */
static void finish_upload(td_sink *sink) {
    enum { DEFAULT_SECONDS = 30 };
    const char *given = getenv("TAPEDECK_STORE_WAIT");
    td_error reason = {0}, problem = {0};
    if (!td__upload_finish(sink->upload, given ? strtod(given, NULL) : DEFAULT_SECONDS, &reason)) {
        (void)td_error_set(
            &problem, reason.status,
            "the end of the run is not in the database: %s. The folder has all of it: "
            "`tapedeck push` sends the rest",
            reason.text);
        say_problem(sink, &problem);
    }
}

static void release_sqlite_sink(td_sink *sink) {
    if (sink->upload) {
        td__upload_pause(sink->upload);
    }
    td__writer_release(&sink->writer); /* its paths lead through the folder, which is closed last */
    finish_upload(sink);
    if (sink->folder >= 0) {
        close(sink->folder);
    }
    td__free(sink);
}

/* On a disk that is full: how the run ended, and that records are lost, in place of all that waits, with
 * the room that was reserved for it. */
static void note_state_alone(td_sink *sink) {
    td__file_unreserve(sink->folder, file_names[0]);
    td__batch_discard(&sink->writer.batch);
    td_event lost = {.kind = TD_EVENT_DROP,
                     .count = *sink->held,
                     .text = "run.db could not be written to its end"};
    if (td__writer_note(&sink->writer, "state", sink->state, NULL) == TD_OK &&
        td__writer_event(&sink->writer, &lost, NULL) == TD_OK) {
        (void)td__batch_sync(&sink->writer.batch, NULL);
    }
}

static td_status sqlite_close(td_sink *sink, td_error *error) {
    td_status status = sqlite_flush(sink, error);
    if (status && *sink->state) {
        note_state_alone(sink);
    }
    release_sqlite_sink(sink);
    return status;
}

static td_status forget_records(void *store, const char *file, int64_t count, td_error *error) {
    return ((td__store *)store)->class->forget(store, file, count, error);
}

static td_status open_writer(td_sink *sink, const td_sink_options *options, td_error *error) {
    td__store *store = NULL;
    int64_t resume = options->resume;
    char path[TD__FOLDER_PATH];
    const char *folder = td__folder_follow(sink->folder, path) ? path : options->folder;
    td_status status = resume ? td__store_open(folder, &store, error) : TD_NOT_FOUND;
    if (status == TD_NOT_FOUND) {
        resume = 0;
        status = td__store_create(folder, &store, error);
    }
    if (!status && resume) { /* arrays were cut to what they had at the checkpoint */
        status = td__resume_records(sink->folder, forget_records, store, error);
        if (status) {
            td__store_close(store);
        }
    }
    status = status ? status : td__writer_init(&sink->writer, store, resume, error);
    status = status ? status : sqlite_note(sink, "name", options->run ? options->run : "", error);
    status = status ? status : sqlite_note(sink, "version", td_version(), error);
    status = status ? status : td__batch_commit(&sink->writer.batch, error);
    sink->report = options->report;
    sink->listener = options->listener;
    if (!status && options->store) {
        status = td__upload_start(store, options->store, folder, options->run ? options->run : "",
                                  &sink->upload, error);
    }
    return status ? status : look_at_files(sink, error);
}

static td_status sqlite_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "run.db: out of memory");
    }
    opened->held = options->held ? options->held : &opened->own_count;
    opened->folder = td__folder_open(options->folder, error);
    td_status status = opened->folder < 0 ? TD_IO : open_writer(opened, options, error);
    if (status) {
        release_sqlite_sink(opened);
        return status;
    }
    *sink = opened;
    return TD_OK;
}

#define INDEXED (TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_TENSOR | TD_IMAGE | TD_HASH | TD_TEXT)

static int64_t sqlite_estimate(td_form form, int64_t rows, int64_t elements) {
    (void)rows;
    enum { ROW = 40, STATS_ROW = 120, HISTOGRAM = 600 };
    return form == TD_ROWS        ? elements * ROW
           : form == TD_HISTOGRAM ? STATS_ROW + HISTOGRAM
           : form == TD_SCALAR    ? ROW
                                  : STATS_ROW;
}

const td_sink_class td__sink_sqlite = {
    .size = sizeof(td_sink_class),
    .name = "sqlite",
    .forms = INDEXED | TD_ROWS,
    .default_forms = TD_STATS | TD_ROWS,
    .always = INDEXED,
    .open = sqlite_open,
    .write = sqlite_write,
    .end_step = sqlite_end_step,
    .event = sqlite_event,
    .note = sqlite_note,
    .flush = sqlite_flush,
    .close = sqlite_close,
    .files = "run.db",
    .estimate = sqlite_estimate,
};
