/* Where the first number that is not finite came from, or a spike of the loss.
 *
 * The flight record says at which step the loss is what is looked for. The steps from the last checkpoint whose
 * parameters are finite are executed again. In each, three places can make what is not finite: the forward pass
 * (the loss shows it), the backward pass and the update (the parameters show it). From where it shows, the tape
 * is followed back through tensors that are not finite to the first operation all of whose inputs are: values
 * that are infinite on purpose, as in masks, lie beside that path. */
#include "replay/operation.h"
#include "replay/player.h"

#include "base/memory.h"
#include "base/options.h"
#include "deck/condition.h"
#include "nn/model.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 16, MEDIAN_OF = 32, MEDIAN_LEAST = 8, PLACE_SIZE = 400 };
static const double spike_factor = 8; /* of the median */

typedef struct origin {
    td_origin base;
    td__arena *arena;
} origin;

typedef struct search {
    td__player player;
    td_origin_options options;
    td__tape_watch watch;
    origin *found;
    bool spike;
    int64_t target; /* the step whose loss is not finite, or spikes */
    td_operation *operation;
    td_origin_row *rows;
    bool *known;   /* parameters that were not finite before the first step that is executed */
    double *norms; /* of each weight's gradient, in the step before */
    bool no_memory;
} search;

/* ---- Which step ------------------------------------------------------------------------------ */

static bool is_wanted(const search *s, double loss) {
    const char *what = s->options.what;
    return !what ? !isfinite(loss) : !strcmp(what, "nan") ? isnan(loss) : isinf(loss);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const td__flight_record *records, size_t count) {
    double values[MEDIAN_OF];
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(records[i].loss)) {
            values[finite++] = records[i].loss;
        }
    }
    qsort(values, finite, sizeof *values, by_value);
    return finite >= MEDIAN_LEAST ? values[finite / 2] : (double)NAN;
}

static double median_before(const td__flight_log *log, size_t index) {
    size_t count = index < MEDIAN_OF ? index : MEDIAN_OF;
    return median_of(log->records + index - count, count);
}

/* The first record for which the condition holds; count: none. */
static td_status find_when(const search *s, size_t *index, td_error *error) {
    static const char *const names[] = {"loss", "learning_rate", "gradient_norm"};
    enum { COUNT = sizeof names / sizeof *names };
    const td__flight_log *log = &s->player.flight;
    td_signal signals[COUNT];
    td__expected expected[COUNT];
    td__condition *condition = td__condition_parse(s->options.when, error);
    if (!condition) {
        return error && error->status ? error->status : TD_INVALID;
    }
    bool room = true;
    memset(signals, 0, sizeof signals);
    for (size_t i = 0; i < COUNT; i++) {
        bool uses = false, stats = false;
        signals[i].name = (char *)(uintptr_t)names[i];
        expected[i] = (td__expected){.name = names[i]};
        room = room && td__condition_meet(condition, &signals[i], &uses, &stats);
    }
    td_status status = room ? td__condition_check(condition, expected, COUNT, NULL, error)
                            : td_error_set(error, TD_MEMORY, "out of memory for a condition");
    bool holds = false;
    for (*index = 0; !status && *index < log->count; *index += !holds) {
        const td__flight_record *record = &log->records[*index];
        td__moment now = {.step = record->step, .serial = *index + 1};
        const double values[COUNT] = {record->loss, record->rate, record->norm};
        for (size_t i = 0; i < COUNT; i++) {
            signals[i].value = values[i];
            signals[i].value_serial = isnan(values[i]) && i ? 0 : now.serial;
        }
        td__condition_update(condition, &now);
        holds = td__condition_holds(condition, &now);
        if (holds) {
            break;
        }
    }
    td__condition_destroy(condition);
    return status;
}

static size_t find_spike(const td__flight_log *log) {
    for (size_t i = MEDIAN_LEAST; i < log->count; i++) {
        double median = median_before(log, i);
        if (median > 0 && log->records[i].loss > spike_factor * median) {
            return i;
        }
    }
    return log->count;
}

/* Sets target: the step that is looked at last. Of a run whose losses are all finite its last one, because its
 * update may have spoilt the parameters. */
static td_status find_target(search *s, td_error *error) {
    const td__flight_log *log = &s->player.flight;
    size_t i = 0;
    td_status status = TD_OK;
    if (s->spike && !log->count) {
        return td_error_set(error, TD_NOT_FOUND, "%s has no flight record, which has its losses",
                            s->player.folder);
    }
    if (s->spike && s->options.when) {
        status = find_when(s, &i, error);
    } else if (s->spike) {
        i = find_spike(log);
    } else {
        while (i < log->count && !is_wanted(s, log->records[i].loss)) {
            i++;
        }
    }
    if (status) {
        return status;
    }
    if (i < log->count) {
        s->target = log->records[i].step;
        s->found->base.before = s->spike ? median_before(log, i) : (double)NAN;
    } else {
        s->target = s->spike ? 0 : s->player.last_step;
    }
    return TD_OK;
}

/* ---- Examples by their own loss -------------------------------------------------------------- */

/* Highest first, and before them those that are no number. */
static int by_loss(const void *a, const void *b) {
    const td_origin_row *x = a, *y = b;
    int numbers = isnan(y->loss) - isnan(x->loss);
    int order = numbers ? numbers : (x->loss < y->loss) - (x->loss > y->loss);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

/* The loss of each example over all outputs. */
static void add_example_losses(td_trainer *trainer, td_origin_row *all) {
    td__pass *pass = &trainer->pass;
    for (size_t k = 0; k < td__pass_outcome_count(pass); k++) {
        const td_tensor *losses;
        double weight = pass->head_count ? pass->heads[k].weight : 1;
        if (td__pass_example_losses(pass, k, &losses, NULL) || !losses) {
            continue;
        }
        int64_t each = losses->count / pass->batch->count;
        for (int64_t i = 0; i < pass->batch->count; i++) {
            double sum = 0;
            for (int64_t n = 0; n < each; n++) {
                sum += (double)td__floats(losses)[i * each + n];
            }
            all[i].loss += weight * sum / (double)(each ? each : 1);
        }
    }
}

/* Lists the batch by the examples' own losses; bad: only those whose loss is not finite. */
static void rank_rows(search *s, td_trainer *trainer, bool bad) {
    td_origin *found = &s->found->base;
    const td_batch *batch = trainer->pass.batch;
    if (trainer->shards.count > 1) { /* the passes of its shards are gone */
        return;
    }
    td_origin_row *all = td__calloc((size_t)batch->count, sizeof *all);
    if (!all) {
        s->no_memory = true;
        return;
    }
    for (int64_t i = 0; i < batch->count; i++) {
        all[i].row = batch->rows[i];
    }
    add_example_losses(trainer, all);
    qsort(all, (size_t)batch->count, sizeof *all, by_loss);
    found->bad_rows = 0;
    found->row_count = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        if (bad && isfinite(all[i].loss)) {
            continue;
        }
        found->bad_rows++;
        if (found->row_count < MAX_ROWS) {
            char place[PLACE_SIZE];
            td_dataset_place(trainer->feed.data, TD_TRAINING, all[i].row, place, sizeof place);
            s->rows[found->row_count] = all[i];
            s->rows[found->row_count++].place = td__arena_text(s->found->arena, "%s", place);
        }
    }
    td__free(all);
}

/* ---- What is not finite ---------------------------------------------------------------------- */

static bool tensor_is_bad(const td_tensor *tensor) {
    td_view view = tensor ? td_view_of(tensor) : (td_view){0};
    return tensor && !td__all_finite(&view);
}

static void list_bad_rows(search *s, const td__made *made, const td_view *view) {
    const td_trainer *trainer = s->player.trainer;
    td_origin *found = &s->found->base;
    int64_t count = td__elements_from(&view->shape, 0), last = -1;
    found->row_count = 0;
    found->bad_rows = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t example =
            isfinite(td_view_element(view, i)) ? -1 : td__made_example(trainer, made, view, i);
        if (example < 0 || example == last) {
            continue;
        }
        last = example;
        found->bad_rows++;
        if (found->row_count < MAX_ROWS) {
            char place[PLACE_SIZE];
            int64_t row = trainer->pass.batch->rows[example];
            td_dataset_place(trainer->feed.data, TD_TRAINING, row, place, sizeof place);
            s->rows[found->row_count++] =
                (td_origin_row){.row = row,
                                .loss = (double)NAN,
                                .place = td__arena_text(s->found->arena, "%s", place)};
        }
    }
}

/* This is where it came from, unless the step turns out well. */
static void suspect(search *s, td__made made) {
    td_view view = td__made_view(s->player.trainer, &made);
    td_stats stats;
    if (td_stats_of(&view, &stats, NULL) || stats.first_nonfinite < 0) {
        return;
    }
    s->operation =
        td__operation_describe(s->found->arena, s->player.trainer, &made, stats.first_nonfinite);
    s->no_memory = s->no_memory || !s->operation;
    s->found->base.nan = stats.nan;
    s->found->base.inf = stats.inf;
    list_bad_rows(s, &made, &view);
}

/* Follows tensors that are not finite back from the nodes that `reached` has. What was there before the step
 * comes before any operation of it. */
static void follow_back(search *s, const td_tape *tape, bool *reached) {
    td__made first = {.in = TD__MADE_FORWARD, .node = -1};
    bool leaf = false;
    for (int32_t i = (int32_t)tape->node_count - 1; i >= 0; i--) {
        const td__node *node = &tape->nodes[i];
        bool from_inputs = false;
        for (int32_t k = 0; reached[i] && k < node->input_count; k++) {
            if (!tensor_is_bad(node->inputs[k].tensor)) {
                continue;
            }
            from_inputs = true;
            if (td__input_is_leaf(tape, &node->inputs[k])) {
                first = (td__made){.in = TD__MADE_BEFORE, .node = i, .input = k};
                leaf = true;
            } else {
                reached[tape->slots[node->inputs[k].slot].producer] = true;
            }
        }
        if (reached[i] && !from_inputs && !leaf) {
            first.node = i;
        }
    }
    if (first.node >= 0) {
        suspect(s, first);
    }
}

static bool *no_nodes(search *s, const td_tape *tape) {
    bool *reached = td__calloc(tape->node_count + 1, sizeof *reached);
    s->no_memory = s->no_memory || !reached;
    return reached;
}

static void look_forward(void *user, const td_tape *tape) {
    search *s = user;
    const td_tensor *loss = s->player.trainer->pass.loss;
    int32_t slot = td__slot_of(tape, loss);
    if (s->operation &&
        s->player.trainer->shards.count > 1) { /* an earlier shard of this step has it */
        return;
    }
    s->operation = NULL;
    if (s->spike || !tensor_is_bad(loss) || slot < 0 || tape->slots[slot].producer < 0) {
        return;
    }
    bool *reached = no_nodes(s, tape);
    if (reached) {
        reached[tape->slots[slot].producer] = true;
        follow_back(s, tape, reached);
    }
    td__free(reached);
}

/* What the node read in the forward pass may have been the reason. */
static bool read_what_is_bad(search *s, const td_tape *tape, int32_t index) {
    const td__node *node = &tape->nodes[index];
    bool bad = tensor_is_bad(node->output);
    for (int32_t i = 0; i < node->input_count; i++) {
        bad = bad || tensor_is_bad(node->inputs[i].tensor);
    }
    bool *reached = bad ? no_nodes(s, tape) : NULL;
    if (reached) {
        reached[index] = true;
        follow_back(s, tape, reached);
    }
    td__free(reached);
    return bad;
}

static void look_backward(void *user, const td_tape *tape, int32_t index) {
    search *s = user;
    const td__node *node = &tape->nodes[index];
    for (int32_t i = 0; !s->spike && !s->operation && i < node->input_count; i++) {
        td__made made = {.in = TD__MADE_BACKWARD, .node = index, .input = i};
        td_view view =
            node->inputs[i].slot < 0 ? (td_view){0} : td__made_view(s->player.trainer, &made);
        if (!td__all_finite(&view) && !read_what_is_bad(s, tape, index)) {
            suspect(s, made);
        }
    }
}

/* The first parameter that is not finite, but those that are known (may be NULL); -1: all are. */
static ptrdiff_t find_bad_parameter(const td_trainer *trainer, const bool *known) {
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        if (!(known && known[i]) &&
            tensor_is_bad(td_model_parameter_at(trainer->model, i)->tensor)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static void judge_step(search *s, td_trainer *trainer, bool updated) {
    td_origin *found = &s->found->base;
    double loss = (double)td_tensor_scalar(trainer->pass.loss);
    ptrdiff_t parameter = updated ? find_bad_parameter(trainer, s->known) : -1;
    if (!is_wanted(s, loss) && parameter < 0) {
        s->operation = NULL;
        found->bad_rows = 0;
        return;
    }
    if (!s->operation && parameter >= 0) {
        suspect(s, (td__made){.in = TD__MADE_UPDATE, .parameter = (size_t)parameter});
    }
    if (!isfinite(loss) && !found->bad_rows) {
        rank_rows(s, trainer, true);
    }
    found->what = isnan(loss) ? "nan" : isinf(loss) ? "inf" : found->nan ? "nan" : "inf";
    found->loss = loss;
    found->step = trainer->at.step + 1;
    s->player.ended = true;
}

/* ---- A spike --------------------------------------------------------------------------------- */

static double norm_of(const td_tensor *tensor) {
    td_stats stats = {0};
    td_view view = tensor ? td_view_of(tensor) : (td_view){0};
    return tensor && !td_stats_of(&view, &stats, NULL) ? stats.norm : 0;
}

/* Of which parameter the gradient has grown most against the step before. */
static void find_steepest(search *s, const td_trainer *trainer) {
    td_origin *found = &s->found->base;
    double greatest = 0;
    for (size_t i = 0; s->norms && i < trainer->learner.weight_count; i++) {
        double now = norm_of(trainer->learner.gradients[i]), before = s->norms[i];
        if (before > 0 && now / before > greatest) {
            greatest = now / before;
            found->steepest = trainer->learner.weights[i]->name;
            found->steepest_before = before;
            found->steepest_norm = now;
        }
    }
    found->steepest = td__arena_text(s->found->arena, "%s", found->steepest);
}

static void judge_spike(search *s, td_trainer *trainer) {
    td_origin *found = &s->found->base;
    int64_t step = trainer->at.step + 1;
    const td__learner *learner = &trainer->learner;
    if (step == s->target - 1) {
        s->norms = td__arena_alloc(s->found->arena, (learner->weight_count + 1) * sizeof *s->norms);
        for (size_t i = 0; s->norms && i < learner->weight_count; i++) {
            s->norms[i] = norm_of(learner->gradients[i]);
        }
    } else if (step == s->target) {
        found->what = "spike";
        found->step = step;
        found->loss = (double)td_tensor_scalar(trainer->pass.loss);
        find_steepest(s, trainer);
        rank_rows(s, trainer, false);
        s->player.ended = true;
    }
}

static void look_at_step(void *user, td_trainer *trainer, bool updated) {
    search *s = user;
    if (s->spike) {
        judge_spike(s, trainer);
    } else {
        judge_step(s, trainer, updated);
    }
}

/* ---- In words -------------------------------------------------------------------------------- */

static const char *state_of(double value) {
    return isnan(value) ? "NaN" : "infinite";
}

static const char *describe_operation(td__arena *arena, const td_origin *found) {
    const td_operation *o = found->operation;
    const char *is = found->nan && found->inf ? "NaN and infinite"
                     : found->nan             ? "NaN"
                                              : "infinite";
    if (!strcmp(o->phase, "data")) {
        return td__arena_text(arena, "the data: %s is %s%s%s", o->tensor, is, *o->place ? ", " : "",
                              o->place);
    }
    if (!strcmp(o->phase, "start")) {
        return td__arena_text(arena, "%s was %s when the steps began", o->tensor, is);
    }
    const char *in = *o->layer ? td__arena_text(arena, "layer %s", o->layer) : "the loss";
    if (!strcmp(o->phase, "update")) {
        return td__arena_text(arena,
                              "the update (%s) of %s in %s made it %s; its gradient is finite",
                              o->kind, o->tensor, in, is);
    }
    return td__arena_text(arena, "%s of %s, %s: %s is %s, and all that it was made of is finite",
                          o->kind, in, o->phase, o->tensor, is);
}

static void put_into_words(const search *s) {
    td_origin *found = &s->found->base;
    td__arena *arena = s->found->arena;
    if (!found->step) {
        found->text =
            s->options.when ? td__arena_text(arena, "%s: there is no step in which %s",
                                             s->player.folder, s->options.when)
            : s->spike
                ? td__arena_text(arena,
                                 "no loss of %s is above %g times the median of the %d before it",
                                 s->player.folder, spike_factor, MEDIAN_OF)
                : td__arena_text(
                      arena, "no loss of %s is %s, nor is a parameter after the last step (%lld)",
                      s->player.folder, s->options.what ? s->options.what : "nan or inf",
                      (long long)found->last);
    } else if (s->spike) {
        const char *before =
            isnan(found->before)
                ? ""
                : td__arena_text(arena, ", the median of those before it %.6g", found->before);
        found->text = td__arena_text(
            arena, "step %lld: the loss is %.6g%s; %s has %.0f %% of it", (long long)found->step,
            found->loss, before, found->row_count ? found->rows[0].place : "",
            found->bad_rows && found->row_count
                ? 100 * found->rows[0].loss / ((double)found->bad_rows * found->loss)
                : 0);
    } else {
        const char *shows = isfinite(found->loss)
                                ? "a parameter is not finite after its update"
                                : td__arena_text(arena, "the loss is %s", state_of(found->loss));
        found->text =
            td__arena_text(arena, "step %lld: %s; it came from %s", (long long)found->step, shows,
                           found->operation ? describe_operation(arena, found)
                                            : "an operation that is not on the tape");
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static td_status note_known(search *s, td_error *error) {
    const td_trainer *trainer = s->player.trainer;
    s->known = td__arena_alloc(s->found->arena, trainer->parameter_count + 1);
    for (size_t i = 0; s->known && i < trainer->parameter_count; i++) {
        s->known[i] = tensor_is_bad(td_model_parameter_at(trainer->model, i)->tensor);
    }
    return s->known ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* Begins after the last checkpoint before the target whose parameters are finite. */
static td_status start_search(search *s, td_error *error) {
    td__player *player = &s->player;
    int64_t step = s->target - 1;
    if (s->spike && step > 0 && step > player->parent_step) {
        step--; /* the step before is looked at too */
    }
    for (;;) {
        td_status status = td__player_start(player, step, error);
        if (status || s->spike || player->began <= player->parent_step ||
            find_bad_parameter(player->trainer, NULL) < 0) {
            return status ? status : note_known(s, error);
        }
        step = player->began - 1;
    }
}

static td_status execute(search *s, td_error *error) {
    td__player *player = &s->player;
    td_origin *found = &s->found->base;
    player->watch = &s->watch;
    player->stepped = look_at_step;
    player->user = s;
    td_status status = start_search(s, error);
    status = status ? status : td__player_advance(player, s->target, error);
    if (status) {
        return status;
    }
    if (s->no_memory) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    char reason[TD_REPLAY_TEXT];
    found->checkpoint = player->began;
    found->last = td__player_step(player);
    found->differs_at = player->differs_at;
    td__player_reason(player, reason);
    if (player->differs_at) {
        found->reason =
            td__arena_text(s->found->arena, "%s%s%s", player->signal, *reason ? "; " : "", reason);
    }
    found->operation = found->step ? s->operation : NULL;
    if (!found->operation && !s->spike) {
        found->row_count = 0;
        found->nan = found->inf = found->bad_rows = 0;
    }
    return TD_OK;
}

static td_status check_options(search *s, const td_origin_options *options, td_error *error) {
    (void)td__options(&s->options, sizeof s->options, options);
    const char *what = s->options.what;
    s->spike = what && !strcmp(what, "spike");
    if (what && !s->spike && strcmp(what, "nan") != 0 && strcmp(what, "inf") != 0) {
        return td_error_set(error, TD_INVALID, "what: expected nan, inf or spike, and not '%.100s'",
                            what);
    }
    if (s->options.when && !s->spike) {
        return td_error_set(error, TD_INVALID, "a condition is for what: spike");
    }
    return TD_OK;
}

static origin *make_result(td_error *error) {
    origin *made = td__calloc(1, sizeof *made);
    if (made) {
        made->arena = td__arena_create();
    }
    if (!made || !made->arena) {
        td__free(made);
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    made->base = (td_origin){.what = "",
                             .loss = (double)NAN,
                             .before = (double)NAN,
                             .steepest = "",
                             .text = "",
                             .reason = ""};
    return made;
}

static td_status run_search(search *s, const char *run, const td_origin_options *options,
                            td_error *error) {
    s->rows = td__arena_alloc(s->found->arena, MAX_ROWS * sizeof *s->rows);
    s->found->base.rows = s->rows;
    td_status status = s->rows ? check_options(s, options, error)
                               : td_error_set(error, TD_MEMORY, "out of memory");
    status = status ? status : td__player_open(&s->player, run, error);
    status = status ? status : td__player_check(&s->player, error);
    status = status ? status : find_target(s, error);
    if (!status && s->target > 0) {
        status = execute(s, error);
    }
    if (!status) {
        put_into_words(s);
    }
    return status;
}

td_origin *td_origin_find(const char *run, const td_origin_options *options, td_error *error) {
    search *s = td__calloc(1, sizeof *s);
    origin *found = make_result(error);
    if (!s || !found) {
        td_origin_destroy((td_origin *)found);
        td__free(s);
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    s->found = found;
    s->watch = (td__tape_watch){.forward = look_forward, .backward = look_backward, .user = s};
    td_error reason = {0};
    td_status status = run_search(s, run, options, &reason);
    td__player_close(&s->player);
    td__free(s);
    if (status) {
        td_error_set(error, status, "%s", reason.text);
        td_origin_destroy(&found->base);
        return NULL;
    }
    return &found->base;
}

void td_origin_destroy(td_origin *base) {
    origin *found = (origin *)base;
    if (found) {
        td__arena_unref(found->arena);
        td__free(found);
    }
}
