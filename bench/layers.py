"""Layers by themselves, forward and backward, beside PyTorch and TensorFlow in turns: ./dev bench layers [--only NAME,…]

One typical size of each kind. The faster peer is named; the ratio is Tapedeck's median over that peer's: above 1 is
slower. PyTorch runs eagerly with the channels last in memory, TensorFlow as a tf.function of Keras's layer.
"""
import argparse
import os
import sys

from tools.rounds import Worker, interleave

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.join(HERE, os.pardir, "build", "bench", "layers")
PYTHON = os.environ.get("TD_PEERS", sys.executable)
IMAGE, STEPS, VOLUME, ROWS = "32,32,32,64", "32,64,128", "4,16,16,16,32", "256,1024"

# name: (batch's shape, ours, PyTorch's or None, Keras's)
CASES = {
    "dense": (ROWS, "dense units=1024", "nn.Linear(1024, 1024)", "L.Dense(1024)"),
    "conv1d": (STEPS, "conv1d filters=128 kernel=3", "nn.Conv1d(128, 128, 3)", "L.Conv1D(128, 3)"),
    "conv2d": (IMAGE, "conv2d filters=64 kernel=3 padding=same", "nn.Conv2d(64, 64, 3, padding=1)",
               "L.Conv2D(64, 3, padding='same')"),
    "conv3d": (VOLUME, "conv3d filters=32 kernel=3 padding=same", "nn.Conv3d(32, 32, 3, padding=1)",
               "L.Conv3D(32, 3, padding='same')"),
    "conv2d_transpose": ("32,16,16,64", "conv2d_transpose filters=32 kernel=2 stride=2",
                         "nn.ConvTranspose2d(64, 32, 2, 2)", "L.Conv2DTranspose(32, 2, 2)"),
    "conv3d_transpose": ("4,8,8,8,32", "conv3d_transpose filters=16 kernel=2 stride=2",
                         "nn.ConvTranspose3d(32, 16, 2, 2)", "L.Conv3DTranspose(16, 2, 2)"),
    "depthwise_conv2d": (IMAGE, "depthwise_conv2d kernel=3 padding=same", "nn.Conv2d(64, 64, 3, padding=1, groups=64)",
                         "L.DepthwiseConv2D(3, padding='same')"),
    "max_pool2d": (IMAGE, "max_pool2d", "nn.MaxPool2d(2)", "L.MaxPooling2D()"),
    "average_pool2d": (IMAGE, "average_pool2d", "nn.AvgPool2d(2)", "L.AveragePooling2D()"),
    "max_pool3d": (VOLUME, "max_pool3d", "nn.MaxPool3d(2)", "L.MaxPooling3D()"),
    "global_average_pool2d": (IMAGE, "global_average_pool2d", "nn.AdaptiveAvgPool2d(1)", "L.GlobalAveragePooling2D()"),
    "up_sampling2d": ("32,16,16,64", "up_sampling2d", "nn.Upsample(scale_factor=2)", "L.UpSampling2D()"),
    "zero_padding2d": (IMAGE, "zero_padding2d top=1 bottom=1 left=1 right=1", "nn.ZeroPad2d(1)", "L.ZeroPadding2D()"),
    "batch_normalization": (IMAGE, "batch_normalization", "nn.BatchNorm2d(64)", "L.BatchNormalization()"),
    "layer_normalization": (STEPS, "layer_normalization", "nn.LayerNorm(128)", "L.LayerNormalization()"),
    "group_normalization": (IMAGE, "group_normalization groups=8", "nn.GroupNorm(8, 64)", "L.GroupNormalization(8)"),
    "rms_normalization": (STEPS, "rms_normalization", "nn.RMSNorm(128)", "L.RMSNormalization()"),
    "unit_normalization": (STEPS, "unit_normalization", "lambda x: F.normalize(x, dim=-1)", "L.UnitNormalization()"),
    "dropout": (ROWS, "dropout rate=0.5", "nn.Dropout(0.5)", "L.Dropout(0.5)"),
    "spatial_dropout2d": (IMAGE, "spatial_dropout2d rate=0.5", "nn.Dropout2d(0.5)", "L.SpatialDropout2D(0.5)"),
    "gaussian_noise": (ROWS, "gaussian_noise stddev=0.1", None, "L.GaussianNoise(0.1)"),
    "relu": (IMAGE, "activation function=relu", "nn.ReLU()", "L.ReLU()"),
    "gelu": (IMAGE, "activation function=gelu", "nn.GELU()", "L.Activation('gelu')"),
    "softmax": (STEPS, "activation function=softmax", "nn.Softmax(-1)", "L.Softmax()"),
    "prelu": (IMAGE, "prelu shared_axes=1,2", "nn.PReLU(64)", "L.PReLU(shared_axes=[1, 2])"),
    "permute": (STEPS, "permute dims=2,1", "lambda x: x.permute(0, 2, 1).contiguous()", "L.Permute((2, 1))"),
    "embedding": ("64,128", "embedding vocabulary=1000 width=64", "nn.Embedding(1000, 64)", "L.Embedding(1000, 64)"),
    "lstm": (STEPS, "lstm units=128 return_sequences=true", "nn.LSTM(128, 128, batch_first=True)",
             "L.LSTM(128, return_sequences=True)"),
    "gru": (STEPS, "gru units=128 return_sequences=true", "nn.GRU(128, 128, batch_first=True)",
            "L.GRU(128, return_sequences=True)"),
    "bidirectional": (STEPS, "bidirectional layer=lstm units=64 return_sequences=true",
                      "nn.LSTM(128, 64, batch_first=True, bidirectional=True)",
                      "L.Bidirectional(L.LSTM(64, return_sequences=True))"),
    "multi_head_attention": (STEPS, "multi_head_attention heads=4 key_dim=32", None,
                             "(lambda layer: type('Self', (L.Wrapper,), {'call': lambda self, x, training=None: "
                             "self.layer(x, x)})(layer))(L.MultiHeadAttention(4, 32))"),
}


def peers_of(shape, torch, keras, threads):
    found = []
    for name, expression in (("torch", torch), ("tensorflow", keras)):
        if not expression:
            continue
        command = [PYTHON, "-W", "ignore", os.path.join(HERE, "peers", "layers.py"), name, str(threads), shape, expression]
        try:
            found.append((name, Worker(command, quiet=True)))
        except RuntimeError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", help="names, with commas")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--milliseconds", type=float, default=100, help="of a round")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else list(CASES)
    missing = [name for name in wanted if name not in CASES]
    if missing:
        parser.error(f"there is no {', '.join(missing)}; there are {', '.join(CASES)}")
    print(f"{'layer':24} {'tapedeck ms':>12} {'torch ms':>10} {'tensorflow ms':>14} {'ratio':>6}  threads {arguments.threads}")
    for name in wanted:
        shape, ours, torch, keras = CASES[name]
        workers = [("tapedeck", Worker([OURS, str(arguments.threads), shape, *ours.split()]))]
        workers += peers_of(shape, torch, keras, arguments.threads)
        times = interleave([worker for _, worker in workers], arguments.rounds, arguments.milliseconds)
        medians = {who: time.median for (who, _), time in zip(workers, times)}
        for _, worker in workers:
            worker.close()
        best = min((value for who, value in medians.items() if who != "tapedeck"), default=None)
        shown = [f"{medians[who]:.3f}" if who in medians else "-" for who in ("tapedeck", "torch", "tensorflow")]
        ratio = f"{medians['tapedeck'] / best:.2f}" if best else "-"
        print(f"{name:24} {shown[0]:>12} {shown[1]:>10} {shown[2]:>14} {ratio:>6}", flush=True)


if __name__ == "__main__":
    main()
