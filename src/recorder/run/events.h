/* Event files: records framed with their length and two checksums, read as a stream in memory that
 * grows with the largest record only.
 *
 * A record whose bytes do not match their checksum is left out. Where a length cannot be trusted,
 * reading goes on at the next place that is a record by its checksum. Both are reported
 * with their place, and so is an incomplete record at the end. */
#ifndef TAPEDECK_RUN_EVENTS_H
#define TAPEDECK_RUN_EVENTS_H

#include "run/event.h"

#include <sys/types.h>

/* Up to size bytes; 0 at the end, -1 with errno. */
typedef ssize_t td__read_function(void *source, void *buffer, size_t size);

/* All records of a stream; name is for messages. Damage is no error. */
td_status td__events_read(td__decoder *decoder, const char *name, td__read_function *read,
                          void *source, td_error *error);
/* All records of a file. */
td_status td__events_read_file(td__decoder *decoder, const char *path, td_error *error);

/* Whether a file is called as event files are. */
bool td__events_is_name(const char *name);
/* The event files in folder by name, as paths; td__free each and the list. *count is 0 when there
 * are none. */
td_status td__events_list(const char *folder, char ***paths, size_t *count, td_error *error);

#endif
