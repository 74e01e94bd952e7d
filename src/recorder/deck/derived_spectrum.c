/* Singular values of a tensor as a matrix: its features by everything else.
 *
 * The features are the last axis; in PyTorch's order (channels_first) the first axis of a parameter, its
 * gradient and its update, and the second one of an output of four or more axes. With s the smaller and l the larger side:
 *
 *     spectral_norm   the largest singular value: Lanczos on A A^T, at most 128 steps of 2 s l multiplications
 *                     (about 30 for most matrices; fewer where the largest values lie apart)
 *     stable_rank     the sum of squared singular values by the largest one squared
 *     effective_rank  e to the entropy of the singular values' shares of their sum (Roy and Vetterli, 2007),
 *                     from all eigenvalues of A A^T: s^2 l / 2 + 4/3 s^3 multiplications, s at most 1024
 */
#include "deck/derived.h"

#include "base/memory.h"
#include "base/random.h"
#include "tensor/element.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_LANCZOS = 128, MAX_SIDE = 1024 };

typedef struct matrix {
    int64_t s, l;   /* rows, columns; s <= l */
    double *values; /* (s, l); owned */
    bool finite;
} matrix;

/* ---- The matrix ------------------------------------------------------------------------------ */

static int32_t feature_axis(const td_view *view, const td_signal_info *info) {
    int32_t last = view->shape.rank - 1;
    bool parameter = !info->batched && info->parameter && *info->parameter;
    if (!info->channels_first) {
        return last;
    }
    return parameter ? 0 : last >= 3 ? 1 : last;
}

/* Whether there is a matrix in the tensor; its sides. */
static bool find_sides(const td_view *view, const td_signal_info *info, int32_t *axis, matrix *m) {
    *m = (matrix){.finite = true};
    if (view->shape.rank < 2) {
        return false;
    }
    *axis = feature_axis(view, info);
    int64_t features = view->shape.dims[*axis];
    int64_t others = td__elements_from(&view->shape, 0) / features;
    m->s = features < others ? features : others;
    m->l = features < others ? others : features;
    return m->s > 1;
}

/* Element (before, feature, after) of the tensor is (feature; before, after) of the matrix, or the other way
 * round. */
static td_status fill(matrix *m, const td_view *view, int32_t axis, td_error *error) {
    const td_shape *shape = &view->shape;
    int64_t features = shape->dims[axis],
            after = td__elements_between(shape, axis + 1, shape->rank);
    int64_t before = td__elements_between(shape, 0, axis);
    bool features_first = features == m->s && features <= before * after;
    m->values = td__calloc((size_t)m->s * (size_t)m->l, sizeof *m->values);
    if (!m->values) {
        return td_error_set(error, TD_MEMORY, "out of memory for singular values");
    }
    int64_t i = 0;
    for (int64_t b = 0; b < before; b++) {
        for (int64_t f = 0; f < features; f++) {
            for (int64_t a = 0; a < after; a++, i++) {
                double value = td__element(view, i);
                int64_t other = b * after + a;
                m->values[features_first ? f * m->l + other : other * m->l + f] = value;
                m->finite &= isfinite(value);
            }
        }
    }
    return TD_OK;
}

static double dot(int64_t n, const double *a, const double *b) {
    double sums[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) {
            sums[k] += a[i + k] * b[i + k];
        }
    }
    for (; i < n; i++) {
        sums[0] += a[i] * b[i];
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

static void add(int64_t n, double factor, const double *x, double *y) {
    for (int64_t i = 0; i < n; i++) {
        y[i] += factor * x[i];
    }
}

/* ---- The largest one ------------------------------------------------------------------------- */

/* How many eigenvalues of a symmetric tridiagonal matrix are at least x (Sturm). */
static int above(const double *alpha, const double *beta, int n, double x) {
    int count = 0;
    double d = 1;
    for (int i = 0; i < n; i++) {
        double off = i ? beta[i - 1] : 0;
        d = alpha[i] - x - (i ? off * off / d : 0);
        d = d == 0 ? -DBL_MIN : d;
        count += d > 0;
    }
    return count;
}

static double largest_of(const double *alpha, const double *beta, int n, double low, double high) {
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double middle = low + (high - low) / 2;
        if (above(alpha, beta, n, middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* w = A A^T v */
static void apply(const matrix *m, const double *v, double *along, double *w) {
    memset(along, 0, (size_t)m->l * sizeof *along);
    for (int64_t i = 0; i < m->s; i++) {
        add(m->l, v[i], m->values + i * m->l, along);
    }
    for (int64_t i = 0; i < m->s; i++) {
        w[i] = dot(m->l, m->values + i * m->l, along);
    }
}

/* The largest eigenvalue of A A^T, which is at most `total`. basis: room for (steps + 1, s); along: for l. */
static double lanczos(const matrix *m, double total, int steps, double *basis, double *along) {
    double alpha[MAX_LANCZOS], beta[MAX_LANCZOS], found = 0;
    td__random random;
    int calm = 0;
    td__random_seed(&random, 1, 0);
    for (int64_t i = 0; i < m->s; i++) {
        basis[i] = td__random_normal(&random);
    }
    double length = sqrt(dot(m->s, basis, basis));
    for (int64_t i = 0; i < m->s; i++) {
        basis[i] /= length;
    }
    for (int k = 0; k < steps && calm < 2; k++) {
        double *v = basis + k * m->s, *w = v + m->s;
        apply(m, v, along, w);
        alpha[k] = dot(m->s, v, w);
        for (int again = 0; again < 2; again++) { /* twice is enough */
            for (int j = 0; j <= k; j++) {
                const double *u = basis + j * m->s;
                add(m->s, -dot(m->s, u, w), u, w);
            }
        }
        beta[k] = sqrt(dot(m->s, w, w));
        double now = largest_of(alpha, beta, k + 1, found, total * (1 + 1e-12));
        calm = now - found <= 1e-11 * now ? calm + 1 : 0;
        found = now;
        if (beta[k] <= 1e-14 * total) {
            break; /* all there is */
        }
        for (int64_t i = 0; i < m->s; i++) {
            w[i] /= beta[k];
        }
    }
    return found;
}

td_status td__derive_norms(const td_view *view, const td_signal_info *info,
                           double values[TD__DERIVED_MAX], td_error *error) {
    matrix m;
    int32_t axis;
    if (!find_sides(view, info, &axis, &m)) {
        return TD_NOT_FOUND;
    }
    int steps = m.s < MAX_LANCZOS ? (int)m.s : MAX_LANCZOS;
    td_status status = fill(&m, view, axis, error);
    double *basis = td__calloc((size_t)m.s * (size_t)(steps + 1) + (size_t)m.l, sizeof *basis);
    if (!status && !basis) {
        status = td_error_set(error, TD_MEMORY, "out of memory for singular values");
    }
    values[0] = values[1] = (double)NAN;
    if (!status && m.finite) {
        double total = dot(m.s * m.l, m.values, m.values);
        double largest =
            total > 0 ? lanczos(&m, total, steps, basis, basis + m.s * (steps + 1)) : 0;
        values[0] = sqrt(largest);
        values[1] = largest > 0 ? total / largest : 0;
    }
    td__free(basis);
    td__free(m.values);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Makes a symmetric matrix tridiagonal (Householder), in place: diagonal d, beside it e[1] … e[n - 1]. */
static void tridiagonal(double *g, int64_t n, double *d, double *e, double *p) {
    for (int64_t k = 0; k + 2 < n; k++) {
        double *v = g + k * n; /* the row; by symmetry the column, behind the diagonal */
        int64_t size = n - k - 1;
        double *x = v + k + 1, norm = sqrt(dot(size, x, x));
        d[k] = v[k];
        e[k + 1] = x[0] > 0 ? -norm : norm;
        x[0] -= e[k + 1];
        double half = dot(size, x, x) / 2;
        if (half == 0) {
            continue;
        }
        /* B - x q^T - q x^T, q = p - (x p / 2 half) x, p = B x / half */
        for (int64_t i = 0; i < size; i++) {
            p[i] = dot(size, g + (k + 1 + i) * n + k + 1, x) / half;
        }
        add(size, -dot(size, x, p) / (2 * half), x, p);
        for (int64_t i = 0; i < size; i++) {
            double *row = g + (k + 1 + i) * n + k + 1;
            add(size, -x[i], p, row);
            add(size, -p[i], x, row);
        }
    }
    if (n > 1) {
        d[n - 2] = g[(n - 2) * n + n - 2];
        e[n - 1] = g[(n - 2) * n + n - 1];
    }
    d[n - 1] = g[n * n - 1];
}

/* Eigenvalues of a tridiagonal matrix into d (implicit QL with Wilkinson's shifts). */
static void eigenvalues(double *d, double *e, int64_t n) {
    enum { MAX_TURNS = 60 };
    memmove(e, e + 1, (size_t)(n - 1) * sizeof *e);
    e[n - 1] = 0;
    for (int64_t l = 0; l < n; l++) {
        for (int turn = 0; turn < MAX_TURNS; turn++) {
            int64_t m = l;
            while (m < n - 1 && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) {
                m++;
            }
            if (m == l) {
                break;
            }
            double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1);
            g = d[m] - d[l] + e[l] / (g + (g < 0 ? -r : r));
            double s = 1, c = 1, p = 0;
            int64_t i = m - 1;
            for (; i >= l; i--) {
                double f = s * e[i], b = c * e[i];
                r = hypot(f, g);
                e[i + 1] = r;
                if (r == 0) {
                    d[i + 1] -= p;
                    e[m] = 0;
                    break;
                }
                s = f / r;
                c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
            }
            if (i < l) {
                d[l] -= p;
                e[l] = g;
                e[m] = 0;
            }
        }
    }
}

/* e to the entropy of the roots' shares of their sum. */
static double effective_rank(const double *squares, int64_t n) {
    double sum = 0, entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += squares[i] > 0 ? sqrt(squares[i]) : 0;
    }
    for (int64_t i = 0; i < n && sum > 0; i++) {
        double share = squares[i] > 0 ? sqrt(squares[i]) / sum : 0;
        entropy -= share > 0 ? share * log(share) : 0;
    }
    return sum > 0 ? exp(entropy) : 0;
}

/* What rounding leaves of a zero, far below the largest, is none. */
static void drop_noise(double *squares, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, squares[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        squares[i] = squares[i] > 4 * DBL_EPSILON * (double)n * largest ? squares[i] : 0;
    }
}

td_status td__derive_rank(const td_view *view, const td_signal_info *info,
                          double values[TD__DERIVED_MAX], td_error *error) {
    matrix m;
    int32_t axis;
    if (!find_sides(view, info, &axis, &m)) {
        return TD_NOT_FOUND;
    }
    if (m.s > MAX_SIDE) {
        return td_error_set(error, TD_RANGE,
                            "effective_rank is computed of matrices whose smaller side is at most "
                            "%d, and this one's is %lld; stable_rank has no such limit",
                            MAX_SIDE, (long long)m.s);
    }
    int64_t n = m.s;
    td_status status = fill(&m, view, axis, error);
    double *gram = td__calloc((size_t)n * (size_t)(n + 3), sizeof *gram);
    if (!status && !gram) {
        status = td_error_set(error, TD_MEMORY, "out of memory for singular values");
    }
    values[0] = (double)NAN;
    if (!status && m.finite) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k <= i; k++) {
                gram[i * n + k] = gram[k * n + i] =
                    dot(m.l, m.values + i * m.l, m.values + k * m.l);
            }
        }
        double *d = gram + n * n, *e = d + n;
        tridiagonal(gram, n, d, e, e + n);
        eigenvalues(d, e, n);
        drop_noise(d, n);
        values[0] = effective_rank(d, n);
    }
    td__free(gram);
    td__free(m.values);
    return status;
}
