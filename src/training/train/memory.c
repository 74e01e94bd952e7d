/* Whether a training step fits into the memory that the process may take: asked before anything of a
 * model's size is allocated. What is counted is the least that a step takes, so that nothing is refused
 * that would run: parameters, their gradients, the optimizer's state, and for a batch the outputs of the
 * layers that have parameters, which are kept for the backward pass. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/text.h"
#include "nn/field.h"

/* Bytes, in double: no product overflows. */
typedef struct needs {
    double parameters, state, outputs;
} needs;

static double all_of(const needs *n) {
    return n->parameters + n->state + n->outputs;
}

/* copies: of each trained parameter, beside itself. */
static needs layer_needs(const td_layer_info *layer, size_t copies, int64_t batch) {
    double elements = 1;
    for (int32_t i = 0; i < layer->output.rank; i++) {
        elements *= layer->output.dims[i] > 0 ? (double)layer->output.dims[i] : 1;
    }
    needs n = {.outputs = elements * (double)batch * sizeof(float)};
    if (layer->shares < 0) {
        n.parameters = (double)layer->parameter_elements * sizeof(float);
        n.state = layer->frozen ? 0 : n.parameters * (double)copies;
    }
    return n;
}

/* Adds up the needs of all layers; returns the layer that has the largest, which are *most. */
static size_t add_up(const td_trainer *trainer, size_t copies, int64_t batch, needs *all,
                     needs *largest_layer) {
    size_t largest = 0;
    double wide = 0; /* the largest output */
    for (size_t i = 0; i < td_model_layer_count(trainer->model); i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        needs n = layer_needs(layer, copies, batch);
        wide = n.outputs > wide ? n.outputs : wide;
        all->parameters += n.parameters;
        all->state += n.state;
        all->outputs += layer->parameter_count ? n.outputs : 0;
        if (all_of(&n) > all_of(largest_layer)) {
            largest = i;
            *largest_layer = n;
        }
    }
    all->outputs = wide > all->outputs ? wide : all->outputs;
    return largest;
}

td_status td__trainer_check_memory(const td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td__train_spec *train = &experiment->train;
    const td_data_info *info = trainer->feed.info;
    td_optimizer_options options = {.size = sizeof options};
    if (td_optimizer_configure(&options, train->optimizer.name, train->optimizer.settings,
                               train->optimizer.count, NULL)) {
        return TD_OK; /* reported where the optimizer is made */
    }
    int64_t batch =
        info->training > 0 && info->training < info->batch ? info->training : info->batch;
    needs all = {0}, largest_layer = {0};
    size_t largest =
        add_up(trainer, 1 + td__optimizer_states(&options), batch, &all, &largest_layer);
    double limit = (double)td__memory_limit();
    if (all_of(&all) <= limit) {
        return TD_OK;
    }
    const td_layer_info *layer = td_model_layer(trainer->model, largest);
    char total[TD__BYTES_ROOM], has[TD__BYTES_ROOM], parts[3][TD__BYTES_ROOM], own[TD__BYTES_ROOM];
    return td__experiment_problem(
        experiment, largest < experiment->layer_count ? experiment->layers[largest].node : NULL,
        TD_MEMORY, error,
        "model: a training step takes at least %s (parameters %s, gradients and the optimizer's "
        "state %s, outputs of %lld examples %s), and this process may take %s; %s of it are layer "
        "'%s' (%s): make it smaller, or data.batch",
        td__bytes_text(total, all_of(&all)), td__bytes_text(parts[0], all.parameters),
        td__bytes_text(parts[1], all.state), (long long)batch,
        td__bytes_text(parts[2], all.outputs), td__bytes_text(has, limit),
        td__bytes_text(own, all_of(&largest_layer)), layer->name, td_layer_kind_name(layer->kind));
}
