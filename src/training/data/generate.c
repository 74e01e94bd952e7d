/* Synthetic data sets, each a function of its options and the seed. */
#include "base/memory.h"
#include "base/random.h"
#include "base/words.h"
#include "data/streams.h"
#include "data/table.h"
#include "tensor/element.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* What one example is made from. Labels are floats or class numbers, as the recipe says. */
typedef struct making {
    const td_generate_options *options; /* defaults filled in */
    td__random *random;
    const float *centres; /* blobs: (classes, features) */
    int64_t number;       /* of the example */
    float *input;
    float *value;
    int32_t *class;
} making;

static double uniform(making *m, double low, double high) {
    return low + (high - low) * td__random_uniform(m->random);
}

/* (length, 2): numbers in [0, 1) and markers; two markers are 1, one in each half; the label is the
 * sum of the two marked numbers (Hochreiter, Schmidhuber 1997). */
static void make_adding(making *m) {
    int64_t length = m->options->length, half = length / 2;
    for (int64_t t = 0; t < length; t++) {
        m->input[2 * t] = (float)td__random_uniform(m->random);
        m->input[2 * t + 1] = 0;
    }
    int64_t a = (int64_t)td__random_below(m->random, (uint64_t)half);
    int64_t b = half + (int64_t)td__random_below(m->random, (uint64_t)(length - half));
    m->input[2 * a + 1] = m->input[2 * b + 1] = 1;
    m->value[0] = m->input[2 * a] + m->input[2 * b];
}

/* (length, 1): one to three periods of a sine; the label is the value that comes next. */
static void make_sine(making *m) {
    int64_t length = m->options->length;
    double phase = uniform(m, 0, 2 * PI), step = 2 * PI * uniform(m, 1, 3) / (double)length;
    for (int64_t t = 0; t < length; t++) {
        m->input[t] = (float)sin(phase + step * (double)t);
    }
    m->value[0] = (float)sin(phase + step * (double)length);
}

/* (2): the corners of a square in turn; the label is 1 where the two differ. */
static void make_xor(making *m) {
    int a = (int)(m->number & 1), b = (int)(m->number >> 1 & 1);
    m->input[0] = (float)a;
    m->input[1] = (float)b;
    m->class[0] = a ^ b;
}

/* (features): normally distributed around one centre for each class. */
static void make_blobs(making *m) {
    int64_t features = m->options->features;
    m->class[0] = (int32_t)(m->number % m->options->classes);
    for (int64_t i = 0; i < features; i++) {
        double offset = m->options->spread * td__random_normal(m->random);
        m->input[i] = (float)((double)m->centres[m->class[0] * features + i] + offset);
    }
}

/* (2): two half circles, each reaching into the other. */
static void make_two_moons(making *m) {
    double angle = uniform(m, 0, PI);
    m->class[0] = (int32_t)(m->number & 1);
    m->input[0] = (float)(m->class[0] ? 1 - cos(angle) : cos(angle));
    m->input[1] = (float)(m->class[0] ? 0.5 - sin(angle) : sin(angle));
}

/* Whether the point (x, y), in units of the figure's radius, belongs to it. */
static bool in_figure(int32_t figure, double x, double y) {
    double distance = hypot(x, y), side = fmax(fabs(x), fabs(y));
    switch (figure) {
    case 0: /* disc */
        return distance <= 1;
    case 1: /* square */
        return side <= 0.85;
    case 2: /* plus */
        return side <= 1 && fmin(fabs(x), fabs(y)) <= 0.3;
    case 3: /* ring */
        return distance <= 1 && distance >= 0.6;
    case 4: /* two bars, lying */
        return side <= 1 && fabs(fabs(y) - 0.6) <= 0.3;
    default: /* two bars, standing */
        return side <= 1 && fabs(fabs(x) - 0.6) <= 0.3;
    }
}

/* (size, size, 1): a figure of some size and brightness somewhere in the image. */
static void make_images(making *m) {
    int64_t size = m->options->size;
    double radius = uniform(m, 0.2, 0.35) * (double)size, edge = radius + 0.5;
    double middle_x = uniform(m, edge, (double)size - edge);
    double middle_y = uniform(m, edge, (double)size - edge);
    float brightness = (float)uniform(m, 0.5, 1);
    m->class[0] = (int32_t)(m->number % m->options->classes);
    for (int64_t i = 0; i < size * size; i++) {
        int64_t column = i % size, line = i / size;
        double x = ((double)column + 0.5 - middle_x) / radius;
        double y = ((double)line + 0.5 - middle_y) / radius;
        m->input[i] = in_figure(m->class[0], x, y) ? brightness : 0;
    }
}

enum { EXAMPLES = 1, LENGTH = 2, CLASSES = 4, FEATURES = 8, SIZE = 16, NOISE = 32, SPREAD = 64 };

static const struct field {
    const char *name;
    size_t offset;
    double min, max;
    unsigned bit;
    bool whole;
} fields[] = {
    {"examples", offsetof(td_generate_options, examples), 1, 4e9, EXAMPLES, true},
    {"length", offsetof(td_generate_options, length), 2, 1e6, LENGTH, true},
    {"classes", offsetof(td_generate_options, classes), 2, 1000, CLASSES, true},
    {"features", offsetof(td_generate_options, features), 1, 1e6, FEATURES, true},
    {"size", offsetof(td_generate_options, size), 8, 4096, SIZE, true},
    {"noise", offsetof(td_generate_options, noise), 0, 1e6, NOISE, false},
    {"spread", offsetof(td_generate_options, spread), 0, 1e6, SPREAD, false},
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static td_shape series_pairs(const td_generate_options *o) {
    return TD_SHAPE(o->length, 2);
}
static td_shape series(const td_generate_options *o) {
    return TD_SHAPE(o->length, 1);
}
static td_shape plane(const td_generate_options *o) {
    (void)o;
    return TD_SHAPE(2);
}
static td_shape features(const td_generate_options *o) {
    return TD_SHAPE(o->features);
}
static td_shape image(const td_generate_options *o) {
    return TD_SHAPE(o->size, o->size, 1);
}

static const struct recipe {
    const char *name;
    void (*make)(making *m);
    td_shape (*shape)(const td_generate_options *options);
    td_generate_options defaults;
    int64_t most_classes; /* 0: the label is a value, not a class */
    unsigned fields;
} recipes[] = {
    {"adding", make_adding, series_pairs, {.length = 50}, 0, EXAMPLES | LENGTH},
    {"sine", make_sine, series, {.length = 20}, 0, EXAMPLES | LENGTH | NOISE},
    {"xor", make_xor, plane, {0}, 2, EXAMPLES | NOISE},
    {"blobs",
     make_blobs,
     features,
     {.classes = 3, .features = 2, .spread = 1},
     1000,
     EXAMPLES | CLASSES | FEATURES | SPREAD},
    {"two_moons", make_two_moons, plane, {0}, 2, EXAMPLES | NOISE},
    {"images",
     make_images,
     image,
     {.classes = 4, .size = 16},
     6,
     EXAMPLES | CLASSES | SIZE | NOISE},
};
enum { RECIPE_COUNT = sizeof recipes / sizeof *recipes };

static td_status find_recipe(const char *name, const struct recipe **recipe, td_error *error) {
    const char *names[RECIPE_COUNT];
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        names[i] = recipes[i].name;
        if (name && strcmp(name, recipes[i].name) == 0) {
            *recipe = &recipes[i];
            return TD_OK;
        }
    }
    char hint[TD__HINT_ROOM];
    name = name ? name : "";
    return td_error_set(error, TD_NOT_FOUND, "no generator '%.100s'%s", name,
                        td__word_hint(hint, name, names, RECIPE_COUNT));
}

static double get(const td_generate_options *options, const struct field *field) {
    const char *at = (const char *)options + field->offset;
    int64_t whole;
    double number;
    memcpy(&whole, at, sizeof whole);
    memcpy(&number, at, sizeof number);
    return field->whole ? (double)whole : number;
}

static void set(td_generate_options *options, const struct field *field, double value) {
    char *at = (char *)options + field->offset;
    int64_t whole = (int64_t)value;
    memcpy(at, field->whole ? (const void *)&whole : (const void *)&value, sizeof value);
}

static td_status check_value(const struct recipe *recipe, const struct field *field, double value,
                             td_error *error) {
    double max = field->bit == CLASSES ? (double)recipe->most_classes : field->max;
    if (!(value >= field->min && value <= max) || (field->whole && value != floor(value))) {
        return td_error_set(error, TD_RANGE, "generate %s: %s is %g; %s from %g to %g is expected",
                            recipe->name, field->name, value,
                            field->whole ? "a whole number" : "a number", field->min, max);
    }
    return TD_OK;
}

td_status td_generate_set(td_generate_options *options, const char *field, double value,
                          td_error *error) {
    const struct recipe *recipe = NULL;
    td_status status = find_recipe(options->name, &recipe, error);
    if (status) {
        return status;
    }
    const char *names[FIELD_COUNT];
    char list[128] = "";
    size_t count = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!(recipe->fields & fields[i].bit)) {
            continue;
        }
        if (strcmp(field, fields[i].name) == 0) {
            status = check_value(recipe, &fields[i], value, error);
            if (!status) {
                set(options, &fields[i], value);
            }
            return status;
        }
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", count ? ", " : "", fields[i].name);
        names[count++] = fields[i].name;
    }
    char hint[TD__HINT_ROOM];
    return td_error_set(error, TD_NOT_FOUND, "generate %s takes no '%.100s'%s; it takes %s",
                        recipe->name, field, td__word_meant(hint, field, names, count), list);
}

/* Options with the defaults in place of zeros; fields the recipe does not take must be zero. */
static td_status fill_in(const struct recipe *recipe, const td_generate_options *given,
                         td_generate_options *options, td_error *error) {
    *options = recipe->defaults;
    options->name = recipe->name;
    options->examples = 1000;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        double value = get(given, &fields[i]);
        if (value != 0) {
            td_status status = td_generate_set(options, fields[i].name, value, error);
            if (status) {
                return status;
            }
        }
    }
    return TD_OK;
}

static td_status allocate(td__table *table, const td__request *request, const struct recipe *recipe,
                          const td_generate_options *options, float **centres, td_error *error) {
    td_shape shape = recipe->shape(options);
    int64_t count = td__elements_from(&shape, 0); /* at most 1e6 * 2 or 4096^2 */
    int64_t values, bytes;
    if (!td__multiply(options->examples, count, &values) ||
        !td__multiply(values, (int64_t)sizeof(float), &bytes) || bytes > request->options->memory) {
        return td_error_set(error, TD_RANGE,
                            "generate %s: %lld examples of %lld values are more than %lld bytes; "
                            "make fewer, or raise `memory`",
                            recipe->name, (long long)options->examples, (long long)count,
                            (long long)request->options->memory);
    }
    float *inputs = td__realloc(NULL, (size_t)values, sizeof *inputs);
    void *labels = td__realloc(NULL, (size_t)options->examples, sizeof(float));
    *centres = recipe->make == make_blobs
                   ? td__calloc((size_t)(options->classes * options->features), sizeof(float))
                   : NULL;
    table->bytes[0] = (td__bytes){(uint8_t *)inputs, (size_t)bytes, false};
    table->bytes[1] = (td__bytes){labels, (size_t)options->examples * sizeof(float), false};
    if (!inputs || !labels || (recipe->make == make_blobs && !*centres)) {
        return td_error_set(error, TD_MEMORY, "generate %s: no memory", recipe->name);
    }
    table->rows = options->examples;
    table->floats = inputs;
    table->input = td__array_plain(inputs, TD__F32, shape, count);
    table->label =
        td__array_plain(labels, recipe->most_classes == 0 ? TD__F32 : TD__I32, TD_SHAPE(1), 1);
    return TD_OK;
}

td_status td__generate(td__table *table, const td__request *request, td_error *error) {
    const struct recipe *recipe = NULL;
    td_generate_options options = {0};
    float *centres = NULL;
    td_status status = find_recipe(request->options->generate.name, &recipe, error);
    if (!status) {
        status = fill_in(recipe, &request->options->generate, &options, error);
    }
    if (!status) {
        status = allocate(table, request, recipe, &options, &centres, error);
    }
    if (status) {
        td__free(centres);
        return status;
    }
    td__random random;
    td__random_seed(&random, request->options->seed, TD__STREAM_GENERATE);
    for (int64_t i = 0; centres && i < options.classes * options.features; i++) {
        centres[i] = (float)(20 * td__random_uniform(&random) - 10);
    }
    int64_t count = table->input.count;
    void *labels = (void *)(uintptr_t)table->label.data;
    for (int64_t row = 0; row < options.examples; row++) {
        making m = {&options,
                    &random,
                    centres,
                    row,
                    table->floats + row * count,
                    (float *)labels + row,
                    (int32_t *)labels + row};
        recipe->make(&m);
        for (int64_t i = 0; options.noise > 0 && i < count; i++) {
            m.input[i] += (float)(options.noise * td__random_normal(&random));
        }
    }
    td__free(centres);
    return TD_OK;
}
