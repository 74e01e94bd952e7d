/* A model of a sensible size for the shape of an example: rows of numbers, images, sequences. */
#include "suggest/suggest.h"

#include <stdio.h>

/* Units of the first hidden layer: more for more examples and more inputs. */
static int64_t hidden_units(const td__guess *guess) {
    int64_t units = guess->rows < 20000 ? 64 : 128;
    return guess->inputs > 256 ? units * 2 : units;
}

/* Few examples: one smooth layer whose weights are held small, so that it is no worse than a linear
 * model where the data shows no more than that. */
static void write_small(FILE *out) {
    (void)fprintf(out, "  - dense: {name: hidden, units: 16, activation: tanh, kernel_l2: 0.01}\n");
}

static void write_dense(FILE *out, const td__guess *guess) {
    int64_t units = hidden_units(guess);
    if (guess->input.rank > 1) {
        (void)fprintf(out, "  - flatten:\n");
    }
    if (td__guess_is_small(guess)) {
        write_small(out);
        return;
    }
    (void)fprintf(out,
                  "  - dense: {name: hidden1, units: %lld, activation: relu}\n"
                  "  - dropout: {rate: 0.2}\n"
                  "  - dense: {name: hidden2, units: %lld, activation: relu}\n",
                  (long long)units, (long long)(units / 2));
}

/* Convolutions and pools until the image is small. */
static void write_convolutions(FILE *out, const td__guess *guess) {
    int64_t side =
        guess->input.dims[0] < guess->input.dims[1] ? guess->input.dims[0] : guess->input.dims[1];
    int64_t filters = 16;
    for (int i = 1; side >= 6 && i <= 4; i++, side /= 2) {
        (void)fprintf(out,
                      "  - conv2d: {name: conv%d, filters: %lld, kernel: 3, padding: same, "
                      "activation: relu}\n"
                      "  - max_pool2d: {size: 2}\n",
                      i, (long long)filters);
        filters = filters < 64 ? filters * 2 : filters;
    }
    (void)fprintf(out, "  - flatten:\n"
                       "  - dropout: {rate: 0.3}\n"
                       "  - dense: {name: hidden, units: 64, activation: relu}\n");
}

static void write_recurrent(FILE *out) {
    (void)fprintf(out, "  - gru: {name: gru, units: 32}\n");
}

/* A narrow middle: what the model keeps of an example. */
static void write_autoencoder(FILE *out, const td__guess *guess) {
    int64_t units = hidden_units(guess), code = guess->inputs < 16 ? 2 : 8;
    if (guess->input.rank > 1) {
        (void)fprintf(out, "  - flatten:\n");
    }
    (void)fprintf(out,
                  "  - dense: {name: encoder, units: %lld, activation: relu}\n"
                  "  - dense: {name: code, units: %lld}\n"
                  "  - dense: {name: decoder, units: %lld, activation: relu}\n"
                  "  - dense: {name: output, units: %lld}\n",
                  (long long)units, (long long)code, (long long)units, (long long)guess->inputs);
    if (guess->input.rank > 1) {
        (void)fprintf(out, "  - reshape: {shape: [");
        for (int i = 0; i < guess->input.rank; i++) {
            (void)fprintf(out, "%s%lld", i ? ", " : "", (long long)guess->input.dims[i]);
        }
        (void)fprintf(out, "]}\n");
    }
}

/* The mean of what the words of each text mean, beside the other inputs. */
static void write_texts(FILE *out, const td__guess *guess) {
    bool mixed = td__guess_is_mixed(guess);
    if (mixed) {
        (void)fputs("  inputs: [", out);
        for (int64_t i = 1; i <= guess->texts; i++) {
            (void)fprintf(out, "%swords%lld", i > 1 ? ", " : "", (long long)i);
        }
        (void)fputs(guess->inputs ? ", numbers]\n  layers:\n" : "]\n  layers:\n", out);
    }
    for (int64_t i = 1; i <= guess->texts; i++) {
        char from[40] = "", name[24] = "";
        if (mixed) {
            (void)snprintf(from, sizeof from, "from: words%lld, ", (long long)i);
            (void)snprintf(name, sizeof name, "%lld", (long long)i);
        }
        (void)fprintf(out,
                      "  - embedding: {name: embed%s, %soutput_dim: 32, mask_zero: true}\n"
                      "  - global_average_pool1d: {name: mean%s}\n",
                      name, from, name);
    }
    if (mixed) {
        (void)fputs("  - concatenate: {name: all, from: [", out);
        for (int64_t i = 1; i <= guess->texts; i++) {
            (void)fprintf(out, "%smean%lld", i > 1 ? ", " : "", (long long)i);
        }
        (void)fputs(guess->inputs ? ", numbers]}\n" : "]}\n", out);
    }
    (void)fputs(
        "  - dense: {name: hidden, units: 32, activation: relu}\n  - dropout: {rate: 0.3}\n", out);
}

void td__write_layers(FILE *out, const td__guess *guess) {
    const td_shape *input = &guess->input;
    if (guess->unlabelled) {
        write_autoencoder(out, guess);
        return;
    }
    if (guess->texts) {
        write_texts(out, guess);
    } else if (input->rank == 3 && input->dims[0] >= 6 && input->dims[1] >= 6) {
        write_convolutions(out, guess);
    } else if (input->rank == 2) {
        write_recurrent(out);
    } else {
        write_dense(out, guess);
    }
    const char *small = td__guess_is_small(guess) && input->rank == 1 ? ", kernel_l2: 0.01" : "";
    if (guess->classes) {
        (void)fprintf(out, "  - dense: {name: logits, units: %lld%s}      # one for each class\n",
                      (long long)guess->classes, small);
    } else {
        (void)fprintf(out, "  - dense: {name: output, units: %lld%s}\n", (long long)guess->values,
                      small);
    }
}
