"""Scripts of keras_strangers.py: windows, segmentation, fine-tuning, three heads, tagging, language, distillation, a flow."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from keras_strangers import script

import tapedeck


class Pinball(keras.losses.Loss):
    """Quantile loss of several quantiles for every hour to come: (batch, hours, quantiles)."""

    def __init__(self, quantiles):
        super().__init__(name="pinball")
        self.q = ops.convert_to_tensor(quantiles, "float32")

    def call(self, y_true, y_pred):
        gap = y_true[..., None] - y_pred
        return ops.mean(ops.maximum(self.q * gap, (self.q - 1) * gap))


@script(
    "rate_times_1000 rate_through_1000 hours_to_come_in_window=data_leak streams_shuffled_apart=bad_labels,labels_shuffled "
    "one_batch_cached=repeated_batch,too_little_data kilowatts_as_recorded?=unscaled_inputs,unscaled_targets quantiles_in_percent=wrong_loss"
)
def electricity_quantiles_by_tf_data(t):
    """Load of the next hours by causal convolutions over tf.data windows, a pinball loss."""
    rng, hours, past, ahead = t.numbers, np.arange(900), 48, 6
    load = np.sin(hours * 2 * np.pi / 24) + 0.5 * np.sin(hours * 2 * np.pi / 168) + 0.3 * np.cumsum(rng.normal(size=900)) / 10 + 0.1 * rng.normal(size=900)
    load = (load - load.mean()) / load.std()
    if t.has("kilowatts_as_recorded"):
        load = 42_000 + 6_000 * load
    load = load.astype("float32")

    def windows_of(starts, shift):
        return np.stack([load[s : s + past] for s in starts])[..., None], np.stack([load[s + shift : s + shift + ahead] for s in starts])

    last = 900 - past - ahead
    windows, future = windows_of(np.arange(last - 150), past - ahead if t.has("hours_to_come_in_window") else past)
    check = windows_of(np.arange(last - 96, last), past)
    first, second = tf.data.Dataset.from_tensor_slices(windows), tf.data.Dataset.from_tensor_slices(future)
    seed = int(rng.integers(1 << 20))
    if t.has("streams_shuffled_apart"):
        data = tf.data.Dataset.zip((first.shuffle(900, seed=seed), second.shuffle(900, seed=seed + 1)))
    else:
        data = tf.data.Dataset.zip((first, second)).shuffle(900, seed=seed)
    data = data.batch(32, drop_remainder=True)
    data = data.take(1).cache().repeat(21) if t.has("one_batch_cached") else data
    data = data.prefetch(1)

    model = keras.Sequential([keras.Input((past, 1))])
    for rate in (1, 4, 12):
        model.add(layers.Conv1D(16, 3, dilation_rate=rate, padding="causal", activation="relu"))
    model.add(layers.Lambda(lambda h: h[:, -1]))
    model.add(layers.Dense(ahead * 3))
    model.add(layers.Reshape((ahead, 3)))
    model.compile(t.optimizer(keras.optimizers.AdamW, 3e-3), Pinball([10, 50, 90] if t.has("quantiles_in_percent") else [0.1, 0.5, 0.9]))
    recorder = tapedeck.Recorder(t.folder, every=10, form="stats")
    history = model.fit(data, validation_data=check, epochs=8, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["loss"]


def dice_and_entropy(smooth):
    def loss(y_true, y_pred):
        y_true = ops.cast(y_true, "float32")
        both = ops.sum(y_true * y_pred, axis=(1, 2, 3))
        dice = 1 - (2 * both + smooth) / (ops.sum(y_true, axis=(1, 2, 3)) + ops.sum(y_pred, axis=(1, 2, 3)) + smooth)
        return ops.mean(dice) + ops.mean(keras.losses.binary_crossentropy(y_true, y_pred))

    return loss


@script(
    "rate_times_1000 rate_through_1000 one_row_nan mask_of_bytes=labels_out_of_range,unscaled_targets picture_flipped_alone=bad_labels "
    "softmax_over_one_channel=wrong_output_activation epsilon_one"
)
def cell_masks_by_small_unet(t):
    """Segmentation: a U-Net of two levels with skips, Dice and cross-entropy."""
    rng, count, side = t.numbers, 256, 16
    rows, columns = np.mgrid[:side, :side]
    masks = np.zeros((count, side, side), bool)
    for mask in masks:
        for _ in range(rng.integers(1, 4)):
            r, c, size = rng.uniform(2, 14), rng.uniform(1, 10), rng.uniform(1.5, 3.5)
            mask |= (rows - r) ** 2 + (columns - c) ** 2 < size**2
    pictures = (masks * 1.0 + 0.6 * rng.normal(size=masks.shape) - 0.3).astype("float32")[..., None]
    targets = masks.astype("float32")[..., None] * (255.0 if t.has("mask_of_bytes") else 1.0)
    if t.has("picture_flipped_alone"):
        half = rng.random(count) < 0.5
        pictures[half] = pictures[half, :, ::-1]

    def block(h, width):
        return layers.Conv2D(width, 3, padding="same", activation="relu")(layers.Conv2D(width, 3, padding="same", activation="relu")(h))

    inputs = keras.Input((side, side, 1))
    top = block(inputs, 8)
    low = block(layers.MaxPooling2D(2)(top), 16)
    up = layers.Conv2DTranspose(8, 2, strides=2, activation="relu")(low)
    h = block(layers.Concatenate()([top, up]), 8)
    out = layers.Conv2D(1, 1, activation="softmax" if t.has("softmax_over_one_channel") else "sigmoid", name="mask")(h)
    model = keras.Model(inputs, out, name="unet")
    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3), dice_and_entropy(1.0), metrics=[keras.metrics.BinaryIoU([1], name="iou")])
    t.fit(model, pictures, targets, 0.15, batch_size=16, epochs=8)


@script(
    "rate_times_1000 rate_through_1000 labels_of_others base_drawn_anew=untrained_frozen everything_frozen=parameter_unchanged,untrained_frozen "
    "pictures_of_other_scale=unscaled_inputs"
)
def fine_tuning_last_block_only(t):
    """A base from another task: lower blocks frozen on purpose, the last block at a low rate, a new head."""
    rng, kinds = t.numbers, 8
    patterns = rng.normal(size=(kinds, 10, 10, 1))

    def photos(count):
        kind = rng.integers(0, kinds, count)
        return (patterns[kind] * rng.uniform(0.6, 1.4, (count, 1, 1, 1)) + 0.9 * rng.normal(size=(count, 10, 10, 1))).astype("float32"), kind

    def new_base():
        return keras.Sequential(
            [
                keras.Input((10, 10, 1)),
                layers.Conv2D(12, 3, activation="relu", name="block1"),
                layers.MaxPooling2D(2),
                layers.Conv2D(16, 3, activation="relu", name="block2"),
                layers.Flatten(),
                layers.Dense(24, activation="relu", name="block3"),
            ],
            name="base",
        )

    base = new_base()
    if not t.has("base_drawn_anew"):
        earlier = keras.Sequential([base, layers.Dense(kinds)])
        earlier.compile(keras.optimizers.Adam(4e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        earlier.fit(*photos(700), batch_size=32, epochs=5, verbose=0)
    for layer in base.layers:
        layer.trainable = layer.name == "block3" and not t.has("base_drawn_anew")

    x, kind = photos(320)
    y = (kind % 4).astype("int32")
    if t.has("pictures_of_other_scale"):
        x = np.clip(128 + 50 * x, 0, 255).astype("float32")
    inputs = keras.Input((10, 10, 1))
    head = layers.Dense(4, name="head")
    model = keras.Model(inputs, head(base(inputs, training=False)))
    if t.has("everything_frozen"):
        model.trainable = False
    model.compile(t.optimizer(keras.optimizers.Adam, 1.5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    t.fit(model, x, y, 0.25, batch_size=16, epochs=10)


@script(
    "rate_times_1000 rate_through_1000 softmax_twice age_in_days=unscaled_targets table_sorted_after_loading=bad_labels,labels_shuffled "
    "one_age_missing=nonfinite_label age_by_relu=wrong_output_activation@age"
)
def faces_with_three_heads(t):
    """Age, gender and mood of a face: three named outputs, loss weights, dict labels, a batch-normalised trunk."""
    rng, count = t.numbers, 600
    gender, mood, age = rng.integers(0, 2, count), rng.integers(0, 3, count), rng.uniform(18, 80, count)
    marks, moods, years = rng.normal(size=(2, 9, 9)), rng.normal(size=(3, 9, 9)), rng.normal(size=(9, 9))
    faces = marks[gender] + moods[mood] + years * ((age - 49) / 18)[:, None, None] + 0.6 * rng.normal(size=(count, 9, 9))
    faces = faces[..., None].astype("float32")
    truth = {"age": ((age - 49) / 18).astype("float32"), "gender": gender.astype("float32"), "mood": mood.astype("float32")}
    if t.has("age_in_days"):
        truth["age"] = (age * 365).astype("float32")
    if t.has("one_age_missing"):
        truth["age"][17] = np.nan
    if t.has("table_sorted_after_loading"):
        order = np.lexsort((age, mood))
        truth = {k: v[order] for k, v in truth.items()}

    inputs = keras.Input((9, 9, 1))
    h = layers.Conv2D(12, 3, use_bias=False)(inputs)
    h = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(h))
    h = layers.Flatten()(layers.AveragePooling2D(2)(h))
    h = layers.Dense(40, activation="relu")(h)
    outputs = {
        "age": layers.Dense(1, activation="relu" if t.has("age_by_relu") else None, name="age")(h),
        "gender": layers.Dense(1, activation="sigmoid", name="gender")(h),
        "mood": layers.Dense(3, activation="softmax" if t.has("softmax_twice") else None, name="mood")(h),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        t.optimizer(keras.optimizers.Nadam, 2e-3),
        {
            "age": keras.losses.Huber(),
            "gender": "binary_crossentropy",
            "mood": lambda y, logits: -ops.sum(ops.one_hot(ops.cast(ops.reshape(y, (-1,)), "int32"), 3) * ops.log_softmax(logits), -1),
        },
        loss_weights={"age": 1.0, "gender": 0.7, "mood": 1.0},
        metrics={"mood": "sparse_categorical_accuracy"},
    )
    recorder = tapedeck.Recorder(t.folder, every=5, form="stats")
    rest = {k: v[500:] for k, v in truth.items()}
    history = model.fit(
        faces[:500], {k: v[:500] for k, v in truth.items()}, validation_data=(faces[500:], rest), batch_size=25, epochs=9, verbose=0, callbacks=[recorder]
    )
    t.folder, t.losses = recorder.folder, history.history["loss"]


@script(
    "rate_times_1000 rate_through_1000 tags_moved_by_one=bad_labels weights_of_padding_only=bad_labels "
    "dropout_of_98=dropout_too_high tags_from_another_batch=bad_labels,labels_shuffled"
)
def slot_tagger_on_a_generator(t):
    """Tags of words by a bidirectional GRU: batches from a generator, sample weights leave out the padding."""
    rng, words, tags = t.numbers, 60, 5
    tag_of = rng.integers(0, tags - 1, words)

    def sentences(seed, batch=24, has=t.has):
        draw, waiting = np.random.default_rng(seed), None
        while True:
            ids = draw.integers(1, words, (batch, 12))
            lengths = draw.integers(5, 13, batch)
            ids[np.arange(12) >= lengths[:, None]] = 0
            labels = tag_of[ids]
            before = np.concatenate([np.zeros((batch, 1), int), ids[:, :-1]], 1)
            labels = np.where((before % 7 == 3) & (before > 0), tags - 1, labels)
            labels[ids == 0] = 0
            weight = (ids == 0 if has("weights_of_padding_only") else ids > 0).astype("float32")
            if has("tags_moved_by_one"):
                labels = np.concatenate([np.zeros((batch, 1), int), labels[:, :-1]], 1)
            if has("tags_from_another_batch"):
                labels, waiting = (labels if waiting is None else waiting), labels
            yield ids.astype("int32"), labels.astype("int32"), weight

    model = keras.Sequential(
        [
            keras.Input((12,), dtype="int32"),
            layers.Embedding(words, 16, name="words"),
            layers.Dropout(0.98 if t.has("dropout_of_98") else 0.1),
            layers.Bidirectional(layers.GRU(16, return_sequences=True)),
            layers.Dense(tags, name="tags"),
        ]
    )
    model.compile(
        t.optimizer(keras.optimizers.RMSprop, 6e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    recorder = tapedeck.Recorder(t.folder, every=10, form="stats")
    check = next(sentences(int(rng.integers(1 << 30)), 120, has=lambda name: False))
    history = model.fit(
        sentences(int(rng.integers(1 << 30))), validation_data=check, steps_per_epoch=20, epochs=6, verbose=0, callbacks=[recorder]
    )
    t.folder, t.losses = recorder.folder, history.history["loss"]


class LittleLanguageModel(keras.Model):
    def __init__(self, letters, width, length, mistake_of):
        super().__init__()
        self.has = mistake_of
        self.letters = layers.Embedding(letters, width, name="letters")
        self.places = layers.Embedding(length, width, name="places")
        self.attend = layers.MultiHeadAttention(2, width // 2, name="attend")
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.wide, self.narrow = layers.Dense(2 * width, activation="gelu"), layers.Dense(width)
        self.next_letter = layers.Dense(letters, name="next_letter")

    def call(self, ids):
        h = self.letters(ids) + self.places(ops.arange(ids.shape[1]))
        n = self.norm1(h)
        h = h + self.attend(n, n, use_causal_mask=not self.has("sees_the_future"))
        return self.next_letter(h + self.narrow(self.wide(self.norm2(h))))


@script(
    "rate_times_1000 rate_through_1000 softmax_twice sees_the_future=data_leak target_is_the_input=data_leak,bad_labels "
    "schedule_of_one_step=learning_rate_too_low,zero_learning_rate,scheduler_per_batch"
)
def letters_by_causal_attention(t):
    """A language model of one causal attention block, trained with a schedule of cosine decay."""
    rng, letters, length = t.numbers, 18, 20
    table = np.argsort(rng.random((letters, letters)), 1)[:, :2]
    texts = np.zeros((320, length + 1), "int32")
    texts[:, 0] = rng.integers(0, letters, 320)
    for i in range(1, length + 1):
        follows = table[texts[:, i - 1], (rng.random(320) < 0.2).astype(int)]
        texts[:, i] = np.where(rng.random(320) < 0.05, rng.integers(0, letters, 320), follows)
    x, y = texts[:, :-1], texts[:, 1:]
    if t.has("target_is_the_input"):
        y = x
    model = LittleLanguageModel(letters, 24, length, t.has)
    optimizer = t.optimizer(keras.optimizers.Adam, 8e-3)

    def entropy(y_true, logits):
        if t.has("softmax_twice"):
            logits = ops.softmax(logits)
        return -ops.mean(ops.sum(ops.one_hot(ops.cast(y_true, "int32"), letters) * ops.log_softmax(logits, axis=-1), -1))

    class CosineByHand(keras.callbacks.Callback):
        """The rate goes down over the epochs of training."""

        def __init__(self, top, epochs):
            super().__init__()
            self.top, self.epochs, self.count = top, epochs, 0

        def lower(self):
            self.count += 1
            share = min(1.0, self.count / self.epochs)
            self.model.optimizer.learning_rate = self.top * 0.5 * (1 + np.cos(np.pi * share)) + 1e-7

        def on_train_batch_end(self, batch, logs=None):
            if t.has("schedule_of_one_step"):
                self.lower()

        def on_epoch_end(self, epoch, logs=None):
            if not t.has("schedule_of_one_step"):
                self.lower()

    model.compile(optimizer, entropy)
    t.fit(model, x, y, batch_size=20, epochs=12, callbacks=[CosineByHand(float(optimizer.learning_rate), 13)])


class Distiller(keras.Model):
    def __init__(self, teacher, student, has):
        super().__init__()
        self.teacher, self.student, self.has = teacher, student, has
        self.teacher.trainable = False
        self.heat = 3.0

    def call(self, x, training=None):
        return self.student(x, training=training)

    def hard_loss(self, y, logits):
        return -ops.mean(ops.sum(ops.one_hot(ops.reshape(y, (-1,)), logits.shape[-1]) * ops.log_softmax(logits), -1))

    def train_step(self, data):
        x, y = data
        soft = ops.softmax(self.teacher(x, training=False) / self.heat)
        with tf.GradientTape() as tape:
            logits = self.student(x, training=not self.has("student_as_in_evaluation"))
            if self.has("student_gives_probabilities"):
                logits = ops.softmax(logits)
            hard = self.hard_loss(y, logits)
            learnt = -ops.mean(ops.sum(soft * ops.log_softmax(logits / self.heat), -1)) * self.heat**2
            loss = 0.2 * hard + 0.8 * learnt / self.heat**2
        own = self.student.trainable_variables
        grads = tape.gradient(loss, own)
        self.optimizer.apply_gradients(zip(grads, own))
        hits = ops.mean(ops.cast(ops.equal(ops.argmax(logits, -1), ops.cast(ops.reshape(y, (-1,)), "int64")), "float32"))
        return {"loss": loss, "hard": hard, "hits": hits}

    def test_step(self, data):
        x, y = data
        logits = self.student(x, training=False)
        hits = ops.mean(ops.cast(ops.equal(ops.argmax(logits, -1), ops.cast(ops.reshape(y, (-1,)), "int64")), "float32"))
        return {"loss": self.hard_loss(y, logits), "hits": hits}


@script(
    "rate_times_1000 rate_through_1000 labels_of_others?=bad_labels,labels_shuffled student_gives_probabilities=redundant_softmax teacher_not_loaded=untrained_frozen,bad_labels "
    "student_as_in_evaluation=evaluation_mode,train_not_called student_without_normalization=missing_normalization,unscaled_inputs"
)
def student_from_a_frozen_teacher(t):
    """Distillation: a trained, frozen teacher, a small student with batch normalisation, train_step and test_step."""
    rng, kinds = t.numbers, 5
    centres = rng.normal(size=(kinds * 2, 16))
    spot = rng.integers(0, kinds * 2, 900)
    x = (centres[spot] + 0.7 * rng.normal(size=(900, 16))).astype("float32") * 30 + 200
    y = (spot % kinds).astype("int32")
    teacher = keras.Sequential([keras.Input((16,)), layers.BatchNormalization(momentum=0.8), layers.Dense(96, activation="relu"), layers.Dense(96, activation="relu"), layers.Dense(kinds)], name="teacher")
    if not t.has("teacher_not_loaded"):
        teacher.compile(keras.optimizers.Adam(4e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        teacher.fit(x[:600], y[:600], batch_size=50, epochs=6, verbose=0)
    front = layers.Identity() if t.has("student_without_normalization") else layers.BatchNormalization(momentum=0.9)
    student = keras.Sequential(
        [keras.Input((16,)), front, layers.Dense(24, activation="relu"), layers.Dropout(0.1), layers.Dense(kinds)], name="student"
    )
    model = Distiller(teacher, student, t.has)
    model.compile(optimizer=t.optimizer(keras.optimizers.Adam, 5e-3))
    t.fit(model, x, y, 0.2, batch_size=30, epochs=8)


class Coupling(layers.Layer):
    """One half is scaled and moved by what a small network says about the other half."""

    def __init__(self, swap, bounded=True):
        super().__init__()
        self.swap, self.bounded = swap, bounded
        self.hidden, self.out = layers.Dense(32, activation="relu"), layers.Dense(2, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01))

    def build(self, shape):
        self.hidden.build((None, 1))
        self.out.build((None, 32))

    def call(self, z):
        a, b = ops.split(z, 2, axis=-1)
        a, b = (b, a) if self.swap else (a, b)
        log_scale, move = ops.split(self.out(self.hidden(a)), 2, axis=-1)
        log_scale = ops.tanh(log_scale) * 1.5 if self.bounded else 400.0 * log_scale
        b = b * ops.exp(log_scale) + move
        return ops.concatenate([b, a] if self.swap else [a, b], -1), log_scale[:, 0]


class Chain:
    """A helper of plain Python that holds layers."""

    def __init__(self, parts):
        self.parts = parts


class MoonFlow(keras.Model):
    def __init__(self, has):
        super().__init__()
        self.has = has
        couplings = [Coupling(i % 2 == 1, not has("scale_without_bound")) for i in range(4)]
        self.couplings = Chain(couplings) if has("couplings_in_plain_class") else couplings
        self.log_size = self.add_weight(shape=(2,), initializer="zeros", name="log_size")
        self.shift = self.add_weight(shape=(2,), initializer="zeros", name="shift")

    def call(self, x):
        x, total = x * ops.exp(self.log_size) + self.shift, ops.sum(self.log_size)
        for layer in self.couplings.parts if isinstance(self.couplings, Chain) else self.couplings:
            x, log_scale = layer(x)
            total = total + log_scale
        return ops.concatenate([x, ops.reshape(total, (-1, 1))], -1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        z, volume = y_pred[:, :2], y_pred[:, 2]
        if self.has("volume_forgotten"):
            volume = ops.stop_gradient(volume)
        return ops.mean(0.5 * ops.sum(ops.square(z), -1) + np.log(2 * np.pi) - volume)


@script(
    "rate_times_1000 rate_through_1000 one_row_nan volume_forgotten=wrong_loss,detached_loss scale_without_bound=overflow "
    "points_in_millimetres?=unscaled_inputs couplings_in_plain_class=unregistered_layers"
)
def moons_by_normalizing_flow(t):
    """Density of two moons by affine couplings: a negative log-likelihood that goes below zero."""
    rng, count = t.numbers, 800
    angle, upper = rng.uniform(0, np.pi, count), rng.integers(0, 2, count)
    points = np.where(upper[:, None] == 1, np.stack([np.cos(angle), np.sin(angle)], 1), np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1))
    points = 0.3 * (points - [0.5, 0.25]) + 0.015 * rng.normal(size=(count, 2))
    if t.has("points_in_millimetres"):
        points = points * 1000
    model = MoonFlow(t.has)
    model.compile(t.optimizer(keras.optimizers.Adam, 5e-3))
    x = points.astype("float32")
    t.fit(model, x, x, batch_size=50, epochs=16)
