/* Records a run for bench/view.py: view_record FOLDER SIGNALS STEPS SINK, a scalar of each signal at
 * each step, to `sqlite` (the run's database alone) or `tensorboard`. */
#include "tapedeck/deck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 5) {
        (void)fprintf(stderr, "usage: view_record FOLDER SIGNALS STEPS SINK\n");
        return 2;
    }
    td_error error = {0};
    td_deck *deck = td_deck_open(arguments[1], &error);
    int signal_count = atoi(arguments[2]);
    long steps = atol(arguments[3]);
    td_signal **signals = calloc((size_t)signal_count, sizeof *signals);
    if (!deck || !signals) {
        (void)fprintf(stderr, "view_record: %s\n", error.text);
        return 1;
    }
    td_deck_track(deck, .what = "*", .form = TD_SCALAR, .to = arguments[4]);
    for (int i = 0; i < signal_count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "metric%d", i);
        signals[i] = td_deck_signal(deck, name);
    }
    for (long step = 1; step <= steps; step++) {
        for (int i = 0; i < signal_count; i++) {
            /* One spike in each, which a chart must show at any zoom. */
            double spike = step == steps / 3 + i ? 1000 : 0;
            (void)td_signal_scalar(signals[i], sin((double)step * 0.001 * (i + 1)) + spike);
        }
        (void)td_deck_step(deck, 1, step);
    }
    free(signals);
    return td_deck_close(deck, &error) == TD_OK ? 0 : 1;
}
