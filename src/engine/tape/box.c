/* Boxes: axes that are taken whole are merged into the one before, so that the innermost copies are
 * as long as can be. */
#include "tape/box.h"

#include "tape/kernels.h"
#include "tape/parallel.h"

#include <string.h>

typedef struct box_work {
    int32_t rank;              /* merged axes, at least 1 */
    int64_t size[TD_MAX_RANK]; /* of the box */
    int64_t step[TD_MAX_RANK]; /* of the whole array */
    int64_t lines;             /* product of all sizes but the last */
    float *whole;              /* the box's first element in it */
    float *part;
    bool add, write;
} box_work;

static void move_part(const box_work *w, float *whole, float *part) {
    int64_t n = w->size[w->rank - 1];
    float *to = w->write ? whole : part;
    const float *from = w->write ? part : whole;
    if (w->add) {
        td__kernels()->add(n, to, from, to);
    } else {
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

static void move_lines(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const box_work *w = context;
    int64_t index[TD_MAX_RANK] = {0}, offset = 0, rest = begin;
    for (int32_t i = w->rank - 2; i >= 0; i--) {
        index[i] = rest % w->size[i];
        rest /= w->size[i];
        offset += index[i] * w->step[i];
    }
    for (int64_t line = begin; line < end; line++) {
        move_part(w, w->whole + offset, w->part + line * w->size[w->rank - 1]);
        for (int32_t i = w->rank - 2; i >= 0; i--) {
            offset += w->step[i];
            if (++index[i] < w->size[i]) {
                break;
            }
            offset -= w->step[i] * w->size[i];
            index[i] = 0;
        }
    }
}

static void copy_box(const td__box *box, float *whole, float *part, bool add, bool write) {
    box_work w = {.rank = 1, .size = {1}, .step = {1}, .whole = whole, .part = part};
    w.add = add;
    w.write = write;
    int64_t step = 1, count = 1;
    int32_t rank = box->whole.rank, used = 0;
    int64_t sizes[TD_MAX_RANK + 1], steps[TD_MAX_RANK + 1]; /* innermost first */
    bool open = true;                                       /* the axes so far were taken whole */
    for (int32_t i = rank - 1; i >= 0; i--) {
        w.whole += box->begin[i] * step;
        count *= box->size[i];
        if (open && used > 0) {
            sizes[used - 1] *= box->size[i];
        } else {
            sizes[used] = box->size[i];
            steps[used++] = step;
        }
        open = box->size[i] == box->whole.dims[i];
        step *= box->whole.dims[i];
    }
    if (count == 0) {
        return;
    }
    w.rank = used > 0 ? used : 1;
    for (int32_t i = 0; i < used; i++) {
        w.size[i] = sizes[used - 1 - i];
        w.step[i] = steps[used - 1 - i];
    }
    w.lines = count / w.size[w.rank - 1];
    td__parallel(w.lines, 1, TD__GRAIN / w.size[w.rank - 1] + 1, move_lines, &w);
}

void td__box_read(const td__box *box, const float *whole, bool add, float *part) {
    copy_box(box, (float *)whole, part, add, false);
}

void td__box_write(const td__box *box, const float *part, bool add, float *whole) {
    copy_box(box, whole, (float *)part, add, true);
}
