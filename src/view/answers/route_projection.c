/* /api/projection: the rows of a tensor in the plane that shows most of their variance (PCA).
 *
 * The principal components of X (rows x features, each feature less its mean) are U * sqrt(lambda), where U are the
 * eigenvectors of the Gram matrix X X' (rows x rows): rows are few and features may be many. The eigenvectors come by
 * subspace iteration, which is exact enough for a picture once the explained variance stands still. */
#include "answers/answer.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { MAX_ROWS = 512, MAX_FEATURES = 1 << 15, COMPONENTS = 3, SUBSPACE = 6, MAX_ITERATIONS = 300 };

/* Everything is one allocation, `base`. */
typedef struct projection {
    td__call *call;
    size_t rows, features;
    double *base, *data, *gram, *vectors, *product; /* vectors: SUBSPACE x rows */
    int64_t index[MAX_ROWS];                        /* the tensor's row of each of ours */
    double values[SUBSPACE];                        /* eigenvalues */
} projection;

static bool is_finite_row(const td_view *view, int64_t row, int64_t stride, size_t features) {
    for (size_t k = 0; k < features; k++) {
        if (!isfinite(td_view_element(view, row * stride + (int64_t)k))) {
            return false;
        }
    }
    return true;
}

/* Keeps the finite rows and takes the mean of each feature away. */
static void load_rows(projection *p, const td_view *view, int64_t stride) {
    for (int64_t row = 0; row < view->shape.dims[0] && p->rows < MAX_ROWS; row++) {
        if (is_finite_row(view, row, stride, p->features)) {
            for (size_t k = 0; k < p->features; k++) {
                p->data[p->rows * p->features + k] =
                    td_view_element(view, row * stride + (int64_t)k);
            }
            p->index[p->rows++] = row;
        }
    }
    for (size_t k = 0; k < p->features && p->rows; k++) {
        double mean = 0;
        for (size_t i = 0; i < p->rows; i++) {
            mean += p->data[i * p->features + k] / (double)p->rows;
        }
        for (size_t i = 0; i < p->rows; i++) {
            p->data[i * p->features + k] -= mean;
        }
    }
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void make_gram(projection *p) {
    for (size_t i = 0; i < p->rows; i++) {
        for (size_t j = 0; j <= i; j++) {
            double value = dot(&p->data[i * p->features], &p->data[j * p->features], p->features);
            p->gram[i * p->rows + j] = p->gram[j * p->rows + i] = value;
        }
    }
}

/* Makes the vectors orthogonal, each of length 1; one that is nothing but a sum of others becomes 0. */
static void orthogonalise(projection *p) {
    for (size_t v = 0; v < SUBSPACE; v++) {
        double *own = &p->vectors[v * p->rows];
        for (size_t u = 0; u < v; u++) {
            const double *other = &p->vectors[u * p->rows];
            double share = dot(own, other, p->rows);
            for (size_t i = 0; i < p->rows; i++) {
                own[i] -= share * other[i];
            }
        }
        double length = sqrt(dot(own, own, p->rows));
        for (size_t i = 0; i < p->rows; i++) {
            own[i] = length > 1e-12 ? own[i] / length : 0;
        }
    }
}

/* Multiplies the vectors by the Gram matrix; returns how much the eigenvalues have changed, as a share. */
static double iterate(projection *p) {
    double change = 0;
    for (size_t v = 0; v < SUBSPACE; v++) {
        double *own = &p->vectors[v * p->rows];
        for (size_t i = 0; i < p->rows; i++) {
            p->product[i] = dot(&p->gram[i * p->rows], own, p->rows);
        }
        double value = dot(own, p->product, p->rows);
        change =
            fmax(change, v < COMPONENTS ? fabs(value - p->values[v]) / (p->values[0] + 1e-300) : 0);
        p->values[v] = value;
        memcpy(own, p->product, p->rows * sizeof *own);
    }
    orthogonalise(p);
    return change;
}

static void find_components(projection *p) {
    uint32_t state = 1;
    for (size_t i = 0; i < SUBSPACE * p->rows; i++) { /* any start that is in no eigenspace */
        state = state * 1664525u + 1013904223u;
        p->vectors[i] = (double)state / 4294967296.0 - 0.5;
    }
    orthogonalise(p);
    for (int i = 0; i < MAX_ITERATIONS && iterate(p) > 1e-10; i++) {
    }
}

static void put_labels(td__output *head, const projection *p, const td_record *record) {
    td__put_text(head, ",\"labels\":[");
    for (size_t i = 0; i < p->rows && record->labels && record->labels->shape.rank == 1; i++) {
        td__put_text(head, i ? "," : "");
        td__put_number(head, td_view_element(record->labels, p->index[i]));
    }
    td__put_text(head, "],\"samples\":[");
    for (size_t i = 0; i < p->rows; i++) {
        td__put_format(head, "%s%lld", i ? "," : "",
                       (long long)(record->samples ? record->samples[p->index[i]] : p->index[i]));
    }
    td__put_text(head, "]");
}

static void put_projection(projection *p, const td_record *record, int64_t stride) {
    double total = 0;
    for (size_t i = 0; i < p->rows; i++) {
        total += p->gram[i * p->rows + i];
    }
    td__output head = {0};
    td__put_format(&head,
                   "{\"step\":%lld,\"rows\":%zu,\"all\":%lld,\"features\":%zu,\"allFeatures\":%lld",
                   (long long)record->step, p->rows, (long long)record->view->shape.dims[0],
                   p->features, (long long)stride);
    td__put_text(&head, ",\"explained\":[");
    for (size_t v = 0; v < COMPONENTS; v++) {
        td__put_text(&head, v ? "," : "");
        td__put_number(&head, total > 0 ? p->values[v] / total : 0);
    }
    td__put_text(&head, "]");
    put_labels(&head, p, record);
    td__put_text(&head, "}");
    td__call_binary(p->call, &head);
    for (size_t v = 0; v < COMPONENTS; v++) {
        double scale = sqrt(fmax(p->values[v], 0));
        for (size_t i = 0; i < p->rows; i++) {
            td__put_double(p->call->out, p->vectors[v * p->rows + i] * scale);
        }
    }
}

static td_status project(void *user, const td_record *record, td_error *error) {
    const td_view *view = record->view;
    projection p = {.call = user};
    int64_t stride = 1;
    for (int axis = 1; axis < view->shape.rank; axis++) {
        stride *= view->shape.dims[axis];
    }
    if (view->shape.rank < 2 || view->shape.dims[0] < 3 || stride < 2) {
        return td_error_set(error, TD_INVALID,
                            "a projection needs three rows of two values or more");
    }
    p.features = stride < MAX_FEATURES ? (size_t)stride : MAX_FEATURES;
    size_t rows = view->shape.dims[0] < MAX_ROWS ? (size_t)view->shape.dims[0] : MAX_ROWS;
    p.base = td__calloc(rows * (p.features + rows + SUBSPACE + 1), sizeof *p.base);
    if (!p.base) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    p.data = p.base;
    p.gram = p.data + rows * p.features;
    p.vectors = p.gram + rows * rows;
    p.product = p.vectors + rows * SUBSPACE;
    load_rows(&p, view, stride);
    make_gram(&p);
    find_components(&p);
    put_projection(&p, record, stride);
    td__free(p.base);
    return TD_OK;
}

td_status td__route_projection(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    return signal ? td__call_latest(call, signal, TD_TENSOR, project, call, error) : error->status;
}
