/* A list of a database's runs, and what was asked for all of them at once. */
#ifndef TAPEDECK_STORE_PG_LISTING_H
#define TAPEDECK_STORE_PG_LISTING_H

#include "store/postgresql.h"

/* Whether the listing has the rows of this query for this run: those from *first to before *end of the answer. */
bool td__pg_listed(const td__listing *listing, size_t index, const td__query *query,
                   const td__pg_answer **answer, size_t *first, size_t *end);

/* A store of what a row of this statement says; `which` goes on from "FROM tapedeck.run r". */
#define TD__PG_RUN_COLUMNS                                                                         \
    "r.id, r.schema, coalesce(r.seen > now() - interval '60 s', false) AND r.writer IS NOT NULL,"  \
    " r.bytes, r.folder, r.name, r.part"
enum {
    TD__PG_RUN_ID,
    TD__PG_RUN_SCHEMA,
    TD__PG_RUN_WRITING,
    TD__PG_RUN_BYTES,
    TD__PG_RUN_FOLDER,
    TD__PG_RUN_NAME,
    TD__PG_RUN_PART,
    TD__PG_RUN_CELLS
};
/* Takes the shared connection over when it succeeds. */
td_status td__pg_store_make(td__pg *pg, const td__pg_answer *runs, size_t row, td__store **store,
                            td_error *error);

#endif
