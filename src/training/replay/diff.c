/* Where two runs part.
 *
 * Flight records say between which two steps: from the last at which fingerprints of all parameters agree to the
 * first at which a batch, a loss or the parameters differ. Both runs are executed again over these steps, and the
 * fingerprints of everything that their operations made are compared in the order of execution, part by part, so
 * that memory is bounded. The step that differs is then executed once more for the tensor itself. */
#include "replay/align.h"
#include "replay/records.h"
#include "replay/trace.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRACED = 1 << 18 }; /* entries at a time */

typedef struct diff {
    td_diff base;
    td__arena *arena;
    td_run *runs[2];
} diff;

typedef struct parting {
    diff *found;
    td__trace sides[2];
    int64_t low, high; /* the same at low, different at high; high 0: nowhere */
    const char *signal;
} parting;

/* ---- By the flight records ------------------------------------------------------------------- */

static bool same_number(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static const char *differing_signal(const td__flight_record *a, const td__flight_record *b) {
    return a->batch && b->batch && a->batch != b->batch                       ? "batch"
           : !same_number(a->loss, b->loss)                                   ? "loss"
           : a->parameters && b->parameters && a->parameters != b->parameters ? "parameters"
                                                                              : NULL;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Sets the two steps between which the runs part. */
static void compare_flights(parting *p) {
    const td__flight_log *a = &p->sides[0].player.flight, *b = &p->sides[1].player.flight;
    int64_t last = smaller(p->sides[0].player.last_step, p->sides[1].player.last_step);
    size_t i = 0, k = 0;
    p->found->base.same_to = 0;
    while (i < a->count && k < b->count) {
        const td__flight_record *x = &a->records[i], *y = &b->records[k];
        if (x->step != y->step) {
            i += x->step < y->step;
            k += x->step > y->step;
            continue;
        }
        const char *signal = differing_signal(x, y);
        if (signal) {
            p->high = x->step;
            p->signal = signal;
            return;
        }
        p->low = x->parameters && y->parameters ? x->step : p->low;
        p->found->base.same_to = x->step;
        i++;
        k++;
    }
    if (!a->count || !b->count) { /* of an older version: everything is executed again */
        p->high = last;
        p->signal = "";
    }
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static void add_layer_change(parting *p, td_layer_change *layers, const td_layer_info *a,
                             const td_layer_info *b) {
    td__arena *arena = p->found->arena;
    layers[p->found->base.layer_count++] =
        (td_layer_change){.a = a ? td__arena_text(arena, "%s", a->name) : NULL,
                          .b = b ? td__arena_text(arena, "%s", b->name) : NULL,
                          .type = td__arena_text(arena, "%s", (a ? a : b)->type)};
}

/* Layers that are the same get the same number; those that only b has, numbers of their own. */
static td_status align_layers(parting *p, td_error *error) {
    const td_model *a = p->sides[0].player.trainer->model, *b = p->sides[1].player.trainer->model;
    size_t a_count = td_model_layer_count(a), b_count = td_model_layer_count(b);
    int32_t *ids[2] = {td__calloc(a_count + 1, sizeof(int32_t)),
                       td__calloc(b_count + 1, sizeof(int32_t))};
    int32_t *b_of_a = td__calloc(a_count + 1, sizeof *b_of_a);
    td__free(p->sides[0].layer_ids);
    td__free(p->sides[1].layer_ids);
    p->found->base.layer_count = 0;
    td_layer_change *layers =
        td__arena_alloc(p->found->arena, (a_count + b_count + 1) * sizeof *layers);
    p->sides[0].layer_ids = ids[0];
    p->sides[1].layer_ids = ids[1];
    bool room = ids[0] && ids[1] && b_of_a && layers && td__layers_align(a, b, b_of_a);
    for (size_t k = 0; room && k < b_count; k++) {
        ids[1][k] = (int32_t)(a_count + k);
    }
    for (size_t i = 0; room && i < a_count; i++) {
        const td_layer_info *first = td_model_layer(a, i);
        const td_layer_info *second = b_of_a[i] < 0 ? NULL : td_model_layer(b, (size_t)b_of_a[i]);
        ids[0][i] = (int32_t)i;
        if (second) {
            ids[1][b_of_a[i]] = (int32_t)i;
        }
        if (!second || strcmp(first->name, second->name) != 0) {
            add_layer_change(p, layers, first, second);
        }
    }
    for (size_t k = 0; room && k < b_count; k++) {
        if (ids[1][k] >= (int32_t)a_count) {
            add_layer_change(p, layers, NULL, td_model_layer(b, k));
        }
    }
    p->found->base.layers = layers;
    td__free(b_of_a);
    return room ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* ---- Comparing steps ------------------------------------------------------------------------- */

typedef struct step_traces {
    const td__trace_entry *entries[2];
    size_t counts[2];
    size_t *partners; /* of the first's entries: that of the second, or SIZE_MAX */
} step_traces;

static bool same_keys(const step_traces *s) {
    bool same = s->counts[0] == s->counts[1];
    for (size_t i = 0; same && i < s->counts[0]; i++) {
        same = s->entries[0][i].key == s->entries[1][i].key;
    }
    return same;
}

static bool find_partners(step_traces *s) {
    size_t slots = 16;
    while (slots < 2 * s->counts[1]) {
        slots *= 2;
    }
    size_t *table = td__calloc(slots, sizeof *table); /* entry + 1 */
    s->partners = td__calloc(s->counts[0] + 1, sizeof *s->partners);
    bool same = same_keys(s);
    for (size_t k = 0; table && !same && k < s->counts[1]; k++) {
        size_t at = (size_t)s->entries[1][k].key & (slots - 1);
        while (table[at] && s->entries[1][table[at] - 1].key != s->entries[1][k].key) {
            at = (at + 1) & (slots - 1);
        }
        table[at] = table[at] ? table[at] : k + 1;
    }
    for (size_t i = 0; table && s->partners && i < s->counts[0]; i++) {
        size_t at = (size_t)s->entries[0][i].key & (slots - 1);
        while (!same && table[at] && s->entries[1][table[at] - 1].key != s->entries[0][i].key) {
            at = (at + 1) & (slots - 1);
        }
        s->partners[i] = same ? i : table[at] ? table[at] - 1 : SIZE_MAX;
    }
    bool room = table && s->partners;
    td__free(table);
    return room;
}

/* The first entry that differs from its partner; SIZE_MAX: none. */
static size_t find_difference(const step_traces *s) {
    for (size_t i = 0; i < s->counts[0]; i++) {
        size_t k = s->partners[i];
        if (k != SIZE_MAX && s->entries[0][i].hash != s->entries[1][k].hash) {
            return i;
        }
    }
    return SIZE_MAX;
}

static td_status trace_to(td__trace *side, int64_t last, td_error *error) {
    td__trace_clear(side);
    side->on = true;
    td_status status = td__player_advance(&side->player, last, error);
    side->on = false;
    return status            ? status
           : side->no_memory ? td_error_set(error, TD_MEMORY, "out of memory")
                             : TD_OK;
}

/* Which nodes of a side the other one has too, by entries of the forward pass. */
static bool *match_nodes(const td__trace *side, const step_traces *s, int which) {
    bool *matched = td__calloc(side->node_count + 1, sizeof *matched);
    for (size_t i = 0; matched && i < s->counts[0]; i++) {
        size_t entry = which ? s->partners[i] : s->partners[i] == SIZE_MAX ? SIZE_MAX : i;
        const td__trace_entry *e = entry == SIZE_MAX ? NULL : &s->entries[which][entry];
        if (e && e->made.in == TD__MADE_FORWARD) {
            matched[e->made.node] = true;
        }
    }
    return matched;
}

/* ---- The tensor ------------------------------------------------------------------------------ */

static td_status capture_step(td__trace *side, int64_t step, td__capture *capture,
                              td_error *error) {
    td_status status = td__player_start(&side->player, step - 1, error);
    status = status ? status : td__player_advance(&side->player, step - 1, error);
    side->capture = capture;
    status = status ? status : trace_to(side, step, error);
    side->capture = NULL;
    if (!status && !capture->operation) {
        return td_error_set(error, TD_FORMAT, "%s: step %lld was another one the second time",
                            side->player.folder, (long long)step);
    }
    return status;
}

/* The example that the element is of. */
static void locate(const parting *p, int side, const td__capture *capture) {
    td_operation *operation = capture->operation;
    const td_dataset *data = p->sides[side].player.trainer->feed.data;
    char place[400];
    if (capture->each > 0) {
        operation->row = capture->rows[operation->element / capture->each];
        td_dataset_place(data, TD_TRAINING, operation->row, place, sizeof place);
        operation->place = td__arena_text(p->found->arena, "%s", place);
    }
}

static const char *cause_of(const parting *p, const td__capture captures[2]) {
    td__arena *arena = p->found->arena;
    const td_operation *a = captures[0].operation;
    if (!strcmp(a->phase, "data")) {
        const td_operation *b = captures[1].operation;
        bool other_rows = a->row != b->row;
        return td__arena_text(arena,
                              other_rows ? "the batches have other examples in them: %s and %s"
                                         : "the data is another one: %s, %s",
                              *a->place ? a->place : a->tensor, *b->place ? b->place : b->tensor);
    }
    if (!strcmp(a->phase, "start")) {
        return td__arena_text(arena, "%s is another one when step %lld begins", a->tensor,
                              (long long)a->step);
    }
    for (size_t i = 0;
         (captures[0].foreign || captures[1].foreign) && i < p->found->base.layer_count; i++) {
        const td_layer_change *layer = &p->found->base.layers[i];
        if (!layer->a || !layer->b) {
            return td__arena_text(arena, "%s is made of what layer %s makes, which only %s has",
                                  a->tensor, layer->a ? layer->a : layer->b,
                                  p->sides[layer->a ? 0 : 1].player.folder);
        }
    }
    if (captures[0].foreign || captures[1].foreign) {
        return td__arena_text(
            arena,
            "what %s is made of comes from a layer or an operation that only one of "
            "the runs has",
            a->tensor);
    }
    return td__arena_text(arena, "%s of %s%s%s makes another %s of the same %s", a->kind,
                          *a->layer ? "layer " : "the loss", a->layer,
                          !strcmp(a->phase, "backward") ? " (backward)" : "", a->tensor,
                          !strcmp(a->phase, "update") ? "gradient" : "inputs");
}

/* Keeps the tensors of both sides for entries i and k of this step. */
static td_status capture_both(parting *p, step_traces *s, size_t i, int64_t step, td_error *error) {
    td_diff *found = &p->found->base;
    bool *matched[2] = {match_nodes(&p->sides[0], s, 0), match_nodes(&p->sides[1], s, 1)};
    td__capture captures[2] = {{.entry = i, .node_matched = matched[0]},
                               {.entry = s->partners[i], .node_matched = matched[1]}};
    td_status status =
        matched[0] && matched[1] ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (int side = 0; side < 2; side++) {
        status = status ? status : capture_step(&p->sides[side], step, &captures[side], error);
    }
    if (!status) {
        td_operation *operations[2] = {captures[0].operation, captures[1].operation};
        const td_view views[2] = {captures[0].view, captures[1].view};
        td__diff_elements(found, operations, views);
        locate(p, 0, &captures[0]);
        locate(p, 1, &captures[1]);
        found->a = operations[0];
        found->b = operations[1];
        found->signal = operations[0]->tensor;
        found->cause = cause_of(p, captures);
        found->is_cause = !captures[0].foreign && !captures[1].foreign;
    }
    td__free(matched[0]);
    td__free(matched[1]);
    return status;
}

/* Compares the steps that both traces have; *done: one differs. first: the first of them. */
static td_status compare_traces(parting *p, int64_t first, bool *done, td_error *error) {
    size_t steps = p->sides[0].step_count < p->sides[1].step_count ? p->sides[0].step_count
                                                                   : p->sides[1].step_count;
    td_status status = TD_OK;
    for (size_t n = 0; !status && !*done && n < steps; n++) {
        step_traces s = {0};
        for (int side = 0; side < 2; side++) {
            s.entries[side] = td__trace_step(&p->sides[side], n, &s.counts[side]);
        }
        if (!find_partners(&s)) {
            status = td_error_set(error, TD_MEMORY, "out of memory");
        }
        size_t i = status ? SIZE_MAX : find_difference(&s);
        if (i != SIZE_MAX) {
            td_diff *found = &p->found->base;
            *done = true;
            found->step = first + (int64_t)n;
            found->after = found->same_to = found->step - 1;
            status = capture_both(p, &s, i, found->step, error);
        }
        td__free(s.partners);
    }
    return status;
}

/* ---- Side by side ---------------------------------------------------------------------------- */

/* What is in the way of executing both again; "": nothing. */
static const char *obstacle(const parting *p) {
    for (int side = 0; side < 2; side++) {
        const td__player *player = &p->sides[side].player;
        if (p->high <= player->parent_step) {
            return td__arena_text(
                p->found->arena,
                "step %lld of %s is of the run that it branches off from: compare %s",
                (long long)p->high, player->folder, player->parent);
        }
    }
    return "";
}

static td_status execute(parting *p, td_error *error) {
    td_status status = TD_OK;
    int64_t step = p->low;
    for (int side = 0; side < 2; side++) {
        int64_t parent = p->sides[side].player.parent_step;
        step = step < parent ? parent : step;
    }
    for (int side = 0; !status && side < 2; side++) {
        td__trace_connect(&p->sides[side]);
        p->sides[side].player.differs_at = 0;
        status = td__player_start(&p->sides[side].player, step, error);
        status = status ? status : td__player_advance(&p->sides[side].player, step, error);
    }
    status = status ? status : align_layers(p, error);
    int64_t at_once = 1;
    bool done = false;
    while (!status && !done && step < p->high) {
        int64_t last = smaller(step + at_once, p->high);
        status = trace_to(&p->sides[0], last, error);
        status = status ? status : trace_to(&p->sides[1], last, error);
        size_t each = p->sides[0].step_count ? p->sides[0].count / p->sides[0].step_count + 1 : 1;
        status = status ? status : compare_traces(p, step + 1, &done, error);
        at_once = MAX_TRACED / (int64_t)each + 1;
        step = last;
    }
    return status;
}

/* Says where an execution was not what was recorded. */
static void explain(parting *p) {
    for (int side = 0; side < 2; side++) {
        const td__player *player = &p->sides[side].player;
        char reason[TD_REPLAY_TEXT];
        td__player_reason(player, reason);
        if (player->differs_at) {
            p->found->base.reason =
                td__arena_text(p->found->arena,
                               "step %lld of %s, executed again, is not what was recorded (%s)%s%s",
                               (long long)player->differs_at, player->folder, player->signal,
                               *reason ? "; " : "", reason);
        }
    }
}

/* A checkpoint that is not what the steps before it make, as of a run that went on from other weights: from there
 * on what the run did can be executed again. */
static bool begin_later(parting *p) {
    for (int side = 0; side < 2; side++) {
        const td__player *player = &p->sides[side].player;
        char path[TD_REPLAY_PATH + 300];
        int64_t before = player->differs_at - 1;
        if (before > p->low &&
            td__checkpoint_nearest(player->folder, before, path, sizeof path) == before) {
            p->low = before;
            return true;
        }
    }
    return false;
}

/* Other kernels, threads or versions compute other digits from the first step on, also where an update lost them:
 * with a learning rate of 0, or in rounding. */
static bool other_machines(const parting *p) {
    const td__player *a = &p->sides[0].player, *b = &p->sides[1].player;
    return p->low > 0 && !a->parent_step && !b->parent_step &&
           (strcmp(a->kernels, b->kernels) != 0 || a->threads != b->threads ||
            strcmp(a->version, b->version) != 0);
}

/* Another row of the data may leave no trace in a step: fingerprints of parameters say nothing then. */
static bool other_data(const parting *p) {
    const td_comparison *settings = p->found->base.settings;
    for (size_t i = 0; i < settings->difference_count; i++) {
        if (!strncmp(settings->differences[i].text, "data.", strlen("data."))) {
            return true;
        }
    }
    return false;
}

/* Executes the first step alone, where it may differ, and then those between low and high. */
static td_status execute_all(parting *p, td_error *error) {
    td_status status = TD_OK;
    if (other_data(p)) {
        p->low = 0;
    } else if (other_machines(p)) {
        int64_t low = p->low, high = p->high;
        p->low = 0;
        p->high = 1;
        status = execute(p, error);
        p->low = low;
        p->high = high;
    }
    if (!status && !p->found->base.a) {
        status = execute(p, error);
    }
    if (!status && !p->found->base.a && begin_later(p)) {
        status = execute(p, error);
    }
    return status;
}

static td_status find_parting(parting *p, td_error *error) {
    td_diff *found = &p->found->base;
    td_error reason = {0};
    compare_flights(p);
    if (!p->high) {
        return TD_OK;
    }
    found->step = *p->signal ? p->high : 0;
    found->after = p->low;
    found->signal = p->signal;
    found->reason = obstacle(p);
    if (*found->reason) {
        return TD_OK;
    }
    td_status status = execute_all(p, &reason);
    if (status == TD_MEMORY) {
        return td_error_set(error, status, "%s", reason.text);
    }
    if (status) { /* what the flight records say stays */
        found->reason = td__arena_text(p->found->arena, "%s", reason.text);
        return TD_OK;
    }
    explain(p);
    if (!found->a && !*found->reason && *p->signal) {
        found->reason = "both runs, executed again, are the same";
    }
    if (!found->a && !*p->signal) {
        found->same_to = p->high;
    }
    return TD_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static diff *make_result(td_error *error) {
    diff *made = td__calloc(1, sizeof *made);
    if (made) {
        made->arena = td__arena_create();
        made->base = (td_diff){.signal = "", .cause = "", .reason = ""};
    }
    if (!made || !made->arena) {
        td__free(made);
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    return made;
}

static td_status open_runs(parting *p, const char *const paths[2], td_error *error) {
    for (int side = 0; side < 2; side++) {
        p->sides[side].arena = p->found->arena;
        td_status status = td__player_open(&p->sides[side].player, paths[side], error);
        p->found->runs[side] = status ? NULL : td_run_open(paths[side], error);
        if (!p->found->runs[side]) {
            return status ? status : error->status ? error->status : TD_NOT_FOUND;
        }
        td_run_info about = {.size = sizeof about};
        td_run_about(p->found->runs[side], &about);
        if (about.events && td_run_refresh(p->found->runs[side], error)) {
            return error->status;
        }
    }
    return TD_OK;
}

static td_status run_diff(parting *p, const char *const paths[2], td_error *error) {
    diff *found = p->found;
    td_status status = open_runs(p, paths, error);
    if (status) {
        return status;
    }
    bool ours = p->sides[0].player.is_ours && p->sides[1].player.is_ours;
    /* Of runs that are executed again, what they recorded is not needed. */
    td_compare_options how = {.size = sizeof how, .what = ours ? "loss" : NULL};
    found->base.settings = td_run_compare(found->runs[0], found->runs[1], &how, error);
    if (!found->base.settings) {
        return error->status ? error->status : TD_MEMORY;
    }
    return ours ? find_parting(p, error)
                : td__diff_records(&found->base, found->runs, found->arena, error);
}

td_diff *td_diff_find(const char *a, const char *b, td_error *error) {
    parting *p = td__calloc(1, sizeof *p);
    diff *found = make_result(error);
    if (!p || !found) {
        td_diff_destroy((td_diff *)found);
        td__free(p);
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    td_error reason = {0};
    p->found = found;
    td_status status = run_diff(p, (const char *const[]){a, b}, &reason);
    td__trace_release(&p->sides[0]);
    td__trace_release(&p->sides[1]);
    td__free(p);
    if (status) {
        td_error_set(error, status, "%s", reason.text);
        td_diff_destroy(&found->base);
        return NULL;
    }
    return &found->base;
}

void td_diff_destroy(td_diff *base) {
    diff *found = (diff *)base;
    if (found) {
        td_comparison_destroy((td_comparison *)(uintptr_t)base->settings);
        td_run_close(found->runs[0]);
        td_run_close(found->runs[1]);
        td__arena_unref(found->arena);
        td__free(found);
    }
}
