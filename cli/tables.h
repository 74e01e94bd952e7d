/* Tensors as rows of a table: the parameters of a model, the content of a file of weights. */
#ifndef TAPEDECK_CLI_TABLES_H
#define TAPEDECK_CLI_TABLES_H

#include "tapedeck/model.h"

/* A row of the table of parameters, or of the tensors of a file. */
typedef struct row {
    const char *name;
    td_shape shape;
    td_dtype dtype;
    td_stats stats;
} row;

/* what: the head of the first column. types: with a column of element types. */
void print_rows(const char *what, const row *rows, size_t count, bool types);

/* The tensors of a file, with statistics; what the program exits with. */
int show_table(const char *path, bool raw, bool json);
/* Two files, tensor by tensor; what the program exits with: 0 when nothing differs by more than
 * tolerance times the larger of two numbers. */
int compare_tables(const char *const paths[2], bool raw, double tolerance, bool json);

#endif
