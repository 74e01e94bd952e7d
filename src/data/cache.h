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
    char *folder; /* NULL: nowhere; then nothing is found */
    char *path;   /* of the cache file */
    char *key;    /* source and options, as text */
    int64_t source_size, source_seconds, source_nanoseconds;
} td__cache;

/* A file without a name in the cache folder (wanted, or the standard one when NULL), gone when it is
 * closed; -1 on failure. */
int td__cache_temporary(const char *wanted, td_error *error);

td_status td__cache_init(td__cache *cache, const td__request *request, const struct stat *source,
                         td_error *error);
/* False when there is no file that can be used. */
bool td__cache_load(const td__cache *cache, td__table *table);
/* Publishes a store that is in files; rows and widths must be the table's. lists: its classes, names
 * of inputs and of labels, and remarks. */
enum { TD__CACHE_LISTS = 4 };
td_status td__cache_publish(const td__cache *cache, td__store *store, int64_t rows,
                            const td__names *const lists[TD__CACHE_LISTS], td_error *error);
void td__cache_release(td__cache *cache);

#endif
