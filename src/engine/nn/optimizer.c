/* Optimizers: parameters updated in place from their gradients.
 *
 * All parameters are seen as one long row of elements, cut into as many parts as there are threads;
 * a part runs the kernel over the pieces of tensors it covers. Gradients are never written: with
 * clipping, a piece at a time is copied into a buffer on the stack.
 */
#include "nn/optimizer.h"
#include "base/memory.h"
#include "base/options.h"
#include "nn/schedule.h"
#include "tape/kernels.h"
#include "tape/parallel.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define CHUNK 1024 /* floats of gradient clipped at a time: fits the first-level cache */
#define GRAIN 8192 /* elements worth a thread */

/* --- kinds -------------------------------------------------------------------------------- */

/* What float32 would lose of 1 - keep is taken in double. */
static td__average average(double keep, double gain) {
    float near = (float)keep;
    return (td__average){.near = near, .rest = (float)(keep - (double)near), .gain = (float)gain};
}

static td__average mean(double keep) {
    return average(keep, 1 - keep);
}

static void run_sgd(const td_optimizer_options *options, const td__step_numbers *numbers, int64_t n,
                    const float *g, float *const s[TD__MAX_STATES], float *w) {
    if (s[0]) {
        td__kernels()->sgd_momentum(n, average(options->momentum, -(double)numbers->rate),
                                    options->nesterov, g, s[0], w);
    } else {
        td__kernels()->sgd(n, numbers->rate, g, w);
    }
}

static void run_adam(const td_optimizer_options *options, const td__step_numbers *numbers,
                     int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->adam(n, numbers->rate, mean(options->beta_1.value), mean(options->beta_2.value),
                        (float)options->epsilon.value, numbers->decay, g, s[0], s[1], s[2], w);
}

static void run_rmsprop(const td_optimizer_options *options, const td__step_numbers *numbers,
                        int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->rmsprop(n, numbers->rate, mean(options->rho.value),
                           average(options->momentum, 1), (float)options->epsilon.value, g, s[0],
                           s[1], s[2], w);
}

static void run_adagrad(const td_optimizer_options *options, const td__step_numbers *numbers,
                        int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->adagrad(n, numbers->rate, (float)options->epsilon.value, g, s[0], w);
}

static void run_adadelta(const td_optimizer_options *options, const td__step_numbers *numbers,
                         int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->adadelta(n, numbers->rate, mean(options->rho.value),
                            (float)options->epsilon.value, g, s[0], s[1], w);
}

static void run_adamax(const td_optimizer_options *options, const td__step_numbers *numbers,
                       int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->adamax(n, numbers->rate, mean(options->beta_1.value),
                          mean(options->beta_2.value), (float)options->epsilon.value, g, s[0], s[1],
                          w);
}

static void run_nadam(const td_optimizer_options *options, const td__step_numbers *numbers,
                      int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    (void)options;
    td__kernels()->nadam(n, numbers->rate, &numbers->nadam, g, s[0], s[1], w);
}

static void run_lion(const td_optimizer_options *options, const td__step_numbers *numbers,
                     int64_t n, const float *g, float *const s[TD__MAX_STATES], float *w) {
    td__kernels()->lion(n, numbers->rate, mean(options->beta_1.value), mean(options->beta_2.value),
                        g, s[0], w);
}

static void same_step(const td_optimizer_options *options, const td__step_numbers *numbers,
                      int64_t n, float *const s[TD__MAX_STATES], float *to) {
    (void)options;
    (void)s;
    for (int64_t i = 0; i < n; i++) {
        to[i] = numbers->rate;
    }
}

static void adam_step(const td_optimizer_options *options, const td__step_numbers *numbers,
                      int64_t n, float *const s[TD__MAX_STATES], float *to) {
    const float *square = s[2] ? s[2] : s[1], epsilon = (float)options->epsilon.value;
    float scale = options->kind == TD_NADAM ? numbers->nadam.of_square : 1;
    for (int64_t i = 0; i < n; i++) {
        to[i] = numbers->rate / (sqrtf(scale * square[i]) + epsilon);
    }
}

static void adamax_step(const td_optimizer_options *options, const td__step_numbers *numbers,
                        int64_t n, float *const s[TD__MAX_STATES], float *to) {
    for (int64_t i = 0; i < n; i++) {
        to[i] = numbers->rate / (s[1][i] + (float)options->epsilon.value);
    }
}

/* rmsprop's and adagrad's: the third state is a mean, whose square is taken off. */
static void root_step(const td_optimizer_options *options, const td__step_numbers *numbers,
                      int64_t n, float *const s[TD__MAX_STATES], float *to) {
    for (int64_t i = 0; i < n; i++) {
        float square = s[0][i] - (s[2] ? s[2][i] * s[2][i] : 0);
        to[i] = numbers->rate / sqrtf((square < 0 ? 0 : square) + (float)options->epsilon.value);
    }
}

#define NUMBER(member, by_default) TD__NUMBER(td_optimizer_options, member, by_default)
#define MOMENTUM TD__AMOUNT(td_optimizer_options, momentum)
#define FLAG(member) TD__BOOL(td_optimizer_options, member)
#define DECAY NUMBER(weight_decay, 0)
#define MOMENTS                                                                                    \
    NUMBER(learning_rate, 0.001), NUMBER(beta_1, 0.9), NUMBER(beta_2, 0.999), NUMBER(epsilon, 1e-7)
static const td__field sgd_fields[] = {NUMBER(learning_rate, 0.01), MOMENTUM, FLAG(nesterov),
                                       DECAY};
static const td__field adam_fields[] = {MOMENTS, FLAG(amsgrad), DECAY};
static const td__field adamw_fields[] = {MOMENTS, FLAG(amsgrad), NUMBER(weight_decay, 0.004)};
static const td__field moments_fields[] = {MOMENTS, DECAY};
static const td__field rmsprop_fields[] = {NUMBER(learning_rate, 0.001), NUMBER(rho, 0.9), MOMENTUM,
                                           NUMBER(epsilon, 1e-7),        FLAG(centered),   DECAY};
static const td__field adagrad_fields[] = {
    NUMBER(learning_rate, 0.001),
    TD__FIELD(NUMBER, td_optimizer_options, initial_accumulator,
              .alias = "initial_accumulator_value", .by_default = 0.1, .number = true),
    NUMBER(epsilon, 1e-7), DECAY};
static const td__field adadelta_fields[] = {NUMBER(learning_rate, 0.001), NUMBER(rho, 0.95),
                                            NUMBER(epsilon, 1e-7), DECAY};
static const td__field lion_fields[] = {NUMBER(learning_rate, 0.001), NUMBER(beta_1, 0.9),
                                        NUMBER(beta_2, 0.99), DECAY};
#undef MOMENTS
#undef DECAY
#undef FLAG
#undef MOMENTUM
#undef NUMBER

#define FIELDS(rows) .fields = (rows), .field_count = TD__COUNT(rows)
static const td__optimizer_kind kinds[TD_OPTIMIZER_KIND_COUNT] = {
    [TD_SGD] = {FIELDS(sgd_fields), .role = TD__ONE_RATE, .states = {"velocity"}, .first = 1,
                .falls = true, .step_size = same_step, .run = run_sgd},
    [TD_ADAM] = {FIELDS(adam_fields), .states = {"m", "v", "largest_v"}, .decays = true,
                 .role = TD__MOMENTS, .first = 1, .second = 2, .step_size = adam_step,
                 .run = run_adam},
    [TD_ADAMW] = {FIELDS(adamw_fields), .states = {"m", "v", "largest_v"}, .decays = true,
                  .role = TD__MOMENTS, .first = 1, .second = 2, .step_size = adam_step,
                  .run = run_adam},
    [TD_RMSPROP] = {FIELDS(rmsprop_fields), .states = {"mean_square", "velocity", "mean_gradient"},
                    .first = 2, .second = 1, .step_size = root_step, .run = run_rmsprop},
    [TD_ADAGRAD] = {FIELDS(adagrad_fields), .states = {"sum_square"}, .role = TD__SHRINKING,
                    .second = 1, .step_size = root_step, .run = run_adagrad},
    [TD_ADADELTA] = {FIELDS(adadelta_fields), .states = {"mean_square", "mean_update"}, .second = 1,
                     .run = run_adadelta},
    [TD_ADAMAX] = {FIELDS(moments_fields), .states = {"m", "u"}, .role = TD__MOMENTS, .first = 1,
                   .second = 2, .step_size = adamax_step, .run = run_adamax},
    [TD_NADAM] = {FIELDS(moments_fields), .states = {"m", "v"}, .role = TD__MOMENTS, .first = 1,
                  .second = 2, .step_size = adam_step, .run = run_nadam},
    [TD_LION] = {FIELDS(lion_fields), .states = {"m"}, .first = 1, .step_size = same_step,
                 .run = run_lion},
};
#define NAME(name, text) text,
static const char *const names[] = {TD_OPTIMIZER_LIST(NAME)};
#undef NAME
static const td__words words = {"optimizer", names, TD_OPTIMIZER_KIND_COUNT, NULL, NULL};

const char *td_optimizer_kind_name(td_optimizer_kind kind) {
    return (unsigned)kind < TD_OPTIMIZER_KIND_COUNT ? names[kind] : NULL;
}

const td__field *td__optimizer_fields(td_optimizer_kind kind, size_t *count) {
    *count = kinds[kind].field_count;
    return kinds[kind].fields;
}

/* What only some options need is kept only with them. */
static bool has_state(const td_optimizer *optimizer, int state) {
    const td_optimizer_options *options = &optimizer->options;
    const char *name = optimizer->kind->states[state];
    const struct {
        const char *name;
        bool needed;
    } optional[] = {{"velocity", options->momentum > 0},
                    {"largest_v", options->amsgrad},
                    {"mean_gradient", options->centered}};
    for (size_t i = 0; name && i < TD__COUNT(optional); i++) {
        if (strcmp(name, optional[i].name) == 0) {
            return optional[i].needed;
        }
    }
    return name != NULL;
}

size_t td__optimizer_states(const td_optimizer_options *options) {
    const td_optimizer planned = {.options = *options, .kind = &kinds[options->kind]};
    size_t count = 0;
    for (int s = 0; s < TD__MAX_STATES; s++) {
        count += has_state(&planned, s);
    }
    return count;
}

td__optimizer_role td__optimizer_role_of(const td_optimizer *optimizer) {
    return optimizer->kind->role;
}

/* --- options ------------------------------------------------------------------------------ */

static td_status below_one(const char *name, double value, td_error *error) {
    return value < 1 ? TD_OK
                     : td_error_set(error, TD_RANGE,
                                    "optimizer: '%s' is %g, it must be less than 1", name, value);
}

static td_status check_options(const td_optimizer_options *options, td_error *error) {
    const td__optimizer_kind *kind = &kinds[options->kind];
    char where[64];
    (void)snprintf(where, sizeof where, "optimizer %s: ", names[options->kind]);
    td_status status = td__fields_check(kind->fields, kind->field_count, options, where, error);
    status = status ? status : below_one("momentum", options->momentum, error);
    status = status ? status : below_one("beta_1", options->beta_1.value, error);
    status = status ? status : below_one("beta_2", options->beta_2.value, error);
    status = status ? status : below_one("rho", options->rho.value, error);
    if (!status && options->epsilon.value > 0 && (float)options->epsilon.value < FLT_MIN) {
        status =
            td_error_set(error, TD_RANGE, "%sepsilon is %g, parameters are float32: use %g or more",
                         where, options->epsilon.value, (double)FLT_MIN);
    }
    if (!status && (!(options->clip_norm >= 0) || !(options->clip_value >= 0))) {
        status =
            td_error_set(error, TD_RANGE, "%sclip_norm (%g) and clip_value (%g) must be 0 or more",
                         where, options->clip_norm, options->clip_value);
    }
    return status;
}

td_status td_optimizer_configure(td_optimizer_options *options, const char *kind_name,
                                 const td_setting *settings, size_t count, td_error *error) {
    int found = td__word_find(&words, kind_name, "", error);
    if (found < 0) {
        return TD_NOT_FOUND;
    }
    const td__optimizer_kind *kind = &kinds[found];
    td_optimizer_options result = {.size = sizeof result,
                                   .kind = (td_optimizer_kind)found,
                                   .clip_norm = options->clip_norm,
                                   .clip_value = options->clip_value,
                                   .schedule = options->schedule};
    char where[64];
    (void)snprintf(where, sizeof where, "optimizer %s: ", kind_name);
    td__fields_fill(kind->fields, kind->field_count, &result, true);
    td_status status =
        td__fields_set(kind->fields, kind->field_count, &result, settings, count, where, error);
    status = status ? status : check_options(&result, error);
    if (!status) {
        *options = result;
    }
    return status;
}

static td_status settle_options(td_optimizer *optimizer, const td_optimizer_options *given,
                                td_error *error) {
    td_optimizer_options *options = &optimizer->options;
    (void)td__options(options, sizeof *options, given);
    if ((unsigned)options->kind >= TD_OPTIMIZER_KIND_COUNT) {
        return td_error_set(error, TD_INVALID, "the optimizer's options have no valid kind");
    }
    optimizer->kind = &kinds[options->kind];
    td__fields_fill(optimizer->kind->fields, optimizer->kind->field_count, options, false);
    td_status status = check_options(options, error);
    status = status ? status : td__schedule_settle(&options->schedule, error);
    status = status
                 ? status
                 : td__fields_write(optimizer->kind->fields, optimizer->kind->field_count, options,
                                    &optimizer->settings, &optimizer->setting_count, error);
    size_t count;
    const td__field *fields = status ? NULL : td__schedule_fields(options->schedule.kind, &count);
    return status
               ? status
               : td__fields_write(fields, count, &options->schedule, &optimizer->schedule_settings,
                                  &optimizer->schedule_setting_count, error);
}

/* --- making one --------------------------------------------------------------------------- */

td_tensor *td__tensor_like(const td_tensor *parameter, const char *suffix, td_error *error) {
    char name[512];
    (void)snprintf(name, sizeof name, "%s.%s", td_tensor_name(parameter), suffix);
    return td_tensor_create(name, TD_FLOAT32, parameter->shape, error);
}

static td_status add_parameter(td_optimizer *optimizer, size_t i, td_tensor *parameter,
                               td_error *error) {
    if (!parameter || parameter->dtype != TD_FLOAT32 || parameter->recording) {
        return td_error_set(error, TD_INVALID,
                            "the optimizer's parameter %zu ('%s') is no float32 tensor on the heap",
                            i, parameter ? parameter->name : "NULL");
    }
    optimizer->parameters[i] = parameter;
    optimizer->ends[i] = (i ? optimizer->ends[i - 1] : 0) + parameter->count;
    for (int s = 0; s < TD__MAX_STATES; s++) {
        if (!has_state(optimizer, s)) {
            continue;
        }
        td_tensor *state = td__tensor_like(parameter, optimizer->kind->states[s], error);
        if (!state) {
            return TD_MEMORY;
        }
        optimizer->states[TD__MAX_STATES * i + (size_t)s] = state;
        optimizer->named[optimizer->named_count++] = state;
        for (int64_t k = 0; optimizer->options.kind == TD_ADAGRAD && k < state->count; k++) {
            td__floats(state)[k] = (float)optimizer->options.initial_accumulator.value;
        }
    }
    return TD_OK;
}

td_optimizer *td_optimizer_create(const td_optimizer_options *options, size_t count,
                                  td_tensor *const parameters[], td_error *error) {
    td_optimizer *optimizer = td__calloc(1, sizeof *optimizer);
    if (!optimizer) {
        (void)td_error_set(error, TD_MEMORY, "out of memory for an optimizer");
        return NULL;
    }
    optimizer->parameters = td__calloc(count + 1, sizeof(td_tensor *));
    optimizer->ends = td__calloc(count + 1, sizeof *optimizer->ends);
    optimizer->states = td__calloc(count + 1, TD__MAX_STATES * sizeof(td_tensor *));
    optimizer->named = td__calloc(count + 1, TD__MAX_STATES * sizeof(td_tensor *));
    optimizer->updates = td__calloc(count + 1, sizeof(td_tensor *));
    td_status status = TD_OK;
    if (!optimizer->parameters || !optimizer->ends || !optimizer->states || !optimizer->named ||
        !optimizer->updates) {
        status = td_error_set(error, TD_MEMORY, "out of memory for an optimizer");
    }
    status = status ? status : settle_options(optimizer, options, error);
    for (; optimizer->count < count && !status; optimizer->count++) {
        status = add_parameter(optimizer, optimizer->count, parameters[optimizer->count], error);
    }
    if (status) {
        td_optimizer_destroy(optimizer);
        return NULL;
    }
    optimizer->rate =
        td__schedule_rate(&optimizer->options.schedule, optimizer->options.learning_rate.value, 0);
    return optimizer;
}

void td_optimizer_destroy(td_optimizer *optimizer) {
    if (!optimizer) {
        return;
    }
    for (size_t i = 0; i < optimizer->named_count; i++) {
        td_tensor_destroy(optimizer->named[i]);
    }
    for (size_t i = 0; i < optimizer->count; i++) {
        td_tensor_destroy(optimizer->updates[i]);
    }
    td__free(optimizer->parameters);
    td__free(optimizer->ends);
    td__free(optimizer->states);
    td__free(optimizer->named);
    td__free(optimizer->updates);
    td__free(optimizer->settings);
    td__free(optimizer->schedule_settings);
    td__free(optimizer);
}

/* --- a step ------------------------------------------------------------------------------- */

/* Calls piece(optimizer, part, parameter, first, n) for what [begin, end) covers of each tensor. */
typedef void piece_function(td_optimizer *optimizer, int part, size_t parameter, int64_t first,
                            int64_t n);

static inline void for_pieces(td_optimizer *optimizer, int part, int64_t begin, int64_t end,
                              piece_function *piece) {
    size_t i = 0;
    for (size_t high = optimizer->count; i < high;) { /* the parameter that begin is in */
        size_t middle = i + (high - i) / 2;
        if (optimizer->ends[middle] <= begin) {
            i = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; begin < end; i++) {
        int64_t start = i ? optimizer->ends[i - 1] : 0;
        int64_t stop = optimizer->ends[i] < end ? optimizer->ends[i] : end;
        if (optimizer->gradients[i] && stop > begin) {
            piece(optimizer, part, i, begin - start, stop - begin);
        }
        begin = stop;
    }
}

static void add_squares(td_optimizer *optimizer, int part, size_t i, int64_t first, int64_t n) {
    const float *g = td__floats(optimizer->gradients[i]) + first;
    for (int64_t k = 0; k < n; k += CHUNK) {
        int64_t m = n - k < CHUNK ? n - k : CHUNK;
        optimizer->squares[part] += (double)td__kernels()->dot(m, g + k, g + k);
    }
}

static void clip(const td__step_numbers *numbers, int64_t n, const float *g, float *clipped) {
    td__kernels()->affine(n, numbers->scale, g, 0, clipped);
    if (numbers->limit > 0) {
        for (int64_t i = 0; i < n; i++) {
            float value = clipped[i];
            value = value > numbers->limit ? numbers->limit : value;
            clipped[i] = value < -numbers->limit ? -numbers->limit : value;
        }
    }
}

static void run_kernel(const td_optimizer *optimizer, size_t i, int64_t first, int64_t n,
                       const float *g) {
    const td__optimizer_kind *kind = optimizer->kind;
    const td__step_numbers *numbers = &optimizer->numbers;
    float *w = td__floats(optimizer->parameters[i]) + first, *states[TD__MAX_STATES];
    for (int s = 0; s < TD__MAX_STATES; s++) {
        td_tensor *state = optimizer->states[TD__MAX_STATES * i + (size_t)s];
        states[s] = state ? td__floats(state) + first : NULL;
    }
    if (numbers->decay != 0 && !kind->decays) {
        td__kernels()->sgd(n, numbers->decay, w, w);
    }
    kind->run(&optimizer->options, numbers, n, g, states, w);
}

static void update(td_optimizer *optimizer, int part, size_t i, int64_t first, int64_t n) {
    (void)part;
    const td__step_numbers *numbers = &optimizer->numbers;
    const float *g = td__floats(optimizer->gradients[i]) + first;
    float *w = td__floats(optimizer->parameters[i]) + first;
    float *kept = optimizer->updates[i] ? td__floats(optimizer->updates[i]) + first : NULL;
    if (kept) {
        memcpy(kept, w, (size_t)n * sizeof *w);
    }
    if (numbers->scale == 1 && numbers->limit == 0) {
        run_kernel(optimizer, i, first, n, g);
    } else {
        for (int64_t k = 0; k < n; k += CHUNK) {
            float clipped[CHUNK];
            int64_t m = n - k < CHUNK ? n - k : CHUNK;
            clip(numbers, m, g + k, clipped);
            run_kernel(optimizer, i, first + k, m, clipped);
        }
    }
    if (kept) {
        td__kernels()->subtract(n, w, kept, kept);
    }
}

static void square_part(void *context, int part, int64_t begin, int64_t end) {
    for_pieces(context, part, begin, end, add_squares);
}
static void update_part(void *context, int part, int64_t begin, int64_t end) {
    for_pieces(context, part, begin, end, update);
}

static td_status check_gradients(td_optimizer *optimizer, td_tensor *const gradients[],
                                 td_error *error) {
    for (size_t i = 0; i < optimizer->count; i++) {
        const td_tensor *g = gradients[i], *w = optimizer->parameters[i];
        if (g && (g->dtype != TD_FLOAT32 || !td_shape_equal(&g->shape, &w->shape))) {
            char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
            return td_error_set(error, TD_BAD_SHAPE,
                                "the gradient of '%s' is %s %s, the parameter float32 %s", w->name,
                                td_dtype_name(g->dtype), td_shape_text(&g->shape, a),
                                td_shape_text(&w->shape, b));
        }
        if (!g && optimizer->updates[i]) {
            memset(optimizer->updates[i]->data, 0, (size_t)w->count * sizeof(float));
        }
    }
    return TD_OK;
}

static float norm_scale(td_optimizer *optimizer, int64_t total) {
    memset(optimizer->squares, 0, sizeof optimizer->squares);
    int parts = td__parallel(total, 16, GRAIN, square_part, optimizer);
    double squares = 0;
    for (int i = 0; i < parts; i++) {
        squares += optimizer->squares[i];
    }
    double limit = optimizer->options.clip_norm;
    optimizer->norm = sqrt(squares);
    return optimizer->norm > limit ? (float)(limit / optimizer->norm) : 1;
}

/* 1 - beta^t, for a beta near 1 too: how much of a mean that began at 0 is values. */
static double share(double beta, double t) {
    return -expm1(t * log(beta));
}

/* The rate with what corrects moments that began at 0. */
static double corrected_rate(const td_optimizer_options *options, double rate, double t) {
    double first = share(options->beta_1.value, t);
    switch (options->kind) {
    case TD_ADAM:
    case TD_ADAMW:
        return rate * sqrt(share(options->beta_2.value, t)) / first;
    case TD_ADAMAX:
        return rate / first;
    default:
        return rate;
    }
}

/* Keras's momentum of step t: it rises towards beta_1. */
static double nadam_momentum(const td_optimizer_options *options, double t) {
    return options->beta_1.value * (1 - 0.5 * pow(0.96, t));
}

static td__nadam nadam_numbers(td_optimizer *optimizer) {
    const td_optimizer_options *options = &optimizer->options;
    if (optimizer->nadam_steps == 0 || optimizer->nadam_steps + 1 != optimizer->steps) {
        optimizer->nadam_product = 1; /* a beginning, or one after resuming */
        optimizer->nadam_steps = 0;
    }
    while (optimizer->nadam_steps < optimizer->steps && optimizer->nadam_product > 0) {
        optimizer->nadam_product *= nadam_momentum(options, (double)++optimizer->nadam_steps);
    }
    optimizer->nadam_steps = optimizer->steps;
    double t = (double)optimizer->steps, now = nadam_momentum(options, t);
    double next = nadam_momentum(options, t + 1), product = optimizer->nadam_product;
    return (td__nadam){.first = mean(options->beta_1.value),
                       .second = mean(options->beta_2.value),
                       .epsilon = (float)options->epsilon.value,
                       .of_moment = (float)(next / (1 - product * next)),
                       .of_gradient = (float)((1 - now) / (1 - product)),
                       .of_square = (float)(1 / share(options->beta_2.value, t))};
}

td_status td_optimizer_step(td_optimizer *optimizer, td_tensor *const gradients[],
                            td_error *error) {
    td_status status = check_gradients(optimizer, gradients, error);
    if (status) {
        return status;
    }
    const td_optimizer_options *options = &optimizer->options;
    double rate =
        td__schedule_rate(&options->schedule, options->learning_rate.value, optimizer->steps);
    optimizer->rate = rate;
    optimizer->steps++;
    optimizer->gradients = gradients;
    int64_t total = optimizer->count ? optimizer->ends[optimizer->count - 1] : 0;
    optimizer->numbers =
        (td__step_numbers){.rate = (float)corrected_rate(options, rate, (double)optimizer->steps),
                           .decay = (float)(rate * options->weight_decay.value),
                           .scale = options->clip_norm > 0 ? norm_scale(optimizer, total) : 1,
                           .limit = (float)options->clip_value};
    if (options->kind == TD_NADAM) {
        optimizer->numbers.nadam = nadam_numbers(optimizer);
    }
    (void)td__parallel(total, 16, GRAIN, update_part, optimizer);
    optimizer->gradients = NULL;
    return TD_OK;
}
