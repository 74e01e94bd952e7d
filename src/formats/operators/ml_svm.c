/* Support vector machines (ai.onnx.ml). */
#include "operators/ml.h"

#include <math.h>
#include <string.h>

typedef struct svm {
    const td_tensor *x;
    int64_t rows, width;
    td__graph_reals vectors, coefficients, rho;
    double gamma, offset, degree;
    const char *kernel;
} svm;

static bool svm_of(td__graph_call *call, svm *s) {
    *s = (svm){.kernel = td__graph_text(call->node, "kernel_type", "LINEAR")};
    s->x = td__graph_features(call, &s->rows, &s->width);
    s->vectors = td__graph_reals_of(call->node, "support_vectors");
    s->coefficients = td__graph_reals_of(call->node, "coefficients");
    s->rho = td__graph_reals_of(call->node, "rho");
    td__graph_reals kernel = td__graph_reals_of(call->node, "kernel_params");
    s->gamma = kernel.count > 0 ? td__graph_reals_at(&kernel, 0) : 0;
    s->offset = kernel.count > 1 ? td__graph_reals_at(&kernel, 1) : 0;
    s->degree = kernel.count > 2 ? td__graph_reals_at(&kernel, 2) : 0;
    return s->x && s->width > 0 && s->rho.count > 0;
}

/* Of a row and vector number i of a list. */
static double kernel_of(const svm *s, int64_t row, const td__graph_reals *vectors, int64_t i) {
    bool distance = !strcmp(s->kernel, "RBF");
    double sum = 0;
    for (int64_t k = 0; k < s->width; k++) {
        double a = td__graph_real(s->x, row * s->width + k);
        double b = td__graph_reals_at(vectors, (size_t)(i * s->width + k));
        sum += distance ? (a - b) * (a - b) : a * b;
    }
    return distance                        ? exp(-s->gamma * sum)
           : !strcmp(s->kernel, "POLY")    ? pow(s->gamma * sum + s->offset, s->degree)
           : !strcmp(s->kernel, "SIGMOID") ? tanh(s->gamma * sum + s->offset)
                                           : sum;
}

static bool svm_regressor(td__graph_call *call) {
    svm s;
    if (!svm_of(call, &s)) {
        return td__graph_fail(call, TD_FORMAT, "its vectors do not fit its input");
    }
    int64_t count = td__graph_int(call->node, "n_supports", 0);
    bool linear = count == 0;
    count = linear ? 1 : count;
    size_t wanted = linear ? 0 : (size_t)(count * s.width);
    if (count < 0 || count > INT32_MAX || s.vectors.count != wanted ||
        s.coefficients.count != (linear ? (size_t)s.width : (size_t)count)) {
        return td__graph_fail(call, TD_FORMAT, "its vectors do not fit its input");
    }
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &TD_SHAPE(s.rows, 1));
    for (int64_t i = 0; y && i < s.rows; i++) {
        double sum = td__graph_reals_at(&s.rho, 0);
        for (int64_t k = 0; k < count; k++) {
            sum += linear ? kernel_of(&s, i, &s.coefficients, 0)
                          : td__graph_reals_at(&s.coefficients, (size_t)k) *
                                kernel_of(&s, i, &s.vectors, k);
        }
        td__floats(y)[i] =
            (float)(td__graph_int(call->node, "one_class", 0) ? (sum > 0 ? 1 : -1) : sum);
    }
    return td__graph_output(call, 0, TD__GRAPH_FLOAT, y);
}

/* --- classes ------------------------------------------------------------------------------ */

enum { MAX_CLASSES = 256 };

/* One machine for each pair of classes, or (linear) one for each class. */
typedef struct pairs {
    svm s;
    int64_t classes, vectors;
    int64_t begin[MAX_CLASSES], count[MAX_CLASSES]; /* vectors of each class */
    td__graph_reals a, b;                           /* from decisions to probabilities */
    double *kernels;                                /* of a row and each vector */
} pairs;

static bool pairs_of(td__graph_call *call, pairs *p, size_t labels) {
    const int64_t *counts;
    size_t classes = td__graph_ints(call->node, "vectors_per_class", &counts);
    p->a = td__graph_reals_of(call->node, "prob_a");
    p->b = td__graph_reals_of(call->node, "prob_b");
    if (!svm_of(call, &p->s) || classes < 2 || classes > MAX_CLASSES || classes != labels) {
        return td__graph_fail(call, TD_UNSUPPORTED, "without support vectors, or of %zu classes",
                              classes);
    }
    p->classes = (int64_t)classes;
    for (size_t i = 0; i < classes; i++) {
        if (counts[i] < 0 || counts[i] > INT32_MAX) {
            return td__graph_fail(call, TD_RANGE, "%lld vectors", (long long)counts[i]);
        }
        p->begin[i] = p->vectors;
        p->count[i] = counts[i];
        p->vectors += counts[i];
    }
    size_t machines = classes * (classes - 1) / 2;
    if (p->s.vectors.count != (size_t)(p->vectors * p->s.width) || p->s.rho.count != machines ||
        p->s.coefficients.count != (size_t)p->vectors * (classes - 1) ||
        (p->a.count && (p->a.count != machines || p->b.count != machines))) {
        return td__graph_fail(call, TD_FORMAT, "its vectors do not fit its input");
    }
    p->kernels = td__scratch(call->tape, (size_t)(p->vectors + 1) * sizeof *p->kernels);
    return p->kernels != NULL;
}

/* Decisions of a row, and for each class how many it won. */
static void decide(const pairs *p, int64_t row, double *decisions, double *votes) {
    size_t machine = 0;
    for (int64_t k = 0; k < p->vectors; k++) {
        p->kernels[k] = kernel_of(&p->s, row, &p->s.vectors, k);
    }
    memset(votes, 0, (size_t)p->classes * sizeof *votes);
    for (int64_t i = 0; i < p->classes; i++) {
        for (int64_t j = i + 1; j < p->classes; j++, machine++) {
            double sum = td__graph_reals_at(&p->s.rho, machine);
            for (int64_t k = p->begin[i]; k < p->begin[i] + p->count[i]; k++) {
                sum += td__graph_reals_at(&p->s.coefficients, (size_t)((j - 1) * p->vectors + k)) *
                       p->kernels[k];
            }
            for (int64_t k = p->begin[j]; k < p->begin[j] + p->count[j]; k++) {
                sum += td__graph_reals_at(&p->s.coefficients, (size_t)(i * p->vectors + k)) *
                       p->kernels[k];
            }
            decisions[machine] = sum;
            votes[sum > 0 ? i : j]++;
        }
    }
}

/* One step of Wu, Lin and Weng's second method: makes p fit its equations a little better; false when
 * it fits as well as libsvm wants it. */
static bool improve(int64_t n, const double *q, double *p, double *qp) {
    double total = 0, off = 0;
    for (int64_t t = 0; t < n; t++) {
        qp[t] = 0;
        for (int64_t j = 0; j < n; j++) {
            qp[t] += q[t * n + j] * p[j];
        }
        total += p[t] * qp[t];
    }
    for (int64_t t = 0; t < n; t++) {
        off = fmax(off, fabs(qp[t] - total));
    }
    for (int64_t t = 0; t < n && off >= 0.005 / (double)n; t++) {
        double step = q[t * n + t] != 0 ? (total - qp[t]) / q[t * n + t] : 0;
        p[t] += step;
        total = (total + step * (step * q[t * n + t] + 2 * qp[t])) / (1 + step) / (1 + step);
        for (int64_t j = 0; j < n; j++) {
            qp[j] = (qp[j] + step * q[t * n + j]) / (1 + step);
            p[j] /= 1 + step;
        }
    }
    return off >= 0.005 / (double)n;
}

/* Probabilities of classes from those of pairs r (classes, classes). q and qp are room. */
static void couple(int64_t n, const double *r, double *q, double *qp, double *p) {
    for (int64_t t = 0; t < n; t++) {
        p[t] = 1 / (double)n;
        q[t * n + t] = 0;
        for (int64_t j = 0; j < n; j++) {
            if (j != t) {
                q[t * n + t] += r[j * n + t] * r[j * n + t];
                q[t * n + j] = -r[j * n + t] * r[t * n + j];
            }
        }
    }
    for (int64_t round = 0; round < (n > 100 ? n : 100) && improve(n, q, p, qp); round++) {
    }
}

static double probability(const pairs *p, const double *decisions, size_t machine) {
    double f = decisions[machine] * td__graph_reals_at(&p->a, machine) +
               td__graph_reals_at(&p->b, machine);
    return fmin(fmax(1 / (1 + exp(f)), 1e-7), 1 - 1e-7);
}

static void probabilities(const pairs *p, const double *decisions, double *room, double *out) {
    int64_t n = p->classes;
    double *r = room, *q = r + n * n, *qp = q + n * n;
    size_t machine = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++, machine++) {
            r[i * n + j] = probability(p, decisions, machine);
            r[j * n + i] = 1 - r[i * n + j];
        }
    }
    couple(n, r, q, qp, out);
}

/* Probabilities where the file has what makes them; otherwise decisions of the pairs, of two classes
 * as a margin for each. */
static bool svm_classifier(td__graph_call *call) {
    td__graph_labels labels = td__graph_labels_of(call->node, "classlabels");
    pairs *p = td__scratch(call->tape, sizeof *p);
    if (!p) {
        return false;
    }
    *p = (pairs){0};
    if (!pairs_of(call, p, labels.count)) {
        return false;
    }
    int64_t n = p->classes, machines = n * (n - 1) / 2;
    bool known = p->a.count > 0;
    int64_t columns = known || n == 2 ? n : machines;
    size_t room = (size_t)(machines + 3 * n + 2 * n * n);
    double *decisions = td__scratch(call->tape, room * sizeof *decisions);
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &TD_SHAPE(p->s.rows, columns));
    int64_t *best = td__scratch(call->tape, (size_t)(p->s.rows + 1) * sizeof *best);
    for (int64_t i = 0; decisions && y && best && i < p->s.rows; i++) {
        double *votes = decisions + machines, *scores = votes + n;
        decide(p, i, decisions, votes);
        if (known) {
            probabilities(p, decisions, scores + n, scores);
        }
        const double *ranking = known ? scores : votes;
        best[i] = 0;
        for (int64_t k = 0; k < n; k++) {
            best[i] = ranking[k] > ranking[best[i]] ? k : best[i];
        }
        double margin[2] = {-decisions[0], decisions[0]};
        double *row = known ? scores : n == 2 ? margin : decisions;
        if (!known) {
            td__graph_post_transform(call->node, row, columns);
        }
        for (int64_t k = 0; k < columns; k++) {
            td__floats(y)[i * columns + k] = (float)row[k];
        }
    }
    return decisions && y && best && td__graph_output_labels(call, &labels, p->s.rows, best) &&
           td__graph_output(call, 1, TD__GRAPH_FLOAT, y);
}

const td__graph_operator td__graph_ml_svms[] = {
    {"SVMClassifier", svm_classifier, 1, 1, 2, 0, 0, NULL},
    {"SVMRegressor", svm_regressor, 1, 1, 1, 0, 0, NULL},
    {0},
};
