/* Several outputs, each with a loss and labels of its own: rules that take labels and loss for those of the only
 * output look at one after the other. Scores are those of the first output, so nothing is tried out: only
 * what cannot be meant is kept. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <jansson.h>
#include <string.h>

/* The last layer with weights on the way to an output; -1: none. */
static ptrdiff_t last_that_learns(const td__case *c, size_t output) {
    ptrdiff_t layer = (ptrdiff_t)td_model_output_layer(c->trainer->model, output);
    while (layer >= 0 && !c->layers.items[layer].learns) {
        const td_layer_info *info = td_model_layer(c->trainer->model, (size_t)layer);
        layer = info->input_count == 1 ? info->inputs[0] : -1;
    }
    return layer;
}

static void keep_contradictions(td__case *c, size_t before) {
    size_t kept = before;
    for (size_t i = before; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if (s->strength != TD__CONTRADICTION) {
            continue;
        }
        s->edit_count = 0;
        s->standardize_labels = false;
        s->doubtful = true;
        c->suspicions[kept++] = *s;
    }
    c->suspicion_count = kept;
}

void td__look_at_heads(td__case *c, const td__rule *rule) {
    td__train_spec *train = &c->experiment->train;
    const td__objective objective = train->objective;
    const td__layers layers = c->layers;
    const td__task task = c->facts.task;
    for (size_t i = 0; c->known && c->facts.heads && i < c->trainer->head_count; i++) {
        const td__head *head = &c->trainer->heads[i];
        ptrdiff_t last = last_that_learns(c, i);
        size_t before = c->suspicion_count;
        if (!head->label || last < 0) {
            continue;
        }
        td__labels all = c->facts.labels;
        c->facts.labels = c->facts.heads[i];
        c->facts.task = td__task_of(&c->facts.labels, &head->objective, head->kind);
        train->objective = head->objective;
        c->layers.last = last;
        c->layers.output = layers.items[last].effective;
        c->layers.output_layer = layers.items[last].activated_by;
        c->layers.units = layers.items[td_model_output_layer(c->trainer->model, i)].units;
        rule->find(c);
        keep_contradictions(c, before);
        c->facts.labels = all;
        c->facts.task = task;
        c->layers = layers;
        train->objective = objective;
    }
}

/* The facts of a loop with those of one of its outputs in the place of the only one's. */
static json_t *loop_of_head(const json_t *loop, json_t *head) {
    static const char *const facts[] = {"target",     "classes",
                                        "neighbours", "validation_neighbours",
                                        "dependence", "validation_dependence"};
    json_t *own = json_copy((json_t *)loop); /* shallow: texts stay those of the loop */
    json_object_set(own, "head", head);
    for (size_t i = 0; own && i < sizeof facts / sizeof *facts; i++) {
        json_t *fact = json_object_get(head, facts[i]);
        if (fact) {
            json_object_set(own, facts[i], fact);
        } else {
            json_object_del(own, facts[i]);
        }
    }
    return own;
}

/* What was found before, of another output of the same layer or of none. */
static void drop_repeated(td__case *c, size_t begin, size_t end) {
    size_t kept = end;
    for (size_t i = end; i < c->suspicion_count; i++) {
        bool is_new = true;
        for (size_t j = begin; j < kept && is_new; j++) {
            const char *a = c->suspicions[i].where, *b = c->suspicions[j].where;
            is_new = a && b ? strcmp(a, b) != 0 : a != b;
        }
        if (is_new) {
            c->suspicions[kept++] = c->suspicions[i];
        }
    }
    c->suspicion_count = kept;
}

/* A rule about labels looks at all outputs together: what is wrong with their order is wrong for each, and one may have labels that
 * cannot be predicted. */
void td__look_at_loop_heads(td__case *c, const td__rule *rule) {
    json_t *loop = c->loop, *heads = json_object_get(loop, "heads");
    size_t before = c->suspicion_count, measured = 0, found = 0;
    for (size_t i = 0; i < json_array_size(heads); i++) {
        json_t *own = loop_of_head(loop, json_array_get(heads, i));
        size_t count = c->suspicion_count;
        if (!own) {
            continue;
        }
        c->loop = own;
        rule->find(c);
        bool there = c->suspicion_count > count;
        drop_repeated(c, before, count);
        found += there;
        measured += td__loop_has(c, "neighbours") || td__loop_has(c, "dependence");
        c->loop = loop;
        json_decref(own);
    }
    if (rule->all_loop_heads && found < measured) {
        c->suspicion_count = before;
    }
}
