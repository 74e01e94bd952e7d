/* Ensembles of decision trees (ai.onnx.ml).
 *
 * Nodes are read into one array with children as places in it. A file may say anything of them: a
 * child that is not there is refused, and a walk that has taken more steps than there are nodes is in
 * a cycle and refused too.
 */
#include "operators/ml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum tree_mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF } tree_mode;

typedef struct tree_node {
    int64_t tree, id;
    int64_t feature;
    double value;
    tree_mode mode;
    bool missing_is_true;
    int64_t yes, no;       /* places; of a leaf -1 */
    int64_t first, leaves; /* of a leaf: its part of the weights */
    bool child;
} tree_node;

typedef struct leaf_weight {
    int64_t place, target; /* of the leaf's node */
    double weight;
} leaf_weight;

typedef struct forest {
    tree_node *nodes;
    int64_t count;
    leaf_weight *weights; /* sorted by leaf */
    int64_t weight_count;
    int64_t *roots, root_count;
    int64_t targets;
    const td_tensor *members; /* sets of MEMBER nodes, each ended by NaN; NULL: none */
} forest;

static int by_place(const void *left, const void *right) {
    const tree_node *a = left, *b = right;
    int order = (a->tree > b->tree) - (a->tree < b->tree);
    return order ? order : (a->id > b->id) - (a->id < b->id);
}

static int by_leaf(const void *left, const void *right) {
    const leaf_weight *a = left, *b = right;
    return (a->place > b->place) - (a->place < b->place);
}

static int64_t find_node(const forest *f, int64_t tree, int64_t id) {
    tree_node wanted = {.tree = tree, .id = id};
    const tree_node *found =
        bsearch(&wanted, f->nodes, (size_t)f->count, sizeof *f->nodes, by_place);
    return found ? found - f->nodes : -1;
}

/* --- reading ------------------------------------------------------------------------------ */

static bool misfit(td__graph_call *call, const char *what) {
    return td__graph_fail(call, TD_FORMAT, "its %s do not fit its nodes", what);
}

static bool mode_of(td__graph_call *call, const char *text, tree_mode *mode) {
    static const char *const names[] = {
        [LEQ] = "BRANCH_LEQ", [LT] = "BRANCH_LT",   [GTE] = "BRANCH_GTE", [GT] = "BRANCH_GT",
        [EQ] = "BRANCH_EQ",   [NEQ] = "BRANCH_NEQ", [LEAF] = "LEAF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i] && !strcmp(names[i], text)) {
            *mode = (tree_mode)i;
            return true;
        }
    }
    return td__graph_fail(call, TD_UNSUPPORTED, "nodes of mode '%.40s'", text);
}

/* The attributes nodes_…, of opset 1 to 3. */
static bool read_nodes(td__graph_call *call, forest *f) {
    const int64_t *trees, *ids, *features, *yes, *no, *missing;
    const td__graph_attribute *modes = td__graph_attribute_of(call->node, "nodes_modes");
    size_t count = td__graph_ints(call->node, "nodes_nodeids", &ids);
    size_t tracked = td__graph_ints(call->node, "nodes_missing_value_tracks_true", &missing);
    td__graph_reals values = td__graph_reals_of(call->node, "nodes_values");
    if (td__graph_ints(call->node, "nodes_treeids", &trees) != count ||
        td__graph_ints(call->node, "nodes_featureids", &features) != count ||
        td__graph_ints(call->node, "nodes_truenodeids", &yes) != count ||
        td__graph_ints(call->node, "nodes_falsenodeids", &no) != count || values.count != count ||
        !modes || !modes->texts || modes->count != count || (tracked && tracked != count)) {
        return misfit(call, "attributes");
    }
    f->nodes = td__scratch(call->tape, (count + 1) * sizeof *f->nodes);
    f->count = (int64_t)count;
    for (size_t i = 0; f->nodes && i < count; i++) {
        tree_node *node = &f->nodes[i];
        *node = (tree_node){.tree = trees[i],
                            .id = ids[i],
                            .feature = features[i],
                            .value = td__graph_reals_at(&values, i),
                            .missing_is_true = tracked && missing[i],
                            .yes = yes[i],
                            .no = no[i]};
        if (!mode_of(call, modes->texts[i], &node->mode)) {
            return false;
        }
    }
    return f->nodes != NULL;
}

/* Children's ids become places; nodes that are no children are roots. */
static bool link_nodes(td__graph_call *call, forest *f) {
    qsort(f->nodes, (size_t)f->count, sizeof *f->nodes, by_place);
    for (int64_t i = 0; i < f->count; i++) {
        tree_node *node = &f->nodes[i];
        if (i > 0 && by_place(node - 1, node) == 0) {
            return td__graph_fail(call, TD_FORMAT, "node %lld of tree %lld is there twice",
                                  (long long)node->id, (long long)node->tree);
        }
        if (node->mode == LEAF) {
            node->yes = node->no = -1;
            continue;
        }
        node->yes = find_node(f, node->tree, node->yes);
        node->no = find_node(f, node->tree, node->no);
        if (node->yes < 0 || node->no < 0) {
            return td__graph_fail(call, TD_FORMAT, "node %lld of tree %lld has no such child",
                                  (long long)node->id, (long long)node->tree);
        }
        f->nodes[node->yes].child = f->nodes[node->no].child = true;
    }
    f->roots = td__scratch(call->tape, (size_t)(f->count + 1) * sizeof *f->roots);
    for (int64_t i = 0; f->roots && i < f->count; i++) {
        if (!f->nodes[i].child) {
            f->roots[f->root_count++] = i;
        }
    }
    return f->roots != NULL;
}

/* Weights lie together by leaf. */
static bool link_weights(td__graph_call *call, forest *f) {
    qsort(f->weights, (size_t)f->weight_count, sizeof *f->weights, by_leaf);
    for (int64_t i = 0; i < f->weight_count; i++) {
        const leaf_weight *w = &f->weights[i];
        if (w->place < 0 || w->target < 0 || w->target >= f->targets) {
            return misfit(call, "weights");
        }
        tree_node *leaf = &f->nodes[w->place];
        leaf->first = leaf->leaves++ ? leaf->first : i;
    }
    return true;
}

/* The attributes class_… or target_…, of opset 1 to 3. */
static bool read_weights(td__graph_call *call, forest *f, bool classes) {
    const int64_t *trees, *nodes, *targets;
    size_t count = td__graph_ints(call->node, classes ? "class_nodeids" : "target_nodeids", &nodes);
    td__graph_reals weights =
        td__graph_reals_of(call->node, classes ? "class_weights" : "target_weights");
    if (td__graph_ints(call->node, classes ? "class_treeids" : "target_treeids", &trees) != count ||
        td__graph_ints(call->node, classes ? "class_ids" : "target_ids", &targets) != count ||
        weights.count != count) {
        return misfit(call, "weights");
    }
    f->weights = td__scratch(call->tape, (count + 1) * sizeof *f->weights);
    f->weight_count = (int64_t)count;
    for (size_t i = 0; f->weights && i < count; i++) {
        f->weights[i] = (leaf_weight){find_node(f, trees[i], nodes[i]), targets[i],
                                      td__graph_reals_at(&weights, i)};
    }
    return f->weights && link_weights(call, f);
}

/* --- walking ------------------------------------------------------------------------------ */

static bool is_member(const forest *f, const tree_node *node, double value) {
    bool member = false;
    for (int64_t i = node->first; f->members && i < f->members->count; i++) {
        double each = td__graph_real(f->members, i);
        if (isnan(each)) {
            break;
        }
        member = member || each == value;
    }
    return member;
}

static bool goes_yes(const forest *f, const tree_node *node, double x) {
    if (isnan(x) && node->missing_is_true) {
        return true;
    }
    switch (node->mode) {
    case LEQ:
        return x <= node->value;
    case LT:
        return x < node->value;
    case GTE:
        return x >= node->value;
    case GT:
        return x > node->value;
    case EQ:
        return x == node->value;
    case NEQ:
        return x != node->value;
    default:
        return is_member(f, node, x);
    }
}

/* The leaf that a row falls into; -1 for a walk without an end or a feature that is not there. */
static int64_t leaf_of(const forest *f, int64_t root, const td_tensor *x, int64_t row,
                       int64_t width) {
    int64_t at = root;
    for (int64_t steps = 0; steps <= f->count; steps++) {
        const tree_node *node = &f->nodes[at];
        if (node->mode == LEAF) {
            return at;
        }
        if (node->feature < 0 || node->feature >= width) {
            return -1;
        }
        at = goes_yes(f, node, td__graph_real(x, row * width + node->feature)) ? node->yes
                                                                               : node->no;
    }
    return -1;
}

typedef enum aggregate { SUM, AVERAGE, MINIMUM, MAXIMUM } aggregate;

/* The trees' scores of one row, together; touched says which targets any leaf has. */
static bool score_row(td__graph_call *call, const forest *f, const td_tensor *x, int64_t row,
                      int64_t width, aggregate how, double *scores, bool *touched) {
    memset(scores, 0, (size_t)f->targets * sizeof *scores);
    memset(touched, 0, (size_t)f->targets * sizeof *touched);
    for (int64_t r = 0; r < f->root_count; r++) {
        int64_t leaf = leaf_of(f, f->roots[r], x, row, width);
        if (leaf < 0) {
            return td__graph_fail(call, TD_FORMAT,
                                  "a tree has a cycle, or asks for a feature that "
                                  "its input has not");
        }
        const tree_node *node = &f->nodes[leaf];
        for (int64_t k = node->first; k < node->first + node->leaves; k++) {
            const leaf_weight *w = &f->weights[k];
            double *score = &scores[w->target];
            bool first = !touched[w->target];
            *score = how <= AVERAGE   ? *score + w->weight
                     : first          ? w->weight
                     : how == MINIMUM ? fmin(*score, w->weight)
                                      : fmax(*score, w->weight);
            touched[w->target] = true;
        }
    }
    for (int64_t k = 0; how == AVERAGE && k < f->targets; k++) {
        scores[k] /= (double)f->root_count;
    }
    return true;
}

static void add_base(const td__graph_node *node, int64_t targets, double *scores) {
    td__graph_reals base = td__graph_reals_of(node, "base_values");
    for (int64_t k = 0; base.count == (size_t)targets && k < targets; k++) {
        scores[k] += td__graph_reals_at(&base, (size_t)k);
    }
}

/* --- operators ---------------------------------------------------------------------------- */

/* What both kinds need for a row. */
typedef struct scoring {
    double *scores;
    bool *touched;
} scoring;

static bool scoring_of(td__graph_call *call, int64_t targets, scoring *s) {
    if (targets < 1 || targets > 1 << 20) {
        return td__graph_fail(call, TD_RANGE, "%lld targets", (long long)targets);
    }
    s->scores = td__scratch(call->tape, (size_t)(targets + 1) * sizeof *s->scores);
    s->touched = td__scratch(call->tape, (size_t)targets * sizeof *s->touched);
    return s->scores && s->touched;
}

/* Scores of every row, transformed, as floats. */
static bool regress(td__graph_call *call, const forest *f, aggregate how) {
    int64_t rows, width;
    const td_tensor *x = td__graph_features(call, &rows, &width);
    scoring s = {0};
    if (!x || !scoring_of(call, f->targets, &s)) {
        return false;
    }
    /* The older operators put out floats, whatever goes in. */
    bool newer = !strcmp(call->node->op_type, "TreeEnsemble");
    td__graph_type type = newer ? td__graph_input(call, 0)->type : TD__GRAPH_FLOAT;
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(rows, f->targets));
    for (int64_t i = 0; y && i < rows; i++) {
        if (!score_row(call, f, x, i, width, how, s.scores, s.touched)) {
            return false;
        }
        add_base(call->node, f->targets, s.scores);
        td__graph_post_transform(call->node, s.scores, f->targets);
        for (int64_t k = 0; k < f->targets; k++) {
            td__graph_put_real(y, i * f->targets + k, s.scores[k]);
        }
    }
    return td__graph_output(call, 0, type, y);
}

static bool tree_regressor(td__graph_call *call) {
    const char *text = td__graph_text(call->node, "aggregate_function", "SUM");
    aggregate how = !strcmp(text, "AVERAGE") ? AVERAGE
                    : !strcmp(text, "MIN")   ? MINIMUM
                    : !strcmp(text, "MAX")   ? MAXIMUM
                                             : SUM;
    forest f = {.targets = td__graph_int(call->node, "n_targets", 1)};
    return read_nodes(call, &f) && link_nodes(call, &f) && read_weights(call, &f, false) &&
           regress(call, &f, how);
}

/* Whether only one of two classes has weights: the other one's score follows from it. */
static bool has_one_class(const forest *f, const td__graph_labels *labels, bool *all_positive) {
    bool one = labels->count == 2;
    *all_positive = true;
    for (int64_t i = 0; i < f->weight_count; i++) {
        one = one && f->weights[i].target == f->weights[0].target;
        *all_positive = *all_positive && f->weights[i].weight >= 0;
    }
    return one;
}

/* Of two classes with one score: probabilities when no weight is negative, else a margin. */
static int64_t score_pair(const td__graph_node *node, double score, bool all_positive,
                          double *scores) {
    bool logistic = !strcmp(td__graph_text(node, "post_transform", "NONE"), "LOGISTIC");
    int64_t best = score > (all_positive ? 0.5 : 0);
    scores[0] = all_positive && !logistic ? 1 - score : -score;
    scores[1] = score;
    if (!all_positive || logistic) {
        td__graph_post_transform(node, scores, 2);
    }
    return best;
}

static bool tree_classifier(td__graph_call *call) {
    td__graph_labels labels = td__graph_labels_of(call->node, "classlabels");
    forest f = {.targets = (int64_t)labels.count};
    int64_t rows, width;
    const td_tensor *x = td__graph_features(call, &rows, &width);
    scoring s = {0};
    bool all_positive;
    if (!x || !read_nodes(call, &f) || !link_nodes(call, &f) || !read_weights(call, &f, true) ||
        !scoring_of(call, f.targets, &s)) {
        return false;
    }
    bool one = has_one_class(&f, &labels, &all_positive);
    int64_t only = one && f.weight_count ? f.weights[0].target : 0;
    td__graph_reals base = td__graph_reals_of(call->node, "base_values");
    td_tensor *y = td__output(call->tape, TD_FLOAT32, &TD_SHAPE(rows, f.targets));
    int64_t *best = td__scratch(call->tape, (size_t)(rows + 1) * sizeof *best);
    for (int64_t i = 0; y && best && i < rows; i++) {
        if (!score_row(call, &f, x, i, width, SUM, s.scores, s.touched)) {
            return false;
        }
        if (one) {
            double score =
                s.scores[only] + (base.count ? td__graph_reals_at(&base, base.count - 1) : 0);
            best[i] = score_pair(call->node, score, all_positive, s.scores);
        } else {
            add_base(call->node, f.targets, s.scores);
            best[i] = 0;
            for (int64_t k = 0; k < f.targets; k++) {
                best[i] = s.scores[k] > s.scores[best[i]] ? k : best[i];
            }
            td__graph_post_transform(call->node, s.scores, f.targets);
        }
        for (int64_t k = 0; k < f.targets; k++) {
            td__floats(y)[i * f.targets + k] = (float)s.scores[k];
        }
    }
    return y && best && td__graph_output_labels(call, &labels, rows, best) &&
           td__graph_output(call, 1, TD__GRAPH_FLOAT, y);
}

/* --- opset 5 ------------------------------------------------------------------------------ */

static const td_tensor *tensor_of(td__graph_call *call, const char *name) {
    const td__graph_attribute *found = td__graph_attribute_of(call->node, name);
    return found && found->constant.tensor && found->constant.type != TD__GRAPH_STRING
               ? found->constant.tensor
               : NULL;
}

/* Inner nodes first, then leaves; all in one tree, whose roots are given. */
static bool read_ensemble(td__graph_call *call, forest *f) {
    const int64_t *features, *yes, *no, *yes_leaf, *no_leaf, *missing, *roots, *targets;
    size_t count = td__graph_ints(call->node, "nodes_featureids", &features);
    size_t tracked = td__graph_ints(call->node, "nodes_missing_value_tracks_true", &missing);
    size_t leaves = td__graph_ints(call->node, "leaf_targetids", &targets);
    size_t starts = td__graph_ints(call->node, "tree_roots", &roots);
    const td_tensor *splits = tensor_of(call, "nodes_splits"),
                    *modes = tensor_of(call, "nodes_modes");
    const td_tensor *weights = tensor_of(call, "leaf_weights");
    if (td__graph_ints(call->node, "nodes_truenodeids", &yes) != count ||
        td__graph_ints(call->node, "nodes_falsenodeids", &no) != count ||
        td__graph_ints(call->node, "nodes_trueleafs", &yes_leaf) != count ||
        td__graph_ints(call->node, "nodes_falseleafs", &no_leaf) != count || !splits || !modes ||
        !weights || (size_t)splits->count != count || (size_t)modes->count != count ||
        (size_t)weights->count != leaves || (tracked && tracked != count) || starts == 0) {
        return misfit(call, "attributes");
    }
    f->count = (int64_t)(count + leaves);
    f->nodes = td__scratch(call->tape, (size_t)(f->count + 1) * sizeof *f->nodes);
    f->weights = td__scratch(call->tape, (leaves + 1) * sizeof *f->weights);
    f->roots = td__scratch(call->tape, starts * sizeof *f->roots);
    f->members = tensor_of(call, "membership_values");
    if (!f->nodes || !f->weights || !f->roots) {
        return false;
    }
    int64_t member = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t mode = td__graph_integer(modes, (int64_t)i);
        int64_t a = yes[i] + (yes_leaf[i] ? (int64_t)count : 0);
        int64_t b = no[i] + (no_leaf[i] ? (int64_t)count : 0);
        if (mode < 0 || mode > MEMBER || yes[i] < 0 || no[i] < 0 || a >= f->count ||
            b >= f->count) {
            return misfit(call, "children");
        }
        f->nodes[i] = (tree_node){.feature = features[i],
                                  .value = td__graph_real(splits, (int64_t)i),
                                  .mode = (tree_mode)mode,
                                  .missing_is_true = tracked && missing[i],
                                  .yes = a,
                                  .no = b,
                                  .first = member};
        while (mode == MEMBER && f->members && member < f->members->count &&
               !isnan(td__graph_real(f->members, member++))) {
        }
    }
    for (size_t i = 0; i < leaves; i++) {
        f->nodes[count + i] = (tree_node){.mode = LEAF, .first = (int64_t)i, .leaves = 1};
        f->weights[i] =
            (leaf_weight){(int64_t)(count + i), targets[i], td__graph_real(weights, (int64_t)i)};
        if (targets[i] < 0 || targets[i] >= f->targets) {
            return misfit(call, "targets");
        }
    }
    for (size_t i = 0; i < starts; i++) {
        if (roots[i] < 0 || roots[i] >= f->count) {
            return misfit(call, "roots");
        }
        f->roots[f->root_count++] = roots[i];
    }
    return true;
}

static bool tree_ensemble(td__graph_call *call) {
    forest f = {.targets = td__graph_int(call->node, "n_targets", 1)};
    int64_t how = td__graph_int(call->node, "aggregate_function", 1);
    static const aggregate order[] = {AVERAGE, SUM, MINIMUM, MAXIMUM};
    if (how < 0 || how > 3 || td__graph_int(call->node, "post_transform", 0) != 0) {
        return td__graph_fail(call, TD_UNSUPPORTED, "scores that are transformed");
    }
    return read_ensemble(call, &f) && regress(call, &f, order[how]);
}

const td__graph_operator td__graph_ml_trees[] = {
    {"TreeEnsemble", tree_ensemble, 1, 1, 1, 0, 0, NULL},
    {"TreeEnsembleClassifier", tree_classifier, 1, 1, 2, 0, 0, NULL},
    {"TreeEnsembleRegressor", tree_regressor, 1, 1, 1, 0, 0, NULL},
    {0},
};
