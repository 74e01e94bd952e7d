/* Records a stream that tests/crash/check.py knows by heart, into every sink, through a deck.
 *
 *     crash_record FOLDER STEPS FLUSH_EVERY PAUSE_MICROSECONDS
 *
 * Writes "flushed STEP" to standard output after each flush that succeeded. Exits with 0, or with 3
 * when the deck reported an error. With FLUSH_EVERY 0 it never flushes: it writes "recorded STEPS", goes on with
 * a signal of its own and waits to be killed. */
#include "tapedeck/deck.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXAMPLES = 4, UNITS = 8, LONG_UNITS = 700, BIG = 96 * 1024 };

/* Exact in float32. */
static float value(int64_t step, int64_t i) {
    return (float)((step * 31 + i * 17) % 1000 - 500) / 8;
}

static void fill(float *out, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = value(step, i);
    }
}

static void record(td_deck *deck, const char *name, td_shape shape, const float *data) {
    (void)td_deck_record(deck, name, (td_view){.dtype = TD_FLOAT32, .shape = shape, .data = data});
}

static void add_tracks(td_deck *deck) {
    td_deck_track(deck, .what = "loss", .to = "csv,tensorboard");
    td_deck_track(deck, .what = "val_*", .to = "csv");
    td_deck_track(deck, .what = "x.output", .form = TD_TENSOR, .to = "npy");
    td_deck_track(deck, .what = "x.output", .form = TD_ROWS | TD_STATS, .to = "csv");
    td_deck_track(deck, .what = "x.output", .form = TD_HISTOGRAM, .to = "tensorboard");
    td_deck_track(deck, .what = "wide", .form = TD_ROWS, .to = "csv");
    td_deck_track(deck, .what = "big", .every = 10, .form = TD_TENSOR, .to = "npy");
    td_deck_track(deck, .what = "x.output", .every = 10, .form = TD_IMAGE, .to = "png");
    td_deck_track(deck, .what = "note", .to = "csv,tensorboard");
}

/* Records something else without end, so that the writer is never idle, and waits to be killed. */
static void record_other(td_deck *deck, int64_t step) {
    printf("recorded %lld\n", (long long)step);
    fflush(stdout);
    for (;;) {
        step++;
        (void)td_deck_scalar(deck, "other", 1);
        (void)td_deck_step(deck, 1 + step / 100, step);
        usleep(1000);
    }
}

static void record_step(td_deck *deck, int64_t step) {
    static float output[EXAMPLES * UNITS], wide[EXAMPLES * LONG_UNITS], big[BIG];
    int64_t rows[EXAMPLES], examples = step % 5 ? EXAMPLES : 1; /* every fifth batch is short */
    for (int64_t i = 0; i < examples; i++) {
        rows[i] = (step * EXAMPLES + i) % 97;
    }
    (void)td_deck_batch(deck, rows, examples);
    (void)td_deck_scalar(deck, "loss", (double)value(step, 1));
    if (step % 7 == 0) {
        (void)td_deck_scalar(deck, step < 20 ? "val_loss" : "val_accuracy", (double)value(step, 2));
    }
    fill(output, examples * UNITS, step);
    record(deck, "x.output", TD_SHAPE(examples, UNITS), output);
    fill(wide, examples * LONG_UNITS, step);
    record(deck, "wide", TD_SHAPE(examples, LONG_UNITS), wide);
    if (step % 10 == 0) {
        fill(big, BIG, step);
        record(deck, "big", TD_SHAPE(BIG), big);
        char text[64];
        snprintf(text, sizeof text, "step %lld,\n\"quoted\"", (long long)step);
        (void)td_deck_text(deck, "note", text);
    }
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: crash_record FOLDER STEPS FLUSH_EVERY PAUSE_MICROSECONDS\n");
        return 2;
    }
    int64_t steps = atoll(arguments[2]), flush_every = atoll(arguments[3]);
    useconds_t pause = (useconds_t)atoll(arguments[4]);
    td_error error = {0};
    td_deck *deck = td_deck_open(arguments[1], &error);
    if (!deck) {
        fprintf(stderr, "crash_record: %s\n", error.text);
        return 3;
    }
    add_tracks(deck);
    if (!flush_every) {
        td_deck_track(deck, .what = "other", .to = "npy");
    }
    int failed = 0;
    for (int64_t step = 1; step <= steps; step++) {
        record_step(deck, step);
        (void)td_deck_step(deck, 1 + step / 100, step);
        if (flush_every && step % flush_every == 0) {
            if (td_deck_flush(deck, &error)) {
                fprintf(stderr, "crash_record: %s\n", error.text);
                failed = 3;
            } else {
                printf("flushed %lld\n", (long long)step);
                fflush(stdout);
            }
        }
        if (pause) {
            usleep(pause);
        }
    }
    if (!flush_every) {
        record_other(deck, steps);
    }
    if (td_deck_close(deck, &error)) {
        fprintf(stderr, "crash_record: %s\n", error.text);
        failed = 3;
    }
    return failed;
}
