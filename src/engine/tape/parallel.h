/* Splitting work over the compute threads. */
#ifndef TAPEDECK_TAPE_PARALLEL_H
#define TAPEDECK_TAPE_PARALLEL_H

#include "tape/threads.h"
#include "tapedeck/tape.h"

/* body does items [begin, end) as part number part (0 <= part < TD__MAX_THREADS). */
typedef void td__parallel_body(void *context, int part, int64_t begin, int64_t end);

/* Runs body over [0, count) in contiguous parts, one per thread, cut at multiples of step. With
 * fewer than minimum items per thread fewer threads are used. The parts depend on the arguments and
 * td_threads() alone, so that sums per part are the same bits every time. Returns the parts. */
int td__parallel(int64_t count, int64_t step, int64_t minimum, td__parallel_body *body,
                 void *context);

/* From now on work is cut as if there were `parts` threads, whatever their number: results are the same bits for any.
 * td_threads() returns `parts`. td_threads_set ends it. */
void td__parallel_cut(int parts, int threads);

/* Work that is worth a thread: below it, or not much above on a busy machine, waking one costs more
 * than it saves. Elements of element-wise work, and multiply-adds of products. */
#define TD__GRAIN 32768
#define TD__PRODUCT_GRAIN 400000

#endif
