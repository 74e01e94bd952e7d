/* Listing an opened folder, and writing a file as a whole or not at all. */
#ifndef TAPEDECK_BASE_FOLDER_H
#define TAPEDECK_BASE_FOLDER_H

#include <dirent.h>

#include "base/file.h"

/* Lists an opened folder, which stays open. Close with closedir(). NULL on failure, with errno. */
DIR *td__folder_list(int folder);

/* Whether a name is longer than the ending, and ends in it. */
bool td__ends_in(const char *name, const char *ending);

/* Writes to file with td__write_all. TD_IO: a write failed and left its reason in errno; the error is set for it. */
typedef td_status td__write_function(void *context, int file, td_error *error);

/* Publishes the file at path with what write puts into it, or leaves path as it was. TD_INVALID for a
 * name longer than 250 bytes, TD_IO, and what write returns. */
TD_NODISCARD td_status td__draft_write(const char *path, bool durable, td__write_function *write,
                                       void *context, td_error *error);

#endif
