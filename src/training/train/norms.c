/* The norms of layer errors over time, for the page at the end of training; and the first error of
 * another sink, so that it is reported when it happens.
 *
 * A sink that the deck hands every statistic it records anyway: it costs the training thread
 * nothing. Each signal keeps at most POINTS points; when they are full, every second one goes and
 * from then on only every second record is kept. Written by the writer thread until the deck is
 * closed, read afterwards. */
#include "train/norms.h"

#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 1024, MOST_SIGNALS = 4096 };

typedef struct history {
    char *signal, *layer;
    int64_t steps[POINTS];
    double norms[POINTS];
    size_t count;
    int64_t stride, seen;
} history;

struct td__norms {
    td_sink_class class; /* norms_class, with this as its user */
    const td_sink_class *classes[2];
    history **histories; /* in the order of their first record */
    size_t count, capacity;
    int32_t *by_signal; /* the deck's signal index -> history + 1; -1: not an error */
    size_t signal_count;
    td_norm_history *history;
    char problem[TD_ERROR_TEXT_SIZE + 64]; /* written once, before has_problem is set */
    atomic_bool has_problem;
};

struct td_sink {
    td__norms *norms;
};

td__norms *td__norms_create(void) {
    return td__calloc(1, sizeof(td__norms));
}

void td__norms_destroy(td__norms *norms) {
    if (!norms) {
        return;
    }
    for (size_t i = 0; i < norms->count; i++) {
        td__free(norms->histories[i]->signal);
        td__free(norms->histories[i]->layer);
        td__free(norms->histories[i]);
    }
    td__free(norms->histories);
    td__free(norms->by_signal);
    td__free(norms->history);
    td__free(norms);
}

/* The history of a signal; NULL when it keeps none, or memory is exhausted. */
static history *find_history(td__norms *norms, const td_record *record) {
    size_t index = (size_t)record->signal_index;
    size_t known = norms->signal_count;
    if (index >= known) {
        if (!td__grow(&norms->by_signal, &norms->signal_count, index + 1, 1u << 24,
                      sizeof *norms->by_signal)) {
            return NULL;
        }
        memset(norms->by_signal + known, 0,
               (norms->signal_count - known) * sizeof *norms->by_signal);
    }
    if (norms->by_signal[index] > 0) {
        return norms->histories[norms->by_signal[index] - 1];
    }
    if (norms->by_signal[index] < 0 || record->info->kind != TD_SIGNAL_ERROR) {
        norms->by_signal[index] = -1;
        return NULL;
    }
    history *made = td__calloc(1, sizeof *made);
    char *name = td__strdup(record->signal), *layer = td__strdup(record->info->layer);
    if (!made || !name || !layer ||
        !td__grow(&norms->histories, &norms->capacity, norms->count + 1, MOST_SIGNALS,
                  sizeof *norms->histories)) {
        td__free(made);
        td__free(name);
        td__free(layer);
        return NULL;
    }
    made->signal = name;
    made->layer = layer;
    made->stride = 1;
    norms->histories[norms->count++] = made;
    norms->by_signal[index] = (int32_t)norms->count;
    return made;
}

static void keep_norm(history *h, int64_t step, double norm) {
    if (h->seen++ % h->stride != 0) {
        return;
    }
    if (h->count == POINTS) {
        for (size_t i = 0; i < POINTS / 2; i++) {
            h->steps[i] = h->steps[2 * i];
            h->norms[i] = h->norms[2 * i];
        }
        h->count = POINTS / 2;
        h->stride *= 2;
    }
    h->steps[h->count] = step;
    h->norms[h->count++] = norm;
}

static td_status norms_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    *sink = td__calloc(1, sizeof **sink);
    if (!*sink) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (*sink)->norms = options->user;
    return TD_OK;
}

static td_status norms_write(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    if (!record->stats || record->history) {
        return TD_OK;
    }
    history *h = find_history(sink->norms, record);
    if (h && (h->count == 0 || h->steps[h->count - 1] < record->step)) {
        keep_norm(h, record->step, record->stats->norm);
    }
    return TD_OK;
}

static td_status norms_event(td_sink *sink, const td_event *event, td_error *error) {
    (void)error;
    td__norms *norms = sink->norms;
    if (event->kind == TD_EVENT_SINK_ERROR &&
        !atomic_load_explicit(&norms->has_problem, memory_order_relaxed)) {
        (void)snprintf(norms->problem, sizeof norms->problem, "%s", event->text);
        /* Release: who sees it set sees the text. */
        atomic_store_explicit(&norms->has_problem, true, memory_order_release);
    }
    return TD_OK;
}

const char *td__norms_problem(const td__norms *norms) {
    return norms && atomic_load_explicit(&norms->has_problem, memory_order_acquire) ? norms->problem
                                                                                    : NULL;
}

static td_status norms_flush(td_sink *sink, td_error *error) {
    (void)sink;
    (void)error;
    return TD_OK;
}

static td_status norms_close(td_sink *sink, td_error *error) {
    (void)error;
    td__free(sink);
    return TD_OK;
}

static const td_sink_class norms_class = {
    .size = sizeof(td_sink_class),
    .name = "norms",
    .forms = TD_STATS | TD_HISTOGRAM,
    .always = TD_STATS | TD_HISTOGRAM,
    .open = norms_open,
    .write = norms_write,
    .event = norms_event,
    .flush = norms_flush,
    .close = norms_close,
};

td_deck *td__norms_open_deck(td__norms *norms, const char *folder, const td_deck_options *options,
                             td_error *error) {
    td_deck_options with = *options;
    norms->class = norms_class;
    norms->class.user = norms;
    norms->classes[0] = &norms->class;
    with.sinks = norms->classes;
    return td_deck_open_with(folder, &with, error);
}

size_t td__norms_histories(td__norms *norms, const td_model *model,
                           const td_norm_history **histories) {
    size_t count = 0;
    td__free(norms->history);
    norms->history = td__calloc(norms->count + 1, sizeof *norms->history);
    for (size_t layer = 0; norms->history && layer < td_model_layer_count(model); layer++) {
        for (size_t i = 0; i < norms->count; i++) {
            const history *h = norms->histories[i];
            if (strcmp(h->layer, td_model_layer(model, layer)->name) == 0) {
                norms->history[count++] =
                    (td_norm_history){h->signal, h->count, h->steps, h->norms, h->layer};
            }
        }
    }
    *histories = norms->history;
    return count;
}
