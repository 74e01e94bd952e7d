/* An experiment's model: made of its layers, or loaded from a file and trained further. */
#include "train/trainer.h"

#include "base/memory.h"
#include "base/words.h"
#include "data/text.h"
#include "deck/glob.h"
#include "model/load.h"

#include <stdio.h>
#include <string.h>

#define INITIAL "initial.safetensors"

/* Where "model" or "weights", or a key beneath, stands in the file; NULL when it does not. */
static td__yaml_node *node_of_key(const td_experiment *experiment, const char *key,
                                  const char *beneath) {
    td__yaml_node *node = td__yaml_get(td__yaml_root(experiment->yaml), key);
    return node && beneath ? td__yaml_get(node, beneath) : node;
}

/* ---- From layers ----------------------------------------------------------------------------- */

static td_status settle_layers(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; i < experiment->layer_count; i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        if (td__choice_settle(experiment->yaml, &experiment->layers[i], layer->settings,
                              layer->setting_count)) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
    }
    return TD_OK;
}

/* How many ids texts have: of the largest vocabulary. */
static int64_t count_ids(const td_texts *texts) {
    int64_t most = 0;
    for (size_t i = 0; i < texts->count; i++) {
        const td_text *text = &texts->items[i];
        int64_t tokens = text->tokens == TD_TOKENS_BYTES ? 256 : (int64_t)text->words.count;
        most = tokens + TD__TEXT_FIRST > most ? tokens + TD__TEXT_FIRST : most;
    }
    return most;
}

/* An input that does not say its shape has the one of its array. */
static td_status add_chosen_layer(td_trainer *trainer, const td__choice *layer, td_error *error) {
    const td_data_info *info = trainer->feed.info;
    const td_setting *settings = layer->settings;
    bool input = !strcmp(layer->name, "input"), shaped = false;
    const char *name = "";
    for (size_t i = 0; input && i < layer->count; i++) {
        shaped = shaped || !strcmp(settings[i].key, "shape");
        name = strcmp(settings[i].key, "name") ? name : settings[i].value.text;
    }
    for (size_t k = 0; input && !shaped && k < info->input_piece_count; k++) {
        const td_data_piece *piece = &info->input_pieces[k];
        if (!strcmp(piece->name, name)) {
            double sizes[TD_MAX_RANK] = {0};
            for (int32_t i = 0; i < piece->shape.rank; i++) {
                sizes[i] = (double)piece->shape.dims[i];
            }
            const td_setting both[] = {
                {"name", {.kind = TD_VALUE_TEXT, .text = name}},
                {"shape",
                 {.kind = TD_VALUE_NUMBERS, .numbers = sizes, .count = (size_t)piece->shape.rank}}};
            return td_model_add(trainer->model, layer->name, both, 2, error);
        }
    }
    td_setting *all = td__calloc(layer->count + 1, sizeof *all);
    if (!all) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    bool more = td__choice_add_ids(layer, &info->text, count_ids(&info->text), all);
    td_status status = td_model_add(trainer->model, layer->name, all, layer->count + more, error);
    td__free(all);
    return status;
}

static td_status set_outputs(td_trainer *trainer, td_error *error) {
    const char *names[TD_MAX_OUTPUTS];
    td_names outputs = td__trainer_output_names(trainer, names);
    td_error reason = {0};
    return outputs.count &&
                   td_model_set_outputs(trainer->model, outputs.count, outputs.items, &reason)
               ? td__experiment_problem(trainer->experiment,
                                        node_of_key(trainer->experiment, "model", NULL),
                                        reason.status, error, "model: %s", reason.text)
               : TD_OK;
}

static td_status build_layers(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td_error reason = {0};
    trainer->model = td_model_create(experiment->name, trainer->feed.info->input);
    for (size_t i = 0; i < experiment->layer_count; i++) {
        const td__choice *layer = &experiment->layers[i];
        td_status status = add_chosen_layer(trainer, layer, &reason);
        if (status) {
            return td__experiment_problem(experiment, layer->node, status, error, "model: %s",
                                          reason.text);
        }
    }
    td_status status = td__trainer_check_memory(trainer, error);
    if (status) {
        return status;
    }
    status = td_model_build(trainer->model, experiment->seed, &reason);
    if (status) {
        return td__experiment_problem(experiment, NULL, status, error, "model: %s", reason.text);
    }
    return settle_layers(trainer, error);
}

/* ---- From a file ----------------------------------------------------------------------------- */

/* What the run to go on with, or the model's file, says of its data. That it cannot be read is reported
 * where it is loaded. */
static td_status read_notes(td_trainer *trainer, const td__model_file *file, const char *path,
                            td_error *error) {
    const char *const keys[] = {TD_NOTE_DATA};
    char *text = NULL;
    bool noted = file && !td__model_file_texts(file, 1, keys, &text, NULL) && text;
    td_status status = noted ? td__notes_read(&trainer->notes, text, path, error) : TD_OK;
    td_free_text(text);
    return status;
}

td_status td__trainer_load_model(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td_error reason = {0};
    if (trainer->resume) {
        td__model_file *file = td__model_file_open(trainer->resume, NULL);
        td_status status = read_notes(trainer, file, trainer->resume, error);
        td__model_file_close(file);
        if (status) {
            return status;
        }
    }
    if (!experiment->model_file) {
        return TD_OK;
    }
    td__model_file *file = td__model_file_open(experiment->model_file, &reason);
    trainer->model = file ? td__model_file_load(file, NULL, &reason) : NULL;
    td_status status = trainer->model ? TD_OK : reason.status;
    if (!status && !trainer->resume) {
        status = read_notes(trainer, file, experiment->model_file, &reason);
    }
    td__model_file_close(file);
    return status ? td__experiment_problem(experiment, node_of_key(experiment, "model", "file"),
                                           status, error, "model.file: %s", reason.text)
                  : TD_OK;
}

static td_status check_input(const td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td_shape want = td_model_input_shape(trainer->model), have = trainer->feed.info->input;
    bool fits = want.rank == have.rank;
    for (int32_t i = 0; fits && i < want.rank; i++) {
        fits = want.dims[i] == -1 || want.dims[i] == have.dims[i];
    }
    char wanted[TD_SHAPE_TEXT_SIZE], given[TD_SHAPE_TEXT_SIZE];
    return fits ? TD_OK
                : td__experiment_problem(experiment, node_of_key(experiment, "model", "file"),
                                         TD_BAD_SHAPE, error,
                                         "model.file: it reads examples of shape %s, and data has "
                                         "%s; see data.input",
                                         td_shape_text(&want, wanted), td_shape_text(&have, given));
}

static td_status no_such_layer(const td_trainer *trainer, size_t which, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    const td__yaml_node *node = node_of_key(experiment, "model", "frozen");
    const char *pattern = experiment->frozen.items[which];
    size_t count = td_model_layer_count(trainer->model);
    const char **names = td__calloc(count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        names[i] = td_model_layer(trainer->model, i)->name;
    }
    char hint[TD__HINT_ROOM];
    td_status status =
        td__experiment_problem(experiment, node->kind == TD__YAML_LIST ? node->items[which] : node,
                               TD_NOT_FOUND, error, "model.frozen: no layer '%s' in %s%s", pattern,
                               experiment->model_file, td__word_meant(hint, pattern, names, count));
    td__free(names);
    return status;
}

/* The layers that `frozen` names, and no others. */
static td_status freeze_layers(td_trainer *trainer, td_error *error) {
    const td_names *frozen = &trainer->experiment->frozen;
    td_status status = frozen->items ? td_model_freeze(trainer->model, NULL, false, error) : TD_OK;
    for (size_t k = 0; !status && k < frozen->count; k++) {
        bool found = false;
        for (size_t i = 0; !status && i < td_model_layer_count(trainer->model); i++) {
            const char *name = td_model_layer(trainer->model, i)->name;
            if (td__glob_match(frozen->items[k], name)) {
                status = td_model_freeze(trainer->model, name, true, error);
                found = true;
            }
        }
        if (!found) {
            status = no_such_layer(trainer, k, error);
        }
    }
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

static td_status load_weights(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td_error reason = {0};
    td_status status =
        experiment->weights ? td_weights_load(trainer->model, experiment->weights, &reason) : TD_OK;
    return status ? td__experiment_problem(experiment, node_of_key(experiment, "weights", NULL),
                                           status, error, "weights: %s", reason.text)
                  : TD_OK;
}

td_status td__trainer_make_model(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td_status status = TD_OK;
    if (!experiment->model_file) {
        status = build_layers(trainer, error);
    } else {
        status = check_input(trainer, error);
        status = status ? status : freeze_layers(trainer, error);
        status = status ? status : td__trainer_check_memory(trainer, error);
    }
    if (!status) {
        td__describe_inputs(trainer->model, trainer->feed.info);
    }
    status = status ? status : set_outputs(trainer, error);
    status = status ? status : load_weights(trainer, error);
    if (status) {
        return status;
    }
    trainer->layer_count = td_model_layer_count(trainer->model);
    trainer->parameter_count = td_model_parameter_count(trainer->model);
    trainer->learner.weight_count = td_model_trainable(trainer->model, &trainer->learner.weights);
    if (trainer->learner.weight_count == 0) {
        return td__experiment_problem(experiment, node_of_key(experiment, "model", NULL),
                                      TD_INVALID, error, "model: nothing to train: %s",
                                      trainer->parameter_count
                                          ? "every layer that has parameters is frozen"
                                          : "no layer has parameters");
    }
    return TD_OK;
}

/* The experiment that the run keeps names the run's own file, relative to itself. */
static td_status name_initial(td_experiment *experiment) {
    td__yaml_node *model = node_of_key(experiment, "model", NULL);
    if (experiment->model_file && td__yaml_put(experiment->yaml, model, "file",
                                               td__yaml_scalar(experiment->yaml, INITIAL, false))) {
        return TD_MEMORY;
    }
    return experiment->weights
               ? td__yaml_put(experiment->yaml, td__yaml_root(experiment->yaml), "weights",
                              td__yaml_scalar(experiment->yaml, INITIAL, false))
               : TD_OK;
}

td_status td__trainer_keep_initial(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    const char *origin = experiment->model_file ? experiment->model_file : experiment->weights;
    char path[4300];
    if (!origin) {
        return TD_OK;
    }
    if ((size_t)snprintf(path, sizeof path, "%s/" INITIAL, trainer->recording.place) >=
            sizeof path ||
        name_initial(experiment)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (trainer->resume) {
        return TD_OK; /* it is there */
    }
    (void)td_deck_note(trainer->recording.deck, "experiment.origin", origin);
    const td_model_note note = {TD_NOTE_ORIGIN, origin};
    return td_model_save(trainer->model, path, 1, &note, error);
}
