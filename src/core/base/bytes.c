#include "base/bytes.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

td_status td__cannot_open(td_error *error, const char *path) {
    return td_error_set(error, errno == ENOENT || errno == ENOTDIR ? TD_NOT_FOUND : TD_IO, "%s: %s",
                        path, td__file_reason(errno));
}

bool td__bytes_map_open(td__bytes *bytes, int file) {
    struct stat about;
    if (fstat(file, &about) != 0) {
        return false;
    }
    void *data = NULL;
    size_t size = (size_t)about.st_size;
    if (size > 0) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (data == MAP_FAILED) {
        return false;
    }
    *bytes = (td__bytes){data, size, true};
    return true;
}

td_status td__bytes_map(td__bytes *bytes, const char *path, td_error *error) {
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0) {
        return td__cannot_open(error, path);
    }
    bool mapped = td__bytes_map_open(bytes, file);
    int reason = errno;
    close(file);
    return mapped ? TD_OK
                  : td_error_set(error, TD_IO, "%s: cannot be mapped: %s", path,
                                 td__file_reason(reason));
}

void td__bytes_release(td__bytes *bytes) {
    if (bytes->mapped && bytes->data) {
        munmap((void *)(uintptr_t)bytes->data, bytes->size);
    } else if (!bytes->mapped) {
        td__free((void *)(uintptr_t)bytes->data);
    }
    *bytes = (td__bytes){0};
}
