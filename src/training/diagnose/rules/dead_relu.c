#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.5
#define ZEROS 0.95

/* Units, counted where the run was repeated. */
static void look_at_units(td__case *c) {
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        const td__flow *start = &layer->start, *end = &layer->end;
        bool relu = layer->activation == TD_RELU || layer->activation == TD_RELU6;
        if (relu && end->units > 0 && (double)end->dead > SHARE * (double)end->units &&
            (end->dead > 2 * start->dead || start->dead == start->units)) {
            td__found(c, layer->name, c->baseline.steps, td__say(c, "%s.output", layer->name),
                      (double)end->dead,
                      td__say(c, "%s: %lld of %lld units never active (%lld before training)",
                              layer->name, (long long)end->dead, (long long)end->units,
                              (long long)start->dead));
            td__found_unit(c, end->first_dead);
            return;
        }
    }
}

static void find_dead_relu(td__case *c) {
    const td_run_signal *signal;
    if (c->repeated) {
        look_at_units(c);
        return;
    }
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_OUTPUT, &at));) {
        const td__series *zeros = td__series_of(c->history, signal->name, "zeros");
        double count = td__series_first(td__series_of(c->history, signal->name, "count"));
        double first = td__series_first(zeros) / count,
               last = td__series_mean(zeros, 0.5, 1) / count;
        bool dead = last == 1 && td__series_mean(zeros, 0, 0.5) == count; /* in every record */
        if (zeros->count >= 4 && ((last > ZEROS && first < 0.9) || dead)) {
            td__found(c, signal->info->layer, signal->last_step, signal->name, last,
                      td__say(c, "%s: %.0f %% of what it puts out is 0 (%.0f %% at first)",
                              signal->info->layer, 100 * last, 100 * first));
            return;
        }
    }
}

const td__rule td__rule_dead_relu = {
    .info = {.name = "dead_relu",
             .symptom = true,
             .meaning = "relu units that never put out anything but 0",
             .reads = "LAYER.output (zeros, count); the units themselves where the run can "
                      "be repeated",
             .statistic = "units that are 0 for every one of 256 examples; of statistics alone, "
                          "the share of zeros",
             .threshold = "half of the units at the end, and twice as many as before training; "
                          "of statistics alone 95 % zeros in the mean, and below 90 % at first: "
                          "a sparse layer is sparse from the beginning; or nothing but zeros in "
                          "every record",
             .remedy = ""},
    .symptom = TD__INDEX_DEAD_RELU,
    .needs = TD__NEEDS_OUTPUTS | TD__NEEDS_REPEAT,
    .find = find_dead_relu,
    .after = true,
};
