/* The cache of parsed CSV files.
 *
 * One file for each source file and set of options that changes what is parsed. It may be deleted
 * at any time; a file that is damaged, of another version, or of a source that has changed since is
 * not used, and replaced by the next parse. */
#ifndef TAPEDECK_DATA_CACHE_H
#define TAPEDECK_DATA_CACHE_H

#include "data/store.h"
#include "data/table.h"

typedef struct td__cache {
    char *folder;           /* NULL: nowhere; then nothing is found */
    char *path;             /* of the cache file */
    char *key;              /* source and options, as text */
    bool weighted, grouped; /* rows have a weight, a group behind their labels */
    int64_t source_size, source_seconds, source_nanoseconds;
} td__cache;

/* A file without a name in the cache folder (wanted, or the default one when NULL), gone when it is
 * closed; -1 on failure. */
int td__cache_temporary(const char *wanted, td_error *error);

td_status td__cache_init(td__cache *cache, const td__request *request, const struct stat *source,
                         td_error *error);
/* False when there is no file that can be used. */
bool td__cache_load(const td__cache *cache, td__table *table);
/* What a cache file has beside inputs and labels. */
typedef struct td__seal {
    struct td__cache_header *header;
    char *text;
    size_t text_size;
} td__seal;

/* Of a store that has all of its rows, or room for them. */
td_status td__cache_compose(td__seal *seal, const td__cache *cache, const td__row_store *store,
                            const td__table *table, td_error *error);
void td__seal_release(td__seal *seal);
/* Publishes a store that is in files and joined. */
td_status td__cache_publish(const td__cache *cache, td__row_store *store, const td__seal *seal,
                            td_error *error);
void td__cache_release(td__cache *cache);

#endif
