#include "tensor/list.h"

#include "base/memory.h"
#include "base/text.h"
#include "tensor/order.h"

#include <stdlib.h>
#include <string.h>

struct td__tensor_list_kept {
    struct td__tensor_list_kept *next;
    void (*release)(void *owner);
    void *owner;
};

td_status td__tensor_list_add(td__tensor_list *list, const char *name, td_view view,
                              const char *origin, td_error *error) {
    td_status status = td__view_align(&view, origin, error);
    char *copy = status ? NULL : td__strdup(name);
    if (!status && (!copy || !td__grow(&list->items, &list->capacity, list->count + 1,
                                       TD__TENSOR_LIST_MAX, sizeof *list->items))) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory, or more than %d tensors",
                              origin, TD__TENSOR_LIST_MAX);
    }
    if (status) {
        td__free(copy);
        td__view_release(&view);
        return status;
    }
    list->items[list->count++] = (td__named_view){copy, view};
    return TD_OK;
}

td_status td__tensor_list_check(const td__tensor_list *list, const char *origin, td_error *error) {
    const char **names = td__calloc(list->count + 1, sizeof *names);
    if (!names) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    for (size_t i = 0; i < list->count; i++) {
        names[i] = list->items[i].name;
    }
    qsort(names, list->count, sizeof *names, td__compare_texts);
    td_status status = TD_OK;
    for (size_t i = 1; i < list->count && !status; i++) {
        if (!strcmp(names[i - 1], names[i])) {
            status = td_error_set(error, TD_EXISTS, "%s: two tensors are called %.200s", origin,
                                  names[i]);
        }
    }
    td__free(names);
    return status;
}

td_status td__tensor_list_keep(td__tensor_list *list, void (*release)(void *owner), void *owner,
                               const char *origin, td_error *error) {
    struct td__tensor_list_kept *kept = td__calloc(1, sizeof *kept);
    if (!kept) {
        release(owner);
        return td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    *kept = (struct td__tensor_list_kept){list->kept, release, owner};
    list->kept = kept;
    return TD_OK;
}

void td__tensor_list_release(td__tensor_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        td__free((void *)(uintptr_t)list->items[i].name);
        td__view_release(&list->items[i].view);
    }
    while (list->kept) {
        struct td__tensor_list_kept *kept = list->kept;
        list->kept = kept->next;
        kept->release(kept->owner);
        td__free(kept);
    }
    td__free(list->items);
    *list = (td__tensor_list){0};
}
