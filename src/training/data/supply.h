/* Rows that are made out of a file, parsed or decoded: a block of rows at a time, each once.
 *
 * A supply's own thread makes them in the file's order; who asks for a row that is not there yet
 * makes its block, or waits while the thread does. So any row is available at once, whatever the order
 * that is asked for, and nothing is made twice.
 *
 * Blocks lie one after the other in memory, or in a file, which the reader has mapped. */
#ifndef TAPEDECK_DATA_SUPPLY_H
#define TAPEDECK_DATA_SUPPLY_H

#include "tapedeck/base.h"

/* Who makes a block; the other ones, one at a time, are one. */
enum { TD__SUPPLY_THREAD, TD__SUPPLY_ASKING, TD__SUPPLY_MAKERS };

/* How blocks are made. No function is called under a lock of the supply. */
typedef struct td__supply_class {
    /* Puts a block's rows at to. Two makers may be at work at once, on blocks of their own. */
    td_status (*make)(void *user, int maker, int64_t block, uint8_t *to, td_error *error);
    /* Another error in place of the first that make returned; called once, or NULL. */
    td_status (*explain)(void *user, td_status found, td_error *error);
    /* All blocks are there; called once, or NULL. */
    td_status (*finish)(void *user, td_error *error);
    void (*release)(void *user);
} td__supply_class;

typedef struct td__supply_options {
    const td__supply_class *class;
    void *user; /* taken, by td__supply_create also when it fails */
    int64_t rows, rows_in_block;
    size_t row_size; /* bytes */
    uint8_t *memory; /* borrowed: of all rows; or NULL, and … */
    int file;        /* … borrowed: a file that has them from offset on */
    int64_t offset;
} td__supply_options;

typedef struct td__supply td__supply;

/* NULL when memory is exhausted. */
td__supply *td__supply_create(const td__supply_options *options, td_error *error);
/* Stops its thread. Accepts NULL. */
void td__supply_destroy(td__supply *supply);
/* Starts the thread. */
TD_NODISCARD td_status td__supply_start(td__supply *supply, td_error *error);
/* Makes all of them in order, here, instead of td__supply_start. */
TD_NODISCARD td_status td__supply_make_all(td__supply *supply, td_error *error);
/* Returns when these rows are there, or with the first error of any block. Any thread may ask. NULL:
 * they are there. */
TD_NODISCARD td_status td__supply_need(td__supply *supply, const int64_t *rows, int64_t count,
                                       td_error *error);

#endif
