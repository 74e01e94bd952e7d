/* Bump allocation for one step: everything is given back at once by a reset.
 *
 * An arena is reference-counted. Its owner holds one reference. Code that keeps its memory past the
 * step (the deck) takes another; the owner then does not use the arena until it is the only holder.
 * Allocation and reset belong to the owner's thread; ref and unref may be called from any.
 */
#ifndef TAPEDECK_BASE_ARENA_H
#define TAPEDECK_BASE_ARENA_H

#include "tapedeck/base.h"

typedef struct td__arena td__arena;

td__arena *td__arena_create(void);
/* Reserves one block of that many bytes if memory allows it, so that a step that uses them allocates
 * no other. */
void td__arena_reserve(td__arena *arena, size_t bytes);
void td__arena_ref(td__arena *arena);
/* Frees the arena with its last reference. Accepts NULL. */
void td__arena_unref(td__arena *arena);
/* True when the owner holds the only reference. */
bool td__arena_is_sole(const td__arena *arena);
/* Whether all of these bytes are the arena's own: only those stay as they are while it is held. */
bool td__arena_holds(const td__arena *arena, const void *data, size_t bytes);

/* Aligned to TD__ALIGNMENT, not zeroed; NULL when memory is exhausted. */
void *td__arena_alloc(td__arena *arena, size_t bytes);
/* From now on allocation fails rather than hold more than this from the system; 0: no limit. */
void td__arena_limit(td__arena *arena, size_t bytes);
/* Gives everything back. Room that was needed in several pieces becomes one piece, so that a step
 * like the last one allocates nothing. */
void td__arena_reset(td__arena *arena);
/* Bytes given out since the last reset. */
size_t td__arena_used(const td__arena *arena);
/* Bytes held from the system. */
size_t td__arena_capacity(const td__arena *arena);

#endif
