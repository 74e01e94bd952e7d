/* Size-class stacks of free buffers. */
#include "deck/pool.h"

#include "base/memory.h"

enum { SMALLEST = 256 };

/* Class c holds SMALLEST * 2^(c/4) * (4 + c%4)/4 bytes. */
static size_t class_size(int c) {
    return ((size_t)SMALLEST / 4 * (size_t)(4 + c % 4)) << (c / 4);
}

static int class_of(size_t size) {
    if (size <= SMALLEST) {
        return 0;
    }
    int power = 63 - __builtin_clzll((unsigned long long)(size - 1) / SMALLEST);
    int c = 4 * power;
    while (c < TD__POOL_CLASSES - 1 && class_size(c) < size) {
        c++;
    }
    return c;
}

size_t td__deck_pool_size(size_t size) {
    return class_size(class_of(size));
}

static void *pop_block(td__deck_pool *pool, int c) {
    struct td__kept_buffers *kept = &pool->kept_of[c];
    if (kept->count == 0) {
        return NULL;
    }
    pool->kept -= class_size(c);
    return kept->buffers[--kept->count];
}

/* Frees kept buffers, largest first, until bytes more fit. */
static void make_pool_room(td__deck_pool *pool, size_t bytes) {
    int c = TD__POOL_CLASSES - 1;
    while (c >= 0 && pool->used + pool->kept + bytes > pool->limit) {
        void *buffer = pop_block(pool, c);
        td__aligned_free(buffer);
        c -= !buffer;
    }
}

void *td__deck_pool_peek(const td__deck_pool *pool, size_t size) {
    const struct td__kept_buffers *kept = &pool->kept_of[class_of(size)];
    return kept->count ? kept->buffers[kept->count - 1] : NULL;
}

void *td__deck_pool_take(td__deck_pool *pool, size_t size) {
    int c = class_of(size);
    size_t bytes = class_size(c);
    void *buffer = bytes < size ? NULL : pop_block(pool, c);
    if (!buffer) {
        make_pool_room(pool, bytes);
        buffer = bytes < size ? NULL : td__aligned_alloc(bytes);
    }
    pool->used += buffer ? bytes : 0;
    return buffer;
}

void td__deck_pool_give(td__deck_pool *pool, void *buffer, size_t size) {
    if (!buffer) {
        return;
    }
    int c = class_of(size);
    struct td__kept_buffers *kept = &pool->kept_of[c];
    pool->used -= class_size(c);
    if (!td__grow(&kept->buffers, &kept->capacity, kept->count + 1, SIZE_MAX / sizeof(void *),
                  sizeof(void *))) {
        td__aligned_free(buffer);
        return;
    }
    kept->buffers[kept->count++] = buffer;
    pool->kept += class_size(c);
}

void td__deck_pool_release(td__deck_pool *pool) {
    for (int c = 0; c < TD__POOL_CLASSES; c++) {
        void *buffer;
        while ((buffer = pop_block(pool, c))) {
            td__aligned_free(buffer);
        }
        td__free(pool->kept_of[c].buffers);
    }
}
