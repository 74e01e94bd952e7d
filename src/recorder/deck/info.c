/* What a signal is: declared by the program, or guessed from its name (here and nowhere else). */
#include "deck/deck.h"

#include "base/memory.h"
#include "base/options.h"

#include <ctype.h>
#include <string.h>

/* ---- Kinds ---------------------------------------------------------------------------------- */

static const char *const kinds[TD_SIGNAL_KIND_COUNT] = {
#define KIND(name, text) text,
    TD_SIGNAL_KIND_LIST(KIND)
#undef KIND
};

const char *td_signal_kind_name(td_signal_kind kind) {
    return (size_t)kind < TD_SIGNAL_KIND_COUNT ? kinds[kind] : "";
}

td_signal_kind td_signal_kind_find(const char *name) {
    size_t kind = 0;
    while (kind < TD_SIGNAL_KIND_COUNT && strcmp(kinds[kind], name) != 0) {
        kind++;
    }
    return kind < TD_SIGNAL_KIND_COUNT ? (td_signal_kind)kind : TD_SIGNAL_UNKNOWN;
}

static bool is_batched(td_signal_kind kind) {
    return kind != TD_SIGNAL_PARAMETER && kind != TD_SIGNAL_GRADIENT && kind != TD_SIGNAL_UPDATE;
}

/* ---- Guessing ------------------------------------------------------------------------------- */

/* Whether text has the word, not as a part of another. */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        if ((at == text || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

static const struct {
    const char *word;
    td_better better;
} metrics[] = {
    {"loss", TD_BETTER_SMALLER},    {"mse", TD_BETTER_SMALLER},
    {"mae", TD_BETTER_SMALLER},     {"rmse", TD_BETTER_SMALLER},
    {"error", TD_BETTER_SMALLER},   {"perplexity", TD_BETTER_SMALLER},
    {"accuracy", TD_BETTER_LARGER}, {"acc", TD_BETTER_LARGER},
    {"auc", TD_BETTER_LARGER},      {"r2", TD_BETTER_LARGER},
    {"f1", TD_BETTER_LARGER},       {"precision", TD_BETTER_LARGER},
    {"recall", TD_BETTER_LARGER},   {"learning_rate", TD_BETTER_NEITHER},
    {"lr", TD_BETTER_NEITHER},      {"gradient_norm", TD_BETTER_NEITHER},
};

static bool guess_metric(const char *word, td_signal_info *info) {
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        if (has_word(word, metrics[i].word)) {
            info->kind = TD_SIGNAL_METRIC;
            info->better = metrics[i].better;
            return true;
        }
    }
    return false;
}

/* A parameter's last word: kernel, recurrent_kernel, attention_output_bias, running_mean, … */
static bool is_parameter(const char *word) {
    static const char *const words[] = {
        "kernel",      "bias",         "weight",          "weights",     "gamma",      "beta",
        "moving_mean", "running_mean", "moving_variance", "running_var", "embeddings",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (has_word(word, words[i])) {
            return true;
        }
    }
    return false;
}

/* LAYER.PARAMETER in text, or a parameter alone: cut in two. */
static void split_parameter(char *text, td_signal_info *info) {
    char *dot = strrchr(text, '.');
    info->parameter = dot ? dot + 1 : text;
    info->layer = dot ? text : "";
    if (dot) {
        *dot = 0;
    }
}

/* LAYER.WORD, where text is the layer and already cut off. */
static void guess_of_layer(char *text, const char *word, td_signal_info *info) {
    static const td_signal_kind of_layer[] = {TD_SIGNAL_OUTPUT, TD_SIGNAL_PREACTIVATION,
                                              TD_SIGNAL_ERROR};
    static const td_signal_kind of_parameter[] = {TD_SIGNAL_GRADIENT, TD_SIGNAL_UPDATE};
    info->layer = text;
    for (size_t i = 0; i < sizeof of_layer / sizeof *of_layer; i++) {
        if (!strcmp(word, kinds[of_layer[i]])) {
            info->kind = of_layer[i];
            return;
        }
    }
    for (size_t i = 0; i < sizeof of_parameter / sizeof *of_parameter; i++) {
        if (!strcmp(word, kinds[of_parameter[i]])) {
            info->kind = of_parameter[i];
            split_parameter(text, info);
            return;
        }
    }
    if (is_parameter(word)) {
        info->kind = TD_SIGNAL_PARAMETER;
        info->parameter = word;
    } else if (!guess_metric(word, info)) {
        info->layer = "";
    }
}

void td_signal_guess(const char *name, td_signal_info *info, char text[TD_SIGNAL_TEXT_SIZE]) {
    static const td_signal_kind alone[] = {TD_SIGNAL_INPUT, TD_SIGNAL_LABEL, TD_SIGNAL_PREDICTION};
    size_t length = strlen(name);
    *info = (td_signal_info){.size = sizeof *info, .layer = "", .parameter = "", .placement = ""};
    text[0] = 0;
    if (length < TD_SIGNAL_TEXT_SIZE) {
        memcpy(text, name, length + 1);
        char *dot = strrchr(text, '.');
        for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
            info->kind = strcmp(name, kinds[alone[i]]) ? info->kind : alone[i];
        }
        if (dot) {
            *dot = 0;
            guess_of_layer(text, dot + 1, info);
        } else if (!info->kind) {
            (void)guess_metric(text, info);
        }
    }
    info->batched = is_batched(info->kind);
}

td_signal_kind td__record_kind(const td_record *record) {
    td_signal_info guess;
    char text[TD_SIGNAL_TEXT_SIZE];
    if (!record->info) {
        td_signal_guess(record->signal, &guess, text);
    }
    return record->info ? record->info->kind : guess.kind;
}

/* ---- Keeping -------------------------------------------------------------------------------- */

static size_t text_size(const char *text) {
    return text ? strlen(text) + 1 : 1;
}

static const char *put_text(char **room, const char *text) {
    size_t size = text_size(text);
    char *copy = memcpy(*room, text ? text : "", size);
    *room += size;
    return copy;
}

/* A copy with everything it points to, in one block; NULL when memory is exhausted. */
static td__known *copy_info(const td_signal_info *info) {
    size_t names = info->unit_count * sizeof(char *);
    size_t texts = text_size(info->layer) + text_size(info->parameter) + text_size(info->placement);
    for (size_t i = 0; i < info->unit_count; i++) {
        texts += text_size(info->units[i]);
    }
    td__known *known = td__calloc(1, sizeof *known + names + texts);
    if (!known) {
        return NULL;
    }
    const char **units = (const char **)(known + 1);
    char *room = (char *)(units + info->unit_count);
    known->info = *info;
    known->info.size = sizeof known->info;
    known->info.layer = put_text(&room, info->layer);
    known->info.parameter = put_text(&room, info->parameter);
    known->info.placement = put_text(&room, info->placement);
    for (size_t i = 0; i < info->unit_count; i++) {
        units[i] = put_text(&room, info->units[i]);
    }
    known->info.units = info->unit_count ? units : NULL;
    return known;
}

bool td__signal_know(td_signal *signal, const char *name, const td_signal_info *info) {
    char text[TD_SIGNAL_TEXT_SIZE];
    td_signal_info given = {0};
    if (info) {
        (void)td__options(&given, sizeof given, info);
        given.unit_count = given.units ? given.unit_count : 0;
        given.kind = (size_t)given.kind < TD_SIGNAL_KIND_COUNT ? given.kind : TD_SIGNAL_UNKNOWN;
    } else {
        td_signal_guess(name, &given, text);
    }
    td__known *known = copy_info(&given);
    if (!known) {
        return false;
    }
    known->before =
        (td__known *)(uintptr_t)atomic_load_explicit(&signal->known, memory_order_relaxed);
    atomic_store_explicit(&signal->known, known, memory_order_release);
    atomic_store_explicit(&signal->batched, given.batched, memory_order_relaxed);
    return true;
}

void td__signal_found_to_be(td_signal *signal, td_signal_kind kind) {
    td_signal_info info = *td_signal_about(signal);
    if (!signal->declared && !info.kind) {
        info.kind = kind;
        info.batched = is_batched(kind);
        (void)td__signal_know(signal, signal->name, &info); /* it stays unknown then */
    }
}

void td__signal_forget(td_signal *signal) {
    td__known *known =
        (td__known *)(uintptr_t)atomic_load_explicit(&signal->known, memory_order_relaxed);
    for (td__known *before; known; known = before) {
        before = known->before;
        td__free(known);
    }
}

td_signal *td_deck_signal_with(td_deck *deck, const char *name, const td_signal_info *info) {
    td_signal *signal = td__deck_signal(deck, name, info);
    if (!signal) {
        return NULL;
    }
    td__deck_lock(deck);
    if (!signal->declared) {
        signal->declared = td__signal_know(signal, name, info);
        if (!signal->declared) {
            (void)td__deck_fail(deck, TD_MEMORY, "out of memory for what %s is", name);
        }
    }
    bool known = signal->declared;
    td__deck_unlock(deck);
    return known ? signal : NULL;
}

const td_signal_info *td_signal_about(const td_signal *signal) {
    return !signal ? NULL : &atomic_load_explicit(&signal->known, memory_order_acquire)->info;
}
