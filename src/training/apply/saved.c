#include "apply/saved.h"

#include "data/dataset.h"
#include "data/table.h"
#include "model/load.h"

#include <string.h>

/* What a model that is loaded says of itself. */
static void take_facts(td__saved *saved) {
    const td__model_facts *facts = td__model_facts_of(saved->model);
    saved->fixed_batch = facts->fixed_batch;
    saved->input_first = facts->input_first;
    saved->output_first = facts->output_first;
}

static td_status read_notes(td__saved *saved, const td__model_file *file, const char *model,
                            td_error *error) {
    const char *const keys[] = {TD_NOTE_DATA};
    char *texts[1] = {NULL};
    td_status status = td__model_file_texts(file, 1, keys, texts, error);
    saved->foreign = !texts[0];
    if (!status && texts[0]) {
        status = td__notes_read(&saved->notes, texts[0], model, error);
    }
    td_free_text(texts[0]);
    return status;
}

td_status td__saved_load(td__saved *saved, const char *model, td_error *error) {
    td_error reason = {0};
    td__model_for data = {0};
    td__model_file *file = td__model_file_open(model, &reason);
    saved->model = file ? td__model_file_load(file, &data, &reason) : NULL;
    if (data.waits) {
        saved->waiting = file;
        saved->foreign = true;
        saved->takes = data.takes;
        saved->input_first = data.input_first;
        return TD_OK;
    }
    td_status status = saved->model ? TD_OK : td_error_set(error, reason.status, "%s", reason.text);
    if (!status) {
        saved->takes = td_model_input_shape(saved->model);
        take_facts(saved);
        status = read_notes(saved, file, model, error);
    }
    td__model_file_close(file);
    return status;
}

/* Whether its columns can be labels. */
static bool is_table(const char *path) {
    return strstr(path, ".csv") != NULL;
}

static void close_data(td__saved *saved) {
    td_batches_destroy(saved->batches);
    td_dataset_close(saved->data);
    saved->batches = NULL;
    saved->data = NULL;
}

/* Files by the names of inputs, in the order of the model's; all of them. */
static td_status take_files(td__saved *saved, const td__saved_options *options, td_pieces *pieces,
                            td_error *error) {
    size_t count = td_model_input_count(saved->model);
    for (size_t i = 0; i < options->input_count; i++) {
        const td_named_file *file = &options->inputs[i];
        ptrdiff_t at = td_model_find(saved->model, file->name);
        if (at < 0 || (size_t)at >= count) {
            return td_error_set(error, TD_NOT_FOUND,
                                "the model has no input '%.200s'; the first is '%s'", file->name,
                                td_model_layer(saved->model, 0)->name);
        }
        saved->pieces[0][at] = (td_piece){.name = file->name, .path = file->path};
    }
    for (size_t i = 0; i < count; i++) {
        if (!saved->pieces[0][i].name) {
            return td_error_set(error, TD_NOT_FOUND, "the model's input '%s' is missing",
                                td_model_layer(saved->model, i)->name);
        }
    }
    *pieces = (td_pieces){saved->pieces[0], count};
    return TD_OK;
}

/* The only input by its name is the data. Models of others do not keep the name: any will do. */
static td_status take_only_file(const td__saved *saved, const td__saved_options *options,
                                const char **path, td_error *error) {
    bool named = saved->model && td_model_input_count(saved->model);
    const char *own = named ? td_model_layer(saved->model, 0)->name : NULL;
    if (options->input_count > 1) {
        return td_error_set(error, TD_INVALID, "the model has one input, and %zu are given",
                            options->input_count);
    }
    if (own && strcmp(own, options->inputs[0].name) != 0) {
        return td_error_set(error, TD_NOT_FOUND, "the model has no input '%.200s'; it has '%s'",
                            options->inputs[0].name, own);
    }
    *path = options->inputs[0].path;
    return TD_OK;
}

static bool is_read_by(const char *path, td__reader *wanted) {
    td__reader *reader = NULL;
    return path && !td__reader_choose(path, &reader, NULL) && reader == wanted;
}

static bool has_several(const td__saved *saved) {
    return saved->model && td_model_input_count(saved->model) > 1;
}

/* Inputs and labels of which there are several: as asked for, as in training, or by their names in an
 * .npz file. */
static td_status choose_pieces(td__saved *saved, const char *path, const td__saved_options *options,
                               td_data_options *data, td_error *error) {
    size_t inputs = saved->model ? td_model_input_count(saved->model) : 0;
    if (data->input_pieces.count && !has_several(saved) && !is_read_by(path, td__npz_read) &&
        !is_read_by(path, td__csv_read)) {
        data->input_pieces = (td_pieces){0};
    }
    if (options->labels) {
        data->label_pieces = (td_pieces){0};
    }
    if (options->input_count && has_several(saved)) {
        data->train = NULL;
        data->label_pieces = (td_pieces){0};
        td_status status = take_files(saved, options, &data->input_pieces, error);
        if (status) {
            return status;
        }
    } else if (data->input_pieces.count == 0 && inputs > 1 && inputs <= TD_MAX_FROM &&
               is_read_by(path, td__npz_read)) {
        for (size_t i = 0; i < inputs; i++) {
            td_piece *piece = &saved->pieces[0][i];
            piece->name = td_model_layer(saved->model, i)->name;
            piece->from = (td_names){&piece->name, 1};
        }
        data->input_pieces = (td_pieces){saved->pieces[0], inputs};
    }
    for (size_t i = 0; i < options->output_label_count && i < TD_MAX_FROM; i++) {
        const td_named_file *file = &options->output_labels[i];
        saved->pieces[1][i] = (td_piece){.name = file->name, .path = file->path};
        data->label_pieces = (td_pieces){saved->pieces[1], i + 1};
    }
    if (data->input_pieces.count) {
        data->input = (td_shape){0};
        data->inputs = (td_names){0};
        data->layout = TD_LAYOUT_AS_IS;
    }
    if (data->label_pieces.count) {
        data->label = data->label_names = (td_names){0};
    }
    return TD_OK;
}

/* What each output is compared with, where the model says what it was trained for. */
static void find_heads(td__saved *saved) {
    const td_data_info *info = td_dataset_info(saved->data);
    const td__notes *notes = &saved->notes;
    size_t count = saved->model ? td_model_output_count(saved->model) : 0;
    saved->head_count = count > 1 && notes->objective_count == count ? count : 0;
    for (size_t i = 0; i < saved->head_count; i++) {
        td__head *head = &saved->heads[i];
        *head = (td__head){.objective = notes->objectives[i], .weight = notes->weights[i]};
        for (size_t k = 0; k < info->label_piece_count; k++) {
            const td_data_piece *piece = &info->label_pieces[k];
            if (!strcmp(piece->name, td__output_layer(saved->model, i)->name)) {
                head->label = piece;
                head->kind = td__head_kind(head->objective.loss, piece->count,
                                           td__output_units(saved->model, i));
            }
        }
    }
}

static td_status open_data(td__saved *saved, const char *path, const td__saved_options *options,
                           td_error *error) {
    const char *given[1] = {options->label};
    td_data_options data = {.size = sizeof data,
                            .train = path,
                            .header = options->header,
                            .labels = options->labels,
                            .input = saved->waiting ? (td_shape){0} : td__known_input(saved->model),
                            .input_as_is = saved->foreign,
                            .layout = options->layout || !saved->input_first
                                          ? options->layout
                                          : TD_LAYOUT_FIRST_IF_FITS,
                            .takes = saved->takes,
                            .batch = saved->fixed_batch ? saved->fixed_batch : options->batch,
                            .in_order = true};
    td__data_notes_apply(&saved->notes.data, &data);
    if (!options->scaled_labels) {
        data.label_mean = data.label_deviation = NULL;
    }
    if (options->label) {
        data.label = (td_names){given, 1};
        data.label_names = (td_names){0};
    }
    if (options->scale != 0) {
        data.scale = options->scale;
        data.mean = data.deviation = NULL;
        data.normal_count = 0;
    }
    td_status status = choose_pieces(saved, path, options, &data, error);
    if (status) {
        return status;
    }
    td_error reason = {0}, unlabelled = {0};
    saved->data = td_dataset_open(&data, &reason);
    bool noted = !options->label && !options->output_label_count;
    if (!saved->data && noted && (data.label.count || data.label_pieces.count)) {
        data.label_pieces = (td_pieces){0};
        data.label = data.label_names = (td_names){0};
        data.label_mean = data.label_deviation = NULL;
        data.label_kind = TD_LABEL_NONE;
        saved->data = td_dataset_open(&data, &unlabelled);
        /* Without the labels' column, what else is wrong is what matters. */
        reason = reason.status == TD_NOT_FOUND ? unlabelled : reason;
    }
    if (!saved->data) {
        return td_error_set(error, reason.status, "%s%s", reason.text,
                            reason.status == TD_BAD_SHAPE && !data.label.count && path &&
                                    is_table(path)
                                ? "; if a column holds the labels, name it (--label)"
                                : "");
    }
    saved->labelled = td_dataset_info(saved->data)->label_kind != TD_LABEL_NONE;
    find_heads(saved);
    if (saved->model) {
        td__describe_inputs(saved->model, td_dataset_info(saved->data));
    }
    saved->batches = td_batches_create(saved->data, TD_TRAINING, 0, error);
    return saved->batches ? TD_OK : TD_MEMORY;
}

td_status td__saved_open(td__saved *saved, const char *path, const td__saved_options *options,
                         td_error *error) {
    td_status status = options->input_count && !has_several(saved)
                           ? take_only_file(saved, options, &path, error)
                           : TD_OK;
    status = status ? status : open_data(saved, path, options, error);
    if (status || !saved->waiting) {
        return status;
    }
    td_error reason = {0};
    td__model_for data = {.known = true, .example = td_dataset_info(saved->data)->input};
    saved->model = td__model_file_load(saved->waiting, &data, &reason);
    td__model_file_close(saved->waiting);
    saved->waiting = NULL;
    if (!saved->model) {
        return td_error_set(error, reason.status, "%s", reason.text);
    }
    take_facts(saved);
    if (saved->fixed_batch && saved->fixed_batch != options->batch) {
        close_data(saved); /* again, that many at a time */
        return open_data(saved, path, options, error);
    }
    return TD_OK;
}

td_status td__saved_fit_labels(td__saved *saved, td_loss loss, td_error *error) {
    td_label_kind found = td_dataset_info(saved->data)->label_kind;
    td_batches_destroy(saved->batches); /* they are made for the kind of label */
    saved->batches = NULL;
    td_status status = td__labels_as(saved->data, td__labels_for(loss, found), error);
    if (!status) {
        saved->batches = td_batches_create(saved->data, TD_TRAINING, 0, error);
    }
    return saved->batches ? TD_OK : status ? status : TD_MEMORY;
}

void td__saved_release(td__saved *saved) {
    close_data(saved);
    td__notes_release(&saved->notes);
    td_model_destroy(saved->model);
    td__model_file_close(saved->waiting);
    *saved = (td__saved){0};
}
