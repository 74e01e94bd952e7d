#include "view/kinds.h"

#include <ctype.h>
#include <string.h>

td__kind td__kind_of(const td_run_signal *signal) {
    static const char *const endings[] = {"output", "preactivation", "error", "gradient", "update"};
    static const char *const whole[] = {"input", "label", "prediction"};
    td__kind k = {.kind = "parameter", .layer = signal->name, .parameter = ""};
    const char *name = signal->name, *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (strcmp(name, whole[i]) == 0) {
            return (td__kind){.kind = whole[i], .layer = "", .parameter = ""};
        }
    }
    if (signal->forms & TD_SCALAR || !dot || dot == name) {
        return (td__kind){.kind = "metric", .layer = "", .parameter = ""};
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(dot + 1, endings[i]) == 0) {
            k.kind = endings[i];
            const char *end = dot;
            const char *before = i >= 3 ? memrchr(name, '.', (size_t)(dot - name)) : NULL;
            if (before && before != name) {
                k.parameter = before + 1;
                k.parameter_length = (int)(dot - before - 1);
                end = before;
            }
            k.layer_length = (int)(end - name);
            return k;
        }
    }
    k.parameter = dot + 1;
    k.parameter_length = (int)strlen(dot + 1);
    k.layer_length = (int)(dot - name);
    return k;
}

bool td__larger_is_better(const td_run_signal *signal) {
    static const char *const words[] = {"accuracy", "acc",       "auc",   "r2",
                                        "f1",       "precision", "recall"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(signal->name, words[i]);
        size_t length = strlen(words[i]);
        if (at && (at == signal->name || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length])) {
            return true;
        }
    }
    return false;
}

static bool is_listed(const td_run_signal *const *list, size_t count, const td_run_signal *signal) {
    for (size_t i = 0; i < count; i++) {
        if (list[i] == signal) {
            return true;
        }
    }
    return false;
}

size_t td__main_metrics(const td_run *run, const td_run_signal **chosen, size_t most) {
    static const char *const known[] = {"loss", "val_loss", "accuracy", "val_accuracy"};
    const td_run_signal *signals;
    size_t count = td_run_signals(run, &signals), used = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known && used < most; k++) {
        const td_run_signal *signal = td_run_signal_find(run, known[k]);
        if (signal && signal->forms & TD_SCALAR) {
            chosen[used++] = signal;
        }
    }
    for (size_t i = 0; i < count && used < most; i++) {
        if (signals[i].forms & TD_SCALAR && !is_listed(chosen, used, &signals[i])) {
            chosen[used++] = &signals[i];
        }
    }
    return used;
}
