/* Reads the files that layers.py writes: cases made of lines of words and of tensors. */
#ifndef TAPEDECK_TESTS_GOLDEN_H
#define TAPEDECK_TESTS_GOLDEN_H

#include "test.h"

#include "tapedeck/nn.h"

#define GOLDEN_MOST_TENSORS 96
#define GOLDEN_MOST_LAYERS 16
#define GOLDEN_MOST_SETTINGS 16

typedef struct golden_tensor {
    char name[96];
    td_shape shape;
    int64_t count;
    float *values;
} golden_tensor;

/* `KIND key=value …` */
typedef struct golden_item {
    char kind[32];
    char text[512]; /* where keys and texts are */
    td_setting settings[GOLDEN_MOST_SETTINGS];
    double numbers[GOLDEN_MOST_SETTINGS][4];
    const char *texts[GOLDEN_MOST_SETTINGS][4];
    size_t count;
} golden_item;

typedef struct golden_case {
    char name[64];
    bool training;
    td_shape input;
    char loss[64];
    golden_item layers[GOLDEN_MOST_LAYERS];
    size_t layer_count;
    golden_item optimizer;
    golden_tensor tensors[GOLDEN_MOST_TENSORS];
    size_t tensor_count;
} golden_case;

static inline td_value golden_value(char *text, double numbers[4], const char *texts[4]) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return (td_value){.kind = TD_VALUE_BOOL, .boolean = *text == 't'};
    }
    char *end;
    size_t count = 0;
    bool numeric = true, list = strchr(text, ',') != NULL;
    for (char *rest = text, *each; (each = strtok_r(rest, ",", &rest));) {
        assert_true(count < 4);
        texts[count] = each;
        numbers[count++] = strtod(each, &end);
        numeric = numeric && end != each && !*end;
    }
    if (numeric) {
        return (td_value){.kind = list ? TD_VALUE_NUMBERS : TD_VALUE_NUMBER,
                          .number = numbers[0],
                          .numbers = numbers,
                          .count = count};
    }
    return (td_value){.kind = list ? TD_VALUE_TEXTS : TD_VALUE_TEXT,
                      .text = texts[0],
                      .texts = texts,
                      .count = count};
}

static inline void golden_read_item(golden_item *item, const char *line) {
    (void)snprintf(item->text, sizeof item->text, "%s", line);
    char *rest = item->text, *word = strtok_r(rest, " \n", &rest);
    (void)snprintf(item->kind, sizeof item->kind, "%s", word);
    item->count = 0;
    while ((word = strtok_r(rest, " \n", &rest))) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = 0;
        assert_true(item->count < GOLDEN_MOST_SETTINGS);
        item->settings[item->count] = (td_setting){
            word, golden_value(value, item->numbers[item->count], item->texts[item->count])};
        item->count++;
    }
}

static inline td_shape golden_read_shape(char *rest) {
    td_shape shape = {0};
    for (char *word; (word = strtok_r(rest, " \n", &rest));) {
        shape.dims[shape.rank++] = strtoll(word, NULL, 10);
    }
    return shape;
}

static inline void golden_read_tensor(golden_tensor *tensor, char *line, FILE *file) {
    char *rest = line, *name = strtok_r(rest, " \n", &rest);
    (void)snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->shape = golden_read_shape(rest);
    tensor->count = 1;
    for (int32_t i = 0; i < tensor->shape.rank; i++) {
        tensor->count *= tensor->shape.dims[i];
    }
    tensor->values = calloc((size_t)tensor->count + 1, sizeof(float));
    assert_non_null(tensor->values);
    for (int64_t i = 0; i < tensor->count; i++) {
        assert_int_equal(fscanf(file, "%f", &tensor->values[i]), 1);
    }
}

/* False at the end of the file. Release with golden_release. */
static inline bool golden_next(FILE *file, golden_case *c) {
    char line[1024];
    memset(c, 0, sizeof *c);
    while (fgets(line, sizeof line, file)) {
        char *rest = line, *word = strtok_r(rest, " \n", &rest);
        if (!word || *word == '#') {
            continue;
        }
        if (strcmp(word, "end") == 0) {
            return true;
        }
        if (strcmp(word, "case") == 0) {
            (void)snprintf(c->name, sizeof c->name, "%s", strtok_r(rest, " \n", &rest));
        } else if (strcmp(word, "training") == 0) {
            c->training = true;
        } else if (strcmp(word, "input") == 0) {
            c->input = golden_read_shape(rest);
        } else if (strcmp(word, "loss") == 0) {
            (void)snprintf(c->loss, sizeof c->loss, "%s", strtok_r(rest, " \n", &rest));
        } else if (strcmp(word, "layer") == 0) {
            assert_true(c->layer_count < GOLDEN_MOST_LAYERS);
            golden_read_item(&c->layers[c->layer_count++], rest);
        } else if (strcmp(word, "optimizer") == 0) {
            golden_read_item(&c->optimizer, rest);
        } else if (strcmp(word, "tensor") == 0) {
            assert_true(c->tensor_count < GOLDEN_MOST_TENSORS);
            golden_read_tensor(&c->tensors[c->tensor_count++], rest, file);
        }
    }
    return false;
}

static inline void golden_release(golden_case *c) {
    for (size_t i = 0; i < c->tensor_count; i++) {
        free(c->tensors[i].values);
    }
}

static inline const golden_tensor *golden_find(const golden_case *c, const char *name) {
    for (size_t i = 0; i < c->tensor_count; i++) {
        if (strcmp(c->tensors[i].name, name) == 0) {
            return &c->tensors[i];
        }
    }
    return NULL;
}

/* What sums of numbers around 1 that cancel out leave in float32. */
#define GOLDEN_CANCELLED 2e-6

/* Fails when an element is off by more than relative, of itself or of a tenth of the largest. */
static inline void golden_compare(const char *case_name, const golden_tensor *expected,
                                  const td_tensor *tensor, double relative) {
    if (!tensor) {
        fail_msg("%s: there is no tensor for %s", case_name, expected->name);
    }
    td_shape shape = td_tensor_shape(tensor);
    if (!td_shape_equal(&shape, &expected->shape)) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        fail_msg("%s: %s is %s, expected %s", case_name, expected->name, td_shape_text(&shape, a),
                 td_shape_text(&expected->shape, b));
    }
    const float *values = td_tensor_data(tensor);
    double largest = 0;
    for (int64_t i = 0; i < expected->count; i++) {
        double size = fabs((double)expected->values[i]);
        largest = size > largest ? size : largest;
    }
    for (int64_t i = 0; i < expected->count; i++) {
        double got = (double)values[i], want = (double)expected->values[i];
        if (!(fabs(got - want) <= relative * fmax(fabs(want), largest / 10) + GOLDEN_CANCELLED)) {
            fail_msg("%s: %s[%lld] is %.9g, expected %.9g", case_name, expected->name, (long long)i,
                     got, want);
        }
    }
}

static inline td_model *golden_model(const golden_case *c) {
    td_error error = {0};
    td_model *model = td_model_create(c->name, c->input);
    for (size_t i = 0; i < c->layer_count; i++) {
        const golden_item *layer = &c->layers[i];
        assert_ok(td_model_add(model, layer->kind, layer->settings, layer->count, &error), error);
    }
    assert_ok(td_model_build(model, 1, &error), error);
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        const td_parameter_info *info = td_model_parameter_at(model, i);
        const golden_tensor *values = golden_find(c, info->name);
        if (values) {
            td_shape shape = td_tensor_shape(info->tensor);
            assert_true(td_shape_equal(&shape, &values->shape));
            memcpy(td_tensor_data(info->tensor), values->values,
                   (size_t)values->count * sizeof(float));
        }
    }
    return model;
}

static inline FILE *golden_open(const char *name) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/golden/%s", TD_TEST_FOLDER, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    return file;
}

#endif
