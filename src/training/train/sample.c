/* Predictions for a sample of the validation part (of the training part when there is no other). */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/table.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <string.h>

enum { STREAM_SAMPLES = 0x5a }; /* distinguishes this use of the seed from others */

/* Room for the rows of a sample, what goes in and what comes out. */
typedef struct sample {
    td_part part;
    int64_t count;
    int64_t *rows;
    float *input, *output;
    void *label;
    td_shape output_shape; /* with count first */
} sample;

static void release_sample(sample *s) {
    td__free(s->rows);
    td__free(s->input);
    td__free(s->output);
    td__free(s->label);
}

/* Which rows: of all that there are, count, in order, by seed and step alone. */
static bool choose_rows(const td_trainer *trainer, sample *s, int64_t all) {
    int64_t *rows = td__calloc((size_t)all, sizeof *rows);
    s->rows = td__calloc((size_t)s->count, sizeof *s->rows);
    if (!rows || !s->rows) {
        td__free(rows);
        return false;
    }
    td_dataset_rows(trainer->feed.data, s->part, 0, all, rows);
    td__random random;
    td__random_seed(&random, trainer->experiment->seed ^ ((uint64_t)trainer->at.step + 1) << 20,
                    STREAM_SAMPLES);
    int64_t found = 0;
    for (int64_t row = 0; row < all && found < s->count; row++) {
        if (td__random_below(&random, (uint64_t)(all - row)) < (uint64_t)(s->count - found)) {
            s->rows[found++] = rows[row];
        }
    }
    td__free(rows);
    return true;
}

static td_status draw(const td_trainer *trainer, sample *s, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    s->part = trainer->feed.validation ? TD_VALIDATION : TD_TRAINING;
    int64_t all = s->part == TD_VALIDATION ? info->validation : info->training;
    int64_t wanted = trainer->sample ? trainer->sample : all;
    size_t label =
        info->label_kind == TD_LABEL_NONE ? 0 : (size_t)td__elements_from(&info->label, 0);
    s->count = wanted < all ? wanted : all;
    s->input = td__calloc((size_t)(s->count * td__elements_from(&info->input, 0)), sizeof(float));
    s->label = td__calloc((size_t)s->count * label + 1, sizeof(float)); /* or int32 */
    if (!s->input || !s->label || !choose_rows(trainer, s, all)) {
        return td_error_set(error, TD_MEMORY, "out of memory for a sample of predictions");
    }
    return td_dataset_read(trainer->feed.data, s->part, s->rows, s->count, s->input,
                           label ? s->label : NULL, error);
}

/* (count, …shape) */
static td_view rows_view(td_dtype dtype, int64_t count, const td_shape *shape, const void *data) {
    td_view view = {.dtype = dtype, .data = data};
    view.shape.rank = shape->rank + 1;
    view.shape.dims[0] = count;
    memcpy(view.shape.dims + 1, shape->dims, (size_t)shape->rank * sizeof(int64_t));
    return view;
}

static td_status take_output(sample *s, int64_t first, const td_tensor *output, td_error *error) {
    int64_t each = output->count / output->shape.dims[0];
    if (!s->output) {
        s->output_shape = output->shape;
        s->output_shape.dims[0] = s->count;
        s->output = td__calloc((size_t)(s->count * each), sizeof(float));
    }
    if (!s->output) {
        return td_error_set(error, TD_MEMORY, "out of memory for a sample of predictions");
    }
    memcpy(s->output + first * each, td__floats(output), (size_t)output->count * sizeof(float));
    return TD_OK;
}

/* Batch by batch, so that a sample of everything needs no more working memory than training. */
static td_status predict(td_trainer *trainer, sample *s, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    int64_t each = td__elements_from(&info->input, 0);
    td_status status = TD_OK;
    for (int64_t first = 0; !status && first < s->count; first += info->batch) {
        int64_t count = s->count - first < info->batch ? s->count - first : info->batch;
        td_batch batch = {.count = count,
                          .rows = s->rows + first,
                          .input =
                              rows_view(TD_FLOAT32, count, &info->input, s->input + first * each)};
        status = td__pass_forward(&trainer->check, &batch, error);
        status = status ? status : take_output(s, first, trainer->check.prediction, error);
        td__pass_end(&trainer->check);
    }
    return status;
}

/* In the units of the labels, where those are standardised. */
static void undo(const td_data_info *info, const sample *s) {
    int64_t count = info->label_normal_count;
    td__labels_undo(info->label_mean, info->label_deviation, count, s->label, s->count);
    if (td__elements_from(&s->output_shape, 1) == count) {
        td__labels_undo(info->label_mean, info->label_deviation, count, s->output, s->count);
    }
}

static void record(td_trainer *trainer, const sample *s) {
    const td_data_info *info = trainer->feed.info;
    undo(info, s);
    td_dtype dtype = info->label_kind == TD_LABEL_CLASS ? TD_INT32 : TD_FLOAT32;
    td_view label = rows_view(dtype, s->count, &info->label, s->label);
    (void)td_deck_batch_labels(trainer->recording.deck, s->rows, s->count,
                               info->label_kind == TD_LABEL_NONE ? NULL : &label);
    (void)td_signal_record(
        trainer->signals.prediction->signal,
        (td_view){.dtype = TD_FLOAT32, .shape = s->output_shape, .data = s->output});
}

td_status td__predict_sample(td_trainer *trainer, td_error *error) {
    if (!td__pass_signals_want(&trainer->signals, trainer->signals.prediction)) {
        return TD_OK;
    }
    sample s = {0};
    td_status status = draw(trainer, &s, error);
    status = status ? status : predict(trainer, &s, error);
    if (!status) {
        record(trainer, &s);
    }
    release_sample(&s);
    return status;
}
