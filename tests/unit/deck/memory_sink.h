/* A sink that remembers what it was given, and can be made to stall or to fail. */
#ifndef TAPEDECK_TESTS_MEMORY_SINK_H
#define TAPEDECK_TESTS_MEMORY_SINK_H

#include "test.h"

#include "deck/deck.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct seen {
    char signal[64];
    td_form form, degraded_from;
    int64_t epoch, step, rows, first_sample;
    bool history, labels;
    double value; /* scalar; or the view's first element */
    double second;
    uint64_t hash;
    td_stats stats;
    int32_t bins;
    int64_t bins_total;
    char text[32];
    td_signal_kind kind;
} seen;

enum { MOST_SEEN = 20000 };

/* Written by the writer thread; read by tests after a flush, which orders the two. */
typedef struct memory {
    seen records[MOST_SEEN];
    int64_t count;
    int64_t steps_ended[MOST_SEEN];
    int64_t step_count;
    char events[4096];
    char notes[4096];
    char expected[1024];
    int64_t opens, closes, flushes;
    atomic_bool stalled;
    atomic_int fail; /* td_status that writes return */
    atomic_llong writes;
} memory;

static memory mem;

static td_status memory_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    (void)error;
    mem.opens += options->size == sizeof *options;
    *sink = (td_sink *)&mem;
    return TD_OK;
}

static double element(const td_view *view, int64_t index) {
    return view->dtype == TD_FLOAT32 ? (double)((const float *)view->data)[index]
                                     : ((const double *)view->data)[index];
}

static td_status memory_write(td_sink *sink, const td_record *record, td_error *error) {
    (void)sink;
    atomic_fetch_add(&mem.writes, 1);
    while (atomic_load(&mem.stalled)) {
        usleep(200);
    }
    td_status fail = (td_status)atomic_load(&mem.fail);
    if (fail != TD_OK) {
        return td_error_set(error, fail, "told to fail");
    }
    if (mem.count == MOST_SEEN) {
        return TD_OK;
    }
    seen *s = &mem.records[mem.count++];
    *s = (seen){.form = record->form,
                .degraded_from = record->degraded_from,
                .epoch = record->epoch,
                .step = record->step,
                .history = record->history,
                .value = record->value,
                .hash = record->hash,
                .labels = record->labels != NULL,
                .kind = record->info->kind,
                .first_sample = record->samples ? record->samples[0] : -1};
    (void)snprintf(s->signal, sizeof s->signal, "%s", record->signal);
    if (record->view && record->view->data) {
        s->value = element(record->view, 0);
        s->rows = record->view->shape.rank ? record->view->shape.dims[0] : 1;
        s->second = s->rows > 1 ? element(record->view, 1) : 0;
    }
    if (record->stats) {
        s->stats = *record->stats;
    }
    for (int32_t i = 0; record->histogram && i < record->histogram->bin_count; i++) {
        s->bins++;
        s->bins_total += record->histogram->bins[i].count;
    }
    if (record->text) {
        (void)snprintf(s->text, sizeof s->text, "%s", record->text);
    }
    return TD_OK;
}

static void append(char *to, size_t size, const char *text) {
    size_t used = strlen(to);
    (void)snprintf(to + used, size - used, "%s\n", text);
}

static td_status memory_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)sink, (void)epoch, (void)error;
    if (mem.step_count < MOST_SEEN) {
        mem.steps_ended[mem.step_count++] = step;
    }
    return TD_OK;
}

static td_status memory_event(td_sink *sink, const td_event *event, td_error *error) {
    (void)sink, (void)error;
    char line[600];
    (void)snprintf(line, sizeof line, "%s@%lld: %s", td_event_name(event->kind),
                   (long long)event->step, event->text);
    append(mem.events, sizeof mem.events, line);
    return TD_OK;
}

static td_status memory_note(td_sink *sink, const char *key, const char *value, td_error *error) {
    (void)sink, (void)error;
    append(mem.notes, sizeof mem.notes, key);
    append(mem.notes, sizeof mem.notes, value);
    return TD_OK;
}

static td_status memory_expect(td_sink *sink, const char *signal, uint32_t forms, td_error *error) {
    (void)sink, (void)forms, (void)error;
    append(mem.expected, sizeof mem.expected, signal);
    return TD_OK;
}

static td_status memory_flush(td_sink *sink, td_error *error) {
    (void)sink, (void)error;
    mem.flushes++;
    return TD_OK;
}

static td_status memory_close(td_sink *sink, td_error *error) {
    (void)sink, (void)error;
    mem.closes++;
    return TD_OK;
}

static const td_sink_class memory_class = {
    .size = sizeof(td_sink_class),
    .name = "memory",
    .forms = TD_TENSOR | TD_ROWS | TD_STATS | TD_HISTOGRAM | TD_SCALAR | TD_HASH | TD_TEXT,
    .default_forms = TD_TENSOR,
    .by_default = true,
    .open = memory_open,
    .expect = memory_expect,
    .write = memory_write,
    .end_step = memory_end_step,
    .event = memory_event,
    .note = memory_note,
    .flush = memory_flush,
    .close = memory_close,
};

static char base_folder[64];

/* Each test gets a folder of its own, removed after it. */
static int setup(void **state) {
    (void)state;
    memset(&mem, 0, sizeof mem);
    strcpy(base_folder, "/tmp/tapedeck-XXXXXX");
    return mkdtemp(base_folder) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", base_folder);
    return system(command);
}

static const char *run_folder(void) {
    static char path[96];
    (void)snprintf(path, sizeof path, "%s/run", base_folder);
    return path;
}

static td_deck *open_deck(td_deck_options options) {
    static const td_sink_class *const sinks[] = {&memory_class, NULL};
    td_error error = {0};
    options.size = sizeof options;
    td_deck *deck = td__deck_open(run_folder(), &options, sinks, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    return deck;
}

static void close_deck(td_deck *deck) {
    td_error error = {0};
    assert_ok(td_deck_close(deck, &error), error);
}

static td_view floats(const float *data, int64_t count) {
    return (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(count), .data = data};
}

static td_deck_counters counters_of(td_deck *deck) {
    td_deck_counters counters = {.size = sizeof counters};
    td_deck_count(deck, &counters);
    assert_int_equal(counters.submitted, counters.written + counters.dropped + counters.pending);
    return counters;
}

#endif
