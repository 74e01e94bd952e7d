/* Layout of a cache file: a header of 64-bit numbers, padded to TD__ROW_STORE_HEADER bytes; inputs and
 * labels as float32; the key and the lists of texts, each text ending in a NUL.
 *
 * The header is written last, after the data has reached the disk, and the file gets its name after
 * that: a file with a valid header is complete. */
#include "data/cache.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x0003565343445400u /* bytes 0 "TDCSV" 3 0; read back wrong on other byte orders */

/* The lists of texts that a table has. */
static const size_t lists[] = {
    offsetof(td__table, classes),
    offsetof(td__table, input_names),
    offsetof(td__table, label_names),
    offsetof(td__table, remarks),
    offsetof(td__table, date_facts),
#define WORDS(i) offsetof(td__table, words) + (i) * sizeof(td__names)
    WORDS(0),
    WORDS(1),
    WORDS(2),
    WORDS(3),
    WORDS(4),
    WORDS(5),
    WORDS(6),
    WORDS(7),
#undef WORDS
};
static_assert(TD__TEXTS_MAXIMUM == 8, "all vocabularies are listed");
enum { LISTS = sizeof lists / sizeof *lists };

typedef struct td__cache_header {
    uint64_t magic;
    int64_t source_size, source_seconds, source_nanoseconds;
    int64_t rows, inputs,
        labels; /* inputs, labels: in a row; a weight and a group are labels here */
    int64_t text_size, counts[LISTS]; /* of the texts in each list */
    int64_t has_header, separator, weighted, grouped;
    uint64_t check; /* hash of the fields above and of the text */
} header;

static uint64_t check_of(const header *h, const char *text) {
    unsigned char fields[offsetof(header, check)];
    memcpy(fields, h, sizeof fields);
    return td__hash_bytes(td__hash_bytes(TD__HASH_START, fields, sizeof fields), text,
                          (size_t)h->text_size);
}

/* A growing text. */
typedef struct growing {
    char *data;
    size_t length, capacity;
} growing;

static bool append(growing *t, const char *data, size_t length) {
    if (!td__grow(&t->data, &t->capacity, t->length + length + 1, 1 << 30, 1)) {
        return false;
    }
    memcpy(t->data + t->length, data, length);
    t->length += length;
    t->data[t->length] = 0;
    return true;
}

static bool append_names(growing *t, const char *what, const td_names *names) {
    bool done = append(t, what, strlen(what));
    for (size_t i = 0; done && i < names->count; i++) {
        done = append(t, "\n ", 2) && append(t, names->items[i], strlen(names->items[i]));
    }
    return done;
}

/* How texts become ids. A vocabulary that is given is long: its hash stands for it. */
static bool append_texts(growing *t, const td__request *request) {
    const td_texts *texts = &request->options->text;
    bool done = true;
    for (size_t i = 0; done && i < texts->count; i++) {
        const td_text *text = &texts->items[i];
        uint64_t hash = TD__HASH_START;
        size_t count = request->first ? request->first->words[i].count : text->words.count;
        for (size_t k = 0; k < count; k++) {
            const char *word =
                request->first ? request->first->words[i].items[k] : text->words.items[k];
            hash = td__hash_bytes(hash, word, strlen(word) + 1);
        }
        char how[200];
        snprintf(how, sizeof how, "\n %d %d %d %lld %lld %lld %zu %016llx", (int)text->tokens,
                 (int)text->lower, (int)text->punctuation, (long long)text->length,
                 (long long)text->vocabulary, (long long)text->min_count, count,
                 (unsigned long long)hash);
        done =
            append_names(t, "\ntext", &(td_names){&text->column, 1}) && append(t, how, strlen(how));
    }
    return done;
}

static bool append_dates(growing *t, const td__request *request) {
    const td_dates *dates = &request->options->dates;
    td_date known[TD__DATES_MAXIMUM] = {{0}};
    bool done = true;
    for (size_t i = 0; i < dates->count; i++) {
        known[i] = dates->items[i];
    }
    if (request->first) {
        td__table_dates(request->first, known);
    }
    for (size_t i = 0; done && i < dates->count; i++) {
        char how[80];
        snprintf(how, sizeof how, "\n %d %d %lld", (int)known[i].order, (int)known[i].has_since,
                 (long long)known[i].since);
        done = append_names(t, "\ndate", &(td_names){&known[i].column, 1}) &&
               append_names(t, "\n parts", &known[i].parts) && append(t, how, strlen(how));
    }
    return done;
}

static char *key_of(const td__request *request) {
    const td_data_options *options = request->options;
    char *absolute = realpath(request->path, NULL);
    const char *path = absolute ? absolute : request->path;
    char modes[120];
    snprintf(modes, sizeof modes, "\nheader %d separator %d missing %d kind %d%s%s",
             (int)options->header, options->separator, (int)options->missing,
             (int)options->label_kind, request->chosen ? " chosen" : "",
             request->text_labels ? " text labels" : "");
    td_names weight = {&options->weight, options->weight != NULL};
    td_names groups = {&options->groups, options->groups != NULL};
    growing key = {0};
    bool done =
        append(&key, path, strlen(path)) && append(&key, modes, strlen(modes)) &&
        append_names(&key, "\nlabel", &options->label) &&
        append_names(&key, "\nignore", &options->ignore) &&
        append_names(&key, "\nweight", &weight) && append_names(&key, "\ngroups", &groups) &&
        append_names(&key, "\ncategories", &options->categories) && append_texts(&key, request) &&
        append_dates(&key, request) && append_names(&key, "\nmore", &request->more) &&
        append_names(&key, "\ninputs", &request->inputs) &&
        append_names(&key, "\nlabel names", &request->label_names);
    free(absolute);
    if (!done) {
        td__free(key.data);
        return NULL;
    }
    return key.data;
}

static char *join_texts(const char *a, const char *b) {
    growing joined = {0};
    if (!append(&joined, a, strlen(a)) || !append(&joined, b, strlen(b))) {
        td__free(joined.data);
        return NULL;
    }
    return joined.data;
}

/* False when memory is exhausted. */
static bool choose_folder(const char *wanted, char **folder) {
    static const struct {
        const char *variable, *below;
    } places[] = {
        {"TAPEDECK_CACHE", ""}, {"XDG_CACHE_HOME", "/tapedeck"}, {"HOME", "/.cache/tapedeck"}};
    if (wanted) {
        *folder = td__strdup(wanted);
        return *folder != NULL;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (value && *value) {
            *folder = join_texts(value, places[i].below);
            return *folder != NULL;
        }
    }
    return true;
}

int td__cache_temporary(const char *wanted, td_error *error) {
    char *folder = NULL, *path = NULL;
    if (!choose_folder(wanted, &folder)) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return -1;
    }
    if (!folder) {
        td_error_set(error, TD_NOT_FOUND, "no folder for large data: set TAPEDECK_CACHE");
        return -1;
    }
    int file = td__row_store_file(folder, &path);
    if (file < 0) {
        td_error_set(error, TD_IO,
                     "cannot write to the cache folder %s: %s; TAPEDECK_CACHE names another one",
                     folder, strerror(errno));
    } else {
        unlink(path);
    }
    td__free(path);
    td__free(folder);
    return file;
}

td_status td__cache_init(td__cache *cache, const td__request *request, const struct stat *source,
                         td_error *error) {
    td__cache made = {.source_size = source->st_size,
                      .source_seconds = source->st_mtim.tv_sec,
                      .source_nanoseconds = source->st_mtim.tv_nsec,
                      .weighted = request->options->weight != NULL,
                      .grouped = request->options->groups != NULL,
                      .key = key_of(request)};
    bool done = made.key && choose_folder(request->options->cache, &made.folder);
    if (done && made.folder) {
        char name[32];
        snprintf(name, sizeof name, "/%016llx.csv-cache",
                 (unsigned long long)td__hash_text(made.key));
        made.path = join_texts(made.folder, name);
        done = made.path != NULL;
    }
    if (!done) {
        td__cache_release(&made);
        return td_error_set(error, TD_MEMORY, "%s: no memory", request->path);
    }
    *cache = made;
    return TD_OK;
}

/* Sizes that add up to just this file, checked without overflow. */
static bool sizes_fit(const header *h, size_t size) {
    int64_t width, values, bytes, total;
    return h->rows > 0 && h->inputs > 0 && h->labels >= 0 && h->text_size > 0 &&
           !__builtin_add_overflow(h->inputs, h->labels, &width) &&
           td__multiply(h->rows, width, &values) &&
           td__multiply(values, (int64_t)sizeof(float), &bytes) &&
           !__builtin_add_overflow(bytes, h->text_size, &total) &&
           !__builtin_add_overflow(total, (int64_t)TD__ROW_STORE_HEADER, &total) &&
           (uint64_t)total == size;
}

/* The lists behind the key; false unless they have just as many texts as the header says. */
static bool read_lists(td__table *table, const header *h, const char *text, const char *end) {
    for (int k = 0; k < LISTS; k++) {
        td__names *names = (td__names *)((char *)table + lists[k]);
        for (int64_t i = 0; i < h->counts[k]; i++) {
            const char *nul = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
            names->maximum = (size_t)h->counts[k]; /* a word is in the file: there are no more */
            if (!nul || td__names_add(names, text) != i) {
                return false;
            }
            text = nul + 1;
        }
    }
    return text == end;
}

/* texts receives where the lists behind the key begin. */
static bool is_usable(const td__cache *cache, const td__bytes *bytes, header *h,
                      const char **texts) {
    if (bytes->size < TD__ROW_STORE_HEADER) {
        return false;
    }
    memcpy(h, bytes->data, sizeof *h);
    if (h->magic != MAGIC || h->source_size != cache->source_size ||
        h->source_seconds != cache->source_seconds ||
        h->source_nanoseconds != cache->source_nanoseconds || !sizes_fit(h, bytes->size)) {
        return false;
    }
    const char *text = (const char *)bytes->data + bytes->size - h->text_size;
    size_t key_size = strlen(cache->key) + 1;
    *texts = text + key_size;
    return h->check == check_of(h, text) && (size_t)h->text_size >= key_size &&
           memcmp(text, cache->key, key_size) == 0;
}

bool td__cache_load(const td__cache *cache, td__table *table) {
    td__bytes bytes = {0};
    header h;
    const char *text = NULL;
    if (!cache->path || td__bytes_map(&bytes, cache->path, NULL)) {
        return false;
    }
    td__table loaded = {.bytes = {bytes}};
    if (!is_usable(cache, &bytes, &h, &text) ||
        !read_lists(&loaded, &h, text, (const char *)bytes.data + bytes.size)) {
        td__table_release(&loaded);
        return false;
    }
    *table = loaded;
    const uint8_t *data = bytes.data + TD__ROW_STORE_HEADER;
    table->rows = h.rows;
    table->label_untyped = true;
    table->is_csv = true;
    table->has_header = h.has_header != 0;
    table->separator = (char)h.separator;
    table->input = td__array_plain(data, TD__F32, TD_SHAPE(h.inputs), h.inputs);
    data += h.rows * h.inputs * (int64_t)sizeof(float);
    bool weighted = h.weighted != 0 && h.labels > 0;
    bool grouped = h.grouped != 0 && h.labels > weighted;
    td__table_set_labels(table, data, h.labels - weighted - grouped, weighted, grouped);
    return true;
}

static const td__names *list_of(const td__table *table, int k) {
    return (const td__names *)((const char *)table + lists[k]);
}

static bool append_text(growing *t, const td__cache *cache, const td__table *table) {
    bool done = append(t, cache->key, strlen(cache->key) + 1);
    for (int k = 0; k < LISTS; k++) {
        const td__names *names = list_of(table, k);
        for (size_t i = 0; done && i < names->count; i++) {
            done = append(t, names->items[i], strlen(names->items[i]) + 1);
        }
    }
    return done;
}

td_status td__cache_compose(td__seal *seal, const td__cache *cache, const td__row_store *store,
                            const td__table *table, td_error *error) {
    growing t = {0};
    header *h = td__calloc(1, sizeof *h);
    if (!h || !append_text(&t, cache, table)) {
        td__free(t.data);
        td__free(h);
        return td_error_set(error, TD_MEMORY, "no memory to write the cache of a CSV file");
    }
    *h = (header){.magic = MAGIC,
                  .source_size = cache->source_size,
                  .source_seconds = cache->source_seconds,
                  .source_nanoseconds = cache->source_nanoseconds,
                  .rows = table->rows,
                  .inputs = store->inputs.total / table->rows,
                  .labels = store->labels.total / table->rows,
                  .text_size = (int64_t)t.length,
                  .has_header = table->has_header,
                  .separator = table->separator,
                  .weighted = cache->weighted,
                  .grouped = cache->grouped};
    for (int k = 0; k < LISTS; k++) {
        h->counts[k] = (int64_t)list_of(table, k)->count;
    }
    h->check = check_of(h, t.data);
    *seal = (td__seal){.header = h, .text = t.data, .text_size = t.length};
    return TD_OK;
}

void td__seal_release(td__seal *seal) {
    td__free(seal->header);
    td__free(seal->text);
    *seal = (td__seal){0};
}

td_status td__cache_publish(const td__cache *cache, td__row_store *store, const td__seal *seal,
                            td_error *error) {
    int64_t end =
        TD__ROW_STORE_HEADER + (store->inputs.total + store->labels.total) * (int64_t)sizeof(float);
    int file = store->inputs.file;
    bool done = td__write_all(file, seal->text, seal->text_size, end) && fdatasync(file) == 0 &&
                td__write_all(file, seal->header, sizeof(header), 0) &&
                rename(store->path, cache->path) == 0;
    if (!done) {
        return td_error_set(error, TD_IO, "cannot write the cache file %s: %s", cache->path,
                            strerror(errno));
    }
    td__free(store->path);
    store->path = NULL;
    return TD_OK;
}

void td__cache_release(td__cache *cache) {
    td__free(cache->folder);
    td__free(cache->path);
    td__free(cache->key);
    *cache = (td__cache){0};
}
