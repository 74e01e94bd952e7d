/* A saved model over labelled data: how good it is. */
#include "apply/roc.h"
#include "apply/saved.h"
#include "base/memory.h"
#include "base/options.h"
#include "nn/model.h"
#include "pass/pass.h"
#include "tape/tape.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 256,
    BINS = 10,            /* of how sure the model was */
    TOP = 5,              /* of top_5_accuracy */
    MAX_CONFUSION = 1024, /* classes of a confusion matrix */
    MAX_LISTED = 64,      /* values that have a row of their own */
    MAX_METRICS = 12,
    DIGITS = 24
};

/* What is summed up of one number that the model puts out. */
typedef struct sums {
    int64_t count;
    double absolute, squares;
    double mean, spread;             /* of residuals, spread about the mean */
    double truth_mean, truth_spread; /* of labels */
    double min, max;
} sums;

/* One output and what is known of it so far. */
typedef struct judge {
    td_evaluation_output about;
    const td__objective *objective;
    const char *const *names; /* of classes; or NULL */
    size_t name_count;
    const float *label_mean, *label_deviation; /* of labels that training standardised; or NULL */
    int64_t units;                             /* in a row of the prediction */
    double loss;                               /* summed over examples */
    int64_t right, top;                        /* rows; of tags all elements */
    bool ready;
    td_evaluation_class *classes;
    char (*digits)[DIGITS]; /* names of classes that have none */
    int64_t *confusion;
    bool two; /* classes: their scores are in roc */
    td__roc roc;
    td_evaluation_bin bins[BINS];
    sums *sums;
    td_evaluation_value *values;
    td_evaluation_metric metrics[MAX_METRICS];
} judge;

struct td_evaluation {
    td__saved saved;
    td__objective objective;
    td__pass pass;
    char why[TD__WHY_SIZE];
    td_evaluation_info info;
    judge judges[TD_MAX_OUTPUTS];
};

/* ---- Classes --------------------------------------------------------------------------------- */

static double probability(double logit) {
    return 1 / (1 + exp(-logit));
}

static int64_t largest(const td_view *view, int64_t first, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        best = td__element(view, first + i) > td__element(view, first + best) ? i : best;
    }
    return best;
}

/* The class that a row has; -1 where it is none of those that there are. */
static int64_t true_class(const judge *j, const td_view *truth, int64_t row, int64_t per_row) {
    if (per_row > 1) {
        return largest(truth, row * per_row, per_row);
    }
    double value = td__element(truth, row);
    if (j->units == 1) {
        return value > 0.5;
    }
    return value >= 0 && value < (double)j->about.class_count ? (int64_t)value : -1;
}

/* How sure the model was of the class that it predicted. */
static double confidence_of(const judge *j, const float *row, int64_t predicted) {
    td_link link = td__link_of(j->objective);
    if (j->units == 1) {
        double second = link == TD_LINK_SIGMOID ? probability((double)row[0]) : (double)row[0];
        return predicted ? second : 1 - second;
    }
    if (link == TD_LINK_NONE) {
        return (double)row[predicted];
    }
    double sum = 0;
    for (int64_t i = 0; i < j->units; i++) {
        sum += exp((double)row[i] - (double)row[predicted]);
    }
    return 1 / sum;
}

static int64_t predicted_class(const judge *j, const float *row) {
    if (j->units == 1) {
        return row[0] > (td__link_of(j->objective) == TD_LINK_SIGMOID ? 0.0F : 0.5F);
    }
    int64_t best = 0;
    for (int64_t i = 1; i < j->units; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

static bool is_finite_row(const float *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(row[i])) {
            return false;
        }
    }
    return true;
}

/* How many scores are above that of the true class: below TOP it is among the first. */
static bool is_among_first(const judge *j, const float *row, int64_t class) {
    int64_t above = 0;
    for (int64_t i = 0; i < j->units; i++) {
        above += row[i] > row[class];
    }
    return above < TOP;
}

static bool count_class(judge *j, const float *row, int64_t class) {
    j->classes[class].examples++;
    if (!is_finite_row(row, j->units)) {
        j->about.not_finite++;
        return true;
    }
    int64_t predicted = predicted_class(j, row);
    double confidence = confidence_of(j, row, predicted);
    td_evaluation_bin *bin = &j->bins[confidence >= 1  ? BINS - 1
                                      : confidence > 0 ? (int)(confidence * BINS)
                                                       : 0];
    j->classes[predicted].predicted++;
    j->classes[predicted].right += predicted == class;
    j->right += predicted == class;
    j->top += j->units > TOP && is_among_first(j, row, class);
    bin->examples++;
    bin->confidence += confidence;
    bin->accuracy += predicted == class;
    if (j->confusion) {
        j->confusion[class * (int64_t)j->about.class_count + predicted]++;
    }
    if (j->two) {
        float second = j->units == 1                                  ? row[0]
                       : td__link_of(j->objective) == TD_LINK_SOFTMAX ? row[1] - row[0]
                                                                      : row[1];
        return td__roc_add(&j->roc, class, second);
    }
    return true;
}

static td_status judge_classes(judge *j, const td_view *prediction, const td_view *truth,
                               int64_t truths, td_error *error) {
    int64_t rows = td__elements_from(&prediction->shape, 0) / j->units, per_row = truths / rows;
    for (int64_t row = 0; row < rows; row++) {
        int64_t class = true_class(j, truth, row, per_row);
        if (class < 0) {
            return td_error_set(error, TD_INVALID,
                                "a label is %g, but the model scores classes 0 to %zu",
                                td__element(truth, row), j->about.class_count - 1);
        }
        if (!count_class(j, (const float *)prediction->data + row * j->units, class)) {
            return td_error_set(error, TD_MEMORY, "out of memory for the scores of %lld rows",
                                (long long)j->about.rows + row);
        }
    }
    j->about.rows += rows;
    return TD_OK;
}

static td_status judge_tags(judge *j, const td_view *prediction, const td_view *truth,
                            int64_t truths, td_error *error) {
    (void)truths;
    (void)error;
    int64_t rows = td__elements_from(&prediction->shape, 0) / j->units;
    double border = td__link_of(j->objective) == TD_LINK_SIGMOID ? 0 : 0.5;
    for (int64_t row = 0; row < rows; row++) {
        const float *scores = (const float *)prediction->data + row * j->units;
        bool finite = is_finite_row(scores, j->units);
        j->about.not_finite += !finite;
        for (int64_t i = 0; i < j->units; i++) {
            bool has = td__element(truth, row * j->units + i) > 0.5;
            bool predicted = (double)scores[i] > border;
            j->classes[i].examples += has;
            j->classes[i].predicted += predicted;
            j->classes[i].right += has && predicted;
            j->right += finite && has == predicted;
        }
    }
    j->about.rows += rows;
    return TD_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void move_mean(double *mean, double *spread, int64_t count, double value) {
    double step = value - *mean;
    *mean += step / (double)count;
    *spread += step * (value - *mean);
}

static void add_value(sums *s, double prediction, double truth) {
    double residual = prediction - truth;
    s->count++;
    s->absolute += fabs(residual);
    s->squares += residual * residual;
    s->min = s->count == 1 ? residual : fmin(s->min, residual);
    s->max = s->count == 1 ? residual : fmax(s->max, residual);
    move_mean(&s->mean, &s->spread, s->count, residual);
    move_mean(&s->truth_mean, &s->truth_spread, s->count, truth);
}

static td_status judge_values(judge *j, const td_view *prediction, const td_view *truth,
                              int64_t truths, td_error *error) {
    int64_t rows = prediction->shape.dims[0];
    if (truths != rows * j->units) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "an example has %lld labels, but the model puts out %lld numbers",
                            (long long)(truths / rows), (long long)j->units);
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *numbers = (const float *)prediction->data + row * j->units;
        if (!is_finite_row(numbers, j->units)) {
            j->about.not_finite++;
            continue;
        }
        for (int64_t i = 0; i < j->units; i++) {
            double predicted = (double)numbers[i], label = td__element(truth, row * j->units + i);
            if (j->label_deviation) {
                predicted = predicted * (double)j->label_deviation[i] + (double)j->label_mean[i];
                label = label * (double)j->label_deviation[i] + (double)j->label_mean[i];
            }
            add_value(&j->sums[i], predicted, label);
        }
    }
    j->about.rows += rows;
    return TD_OK;
}

/* As scikit-learn: labels that are all the same are explained by nothing but themselves. */
static double r2_of(const sums *s) {
    if (s->truth_spread > 0) {
        return 1 - s->squares / s->truth_spread;
    }
    return s->squares > 0 ? 0 : 1;
}

static void list_values(judge *j) {
    for (int64_t i = 0; j->values && i < j->units; i++) {
        const sums *s = &j->sums[i];
        double count = (double)s->count;
        td_evaluation_value *value = &j->values[i];
        *value = (td_evaluation_value){.mae = s->absolute / count,
                                       .rmse = sqrt(s->squares / count),
                                       .r2 = s->count ? r2_of(s) : NAN,
                                       .residual_mean = s->count ? s->mean : NAN,
                                       .residual_std = sqrt(s->spread / count),
                                       .residual_min = s->count ? s->min : NAN,
                                       .residual_max = s->count ? s->max : NAN};
        (void)snprintf(value->name, sizeof value->name, "value_%lld", (long long)i);
    }
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void add_metric(judge *j, const char *name, double value) {
    j->metrics[j->about.metric_count++] = (td_evaluation_metric){name, value};
}

static double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

static double f1_of(double precision, double recall) {
    return share(2 * precision * recall, precision + recall);
}

static void list_classes(judge *j) {
    for (size_t i = 0; i < j->about.class_count; i++) {
        td_evaluation_class *class = &j->classes[i];
        (void)snprintf(j->digits[i], DIGITS, "%zu", i);
        class->name = i < j->name_count && j->names[i] ? j->names[i] : j->digits[i];
        class->precision = share((double)class->right, (double)class->predicted);
        class->recall = share((double)class->right, (double)class->examples);
        class->f1 = f1_of(class->precision, class->recall);
    }
}

/* Over the classes that labels or predictions have, as scikit-learn does. */
static void add_means(judge *j) {
    double precision = 0, recall = 0, f1 = 0, weighted = 0, examples = 0, count = 0;
    for (size_t i = 0; i < j->about.class_count; i++) {
        const td_evaluation_class *class = &j->classes[i];
        bool counts = j->about.kind == TD_EVALUATION_TAGS || class->examples || class->predicted;
        count += counts;
        precision += class->precision;
        recall += class->recall;
        f1 += class->f1;
        weighted += class->f1 * (double)class->examples;
        examples += (double)class->examples;
    }
    add_metric(j, "precision_macro", share(precision, count));
    add_metric(j, "recall_macro", share(recall, count));
    add_metric(j, "f1_macro", share(f1, count));
    add_metric(j, "f1_weighted", share(weighted, examples));
}

/* Means of the bins; returns the mean difference between how sure and how right it was. */
static double calibrate(judge *j) {
    double difference = 0, examples = 0;
    for (int i = 0; i < BINS; i++) {
        td_evaluation_bin *bin = &j->bins[i];
        double count = (double)bin->examples;
        bin->from = (double)i / BINS;
        bin->to = (double)(i + 1) / BINS;
        difference += fabs(bin->confidence - bin->accuracy);
        examples += count;
        bin->confidence = count > 0 ? bin->confidence / count : NAN;
        bin->accuracy = count > 0 ? bin->accuracy / count : NAN;
    }
    return examples > 0 ? difference / examples : NAN;
}

static void finish_classes(judge *j) {
    double rows = (double)j->about.rows;
    list_classes(j);
    add_metric(j, "accuracy", (double)j->right / rows);
    if (j->units > TOP) {
        add_metric(j, "top_5_accuracy", (double)j->top / rows);
    }
    add_means(j);
    if (j->two) {
        add_metric(j, "roc_auc", td__roc_area(&j->roc));
    }
    add_metric(j, "calibration_error", calibrate(j));
    j->about.bins = j->bins;
    j->about.bin_count = BINS;
}

static void finish_tags(judge *j) {
    list_classes(j);
    add_metric(j, "binary_accuracy", (double)j->right / ((double)j->about.rows * (double)j->units));
    double right = 0, predicted = 0, examples = 0;
    for (size_t i = 0; i < j->about.class_count; i++) {
        right += (double)j->classes[i].right;
        predicted += (double)j->classes[i].predicted;
        examples += (double)j->classes[i].examples;
    }
    add_metric(j, "precision_micro", share(right, predicted));
    add_metric(j, "recall_micro", share(right, examples));
    add_metric(j, "f1_micro", share(2 * right, predicted + examples));
    add_means(j);
}

static void finish_values(judge *j) {
    double absolute = 0, squares = 0, count = 0, r2 = 0, max = 0;
    for (int64_t i = 0; i < j->units; i++) {
        const sums *s = &j->sums[i];
        absolute += s->absolute;
        squares += s->squares;
        count += (double)s->count;
        r2 += r2_of(s);
        max = fmax(max, fmax(fabs(s->min), fabs(s->max)));
    }
    bool some = count > 0;
    add_metric(j, "mae", absolute / count);
    add_metric(j, "mse", squares / count);
    add_metric(j, "rmse", sqrt(squares / count));
    add_metric(j, "r2", some ? r2 / (double)j->units : NAN);
    add_metric(j, "max_error", some ? max : NAN);
    list_values(j);
}

/* What an output of each kind is measured by. */
static const struct {
    td_status (*judge)(judge *j, const td_view *prediction, const td_view *truth, int64_t truths,
                       td_error *error);
    void (*finish)(judge *j);
} kinds[] = {
    [TD_EVALUATION_CLASSES] = {judge_classes, finish_classes},
    [TD_EVALUATION_TAGS] = {judge_tags, finish_tags},
    [TD_EVALUATION_VALUES] = {judge_values, finish_values},
};

/* ---- Running --------------------------------------------------------------------------------- */

static bool make_judge_room(judge *j) {
    size_t count = j->about.class_count;
    bool good = true;
    if (j->about.kind == TD_EVALUATION_VALUES) {
        j->sums = td__calloc((size_t)j->units, sizeof *j->sums);
        j->about.value_count = j->units <= MAX_LISTED ? (size_t)j->units : 0;
        j->values = td__calloc(j->about.value_count + 1, sizeof *j->values);
        j->about.values = j->values;
        return j->sums && j->values;
    }
    j->classes = td__calloc(count, sizeof *j->classes);
    j->digits = td__calloc(count, sizeof *j->digits);
    if (j->about.kind == TD_EVALUATION_CLASSES && count <= MAX_CONFUSION) {
        j->confusion = td__calloc(count * count, sizeof *j->confusion);
        good = j->confusion != NULL;
    }
    j->two = j->about.kind == TD_EVALUATION_CLASSES && count == 2;
    j->about.classes = j->classes;
    j->about.confusion = j->confusion;
    return good && j->classes && j->digits;
}

/* Known when the first prediction is there. */
static td_status begin_judging(judge *j, const td_view *prediction, td_error *error) {
    int32_t rank = prediction->shape.rank;
    int64_t width = rank > 1 ? prediction->shape.dims[rank - 1] : 1;
    double threshold;
    td_shape units = TD_SHAPE(width);
    const char *link = td__probabilities_by(j->objective->loss);
    int64_t classes = td__scored_classes(j->objective, &units, &threshold);
    bool tags = !classes && j->objective->target == TD__TARGET_LABEL && link &&
                !strcmp(link, "sigmoid") && width > 1;
    j->about.kind = classes ? TD_EVALUATION_CLASSES
                    : tags  ? TD_EVALUATION_TAGS
                            : TD_EVALUATION_VALUES;
    j->about.class_count = (size_t)(classes ? classes : tags ? width : 0);
    j->units = classes || tags ? width : td__elements_from(&prediction->shape, 1);
    j->ready = true;
    return make_judge_room(j) ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

static td_status judge_batch(td_evaluation *e, size_t output, td_error *error) {
    judge *j = &e->judges[output];
    const td_tensor *predicted, *label, *loss = e->pass.outcomes[output].loss;
    j->loss += (double)td_tensor_scalar(loss ? loss : e->pass.bare) * (double)e->pass.batch->count;
    if (!td__pass_counted(&e->pass, output, &predicted, &label)) {
        return TD_OK; /* no step of these sequences counts */
    }
    td_view prediction = td_view_of(predicted), truth = td_view_of(label);
    td_status status = j->ready ? TD_OK : begin_judging(j, &prediction, error);
    return status
               ? status
               : kinds[j->about.kind].judge(j, &prediction, &truth, td_tensor_count(label), error);
}

static td_status run_batch(td_evaluation *e, const td_batch *batch, td_error *error) {
    td_status status = td__pass_forward(&e->pass, batch, error);
    if (!status) {
        e->info.loss += (double)td_tensor_scalar(e->pass.loss) * (double)batch->count;
        e->info.examples += batch->count;
    }
    for (size_t i = 0; !status && i < e->info.output_count; i++) {
        status = judge_batch(e, i, error);
    }
    td__pass_end(&e->pass);
    return status;
}

static td_status evaluate_batches(td_evaluation *e, const td_evaluate_options *options,
                                  td_error *error) {
    td_status status = TD_OK;
    int64_t examples = td_dataset_info(e->saved.data)->training;
    td_batches_start(e->saved.batches, 1);
    for (td_batch batch; !status && td_batches_next(e->saved.batches, &batch);) {
        status = run_batch(e, &batch, error);
        if (!status && options->progress &&
            !options->progress(options->user, e->info.examples, examples)) {
            status = td_error_set(error, TD_INTERRUPTED, "stopped after %lld examples",
                                  (long long)e->info.examples);
        }
    }
    if (!status && e->info.examples == 0) {
        status = td_error_set(error, TD_INVALID, "the data has no examples");
    }
    for (size_t i = 0; !status && i < e->info.output_count; i++) {
        judge *j = &e->judges[i];
        if (!j->ready) {
            return td_error_set(error, TD_INVALID, "no step of the sequences counts");
        }
        j->about.loss_value = j->loss / (double)e->info.examples;
        j->about.metrics = j->metrics;
        kinds[j->about.kind].finish(j);
    }
    e->info.loss /= e->info.examples ? (double)e->info.examples : 1;
    return status;
}

static void name_outputs(td_evaluation *e, bool several) {
    const td__data_notes *notes = &e->saved.notes.data;
    const td__model_facts *facts = td__model_facts_of(e->saved.model);
    for (size_t i = 0; i < e->info.output_count; i++) {
        judge *j = &e->judges[i];
        j->objective = several ? &e->saved.heads[i].objective : &e->objective;
        j->about.name = td__output_layer(e->saved.model, i)->name;
        j->about.loss = td_loss_name(j->objective->loss);
        j->about.why = e->why;
    }
    judge *only = e->info.output_count == 1 ? &e->judges[0] : NULL;
    if (only) {
        only->names = notes->classes.count ? (const char *const *)notes->classes.items
                                           : (const char *const *)facts->classes;
        only->name_count = notes->classes.count ? notes->classes.count : facts->class_count;
    }
    td_shape output = td__output_layer(e->saved.model, 0)->output;
    if (only && notes->label_normal_count &&
        notes->label_normal_count == td__elements_from(&output, 0)) {
        only->label_mean = notes->label_mean;
        only->label_deviation = notes->label_deviation;
    }
}

static td_status prepare_evaluation(td_evaluation *e, const char *model, const char *data,
                                    const td_evaluate_options *options, td_error *error) {
    td__saved_options opening = TD__SAVED_OPTIONS(options, BATCH, .scaled_labels = true);
    td_tape_options inference = {.size = sizeof inference, .inference = true};
    bool several = false;
    td_status status = td__saved_load(&e->saved, model, error);
    status = status ? status : td__saved_open(&e->saved, data, &opening, error);
    status = status ? status
                    : td__saved_choose_loss(&e->saved, data ? data : model, options->loss,
                                            &e->objective, &several, e->why, error);
    status =
        status ? status : td__pass_init(&e->pass, e->saved.model, &e->objective, &inference, error);
    if (status) {
        return status;
    }
    e->pass.fixed = e->saved.fixed_batch;
    e->pass.heads = e->saved.heads;
    e->pass.head_count = several ? e->saved.head_count : 0;
    e->info.output_count = td_model_output_count(e->saved.model);
    e->info.remarks = td_dataset_info(e->saved.data)->remarks;
    name_outputs(e, several);
    td__tape_limit(e->pass.tape, options->memory > 0 ? (size_t)options->memory : td__memory_half());
    return evaluate_batches(e, options, error);
}

/* ---- The object ------------------------------------------------------------------------------ */

td_evaluation *td_evaluation_create(const char *model, const char *data,
                                    const td_evaluate_options *options, td_error *error) {
    td_evaluate_options all;
    td_error reason = {0};
    (void)td__options(&all, sizeof all, options);
    td_evaluation *e = td__calloc(1, sizeof *e);
    td_status status = e ? prepare_evaluation(e, model, data, &all, &reason)
                         : td_error_set(&reason, TD_MEMORY, "out of memory");
    if (status) {
        td_error_set(error, status, "%s", reason.text);
        td_evaluation_destroy(e);
        return NULL;
    }
    return e;
}

void td_evaluation_destroy(td_evaluation *e) {
    if (!e) {
        return;
    }
    for (size_t i = 0; i < TD_MAX_OUTPUTS; i++) {
        judge *j = &e->judges[i];
        td__free(j->classes);
        td__free(j->digits);
        td__free(j->confusion);
        td__roc_release(&j->roc);
        td__free(j->sums);
        td__free(j->values);
    }
    td__pass_release(&e->pass);
    td__saved_release(&e->saved);
    td__free(e);
}

const td_evaluation_info *td_evaluation_about(const td_evaluation *evaluation) {
    return &evaluation->info;
}

const td_evaluation_output *td_evaluation_at(const td_evaluation *evaluation, size_t index) {
    return index < evaluation->info.output_count ? &evaluation->judges[index].about : NULL;
}
