/* Broadcasting: planning, splitting over threads, walking over rows. */
#include "tape/broadcast.h"

#include "tape/parallel.h"

enum { NARROW = 16, WIDE = 256 };

/* The size of the axis that is `back` from the end; 1 where the shape has none. */
static int64_t dimension(const td_shape *shape, int32_t back) {
    return back < shape->rank ? shape->dims[shape->rank - 1 - back] : 1;
}

bool td__broadcast_plan(const td_shape *a, const td_shape *b, td__broadcast *plan) {
    int32_t rank = a->rank > b->rank ? a->rank : b->rank, merged = 0;
    int64_t a_count = 1, b_count = 1;
    int64_t dims[TD_MAX_RANK], a_steps[TD_MAX_RANK], b_steps[TD_MAX_RANK]; /* innermost first */
    plan->shape.rank = rank;
    for (int32_t back = 0; back < rank; back++) {
        int64_t x = dimension(a, back), y = dimension(b, back), size = x == 1 ? y : x;
        if (y != size && y != 1) {
            return false;
        }
        plan->shape.dims[rank - 1 - back] = size;
        int64_t a_step = x == 1 ? 0 : a_count, b_step = y == 1 ? 0 : b_count;
        a_count *= x;
        b_count *= y;
        if (size == 1) {
            continue;
        }
        int32_t below = merged - 1;
        if (merged > 0 && a_step == a_steps[below] * dims[below] &&
            b_step == b_steps[below] * dims[below]) {
            dims[below] *= size;
            continue;
        }
        dims[merged] = size;
        a_steps[merged] = a_step;
        b_steps[merged++] = b_step;
    }
    if (merged == 0) {
        dims[0] = a_steps[0] = b_steps[0] = 1;
        merged = 1;
    }
    plan->rank = merged;
    for (int32_t i = 0; i < merged; i++) {
        plan->dims[i] = dims[merged - 1 - i];
        plan->a[i] = a_steps[merged - 1 - i];
        plan->b[i] = b_steps[merged - 1 - i];
    }
    return true;
}

/* What to do with rows that start at element `at` of the result and are `row` apart. */
typedef struct row_job {
    int64_t rows, n, at, row;
    td__operand a, b;
} row_job;

typedef struct broadcast_work {
    const td__broadcast *plan;
    int32_t split; /* the axis whose parts go to threads */
    void (*run)(const struct broadcast_work *work, const row_job *job);
    const float *a, *b; /* b may be NULL */
    const float *g;
    float *result;
    float scale;
    bool add;
    td__binary op;
    int side;
} broadcast_work;

static void run_binary(const broadcast_work *w, const row_job *job) {
    td__kernels()->binary[w->op](job->rows, job->n, job->a, job->b, w->result + job->at, job->row);
}

static void run_backward(const broadcast_work *w, const row_job *job) {
    td__kernels()->binary_backward[w->op][w->side](
        job->rows, job->n, job->a, job->b, w->g + job->at, w->add, w->result + job->at, job->row);
}

static void run_expand(const broadcast_work *w, const row_job *job) {
    td__kernels()->expand(job->rows, job->n, job->a, w->scale, w->add, w->result + job->at,
                          job->row);
}

/* Repeats a short row until it is worth vector code. */
static td__operand widened(td__operand operand, int64_t n, int64_t beside, float wide[WIDE]) {
    if (operand.row != 0) {
        operand.row *= beside;
        return operand;
    }
    for (int64_t i = 0; i < beside * n; i++) {
        wide[i] = operand.data[i % n];
    }
    return (td__operand){.data = wide, .row = 0, .step = 1};
}

/* Narrow rows without gaps, where each operand is as long as the result or repeats a whole row, run
 * as fewer, wider ones. */
static void run_rows(const broadcast_work *w, row_job job) {
    bool whole = job.row == job.n && (job.a.row == job.n || job.a.row == 0) &&
                 (job.b.row == job.n || job.b.row == 0) && job.a.step && (!w->b || job.b.step);
    if (!whole || job.n > NARROW || job.rows < NARROW) {
        w->run(w, &job);
        return;
    }
    float wide_a[WIDE], wide_b[WIDE];
    int64_t beside = WIDE / job.n, rows = job.rows / beside;
    if (rows > 0) {
        row_job wide = {.rows = rows, .n = beside * job.n, .at = job.at, .row = beside * job.n};
        wide.a = widened(job.a, job.n, beside, wide_a);
        wide.b = w->b ? widened(job.b, job.n, beside, wide_b) : (td__operand){0};
        w->run(w, &wide);
    }
    int64_t done = rows * beside;
    job.rows -= done;
    job.at += done * job.row;
    job.a.data += done * job.a.row;
    job.b.data = w->b ? job.b.data + done * job.b.row : NULL;
    w->run(w, &job);
}

/* Walks the outer axes; the last two are the rows of a job. */
static void run_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const broadcast_work *w = context;
    td__broadcast p = *w->plan;
    int32_t last = p.rank - 1;
    int64_t steps[TD_MAX_RANK], index[TD_MAX_RANK] = {0}, a = 0, b = 0, at = 0, step = 1;
    for (int32_t i = last; i >= 0; i--) {
        steps[i] = step;
        step *= p.dims[i];
    }
    p.dims[w->split] = end - begin;
    a = begin * p.a[w->split];
    b = begin * p.b[w->split];
    at = begin * steps[w->split];
    int32_t outer = p.rank > 1 ? last - 1 : 0; /* axes walked here */
    for (;;) {
        row_job job = {.rows = p.rank > 1 ? p.dims[last - 1] : 1, .n = p.dims[last], .at = at};
        job.row = p.rank > 1 ? steps[last - 1] : job.n;
        job.a = (td__operand){w->a + a, p.rank > 1 ? p.a[last - 1] : job.n, p.a[last]};
        if (w->b) {
            job.b = (td__operand){w->b + b, p.rank > 1 ? p.b[last - 1] : job.n, p.b[last]};
        }
        run_rows(w, job);
        int32_t i = outer - 1;
        for (; i >= 0; i--) {
            a += p.a[i];
            b += p.b[i];
            at += steps[i];
            if (++index[i] < p.dims[i]) {
                break;
            }
            a -= p.a[i] * p.dims[i];
            b -= p.b[i] * p.dims[i];
            at -= steps[i] * p.dims[i];
            index[i] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

static void run_broadcast(broadcast_work *work) {
    const td__broadcast *p = work->plan;
    int64_t total = 1;
    for (int32_t i = 0; i < p->rank; i++) {
        total *= p->dims[i];
        work->split = p->dims[i] > p->dims[work->split] ? i : work->split;
    }
    if (total == 0) {
        return;
    }
    int64_t size = p->dims[work->split];
    int64_t cut = work->split == p->rank - 1 ? 64 : 1; /* not inside a cache line */
    td__parallel(size, cut, TD__GRAIN / (total / size) + 1, run_part, work);
}

void td__broadcast_binary(const td__broadcast *plan, td__binary op, const float *a, const float *b,
                          float *c) {
    run_broadcast(
        &(broadcast_work){.plan = plan, .run = run_binary, .a = a, .b = b, .result = c, .op = op});
}

void td__broadcast_backward(const td__broadcast *plan, td__binary op, int side, const float *a,
                            const float *b, const float *g, bool add, float *d) {
    run_broadcast(&(broadcast_work){.plan = plan,
                                    .run = run_backward,
                                    .a = a,
                                    .b = b,
                                    .g = g,
                                    .result = d,
                                    .add = add,
                                    .op = op,
                                    .side = side});
}

void td__broadcast_expand(const td__broadcast *plan, const float *x, float scale, bool add,
                          float *y) {
    run_broadcast(&(broadcast_work){
        .plan = plan, .run = run_expand, .a = x, .result = y, .scale = scale, .add = add});
}
