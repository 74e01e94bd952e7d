/* Requests: method, target, Host, Origin and Cookie, a line each, as any program on the machine may
 * send them; an empty line is what a browser of ours sends. */
#include "answers/answer.h"
#include "tapedeck/deck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/tapedeck-fuzz-XXXXXX";
static td__server_context context = {.token = "0123456789012345678901234567890123456789",
                                     .port = 80};

static void clean_up(void) {
    char command[64];
    td__run_cache_destroy(context.cache);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    (void)!system(command);
}

/* A small run of everything. */
static void record(const char *path) {
    td_deck *deck = td_deck_open(path, NULL);
    td_deck_track(deck, .what = "*", .form = TD_STATS | TD_SCALAR | TD_HISTOGRAM | TD_TEXT,
                  .to = "sqlite");
    td_deck_track(deck, .what = "*.output", .form = TD_TENSOR | TD_IMAGE, .to = "npy,png");
    td_deck_track(deck, .what = "prediction", .form = TD_ROWS, .to = "sqlite");
    for (int64_t step = 1; step <= 40; step++) {
        float values[48];
        for (int i = 0; i < 48; i++) {
            values[i] = step == 7 && i == 3 ? NAN : (float)(i * step);
        }
        td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 4, 3, 2), .data = values};
        td_view rows = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 24), .data = values};
        const int64_t samples[2] = {4, 9};
        (void)td_deck_batch(deck, samples, 2);
        (void)td_deck_scalar(deck, "loss", 1.0 / (double)step);
        (void)td_deck_text(deck, "note", "text");
        (void)td_deck_record(deck, "a.output", view);
        (void)td_deck_record(deck, "a.error", view);
        (void)td_deck_record(deck, "prediction", rows);
        (void)td_deck_step(deck, 1, step);
    }
    if (td_deck_close(deck, NULL) != TD_OK) {
        abort();
    }
}

static void set_up(void) {
    char path[64];
    td__output changes = {0};
    if (!mkdtemp(folder)) {
        abort();
    }
    (void)snprintf(path, sizeof path, "%s/run", folder);
    record(path);
    context.cache = td__run_cache_create(folder, NULL);
    if (!context.cache || !td__run_cache_refresh(context.cache, &changes)) {
        abort();
    }
    td__output_release(&changes);
    (void)atexit(clean_up);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!context.cache) {
        set_up();
    }
    char *text = malloc(size + 1), *rest = text;
    memcpy(text, data, size);
    text[size] = 0;
    const char *lines[5] = {"", "", "", "", ""};
    for (int i = 0; i < 5 && rest; i++) {
        lines[i] = strsep(&rest, "\n");
    }
    char cookie[64];
    (void)snprintf(cookie, sizeof cookie, "tapedeck-80=%s", context.token);
    td__http_request request = {.method = *lines[0] ? lines[0] : "GET",
                                .target = lines[1],
                                .host = *lines[2] ? lines[2] : "127.0.0.1:80",
                                .origin = *lines[3] ? lines[3] : NULL,
                                .cookie = *lines[4] ? lines[4] : cookie};
    td__response response = {0};
    td__answer(&context, &request, &response);
    if (response.status < 200 || response.status > 503 || !response.type) {
        abort();
    }
    td__output_release(&response.body);
    free(text);
    return 0;
}
