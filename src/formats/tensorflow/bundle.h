/* Checkpoints of TensorFlow: NAME.index says where in NAME.data-00000-of-00001, … each tensor lies.
 * A SavedModel keeps its variables so, in variables/variables. */
#ifndef TAPEDECK_TENSORFLOW_BUNDLE_H
#define TAPEDECK_TENSORFLOW_BUNDLE_H

#include "base/bytes.h"
#include "tensor/list.h"

typedef struct td__bundle_entry {
    char *key;     /* owned */
    uint32_t type; /* TensorFlow's number */
    td_shape shape;
    bool readable; /* else: of a rank or shape that is not read, or a part of a tensor */
    uint32_t shard, checksum;
    uint64_t offset, size;
} td__bundle_entry;

typedef struct td__bundle {
    char *origin;              /* NAME.index, for messages */
    td__bundle_entry *entries; /* sorted by key */
    size_t count, capacity;
    td__bytes *shards;
    uint32_t shard_count;
    bool big_endian;
} td__bundle;

/* path: NAME.index, or NAME. The caller releases it, also after a failure. */
TD_NODISCARD td_status td__bundle_open(td__bundle *bundle, const char *path, td_error *error);
/* The same of an index and one shard in memory; origin is for messages, copied. */
TD_NODISCARD td_status td__bundle_parse(td__bundle *bundle, const char *origin, const void *index,
                                        size_t index_size, const void *shard, size_t shard_size,
                                        td_error *error);
void td__bundle_release(td__bundle *bundle);

/* NULL when there is none. */
const td__bundle_entry *td__bundle_find(const td__bundle *bundle, const char *key);
/* A tensor of numbers, as it lies in its shard; compared with its checksum. */
TD_NODISCARD td_status td__bundle_view(const td__bundle *bundle, const td__bundle_entry *entry,
                                       td_view *view, td_error *error);
/* The first element of a tensor of strings, as it lies in its shard. */
TD_NODISCARD td_status td__bundle_text(const td__bundle *bundle, const td__bundle_entry *entry,
                                       const unsigned char **text, size_t *size, td_error *error);

/* All tensors of numbers. The list takes over what the bundle holds. */
TD_NODISCARD td_status td__bundle_list(td__bundle *bundle, td__tensor_list *list, td_error *error);
/* The same of files, as td__bundle_open; index: the bytes of NAME.index where they are at hand, or NULL. */
TD_NODISCARD td_status td__bundle_tensors(const char *path, const td__bytes *index,
                                          td__tensor_list *list, td_error *error);

#endif
