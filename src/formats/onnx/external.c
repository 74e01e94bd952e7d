/* Tensors kept outside of the model's file: regular files in its folder or beneath, and nothing
 * else. The path is walked one folder at a time without following links, so that no name in a model
 * leads elsewhere, whatever is renamed meanwhile. */
#include "base/bytes.h"
#include "base/file.h"
#include "onnx/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct td__onnx_file {
    td__onnx_file *next;
    dev_t device;
    ino_t inode;
    td__bytes bytes;
};

void td__onnx_parser_close(td__onnx_parser *parser) {
    for (td__onnx_file *file = parser->files; file; file = file->next) {
        td__bytes_release(&file->bytes);
    }
    parser->files = NULL;
    if (parser->folder >= 0) {
        close(parser->folder);
        parser->folder = -1;
    }
}

static const char outside[] = "must name a file in the model's folder or beneath it";

static td_status refuse_external(td__onnx_parser *parser, const char *location, const char *why) {
    return td_error_set(parser->error, TD_FORMAT, "%s: external data '%.200s': %s", parser->path,
                        location, why);
}

/* "folder/model.onnx" -> an open "folder". */
static td_status open_folder(td__onnx_parser *parser) {
    char path[4096] = ".";
    const char *slash = strrchr(parser->beside, '/');
    if (slash) {
        size_t length = (size_t)(slash - parser->beside) + 1; /* "/" stays "/" */
        if (length >= sizeof path) {
            return td_error_set(parser->error, TD_RANGE, "%s: the path is too long", parser->path);
        }
        memcpy(path, parser->beside, length);
        path[length] = 0;
    }
    parser->folder = td__folder_open(path, parser->error);
    return parser->folder < 0 ? TD_IO : TD_OK;
}

/* Takes the next name off location and opens it in folder; -1, with the error set, when that is not
 * allowed or not there. */
static int open_next(td__onnx_parser *parser, int folder, const char *location, const char **at) {
    *at += strspn(*at, "/");
    size_t length = strcspn(*at, "/");
    char name[256], reason[128];
    if (!length || length >= sizeof name || (length == 2 && !memcmp(*at, "..", 2))) {
        refuse_external(parser, location, outside);
        return -1;
    }
    memcpy(name, *at, length);
    name[length] = 0;
    *at += length;
    int how = **at ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK; /* not waiting for a FIFO */
    int opened = openat(folder, name, how | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0) {
        refuse_external(parser, location,
                        errno == ELOOP || errno == ENOTDIR
                            ? "links are not followed"
                            : strerror_r(errno, reason, sizeof reason));
    }
    return opened;
}

/* Opens the file that location names; -1 as above. */
static int walk(td__onnx_parser *parser, const char *location) {
    const char *at = location;
    int opened = open_next(parser, parser->folder, location, &at);
    while (opened >= 0 && *at) {
        int folder = opened;
        opened = open_next(parser, folder, location, &at);
        close(folder);
    }
    return opened;
}

/* Maps an open file, unless it is there already. */
static td_status map(td__onnx_parser *parser, int descriptor, const char *location,
                     td__onnx_file **mapped) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
        (uint64_t)status.st_size > SIZE_MAX / (2 * TD__ONNX_WIDENED)) {
        return refuse_external(parser, location, "is not a regular file");
    }
    for (td__onnx_file *file = parser->files; file; file = file->next) {
        if (file->device == status.st_dev && file->inode == status.st_ino) {
            *mapped = file;
            return TD_OK;
        }
    }
    td__onnx_file *file = td__onnx_alloc(parser, 1, sizeof *file);
    if (!file) {
        return TD_MEMORY;
    }
    *file = (td__onnx_file){.device = status.st_dev, .inode = status.st_ino};
    if (!td__bytes_map_open(&file->bytes, descriptor)) {
        return td__file_error(parser->error, location, "map");
    }
    size_t more = TD__ONNX_WIDENED * file->bytes.size;
    parser->memory.left =
        more > SIZE_MAX - parser->memory.left ? SIZE_MAX : parser->memory.left + more;
    file->next = parser->files;
    parser->files = file;
    *mapped = file;
    return TD_OK;
}

td_status td__onnx_external(td__onnx_parser *parser, const char *location, const uint8_t **data,
                            size_t *size) {
    if (!parser->beside) {
        return refuse_external(parser, location, "a model that is no file cannot have any");
    }
    if (location[0] == '/') {
        return refuse_external(parser, location, outside);
    }
    td_status status = parser->folder < 0 ? open_folder(parser) : TD_OK;
    if (status) {
        return status;
    }
    int descriptor = walk(parser, location);
    if (descriptor < 0) {
        return TD_FORMAT;
    }
    td__onnx_file *file = NULL;
    status = map(parser, descriptor, location, &file);
    close(descriptor);
    if (!status) {
        *data = file->bytes.data;
        *size = file->bytes.size;
    }
    return status;
}
