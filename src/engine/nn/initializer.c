/* Initial values of parameters, as Keras draws them (not the same numbers).
 *
 * fan_in and fan_out: of (n) n and n; of (…, in, out) in and out, times the sizes before them.
 * Variance scaling has variance scale / fan; glorot (scale 1 over the mean of both fans), lecun (1 over
 * fan_in) and he (2 over fan_in) are names for it.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "nn/layer.h"
#include "tape/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Deviation of a normal distribution that is cut at two deviations. */
#define CUT_DEVIATION 0.87962566103423978
#define PLAIN_SPREAD 0.05

/* --- options ------------------------------------------------------------------------------ */

static const char *const fan_names[] = {"fan_in", "fan_out", "fan_avg"};
static const char *const distribution_names[] = {"truncated_normal", "untruncated_normal",
                                                 "uniform"};
static const td__words fan_words = {"mode", fan_names, 3, NULL, NULL};
static const td__words distribution_words = {"distribution", distribution_names, 3, "normal",
                                             "truncated_normal"};

#define ANY_NUMBER(member, default_value)                                                          \
    TD__FIELD(NUMBER, td_initializer, member, .by_default = default_value, .minimum = -DBL_MAX,    \
              .number = (default_value) != 0)
#define SEED                                                                                       \
    TD__FIELD(INTEGER, td_initializer, seed, .number = true, .no_default = true, .quiet = true)

static const td__field seed_fields[] = {SEED};
static const td__field uniform_fields[] = {ANY_NUMBER(minval, -PLAIN_SPREAD),
                                           ANY_NUMBER(maxval, PLAIN_SPREAD), SEED};
static const td__field normal_fields[] = {ANY_NUMBER(mean, 0),
                                          TD__NUMBER(td_initializer, stddev, PLAIN_SPREAD), SEED};
static const td__field scaling_fields[] = {
    TD__NUMBER(td_initializer, scale, 1), TD__WORD(td_initializer, mode, fan_words, TD_FAN_IN),
    TD__WORD(td_initializer, distribution, distribution_words, TD_DISTRIBUTION_TRUNCATED_NORMAL),
    SEED};
static const td__field orthogonal_fields[] = {ANY_NUMBER(gain, 1), SEED};
static const td__field identity_fields[] = {ANY_NUMBER(gain, 1)};
static const td__field constant_fields[] = {ANY_NUMBER(value, 0)};

/* --- values ------------------------------------------------------------------------------- */

static void fans(const td_shape *shape, double *in, double *out) {
    double field = 1;
    for (int32_t i = 0; i < shape->rank - 2; i++) {
        field *= (double)shape->dims[i];
    }
    *out = shape->rank ? field * (double)shape->dims[shape->rank - 1] : 1;
    *in = shape->rank > 1 ? field * (double)shape->dims[shape->rank - 2] : *out;
}

/* Of one parameter: what is drawn from, and by which rule. */
typedef struct filling {
    td_tensor *tensor;
    td__random random;
    const td_initializer *by;
} filling;

static void fill_tensor(td_tensor *tensor, double value) {
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = (float)value;
    }
}

static void draw_uniform(filling *f, double middle, double half) {
    for (int64_t i = 0; i < f->tensor->count; i++) {
        td__floats(f->tensor)[i] =
            (float)(middle + (2 * td__random_uniform(&f->random) - 1) * half);
    }
}

static void draw_normal(filling *f, double mean, double deviation, bool cut) {
    for (int64_t i = 0; i < f->tensor->count; i++) {
        double z;
        do {
            z = td__random_normal(&f->random);
        } while (cut && fabs(z) > 2);
        td__floats(f->tensor)[i] = (float)(mean + z * deviation);
    }
}

static td_status fill_zeros(filling *f, td_error *error) {
    (void)error;
    fill_tensor(f->tensor, 0);
    return TD_OK;
}
static td_status fill_ones(filling *f, td_error *error) {
    (void)error;
    fill_tensor(f->tensor, 1);
    return TD_OK;
}
static td_status fill_constant(filling *f, td_error *error) {
    (void)error;
    fill_tensor(f->tensor, f->by->value);
    return TD_OK;
}
static td_status fill_identity(filling *f, td_error *error) {
    (void)error;
    int64_t rows = f->tensor->shape.dims[0], columns = f->tensor->shape.dims[1];
    fill_tensor(f->tensor, 0);
    for (int64_t i = 0; i < rows && i < columns; i++) {
        td__floats(f->tensor)[i * columns + i] = (float)f->by->gain.value;
    }
    return TD_OK;
}
static td_status fill_uniform(filling *f, td_error *error) {
    (void)error;
    double low = f->by->minval.value, high = f->by->maxval.value;
    draw_uniform(f, low / 2 + high / 2, high / 2 - low / 2);
    return TD_OK;
}
static td_status fill_normal(filling *f, td_error *error) {
    (void)error;
    draw_normal(f, f->by->mean, f->by->stddev.value, f->by->kind == TD_TRUNCATED_NORMAL);
    return TD_OK;
}

static td_status fill_scaled(filling *f, td_error *error) {
    (void)error;
    double in, out;
    fans(&f->tensor->shape, &in, &out);
    double fan = f->by->mode == TD_FAN_IN ? in : f->by->mode == TD_FAN_OUT ? out : (in + out) / 2;
    double deviation = sqrt(f->by->scale.value / fmax(1, fan));
    bool cut = f->by->distribution == TD_DISTRIBUTION_TRUNCATED_NORMAL;
    if (f->by->distribution == TD_DISTRIBUTION_UNIFORM) {
        draw_uniform(f, 0, deviation * sqrt(3));
    } else {
        draw_normal(f, 0, cut ? deviation / CUT_DEVIATION : deviation, cut);
    }
    return TD_OK;
}

/* Makes the rows of q (count, length), count <= length, orthonormal: Gram-Schmidt, each row against
 * those before it, twice, which is as good as it gets in floating point. */
static void orthonormalize(float *q, int64_t count, int64_t length) {
    const td__kernels_table *kernels = td__kernels();
    for (int64_t i = 0; i < count; i++) {
        float *row = q + i * length;
        for (int64_t k = 0; k < 2 * i; k++) {
            const float *other = q + k % i * length;
            kernels->axpy(length, -kernels->dot(length, row, other), other, row);
        }
        float norm = sqrtf(kernels->dot(length, row, row));
        kernels->affine(length, norm > 0 ? 1 / norm : 0, row, 0, row);
    }
}

/* (…, out) seen as a matrix with orthonormal columns, or rows when it is wider than high. */
static td_status fill_orthogonal(filling *f, td_error *error) {
    td_tensor *tensor = f->tensor;
    float gain = (float)f->by->gain.value;
    int64_t columns = tensor->shape.rank ? tensor->shape.dims[tensor->shape.rank - 1] : 1;
    int64_t rows = columns ? tensor->count / columns : 0;
    draw_normal(f, 0, 1, false);
    if (rows <= columns) {
        orthonormalize(td__floats(tensor), rows, columns);
        td__kernels()->affine(tensor->count, gain, td__floats(tensor), 0, td__floats(tensor));
        return TD_OK;
    }
    float *q = td__aligned_alloc((size_t)tensor->count * sizeof *q); /* (columns, rows) */
    if (!q) {
        return td_error_set(error, TD_MEMORY, "out of memory for the initial values of '%s'",
                            tensor->name);
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        q[i % columns * rows + i / columns] = td__floats(tensor)[i];
    }
    orthonormalize(q, columns, rows);
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = gain * q[i % columns * rows + i / columns];
    }
    td__aligned_free(q);
    return TD_OK;
}

/* --- the table ---------------------------------------------------------------------------- */

typedef struct rule {
    const td__field *fields;
    size_t count;
    td_status (*fill)(filling *f, td_error *error);
    /* Of fill_scaled, for those that are names for it; 0: the options say. */
    double scale;
    td_fan mode;
    td_distribution distribution;
} rule;

#define FIELDS(table) .fields = (table), .count = TD__COUNT(table)
#define SCALED(scaled_by, fan, drawn)                                                              \
    {                                                                                              \
        FIELDS(seed_fields), .fill = fill_scaled, .scale = (scaled_by), .mode = TD_FAN_##fan,      \
                             .distribution = TD_DISTRIBUTION_##drawn                               \
    }
static const rule rules[TD_INITIALIZER_COUNT] = {
    [TD_GLOROT_UNIFORM] = SCALED(1, AVG, UNIFORM),
    [TD_GLOROT_NORMAL] = SCALED(1, AVG, TRUNCATED_NORMAL),
    [TD_HE_UNIFORM] = SCALED(2, IN, UNIFORM),
    [TD_HE_NORMAL] = SCALED(2, IN, TRUNCATED_NORMAL),
    [TD_LECUN_UNIFORM] = SCALED(1, IN, UNIFORM),
    [TD_LECUN_NORMAL] = SCALED(1, IN, TRUNCATED_NORMAL),
    [TD_ORTHOGONAL] = {FIELDS(orthogonal_fields), .fill = fill_orthogonal},
    [TD_ZEROS] = {.fill = fill_zeros},
    [TD_ONES] = {.fill = fill_ones},
    [TD_RANDOM_UNIFORM] = {FIELDS(uniform_fields), .fill = fill_uniform},
    [TD_RANDOM_NORMAL] = {FIELDS(normal_fields), .fill = fill_normal},
    [TD_TRUNCATED_NORMAL] = {FIELDS(normal_fields), .fill = fill_normal},
    [TD_VARIANCE_SCALING] = {FIELDS(scaling_fields), .fill = fill_scaled},
    [TD_CONSTANT] = {FIELDS(constant_fields), .fill = fill_constant},
    [TD_IDENTITY] = {FIELDS(identity_fields), .fill = fill_identity},
};

static bool is_kind(td_initializer_kind kind) {
    return kind > TD_INITIALIZER_DEFAULT && kind < TD_INITIALIZER_COUNT;
}

const td__field *td__initializer_fields(td_initializer_kind kind, size_t *count) {
    *count = is_kind(kind) ? rules[kind].count : 0;
    return is_kind(kind) ? rules[kind].fields : NULL;
}

const char *td_initializer_kind_name(td_initializer_kind kind) {
    return is_kind(kind) ? td__initializer_words.words[kind] : NULL;
}

void td__initializer_fill(td_initializer *initializer, td_initializer_kind by_default,
                          bool always) {
    if (always) {
        *initializer = (td_initializer){0};
    }
    if (initializer->kind == TD_INITIALIZER_DEFAULT) {
        initializer->kind = by_default;
    }
    size_t count;
    const td__field *fields = td__initializer_fields(initializer->kind, &count);
    td__fields_fill(fields, count, initializer, false);
}

td_status td__initializer_set(td_initializer *initializer, const td_value *value, td_error *error) {
    int kind = td__word_find(&td__initializer_words, value->text, "", error);
    if (kind < 0) {
        return TD_NOT_FOUND;
    }
    td_initializer made = {.kind = (td_initializer_kind)kind};
    td__initializer_fill(&made, made.kind, false);
    size_t given = value->kind == TD_VALUE_CHOICE ? value->count : 0;
    if (given && !rules[kind].count) {
        return td_error_set(error, TD_NOT_FOUND, "%s has no options", value->text);
    }
    td_status status = td__fields_set(rules[kind].fields, rules[kind].count, &made, value->settings,
                                      given, "", error);
    if (!status) {
        *initializer = made;
    }
    return status;
}

td_status td__initializer_check(const td_initializer *initializer, td_error *error) {
    if (!is_kind(initializer->kind)) {
        return td_error_set(error, TD_INVALID, "%d is no initializer", (int)initializer->kind);
    }
    if (initializer->kind == TD_RANDOM_UNIFORM &&
        initializer->minval.value > initializer->maxval.value) {
        return td_error_set(error, TD_RANGE, "'minval' %g is above 'maxval' %g",
                            initializer->minval.value, initializer->maxval.value);
    }
    const rule *by = &rules[initializer->kind];
    return td__fields_check(by->fields, by->count, initializer, "", error);
}

static bool same_value(const td_value *a, const td_value *b) {
    return a->kind == b->kind &&
           (a->kind == TD_VALUE_TEXT ? !strcmp(a->text, b->text) : a->number == b->number);
}

td_value td__initializer_value(const td_initializer *initializer,
                               td_setting room[TD__INITIALIZER_MAX_SETTINGS]) {
    const char *name = td_initializer_kind_name(initializer->kind);
    td_value word = {.kind = TD_VALUE_TEXT, .text = name};
    const rule *by = &rules[initializer->kind];
    td_initializer plain = {0};
    td__initializer_fill(&plain, initializer->kind, true);
    size_t count = 0;
    bool by_default = !initializer->seed.set;
    for (size_t i = 0; i < by->count; i++) {
        td_value value = td__field_value(&by->fields[i], initializer, NULL);
        td_value usual = td__field_value(&by->fields[i], &plain, NULL);
        by_default = by_default && same_value(&value, &usual);
        if (!by->fields[i].quiet || initializer->seed.set) {
            room[count++] = (td_setting){by->fields[i].key, value};
        }
    }
    return by_default
               ? word
               : (td_value){
                     .kind = TD_VALUE_CHOICE, .text = name, .settings = room, .count = count};
}

td_status td__initialize(td_tensor *tensor, const td_initializer *initializer, uint64_t seed,
                         td_error *error) {
    td_initializer by = *initializer;
    const rule *kind = &rules[by.kind];
    if (kind->scale != 0) {
        by.scale = TD_SET(kind->scale);
        by.mode = kind->mode;
        by.distribution = kind->distribution;
    }
    filling f = {.tensor = tensor, .by = &by};
    uint64_t stream = by.seed.set ? 0 : td__hash_text(tensor->name);
    td__random_seed(&f.random, by.seed.set ? (uint64_t)(int64_t)by.seed.value : seed, stream);
    return kind->fill(&f, error);
}
