/* How large a run's folder is. */
#include "store/store.h"

#include <ftw.h>
#include <sys/stat.h>

/* nftw has no argument for its function. */
static _Thread_local int64_t bytes_found;

static int add_bytes(const char *path, const struct stat *about, int kind, struct FTW *place) {
    (void)path, (void)place;
    bytes_found += kind == FTW_F ? about->st_size : 0;
    return 0;
}

int64_t td__folder_bytes(const char *folder) {
    bytes_found = 0;
    (void)nftw(folder, add_bytes, 16, FTW_PHYS);
    return bytes_found;
}
