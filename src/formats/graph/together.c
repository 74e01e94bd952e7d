/* Steps of a plan: what follows a product is done with it, and memory of values goes round. */
#include "graph/run.h"
#include "tape/tape.h"

static td_tensor **forms(td__graph_value *value, size_t i) {
    td_tensor **all[] = {&value->plain, &value->channels_last, &value->kernel, &value->gates};
    return all[i];
}

enum { FORMS = 4 };

static td_tensor *in_form(td__graph_value *value, bool last) {
    return last ? value->channels_last : value->plain;
}

td__ending td__graph_ending(td__graph_call *call, const td_shape *shape, bool last) {
    const td__graph_step *step = call->step;
    td__ending ending = {.activation = TD_LINEAR};
    if (!step) {
        return ending;
    }
    if (step->onto >= 0) {
        td_tensor *onto = in_form(td__graph_run_value(call->run, step->onto), last);
        /* Nobody else may see its memory change. */
        if (!onto || !onto->memory || onto->memory->references != 1 ||
            !td_shape_equal(&onto->shape, shape)) {
            return ending;
        }
        ending.onto = onto;
        call->summed = true;
    }
    ending.activation = step->activation;
    ending.alpha = step->alpha;
    call->activated = true;
    return ending;
}

td_tensor *td__graph_step_bias(td__graph_call *call, int64_t columns) {
    td_tensor *bias = call->step && call->step->bias >= 0
                          ? td__graph_run_plain(call->run, call->tape, call->step->bias)
                          : NULL;
    call->biased = bias && bias->shape.rank == 1 && bias->shape.dims[0] == columns;
    return call->biased ? bias : NULL;
}

/* In place, where the memory is its own. */
static td_tensor *activate(td_tape *tape, const td__graph_step *step, td_tensor *y) {
    if (!y->memory || y->memory->references != 1) {
        return td_activate(tape, y, step->activation, step->alpha);
    }
    td__activate_all(step->activation, td__activation_alpha(step->activation, step->alpha),
                     y->count, td__floats(y), td__floats(y));
    return y;
}

bool td__graph_end_step(td__graph_call *call, td__graph_value *value) {
    const td__graph_step *step = call->step;
    bool last = !value->plain;
    td_tensor *y = in_form(value, last);
    if (step->bias >= 0 && !call->biased) {
        y = td_add(call->tape, y, td__graph_run_plain(call->run, call->tape, step->bias));
    }
    if (y && step->onto >= 0 && !call->summed) {
        td__graph_value *onto = td__graph_run_value(call->run, step->onto);
        y = td_add(call->tape, y,
                   last ? td__graph_run_last(call->run, call->tape, step->onto)
                        : td__graph_value_plain(call, onto));
    }
    if (y && step->activation != TD_LINEAR && !call->activated) {
        y = activate(call->tape, step, y);
    }
    *value = (td__graph_value){
        .type = value->type, .plain = last ? NULL : y, .channels_last = last ? y : NULL};
    return y;
}

/* What an output passes on of an input's memory belongs to both. */
static void share(td__graph_value *from, td__graph_value *to) {
    for (size_t i = 0; i < FORMS; i++) {
        td_tensor *source = *forms(from, i);
        if (!source || !source->memory) {
            continue;
        }
        if (to->list) {
            source->memory->references++;
        }
        for (size_t k = 0; k < FORMS; k++) {
            td_tensor *view = *forms(to, k);
            if (view == source) {
                source->memory->references++; /* one tensor in two values: it stays to the end */
            } else if (view && view->data == source->data && !view->memory) {
                td__share_memory(source, view);
            }
        }
    }
}

void td__graph_release_inputs(td__graph_call *call, const td__graph_plan *plan,
                              const td__graph_step *step) {
    const td__graph_node *node = call->node;
    for (size_t o = 0; o < node->output_count && !step->inside; o++) {
        int32_t made = o == 0 ? step->output : node->outputs[o];
        for (size_t i = 0; i < node->input_count && made >= 0; i++) {
            if (node->inputs[i] >= 0) {
                share(td__graph_run_value(call->run, node->inputs[i]),
                      td__graph_run_value(call->run, made));
            }
        }
    }
    for (size_t i = 0; i < step->dead_count; i++) {
        td__graph_value *value = td__graph_run_value(call->run, plan->dead[step->dead + i]);
        for (size_t k = 0; k < FORMS; k++) {
            if (*forms(value, k)) {
                td__recycle(call->tape, *forms(value, k));
            }
        }
    }
}
