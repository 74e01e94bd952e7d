/* Writing .h5, the format of Keras before .keras, which Keras 3 still opens: the configuration and the
 * notes are attributes of the root; model_weights has a group for each layer, with the names of its
 * weights in the order of layer.weights. */
#include "base/folder.h"
#include "base/memory.h"
#include "hdf5/hdf5.h"
#include "keras/keras.h"
#include "keras/write.h"

#include <stdio.h>
#include <unistd.h>

#define WEIGHTS "model_weights"
#define KERAS_VERSION "3.0.0" /* the oldest that knows all that is written */

enum { PATH_SIZE = 1024, MAX_WEIGHTS = 64 };

/* The layer's group, its weights and their names; what is trained comes first. */
static void write_legacy_layer(td__hdf5_maker *maker, const td_model *model,
                               const td_layer_info *layer) {
    char names[MAX_WEIGHTS][PATH_SIZE / 2], path[2 * PATH_SIZE];
    const char *listed[MAX_WEIGHTS];
    size_t count = 0;
    for (int averages = 0; averages < 2; averages++) {
        for (size_t i = 0; i < layer->parameter_count && count < MAX_WEIGHTS; i++) {
            const td_parameter_info *parameter =
                td_model_parameter_at(model, layer->first_parameter + i);
            if (parameter->moving_average != averages) {
                continue;
            }
            (void)snprintf(names[count], sizeof names[count], "%s/%s", layer->name,
                           parameter->parameter);
            (void)snprintf(path, sizeof path, WEIGHTS "/%s/%s", layer->name, names[count]);
            td__hdf5_add_array(maker, path, td_view_of(parameter->tensor));
            listed[count] = names[count];
            count++;
        }
    }
    (void)snprintf(path, sizeof path, WEIGHTS "/%s", layer->name);
    td__hdf5_add_group(maker, path);
    td__hdf5_add_texts(maker, path, "weight_names", count, listed);
}

static td_status add_all(td__hdf5_maker *maker, const td__keras_plan *plan, const char *config,
                         size_t count, const td_model_note *notes, td_error *error) {
    const char **names = td__calloc(plan->count + 1, sizeof *names);
    if (!names) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__hdf5_add_text(maker, "", "keras_version", KERAS_VERSION);
    td__hdf5_add_text(maker, "", "backend", "tensorflow");
    td__hdf5_add_text(maker, "", "model_config", config);
    for (size_t i = 0; i < count; i++) {
        td__hdf5_add_text(maker, "", notes[i].key, notes[i].value);
    }
    td__hdf5_add_group(maker, WEIGHTS);
    for (size_t i = 0; i < plan->count; i++) {
        const td_layer_info *layer = td_model_layer(plan->model, plan->layers[i].layer);
        names[i] = layer->name;
        write_legacy_layer(maker, plan->model, layer);
    }
    td__hdf5_add_texts(maker, WEIGHTS, "layer_names", plan->count, names);
    td__hdf5_add_text(maker, WEIGHTS, "keras_version", KERAS_VERSION);
    td__hdf5_add_text(maker, WEIGHTS, "backend", "tensorflow");
    td__free(names);
    return TD_OK;
}

typedef struct target {
    int file;
    off_t at;
} target;

static td_status append_bytes(void *user, const void *bytes, size_t size, td_error *error) {
    target *to = user;
    (void)error;
    bool good = td__write_all(to->file, bytes, size, to->at);
    to->at += (off_t)size;
    return good ? TD_OK : TD_IO;
}

static td_status write_file(void *context, int file, td_error *error) {
    return td__hdf5_finish(context, append_bytes, &(target){.file = file}, error);
}

td_status td__keras_save_legacy(const td_model *model, const char *path, size_t count,
                                const td_model_note *notes, td_error *error) {
    td__keras_plan plan;
    td_status status = td__keras_plan_make(&plan, model, path, error);
    if (status) {
        return status;
    }
    char *config = td__keras_config_write(&plan);
    td__hdf5_maker *maker = td__hdf5_make();
    if (!config || !maker) {
        status =
            td_error_set(error, TD_MEMORY, "%s: out of memory, or a name that is not UTF-8", path);
    }
    status = status ? status : add_all(maker, &plan, config, count, notes, error);
    status = status ? status : td__draft_write(path, true, write_file, maker, error);
    td__hdf5_drop(maker);
    td__free(config);
    td__keras_plan_release(&plan);
    return status;
}
