#include "train/flight.h"

#include "train/trainer.h"

#include "base/clock.h"
#include "base/little.h"
#include "base/memory.h"
#include "tape/kernels.h"
#include "tensor/element.h"
#include "tensor/hash.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "flight.bin"
static const char magic[8] = "TDFLIGHT";
enum { HEADER = 32, RECORD = 48, VERSION = 1, FIRST_EVERY = 8, LARGEST_EVERY = 1 << 20 };
static const double share =
    0.001; /* of the time, for fingerprints: records of a small step take the rest of 0.5 % */

/* ---- Records as bytes ------------------------------------------------------------------------ */

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_record(uint8_t *to, const td__flight_record *record) {
    const uint64_t words[RECORD / 8] = {(uint64_t)record->step, bits_of(record->loss),
                                        bits_of(record->rate),  bits_of(record->norm),
                                        record->parameters,     record->batch};
    td__little_copy(to, words, sizeof words, sizeof *words);
}

static td__flight_record get_record(const uint8_t *from) {
    uint64_t words[RECORD / 8];
    td__little_copy(words, from, sizeof words, sizeof *words);
    return (td__flight_record){.step = (int64_t)words[0],
                               .loss = double_of(words[1]),
                               .rate = double_of(words[2]),
                               .norm = double_of(words[3]),
                               .parameters = words[4],
                               .batch = words[5]};
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void give_up(td_trainer *trainer, const char *verb) {
    td__flight *flight = &trainer->flight;
    td_error error = {0};
    td__file_error(&error, FILE_NAME, verb);
    td__trainer_unrecorded(trainer, &error);
    close(flight->file);
    flight->opened = false;
}

static off_t offset_of(int64_t record) {
    return HEADER + (off_t)record * RECORD;
}

/* Every other record goes, in place: a reader of a file that a crash left half done ends where steps no
 * longer ascend. */
static bool thin_out(td__flight *flight) {
    uint8_t block[TD__FLIGHT_BUFFER * RECORD], *out = block;
    int64_t kept = 0;
    flight->stride *= 2;
    for (int64_t at = 0, n; at < flight->count; at += n) {
        n = flight->count - at < TD__FLIGHT_BUFFER ? flight->count - at : TD__FLIGHT_BUFFER;
        if (!td__read_all(flight->file, block, (size_t)n * RECORD, offset_of(at))) {
            return false;
        }
        out = block;
        for (int64_t i = 0; i < n; i++) {
            if ((int64_t)td__load64(block + i * RECORD) % flight->stride == 0) {
                memmove(out, block + i * RECORD, RECORD);
                out += RECORD;
            }
        }
        if (!td__write_all(flight->file, block, (size_t)(out - block), offset_of(kept))) {
            return false;
        }
        kept += (out - block) / RECORD;
    }
    flight->count = kept;
    return ftruncate(flight->file, offset_of(kept)) == 0;
}

void td__flight_flush(td_trainer *trainer) {
    td__flight *flight = &trainer->flight;
    uint8_t block[TD__FLIGHT_BUFFER * RECORD];
    if (!flight->opened || flight->held == 0) {
        return;
    }
    for (size_t i = 0; i < flight->held; i++) {
        put_record(block + i * RECORD, &flight->buffer[i]);
    }
    bool good = td__write_all(flight->file, block, flight->held * RECORD, offset_of(flight->count));
    flight->count += (int64_t)flight->held;
    flight->held = 0;
    if (good && flight->count >= TD__FLIGHT_RECORDS) {
        good = thin_out(flight);
    }
    if (!good) {
        give_up(trainer, "write");
    }
}

/* ---- Fingerprints ---------------------------------------------------------------------------- */

static uint64_t hash_view(const td_view *view, uint64_t seed) {
    return td__xxh64(view->data,
                     (size_t)td__elements_from(&view->shape, 0) * td_dtype_size(view->dtype), seed);
}

uint64_t td__trainer_fingerprint(const td_trainer *trainer) {
    uint64_t hash = 1;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        td_view view = td_view_of(td_model_parameter_at(trainer->model, i)->tensor);
        hash = hash_view(&view, hash);
    }
    return hash ? hash : 1;
}

/* Of the first shard: a process that trains with others has not read the rest. */
uint64_t td__batch_fingerprint(const td_trainer *trainer) {
    const td_batch *batch = trainer->pass.batch;
    int64_t count = batch->count / trainer->shards.count;
    td_view input = batch->input, label = batch->label;
    input.shape.dims[0] = label.shape.dims[0] = count > 0 ? count : 1;
    uint64_t hash = hash_view(&input, 1);
    hash = label.data ? hash_view(&label, hash) : hash;
    return hash ? hash : 1;
}

static double gradient_norm(const td_trainer *trainer) {
    double sum = 0;
    for (size_t i = 0; i < trainer->learner.weight_count; i++) {
        const td_tensor *gradient = trainer->learner.gradients[i];
        const float *values = gradient ? td__floats(gradient) : NULL;
        for (int64_t k = 0, n; values && k < gradient->count; k += n) {
            n = gradient->count - k < 4096 ? gradient->count - k : 4096;
            sum += (double)td__kernels()->dot(n, values + k, values + k);
        }
    }
    return sqrt(sum);
}

/* The smallest power of two that keeps fingerprints within their share. */
static int64_t choose_interval(double cost, double step) {
    int64_t every = 1;
    while (every < LARGEST_EVERY && cost > share * step * (double)every) {
        every *= 2;
    }
    return every;
}

static void take_fingerprints(td_trainer *trainer, bool updated, td__flight_record *record) {
    td__flight *flight = &trainer->flight;
    double began = td__seconds();
    record->parameters = td__trainer_fingerprint(trainer);
    record->batch = td__batch_fingerprint(trainer);
    if (updated && isnan(record->norm)) {
        record->norm = gradient_norm(trainer);
    }
    double now = td__seconds();
    flight->cost = now - began;
    flight->spent += flight->cost;
    if (flight->last > 0) {
        double passed = began - flight->last;
        flight->elapsed += passed;
        flight->every =
            choose_interval(flight->cost, passed / (double)(record->step - flight->last_step));
    }
    flight->last = now;
    flight->last_step = record->step;
    flight->next = (record->step / flight->every + 1) * flight->every;
    if (now - flight->written > 1) {
        flight->written = now;
        td__flight_flush(trainer);
    }
}

/* While the pass is open: its loss and gradients are there. */
void td__flight_take(td_trainer *trainer, bool updated) {
    td__flight *flight = &trainer->flight;
    int64_t step = trainer->at.step + 1;
    if (!flight->opened || step % flight->stride) {
        return;
    }
    td__flight_record *record = &flight->buffer[flight->held];
    const td_optimizer *optimizer = trainer->learner.optimizer;
    *record = (td__flight_record){.step = step,
                                  .loss = (double)td_tensor_scalar(trainer->pass.loss),
                                  .rate = updated ? td_optimizer_rate(optimizer) : 0,
                                  .norm = (double)NAN};
    if (updated && trainer->values.gradient_norm) {
        record->norm = td_optimizer_norm(optimizer);
    }
    flight->held++;
    if (step >= flight->next || step == trainer->feed.steps) {
        take_fingerprints(trainer, updated, record);
    }
    if (flight->held == TD__FLIGHT_BUFFER) {
        td__flight_flush(trainer);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static td_status check_header(int file, int64_t *count, td_error *error) {
    uint8_t head[HEADER];
    struct stat about;
    if (fstat(file, &about) != 0 || !td__read_all(file, head, HEADER, 0)) {
        return td_error_set(error, TD_FORMAT, FILE_NAME ": it is shorter than its header");
    }
    if (memcmp(head, magic, sizeof magic) != 0) {
        return td_error_set(error, TD_FORMAT, FILE_NAME ": no flight record");
    }
    if (td__load32(head + 8) != VERSION || td__load32(head + 12) != RECORD) {
        return td_error_set(error, TD_UNSUPPORTED,
                            FILE_NAME ": version %u of a later Tapedeck; this one reads version %d",
                            td__load32(head + 8), VERSION);
    }
    *count = (about.st_size - HEADER) / RECORD;
    return TD_OK;
}

/* The records of a file, as long as their steps ascend. */
static td_status read_records(int file, int64_t count, td__flight_log *log, td_error *error) {
    enum { MAX_RECORDS = 4 * TD__FLIGHT_RECORDS };
    count = count < MAX_RECORDS ? count : MAX_RECORDS;
    uint8_t block[TD__FLIGHT_BUFFER * RECORD];
    log->records = td__calloc((size_t)count + 1, sizeof *log->records);
    if (!log->records) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    bool ascending = true;
    for (int64_t at = 0, n; ascending && at < count; at += n) {
        n = count - at < TD__FLIGHT_BUFFER ? count - at : TD__FLIGHT_BUFFER;
        if (!td__read_all(file, block, (size_t)n * RECORD, offset_of(at))) {
            return td__file_error(error, FILE_NAME, "read");
        }
        for (int64_t i = 0; ascending && i < n; i++) {
            td__flight_record record = get_record(block + i * RECORD);
            ascending = record.step > (log->count ? log->records[log->count - 1].step : 0);
            if (ascending) {
                log->records[log->count++] = record;
            }
        }
    }
    return TD_OK;
}

td_status td__flight_read(const char *run, td__flight_log *log, td_error *error) {
    *log = (td__flight_log){0};
    int folder = td__folder_open(run, error);
    if (folder < 0) {
        return TD_IO;
    }
    int file = td__file_open(folder, FILE_NAME, O_RDONLY | O_NOFOLLOW);
    int64_t count = 0;
    td_status status = file < 0 ? TD_OK : check_header(file, &count, error);
    if (!status && file >= 0) {
        status = read_records(file, count, log, error);
    }
    if (file >= 0) {
        close(file);
    }
    close(folder);
    if (status) {
        td__flight_log_release(log);
    }
    return status;
}

void td__flight_log_release(td__flight_log *log) {
    td__free(log->records);
    *log = (td__flight_log){0};
}

const td__flight_record *td__flight_find(const td__flight_log *log, int64_t step) {
    size_t low = 0, high = log->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->records[middle].step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < log->count && log->records[low].step == step ? &log->records[low] : NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static bool begin_file(td__flight *flight, int folder) {
    uint8_t head[HEADER] = {0};
    flight->file =
        openat(folder, FILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (flight->file < 0) {
        return false;
    }
    memcpy(head, magic, sizeof magic);
    td__store32(head + 8, VERSION);
    td__store32(head + 12, RECORD);
    flight->opened = true;
    return td__write_all(flight->file, head, sizeof head, 0);
}

/* A run that goes on: what is of later steps goes. One of an older version has no file yet. */
static bool continue_file(td__flight *flight, int folder, int64_t step) {
    td__flight_log log = {0};
    int64_t count = 0;
    flight->file = td__file_open(folder, FILE_NAME, O_RDWR | O_NOFOLLOW);
    if (flight->file < 0) {
        return begin_file(flight, folder);
    }
    flight->opened = true;
    if (check_header(flight->file, &count, NULL) || read_records(flight->file, count, &log, NULL)) {
        td__flight_log_release(&log);
        return false;
    }
    while (log.count && log.records[log.count - 1].step > step) {
        log.count--;
    }
    if (log.count > 1) {
        int64_t apart = log.records[log.count - 1].step - log.records[log.count - 2].step;
        while (flight->stride < apart) {
            flight->stride *= 2;
        }
    }
    flight->count = (int64_t)log.count;
    td__flight_log_release(&log);
    return ftruncate(flight->file, offset_of(flight->count)) == 0;
}

/* A run that branches off has its parent's past. */
static bool copy_log(td_trainer *trainer, const td__flight_log *past, int64_t step) {
    td__flight *flight = &trainer->flight;
    for (size_t i = 0; flight->opened && i < past->count && past->records[i].step <= step; i++) {
        flight->buffer[flight->held++] = past->records[i];
        if (flight->held == TD__FLIGHT_BUFFER) {
            td__flight_flush(trainer);
        }
    }
    return flight->opened;
}

void td__flight_open(td_trainer *trainer) {
    td__flight *flight = &trainer->flight;
    *flight = (td__flight){.stride = 1, .every = FIRST_EVERY, .next = trainer->at.step + 1};
    flight->written = td__seconds();
    bool good = trainer->resume ? continue_file(flight, trainer->recording.opened, trainer->at.step)
                                : begin_file(flight, trainer->recording.opened);
    if (!good) {
        td_error error = {0};
        td__file_error(&error, FILE_NAME, "write");
        td__trainer_unrecorded(trainer, &error);
        if (flight->opened) {
            close(flight->file);
        }
        flight->opened = false;
        return;
    }
    if (trainer->past.count) {
        (void)copy_log(trainer, &trainer->past, trainer->at.step);
    }
}

/* Notes what it has cost; while the deck is open. */
void td__flight_close(td_trainer *trainer) {
    td__flight *flight = &trainer->flight;
    td__flight_flush(trainer);
    if (!flight->opened) {
        return;
    }
    char text[64];
    (void)snprintf(text, sizeof text, "%lld", (long long)flight->every);
    (void)td_deck_note(trainer->recording.deck, "deck.flight_every", text);
    if (flight->elapsed > 0) {
        (void)snprintf(text, sizeof text, "%.3g", flight->spent / flight->elapsed);
        (void)td_deck_note(trainer->recording.deck, "deck.flight_share", text);
    }
    close(flight->file);
    flight->opened = false;
}
