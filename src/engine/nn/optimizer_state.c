/* What an optimizer holds: settings, rate, states, updates, and what of them describes a step. */
#include "nn/optimizer.h"

#include "base/memory.h"
#include "tape/op.h"

#include <math.h>
#include <string.h>

const td_optimizer_options *td_optimizer_settled(const td_optimizer *optimizer) {
    return &optimizer->options;
}

size_t td_optimizer_settings(const td_optimizer *optimizer, const td_setting **settings) {
    *settings = optimizer->settings;
    return optimizer->setting_count;
}

size_t td_schedule_settings(const td_optimizer *optimizer, const td_setting **settings) {
    *settings = optimizer->schedule_settings;
    return optimizer->schedule_setting_count;
}

uint64_t td_optimizer_steps(const td_optimizer *optimizer) {
    return optimizer->steps;
}

void td_optimizer_set_steps(td_optimizer *optimizer, uint64_t steps) {
    optimizer->steps = steps;
}

td_status td_optimizer_set_learning_rate(td_optimizer *optimizer, double rate, td_error *error) {
    if (!(rate >= 0) || isinf(rate)) {
        return td_error_set(error, TD_RANGE, "a learning rate of %g", rate);
    }
    optimizer->options.learning_rate.value = rate;
    return TD_OK;
}

double td_optimizer_rate(const td_optimizer *optimizer) {
    return optimizer->rate;
}

double td_optimizer_norm(const td_optimizer *optimizer) {
    return optimizer->norm;
}

size_t td_optimizer_state_count(const td_optimizer *optimizer) {
    return optimizer->named_count;
}

td_tensor *td_optimizer_state(const td_optimizer *optimizer, size_t index) {
    return index < optimizer->named_count ? optimizer->named[index] : NULL;
}

td_tensor *td_optimizer_find_state(const td_optimizer *optimizer, const char *name) {
    for (size_t i = 0; i < optimizer->named_count; i++) {
        if (strcmp(td_tensor_name(optimizer->named[i]), name) == 0) {
            return optimizer->named[i];
        }
    }
    return NULL;
}

td_status td_optimizer_keep_update(td_optimizer *optimizer, size_t index, td_error *error) {
    if (index != SIZE_MAX && index >= optimizer->count) {
        return td_error_set(error, TD_RANGE, "the optimizer has %zu parameters, no number %zu",
                            optimizer->count, index);
    }
    size_t end = index == SIZE_MAX ? optimizer->count : index + 1;
    for (size_t i = index == SIZE_MAX ? 0 : index; i < end; i++) {
        if (!optimizer->updates[i]) {
            optimizer->updates[i] = td__tensor_like(optimizer->parameters[i], "update", error);
            if (!optimizer->updates[i]) {
                return TD_MEMORY;
            }
        }
    }
    return TD_OK;
}

td_tensor *td_optimizer_update(const td_optimizer *optimizer, size_t index) {
    return index < optimizer->count ? optimizer->updates[index] : NULL;
}

td_tensor *td__optimizer_moment(const td_optimizer *optimizer, size_t parameter, int order) {
    int state = order == 1 ? optimizer->kind->first : optimizer->kind->second;
    return state && parameter < optimizer->count
               ? optimizer->states[TD__MAX_STATES * parameter + (size_t)state - 1]
               : NULL;
}

double td__optimizer_moment_sign(const td_optimizer *optimizer) {
    return optimizer->kind->falls ? -1 : 1;
}

bool td__optimizer_has_step_size(const td_optimizer *optimizer) {
    return optimizer->kind->step_size != NULL;
}

void td__optimizer_step_size(const td_optimizer *optimizer, size_t parameter, float *to) {
    float *states[TD__MAX_STATES];
    for (size_t s = 0; s < TD__MAX_STATES; s++) {
        td_tensor *state = optimizer->states[TD__MAX_STATES * parameter + s];
        states[s] = state ? td__floats(state) : NULL;
    }
    optimizer->kind->step_size(&optimizer->options, &optimizer->numbers,
                               optimizer->parameters[parameter]->count, states, to);
}
