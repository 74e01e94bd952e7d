/* A training loop that knows nothing of Tapedeck's networks records into a deck.
 *
 * The loop is logistic regression written out by hand: two classes of points in the plane, plain
 * gradient descent. Recording takes fifteen lines: those that begin with td_deck_.
 *
 *     record [FOLDER]        default: runs/record
 */
#include "tapedeck/deck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 200, BATCH = 50, EPOCHS = 5 };

static float x[POINTS][2], y[POINTS];

static double noise(void) {
    return (double)rand() / RAND_MAX - 0.5;
}

static void make_points(void) {
    srand(1);
    for (int i = 0; i < POINTS; i++) {
        y[i] = (float)(i % 2);
        x[i][0] = (float)(noise() + (i % 2 ? 0.6 : -0.6));
        x[i][1] = (float)(noise() - (i % 2 ? 0.3 : -0.3));
    }
}

static td_view view(const float *data, int64_t rows, int64_t columns) {
    return (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(rows, columns), .data = data};
}

int main(int argc, char **argv) {
    make_points();
    td_error error = {0};
    td_deck *deck = td_deck_open(argc > 1 ? argv[1] : "runs/record", &error);
    if (!deck) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    td_deck_track(deck, .what = "loss", .to = "csv,tensorboard");
    td_deck_track(deck, .what = "weight", .form = TD_TENSOR, .to = "npy");
    td_deck_track(deck, .what = "output.error", .every = 5, .form = TD_STATS | TD_HISTOGRAM,
                  .to = "csv,tensorboard");
    td_deck_track(deck, .what = "gradient", .when = "delta(loss) > 0", .history = 2, .to = "csv");

    float weight[3] = {0, 0, 0}; /* two slopes and the intercept */
    int64_t step = 0;
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        for (int first = 0; first < POINTS; first += BATCH) {
            float gradient[3] = {0}, delta[BATCH];
            double loss = 0;
            int64_t rows[BATCH];
            for (int k = 0; k < BATCH; k++) {
                int i = first + k;
                double p =
                    1 / (1 + exp(-(double)(weight[0] * x[i][0] + weight[1] * x[i][1] + weight[2])));
                loss -= log(y[i] > 0 ? p : 1 - p) / BATCH;
                delta[k] = ((float)p - y[i]) / BATCH; /* of the loss by the output */
                gradient[0] += delta[k] * x[i][0];
                gradient[1] += delta[k] * x[i][1];
                gradient[2] += delta[k];
                rows[k] = i;
            }
            for (int w = 0; w < 3; w++) {
                weight[w] -= 2 * gradient[w];
            }
            td_deck_batch(deck, rows, BATCH);
            td_deck_scalar(deck, "loss", loss);
            td_deck_record(deck, "output.error", view(delta, BATCH, 1));
            td_deck_record(deck, "gradient", view(gradient, 1, 3));
            td_deck_record(deck, "weight", view(weight, 1, 3));
            td_deck_step(deck, epoch, ++step);
        }
    }
    printf("recorded into %s\n", td_deck_folder(deck));
    if (td_deck_close(deck, &error) != TD_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    return 0;
}
