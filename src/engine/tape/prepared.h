/* What is made of a model's weights once and kept, on tapes for inference: there they stay as they are
 * (td_tape_options.inference). */
#ifndef TAPEDECK_TAPE_PREPARED_H
#define TAPEDECK_TAPE_PREPARED_H

#include "base/arena.h"
#include "tape/op.h"

/* What it is; with the address of the weights and its size it identifies an entry. */
typedef enum td__prepared_kind {
    TD__PREPARED_NOTHING, /* an entry that is free */
    TD__PREPARED_PANELS,  /* td__pack_panels */
    TD__PREPARED_TURNED,  /* the same of the transpose */
    TD__PREPARED_WINOGRAD /* panels of the transformed kernel, place by place */
} td__prepared_kind;

typedef struct td__prepared {
    const float *weights;
    td__prepared_kind kind;
    size_t bytes;
    float *data;
    bool made; /* data is filled */
} td__prepared;

typedef struct td__prepared_table {
    td__prepared *entries; /* open addressing, a power of two */
    size_t count, capacity;
    td__arena *memory;
} td__prepared_table;

/* Products with more rows than this gain nothing that is worth the memory. */
#define TD__PREPARED_ROWS 4096

/* `size` bytes made of these weights, which stay as long as the tape does; the caller fills those that
 * are not made and says so. The entry is valid until the next call. NULL: the caller makes it for this
 * time only, because the tape is not for inference or memory is short, which is no error. */
td__prepared *td__prepare(td_tape *tape, const float *weights, td__prepared_kind kind,
                          size_t bytes);
void td__prepared_release(td__prepared_table *table);

#endif
