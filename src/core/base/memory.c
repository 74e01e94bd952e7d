/* Checked allocation with a counter and an injectable failure. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Relaxed: a counter that only tests read, and a test's own thread sets the trap. */
static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t fail_at;

static bool may_allocate(void) {
    uint64_t number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    uint64_t trap = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return trap == 0 || number != trap;
}

void td__allocation_fail_at(uint64_t n) {
    uint64_t now = atomic_load_explicit(&allocations, memory_order_relaxed);
    atomic_store_explicit(&fail_at, n ? now + n : 0, memory_order_relaxed);
}

uint64_t td__allocation_count(void) {
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

void *td__calloc(size_t count, size_t size) {
    return may_allocate() ? calloc(count ? count : 1, size ? size : 1) : NULL;
}

void *td__realloc(void *pointer, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || !may_allocate()) {
        return NULL;
    }
    return realloc(pointer, bytes ? bytes : 1);
}

char *td__strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = td__calloc(size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

void td__free(void *pointer) {
    free(pointer);
}

/* Only advice: fewer page faults and TLB misses where the system grants it. */
static void prefer_huge_pages(void *memory, size_t size) {
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + size) & ~(page - 1);
    if (start < end) {
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
    }
}

void *td__aligned_alloc(size_t size) {
    size_t rounded;
    if (__builtin_add_overflow(size, (size_t)(TD__ALIGNMENT - 1), &rounded) || !may_allocate()) {
        return NULL;
    }
    rounded &= ~(size_t)(TD__ALIGNMENT - 1);
    void *memory = aligned_alloc(TD__ALIGNMENT, rounded ? rounded : TD__ALIGNMENT);
    if (memory && rounded >= (size_t)4 << 20) {
        prefer_huge_pages(memory, rounded);
    }
    return memory;
}

void td__aligned_free(void *pointer) {
    free(pointer);
}

bool td__grow(void *items, size_t *capacity, size_t needed, size_t maximum, size_t size) {
    if (needed <= *capacity) {
        return true;
    }
    if (needed > maximum) {
        return false;
    }
    size_t wanted = *capacity > maximum / 2 ? maximum : *capacity * 2;
    if (wanted < needed) {
        wanted = needed;
    }
    if (wanted < 8 && maximum >= 8) {
        wanted = 8;
    }
    void *old;
    memcpy(&old, items, sizeof old);
    void *grown = td__realloc(old, wanted, size);
    if (!grown) {
        return false;
    }
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}
