"""Other ways in which people make the mistakes of faults.py; a fault without one here is planted as there."""
import math

from .faults import FAULTS, truth

FORMS = dict(FAULTS)


def form(function):
    FORMS[function.__name__] = function
    return function


def plain(w):
    return w.optimizer == "sgd"


@form
def learning_rate_too_high(w):
    """As it is typed: 1, 10, or a number that was meant for something else."""
    size = w.rng.choice([3, 10, 100, 1e3, 1e6, 1e12] if plain(w) else [0.3, 1, 10, 100, 1e4, 1e8])
    if size < 20 * w.rate:
        return None
    w.rate = size
    if w.rng.random() < 0.5:
        w.train.pop("clip_norm", None)
    return truth("unscaled_targets")


@form
def learning_rate_too_low(w):
    way = w.rng.choice(["typed", "typed", "decay", "warmup", "steps"])
    total = w.updates() * w.train["epochs"]
    w.train.pop("learning_rate_schedule", None)
    if way == "typed":
        w.rate = w.rng.choice([1e-5, 1e-6, 1e-7]) * (10 if plain(w) else 1)
    elif way == "decay":
        w.train["learning_rate_schedule"] = {"exponential": {"steps": max(1, total // 60), "factor": 0.5}}
    elif way == "warmup":
        w.train["learning_rate_schedule"] = {"cosine": {"warmup": 300 * total}}
    else:
        w.train["learning_rate_schedule"] = {"piecewise": {"boundaries": [5], "values": [w.rate, w.rate * 1e-5]}}
    return truth("too_few_epochs", "wrong_optimizer")


@form
def too_few_epochs(w):
    w.train["epochs"] = 1
    w.data["batch"] = max(w.data["batch"], w.rng.choice([32, 64]))
    return truth("learning_rate_too_low", "batch_too_large", "wrong_optimizer", faults=["learning_rate_too_low"])


@form
def stopped_too_early(w):
    if w.split == "none":
        return None
    w.train["early_stopping"] = w.rng.choice([{"monitor": "val_loss", "mode": "max", "patience": 1}, {"monitor": "val_loss", "patience": 1, "min_delta": 10},
                                              {"monitor": "val_loss", "patience": 1, "min_delta": 0.5}])
    return truth("too_few_epochs", "learning_rate_too_low")


@form
def wrong_loss(w):
    if w.task == "values" and min(v[0] for v in w.y) < 0:
        w.train["loss"] = w.rng.choice(["msle", "poisson", "kl_divergence", "cosine_similarity", "hinge", "mape"])
        return truth("wrong_output_activation", "learning_rate_too_low", "labels_out_of_range", layer=w.out["name"])
    return FAULTS["wrong_loss"](w)


@form
def wrong_output_activation(w):
    if w.task == "classes":
        w.train.pop("from_logits", None)
        w.out["activation"] = w.rng.choice(["relu", "tanh", "relu6", "softplus"])
    elif w.task == "values":
        low, high = min(v[0] for v in w.y), max(v[0] for v in w.y)
        w.out["activation"] = w.rng.choice(["sigmoid", "tanh", "relu", "softmax"] if low < 0 else ["sigmoid", "tanh", "softmax"] if high > 1.5 else ["softmax"])
    elif w.task == "copy":
        w.out["activation"] = w.rng.choice(["softmax", "softsign"])
    else:
        return FAULTS["wrong_output_activation"](w)
    return truth("labels_out_of_range", "wrong_loss", "division_by_zero", "missing_output_activation", layer=w.out["name"])


@form
def redundant_softmax(w):
    if w.task != "classes" or w.rng.random() < 0.5:
        return FAULTS["redundant_softmax"](w)
    w.out.pop("activation", None)
    w.layers.insert(w.learning()[-1] + 1, {"activation": {"name": "probabilities", "function": "softmax"}})
    w.train["from_logits"] = True
    return truth("learning_rate_too_low", "too_few_epochs", "wrong_loss", layer="probabilities")


@form
def wrong_hidden_activation(w):
    recurrent = [i for i in w.recurrent() if w.kind_of(i) != "simple_rnn"]
    if recurrent and w.rng.random() < 0.5:
        w.options(recurrent[0])["activation"] = w.rng.choice(["softmax", "sigmoid", "exponential"])
        return truth("learning_rate_too_high", "learning_rate_too_low", "bad_initialization", "overflow", layer=w.options(recurrent[0])["name"])
    return FAULTS["wrong_hidden_activation"](w)


@form
def missing_activation(w):
    hidden = [i for i in w.hidden() if w.options(i).get("activation")]
    if not hidden:
        return None
    for i in hidden:
        w.options(i).pop("activation")
    return truth("too_little_capacity", layer=w.options(hidden[0])["name"])


@form
def unscaled_inputs(w):
    way = w.rng.choice(["salary", "year", "pixels", "all"])
    if w.kind in ("tokens", "ids", "text_table") or w.task == "copy":
        return None
    w.data.pop("scale", None)
    if w.data.pop("standardize", None):
        w.data.pop("standardize_labels", None)
        return truth("unscaled_targets", "learning_rate_too_low", "learning_rate_too_high", layer=w.first_name())
    width, pictures = len(w.x[0]), len(w.input_shape) == 3
    if pictures != (way == "pixels"):
        way = "pixels" if pictures else "all"
    for rows in (w.x, w.vx):
        for row in rows:
            if way == "salary":
                row[0] = 40000 + 15000 * row[0]
            elif way == "year":
                row[:] = [2000 + 20 * v for v in row]
            elif way == "pixels":
                row[:] = [round(255 * v) for v in row]
            else:
                row[:] = [3000 * v for v in row]
    return truth("learning_rate_too_high", "learning_rate_too_low", layer=w.first_name()) if width else None


@form
def unscaled_targets(w):
    if w.task != "values":
        return None
    if w.data.pop("standardize_labels", None):
        return truth("learning_rate_too_low", "learning_rate_too_high", "too_few_epochs", "overflow", layer=w.out["name"])
    if w.out.get("activation"):
        return None
    size, shift = w.rng.choice([(300, 2000), (5000, 0), (1e5, 3e5), (1e6, 0)])
    for rows in (w.y, w.vy):
        for row in rows:
            row[:] = [shift + size * v for v in row]
    return truth("learning_rate_too_low", "learning_rate_too_high", "too_few_epochs", "overflow", layer=w.out["name"])


@form
def bad_initialization(w):
    way = w.rng.choice(["ones", "zeros", "uniform", "normal", "tiny", "biases"])
    hidden = [i for i in w.hidden() if not any("batch_normalization" in layer or "layer_normalization" in layer for layer in w.layers)]
    if not hidden:
        return FAULTS["bad_initialization"](w)
    start = {"ones": "ones", "zeros": "zeros", "uniform": {"random_uniform": {"minval": -10, "maxval": 10}},
             "normal": {"random_normal": {"stddev": w.rng.choice([5.0, 20.0])}}, "tiny": {"random_normal": {"stddev": 1e-6}}}.get(way)
    for i in w.learning() if way == "zeros" and w.rng.random() < 0.5 else hidden:
        if way == "biases":
            w.options(i)["bias_initializer"] = {"random_uniform": {"minval": -60, "maxval": -20}}
        else:
            w.options(i)["kernel_initializer"] = start
    at = hidden[-1] if way == "zeros" else hidden[0]
    return truth("learning_rate_too_high" if way in ("uniform", "normal") else "learning_rate_too_low", layer=w.options(at)["name"])


@form
def over_regularization(w):
    if w.rng.random() < 0.5:
        w.train["optimizer"] = {"adamw": {"learning_rate": 0.003, "weight_decay": w.rng.choice([10, 50, 200])}}
        return truth("wrong_optimizer", "learning_rate_too_high")
    return FAULTS["over_regularization"](w)


@form
def dropout_too_high(w):
    at = w.learning()[-1]
    if at == 0 or "from" in w.options(at) or w.split == "none":   # the score of the training part is with dropout
        return None
    way = w.rng.choice(["one", "everywhere", "gaussian"])
    if way == "everywhere" and w.kind in ("blobs", "images", "tags", "counts", "ratings", "prices", "rare", "weighted"):
        w.layers = [layer for layer in w.layers if "dropout" not in layer]
        rate, names = w.rng.choice([0.8, 0.9]), []
        for i in reversed(w.learning()[:-1]):
            names.append(f"drop_{i}")
            w.layers.insert(i + 1, {"dropout": {"name": f"drop_{i}", "rate": rate}})
        return truth("too_few_epochs", "learning_rate_too_low", layer=names[-1])
    if way == "gaussian":
        w.layers.insert(at, {"gaussian_dropout": {"name": "drop1", "rate": w.rng.choice([0.95, 0.98])}})
        return truth("too_few_epochs", "learning_rate_too_low", layer="drop1")
    return FAULTS["dropout_too_high"](w)


@form
def too_little_capacity(w):
    dense = [i for i in w.hidden() if w.kind_of(i) == "dense" and "from" not in w.options(i)]
    recurrent = w.recurrent()
    if recurrent and "embedding" not in w.layers[0]:
        w.options(recurrent[0])["units"] = 1
        return truth("too_few_epochs", "learning_rate_too_low", layer=w.options(recurrent[0])["name"])
    if not dense or w.task == "copy" or any("add" in layer or "multiply" in layer for layer in w.layers):
        return None
    i = w.rng.choice(dense)   # one bottleneck
    w.options(i)["units"] = 1
    return truth("too_few_epochs", "learning_rate_too_low", "dropout_too_high", layer=w.options(i)["name"])


@form
def missing_bias(w):
    return None if w.kind in ("signs", "counts", "ids") else FAULTS["missing_bias"](w)


@form
def too_deep(w):
    if any(kind in layer for layer in w.layers for kind in ("add", "multiply", "concatenate")):
        return None   # not one layer after the other
    return FAULTS["too_deep"](w)


@form
def bad_labels(w):
    way = w.rng.choice(["moved", "inverted", "shuffled"])
    if w.split == "none" or w.task in ("copy", "values") or way == "shuffled" or w.split == "share":
        return FAULTS["bad_labels"](w)
    if way == "moved" and w.task == "classes":   # another order of the classes in the training part
        w.y = [[(int(v) + 1) % w.classes for v in row] for row in w.y]
    elif w.task in ("binary", "labels"):
        w.y = [[1 - v for v in row] for row in w.y]
    else:
        return None
    return truth("overfitting", "class_imbalance")


@form
def unshuffled_data(w):
    if w.task not in ("classes", "binary"):
        return None
    order = sorted(range(len(w.x)), key=lambda i: w.y[i][0])
    w.x, w.y = [w.x[i] for i in order], [w.y[i] for i in order]
    w.data.update(shuffle=False)
    w.data["batch"] = min(w.data["batch"], len(w.x) // 8)
    if w.rng.random() < 0.5:
        w.train["optimizer"] = {"sgd": {"learning_rate": 0.1, "momentum": 0.9}}
    w.train["epochs"] = w.rng.choice([3, 8, 15])
    return truth("too_few_epochs", "batch_too_small")


@form
def nonfinite_input(w):
    if w.kind in ("tokens", "ids", "text_table") or w.data.get("standardize"):
        return None
    row = w.rng.randrange(len(w.x))
    some = w.rng.sample(range(len(w.x[row])), max(1, len(w.x[row]) // w.rng.choice([1, 2, 9])))
    for k in some:
        w.x[row][k] = w.rng.choice([math.nan, math.inf, -math.inf])
    return truth(layer="input", origin={"cause": "input", "row": row})


@form
def nonfinite_label(w):
    return None if w.data.get("standardize_labels") else FAULTS["nonfinite_label"](w)
