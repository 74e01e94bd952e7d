/* Learning-rate schedules; the equations are in tapedeck/nn.h. */
#include "nn/schedule.h"

#include <math.h>

#define STEPS TD__INTEGER(td_schedule, steps, "decay_steps", 0, 0)
#define WARMUP TD__INTEGER(td_schedule, warmup, "warmup_steps", 0, 0)

static const td__field constant_fields[] = {WARMUP};
static const td__field cosine_fields[] = {
    WARMUP,
    STEPS,
    {.key = "end",
     .alias = "alpha",
     .type = TD__FIELD_NUMBER,
     .offset = offsetof(td_schedule, end)},
};
static const td__field exponential_fields[] = {WARMUP, STEPS,
                                               TD__NUMBER(td_schedule, factor, 0.96)};
static const td__field step_fields[] = {WARMUP, STEPS, TD__NUMBER(td_schedule, factor, 0.1)};
static const td__field linear_fields[] = {WARMUP, STEPS, TD__NUMBER(td_schedule, end, 1e-4)};
static const td__field polynomial_fields[] = {WARMUP, STEPS, TD__NUMBER(td_schedule, end, 1e-4),
                                              TD__NUMBER(td_schedule, power, 1)};
static const td__field piecewise_fields[] = {
    WARMUP,
    {.key = "boundaries",
     .type = TD__FIELD_NUMBERS,
     .offset = offsetof(td_schedule, boundaries),
     .count_offset = offsetof(td_schedule, boundary_count),
     .room = TD_MAX_PIECES},
    {.key = "values",
     .type = TD__FIELD_NUMBERS,
     .offset = offsetof(td_schedule, values),
     .count_offset = offsetof(td_schedule, value_count),
     .room = TD_MAX_PIECES + 1},
};

#define ROW(rows)                                                                                  \
    { rows, TD__COUNT(rows) }
static const struct {
    const td__field *fields;
    size_t count;
} tables[TD_SCHEDULE_KIND_COUNT] = {
    [TD_SCHEDULE_CONSTANT] = ROW(constant_fields),
    [TD_SCHEDULE_COSINE] = ROW(cosine_fields),
    [TD_SCHEDULE_EXPONENTIAL] = ROW(exponential_fields),
    [TD_SCHEDULE_STEP] = ROW(step_fields),
    [TD_SCHEDULE_LINEAR] = ROW(linear_fields),
    [TD_SCHEDULE_POLYNOMIAL] = ROW(polynomial_fields),
    [TD_SCHEDULE_PIECEWISE] = ROW(piecewise_fields),
};

static const char *const names[TD_SCHEDULE_KIND_COUNT] = {
    "constant", "cosine", "exponential", "step", "linear", "polynomial", "piecewise"};
static const td__words words = {"learning-rate schedule", names, TD_SCHEDULE_KIND_COUNT, NULL,
                                NULL};

const char *td_schedule_kind_name(td_schedule_kind kind) {
    return (unsigned)kind < TD_SCHEDULE_KIND_COUNT ? names[kind] : NULL;
}

const td__field *td__schedule_fields(td_schedule_kind kind, size_t *count) {
    *count = tables[kind].count;
    return tables[kind].fields;
}

static td_status check_pieces(const td_schedule *schedule, td_error *error) {
    if (schedule->value_count != schedule->boundary_count + 1) {
        return td_error_set(
            error, TD_INVALID, "schedule piecewise: %lld boundaries need %lld values, not %lld",
            (long long)schedule->boundary_count, (long long)schedule->boundary_count + 1,
            (long long)schedule->value_count);
    }
    for (int64_t i = 1; i < schedule->boundary_count; i++) {
        if (!(schedule->boundaries[i - 1] < schedule->boundaries[i])) {
            return td_error_set(error, TD_INVALID,
                                "schedule piecewise: boundaries must rise, %g follows %g",
                                schedule->boundaries[i], schedule->boundaries[i - 1]);
        }
    }
    return TD_OK;
}

td_status td__schedule_settle(td_schedule *schedule, td_error *error) {
    if ((unsigned)schedule->kind >= TD_SCHEDULE_KIND_COUNT) {
        return td_error_set(error, TD_INVALID, "%d is no learning-rate schedule",
                            (int)schedule->kind);
    }
    size_t count;
    const td__field *fields = td__schedule_fields(schedule->kind, &count);
    char where[64];
    (void)snprintf(where, sizeof where, "schedule %s: ", names[schedule->kind]);
    td__fields_fill(fields, count, schedule, false);
    td_status status = td__fields_check(fields, count, schedule, where, error);
    if (!status && schedule->kind == TD_SCHEDULE_PIECEWISE) {
        status = check_pieces(schedule, error);
    }
    return status;
}

td_status td_schedule_configure(td_schedule *schedule, const char *kind, const td_setting *settings,
                                size_t count, td_error *error) {
    int found = td__word_find(&words, kind, "", error);
    if (found < 0) {
        return TD_NOT_FOUND;
    }
    td_schedule result = {.kind = (td_schedule_kind)found};
    size_t field_count;
    const td__field *fields = td__schedule_fields(result.kind, &field_count);
    char where[64];
    (void)snprintf(where, sizeof where, "schedule %s: ", names[found]);
    td__fields_fill(fields, field_count, &result, true);
    td_status status = td__fields_set(fields, field_count, &result, settings, count, where, error);
    td__fields_protect(fields, field_count, &result);
    td_schedule settled = result;
    status = status ? status : td__schedule_settle(&settled, error);
    if (!status) {
        *schedule = result;
    }
    return status;
}

static double piece(const td_schedule *schedule, double done) {
    int64_t i = 0;
    while (i < schedule->boundary_count && schedule->boundaries[i] < done) {
        i++;
    }
    return schedule->values[i];
}

/* Of t steps after the warm-up. */
static double rate_at(const td_schedule *schedule, double rate, double t) {
    if (schedule->kind == TD_SCHEDULE_PIECEWISE) {
        return piece(schedule, t);
    }
    if (schedule->kind == TD_SCHEDULE_CONSTANT || schedule->steps <= 0) {
        return rate;
    }
    double passed = t / (double)schedule->steps, end = schedule->end;
    double left = 1 - fmin(passed, 1); /* 1 at first, 0 at the end */
    switch (schedule->kind) {
    case TD_SCHEDULE_COSINE:
        return rate * ((1 - end) * (1 + cos(acos(-1) * (1 - left))) / 2 + end);
    case TD_SCHEDULE_EXPONENTIAL:
        return rate * pow(schedule->factor, passed);
    case TD_SCHEDULE_STEP:
        return rate * pow(schedule->factor, floor(passed));
    case TD_SCHEDULE_LINEAR:
        return (rate - end) * left + end;
    default: /* polynomial */
        return (rate - end) * pow(left, schedule->power) + end;
    }
}

double td__schedule_rate(const td_schedule *schedule, double rate, uint64_t done) {
    double t = (double)done, warmup = (double)schedule->warmup;
    if (t < warmup) {
        return rate_at(schedule, rate, 0) * t / warmup;
    }
    return rate_at(schedule, rate, t - warmup);
}

double td_schedule_rate(const td_schedule *schedule, double rate, uint64_t done) {
    td_schedule settled = *schedule;
    return td__schedule_settle(&settled, NULL) ? rate : td__schedule_rate(&settled, rate, done);
}
