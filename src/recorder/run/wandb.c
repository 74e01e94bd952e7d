/* wandb's folders of runs that were logged offline, or not yet sent: run-ID.wandb.
 *
 * The file is a log as LevelDB has it: after seven bytes of its own, blocks of 32 KiB with pieces of records, each with
 * a checksum; a record is a protocol buffer (wandb_internal.proto). A piece that is damaged ends its block. */
#include "run/foreign.h"

#include "base/folder.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/proto.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 32768, FILE_HEAD = 7, PIECE_HEAD = 7, MAX_RECORD = 1 << 28, MAX_NAME = 4096 };
enum { PIECE_FULL = 1, PIECE_FIRST, PIECE_MIDDLE, PIECE_LAST };

typedef struct item item;
typedef struct medley medley;

typedef struct reader {
    td__intake *intake;
    const char *name; /* of the file, for messages */
    td__moment_of at; /* of the last history */
    bool started;
    uint8_t *record; /* pieces so far */
    size_t size, capacity;
    bool inside; /* of a record */
    item *it;    /* what is being read */
    medley *many;
} reader;

static void problem(reader *r, int64_t place, const char *text) {
    td__run_problem(r->intake->problems, "%s: at byte %lld %s", r->name, (long long)place, text);
}

/* A copy of a text that a message has, in out; cut to fit. */
static const char *text_of(const td__proto_field *field, char *out, size_t room) {
    size_t size = field->size < room - 1 ? field->size : room - 1;
    memcpy(out, field->data, size);
    out[size] = 0;
    return out;
}

/* ---- Items: a key, or the parts of one, and a value ----------------------------------------- */

enum {
    ITEM_KEY = 1,
    ITEM_PART = 2,
    ITEM_BOOLEAN = 4,
    ITEM_INTEGER = 5,
    ITEM_NUMBER = 6,
    ITEM_TEXT = 7,
    ITEM_OBJECT = 8,
    ITEM_JSON = 16
};

struct item {
    char name[MAX_NAME]; /* parts with points between */
    bool too_long;
    bool has_number;
    double number;
    td__proto_field text, json; /* data NULL: none */
};

static void add_part(item *it, const td__proto_field *field) {
    size_t used = strlen(it->name), more = field->size + (used > 0);
    it->too_long = it->too_long || used + more >= sizeof it->name;
    if (!it->too_long) {
        if (used) {
            it->name[used++] = '.';
        }
        (void)text_of(field, it->name + used, sizeof it->name - used);
    }
}

static bool read_item(const td__proto_field *message, item *it) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    it->name[0] = 0;
    it->too_long = it->has_number = false;
    it->text.data = it->json.data = NULL;
    while (td__proto_next(&proto, &field)) {
        if (field.wire == TD__BYTES && (field.number == ITEM_KEY || field.number == ITEM_PART)) {
            add_part(it, &field);
        } else if (field.wire == TD__BYTES &&
                   (field.number == ITEM_JSON || field.number == ITEM_OBJECT)) {
            it->json = field;
        } else if (field.wire == TD__BYTES && field.number == ITEM_TEXT) {
            it->text = field;
        } else if (field.wire == TD__FIXED64 && field.number == ITEM_NUMBER) {
            it->has_number = true;
            it->number = td__double_of(field.bits);
        } else if (field.wire == TD__VARINT &&
                   (field.number == ITEM_BOOLEAN || field.number == ITEM_INTEGER)) {
            int64_t folded = (int64_t)(field.bits >> 1) ^ -(int64_t)(field.bits & 1);
            it->has_number = true;
            it->number = field.number == ITEM_BOOLEAN ? (double)(field.bits != 0) : (double)folded;
        }
    }
    return !proto.bad;
}

/* ---- History -------------------------------------------------------------------------------- */

/* What has a _type is one thing whose members came one by one: JSON again, a member each, in a growing text. */
typedef struct media {
    char name[MAX_NAME];
    char *json;
    size_t size, capacity;
} media;

enum { MAX_MEDIA = 64 };
struct medley {
    media all[MAX_MEDIA];
    size_t count;
};

static bool add_bytes(media *m, const void *bytes, size_t size) {
    if (!td__grow(&m->json, &m->capacity, m->size + size + 1, MAX_RECORD, 1)) {
        return false;
    }
    memcpy(m->json + m->size, bytes, size);
    m->size += size;
    m->json[m->size] = 0;
    return true;
}

static media *media_of(medley *many, const char *name) {
    for (size_t i = 0; i < many->count; i++) {
        size_t length = strlen(many->all[i].name);
        if (strncmp(name, many->all[i].name, length) == 0 && name[length] == '.') {
            return &many->all[i];
        }
    }
    return NULL;
}

/* Which names have a _type. */
static void find_media(medley *many, const item *it) {
    size_t length = strlen(it->name);
    if (length > 6 && strcmp(it->name + length - 6, "._type") == 0 && many->count < MAX_MEDIA) {
        media *m = &many->all[many->count++];
        m->json = NULL;
        m->size = m->capacity = 0;
        memcpy(m->name, it->name, length - 6);
        m->name[length - 6] = 0;
    }
}

static td_status add_member(media *m, const item *it, td_error *error) {
    const char *key = it->name + strlen(m->name) + 1;
    bool plain = !strpbrk(key, "\"\\.") && it->json.data;
    bool good = !plain || (add_bytes(m, m->size ? "," : "{", 1) && add_bytes(m, "\"", 1) &&
                           add_bytes(m, key, strlen(key)) && add_bytes(m, "\":", 2) &&
                           add_bytes(m, it->json.data, it->json.size));
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a value");
}

static td_status take_item(reader *r, const item *it, td_error *error) {
    if (it->has_number) {
        return td__intake_number(r->intake, it->name, &r->at, it->number, error);
    }
    if (it->json.data) {
        return td__intake_json(r->intake, it->name, &r->at, (const char *)it->json.data,
                               it->json.size, error);
    }
    if (it->text.data) {
        char *text = td__calloc(it->text.size + 1, 1);
        if (!text) {
            return td_error_set(error, TD_MEMORY, "out of memory for a text");
        }
        td_status status = td__intake_text(r->intake, it->name, &r->at,
                                           text_of(&it->text, text, it->text.size + 1), error);
        td__free(text);
        return status;
    }
    return TD_OK;
}

/* A number that wandb itself logs with every step: _step, _timestamp. */
static double own_number(const item *it) {
    char text[64];
    double number = 0;
    if (it->has_number) {
        return it->number;
    }
    return it->json.data && td__parse_float64(text_of(&it->json, text, sizeof text), &number)
               ? number
               : 0;
}

enum { HISTORY_ITEM = 1, HISTORY_STEP = 2, STEP_NUMBER = 1 };

/* The first pass: at which step, when, and what consists of several items. */
static bool read_moment(const td__proto_field *message, td__moment_of *at, medley *many, item *it) {
    td__proto proto = td__proto_in(message);
    td__proto_field field, number;
    bool has_step = false;
    while (td__proto_next(&proto, &field)) {
        if (field.wire != TD__BYTES) {
            continue;
        }
        if (field.number == HISTORY_STEP) {
            td__proto step = td__proto_in(&field);
            at->step = 0;
            while (td__proto_next(&step, &number)) {
                at->step = number.number == STEP_NUMBER && number.wire == TD__VARINT
                               ? (int64_t)number.bits
                               : at->step;
            }
            has_step = true;
        } else if (field.number == HISTORY_ITEM && read_item(&field, it)) {
            find_media(many, it);
            double value = own_number(it);
            if (strcmp(it->name, "_timestamp") == 0) {
                at->wall_time = value;
            } else if (strcmp(it->name, "_step") == 0 && !has_step && value >= -9e15 &&
                       value <= 9e15) {
                at->step = (int64_t)value;
            }
        }
    }
    return !proto.bad;
}

static td_status take_media(reader *r, medley *many, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; i < many->count; i++) {
        media *m = &many->all[i];
        if (!status && m->size && add_bytes(m, "}", 1)) {
            status = td__intake_json(r->intake, m->name, &r->at, m->json, m->size, error);
        }
        td__free(m->json);
    }
    return status;
}

static td_status read_history(reader *r, const td__proto_field *message, bool *good,
                              td_error *error) {
    medley *many = r->many;
    item *it = r->it;
    td_status status = TD_OK;
    many->count = 0;
    *good = read_moment(message, &r->at, many, it);
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    while (*good && !status && td__proto_next(&proto, &field)) {
        if (field.number != HISTORY_ITEM || field.wire != TD__BYTES || !read_item(&field, it) ||
            it->name[0] == '_' || !it->name[0]) {
            continue;
        }
        media *m = media_of(many, it->name);
        if (it->too_long) {
            td__run_problem(r->intake->problems, "%.100s…: the name is too long", it->name);
        } else {
            status = m ? add_member(m, it, error) : take_item(r, it, error);
        }
    }
    td_status taken = take_media(r, many, status ? NULL : error);
    return status ? status : taken;
}

/* ---- Settings, facts, load ------------------------------------------------------------------ */

enum { CONFIG_UPDATE = 1 };

static td_status read_config(reader *r, const td__proto_field *message, td_error *error) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    item *it = r->it;
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        if (field.number == CONFIG_UPDATE && field.wire == TD__BYTES && read_item(&field, it) &&
            it->name[0] && it->name[0] != '_' && it->json.data) {
            status = td__intake_settings(r->intake, it->name, (const char *)it->json.data,
                                         it->json.size, error);
        }
    }
    return status;
}

enum { TIME_SECONDS = 1, TIME_NANOS = 2 };
static double read_time(const td__proto_field *message) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    double seconds = 0;
    while (td__proto_next(&proto, &field)) {
        if (field.wire == TD__VARINT) {
            seconds += field.number == TIME_SECONDS ? (double)(int64_t)field.bits
                       : field.number == TIME_NANOS ? 1e-9 * (double)(int64_t)field.bits
                                                    : 0;
        }
    }
    return seconds;
}

/* Texts of a message that are facts of the run, by their number. */
typedef struct fact {
    uint32_t number;
    const char *key;
} fact;

static td_status note_fact(reader *r, const fact *facts, size_t count, const td__proto_field *field,
                           td_error *error) {
    char text[MAX_NAME];
    for (size_t i = 0; i < count; i++) {
        if (facts[i].number == field->number && field->wire == TD__BYTES && field->size) {
            return td__intake_note(r->intake, facts[i].key, text_of(field, text, sizeof text),
                                   error);
        }
    }
    return TD_OK;
}

enum { RUN_CONFIG = 4, RUN_TAG = 10, RUN_START = 17, RUN_GIT = 21, GIT_COMMIT = 2 };

static void join_tag(char *tags, size_t room, const td__proto_field *field) {
    char tag[256];
    size_t used = strlen(tags);
    (void)snprintf(tags + used, room - used, "%s%s", used ? "," : "",
                   text_of(field, tag, sizeof tag));
}

static td_status read_git(reader *r, const td__proto_field *message, td_error *error) {
    static const fact facts[] = {{GIT_COMMIT, "environment.git.commit"}};
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        status = note_fact(r, facts, 1, &field, error);
    }
    return status;
}

static td_status read_run(reader *r, const td__proto_field *message, td_error *error) {
    static const fact facts[] = {
        {3, "project"}, {6, "group"}, {8, "title"}, {9, "notes"}, {13, "environment.host"}};
    char tags[MAX_NAME] = "";
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        if (field.wire != TD__BYTES) {
            continue;
        }
        if (field.number == RUN_CONFIG) {
            status = read_config(r, &field, error);
        } else if (field.number == RUN_GIT) {
            status = read_git(r, &field, error);
        } else if (field.number == RUN_TAG) {
            join_tag(tags, sizeof tags, &field);
        } else if (field.number == RUN_START && !r->started) {
            r->started = true;
            status = td__intake_started(r->intake, read_time(&field), error);
        } else {
            status = note_fact(r, facts, sizeof facts / sizeof *facts, &field, error);
        }
    }
    return status || !*tags ? status : td__intake_note(r->intake, "tags", tags, error);
}

static td_status read_environment(reader *r, const td__proto_field *message, td_error *error) {
    static const fact facts[] = {
        {1, "environment.system"},      {2, "environment.python"}, {6, "environment.program"},
        {11, "environment.folder"},     {12, "environment.host"},  {13, "environment.user"},
        {14, "environment.executable"}, {18, "environment.gpu"},   {25, "environment.cuda"}};
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        status = note_fact(r, facts, sizeof facts / sizeof *facts, &field, error);
    }
    return status;
}

enum { STATS_TIME = 2, STATS_ITEM = 3 };

/* The machine's load is of no step: it stands at the last one. */
static td_status read_load(reader *r, const td__proto_field *message, td_error *error) {
    td__moment_of at = r->at;
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    item *it = r->it;
    td_status status = TD_OK;
    while (!status && td__proto_next(&proto, &field)) {
        if (field.number == STATS_TIME && field.wire == TD__BYTES) {
            at.wall_time = read_time(&field);
        } else if (field.number == STATS_ITEM && field.wire == TD__BYTES && read_item(&field, it) &&
                   it->json.data && it->name[0]) {
            char name[MAX_NAME + 8], text[64];
            double value = 0;
            (void)snprintf(name, sizeof name, "system.%s", it->name);
            (void)text_of(&it->json, text, sizeof text);
            const char *end = td__parse_float64(text, &value);
            status = end && !*end ? td__intake_number(r->intake, name, &at, value, error) : TD_OK;
        }
    }
    return status;
}

/* ---- Records -------------------------------------------------------------------------------- */

enum { HISTORY = 2, CONFIG = 5, STATS = 7, RUN = 17, EXIT = 18, ENVIRONMENT = 26, EXIT_CODE = 1 };

static td_status read_exit(reader *r, const td__proto_field *message, td_error *error) {
    td__proto proto = td__proto_in(message);
    td__proto_field field;
    uint64_t code = 0;
    while (td__proto_next(&proto, &field)) {
        code = field.number == EXIT_CODE && field.wire == TD__VARINT ? field.bits : code;
    }
    return td__intake_note(r->intake, "state", code ? "failed" : "finished", error);
}

static td_status read_record(reader *r, int64_t place, td_error *error) {
    td__proto proto = td__proto_of(r->record, r->size);
    td__proto_field field;
    td_status status = TD_OK;
    bool good = true;
    while (!status && td__proto_next(&proto, &field)) {
        if (field.wire != TD__BYTES) {
            continue;
        }
        status = field.number == HISTORY       ? read_history(r, &field, &good, error)
                 : field.number == CONFIG      ? read_config(r, &field, error)
                 : field.number == STATS       ? read_load(r, &field, error)
                 : field.number == RUN         ? read_run(r, &field, error)
                 : field.number == EXIT        ? read_exit(r, &field, error)
                 : field.number == ENVIRONMENT ? read_environment(r, &field, error)
                                               : TD_OK;
    }
    if (!status && (proto.bad || !good)) {
        problem(r, place, "a record is malformed");
    }
    return status;
}

/* ---- The log -------------------------------------------------------------------------------- */

static td_status take_piece(reader *r, int kind, const uint8_t *data, size_t size, int64_t place,
                            td_error *error) {
    bool begins = kind == PIECE_FULL || kind == PIECE_FIRST;
    bool ends = kind == PIECE_FULL || kind == PIECE_LAST;
    if (begins == r->inside) {
        problem(r, place, begins ? "a record is not all there" : "a record has no beginning");
        r->size = 0;
        r->inside = false;
        if (!begins) {
            return TD_OK;
        }
    }
    r->size = begins ? 0 : r->size;
    if (r->size + size > MAX_RECORD) {
        problem(r, place, "a record is too large and is left out");
        r->inside = false;
        return TD_OK;
    }
    if (!td__grow(&r->record, &r->capacity, r->size + size + 1, 2 * (size_t)MAX_RECORD, 1)) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for a record", r->name);
    }
    memcpy(r->record + r->size, data, size);
    r->size += size;
    r->inside = !ends;
    return ends ? read_record(r, place, error) : TD_OK;
}

/* The pieces of a block, from `from` on; `place` is its own in the file. */
static td_status read_block(reader *r, const uint8_t *block, size_t size, size_t from,
                            int64_t place, td_error *error) {
    td_status status = TD_OK;
    size_t at = from;
    while (!status && size - at >= PIECE_HEAD) {
        const uint8_t *head = block + at;
        size_t length = (size_t)head[4] | (size_t)head[5] << 8;
        int kind = head[6];
        if (kind == 0 && length == 0) {
            return TD_OK; /* room that was not used */
        }
        if (length > size - at - PIECE_HEAD) {
            problem(r, place + (int64_t)at,
                    size < BLOCK ? "the last record is not all there" : "a record is damaged");
            r->inside = false;
            return TD_OK;
        }
        if (kind < PIECE_FULL || kind > PIECE_LAST ||
            td__load32(head) != crc32(crc32(0, head + 6, 1), head + PIECE_HEAD, (uInt)length)) {
            problem(r, place + (int64_t)at,
                    "a record does not match its checksum; the rest of its block is left out");
            r->inside = false;
            return TD_OK;
        }
        status = take_piece(r, kind, head + PIECE_HEAD, length, place + (int64_t)at, error);
        at += PIECE_HEAD + length;
    }
    if (!status && size < BLOCK && size > at) {
        problem(r, place + (int64_t)at, "the last record is not all there");
        r->inside = false;
    }
    return status;
}

/* As much of a block as there is. */
static size_t fill_block(int file, uint8_t block[BLOCK], int64_t place) {
    size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < BLOCK;) {
        got = pread(file, block + size, BLOCK - size, (off_t)place + (off_t)size);
        size += got > 0 ? (size_t)got : 0;
        got = got < 0 && errno == EINTR ? 1 : got;
    }
    return size;
}

static td_status read_log(reader *r, int file, td_error *error) {
    static const uint8_t magic[FILE_HEAD] = {':', 'W', '&', 'B', 0xe1, 0xbe, 0};
    uint8_t *block = td__calloc(BLOCK, 1);
    td_status status = block ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    size_t size = BLOCK;
    for (int64_t place = 0; !status && size == BLOCK; place += BLOCK) {
        size = fill_block(file, block, place);
        if (place == 0 && (size < FILE_HEAD || memcmp(block, magic, FILE_HEAD) != 0)) {
            status = td_error_set(error, TD_FORMAT, "%s is no file of wandb, or of another version",
                                  r->name);
        } else {
            status = read_block(r, block, size, place == 0 ? FILE_HEAD : 0, place, error);
        }
    }
    if (!status && r->inside) {
        td__run_problem(r->intake->problems, "%s: the last record is not all there", r->name);
    }
    td__free(block);
    return status;
}

static td_status read_file(td__intake *intake, const char *path, td_error *error) {
    const char *slash = strrchr(path, '/');
    reader r = {.intake = intake, .name = slash ? slash + 1 : path};
    struct stat about;
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        td_status status = td_error_set(error, TD_IO, "%s: %s", path,
                                        file < 0 ? td__file_reason(errno) : "it is no file");
        if (file >= 0) {
            close(file);
        }
        return status;
    }
    r.it = td__calloc(1, sizeof *r.it);
    r.many = td__calloc(1, sizeof *r.many);
    td_status status = r.it && r.many ? read_log(&r, file, error)
                                      : td_error_set(error, TD_MEMORY, "out of memory");
    close(file);
    td__free(r.it);
    td__free(r.many);
    td__free(r.record);
    return status;
}

/* ---- Folders -------------------------------------------------------------------------------- */

static bool is_name(const char *name) {
    return strncmp(name, "run-", 4) == 0 && td__ends_in(name, ".wandb");
}

/* The path of the folder's file, the first by name; false when there is none. */
static bool find_file(const char *folder, char path[MAX_NAME]) {
    char best[256] = "";
    DIR *opened = opendir(folder);
    for (const struct dirent *entry; opened && (entry = readdir(opened));) {
        if (is_name(entry->d_name) && (!*best || strcmp(entry->d_name, best) < 0)) {
            (void)snprintf(best, sizeof best, "%s", entry->d_name);
        }
    }
    if (opened) {
        closedir(opened);
    }
    int length = snprintf(path, MAX_NAME, "%s/%s", folder, best);
    return *best && length > 0 && length < MAX_NAME;
}

static bool is_run(const char *path) {
    char file[MAX_NAME];
    return td__ends_in(path, ".wandb") || find_file(path, file);
}

static td_status read_run_folder(td__intake *intake, const char *path, td_error *error) {
    char file[MAX_NAME];
    return find_file(path, file) ? read_file(intake, file, error) : read_file(intake, path, error);
}

const td__foreign td__foreign_wandb = {.name = "wandb",
                                       .what = "wandb's run-*.wandb",
                                       .mark = ".wandb",
                                       .is_run = is_run,
                                       .read = read_run_folder};
