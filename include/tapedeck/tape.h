/* The gradient tape: remembers the operations of a forward pass and gives the gradient of one
 * tensor on it with respect to any others.
 *
 *     td_tape *tape = td_tape_create(NULL, &error);
 *     td_tensor *y = td_dense(tape, x, kernel, bias, TD_RELU);         // ops.h
 *     td_tensor *loss = td_mse(tape, y, target, NULL);
 *     td_tensor *wanted[] = {y, kernel}, *gradient[2];
 *     if (td_tape_gradient(tape, loss, 2, wanted, gradient, &error)) …
 *     td_tape_reset(tape);                                             // next step
 *
 * Errors are sticky: an operation that fails returns NULL and the tape remembers the first error;
 * operations given NULL return NULL; td_tape_gradient and td_tape_status report it. td_tape_reset
 * clears it. So a whole forward pass needs one check.
 *
 * A tape, and the tensors it made, belong to one thread at a time. Heap tensors (parameters,
 * batches) may be read by several tapes at once; they must not change between the forward pass
 * and the gradient.
 */
#ifndef TAPEDECK_TAPE_H
#define TAPEDECK_TAPE_H

#include "tapedeck/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_tape td_tape;

/* Zero means default. */
typedef struct td_tape_options {
    size_t size;     /* sizeof(td_tape_options) */
    uint64_t seed;   /* of dropout and other random operations */
    bool no_history; /* run operations without remembering them */
    bool inference;  /* the same, with a promise: parameters of models that run on it keep their
                        values and stay where they are as long as the tape lives. What operations
                        make of them (packed weights) is made once. Of a model nobody watches
                        (td_model_watch) only the outputs are there afterwards: layers may run as
                        one, and the memory of what is between them is used again. */
} td_tape_options;

/* options may be NULL. NULL on failure. */
TD_API td_tape *td_tape_create(const td_tape_options *options, td_error *error);
/* Frees the tape and all tensors it made. Accepts NULL. */
TD_API void td_tape_destroy(td_tape *tape);
/* Forgets everything recorded, the error included; all tensors the tape made are gone. */
TD_API void td_tape_reset(td_tape *tape);

/* The first error since the last reset, or TD_OK. */
TD_API TD_NODISCARD td_status td_tape_status(const td_tape *tape, td_error *error);
/* Random operations after this depend on seed and step alone. */
TD_API void td_tape_seed(td_tape *tape, uint64_t seed, uint64_t step);
/* Inference (true): operations run without being remembered. Takes effect for what follows. */
TD_API void td_tape_set_no_history(td_tape *tape, bool no_history);
/* Whether random and batch-dependent operations (dropout, batch normalisation) act as in training.
 * False until set. */
TD_API void td_tape_set_training(td_tape *tape, bool training);
TD_API bool td_tape_is_training(const td_tape *tape);

/* gradients[i] = d sum(source) / d targets[i], shaped like targets[i]; they live until td_tape_reset.
 *
 * Targets are tensors made on this tape or heap tensors that were given to its operations. One that
 * `source` does not depend on gets zeros, and td_tensor_is_disconnected says so. One that the tape
 * never saw is an error that names it. Only what leads to the targets is computed. May be called
 * again with other targets until the tape is reset. */
TD_API TD_NODISCARD td_status td_tape_gradient(td_tape *tape, td_tensor *source, size_t count,
                                               td_tensor *const targets[], td_tensor *gradients[],
                                               td_error *error);

/* Called during the backward walk as soon as gradients[index] is complete. It records no
 * operation on the tape. */
typedef void td_gradient_ready(void *user, size_t index, td_tensor *gradient);
/* The same; calls `ready` for each gradient while it is still in the cache. */
TD_API TD_NODISCARD td_status td_tape_gradient_notify(td_tape *tape, td_tensor *source,
                                                      size_t count, td_tensor *const targets[],
                                                      td_tensor *gradients[],
                                                      td_gradient_ready *ready, void *user,
                                                      td_error *error);

/* Like the function above, but returns only the first `kept` gradients. The remaining ones are
 * passed to `ready`; their memory is recycled when it returns, unless a td_tape_view of them is
 * still held. */
TD_API TD_NODISCARD td_status td_tape_gradient_keep(td_tape *tape, td_tensor *source, size_t kept,
                                                    size_t count, td_tensor *const targets[],
                                                    td_tensor *gradients[],
                                                    td_gradient_ready *ready, void *user,
                                                    td_error *error);

/* True for a gradient that is zero because the result does not depend on the target. */
TD_API bool td_tensor_is_disconnected(const td_tensor *gradient);
/* Gives a tape tensor a name for messages and printing; the name is copied. */
TD_API void td_tape_name(td_tape *tape, td_tensor *tensor, const char *name);

/* A view that keeps the tensor's memory alive past td_tape_reset until it is released: the tape's
 * next recordings use other memory. A plain view for tensors that are small (copying them is
 * cheaper), not on this tape, or that only pass on memory which is not the tape's (a reshaped
 * batch). */
TD_API td_view td_tape_view(td_tape *tape, const td_tensor *tensor);
/* Bytes the tape holds for tensors, its high-water mark. */
TD_API size_t td_tape_memory(const td_tape *tape);

/* How many threads operations may use; 0: all cores. For the whole process; results are the same
 * bits for the same number. */
TD_API void td_threads_set(int threads);
TD_API int td_threads(void);
/* Calls part(context, 0 … parts - 1) on as many compute threads as there are, and returns when all are
 * done: what td_deck_options.run_parts wants. Not from within such a part. */
TD_API void td_threads_run(int32_t parts, void (*part)(void *context, int32_t index),
                           void *context);

#ifdef __cplusplus
}
#endif
#endif
