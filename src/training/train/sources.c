#include "train/sources.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/bytes.h"
#include "tensor/hash.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20, PIECES = 64, MAX_DEPTH = 8 };

/* ---- Which ----------------------------------------------------------------------------------- */

typedef struct visit {
    td__source_function *each;
    void *user;
    td_error *error;
    td_status status;
} visit;

static void take_source(visit *v, const char *key, const char *name, const char *path) {
    td__source_file source = {.path = path};
    if (!path || v->status) {
        return;
    }
    (void)snprintf(source.key, sizeof source.key, "data.%s%s%.50s", key, *name ? "." : "", name);
    v->status = v->each(v->user, &source, v->error);
}

static void take_pieces(visit *v, const char *key, const td_pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++) {
        take_source(v, key, pieces->items[i].name ? pieces->items[i].name : "",
                    pieces->items[i].path);
    }
}

td_status td__sources_visit(const td_experiment *experiment, td__source_function *each, void *user,
                            td_error *error) {
    const td_data_options *data = &experiment->data;
    visit v = {.each = each, .user = user, .error = error};
    take_source(&v, "train", "", data->train);
    for (size_t i = 0; i < data->more.count; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%zu", i + 2);
        take_source(&v, "train", number, data->more.items[i]);
    }
    take_source(&v, "labels", "", data->labels);
    take_source(&v, "validation", "", data->validation);
    take_source(&v, "validation_labels", "", data->validation_labels);
    take_pieces(&v, "inputs", &data->input_pieces);
    take_pieces(&v, "labels", &data->label_pieces);
    take_pieces(&v, "validation_inputs", &data->validation_input_pieces);
    take_pieces(&v, "validation_labels", &data->validation_label_pieces);
    for (size_t i = 0; i < experiment->train.layer_loss_count; i++) {
        const td__layer_loss *loss = &experiment->train.layer_losses[i];
        take_source(&v, "target", loss->layer, loss->target);
    }
    return v.status;
}

/* ---- Fingerprints ---------------------------------------------------------------------------- */

static bool hash_pieces(int file, int64_t size, uint64_t *hash) {
    uint8_t *piece = td__calloc(1, PIECE);
    int64_t pieces = (size + PIECE - 1) / PIECE, shown = pieces < PIECES ? pieces : PIECES;
    bool good = piece != NULL;
    for (int64_t i = 0; good && i < shown; i++) {
        int64_t at = (shown > 1 ? i * (pieces - 1) / (shown - 1) : 0) * PIECE;
        size_t bytes = (size_t)(size - at < PIECE ? size - at : PIECE);
        good = td__read_all(file, piece, bytes, (off_t)at);
        *hash = td__xxh64(piece, bytes, *hash);
    }
    td__free(piece);
    return good;
}

typedef struct folder_sum {
    int64_t files, bytes;
    uint64_t hash; /* a sum over files: no order */
} folder_sum;

static void add_folder(int folder, int depth, uint64_t seed, folder_sum *sum) {
    DIR *listing = fdopendir(folder);
    if (!listing) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat about;
        if (entry->d_name[0] == '.' || fstatat(folder, entry->d_name, &about, 0) != 0) {
            continue;
        }
        uint64_t hash = td__xxh64(entry->d_name, strlen(entry->d_name), seed);
        if (S_ISDIR(about.st_mode) && depth < MAX_DEPTH) {
            int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (inner >= 0) {
                add_folder(inner, depth + 1, hash, sum);
            }
        } else if (S_ISREG(about.st_mode)) {
            int64_t size = about.st_size;
            sum->files++;
            sum->bytes += size;
            sum->hash += td__xxh64(&size, sizeof size, hash);
        }
    }
    closedir(listing);
}

static td_status describe_open(const char *path, int file, char out[TD__SOURCE_TEXT],
                               td_error *error) {
    struct stat about;
    uint64_t hash = 0;
    if (fstat(file, &about) != 0) {
        td__file_error(error, path, "read");
        return TD_IO;
    }
    if (S_ISDIR(about.st_mode)) {
        folder_sum sum = {0};
        int listed = fcntl(file, F_DUPFD_CLOEXEC, 0); /* add_folder closes it */
        if (listed >= 0) {
            add_folder(listed, 0, 0, &sum);
        }
        (void)snprintf(out, TD__SOURCE_TEXT,
                       "%lld files, %lld bytes, names and sizes xxh64 %016llx",
                       (long long)sum.files, (long long)sum.bytes, (unsigned long long)sum.hash);
        return TD_OK;
    }
    if (!S_ISREG(about.st_mode) || !hash_pieces(file, about.st_size, &hash)) {
        td__file_error(error, path, "read");
        return TD_IO;
    }
    (void)snprintf(out, TD__SOURCE_TEXT, "%lld bytes, xxh64 %016llx", (long long)about.st_size,
                   (unsigned long long)hash);
    return TD_OK;
}

td_status td__source_describe(const char *path, int opened, char out[TD__SOURCE_TEXT],
                              td_error *error) {
    size_t archive = td__archive_length(path); /* a member's file is its archive */
    char *own = opened < 0 ? td__strdup(path) : NULL;
    if (own && archive) {
        own[archive] = 0;
    }
    int file = own ? open(own, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : opened;
    td__free(own);
    if (file < 0) {
        td_status status = errno == ENOENT ? TD_NOT_FOUND : TD_IO;
        td__file_error(error, path, "open");
        return status;
    }
    td_status status = describe_open(path, file, out, error);
    if (file != opened) {
        close(file);
    }
    return status;
}
