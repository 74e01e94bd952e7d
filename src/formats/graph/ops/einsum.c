/* Einsum: "bij,bjk->bik", two operands at a time as a product of matrices, so that gradients flow.
 * In other types than float, the plain sum over all labels.
 *
 * An axis is known by a label: a letter, or one of the digits that stand for the axes of "...".
 */
#include "base/memory.h"
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/pick.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A tensor whose axes have labels, each once. */
typedef struct term {
    td_tensor *x;
    char labels[TD_MAX_RANK + 1];
} term;

static bool fail_einsum(td__graph_call *call, const char *why) {
    return td__graph_fail(call, TD_INVALID, "equation '%.100s': %s",
                          td__graph_text(call->node, "equation", ""), why);
}

/* --- the equation ------------------------------------------------------------------------- */

/* The labels of one term of the equation, up to ',' or '-' or its end; rank -1: of the result, whose
 * "..." has `dots` axes. */
static bool read_labels(td__graph_call *call, const char **at, int32_t rank, int32_t *dots,
                        char labels[TD_MAX_RANK + 1]) {
    int32_t count = 0, own = 0;
    const char *ellipsis = NULL;
    for (const char *p = *at; *p && *p != ',' && *p != '-'; p++) {
        own += isalpha((unsigned char)*p) != 0;
        ellipsis = *p == '.' && !ellipsis ? p : ellipsis;
    }
    int32_t hidden = rank >= 0 ? rank - own : *dots;
    if (hidden < 0 || (hidden > 0 && rank >= 0 && !ellipsis) || own + hidden > TD_MAX_RANK) {
        return fail_einsum(call, "does not fit its operands");
    }
    for (; **at && **at != ',' && **at != '-'; ++*at) {
        if (*at == ellipsis) {
            /* Aligned at the end, as in broadcasting. */
            for (int32_t i = 0; i < hidden; i++) {
                labels[count++] = (char)('0' + TD_MAX_RANK - hidden + i);
            }
            *dots = hidden > *dots ? hidden : *dots;
        } else if (isalpha((unsigned char)**at)) {
            labels[count++] = **at;
        } else if (**at != ' ' && **at != '.') {
            return fail_einsum(call, "has a character that is no letter");
        }
    }
    labels[count] = 0;
    return true;
}

/* Without "->" the result has the labels that occur once, in alphabetical order, after "...". */
static void implicit_result(const char *equation, int32_t dots, char labels[TD_MAX_RANK + 1]) {
    int32_t count = 0;
    for (int32_t i = 0; i < dots; i++) {
        labels[count++] = (char)('0' + TD_MAX_RANK - dots + i);
    }
    for (int c = 'A'; c <= 'z' && count < TD_MAX_RANK; c++) {
        const char *first = isalpha(c) ? strchr(equation, c) : NULL;
        if (first && !strchr(first + 1, c)) {
            labels[count++] = (char)c;
        }
    }
    labels[count] = 0;
}

/* --- one operand -------------------------------------------------------------------------- */

static int64_t size_of_label(const term *t, char label) {
    const char *found = strchr(t->labels, label);
    return found ? t->x->shape.dims[found - t->labels] : 1;
}

/* Labels that an operand has twice: only its diagonal counts. */
static bool take_diagonal(td__graph_call *call, term *t) {
    char labels[TD_MAX_RANK + 1] = "";
    td_shape shape = {0};
    int64_t strides[TD_MAX_RANK], steps[TD_MAX_RANK] = {0};
    td__strides(&t->x->shape, strides);
    for (int32_t i = 0; i < t->x->shape.rank; i++) {
        const char *seen = strchr(labels, t->labels[i]);
        int32_t axis = seen ? (int32_t)(seen - labels) : shape.rank;
        if (!seen) {
            labels[shape.rank] = t->labels[i];
            shape.dims[shape.rank++] = t->x->shape.dims[i];
        } else if (shape.dims[axis] != t->x->shape.dims[i]) {
            return fail_einsum(call, "one label has two sizes");
        }
        steps[axis] += strides[i];
    }
    if (shape.rank == t->x->shape.rank) {
        return true;
    }
    int64_t count = td__elements_from(&shape, 0);
    int64_t *places = td__scratch(call->tape, (size_t)count * sizeof *places);
    for (int64_t i = 0; places && i < count; i++) {
        int64_t rest = i;
        places[i] = 0;
        for (int32_t k = shape.rank - 1; k >= 0; k--) {
            places[i] += rest % shape.dims[k] * steps[k];
            rest /= shape.dims[k];
        }
    }
    t->x = places ? td__pick(call->tape, t->x, shape, places) : NULL;
    memcpy(t->labels, labels, sizeof labels);
    return t->x;
}

/* Sums over the labels that are not in kept. */
static bool sum_out(td__graph_call *call, term *t, const char *kept) {
    td_reduce_options options = {.size = sizeof options};
    char labels[TD_MAX_RANK + 1] = "";
    size_t count = 0;
    for (int32_t i = 0; t->labels[i]; i++) {
        if (strchr(kept, t->labels[i])) {
            labels[count++] = t->labels[i];
        } else {
            options.axes[options.count++] = i;
        }
    }
    t->x = options.count ? td_sum(call->tape, t->x, &options) : t->x;
    memcpy(t->labels, labels, sizeof labels);
    return t->x;
}

/* Brings the axes into the order of labels, all of which it has. */
static td_tensor *arrange(td__graph_call *call, const term *t, const char *labels) {
    int32_t order[TD_MAX_RANK];
    bool moves = false;
    for (int32_t i = 0; labels[i]; i++) {
        order[i] = (int32_t)(strchr(t->labels, labels[i]) - t->labels);
        moves = moves || order[i] != i;
    }
    return moves ? td_transpose(call->tape, t->x, order) : t->x;
}

/* --- two operands ------------------------------------------------------------------------- */

enum { BATCH, INNER, LEFT, RIGHT, KINDS };

/* The labels of two terms by where they occur, in one string each. */
typedef struct sorted_labels {
    char labels_of[KINDS][2 * TD_MAX_RANK + 1];
} sorted_labels;

static void add_label(sorted_labels *sorted, int kind, char label) {
    size_t length = strlen(sorted->labels_of[kind]);
    sorted->labels_of[kind][length] = label;
}

static bool sort_labels(td__graph_call *call, const term *a, const term *b, const char *kept,
                        sorted_labels *sorted) {
    for (const char *p = a->labels; *p; p++) {
        bool shared = strchr(b->labels, *p) != NULL;
        if (shared && size_of_label(a, *p) != size_of_label(b, *p)) {
            return fail_einsum(call, "one label has two sizes");
        }
        add_label(sorted, !shared ? LEFT : strchr(kept, *p) ? BATCH : INNER, *p);
    }
    for (const char *p = b->labels; *p; p++) {
        if (!strchr(a->labels, *p)) {
            add_label(sorted, RIGHT, *p);
        }
    }
    return true;
}

static int64_t product_of(const term *t, const char *labels) {
    int64_t product = 1;
    for (; *labels; labels++) {
        product *= size_of_label(t, *labels);
    }
    return product;
}

/* t as matrices (batch, rows, columns). */
static td_tensor *as_matrices(td__graph_call *call, const term *t, const char *batch,
                              const char *rows, const char *columns) {
    char order[3 * TD_MAX_RANK + 1];
    (void)snprintf(order, sizeof order, "%s%s%s", batch, rows, columns);
    td_tensor *x = arrange(call, t, order);
    return x ? td_reshape(
                   call->tape, x,
                   TD_SHAPE(product_of(t, batch), product_of(t, rows), product_of(t, columns)))
             : NULL;
}

/* An axis of size 1 that the other term has with more is repeated: t does without it. */
static bool drop_repeated(td__graph_call *call, term *t, const term *other) {
    char kept[TD_MAX_RANK + 1] = "";
    size_t count = 0;
    for (const char *p = t->labels; *p; p++) {
        if (size_of_label(t, *p) != 1 || size_of_label(other, *p) == 1) {
            kept[count++] = *p;
        }
    }
    return sum_out(call, t, kept);
}

/* a becomes the sum of a b over the labels that are not in kept. */
static bool multiply(td__graph_call *call, term *a, term *b, const char *kept) {
    sorted_labels sorted = {0};
    if (!drop_repeated(call, a, b) || !drop_repeated(call, b, a) ||
        !sort_labels(call, a, b, kept, &sorted)) {
        return false;
    }
    const char *batch = sorted.labels_of[BATCH], *inner = sorted.labels_of[INNER];
    char labels[3 * TD_MAX_RANK + 1];
    td_shape shape = {0};
    int length = snprintf(labels, sizeof labels, "%s%s%s", batch, sorted.labels_of[LEFT],
                          sorted.labels_of[RIGHT]);
    if (length > TD_MAX_RANK) {
        return fail_einsum(call, "has too many labels at once");
    }
    for (int i = 0; i < length; i++) {
        shape.dims[shape.rank++] = size_of_label(strchr(a->labels, labels[i]) ? a : b, labels[i]);
    }
    td_tensor *p = as_matrices(call, a, batch, sorted.labels_of[LEFT], inner);
    td_tensor *q = p ? as_matrices(call, b, batch, inner, sorted.labels_of[RIGHT]) : NULL;
    td_tensor *y = q ? td_matmul(call->tape, p, q, NULL) : NULL;
    a->x = y ? td_reshape(call->tape, y, shape) : NULL;
    memcpy(a->labels, labels, (size_t)length + 1);
    return a->x;
}

/* --- the operator ------------------------------------------------------------------------- */

enum { MAX_TERMS = 16, MAX_PRODUCTS = 1 << 30 };

/* All labels of terms [first, count) and of the result. */
static void later_labels(const term *terms, size_t first, size_t count, const char *result,
                         char kept[(MAX_TERMS + 1) * TD_MAX_RANK + 1]) {
    size_t used = strlen(result);
    memcpy(kept, result, used + 1);
    for (size_t i = first; i < count; i++) {
        size_t length = strlen(terms[i].labels);
        memcpy(kept + used, terms[i].labels, length + 1);
        used += length;
    }
}

static bool read_terms(td__graph_call *call, size_t count, term *terms, char result[]) {
    const char *equation = td__graph_text(call->node, "equation", ""), *at = equation;
    int32_t dots = 0;
    for (size_t i = 0; i < count; i++) {
        terms[i].x = td__graph_plain(call, i);
        if (terms[i].x && terms[i].x->dtype != terms[0].x->dtype) {
            return td__graph_fail(call, TD_DTYPE, "its operands are of different types");
        }
        if (!terms[i].x ||
            !read_labels(call, &at, terms[i].x->shape.rank, &dots, terms[i].labels)) {
            return false;
        }
        if (*at != (i + 1 < count ? ',' : *at == '-' ? '-' : 0)) {
            return fail_einsum(call, "has another number of operands");
        }
        at += *at == ',';
    }
    if (!*at) {
        implicit_result(equation, dots, result);
        return true;
    }
    at += at[1] == '>' ? 2 : 1;
    if (!read_labels(call, &at, -1, &dots, result)) {
        return false;
    }
    for (const char *p = result; *p; p++) {
        if (strchr(p + 1, *p)) {
            return fail_einsum(call, "its result has a label twice");
        }
    }
    return !*at || fail_einsum(call, "goes on");
}

/* In float: operands one after another, each summed as soon as a label is no longer needed. */
static td_tensor *contract(td__graph_call *call, size_t count, term *terms, const char *result) {
    char kept[(MAX_TERMS + 1) * TD_MAX_RANK + 1], both[sizeof kept + TD_MAX_RANK];
    for (size_t i = 0; i < count; i++) {
        if (!take_diagonal(call, &terms[i])) {
            return NULL;
        }
    }
    for (size_t i = 1; i < count; i++) {
        later_labels(terms, i, count, result, kept);
        if (!sum_out(call, &terms[0], kept)) {
            return NULL;
        }
        later_labels(terms, i + 1, count, result, kept);
        (void)snprintf(both, sizeof both, "%s%s", kept, terms[0].labels);
        if (!sum_out(call, &terms[i], both) || !multiply(call, &terms[0], &terms[i], kept)) {
            return NULL;
        }
    }
    if (!sum_out(call, &terms[0], result)) {
        return NULL;
    }
    if (strlen(result) != strlen(terms[0].labels)) {
        (void)fail_einsum(call, "its result has a label that no operand has");
        return NULL;
    }
    return arrange(call, &terms[0], result);
}

/* How far along x an axis with that label goes; twice on a diagonal. */
static int64_t stride_of(const term *t, char label) {
    int64_t strides[TD_MAX_RANK], stride = 0;
    td__strides(&t->x->shape, strides);
    for (int32_t i = 0; t->labels[i]; i++) {
        stride += t->labels[i] == label && t->x->shape.dims[i] > 1 ? strides[i] : 0;
    }
    return stride;
}

/* All labels, those of the result first, and their sizes. */
static bool all_labels(td__graph_call *call, size_t count, const term *terms, const char *result,
                       char labels[2 * TD_MAX_RANK + 1], int64_t sizes[2 * TD_MAX_RANK]) {
    size_t used = strlen(result);
    memcpy(labels, result, used + 1);
    for (size_t i = 0; i < 2 * TD_MAX_RANK; i++) {
        sizes[i] = 1;
    }
    for (size_t i = 0; i < count; i++) {
        for (int32_t k = 0; terms[i].labels[k]; k++) {
            const char *found = strchr(labels, terms[i].labels[k]);
            if (!found && used == 2 * TD_MAX_RANK) {
                return fail_einsum(call, "has too many labels");
            }
            size_t at = found ? (size_t)(found - labels) : used;
            labels[at] = terms[i].labels[k];
            used += !found;
            labels[used] = 0;
            int64_t size = terms[i].x->shape.dims[k];
            if (sizes[at] != 1 && size != 1 && size != sizes[at]) {
                return fail_einsum(call, "one label has two sizes");
            }
            sizes[at] = sizes[at] == 1 ? size : sizes[at];
        }
    }
    return true;
}

/* In doubles, whatever the type. */
static td_tensor *sum_products(td__graph_call *call, size_t count, const term *terms,
                               const char *result) {
    char labels[2 * TD_MAX_RANK + 1];
    int64_t sizes[2 * TD_MAX_RANK], strides[MAX_TERMS][2 * TD_MAX_RANK], inner = 1;
    if (!all_labels(call, count, terms, result, labels, sizes)) {
        return NULL;
    }
    td_shape shape = {.rank = (int32_t)strlen(result)};
    size_t used = strlen(labels);
    for (size_t k = 0; k < used; k++) {
        if (k < (size_t)shape.rank) {
            shape.dims[k] = sizes[k];
        } else if (!td__multiply(inner, sizes[k], &inner)) {
            inner = INT64_MAX;
        }
        for (size_t i = 0; i < count; i++) {
            strides[i][k] = stride_of(&terms[i], labels[k]);
        }
    }
    td_tensor *y = td__graph_new(call, td__graph_input(call, 0)->type, shape);
    int64_t work;
    if (y && (!td__multiply(y->count, inner, &work) || work > MAX_PRODUCTS)) {
        (void)fail_einsum(call, "sums too many products");
        return NULL;
    }
    for (int64_t at = 0; y && at < y->count; at++) {
        double sum = 0;
        for (int64_t k = 0; k < inner; k++) {
            double product = 1;
            for (size_t i = 0; i < count; i++) {
                int64_t rest = k, outer = at, place = 0;
                for (size_t l = used; l-- > 0;) {
                    int64_t *number = l < (size_t)shape.rank ? &outer : &rest;
                    place += *number % sizes[l] * strides[i][l];
                    *number /= sizes[l];
                }
                product *= td__graph_real(terms[i].x, place);
            }
            sum += product;
        }
        td__graph_put_real(y, at, sum);
    }
    return y;
}

static bool einsum(td__graph_call *call) {
    term terms[MAX_TERMS];
    char result[TD_MAX_RANK + 1];
    size_t count = call->node->input_count;
    if (count > MAX_TERMS) {
        return td__graph_fail(call, TD_UNSUPPORTED, "%zu operands", count);
    }
    if (!read_terms(call, count, terms, result)) {
        return false;
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__graph_is_float(call, 0) ? contract(call, count, terms, result)
                                                        : sum_products(call, count, terms, result));
}

const td__graph_operator td__graph_einsums[] = {
    {"Einsum", einsum, 1, 255, 1, 12, 0, NULL},
    {0},
};
