/* The settings of every trial: combinations of lists, and draws.
 *
 * Draws come from a stream per key, so that another key changes none of them, and their number may grow. */
#include "base/hash.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/random.h"
#include "sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum law { LAW_LIST, LAW_LOG, LAW_UNIFORM, LAW_INT } law;

typedef struct axis {
    char *key;
    law law;
    char **values; /* of a list */
    size_t count;
    double low, high;
    td__random random;
} axis;

typedef struct space {
    axis axes[TD__SWEEP_MAX_KEYS];
    size_t count;
} space;

static void release_axis(axis *a) {
    for (size_t i = 0; i < a->count; i++) {
        td__free(a->values[i]);
    }
    td__free(a->values);
    td__free(a->key);
    *a = (axis){0};
}

static char *copy_part(const char *from, const char *end) {
    while (from < end && *from == ' ') {
        from++;
    }
    while (end > from && end[-1] == ' ') {
        end--;
    }
    char *copy = td__calloc((size_t)(end - from) + 1, 1);
    if (copy) {
        memcpy(copy, from, (size_t)(end - from));
    }
    return copy;
}

/* The end of a list's entry: a comma outside of brackets and quotes, or the end of the text. */
static const char *entry_end(const char *from) {
    int depth = 0;
    char quote = 0;
    for (; *from; from++) {
        if (quote) {
            quote = *from == quote ? 0 : quote;
        } else if (*from == '"' || *from == '\'') {
            quote = *from;
        } else if (strchr("[{(", *from)) {
            depth++;
        } else if (strchr("]})", *from)) {
            depth--;
        } else if (*from == ',' && depth <= 0) {
            return from;
        }
    }
    return from;
}

static td_status read_list(axis *a, const char *option, const char *text, td_error *error) {
    size_t room = 0;
    for (const char *end;; text = end + 1) {
        end = entry_end(text);
        if (!td__grow(&a->values, &room, a->count + 1, TD__SWEEP_MAX_TRIALS, sizeof *a->values)) {
            return td_error_set(error, TD_MEMORY, "--set %s: too many values, or out of memory",
                                option);
        }
        a->values[a->count] = copy_part(text, end);
        if (!a->values[a->count]) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        a->count++;
        bool empty = !*a->values[a->count - 1];
        if (empty) {
            return td_error_set(error, TD_INVALID,
                                "--set %s: an empty value; expected KEY=A,B,C, and for a setting "
                                "that is not there: null",
                                option);
        }
        if (!*end) {
            return TD_OK;
        }
    }
}

static td_status read_law(axis *a, const char *option, const char *text, td_error *error) {
    static const struct {
        const char *word;
        law law;
    } laws[] = {{"log(", LAW_LOG}, {"uniform(", LAW_UNIFORM}, {"int(", LAW_INT}};
    size_t i = 0;
    while (i < TD__COUNT(laws) && strncmp(text, laws[i].word, strlen(laws[i].word)) != 0) {
        i++;
    }
    const char *at = i < TD__COUNT(laws) ? text + strlen(laws[i].word) : NULL;
    at = at ? td__parse_float64(at + strspn(at, " "), &a->low) : NULL;
    at = at ? at + strspn(at, " ") : NULL;
    at = at && *at == ',' ? at + 1 + strspn(at + 1, " ") : NULL;
    at = at ? td__parse_float64(at, &a->high) : NULL;
    at = at ? at + strspn(at, " ") : NULL;
    if (!at || strcmp(at, ")") != 0) {
        return td_error_set(error, TD_INVALID,
                            "--random %s: expected KEY=log(A,B), KEY=uniform(A,B) or KEY=int(A,B), "
                            "two numbers",
                            option);
    }
    a->law = laws[i].law;
    if (!(a->low < a->high) || !isfinite(a->low) || !isfinite(a->high)) {
        return td_error_set(error, TD_INVALID,
                            "--random %s: the first number must be less than the second", option);
    }
    if (a->law == LAW_LOG && a->low <= 0) {
        return td_error_set(error, TD_INVALID,
                            "--random %s: log needs numbers above 0; use uniform", option);
    }
    if (a->law == LAW_INT &&
        (a->low > floor(a->low) || a->high > floor(a->high) || a->high - a->low > 1e15)) {
        return td_error_set(error, TD_INVALID, "--random %s: int needs whole numbers", option);
    }
    return TD_OK;
}

static td_status add_axis(space *s, const char *option, bool drawn, uint64_t seed,
                          td_error *error) {
    const char *equals = strchr(option, '='), *name = drawn ? "random" : "set";
    if (!equals || equals == option) {
        return td_error_set(error, TD_INVALID, "--%s %s: expected KEY=%s", name, option,
                            drawn ? "log(A,B)" : "A,B,C");
    }
    if (s->count == TD__SWEEP_MAX_KEYS) {
        return td_error_set(error, TD_INVALID, "--%s %s: at most %d keys", name, option,
                            TD__SWEEP_MAX_KEYS);
    }
    axis *a = &s->axes[s->count++];
    a->key = copy_part(option, equals);
    if (!a->key) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i + 1 < s->count; i++) {
        if (!strcmp(s->axes[i].key, a->key)) {
            return td_error_set(error, TD_INVALID, "--%s %s: %s is given twice", name, option,
                                a->key);
        }
    }
    if (!strcmp(a->key, "name")) {
        return td_error_set(error, TD_INVALID, "--%s %s: a sweep names its trials itself", name,
                            option);
    }
    td__random_seed(&a->random, seed, td__hash_text(a->key));
    return drawn ? read_law(a, option, equals + 1, error) : read_list(a, option, equals + 1, error);
}

/* The next value of what is drawn. */
static char *draw(axis *a) {
    char text[TD__NUMBER_ROOM];
    double u = td__random_uniform(&a->random), value;
    if (a->law == LAW_INT) {
        value = a->low + (double)td__random_below(&a->random, (uint64_t)(a->high - a->low) + 1);
        text[td__format_int(text, (int64_t)value)] = 0;
    } else {
        enum { DIGITS = 6 }; /* more than a setting needs, and short enough to read */
        value = a->law == LAW_LOG ? exp(log(a->low) + u * (log(a->high) - log(a->low)))
                                  : a->low + u * (a->high - a->low);
        text[td__format_rounded(text, value, DIGITS)] = 0;
    }
    return td__strdup(text);
}

td_status td__sweep_make_trials(td_sweep *sweep, size_t count, td_error *error) {
    sweep->trials = td__calloc(count, sizeof *sweep->trials);
    for (size_t i = 0; sweep->trials && i < count; i++) {
        td__trial *trial = &sweep->trials[i];
        sweep->trial_count++;
        (void)snprintf(trial->name, sizeof trial->name, "trial-%03zu", i + 1);
        trial->values = td__calloc(sweep->key_count + 1, sizeof *trial->values);
        if (!trial->values) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
    }
    return sweep->trials ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* Values of a trial: of each list the one whose turn it is, the last list's changing fastest; of what is drawn
 * those of its draw. */
static td_status fill_trials(td_sweep *sweep, space *s, size_t combinations, td_error *error) {
    bool good = true;
    for (size_t k = 0, key = 0, inner = combinations; k < s->count; k++) {
        axis *a = &s->axes[k];
        if (a->law == LAW_LIST && a->count == 1) {
            continue;
        }
        inner /= a->law == LAW_LIST ? a->count : 1;
        char *drawn = NULL;
        for (size_t i = 0; good && i < sweep->trial_count; i++) {
            if (a->law != LAW_LIST && i % combinations == 0) {
                td__free(drawn);
                drawn = draw(a);
            }
            const char *value =
                a->law == LAW_LIST ? a->values[i % combinations / inner % a->count] : drawn;
            sweep->trials[i].values[key] = value ? td__strdup(value) : NULL;
            good = sweep->trials[i].values[key];
        }
        td__free(drawn);
        key++;
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

/* Keys that have one value everywhere are fixed; the others are the sweep's. */
static td_status sort_keys(td_sweep *sweep, const space *s, size_t *combinations, td_error *error) {
    sweep->keys = td__calloc(s->count + 1, sizeof *sweep->keys);
    sweep->fixed = td__calloc(s->count + 1, sizeof *sweep->fixed);
    bool good = sweep->keys && sweep->fixed;
    *combinations = 1;
    for (size_t i = 0; good && i < s->count; i++) {
        const axis *a = &s->axes[i];
        if (a->law == LAW_LIST && a->count == 1) {
            size_t room = strlen(a->key) + strlen(a->values[0]) + 2;
            char *fixed = td__calloc(room, 1);
            good = fixed;
            if (good) {
                (void)snprintf(fixed, room, "%s=%s", a->key, a->values[0]);
                sweep->fixed[sweep->fixed_count++] = fixed;
            }
            continue;
        }
        *combinations *= a->law == LAW_LIST ? a->count : 1;
        if (*combinations > TD__SWEEP_MAX_TRIALS) {
            return td_error_set(error, TD_RANGE, "more than %d combinations", TD__SWEEP_MAX_TRIALS);
        }
        sweep->keys[sweep->key_count] = td__strdup(a->key);
        good = sweep->keys[sweep->key_count];
        sweep->key_count += good;
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

static td_status span(td_sweep *sweep, space *s, const td_sweep_options *options, uint64_t seed,
                      td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < options->set_count; i++) {
        status = add_axis(s, options->set[i], false, seed, error);
    }
    for (size_t i = 0; !status && i < options->random_count; i++) {
        status = add_axis(s, options->random[i], true, seed, error);
    }
    size_t combinations = 1, draws = options->random_count ? (size_t)options->draws : 1;
    status = status ? status : sort_keys(sweep, s, &combinations, error);
    if (status) {
        return status;
    }
    if (!sweep->key_count || combinations * draws < 2) {
        return td_error_set(error, TD_INVALID,
                            "nothing to compare: --set KEY=A,B,C with several values, or "
                            "--random KEY=log(A,B) -n N");
    }
    if (draws > TD__SWEEP_MAX_TRIALS || combinations * draws > TD__SWEEP_MAX_TRIALS) {
        return td_error_set(error, TD_RANGE, "%zu trials are more than %d", combinations * draws,
                            TD__SWEEP_MAX_TRIALS);
    }
    status = td__sweep_make_trials(sweep, combinations * draws, error);
    return status ? status : fill_trials(sweep, s, combinations, error);
}

td_status td__sweep_span(td_sweep *sweep, const td_sweep_options *options, uint64_t seed,
                         td_error *error) {
    space *s = td__calloc(1, sizeof *s);
    td_status status =
        s ? span(sweep, s, options, seed, error) : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; s && i < s->count; i++) {
        release_axis(&s->axes[i]);
    }
    td__free(s);
    return status;
}
