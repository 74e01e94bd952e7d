#include "data/spill.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

td_status td__spill_init(td__spill *spill, size_t piece, size_t count, size_t memory,
                         const char *cache, td_error *error) {
    size_t most = memory < TD__SPILL_MEMORY ? memory : TD__SPILL_MEMORY;
    bool few = piece * count <= most;
    *spill = (td__spill){.piece = piece, .count = count, .file = -1};
    if (!few) {
        spill->file = td__cache_temporary(cache, error);
        if (spill->file < 0) {
            return TD_IO;
        }
    }
    spill->memory = td__realloc(NULL, few ? piece * count : piece, 1);
    if (!spill->memory) {
        td__spill_release(spill);
        return td_error_set(error, TD_MEMORY, "no memory for %zu bytes", piece);
    }
    return TD_OK;
}

uint8_t *td__spill_piece(td__spill *spill, size_t index) {
    return spill->file < 0 ? spill->memory + index * spill->piece : spill->memory;
}

td_status td__spill_put(td__spill *spill, size_t index, td_error *error) {
    if (spill->file < 0 ||
        td__write_all(spill->file, spill->memory, spill->piece, (off_t)(index * spill->piece))) {
        return TD_OK;
    }
    return td_error_set(error, TD_IO,
                        "cannot write to the cache folder: %s; TAPEDECK_CACHE names "
                        "another one",
                        strerror(errno));
}

td_status td__spill_take(td__spill *spill, td__bytes *bytes, td_error *error) {
    size_t size = spill->piece * spill->count;
    if (spill->file < 0) {
        *bytes = (td__bytes){spill->memory, size, false};
        spill->memory = NULL;
        return TD_OK;
    }
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, spill->file, 0);
    if (map == MAP_FAILED) {
        return td_error_set(error, TD_IO, "cannot map a file of the cache folder: %s",
                            strerror(errno));
    }
    *bytes = (td__bytes){map, size, true};
    td__spill_release(spill);
    return TD_OK;
}

void td__spill_release(td__spill *spill) {
    if (spill->file >= 0) {
        close(spill->file);
    }
    td__free(spill->memory);
    *spill = (td__spill){.file = -1};
}
