/* The text for a name of Keras's that is another one here. */
#include "nn/keras_words.h"

#include "base/memory.h"

#include <string.h>

/* of: an option of those for which ours is true; of several rows the first counts. */
static const struct {
    const char *theirs, *has, *ours;
} options[] = {
    {"trainable", "frozen", "it is the opposite of 'frozen'"},
    {"kernel_regularizer", "kernel_l2", "it is a number for 'kernel_l1', 'kernel_l2' or both"},
    {"depthwise_regularizer", "kernel_l2", "it is a number for 'kernel_l1', 'kernel_l2' or both"},
    {"bias_regularizer", "bias_l2", "it is a number for 'bias_l1', 'bias_l2' or both"},
    {"padding", "front", "it is 'front', 'back', 'top', 'bottom', 'left' and 'right'"},
    {"padding", "top", "it is 'top', 'bottom', 'left' and 'right'"},
    {"padding", "before", "it is 'before' and 'after'"},
    {"cropping", "front", "it is 'front', 'back', 'top', 'bottom', 'left' and 'right'"},
    {"cropping", "top", "it is 'top', 'bottom', 'left' and 'right'"},
    {"cropping", "before", "it is 'before' and 'after'"},
    {"use_causal_mask", "causal", "it is 'causal'"},
    {"input_shape", "frozen", "it is the data's, or 'input' of the data"},
    {"batch_input_shape", "frozen", "it is the data's, or 'input' of the data"},
    {"data_format", "frozen", "channels are last; 'layout' of the data says where they are there"},
    {"seed", "frozen", "one 'seed' of the experiment is that of all layers"},
    {"dtype", "frozen", "all numbers are float32"},
    {"clipnorm", "learning_rate", "'clip_norm' of 'train' is of all gradients together"},
    {"global_clipnorm", "learning_rate", "it is 'clip_norm' of 'train'"},
    {"clipvalue", "learning_rate", "it is 'clip_value' of 'train'"},
};

const char *td__keras_option_hint(const char *word, const td__field *fields, size_t count) {
    for (size_t i = 0; i < TD__COUNT(options); i++) {
        if (!strcmp(word, options[i].theirs) && td__fields_have(fields, count, options[i].has)) {
            return options[i].ours;
        }
    }
    return NULL;
}
