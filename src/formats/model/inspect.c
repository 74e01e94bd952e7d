/* A saved model and what is unusual about it: only what follows from the parameters with certainty,
 * whatever the data. */
#include "base/memory.h"
#include "data/notes.h"
#include "model/findings.h"
#include "model/format.h"

#include <jansson.h>
#include <string.h>

typedef struct inspection {
    td_inspection about; /* first: what callers have a pointer to */
    td_model *model;
    td__model_file *file;
    char *origin;
    json_t *json; /* owns the texts of data */
    td__data_notes data;
    td_stats *stats;
    td__findings findings;
} inspection;

const char *td_finding_level_name(td_finding_level level) {
    static const char *const names[] = {"note", "warning", "error"};
    return (unsigned)level < sizeof names / sizeof *names ? names[level] : NULL;
}

static td_status read_notes(inspection *i, td_error *error) {
    const char *const keys[] = {TD_NOTE_ORIGIN, TD_NOTE_DATA};
    char *texts[2];
    td_status status = td__model_file_texts(i->file, 2, keys, texts, error);
    if (status) {
        return status;
    }
    i->origin = texts[0];
    if (texts[1]) {
        i->json = json_loads(texts[1], JSON_REJECT_DUPLICATES, NULL);
        if (!td__data_notes_read(&i->data, i->json)) {
            status = td_error_set(error, TD_FORMAT, "%s: what it says of its data is malformed",
                                  i->file->path);
        }
    }
    td_free_text(texts[1]);
    return status;
}

static td_status measure_parameters(inspection *i, td_error *error) {
    size_t count = td_model_parameter_count(i->model);
    i->stats = td__calloc(count + 1, sizeof *i->stats);
    td_status status = i->stats ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t k = 0; !status && k < count; k++) {
        td_view view = td_view_of(td_model_parameter_at(i->model, k)->tensor);
        status = td_stats_of(&view, &i->stats[k], error);
    }
    return status;
}

static td_shape as_in_the_file(td_shape shape, bool first) {
    int64_t channels = shape.rank ? shape.dims[shape.rank - 1] : 0;
    if (first) {
        memmove(shape.dims + 1, shape.dims, sizeof *shape.dims * (size_t)(shape.rank - 1));
        shape.dims[0] = channels;
    }
    return shape;
}

static void describe_shapes(const td_model *model, td_inspection *about) {
    about->input_first = td__model_facts_of(model)->input_first;
    about->output_first = td__model_facts_of(model)->output_first;
    about->input = as_in_the_file(td_model_input_shape(model), about->input_first);
    about->output = as_in_the_file(td_model_layer(model, td_model_output_layer(model, 0))->output,
                                   about->output_first);
}

static void describe_model(inspection *i) {
    td_inspection *about = &i->about;
    about->bytes = (int64_t)i->file->bytes.size;
    about->file = i->file->path;
    about->format = i->file->format->name;
    about->origin = i->origin;
    about->inputs = i->data.inputs;
    about->label = i->data.label_names;
    about->classes = i->data.classes;
    about->scale = i->data.scale;
    about->mean = i->data.mean;
    about->deviation = i->data.deviation;
    about->normal_count = i->data.normal_count;
    about->model = i->model;
    describe_shapes(i->model, about);
    about->stats = i->stats;
    about->findings = i->findings.items;
    about->finding_count = i->findings.count;
    for (size_t k = 0; k < i->findings.count; k++) {
        about->worst =
            i->findings.items[k].level > about->worst ? i->findings.items[k].level : about->worst;
    }
}

const td_inspection *td_model_inspect(const char *path, td_error *error) {
    inspection *i = td__calloc(1, sizeof *i);
    if (!i) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    i->file = td__model_file_open(path, error);
    i->model = i->file ? td__model_file_load(i->file, NULL, error) : NULL;
    td_status status = i->model ? TD_OK : TD_FORMAT;
    status = status ? status : read_notes(i, error);
    status = status ? status : measure_parameters(i, error);
    status = status ? status : td__findings_collect(&i->findings, i->model, i->stats, error);
    if (status) {
        td_inspection_destroy(&i->about);
        return NULL;
    }
    describe_model(i);
    return &i->about;
}

void td_inspection_destroy(const td_inspection *about) {
    if (!about) {
        return;
    }
    inspection *i = (inspection *)(uintptr_t)about;
    td__findings_release(&i->findings);
    td__free(i->stats);
    td__data_notes_release(&i->data);
    json_decref(i->json);
    td__free(i->origin);
    td__model_file_close(i->file);
    td_model_destroy(i->model);
    td__free(i);
}
