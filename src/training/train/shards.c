#include "train/shards.h"

#include "group/group.h"

#include "train/trainer.h"

#include "base/memory.h"
#include "tape/kernels.h"
#include "tape/parallel.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What processes agree on, before the numbers of measures. */
enum { FAILURES, STOPS, AGREED };
enum {
    BUCKET = 1 << 16, /* floats that are exchanged together, or more … */
    BUCKETS = 16,     /* … and of large models this share: a bucket has latency of its own */
    DEFAULT_SHARDS = 8,
    PARTS = 8 /* work within a part is cut so, whatever the number of threads */
};
static const uint64_t apart = 0xD1B54A32D192ED03u; /* between the seeds of two parts */

static bool is_power_of_two(int64_t number) {
    return number > 0 && (number & (number - 1)) == 0;
}

/* ---- How many -------------------------------------------------------------------------------- */

static int64_t default_count(const td__shards *shards, int64_t batch) {
    int64_t count = shards->size > DEFAULT_SHARDS ? shards->size : DEFAULT_SHARDS;
    while (count > batch && count > shards->size) {
        count /= 2;
    }
    return shards->group ? count : 1;
}

td_status td__shards_choose(td_trainer *trainer, td_error *error) {
    td__shards *shards = &trainer->shards;
    td_experiment *experiment = trainer->experiment;
    td__yaml_node *train = td__yaml_get(td__yaml_root(experiment->yaml), "train");
    const td__yaml_node *node = td__yaml_get(train, "shards");
    char text[32];
    shards->group = trainer->options.group;
    shards->size = shards->group ? td_group_size(shards->group) : 1;
    shards->rank = shards->group ? td_group_rank(shards->group) : 0;
    shards->count = experiment->train.shards ? experiment->train.shards
                                             : default_count(shards, trainer->feed.info->batch);
    if (!is_power_of_two(shards->size)) {
        return td__experiment_problem(experiment, node, TD_RANGE, error,
                                      "%d processes: start 1, 2, 4, 8 or another power of two",
                                      shards->size);
    }
    if (!is_power_of_two(shards->count) || shards->count < shards->size ||
        shards->count > trainer->feed.info->batch) {
        return td__experiment_problem(
            experiment, node, TD_RANGE, error,
            "train.shards: %lld, for %d process%s and a batch of %lld: expected a power of two, as "
            "large as the number of processes or larger, and no larger than data.batch",
            (long long)shards->count, shards->size, shards->size == 1 ? "" : "es",
            (long long)trainer->feed.info->batch);
    }
    shards->own = shards->count / shards->size;
    shards->first = shards->own * shards->rank;
    experiment->train.shards = shards->count;
    (void)snprintf(text, sizeof text, "%lld", (long long)shards->count);
    if (!node && shards->count > 1 &&
        td__yaml_put(experiment->yaml, train, "shards",
                     td__yaml_scalar(experiment->yaml, text, false))) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (shards->count > 1) {
        td__parallel_cut(PARTS, td__group_threads(trainer));
    }
    if (shards->size > 1) {
        td__batches_scatter(trainer->feed.training);
    }
    return TD_OK;
}

/* ---- Room ------------------------------------------------------------------------------------ */

static size_t align(size_t floats) {
    return (floats + 15) & ~(size_t)15;
}

/* The last weight is complete first. */
static bool lay_out(td_trainer *trainer) {
    td__shards *s = &trainer->shards;
    const td__learner *learner = &trainer->learner;
    size_t weights = learner->weight_count;
    s->starts = td__calloc(weights + 1, sizeof *s->starts);
    s->bucket_of = td__calloc(weights + 1, sizeof *s->bucket_of);
    s->buckets = td__calloc(weights + 1, sizeof *s->buckets);
    s->averages = td__calloc(trainer->parameter_count + 1, sizeof *s->averages);
    if (!s->starts || !s->bucket_of || !s->buckets || !s->averages) {
        return false;
    }
    size_t all = 0, enough = BUCKET;
    for (size_t i = 0; i < weights; i++) {
        all += align((size_t)learner->weights[i]->count);
    }
    enough = all / BUCKETS > enough ? all / BUCKETS : enough;
    for (size_t i = weights; i-- > 0;) {
        td__bucket *bucket = &s->buckets[s->bucket_count];
        bucket->begin = bucket->weights ? bucket->begin : s->total;
        s->starts[i] = s->total;
        s->bucket_of[i] = s->bucket_count;
        s->total += align((size_t)learner->weights[i]->count);
        bucket->end = s->total;
        bucket->weights++;
        s->bucket_count += bucket->end - bucket->begin >= enough && i > 0;
    }
    s->averages_at = s->total;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        if (parameter->moving_average) {
            s->averages[s->average_count++] = i;
            s->total += align((size_t)parameter->tensor->count);
        }
    }
    s->average_floats = s->total - s->averages_at;
    s->buckets[s->bucket_count++].end =
        s->total; /* the averages are known before the last weight */
    return true;
}

static bool make_rows(td__shards *s) {
    bool good = true;
    s->before = td__calloc(s->total - s->averages_at + 1, sizeof(float));
    for (int64_t parts = 1; parts <= s->own; parts *= 2, s->level_count++) {
        s->levels[s->level_count] = td__aligned_alloc((s->total + 1) * sizeof(float));
        s->numbers[s->level_count] = td__calloc(s->number_count, sizeof(double));
        good = good && s->levels[s->level_count] && s->numbers[s->level_count];
    }
    for (int i = 0; good && i < s->level_count; i++) {
        memset(s->levels[i], 0, (s->total + 1) * sizeof(float));
    }
    s->part_numbers = td__calloc(s->number_count, sizeof *s->part_numbers);
    return good && s->before && s->part_numbers;
}

static bool make_sums(td_trainer *trainer) {
    td__shards *s = &trainer->shards;
    const td__learner *learner = &trainer->learner;
    bool good = true;
    s->sums = td__calloc(learner->weight_count + 1, sizeof *s->sums);
    s->sum_count = s->sums ? learner->weight_count : 0;
    for (size_t i = 0; good && i < s->sum_count; i++) {
        const td_tensor *weight = learner->weights[i];
        s->sums[i] = td_tensor_borrow(weight->name, TD_FLOAT32, weight->shape,
                                      s->levels[s->level_count - 1] + s->starts[i], NULL);
        good = s->sums[i] != NULL;
    }
    s->loss = td_tensor_borrow("loss", TD_FLOAT32, (td_shape){0}, &s->loss_value, NULL);
    return good && s->sums && s->loss;
}

/* Metrics have room for their sums from the start, so that their state is of one size in all processes. */
static td_status prepare_measures(td__measures *measures, td_error *error) {
    td__measure *const all[] = {&measures->step, &measures->epoch, &measures->validation};
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < TD__COUNT(all); i++) {
        status = td__measure_merge(measures, all[i], &measures->shard, error);
        td__measure_reset(measures, all[i]);
    }
    return status;
}

td_status td__shards_init(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    td_status status = s->count > 1 ? prepare_measures(&trainer->measures, error) : TD_OK;
    if (s->count == 1 || status) {
        return status;
    }
    s->measure_count = AGREED + td__measure_size(&trainer->measures, &trainer->measures.shard);
    s->number_count = s->measure_count + trainer->layer_target_count;
    s->entry_count = trainer->signals.count;
    s->wanted = td__calloc(s->entry_count + 1, 1);
    s->gathered = td__calloc(s->entry_count + 1, sizeof *s->gathered);
    if (!s->wanted || !s->gathered || !lay_out(trainer) || !make_rows(s) || !make_sums(trainer)) {
        return td_error_set(error, TD_MEMORY, "out of memory for the gradients of %lld shards",
                            (long long)s->count);
    }
    return td__lanes_create(trainer, error);
}

void td__shards_release(td__shards *s) {
    td__lanes_destroy(s->lanes);
    for (int i = 0; i < s->level_count; i++) {
        td__aligned_free(s->levels[i]);
        td__free(s->numbers[i]);
    }
    for (size_t i = 0; i < s->sum_count; i++) {
        td_tensor_destroy(s->sums[i]);
    }
    for (size_t i = 0; s->gathered && i < s->entry_count; i++) {
        td__free(s->gathered[i].data);
    }
    td_tensor_destroy(s->loss);
    void *const blocks[] = {s->starts, s->bucket_of, s->buckets,  s->averages, s->before,
                            s->sums,   s->wanted,    s->gathered, s->packed,   s->part_numbers};
    for (size_t i = 0; i < TD__COUNT(blocks); i++) {
        td__free(blocks[i]);
    }
    *s = (td__shards){0};
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Adds floats [begin, begin + count) of the part under way: where a level has its partner already, both go one level up. */
static void fold(td__shards *s, size_t begin, size_t count, const float *values) {
    int level = 0;
    while ((s->at >> level) & 1) {
        level++;
    }
    float *to = s->levels[level] + begin;
    if (values) {
        memcpy(to, values, count * sizeof *to);
    } else {
        memset(to, 0, count * sizeof *to);
    }
    for (int k = 0; k < level; k++) {
        td__kernels()->add((int64_t)count, s->levels[k] + begin, to, to);
    }
}

void td__fold_doubles(double *const *levels, int64_t part, const double *values, size_t count) {
    int level = 0;
    while ((part >> level) & 1) {
        level++;
    }
    double *to = levels[level];
    for (size_t i = 0; i < count; i++) {
        to[i] = values ? values[i] : 0;
        for (int k = 0; k < level; k++) {
            to[i] = levels[k][i] + to[i];
        }
    }
}

/* The same of what a measure has saved; NULL: nothing. */
static void fold_numbers(td__shards *s, const double *values) {
    td__fold_doubles(s->numbers, s->at, values, s->measure_count);
}

void td__shards_add_target(td_trainer *trainer, size_t target, double loss) {
    td__shards *s = &trainer->shards;
    double *levels[TD__SHARD_LEVELS];
    for (int i = 0; i < s->level_count; i++) {
        levels[i] = s->numbers[i] + s->measure_count + target;
    }
    td__fold_doubles(levels, s->at, s->idle ? NULL : &loss, 1);
}

/* All numbers of a part that makes none. */
static void fold_nothing(td_trainer *trainer) {
    td__shards *s = &trainer->shards;
    fold_numbers(s, NULL);
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td__shards_add_target(trainer, i, 0);
    }
}

static float *sum_of(const td__shards *s) {
    return s->levels[s->level_count - 1];
}

static double *numbers_of(const td__shards *s) {
    return s->numbers[s->level_count - 1];
}

/* Exchanges the buckets that are complete, in their order. */
static td_status start_buckets(td__shards *s, td_error *error) {
    while (s->group && s->started < s->bucket_count && s->buckets[s->started].left == 0) {
        td__bucket *b = &s->buckets[s->started];
        b->request = td_group_add_start(s->group, sum_of(s) + b->begin, b->end - b->begin, error);
        if (!b->request) {
            return TD_MEMORY;
        }
        s->started++;
    }
    return TD_OK;
}

void td__shards_share_batches(td_trainer *trainer) {
    const td__shards *s = &trainer->shards;
    if (s->size > 1) {
        td__batches_share(trainer->feed.training,
                          &(td__batch_share){.first = s->first,
                                             .end = s->first + s->own,
                                             .parts = s->count,
                                             .all_labels = td__trainer_writes(trainer)});
    }
}

/* ---- Moving averages: each part begins with those of the step before --------------------------- */

typedef enum averages_move { SAVE, RESTORE, FOLD, APPLY } averages_move;

/* Of one parameter, n floats: its values, those before the step, and room for the sum of changes. */
static void move_average(td__shards *s, averages_move move, size_t n, float *values, float *before,
                         size_t begin) {
    float *sum = sum_of(s) + begin;
    if (move == SAVE) {
        memcpy(before, values, n * sizeof *values);
    } else if (move == RESTORE) {
        memcpy(values, before, n * sizeof *values);
    }
    for (size_t i = 0; move == APPLY && i < n; i++) {
        values[i] = before[i] + sum[i];
    }
    for (size_t i = 0; move == FOLD && i < n; i++) {
        values[i] = (values[i] - before[i]) * s->share;
    }
    if (move == FOLD) {
        fold(s, begin, n, s->idle ? NULL : values);
    }
}

static void move_averages(td_trainer *trainer, averages_move move) {
    td__shards *s = &trainer->shards;
    size_t begin = s->averages_at;
    for (size_t i = 0; i < s->average_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(trainer->model, s->averages[i])->tensor;
        size_t count = (size_t)tensor->count;
        move_average(s, move, count, td__floats(tensor), s->before + (begin - s->averages_at),
                     begin);
        begin += align(count);
    }
}

void td__averages_copy(td_trainer *trainer, float *values, bool to_model) {
    const td__shards *s = &trainer->shards;
    for (size_t i = 0; i < s->average_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(trainer->model, s->averages[i])->tensor;
        size_t bytes = (size_t)tensor->count * sizeof(float);
        memcpy(to_model ? td__floats(tensor) : values, to_model ? values : td__floats(tensor),
               bytes);
        values += align((size_t)tensor->count);
    }
}

/* ---- One part -------------------------------------------------------------------------------- */

static bool is_last(const td__shards *s) {
    return s->at + 1 == s->own;
}

static void take_gradient(void *user, size_t index, td_tensor *gradient) {
    td_trainer *trainer = user;
    td__shards *s = &trainer->shards;
    if (index >= trainer->learner.weight_count) {
        return;
    }
    fold(s, s->starts[index], (size_t)gradient->count, s->idle ? NULL : td__floats(gradient));
    s->sums[index]->disconnected = gradient->disconnected;
    if (is_last(s)) {
        s->buckets[s->bucket_of[index]].left--;
        s->exchange = s->exchange ? s->exchange : start_buckets(s, NULL);
    }
}

static td_view rows_of(td_view view, int64_t begin, int64_t count) {
    size_t row = (size_t)td__elements_from(&view.shape, 1) * td_dtype_size(view.dtype);
    if (view.data) {
        view.data = (const char *)view.data + (size_t)begin * row;
        view.shape.dims[0] = count;
    }
    return view;
}

static td_batch rows_at(const td_batch *batch, int64_t begin, int64_t count) {
    return (td_batch){.count = count,
                      .index = batch->index,
                      .input = rows_of(batch->input, begin, count),
                      .label = rows_of(batch->label, begin, count),
                      .weight = rows_of(batch->weight, begin, count),
                      .rows = batch->rows + begin};
}

static td_batch cut_batch(const td__shards *s, const td_batch *batch) {
    int64_t number = s->first + s->at;
    int64_t begin = batch->count * number / s->count, end = batch->count * (number + 1) / s->count;
    return rows_at(batch, begin, end - begin);
}

/* One that this process has read. */
static int64_t some_row(const td__shards *s, const td_batch *batch) {
    int64_t begin = batch->count * s->first / s->count;
    return begin < batch->count * (s->first + s->own) / s->count ? begin : 0;
}

/* Adds what the open pass measured. */
static td_status measure_part(td_trainer *trainer, td__pass *pass, td_error *error) {
    td__shards *s = &trainer->shards;
    td__measures *measures = &trainer->measures;
    td_status status = td__measure_add(measures, &measures->shard, pass, error);
    if (!status && td__measure_size(measures, &measures->shard) != s->measure_count - AGREED) {
        status = td_error_set(error, TD_BAD_SHAPE, "a metric cannot be added up over shards");
    }
    return status;
}

static void save_measure(td_trainer *trainer) {
    td__shards *s = &trainer->shards;
    td__measure_save(&trainer->measures, &trainer->measures.shard, s->part_numbers + AGREED);
    fold_numbers(s, s->part_numbers);
}

/* Parts that run in step all get to the end: others wait for what they add up. */
static td_status check_loss(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    char subject[80];
    if (isfinite(td_tensor_scalar(trainer->pass.loss)) || !trainer->experiment->stop_on_nan ||
        s->not_finite.status) {
        return TD_OK;
    }
    error = s->lanes ? &s->not_finite : error;
    (void)snprintf(subject, sizeof subject, "step %lld (epoch %lld): the loss",
                   (long long)trainer->at.step + 1, (long long)trainer->at.epoch + 1);
    td_status found = td__blame(trainer, &trainer->pass, TD_TRAINING, subject, error);
    return s->lanes ? TD_OK : found;
}

static td_status measure_pass(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    if (s->idle) {
        fold_numbers(s, NULL);
        return TD_OK;
    }
    td__measure_reset(&trainer->measures, &trainer->measures.shard);
    td_status status = measure_part(trainer, &trainer->pass, error);
    status = status ? status : check_loss(trainer, error);
    if (!status) {
        save_measure(trainer);
    }
    return status;
}

static td_status run_pass(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    td__pass *pass = &trainer->pass;
    td__learner *learner = &trainer->learner;
    uint64_t seed = trainer->experiment->seed + (uint64_t)(s->first + s->at) * apart;
    td_tape_seed(pass->tape, seed, (uint64_t)trainer->at.step + 1);
    td_tape_set_training(pass->tape, true);
    td_status status = td__pass_forward(pass, &s->part, error);
    status = status ? status : measure_pass(trainer, error);
    if (status) {
        return status;
    }
    move_averages(trainer, FOLD);
    size_t count = td__choose_targets(trainer, false);
    return td__pass_backward(pass, 0, count, learner->targets, learner->gradients,
                             learner->recorders, error);
}

static td_status run_part(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__shards *s = &trainer->shards;
    td__pass *pass = &trainer->pass;
    s->part = cut_batch(s, batch);
    s->share = (float)((double)s->part.count / (double)batch->count);
    s->idle = s->part.count == 0;
    move_averages(trainer, RESTORE);
    if (s->idle && s->lanes) {
        s->part = rows_at(batch, some_row(s, batch), 1);
    } else if (s->idle) {
        fold(s, 0, s->total, NULL);
        fold_nothing(trainer);
        return TD_OK;
    }
    pass->scale = s->share;
    pass->gradient_ready = take_gradient;
    pass->ready_user = trainer;
    td_status status = run_pass(trainer, error);
    pass->gradient_ready = NULL;
    pass->scale = 0;
    td__pass_end(pass);
    return status;
}

/* ---- One step -------------------------------------------------------------------------------- */

/* What is left to exchange, whatever happened; the sums are there when it returns TD_OK. */
static td_status exchange(td_trainer *trainer, td_status failed, td_error *error) {
    td__shards *s = &trainer->shards;
    td_error reason = *error;
    double *numbers = numbers_of(s);
    if (!failed && s->lanes && s->not_finite.status) {
        failed = s->not_finite.status;
        reason = *error = s->not_finite;
    }
    numbers[FAILURES] = failed != TD_OK;
    numbers[STOPS] = trainer->stop;
    if (!s->group) {
        s->stop = trainer->stop;
        return failed;
    }
    for (size_t i = 0; i < s->bucket_count; i++) {
        s->buckets[i].left = 0;
    }
    td_status status = s->exchange ? s->exchange : start_buckets(s, error);
    for (size_t i = 0; i < s->started; i++) {
        td_status waited = td_group_wait(s->group, s->buckets[i].request, error);
        status = status ? status : waited;
    }
    status = status ? status : td__group_add_doubles(s->group, numbers, s->number_count, error);
    s->stop = !status && numbers[STOPS] > 0;
    return status ? status : td__group_agree(trainer, numbers[FAILURES], failed, &reason, error);
}

/* The measures have the step; the pass is open, with the whole batch. */
static td_status finish_shard_step(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__shards *s = &trainer->shards;
    td__measures *measures = &trainer->measures;
    td__measure_take_sum(measures, &measures->shard, numbers_of(s) + AGREED);
    td__measure_reset(measures, &measures->step);
    td_status status = td__measure_merge(measures, &measures->step, &measures->shard, error);
    status =
        status ? status : td__measure_merge(measures, &measures->epoch, &measures->shard, error);
    move_averages(trainer, APPLY);
    s->loss_value = (float)*td__measure_read(measures, &measures->step);
    trainer->pass.batch = batch;
    trainer->pass.loss = s->loss;
    for (size_t i = 0; trainer->pass.signals && i < trainer->layer_target_count; i++) {
        td__layer_target *target = &trainer->layer_targets[i];
        double loss = numbers_of(s)[s->measure_count + i];
        if (td__layer_target_is_wanted(trainer, i)) {
            td__record_number(trainer, target->entry, &target->mean, loss);
        }
    }
    for (size_t i = 0; i < s->sum_count; i++) {
        trainer->learner.gradients[i] = s->sums[i];
    }
    return status;
}

/* All parts of this process. */
static td_status run_parts(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__shards *s = &trainer->shards;
    td_status status = TD_OK;
    if (s->lanes) {
        s->not_finite = (td_error){0};
        return td__lanes_run(trainer, run_part, batch, error);
    }
    for (s->at = 0; !status && s->at < s->own; s->at++) {
        status = run_part(trainer, batch, error);
    }
    return status;
}

/* The other processes wait for sums that this one does not come to: all of them end. */
static void end_group(td_trainer *trainer, const td_error *reason) {
    td__shards *s = &trainer->shards;
    td_group_fail(s->group, reason->text);
    for (size_t i = 0; i < s->started; i++) {
        (void)!td_group_wait(s->group, s->buckets[i].request, NULL);
    }
}

td_status td__shards_compute(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__shards *s = &trainer->shards;
    td__pass_signals *signals = trainer->pass.signals;
    td_error reason = {0};
    td_status status = signals ? td__gather_begin(trainer, error) : TD_OK;
    if (status) {
        return status;
    }
    for (size_t i = 0; i < s->bucket_count; i++) {
        s->buckets[i].left = s->buckets[i].weights;
    }
    s->started = 0;
    s->exchange = TD_OK;
    move_averages(trainer, SAVE);
    status = run_parts(trainer, batch, &reason);
    if (signals) {
        signals->tap = NULL;
    }
    if (status && s->lanes && s->group) {
        end_group(trainer, &reason);
    } else {
        status = exchange(trainer, status, &reason);
    }
    status = status || !signals ? status : td__gather_end(trainer, batch, &reason);
    if (status) {
        move_averages(trainer, RESTORE);
        return td_error_set(error, status, "%s", reason.text);
    }
    return finish_shard_step(trainer, batch, error);
}

/* ---- Validation ------------------------------------------------------------------------------ */

static td_status validate_part(td_trainer *trainer, int64_t number, td_error *error) {
    td__shards *s = &trainer->shards;
    td__pass *pass = &trainer->check;
    td_batches *batches = trainer->feed.validation;
    td_status status = TD_OK;
    td__measure_reset(&trainer->measures, &trainer->measures.shard);
    for (int64_t i = number; !status && i < td_batches_count(batches); i += s->count) {
        td_batch batch;
        td_batches_seek(batches, i);
        if (!td_batches_next(batches, &batch)) {
            break;
        }
        status = td__pass_forward(pass, &batch, error);
        status = status ? status : measure_part(trainer, pass, error);
        if (!status && !isfinite(td_tensor_scalar(pass->loss))) {
            td__validation_not_finite(trainer);
        }
        td__pass_end(pass);
    }
    save_measure(trainer);
    return status ? status : td__feed_status(batches, error);
}

td_status td__shards_validate(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    td__measures *measures = &trainer->measures;
    td_error reason = {0};
    td_status status = TD_OK;
    td_batches_start(trainer->feed.validation, 1);
    for (s->at = 0; s->at < s->own; s->at++) {
        status = status ? status : validate_part(trainer, s->first + s->at, &reason);
    }
    double *numbers = numbers_of(s);
    numbers[FAILURES] = status != TD_OK;
    if (s->group) {
        td_status added = td__group_add_doubles(s->group, numbers, s->number_count, error);
        status =
            added ? added : td__group_agree(trainer, numbers[FAILURES], status, &reason, error);
    } else if (status) {
        td_error_set(error, status, "%s", reason.text);
    }
    if (!status) {
        td__measure_take_sum(measures, &measures->shard, numbers + AGREED);
        status = td__measure_merge(measures, &measures->validation, &measures->shard, error);
    }
    return status;
}
