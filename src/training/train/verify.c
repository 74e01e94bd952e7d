#include "train/verify.h"

#include "train/trainer.h"

#include "base/memory.h"
#include "tensor/hash.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PRINTS = 1 << 24, FORWARD = -1, UPDATE = -2 };

/* Of one tensor: the output of a node (input FORWARD), the gradient of its input, or a parameter (UPDATE). */
typedef struct td__verify_print {
    int32_t index, input;
    uint64_t hash;
} print;

/* ---- Fingerprints ---------------------------------------------------------------------------- */

/* Whether it is what it was the first time. A tensor that only one of the two has is not compared: recording an
 * error makes a gradient that nothing else needs. */
static bool is_same(td__verify *verify, const print *now) {
    for (size_t i = verify->at; i < verify->count; i++) {
        const print *before = &verify->prints[i];
        if (before->index == now->index && before->input == now->input) {
            verify->at = i + 1;
            return before->hash == now->hash;
        }
    }
    return true;
}

/* False: it differs, and is the first. */
static bool take_fingerprint(td__verify *verify, int32_t index, int32_t input, const void *data,
                             size_t bytes) {
    print now = {.index = index, .input = input, .hash = td__xxh64(data, bytes, 0)};
    if (verify->second) {
        return *verify->differs || is_same(verify, &now);
    }
    if (!td__grow(&verify->prints, &verify->capacity, verify->count + 1, MAX_PRINTS,
                  sizeof *verify->prints)) {
        verify->incomplete = true;
        return true;
    }
    verify->prints[verify->count++] = now;
    return true;
}

static size_t bytes_of(const td_tensor *tensor) {
    return (size_t)tensor->count * td_dtype_size(tensor->dtype);
}

static void name_node(td__verify *verify, const td__node *node, const char *phase) {
    (void)snprintf(verify->differs, sizeof verify->differs, "%s of %.300s, %s", node->op->name,
                   node->label ? node->label : "the loss", phase);
}

static void take_forward(void *user, const td_tape *tape) {
    td__verify *verify = user;
    for (size_t i = 0; i < tape->node_count; i++) {
        const td__node *node = &tape->nodes[i];
        if (!take_fingerprint(verify, (int32_t)i, FORWARD, node->output->data,
                              bytes_of(node->output))) {
            name_node(verify, node, "forward");
        }
    }
}

static void take_backward(void *user, const td_tape *tape, int32_t index) {
    td__verify *verify = user;
    const td__node *node = &tape->nodes[index];
    for (int32_t i = 0; i < node->input_count; i++) {
        const float *gradient = node->inputs[i].slot < 0 ? NULL : td__gradient_of(tape, node, i);
        if (gradient &&
            !take_fingerprint(verify, index, i, gradient, bytes_of(node->inputs[i].tensor))) {
            name_node(verify, node, "backward");
        }
    }
}

void td__verify_parameter(td__verify *verify, size_t index, const td_tensor *tensor,
                          const char *optimizer) {
    if (!take_fingerprint(verify, (int32_t)index, UPDATE, tensor->data, bytes_of(tensor))) {
        (void)snprintf(verify->differs, sizeof verify->differs, "%s, the update of %.300s",
                       optimizer, tensor->name);
    }
}

void td__verify_begin(td__verify *verify, td_tape *tape, bool second) {
    verify->watch =
        (td__tape_watch){.forward = take_forward, .backward = take_backward, .user = verify};
    verify->second = second;
    verify->at = 0;
    if (!second) {
        verify->count = 0;
        verify->incomplete = false;
    }
    *verify->differs = 0;
    tape->watch = &verify->watch;
}

void td__verify_end(td__verify *verify, td_tape *tape) {
    tape->watch = NULL;
    if (verify->second) {
        verify->steps++;
        verify->differing += *verify->differs != 0;
    }
}

void td__verify_release(td__verify *verify) {
    td__free(verify->prints);
    *verify = (td__verify){0};
}

/* ---- In training ----------------------------------------------------------------------------- */

bool td__step_is_verified(const td_trainer *trainer) {
    int64_t every = trainer->experiment->train.verify_every;
    return every > 0 && (trainer->at.step + 1) % every == 0 && !trainer->replaying;
}

static void take_parameters(td_trainer *trainer) {
    const td__learner *learner = &trainer->learner;
    const char *optimizer = td_optimizer_kind_name(td_optimizer_settled(learner->optimizer)->kind);
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        td__verify_parameter(trainer->verify, i, td_model_parameter_at(trainer->model, i)->tensor,
                             optimizer);
    }
}

/* All of the step but what is measured and recorded. */
static td_status compute_step(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__pass *pass = &trainer->pass;
    td__learner *learner = &trainer->learner;
    td_status status = TD_OK;
    if (trainer->shards.count > 1) {
        status = td__shards_compute(trainer, batch, error);
    } else {
        td_tape_seed(pass->tape, trainer->experiment->seed, (uint64_t)trainer->at.step + 1);
        td_tape_set_training(pass->tape, true);
        status = td__pass_forward(pass, batch, error);
        status = status ? status
                        : td__pass_backward(pass, learner->weight_count, learner->weight_count,
                                            learner->targets, learner->gradients, NULL, error);
    }
    status = status ? status : td_optimizer_step(learner->optimizer, learner->gradients, error);
    if (!status) {
        take_parameters(trainer);
    }
    td__pass_end(pass);
    return status;
}

td_status td__step_rehearse(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__state state = {0};
    td__pass_signals *signals = trainer->pass.signals;
    trainer->verify = trainer->verify ? trainer->verify : td__calloc(1, sizeof *trainer->verify);
    if (!trainer->verify) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_status status = td__state_save(trainer, &state, error);
    if (!status) {
        trainer->pass.signals = NULL;
        td__verify_begin(trainer->verify, trainer->pass.tape, false);
        status = compute_step(trainer, batch, error);
        td__verify_end(trainer->verify, trainer->pass.tape);
        trainer->pass.signals = signals;
        td_status restored = td__state_restore(trainer, &state, NULL, status ? NULL : error);
        status = status ? status : restored;
    }
    td__state_release(&state);
    td__verify_begin(trainer->verify, trainer->pass.tape, true);
    return status;
}

void td__step_compare(td_trainer *trainer) {
    td__verify *verify = trainer->verify;
    int64_t step = trainer->at.step + 1;
    char text[TD__VERIFY_TEXT + 100];
    take_parameters(trainer);
    td__verify_end(verify, trainer->pass.tape);
    if (*verify->differs) {
        (void)snprintf(text, sizeof text, "step %lld: executed twice, %s made something else",
                       (long long)step, verify->differs);
    } else if (verify->incomplete) {
        (void)snprintf(text, sizeof text,
                       "step %lld: executed twice and compared in part: out of memory",
                       (long long)step);
    } else {
        return;
    }
    td__trainer_remark(trainer, NULL, "%s", text);
    if (*verify->differs && verify->differing == 1) {
        (void)td_deck_note(trainer->recording.deck, "verify.differs", text);
    }
}

void td__step_unverified(td_trainer *trainer) {
    if (trainer->verify) {
        trainer->verify->second = false;
        td__verify_end(trainer->verify, trainer->pass.tape);
    }
}

void td__verify_destroy(td__verify *verify) {
    if (verify) {
        td__verify_release(verify);
        td__free(verify);
    }
}

void td__verify_note(td_trainer *trainer) {
    char text[64];
    if (trainer->verify && trainer->verify->steps > 0) {
        (void)snprintf(text, sizeof text, "%lld, %lld of them differ",
                       (long long)trainer->verify->steps, (long long)trainer->verify->differing);
        (void)td_deck_note(trainer->recording.deck, "verify.steps", text);
    }
}
