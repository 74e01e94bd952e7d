/* Reads model files one after the other: inspects each, and runs it once over zeros. A file takes at
 * most TIME seconds of the processor. Prints the path of each before it is read; exits with 0 whatever they are. */
#include "tapedeck/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

enum { TIME = 30, OPEN = 8, MOST = 1 << 20 };

static td_tensor *zeros_for(const td_model *model) {
    td_shape example = td_model_input_shape(model), shape = {.rank = example.rank + 1, .dims = {2}};
    int64_t count = 2;
    for (int32_t i = 0; i < example.rank; i++) {
        shape.dims[i + 1] = example.dims[i] < 0 ? OPEN : example.dims[i];
        if (shape.dims[i + 1] && count > MOST / shape.dims[i + 1]) {
            return NULL;
        }
        count *= shape.dims[i + 1];
    }
    return td_tensor_create("input", td_model_input_dtype(model), shape, NULL);
}

static void run(td_model *model) {
    td_tape *tape = td_tape_create(
        &(td_tape_options){.size = sizeof(td_tape_options), .no_history = true}, NULL);
    td_tensor *zeros = zeros_for(model);
    if (tape && zeros) {
        (void)td_model_forward(model, tape, zeros);
    }
    td_tensor_destroy(zeros);
    td_tape_destroy(tape);
}

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        puts(paths[i]);
        (void)fflush(stdout);
        (void)setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = TIME}}, NULL);
        td_error error = {0};
        const td_inspection *about = td_model_inspect(paths[i], &error);
        if (!about && !error.text[0]) {
            (void)fputs("refused without a reason\n", stderr);
            return 1;
        }
        td_inspection_destroy(about);
        td_model *model = about ? td_model_load(paths[i], &error) : NULL;
        if (model) {
            run(model);
        }
        td_model_destroy(model);
    }
    return 0;
}
