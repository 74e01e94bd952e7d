/* Views of memory in any order, made row-major.
 *
 * Dimensions of one element are left out and neighbours that lie in one another's order are joined,
 * so that most views come down to two or three loops. The two innermost are walked in tiles: in one
 * of them the source is far apart, in the other the copy, and a tile of both stays in the cache. */
#include "tensor/element.h"

#include "base/memory.h"

double td_view_element(const td_view *view, int64_t i) {
    return td__element(view, i);
}

typedef struct walk {
    int32_t rank;
    int64_t dims[TD_MAX_RANK], from[TD_MAX_RANK], to[TD_MAX_RANK]; /* strides, in elements */
} walk;

static walk plan_walk(const td_shape *shape, const int64_t *strides) {
    walk w = {0};
    int64_t row_major[TD_MAX_RANK], size = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        row_major[i] = size;
        size *= shape->dims[i];
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 1) {
            continue;
        }
        int32_t last = w.rank - 1;
        if (last >= 0 && w.from[last] == strides[i] * shape->dims[i]) {
            w.dims[last] *= shape->dims[i];
            w.from[last] = strides[i];
            w.to[last] = row_major[i];
        } else {
            w.dims[w.rank] = shape->dims[i];
            w.from[w.rank] = strides[i];
            w.to[w.rank++] = row_major[i];
        }
    }
    return w;
}

/* Whether the memory is row-major as it is. */
static bool is_plain(const walk *w) {
    return w->rank == 0 || (w->rank == 1 && w->from[0] == 1);
}

/* copy[i][k] = source[i][k], the last two dimensions. */
#define DEFINE_COPY(name, type)                                                                    \
    static void name(const walk *w, const type *source, type *copy) {                              \
        enum { TILE = 32 };                                                                        \
        int32_t a = w->rank - 2, b = w->rank - 1;                                                  \
        for (int64_t i0 = 0; i0 < w->dims[a]; i0 += TILE) {                                        \
            int64_t i1 = i0 + TILE < w->dims[a] ? i0 + TILE : w->dims[a];                          \
            for (int64_t k0 = 0; k0 < w->dims[b]; k0 += TILE) {                                    \
                int64_t k1 = k0 + TILE < w->dims[b] ? k0 + TILE : w->dims[b];                      \
                for (int64_t i = i0; i < i1; i++) {                                                \
                    const type *in = source + i * w->from[a];                                      \
                    type *out = copy + i * w->to[a];                                               \
                    for (int64_t k = k0; k < k1; k++) {                                            \
                        out[k] = in[k * w->from[b]];                                               \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
DEFINE_COPY(copy_1, uint8_t)
DEFINE_COPY(copy_2, uint16_t)
DEFINE_COPY(copy_4, uint32_t)
DEFINE_COPY(copy_8, uint64_t)

static void copy_plane(const walk *w, size_t size, const char *source, char *copy) {
    switch (size) {
    case 1:
        copy_1(w, (const uint8_t *)source, (uint8_t *)copy);
        break;
    case 2:
        copy_2(w, (const uint16_t *)(const void *)source, (uint16_t *)(void *)copy);
        break;
    case 4:
        copy_4(w, (const uint32_t *)(const void *)source, (uint32_t *)(void *)copy);
        break;
    default:
        copy_8(w, (const uint64_t *)(const void *)source, (uint64_t *)(void *)copy);
    }
}

/* One plane for each index of the outer dimensions. */
static void copy_all(const walk *w, size_t size, const char *source, char *copy) {
    int64_t index[TD_MAX_RANK] = {0}, step = (int64_t)size;
    for (;;) {
        copy_plane(w, size, source, copy);
        int32_t axis = w->rank - 3;
        for (; axis >= 0; axis--) {
            source += w->from[axis] * step;
            copy += w->to[axis] * step;
            if (++index[axis] < w->dims[axis]) {
                break;
            }
            source -= w->dims[axis] * w->from[axis] * step;
            copy -= w->dims[axis] * w->to[axis] * step;
            index[axis] = 0;
        }
        if (axis < 0) {
            return;
        }
    }
}

/* A walk of one dimension is one of two. */
static void add_dimension(walk *w) {
    if (w->rank == 1) {
        w->dims[1] = w->dims[0];
        w->from[1] = w->from[0];
        w->to[1] = w->to[0];
        w->dims[0] = 1;
        w->from[0] = w->to[0] = 0;
        w->rank = 2;
    }
}

static void release_view(const td_view *view) {
    if (view->release) {
        view->release(view->owner);
    }
}

td_status td_view_pack(const td_view *view, const int64_t *strides, td_view *packed,
                       td_error *error) {
    int64_t count;
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status == TD_OK && count > 0 && !view->data) {
        status = td_error_set(error, TD_INVALID, "the view of %lld elements has no data",
                              (long long)count);
    }
    if (status != TD_OK) {
        release_view(view);
        return status;
    }
    walk w = count && strides ? plan_walk(&view->shape, strides) : (walk){0};
    if (is_plain(&w)) {
        *packed = *view;
        return TD_OK;
    }
    size_t size = td_dtype_size(view->dtype);
    void *copy = td__aligned_alloc((size_t)count * size);
    if (copy) {
        add_dimension(&w);
        copy_all(&w, size, view->data, copy);
        *packed = (td_view){view->dtype, view->shape, copy, td__aligned_free, copy};
    } else {
        status = td_error_set(error, TD_MEMORY, "no memory for a view of %lld elements",
                              (long long)count);
    }
    release_view(view);
    return status;
}
