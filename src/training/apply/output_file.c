/* Which files may be replaced without being asked for it: those that this library has written, as far
 * as their content shows. */
#include "tapedeck/apply.h"
#include "zip/zip.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { BEGINNING = 4096 };

/* ---- Folders --------------------------------------------------------------------------------- */

/* Whether all there is in a folder, which may be nothing, has a name of this kind. */
static bool holds_only(const char *path, bool (*is)(const char *name)) {
    DIR *folder = opendir(path);
    bool all = folder != NULL;
    for (const struct dirent *entry; all && (entry = readdir(folder));) {
        all = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || is(entry->d_name);
    }
    if (folder) {
        closedir(folder);
    }
    return all;
}

static bool is_nothing(const char *name) {
    (void)name;
    return false;
}

/* 000000.png, or LAYER.PARAMETER.npy */
static bool is_output(const char *name) {
    const char *dot = strrchr(name, '.');
    size_t digits = strspn(name, "0123456789");
    return dot && ((!strcmp(dot, ".png") && name + digits == dot) ||
                   (!strcmp(dot, ".npy") && strchr(name, '.') < dot));
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static bool ends_in_number(const char *cell, size_t length) {
    size_t digits = 0;
    while (digits < length && isdigit((unsigned char)cell[length - 1 - digits])) {
        digits++;
    }
    return digits && digits < length && cell[length - 1 - digits] == '_';
}

static bool ends_in_word(const char *cell, size_t length, const char *word) {
    size_t size = strlen(word);
    return length >= size && !memcmp(cell + length - size, word, size) &&
           (length == size || cell[length - size - 1] == '_');
}

/* A column of predictions: label, class_0, class_NAME, value_0, file, predicted, OUTPUT_label, OUTPUT_0, … */
static bool is_column(const char *cell, size_t length) {
    return ends_in_number(cell, length) || ends_in_word(cell, length, "label") ||
           ends_in_word(cell, length, "predicted") || (length == 4 && !memcmp(cell, "file", 4)) ||
           (length > 6 && !memcmp(cell, "class_", 6)) ||
           (length > 7 && !memcmp(cell, "\"class_", 7));
}

static bool is_csv(const char *text, size_t size) {
    static const char *const headers[] = {"layer,parameter,index,value\n", "signal,index,value\n",
                                          "output,part,name,measure,value\n"};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        if (size >= strlen(headers[i]) && !memcmp(text, headers[i], strlen(headers[i]))) {
            return true;
        }
    }
    const char *line_end = memchr(text, '\n', size), *end = line_end ? line_end : text + size;
    bool ours = size > 0, quoted = memchr(text, '"', (size_t)(end - text)) != NULL;
    for (const char *cell = text; ours && cell < end;) {
        const char *comma = memchr(cell, ',', (size_t)(end - cell));
        bool whole = comma || line_end; /* the last cell of a long header is cut off */
        ours = !whole || is_column(cell, (size_t)((comma ? comma : end) - cell));
        cell = comma && !quoted ? comma + 1 : end; /* names of classes may hold commas */
    }
    return ours;
}

/* ---- Files by their endings ------------------------------------------------------------------ */

static bool is_npy(const char *text, size_t size) {
    return size >= 6 && !memcmp(text, "\x93NUMPY", 6);
}

static bool is_zip(const char *text, size_t size) {
    return td__is_zip(text, size);
}

static bool is_hdf5(const char *text, size_t size) {
    return size >= 8 && !memcmp(text, "\x89HDF\r\n\x1A\n", 8);
}

/* Eight bytes of length, and JSON. */
static bool is_safetensors(const char *text, size_t size) {
    return size >= 9 && text[8] == '{';
}

/* The version of its format comes first. */
static bool is_onnx(const char *text, size_t size) {
    return size >= 2 && text[0] == 8;
}

static bool is_evaluation(const char *text, size_t size) {
    static const char begins[] = "{\"kind\": \"evaluation\"";
    return size >= sizeof begins - 1 && !memcmp(text, begins, sizeof begins - 1);
}

static const struct {
    const char *ending;
    bool (*is)(const char *text, size_t size);
} kinds[] = {
    {".csv", is_csv},   {".npy", is_npy},         {".npz", is_zip},
    {".keras", is_zip}, {".h5", is_hdf5},         {".safetensors", is_safetensors},
    {".onnx", is_onnx}, {".json", is_evaluation},
};

bool td_output_is_ours(const char *path) {
    struct stat about;
    char text[BEGINNING];
    const char *dot = strrchr(path, '.');
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        return holds_only(path, is_output);
    }
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcasecmp(dot, kinds[i].ending)) {
            FILE *file = fopen(path, "rb");
            size_t got = file ? fread(text, 1, sizeof text, file) : 0;
            if (file) {
                (void)fclose(file);
            }
            return kinds[i].is(text, got);
        }
    }
    return false;
}

bool td_output_is_free(const char *path) {
    struct stat about;
    if (!strcmp(path, "-") || stat(path, &about) != 0) {
        return true;
    }
    return S_ISDIR(about.st_mode) ? holds_only(path, is_nothing)
                                  : !S_ISREG(about.st_mode) || about.st_size == 0;
}
