/* Tensors with names: what a file of weights holds, in its order. */
#ifndef TAPEDECK_TENSOR_LIST_H
#define TAPEDECK_TENSOR_LIST_H

#include "tapedeck/tensor.h"

typedef struct td__named_view {
    const char *name;
    td_view view;
} td__named_view;

/* A growing list of them, whose names and views are its own. Zero is empty. */
typedef struct td__tensor_list {
    td__named_view *items;
    size_t count, capacity;
    struct td__tensor_list_kept *kept; /* what views point into */
    char remark[512];                  /* what to report about tensors left out; or "" */
} td__tensor_list;

enum { TD__TENSOR_LIST_MAX = 1 << 20 };

/* Copies the name and takes the view, whose release is called with the list's or, on failure, at
 * once. Its values are aligned. */
TD_NODISCARD td_status td__tensor_list_add(td__tensor_list *list, const char *name, td_view view,
                                           const char *origin, td_error *error);
/* That no name is there twice: TD_EXISTS. origin is for messages. */
TD_NODISCARD td_status td__tensor_list_check(const td__tensor_list *list, const char *origin,
                                             td_error *error);
/* owner is released after the views; on failure at once. */
TD_NODISCARD td_status td__tensor_list_keep(td__tensor_list *list, void (*release)(void *owner),
                                            void *owner, const char *origin, td_error *error);
void td__tensor_list_release(td__tensor_list *list);

#endif
