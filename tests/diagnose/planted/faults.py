"""The faults of ../vocabulary.json, planted into a healthy training.

Each function changes a copy of a world and says what is wrong with it: other causes that are defensible, the layer, where a NaN
comes from. None: it cannot be planted there. A fault may have several forms; one is drawn."""
import math

FAULTS = {}


def fault(function):
    FAULTS[function.__name__] = function
    return function


def truth(*also, layer=None, origin=None, faults=()):
    return {"also_accept": list(also), "layer": layer, "nan_origin": origin, "more": list(faults)}


@fault
def learning_rate_too_high(w):
    w.rate *= 10 ** w.rng.uniform(1.7, 3) if w.optimizer == "sgd" else 10 ** w.rng.uniform(2, 3)
    w.train.pop("clip_norm", None)
    return truth("unscaled_targets")


@fault
def learning_rate_too_low(w):
    w.rate /= 10 ** w.rng.uniform(2.3, 5)
    if w.rng.random() < 0.1:
        w.rate = 0
    return truth("too_few_epochs", "wrong_optimizer")


@fault
def too_few_epochs(w):
    w.train["epochs"] = 1
    w.data["batch"] = max(w.data["batch"], 32)
    return truth("learning_rate_too_low", "batch_too_large", "wrong_optimizer", faults=["learning_rate_too_low"])


@fault
def stopped_too_early(w):
    if w.split == "none":
        return None
    form = w.rng.choice(["mode", "delta"])
    metric = {"classes": "val_accuracy", "binary": "val_binary_accuracy", "labels": "val_binary_accuracy"}.get(w.task, "val_r2")
    if form == "mode":
        w.train["early_stopping"] = {"monitor": metric, "mode": "min", "patience": 1}
    else:
        w.train["early_stopping"] = {"monitor": metric, "patience": 1, "min_delta": 0.5}
    return truth("too_few_epochs", "learning_rate_too_low")


@fault
def wrong_loss(w):
    if w.task == "classes" and w.classes > 2 and w.out.get("activation") == "softmax":
        w.data["label_kind"] = "one_hot"
        w.train["loss"] = w.rng.choice(["mae", "mape", "poisson"]) if w.rng.random() < 0.3 else "mae"
    elif w.task == "values":
        w.train["loss"] = "binary_crossentropy"
        return truth("wrong_output_activation", "missing_output_activation", "labels_out_of_range", layer=w.out["name"])
    elif w.task in ("binary", "labels") and w.out.get("activation") == "sigmoid":
        w.train["loss"] = w.rng.choice(["hinge", "mae", "mape"])
    else:
        return None
    return truth("wrong_output_activation", "learning_rate_too_low", layer=w.out["name"])


@fault
def wrong_output_activation(w):
    w.train.pop("from_logits", None)
    if w.task == "binary":
        w.out["activation"] = w.rng.choice(["softmax", "softmax", "relu"])
    elif w.task == "values":
        w.out["activation"] = w.rng.choice(["softmax", "relu", "sigmoid"])
    elif w.task == "labels":
        w.out["activation"] = w.rng.choice(["softmax", "relu"])
    elif w.task == "classes":
        w.out["activation"] = w.rng.choice(["relu", "tanh"])
    else:
        w.out["activation"] = w.rng.choice(["relu", "softmax"])
    return truth("labels_out_of_range", "wrong_loss", "division_by_zero", "missing_output_activation", layer=w.out["name"])


@fault
def wrong_output_units(w):
    if w.task != "classes" or w.classes < 3:
        return None
    w.task, w.true_task = "binary", "classes"
    w.y, w.vy = [[float(v[0])] for v in w.y], [[float(v[0])] for v in w.vy]
    w.train.pop("from_logits", None)
    w.out.update(units=1, activation="sigmoid")
    w.train["loss"] = "binary_crossentropy"
    return truth("labels_out_of_range", "wrong_loss", "wrong_output_activation", layer=w.out["name"], faults=["labels_out_of_range", "wrong_loss"])


@fault
def missing_output_activation(w):
    if w.task not in ("classes", "binary", "labels") or w.train.get("from_logits"):
        return None
    w.out.pop("activation")
    return truth("wrong_output_activation", "division_by_zero", "labels_out_of_range", layer=w.out["name"], faults=["wrong_output_activation"])


@fault
def redundant_softmax(w):
    if w.task not in ("classes", "binary", "labels"):
        return None
    w.out["activation"] = "softmax" if w.task == "classes" else "sigmoid"
    w.train["from_logits"] = True
    return truth("learning_rate_too_low", "too_few_epochs", "wrong_loss", layer=w.out["name"])


@fault
def wrong_hidden_activation(w):
    recurrent, hidden = w.recurrent(), w.hidden()
    if recurrent and w.kind_of(recurrent[0]) == "simple_rnn" and w.rng.random() < 0.7:
        w.options(recurrent[0])["activation"] = w.rng.choice(["relu", "linear", "exponential"])
        return truth("learning_rate_too_high", "bad_initialization", "overflow", "too_deep", layer=w.options(recurrent[0])["name"])
    plain = [i for i in hidden if "activation" in w.options(i)]
    if not plain or w.kind == "tokens":
        return None
    form = w.rng.choice(["sigmoid", "softmax", "hard_sigmoid", "exponential"])
    also = ["missing_normalization", "too_deep"] if form != "exponential" else ["overflow", "learning_rate_too_high"]
    if form in ("sigmoid", "hard_sigmoid"):   # several of them
        at = plain[-1]
        for k in range(max(0, 5 - len(plain))):
            w.layers.insert(at + 1, {"dense": {"name": f"more{k + 1}", "units": 16, "activation": form}})
    for i in w.hidden():
        if "activation" in w.options(i):
            w.options(i)["activation"] = form
    return truth("learning_rate_too_low", *also, layer=w.options(plain[0])["name"])


@fault
def missing_activation(w):
    if w.kind not in ("curves", "values") or not w.hidden():
        return None
    for i in w.hidden():
        w.options(i).pop("activation", None)
    w.layers = [layer for layer in w.layers if "activation" not in layer]
    return truth(layer=w.options(w.hidden()[0])["name"])


@fault
def unscaled_inputs(w):
    if w.kind == "tokens" or w.task == "copy":
        return None
    form = w.rng.choice(["large", "large", "tiny", "apart", "shifted"])
    if w.data.pop("standardize", None) and w.rng.random() < 0.5:
        return truth("learning_rate_too_low", "learning_rate_too_high", layer=w.first_name())
    width, size = len(w.x[0]), 10 ** w.rng.uniform(2, 4)
    factors, shift = [size] * width, 0.0
    if form == "tiny":
        factors = [10 ** -w.rng.uniform(3, 5)] * width
    elif form == "apart":
        factors = [10 ** w.rng.uniform(0, 5) for _ in range(width)]
    elif form == "shifted":
        factors, shift = [1.0] * width, 10 ** w.rng.uniform(2, 3)
    for rows in (w.x, w.vx):
        for row in rows:
            row[:] = [v * f + shift for v, f in zip(row, factors)]
    return truth("learning_rate_too_high", "learning_rate_too_low", layer=w.first_name())


@fault
def unscaled_targets(w):
    if w.task != "values":
        return None
    size = 10 ** w.rng.uniform(3, 5)
    for rows in (w.y, w.vy):
        for row in rows:
            row[:] = [(v + 3) * size for v in row]
    return truth("learning_rate_too_low", "learning_rate_too_high", "too_few_epochs", "overflow", layer=w.out["name"])


def deepen(w, count, units, **options):
    """More dense layers before the last one; the name of the first that is new, or of the first that there was."""
    at = w.learning()[-1]
    for k in range(count):
        w.layers.insert(at + k, {"dense": {"name": f"deep{k + 1}", "units": units, **options}})
    return w.first_name()


@fault
def missing_normalization(w):
    if w.kind not in ("blobs", "curves", "several") or w.data.get("standardize"):
        return None
    w.train["optimizer"] = {"sgd": {"learning_rate": 0.03, "momentum": 0.0}}
    first = deepen(w, w.rng.randint(10, 16), w.rng.choice([8, 12, 16]), activation=w.rng.choice(["relu", "tanh"]))
    return truth("too_deep", "learning_rate_too_low", "bad_initialization", "wrong_optimizer", "wrong_hidden_activation", layer=first, faults=["too_deep"])


@fault
def too_deep(w):
    if w.kind in ("tokens", "sequences", "factors"):
        return None
    form = w.rng.choice(["sigmoid", "relu", "tanh"])
    first = deepen(w, w.rng.randint(12, 20), w.rng.choice([4, 8, 10]), activation=form)
    also = ["missing_normalization", "learning_rate_too_low", "too_little_capacity", "bad_initialization", "learning_rate_too_high"]
    return truth(*also, *(["wrong_hidden_activation"] if form != "relu" else []), layer=first, faults=["missing_normalization"] + (["wrong_hidden_activation"] if form == "sigmoid" else []))


@fault
def bad_initialization(w):
    hidden, recurrent = w.hidden(), w.recurrent()
    form = w.rng.choice(["zeros", "constant", "wide", "narrow", "biases", "recurrent"])
    if form == "recurrent":
        if not recurrent:
            return None
        o = w.options(recurrent[0])
        o["recurrent_initializer"] = {"random_normal": {"stddev": w.rng.choice([3.0, 5.0])}}
        return truth("learning_rate_too_high", "wrong_hidden_activation", layer=o["name"])
    if not hidden or any("batch_normalization" in layer for layer in w.layers):
        return None
    start = {"zeros": "zeros", "constant": {"constant": {"value": w.rng.choice([0.1, 0.5, 1.0])}},
             "wide": {"random_normal": {"stddev": w.rng.choice([3.0, 10.0, 30.0])}},
             "narrow": {"random_normal": {"stddev": 10 ** -w.rng.uniform(4, 7)}}}.get(form)
    for i in hidden:
        if form == "biases":
            w.options(i)["bias_initializer"] = {"constant": {"value": -w.rng.choice([10.0, 30.0, 100.0])}}
        else:
            w.options(i)["kernel_initializer"] = start
    at = hidden[-1] if form == "zeros" else hidden[0]
    return truth("learning_rate_too_high" if form == "wide" else "learning_rate_too_low", layer=w.options(at)["name"])


@fault
def wrong_optimizer(w):
    name, rate = w.rng.choice([("adagrad", 0.001), ("adadelta", 0.001), ("adagrad", 0.0003), ("sgd", 0.0005)])
    w.train["optimizer"] = {name: {"learning_rate": rate}}
    return truth("learning_rate_too_low", "too_few_epochs", faults=["learning_rate_too_low"])


@fault
def batch_too_large(w):
    w.data["batch"] = len(w.x)
    return truth("learning_rate_too_low", "too_few_epochs", "wrong_optimizer", faults=["learning_rate_too_low", "too_few_epochs"])


@fault
def batch_too_small(w):
    w.data["batch"] = 1
    w.rate *= 10
    w.train["epochs"] = max(2, w.train["epochs"] // 8)
    return truth("learning_rate_too_high", faults=["learning_rate_too_high"])


@fault
def over_regularization(w):
    kind = w.rng.choice(["kernel_l1", "kernel_l2"])
    size = 10 ** w.rng.uniform(-0.5, 1)
    at = [i for i in w.learning() if w.kind_of(i) in ("dense", "conv2d")]
    for i in at:
        w.options(i)[kind] = size
    return truth("learning_rate_too_high", layer=w.options(at[0])["name"])


@fault
def dropout_too_high(w):
    at = w.learning()[-1]
    if at == 0:
        return None
    w.layers = [layer for layer in w.layers if "dropout" not in layer]
    at = w.learning()[-1]
    w.layers.insert(at, {"dropout": {"name": "drop1", "rate": w.rng.choice([0.9, 0.95, 0.98])}})
    return truth("too_few_epochs", "learning_rate_too_low", layer="drop1")


@fault
def clip_too_small(w):
    w.train["optimizer"] = {"sgd": {"learning_rate": 0.05}}
    if w.rng.random() < 0.7:
        w.train["clip_norm"] = 10 ** -w.rng.uniform(3, 6)
    else:
        w.train.pop("clip_norm", None)
        w.train["clip_value"] = 10 ** -w.rng.uniform(4, 6)
    return truth("learning_rate_too_low", "too_few_epochs")


@fault
def overfitting(w):
    if w.split != "files":
        return None
    if w.kind not in ("blobs", "several", "values") or w.data.get("standardize"):
        return None
    n, width = w.rng.randint(70, 120), w.rng.randint(40, 100)
    w.data["batch"] = min(w.data["batch"], n // 4)
    w.x, w.y = w.x[:n], w.y[:n]
    for rows in (w.x, w.vx):
        for row in rows:
            row[:] = [0.4 * v for v in row] + [w.rng.gauss(0, 1) for _ in range(width)]
    w.input_shape = [len(w.x[0])]
    for i in w.hidden():
        w.options(i)["units"] = 256
    w.train["optimizer"] = {"adam": {"learning_rate": 0.003}}
    w.train["epochs"] = max(80, round(600 / w.updates()))
    return truth("too_little_data", "noisy_inputs", faults=["too_little_data"])


@fault
def too_little_capacity(w):
    hidden = [i for i in w.hidden() if w.kind_of(i) == "dense"]
    if not hidden or w.kind not in ("blobs", "curves", "values") or (w.task == "classes" and w.classes < 4 and w.kind == "blobs"):
        return None
    for i in hidden:
        w.options(i)["units"] = 1
    return truth("too_few_epochs", "learning_rate_too_low", "dropout_too_high", layer=w.options(hidden[0])["name"])


@fault
def missing_bias(w):
    if w.task != "values" or w.data.get("standardize"):
        return None
    for rows in (w.y, w.vy):
        for row in rows:
            row[:] = [v + 4 for v in row]
    for i in w.learning():
        if w.kind_of(i) == "dense":
            w.options(i)["use_bias"] = False
    return truth("unscaled_targets", "learning_rate_too_low", layer=w.options(w.learning()[0])["name"] if not w.recurrent() else w.out["name"])


@fault
def bad_labels(w):
    if w.split == "none":
        return None
    if w.task == "copy":
        return None
    form = w.rng.choice(["shuffled", "same", "random"] if w.split == "files" else ["shuffled", "random"])
    if w.split == "share":   # both parts are of one file
        w.rng.shuffle(w.vy)
    if form == "shuffled":
        w.rng.shuffle(w.y)
    elif form == "same":
        w.y = [list(w.y[0]) for _ in w.y]
    else:
        pool = [list(v) for v in w.y]
        w.y = [v if w.rng.random() < 0.15 else list(w.rng.choice(pool)) for v in w.y]
    return truth("overfitting", "class_imbalance", "too_few_epochs")


@fault
def labels_out_of_range(w):
    if w.task not in ("binary", "labels"):
        return None
    form = w.rng.choice(["signs", "percent"])
    for rows in (w.y, w.vy):
        for row in rows:
            row[:] = [(2 * v - 1) if form == "signs" else 100 * v for v in row]
    return truth("wrong_output_activation", "wrong_loss", "unscaled_targets", layer=w.out["name"])


@fault
def class_imbalance(w):
    if w.split != "files":
        return None
    if w.task not in ("classes", "binary") or w.kind == "sequences":
        return None
    common = w.rng.randrange(w.classes)
    kept = [i for i in range(len(w.x)) if w.y[i][0] == common or w.rng.random() < 0.03]
    w.x, w.y = [w.x[i] for i in kept], [w.y[i] for i in kept]
    w.train["epochs"] = max(4, round(500 / w.updates()))
    return truth("too_little_data", "overfitting", "bad_labels")


@fault
def noisy_inputs(w):
    if w.split != "files":
        return None
    if w.kind not in ("blobs", "images") or w.data.get("standardize"):
        return None
    size = w.rng.uniform(3, 6)
    for row in w.x:
        row[:] = [v + w.rng.gauss(0, size) for v in row]
    return truth("overfitting", "unscaled_inputs")


@fault
def too_little_data(w):
    if w.split != "files":
        return None
    n = w.rng.randint(6, 14)
    w.x, w.y = w.x[:n], w.y[:n]
    w.data["batch"] = min(w.data["batch"], 8)
    w.train["epochs"] = max(4, round(400 / w.updates()))
    return truth("overfitting", "class_imbalance")


@fault
def unshuffled_data(w):
    if w.task not in ("classes", "binary"):
        return None
    order = sorted(range(len(w.x)), key=lambda i: w.y[i][0])
    w.x, w.y = [w.x[i] for i in order], [w.y[i] for i in order]
    w.data.update(shuffle=False, batch=min(w.data["batch"], 16))
    w.train["optimizer"] = {"sgd": {"learning_rate": 0.1}}
    w.train["epochs"] = 10
    return truth("too_few_epochs", "batch_too_small")


@fault
def nonfinite_input(w):
    if w.kind == "tokens":
        return None
    row = w.rng.randrange(len(w.x))
    w.x[row][w.rng.randrange(len(w.x[row]))] = w.rng.choice([math.nan, math.inf])
    if w.data.pop("standardize", None):
        return None
    return truth(layer="input", origin={"cause": "input", "row": row})


@fault
def nonfinite_label(w):
    if w.task not in ("values", "labels", "binary"):
        return None
    row = w.rng.randrange(len(w.y))
    w.y[row][w.rng.randrange(len(w.y[row]))] = math.nan
    return truth(origin={"cause": "label", "row": row})


@fault
def nonfinite_weights(w):
    lines = (w.trained or "").splitlines()
    at = [i for i, line in enumerate(lines) if ",kernel," in line]
    if not at:
        return None
    i = w.rng.choice(at)
    layer = lines[i].split(",")[0]
    lines[i] = lines[i].rsplit(",", 1)[0] + ",nan"
    w.weights = "\n".join(lines) + "\n"
    return truth(layer=layer, origin={"cause": "parameter", "layer": layer})


@fault
def overflow(w):
    hidden = [i for i in w.hidden() if "activation" in w.options(i)]
    if w.kind not in ("blobs", "values", "several") or not hidden:
        return None
    w.data.pop("standardize", None)
    for rows in (w.x, w.vx):
        for row in rows:
            row[:] = [1000 * v for v in row]
    i = w.rng.choice(hidden[:1])
    w.options(i)["activation"] = "exponential"
    name = w.options(i)["name"]
    return truth("unscaled_inputs", "wrong_hidden_activation", layer=name, origin={"cause": "layer", "layer": name}, faults=["unscaled_inputs"])


@fault
def division_by_zero(w):
    if w.task != "classes":
        return None
    w.data["label_kind"] = "one_hot"
    w.train.pop("from_logits", None)
    w.train["loss"] = "categorical_crossentropy"
    w.out.update(activation="relu", kernel_initializer={"random_normal": {"mean": -0.1, "stddev": 0.1}})
    return truth("missing_output_activation", "bad_initialization", layer=w.out["name"], origin={"cause": "loss"}, faults=["wrong_output_activation"])
