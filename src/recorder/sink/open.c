/* Opens a deck with the built-in sinks. To add one: write its file, add its class here. */
#include "deck/open.h"
#include "sink/classes.h"

#include <string.h>

static const td_sink_class *const builtin[] = {
    &td__sink_csv,    &td__sink_npy, &td__sink_tensorboard, &td__sink_png, &td__sink_print,
    &td__sink_sqlite, NULL,
};

const td_sink_class *const *td_sinks(void) {
    return builtin;
}

const td_sink_class *td_sink_find(const char *name) {
    const td_sink_class *const *class = builtin;
    while (*class && strcmp((*class)->name, name) != 0) {
        class ++;
    }
    return *class;
}

const td_sink_class *td_sink_for(uint32_t form) {
    const td_sink_class *fallback = NULL;
    for (const td_sink_class *const *class = builtin; *class; class ++) {
        if ((*class)->default_forms & form) {
            return *class;
        }
        fallback = (*class)->by_default ? *class : fallback;
    }
    return fallback;
}

td_deck *td_deck_open_with(const char *folder, const td_deck_options *options, td_error *error) {
    return td__deck_open(folder, options, builtin, error);
}

td_deck *td_deck_open(const char *folder, td_error *error) {
    return td__deck_open(folder, NULL, builtin, error);
}
