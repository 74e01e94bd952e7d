#include "diagnose/layers.h"

#include "base/memory.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* ---- What the layers are -------------------------------------------------------------------- */

static double number_of(const td_layer_info *layer, const char *key) {
    const td_value *value = td__layer_setting(layer, key);
    return value && value->kind == TD_VALUE_NUMBER ? value->number : 0;
}

/* Whether an activation after it is as good as one before it. */
static bool passes_on(td__layer_role role) {
    return role == TD__ROLE_NORMALIZATION || role == TD__ROLE_SCALING || role == TD__ROLE_DROPOUT ||
           role == TD__ROLE_NOISE || role == TD__ROLE_SHAPE || role == TD__ROLE_POOL;
}

/* The first layer that reads this one; -1: none. */
static ptrdiff_t reader_of(const td_model *model, size_t layer) {
    for (size_t i = layer + 1; i < td_model_layer_count(model); i++) {
        const td_layer_info *info = td_model_layer(model, i);
        for (size_t k = 0; k < info->input_count; k++) {
            if (info->inputs[k] == (int32_t)layer) {
                return (ptrdiff_t)i;
            }
        }
    }
    return -1;
}

static void find_effective(td__layers *layers, const td_model *model, size_t which) {
    td__layer_facts *layer = &layers->items[which];
    layer->effective = layer->activation;
    layer->activated_by = (ptrdiff_t)which;
    ptrdiff_t next = (ptrdiff_t)which;
    while (layer->effective == TD_LINEAR) {
        next = reader_of(model, (size_t)next);
        if (next < 0) {
            return;
        }
        if (layers->items[next].kind->role == TD__ROLE_ACTIVATION) {
            layer->effective = layers->items[next].activation;
            layer->activated_by = next;
            return;
        }
        if (!passes_on(layers->items[next].kind->role)) {
            return;
        }
    }
}

static void read_weights(td__layer_facts *layer, const td_model *model, const td_layer_info *info) {
    layer->kernel = layer->recurrent_kernel = layer->bias_parameter = -1;
    for (size_t k = 0; k < info->parameter_count; k++) {
        ptrdiff_t index = (ptrdiff_t)(info->first_parameter + k);
        const td_parameter_info *parameter = td_model_parameter_at(model, (size_t)index);
        td_view view = td__view_of(parameter->tensor);
        td_stats stats;
        if (td_stats_of(&view, &stats, NULL)) {
            continue;
        }
        layer->nonfinite += stats.nan + stats.inf;
        layer->learns |= parameter->trainable && parameter->tensor->shape.rank > 1;
        if (!strcmp(parameter->parameter, "kernel") ||
            !strcmp(parameter->parameter, "embeddings")) {
            const td_shape *shape = &parameter->tensor->shape;
            layer->kernel = index;
            layer->fan_out = shape->dims[shape->rank - 1];
            layer->fan_in = stats.count / (layer->fan_out ? layer->fan_out : 1);
            layer->kernel_deviation = stats.std;
            layer->kernel_mean = stats.mean;
            layer->kernel_largest = fmax(fabs(stats.min), fabs(stats.max));
            layer->kernel_equal = stats.min == stats.max && stats.count > 1;
            double fans = (double)(layer->fan_in + layer->fan_out);
            if (shape->rank > 2) { /* every position of a filter sees fan_out too */
                double positions = (double)layer->fan_in / (double)shape->dims[shape->rank - 2];
                fans = (double)layer->fan_in + positions * (double)layer->fan_out;
            }
            layer->expected = sqrt(2 / fans);
        } else if (!strcmp(parameter->parameter, "recurrent_kernel")) {
            layer->recurrent_kernel = index;
        } else if (!strcmp(parameter->parameter, "bias")) {
            layer->bias_parameter = index;
            layer->bias = true;
            layer->bias_mean = stats.mean;
            layer->bias_largest = fmax(fabs(stats.min), fabs(stats.max));
        }
    }
}

td_status td__layers_gather(td__layers *layers, td_trainer *trainer, td_error *error) {
    const td_model *model = trainer->model;
    *layers = (td__layers){.count = trainer->layer_count, .first = -1, .last = -1};
    layers->items = td__calloc(layers->count + 1, sizeof *layers->items);
    if (!layers->items) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < layers->count; i++) {
        const td_layer_info *info = td_model_layer(model, i);
        td__layer_facts *layer = &layers->items[i];
        layer->name = info->name;
        layer->kind = td__layer_kind_of(info->kind);
        layer->activation = td__layer_activation(info);
        layer->recurrent = layer->kind->role == TD__ROLE_RECURRENT;
        layer->units = info->output.rank ? info->output.dims[info->output.rank - 1] : 1;
        bool random = layer->kind->role == TD__ROLE_DROPOUT || layer->kind->role == TD__ROLE_NOISE;
        layer->rate = random ? number_of(info, "rate") : 0;
        layer->noise = random ? number_of(info, "stddev") : 0;
        layer->penalty_l1 = number_of(info, "kernel_l1");
        layer->penalty_l2 = number_of(info, "kernel_l2");
        read_weights(layer, model, info);
        layers->parameters += (double)info->parameter_elements;
        if (layer->learns) {
            layers->first = layers->first < 0 ? (ptrdiff_t)i : layers->first;
            layers->last = (ptrdiff_t)i;
            layers->learning++;
        }
    }
    for (size_t i = 0; i < layers->count; i++) {
        find_effective(layers, model, i);
    }
    for (size_t i = 0; i < td_model_output_count(model); i++) {
        layers->items[td_model_output_layer(model, i)].last = true;
    }
    if (layers->last >= 0) {
        td__layer_facts *last = &layers->items[layers->last];
        last->last = true;
        layers->output = last->effective;
        layers->output_layer = last->activated_by;
        layers->units = layers->items[layers->count - 1].units;
        for (size_t i = layers->count; i-- > (size_t)layers->last + 1;) {
            if (layers->items[i].kind->role ==
                TD__ROLE_ACTIVATION) { /* one on top of the layer's own */
                layers->output = layers->items[i].activation;
                layers->output_layer = (ptrdiff_t)i;
                break;
            }
        }
    }
    return TD_OK;
}

void td__layers_release(td__layers *layers) {
    td__free(layers->items);
    *layers = (td__layers){0};
}

/* ---- What goes through them ----------------------------------------------------------------- */

enum { MOST_UNITS = 4096, MOST_COMPARED = 256, LOOKED_AT = 256 /* examples */ };

/* The derivative is next to nothing: the unit cannot learn from this example. */
static bool is_flat(td_activation activation, float value) {
    switch (activation) {
    case TD_SIGMOID:
    case TD_HARD_SIGMOID:
    case TD_HARD_SIGMOID_KERAS2:
        return value < 0.01F || value > 0.99F;
    case TD_TANH:
    case TD_SOFTSIGN:
        return fabsf(value) > 0.99F;
    default:
        return false;
    }
}

/* Units that repeat one before them, value for value: they also get the same gradient. */
static int64_t count_distinct(const float *values, int64_t rows, int64_t units) {
    int64_t looked = units < MOST_COMPARED ? units : MOST_COMPARED, distinct = 0;
    int64_t max_count = rows < 64 ? rows : 64;
    for (int64_t u = 0; u < looked; u++) {
        bool twin = false;
        for (int64_t v = 0; v < u && !twin; v++) {
            twin = true;
            for (int64_t r = 0; r < max_count && twin; r++) {
                twin = values[r * units + u] == values[r * units + v];
            }
        }
        distinct += !twin;
    }
    return distinct + (units - looked);
}

static void measure_flow(td__layer_facts *layer, td__flow *flow, const td_tensor *output) {
    td_view view = td__view_of(output);
    td_stats stats;
    if (output->dtype != TD_FLOAT32 || td_stats_of(&view, &stats, NULL) || stats.count == 0) {
        return;
    }
    int64_t units = output->shape.dims[output->shape.rank - 1];
    units = units > 0 && units <= MOST_UNITS ? units : 1;
    int64_t rows = stats.count / units, flat = 0, most_flat = 0;
    const float *values = td__floats(output);
    *flow = (td__flow){.mean = stats.mean,
                       .deviation = stats.std,
                       .largest = fmax(fabs(stats.min), fabs(stats.max)),
                       .zeros = (double)stats.zeros / (double)stats.count,
                       .units = units,
                       .first_dead = -1,
                       .first_flat = -1,
                       .nonfinite = stats.nan + stats.inf,
                       .error = flow->error};
    for (int64_t u = 0; u < units; u++) {
        bool dead = true, constant = true;
        int64_t flat_here = 0;
        for (int64_t r = 0; r < rows; r++) {
            float value = values[r * units + u];
            dead &= value == 0;
            constant &= value == values[u];
            flat_here += is_flat(layer->activation, value);
        }
        flat += flat_here;
        if (flat_here > most_flat) {
            most_flat = flat_here;
            flow->first_flat = u;
        }
        flow->first_dead = dead && flow->dead == 0 ? u : flow->first_dead;
        flow->dead += dead;
        flow->constant += constant;
    }
    flow->saturated = (double)flat / (double)stats.count;
    flow->distinct = count_distinct(values, rows, units);
}

static double size_of(const td_tensor *tensor) {
    td_view view = td__view_of(tensor);
    td_stats stats;
    return td_stats_of(&view, &stats, NULL) || stats.count == 0
               ? 0
               : stats.norm / sqrt((double)stats.count);
}

typedef struct looking {
    td__layers *layers;
    td_trainer *trainer;
    bool after;
    size_t *layer_of; /* of targets beyond the weights */
    td_tensor **targets, **gradients;
} looking;

static void take_gradients(const looking *l, size_t weights, size_t count) {
    for (size_t i = 0; i < l->layers->count; i++) {
        td__layer_facts *layer = &l->layers->items[i];
        ptrdiff_t weight = layer->kernel >= 0 ? l->trainer->learner.weight_of[layer->kernel] : -1;
        if (weight >= 0) {
            double size = size_of(l->gradients[weight]);
            *(l->after ? &layer->gradient_end : &layer->gradient_start) = size;
        }
    }
    for (size_t i = weights; i < count; i++) {
        td__layer_facts *layer = &l->layers->items[l->layer_of[i - weights]];
        (l->after ? &layer->end : &layer->start)->error = size_of(l->gradients[i]);
    }
}

static td_status observe_batch(const looking *l, td__pass *pass, const td_batch *batch,
                               td_error *error) {
    td_trainer *trainer = l->trainer;
    size_t count = trainer->learner.weight_count;
    for (size_t i = 0; i < count; i++) {
        l->targets[i] = trainer->learner.weights[i];
    }
    td_tape_seed(pass->tape, trainer->experiment->seed, 1);
    td_tape_set_training(pass->tape, true);
    td_status status = td__pass_forward(pass, batch, error);
    for (size_t i = 0; !status && i < l->layers->count; i++) {
        td_tensor *output = td_model_output_at(trainer->model, i);
        td__layer_facts *layer = &l->layers->items[i];
        if (output) {
            measure_flow(layer, l->after ? &layer->end : &layer->start, output);
        }
        if (output && output->dtype == TD_FLOAT32) {
            l->layer_of[count - trainer->learner.weight_count] = i;
            l->targets[count++] = output;
        }
    }
    if (!status) {
        status = td_tape_gradient(pass->tape, pass->bare, count, l->targets, l->gradients, error);
    }
    if (!status) {
        take_gradients(l, trainer->learner.weight_count, count);
    }
    td__pass_end(pass);
    return status;
}

/* The moving averages of a model, one after the other, to room or, when back, from there. Returns how
 * many numbers that are; room may be NULL. */
static size_t copy_averages(const td_model *model, float *room, bool back) {
    size_t count = 0;
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        const td_parameter_info *parameter = td_model_parameter_at(model, i);
        size_t size = (size_t)td_tensor_count(parameter->tensor);
        float *values = td_tensor_data(parameter->tensor);
        if (parameter->moving_average && room) {
            memcpy(back ? values : room + count, back ? room + count : values,
                   size * sizeof *values);
        }
        count += parameter->moving_average ? size : 0;
    }
    return count;
}

/* On a tape of its own: afterwards the trainer is as if nobody had looked. */
static td_status look_aside(const looking *l, const td_batch *batch, td_error *error) {
    td_trainer *trainer = l->trainer;
    td_tape_options options = {.size = sizeof options, .seed = trainer->experiment->seed};
    td__pass pass = {0};
    float *averages = td__calloc(copy_averages(trainer->model, NULL, false) + 1, sizeof *averages);
    td_status status = averages
                           ? td__pass_init(&pass, trainer->model,
                                           &trainer->experiment->train.objective, &options, error)
                           : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status) {
        pass.heads = trainer->heads;
        pass.head_count = trainer->head_count;
        (void)copy_averages(trainer->model, averages, false);
        status = observe_batch(l, &pass, batch, error);
        (void)copy_averages(trainer->model, averages, true);
    }
    td__pass_release(&pass);
    td__free(averages);
    return status;
}

td_status td__layers_look(td__layers *layers, td_trainer *trainer, bool after, td_error *error) {
    size_t max_count = trainer->learner.weight_count + layers->count + 1;
    looking l = {.layers = layers,
                 .trainer = trainer,
                 .after = after,
                 .layer_of = td__calloc(layers->count + 1, sizeof(size_t)),
                 .targets = td__calloc(max_count, sizeof(td_tensor *)),
                 .gradients = td__calloc(max_count, sizeof(td_tensor *))};
    td_batches *batches = td_batches_create(trainer->feed.data, TD_TRAINING, LOOKED_AT, error);
    td_batch batch;
    td_status status = l.layer_of && l.targets && l.gradients && batches
                           ? TD_OK
                           : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status) {
        status = td_batches_next(batches, &batch) ? look_aside(&l, &batch, error)
                                                  : td__feed_status(batches, error);
    }
    td_batches_destroy(batches);
    td__free(l.layer_of);
    td__free((void *)l.targets);
    td__free((void *)l.gradients);
    return status;
}
