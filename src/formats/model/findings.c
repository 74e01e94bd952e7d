#include "model/findings.h"

#include "base/memory.h"
#include "nn/kind.h"
#include "tensor/element.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FINDINGS = 100000, TEXT_SIZE = 320, NAMED = 5 };

typedef struct search {
    td__findings *findings;
    const td_model *model;
    const td_stats *stats;
    bool exhausted; /* memory is */
} search;

static void add_finding(search *s, td_finding_level level, const char *where, const char *format,
                        ...) TD_PRINTF(4, 5);

static void add_finding(search *s, td_finding_level level, const char *where, const char *format,
                        ...) {
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    td__findings *f = s->findings;
    char *copy = td__strdup(text);
    if (!copy || !td__grow(&f->items, &f->capacity, f->count + 1, MAX_FINDINGS, sizeof *f->items)) {
        td__free(copy);
        s->exhausted = true;
        return;
    }
    f->items[f->count++] = (td_finding){level, where, copy};
}

void td__findings_release(td__findings *findings) {
    for (size_t i = 0; i < findings->count; i++) {
        td__free((char *)(uintptr_t)findings->items[i].text);
    }
    td__free(findings->items);
    *findings = (td__findings){0};
}

/* "units 3, 17, 20, … (5 of 64)" from flags; "" when none is set. */
static bool list_units(char text[TEXT_SIZE], const bool *flags, int64_t count, const char *noun) {
    int64_t set = 0;
    size_t length = (size_t)snprintf(text, TEXT_SIZE, "%s", noun);
    for (int64_t i = 0; i < count; i++) {
        if (flags[i] && set++ < NAMED) {
            length += (size_t)snprintf(text + length, TEXT_SIZE - length, "%s %lld",
                                       set > 1 ? "," : "", (long long)i);
        }
    }
    if (set == count) {
        (void)snprintf(text, TEXT_SIZE, "all %lld %s", (long long)count, noun);
    } else {
        (void)snprintf(text + length, TEXT_SIZE - length, "%s (%lld of %lld)",
                       set > NAMED ? ", …" : "", (long long)set, (long long)count);
    }
    return set > 0;
}

/* ---- A parameter alone ----------------------------------------------------------------------- */

static bool is_kernel(const td_parameter_info *parameter) {
    return strstr(parameter->parameter, "kernel") || !strcmp(parameter->parameter, "embeddings");
}

static void look_at_parameter(search *s, size_t which) {
    const td_parameter_info *parameter = td_model_parameter_at(s->model, which);
    const td_stats *stats = &s->stats[which];
    const char *name = parameter->name;
    if (stats->nan + stats->inf > 0) {
        add_finding(s, TD_FINDING_ERROR, name,
                    "%lld NaN and %lld infinite of %lld values, the first at %lld",
                    (long long)stats->nan, (long long)stats->inf, (long long)stats->count,
                    (long long)stats->first_nonfinite);
        return;
    }
    if (is_kernel(parameter) && stats->count && stats->zeros == stats->count) {
        add_finding(s, TD_FINDING_WARNING, name, "all zero");
    } else if (is_kernel(parameter) && stats->count > 1 && stats->min == stats->max) {
        add_finding(s, TD_FINDING_WARNING, name, "constant: all %lld values are %.6g",
                    (long long)stats->count, stats->min);
    }
    if (!strcmp(parameter->parameter, "moving_variance") && stats->min < 0) {
        add_finding(s, TD_FINDING_ERROR, name, "a negative variance (%.6g): the layer puts out NaN",
                    stats->min);
    }
}

/* ---- Units of a layer ------------------------------------------------------------------------ */

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(word, words[i])) {
            return true;
        }
    }
    return false;
}

/* Layers that came from ONNX have its operators as their types. */
static bool is_operator(const td_layer_info *layer, const char *const *words, size_t count) {
    return td__layer_kind_of(layer->kind)->role == TD__ROLE_CUSTOM &&
           is_one_of(layer->type, words, count);
}

static bool is_relu(const td_layer_info *layer) {
    return td__layer_kind_of(layer->kind)->role == TD__ROLE_ACTIVATION &&
           td__layer_activation(layer) == TD_RELU;
}

/* Whether all that reads the layer's output is one relu, its own or the next layer. Gemm may have
 * factors that turn a sign around, which are not known here. */
static bool ends_in_relu(const td_model *model, const td_layer_info *layer) {
    static const char *const relu[] = {"Relu"}, *const factors[] = {"Gemm"};
    td_activation own = td__layer_activation(layer);
    int32_t self = (int32_t)td_model_find(model, layer->name);
    size_t readers = 0, relus = 0;
    if (own != TD_LINEAR) {
        return own == TD_RELU;
    }
    for (size_t i = (size_t)self + 1; i < td_model_layer_count(model); i++) {
        const td_layer_info *next = td_model_layer(model, i);
        for (size_t k = 0; k < next->input_count; k++) {
            if (next->inputs[k] == self) {
                readers++;
                relus += is_operator(next, relu, 1) || is_relu(next);
            }
        }
    }
    return readers == 1 && relus == 1 && !is_operator(layer, factors, 1);
}

/* The state of a recurrent layer with gates is not what its activation puts out. */
static bool ends_in_positive(const td_layer_info *layer) {
    td_activation last = td__layer_activation(layer);
    return !td__layer_setting(layer, "recurrent_activation") &&
           (last == TD_RELU || last == TD_RELU6 || last == TD_SIGMOID || last == TD_SOFTMAX ||
            last == TD_SOFTPLUS);
}

/* Whether what the layer puts out is never negative, whatever it reads. */
static bool is_never_negative(const td_model *model, int32_t which) {
    static const char *const operators[] = {"Relu", "Sigmoid", "Softmax", "Softplus"};
    static const char *const passing_operators[] = {"MaxPool",          "AveragePool", "Flatten",
                                                    "GlobalMaxPool",    "Dropout",     "Identity",
                                                    "GlobalAveragePool"};
    while (which >= 0) {
        const td_layer_info *layer = td_model_layer(model, (size_t)which);
        td__layer_role role = td__layer_kind_of(layer->kind)->role;
        if (ends_in_positive(layer) || is_operator(layer, operators, TD__COUNT(operators))) {
            return true;
        }
        bool passes = role == TD__ROLE_POOL || role == TD__ROLE_SHAPE || role == TD__ROLE_DROPOUT ||
                      is_operator(layer, passing_operators, TD__COUNT(passing_operators));
        which = passes ? layer->inputs[0] : -1;
    }
    return false;
}

/* A kernel as (before, units, after), whichever of its axes has the units. */
typedef struct units {
    const float *weights;
    int64_t before, count, after;
    const float *bias; /* NULL: none, or not known */
    int64_t bias_step; /* 0: one for all units */
    bool bias_known;
} units;

/* Of an ONNX file's operator a bias may have any shape that broadcasts, and another name; then nothing
 * is known of it. */
static void find_bias(const search *s, const td_layer_info *layer, units *u) {
    const td_tensor *bias = td_model_parameter(s->model, layer->name, "bias");
    u->bias_known = bias || layer->parameter_count == 1;
    if (bias) {
        td_shape shape = td_tensor_shape(bias);
        int64_t count = td_tensor_count(bias);
        bool each = count == u->count && shape.rank > 0 && shape.dims[shape.rank - 1] == count;
        u->bias_known = each || count == 1;
        u->bias = u->bias_known ? td_tensor_data(bias) : NULL;
        u->bias_step = each;
    }
}

static bool find_units(const search *s, const td_layer_info *layer, units *u) {
    static const char *const operators[] = {"Conv", "Gemm", "MatMul"};
    int32_t from_last = td__layer_kind_of(layer->kind)->unit_axis;
    from_last += is_operator(layer, operators, TD__COUNT(operators));
    const td_tensor *kernel = td_model_parameter(s->model, layer->name, "kernel");
    if (!kernel || !from_last) {
        return false;
    }
    td_shape shape = td_tensor_shape(kernel);
    int32_t axis = shape.rank - from_last;
    *u = (units){.weights = td_tensor_data(kernel),
                 .before = td__elements_between(&shape, 0, axis),
                 .count = shape.dims[axis],
                 .after = td__elements_from(&shape, axis + 1)};
    find_bias(s, layer, u);
    return u->count > 0;
}

/* The largest weight that leads to each unit, and whether all of them are 0. */
static void sum_up(const units *u, float *largest, bool *silent) {
    for (int64_t k = 0; k < u->count; k++) {
        largest[k] = u->before * u->after > 0 ? u->weights[k * u->after] : 0;
        silent[k] = true;
    }
    for (int64_t i = 0; i < u->before; i++) {
        for (int64_t k = 0; k < u->count; k++) {
            const float *row = u->weights + (i * u->count + k) * u->after;
            for (int64_t j = 0; j < u->after; j++) {
                largest[k] = row[j] > largest[k] ? row[j] : largest[k];
                silent[k] = silent[k] && row[j] == 0;
            }
        }
    }
}

/* A unit that reads nothing puts out a constant. One with relu is dead when it can only get 0 or
 * less: no weight is positive, nor is its bias, and what it reads is never negative. */
static void look_at_units(search *s, const td_layer_info *layer) {
    units u;
    if (!find_units(s, layer, &u)) {
        return;
    }
    float *largest = td__calloc((size_t)u.count, sizeof *largest);
    bool *silent = td__calloc((size_t)u.count, sizeof *silent);
    bool *dead = td__calloc((size_t)u.count, sizeof *dead);
    if (largest && silent && dead) {
        bool relu = ends_in_relu(s->model, layer);
        bool positive = relu && is_never_negative(s->model, layer->inputs[0]);
        char text[TEXT_SIZE];
        int64_t silent_count = 0;
        sum_up(&u, largest, silent);
        for (int64_t k = 0; k < u.count; k++) {
            bool low = u.bias ? u.bias[k * u.bias_step] <= 0 : u.bias_known;
            dead[k] = relu && low && (silent[k] || (positive && largest[k] <= 0));
            silent[k] = silent[k] && !dead[k];
            silent_count += silent[k];
        }
        if (list_units(text, dead, u.count, "units")) {
            bool own = td__layer_activation(layer) == TD_RELU;
            add_finding(s, TD_FINDING_WARNING, layer->name, "dead: %s %s", text,
                        own ? "always put out 0" : "are always 0 after the relu that follows");
        }
        if (silent_count < u.count && list_units(text, silent, u.count, "units")) {
            add_finding(s, TD_FINDING_WARNING, layer->name,
                        "constant: %s have no weight that is not 0", text);
        }
    } else {
        s->exhausted = true;
    }
    td__free(largest);
    td__free(silent);
    td__free(dead);
}

/* ---- Normalisations -------------------------------------------------------------------------- */

static const td_stats *stats_of(const search *s, const td_layer_info *layer, const char *name) {
    for (size_t i = 0; i < layer->parameter_count; i++) {
        size_t which = layer->first_parameter + i;
        if (!strcmp(td_model_parameter_at(s->model, which)->parameter, name)) {
            return &s->stats[which];
        }
    }
    return NULL;
}

static void look_at_normalization(search *s, const td_layer_info *layer) {
    const td_stats *gamma = stats_of(s, layer, "gamma");
    const td_stats *mean = stats_of(s, layer, "moving_mean");
    const td_stats *variance = stats_of(s, layer, "moving_variance");
    if (gamma && gamma->zeros > 0) {
        add_finding(s, TD_FINDING_WARNING, layer->name,
                    "constant: %lld of %lld channels have gamma 0 and put out their beta",
                    (long long)gamma->zeros, (long long)gamma->count);
    }
    if (mean && variance && mean->zeros == mean->count && variance->min == 1 &&
        variance->max == 1) {
        add_finding(s, TD_FINDING_NOTE, layer->name,
                    "its moving averages are as before training: mean 0, variance 1");
    }
}

td_status td__findings_collect(td__findings *findings, const td_model *model, const td_stats *stats,
                               td_error *error) {
    search s = {findings, model, stats, false};
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        for (size_t k = 0; k < layer->parameter_count; k++) {
            look_at_parameter(&s, layer->first_parameter + k);
        }
        look_at_units(&s, layer);
        look_at_normalization(&s, layer);
    }
    return s.exhausted ? td_error_set(error, TD_MEMORY, "out of memory") : TD_OK;
}
