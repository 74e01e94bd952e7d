"""One layer's forward and backward pass in PyTorch or TensorFlow, for the benchmark of layers.

    layers.py torch|tensorflow THREADS BATCH,DIMENSION,… EXPRESSION

EXPRESSION makes the layer of nn and F (PyTorch; images have their channels in front, in memory last) or of L
(Keras's layers, in one tf.function). A worker, as engine.py.
"""
import os
import sys

from lines import answer

FRAMEWORK, THREADS, SHAPE, EXPRESSION = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
SHAPE = [int(size) for size in SHAPE.split(",")]
INDICES = "Embedding" in EXPRESSION


def with_torch():
    import torch
    import torch.nn.functional as F
    from torch import nn
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    layer = eval(EXPRESSION, {"nn": nn, "F": F, "torch": torch})
    x = torch.randint(0, 1000, SHAPE) if INDICES else torch.randn(SHAPE)
    spatial = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.dim() in spatial and not INDICES:
        x = x.movedim(-1, 1).contiguous(memory_format=spatial[x.dim()])
        if isinstance(layer, nn.Module):
            layer = layer.to(memory_format=spatial[x.dim()])
    elif "1d(" in EXPRESSION and not INDICES:
        x = x.movedim(-1, 1).contiguous()
    parameters = list(layer.parameters()) if isinstance(layer, nn.Module) else []
    wanted = parameters + ([] if INDICES else [x.requires_grad_(True)])

    def step():
        y = layer(x)
        y = y[0] if isinstance(y, tuple) else y
        torch.autograd.grad(y.sum(), wanted)
    return step


def with_tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf
    from keras import layers as L
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    layer = eval(EXPRESSION, {"L": L, "tf": tf})
    x = (tf.random.uniform(SHAPE, 0, 1000, tf.int32) if INDICES else tf.random.normal(SHAPE))
    layer(x)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            if not INDICES:
                tape.watch(x)
            total = tf.reduce_sum(layer(x, training=True))
        weights = [weight.value for weight in layer.trainable_weights]
        return tape.gradient(total, weights + ([] if INDICES else [x]))

    return lambda: [tf.convert_to_tensor(value) for value in step()][0].numpy()


answer((with_torch if FRAMEWORK == "torch" else with_tensorflow)())
