/* Opens a deck with the built-in sinks. To add one: write its file, add its class here. */
#include "deck/open.h"
#include "sink/classes.h"

static const td_sink_class *const builtin[] = {
    &td__sink_csv,    &td__sink_npy, &td__sink_tensorboard, &td__sink_png, &td__sink_print,
    &td__sink_sqlite, NULL,
};

td_deck *td_deck_open_with(const char *folder, const td_deck_options *options, td_error *error) {
    return td__deck_open(folder, options, builtin, error);
}

td_deck *td_deck_open(const char *folder, td_error *error) {
    return td__deck_open(folder, NULL, builtin, error);
}
