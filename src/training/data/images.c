/* A folder of images: each sub-folder is a class, in alphabetical order, and each PNG, JPEG, BMP, WebP or TIFF file
 * in it an example; without sub-folders, its own images are examples without labels. All images
 * have one size, or are scaled to one. They are kept as bytes, in memory or in a file of the cache folder
 * when they are many, and become floats a batch at a time. Large folders are decoded while they are
 * in use already. */
#include "base/memory.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/csv.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/table.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAXIMUM = 1 << 26 };

/* Pixels beyond this are kept in a file: 64 MiB. */
#define MEMORY ((size_t)64 << 20)
/* Folders from this size on, EACH added for every file, take long enough to be worth a thread. */
#define LARGE ((int64_t)16 << 20)
#define EACH 4096

/* Paths, in alphabetical order. */
typedef struct list {
    char **items;
    size_t count, capacity;
    int64_t *others; /* counts images that cannot be read, by their endings; NULL: does not */
} list;

static void release_list(list *l) {
    for (size_t i = 0; i < l->count; i++) {
        td__free(l->items[i]);
    }
    td__free(l->items);
    *l = (list){0};
}

static const char *const endings[] = {".png", ".jpg",  ".jpeg", ".jpe", ".jfif",
                                      ".bmp", ".webp", ".tif",  ".tiff"};
/* Of images that cannot be read. */
static const char *const other_endings[] = {".gif", ".avif", ".heic", ".ppm", ".pgm"};
enum {
    ENDINGS = sizeof endings / sizeof *endings,
    OTHERS = sizeof other_endings / sizeof *other_endings
};

/* Which of the endings a path has; -1 for none. */
static int find_ending(const char *path, const char *const *known, int count) {
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < count; i++) {
        if (strcasecmp(dot, known[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_image(const char *path) {
    return find_ending(path, endings, ENDINGS) >= 0;
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool add_path(list *l, const char *folder, const char *name, bool (*wanted)(const char *)) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = td__calloc(size, 1);
    if (!path) {
        return false;
    }
    snprintf(path, size, "%s/%s", folder, name);
    if (!wanted(path)) {
        int other = l->others ? find_ending(path, other_endings, OTHERS) : -1;
        if (other >= 0) {
            l->others[other]++;
        }
        td__free(path);
        return true;
    }
    if (!td__grow(&l->items, &l->capacity, l->count + 1, FILES_MAXIMUM, sizeof *l->items)) {
        td__free(path);
        return false;
    }
    l->items[l->count++] = path;
    return true;
}

static td_status list_folder(list *l, const char *folder, bool (*wanted)(const char *),
                             td_error *error) {
    DIR *entries = opendir(folder);
    if (!entries) {
        return td_error_set(error, TD_IO, "%s: %s", folder, strerror(errno));
    }
    size_t first = l->count;
    bool room = true;
    for (struct dirent *entry; room && (entry = readdir(entries));) {
        if (entry->d_name[0] != '.') {
            room = add_path(l, folder, entry->d_name, wanted);
        }
    }
    closedir(entries);
    if (!room) {
        return td_error_set(error, TD_MEMORY, "%s: no memory, or more than %d files", folder,
                            FILES_MAXIMUM);
    }
    if (l->count > first) {
        qsort(l->items + first, l->count - first, sizeof *l->items, td__compare_texts);
    }
    return TD_OK;
}

/* All images of all classes; numbers[i] is the class of image i. */
typedef struct folder {
    list classes, images;
    int32_t *numbers;
    size_t number_capacity;
    int64_t others[OTHERS]; /* images left out, by their endings */
} folder;

/* "3 .webp, 1 .gif"; false when there are none. */
static bool list_others(const int64_t others[OTHERS], char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < OTHERS; i++) {
        if (others[i] && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%lld %s", used ? ", " : "",
                                     (long long)others[i], other_endings[i]);
        }
    }
    return used > 0;
}

/* Why a folder has no images that can be read. */
static td_status no_images(const char *path, const char *else_text, td_error *error) {
    char text[200];
    int64_t others[OTHERS] = {0};
    list none = {.others = others};
    td_status status = list_folder(&none, path, is_image, error);
    release_list(&none);
    return status ? status
           : list_others(others, text, sizeof text)
               ? td_error_set(error, TD_UNSUPPORTED,
                              "%s: no PNG, JPEG, BMP, WebP or TIFF images in it; what is there "
                              "(%s) cannot be read: "
                              "convert it to PNG",
                              path, text)
               : td_error_set(error, TD_NOT_FOUND, "%s: %s", path, else_text);
}

static td_status remark(td__table *table, const char *text, td_error *error) {
    return td__names_add(&table->remarks, text) < 0
               ? td_error_set(error, TD_MEMORY, "no memory for a remark")
               : TD_OK;
}

static td_status report_other_files(const folder *f, td__table *table, const char *path,
                                    td_error *error) {
    char others[200], text[600];
    if (!list_others(f->others, others, sizeof others)) {
        return TD_OK;
    }
    snprintf(text, sizeof text,
             "%.300s: only PNG, JPEG, BMP, WebP and TIFF images are read; left out: %s (convert "
             "them to PNG)",
             path, others);
    return remark(table, text, error);
}

static td_status list_classes(folder *f, td__table *table, const char *path, td_error *error) {
    f->images.others = f->others;
    td_status status = list_folder(&f->classes, path, is_folder, error);
    if (!status && f->classes.count == 0) {
        status = list_folder(&f->images, path, is_image, error);
        return status || f->images.count
                   ? status
                   : no_images(path,
                               "neither images nor sub-folders; a folder of images has one for "
                               "each class",
                               error);
    }
    for (size_t i = 0; !status && i < f->classes.count; i++) {
        const char *class = f->classes.items[i];
        size_t before = f->images.count;
        status = list_folder(&f->images, class, is_image, error);
        if (!status && f->images.count == before) {
            status = no_images(class, "no PNG, JPEG, BMP, WebP or TIFF images in it", error);
        }
        char name[4 * TD__NAME_LENGTH_MAXIMUM + 1];
        (void)td__name_clean(name, sizeof name, strrchr(class, '/') + 1);
        if (!status && (td__names_add(&table->classes, name) != (int64_t)i ||
                        !td__grow(&f->numbers, &f->number_capacity, f->images.count, FILES_MAXIMUM,
                                  sizeof *f->numbers))) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory, or more than %d classes", path,
                                  TD__NAMES_MAXIMUM);
        }
        for (size_t j = before; !status && j < f->images.count; j++) {
            f->numbers[j] = (int32_t)i;
        }
    }
    return status;
}

static td_status read_image_size(const char *path, td__image_size *size, td_error *error) {
    td__bytes bytes = {0};
    td_status status = td__bytes_map(&bytes, path, error);
    status = status ? status : td__image_describe(&bytes, path, size, error);
    td__bytes_release(&bytes);
    return status;
}

/* Transparency that is left out is reported: how many images have it, of all of them or, in a large
 * folder, of LOOKED_AT. One that has it where none of these did is an error when it is decoded. */
static td_status report_alpha(const folder *f, td__table *table, td__image_size *size,
                              td_error *error) {
    enum { LOOKED_AT = 256 };
    size_t all = f->images.count, some = all < LOOKED_AT ? all : LOOKED_AT, found = 0;
    const char *first = NULL;
    for (size_t i = 0; i < some; i++) {
        td__image_size one = {0};
        const char *path = f->images.items[i * all / some];
        if (!read_image_size(path, &one, NULL) && one.alpha) {
            first = found++ ? first : path;
        }
    }
    size->alpha = found > 0;
    if (!found) {
        return TD_OK;
    }
    char text[600];
    snprintf(text, sizeof text,
             "%.300s has transparency (%zu of %zu images), which is left out; `input: [%lld, %lld, "
             "%lld]` keeps it as the last channel",
             first, found, some, (long long)size->height, (long long)size->width,
             (long long)size->channels + 1);
    return remark(table, text, error);
}

/* The size that all images must have or get: what the options ask for in channels, else the first's
 * without transparency. */
static td_status choose_size(const folder *f, td__table *table, const td_data_options *options,
                             td__image_size *size, td_error *error) {
    td_status status = read_image_size(f->images.items[0], size, error);
    if (options->resize.height) {
        size->height = options->resize.height;
        size->width = options->resize.width;
    }
    if (status || options->input.rank != 3) {
        return status ? status : report_alpha(f, table, size, error);
    }
    int64_t channels = options->input.dims[2];
    if (channels < 1 || channels > 4) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "`input` asks for images of %lld channels; there are 1 (grey), 2 (grey "
                            "and transparency), 3 (colour) and 4 (colour and transparency)",
                            (long long)channels);
    }
    size->channels = channels;
    return TD_OK;
}

/* An image is decoded, and scaled, in memory, wherever it is kept afterwards. */
static td_status check_room(const td__bytes *bytes, const char *path, const td__image_size *size,
                            const td_resize *resize, int64_t memory, td_error *error) {
    int64_t needed = size->height * size->width * size->channels + td__image_room(bytes, size);
    if (resize->height) {
        needed += resize->height * resize->width * size->channels + td__resize_room(resize, size);
    }
    return needed <= memory
               ? TD_OK
               : td_error_set(error, TD_RANGE,
                              "%s: decoding its %lld x %lld pixels takes %lld MiB, and `memory` "
                              "allows %lld MiB",
                              path, (long long)size->width, (long long)size->height,
                              (long long)(needed >> 20), (long long)(memory >> 20));
}

/* How images are decoded, one a block, when the list of them is the table's. */
typedef struct decoder {
    char *folder;
    char *list;         /* the CSV file that names them; NULL: they are in the folder */
    bool has_header;    /* of the list */
    char separator;     /* the same */
    char *const *files; /* borrowed from the table: below folder */
    size_t longest;     /* bytes of a path, folder and file */
    td__image_size size;
    bool channels_chosen;
    td_resize resize;
    int64_t memory;
    int file; /* where they go; -1: memory */
} decoder;

static td_status check_size(const decoder *d, const char *path, const td__image_size *found,
                            td_error *error) {
    const td__image_size *size = &d->size;
    if (!d->resize.height && (found->height != size->height || found->width != size->width)) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%s has %lld x %lld pixels, but %s/%s has %lld x %lld; all images must "
                            "have one size, or `resize: [HEIGHT, WIDTH]` scales them to one",
                            path, (long long)found->width, (long long)found->height, d->folder,
                            d->files[0], (long long)size->width, (long long)size->height);
    }
    if (!d->channels_chosen && found->channels != size->channels) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%s is %s, but %s/%s is %s; `input: [%lld, %lld, 1]` makes all of them "
                            "grey, 3 colour",
                            path, found->channels == 1 ? "grey" : "in colour", d->folder,
                            d->files[0], size->channels == 1 ? "grey" : "in colour",
                            (long long)size->height, (long long)size->width);
    }
    if (!d->channels_chosen && found->alpha && !size->alpha) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%s has transparency, and the images looked at first have none; "
                            "`input: [%lld, %lld, %lld]` leaves it out, %lld channels keep it",
                            path, (long long)size->height, (long long)size->width,
                            (long long)size->channels, (long long)size->channels + 1);
    }
    return TD_OK;
}

/* The image as it is kept; found is the size it has. */
static td_status unpack(const decoder *d, const char *path, const td__bytes *bytes,
                        td__image_size found, uint8_t *pixels, td_error *error) {
    found.channels = d->size.channels;
    td_status status = check_room(bytes, path, &found, &d->resize, d->memory, error);
    if (status || !d->resize.height) {
        return status ? status : td__image_decode(bytes, path, &found, pixels, error);
    }
    uint8_t *whole = td__calloc((size_t)(found.height * found.width), (size_t)found.channels);
    status = whole ? td__image_decode(bytes, path, &found, whole, error)
                   : td_error_set(error, TD_MEMORY, "%s: no memory", path);
    status = status ? status : td__resize(&d->resize, &found, whole, pixels, error);
    td__free(whole);
    return status;
}

/* Which line of a list names the image that cannot be read. */
static td_status say_line(const decoder *d, int64_t image, td_status status, td_error *error) {
    if (!d->list || !error) {
        return status;
    }
    td_error reason = *error;
    int64_t line = td__csv_line(d->list, d->has_header, d->separator, image);
    return td_error_set(error, status, "%s line %lld (row %lld): %s", d->list, (long long)line,
                        (long long)image + 1, reason.text);
}

/* A path that a file has, which may be absolute. */
static void join_path(char *path, size_t size, const char *below, const char *file) {
    bool absolute = *file == '/' || !*below;
    (void)snprintf(path, size, "%s%s%s", absolute ? "" : below, absolute ? "" : "/", file);
}

static td_status decode(void *user, int maker, int64_t image, uint8_t *pixels, td_error *error) {
    (void)maker;
    const decoder *d = user;
    td__bytes bytes = {0};
    td__image_size found = {0};
    char *path = td__calloc(d->longest, 1);
    if (!path) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", d->folder);
    }
    join_path(path, d->longest, d->folder, d->files[image]);
    td_status status = td__bytes_map(&bytes, path, error);
    status = status ? status : td__image_describe(&bytes, path, &found, error);
    status = status ? status : check_size(d, path, &found, error);
    status = status ? status : unpack(d, path, &bytes, found, pixels, error);
    td__bytes_release(&bytes);
    td__free(path);
    return status ? say_line(d, image, status, error) : TD_OK;
}

static void release_decoder(void *user) {
    decoder *d = user;
    if (d->file >= 0) {
        close(d->file);
    }
    td__free(d->folder);
    td__free(d->list);
    td__free(d);
}

static const td__supply_class decoding = {.make = decode, .release = release_decoder};

/* The folder that a file is in; "" for the working one. NULL when memory is exhausted. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *found = td__strdup(slash == path ? "/" : path);
    if (found && slash != path) {
        found[slash ? slash - path : 0] = 0;
    }
    return found;
}

static td_status make_decoder(decoder **made, const td__table *table, const td__image_size *size,
                              const td__request *request, td_error *error) {
    decoder *d = td__calloc(1, sizeof *d);
    bool listed = table->is_csv;
    char *copy = listed ? folder_of(request->path) : td__strdup(request->path);
    char *names = listed ? td__strdup(request->path) : NULL;
    if (!d || !copy || (listed && !names)) {
        td__free(d);
        td__free(copy);
        td__free(names);
        return td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
    }
    *d = (decoder){.folder = copy,
                   .list = names,
                   .has_header = table->has_header,
                   .separator = table->separator,
                   .files = table->files,
                   .size = *size,
                   .channels_chosen = request->options->input.rank == 3,
                   .resize = request->options->resize,
                   .memory = request->options->memory,
                   .file = -1};
    for (int64_t i = 0; i < table->rows; i++) {
        size_t length = strlen(copy) + strlen(d->files[i]) + 2;
        d->longest = length > d->longest ? length : d->longest;
    }
    *made = d;
    return TD_OK;
}

/* Room for `size` bytes, to be filled: memory while they are few, else a mapped file. */
static td_status make_pixel_room(td__bytes *bytes, int *file, size_t size,
                                 const td_data_options *options, td_error *error) {
    size_t few = (size_t)options->memory < MEMORY ? (size_t)options->memory : MEMORY;
    if (size <= few) {
        *bytes = (td__bytes){.data = td__realloc(NULL, size, 1), .size = size};
        return bytes->data ? TD_OK
                           : td_error_set(error, TD_MEMORY, "no memory for %zu bytes", size);
    }
    *file = td__cache_temporary(options->cache, error);
    if (*file < 0) {
        return TD_IO;
    }
    void *map = ftruncate(*file, (off_t)size) ? MAP_FAILED
                                              : mmap(NULL, size, PROT_READ, MAP_SHARED, *file, 0);
    if (map == MAP_FAILED) {
        return td_error_set(error, TD_IO, "cannot map a file of the cache folder: %s",
                            strerror(errno));
    }
    *bytes = (td__bytes){map, size, true};
    return TD_OK;
}

/* The table's images are there, or on their way. */
static td_status decode_all(td__table *table, const td__image_size *size,
                            const td__request *request, td_error *error) {
    int64_t one = size->height * size->width * size->channels, total;
    const td_data_options *options = request->options;
    decoder *d = NULL;
    if (!td__multiply(one + EACH, table->rows, &total)) {
        return td_error_set(error, TD_RANGE, "%s: %lld images of %lld bytes are too many",
                            request->path, (long long)table->rows, (long long)one);
    }
    td_status status = make_decoder(&d, table, size, request, error);
    if (status) {
        return status;
    }
    status =
        make_pixel_room(&table->bytes[0], &d->file, (size_t)(one * table->rows), options, error);
    if (status) {
        release_decoder(d);
        return status;
    }
    table->is_picture = true;
    table->input = td__array_plain(table->bytes[0].data, TD__U8,
                                   TD_SHAPE(size->height, size->width, size->channels), one);
    table->supply = td__supply_create(
        &(td__supply_options){
            .class = &decoding,
            .user = d,
            .rows = table->rows,
            .rows_in_block = 1,
            .row_size = (size_t)one,
            .memory = table->bytes[0].mapped ? NULL : (uint8_t *)(uintptr_t)table->bytes[0].data,
            .file = d->file},
        error);
    if (!table->supply) {
        return TD_MEMORY;
    }
    if (options->while_reading && total >= (options->memory < LARGE ? options->memory : LARGE)) {
        return td__supply_start(table->supply, error);
    }
    status = td__supply_make_all(table->supply, error);
    td__supply_destroy(table->supply);
    table->supply = NULL;
    return status;
}

/* The list becomes the table's, without the folder before each name. */
static void take_names(td__table *table, list *images, const char *path) {
    size_t before = strlen(path) + 1;
    for (size_t i = 0; i < images->count; i++) {
        memmove(images->items[i], images->items[i] + before, strlen(images->items[i] + before) + 1);
    }
    table->files = images->items;
    table->rows = (int64_t)images->count;
    *images = (list){0};
}

td_status td__images_read(td__table *table, const td__request *request, td_error *error) {
    folder f = {0};
    td_status status = TD_OK;
    bool listed = request->options->images; /* elsewhere labels are columns */
    if (request->labels || (request->options->label.count > 0 && !listed)) {
        return td_error_set(error, TD_INVALID,
                            "%s: the labels of a folder of images are its sub-folders; leave out "
                            "`label` and `labels`",
                            request->path);
    }
    td__image_size size = {0};
    status = list_classes(&f, table, request->path, error);
    status = status ? status : report_other_files(&f, table, request->path, error);
    status = status ? status : choose_size(&f, table, request->options, &size, error);
    status = status ? status
                    : check_room(&(td__bytes){0}, f.images.items[0], &size, &(td_resize){0},
                                 request->options->memory, error);
    if (!status && f.classes.count) {
        table->bytes[1] =
            (td__bytes){(const uint8_t *)f.numbers, f.images.count * sizeof *f.numbers, false};
        table->label = td__array_plain(f.numbers, TD__I32, TD_SHAPE(1), 1);
        f.numbers = NULL;
    }
    if (!status) {
        take_names(table, &f.images, request->path);
        status = decode_all(table, &size, request, error);
    }
    release_list(&f.classes);
    release_list(&f.images);
    td__free(f.numbers);
    return status;
}

td_status td__images_take(td__table *table, const td__request *request, char **paths, size_t count,
                          td_error *error) {
    folder f = {.images = {.items = td__calloc(count, sizeof(char *))}};
    char *below = folder_of(request->path);
    td_status status = below && f.images.items
                           ? TD_OK
                           : td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
    table->files = paths;
    for (size_t i = 0; !status && i < count; i++) {
        size_t size = strlen(below) + strlen(paths[i]) + 2;
        struct stat found;
        char *path = f.images.items[f.images.count] = td__calloc(size, 1);
        if (!path) {
            status = td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
            break;
        }
        f.images.count++;
        join_path(path, size, below, paths[i]);
        errno = 0;
        if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) {
            bool gone = errno == ENOENT;
            int64_t line =
                td__csv_line(request->path, table->has_header, table->separator, (int64_t)i);
            status = td_error_set(
                error, TD_NOT_FOUND, "%s line %lld (row %zu), column '%.60s': %.300s: %s",
                request->path, (long long)line, i + 1, request->options->images, path,
                gone ? "there is no such file; paths are relative to the CSV file"
                     : "it cannot be read as a file");
        }
    }
    td__image_size size = {0};
    status = status ? status : choose_size(&f, table, request->options, &size, error);
    status = status ? status
                    : check_room(&(td__bytes){0}, f.images.items[0], &size, &(td_resize){0},
                                 request->options->memory, error);
    status = status ? status : decode_all(table, &size, request, error);
    release_list(&f.images);
    td__free(below);
    return status;
}
