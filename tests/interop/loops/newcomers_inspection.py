"""Scripts of strangers.py: surfaces, key points, sounds and grids of boxes."""

import copy
import math
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

# ---- Surface defects: a pretrained backbone that stays frozen, a new head, a Lightning-like module and its trainer


def surface_patches(count, generator, kinds=4, noise=0.35):
    """Grey patches of 16 x 16 with nothing, a scratch, a spot, or a band, and their kind; sorted by kind, as folders are."""
    kind = torch.arange(count) * kinds // count
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    images = torch.zeros(count, 1, 16, 16)
    for i in range(count):
        a, b, c = (torch.rand(3, generator=generator) * 8 + 4).tolist()
        angle = c * math.pi / 4
        across = (xx - a) * math.cos(angle) + (yy - b) * math.sin(angle)
        if kind[i] == 1:
            images[i, 0] = (across.abs() < 0.8).float()
        elif kind[i] == 2:
            images[i, 0] = (((xx - a) ** 2 + (yy - b) ** 2) < 7).float()
        elif kind[i] == 3:
            images[i, 0] = 0.8 * torch.sigmoid(across)
        elif kind[i] == 4:
            images[i, 0] = ((xx.long() + yy.long()) % 4 < 2).float() * 0.8
    return images + noise * torch.randn(images.shape, generator=generator), kind


class DefectModule(nn.Module):
    """The module with its steps and optimizers in it."""

    def __init__(self, t, width=16):
        super().__init__()
        self.t = [t]
        self.backbone = nn.Sequential(
            *(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(2 * width, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.dropout(self.backbone(x)))

    def freeze(self):
        self.backbone.requires_grad_(False)

    def training_step(self, batch):
        images, kinds = batch
        logits = self(images)
        return {"loss": F.cross_entropy(logits, kinds), "train_acc": (logits.argmax(1) == kinds).float().mean()}

    def validation_step(self, batch):
        images, kinds = batch
        logits = self(images)
        return F.cross_entropy(logits, kinds), (logits.argmax(1) == kinds).float().mean()

    def configure_optimizers(self):
        trainable = [p for p in self.parameters() if p.requires_grad]
        optimizer = self.t[0].optimizer(torch.optim.Adam, trainable, lr=3e-2)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.7)


class DefectTrainer:
    """Epochs, validation after each, a schedule by epochs."""

    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, t, module, train_loader, val_loader, configured=None):
        optimizer, scheduler = configured or module.configure_optimizers()
        with t.watch(module, optimizer):
            for _ in range(self.max_epochs):
                module.train()
                module.backbone.eval()  # its statistics belong to the weights
                for i, batch in enumerate(train_loader):
                    output = module.training_step(batch)
                    t.update(output["loss"], optimizer)
                    more = {"train_acc": output["train_acc"]}
                    if i == len(train_loader) - 1:
                        more |= self.validate(module, val_loader)
                    t.step(output["loss"], **more)
                scheduler.step()

    @torch.no_grad()
    def validate(self, module, loader):
        module.eval()
        found = [module.validation_step(batch) for batch in loader]
        loss, accuracy = (torch.stack(values).mean() for values in zip(*found))
        return {"val_loss": loss, "val_acc": accuracy}


@script(
    "no_zero_grad step_first weights_not_loaded=untrained_frozen folder_order=unshuffled_data "
    "optimizer_before_new_head=stale_optimizer,parameter_without_optimizer@head"
)
def defect_inspection_with_frozen_backbone(t):
    """Four kinds of defects on a backbone that was trained for five, whose weights are loaded from a state dictionary."""
    generator = torch.Generator().manual_seed(t.seed)
    source = DefectModule(t)
    optimizer = torch.optim.Adam(source.parameters(), lr=5e-3)
    images, kinds = surface_patches(400, generator, 5, 0.15)
    for _ in range(70):
        rows = torch.randint(len(images), (32,), generator=generator)
        optimizer.zero_grad()
        F.cross_entropy(source(images[rows]), kinds[rows]).backward()
        optimizer.step()
    weights = {name: value for name, value in source.state_dict().items() if not name.startswith("head")}

    module = DefectModule(t)
    if not t.has("weights_not_loaded"):
        module.load_state_dict(weights, strict=False)
    module.freeze()
    configured = module.configure_optimizers() if t.has("optimizer_before_new_head") else None
    module.head = nn.Linear(module.head.in_features, 4)
    train = TensorDataset(*surface_patches(320, generator))
    val = TensorDataset(*surface_patches(96, generator))
    loader = DataLoader(train, batch_size=16, shuffle=not t.has("folder_order"), generator=generator)
    DefectTrainer(max_epochs=6).fit(t, module, loader, DataLoader(val, batch_size=48), configured)


# ---- Keypoints as heatmaps


class MarkedPlates(Dataset):
    """Plates of 24 x 24 with three marks; a sample is a dictionary with the heatmaps of the marks at half the size."""

    def __init__(self, count, seed, flips, t):
        rng = np.random.default_rng(seed)
        self.points = rng.uniform(4, 20, (count, 3, 2)).astype("float32")
        self.points[:, :, 1] = self.points[:, :, 1] * 0.5 + np.array([0, 6, 12], "float32") * 0.8
        self.seen = rng.random((count, 3)) < 0.9
        grid = np.mgrid[:24, :24].astype("float32")
        self.images = rng.normal(0.2, 0.05, (count, 1, 24, 24)).astype("float32")
        for i in range(count):
            for j, (x, y) in enumerate(self.points[i]):
                if self.seen[i, j]:
                    across, down = np.abs(grid[1] - x), np.abs(grid[0] - y)
                    shape = (across + down < 3, (np.minimum(across, down) < 0.8) & (across + down < 4), np.maximum(across, down) < 2)[j]
                    self.images[i, 0][shape] = (1.0, 0.8, -0.4)[j]
        self.rng, self.flips, self.t = rng, flips, t

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        points = self.points[i] / 2
        if self.t.has("stride_forgotten"):
            points = self.points[i]
        grid = np.mgrid[:12, :12].astype("float32")
        far = (grid[1][None] - points[:, 0, None, None]) ** 2 + (grid[0][None] - points[:, 1, None, None]) ** 2
        image, heatmaps = self.images[i], np.exp(-far / 2.0).astype("float32")
        if self.flips and self.rng.random() < 0.5:
            image = image[:, :, ::-1].copy()
            if not self.t.has("heatmaps_not_flipped"):
                heatmaps = heatmaps[:, :, ::-1].copy()
        return {"image": image, "heatmap": heatmaps, "visible": self.seen[i].astype("float32")}


class Hourglass(nn.Module):
    def __init__(self, width, relu_at_end):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 5, stride=2, padding=2), nn.GroupNorm(4, width), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * width), nn.ReLU())
        self.up = nn.Sequential(nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.GroupNorm(4, width), nn.ReLU())
        self.merge = nn.Conv2d(2 * width, width, 3, padding=1)
        self.heat = nn.Conv2d(width, 3, 1)
        self.relu_at_end = relu_at_end

    def forward(self, x):
        x = self.stem(x)
        deep = self.up(self.down(x))
        out = self.heat(F.relu(self.merge(torch.cat([x, deep], 1))))
        return F.relu(out - 1) if self.relu_at_end else out


class JointsLoss(nn.Module):
    """Squared error of the heatmaps of marks that can be seen, heavier near the marks."""

    def forward(self, predicted, batch):
        weight = batch["visible"][:, :, None, None] * (1 + 8 * batch["heatmap"])
        return (weight * (predicted - batch["heatmap"]) ** 2).mean()


def located(predicted, batch):
    """The share of marks found within one cell."""
    def peaks(heat):
        place = heat.flatten(2).argmax(2)
        return torch.stack([place % 12, place // 12], 2).float()

    near = (peaks(predicted) - peaks(batch["heatmap"])).norm(dim=2) <= 1.5
    return (near * batch["visible"]).sum() / batch["visible"].sum()


@script(
    "cleared rate_through_1000? heatmaps_not_flipped=bad_labels stride_forgotten=bad_labels,labels_out_of_range "
    "rectified_heatmaps=wrong_output_activation@heat"
)
def keypoint_heatmaps_of_marks(t):
    """Three marks on a plate are located by their heatmaps."""
    train, val = MarkedPlates(320, t.seed, True, t), MarkedPlates(64, t.seed + 1, False, t)
    loader = DataLoader(train, batch_size=16, shuffle=True)
    held = next(iter(DataLoader(val, batch_size=64)))
    net = Hourglass(12, t.has("rectified_heatmaps"))
    criterion = JointsLoss()
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), lr=4e-3, weight_decay=1e-4)
    done = 0
    with t.watch(net, optimizer):
        while done < 160:
            net.train()
            for batch in loader:
                loss = criterion(net(batch["image"]), batch)
                t.update(loss, optimizer)
                done += 1
                if done % 20 == 0:
                    net.eval()
                    with torch.no_grad():
                        out = net(held["image"])
                        t.step(loss, val_loss=criterion(out, held), pck=located(out, held))
                    net.train()
                else:
                    t.step(loss)


# ---- A word that wakes: sounds


RATE, CLIP = 2000, 1600


def record_clips(count, seed):
    """Clips that begin with silence; half of them say the word (a rising tone), the others fall, hum or hiss. Some are empty."""
    rng = np.random.default_rng(seed)
    time = np.arange(800) / RATE
    clips, words = np.zeros((count, CLIP), "float32"), rng.random(count) < 0.5
    for i in range(count):
        low, high = rng.uniform(120, 200), rng.uniform(400, 600)
        glide = (high - low) * time / time[-1]
        kind = 0 if words[i] else rng.integers(1, 4)
        pitch = (low + glide, high - glide, np.full_like(time, (low + high) / 2), rng.normal(400, 300, len(time)))[kind]
        sound = np.sin(2 * np.pi * np.cumsum(pitch) / RATE) * np.hanning(len(time)) * rng.uniform(0.3, 1)
        start = rng.integers(300, 700)
        clips[i, start : start + 800] = sound + 0.05 * rng.normal(size=800)
        if rng.random() < 0.06:
            clips[i] = 0
    return clips, words.astype("float32")


def drop_empty(clips, words, t):
    loud = np.abs(clips).max(1) > 0
    if t.has("words_of_empty_clips_kept"):
        return clips[loud], words[: loud.sum()]
    return clips[loud], words[loud]


class LogSpectrogram(nn.Module):
    """Power in 16 bands of 31 frames, in logarithms."""

    def __init__(self, floor):
        super().__init__()
        self.floor = floor
        bands = torch.zeros(16, 65)
        for band in range(16):
            bands[band, band * 4 : band * 4 + 5] = 0.2
        self.register_buffer("bands", bands)
        self.register_buffer("window", torch.hann_window(128))

    def forward(self, clips):
        spectrum = torch.stft(clips, 128, 52, window=self.window, center=False, return_complex=True).abs() ** 2
        bands = self.bands @ spectrum
        return (torch.log(bands + self.floor) + 3) / 4


class Spotter(nn.Module):
    def __init__(self, probabilities):
        super().__init__()
        self.local = nn.Conv1d(16, 24, 3, padding=1)
        self.norm = nn.BatchNorm1d(24)
        self.memory = nn.GRU(24, 20, batch_first=True)
        self.classify = nn.Linear(20, 1)
        self.probabilities = probabilities

    def forward(self, bands):
        x = F.silu(self.norm(self.local(bands))).transpose(1, 2)
        out = self.classify(self.memory(x)[0].amax(1))
        return torch.sigmoid(out) if self.probabilities else out


def focal(logits, target, gamma=1.0):
    """Focal loss, from logits."""
    bare = target * F.softplus(-logits) + (1 - target) * F.softplus(logits)
    sure = torch.exp(-bare)
    return ((1 - sure) ** gamma * bare).mean()


@script(
    "cleared eps_one? scores_not_squeezed=broadcast_in_loss logarithm_of_silence=nonfinite_input,overflow,division_by_zero "
    "sigmoid_before_focal=redundant_softmax,wrong_output_activation@classify words_of_empty_clips_kept=bad_labels,labels_shuffled"
)
def wake_word_spotting(t):
    """Clips of sound, features made in the loop, focal loss on one logit."""
    sounds, words = (torch.from_numpy(part) for part in drop_empty(*record_clips(420, t.seed), t))
    held_sounds, held_words = (torch.from_numpy(part) for part in drop_empty(*record_clips(100, t.seed + 1), t))
    features = LogSpectrogram(0.0 if t.has("logarithm_of_silence") else 1e-4)
    model = Spotter(t.has("sigmoid_before_focal"))
    optimizer = t.optimizer(torch.optim.RMSprop, model.parameters(), lr=3e-3)

    def score(clips):
        out = model(features(clips))
        return out if t.has("scores_not_squeezed") else out.squeeze(1)

    with t.watch(model, optimizer):
        for epoch in range(7):
            model.train()
            for rows in torch.randperm(len(sounds)).split(20):
                loss = focal(score(sounds[rows]), words[rows])
                t.update(loss, optimizer)
                if rows.numel() == 20:
                    t.step(loss)
            model.eval()
            with torch.no_grad():
                out = score(held_sounds)
                if out.dim() == 2:
                    right = (out[:, 0] > 0) == (held_words > 0.5)
                else:
                    right = (out > 0) == (held_words > 0.5)
                t.deck.log(val_loss=float(focal(out, held_words)), val_accuracy=float(right.float().mean()))


# ---- A detector on a grid


def scene(rng):
    """One to three discs and squares in a picture of 32 x 32, with boxes as centre and size."""
    image = rng.normal(0, 0.1, (3, 32, 32)).astype("float32")
    yy, xx = np.mgrid[:32, :32]
    boxes, labels, taken = [], [], set()
    for _ in range(rng.integers(1, 4)):
        x, y = rng.uniform(5, 27, 2)
        if (int(x) // 8, int(y) // 8) in taken:
            continue
        taken.add((int(x) // 8, int(y) // 8))
        half, label = rng.uniform(2.5, 5), int(rng.integers(2))
        inside = (np.hypot(xx - x, yy - y) < half) if label else (np.maximum(abs(xx - x), abs(yy - y)) < half)
        image[label][inside] += 1.0
        image[2][inside] += 0.5
        boxes.append((x, y, 2 * half, 2 * half))
        labels.append(label)
    return {"image": torch.from_numpy(image), "boxes": torch.tensor(boxes, dtype=torch.float32), "labels": torch.tensor(labels)}


class GridDetector(nn.Module):
    """Sixteen cells, each with one box."""

    def __init__(self):
        super().__init__()
        blocks = []
        for inside, outside in ((3, 16), (16, 24), (24, 32)):
            blocks += [nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outside), nn.LeakyReLU(0.1)]
        self.body = nn.Sequential(*blocks)
        self.objectness = nn.Conv2d(32, 1, 1)
        self.box_head = nn.Conv2d(32, 4, 1)
        self.class_head = nn.Conv2d(32, 2, 1)
        for head in (self.objectness, self.box_head, self.class_head):
            nn.init.normal_(head.weight, std=0.01)
            nn.init.zeros_(head.bias)
        nn.init.constant_(self.objectness.bias, -2.0)

    def forward(self, images):
        x = self.body(images)
        return {"obj": self.objectness(x)[:, 0], "box": self.box_head(x), "cls": self.class_head(x)}


class DetectionLoss:
    """Objectness everywhere, boxes and classes in the cells that have an object."""

    def __init__(self, t):
        self.t = t

    def match(self, targets):
        rows, boxes, labels = [], [], []
        for i, target in enumerate(targets):
            for box, label in zip(target["boxes"], target["labels"]):
                cell = (box[:2] / 8).long()
                rows.append((i, int(cell[1]), int(cell[0])))
                size = torch.log(box[2:] / 8)
                boxes.append(box if self.t.has("boxes_in_pixels") else torch.cat([box[:2] / 8 - cell, size]))
                labels.append(label)
        return torch.tensor(rows).T, torch.stack(boxes), torch.stack(labels)

    def __call__(self, out, targets):
        (i, y, x), boxes, labels = self.match(targets)
        wanted = torch.zeros_like(out["obj"])
        wanted[i, y, x] = 1
        found = out["box"].permute(0, 2, 3, 1)
        if self.t.has("boxes_through_data"):
            found = found.data
        parts = {
            "obj": F.binary_cross_entropy_with_logits(out["obj"], wanted, pos_weight=torch.tensor(3.0)),
            "box": F.smooth_l1_loss(found[i, y, x], boxes) * 2,
            "cls": F.cross_entropy(out["cls"].permute(0, 2, 3, 1)[i, y, x], labels),
        }
        return sum(parts.values()), parts


@script(
    "no_zero_grad rate_times_100? boxes_in_pixels=unscaled_targets@box_head boxes_through_data=parameter_without_gradient,detached_loss@box_head "
    "class_head_left_out=parameter_without_optimizer@class_head sorted_by_number_of_boxes=bad_labels,labels_shuffled"
)
def grid_detector_of_shapes(t):
    """Discs and squares are found by a small detector of one stage."""
    rng = np.random.default_rng(t.seed)
    scenes = [scene(rng) for _ in range(400)]

    def collate(batch):
        images = torch.stack([item["image"] for item in batch])
        targets = [{key: item[key] for key in ("boxes", "labels")} for item in batch]
        if t.has("sorted_by_number_of_boxes"):
            targets.sort(key=lambda target: -len(target["boxes"]))
        return images, targets

    loader = DataLoader(scenes[:352], batch_size=16, shuffle=True, collate_fn=collate)
    val_images, val_targets = collate(scenes[352:])
    detector = GridDetector()
    left_out = {id(p) for p in detector.class_head.parameters()} if t.has("class_head_left_out") else set()
    optimizer = t.optimizer(
        torch.optim.SGD, [p for p in detector.parameters() if id(p) not in left_out], lr=0.05, momentum=0.9, weight_decay=5e-4
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    loss_function = DetectionLoss(t)
    with t.watch(detector, optimizer):
        for _ in range(7):
            detector.train()
            averages = defaultdict(list)
            for images, targets in loader:
                loss, parts = loss_function(detector(images), targets)
                t.update(loss, optimizer, clip=10.0)
                warmup.step()
                for name, part in parts.items():
                    averages[name].append(part.item())
                t.step(loss, **{f"loss_{name}": part.detach() for name, part in parts.items()})
            detector.eval()
            with torch.no_grad():
                val, _ = loss_function(detector(val_images), val_targets)
            t.deck.log(val_loss=float(val))
            print({name: round(sum(values) / len(values), 3) for name, values in averages.items()})
