#include "diagnose/facts.h"

#include "base/memory.h"
#include "nn/kind.h"
#include "tensor/element.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Beyond so many numbers, evenly spread rows stand for all. */
enum { CHUNK = 256, MAX_NUMBERS = 1 << 25, MOST_AT_ONCE = 1 << 24 };

static void add(td__column *column, double value) {
    if (!isfinite(value)) {
        column->nonfinite++;
        return;
    }
    /* Welford: sums of squares of large numbers would cancel. */
    column->count++;
    double delta = value - column->mean;
    column->mean += delta / (double)column->count;
    column->deviation += delta * (value - column->mean);
    column->minimum = column->count == 1 ? value : fmin(column->minimum, value);
    column->maximum = column->count == 1 ? value : fmax(column->maximum, value);
}

static void settle(td__column *column) {
    column->deviation = column->count ? sqrt(column->deviation / (double)column->count) : 0;
}

/* ---- Labels --------------------------------------------------------------------------------- */

/* Numbers up to the third that differ: two of them are yes and no, however they are written. */
static void add_distinct(td__labels *labels, double value) {
    for (int i = 0; i < labels->distinct && i < 2; i++) {
        if (labels->first[i] == value) {
            return;
        }
    }
    if (labels->distinct < 2) {
        labels->first[labels->distinct] = value;
    }
    labels->distinct += labels->distinct < 3;
}

static void add_label(td__labels *labels, const float *values, int64_t row) {
    double ones = 0;
    for (int64_t k = 0; k < labels->width; k++) {
        double value = (double)values[k];
        add(&labels->all, value);
        labels->whole &= value == floor(value);
        labels->binary &= value == 0 || value == 1;
        add_distinct(labels, value);
        ones += value == 1;
        int64_t class = labels->width == 1 ? (int64_t)fmin(fmax(value, -1), TD__MOST_CLASSES) : k;
        if (!isfinite(value)) {
            labels->nonfinite_row = labels->nonfinite_row < 0 ? row : labels->nonfinite_row;
        } else if (class >= 0 && class < TD__MOST_CLASSES && (labels->width == 1 || value == 1)) {
            labels->shares[class] += 1;
            labels->classes = class >= labels->classes ? class + 1 : labels->classes;
        }
    }
    labels->one_hot &= ones == 1;
}

static void settle_labels(td__labels *labels, int64_t rows) {
    settle(&labels->all);
    bool classes = labels->whole && labels->all.minimum >= 0 && labels->all.nonfinite == 0 &&
                   (labels->width > 1 || labels->all.maximum < TD__MOST_CLASSES);
    labels->one_hot &= labels->binary && labels->width > 1;
    labels->classes = classes ? labels->classes : 0;
    for (int64_t i = 0; i < TD__MOST_CLASSES; i++) {
        labels->shares[i] /= rows ? (double)rows : 1;
    }
}

/* From the labels alone; only whether whole numbers are classes or values is taken from the loss. */
td__task td__task_of(const td__labels *labels, const td__objective *objective, td_label_kind kind) {
    bool crossentropy = objective->loss == TD_LOSS_BINARY_CROSSENTROPY ||
                        objective->loss == TD_LOSS_CATEGORICAL_CROSSENTROPY ||
                        objective->loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    if (kind == TD_LABEL_CLASS) {
        return (td__task){TD__TASK_CLASSES, labels->classes};
    }
    if (labels->binary) {
        return labels->width == 1 ? (td__task){TD__TASK_BINARY, 2}
               : labels->one_hot  ? (td__task){TD__TASK_CLASSES, labels->width}
                                  : (td__task){TD__TASK_LABELS, 0};
    }
    bool few = labels->width == 1 && labels->classes > 2 && labels->classes <= 32;
    return few && crossentropy ? (td__task){TD__TASK_CLASSES, labels->classes}
                               : (td__task){TD__TASK_VALUES, 0};
}

static td__task task_of(const td__facts *facts, const td_trainer *trainer) {
    const td__train_spec *train = &trainer->experiment->train;
    if (train->objective.target == TD__TARGET_INPUT) {
        return (td__task){TD__TASK_VALUES, 0};
    }
    if (trainer->head_count && trainer->heads[0].label) { /* scores are those of the first output */
        return trainer->heads[0].kind == TD_LABEL_VALUES
                   ? (td__task){TD__TASK_VALUES, 0}
                   : (td__task){TD__TASK_CLASSES, td__output_units(trainer->model, 0)};
    }
    return td__task_of(&facts->labels, &train->objective, trainer->feed.info->label_kind);
}

/* ---- Reading -------------------------------------------------------------------------------- */

typedef struct reader {
    td_trainer *trainer;
    int64_t inputs, labels; /* numbers an example */
    bool from_input;
    int64_t chunk;        /* rows at once, CHUNK at most */
    float *input, *label; /* of so many */
} reader;

/* Rows `first` … of a part of which every `stride`-th is read; labels become floats. */
static td_status read_chunk(reader *r, td_part part, int64_t first, int64_t stride, int64_t some,
                            int64_t *rows, td_error *error) {
    const td_data_info *info = r->trainer->feed.info;
    for (int64_t i = 0; i < some; i++) {
        td_dataset_rows(r->trainer->feed.data, part, first + i * stride, 1, &rows[i]);
    }
    td_status status =
        td_dataset_read(r->trainer->feed.data, part, rows, some, r->input,
                        info->label_kind == TD_LABEL_NONE ? NULL : (void *)r->label, error);
    if (!status && info->label_kind == TD_LABEL_CLASS) {
        for (int64_t i = 0; i < some; i++) {
            int32_t class;
            memcpy(&class, &r->label[i], sizeof class);
            r->label[i] = (float)class;
        }
    }
    if (!status && r->from_input) {
        memcpy(r->label, r->input, (size_t)(some * r->inputs) * sizeof(float));
    }
    return status;
}

static void add_inputs(td__facts *facts, const float *row, int64_t number) {
    for (int64_t k = 0; k < facts->width; k++) {
        td__column *column = &facts->columns[k];
        int64_t before = column->nonfinite;
        add(column, (double)row[k]);
        if (column->nonfinite > before && facts->nonfinite_row < 0) {
            facts->nonfinite_row = number;
            facts->nonfinite_column = k;
        }
    }
}

static void count_nonfinite(td__facts *facts, const float *row, int64_t number) {
    for (int64_t k = 0; k < facts->width; k++) {
        if (!isfinite(row[k]) && facts->validation_nonfinite++ == 0) {
            facts->validation_nonfinite_row = number;
            facts->validation_nonfinite_column = k;
        }
    }
}

static void settle_inputs(td__facts *facts) {
    td__column *all = &facts->inputs;
    double squares = 0;
    facts->smallest_deviation = INFINITY;
    for (int64_t k = 0; k < facts->width; k++) {
        td__column *c = &facts->columns[k];
        settle(c);
        if (c->count == 0) {
            continue;
        }
        all->minimum = all->count ? fmin(all->minimum, c->minimum) : c->minimum;
        all->maximum = all->count ? fmax(all->maximum, c->maximum) : c->maximum;
        all->count += c->count;
        all->nonfinite += c->nonfinite;
        all->mean += c->mean * (double)c->count;
        squares += (c->mean * c->mean + c->deviation * c->deviation) * (double)c->count;
        if (c->maximum > c->minimum) {
            bool larger = c->deviation > facts->largest_deviation;
            facts->largest_column = larger ? k : facts->largest_column;
            facts->largest_deviation = larger ? c->deviation : facts->largest_deviation;
            facts->smallest_deviation = fmin(facts->smallest_deviation, c->deviation);
        } else {
            facts->constant_columns++;
        }
    }
    if (all->count) {
        all->mean /= (double)all->count;
        all->deviation = sqrt(fmax(0, squares / (double)all->count - all->mean * all->mean));
    }
}

static td_status scan(td__facts *facts, reader *r, td_part part, td__labels *labels,
                      td_error *error) {
    int64_t all = part == TD_TRAINING ? facts->rows : facts->validation_rows;
    int64_t max_count = MAX_NUMBERS / (r->inputs + 1);
    int64_t stride = all / (max_count > 0 ? max_count : 1) + 1, count = all / stride;
    int64_t same = 0;
    float before = NAN;
    td_status status = TD_OK;
    *labels = (td__labels){
        .width = r->labels, .whole = true, .binary = true, .one_hot = true, .nonfinite_row = -1};
    for (size_t k = 0; part == TD_TRAINING && facts->heads && k < r->trainer->head_count; k++) {
        const td_data_piece *piece = r->trainer->heads[k].label;
        facts->heads[k] = *labels;
        facts->heads[k].width = piece ? piece->count : r->labels;
    }
    for (int64_t done = 0; !status && done < count; done += r->chunk) {
        int64_t rows[CHUNK], some = count - done < r->chunk ? count - done : r->chunk;
        status = read_chunk(r, part, done * stride, stride, some, rows, error);
        for (int64_t i = 0; !status && i < some; i++) {
            if (part == TD_TRAINING) {
                add_inputs(facts, r->input + i * r->inputs, rows[i]);
            } else {
                count_nonfinite(facts, r->input + i * r->inputs, rows[i]);
            }
            add_label(labels, r->label + i * r->labels, rows[i]);
            for (size_t k = 0; part == TD_TRAINING && facts->heads && k < r->trainer->head_count;
                 k++) {
                const td_data_piece *piece = r->trainer->heads[k].label;
                const float *label = r->label + i * r->labels;
                add_label(&facts->heads[k], piece ? label + piece->first : label, rows[i]);
            }
            same += r->label[i * r->labels] == before;
            before = r->label[i * r->labels];
        }
    }
    settle_labels(labels, count);
    for (size_t k = 0; part == TD_TRAINING && facts->heads && k < r->trainer->head_count; k++) {
        settle_labels(&facts->heads[k], count);
    }
    if (part == TD_TRAINING) {
        facts->looked_at = count;
        facts->order = count > 1 ? (double)same / (double)(count - 1) : 0;
        settle_inputs(facts);
    }
    return status;
}

/* ---- Neighbours ----------------------------------------------------------------------------- */

enum { NEIGHBOURS_ROWS = 400, MIN_NEIGHBOURS = 30, NEIGHBOURS_WIDTH = 4096, MOST_LABELS = 64 };

/* The agreement of n labels deviates by at most 1.4 / sqrt(n), a difference of two by 2 / sqrt(n): three
 * times that is no chance. */
#define CHANCE 6.0
#define FARTHER 0.3 /* of the distance to the nearest neighbour, training above validation */

typedef struct crowd {
    int64_t count;
    int64_t labelled; /* numbers of a label that are compared */
    bool classes;     /* they are class numbers: equal or not */
    float *points;    /* [count][width], columns of variance 1 */
    float *labels;    /* [count][labelled] */
} crowd;

static int64_t class_of(const float *label, int64_t width) {
    if (width > 1) {
        int64_t best = 0;
        for (int64_t k = 1; k < width; k++) {
            best = label[k] > label[best] ? k : best;
        }
        return best;
    }
    return (int64_t)lroundf(label[0]);
}

static td_status gather_crowd(const td__facts *facts, reader *r, td_part part, int64_t max_count,
                              crowd *c, td_error *error) {
    int64_t all = part == TD_TRAINING ? facts->rows : facts->validation_rows;
    int64_t want = all < max_count ? all : max_count;
    c->classes = facts->task.kind == TD__TASK_CLASSES || facts->task.kind == TD__TASK_BINARY;
    c->labelled = c->classes ? 1 : r->labels < MOST_LABELS ? r->labels : MOST_LABELS;
    c->points = td__calloc((size_t)(want * facts->width) + 1, sizeof *c->points);
    c->labels = td__calloc((size_t)(want * c->labelled) + 1, sizeof *c->labels);
    if (!c->points || !c->labels) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_status status = TD_OK;
    for (int64_t i = 0; !status && i < want; i++) {
        int64_t row;
        status = read_chunk(r, part, i * all / want, 1, 1, &row, error);
        for (int64_t k = 0; !status && k < facts->width; k++) {
            double deviation = facts->columns[k].deviation;
            double value =
                deviation > 0 ? ((double)r->input[k] - facts->columns[k].mean) / deviation : 0;
            c->points[i * facts->width + k] = isfinite(value) ? (float)value : 0;
        }
        for (int64_t k = 0; !status && k < c->labelled; k++) {
            c->labels[i * c->labelled + k] =
                c->classes ? (float)class_of(r->label, r->labels) : r->label[k];
        }
        c->count = i + 1;
    }
    return status;
}

static float distance(const float *a, const float *b, int64_t width, float limit) {
    float sum = 0;
    for (int64_t k = 0; k < width && sum < limit; k++) {
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    }
    return sum;
}

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* How far two labels are apart: classes are the same or not, numbers differ by so much. */
static double label_distance(const crowd *c, int64_t i, int64_t k) {
    double sum = 0;
    for (int64_t n = 0; n < c->labelled; n++) {
        double apart =
            fabs((double)c->labels[i * c->labelled + n] - (double)c->labels[k * c->labelled + n]);
        sum += c->classes ? apart > 0 : apart;
    }
    return isfinite(sum) ? sum : 0;
}

/* How much nearer the labels of nearest neighbours are to each other than those of any two: 1 when
 * they are the same, 0 when they are as by chance. *median: how far the nearest neighbour is. */
static double agreement(const crowd *c, int64_t width, double *median) {
    double near = 0, any = 0;
    float far_away[NEIGHBOURS_ROWS] = {0};
    for (int64_t i = 0; i < c->count; i++) {
        float best = INFINITY;
        int64_t nearest = i;
        for (int64_t k = 0; k < c->count; k++) {
            float far = k == i
                            ? INFINITY
                            : distance(c->points + i * width, c->points + k * width, width, best);
            if (far < best) {
                best = far;
                nearest = k;
            }
            any += label_distance(c, i, k);
        }
        near += label_distance(c, i, nearest);
        far_away[i] = best;
    }
    qsort(far_away, (size_t)c->count, sizeof *far_away, compare);
    *median = c->count > 1 ? sqrt((double)far_away[c->count / 2]) : NAN;
    return any > 0 ? 1 - near / (any / (double)(c->count - 1)) : NAN;
}

/* ---- Labels in other orders ----------------------------------------------------------------- */

/* The mean of the squared sums of products of columns and labels: how much single columns say of them. */
static double association(const crowd *c, int64_t width, const int64_t *order, double *sums) {
    double squares = 0;
    int64_t groups = c->classes ? MOST_LABELS : c->labelled;
    for (int64_t f = 0; f < width; f++) {
        double counts[MOST_LABELS] = {0};
        memset(sums, 0, MOST_LABELS * sizeof *sums);
        for (int64_t i = 0; i < c->count; i++) {
            double x = (double)c->points[i * width + f];
            const float *label = c->labels + order[i] * c->labelled;
            for (int64_t n = 0; n < (c->classes ? 1 : groups); n++) {
                int64_t group = c->classes ? (int64_t)label[0] % MOST_LABELS : n;
                group = group < 0 ? 0 : group;
                sums[group] += c->classes ? x : x * (double)label[n];
                counts[group] += 1;
            }
        }
        for (int64_t n = 0; n < groups; n++) {
            squares += counts[n] > 0 ? sums[n] * sums[n] / counts[n] : 0;
        }
    }
    return squares;
}

static double distance_of_neighbours(const crowd *c, const int64_t *nearest, const int64_t *order) {
    double sum = 0;
    for (int64_t i = 0; i < c->count; i++) {
        sum += label_distance(c, order[i], order[nearest[i]]);
    }
    return sum;
}

static void find_nearest(const crowd *c, int64_t width, int64_t *nearest) {
    for (int64_t i = 0; i < c->count; i++) {
        float best = INFINITY;
        nearest[i] = i;
        for (int64_t k = 0; k < c->count; k++) {
            float far = k == i
                            ? INFINITY
                            : distance(c->points + i * width, c->points + k * width, width, best);
            nearest[i] = far < best ? k : nearest[i];
            best = far < best ? far : best;
        }
    }
}

/* Values around 0, so that sums of products do not say how large they are. */
static void centre_labels(crowd *c) {
    for (int64_t n = 0; n < c->labelled && !c->classes; n++) {
        double mean = 0;
        for (int64_t i = 0; i < c->count; i++) {
            mean += (double)c->labels[i * c->labelled + n] / (double)c->count;
        }
        for (int64_t i = 0; i < c->count; i++) {
            c->labels[i * c->labelled + n] -= (float)mean;
        }
    }
}

static bool is_unrelated(crowd *c, int64_t width) {
    int64_t nearest[NEIGHBOURS_ROWS], order[NEIGHBOURS_ROWS];
    double sums[MOST_LABELS];
    uint64_t random = 88172645463325252U;
    find_nearest(c, width, nearest);
    centre_labels(c);
    for (int64_t i = 0; i < c->count; i++) {
        order[i] = i;
    }
    double near = distance_of_neighbours(c, nearest, order);
    double alone = association(c, width, order, sums);
    bool nearer = true, more = true;
    for (int k = 0; k < TD__LABEL_ORDERS && (nearer || more); k++) {
        for (int64_t i = c->count; i-- > 1;) { /* Fisher and Yates, with xorshift */
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            int64_t other = (int64_t)(random % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        nearer = nearer && near < distance_of_neighbours(c, nearest, order);
        more = more && alone > association(c, width, order, sums);
    }
    return !nearer && !more;
}

static int64_t shared_rows(const crowd *a, const crowd *b, int64_t width) {
    int64_t found = 0;
    for (int64_t i = 0; i < b->count; i++) {
        bool same = false;
        for (int64_t k = 0; k < a->count && !same; k++) {
            same = !memcmp(a->points + k * width, b->points + i * width,
                           (size_t)width * sizeof(float));
        }
        found += same;
    }
    return found;
}

static td_status compare_neighbours(td__facts *facts, reader *r, bool orders, td_error *error) {
    facts->training_agreement = facts->validation_agreement = NAN;
    facts->training_distance = facts->validation_distance = NAN;
    if (facts->width > NEIGHBOURS_WIDTH || facts->indices) {
        return TD_OK;
    }
    crowd training = {0}, validation = {0};
    /* As many of each: the more there are, the nearer is the nearest. */
    int64_t fewer = facts->validation_rows && facts->validation_rows < facts->rows
                        ? facts->validation_rows
                        : facts->rows;
    int64_t max_count = fewer < NEIGHBOURS_ROWS ? fewer : NEIGHBOURS_ROWS;
    td_status status = gather_crowd(facts, r, TD_TRAINING, max_count, &training, error);
    if (!status && facts->validation_rows) {
        status = gather_crowd(facts, r, TD_VALIDATION, max_count, &validation, error);
    }
    if (!status) {
        facts->duplicates = shared_rows(&training, &validation, facts->width);
    }
    if (!status && !r->from_input && max_count >= MIN_NEIGHBOURS) {
        facts->chance = CHANCE / sqrt((double)max_count);
        facts->training_agreement = agreement(&training, facts->width, &facts->training_distance);
        facts->validation_agreement =
            agreement(&validation, facts->width, &facts->validation_distance);
        facts->unrelated = orders && facts->labels.all.maximum > facts->labels.all.minimum &&
                           facts->labels.all.nonfinite == 0 &&
                           is_unrelated(&training, facts->width);
    }
    td__free(training.points);
    td__free(training.labels);
    td__free(validation.points);
    td__free(validation.labels);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static bool reads_indices(const td_trainer *trainer) {
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        for (size_t k = 0; k < layer->input_count; k++) {
            if (layer->inputs[k] < 0 && td__layer_kind_of(layer->kind)->integer_input) {
                return true;
            }
        }
    }
    return td_model_input_dtype(trainer->model) != TD_FLOAT32;
}

td_status td__facts_gather(td__facts *facts, td_trainer *trainer, bool orders, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    bool from_input = trainer->experiment->train.objective.target == TD__TARGET_INPUT;
    *facts = (td__facts){.rows = info->training,
                         .validation_rows = info->validation,
                         .width = td__elements_from(&info->input, 0),
                         .table = info->input.rank <= 1,
                         .indices = reads_indices(trainer),
                         .nonfinite_row = -1,
                         .nonfinite_column = -1};
    reader r = {.trainer = trainer,
                .inputs = facts->width,
                .labels = from_input ? facts->width : td__elements_from(&info->label, 0),
                .from_input = from_input};
    r.chunk = MOST_AT_ONCE / (r.inputs + r.labels + 1);
    r.chunk = r.chunk < 1 ? 1 : r.chunk > CHUNK ? CHUNK : r.chunk;
    facts->columns = td__calloc((size_t)facts->width + 1, sizeof *facts->columns);
    r.input = td__calloc((size_t)(r.chunk * r.inputs) + 1, sizeof(float));
    r.label = td__calloc((size_t)(r.chunk * (r.labels > r.inputs ? r.labels : r.inputs)) + 1,
                         sizeof(float));
    facts->heads =
        trainer->head_count ? td__calloc(trainer->head_count, sizeof *facts->heads) : NULL;
    td_status status =
        facts->columns && r.input && r.label && (facts->heads || !trainer->head_count)
            ? TD_OK
            : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status) {
        status = scan(facts, &r, TD_TRAINING, &facts->labels, error);
    }
    if (!status && facts->validation_rows) {
        status = scan(facts, &r, TD_VALIDATION, &facts->validation_labels, error);
    }
    if (!status) {
        facts->task = task_of(facts, trainer);
        status = compare_neighbours(facts, &r, orders, error);
    }
    td__free(r.input);
    td__free(r.label);
    if (status) {
        td__facts_release(facts);
    }
    return status;
}

bool td__inputs_are_farther(const td__facts *facts) {
    double least = 1 + fmax(FARTHER, facts->chance);
    return facts->training_distance >= least * facts->validation_distance;
}

double td__constant_loss(const td__facts *facts, const td__labels *labels) {
    bool several = facts->task.kind == TD__TASK_LABELS;
    double sum = 0;
    for (int64_t i = 0; i < labels->classes && i < TD__MOST_CLASSES; i++) {
        double share = labels->shares[i], rest = 1 - share;
        sum -= share > 0 ? share * log(share) : 0;
        sum -= several && rest > 0 ? rest * log(rest) : 0;
    }
    return facts->task.kind == TD__TASK_VALUES ? NAN : several ? sum / (double)labels->width : sum;
}

void td__facts_release(td__facts *facts) {
    td__free(facts->heads);
    td__free(facts->columns);
    facts->columns = NULL;
}
