/* The bytes of a file, mapped where it lies or read into memory. */
#ifndef TAPEDECK_BASE_BYTES_H
#define TAPEDECK_BASE_BYTES_H

#include "tapedeck/base.h"

/* Zero is none. */
typedef struct td__bytes {
    const uint8_t *data; /* NULL where size is 0 */
    size_t size;
    bool mapped; /* else from td__realloc */
} td__bytes;

/* Maps a regular file, which must not be cut short while it is mapped. TD_NOT_FOUND, TD_IO. */
TD_NODISCARD td_status td__bytes_map(td__bytes *bytes, const char *path, td_error *error);
/* The same of a file that is open for reading and may be closed afterwards. False, with errno, when it
 * cannot be mapped. */
TD_NODISCARD bool td__bytes_map_open(td__bytes *bytes, int file);
void td__bytes_release(td__bytes *bytes);

/* td_error_set for a file that td__file_open could not open, as errno says. */
td_status td__cannot_open(td_error *error, const char *path);

#endif
