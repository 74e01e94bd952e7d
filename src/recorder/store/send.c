/* Sending a run: its row, who writes it, and the tables that are kept row by row. */
#include "store/send.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/pg_files.h"
#include "store/schema.h"
#include "store/send_series.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- Which run, which process --------------------------------------------------------------- */

static void hash_row(uint64_t hashes[2], const char *text) {
    hashes[0] = td__hash_bytes(hashes[0], text, strlen(text) + 1);
    hashes[1] = td__hash_bytes(hashes[1] ^ 0x9e3779b97f4a7c15u, text, strlen(text) + 1);
}

td_status td__sender_id(td__store *from, const char *place, char id[TD__RUN_ID], td_error *error) {
    static const td__source sources[] = {TD__RUN_NOTES, TD__ENVIRONMENT, TD__STEPS};
    static const char *const keys[] = {"started", "name", "host", "pid", "command", "mesh"};
    uint64_t hashes[2] = {TD__HASH_START, 1};
    hash_row(hashes, place);
    for (size_t i = 0; i < TD__COUNT(sources); i++) {
        td__rows *rows = from->class->select(from, &(td__query){.source = sources[i]}, error);
        if (!rows) {
            return TD_FORMAT;
        }
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, 1);
        int next;
        while ((next = td__rows_next(rows, error)) > 0) {
            if (sources[i] == TD__STEPS) {
                char first[64];
                (void)snprintf(first, sizeof first, "%lld %.6f",
                               (long long)td__rows_integer(rows, 0), td__rows_real(rows, 2));
                hash_row(hashes, first);
                continue;
            }
            const char *key = td__rows_text(rows, 0, NULL);
            for (size_t k = 0; key && k < TD__COUNT(keys); k++) {
                const char *value = strcmp(key, keys[k]) == 0 ? td__rows_text(rows, 1, NULL) : NULL;
                if (value) { /* further notes may come */
                    hash_row(hashes, keys[k]);
                    hash_row(hashes, value);
                }
            }
            if (key && strcmp(key, "store.id") == 0 && sources[i] == TD__RUN_NOTES) {
                const char *noted = td__rows_text(rows, 1, NULL);
                (void)snprintf(id, TD__RUN_ID, "%s", noted ? noted : "");
                td__rows_end(rows);
                return TD_OK;
            }
        }
        td__rows_end(rows);
        if (next < 0) {
            return TD_FORMAT;
        }
    }
    (void)snprintf(id, TD__RUN_ID, "%016llx%016llx", (unsigned long long)hashes[0],
                   (unsigned long long)hashes[1]);
    return TD_OK;
}

void td__sender_launch(const char *folder, const char *id, char launch[TD__SENDER_TEXT]) {
    DIR *entries = opendir(folder);
    (void)snprintf(launch, TD__SENDER_TEXT, "%s", id);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, ".launch-", 8) == 0) {
            (void)snprintf(launch, TD__SENDER_TEXT, "%s", entry->d_name + 1);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

/* The host's name, and the process and when it began, so that another on this host can see whether it is gone. */
static void name_writer(char *out, size_t size) {
    char host[64] = "";
    uint64_t random = 0;
    (void)gethostname(host, sizeof host - 1);
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        random = td__ticks();
    }
    (void)snprintf(out, size, "%s %ld %016llx", host, (long)getpid(), (unsigned long long)random);
}

/* Whether a writer was a process of this host that has ended. */
static bool is_gone(const char *writer, const char *own) {
    size_t host = strcspn(own, " ");
    long process = strncmp(writer, own, host + 1) == 0 ? strtol(writer + host + 1, NULL, 10) : 0;
    return process > 0 && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* ---- The run's row -------------------------------------------------------------------------- */

/* The first of NAME, NAME-2, … that no other launch has; taken for this one. */
static td_status take_name(td__sender *s, const td__sent_run *run, td_error *error) {
    /* Two statements: the second sees what another rank has just put in, which the first has waited for. */
    static const char take[] = "INSERT INTO tapedeck.name(name, launch) VALUES($1, $2)"
                               " ON CONFLICT DO NOTHING";
    static const char own[] = "SELECT count(*) FROM tapedeck.name WHERE name = $1 AND launch = $2";
    enum { MAX_NUMBER = 100000 };
    td__pg_answer answer = {0};
    td_status status = TD_OK;
    bool taken = false;
    for (int number = 1; !status && !taken && number < MAX_NUMBER; number++) {
        (void)snprintf(s->name, sizeof s->name, number > 1 ? "%.400s-%d" : "%.400s", run->name,
                       number);
        const char *const values[] = {s->name, run->launch};
        td__pg_forget(&answer);
        status = td__pg_run(s->pg, take, 2, values, NULL, NULL, error);
        status = status ? status : td__pg_run(s->pg, own, 2, values, td__pg_keep, &answer, error);
        td__pg_cell cell = td__pg_cell_of(&answer, 0, 0);
        taken = !status && td__pg_integer(&cell) > 0;
    }
    td__pg_answer_release(&answer);
    return status || taken
               ? status
               : td_error_set(error, TD_EXISTS, "too many runs are called %s", run->name);
}

static td_status find_run(td__sender *s, const td__sent_run *run, bool *found, td_error *error) {
    td__pg_answer answer = {0};
    const char *const values[] = {run->id};
    td_status status = td__pg_run(s->pg, "SELECT id, name FROM tapedeck.run WHERE uuid = $1", 1,
                                  values, td__pg_keep, &answer, error);
    *found = !status && answer.count > 0;
    if (*found) {
        td__pg_cell id = td__pg_cell_of(&answer, 0, 0);
        (void)td__pg_number(s->run, td__pg_integer(&id));
        (void)snprintf(s->name, sizeof s->name, "%s", td__pg_word(&answer, 0, 1));
    }
    td__pg_answer_release(&answer);
    return status;
}

static td_status register_run(td__sender *s, const td__sent_run *run, td_error *error) {
    bool found;
    td_status status = find_run(s, run, &found, error);
    if (status || found) {
        return status;
    }
    char version[TD__PG_NUMBER];
    status = take_name(s, run, error);
    const char *const values[] = {run->id, s->name, run->part,
                                  td__pg_number(version, TD__SCHEMA_VERSION)};
    status = status ? status
                    : td__pg_run(s->pg,
                                 "INSERT INTO tapedeck.run(uuid, name, part, schema)"
                                 " VALUES($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                                 4, values, NULL, NULL, error);
    status = status ? status : find_run(s, run, &found, error);
    return status || found ? status
                           : td_error_set(error, TD_EXISTS, "%s has another run '%s%s%s'",
                                          s->pg->url, s->name, *run->part ? "/" : "", run->part);
}

td_status td__sender_open(td__sender *s, const char *url, const td__sent_run *run,
                          td_error *error) {
    if (!*s->writer) {
        name_writer(s->writer, sizeof s->writer);
    }
    s->known = s->ours = false;
    memset(s->has_digest, 0, sizeof s->has_digest);
    td_status status = s->pg ? td__pg_reopen(s->pg, error) : td__pg_open(url, true, &s->pg, error);
    return status ? status : register_run(s, run, error);
}

static void end_writing(td__sender *s) {
    const char *const values[] = {s->run, s->writer};
    if (s->ours && s->pg && s->pg->connection) {
        (void)!td__pg_run(s->pg,
                          "UPDATE tapedeck.run SET writer = NULL WHERE id = $1 AND writer = $2", 2,
                          values, NULL, NULL, NULL);
    }
    s->ours = false;
}

void td__sender_close(td__sender *s) {
    end_writing(s);
    td__pg_close(s->pg);
    for (size_t i = 0; i < TD__COUNT(s->columns); i++) {
        td__free(s->columns[i].data);
    }
    td__free(s->steps.data);
    td__free(s->out.data);
    td__sent_files_release(s);
    *s = (td__sender){0};
}

/* ---- Who writes it -------------------------------------------------------------------------- */

static td_status refuse(td__sender *s, const char *writer, td_error *error) {
    char host[64], process[24];
    size_t length = strcspn(writer, " ");
    (void)snprintf(host, sizeof host, "%.*s", (int)(length < 63 ? length : 63), writer);
    (void)snprintf(process, sizeof process, "%.*s",
                   (int)strcspn(writer + length + !!writer[length], " "),
                   writer + length + !!writer[length]);
    return td_error_set(error, TD_BUSY, "%s#%s is being written by process %s on %s", s->pg->url,
                        s->name, process, host);
}

/* In a transaction: registers this process as the run's writer until it ends, or for a minute. The row stays locked up to the
 * end of the transaction: two never write at once. */
static td_status take_run(td__sender *s, const td__sent_run *run, td_error *error) {
    static const char lock[] = "SELECT writer, coalesce(seen > now() - interval '60 s', false)"
                               " FROM tapedeck.run WHERE id = $1 FOR UPDATE";
    static const char take[] =
        "UPDATE tapedeck.run SET writer = $2, seen = now(), changed = now(), host = $3,"
        " folder = $4, bytes = coalesce(nullif($5::bigint, -1), bytes) WHERE id = $1";
    td__pg_answer answer = {0};
    const char *const id[] = {s->run};
    td_status status = td__pg_run(s->pg, lock, 1, id, td__pg_keep, &answer, error);
    const char *writer = td__pg_word(&answer, 0, 0);
    td__pg_cell fresh = td__pg_cell_of(&answer, 0, 1);
    if (!status && answer.count == 0) {
        status = td_error_set(error, TD_NOT_FOUND, "%s#%s was deleted", s->pg->url, s->name);
    } else if (!status && *writer && strcmp(writer, s->writer) != 0 && td__pg_integer(&fresh) &&
               !is_gone(writer, s->writer)) {
        status = refuse(s, writer, error);
    }
    td__pg_answer_release(&answer);
    char host[64] = "", bytes[TD__PG_NUMBER];
    (void)gethostname(host, sizeof host - 1);
    const char *const values[] = {s->run, s->writer, host, run->folder,
                                  td__pg_number(bytes, run->bytes < 0 ? -1 : run->bytes)};
    status = status ? status : td__pg_run(s->pg, take, 5, values, NULL, NULL, error);
    s->ours |= !status;
    return status;
}

/* ---- Tables that are kept row by row -------------------------------------------------------- */

/* All rows of a table for COPY, and their digest. */
static td_status gather_table(td__sender *s, td__store *from, const td__pg_table *table,
                              int64_t *digest, td_error *error) {
    td__pg_bytes *out = &s->out;
    td__rows *rows = from->class->select(from, &(td__query){.source = table->source}, error);
    int columns = (int)strlen(table->types), next = -1;
    int64_t count = 0;
    out->size = 0;
    if (rows) {
        td__rows_bind(rows, 0, INT64_MIN, INT64_MAX, -1);
    }
    while (rows && (next = td__rows_next(rows, error)) > 0) {
        td__pg_put16(out, 1 + (table->kind != NULL) + table->numbered + columns);
        td__pg_put_integer(out, strtoll(s->run, NULL, 10));
        if (table->kind) {
            td__pg_put_text(out, table->kind, strlen(table->kind));
        }
        if (table->numbered) {
            td__pg_put_integer(out, ++count);
        }
        for (int i = 0; i < columns; i++) {
            td__pg_put_cell(out, rows, i, table->types[i] == 'i' ? 'o' : table->types[i]);
        }
        s->rows++;
    }
    td__rows_end(rows);
    *digest = (int64_t)td__hash_bytes(TD__HASH_START, out->data, out->size);
    return next < 0 ? TD_FORMAT : TD_OK;
}

/* Signals that are there stay there: chunks refer to them. */
static const char *const replace_signals[] = {
    "CREATE TEMP TABLE IF NOT EXISTS tapedeck_signal AS SELECT * FROM tapedeck.signal LIMIT 0",
    "TRUNCATE pg_temp.tapedeck_signal", NULL, /* here the rows are copied */
    "INSERT INTO tapedeck.signal AS s SELECT * FROM pg_temp.tapedeck_signal ON CONFLICT (run, id)"
    " DO UPDATE SET name = excluded.name, raw = excluded.raw, kind = excluded.kind,"
    " layer = excluded.layer, parameter = excluded.parameter, \"position\" = excluded.\"position\","
    " batched = excluded.batched, better = excluded.better, units = excluded.units,"
    " rank = excluded.rank, layout = excluded.layout, sequence = excluded.sequence,"
    " placement = excluded.placement"};
static const char delete_signals[] = "DELETE FROM tapedeck.signal s WHERE s.run = $1 AND NOT EXISTS"
                                     " (SELECT FROM pg_temp.tapedeck_signal t WHERE t.id = s.id)";

static td_status send_signals(td__sender *s, td_error *error) {
    td_status status = TD_OK;
    const char *const values[] = {s->run};
    for (size_t i = 0; i < TD__COUNT(replace_signals) && !status; i++) {
        status = replace_signals[i]
                     ? td__pg_run(s->pg, replace_signals[i], 0, NULL, NULL, NULL, error)
                     : td__pg_copy(s->pg, "pg_temp.tapedeck_signal", &s->out, error);
    }
    return status ? status : td__pg_run(s->pg, delete_signals, 1, values, NULL, NULL, error);
}

static td_status replace_rows(td__sender *s, const td__pg_table *table, td_error *error) {
    char sql[480];
    const char *const values[] = {s->run};
    (void)snprintf(sql, sizeof sql, "DELETE FROM tapedeck.%s WHERE run = $1%s%s%s", table->name,
                   table->kind ? " AND kind = '" : "", table->kind ? table->kind : "",
                   table->kind ? "'" : "");
    td_status status = td__pg_run(s->pg, sql, 1, values, NULL, NULL, error);
    (void)snprintf(sql, sizeof sql, "tapedeck.%s(run, %s%s%s)", table->name,
                   table->kind ? "kind, " : "", table->numbered ? "id, " : "", table->columns);
    return status || !s->out.size ? status : td__pg_copy(s->pg, sql, &s->out, error);
}

static td_status send_table(td__sender *s, td__store *from, size_t index, td_error *error) {
    const td__pg_table *table = &td__pg_tables[index];
    int64_t digest, before = s->rows;
    char number[TD__PG_NUMBER];
    td_status status = gather_table(s, from, table, &digest, error);
    if (status || (s->has_digest[index] && s->digests[index] == digest)) {
        s->rows = before;
        return status;
    }
    status = table->source == TD__SIGNALS ? send_signals(s, error) : replace_rows(s, table, error);
    s->digests[index] = digest;
    s->has_digest[index] = true;
    const char *const values[] = {s->run, table->kind ? table->kind : table->name,
                                  td__pg_number(number, digest)};
    return status ? status
                  : td__pg_run(s->pg,
                               "INSERT INTO tapedeck.state(run, kind, digest) VALUES($1, $2, $3)"
                               " ON CONFLICT (run, kind) DO UPDATE SET digest = excluded.digest",
                               3, values, NULL, NULL, error);
}

/* What the server has of each table. */
static td_status read_digests(td__sender *s, td_error *error) {
    td__pg_answer answer = {0};
    const char *const values[] = {s->run};
    td_status status = td__pg_run(s->pg, "SELECT kind, digest FROM tapedeck.state WHERE run = $1",
                                  1, values, td__pg_keep, &answer, error);
    memset(s->has_digest, 0, sizeof s->has_digest);
    for (size_t row = 0; row < answer.count && !status; row++) {
        for (size_t i = 0; i < TD__PG_TABLES; i++) {
            const td__pg_table *table = &td__pg_tables[i];
            if (strcmp(td__pg_word(&answer, row, 0), table->kind ? table->kind : table->name) ==
                0) {
                td__pg_cell digest = td__pg_cell_of(&answer, row, 1);
                s->digests[i] = td__pg_integer(&digest);
                s->has_digest[i] = true;
            }
        }
    }
    td__pg_answer_release(&answer);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

static td_status list_signals(td__store *from, int64_t **signals, size_t *count, td_error *error) {
    enum { MAX_SIGNALS = 1 << 24 };
    size_t capacity = 0;
    int next = -1;
    td__rows *rows = from->class->select(from, &(td__query){.source = TD__SIGNALS}, error);
    if (rows) {
        td__rows_bind(rows, 0, 0, 0, -1);
    }
    while (rows && (next = td__rows_next(rows, error)) > 0) {
        if (!td__grow(signals, &capacity, *count + 1, MAX_SIGNALS, sizeof **signals)) {
            next = -1;
            (void)td_error_set(error, TD_MEMORY, "out of memory for a run's signals");
            break;
        }
        (*signals)[(*count)++] = td__rows_integer(rows, 0);
    }
    td__rows_end(rows);
    return next < 0 ? (error && error->status ? error->status : TD_FORMAT) : TD_OK;
}

/* Tables that a run.db of this version does not have. */
static bool is_missing(const td__store *from, const td__pg_table *table) {
    enum { WITH_REPLAYED = 4 };
    return table->source == TD__REPLAYED_ROWS && from->version > 0 && from->version < WITH_REPLAYED;
}

static td_status send_all(td__sender *s, td__store *from, const td__changes *changes,
                          td_error *error) {
    int64_t *signals = NULL;
    size_t count = 0;
    td_status status = changes ? TD_OK : list_signals(from, &signals, &count, error);
    for (size_t i = 0; i < TD__PG_TABLES && !status; i++) {
        bool wanted = !changes || changes->tables[td__pg_tables[i].table];
        status =
            wanted && !is_missing(from, &td__pg_tables[i]) ? send_table(s, from, i, error) : TD_OK;
    }
    for (size_t i = 0; i < TD__PG_SERIES && !status; i++) {
        const td__pg_series *series = &td__pg_all_series[i];
        status = !changes || changes->tables[series->table]
                     ? td__send_series(s, from, series, changes, signals, count, error)
                     : TD_OK;
    }
    td__free(signals);
    return status;
}

td_status td__sender_send(td__sender *s, td__store *from, td__changes *changes,
                          const td__sent_run *run, bool live, td_error *error) {
    const char *const values[] = {s->run};
    bool whole = !changes || changes->all || !s->known;
    td_status status = td__pg_script(s->pg, "BEGIN", error);
    status = status ? status : take_run(s, run, error);
    status = status || !whole ? status : read_digests(s, error);
    bool files = s->pg->tensors && (whole || !live || changes->tables[TD__TENSOR_SERIES_ROW]);
    status = status ? status : send_all(s, from, whole ? NULL : changes, error);
    status = status || !files ? status : td__send_files(s, from, run->folder, whole, error);
    if (!status && !live) {
        status = td__pg_run(s->pg, "UPDATE tapedeck.run SET writer = NULL WHERE id = $1", 1, values,
                            NULL, NULL, error);
    }
    status = status ? status
                    : td__pg_run(s->pg, "SELECT pg_notify('tapedeck', $1)", 1, values, NULL, NULL,
                                 error);
    status = status ? status : td__pg_script(s->pg, "COMMIT", error);
    s->known = !status;
    s->ours = s->ours && live;
    if (status) {
        (void)!td__pg_script(s->pg, "ROLLBACK", NULL);
    }
    return status;
}
