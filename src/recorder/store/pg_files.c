#include "store/pg_files.h"

#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20, COPY_BYTES = 16 << 20, MAX_FILES = 1 << 24 };

/* What of a file has been sent over this connection. */
struct td__sent_file {
    char *name;
    int64_t size, changed; /* in bytes, and its time in nanoseconds; size -1: nothing */
};

void td__sent_files_release(td__sender *s) {
    for (size_t i = 0; i < s->file_count; i++) {
        td__free(s->files[i].name);
    }
    td__free(s->files);
    s->files = NULL;
    s->file_count = s->file_capacity = 0;
}

/* ---- Which files ---------------------------------------------------------------------------- */

bool td__store_file_inside(const char *name) {
    bool inside = *name && *name != '/';
    for (const char *at = name; inside && (at = strstr(at, "..")) != NULL; at += 2) {
        bool begins = at == name || at[-1] == '/', ends = !at[2] || at[2] == '/';
        inside = !(begins && ends);
    }
    return inside;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct td__sent_file *)a)->name, ((const struct td__sent_file *)b)->name);
}

static bool add_name(td__sender *s, const char *name, size_t length, const char *end) {
    size_t size = length + strlen(end) + 1;
    if (!td__grow(&s->files, &s->file_capacity, s->file_count + 1, MAX_FILES, sizeof *s->files)) {
        return false;
    }
    char *copy = td__calloc(size, 1);
    if (copy) {
        (void)snprintf(copy, size, "%.*s%s", (int)length, name, end);
        s->files[s->file_count++] = (struct td__sent_file){copy, -1, 0};
    }
    return copy != NULL;
}

/* Adds the files that the run's tensors are in, and with an array its steps and the numbers of its examples; each once. */
static td_status list_files(td__sender *s, td__store *from, td_error *error) {
    enum { FILE_COLUMN = 7, NPY = 4 };
    td__rows *rows = from->class->select(from, &(td__query){.source = TD__TENSOR_SERIES}, error);
    bool good = true;
    int next = -1;
    size_t known = s->file_count;
    if (rows) {
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, -1);
    }
    while (rows && good && (next = td__rows_next(rows, error)) > 0) {
        const char *name = td__rows_text(rows, FILE_COLUMN, NULL);
        size_t length = name ? strlen(name) : 0, last = s->file_count;
        if (!length || !td__store_file_inside(name) ||
            (last > known && strcmp(s->files[last - 1].name, name) == 0)) {
            continue;
        }
        bool array = length > NPY && strcmp(name + length - NPY, ".npy") == 0;
        good = !array || (add_name(s, name, length - NPY, ".samples.npy") &&
                          add_name(s, name, length - NPY, ".steps.npy"));
        good = good && add_name(s, name, length, "");
    }
    td__rows_end(rows);
    if (!good) {
        return td_error_set(error, TD_MEMORY, "out of memory for the files of a run");
    }
    if (s->file_count) {
        qsort(s->files, s->file_count, sizeof *s->files, compare_names);
    }
    size_t kept = 0;
    for (size_t i = 0; i < s->file_count; i++) {
        struct td__sent_file *before = kept ? &s->files[kept - 1] : NULL;
        if (before && strcmp(before->name, s->files[i].name) == 0) {
            struct td__sent_file *sent = before->size >= 0 ? before : &s->files[i];
            before->size = sent->size;
            before->changed = sent->changed;
            td__free(s->files[i].name);
        } else {
            s->files[kept++] = s->files[i];
        }
    }
    s->file_count = kept;
    return next < 0 ? TD_FORMAT : TD_OK;
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* What the server has: path, number and digest of every piece, by path and number. */
static td_status read_pieces(td__sender *s, td__pg_answer *there, td_error *error) {
    const char *const values[] = {s->run};
    return td__pg_run(s->pg,
                      "SELECT path, number, digest FROM tapedeck.file_piece WHERE run = $1"
                      " ORDER BY path COLLATE \"C\", number",
                      1, values, td__pg_keep, there, error);
}

static td_status delete_pieces(td__sender *s, const char *name, int64_t first, int64_t last,
                               td_error *error) {
    char from[TD__PG_NUMBER], to[TD__PG_NUMBER];
    const char *const values[] = {s->run, name, td__pg_number(from, first),
                                  td__pg_number(to, last)};
    return td__pg_run(s->pg,
                      "DELETE FROM tapedeck.file_piece WHERE run = $1 AND path = $2"
                      " AND number BETWEEN $3 AND $4",
                      4, values, NULL, NULL, error);
}

static td_status flush_pieces(td__sender *s, td_error *error) {
    td_status status =
        s->out.size ? td__pg_copy(s->pg, "tapedeck.file_piece(run, path, number, digest, data)",
                                  &s->out, error)
                    : TD_OK;
    s->out.size = 0;
    return status;
}

/* A file being sent. */
typedef struct sending {
    td__sender *sender;
    const struct td__sent_file *file;
    int opened;
    const td__pg_answer *there; /* NULL: nothing is compared */
    size_t at, end;             /* its pieces there */
    uint8_t *bytes;             /* room for a piece */
} sending;

static int64_t number_at(const td__pg_answer *answer, size_t row, int column) {
    td__pg_cell cell = td__pg_cell_of(answer, row, column);
    return td__pg_integer(&cell);
}

static td_status send_piece(sending *m, int64_t number, size_t size, bool replace,
                            td_error *error) {
    enum { COLUMNS = 5 };
    td__sender *s = m->sender;
    for (size_t had = 0; had < size;) {
        ssize_t got = pread(m->opened, m->bytes + had, size - had, number * PIECE + (off_t)had);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return td_error_set(error, TD_IO, "%s: %s", m->file->name,
                                got < 0 ? strerror(errno) : "it became shorter");
        }
        had += got > 0 ? (size_t)got : 0;
    }
    int64_t digest = (int64_t)td__hash_bytes(TD__HASH_START, m->bytes, size);
    while (m->there && m->at < m->end && number_at(m->there, m->at, 1) < number) {
        m->at++;
    }
    bool there = m->there && m->at < m->end && number_at(m->there, m->at, 1) == number;
    if (there && number_at(m->there, m->at, 2) == digest) {
        return TD_OK;
    }
    td_status status =
        there || replace ? delete_pieces(s, m->file->name, number, number, error) : TD_OK;
    td__pg_put16(&s->out, COLUMNS);
    td__pg_put_integer(&s->out, strtoll(s->run, NULL, 10));
    td__pg_put_text(&s->out, m->file->name, strlen(m->file->name));
    td__pg_put_integer(&s->out, number);
    td__pg_put_integer(&s->out, digest);
    td__pg_put_blob(&s->out, m->bytes, size);
    s->rows++;
    return status || s->out.size < COPY_BYTES ? status : flush_pieces(s, error);
}

/* Arrays and archives grow at their end, and have in front, and in an archive's last blocks, what changes with that. */
static td_status send_file(sending *m, int64_t size, td_error *error) {
    int64_t pieces = (size + PIECE - 1) / PIECE;
    int64_t had = m->there ? 0 : (m->file->size + PIECE - 1) / PIECE; /* sent already */
    int64_t from = had > 1 ? had - 2 : 0;
    td_status status = TD_OK;
    if (m->end > m->at && number_at(m->there, m->end - 1, 1) >= pieces) {
        had = number_at(m->there, m->end - 1, 1) + 1;
    }
    if (had > pieces) {
        status = delete_pieces(m->sender, m->file->name, pieces, INT64_MAX, error);
    }
    for (int64_t number = 0; number < pieces && !status; number++) {
        int64_t left = size - number * PIECE;
        status = send_piece(m, number, (size_t)(left < PIECE ? left : PIECE),
                            !m->there && number < had, error);
        number = !m->there && number == 0 && from > 1 ? from - 1 : number;
    }
    return status;
}

static td_status open_and_send(sending *m, struct td__sent_file *file, const char *folder,
                               td_error *error) {
    char path[PATH_MAX];
    struct stat about;
    bool fits = (size_t)snprintf(path, sizeof path, "%s/%s", folder, file->name) < sizeof path;
    m->file = file;
    m->opened = fits ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (m->opened < 0) { /* it is not there yet, or no more */
        return TD_OK;
    }
    td_status status = TD_OK;
    if (fstat(m->opened, &about) == 0 && S_ISREG(about.st_mode)) {
        int64_t changed = about.st_mtim.tv_sec * (int64_t)1000000000 + about.st_mtim.tv_nsec;
        if (m->there || about.st_size != file->size || changed != file->changed) {
            status = send_file(m, about.st_size, error);
            file->size = about.st_size;
            file->changed = changed;
        }
    }
    close(m->opened);
    return status;
}

td_status td__send_files(td__sender *s, td__store *from, const char *folder, bool whole,
                         td_error *error) {
    td__pg_answer there = {0};
    sending m = {.sender = s, .there = whole ? &there : NULL, .bytes = td__calloc(PIECE, 1)};
    if (whole) {
        td__sent_files_release(s);
    }
    td_status status = m.bytes ? list_files(s, from, error)
                               : td_error_set(error, TD_MEMORY, "out of memory for a file");
    status = status || !whole ? status : read_pieces(s, &there, error);
    s->out.size = 0;
    for (size_t i = 0; i < s->file_count && !status; i++) {
        while (m.end < there.count && strcmp(td__pg_word(&there, m.end, 0), s->files[i].name) < 0) {
            m.end++;
        }
        m.at = m.end;
        while (m.end < there.count &&
               strcmp(td__pg_word(&there, m.end, 0), s->files[i].name) == 0) {
            m.end++;
        }
        status = open_and_send(&m, &s->files[i], folder, error);
    }
    status = status ? status : flush_pieces(s, error);
    td__pg_answer_release(&there);
    td__free(m.bytes);
    return status;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static td_status not_there(const char *name, td_error *error) {
    return td_error_set(error, TD_NOT_FOUND, "%s: the database has no such file", name);
}

td_status td__store_file_size(td__store *base, const char *name, int64_t *size, td_error *error) {
    static const char sql[] = "SELECT number, length(data) FROM tapedeck.file_piece WHERE run = $1"
                              " AND path = $2 ORDER BY number DESC LIMIT 1";
    const td__pg_store *store = (const td__pg_store *)base;
    if (base->class != &td__pg_class) {
        return not_there(name, error);
    }
    td__pg_answer answer = {0};
    const char *const values[] = {store->number, name};
    td_status status = td__pg_ask(store->pg, sql, 2, values, &answer, error);
    int64_t number = number_at(&answer, 0, 0), length = number_at(&answer, 0, 1);
    bool sound = number >= 0 && number < INT64_MAX / PIECE && length >= 0 && length <= PIECE;
    if (!status && (answer.count == 0 || !sound)) {
        status = not_there(name, error);
    }
    *size = status ? 0 : number * PIECE + length;
    td__pg_answer_release(&answer);
    return status;
}

td_status td__store_file_read(td__store *base, const char *name, int64_t offset, size_t size,
                              void *out, td_error *error) {
    static const char sql[] =
        "SELECT substring(data FROM $4::integer FOR $5::integer) FROM tapedeck.file_piece"
        " WHERE run = $1 AND path = $2 AND number = $3";
    const td__pg_store *store = (const td__pg_store *)base;
    td__pg_answer answer = {0};
    td_status status = base->class == &td__pg_class ? TD_OK : not_there(name, error);
    for (uint8_t *to = out; size > 0 && !status;) {
        char number[TD__PG_NUMBER], from[TD__PG_NUMBER], count[TD__PG_NUMBER];
        int64_t inside = offset % PIECE;
        size_t part = size < (size_t)(PIECE - inside) ? size : (size_t)(PIECE - inside);
        const char *const values[] = {store->number, name, td__pg_number(number, offset / PIECE),
                                      td__pg_number(from, inside + 1),
                                      td__pg_number(count, (int64_t)part)};
        status = td__pg_ask(store->pg, sql, 5, values, &answer, error);
        td__pg_cell cell = td__pg_cell_of(&answer, 0, 0);
        if (!status && cell.length != (int)part) {
            status =
                td_error_set(error, TD_FORMAT, "%s: a piece of it is not in the database", name);
        }
        if (!status) {
            memcpy(to, cell.data, part);
            to += part;
            size -= part;
            offset += (int64_t)part;
        }
    }
    td__pg_answer_release(&answer);
    return status;
}

td_status td__store_files(td__store *base, td__file_function *each, void *user, td_error *error) {
    static const char sql[] = "SELECT DISTINCT path COLLATE \"C\" FROM tapedeck.file_piece"
                              " WHERE run = $1 ORDER BY 1";
    const td__pg_store *store = (const td__pg_store *)base;
    if (base->class != &td__pg_class) {
        return TD_OK;
    }
    td__pg_answer answer = {0};
    const char *const values[] = {store->number};
    td_status status = td__pg_ask(store->pg, sql, 1, values, &answer, error);
    for (size_t row = 0; row < answer.count && !status; row++) {
        status = each(user, td__pg_word(&answer, row, 0), error);
    }
    td__pg_answer_release(&answer);
    return status;
}
