/* An evaluation to files. */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "sink/picture.h"
#include "sink/text.h"
#include "tapedeck/apply.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const kind_names[] = {[TD_EVALUATION_CLASSES] = "classes",
                                         [TD_EVALUATION_TAGS] = "tags",
                                         [TD_EVALUATION_VALUES] = "values"};

/* The measures of a part, by name: CSV and JSON have the same. */
typedef struct measure {
    const char *name;
    double value;
} measure;

enum { CLASS_MEASURES = 6, BIN_MEASURES = 5, VALUE_MEASURES = 7 };

static void class_measures(const td_evaluation_class *class, measure *out) {
    const measure all[CLASS_MEASURES] = {{"examples", (double)class->examples},
                                         {"predicted", (double)class->predicted},
                                         {"right", (double)class->right},
                                         {"precision", class->precision},
                                         {"recall", class->recall},
                                         {"f1", class->f1}};
    memcpy(out, all, sizeof all);
}

static void bin_measures(const td_evaluation_bin *bin, measure *out) {
    const measure all[BIN_MEASURES] = {{"from", bin->from},
                                       {"to", bin->to},
                                       {"examples", (double)bin->examples},
                                       {"confidence", bin->confidence},
                                       {"accuracy", bin->accuracy}};
    memcpy(out, all, sizeof all);
}

static void value_measures(const td_evaluation_value *value, measure *out) {
    const measure all[VALUE_MEASURES] = {{"mae", value->mae},
                                         {"rmse", value->rmse},
                                         {"r2", value->r2},
                                         {"residual_mean", value->residual_mean},
                                         {"residual_std", value->residual_std},
                                         {"residual_min", value->residual_min},
                                         {"residual_max", value->residual_max}};
    memcpy(out, all, sizeof all);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void cell(FILE *stream, const char *text) {
    char out[TD__CSV_CELL(600)];
    (void)fwrite(out, 1, td__csv_cell(out, text, strnlen(text, 600)), stream);
    (void)fputc(',', stream);
}

static void row(FILE *stream, const char *output, const char *part, const char *name,
                const char *measured, double value) {
    cell(stream, output);
    cell(stream, part);
    cell(stream, name);
    cell(stream, measured);
    if (isnan(value)) {
        (void)fputs("nan\n", stream);
    } else {
        (void)fprintf(stream, "%.17g\n", value);
    }
}

static void rows(FILE *stream, const char *output, const char *part, const char *name,
                 const measure *measures, size_t count) {
    for (size_t i = 0; i < count; i++) {
        row(stream, output, part, name, measures[i].name, measures[i].value);
    }
}

static void csv_classes(FILE *stream, const td_evaluation_output *output) {
    measure measures[CLASS_MEASURES];
    size_t count = output->class_count;
    for (size_t i = 0; i < count; i++) {
        class_measures(&output->classes[i], measures);
        rows(stream, output->name, "class", output->classes[i].name, measures, CLASS_MEASURES);
    }
    for (size_t i = 0; output->confusion && i < count * count; i++) {
        row(stream, output->name, "confusion", output->classes[i / count].name,
            output->classes[i % count].name, (double)output->confusion[i]);
    }
}

static void csv_output(FILE *stream, const td_evaluation_output *output) {
    measure measures[BIN_MEASURES > VALUE_MEASURES ? BIN_MEASURES : VALUE_MEASURES];
    row(stream, output->name, "all", "", "loss", output->loss_value);
    row(stream, output->name, "all", "", "rows", (double)output->rows);
    row(stream, output->name, "all", "", "not_finite", (double)output->not_finite);
    for (size_t i = 0; i < output->metric_count; i++) {
        row(stream, output->name, "all", "", output->metrics[i].name, output->metrics[i].value);
    }
    csv_classes(stream, output);
    for (size_t i = 0; i < output->bin_count; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%zu", i);
        bin_measures(&output->bins[i], measures);
        rows(stream, output->name, "calibration", name, measures, BIN_MEASURES);
    }
    for (size_t i = 0; i < output->value_count; i++) {
        value_measures(&output->values[i], measures);
        rows(stream, output->name, "value", output->values[i].name, measures, VALUE_MEASURES);
    }
}

static td_status write_csv(const td_evaluation *evaluation, FILE *stream, td_error *error) {
    (void)error;
    const td_evaluation_info *info = td_evaluation_about(evaluation);
    (void)fputs("output,part,name,measure,value\n", stream);
    row(stream, "", "all", "", "loss", info->loss);
    row(stream, "", "all", "", "examples", (double)info->examples);
    const td_evaluation_output *output;
    for (size_t i = 0; (output = td_evaluation_at(evaluation, i)); i++) {
        csv_output(stream, output);
    }
    return TD_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Memory that is short shows in json_dumpf, which fails for a NULL inside. */
static json_t *number(double value) {
    return isfinite(value) ? td__json_number(value) : json_null();
}

/* Text that is not UTF-8 is made visible. */
static json_t *text(const char *value) {
    json_t *made = json_string(value);
    char visible[TD_VISIBLE_SIZE(600)];
    if (!made) {
        td_visible(visible, value, strnlen(value, 600), false);
        made = json_string(visible);
    }
    return made;
}

static void set_measures(json_t *object, const measure *measures, size_t count) {
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, measures[i].name, number(measures[i].value));
    }
}

static json_t *json_confusion(const td_evaluation_output *output) {
    json_t *matrix = output->confusion ? json_array() : json_null();
    for (size_t i = 0; output->confusion && i < output->class_count; i++) {
        json_t *line = json_array();
        for (size_t k = 0; k < output->class_count; k++) {
            json_array_append_new(line,
                                  json_integer(output->confusion[i * output->class_count + k]));
        }
        json_array_append_new(matrix, line);
    }
    return matrix;
}

static json_t *json_classes(const td_evaluation_output *output) {
    json_t *list = json_array();
    measure measures[CLASS_MEASURES];
    for (size_t i = 0; i < output->class_count; i++) {
        json_t *class = json_object();
        json_object_set_new(class, "name", text(output->classes[i].name));
        class_measures(&output->classes[i], measures);
        set_measures(class, measures, CLASS_MEASURES);
        json_array_append_new(list, class);
    }
    return list;
}

static json_t *json_bins(const td_evaluation_output *output) {
    json_t *list = json_array();
    measure measures[BIN_MEASURES];
    for (size_t i = 0; i < output->bin_count; i++) {
        json_t *bin = json_object();
        bin_measures(&output->bins[i], measures);
        set_measures(bin, measures, BIN_MEASURES);
        json_array_append_new(list, bin);
    }
    return list;
}

static json_t *json_values(const td_evaluation_output *output) {
    json_t *list = json_array();
    measure measures[VALUE_MEASURES];
    for (size_t i = 0; i < output->value_count; i++) {
        json_t *value = json_object();
        json_object_set_new(value, "name", text(output->values[i].name));
        value_measures(&output->values[i], measures);
        set_measures(value, measures, VALUE_MEASURES);
        json_array_append_new(list, value);
    }
    return list;
}

static json_t *json_output(const td_evaluation_output *output) {
    json_t *object = json_object(), *metrics = json_object();
    for (size_t i = 0; i < output->metric_count; i++) {
        json_object_set_new(metrics, output->metrics[i].name, number(output->metrics[i].value));
    }
    json_object_set_new(object, "name", text(output->name));
    json_object_set_new(object, "kind", json_string(kind_names[output->kind]));
    json_object_set_new(object, "loss", text(output->loss));
    json_object_set_new(object, "why", text(output->why));
    json_object_set_new(object, "value", number(output->loss_value));
    json_object_set_new(object, "rows", json_integer(output->rows));
    json_object_set_new(object, "not_finite", json_integer(output->not_finite));
    json_object_set_new(object, "metrics", metrics);
    json_object_set_new(object, "classes", json_classes(output));
    json_object_set_new(object, "confusion", json_confusion(output));
    json_object_set_new(object, "calibration", json_bins(output));
    json_object_set_new(object, "values", json_values(output));
    return object;
}

td_status td_evaluation_print_json(const td_evaluation *evaluation, FILE *stream, td_error *error) {
    const td_evaluation_info *info = td_evaluation_about(evaluation);
    json_t *all = json_object(), *outputs = json_array();
    json_object_set_new(all, "kind", json_string("evaluation"));
    json_object_set_new(all, "loss", number(info->loss));
    json_object_set_new(all, "examples", json_integer(info->examples));
    const td_evaluation_output *output;
    for (size_t i = 0; (output = td_evaluation_at(evaluation, i)); i++) {
        json_array_append_new(outputs, json_output(output));
    }
    json_object_set_new(all, "outputs", outputs);
    char *written = json_dumps(all, JSON_ENSURE_ASCII);
    json_decref(all);
    if (!written) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (void)fprintf(stream, "%s\n", written);
    free(written);
    return ferror(stream) ? td__file_error(error, "the evaluation", "write") : TD_OK;
}

/* ---- Picture --------------------------------------------------------------------------------- */

enum { SIDE = 512, GAP = 16, CHANNELS = 3 };

typedef struct canvas {
    float *pixels;
    int64_t width, height;
} canvas;

/* A rectangle; shade 0 is white, 1 dark blue. */
static void fill_rectangle(const canvas *on, int64_t x, int64_t y, int64_t width, int64_t height,
                           double shade) {
    const double dark[CHANNELS] = {0.03, 0.19, 0.42};
    for (int64_t i = y; i < y + height && i < on->height; i++) {
        for (int64_t k = x; k < x + width && k < on->width; k++) {
            for (int c = 0; c < CHANNELS; c++) {
                on->pixels[(i * on->width + k) * CHANNELS + c] = (float)(1 - shade * (1 - dark[c]));
            }
        }
    }
}

static void draw_confusion(const canvas *on, const td_evaluation_output *output, int64_t size) {
    size_t count = output->class_count;
    int64_t line = size > 4 ? 1 : 0; /* between the cells */
    fill_rectangle(on, 0, 0, size * (int64_t)count, size * (int64_t)count, line ? 0.15 : 0);
    for (size_t i = 0; i < count * count; i++) {
        double examples = (double)output->classes[i / count].examples;
        /* The root: a few mistakes among many examples are to be seen. */
        double shade = examples > 0 ? sqrt((double)output->confusion[i] / examples) : 0;
        fill_rectangle(on, (int64_t)(i % count) * size, (int64_t)(i / count) * size, size - line,
                       size - line, shade);
    }
}

/* A bar for each bin as high as the accuracy; the line is where it would be as high as the confidence. */
static void draw_bins(const canvas *on, const td_evaluation_output *output, int64_t left) {
    int64_t width = SIDE / (int64_t)output->bin_count, height = on->height;
    for (size_t i = 0; i < output->bin_count; i++) {
        const td_evaluation_bin *bin = &output->bins[i];
        int64_t x = left + (int64_t)i * width;
        if (bin->examples) {
            int64_t bar = (int64_t)(bin->accuracy * (double)height);
            fill_rectangle(on, x, height - bar, width - 1, bar, 0.6);
            int64_t at = height - 1 - (int64_t)(bin->confidence * (double)(height - 1));
            fill_rectangle(on, x, at, width - 1, 2, 1);
        }
    }
}

static td_status write_png(const td_evaluation *evaluation, FILE *stream, td_error *error) {
    const td_evaluation_output *output = td_evaluation_at(evaluation, 0);
    if (!output->confusion || td_evaluation_about(evaluation)->output_count > 1) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "a picture is of the confusion matrix of one output with at most 1024 "
                            "classes; .csv and .json take everything");
    }
    int64_t count = (int64_t)output->class_count, size = count < SIDE ? SIDE / count : 1;
    canvas on = {.width = size * count + GAP + SIDE, .height = size * count};
    on.pixels = td__calloc((size_t)(on.width * on.height), CHANNELS * sizeof(float));
    td__picture picture = {0};
    if (!on.pixels) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    fill_rectangle(&on, 0, 0, on.width, on.height, 0);
    draw_confusion(&on, output, size);
    draw_bins(&on, output, size * count + GAP);
    td_view view = {
        .data = on.pixels, .dtype = TD_FLOAT32, .shape = TD_SHAPE(on.height, on.width, CHANNELS)};
    td_status status = td__picture_make(&view, TD__PICTURE_EXACT, &picture, error);
    if (!status) {
        (void)fwrite(picture.png, 1, picture.size, stream);
        td__free(picture.png);
    }
    td__free(on.pixels);
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

td_status td_evaluation_save(const td_evaluation *evaluation, const char *to, td_error *error) {
    static const struct {
        const char *ending;
        td_status (*write)(const td_evaluation *evaluation, FILE *stream, td_error *error);
    } formats[] = {{".csv", write_csv}, {".json", td_evaluation_print_json}, {".png", write_png}};
    if (!strcmp(to, "-")) {
        td_status status = write_csv(evaluation, stdout, error);
        return status || fflush(stdout) == 0 ? status : td__file_error(error, to, "write");
    }
    size_t length = strlen(to);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t tail = strlen(formats[i].ending);
        if (length > tail && !strcasecmp(to + length - tail, formats[i].ending)) {
            td__draft draft;
            td_error reason = {0};
            FILE *stream = td__draft_open(&draft, to, error);
            td_status status = stream ? formats[i].write(evaluation, stream, &reason) : TD_IO;
            bool good = stream && td__draft_close(&draft, stream, !status);
            if (stream && status) {
                return td_error_set(error, status, "%s: %s", to, reason.text);
            }
            return good || !stream ? status : td__file_error(error, to, "write");
        }
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: an evaluation is written to .csv, .json, .png or - (the CSV to "
                        "standard output)",
                        to);
}
