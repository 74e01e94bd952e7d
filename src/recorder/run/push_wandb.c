/* A folder as wandb leaves it offline, FOLDER/offline-run-TIME-ID/run-ID.wandb, which `wandb sync` sends. wandb.c has the
 * layout of the file. */
#include "run/push.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

enum { BLOCK = 32768, PIECE_HEAD = 7, MAX_RECORD = 1 << 28, ID = 8 };

/* Bytes that grow. */
typedef struct buffer {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
} buffer;

typedef struct wandb_log {
    td__push *push;
    FILE *file;
    int64_t place;  /* in the file */
    int64_t number; /* of records */
    buffer record, part, item, json;
    bool any; /* something of the step */
    int64_t step;
    double wall_time;
    double setting; /* that is being read, where it is a number */
} wandb_log;

/* ---- Messages ------------------------------------------------------------------------------- */

static void put_in_buffer(buffer *b, const void *data, size_t size) {
    b->failed = b->failed || !td__grow(&b->data, &b->capacity, b->size + size + 1, MAX_RECORD, 1);
    if (!b->failed) {
        memcpy(b->data + b->size, data, size);
        b->size += size;
    }
}

static void put_varint(buffer *b, uint64_t number) {
    for (; number > 127; number >>= 7) {
        put_in_buffer(b, &(uint8_t){(uint8_t)(number | 128)}, 1);
    }
    put_in_buffer(b, &(uint8_t){(uint8_t)number}, 1);
}

static void put_bytes(buffer *b, uint32_t number, const void *data, size_t size) {
    put_varint(b, (uint64_t)number << 3 | 2);
    put_varint(b, size);
    put_in_buffer(b, data, size);
}

static void put_string(buffer *b, uint32_t number, const char *text) {
    put_bytes(b, number, text, strlen(text));
}

static void put_number(buffer *b, uint32_t number, int64_t value) {
    put_varint(b, (uint64_t)number << 3);
    put_varint(b, (uint64_t)value);
}

/* ---- The log -------------------------------------------------------------------------------- */

static void write_piece(wandb_log *l, int kind, const uint8_t *data, size_t size) {
    uint8_t head[PIECE_HEAD] = {0, 0, 0, 0, (uint8_t)size, (uint8_t)(size >> 8), (uint8_t)kind};
    uint32_t crc = (uint32_t)crc32(crc32(0, head + 6, 1), data, (uInt)size);
    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(crc >> (8 * i));
    }
    (void)fwrite(head, 1, sizeof head, l->file);
    (void)fwrite(data, 1, size, l->file);
    l->place += PIECE_HEAD + (int64_t)size;
}

/* A Record with one message in it. */
static void write_record(wandb_log *l, uint32_t kind, buffer *message) {
    static const uint8_t zeros[PIECE_HEAD];
    enum { FULL = 1, FIRST, MIDDLE, LAST, NUMBER = 1 };
    buffer *r = &l->record;
    r->size = 0;
    put_number(r, NUMBER, ++l->number);
    put_bytes(r, kind, message->data, message->size);
    r->failed = r->failed || message->failed;
    message->size = 0;
    bool first = true;
    for (size_t at = 0; !r->failed && (first || at < r->size);) {
        size_t room = (size_t)(BLOCK - l->place % BLOCK);
        if (room < PIECE_HEAD) {
            (void)fwrite(zeros, 1, room, l->file);
            l->place += (int64_t)room;
            continue;
        }
        size_t left = r->size - at, size = left < room - PIECE_HEAD ? left : room - PIECE_HEAD;
        bool last = size == left;
        write_piece(l, first ? (last ? FULL : FIRST) : (last ? LAST : MIDDLE), r->data + at, size);
        at += size;
        first = false;
    }
}

/* ---- Values as JSON ------------------------------------------------------------------------- */

static void json_number(buffer *b, double value) {
    char text[TD__NUMBER_ROOM];
    const char *special = value != value       ? "NaN"
                          : value - value != 0 ? (value > 0 ? "Infinity" : "-Infinity")
                                               : NULL;
    size_t length = special ? strlen(special) : td__format_double(text, value);
    put_in_buffer(b, special ? special : text, length);
}

static void json_text(buffer *b, const char *text) {
    size_t room = TD__JSON_STRING_SIZE(strlen(text));
    b->failed = b->failed || !td__grow(&b->data, &b->capacity, b->size + room, MAX_RECORD, 1);
    if (!b->failed) {
        b->size += td__json_string((char *)b->data + b->size, text);
    }
}

/* {"_type": "histogram", "values": counts, "bins": edges}. Where ranges do not meet, an empty one is between them. */
static void json_histogram(buffer *b, const td_histogram *histogram) {
    static const char begin[] = "{\"_type\":\"histogram\",\"values\":[", middle[] = "],\"bins\":[",
                      end[] = "]}";
    for (int pass = 0; pass < 2; pass++) {
        put_in_buffer(b, pass ? middle : begin, pass ? sizeof middle - 1 : sizeof begin - 1);
        for (int32_t i = 0; i < histogram->bin_count; i++) {
            td_range range = td_histogram_range(histogram, i);
            bool gap = i > 0 && td_histogram_range(histogram, i - 1).right != range.left;
            if (i) {
                put_in_buffer(b, ",", 1);
            }
            if (gap && !pass) {
                put_in_buffer(b, "0,", 2);
            } else if (gap || (pass && i == 0)) {
                json_number(b, range.left);
                put_in_buffer(b, ",", 1);
            }
            json_number(b, pass ? range.right : range.count);
        }
    }
    put_in_buffer(b, end, sizeof end - 1);
}

/* ---- Records -------------------------------------------------------------------------------- */

enum { ITEM_KEY = 1, ITEM_JSON = 16, LIST = 1 };

/* An item with what is in l->json. */
static void add_item(wandb_log *l, buffer *to, const char *key) {
    l->item.size = 0;
    put_string(&l->item, ITEM_KEY, key);
    put_bytes(&l->item, ITEM_JSON, l->json.data, l->json.size);
    to->failed = to->failed || l->item.failed || l->json.failed;
    put_bytes(to, LIST, l->item.data, l->item.size);
    l->json.size = 0;
}

static void end_step(wandb_log *l) {
    enum { HISTORY = 2, HISTORY_STEP = 2, NUMBER = 1 };
    if (!l->any) {
        return;
    }
    json_number(&l->json, (double)l->step);
    add_item(l, &l->part, "_step");
    json_number(&l->json, l->wall_time);
    add_item(l, &l->part, "_timestamp");
    l->item.size = 0;
    put_number(&l->item, NUMBER, l->step);
    put_bytes(&l->part, HISTORY_STEP, l->item.data, l->item.size);
    write_record(l, HISTORY, &l->part);
    l->any = false;
}

static td_status take_record(void *user, const td_record *record, td_error *error) {
    wandb_log *l = user;
    (void)error;
    if (record->step < 0) {
        l->push->done.left_out++;
        td__push_say(l->push, "%s: steps below 0 are left out", record->signal);
        return TD_OK;
    }
    if (record->form != TD_SCALAR && record->form != TD_TEXT && record->form != TD_HISTOGRAM) {
        l->push->done.left_out++;
        return TD_OK;
    }
    if (l->any && record->step != l->step) {
        end_step(l);
    }
    l->any = true;
    l->step = record->step;
    l->wall_time = record->wall_time;
    if (record->form == TD_SCALAR) {
        json_number(&l->json, record->value);
    } else if (record->form == TD_TEXT) {
        json_text(&l->json, record->text);
    } else {
        json_histogram(&l->json, record->histogram);
    }
    add_item(l, &l->part, record->signal);
    l->push->done.written++;
    return TD_OK;
}

static void take_setting(void *user, const char *key, const char *value) {
    wandb_log *l = user;
    const char *end = td__parse_float64(value, &l->setting);
    if (strcmp(key, "yaml") == 0) {
        return;
    }
    if (end && !*end) {
        json_number(&l->json, l->setting);
    } else {
        json_text(&l->json, value);
    }
    add_item(l, &l->part, key);
}

static void write_head(wandb_log *l) {
    enum { HEADER = 21, VERSION = 1, PRODUCER = 1, CONSUMER = 2 };
    put_string(&l->item, PRODUCER, "0.19.0");
    put_string(&l->item, CONSUMER, "0.8.0");
    put_bytes(&l->part, VERSION, l->item.data, l->item.size);
    write_record(l, HEADER, &l->part);
}

static void write_run(wandb_log *l, const char *id) {
    enum { RUN = 17, RUN_ID = 1, PROJECT = 3, CONFIG = 4, TITLE = 8, START = 17, SECONDS = 1 };
    buffer config = {0}, message = {0};
    (void)td_run_settings(l->push->run, take_setting, l, NULL);
    put_in_buffer(&config, l->part.data ? l->part.data : (const uint8_t *)"", l->part.size);
    l->part.size = 0;
    put_string(&message, RUN_ID, id);
    put_string(&message, PROJECT, "tapedeck");
    put_bytes(&message, CONFIG, config.data, config.size);
    put_string(&message, TITLE, l->push->title);
    l->item.size = 0;
    put_number(&l->item, SECONDS, (int64_t)l->push->info.started);
    put_bytes(&message, START, l->item.data, l->item.size);
    message.failed = message.failed || config.failed;
    write_record(l, RUN, &message);
    td__free(config.data);
    td__free(message.data);
}

static td_status write_log(wandb_log *l, const char *id, td_error *error) {
    enum { EXIT = 18, EXIT_CODE = 1 };
    static const uint8_t magic[] = {':', 'W', '&', 'B', 0xe1, 0xbe, 0};
    (void)fwrite(magic, 1, sizeof magic, l->file);
    l->place = sizeof magic;
    write_head(l);
    write_run(l, id);
    td_status status = td_run_read(l->push->run, &l->push->query, take_record, l, error);
    end_step(l);
    put_number(&l->part, EXIT_CODE, l->push->info.state == TD_RUN_FAILED);
    write_record(l, EXIT, &l->part);
    return status             ? status
           : l->record.failed ? td_error_set(error, TD_MEMORY, "out of memory for a record")
                              : TD_OK;
}

/* The folder is complete when it has its name. */
td_status td__push_wandb(td__push *push, td_error *error) {
    char id[TD__PUSH_ID], name[96], part[112], file[64], path[TD__PUSH_PATH], final[TD__PUSH_PATH];
    struct tm utc;
    time_t started =
        (time_t)(push->info.started > 0 && push->info.started < 1e11 ? push->info.started : 0);
    char when[32] = "19700101_000000";
    td__push_id(id, ID);
    if (gmtime_r(&started, &utc)) {
        (void)strftime(when, sizeof when, "%Y%m%d_%H%M%S", &utc);
    }
    (void)snprintf(name, sizeof name, "offline-run-%s-%s", when, id);
    (void)snprintf(part, sizeof part, ".%s.part", name);
    (void)snprintf(file, sizeof file, "run-%s.wandb", id);
    char folder[TD__PUSH_PATH];
    td_status status = td__push_folder(push->folder, error);
    status = status ? status : td__push_join(folder, push->folder, part, error);
    status = status ? status : td__push_join(final, push->folder, name, error);
    status = status ? status : td__push_folder(folder, error);
    status = status ? status : td__push_join(path, folder, file, error);
    wandb_log l = {.push = push, .file = status ? NULL : fopen(path, "wxe")};
    if (!status && !l.file) {
        status = td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
    }
    if (!status) {
        status = write_log(&l, id, error);
        td_status closed = td__push_close(l.file, path, status ? NULL : error);
        status = status ? status : closed;
    }
    if (!status && rename(folder, final) != 0) {
        status = td_error_set(error, TD_IO, "%s: %s", final, strerror(errno));
    }
    buffer *const all[] = {&l.record, &l.part, &l.item, &l.json};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        td__free(all[i]->data);
    }
    (void)snprintf(push->done.out, sizeof push->done.out, "%s", final);
    return status;
}
