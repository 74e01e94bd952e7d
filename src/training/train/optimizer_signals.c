/* Signals of the optimizer's state: PARAMETER.moment1, .moment2, .step_size, .update_ratio, .gradient_cosine.
 * Each is a row of a table: where there is such a thing, and how it is recorded. */
#include "train/trainer.h"

#include "base/memory.h"
#include "nn/optimizer_role.h"
#include "tensor/sums.h"
#include "tensor/tensor.h"

#include <math.h>

typedef struct subject {
    td_trainer *trainer;
    const td__signal_entry *entry;
    const td_optimizer *optimizer;
    size_t weight; /* the parameter's place among the optimizer's */
    const td_tensor *parameter;
} subject;

typedef struct optimizer_signal {
    const char *word;
    bool is_tensor;    /* as large as the parameter; false: one number */
    bool needs_update; /* td_optimizer_keep_update */
    bool before;       /* recorded when gradients are there and the step is not done */
    bool (*exists)(const td_optimizer *optimizer, size_t weight);
    void (*record)(const subject *s);
} optimizer_signal;

static bool has_first(const td_optimizer *optimizer, size_t weight) {
    return td__optimizer_moment(optimizer, weight, 1) != NULL;
}

static bool has_second(const td_optimizer *optimizer, size_t weight) {
    return td__optimizer_moment(optimizer, weight, 2) != NULL;
}

static bool has_step_size(const td_optimizer *optimizer, size_t weight) {
    (void)weight;
    return td__optimizer_has_step_size(optimizer);
}

static bool always(const td_optimizer *optimizer, size_t weight) {
    (void)optimizer;
    (void)weight;
    return true;
}

static void record_first(const subject *s) {
    td__pass_signals_record(&s->trainer->signals, s->entry,
                            td_view_of(td__optimizer_moment(s->optimizer, s->weight, 1)));
}

static void record_second(const subject *s) {
    td__pass_signals_record(&s->trainer->signals, s->entry,
                            td_view_of(td__optimizer_moment(s->optimizer, s->weight, 2)));
}

static void free_floats(void *owner) {
    td__free(owner);
}

static void record_step_size(const subject *s) {
    float *sizes = td__calloc((size_t)s->parameter->count + 1, sizeof *sizes);
    if (!sizes) {
        td_error error = {0};
        (void)td_error_set(&error, TD_MEMORY, "out of memory for %s", s->entry->name);
        td__trainer_unrecorded(s->trainer, &error);
        return;
    }
    td__optimizer_step_size(s->optimizer, s->weight, sizes);
    td__pass_signals_record(&s->trainer->signals, s->entry,
                            (td_view){.dtype = TD_FLOAT32,
                                      .shape = s->parameter->shape,
                                      .data = sizes,
                                      .release = free_floats,
                                      .owner = sizes});
}

/* Zeros have no ratio and no direction: nothing is recorded then. */
static void record_value(const subject *s, double value) {
    if (!isnan(value)) {
        (void)td_signal_scalar(s->entry->signal, value);
    }
}

static void record_ratio(const subject *s) {
    const td_tensor *update = td_optimizer_update(s->optimizer, s->weight), *w = s->parameter;
    double weights = td__dot(w->count, td__floats(w), td__floats(w));
    double moved = td__dot(w->count, td__floats(update), td__floats(update));
    record_value(s, weights > 0 ? sqrt(moved / weights) : (double)NAN);
}

static void record_cosine(const subject *s) {
    const td_tensor *moment = td__optimizer_moment(s->optimizer, s->weight, 1);
    const td_tensor *gradient = s->trainer->learner.gradients[s->weight];
    if (gradient) {
        const float *m = td__floats(moment), *g = td__floats(gradient);
        double product = td__dot(moment->count, m, g);
        double lengths = sqrt(td__dot(moment->count, m, m)) * sqrt(td__dot(moment->count, g, g));
        double sign = td__optimizer_moment_sign(s->optimizer);
        record_value(s, lengths > 0 ? sign * product / lengths : (double)NAN);
    }
}

static const optimizer_signal signals[] = {
    {"moment1", .is_tensor = true, .exists = has_first, .record = record_first},
    {"moment2", .is_tensor = true, .exists = has_second, .record = record_second},
    {"step_size", .is_tensor = true, .exists = has_step_size, .record = record_step_size},
    {"update_ratio", .needs_update = true, .exists = always, .record = record_ratio},
    {"gradient_cosine", .before = true, .exists = has_first, .record = record_cosine},
};
enum { SIGNALS = sizeof signals / sizeof *signals };

bool td__optimizer_signals_list(td_trainer *trainer) {
    bool good = true;
    for (size_t i = 0; good && i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        ptrdiff_t weight = trainer->learner.weight_of[i];
        for (size_t k = 0; good && weight >= 0 && k < SIGNALS; k++) {
            td__signal_entry entry = {
                .kind = TD_SIGNAL_DERIVED,
                .subject = TD__OF_PARAMETER,
                .index = i,
                .which = (uint8_t)k,
                .elements = signals[k].is_tensor ? td_tensor_count(parameter->tensor) : 0};
            char suffix[32];
            (void)snprintf(suffix, sizeof suffix, ".%s", signals[k].word);
            good = !signals[k].exists(trainer->learner.optimizer, (size_t)weight) ||
                   td__pass_signals_add(&trainer->signals, "", parameter->name, suffix, entry);
        }
    }
    return good;
}

bool td__optimizer_signal_needs_update(const td__signal_entry *entry) {
    return entry->kind == TD_SIGNAL_DERIVED && entry->subject == TD__OF_PARAMETER &&
           signals[entry->which].needs_update;
}

void td__optimizer_signals_record(td_trainer *trainer, bool before) {
    const td__pass_signals *all = &trainer->signals;
    for (size_t i = all->of_parameters; trainer->pass.signals && i < all->of_parameters_end; i++) {
        const td__signal_entry *entry = &all->entries[i];
        const optimizer_signal *signal = &signals[entry->which];
        if (signal->before != before || !td_signal_wants(entry->signal)) {
            continue;
        }
        size_t weight = (size_t)trainer->learner.weight_of[entry->index];
        subject s = {trainer, entry, trainer->learner.optimizer, weight,
                     trainer->learner.weights[weight]};
        signal->record(&s);
    }
}
