/* Learning-rate schedules; the equations are in tapedeck/nn.h. */
#include "nn/schedule.h"

#include "base/options.h"

#include <math.h>
#include <string.h>

#define STEPS TD__INTEGER(td_schedule, steps, "decay_steps", 0, 0)
#define WARMUP TD__INTEGER(td_schedule, warmup, "warmup_steps", 0, 0)
#define COMMON                                                                                     \
    TD__FIELD_CALLED(NUMBER, td_schedule, initial, "initial_learning_rate", .number = true,        \
                     .no_default = true, .quiet = true),                                           \
        WARMUP
#define NUMBER(member, another_key, default_value)                                                 \
    TD__FIELD(NUMBER, td_schedule, member, .alias = another_key, .by_default = default_value,      \
              .number = true)
#define SWITCH(member) TD__FIELD(BOOL, td_schedule, member, .quiet = true)

static const td__field constant_fields[] = {COMMON};
static const td__field cosine_fields[] = {COMMON, STEPS, NUMBER(end, "alpha", 0),
                                          TD__FIELD(NUMBER, td_schedule, warmup_target,
                                                    .number = true, .no_default = true,
                                                    .quiet = true)};
static const td__field exponential_fields[] = {COMMON, STEPS, NUMBER(factor, "decay_rate", 0.96),
                                               SWITCH(staircase)};
static const td__field step_fields[] = {COMMON, STEPS, NUMBER(factor, "decay_rate", 0.1)};
static const td__field linear_fields[] = {COMMON, STEPS, NUMBER(end, "end_learning_rate", 1e-4)};
static const td__field polynomial_fields[] = {COMMON, STEPS, NUMBER(end, "end_learning_rate", 1e-4),
                                              NUMBER(power, NULL, 1), SWITCH(cycle)};
static const td__field inverse_fields[] = {COMMON, STEPS, NUMBER(factor, "decay_rate", 1),
                                           SWITCH(staircase)};
static const td__field restarts_fields[] = {
    COMMON, TD__INTEGER(td_schedule, steps, "first_decay_steps", 0, 0), NUMBER(end, "alpha", 0),
    TD__FIELD(NUMBER, td_schedule, t_mul, .by_default = 2, .minimum = 1, .number = true),
    NUMBER(m_mul, NULL, 1)};
static const td__field piecewise_fields[] = {
    WARMUP,
    TD__FIELD(NUMBERS, td_schedule, boundaries,
              .count_offset = offsetof(td_schedule, boundary_count), .room = TD_MAX_PIECES),
    TD__FIELD(NUMBERS, td_schedule, values, .count_offset = offsetof(td_schedule, value_count),
              .room = TD_MAX_PIECES + 1),
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
    [TD_SCHEDULE_INVERSE_TIME] = ROW(inverse_fields),
    [TD_SCHEDULE_COSINE_RESTARTS] = ROW(restarts_fields),
};

static const char *const names[TD_SCHEDULE_KIND_COUNT] = {
    "constant",   "cosine",    "exponential",  "step",           "linear",
    "polynomial", "piecewise", "inverse_time", "cosine_restarts"};
static const td__words words = {"learning-rate schedule", names, TD_SCHEDULE_KIND_COUNT, NULL,
                                NULL};

/* Keras's names. */
static const struct {
    const char *name;
    td_schedule_kind kind;
} synonyms[] = {
    {"cosine_decay", TD_SCHEDULE_COSINE},
    {"cosine_decay_restarts", TD_SCHEDULE_COSINE_RESTARTS},
    {"exponential_decay", TD_SCHEDULE_EXPONENTIAL},
    {"inverse_time_decay", TD_SCHEDULE_INVERSE_TIME},
    {"polynomial_decay", TD_SCHEDULE_POLYNOMIAL},
    {"piecewise_constant", TD_SCHEDULE_PIECEWISE},
    {"piecewise_constant_decay", TD_SCHEDULE_PIECEWISE},
};

static int find_kind(const char *name, td_error *error) {
    for (size_t i = 0; i < TD__COUNT(synonyms); i++) {
        if (!strcmp(name, synonyms[i].name)) {
            return (int)synonyms[i].kind;
        }
    }
    return td__word_find(&words, name, "", error);
}

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
    int found = find_kind(kind, error);
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
    for (size_t i = 0; !status && i < count; i++) {
        const td_setting *setting = &settings[i];
        bool length = !strcmp(setting->key, "steps") || !strcmp(setting->key, "decay_steps") ||
                      !strcmp(setting->key, "first_decay_steps");
        if (length && setting->value.kind == TD_VALUE_NUMBER && setting->value.number == 0) {
            status = td_error_set(error, TD_INVALID,
                                  "%s%s must be at least 1; leave it out to spread the schedule "
                                  "over all of training",
                                  where, setting->key);
        }
    }
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

static double cosine(double rate, double end, double passed) {
    return rate * ((1 - end) * (1 + cos(acos(-1) * passed)) / 2 + end);
}

/* The i-th period is t_mul^i times as long as the first. */
static double restarted(const td_schedule *schedule, double rate, double passed) {
    double period, length = 1, before;
    if (schedule->t_mul.value == 1) {
        period = before = floor(passed);
    } else {
        period = floor(log(1 + passed * (schedule->t_mul.value - 1)) / log(schedule->t_mul.value));
        length = pow(schedule->t_mul.value, period);
        before = (length - 1) / (schedule->t_mul.value - 1);
    }
    double start = pow(schedule->m_mul.value, period), end = schedule->end.value;
    return rate * ((1 - end) * start * (1 + cos(acos(-1) * (passed - before) / length)) / 2 + end);
}

static double polynomial(const td_schedule *schedule, double rate, double passed) {
    double length = schedule->cycle ? fmax(1, ceil(passed)) : 1;
    double left = 1 - fmin(passed / length, 1); /* 1 at first, 0 at the end */
    return (rate - schedule->end.value) * pow(left, schedule->power.value) + schedule->end.value;
}

/* Of t steps after the warm-up. */
static double rate_at(const td_schedule *schedule, double rate, double t) {
    if (schedule->kind == TD_SCHEDULE_PIECEWISE) {
        return piece(schedule, t);
    }
    if (schedule->kind == TD_SCHEDULE_CONSTANT || schedule->steps <= 0) {
        return rate;
    }
    double passed = t / (double)schedule->steps;
    double stepped = schedule->staircase ? floor(passed) : passed;
    switch (schedule->kind) {
    case TD_SCHEDULE_COSINE:
        return cosine(rate, schedule->end.value, fmin(passed, 1));
    case TD_SCHEDULE_COSINE_RESTARTS:
        return restarted(schedule, rate, passed);
    case TD_SCHEDULE_EXPONENTIAL:
        return rate * pow(schedule->factor.value, stepped);
    case TD_SCHEDULE_INVERSE_TIME:
        return rate / (1 + schedule->factor.value * stepped);
    case TD_SCHEDULE_STEP:
        return rate * pow(schedule->factor.value, floor(passed));
    case TD_SCHEDULE_LINEAR:
        return (rate - schedule->end.value) * (1 - fmin(passed, 1)) + schedule->end.value;
    default:
        return polynomial(schedule, rate, passed);
    }
}

double td__schedule_rate(const td_schedule *schedule, double rate, uint64_t done) {
    double t = (double)done, warmup = (double)schedule->warmup;
    double from = 0;
    rate = td__number_or(schedule->initial, rate);
    if (schedule->warmup_target.set) {
        from = rate;
        rate = schedule->warmup_target.value;
    }
    if (t < warmup) {
        return from + (rate_at(schedule, rate, 0) - from) * t / warmup;
    }
    return rate_at(schedule, rate, t - warmup);
}

double td_schedule_rate(const td_schedule *schedule, double rate, uint64_t done) {
    td_schedule settled = *schedule;
    return td__schedule_settle(&settled, NULL) ? rate : td__schedule_rate(&settled, rate, done);
}
