/* What recording costs the training thread: a scalar, a question, and the tensors of a small
 * convolutional network (20 of them, 34 MB a step) in several forms.
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
    .standard = true,
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
    td__folder_disclaim(td_deck_folder(deck));
    td_error error = {0};
    if (td_deck_close(deck, &error) != TD_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static void report(const char *what, double seconds, double calls) {
    printf("%-44s %8.1f ns\n", what, 1e9 * seconds / calls);
}

static void small_calls(const char *folder) {
    enum { STEPS = 100000, SCALARS = 10 };
    td_deck *deck = open_deck(folder);
    td_deck_track(deck, .what = "loss");
    td_deck_track(deck, .what = "rare", .every = 1000000000);
    td_signal *loss = td_deck_signal(deck, "loss"), *rare = td_deck_signal(deck, "rare");
    double scalar = 0, named = 0, step = 0, start;
    for (int i = 1; i <= STEPS; i++) {
        start = td__seconds();
        for (int k = 0; k < SCALARS; k++) {
            td_signal_scalar(loss, 1.0);
        }
        scalar += td__seconds() - start;
        start = td__seconds();
        for (int k = 0; k < SCALARS; k++) {
            td_deck_scalar(deck, "loss", 1.0);
        }
        named += td__seconds() - start;
        start = td__seconds();
        td_deck_step(deck, 1, i);
        step += td__seconds() - start;
        if (i % 1000 == 0) {
            (void)!td_deck_flush(deck, NULL); /* the writer's time is not the training thread's */
        }
    }
    report("a scalar, by handle", scalar, STEPS * SCALARS);
    report("a scalar, by name", named, STEPS * SCALARS);
    report("closing a step of 20 scalars", step, STEPS);
    enum { MANY = 20000000 };
    int64_t wanted = 0;
    start = td__seconds();
    for (int i = 0; i < MANY; i++) {
        wanted += td_signal_wants(rare);
    }
    report("td_signal_wants, not due", td__seconds() - start, MANY);
    start = td__seconds();
    for (int i = 0; i < MANY; i++) {
        wanted += td_deck_wants(deck, "rare");
    }
    report("td_deck_wants, not due", td__seconds() - start, MANY);
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
        double start = td__seconds();
        for (int t = 0; t < TENSORS; t++) {
            td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(sizes[t]), .data = data[t]};
            td_deck_record(deck, names[t], view);
        }
        td_deck_step(deck, 1, step);
        double seconds = td__seconds() - start;
        total += seconds;
        best = seconds < best ? seconds : best;
        (void)!td_deck_flush(deck, NULL);
    }
    printf("%-44s %8.2f ms, best %.2f ms: %.1f GB/s\n", what, 1e3 * total / STEPS, 1e3 * best,
           1e-9 * (double)bytes / best);
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
    td__folder_disclaim(folder);
    return 0;
}
