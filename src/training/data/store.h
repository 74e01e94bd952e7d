/* Where parsed rows go: into memory while they are few, into files when they are many.
 *
 * Inputs and labels are two streams, so that each ends up in one piece. */
#ifndef TAPEDECK_DATA_STORE_H
#define TAPEDECK_DATA_STORE_H

#include "tapedeck/base.h"

/* Floats that a store keeps in memory before it goes to files: 64 MiB. */
#define TD__ROW_STORE_MEMORY ((size_t)16 << 20)

/* The first bytes of a store's file of inputs are left free for a header. */
#define TD__ROW_STORE_HEADER 4096

typedef struct td__stream {
    float *values; /* all of them, or those not yet in the file */
    size_t count, capacity;
    int64_t total; /* floats, in memory and file */
    int file;      /* -1: in memory */
} td__stream;

typedef struct td__row_store {
    td__stream inputs, labels;
    size_t memory;      /* TD__ROW_STORE_MEMORY; smaller in tests */
    const char *folder; /* borrowed, for files, made when needed; NULL: nowhere */
    char *path;         /* of the inputs' file, in folder; NULL while in memory */
} td__row_store;

/* A new file in folder, which is made when it is not there; -1, with errno, on failure. *path gets
 * its name, for td__free. */
int td__row_store_file(const char *folder, char **path);

void td__row_store_init(td__row_store *store, const char *folder);
/* Goes to files at once. */
td_status td__row_store_open(td__row_store *store, td_error *error);
/* Room for `inputs` inputs in the file, which others write there; after all labels were added. */
td_status td__row_store_reserve(td__row_store *store, int64_t inputs, td_error *error);
td_status td__row_store_add(td__row_store *store, const float *inputs, size_t input_count,
                            const float *labels, size_t label_count, td_error *error);
/* Files only: writes out what is left, and the labels behind the inputs, which are the file's end. */
td_status td__row_store_join(td__row_store *store, td_error *error);
/* Removes files that were not renamed. */
void td__row_store_release(td__row_store *store);

#endif
