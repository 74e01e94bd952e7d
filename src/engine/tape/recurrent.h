/* What recurrent layers share.
 *
 * The products of all time steps with the kernel are one matrix product; the recurrence then runs
 * example by example, so that threads take rows of the batch and never wait for each other; of a
 * single example they take columns of each step's product. The
 * gradient runs back in the same way and leaves the gradients of all steps, of which the kernels'
 * are one matrix product each.
 *
 * Steps are counted as they are processed; with go_backwards step 0 reads the last input. Arrays of
 * steps are (batch, time, width): those of the input's kind in the order of the input, states in
 * the order of steps, as the output is.
 */
#ifndef TAPEDECK_TAPE_RECURRENT_H
#define TAPEDECK_TAPE_RECURRENT_H

#include "tape/gemm.h"

enum { TD__RNN_X, TD__RNN_KERNEL, TD__RNN_RECURRENT, TD__RNN_BIAS, TD__RNN_STATE, TD__RNN_CELL };
enum { TD__RNN_INPUTS = 6 };

typedef struct td__recurrent {
    int64_t batch, time, in, units, width; /* width = gates * units */
    bool sequences, backwards;
    td_activation activation, gate_activation;
    float *gates;       /* (batch, time, width), after the activations */
    float *before;      /* the same before them; NULL when no derivative needs it */
    float *states;      /* (batch, time, units); NULL without a history */
    float *current;     /* (batch, units): the state of the step under way */
    const float *zeros; /* (units,) */
    const float *mask;  /* (batch, time) in the order of the input: 0 skips a step; NULL: none is */
    const float *scale; /* (batch, units) on the state that products read; NULL: 1 */
    float *scaled;      /* (batch, units): the state so read; with scale only */
    td_tensor *output;
} td__recurrent;

/* Checks everything but the bias, allocates the output and what is remembered. NULL (and the tape's
 * error) on failure. */
td__recurrent *td__recurrent_begin(td_tape *tape, const char *op, int64_t gates,
                                   td_tensor *const inputs[TD__RNN_INPUTS],
                                   const td_recurrent_options *options, size_t saved_size);
/* Checks a bias of shape (width,); NULL is fine. */
bool td__recurrent_check_bias(td_tape *tape, const char *op, const td_tensor *kernel,
                              const td_tensor *bias);
/* gates = x kernel + bias for all steps, and current = the initial state. bias may be NULL. */
td_status td__recurrent_input(td_tape *tape, td__recurrent *r,
                              td_tensor *const inputs[TD__RNN_INPUTS], const float *bias);
/* Row (example, step) of gates or of anything like them. */
static inline float *td__gate_row(const td__recurrent *r, float *rows, int64_t width,
                                  int64_t example, int64_t step) {
    int64_t place = r->backwards ? r->time - 1 - step : step;
    return rows + (example * r->time + place) * width;
}
/* Row (example, step) of states or of anything like them; step -1 is the initial one. */
static inline const float *td__state_row(const td__recurrent *r, const float *rows,
                                         const td_tensor *initial, int64_t example, int64_t step) {
    if (step >= 0) {
        return rows + (example * r->time + step) * r->units;
    }
    return initial ? td__floats(initial) + example * r->units : r->zeros;
}
/* Whether state and output of an example stay as they were. */
static inline bool td__recurrent_skips(const td__recurrent *r, int64_t example, int64_t step) {
    int64_t place = r->backwards ? r->time - 1 - step : step;
    return r->mask && r->mask[example * r->time + place] == 0;
}
/* The current state as products read it, for examples [begin, end); (batch, units). */
const float *td__recurrent_read(const td__recurrent *r, int64_t begin, int64_t end);
/* An activation over one gate's units, softmax included; and its way back, of what
 * td__activation_uses_output says. */
void td__recurrent_apply(td_activation activation, int64_t n, const float *x, float *y);
void td__recurrent_apply_backward(td_activation activation, int64_t n, const float *values,
                                  const float *g, bool add, float *dx);
/* For examples [begin, end): c (+)= a b, b packed; c is row (begin, step) of gates, column on. */
void td__recurrent_product(const td__recurrent *r, int64_t step, int64_t begin, int64_t end,
                           const float *a, const float *packed, int64_t columns, float *gates,
                           int64_t column);
/* For examples [begin, end): states (=|+=) rows b, b packed; rows (batch, width). */
void td__recurrent_back(const td__recurrent *r, int64_t begin, int64_t end, const float *rows,
                        int64_t width, const float *packed, bool add, float *states);
/* A (k, n) right operand, packed once for all steps, or kept by the tape. */
typedef struct td__recurrent_panels {
    const float *data;
    td__buffer *memory; /* NULL: the tape's */
} td__recurrent_panels;

/* Of a recurrent kernel's columns from `column` on. TD_MEMORY (and the tape's error) without memory. */
td_status td__recurrent_pack(td_tape *tape, const td_tensor *kernel, int64_t column, bool transpose,
                             int64_t n, int64_t k, td__recurrent_panels *out);
void td__recurrent_unpack(td_tape *tape, const td__recurrent_panels *panels);
/* Activates columns [first, first + count) of a gates' row, and keeps what was before if needed. */
void td__recurrent_activate(const td__recurrent *r, td_activation activation, int64_t example,
                            int64_t step, int64_t first, int64_t count);
/* d (columns [first, first + count) of a row of gradients, in place) *= the derivative there. */
void td__recurrent_derive(const td__recurrent *r, td_activation activation, int64_t example,
                          int64_t step, int64_t first, int64_t count, float *row);
/* The state of a step is complete in current: writes it to states. */
void td__recurrent_keep(const td__recurrent *r, int64_t example, int64_t step);

/* --- backward ------------------------------------------------------------------------------- */

typedef struct td__recurrent_gradients {
    td__buffer *memory;
    float *gates;    /* (batch, time, width): of the products, all steps */
    float *previous; /* (batch, time, units): states before each step, in the order of gates */
    float *row;      /* (batch, width): the gates' of the step under way */
    float *state;    /* (batch, units) */
    float *held;     /* (batch, units): of examples that skip the step; with a mask only */
    float *extra;    /* as many floats as asked for */
} td__recurrent_gradients;

td_status td__recurrent_gradients_begin(td_tape *tape, const td__recurrent *r, int64_t extra,
                                        td__recurrent_gradients *d);
/* Adds the output's gradient of a step to d->state for examples [begin, end). */
void td__recurrent_gradients_step(const td__recurrent *r, const float *g, int64_t step,
                                  int64_t begin, int64_t end, td__recurrent_gradients *d);
/* Remembers an example's row of gate gradients and the state before it. */
void td__recurrent_gradients_keep(const td__recurrent *r, const td_tensor *initial, int64_t example,
                                  int64_t step, td__recurrent_gradients *d);
/* A step that an example skips: nothing reaches its gates, and its state's gradient stays. */
void td__recurrent_gradients_skip(const td__recurrent *r, const td_tensor *initial, int64_t example,
                                  int64_t step, td__recurrent_gradients *d);
/* Puts back the state's gradient of examples [begin, end) that skipped, after a product wrote it. */
void td__recurrent_gradients_resume(const td__recurrent *r, int64_t step, int64_t begin,
                                    int64_t end, td__recurrent_gradients *d);
/* dx and dkernel from d->gates; the initial state's from d->state. */
td_status td__recurrent_gradients_input(td_tape *tape, td__node *node, const td__recurrent *r,
                                        const td__recurrent_gradients *d);
/* The same, and the recurrent kernel's and the bias's, where both products' gradients are equal. */
td_status td__recurrent_gradients_all(td_tape *tape, td__node *node, const td__recurrent *r,
                                      const td__recurrent_gradients *d);
/* d (=|+=) left^T right over all steps; left (batch, time, units), right (…, columns) in rows of
 * width ld; into columns [column, column + columns) of the recurrent kernel's gradient dr. */
td_status td__recurrent_gradient_kernel(td_tape *tape, const td__recurrent *r, const float *left,
                                        const float *right, int64_t ld, int64_t columns, bool add,
                                        float *dr, int64_t column);
/* Passes an initial state's gradient (batch, units) on. */
td_status td__recurrent_gradient_state(td_tape *tape, td__node *node, const td__recurrent *r,
                                       int32_t input, const float *gradient);

/* Examples that are worth a thread. */
int64_t td__recurrent_worth(const td__recurrent *r);

#endif
