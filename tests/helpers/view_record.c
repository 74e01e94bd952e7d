/* Records runs for the viewer's tests: view_record FOLDER KIND, KIND one of
 *   hostile    names that are markup, 10 kB long, or turn the text around; NaN and infinities
 *   many       a thousand metrics and three hundred layers
 *   layers     a thousand layers with five signals each
 *   types      a tensor of each element type, with values that its neighbours would read otherwise
 *   odd        numbers that are easily shown as something else: NaN and infinite metrics and predictions, dead
 *              units, tensors that are mostly zero, slices of very different size, records far apart
 *   empty      nothing: it was opened and closed
 *   rank       one process of a training of several, which the variables RANK and WORLD_SIZE name: numbers that
 *              differ from rank to rank, NaN on rank 1
 *   grow       a step every few milliseconds, with tensors, predictions and triggers, until it is killed */
#include "tapedeck/deck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void record(td_deck *deck, const char *name, float scale, int64_t step) {
    float values[64];
    for (int i = 0; i < 64; i++) {
        values[i] = scale * sinf((float)i + (float)step * 0.1f);
    }
    values[5] = step % 7 == 3 && scale > 50 ? NAN : values[5];
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(8, 8), .data = values};
    (void)td_deck_record(deck, name, view);
}

static void hostile(td_deck *deck) {
    static char longest[10001];
    memset(longest, 'n', sizeof longest - 1);
    for (int64_t step = 1; step <= 30; step++) {
        (void)td_deck_scalar(deck, "<script>window.pwned=1</script>", (double)step);
        (void)td_deck_scalar(deck, longest, 1.0 / (double)step);
        (void)td_deck_scalar(deck, "\u202egnp.exe\u2066", step == 4 ? NAN : (double)step);
        (void)td_deck_scalar(deck, "\"><img src=x onerror=window.pwned=1>",
                             step == 9 ? INFINITY : 2);
        (void)td_deck_scalar(deck, "=1+1", -(double)step);
        (void)td_deck_text(deck, "note", "</script><script>window.pwned=1</script>");
        record(deck, "<img src=x onerror=window.pwned=1>.error", 100, step);
        record(deck, "</script><b>.error", 0, step);
        record(deck, "\xff\xfe bytes.error", 1e-20f, step);
        (void)td_deck_step(deck, 1, step);
    }
}

static void many(td_deck *deck) {
    char name[64];
    for (int64_t step = 1; step <= 20; step++) {
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(name, sizeof name, "group%d/metric%d", i / 50, i);
            (void)td_deck_scalar(deck, name, sin((double)step * (i + 1)));
        }
        for (int i = 0; i < 300; i++) {
            (void)snprintf(name, sizeof name, "block%d.error", i);
            record(deck, name, powf(0.97f, (float)(300 - i)), step);
        }
        (void)td_deck_step(deck, 1, step);
    }
}

/* A thousand layers with five signals each. */
static void layers(td_deck *deck) {
    static const char *const signals[] = {"output", "error", "kernel", "kernel.gradient", "bias"};
    char name[64];
    for (int64_t step = 1; step <= 20; step++) {
        for (int i = 0; i < 5000; i++) {
            (void)snprintf(name, sizeof name, "stage%d.block%d.conv.%s", i / 500, i / 5,
                           signals[i % 5]);
            record(deck, name, 1.0f / (float)(1 + i % 50), step);
        }
        (void)td_deck_step(deck, 1, step);
    }
}

/* Bytes that are negative, large, NaN and infinite numbers, as the element type has them. */
static void types(td_deck *deck) {
    static const uint16_t halves[8] = {0x3c00, 0xc000, 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x7bff, 0};
    static const float floats[8] = {1, -2, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 0};
    static const double doubles[8] = {1, -2, INFINITY, -INFINITY, NAN, 1e-310, 1e308, 0};
    static const uint8_t truths[8] = {1, 0, 1, 1, 0, 0, 1, 0};
    uint64_t numbers[8];
    for (size_t i = 0; i < 8; i++) {
        numbers[i] = i * 0x1f2e3d4c5b6a7988u;
    }
    td_deck_track(deck, .what = "*", .form = TD_TENSOR, .to = "npy");
    for (int type = 0; type < TD_DTYPE_COUNT; type++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s.output", td_dtype_name((td_dtype)type));
        const void *data = type == TD_FLOAT32                          ? (const void *)floats
                           : type == TD_FLOAT64                        ? (const void *)doubles
                           : type == TD_FLOAT16 || type == TD_BFLOAT16 ? (const void *)halves
                           : type == TD_BOOL                           ? (const void *)truths
                                                                       : (const void *)numbers;
        td_view view = {.dtype = (td_dtype)type, .shape = TD_SHAPE(2, 4), .data = data};
        (void)td_deck_record(deck, name, view);
    }
    (void)td_deck_step(deck, 1, 1);
}

enum { ODD_STEPS = 100, ODD_EVERY = 25, ODD_UNITS = 32 };

static void record_odd_tensors(td_deck *deck) {
    static float output[16][ODD_UNITS], kernel[3][3][1][4], nothing[4], prediction[4][2],
        input[4][5][5][1];
    for (int i = 0; i < 16; i++) {
        output[i][0] = 1;
        output[i][1] = -2;
        output[i][2] = 3;
    }
    for (int i = 0; i < 36; i++) {
        (&kernel[0][0][0][0])[i] = powf(10, (float)(i % 4)) * (float)(i / 4 + 1);
    }
    for (int i = 0; i < 100; i++) {
        (&input[0][0][0][0])[i] = (float)(100 * (i / 25) + i % 25);
    }
    for (int i = 0; i < 4; i++) {
        nothing[i] = NAN;
        prediction[i][0] = i == 1 ? NAN : (float)i;
        prediction[i][1] = i == 2 ? INFINITY : 1.5f;
    }
    (void)td_deck_record(deck, "hidden.output",
                         (td_view){TD_FLOAT32, TD_SHAPE(16, ODD_UNITS), output, NULL, NULL});
    (void)td_deck_record(deck, "conv.kernel",
                         (td_view){TD_FLOAT32, TD_SHAPE(3, 3, 1, 4), kernel, NULL, NULL});
    (void)td_deck_record(deck, "lost.output",
                         (td_view){TD_FLOAT32, TD_SHAPE(4), nothing, NULL, NULL});
    (void)td_signal_record(
        td_deck_signal_with(
            deck, "input",
            &(td_signal_info){sizeof(td_signal_info), .kind = TD_SIGNAL_INPUT, .batched = true}),
        (td_view){TD_FLOAT32, TD_SHAPE(4, 5, 5, 1), input, NULL, NULL});
    (void)td_signal_record(
        td_deck_signal_with(deck, "prediction",
                            &(td_signal_info){sizeof(td_signal_info), .kind = TD_SIGNAL_PREDICTION,
                                              .batched = true, .classes = 2}),
        (td_view){TD_FLOAT32, TD_SHAPE(4, 2), prediction, NULL, NULL});
}

static void odd(td_deck *deck) {
    static const int64_t rows[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int32_t labels[4] = {1, 1, 0, 0};
    td_deck_track(deck, .what = "hidden.output,conv.kernel,lost.output,input", .form = TD_TENSOR,
                  .to = "npy");
    td_deck_track(deck, .what = "prediction", .form = TD_ROWS, .to = "sqlite");
    for (int64_t step = 1; step <= ODD_STEPS; step++) {
        (void)td_deck_scalar(deck, "loss", step > 60 ? (double)NAN : 1.0 / (double)step);
        (void)td_deck_scalar(deck, "accuracy", step == ODD_STEPS ? (double)INFINITY : (double)step);
        if (step % ODD_EVERY == 0) {
            td_view label = {TD_INT32, TD_SHAPE(4), labels, NULL, NULL};
            (void)td_deck_scalar(deck, "val_loss", (double)step / 7);
            (void)td_deck_batch_labels(deck, rows, 4, &label);
            record_odd_tensors(deck);
        }
        (void)td_deck_step(deck, (step - 1) / ODD_EVERY + 1, step);
    }
}

static void empty(td_deck *deck) {
    (void)deck;
}

/* Which of the processes this is, too, is a number of its records. */
static void several(td_deck *deck) {
    td_rank rank = {.size = sizeof rank};
    char text[TD_RANK_TEXT_SIZE];
    double own = td_rank_detect(&rank, text) ? (double)rank.rank : 0;
    for (int64_t step = 1; step <= 12; step++) {
        bool lost = rank.rank == 1 && step > 8;
        (void)td_deck_scalar(deck, "loss", lost ? (double)NAN : 1 / (double)step + own);
        record(deck, "first.output", (float)(1 + own), step);
        (void)td_deck_step(deck, 1, step);
    }
}

enum { GROW_EVERY = 40 };

/* Every GROW_EVERY steps a tensor, predictions and a trigger. */
static void grow(td_deck *deck) {
    static const int64_t rows[4] = {0, 1, 2, 3};
    static const int32_t labels[4] = {1, 1, 0, 0};
    td_deck_track(deck, .what = "hidden.output,conv.kernel", .form = TD_TENSOR, .to = "npy");
    td_deck_track(deck, .what = "prediction", .form = TD_ROWS, .to = "sqlite");
    td_deck_track(deck, .what = "second.error", .when = "spike > 0", .history = 3, .form = TD_STATS,
                  .to = "sqlite");
    for (int64_t step = 1;; step++) {
        (void)td_deck_scalar(deck, "loss", 1.0 / (double)step);
        (void)td_deck_scalar(deck, "spike", step % GROW_EVERY == 0 ? 1 : 0);
        if (step % GROW_EVERY == 0) {
            td_view label = {TD_INT32, TD_SHAPE(4), labels, NULL, NULL};
            (void)td_deck_batch_labels(deck, rows, 4, &label);
            record_odd_tensors(deck);
        }
        record(deck, "first.error", 1, step);
        record(deck, "second.error", 0.01f, step);
        (void)td_deck_step(deck, 1, step);
        usleep(3000);
    }
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*record)(td_deck *deck);
    } kinds[] = {{"hostile", hostile}, {"many", many}, {"layers", layers}, {"types", types},
                 {"odd", odd},         {"grow", grow}, {"empty", empty},   {"rank", several}};
    td_error error = {0};
    td_rank rank = {.size = sizeof rank};
    char text[TD_RANK_TEXT_SIZE];
    td_deck_options options = {.size = sizeof options,
                               .rank = td_rank_detect(&rank, text) ? &rank : NULL};
    td_deck *deck = count == 3 ? td_deck_open_with(arguments[1], &options, &error) : NULL;
    if (!deck) {
        (void)fprintf(stderr, "view_record: %s\n", error.text);
        return 1;
    }
    td_deck_track(deck, .what = "*", .form = TD_STATS | TD_SCALAR | TD_TEXT | TD_HISTOGRAM,
                  .to = "sqlite");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, arguments[2]) == 0) {
            kinds[i].record(deck);
        }
    }
    return td_deck_close(deck, &error) == TD_OK ? 0 : 1;
}
