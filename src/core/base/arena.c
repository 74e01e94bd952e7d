/* A list of blocks, the newest first; only the newest is allocated from. */
#include "base/arena.h"

#include "base/memory.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct block {
    struct block *next;
    size_t size; /* bytes after the header */
    size_t used;
} block;

struct td__arena {
    atomic_int references;
    block *newest;
    size_t capacity; /* sum of all blocks' sizes */
    size_t limit;    /* of the capacity; 0: none */
};

enum { FIRST_BLOCK = 64 * 1024 };

static const size_t header_size =
    (sizeof(block) + TD__ALIGNMENT - 1) & ~(size_t)(TD__ALIGNMENT - 1);

td__arena *td__arena_create(void) {
    td__arena *arena = td__calloc(1, sizeof *arena);
    if (arena) {
        atomic_init(&arena->references, 1);
    }
    return arena;
}

void td__arena_ref(td__arena *arena) {
    /* Relaxed: the caller already holds the arena through its owner. */
    atomic_fetch_add_explicit(&arena->references, 1, memory_order_relaxed);
}

static void free_blocks(td__arena *arena) {
    block *next;
    for (block *item = arena->newest; item; item = next) {
        next = item->next;
        td__aligned_free(item);
    }
    arena->newest = NULL;
    arena->capacity = 0;
}

void td__arena_unref(td__arena *arena) {
    /* Acquire-release: the thread that frees or reuses the memory sees all that holders did with it. */
    if (arena && atomic_fetch_sub_explicit(&arena->references, 1, memory_order_acq_rel) == 1) {
        free_blocks(arena);
        td__free(arena);
    }
}

bool td__arena_is_sole(const td__arena *arena) {
    return atomic_load_explicit(&arena->references, memory_order_acquire) == 1;
}

bool td__arena_holds(const td__arena *arena, const void *data, size_t bytes) {
    for (const block *item = arena->newest; item; item = item->next) {
        uintptr_t first = (uintptr_t)item + header_size, at = (uintptr_t)data;
        if (at >= first && at - first <= item->used && bytes <= item->used - (at - first)) {
            return true;
        }
    }
    return false;
}

static block *add_block(td__arena *arena, size_t size) {
    size_t total;
    if (__builtin_add_overflow(size, header_size, &total) ||
        (arena->limit &&
         (arena->capacity > arena->limit || size > arena->limit - arena->capacity))) {
        return NULL;
    }
    block *added = td__aligned_alloc(total);
    if (!added) {
        return NULL;
    }
    *added = (block){.next = arena->newest, .size = size};
    arena->newest = added;
    arena->capacity += size;
    return added;
}

void *td__arena_alloc(td__arena *arena, size_t bytes) {
    size_t rounded;
    if (__builtin_add_overflow(bytes, (size_t)(TD__ALIGNMENT - 1), &rounded)) {
        return NULL;
    }
    rounded &= ~(size_t)(TD__ALIGNMENT - 1);
    block *from = arena->newest;
    if (!from || rounded > from->size - from->used) {
        size_t size = arena->capacity > FIRST_BLOCK ? arena->capacity : FIRST_BLOCK;
        from = add_block(arena, size > rounded ? size : rounded);
        if (!from) {
            from = add_block(arena, rounded); /* doubling was too much to ask for */
        }
        if (!from) {
            return NULL;
        }
    }
    void *memory = (char *)from + header_size + from->used;
    from->used += rounded;
    return memory;
}

void td__arena_reserve(td__arena *arena, size_t bytes) {
    const block *from = arena->newest;
    if (bytes > 0 && (!from || bytes > from->size - from->used)) {
        (void)add_block(arena, bytes); /* on failure it is taken piece by piece */
    }
}

void td__arena_limit(td__arena *arena, size_t bytes) {
    arena->limit = bytes;
}

size_t td__arena_used(const td__arena *arena) {
    size_t used = 0;
    for (const block *item = arena->newest; item; item = item->next) {
        used += item->used;
    }
    return used;
}

void td__arena_reset(td__arena *arena) {
    block *newest = arena->newest;
    if (newest && newest->next) {
        size_t needed = td__arena_used(arena);
        free_blocks(arena);
        newest = add_block(arena, needed); /* on failure the next allocation tries again */
    }
    if (newest) {
        newest->used = 0;
    }
}

size_t td__arena_capacity(const td__arena *arena) {
    return arena->capacity;
}
