/* The bytes of a file: as a stream, or all of them in memory. Gzip is unpacked on the way, and so is a member of a zip
 * archive without arrays (.npy): of ARCHIVE.zip its only one, or ARCHIVE.zip/MEMBER.
 *
 * The one place that uses zlib. */
#ifndef TAPEDECK_DATA_BYTES_H
#define TAPEDECK_DATA_BYTES_H

#include "base/bytes.h"

#include <sys/stat.h>

/* A member of a zip archive may unpack to at most this, in memory. */
#define TD__ZIP_MEMBER_MAXIMUM ((size_t)2 << 30)
/* The length of ARCHIVE.zip in ARCHIVE.zip/MEMBER; 0 for another path. */
size_t td__archive_length(const char *path);

/* A gzip file may unpack to at most this. */
#define TD__UNPACKED_MAXIMUM ((int64_t)64 << 30)

/* Maps a plain file; reads a gzip one, unpacked, into memory: TD_RANGE when it has more than maximum
 * bytes. */
td_status td__bytes_get(td__bytes *bytes, const char *path, int64_t maximum, td_error *error);

/* A stream of a file's unpacked bytes. */
typedef struct td__input td__input;

td_status td__input_open(td__input **input, const char *path, td_error *error);
/* Over memory that stays valid; path is for messages. Not unpacked. */
td_status td__input_memory(td__input **input, const char *path, const void *data, size_t size,
                           td_error *error);
/* Fills buffer; fewer bytes than size, and got, only at the end of the file. */
td_status td__input_read(td__input *input, void *buffer, size_t size, size_t *got, td_error *error);
/* Another file, whose bytes come behind those of the input and of what was appended before. With headers, both must begin
 * with the same line (TD_FORMAT), which is left out of the other; where a file does not end a line, that is done for
 * it. Before anything was read. */
TD_NODISCARD td_status td__input_append(td__input *input, const char *path, bool headers,
                                        td_error *error);
/* For messages: its path, and how many files were appended. */
const char *td__input_title(const td__input *input);
/* Goes back to the beginning. */
TD_NODISCARD td_status td__input_rewind(td__input *input, td_error *error);
/* td__bytes_get of an open file, wherever it was read up to. */
TD_NODISCARD td_status td__input_bytes(td__input *input, td__bytes *bytes, int64_t maximum,
                                       td_error *error);
/* Maps an open file as it is. */
TD_NODISCARD td_status td__input_map(const td__input *input, td__bytes *bytes, td_error *error);
const char *td__input_path(const td__input *input);
/* Whether the file's bytes are what is read, not unpacked; known once something was read. */
bool td__input_is_plain(const td__input *input);
/* Just these bytes of a plain file; where td__input_read goes on does not change. Any thread. */
TD_NODISCARD td_status td__input_read_at(const td__input *input, void *buffer, size_t size,
                                         int64_t offset, td_error *error);
/* td__input_read goes on from here, in a plain file. */
TD_NODISCARD td_status td__input_seek(td__input *input, int64_t offset, td_error *error);
/* Another descriptor of the open file, which the caller closes; -1 over memory or when the process has none left. */
int td__input_descriptor(const td__input *input);
/* The file as it was when it was opened; all zero over memory. */
const struct stat *td__input_stat(const td__input *input);
/* TD_STATE when the file has been changed since it was opened. */
td_status td__input_unchanged(const td__input *input, td_error *error);
void td__input_close(td__input *input);

#endif
