/* What there is, from the tables that everything else works by. */
#include "nn/layer.h"
#include "nn/metric.h"
#include "nn/schedule.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* What others call it, where that is not in our own tables. */
typedef struct foreign {
    const char *name, *keras, *torch;
} foreign;

static const foreign losses[] = {
    {"mse", "MeanSquaredError", "nn.MSELoss"},
    {"mae", "MeanAbsoluteError", "nn.L1Loss"},
    {"huber", "Huber", "nn.HuberLoss"},
    {"mape", "MeanAbsolutePercentageError", NULL},
    {"msle", "MeanSquaredLogarithmicError", NULL},
    {"binary_crossentropy", "BinaryCrossentropy", "nn.BCELoss, nn.BCEWithLogitsLoss"},
    {"categorical_crossentropy", "CategoricalCrossentropy", "nn.CrossEntropyLoss"},
    {"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", "nn.CrossEntropyLoss"},
    {"binary_focal_crossentropy", "BinaryFocalCrossentropy", "torchvision.ops.sigmoid_focal_loss"},
    {"categorical_focal_crossentropy", "CategoricalFocalCrossentropy", NULL},
    {"kl_divergence", "KLDivergence", "nn.KLDivLoss"},
    {"hinge", "Hinge", NULL},
    {"squared_hinge", "SquaredHinge", NULL},
    {"categorical_hinge", "CategoricalHinge", "nn.MultiMarginLoss"},
    {"log_cosh", "LogCosh", NULL},
    {"poisson", "Poisson", "nn.PoissonNLLLoss(log_input=False)"},
    {"cosine_similarity", "CosineSimilarity", "nn.CosineEmbeddingLoss"},
    {NULL, NULL, NULL}};

static const foreign metrics[] = {
    {"accuracy", "Accuracy", "torchmetrics.Accuracy"},
    {"sparse_categorical_accuracy", "SparseCategoricalAccuracy", NULL},
    {"categorical_accuracy", "CategoricalAccuracy", NULL},
    {"binary_accuracy", "BinaryAccuracy", NULL},
    {"top_k_accuracy", "TopKCategoricalAccuracy", "torchmetrics.Accuracy(top_k)"},
    {"mae", "MeanAbsoluteError", "torchmetrics.MeanAbsoluteError"},
    {"mse", "MeanSquaredError", "torchmetrics.MeanSquaredError"},
    {"r2", "R2Score", "torchmetrics.R2Score"},
    {"precision", "Precision", "torchmetrics.Precision"},
    {"recall", "Recall", "torchmetrics.Recall"},
    {"f1", "F1Score", "torchmetrics.F1Score"},
    {"auc", "AUC", "torchmetrics.AUROC"},
    {"confusion_matrix", NULL, "torchmetrics.ConfusionMatrix"},
    {NULL, NULL, NULL}};

static const foreign optimizers[] = {{"sgd", "SGD", "optim.SGD"},
                                     {"adam", "Adam", "optim.Adam"},
                                     {"adamw", "AdamW", "optim.AdamW"},
                                     {"rmsprop", "RMSprop", "optim.RMSprop"},
                                     {"adagrad", "Adagrad", "optim.Adagrad"},
                                     {"adadelta", "Adadelta", "optim.Adadelta"},
                                     {"adamax", "Adamax", "optim.Adamax"},
                                     {"nadam", "Nadam", "optim.NAdam"},
                                     {"lion", "Lion", NULL},
                                     {NULL, NULL, NULL}};

static const foreign schedules[] = {
    {"constant", NULL, "ConstantLR"},
    {"cosine", "CosineDecay", "CosineAnnealingLR"},
    {"exponential", "ExponentialDecay", "ExponentialLR"},
    {"step", NULL, "StepLR"},
    {"linear", NULL, "LinearLR"},
    {"polynomial", "PolynomialDecay", "PolynomialLR"},
    {"piecewise", "PiecewiseConstantDecay", "MultiStepLR"},
    {"inverse_time", "InverseTimeDecay", NULL},
    {"cosine_restarts", "CosineDecayRestarts", "CosineAnnealingWarmRestarts"},
    {NULL, NULL, NULL}};

static const foreign initializers[] = {{"glorot_uniform", "GlorotUniform", "xavier_uniform_"},
                                       {"glorot_normal", "GlorotNormal", "xavier_normal_"},
                                       {"he_uniform", "HeUniform", "kaiming_uniform_"},
                                       {"he_normal", "HeNormal", "kaiming_normal_"},
                                       {"lecun_uniform", "LecunUniform", NULL},
                                       {"lecun_normal", "LecunNormal", NULL},
                                       {"orthogonal", "Orthogonal", "orthogonal_"},
                                       {"zeros", "Zeros", "zeros_"},
                                       {"ones", "Ones", "ones_"},
                                       {"random_uniform", "RandomUniform", "uniform_"},
                                       {"random_normal", "RandomNormal", "normal_"},
                                       {"truncated_normal", "TruncatedNormal", "trunc_normal_"},
                                       {"variance_scaling", "VarianceScaling", NULL},
                                       {"constant", "Constant", "constant_"},
                                       {"identity", "Identity", "eye_"},
                                       {NULL, NULL, NULL}};

static const foreign activations[] = {
    {"relu", "relu", "relu"},
    {"leaky_relu", "leaky_relu", "leaky_relu"},
    {"elu", "elu", "elu"},
    {"selu", "selu", "selu"},
    {"gelu", "gelu", "gelu"},
    {"gelu_tanh", "gelu(approximate=True)", "gelu(approximate='tanh')"},
    {"softplus", "softplus", "softplus"},
    {"sigmoid", "sigmoid", "sigmoid"},
    {"tanh", "tanh", "tanh"},
    {"swish", "silu", "silu"},
    {"softmax", "softmax", "softmax"},
    {"log_softmax", "log_softmax", "log_softmax"},
    {"exponential", "exponential", "torch.exp"},
    {"relu6", "relu6", "relu6"},
    {"hard_sigmoid", "hard_sigmoid", "hardsigmoid"},
    {"softsign", "softsign", "softsign"},
    {"linear", "linear", NULL},
    {"hard_silu", "hard_silu", "hardswish"},
    {"hard_tanh", "hard_tanh", "hardtanh"},
    {"hard_shrink", "hard_shrink", "hardshrink"},
    {"soft_shrink", "soft_shrink", "softshrink"},
    {"tanh_shrink", "tanh_shrink", "tanhshrink"},
    {"mish", "mish", "mish"},
    {"celu", "celu", "celu"},
    {"log_sigmoid", "log_sigmoid", "logsigmoid"},
    {"squareplus", "squareplus", NULL},
    {"sparse_plus", "sparse_plus", NULL},
    {"sparse_sigmoid", "sparse_sigmoid", NULL},
    {"hard_sigmoid_keras2", NULL, NULL},
    {NULL, NULL, NULL}};

/* --- the catalogs ------------------------------------------------------------------------- */

static const char *layer_name(size_t i) {
    return td_layer_kind_name((td_layer_kind)i);
}
static const char *loss_name(size_t i) {
    return td_loss_name((td_loss)i);
}
static const char *metric_name(size_t i) {
    return td_metric_kind_name((td_metric_kind)i);
}
static const char *optimizer_name(size_t i) {
    return td_optimizer_kind_name((td_optimizer_kind)i);
}
static const char *schedule_name(size_t i) {
    return td_schedule_kind_name((td_schedule_kind)i);
}
static const char *initializer_name(size_t i) {
    return td_initializer_kind_name((td_initializer_kind)(i + 1)); /* 0 is the layer's own */
}
static const char *activation_name(size_t i) {
    return td__activation_words.words[i];
}

/* The field of an option; NULL when there is none. Of metrics and layers the name comes first. */
static const td__field *layer_field(size_t i, size_t k) {
    const td__layer_kind *kind = td__layer_kind_of((td_layer_kind)i);
    return k < kind->field_count ? &kind->fields[k] : NULL;
}
static const td__field *loss_field(size_t i, size_t k) {
    const td__field *fields[TD__LOSS_MAX_FIELDS];
    return k < td__loss_fields((td_loss)i, fields) ? fields[k] : NULL;
}
#define FIELD_OF(what, type, shift)                                                                \
    static const td__field *what##_field(size_t i, size_t k) {                                     \
        size_t count;                                                                              \
        const td__field *fields = td__##what##_fields((type)(i + (shift)), &count);                \
        return k < count ? &fields[k] : NULL;                                                      \
    }
FIELD_OF(metric, td_metric_kind, 0)
FIELD_OF(optimizer, td_optimizer_kind, 0)
FIELD_OF(schedule, td_schedule_kind, 0)
FIELD_OF(initializer, td_initializer_kind, 1)
static const td__field *no_field(size_t i, size_t k) {
    (void)i, (void)k;
    return NULL;
}

static const struct {
    const char *name;
    size_t size;
    const char *(*entry)(size_t i);
    const td__field *(*field)(size_t i, size_t k);
    const foreign *others;
} catalogs[TD_CATALOG_COUNT] = {
    [TD_CATALOG_LAYERS] = {"layers", TD_LAYER_KIND_COUNT, layer_name, layer_field, NULL},
    [TD_CATALOG_LOSSES] = {"losses", TD_LOSS_COUNT, loss_name, loss_field, losses},
    [TD_CATALOG_METRICS] = {"metrics", TD_METRIC_KIND_COUNT, metric_name, metric_field, metrics},
    [TD_CATALOG_OPTIMIZERS] = {"optimizers", TD_OPTIMIZER_KIND_COUNT, optimizer_name,
                               optimizer_field, optimizers},
    [TD_CATALOG_SCHEDULES] = {"schedules", TD_SCHEDULE_KIND_COUNT, schedule_name, schedule_field,
                              schedules},
    [TD_CATALOG_INITIALIZERS] = {"initializers", TD_INITIALIZER_COUNT - 1, initializer_name,
                                 initializer_field, initializers},
    [TD_CATALOG_ACTIVATIONS] = {"activations", TD_ACTIVATION_COUNT, activation_name, no_field,
                                activations},
};

const char *td_catalog_name(td_catalog catalog) {
    return (unsigned)catalog < TD_CATALOG_COUNT ? catalogs[catalog].name : NULL;
}

size_t td_catalog_size(td_catalog catalog) {
    return (unsigned)catalog < TD_CATALOG_COUNT ? catalogs[catalog].size : 0;
}

bool td_catalog_entry_at(td_catalog catalog, size_t index, td_catalog_entry *entry) {
    if (index >= td_catalog_size(catalog)) {
        return false;
    }
    *entry = (td_catalog_entry){.name = catalogs[catalog].entry(index)};
    for (const foreign *f = catalogs[catalog].others; f && f->name; f++) {
        if (!strcmp(f->name, entry->name)) {
            entry->keras = f->keras;
            entry->torch = f->torch;
        }
    }
    if (catalog == TD_CATALOG_LAYERS) {
        const td__layer_kind *kind = td__layer_kind_of((td_layer_kind)index);
        entry->keras =
            kind->role == TD__ROLE_CUSTOM ? NULL : td_layer_kind_keras((td_layer_kind)index);
        entry->torch = *kind->torch.name ? kind->torch.name : NULL;
    }
    while (catalogs[catalog].field(index, entry->option_count)) {
        entry->option_count++;
    }
    return true;
}

/* --- options ------------------------------------------------------------------------------ */

static const char *const types[] = {
    [TD__FIELD_INTEGER] = "whole number",
    [TD__FIELD_PAIR] = "one or two whole numbers",
    [TD__FIELD_TRIPLE] = "one or three whole numbers",
    [TD__FIELD_NUMBER] = "number",
    [TD__FIELD_SHARE] = "share",
    [TD__FIELD_BYTES] = "size",
    [TD__FIELD_BOOL] = "true or false",
    [TD__FIELD_NOT] = "true or false",
    [TD__FIELD_WORD] = "word",
    [TD__FIELD_TEXT] = "text",
    [TD__FIELD_TEXTS] = "name or names",
    [TD__FIELD_SHAPE] = "list of whole numbers",
    [TD__FIELD_NUMBERS] = "list of numbers",
    [TD__FIELD_INITIALIZER] = "initializer",
};

static void describe_default(const td__field *field, td_catalog_option *info) {
    char *text = info->by_default;
    size_t room = sizeof info->by_default;
    bool number = field->type == TD__FIELD_INTEGER || field->type == TD__FIELD_PAIR ||
                  field->type == TD__FIELD_TRIPLE || field->type == TD__FIELD_NUMBER;
    info->required = (number && field->by_default == 0 && field->minimum > 0 && !field->quiet) ||
                     (field->type == TD__FIELD_SHAPE && !field->quiet) ||
                     field->type == TD__FIELD_NUMBERS;
    if (info->required) {
        return;
    }
    if (field->no_default && field->by_default == 0) {
        (void)snprintf(text, room, "-");
    } else if (number) {
        (void)snprintf(text, room, "%.9g", field->by_default);
    } else if (field->type == TD__FIELD_BOOL || field->type == TD__FIELD_NOT) {
        (void)snprintf(text, room, "%s", field->type == TD__FIELD_NOT ? "true" : "false");
    } else if (field->type == TD__FIELD_WORD) {
        const char *word = field->words->words[(int)field->by_default];
        (void)snprintf(text, room, "%s", word ? word : "-");
    } else if (field->type == TD__FIELD_INITIALIZER) {
        (void)snprintf(text, room, "%s", td__initializer_words.words[(int)field->by_default]);
    } else {
        (void)snprintf(text, room, "-");
    }
}

bool td_catalog_option_at(td_catalog catalog, size_t index, size_t option,
                          td_catalog_option *info) {
    const td__field *field =
        index < td_catalog_size(catalog) ? catalogs[catalog].field(index, option) : NULL;
    if (!field) {
        return false;
    }
    *info =
        (td_catalog_option){.key = field->key, .other = field->alias, .type = types[field->type]};
    if (field->type == TD__FIELD_WORD) {
        info->words = field->words->words;
        info->word_count = (size_t)field->words->count;
    }
    describe_default(field, info);
    return true;
}
