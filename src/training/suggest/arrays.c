/* Guesses what arrays and folders of images are for, from their shapes and the first examples. */
#include "base/memory.h"
#include "suggest/suggest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLE = 256, PATH = 4200 };

/* What the file of inputs is called where the file of labels is called the other. */
static const char *const pairs[][2] = {
    {"images", "labels"}, {"inputs", "labels"}, {"inputs", "targets"},
    {"data", "labels"},   {"data", "target"},   {"features", "labels"},
    {"X", "y"},           {"x", "y"},
};

/* The file beside path whose name has a word of labels for its word of inputs; NULL: none. */
static char *find_labels(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *word = pairs[i][0], *at = strstr(name, word);
        size_t length = strlen(word);
        /* A single letter must stand alone: x.npy, x_train.npy, train_X.npy. */
        bool apart = at && (length > 1 || ((at == name || at[-1] == '_' || at[-1] == '-') &&
                                           strchr("._-", at[length])));
        char found[PATH];
        int wrote = apart ? snprintf(found, sizeof found, "%.*s%s%s", (int)(at - path), path,
                                     pairs[i][1], at + length)
                          : 0;
        if (wrote > 0 && wrote < PATH && access(found, R_OK) == 0) {
            return td__strdup(found);
        }
    }
    return NULL;
}

/* Least and greatest number of some examples spread over the data. */
static td_status find_range(const td_dataset *dataset, int64_t rows, int64_t inputs, float *min,
                            float *max, td_error *error) {
    float *values = td__calloc((size_t)inputs, sizeof *values);
    if (!values) {
        return td_error_set(error, TD_MEMORY, "no memory");
    }
    *min = INFINITY;
    *max = -INFINITY;
    td_status status = TD_OK;
    int64_t count = rows < SAMPLE ? rows : SAMPLE;
    for (int64_t i = 0; !status && i < count; i++) {
        int64_t row = i * rows / count;
        status = td_dataset_read(dataset, TD_PART_TRAINING, &row, 1, values, NULL, error);
        for (int64_t k = 0; !status && k < inputs; k++) {
            *min = values[k] < *min ? values[k] : *min;
            *max = values[k] > *max ? values[k] : *max;
        }
    }
    td__free(values);
    return status;
}

static bool is_picture(const td_shape *shape) {
    return shape->rank == 3 && shape->dims[2] <= 4 && shape->dims[0] > 4 && shape->dims[1] > 4;
}

static td_status use_range(td__guess *guess, const td_dataset *dataset, td_error *error) {
    float min = 0, max = 0;
    td_status status = find_range(dataset, guess->rows, guess->inputs, &min, &max, error);
    bool bytes = !status && min >= 0 && max > 1 && max <= 255 && is_picture(&guess->input);
    guess->scale = bytes ? 1.0 / 255 : min >= 0 && max <= 1 ? 1 : 0;
    if (!status && bytes &&
        !td__guess_note(guess, "pixels are 0 to 255: inputs are scaled to 0 to 1")) {
        status = td_error_set(error, TD_MEMORY, "no memory");
    }
    return status;
}

static td_status use_labels(td__guess *guess, const td_data_info *info, td_error *error) {
    guess->classes = info->label_kind == TD_LABEL_CLASS ? info->classes : 0;
    guess->values = 1;
    for (int i = 0; i < info->label.rank; i++) {
        guess->values *= info->label.dims[i];
    }
    guess->unlabelled = info->label_kind == TD_LABEL_NONE;
    const char *path = guess->options->data;
    bool good = guess->unlabelled
                    ? td__guess_note(guess, "there are no labels: the model learns to put out its "
                                            "input (an autoencoder); --labels FILE names labels")
                : guess->classes
                    ? td__guess_note(guess, "labels are %lld classes", (long long)guess->classes)
                    : td__guess_note(guess, "labels are %lld number%s for each example",
                                     (long long)guess->values, guess->values == 1 ? "" : "s");
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "%s: no memory", path);
}

td_status td__guess_arrays(td__guess *guess, td_error *error) {
    const char *path = guess->options->data;
    const char *ending = strrchr(path, '.');
    bool npy = ending && !strcmp(ending, ".npy");
    if (npy && !guess->options->labels) {
        guess->labels = find_labels(path);
        if (guess->labels &&
            !td__guess_note(guess, "labels are in %s, by its name", guess->labels)) {
            return td_error_set(error, TD_MEMORY, "%s: no memory", path);
        }
    }
    const char *labels = guess->options->labels ? guess->options->labels : guess->labels;
    td_dataset *dataset = td_dataset_open(TD_DATA(.train = path, .labels = labels), error);
    if (!dataset) {
        return error->status;
    }
    const td_data_info *info = td_dataset_info(dataset);
    guess->rows = info->training;
    guess->input = info->input;
    guess->inputs = 1;
    for (int i = 0; i < info->input.rank; i++) {
        guess->inputs *= info->input.dims[i];
    }
    if (info->input.rank == 2 && info->input.dims[0] > 4 &&
        info->input.dims[0] == info->input.dims[1]) {
        guess->input = TD_SHAPE(info->input.dims[0], info->input.dims[1], 1);
        guess->reshaped = true;
    }
    td_status status = td__guess_enough(guess, error);
    status = status ? status : use_labels(guess, info, error);
    status = status ? status : use_range(guess, dataset, error);
    td_dataset_close(dataset);
    return status;
}
