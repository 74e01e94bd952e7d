#include "apply/predict_output.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "data/npy.h"
#include "sink/picture.h"
#include "sink/score.h"
#include "tapedeck/apply.h"
#include "tensor/element.h"
#include "tensor/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct format {
    td_status (*write)(td__predict_output *output, const td_view *prediction, const td_batch *batch,
                       td_error *error);
} format;

struct td__predict_output {
    const format *format;
    char *path;
    td__draft draft;
    FILE *stream; /* to the draft, or to standard output */
    int folder;   /* of pictures, or -1 */
    td__predict_output_about about;
    int64_t examples, written;
    bool scores[TD_MAX_OUTPUTS]; /* of classes; a column says which was predicted */
    bool began;                  /* the header has a column */
    bool files;                  /* examples have files of their own */
    size_t room;                 /* bytes of a row but for its file's name */
    char *text;                  /* CSV: rows on their way to the stream */
    size_t text_capacity;
};

enum { TEXT_BYTES = 1 << 16 }; /* written at a time; a row behind them has room too */

static int64_t row_elements(const td_view *view) {
    return td__elements_from(&view->shape, 1);
}

static td_status stream_error(const td__predict_output *output, td_error *error) {
    return td__file_error(error, output->path, "write");
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* A column's name: OUTPUT_WORD where there are several outputs, else WORD; then NAME, or _NUMBER unless -1. False: no
 * memory. */
static bool column(td__predict_output *output, const td__predicted_output *predicted,
                   const char *word, const char *name, int64_t number) {
    const char *before = predicted->name ? predicted->name : "";
    size_t length = strlen(before) + strlen(word) + strlen(name) + TD__NUMBER_ROOM;
    char digits[24] = "";
    if (!td__grow(&output->text, &output->text_capacity, TD__CSV_CELL(length) + length,
                  SIZE_MAX / 2, 1)) {
        return false;
    }
    if (number >= 0) {
        (void)snprintf(digits, sizeof digits, "_%" PRId64, number);
    }
    char *text = output->text + TD__CSV_CELL(length); /* the cell is written in front of it */
    int size = snprintf(text, length, "%s%s%s%s%s", before, *before && *word ? "_" : "", word, name,
                        digits);
    (void)fputs(output->began ? "," : "", output->stream);
    (void)fwrite(output->text, 1, td__csv_cell(output->text, text, (size_t)size), output->stream);
    output->began = true;
    return true;
}

/* class_NAME where classes have names, else class_0; value_0 of a regression; OUTPUT_0 of several outputs. */
static bool value_column(td__predict_output *output, size_t k, int64_t i, int64_t count) {
    const td__predicted_output *predicted = &output->about.outputs[k];
    const char *name = output->scores[k] || output->about.named
                           ? td__column_class(&predicted->scores, i, count)
                           : NULL;
    if (name) {
        return column(output, predicted, "class_", name, -1);
    }
    const char *word = predicted->name ? "" : predicted->scores.values ? "value" : "class";
    return column(output, predicted, word, "", i);
}

/* label,class_0,…[,predicted], of each output; [,file] */
static bool csv_header(td__predict_output *output, const td_view *predictions) {
    bool good = true;
    for (size_t k = 0; k < output->about.count; k++) {
        const td__predicted_output *predicted = &output->about.outputs[k];
        int64_t labels = predicted->label_count, values = row_elements(&predictions[k]);
        for (int64_t i = 0; good && i < labels; i++) {
            good = column(output, predicted, "label", "", labels == 1 ? -1 : i);
        }
        for (int64_t i = 0; good && i < values; i++) {
            good = value_column(output, k, i, values);
        }
        if (good && output->files && k + 1 == output->about.count) {
            good = column(output, &(td__predicted_output){0}, "file", "", -1);
        }
        if (good && output->scores[k]) {
            good = column(output, predicted, "predicted", "", -1);
        }
    }
    return good;
}

static char *label_cells(const td__predicted_output *predicted, char *out, int64_t row,
                         const td_view *label) {
    int64_t width = td__elements_from(&label->shape, 1);
    if (predicted->label_count == 1 && predicted->scores.unit_count) {
        return td__class_cell(out, &predicted->scores,
                              td__element(label, row * width + predicted->first_label));
    }
    for (int64_t i = 0; i < predicted->label_count; i++) {
        int64_t at = row * width + predicted->first_label + i;
        out += label->dtype == TD_INT32 ? td__format_int(out, ((const int32_t *)label->data)[at])
                                        : td__format_float(out, ((const float *)label->data)[at]);
        *out++ = ',';
    }
    return out;
}

/* A row at out, which has room for it; returns its end. */
static char *csv_row(const td__predict_output *output, char *out, int64_t row,
                     const td_batch *batch, const td_view *predictions, const char *file) {
    for (size_t k = 0; k < output->about.count; k++) {
        const td__predicted_output *predicted = &output->about.outputs[k];
        int64_t classes = row_elements(&predictions[k]);
        const float *values = (const float *)predictions[k].data + row * classes;
        out = label_cells(predicted, out, row, &batch->label);
        out = td__format_floats(out, values, (size_t)classes, ',');
        if (output->files && k + 1 == output->about.count) {
            out += td__csv_cell(out, file, strlen(file));
            *out++ = ',';
        }
        if (output->scores[k]) {
            int64_t class = td__predicted(&predicted->scores, &predictions[k], row, classes);
            out = td__class_cell(out, &predicted->scores, (double)class);
        }
    }
    out[-1] = '\n';
    return out;
}

/* Which columns there are, known when the first outputs are. */
static td_status csv_begin(td__predict_output *output, const td_view *predictions,
                           td_error *error) {
    output->room = TEXT_BYTES;
    output->files = td_dataset_file(output->about.data, TD_TRAINING, 0) != NULL;
    for (size_t k = 0; k < output->about.count; k++) {
        const td__predicted_output *predicted = &output->about.outputs[k];
        int64_t classes = row_elements(&predictions[k]);
        output->scores[k] = td__are_scores(&predicted->scores, classes);
        output->room += (size_t)(classes + predicted->label_count) * TD__NUMBER_ROOM +
                        2 * td__class_room(&predicted->scores);
    }
    if (!csv_header(output, predictions)) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for the header", output->path);
    }
    (void)fputc('\n', output->stream);
    return TD_OK;
}

static td_status csv_write(td__predict_output *output, const td_view *predictions,
                           const td_batch *batch, td_error *error) {
    int64_t rows = predictions[0].shape.dims[0];
    td_status status = output->written ? TD_OK : csv_begin(output, predictions, error);
    if (status) {
        return status;
    }
    char *at = output->text;
    for (int64_t row = 0; row < rows; row++) {
        const char *file =
            output->files ? td_dataset_file(output->about.data, TD_TRAINING, batch->rows[row]) : "";
        size_t used = output->text ? (size_t)(at - output->text) : 0;
        if (!td__grow(&output->text, &output->text_capacity,
                      output->room + TD__CSV_CELL(strlen(file)), SIZE_MAX / 2, 1)) {
            return td_error_set(error, TD_MEMORY, "%s: out of memory for a row", output->path);
        }
        at = csv_row(output, output->text + used, row, batch, predictions, file);
        if (at - output->text >= TEXT_BYTES || row + 1 == rows) {
            (void)fwrite(output->text, 1, (size_t)(at - output->text), output->stream);
            at = output->text;
        }
    }
    output->written += rows;
    return ferror(output->stream) ? stream_error(output, error) : TD_OK;
}

/* ---- NPY ------------------------------------------------------------------------------------- */

static td_status npy_write(td__predict_output *output, const td_view *prediction,
                           const td_batch *batch, td_error *error) {
    (void)batch;
    if (output->written == 0) {
        char header[TD__NPY_HEADER];
        td_shape shape = prediction->shape;
        shape.dims[0] = output->examples;
        (void)fwrite(header, 1, td__npy_header(header, TD_FLOAT32, &shape), output->stream);
    }
    td_view little;
    td_status status = td__view_to_file(prediction, &little, error);
    if (status) {
        return status;
    }
    size_t count = (size_t)(prediction->shape.dims[0] * row_elements(prediction));
    (void)fwrite(little.data, sizeof(float), count, output->stream);
    td__view_release(&little);
    output->written += prediction->shape.dims[0];
    return ferror(output->stream) ? stream_error(output, error) : TD_OK;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

/* An output without height and width becomes one row of pixels. */
static td_view picture_view(const td_view *prediction, int64_t row) {
    td_view one = *prediction;
    one.data = (const float *)prediction->data + row * row_elements(prediction);
    one.shape.rank = prediction->shape.rank - 1;
    memmove(one.shape.dims, prediction->shape.dims + 1, (size_t)one.shape.rank * sizeof(int64_t));
    if (one.shape.rank < 2) {
        one.shape = TD_SHAPE(1, row_elements(prediction));
    }
    return one;
}

static td_status pictures_write(td__predict_output *output, const td_view *prediction,
                                const td_batch *batch, td_error *error) {
    (void)batch;
    td_status status = TD_OK;
    for (int64_t row = 0; !status && row < prediction->shape.dims[0]; row++) {
        td_view one = picture_view(prediction, row);
        td__picture picture = {0};
        char name[40];
        status = td__picture_make(&one, TD__PICTURE_EXACT, &picture, error);
        if (!status) {
            (void)snprintf(name, sizeof name, "%06" PRId64 ".png", output->written++);
            status =
                td__file_publish(output->folder, name, picture.png, picture.size, false, error);
            td__free(picture.png);
        }
    }
    return status;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static const format csv = {csv_write}, npy = {npy_write}, pictures = {pictures_write};

static bool is_standard_output(const char *path) {
    return !strcmp(path, "-");
}

static const format *format_of(const char *path) {
    size_t length = strlen(path);
    if (is_standard_output(path)) {
        return &csv;
    }
    if (length > 0 && path[length - 1] == '/') {
        return &pictures;
    }
    if (length > 4 && !strcasecmp(path + length - 4, ".csv")) {
        return &csv;
    }
    return length > 4 && !strcasecmp(path + length - 4, ".npy") ? &npy : NULL;
}

bool td__predict_output_takes_several(const char *path) {
    return format_of(path) == &csv;
}

static td_status open_target(td__predict_output *output, td_error *error) {
    if (output->format == &pictures) {
        (void)mkdir(output->path, 0777); /* there already, or opening it fails */
        output->folder = td__folder_open(output->path, error);
        return output->folder < 0 ? TD_IO : TD_OK;
    }
    if (!is_standard_output(output->path)) {
        output->stream = td__draft_open(&output->draft, output->path, error);
        return output->stream ? TD_OK : TD_IO;
    }
    int standard = dup(STDOUT_FILENO);
    output->stream = standard >= 0 ? fdopen(standard, "wb") : NULL;
    return output->stream ? TD_OK : stream_error(output, error);
}

td__predict_output *td__predict_output_open(const char *path, const td__predict_output_about *about,
                                            td_error *error) {
    const format *found = format_of(path);
    if (!found) {
        td_error_set(
            error, TD_UNSUPPORTED,
            "%s: predictions are written to .csv, .npy, - (CSV to standard output), or a folder of "
            "images, whose name ends in '/': %s/",
            path, path);
        return NULL;
    }
    if (about->keep_files && !td_output_is_free(path) && !td_output_is_ours(path)) {
        td_error_set(error, TD_INVALID,
                     "%s is there already, and no predictions; --force replaces it", path);
        return NULL;
    }
    td__predict_output *output = td__calloc(1, sizeof *output);
    if (output) {
        output->path = td__strdup(path);
    }
    if (!output || !output->path) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        (void)!td__predict_output_close(output, false, NULL);
        return NULL;
    }
    output->format = found;
    output->folder = -1;
    output->about = *about;
    output->examples = td_dataset_info(about->data)->training;
    if (open_target(output, error)) {
        (void)!td__predict_output_close(output, false, NULL);
        return NULL;
    }
    return output;
}

bool td__predict_output_is_pictures(const td__predict_output *output) {
    return output->format == &pictures;
}

td_status td__predict_output_write(td__predict_output *output, const td_view *predictions,
                                   const td_batch *batch, td_error *error) {
    return output->format->write(output, predictions, batch, error);
}

td_status td__predict_output_close(td__predict_output *output, bool good, td_error *error) {
    if (!output) {
        return TD_OK;
    }
    td_status status = TD_OK;
    if (output->stream) {
        bool written = is_standard_output(output->path)
                           ? fclose(output->stream) == 0
                           : td__draft_close(&output->draft, output->stream, good);
        status = good && !written ? stream_error(output, error) : TD_OK;
    }
    if (output->folder > 0) {
        close(output->folder);
    }
    td__free(output->text);
    td__free(output->path);
    td__free(output);
    return status;
}
