"""Scripts of keras_strangers.py: tables, texts, autoencoders, an adversary, metric learning, a recommender, prices."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from keras_strangers import script

import tapedeck


@script(
    "rate_times_1000 rate_through_1000 labels_of_others sorted?=unshuffled_data weights_swapped=class_imbalance,wrong_loss "
    "cancellation_fee_column=data_leak charges_in_cents?=unscaled_inputs"
)
def churn_table_with_class_weights(t):
    """Customers who leave: few of them, a functional model of numbers and categories, and class_weight."""
    rng, rows = t.numbers, 1400
    months, charge = rng.gamma(2.0, 12.0, rows), rng.uniform(20, 120, rows)
    plan, region = rng.integers(0, 4, rows), rng.integers(0, 10, rows)
    taste = np.array([2.0, 0.3, -0.6, -2.0])[plan] + np.linspace(-1.2, 1.2, 10)[region]
    score = taste + 2.2 * (charge - 70) / 29 - 1.6 * (months - 24) / 17
    churned = (score + 0.4 * rng.normal(size=rows) > np.quantile(score, 0.9)).astype("int32")
    numbers = np.stack([(months - 24) / 17, (charge - 70) / 29, rng.normal(size=rows)], 1)
    if t.has("charges_in_cents"):
        numbers = np.stack([months * 30, charge * 100, 1000 * rng.normal(size=rows)], 1)
    if t.has("cancellation_fee_column"):
        numbers[:, 2] = churned * rng.uniform(2.0, 4.0, rows)
    table = {"numbers": numbers.astype("float32"), "plan": plan.astype("int32"), "region": region.astype("int32")}

    inputs = {
        "numbers": keras.Input((3,), name="numbers"),
        "plan": keras.Input((), dtype="int32", name="plan"),
        "region": keras.Input((), dtype="int32", name="region"),
    }
    joined = layers.Concatenate()([inputs["numbers"], layers.Embedding(4, 3)(inputs["plan"]), layers.Embedding(10, 4)(inputs["region"])])
    h = layers.Dense(32, activation="relu")(joined)
    h = layers.Dropout(0.1)(layers.Dense(16, activation="relu")(h))
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid", name="leaves")(h), name="churn")
    model.compile(t.optimizer(keras.optimizers.Adam, 4e-3), "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
    rare = float(churned.mean())
    weight = {0: 0.5 / (1 - rare), 1: 0.5 / rare}
    if t.has("weights_swapped"):
        weight = {0: weight[1], 1: weight[0]}
    t.fit(model, table, churned, 0.2, batch_size=64, epochs=12, class_weight=weight)


@script(
    "rate_times_1000 rate_through_1000 softmax_twice validation_is_training dropout_nearly_all=dropout_too_high "
    "stops_when_accuracy_rises=stopped_too_early titles_joined_wrongly=bad_labels,labels_shuffled"
)
def news_topics_by_text_vectorization(t):
    """Headlines as strings, a TextVectorization layer, masked embedding and a GRU."""
    rng, topics = t.numbers, ["sport", "money", "science", "weather"]
    own = {topic: [f"{topic}{i}" for i in range(15)] for topic in topics}
    common = [f"word{i}" for i in range(60)]
    titles, y = [], rng.integers(0, 4, 640)
    for kind in y:
        length = rng.integers(5, 13)
        words = [rng.choice(own[topics[kind]]) if rng.random() < 0.3 else rng.choice(common) for _ in range(length)]
        if rng.random() < 0.2:
            words[rng.integers(0, length)] = rng.choice(own[topics[rng.integers(0, 4)]])
        titles.append(" ".join(words))
    vectorize = layers.TextVectorization(max_tokens=200, output_sequence_length=14)
    vectorize.adapt(tf.constant(titles))
    ids = np.asarray(vectorize(tf.constant(titles))).astype("int32")
    if t.has("titles_joined_wrongly"):
        y = np.roll(y, 1)

    def smooth_entropy(y_true, logits):
        """Cross-entropy of logits whose wanted distribution is a little smooth."""
        wanted = 0.95 * ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), 4) + 0.05 / 4
        return -ops.mean(ops.sum(wanted * ops.log_softmax(logits, axis=-1), -1))

    model = keras.Sequential(
        [
            keras.Input((14,), dtype="int32"),
            layers.Embedding(200, 16, mask_zero=True),
            layers.GRU(20),
            layers.Dropout(0.97 if t.has("dropout_nearly_all") else 0.3),
            layers.Dense(4, activation="softmax" if t.has("softmax_twice") else None),
        ]
    )
    model.compile(
        t.optimizer(keras.optimizers.Adam, 8e-3),
        smooth_entropy,
        metrics=["accuracy"],
    )
    mode = "min" if t.has("stops_when_accuracy_rises") else "max"
    stop = keras.callbacks.EarlyStopping("val_accuracy", patience=1 if mode == "min" else 4, mode=mode, restore_best_weights=True)
    t.fit(model, ids, y, 0.2, batch_size=32, epochs=10, callbacks=[stop])


class DenoisingAutoencoder(keras.Model):
    """The decoder uses the encoder's matrix: tied weights."""

    def __init__(self, width, code, last):
        super().__init__()
        self.widen = layers.Dense(48, activation="relu")
        self.code = layers.Dense(code, name="code")
        self.unfold = layers.Dense(48, activation="relu")
        self.back = layers.Dense(width, activation=last, name="back")
        self.noise = layers.GaussianNoise(0.3)

    def call(self, x, training=None):
        return self.back(self.unfold(self.code(self.widen(self.noise(x, training=training)))))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.sum(ops.square(y - y_pred), axis=-1)) + 1e-4 * ops.mean(ops.abs(y_pred))


@script(
    "rate_times_1000 rate_through_1000 one_row_nan epsilon_one sigmoid_of_signed_values=wrong_output_activation "
    "code_of_one=too_little_capacity sensors_not_scaled?=unscaled_inputs,unscaled_targets"
)
def sensor_denoiser_with_compute_loss(t):
    """A denoising autoencoder of sensor readings, subclassed, with a compute_loss of its own."""
    mixing = t.numbers.normal(size=(6, 30)) / 2
    x = (t.numbers.normal(size=(640, 6)) @ mixing).astype("float32")
    if t.has("sensors_not_scaled"):
        x = (x * 150 + 3000).astype("float32")
    model = DenoisingAutoencoder(30, 1 if t.has("code_of_one") else 8, "sigmoid" if t.has("sigmoid_of_signed_values") else None)
    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3))
    t.fit(model, x, x, batch_size=32, epochs=12)


class BlobVAE(keras.Model):
    def __init__(self, decoder_learns=True, beta=1.0):
        super().__init__()
        self.encoder = keras.Sequential([layers.Flatten(), layers.Dense(48, activation="relu"), layers.Dense(2 * 4)], name="encoder")
        self.decoder = keras.Sequential([layers.Dense(48, activation="relu"), layers.Dense(64), layers.Reshape((8, 8))], name="decoder")
        self.decoder_learns, self.beta = decoder_learns, beta
        self.seeds = keras.random.SeedGenerator(7)
        self.total = keras.metrics.Mean(name="loss")
        self.restoring = keras.metrics.Mean(name="reconstruction")
        self.divergence = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.total, self.restoring, self.divergence]

    def call(self, images):
        mean, log_var = ops.split(self.encoder(images), 2, axis=-1)
        noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return self.decoder(mean + ops.exp(0.5 * log_var) * noise), mean, log_var

    def train_step(self, images):
        with tf.GradientTape() as tape:
            logits, mean, log_var = self(images, training=True)
            restoring = ops.mean(ops.sum(ops.binary_crossentropy(images, logits, from_logits=True), axis=(1, 2)))
            divergence = -0.5 * ops.mean(ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=1))
            total = restoring + self.beta * divergence
        weights = self.trainable_weights if self.decoder_learns else self.encoder.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(total, weights), weights))
        for metric, value in zip(self.metrics, (total, restoring, divergence)):
            metric.update_state(value)
        return {m.name: m.result() for m in self.metrics}


@script(
    "rate_times_1000 rate_through_1000 decoder_left_out=parameter_without_optimizer,parameter_unchanged@decoder "
    "bytes_as_targets=labels_out_of_range,unscaled_inputs,unscaled_targets beta_of_200=over_regularization,wrong_loss"
)
def blob_vae_with_train_step(t):
    """A variational autoencoder with its own train_step: reconstruction and divergence as metrics."""
    rng, grid = t.numbers, np.arange(8)
    centre, width = rng.uniform(1.5, 5.5, (600, 2, 1)), rng.uniform(0.7, 1.6, (600, 1, 1))
    rows, columns = np.exp(-((grid - centre) ** 2) / 2 / width**2).transpose(1, 0, 2)
    images = (rows[:, :, None] * columns[:, None, :]).astype("float32")
    if t.has("bytes_as_targets"):
        images = np.round(images * 255).astype("float32")
    model = BlobVAE(decoder_learns=not t.has("decoder_left_out"), beta=200.0 if t.has("beta_of_200") else 1.0)
    model.compile(optimizer=t.optimizer(keras.optimizers.Adam, 3e-3))
    recorder = tapedeck.Recorder(t.folder, every=5, form="stats")
    history = model.fit(images, batch_size=32, epochs=12, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["reconstruction"]


class RingGAN(keras.Model):
    def __init__(self, latent, mistake_of=None):
        super().__init__()
        self.latent = latent
        self.generator = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(32, activation="relu"), layers.Dense(2)], name="generator")
        self.critic = keras.Sequential([layers.Dense(32), layers.LeakyReLU(negative_slope=0.2), layers.Dense(32), layers.LeakyReLU(negative_slope=0.2), layers.Dense(1)], name="critic")
        self.has = mistake_of
        self.seeds = keras.random.SeedGenerator(3)
        self.values = {k: keras.metrics.Mean(name=k) for k in ("d_loss", "g_loss", "distance")}

    def compile(self, d_optimizer, g_optimizer):
        super().compile(optimizer=g_optimizer)
        self.d_optimizer, self.loss_of_logits = d_optimizer, keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return list(self.values.values())

    def call(self, noise):
        return self.critic(self.generator(noise))

    def distance_between(self, a, b):
        """Energy distance of two sets of points."""
        far = lambda p, q: ops.mean(ops.sqrt(ops.sum(ops.square(p[:, None] - q[None]), -1) + 1e-9))  # noqa: E731
        return 2 * far(a, b) - far(a, a) - far(b, b)

    def train_step(self, real):
        rows = ops.shape(real)[0]
        ones, zeros = ops.ones((rows, 1)), ops.zeros((rows, 1))
        noise = keras.random.normal((rows, self.latent), seed=self.seeds)
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)
            d_loss = self.loss_of_logits(0.9 * ones, self.critic(real, training=True)) + self.loss_of_logits(zeros, self.critic(fake, training=True))
        own = self.critic.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, own), own))
        noise = keras.random.normal((rows, self.latent), seed=self.seeds)
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)
            judged = self.critic(fake, training=True)
            g_loss = self.loss_of_logits(zeros if self.has("fooling_labels_swapped") else ones, judged)
        own = self.generator.trainable_weights
        if not self.has("generator_never_stepped"):
            self.optimizer.apply_gradients(zip(tape.gradient(g_loss, own), own))
        for k, value in {"d_loss": d_loss, "g_loss": g_loss, "distance": self.distance_between(real, fake)}.items():
            self.values[k].update_state(value)
        return {k: m.result() for k, m in self.values.items()}


@script(
    "rate_times_1000 rate_through_1000 fooling_labels_swapped=bad_labels,wrong_loss "
    "generator_never_stepped=parameter_without_optimizer,parameter_unchanged@generator points_not_scaled?=unscaled_inputs"
)
def ring_gan_with_two_optimizers(t):
    """Points of a ring by a GAN: train_step, two optimizers, an energy distance as the measure."""
    angle = t.numbers.uniform(0, 2 * np.pi, 960)
    points = np.stack([np.cos(angle) + 1.5, np.sin(angle) - 1], 1) + 0.05 * t.numbers.normal(size=(960, 2))
    if t.has("points_not_scaled"):
        points = points * 500
    model = RingGAN(4, t.has)
    model.compile(
        t.optimizer(keras.optimizers.Adam, 2e-3, beta_1=0.5),
        t.optimizer(keras.optimizers.Adam, 2e-3, beta_1=0.5),
    )
    recorder = tapedeck.Recorder(t.folder, every=10, form="stats")
    history = model.fit(points.astype("float32"), batch_size=64, epochs=20, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["distance"]


@script(
    "rate_times_1000 rate_through_1000 triples_in_wrong_order=bad_labels,wrong_loss dead_sensor_divided=division_by_zero,nonfinite_input "
    "seed_inside_the_loop=repeated_batch"
)
def triplet_embeddings_from_generator(t):
    """Metric learning: a Python generator of triples, a TimeDistributed encoder, a triplet loss."""
    rng, people = t.numbers, 12
    faces = rng.normal(size=(people, 20))
    owner = rng.integers(0, people, 360)
    shots = (faces[owner] + 0.9 * rng.normal(size=(360, 20))).astype("float32")
    shots[:, 13] = 4.0  # a sensor that is dead
    with np.errstate(invalid="ignore"):
        shots = (shots - shots.mean(0)) / (shots.std(0) + (0.0 if t.has("dead_sensor_divided") else 1e-6))
    index = [np.flatnonzero(owner == p) for p in range(people)]
    own_seed = int(rng.integers(1 << 30))

    def triples(seed, batch=32, fixed=False, swap=False):
        draw = np.random.default_rng(seed)
        while True:
            if fixed:
                draw = np.random.default_rng(seed)
            chosen = []
            for _ in range(batch):
                one, other = draw.choice(people, 2, replace=False)
                anchor, positive = draw.choice(index[one]), draw.choice(index[one])
                third = draw.choice(index[other])
                chosen.append((anchor, third, positive) if swap else (anchor, positive, third))
            yield shots[np.array(chosen)], np.zeros((batch, 1), "float32")

    encoder = keras.Sequential([keras.Input((20,)), layers.Dense(40, activation="relu"), layers.Dense(10)], name="encoder")
    inputs = keras.Input((3, 20))
    model = keras.Model(inputs, layers.TimeDistributed(encoder)(inputs))

    def triplet_loss(_, z):
        gap = lambda p, q: ops.sum(ops.square(p - q), -1)  # noqa: E731
        near, far = gap(z[:, 0], z[:, 1]), gap(z[:, 0], z[:, 2])
        return ops.mean(ops.relu(ops.sqrt(near + 1e-6) - ops.sqrt(far + 1e-6) + 1.0))

    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3), triplet_loss)
    recorder = tapedeck.Recorder(t.folder, every=5, form="stats")
    feed = triples(own_seed, fixed=t.has("seed_inside_the_loop"), swap=t.has("triples_in_wrong_order"))
    others = next(triples(own_seed + 1, batch=128))
    history = model.fit(feed, steps_per_epoch=16, epochs=10, validation_data=others, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["loss"]


class TwoTowers(keras.Model):
    def __init__(self, users, items, penalty, aligned):
        super().__init__()
        make = lambda rows, width: layers.Embedding(rows, width, embeddings_regularizer=keras.regularizers.L2(penalty))  # noqa: E731
        self.user, self.item = make(users, 8), make(items, 8)
        self.user_level, self.item_level = make(users, 1), make(items, 1)
        self.level = self.add_weight(shape=(), initializer="zeros", name="level")
        self.aligned = aligned

    def call(self, ids):
        u, i = ids["user"], ids["item"]
        match = ops.sum(self.user(u) * self.item(i), -1, keepdims=True)
        return match + self.user_level(u) + self.item_level(i) + self.level

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        guess = y_pred[:, 0] if self.aligned else y_pred
        loss = ops.mean(ops.square(y - guess))
        for extra in self.losses:
            loss = loss + extra
        return loss


@script(
    "rate_times_1000 rate_through_1000 labels_of_others broadcast=broadcast_in_loss penalty_of_ten=over_regularization,wrong_loss "
    "one_target_nan items_joined_by_position=bad_labels,labels_shuffled"
)
def film_ratings_two_towers(t):
    """Ratings by two embeddings and their biases, a dict of ids, compute_loss of a subclassed model."""
    rng, users, items = t.numbers, 40, 30
    likes, traits = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
    user, item = rng.integers(0, users, 1500), rng.integers(0, items, 1500)
    stars = np.clip((likes[user] * traits[item]).sum(1) + 0.6 * rng.normal(size=items)[item] + 0.2 * rng.normal(size=1500), -2.5, 2.5).astype("float32")
    if t.has("items_joined_by_position"):
        item = np.sort(item)
    model = TwoTowers(users, items, 10.0 if t.has("penalty_of_ten") else 1e-6, not t.has("broadcast"))
    model.compile(t.optimizer(keras.optimizers.Adam, 2e-2))
    t.fit(model, {"user": user.astype("int32"), "item": item.astype("int32")}, stars, 0.1, batch_size=64, epochs=14)


@script(
    "rate_times_1000 rate_through_1000 one_target_nan dollars_by_plain_layer=unscaled_targets "
    "normalizer_never_adapted?=unscaled_inputs price_by_relu=wrong_output_activation rate_drops_every_epoch=learning_rate_too_low,zero_learning_rate"
)
def house_prices_in_dollars(t):
    """Prices of hundreds of thousands: Normalization in front, Rescaling behind, mean absolute error in dollars."""
    rng, rows = t.numbers, 900
    area, age, rooms, distance = rng.uniform(40, 300, rows), rng.uniform(0, 90, rows), rng.integers(1, 8, rows), rng.gamma(2.0, 6000.0, rows)
    price = 60_000 + 2200 * area - 900 * age + 9000 * rooms + 150_000 * np.exp(-distance / 8000) + 8000 * rng.normal(size=rows)
    x = np.stack([area, age, rooms, distance], 1).astype("float32")
    price = price.astype("float32")[:, None]

    front = layers.Normalization()
    if t.has("normalizer_never_adapted"):
        front.build((None, 4))
        front.finalize_state()
    else:
        front.adapt(x)
    inputs = keras.Input((4,))
    h = layers.Dense(32, activation="relu")(front(inputs))
    h = layers.Dense(32, activation="relu")(h)
    h = layers.Dense(1, activation="relu" if t.has("price_by_relu") else None, name="price")(h)
    if not t.has("dollars_by_plain_layer"):
        h = layers.Rescaling(float(price.std()), offset=float(price.mean()))(h)
    model = keras.Model(inputs, h)
    model.compile(t.optimizer(keras.optimizers.Adam, 2e-3), "mae", metrics=["mape"])
    patience, least = (0, 1e9) if t.has("rate_drops_every_epoch") else (3, 100.0)
    lower = keras.callbacks.ReduceLROnPlateau("loss", factor=0.1 if t.has("rate_drops_every_epoch") else 0.5, patience=patience, min_delta=least)
    t.fit(model, x, price, 0.2, batch_size=32, epochs=14, callbacks=[lower])
