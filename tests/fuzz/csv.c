/* CSV: the first byte chooses the options, the rest is the file. It is parsed through a buffer that
 * holds all of it and through one that starts with a few bytes; both must say the same. */
#include "data/csv.h"

#include <stdlib.h>
#include <string.h>

typedef struct result {
    td_status status;
    int64_t rows;
    td__row_store store;
} result;

static result parse(uint8_t choice, const uint8_t *data, size_t size, size_t capacity) {
    static const char *const label[] = {"last"}, *const ignore[] = {"0"};
    const td_text text = {.column = choice & 64 ? "text" : "0",
                          .tokens = choice & 128 ? TD_TOKENS_CHARACTERS : TD_TOKENS_WORDS};
    const td_date date = {.column = choice & 64 ? "date" : "1"};
    td_data_options options = {.label = {label, choice & 1},
                               .ignore = {ignore, choice >> 1 & 1},
                               .text = {&text, choice >> 4 & 1},
                               .dates = {&date, choice >> 5 & 1},
                               .header = (td_header)((choice >> 2 & 3) % 3)};
    td__names inputs = {0}, words[TD__TEXTS_MAXIMUM] = {{0}};
    td_date dates[TD__DATES_MAXIMUM] = {date};
    result r = {0};
    td_error error = {0};
    td__input *input = NULL;
    td__row_store_init(&r.store, NULL);
    if (td__input_memory(&input, "fuzz", data, size, &error)) {
        abort();
    }
    td__csv csv = {.options = &options, .input = input, .error = &error, .capacity = capacity};
    if (choice & 48) {
        td__csv like = csv;
        r.status = td__csv_survey(&like, false, &inputs, words, dates);
        r.status = r.status ? r.status : td__input_rewind(input, &error);
        csv.inputs = (td_names){(const char *const *)inputs.items, inputs.count};
        csv.words = words;
        csv.known_dates = dates;
        csv.surveyed = true;
    }
    r.status = r.status ? r.status : td__csv_start(&csv);
    if (!r.status) {
        r.status = td__csv_parse(&csv, &r.store);
    }
    r.rows = csv.rows;
    if (r.status != error.status) {
        abort();
    }
    td__csv_release(&csv);
    td__input_close(input);
    td__names_release(&inputs);
    for (int i = 0; i < TD__TEXTS_MAXIMUM; i++) {
        td__names_release(&words[i]);
    }
    return r;
}

static bool is_same(const td__stream *a, const td__stream *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->values, b->values, a->count * sizeof(float)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    result whole = parse(data[0], data + 1, size - 1, size + 1);
    result pieces = parse(data[0], data + 1, size - 1, 3);
    if (whole.status != pieces.status || whole.rows != pieces.rows ||
        !is_same(&whole.store.inputs, &pieces.store.inputs) ||
        !is_same(&whole.store.labels, &pieces.store.labels)) {
        abort();
    }
    td__row_store_release(&whole.store);
    td__row_store_release(&pieces.store);
    return 0;
}
