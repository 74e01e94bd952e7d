/* Files: complete writes, atomic publishing, and names that are safe whatever a signal is called.
 *
 * Everything is relative to an open folder, so that renaming a run while it is written does no
 * harm and nothing is ever created outside of it. Errors name the file; errno is 0 or has the reason. */
#ifndef TAPEDECK_BASE_FILE_H
#define TAPEDECK_BASE_FILE_H

#include "tapedeck/base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

enum { TD__ASIDE_SIZE = 288, TD__HIDDEN_SIZE = 256 };

/* Writes all of it, whatever signals and short writes come between. False, with errno, when that
 * is not possible; part of it may then have been written. */
bool td__write_all(int file, const void *data, size_t size, off_t offset);
/* Reads all of it; false, with errno, when that is not possible or the file ends before. */
bool td__read_all(int file, void *data, size_t size, off_t offset);

/* Between the two, a write that fails is an error and nothing else: the signals of a file grown too
 * large (SIGXFSZ) and of a pipe without a reader (SIGPIPE) do not reach this thread. td__write_all
 * is so by itself. */
void td__block_file_signals(sigset_t *before);
void td__unblock_file_signals(const sigset_t *before);

/* Calls sync (fsync, fdatasync, syncfs) until no signal comes between; false, with errno, when it
 * fails. */
bool td__sync(int (*sync)(int file), int file);

/* Opens a regular file in folder (AT_FDCWD: anywhere) and never waits: a FIFO, a device or a folder
 * is an error. flags: O_RDONLY, O_WRONLY or O_RDWR, and within a run's folder O_NOFOLLOW, so that
 * nothing outside of it is touched. -1, with errno, on failure. */
int td__file_open(int folder, const char *name, int flags);
/* Gives a file another name, NAME.damaged (NAME.damaged-2, …), which is written to aside. */
TD_NODISCARD td_status td__file_set_aside(int folder, const char *name, char aside[TD__ASIDE_SIZE],
                                          td_error *error);

/* Releases the pages that lie wholly within these bytes of a mapped file that nobody has written to: it no
 * longer counts as the program's memory, stays in the system's cache, and is there again when read. */
void td__mapped_release(const void *data, size_t size);

/* Opens the folder for the functions below; -1 on failure. Close with close(). */
int td__folder_open(const char *path, td_error *error);
/* Creates a folder inside folder unless it is there, and opens it; -1 on failure. */
int td__folder_create(int folder, const char *name, td_error *error);

/* Opens the folder that a path is in; *name gets its last part, borrowed from path. -1 on failure. */
int td__folder_of(const char *path, const char **name, td_error *error);

/* A path to the opened folder that stays right when the folder is renamed or moved: for what takes paths
 * only. False where the system has no such paths. */
enum { TD__FOLDER_PATH = 32 };
bool td__folder_follow(int folder, char out[TD__FOLDER_PATH]);
/* What the opened folder is called now, to be freed; NULL when it is removed or that is not known. */
char *td__folder_whereabouts(int folder);

/* Creates or replaces name with these bytes in one instant: readers see the old file, the new one,
 * or none, never a part. When durable, the file's bytes are on disk before it has its name. A name
 * longer than 250 bytes is TD_INVALID. */
TD_NODISCARD td_status td__file_publish(int folder, const char *name, const void *data, size_t size,
                                        bool durable, td_error *error);

/* Reserves room on the disk for a file, as a hidden file beside it: the next td__draft_create_sized of that name
 * has this many bytes already, and cannot fail because the disk is full. TD_IO, with errno ENOSPC,
 * when there is no such room. TD_OK, with nothing reserved, where the file system cannot reserve. */
TD_NODISCARD td_status td__file_reserve(int folder, const char *name, int64_t size,
                                        td_error *error);
/* Makes a reservation one for another name; false when there is none. */
bool td__file_reserved_for(int folder, const char *name, const char *other);
/* A file goes, and its room is reserved for name; false, with errno, when that is not possible. */
bool td__file_recycle(int folder, const char *file, const char *name);
/* Gives the room back, if it was reserved and has not been used. */
void td__file_unreserve(int folder, const char *name);

/* The same in pieces: a hidden file beside name, which becomes name or nothing. A device is written itself: a program
 * that runs as root would else replace /dev/null. */
typedef struct td__draft {
    int folder, file; /* file: to be written with td__write_all */
    bool device;      /* the file is name itself */
    int64_t size;     /* of the whole, where it has room that was reserved; otherwise 0 */
    const char *name; /* borrowed */
    char hidden[TD__HIDDEN_SIZE];
} td__draft;
/* TD_INVALID for a name longer than 250 bytes, TD_IO. */
TD_NODISCARD td_status td__draft_create(td__draft *draft, int folder, const char *name,
                                        td_error *error);
/* The same for a file whose size is known: it takes the room that was reserved for it, if any. */
TD_NODISCARD td_status td__draft_create_sized(td__draft *draft, int folder, const char *name,
                                              int64_t size, td_error *error);
/* Ends it: published when good, else removed; a write that failed left its reason in errno. */
TD_NODISCARD td_status td__draft_end(td__draft *draft, bool good, bool durable, td_error *error);

/* A draft of the file at path, as a stream; NULL on failure. */
FILE *td__draft_open(td__draft *draft, const char *path, td_error *error);
/* Closes the stream and ends the draft, which was good so far: published or removed. False, with
 * errno, when there is no such file now. */
bool td__draft_close(td__draft *draft, FILE *stream, bool good);

/* The text for errno; also for td__file_open's own errors. */
const char *td__file_reason(int reason);
/* Fills error from errno: "metrics.csv: cannot write: No space left on device". */
td_status td__file_error(td_error *error, const char *name, const char *verb);

/* The longest name td__file_name makes, and the room it wants. */
#define TD__FILE_NAME_LENGTH 200
#define TD__FILE_NAME_SIZE (TD__FILE_NAME_LENGTH + 1)

/* A file name for a signal's name (any bytes): letters, digits, '_' and '-' stay, '.' too unless it
 * comes first, all else becomes %XX. The empty name is "%00". A name that would be longer than
 * TD__FILE_NAME_LENGTH is cut, and ends in '~' and 16 hexadecimal digits, a hash of all of it;
 * '~' occurs in no other. Different signals have different names (but for a collision of hashes).
 * Returns out. */
char *td__file_name(char out[TD__FILE_NAME_SIZE], const char *signal);

#endif
