#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <math.h>

#define SHARE 0.5

/* Formats in the order in which one is wider than the other, with what to do. */
typedef struct format {
    const char *name, *underflow, *overflow, *remedy;
} format;
static const format formats[] = {
    {"bfloat16", "bfloat16_underflow", "bfloat16_overflow", "float32"},
    {"float16", "float16_underflow", "float16_overflow", "loss scaling (GradScaler), or bfloat16"},
    {"float8_e5m2", "float8_e5m2_underflow", "float8_e5m2_overflow",
     "a scale for each tensor, or bfloat16"},
    {"float8_e4m3", "float8_e4m3_underflow", "float8_e4m3_overflow",
     "a scale for each tensor, or bfloat16"},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool is_of_gradient(const td_run_signal *signal) {
    return td_run_matches("*.gradient.*", signal->name);
}

bool td__precision_recorded(td__case *c) {
    const td_run_signal *signal;
    for (size_t i = 0; i < FORMATS; i++) {
        const char *const words[] = {formats[i].underflow, formats[i].overflow};
        for (size_t k = 0; k < 2; k++) {
            for (size_t at = 0; (signal = td__next_derived(c->history, words[k], &at));) {
                if (is_of_gradient(signal)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* What is lost of gradients: how many of them lose more than limit in the mean, and the worst. */
typedef struct loss {
    size_t gradients, losing;
    const td_run_signal *worst;
    double share;
} loss;

static loss lost(td__case *c, const char *word, double limit) {
    const td_run_signal *signal;
    loss found = {0};
    for (size_t at = 0; (signal = td__next_derived(c->history, word, &at));) {
        double share = td__series_mean(td__series_of(c->history, signal->name, NULL), 0, 1);
        if (!is_of_gradient(signal) || isnan(share)) {
            continue;
        }
        found.gradients++;
        found.losing += share > limit;
        if (share > found.share) {
            found.worst = signal;
            found.share = share;
        }
    }
    return found;
}

/* What the gradients of a loop with a GradScaler are without its scale, they need not fit in float16. */
static void find_precision_lost(td__case *c) {
    if (c->loop && td__loop_has(c, "scaler")) {
        return;
    }
    for (size_t i = 0; i < FORMATS; i++) {
        loss below = lost(c, formats[i].underflow, SHARE);
        loss beyond = lost(c, formats[i].overflow, 0);
        bool small = 2 * below.losing > below.gradients, large = beyond.losing > 0;
        if (!small && !large) {
            continue;
        }
        td__suspicion *s = td__loop_error(c, TD_MAYBE, NULL, 1, formats[i].remedy);
        if (small) {
            td__because(s, td__keep(c, below.worst->name), below.worst->first_step, below.share,
                        td__say(c, "%zu of %zu gradients lose more than half of their values in %s",
                                below.losing, below.gradients, formats[i].name));
        }
        if (large) {
            td__because(s, td__keep(c, beyond.worst->name), beyond.worst->first_step, beyond.share,
                        td__say(c, "%.2g of the values of %s are too large for %s", beyond.share,
                                beyond.worst->name, formats[i].name));
        }
        return;
    }
}

const td__rule td__rule_precision_lost = {
    .info = {.name = "precision_lost",
             .meaning = "gradients do not fit into a narrow format of numbers",
             .reads = "PARAMETER.gradient.float16_underflow, .float16_overflow, likewise bfloat16, "
                      "float8_e5m2 and float8_e4m3, where a track asks for them",
             .statistic = "the share of a gradient's values that the format makes 0 or infinite, "
                          "in the mean over the run",
             .threshold = "more than half of the gradients lose half of their values, or one has "
                          "a value that is too large. A maybe: the training itself may be in "
                          "float32. Not with a GradScaler, which scales them",
             .remedy = "loss scaling, bfloat16"},
    .title = "gradients do not fit",
    .explains = 0,
    .needs = TD__NEEDS_PRECISION,
    .find = find_precision_lost,
    .after = true,
};
