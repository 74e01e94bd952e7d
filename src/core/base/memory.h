/* Checked allocation. Everything the library allocates goes through here, so that tests can make
 * the n-th call fail. */
#ifndef TAPEDECK_BASE_MEMORY_H
#define TAPEDECK_BASE_MEMORY_H

#include "tapedeck/base.h"

/* The items of an array. */
#define TD__COUNT(array) (sizeof(array) / sizeof *(array))

/* A cache line, and a full AVX-512 register. */
#define TD__ALIGNMENT 64

/* Zero-filled; NULL when count * size overflows or memory is exhausted. */
void *td__calloc(size_t count, size_t size);
/* Keeps pointer valid on failure (returns NULL). */
void *td__realloc(void *pointer, size_t count, size_t size);
char *td__strdup(const char *text);
void td__free(void *pointer);

/* TD__ALIGNMENT-aligned, not zeroed; release with td__aligned_free. */
void *td__aligned_alloc(size_t size);
void td__aligned_free(void *pointer);

/* Grows *items (an array of size-byte items with room for *capacity) to hold at least needed
 * items, at most maximum; doubles. False, with everything unchanged, when that is not possible. */
bool td__grow(void *items, size_t *capacity, size_t needed, size_t maximum, size_t size);

/* Tests: the n-th allocation from now fails once (0: none), and how many were made so far. */
void td__allocation_fail_at(uint64_t n);
uint64_t td__allocation_count(void);

/* --- how much there is (memory_limit.c), in bytes ------------------------------------------- */

/* What this process may take: of the machine's memory, its control groups' limits (a container's) and
 * its resource limits the smallest. */
size_t td__memory_limit(void);
/* Half of that: the default limit where none is given. */
size_t td__memory_half(void);
/* The limit of control groups alone; SIZE_MAX: none. groups: a file as /proc/self/cgroup; root: the
 * folder that the groups are in. */
size_t td__memory_group_limit(const char *groups, const char *root);

/* Overflow-checked product of non-negative numbers; false on overflow. */
static inline bool td__multiply(int64_t a, int64_t b, int64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

#endif
