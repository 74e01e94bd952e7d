#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

DIR *td__folder_list(int folder) {
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) {
        int reason = errno;
        close(copy);
        errno = reason;
    }
    return entries;
}

bool td__ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length > size && strcmp(name + length - size, ending) == 0;
}

td_status td__draft_write(const char *path, bool durable, td__write_function *write, void *context,
                          td_error *error) {
    const char *name;
    int folder = td__folder_of(path, &name, error);
    if (folder < 0) {
        return TD_IO;
    }
    td__draft draft;
    td_status status = td__draft_create(&draft, folder, name, error);
    if (!status) {
        status = write(context, draft.file, error);
        td_status ended =
            td__draft_end(&draft, !status, durable, status && status != TD_IO ? NULL : error);
        status = status ? status : ended;
    }
    close(folder);
    return status;
}
