/* The validation part: its loss and metrics, and predictions for a sample of it. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/random.h"
#include "tensor/tensor.h"

#include <string.h>

enum { STREAM_SAMPLES = 0x5a }; /* tells this use of the seed from others */

static td_status validate_batch(td_trainer *trainer, const td_batch *batch, double *loss_sum,
                                td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    td_tape *tape = trainer->inference;
    td__head_set(trainer->input, &batch->input);
    td__head_set(trainer->truth, train->target == TD__TARGET_INPUT ? &batch->input : &batch->label);
    td_tensor *prediction = td_model_forward(trainer->model, tape, trainer->input);
    if (prediction) {
        td__truth_fit(train->loss, trainer->truth, prediction);
    }
    td_tensor *loss = td_model_regularize(
        trainer->model, tape,
        td_loss_compute(tape, train->loss, prediction, trainer->truth, &train->loss_options));
    td_status status = td_tape_status(tape, error);
    if (!status) {
        *loss_sum += (double)td_tensor_scalar(loss) * (double)batch->count;
    }
    for (size_t i = 0; !status && i < trainer->metric_count; i++) {
        status = td_metric_update(trainer->metrics[i], prediction, trainer->truth, error);
    }
    td_tape_reset(tape);
    return status;
}

td_status td__validate(td_trainer *trainer, td_error *error) {
    double loss = 0, examples = 0;
    td_status status = TD_OK;
    for (size_t i = 0; i < trainer->metric_count; i++) {
        td_metric_reset(trainer->metrics[i]);
    }
    td_model_watch(trainer->model, NULL, NULL);
    td_batches_start(trainer->validation, 1);
    for (td_batch batch; !status && td_batches_next(trainer->validation, &batch);) {
        status = validate_batch(trainer, &batch, &loss, error);
        examples += (double)batch.count;
    }
    td_model_watch(trainer->model, td__step_watch, trainer);
    if (status) {
        return status;
    }
    td_train_value *told = trainer->told + trainer->metric_count + 1;
    for (size_t i = 0; i <= trainer->metric_count; i++) {
        told[i].value = i ? td_metric_value(trainer->metrics[i - 1]) : loss / examples;
        (void)td_signal_scalar(trainer->validation_values[i], told[i].value);
    }
    return TD_OK;
}

/* ---- Predictions ------------------------------------------------------------------------------
 */

/* Room for the rows of a sample, what goes in and what comes out. */
typedef struct sample {
    int64_t count;
    int64_t *rows;
    float *input, *output;
    void *label;
    td_shape output_shape; /* with count first */
} sample;

static int64_t elements(const td_shape *shape) {
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        count *= shape->dims[i];
    }
    return count;
}

static void release(sample *s) {
    td__free(s->rows);
    td__free(s->input);
    td__free(s->output);
    td__free(s->label);
}

/* Which rows: of all that there are, count, in order, by seed and step alone. */
static bool choose_rows(td_trainer *trainer, sample *s, td_part part, int64_t all) {
    int64_t *rows = td__calloc((size_t)all, sizeof *rows);
    s->rows = td__calloc((size_t)s->count, sizeof *s->rows);
    if (!rows || !s->rows) {
        td__free(rows);
        return false;
    }
    td_dataset_rows(trainer->data, part, 0, all, rows);
    td__random random;
    td__random_seed(&random, trainer->experiment->seed ^ ((uint64_t)trainer->step + 1) << 20,
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

static td_status prepare_sample(td_trainer *trainer, sample *s, td_part part, td_error *error) {
    const td_data_info *info = trainer->info;
    int64_t all = part == TD_VALIDATION ? info->validation : info->training;
    int64_t wanted = trainer->sample ? trainer->sample : all;
    size_t label = info->label_kind == TD_LABEL_NONE ? 0 : (size_t)elements(&info->label);
    s->count = wanted < all ? wanted : all;
    s->input = td__calloc((size_t)(s->count * elements(&info->input)), sizeof(float));
    s->label = td__calloc((size_t)s->count * label + 1, sizeof(float)); /* or int32 */
    if (!s->input || !s->label || !choose_rows(trainer, s, part, all)) {
        return td_error_set(error, TD_MEMORY, "out of memory for a sample of predictions");
    }
    return td_dataset_read(trainer->data, part, s->rows, s->count, s->input,
                           label ? s->label : NULL, error);
}

/* Batch by batch, so that a sample of everything needs no more working memory than training. */
static td_status predict(td_trainer *trainer, sample *s, td_error *error) {
    td_status status = TD_OK;
    int64_t each = elements(&trainer->info->input);
    for (int64_t first = 0; !status && first < s->count; first += trainer->info->batch) {
        int64_t count =
            s->count - first < trainer->info->batch ? s->count - first : trainer->info->batch;
        td_view input = {.dtype = TD_FLOAT32, .data = s->input + first * each};
        input.shape.rank = trainer->info->input.rank + 1;
        input.shape.dims[0] = count;
        memcpy(input.shape.dims + 1, trainer->info->input.dims,
               (size_t)trainer->info->input.rank * sizeof(int64_t));
        td__head_set(trainer->input, &input);
        const td_tensor *output =
            td_model_forward(trainer->model, trainer->inference, trainer->input);
        status = td_tape_status(trainer->inference, error);
        int64_t out = status ? 0 : output->count / count;
        if (!status && !s->output) {
            s->output_shape = output->shape;
            s->output_shape.dims[0] = s->count;
            s->output = td__calloc((size_t)(s->count * out), sizeof(float));
            status = s->output ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
        }
        if (!status) {
            memcpy(s->output + first * out, td__floats(output),
                   (size_t)output->count * sizeof(float));
        }
        td_tape_reset(trainer->inference);
    }
    return status;
}

static void record(td_trainer *trainer, const sample *s) {
    const td_data_info *info = trainer->info;
    td_view label = {.dtype = info->label_kind == TD_LABEL_CLASS ? TD_INT32 : TD_FLOAT32,
                     .data = s->label};
    label.shape.rank = info->label.rank + 1;
    label.shape.dims[0] = s->count;
    memcpy(label.shape.dims + 1, info->label.dims, (size_t)info->label.rank * sizeof(int64_t));
    (void)td_deck_batch_labels(trainer->deck, s->rows, s->count,
                               info->label_kind == TD_LABEL_NONE ? NULL : &label);
    (void)td_signal_record(
        trainer->prediction,
        (td_view){.dtype = TD_FLOAT32, .shape = s->output_shape, .data = s->output});
}

td_status td__predict_sample(td_trainer *trainer, td_error *error) {
    if (!td_signal_wants(trainer->prediction)) {
        return TD_OK;
    }
    sample s = {0};
    td_part part = trainer->validation ? TD_VALIDATION : TD_TRAINING;
    td_status status = prepare_sample(trainer, &s, part, error);
    if (!status) {
        td_model_watch(trainer->model, NULL, NULL);
        status = predict(trainer, &s, error);
        td_model_watch(trainer->model, td__step_watch, trainer);
    }
    if (!status) {
        record(trainer, &s);
    }
    release(&s);
    return status;
}
