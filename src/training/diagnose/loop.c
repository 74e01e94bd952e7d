#include "diagnose/loop.h"

#include "base/memory.h"
#include "diagnose/diagnosis.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ABOVE 1.1     /* times the loss at first */
#define KNOWN 0.9     /* of the validation part */
#define TRAINED 0.5   /* of the cross-entropy of a guess */
#define NEAR 0.03     /* of it, that pairs of which little was learnt by heart are away from it */
#define BELOW 0.75    /* of it, that a loss begins at only when something is known */
#define GUESSED 0.985 /* of the cross-entropy of a guess: nothing is known */
#define TOGETHER 0.9  /* of the updates that would have no backward pass of their own */
#define FALLS_ON                                                                                   \
    0.2             /* of its fall in a quarter of the steps: in a straight line it would be 0.28 */
#define RENAMED 0.2 /* of what is missing to all neighbours, above chance */

enum { MOST_NAMES = 4, FIRST_WEIGHT = 30, MOST_RANKS = 64, ENOUGH_POINTS = 40, MOST_STEPS = 4096 };

typedef struct reading {
    json_t *loop;
    bool broken;
    char stopped[512];
    char failure[512];
    int64_t ranks; /* of the training; 0: there is one process */
    bool other;    /* it is no replica, or not the first: that one's run compares */
} reading;

static void read_note(void *user, const char *key, const char *value) {
    reading *r = user;
    if (strcmp(key, "loop") == 0) {
        r->loop = json_loads(value, JSON_REJECT_DUPLICATES, NULL);
        r->broken = !json_is_object(r->loop);
    } else if (strcmp(key, "loop_stopped") == 0) {
        (void)snprintf(r->stopped, sizeof r->stopped, "%s", value);
    } else if (strcmp(key, "failure") == 0) {
        (void)snprintf(r->failure, sizeof r->failure, "%s", value);
    } else if (strcmp(key, "world_size") == 0) {
        r->ranks = strtoll(value, NULL, 10);
    } else if (strcmp(key, "rank") == 0) {
        r->other |= strcmp(value, "0") != 0;
    } else if (strcmp(key, "replicas") == 0) {
        r->other |= strcmp(value, "True") != 0;
    }
}

/* What a rank recorded of its loop; NULL: nothing. The caller releases it. */
static json_t *read_rank(const char *folder, int64_t rank) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/rank-%05lld", folder, (long long)rank);
    td_run *run = td_run_open(path, NULL);
    if (!run) { /* as runs were until ranks shared a folder */
        (void)snprintf(path, sizeof path, "%s-rank%lld", folder, (long long)rank);
        run = td_run_open(path, NULL);
    }
    reading r = {0};
    bool known = run && !td_run_notes(run, "run", read_note, &r, NULL);
    td_run_close(run);
    if (!known) {
        json_decref(r.loop);
        r.loop = NULL;
    }
    return r.loop;
}

/* The first step at which a rank's loss is not finite, and that rank; rank -1: there is none. */
static td_spread find_bad_loss(td__case *c) {
    td_run *run = c->history->run;
    td_spread bad = {.nonfinite_rank = -1};
    const char *name =
        td__loss_of(c->history)->name; /* of the series: the signal's, and a line's end */
    const td_run_signal *signal = NULL;
    if (name && td_run_rank_count(run)) {
        signal = td_run_signal_find(run, td__say(c, "%.*s", (int)strcspn(name, "\n"), name));
    }
    td_spread *spread = signal ? td__calloc(MOST_STEPS, sizeof *spread) : NULL;
    size_t count = spread ? MOST_STEPS : 0;
    for (int64_t from = INT64_MIN; count == MOST_STEPS && bad.nonfinite_rank < 0;) {
        count = td_run_spread(run, signal, NULL, from, INT64_MAX, spread, MOST_STEPS);
        for (size_t i = 0; i < count && bad.nonfinite_rank < 0; i++) {
            bad = spread[i];
        }
        from = count ? spread[count - 1].step + 1 : from;
    }
    td__free(spread);
    return bad;
}

/* The facts of a run are those of its first rank. When the loss was not finite on another one first, the causes are
 * there: its facts are taken, but for those that ranks are compared by. */
static void take_facts_of_bad_rank(td__case *c, reading *r) {
    td_spread bad = find_bad_loss(c);
    td_run_info info = {.size = sizeof info};
    td_run_about(c->history->run, &info);
    json_t *loop = bad.nonfinite_rank > 0 ? read_rank(info.folder, bad.nonfinite_rank) : NULL;
    if (!json_is_object(loop)) {
        json_decref(loop);
        return;
    }
    static const char *const compared[] = {"fingerprints", "batch_fingerprints"};
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
        json_t *mine = json_object_get(r->loop, compared[i]);
        if (mine) {
            json_object_set(loop, compared[i], mine);
        } else {
            json_object_del(loop, compared[i]);
        }
    }
    json_decref(r->loop);
    r->loop = loop;
    td__note(
        c->diagnosis,
        td__say(c,
                "the loss is not finite on rank %lld first, in step %lld: facts about the loop are "
                "that rank's",
                (long long)bad.nonfinite_rank, (long long)bad.step));
}

void td__loop_read(td__case *c) {
    reading r = {0};
    td_error error = {0};
    if (td_run_notes(c->history->run, "run", read_note, &r, &error) || r.broken) {
        td__note(c->diagnosis, td__say(c, "the facts about the training loop cannot be read%s%s",
                                       error.text[0] ? ": " : "", error.text));
    }
    take_facts_of_bad_rank(c, &r);
    if (r.stopped[0]) {
        td__note(c->diagnosis, td__keep(c, r.stopped));
    }
    c->loop = r.loop;
    c->failure = td__keep(c, r.failure);
    c->ranks = r.other || r.ranks < 0 ? 0 : r.ranks < MOST_RANKS ? r.ranks : MOST_RANKS;
}

void td__loop_release(td__case *c) {
    json_decref(c->loop);
}

/* json_object_get takes NULL and what is no object, and gives NULL. */
static const json_t *value_of(const td__case *c, const char *fact, const char *member) {
    const json_t *found = json_object_get(c->loop, fact);
    return member ? json_object_get(found, member) : found;
}

bool td__loop_has_member(const td__case *c, const char *fact, const char *member) {
    return value_of(c, fact, member) != NULL;
}

bool td__loop_failed(const td__case *c, const char *text) {
    return c->failure && *c->failure && strstr(c->failure, text);
}

double td__loop_number(const td__case *c, const char *fact, const char *member) {
    return json_number_value(value_of(c, fact, member));
}

int64_t td__loop_updates(const td__case *c) {
    return json_integer_value(value_of(c, "updates", NULL));
}

bool td__loop_has(const td__case *c, const char *fact) {
    return value_of(c, fact, NULL) != NULL;
}

bool td__loop_is(const td__case *c, const char *fact, const char *member) {
    return json_is_true(value_of(c, fact, member));
}

const char *td__loop_text(const td__case *c, const char *fact, const char *member) {
    const char *text = json_string_value(value_of(c, fact, member));
    return text ? text : "";
}

static const char *name_at(const json_t *list, size_t i) {
    const char *name = json_string_value(json_array_get(list, i));
    return name ? name : "";
}

const char *td__loop_names(td__case *c, const char *fact, const char *member) {
    const json_t *list = value_of(c, fact, member);
    size_t listed = json_array_size(list), shown = listed < MOST_NAMES ? listed : MOST_NAMES;
    /* "names" may be cut: "count" is how many there are. Of other lists it counts something else. */
    double all = strcmp(member, "names") == 0 ? td__loop_number(c, fact, "count") : 0;
    size_t count = all > (double)listed && all < 1e9 ? (size_t)all : listed;
    const char *text = "";
    for (size_t i = 0; i < shown; i++) {
        const json_t *pair = json_array_get(list, i);
        const char *comma = i ? ", " : "";
        text = json_is_array(pair) ? td__say(c, "%s%s%.100s and %.100s", text, comma,
                                             name_at(pair, 0), name_at(pair, 1))
                                   : td__say(c, "%s%s%.200s", text, comma, name_at(list, i));
    }
    return count > shown ? td__say(c, "%s and %zu others", text, count - shown) : text;
}

const char *td__loop_layer(td__case *c, const char *fact) {
    const char *name = name_at(value_of(c, fact, "names"), 0);
    const char *dot = strrchr(name, '.');
    return dot ? td__say(c, "%.*s", (int)(dot - name), name) : NULL;
}

const char *td__loop_head_layer(td__case *c) {
    const char *layer = td__loop_text(c, "head", "layer");
    return *layer ? td__keep(c, layer) : NULL;
}

static const char *shape_text(td__case *c, const json_t *shape) {
    const char *text = "";
    for (size_t i = 0; i < json_array_size(shape); i++) {
        text = td__say(c, "%s%s%lld", text, i ? ", " : "",
                       (long long)json_integer_value(json_array_get(shape, i)));
    }
    return td__say(c, json_array_size(shape) == 1 ? "(%s,)" : "(%s)", text);
}

const char *td__loop_shapes(td__case *c) {
    const json_t *found = value_of(c, "head", "compared");
    return json_is_object(found) ? td__say(c, "outputs of %s give a loss of %s",
                                           shape_text(c, json_object_get(found, "output")),
                                           shape_text(c, json_object_get(found, "compared")))
                                 : NULL;
}

const char *td__loop_reshaped(td__case *c) {
    const json_t *found = value_of(c, "head", "swapped");
    return found
               ? td__say(c, "%s is reshaped to %s", shape_text(c, json_object_get(found, "before")),
                         shape_text(c, json_object_get(found, "after")))
               : "";
}

double td__loop_fall(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    if (loss->count < ENOUGH_POINTS && td__loop_number(c, "loss", "points") >=
                                           ENOUGH_POINTS) { /* of steps that were not recorded */
        double early =
            fmin(td__loop_number(c, "loss", "early"), td__loop_number(c, "loss", "first"));
        return early > 0 ? 1 - td__loop_number(c, "loss", "last") / early : NAN;
    }
    double first =
        fmin(td__series_mean(loss, 0, 0.05), td__series_first(loss)); /* it may rise at first */
    double last = td__series_mean(loss, 0.9, 1);
    return loss->count >= ENOUGH_POINTS && first > 0 ? 1 - last / first : NAN;
}

bool td__loop_falls_on(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double end = td__series_mean(loss, 0.9, 1), whole = td__series_mean(loss, 0, 0.1) - end;
    return loss->count >= ENOUGH_POINTS && whole > 0 &&
           td__series_mean(loss, 0.65, 0.75) - end > FALLS_ON * whole;
}

bool td__loop_ends_above(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    return !(td__series_mean(loss, 0.9, 1) < ABOVE * td__series_mean(loss, 0, 0.1));
}

/* A cross-entropy that begins far below that of a guess among the classes is that of a trained network. */
bool td__loop_knows(const td__case *c) {
    double classes = fmax(td__loop_number(c, "classes", "count"),
                          td__loop_number(c, "said_of_validation", "classes"));
    bool crossentropy = strstr(td__loop_text(c, "head", "loss"), "cross") != NULL;
    double first = td__loop_has(c, "loss") ? td__loop_number(c, "loss", "first")
                                           : td__series_first(td__loss_of(c->history));
    first *= fmax(1, td__loop_number(c, "head", "divisor")); /* it may have been logged divided */
    return td__loop_number(c, "said_of_validation", "right") > KNOWN ||
           (crossentropy && classes > 1 && first < TRAINED * log(classes));
}

bool td__loop_chooses_by_chance(const td__case *c) {
    double guess = log(td__loop_number(c, "chosen_among", NULL));
    double last = td__series_mean(td__loss_of(c->history), 0.9, 1);
    return guess > 0 && fabs(last - guess) < NEAR * guess;
}

bool td__loop_starts_trained(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    const char *kind = td__loop_text(c, "head", "loss");
    double first = fmax(td__series_first(loss), td__series_mean(loss, 0, 0.05));
    double size = td__loop_number(c, "target", "size"), mean = td__loop_number(c, "target", "mean");
    if (!strcmp(kind, "mse_loss")) {
        return first < TRAINED * (size * size - mean * mean);
    }
    double guess = log(strstr(kind, "binary") != NULL ? 2 : td__loop_number(c, "head", "columns"));
    double chance = td__loop_number(c, "classes", "chance");
    double shares = chance > 0 ? -log(chance) : guess; /* their entropy is no less */
    return guess > 0 && first < BELOW * guess && first < BELOW * shares;
}

bool td__loop_guesses(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double guess = log(td__loop_number(c, "head", "columns"));
    double last = td__series_mean(loss, 0.9, 1);
    return loss->count >= ENOUGH_POINTS && guess > 0 && last > GUESSED * guess &&
           last < guess / GUESSED;
}

/* Neighbours of one batch that have the same class, while examples come again with other labels: classes have other names in
 * another episode. */
bool td__loop_has_episodes(const td__case *c) {
    double same = td__loop_number(c, "batch_neighbours", "same");
    double chance = td__loop_number(c, "batch_neighbours", "chance");
    return td__loop_number(c, "labels", "changed") > 0 && td__loop_has(c, "batch_neighbours") &&
           same > chance + RENAMED * (1 - chance);
}

/* Whether several optimizers step after each backward pass, as parts of one. */
static bool steps_together(const td__case *c) {
    double count = td__loop_number(c, "optimizers", "ours"),
           updates = td__loop_number(c, "optimizers", "updates");
    return updates > 0 &&
           count * td__loop_number(c, "optimizers", "joint") >= TOGETHER * (count - 1) * updates;
}

bool td__loop_is_adversarial(const td__case *c) {
    return (td__loop_number(c, "optimizers", "ours") > 1 && !steps_together(c)) ||
           td__loop_number(c, "optimizers", "others") > 0 ||
           td__loop_number(c, "moved", "count") > 2 || td__loop_is(c, "of_choices", NULL) ||
           td__loop_has_episodes(c);
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

static void compare(const json_t *mine, const json_t *other, int rank, td__ranks *ranks) {
    const char *step;
    json_t *value;
    json_object_foreach((json_t *)mine, step, value) {
        const json_t *theirs = json_object_get(other, step);
        int64_t at = strtoll(step, NULL, 10);
        ranks->common += theirs != NULL;
        if (theirs && !json_equal(value, theirs) && (!ranks->parted || at < ranks->parted)) {
            ranks->parted = at;
            ranks->rank = rank;
        }
    }
}

td__ranks td__loop_ranks(const td__case *c, const char *fact) {
    td__ranks ranks = {0};
    json_t *facts[MOST_RANKS] = {json_incref(json_object_get(c->loop, fact))};
    td_run_info info = {.size = sizeof info};
    td_run_about(c->history->run, &info);
    for (int rank = 1; rank < c->ranks; rank++) {
        json_t *loop = read_rank(info.folder, rank);
        facts[rank] = json_incref(json_object_get(loop, fact));
        json_decref(loop);
        compare(facts[0], facts[rank], rank, &ranks);
    }
    for (int a = 0; a < c->ranks && !ranks.same; a++) {
        for (int b = a + 1; b < c->ranks && !ranks.same; b++) {
            td__ranks two = {0};
            compare(facts[a], facts[b], b, &two);
            if (two.common >= 2 && !two.parted) {
                ranks.same = two.common;
                ranks.pair[0] = a;
                ranks.pair[1] = b;
            }
        }
    }
    for (int rank = 0; rank < MOST_RANKS; rank++) {
        json_decref(facts[rank]);
    }
    return ranks;
}

td__suspicion *td__loop_error(td__case *c, td_confidence confidence, const char *layer,
                              int64_t since, const char *remedy) {
    td__suspicion *s = td__suspect(c, TD__TUNING, -1, remedy);
    if (s) {
        s->where = layer;
        s->since = since > 0 ? since : 1;
        s->accepted = true;
        s->confidence = confidence;
        s->weight = FIRST_WEIGHT;
    }
    return s;
}

void td__loop_nonfinite(td__case *c, const char *what, const char *a, const char *remedy) {
    if (strcmp(td__loop_text(c, "nonfinite", "what"), what) != 0) {
        return;
    }
    int64_t step = (int64_t)td__loop_number(c, "nonfinite", "since");
    int64_t row = (int64_t)td__loop_number(c, "nonfinite", "row");
    const char *loss = td__loop_text(c, "nonfinite", "loss");
    bool of_data = !strcmp(td__loop_text(c, "nonfinite", "of"), "data");
    td__suspicion *s = td__loop_error(c, TD_SURE, NULL, step, remedy);
    td__because(
        s, what, step, (double)row,
        td__say(c, "%srow %lld of %s has %s that is NaN or infinite",
                *loss ? td__say(c, "the loss of step %lld is %s: ", (long long)step, loss) : "",
                (long long)row + 1, of_data ? "the training data" : "its batch", a));
    td__origin *origin = td__origin_new(c);
    if (s && origin) {
        origin->cause = what;
        origin->row = row;
        origin->step = step;
        s->origin = origin;
    }
}
