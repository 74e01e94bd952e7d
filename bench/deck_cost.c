/* What recording costs the training thread: a scalar, a question, and the tensors of a small
 * convolutional network (20 of them, 20 MB a step) in several forms.
 *
 * The sink takes everything and writes nothing, so that only the deck itself is measured. Tensors
 * are read as a training step leaves them: the larger ones have gone from the cache. */
#include "deck/deck.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static td_status null_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    (void)options, (void)error;
    static int nothing;
    *sink = (td_sink *)&nothing;
    return TD_OK;
}
static td_status null_write(td_sink *sink, const td_record *record, td_error *error) {
    (void)sink, (void)record, (void)error;
    return TD_OK;
}
static td_status null_flush(td_sink *sink, td_error *error) {
    (void)sink, (void)error;
    return TD_OK;
}

static const td_sink_class null_class = {
    .size = sizeof(td_sink_class),
    .name = "null",
    .forms = UINT16_MAX,
    .default_forms = TD_TENSOR,
    .by_default = true,
    .open = null_open,
    .write = null_write,
    .flush = null_flush,
    .close = null_flush,
};

static td_deck *open_deck(const char *folder) {
    static const td_sink_class *const sinks[] = {&null_class, NULL};
    td_error error = {0};
    td_deck *deck = td__deck_open(folder, NULL, sinks, &error);
    if (!deck) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return deck;
}

static void close_deck(td_deck *deck) {
    (void)td__folder_remove(td_deck_folder(deck));
    td_error error = {0};
    if (td_deck_close(deck, &error) != TD_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

/* Many short rounds: the median is what it costs, the best what it costs when nobody disturbs. */
enum { ROUNDS = 200 };
typedef struct timing {
    double nanoseconds[ROUNDS];
} timing;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, timing *t) {
    qsort(t->nanoseconds, ROUNDS, sizeof t->nanoseconds[0], ascending);
    printf("%-44s %8.1f ns, best %.1f\n", what, t->nanoseconds[ROUNDS / 2], t->nanoseconds[0]);
}

static void small_calls(const char *folder) {
    enum { STEPS = 100, SCALARS = 10, QUESTIONS = 10000 };
    td_deck *deck = open_deck(folder);
    td_deck_track(deck, .what = "loss");
    td_deck_track(deck, .what = "rare", .every = 1000000000);
    td_signal *loss = td_deck_signal(deck, "loss"), *rare = td_deck_signal(deck, "rare");
    static timing handle, named, step, signal_wants, deck_wants;
    int64_t wanted = 0, number = 0;
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t ticks[3] = {0}, start, life = td__ticks();
        double seconds = td__seconds();
        for (int i = 1; i <= STEPS; i++) {
            start = td__ticks();
            for (int k = 0; k < SCALARS; k++) {
                td_signal_scalar(loss, 1.0);
            }
            ticks[0] += td__ticks() - start;
            start = td__ticks();
            for (int k = 0; k < SCALARS; k++) {
                td_deck_scalar(deck, "loss", 1.0);
            }
            ticks[1] += td__ticks() - start;
            start = td__ticks();
            td_deck_step(deck, 1, ++number);
            ticks[2] += td__ticks() - start;
        }
        double rate = 1e9 * (td__seconds() - seconds) / (double)(td__ticks() - life);
        handle.nanoseconds[r] = rate * (double)ticks[0] / (STEPS * SCALARS);
        named.nanoseconds[r] = rate * (double)ticks[1] / (STEPS * SCALARS);
        step.nanoseconds[r] = rate * (double)ticks[2] / STEPS;
        start = td__ticks();
        for (int i = 0; i < QUESTIONS; i++) {
            wanted += td_signal_wants(rare);
        }
        signal_wants.nanoseconds[r] = rate * (double)(td__ticks() - start) / QUESTIONS;
        start = td__ticks();
        for (int i = 0; i < QUESTIONS; i++) {
            wanted += td_deck_wants(deck, "rare");
        }
        deck_wants.nanoseconds[r] = rate * (double)(td__ticks() - start) / QUESTIONS;
        (void)!td_deck_flush(deck, NULL); /* the writer's time is not the training thread's */
    }
    report("a scalar, by handle", &handle);
    report("a scalar, by name", &named);
    report("closing a step of 20 scalars", &step);
    report("td_signal_wants, not due", &signal_wants);
    report("td_deck_wants, not due", &deck_wants);
    close_deck(deck);
    if (wanted) {
        exit(1);
    }
}

/* Elements of the outputs and gradients of two convolutions with pooling and two dense layers,
 * batch 64, and of their parameters' gradients. */
static const int64_t sizes[] = {1384448, 346112, 495616, 102400, 102400, 8192, 640,
                                1384448, 346112, 495616, 102400, 102400, 8192, 640,
                                288,     32,     18432,  64,     204800, 1290};
enum { TENSORS = sizeof sizes / sizeof sizes[0] };

/* Processor time of this thread: other programs on the machine do not count. */
static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void tensors(const char *folder, const char *what, uint32_t forms, float *const *data) {
    enum { STEPS = 12 };
    td_deck *deck = open_deck(folder);
    td_deck_track(deck, .what = "*", .form = forms);
    char names[TENSORS][16];
    double best = 1e9, total = 0;
    int64_t bytes = 0;
    for (int t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "tensor%d", t);
        bytes += sizes[t] * 4;
    }
    for (int step = 1; step <= STEPS; step++) {
        double start = thread_seconds();
        for (int t = 0; t < TENSORS; t++) {
            td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(sizes[t]), .data = data[t]};
            td_deck_record(deck, names[t], view);
        }
        td_deck_step(deck, 1, step);
        double seconds = thread_seconds() - start;
        total += seconds;
        best = seconds < best ? seconds : best;
        (void)!td_deck_flush(deck, NULL);
    }
    printf("%-44s %8.2f ms, best %.2f ms: %.1f GB/s\n", what, 1e3 * total / STEPS, 1e3 * best,
           1e-9 * (double)bytes / best);
    close_deck(deck);
}

/* The tensors of a tiny dense network: eight of them, 8 KB. */
static void small_tensors(const char *folder, const char *what, uint32_t forms) {
    enum { SMALL = 8, ELEMENTS = 256, STEPS = 100 };
    td_deck *deck = open_deck(folder);
    td_deck_track(deck, .what = "*", .form = forms);
    static float data[ELEMENTS];
    td_signal *signals[SMALL];
    for (int t = 0; t < SMALL; t++) {
        signals[t] = td_deck_signal(deck, (const char[]){(char)('a' + t), 0});
    }
    static timing step;
    for (int r = 0; r < ROUNDS; r++) {
        double start = thread_seconds();
        for (int i = 0; i < STEPS; i++) {
            for (int t = 0; t < SMALL; t++) {
                td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(ELEMENTS), .data = data};
                td_signal_record(signals[t], view);
            }
            td_deck_step(deck, 1, r * STEPS + i + 1);
        }
        step.nanoseconds[r] = 1e9 * (thread_seconds() - start) / STEPS;
        (void)!td_deck_flush(deck, NULL);
    }
    report(what, &step);
    close_deck(deck);
}

int main(void) {
    char folder[] = "/tmp/tapedeck-bench-XXXXXX";
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    char run[sizeof folder + 8];
    snprintf(run, sizeof run, "%s/run", folder);
    small_calls(run);
    small_tensors(run, "a step of 8 tensors, 8 KB: copies", TD_TENSOR);
    small_tensors(run, "a step of 8 tensors, 8 KB: statistics", TD_STATS);
    small_tensors(run, "a step of 8 tensors, 8 KB: + histograms", TD_STATS | TD_HISTOGRAM);
    float *data[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        data[t] = malloc((size_t)sizes[t] * sizeof(float));
        for (int64_t i = 0; data[t] && i < sizes[t]; i++) {
            data[t][i] = t % 2 || i % 3 ? (float)(rand() % 2001 - 1000) * 1e-5f : 0;
        }
    }
    tensors(run, "20 tensors, 20 MB: statistics", TD_STATS, data);
    tensors(run, "20 tensors, 20 MB: + histograms", TD_STATS | TD_HISTOGRAM, data);
    tensors(run, "20 tensors, 20 MB: hashes", TD_HASH, data);
    tensors(run, "20 tensors, 20 MB: copies", TD_TENSOR, data);
    tensors(run, "20 tensors, 20 MB: all of these", TD_STATS | TD_HISTOGRAM | TD_HASH | TD_TENSOR,
            data);
    for (int t = 0; t < TENSORS; t++) {
        free(data[t]);
    }
    (void)td__folder_remove(folder);
    return 0;
}
