/* The names that a file of torch.save's may use, and what each says. */
#ifndef TAPEDECK_TORCH_NAMES_H
#define TAPEDECK_TORCH_NAMES_H

#include "tapedeck/tensor.h"
#include "torch/pickle.h"

typedef enum td__torch_role {
    TD__TORCH_TENSOR,    /* (storage, offset, size, stride, …) */
    TD__TORCH_TYPED,     /* the same, and the element type as its seventh argument */
    TD__TORCH_PARAMETER, /* (tensor, …) */
    TD__TORCH_FROM_TYPE, /* (function, class, arguments, state) */
    TD__TORCH_DICT,
    TD__TORCH_SIZE, /* (list) */
    TD__TORCH_STORAGE,
    TD__TORCH_UNTYPED, /* a storage of bytes */
    TD__TORCH_DTYPE,
    TD__TORCH_PLAIN,     /* of no interest here */
    TD__TORCH_UNREADABLE /* an element type that there is not here */
} td__torch_role;

typedef struct td__torch_name {
    const char *module, *name;
    td__torch_role role;
    td_dtype dtype; /* STORAGE, DTYPE */
} td__torch_name;

/* NULL when it may not be used, or value is no name. */
const td__torch_name *td__torch_name_of(const td__pickle_value *value);

#endif
