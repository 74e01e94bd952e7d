/* A CSV file that several processes parse together.
 *
 * Each takes a part of the bytes, of equal size, from the first line end on. That this is the beginning of a row is a guess:
 * a line end may be within quotes. So each tells where its rows began and where the last one ended, which must be where
 * those of the next process began. If not, that process parses again, from there.
 *
 * What depends on all rows is put together: how many there are, the numbers of classes, texts of categories. Rows go
 * into one cache file on each machine, or one for all where they share the folder: a process writes its rows there, and sends
 * them to the machines that do not see the file. What is wrong with a row is not reported from here, see td__csv_parse_part.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/cache.h"
#include "data/csv.h"
#include "group/group.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, NAME_SIZE = 64 }; /* CHUNK: floats that are copied or sent at a time */

/* ---- Agreeing -------------------------------------------------------------------------------- */

typedef struct verdict {
    int32_t status;
    char text[TD_ERROR_TEXT_SIZE];
} verdict;

/* The first failure of any process, which is named, in all of them. */
static td_status agree(td_group *group, td_status status, const td_error *mine, td_error *error) {
    int size = td_group_size(group), first = 0;
    verdict own = {.status = (int32_t)status};
    verdict *all = td__calloc((size_t)size, sizeof *all);
    if (!all) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (void)snprintf(own.text, sizeof own.text, "%s", status ? mine->text : "");
    td_status failed = td_group_gather(group, &own, sizeof own, all, error);
    while (!failed && first < size && !all[first].status) {
        first++;
    }
    if (!failed && first < size) {
        failed = td_error_set(error, (td_status)all[first].status, "rank %d on %s: %s", first,
                              td_group_host(group, first), all[first].text);
    }
    td__free(all);
    return failed;
}

td_status td__csv_can_share(const td_data_options *options, const td__input *input,
                            const td__cache *cache, bool wanted, bool *loaded, bool *can,
                            td_error *error) {
    struct facts {
        int64_t size;
        int32_t can, loaded;
    } own, *all;
    td_group *group = options->group;
    int count = td_group_size(group);
    memset(&own, 0, sizeof own);
    own.size = td__input_stat(input)->st_size;
    own.can = wanted && cache->folder && td__input_is_plain(input);
    own.loaded = *loaded;
    all = td__calloc((size_t)count, sizeof *all);
    td_status status = all ? td_group_gather(group, &own, sizeof own, all, error)
                           : td_error_set(error, TD_MEMORY, "out of memory");
    *can = *loaded = !status;
    for (int i = 0; !status && i < count; i++) {
        *can = *can && all[i].can;
        *loaded = *loaded && all[i].loaded;
        if (all[i].size != all[0].size) {
            status = td_error_set(error, TD_INVALID,
                                  "%s: rank %d on %s has a file of %lld bytes, rank 0 on %s one of "
                                  "%lld; all processes read the same data",
                                  td__input_title(input), i, td_group_host(group, i),
                                  (long long)all[i].size, td_group_host(group, 0),
                                  (long long)all[0].size);
        }
    }
    td__free(all);
    return status;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

/* What a process reports of its part. */
typedef struct report {
    int64_t begin, end, rows; /* end: of its last row */
    int32_t status, text_labels;
} report;

typedef struct parsing {
    td_group *group;
    int rank, size;
    td__csv like; /* before td__csv_start */
    td__csv *csv;
    td__row_store *store;
    td_error error; /* this process's */
    report own;
} parsing;

/* Behind the first line end from the byte before `from` on; the file's size when there is none. */
static td_status find_line(const td__input *input, int64_t from, int64_t *start, td_error *error) {
    int64_t size = td__input_stat(input)->st_size;
    char text[1 << 14];
    for (int64_t at = from - 1; at < size; at += (int64_t)sizeof text) {
        int64_t left = size - at;
        size_t count = left < (int64_t)sizeof text ? (size_t)left : sizeof text;
        td_status status = td__input_read_at(input, text, count, at, error);
        const char *end = status ? NULL : memchr(text, '\n', count);
        if (status || end) {
            *start = end ? at + (end - text) + 1 : 0;
            return status;
        }
    }
    *start = size;
    return TD_OK;
}

/* The parser goes on at a byte of the file. */
static td_status move_to(td__csv *csv, int64_t offset) {
    csv->status = td__input_seek(csv->input, offset, csv->error);
    csv->next = csv->end = csv->buffer;
    csv->read = offset;
    csv->finished = false;
    memset(csv->end, '\n', TD__CSV_PADDING);
    return csv->status;
}

/* Past empty lines. */
static td_status skip_empty_lines(td__csv *csv) {
    for (;;) {
        td__csv_outcome outcome = td__csv_skip_empty(csv, &csv->next, &csv->line);
        if (outcome != TD__CSV_INCOMPLETE) {
            return TD_OK;
        }
        if (td__csv_fill(csv) == TD__CSV_FAILED) {
            return csv->status;
        }
    }
}

/* Rows that begin from `start` on; -1: from the first line of this process's part. */
static td_status parse_from(parsing *p, int64_t start) {
    td__csv *csv = p->csv;
    td_status status = td__csv_start(csv);
    int64_t size = td__input_stat(csv->input)->st_size, first = td__csv_position(csv);
    int64_t share = (size - first) / p->size;
    if (!status && start < 0) {
        start = first;
        status =
            p->rank ? find_line(csv->input, first + p->rank * share, &start, csv->error) : TD_OK;
    }
    p->own.begin = status ? p->own.begin : start;
    status = status ? status : move_to(csv, start);
    status = status ? status : skip_empty_lines(csv);
    p->own.begin = status ? p->own.begin : td__csv_position(csv);
    csv->limit = p->rank + 1 < p->size ? first + (p->rank + 1) * share : size;
    status = status ? status : td__csv_parse(csv, p->store);
    p->own.end = td__csv_position(csv);
    return status ? status : td__input_unchanged(csv->input, csv->error);
}

static void parse_own(parsing *p, int64_t start) {
    const char *folder = p->store ? p->store->folder : NULL;
    size_t memory = p->store ? p->store->memory : 0;
    td__csv_release(p->csv);
    if (p->store) {
        td__row_store_release(p->store);
        td__row_store_init(p->store, folder);
        p->store->memory = memory;
    }
    *p->csv = p->like;
    p->csv->error = &p->error;
    memset(&p->own, 0, sizeof p->own);
    p->own.begin = start;
    td_status status = td__input_rewind(p->csv->input, &p->error);
    status = status ? status : parse_from(p, start);
    p->own.rows = p->csv->rows;
    p->own.status = (int32_t)status;
    p->own.text_labels = p->csv->text_labels;
}

/* The first process whose rows do not begin where those before them end; or which failed. */
static int find_wrong(const parsing *p, const report *all, int64_t *expected) {
    *expected = all[0].begin;
    for (int i = 0; i < p->size; i++) {
        if (all[i].begin != *expected || all[i].status) {
            return i;
        }
        *expected = all[i].end;
    }
    return p->size;
}

/* All parts of the file, which follow each other; TD_FORMAT when one is wrong. */
static td_status parse_parts(parsing *p, report *all, td_error *error) {
    int64_t expected = -1;
    td_status status = TD_OK;
    for (int wrong = p->rank; !status;) {
        if (wrong == p->rank) {
            parse_own(p, expected);
        }
        status = td_group_gather(p->group, &p->own, sizeof p->own, all, error);
        wrong = status ? 0 : find_wrong(p, all, &expected);
        if (!status && wrong == p->size) {
            return TD_OK;
        }
        if (!status && all[wrong].begin == expected) {
            p->csv->text_labels = all[wrong].text_labels;
            bool failed = all[wrong].status == TD_MEMORY || all[wrong].status == TD_IO ||
                          all[wrong].status == TD_STATE || all[wrong].status == TD_NOT_FOUND;
            bool mine = wrong == p->rank;
            status =
                failed ? agree(p->group, mine ? (td_status)p->own.status : TD_OK, &p->error, error)
                       : td_error_set(error, TD_FORMAT, "%s: it cannot be parsed",
                                      td__input_title(p->csv->input));
        }
    }
    return status;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static char *pack_names(const td__names *names, size_t *size) {
    *size = 0;
    for (size_t i = 0; i < names->count; i++) {
        *size += strlen(names->items[i]) + 1;
    }
    char *text = td__calloc(*size + 1, 1), *to = text;
    for (size_t i = 0; text && i < names->count; i++) {
        size_t length = strlen(names->items[i]) + 1;
        memcpy(to, names->items[i], length);
        to += length;
    }
    return text;
}

static bool add_names(td__names *names, const char *text, size_t size) {
    bool room = true;
    for (const char *at = text; room && at < text + size; at += strlen(at) + 1) {
        room = td__names_add(names, at) >= 0;
    }
    return room;
}

/* The texts of all processes, those of rank 0 first; TD_FORMAT when there are too many. */
static td_status merge_names(td_group *group, td__names *names, td_error *error) {
    td__names merged = {0};
    size_t size = 0, *sizes = td__calloc((size_t)td_group_size(group), sizeof *sizes);
    char *own = pack_names(names, &size);
    void *all = NULL;
    int64_t total = -1; /* too many, or no memory */
    td_status status = sizes && own ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    status = status ? status : td__group_collect(group, own, size, &all, sizes, error);
    size_t bytes = 0;
    for (int i = 0; !status && all && i < td_group_size(group); i++) {
        bytes += sizes[i];
    }
    if (!status && all && add_names(&merged, all, bytes)) {
        td__free(own);
        own = pack_names(&merged, &size);
        total = own ? (int64_t)size : -1;
    }
    status = status ? status : td_group_broadcast(group, &total, sizeof total, 0, error);
    if (!status && total < 0) {
        status = td_error_set(error, TD_FORMAT, "too many different texts");
    }
    if (!status && !all) {
        td__free(own);
        own = td__calloc((size_t)total + 1, 1);
        status = own ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    }
    status = status ? status : td_group_broadcast(group, own, (size_t)total, 0, error);
    if (!status && !all && !add_names(&merged, own, (size_t)total)) {
        status = td_error_set(error, TD_MEMORY, "out of memory");
    }
    if (!status) {
        td__names_release(names);
        *names = merged;
        merged = (td__names){0};
    }
    td__names_release(&merged);
    td__free(all);
    td__free(own);
    td__free(sizes);
    return status;
}

/* Classes are numbered as they come in the file. */
static td_status merge_classes(td__csv *csv, td__csv_part *part, td_error *error) {
    td__names own = {0};
    size_t count = csv->classes.count, size = 0;
    char *text = pack_names(&csv->classes, &size);
    td_status status = text && add_names(&own, text, size)
                           ? TD_OK
                           : td_error_set(error, TD_MEMORY, "out of memory");
    td__free(text);
    status = status ? status : merge_names(csv->options->group, &csv->classes, error);
    part->class_of = !status && count ? td__calloc(count, sizeof *part->class_of) : NULL;
    for (size_t i = 0; part->class_of && i < count; i++) {
        part->class_of[i] = (int32_t)td__names_find(&csv->classes, own.items[i]);
    }
    td__names_release(&own);
    return status || !count || part->class_of ? status
                                              : td_error_set(error, TD_MEMORY, "out of memory");
}

td_status td__csv_parse_part(td__csv *csv, td__row_store *store, td__csv_part *part,
                             td_error *error) {
    td_group *group = csv->options->group;
    parsing p = {.group = group,
                 .rank = td_group_rank(group),
                 .size = td_group_size(group),
                 .like = *csv,
                 .csv = csv,
                 .store = store};
    report *all = td__calloc((size_t)p.size, sizeof *all);
    td_status status =
        all ? parse_parts(&p, all, error) : td_error_set(error, TD_MEMORY, "out of memory");
    for (int i = 0; !status && i < p.size; i++) {
        part->first += i < p.rank ? all[i].rows : 0;
        part->total += all[i].rows;
    }
    td__free(all);
    if (!status && part->total == 0) {
        status = td_error_set(error, TD_FORMAT, "no rows");
    }
    status = status ? status : merge_classes(csv, part, error);
    for (size_t i = 0; !status && csv->survey && i < csv->options->categories.count; i++) {
        status = merge_names(group, &csv->categories[i], error);
    }
    csv->error = error;
    return status;
}

/* ---- One file on each machine ---------------------------------------------------------------- */

typedef struct joining {
    td_group *group;
    int rank, size;
    td__csv *csv;
    td__row_store *own;
    const td__csv_part *part;
    td__row_store file; /* what becomes the cache file: its path where this process made it */
    int *homes;         /* by rank: who made the file that it writes to */
    int64_t *firsts;    /* by rank: its first row; and behind them how many rows there are */
    int64_t widths[2];  /* floats of a row: inputs, labels */
    float *chunk;
    td_status status; /* of what this process wrote; it goes on, so that the others can */
    td_error error;
} joining;

/* A file that is offered to all. */
typedef struct offer {
    int32_t status;
    char name[NAME_SIZE], text[TD_ERROR_TEXT_SIZE];
    uint64_t token;
} offer;

static void cannot_write(joining *j, const char *folder) {
    if (!j->status) {
        j->status = td_error_set(&j->error, TD_IO,
                                 "cannot write to the cache folder %s: %s; TAPEDECK_CACHE names "
                                 "another one",
                                 folder, strerror(errno));
    }
}

static void make_file(joining *j, const char *folder, offer *made) {
    double now = td__seconds();
    made->token = td__hash_bytes(td__hash_bytes(TD__HASH_START, &now, sizeof now), j, sizeof *j);
    j->file.inputs.file = td__row_store_file(folder, &j->file.path);
    if (j->file.inputs.file < 0 ||
        !td__write_all(j->file.inputs.file, &made->token, sizeof made->token, 0)) {
        cannot_write(j, folder);
        made->status = (int32_t)j->status;
        (void)snprintf(made->text, sizeof made->text, "%s", j->error.text);
        return;
    }
    (void)snprintf(made->name, sizeof made->name, "%s", strrchr(j->file.path, '/') + 1);
}

/* Whether the file that another process made is there in this process's folder. */
static bool find_file(joining *j, const char *folder, const offer *made) {
    char path[4096];
    uint64_t token = 0;
    (void)snprintf(path, sizeof path, "%s/%.63s", folder, made->name);
    int file = td__file_open(AT_FDCWD, path, O_RDWR);
    bool same = file >= 0 && td__read_all(file, &token, sizeof token, 0) && token == made->token;
    if (same) {
        j->file.inputs.file = file;
    } else if (file >= 0) {
        close(file);
    }
    return same;
}

/* Each process has a file, which others may have too. */
static td_status find_homes(joining *j, const char *folder, td_error *error) {
    int32_t mine = -1, *all = td__calloc((size_t)j->size, sizeof *all);
    td_status status = all ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (int maker = 0; !status && maker < j->size;) {
        offer made;
        memset(&made, 0, sizeof made);
        if (maker == j->rank) {
            mine = j->rank;
            make_file(j, folder, &made);
        }
        status = td_group_broadcast(j->group, &made, sizeof made, maker, error);
        if (!status && made.status) {
            status = td_error_set(error, (td_status)made.status, "rank %d on %s: %s", maker,
                                  td_group_host(j->group, maker), made.text);
        }
        if (!status && mine < 0 && find_file(j, folder, &made)) {
            mine = maker;
        }
        status = status ? status : td_group_gather(j->group, &mine, sizeof mine, all, error);
        while (!status && maker < j->size && all[maker] >= 0) {
            j->homes[maker] = all[maker];
            maker++;
        }
    }
    for (int i = 0; !status && i < j->size; i++) {
        j->homes[i] = all[i];
    }
    td__free(all);
    return status;
}

/* Some floats of this process's rows, from the at-th on; labels: with the classes of all. */
static bool take_chunk(joining *j, bool labels, int64_t at, int64_t count) {
    const td__row_store *own = j->own;
    const td__stream *stream = labels ? &own->labels : &own->inputs;
    int64_t before = TD__ROW_STORE_HEADER / (int64_t)sizeof(float);
    before += labels ? own->inputs.total : 0; /* of a joined store */
    size_t bytes = (size_t)count * sizeof(float);
    bool done = true;
    if (own->path) {
        done = td__read_all(own->inputs.file, j->chunk, bytes,
                            (off_t)(before + at) * (off_t)sizeof(float));
    } else {
        memcpy(j->chunk, stream->values + at, bytes);
    }
    const int32_t *class_of = j->part->class_of;
    for (int64_t i = 0; done && labels && class_of && i < count; i++) {
        bool label = (at + i) % j->widths[1] < j->csv->label_count;
        if (label && !isnan(j->chunk[i])) {
            j->chunk[i] = (float)class_of[(int32_t)j->chunk[i]];
        }
    }
    return done;
}

static void write_chunk(joining *j, bool labels, int64_t row, int64_t at, int64_t count) {
    int64_t begin = labels ? j->part->total * j->widths[0] : 0;
    begin += row * j->widths[labels] + at;
    off_t offset = TD__ROW_STORE_HEADER + (off_t)begin * (off_t)sizeof(float);
    if (!j->status &&
        !td__write_all(j->file.inputs.file, j->chunk, (size_t)count * sizeof(float), offset)) {
        cannot_write(j, j->own->folder);
    }
}

/* Rows of one process go to the files that it does not write to. members: who sends, who writes. */
static td_status send_rows(joining *j, int from, const int *members, int count, td_error *error) {
    td_status status = TD_OK;
    int64_t rows = j->firsts[from + 1] - j->firsts[from];
    for (int labels = 0; labels < 2; labels++) {
        int64_t total = rows * j->widths[labels];
        for (int64_t at = 0; !status && at < total; at += CHUNK) {
            int64_t size = total - at < CHUNK ? total - at : CHUNK;
            if (from == j->rank && !take_chunk(j, labels, at, size)) {
                cannot_write(j, j->own->folder);
            }
            status = td__group_broadcast_among(j->group, j->chunk, (size_t)size * sizeof(float),
                                               members, count, error);
            if (!status && from != j->rank) {
                write_chunk(j, labels, j->firsts[from], at, size);
            }
        }
    }
    return status;
}

static td_status exchange_rows(joining *j, td_error *error) {
    int *members = td__calloc((size_t)j->size + 1, sizeof *members);
    td_status status = members ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (int from = 0; !status && from < j->size; from++) {
        int count = 0;
        bool member = from == j->rank;
        members[count++] = from;
        for (int i = 0; i < j->size; i++) {
            if (j->homes[i] == i && i != j->homes[from]) {
                members[count++] = i;
                member = member || i == j->rank;
            }
        }
        if (member && count > 1) {
            status = send_rows(j, from, members, count, error);
        }
    }
    td__free(members);
    return status;
}

static void write_own_rows(joining *j) {
    if (j->own->path) {
        j->status = td__row_store_join(j->own, &j->error);
    }
    for (int labels = 0; labels < 2; labels++) {
        int64_t total = (j->firsts[j->rank + 1] - j->firsts[j->rank]) * j->widths[labels];
        for (int64_t at = 0; !j->status && at < total; at += CHUNK) {
            int64_t size = total - at < CHUNK ? total - at : CHUNK;
            if (!take_chunk(j, labels, at, size)) {
                cannot_write(j, j->own->folder);
            }
            write_chunk(j, labels, j->firsts[j->rank], at, size);
        }
    }
}

/* Whoever made a file seals it and gives it its name. */
static td_status publish(joining *j, const td__cache *cache, td__table *table) {
    td__seal seal = {0};
    td_status status = td__cache_compose(&seal, cache, &j->file, table, &j->error);
    status = status ? status : td__cache_publish(cache, &j->file, &seal, &j->error);
    td__seal_release(&seal);
    return status;
}

static td_status join(joining *j, const td__cache *cache, td__table *table, td_error *error) {
    td_status status =
        td_group_gather(j->group, &j->part->first, sizeof j->part->first, j->firsts, error);
    j->firsts[j->size] = j->part->total;
    status = status ? status : find_homes(j, cache->folder, error);
    if (status) {
        return status;
    }
    write_own_rows(j);
    status = exchange_rows(j, error);
    if (!status && !j->status && !td__sync(fdatasync, j->file.inputs.file)) {
        cannot_write(j, cache->folder);
    }
    status = status ? status : agree(j->group, j->status, &j->error, error);
    if (status) {
        return status;
    }
    j->csv->rows = j->file.labels.total = j->part->total;
    j->file.labels.total *= j->widths[1];
    j->file.inputs.total = j->part->total * j->widths[0];
    td__csv_findings(table, j->csv);
    status = j->homes[j->rank] == j->rank ? publish(j, cache, table) : TD_OK;
    status = agree(j->group, status, &j->error, error);
    td__table_release(table);
    td_status loaded = TD_OK;
    if (!status && !td__cache_load(cache, table)) {
        loaded =
            td_error_set(&j->error, TD_IO, "the cache file %s cannot be read back", cache->path);
    }
    return status ? status : agree(j->group, loaded, &j->error, error);
}

td_status td__csv_join_parts(td__csv *csv, td__row_store *store, const td__csv_part *part,
                             const td__cache *cache, td__table *table, td_error *error) {
    td_group *group = csv->options->group;
    joining j = {.group = group,
                 .rank = td_group_rank(group),
                 .size = td_group_size(group),
                 .csv = csv,
                 .own = store,
                 .part = part,
                 .widths = {csv->input_count, csv->label_count + csv->weighted}};
    td__row_store_init(&j.file, cache->folder);
    j.homes = td__calloc((size_t)j.size, sizeof *j.homes);
    j.firsts = td__calloc((size_t)j.size + 1, sizeof *j.firsts);
    j.chunk = td__realloc(NULL, CHUNK, sizeof *j.chunk);
    td_status status = j.homes && j.firsts && j.chunk
                           ? join(&j, cache, table, error)
                           : td_error_set(error, TD_MEMORY, "out of memory");
    if (status) {
        td__table_release(table);
    }
    td__row_store_release(&j.file);
    td__free(j.homes);
    td__free(j.firsts);
    td__free(j.chunk);
    return status;
}
