#include "graph/sizes.h"

td__graph_size td__graph_any_size(td__graph_sizes *sizes) {
    return (td__graph_size){.symbol = ++sizes->last, .times = 1};
}

static td__graph_size settled(td__graph_size size) {
    return size.times == 0 ? td__onnx_number(size.plus) : size;
}

td__graph_size td__graph_size_add(td__graph_sizes *sizes, td__graph_size a, td__graph_size b) {
    td__graph_size sum = {.symbol = a.symbol ? a.symbol : b.symbol};
    if ((a.symbol && b.symbol && a.symbol != b.symbol) ||
        __builtin_add_overflow(a.times, b.times, &sum.times) ||
        __builtin_add_overflow(a.plus, b.plus, &sum.plus)) {
        return td__graph_any_size(sizes);
    }
    return settled(sum);
}

td__graph_size td__graph_size_scale(td__graph_sizes *sizes, td__graph_size a, int64_t by) {
    td__graph_size scaled = {.symbol = a.symbol};
    if (__builtin_mul_overflow(a.times, by, &scaled.times) ||
        __builtin_mul_overflow(a.plus, by, &scaled.plus)) {
        return td__graph_any_size(sizes);
    }
    return settled(scaled);
}

static const td__graph_symbol *find_symbol(const td__graph_sizes *sizes, int64_t symbol) {
    const td__graph_symbol *found = NULL;
    for (size_t i = 0; i < sizes->count && !found; i++) {
        found = sizes->made[i].symbol == symbol ? &sizes->made[i] : NULL;
    }
    return found;
}

/* The symbol of what is described, the same every time. */
static td__graph_size symbol_of(td__graph_sizes *sizes, td__graph_symbol described) {
    for (size_t i = 0; i < sizes->count; i++) {
        const td__graph_symbol *s = &sizes->made[i];
        if (s->a == described.a && s->b == described.b && s->times == described.times &&
            s->plus == described.plus && s->over == described.over) {
            return (td__graph_size){.symbol = s->symbol, .times = 1};
        }
    }
    td__graph_size size = td__graph_any_size(sizes);
    described.symbol = size.symbol;
    if (sizes->count < TD__GRAPH_MAX_SYMBOLS) {
        sizes->made[sizes->count++] = described;
    }
    return size;
}

td__graph_size td__graph_size_multiply(td__graph_sizes *sizes, td__graph_size a, td__graph_size b) {
    if (td__graph_is_number(a) || td__graph_is_number(b)) {
        return td__graph_is_number(a) ? td__graph_size_scale(sizes, b, a.plus)
                                      : td__graph_size_scale(sizes, a, b.plus);
    }
    int64_t times;
    if (a.plus || b.plus || __builtin_mul_overflow(a.times, b.times, &times)) {
        return td__graph_any_size(sizes);
    }
    bool swap = a.symbol > b.symbol;
    td__graph_size product = symbol_of(sizes, (td__graph_symbol){.a = swap ? b.symbol : a.symbol,
                                                                 .b = swap ? a.symbol : b.symbol});
    return td__graph_size_scale(sizes, product, times);
}

static int64_t floor_of(int64_t a, int64_t by) {
    return a / by - (a % by < 0);
}

td__graph_size td__graph_size_divide(td__graph_sizes *sizes, td__graph_size a, int64_t by) {
    int64_t whole = floor_of(a.plus, by), rest = a.plus - whole * by;
    if (a.times % by == 0) {
        return settled((td__graph_size){a.symbol, a.times / by, whole});
    }
    td__graph_symbol quotient = {.a = a.symbol, .times = a.times, .plus = rest, .over = by};
    const td__graph_symbol *inner = find_symbol(sizes, a.symbol);
    int64_t more;
    /* floor((floor((t s + p) / d) + r) / by) = floor((t s + p + r d) / (d by)) */
    if (inner && inner->over && a.times == 1 && !__builtin_mul_overflow(rest, inner->over, &more) &&
        !__builtin_add_overflow(more, inner->plus, &more) &&
        !__builtin_mul_overflow(inner->over, by, &quotient.over)) {
        quotient.a = inner->a;
        quotient.times = inner->times;
        quotient.plus = more % quotient.over;
        if (__builtin_add_overflow(whole, more / quotient.over, &whole)) {
            return td__graph_any_size(sizes);
        }
    }
    return td__graph_size_add(sizes, symbol_of(sizes, quotient), td__onnx_number(whole));
}

/* --- products taken apart ----------------------------------------------------------------- */

enum { MAX_FACTORS = 32 };

typedef struct factors {
    int64_t number;
    size_t count;
    td__graph_size all[MAX_FACTORS]; /* symbols, and sums with such */
    bool lost;                       /* there are more */
} factors;

/* Symbols are made of ones before them: it ends. */
static void take_apart(const td__graph_sizes *sizes, td__graph_size size, factors *f) {
    const td__graph_symbol *made = size.plus ? NULL : find_symbol(sizes, size.symbol);
    if (f->lost) {
        return;
    }
    if (td__graph_is_number(size)) {
        f->lost = __builtin_mul_overflow(f->number, size.plus, &f->number);
        return;
    }
    if (!size.plus) {
        f->lost = __builtin_mul_overflow(f->number, size.times, &f->number);
        size.times = 1;
    }
    if (made && made->b) {
        take_apart(sizes, (td__graph_size){made->a, 1, 0}, f);
        take_apart(sizes, (td__graph_size){made->b, 1, 0}, f);
    } else if (f->count == MAX_FACTORS) {
        f->lost = true;
    } else {
        f->all[f->count++] = size;
    }
}

td__graph_size td__graph_size_left(td__graph_sizes *sizes, size_t count,
                                   const td__graph_size *whole, size_t part_count,
                                   const td__graph_size *parts) {
    factors above = {.number = 1}, below = {.number = 1};
    for (size_t i = 0; i < count; i++) {
        take_apart(sizes, whole[i], &above);
    }
    for (size_t i = 0; i < part_count; i++) {
        take_apart(sizes, parts[i], &below);
    }
    for (size_t i = 0; i < below.count; i++) {
        size_t k = 0;
        while (k < above.count && !td__graph_same_size(above.all[k], below.all[i])) {
            k++;
        }
        if (k == above.count) {
            return td__graph_any_size(sizes);
        }
        above.all[k] = above.all[--above.count];
    }
    if (above.lost || below.lost || below.number <= 0 || above.number % below.number) {
        return td__graph_any_size(sizes);
    }
    td__graph_size left = td__onnx_number(above.number / below.number);
    for (size_t i = 0; i < above.count; i++) {
        left = td__graph_size_multiply(sizes, left, above.all[i]);
    }
    return left;
}
