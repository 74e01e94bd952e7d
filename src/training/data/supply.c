/* A block is ABSENT, then TAKEN by its maker, then PRESENT. One lock has it all; a block that is
 * PRESENT is seen without it. What failed once has failed for good. */
#include "data/supply.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { ABSENT, TAKEN, PRESENT };

struct td__supply {
    td__supply_options as;
    int64_t blocks;
    uint8_t *rooms[TD__SUPPLY_MAKERS]; /* for a block on its way to the file */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Changed under the lock. PRESENT is stored with release order behind the block's bytes, so
     * that who loads it with acquire order may read them. */
    _Atomic uint8_t *states;
    _Atomic bool complete;      /* all PRESENT, in the same order */
    _Atomic bool failed;        /* error is there, in the same order */
    td_error error;             /* written once, before failed */
    bool failing, asking, stop; /* the lock's: error is on its way; ASKING is at work; end soon */
    int64_t left;               /* the lock's: blocks that are not PRESENT */
    int64_t next;               /* the lock's: no block before it is ABSENT */
};

td__supply *td__supply_create(const td__supply_options *options, td_error *error) {
    td__supply *supply = td__calloc(1, sizeof *supply);
    int64_t rows = options->rows, in_block = options->rows_in_block;
    int64_t blocks = (rows + in_block - 1) / in_block;
    size_t room = (size_t)in_block * options->row_size;
    _Atomic uint8_t *states = td__calloc((size_t)blocks, sizeof *states);
    if (!supply || !states) {
        td_error_set(error, TD_MEMORY, "no memory for %lld rows", (long long)rows);
        options->class->release(options->user);
        td__free((void *)(uintptr_t)states);
        td__free(supply);
        return NULL;
    }
    *supply = (td__supply){.as = *options, .blocks = blocks, .states = states, .left = blocks};
    pthread_mutex_init(&supply->lock, NULL);
    pthread_cond_init(&supply->changed, NULL);
    for (int i = 0; !options->memory && i < TD__SUPPLY_MAKERS; i++) {
        supply->rooms[i] = td__realloc(NULL, room, 1);
        if (!supply->rooms[i]) {
            td_error_set(error, TD_MEMORY, "no memory for %zu bytes", room);
            td__supply_destroy(supply);
            return NULL;
        }
    }
    return supply;
}

void td__supply_destroy(td__supply *supply) {
    if (!supply) {
        return;
    }
    if (supply->started) {
        pthread_mutex_lock(&supply->lock);
        supply->stop = true;
        pthread_cond_broadcast(&supply->changed);
        pthread_mutex_unlock(&supply->lock);
        pthread_join(supply->thread, NULL);
    }
    pthread_cond_destroy(&supply->changed);
    pthread_mutex_destroy(&supply->lock);
    supply->as.class->release(supply->as.user);
    for (int i = 0; i < TD__SUPPLY_MAKERS; i++) {
        td__free(supply->rooms[i]);
    }
    td__free((void *)(uintptr_t)supply->states);
    td__free(supply);
}

static td_status make_block(td__supply *supply, int maker, int64_t block, td_error *error) {
    const td__supply_options *as = &supply->as;
    int64_t first = block * as->rows_in_block, left = as->rows - first;
    size_t at = (size_t)first * as->row_size;
    size_t size = (size_t)(left < as->rows_in_block ? left : as->rows_in_block) * as->row_size;
    uint8_t *to = as->memory ? as->memory + at : supply->rooms[maker];
    td_status status = as->class->make(as->user, maker, block, to, error);
    if (status || as->memory ||
        td__write_all(as->file, to, size, (off_t)(as->offset + (int64_t)at))) {
        return status;
    }
    return td_error_set(error, TD_IO,
                        "cannot write to the cache folder: %s; TAPEDECK_CACHE names "
                        "another one",
                        strerror(errno));
}

/* Under the lock. */
static void set_failed(td__supply *supply, td_status status, const td_error *error) {
    supply->failing = true;
    supply->error = *error;
    supply->error.status = status;
    atomic_store_explicit(&supply->failed, true, memory_order_release);
    pthread_cond_broadcast(&supply->changed);
}

/* Under the lock, which is released meanwhile. Of several that fail the first one counts. */
static void fail_supply(td__supply *supply, td_status status, const td_error *found) {
    const td__supply_class *class = supply->as.class;
    if (supply->failing) {
        return;
    }
    supply->failing = true;
    td_error error = *found;
    if (class->explain) {
        pthread_mutex_unlock(&supply->lock);
        status = class->explain(supply->as.user, status, &error);
        pthread_mutex_lock(&supply->lock);
    }
    set_failed(supply, status, &error);
}

/* Under the lock, which is released meanwhile. */
static void take_block(td__supply *supply, int maker, int64_t block) {
    td_error error = {0};
    atomic_store_explicit(&supply->states[block], TAKEN, memory_order_relaxed);
    pthread_mutex_unlock(&supply->lock);
    td_status status = make_block(supply, maker, block, &error);
    pthread_mutex_lock(&supply->lock);
    if (status) {
        fail_supply(supply, status, &error);
        return;
    }
    atomic_store_explicit(&supply->states[block], PRESENT, memory_order_release);
    supply->left--;
    pthread_cond_broadcast(&supply->changed);
}

/* Under the lock, which is released meanwhile; all blocks are PRESENT. */
static void finish_block(td__supply *supply) {
    td_error error = {0};
    const td__supply_class *class = supply->as.class;
    pthread_mutex_unlock(&supply->lock);
    td_status status = class->finish ? class->finish(supply->as.user, &error) : TD_OK;
    pthread_mutex_lock(&supply->lock);
    if (status) {
        set_failed(supply, status, &error);
    } else {
        atomic_store_explicit(&supply->complete, true, memory_order_release);
    }
}

static bool is_absent(const td__supply *supply, int64_t block) {
    return atomic_load_explicit(&supply->states[block], memory_order_relaxed) == ABSENT;
}

/* Under the lock: the first block that nobody has begun; false: all have been. */
static bool find_absent(td__supply *supply) {
    while (supply->next < supply->blocks && !is_absent(supply, supply->next)) {
        supply->next++;
    }
    return supply->next < supply->blocks;
}

static void *make_blocks(void *argument) {
    td__supply *supply = argument;
    pthread_mutex_lock(&supply->lock);
    while (!supply->stop && !supply->failing && find_absent(supply)) {
        take_block(supply, TD__SUPPLY_THREAD, supply->next);
    }
    while (supply->left && !supply->stop && !supply->failing) {
        pthread_cond_wait(&supply->changed, &supply->lock);
    }
    if (supply->left == 0) {
        finish_block(supply);
    }
    pthread_mutex_unlock(&supply->lock);
    return NULL;
}

td_status td__supply_start(td__supply *supply, td_error *error) {
    int failed = td__thread_start(&supply->thread, make_blocks, supply);
    supply->started = failed == 0;
    return failed ? td_error_set(error, TD_MEMORY, "cannot start a thread: %s", strerror(failed))
                  : TD_OK;
}

static td_status report_failure(const td__supply *supply, td_error *error) {
    return td_error_set(error, supply->error.status, "%s", supply->error.text);
}

td_status td__supply_make_all(td__supply *supply, td_error *error) {
    pthread_mutex_lock(&supply->lock);
    while (!supply->failing && find_absent(supply)) {
        take_block(supply, TD__SUPPLY_ASKING, supply->next);
    }
    if (!supply->failing) {
        finish_block(supply);
    }
    pthread_mutex_unlock(&supply->lock);
    return supply->failing ? report_failure(supply, error) : TD_OK;
}

/* Makes a block that nobody has begun; while another is at it, the next one that nobody has. */
static void fetch(td__supply *supply, int64_t block) {
    pthread_mutex_lock(&supply->lock);
    while (!atomic_load_explicit(&supply->failed, memory_order_relaxed) &&
           atomic_load_explicit(&supply->states[block], memory_order_relaxed) != PRESENT) {
        bool absent = is_absent(supply, block);
        if (!supply->asking && !supply->failing && (absent || find_absent(supply))) {
            supply->asking = true;
            take_block(supply, TD__SUPPLY_ASKING, absent ? block : supply->next);
            supply->asking = false;
            pthread_cond_broadcast(&supply->changed);
        } else {
            pthread_cond_wait(&supply->changed, &supply->lock);
        }
    }
    pthread_mutex_unlock(&supply->lock);
}

td_status td__supply_need(td__supply *supply, const int64_t *rows, int64_t count, td_error *error) {
    if (!supply || atomic_load_explicit(&supply->complete, memory_order_acquire)) {
        return TD_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        if (atomic_load_explicit(&supply->failed, memory_order_acquire)) {
            return report_failure(supply, error);
        }
        int64_t block = rows[i] / supply->as.rows_in_block;
        if (atomic_load_explicit(&supply->states[block], memory_order_acquire) != PRESENT) {
            fetch(supply, block);
        }
    }
    return atomic_load_explicit(&supply->failed, memory_order_acquire)
               ? report_failure(supply, error)
               : TD_OK;
}
