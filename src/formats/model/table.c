/* Tables of tensors, of weights alone and of models; see tapedeck/model.h. */
#include "model/table.h"

#include "base/memory.h"
#include "model/format.h"
#include "model/weights.h"

#include <string.h>

struct td_tensor_table {
    td__model_file *file;
    td__tensor_list tensors;
};

static void destroy_model(void *owner) {
    td_model_destroy(owner);
}

static td_status list_parameters(td_model *model, const char *path, td__tensor_list *list,
                                 td_error *error) {
    td_status status = td__tensor_list_keep(list, destroy_model, model, path, error);
    for (size_t i = 0; !status && i < td_model_parameter_count(model); i++) {
        const td_parameter_info *parameter = td_model_parameter_at(model, i);
        status =
            td__tensor_list_add(list, parameter->name, td_view_of(parameter->tensor), path, error);
    }
    return status;
}

/* As a model where it is one and raw does not say otherwise. */
static td_status fill_table(td_tensor_table *table, bool raw, td_error *error) {
    td__model_file *file = table->file;
    td__table_reader *tensors = file->format->tensors;
    td_model *model = NULL;
    td_error reason = {0};
    if (!raw || !tensors) {
        model = td__model_file_load(file, NULL, &reason);
        if (!model && (reason.status != TD_NO_MODEL || !tensors)) {
            return td_error_set(error, reason.status, "%s", reason.text);
        }
    }
    return model ? list_parameters(model, file->path, &table->tensors, error)
                 : tensors(file, &table->tensors, error);
}

td_tensor_table *td_tensor_table_open(const char *path, bool raw, td_error *error) {
    td_tensor_table *table = td__calloc(1, sizeof *table);
    if (!table) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    table->file = td__model_file_open(path, error);
    if (!table->file || fill_table(table, raw, error)) {
        td_tensor_table_close(table);
        return NULL;
    }
    return table;
}

void td_tensor_table_close(td_tensor_table *table) {
    if (table) {
        td__tensor_list_release(&table->tensors);
        td__model_file_close(table->file);
        td__free(table);
    }
}

td_tensor_table_info td_tensor_table_about(const td_tensor_table *table) {
    const char *remark = table->tensors.remark;
    const td__model_file *file = table->file;
    return (td_tensor_table_info){file->path, file->format->name, (int64_t)file->bytes.size,
                                  table->tensors.count, *remark ? remark : NULL};
}

const char *td_tensor_table_name(const td_tensor_table *table, size_t index) {
    return table->tensors.items[index].name;
}

td_view td_tensor_table_view(const td_tensor_table *table, size_t index) {
    td_view view = table->tensors.items[index].view;
    view.release = NULL;
    view.owner = NULL;
    return view;
}

td_status td_tensor_table_save(const td_tensor_table *table, const char *path, td_error *error) {
    if (table->tensors.count == 0) {
        return td_error_set(error, TD_NOT_FOUND, "%s: it has no tensors to be written",
                            table->file->path);
    }
    return td__table_write(table->tensors.count, table->tensors.items, path, error);
}
