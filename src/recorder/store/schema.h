/* run.db's tables, and how older ones become what they are now; docs/run-db.md explains them.
 *
 * Versions: 1 had no indices, no summaries, signals by name alone, and findings that nobody wrote; 2
 * had histograms as text, and no layouts; 3 had signals without a sequence number. */
#ifndef TAPEDECK_STORE_SCHEMA_H
#define TAPEDECK_STORE_SCHEMA_H

#include "store/store.h"

enum { TD__SCHEMA_VERSION = 5 };

/* Makes all tables in an empty database. */
extern const char *const td__schema;
/* Makes the one view that is read as a temporary one, which hides what a database has by that name. */
extern const char *const td__schema_tensor;

typedef struct td__migration {
    const char *write; /* changes a database that may be written */
    const char *read;  /* lets one that may not look as if it had been */
} td__migration;
/* From version i to i + 1; 0 is none. */
extern const td__migration td__migrations[TD__SCHEMA_VERSION];

/* Tables that lose their rows of later steps when a run goes on after a step. */
extern const char *const td__schema_steps[];
extern const size_t td__schema_step_count;

typedef struct td__table_facts {
    const char *name, *conflict, *types;
} td__table_facts;
extern const td__table_facts td__tables[TD__TABLES];

/* A SELECT for the query; false when it does not fit. */
bool td__schema_select(char *out, size_t size, const td__query *query);

#endif
