#include "diagnose/task.h"

#include "base/memory.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { BATCH = 256, MOST_CLASSES = 4096, MOST_NAMED = 32, MOST_AT_ONCE = 1 << 24 };

/* Sums over rows, for either kind of score. */
typedef struct sums {
    const td__task *task;
    bool logits; /* of one unit: class 1 is above 0 */
    int64_t rows, cells, right;
    double *counts;  /* of truth's classes, or of ones in each column */
    double *answers; /* of predicted classes */
    double *pairs;   /* [predicted class][class], of the first MOST_NAMED */
    size_t count_room;
    double residual, truth, squares; /* of values */
    double loss;
    bool broken;
} sums;

static int64_t argmax(const float *row, int64_t width) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* The class an example has, whichever way the labels write it. */
static int64_t class_of(const td_tensor *truth, int64_t row, int64_t width) {
    if (truth->dtype == TD_INT32) {
        return ((const int32_t *)truth->data)[row];
    }
    const float *values = td__floats(truth) + row * width;
    return width == 1 ? (int64_t)lroundf(values[0]) : argmax(values, width);
}

static int64_t predicted_class(const sums *s, const float *row, int64_t width) {
    if (width > 1) {
        return argmax(row, width);
    }
    if (s->task->kind == TD__TASK_BINARY) {
        return row[0] > (s->logits ? 0.0F : 0.5F);
    }
    return isfinite(row[0]) ? (int64_t)lroundf(row[0]) : -1;
}

static void add_classes(sums *s, const td_tensor *prediction, const td_tensor *truth,
                        int64_t rows) {
    int64_t width = prediction->count / rows, label = truth->count / rows;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = td__floats(prediction) + i * width;
        int64_t is = class_of(truth, i, label), said = predicted_class(s, row, width);
        for (int64_t k = 0; k < width; k++) {
            s->broken |= !isfinite(row[k]);
        }
        s->right += is == said;
        s->cells++;
        if (is >= 0 && (size_t)is < s->count_room) {
            s->counts[is]++;
        }
        if (said >= 0 && (size_t)said < s->count_room) {
            s->answers[said]++;
        }
        if (is >= 0 && is < MOST_NAMED && said >= 0 && said < MOST_NAMED) {
            s->pairs[said * MOST_NAMED + is]++;
        }
    }
}

static void add_labels(sums *s, const td_tensor *prediction, const td_tensor *truth, int64_t rows) {
    int64_t width = prediction->count / rows;
    for (int64_t i = 0; i < prediction->count && truth->count == prediction->count; i++) {
        float said = td__floats(prediction)[i], is = td__floats(truth)[i];
        s->broken |= !isfinite(said);
        s->right += (said > (s->logits ? 0.0F : 0.5F)) == (is > 0.5F);
        s->cells++;
        if ((size_t)(i % width) < s->count_room) {
            s->counts[i % width] += is > 0.5F;
        }
    }
}

static void add_values(sums *s, const td_tensor *prediction, const td_tensor *truth) {
    for (int64_t i = 0; i < prediction->count && truth->count == prediction->count; i++) {
        double said = (double)td__floats(prediction)[i], is = (double)td__floats(truth)[i];
        s->broken |= !isfinite(said);
        s->residual += (said - is) * (said - is);
        s->truth += is;
        s->squares += is * is;
        s->cells++;
    }
}

/* What would be right if each class that is predicted were called by the class that it mostly is; 0: two
 * of them would have the same name. */
static double renamed_of(const sums *s) {
    double right = 0;
    bool taken[MOST_NAMED] = {false};
    if (s->task->kind == TD__TASK_LABELS) {
        return 1 - (double)s->right / (double)s->cells;
    }
    for (int64_t said = 0; said < MOST_NAMED; said++) {
        const double *row = s->pairs + said * MOST_NAMED;
        int64_t best = 0;
        double all = 0;
        for (int64_t is = 0; is < MOST_NAMED; is++) {
            best = row[is] > row[best] ? is : best;
            all += row[is];
        }
        if (all > 0 && taken[best]) {
            return 0;
        }
        taken[best] |= all > 0;
        right += row[best];
    }
    return right / (double)s->cells;
}

static double score_of(const sums *s) {
    if (s->broken || s->cells == 0) {
        return NAN;
    }
    double cells = (double)s->cells;
    if (s->task->kind == TD__TASK_VALUES) {
        double total = s->squares - s->truth * s->truth / cells;
        return total > 0 ? 1 - s->residual / total : (s->residual > 0 ? 0 : 1);
    }
    double constant = 0;
    for (size_t i = 0; i < s->count_room; i++) {
        if (s->task->kind == TD__TASK_LABELS) {
            double ones = s->counts[i], rows = (double)s->rows;
            constant += s->counts[i] > 0 ? fmax(ones, rows - ones) : 0;
        } else {
            constant = fmax(constant, s->counts[i]);
        }
    }
    double right = (double)s->right / cells, chance = constant / cells;
    return chance < 1 ? (right - chance) / (1 - chance) : right;
}

/* One batch through the model. */
static td_status add_batch(td_trainer *trainer, sums *s, const td_batch *batch, td_error *error) {
    td__pass *pass = &trainer->check;
    td_status status = td__pass_forward(pass, batch, error);
    if (!status) {
        s->loss += (double)td_tensor_scalar(pass->bare) * (double)batch->count;
        s->rows += batch->count;
        if (s->task->kind == TD__TASK_VALUES) {
            add_values(s, pass->prediction, pass->outcomes[0].truth);
        } else if (s->task->kind == TD__TASK_LABELS) {
            add_labels(s, pass->prediction, pass->outcomes[0].truth, batch->count);
        } else {
            add_classes(s, pass->prediction, pass->outcomes[0].truth, batch->count);
        }
    }
    td__pass_end(pass);
    return status;
}

static td_view view_of(td_dtype dtype, int64_t rows, const td_shape *one, void *data) {
    td_view view = {.dtype = dtype, .shape = {.rank = one->rank + 1}, .data = data};
    view.shape.dims[0] = rows;
    memcpy(view.shape.dims + 1, one->dims, (size_t)one->rank * sizeof *one->dims);
    return view;
}

td_status td__marks_of(td_trainer *trainer, const td__task *task, td_part part, double shift,
                       double scale, td__marks *marks, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    int64_t all = part == TD_TRAINING ? info->training : info->validation;
    int64_t count = all < TD__MARKED_ROWS ? all : TD__MARKED_ROWS;
    int64_t inputs = td__elements_from(&info->input, 0);
    int64_t labels = td__elements_from(&info->label, 0);
    *marks = (td__marks){.score = NAN, .loss = NAN};
    if (count == 0) {
        return TD_OK;
    }
    size_t room = task->kind == TD__TASK_CLASSES ? (size_t)task->classes + 1 : (size_t)labels + 2;
    room = room < MOST_CLASSES ? room : MOST_CLASSES;
    sums s = {.task = task,
              .logits = trainer->experiment->train.objective.options.from_logits,
              .counts = td__calloc(2 * room + (size_t)MOST_NAMED * MOST_NAMED, sizeof(double)),
              .count_room = room};
    int64_t at_once = MOST_AT_ONCE / (inputs + labels + 1);
    at_once = at_once < 1 ? 1 : at_once > BATCH ? BATCH : at_once;
    float *input = td__calloc((size_t)(at_once * inputs), sizeof(float));
    float *label = td__calloc((size_t)(at_once * labels), sizeof(float));
    td_status status =
        s.counts && input && label ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    s.answers = s.counts ? s.counts + room : NULL;
    s.pairs = s.counts ? s.counts + 2 * room : NULL;
    for (int64_t done = 0; !status && done < count;) {
        int64_t rows[BATCH], some = count - done < at_once ? count - done : at_once;
        for (int64_t i = 0; i < some; i++) {
            td_dataset_rows(trainer->feed.data, part, (done + i) * all / count, 1, &rows[i]);
        }
        status = td_dataset_read(trainer->feed.data, part, rows, some, input,
                                 info->label_kind == TD_LABEL_NONE ? NULL : (void *)label, error);
        bool numbers = info->label_kind != TD_LABEL_CLASS;
        for (int64_t i = 0; numbers && i < some * labels; i++) {
            label[i] = (float)(((double)label[i] - shift) / scale);
        }
        td_batch batch = {.count = some,
                          .rows = rows,
                          .input = view_of(TD_FLOAT32, some, &info->input, input),
                          .label =
                              view_of(numbers ? TD_FLOAT32 : TD_INT32, some, &info->label, label)};
        if (!status) {
            status = add_batch(trainer, &s, &batch, error);
        }
        done += some;
    }
    if (!status) {
        double highest = 0;
        for (size_t i = 0; i < room; i++) {
            highest = fmax(highest, s.answers[i]);
        }
        bool values = task->kind == TD__TASK_VALUES || s.cells == 0;
        *marks = (td__marks){.rows = s.rows,
                             .right = values ? 0 : (double)s.right / (double)s.cells,
                             .renamed = values ? 0 : renamed_of(&s),
                             .score = score_of(&s),
                             .loss = s.loss / (double)s.rows,
                             .highest = highest / (double)s.rows};
    }
    td__free(s.counts);
    td__free(input);
    td__free(label);
    return status;
}
