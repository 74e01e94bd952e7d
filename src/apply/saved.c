#include "apply/saved.h"

#include <string.h>

td_status td__saved_load(td__saved *saved, const char *model, td_error *error) {
    const char *const keys[] = {TD_NOTE_DATA};
    char *texts[1] = {NULL};
    td_error reason = {0};
    td_status status = TD_OK;
    saved->model = td_model_load_with(model, 1, keys, texts, &reason);
    if (!saved->model) {
        return td_error_set(error, reason.status, "%s", reason.text);
    }
    saved->foreign = !texts[0];
    if (texts[0]) {
        status = td__notes_read(&saved->notes, texts[0], model, error);
    }
    td_free_text(texts[0]);
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

td_status td__saved_open(td__saved *saved, const char *path, const td__saved_options *options,
                         td_error *error) {
    const char *given[1] = {options->label};
    const td__notes *notes = &saved->notes;
    td_names label = options->label ? (td_names){given, 1} : notes->label;
    td_data_options data = {.struct_size = sizeof data,
                            .train = path,
                            .labels = options->labels,
                            .input = td__known_input(saved->model),
                            .input_as_is = saved->foreign,
                            .label = label,
                            .label_kind = options->label_kind,
                            .ignore = notes->ignore,
                            .x = notes->x,
                            .y = notes->y,
                            .scale = options->scale != 0 ? options->scale : notes->scale,
                            .mean = options->scale != 0 ? NULL : notes->mean,
                            .deviation = options->scale != 0 ? NULL : notes->deviation,
                            .normal_count = options->scale != 0 ? 0 : notes->normal_count,
                            .classes = notes->classes,
                            .batch = options->batch,
                            .in_order = true};
    td_error first = {0};
    close_data(saved);
    saved->data = td_dataset_open(&data, &first);
    if (!saved->data && !options->label && label.count) {
        data.label = (td_names){0};
        data.label_kind = TD_LABEL_NONE;
        saved->data = td_dataset_open(&data, NULL);
    }
    if (!saved->data) {
        return td_error_set(error, first.status, "%s%s", first.text,
                            first.status == TD_SHAPE && !label.count && is_table(path)
                                ? "; if a column holds the labels, name it (--label)"
                                : "");
    }
    saved->labelled = td_dataset_info(saved->data)->label_kind != TD_LABEL_NONE;
    saved->batches = td_batches_create(saved->data, TD_TRAINING, 0, error);
    return saved->batches ? TD_OK : TD_MEMORY;
}

void td__saved_release(td__saved *saved) {
    close_data(saved);
    td__notes_release(&saved->notes);
    td_model_destroy(saved->model);
    *saved = (td__saved){0};
}
