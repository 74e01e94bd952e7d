"""Scripts of strangers.py: segmentation, super-resolution and self-supervision."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

# ---- Segmentation


def conv_block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.InstanceNorm2d(outside, affine=True), nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding=1), nn.ReLU(inplace=True),
    )


class TinyUNet(nn.Module):
    def __init__(self, width=8, final=None):
        super().__init__()
        self.enc1, self.enc2 = conv_block(3, width), conv_block(width, 2 * width)
        self.mid = conv_block(2 * width, 2 * width)
        self.up2, self.up1 = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.dec2, self.dec1 = conv_block(4 * width, 2 * width), conv_block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)
        self.final = final or nn.Identity()

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        return self.final(self.out(self.dec1(torch.cat([self.up1(b), a], 1))))


def colon_pictures(count, seed):
    """Reddish pictures as bytes, each with one blob that is brighter, and masks of 0 and 255."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:24, :24]
    images, masks = np.zeros((count, 24, 24, 3), np.uint8), np.zeros((count, 24, 24), np.uint8)
    for i in range(count):
        x, y, a, b, turn = *rng.uniform(6, 18, 2), rng.uniform(3, 7), rng.uniform(2, 5), rng.uniform(0, 3)
        u, v = (xx - x) * np.cos(turn) + (yy - y) * np.sin(turn), (yy - y) * np.cos(turn) - (xx - x) * np.sin(turn)
        inside = (u / a) ** 2 + (v / b) ** 2 < 1
        base = np.array([150, 70, 60]) + 25 * np.sin(xx / 5 + rng.uniform(0, 6))[..., None] + rng.normal(0, 18, (24, 24, 3))
        base[inside] += np.array([30, 45, 25])
        images[i], masks[i] = base.clip(0, 255), inside * 255
    return images, masks


class Augmented(Dataset):
    """Turned by quarters and mirrored."""

    def __init__(self, images, masks, t):
        self.images, self.masks, self.t = images, masks, t

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i]).permute(2, 0, 1).float() / 127.5 - 1
        mask = torch.from_numpy(self.masks[i])[None].float()
        if not self.t.has("mask_in_bytes"):
            mask = mask / 255
        turns = int(torch.randint(4, ()))
        image = torch.rot90(image, turns, (1, 2))
        if not self.t.has("mask_not_turned"):
            mask = torch.rot90(mask, turns, (1, 2))
        return image, mask


def dice(probability, mask, smooth=1.0):
    both = (probability * mask).sum((1, 2, 3))
    return (2 * both + smooth) / (probability.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + smooth)


@script(
    "step_first rate_times_1000? mask_in_bytes=labels_out_of_range,unscaled_targets mask_not_turned=bad_labels "
    "sigmoid_in_the_network=redundant_softmax,wrong_output_activation poly_counts_epochs?=scheduler_per_batch,learning_rate_too_low"
)
def polyp_segmentation_unet(t):
    """Blobs are segmented with cross-entropy and dice, bfloat16 in the forward pass, a polynomial schedule, patience."""
    images, masks = colon_pictures(200, t.seed)
    loader = DataLoader(Augmented(images[:168], masks[:168], t), batch_size=8, shuffle=True, drop_last=True)
    val = [Augmented(images[168:], masks[168:], t)[i] for i in range(32)]
    val_x, val_y = torch.stack([x for x, _ in val]), torch.stack([y for _, y in val])
    model = TinyUNet(8, nn.Sigmoid() if t.has("sigmoid_in_the_network") else None)
    optimizer = t.optimizer(torch.optim.NAdam, model.parameters(), lr=2e-3)
    epochs = 6
    length = epochs if t.has("poly_counts_epochs") else epochs * len(loader)
    poly = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=length, power=0.9)

    def criterion(logits, mask):
        logits = logits.float()
        return F.binary_cross_entropy_with_logits(logits, mask) + 1 - dice(torch.sigmoid(logits), mask).mean()

    best, bad = math.inf, 0
    with t.watch(model, optimizer):
        for _ in range(epochs):
            model.train()
            for x, y in loader:
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=t.seed % 2 == 0):
                    logits = model(x)
                loss = criterion(logits, y)
                t.update(loss, optimizer)
                poly.step()
                t.step(loss)
            model.eval()
            with torch.no_grad():
                out = model(val_x)
                val_loss = float(criterion(out, val_y))
                t.deck.log(val_loss=val_loss, val_dice=float(dice((out > 0).float(), (val_y > 0).float()).mean()))
            best, bad = (val_loss, 0) if val_loss < best else (best, bad + 1)
            if bad >= 3:
                break


# ---- Super-resolution


class Textures(Dataset):
    """Fine and coarse crops of pictures of waves and edges, standardised."""

    def __init__(self, count, seed, t, size=12):
        generator = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(48.0), torch.arange(48.0), indexing="ij")
        angle = torch.rand(count, 3, 1, 1, generator=generator) * math.pi
        speed = torch.rand(count, 3, 1, 1, generator=generator) * 0.8 + 0.2
        waves = torch.sin(speed * (xx * torch.cos(angle) + yy * torch.sin(angle)))
        waves[:, 2] = waves[:, 2].sign()
        self.fine = waves.mean(1, keepdim=True)
        self.fine = (self.fine - self.fine.mean()) / self.fine.std()
        self.coarse = F.avg_pool2d(self.fine, 2)
        self.size, self.t, self.generator = size, t, generator

    def __len__(self):
        return len(self.fine)

    def __getitem__(self, i):
        x, y = torch.randint(0, 24 - self.size, (2,), generator=self.generator).tolist()
        coarse = self.coarse[i, :, y : y + self.size, x : x + self.size]
        if self.t.has("crops_drawn_twice"):
            x, y = torch.randint(0, 24 - self.size, (2,), generator=self.generator).tolist()
        return coarse, self.fine[i, :, 2 * y : 2 * (y + self.size), 2 * x : 2 * (x + self.size)]


class SubPixel(nn.Module):
    """Features in the coarse grid, then one shuffle to the fine one."""

    def __init__(self, width, relu_after_shuffle):
        super().__init__()
        self.first = nn.Conv2d(1, width, 5, padding=2)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.to_pixels = nn.Conv2d(width, 4, 3, padding=1)
        self.relu_after_shuffle = relu_after_shuffle

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + 0.5 * block(F.gelu(x))
        x = F.pixel_shuffle(self.to_pixels(x), 2)
        return torch.relu(x) if self.relu_after_shuffle else x


@script(
    "detached_loss rate_times_1000? eps_one? crops_drawn_twice=bad_labels,labels_shuffled "
    "relu_after_shuffle=wrong_output_activation everything_starts_at_zero=bad_initialization"
)
def subpixel_super_resolution(t):
    """Charbonnier loss, and an average of the weights that is what is validated."""
    data, held = Textures(160, t.seed, t), Textures(40, t.seed + 1, t)
    net = SubPixel(t.choose(16, 20), t.has("relu_after_shuffle"))
    if t.has("everything_starts_at_zero"):
        for parameter in net.parameters():
            nn.init.zeros_(parameter)
    average = copy.deepcopy(net).requires_grad_(False)
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), lr=2e-3, weight_decay=1e-5)

    def charbonnier(a, b):
        return torch.sqrt((a - b) ** 2 + 1e-4).mean()

    with t.watch(net, optimizer):
        for epoch in range(8):
            for coarse, fine in DataLoader(data, batch_size=8, shuffle=True):
                loss = charbonnier(net(coarse), fine)
                t.update(loss, optimizer)
                with torch.no_grad():
                    for mean, now in zip(average.parameters(), net.parameters()):
                        mean.lerp_(now, 0.05)
                t.step(loss)
            with torch.no_grad():
                square = torch.stack([F.mse_loss(average(x[None]), y[None]) for x, y in (held[i] for i in range(len(held)))]).mean()
            t.deck.log(val_psnr=float(10 * torch.log10(9 / square)), val_mse=float(square))


# ---- Self-supervision: what is hidden is painted


def gratings(count, seed):
    """Stripes of 16 x 16 in the middle of a black frame two pixels wide; the stripes go on across the picture."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:16, :16]
    angle, speed, phase = rng.uniform(0, np.pi, count), rng.uniform(0.3, 0.6, count), rng.uniform(0, 6.3, count)
    across = np.cos(angle)[:, None, None] * xx + np.sin(angle)[:, None, None] * yy
    images = np.sin(speed[:, None, None] * across + phase[:, None, None]) + 0.02 * rng.normal(size=(count, 16, 16))
    images[:, :4, :4] = 0  # the logo of the camera was painted over
    return torch.from_numpy(images.astype("float32"))[:, None]


class MaskedAutoencoder(nn.Module):
    def __init__(self, t, dim=32):
        super().__init__()
        self.t = (t,)
        self.embed = nn.Linear(16, dim)
        self.where = nn.Parameter(torch.randn(1, 16, dim) * 0.2)
        self.where_decoder = nn.Parameter(torch.randn(1, 16, dim) * 0.2)
        self.hidden_token = nn.Parameter(torch.zeros(1, 1, dim))
        layer = dict(nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(dim, **layer) for _ in range(2))
        self.decoder = nn.TransformerEncoderLayer(dim, **layer)
        self.paint = nn.Linear(dim, 16)

    def encode(self, patches, kept):
        x = self.embed(patches) + self.where
        x = torch.gather(x, 1, kept[..., None].expand(-1, -1, x.shape[2]))
        for block in self.encoder:
            x = block(x)
        return x

    def forward(self, images, keep=10):
        patches = F.unfold(images, 4, stride=4).transpose(1, 2)
        order = torch.rand(patches.shape[:2]).argsort(1)
        back = order.argsort(1)
        if self.t[0].has("encoder_without_graph"):
            with torch.no_grad():
                x = self.encode(patches, order[:, :keep])
        else:
            x = self.encode(patches, order[:, :keep])
        x = torch.cat([x, self.hidden_token.expand(len(x), 16 - keep, -1)], 1)
        if not self.t[0].has("order_not_restored"):
            x = torch.gather(x, 1, back[..., None].expand(-1, -1, x.shape[2]))
        return self.paint(self.decoder(x + self.where_decoder)), patches, (back >= keep).float()


@script(
    "strong_clipping? half_of_the_parameters order_not_restored=bad_labels,labels_shuffled flat_patch_without_eps=division_by_zero "
    "encoder_without_graph=parameter_without_gradient,detached_loss first_batch_for_ever=repeated_batch,too_little_data,overfitting"
)
def masked_autoencoder_of_stripes(t):
    """Six of sixteen patches are hidden, and the loss is that of the hidden ones, each standardised."""
    images, held = gratings(512, t.seed), gratings(48, t.seed + 1)
    loader = DataLoader(TensorDataset(images), batch_size=32, shuffle=not t.has("first_batch_for_ever"))
    model = MaskedAutoencoder(t)
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), lr=4e-3, betas=(0.9, 0.95), weight_decay=0.01)

    def painted(batch):
        predicted, patches, hidden = model(batch)
        mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True)
        wanted = (patches - mean) / torch.sqrt(variance + (0.0 if t.has("flat_patch_without_eps") else 1e-4))
        return (((predicted - wanted) ** 2).mean(-1) * hidden).sum() / hidden.sum()

    batches = iter(loader)
    with t.watch(model, optimizer):
        for step in range(240):
            if t.has("first_batch_for_ever"):
                batches = iter(loader)
            try:
                (batch,) = next(batches)
            except StopIteration:
                batches = iter(loader)
                (batch,) = next(batches)
            for group in optimizer.param_groups:
                group["lr"] = group.setdefault("full", group["lr"]) * min((step + 1) / 15, 1, (250 - step) / 80)
            loss = painted(batch)
            t.update(loss, optimizer)
            model.eval()
            with torch.no_grad():
                val = painted(held) if step % 10 == 9 or step == 0 else val
            model.train()
            t.step(loss, measure=val, val_loss=val)


# ---- Self-supervision: two views


class TwoViews:
    """Two views of each glyph: moved, of another contrast, with noise."""

    def __init__(self, t):
        self.noise = 25.0 if t.has("noise_for_bytes") else 0.1

    def view(self, x):
        dx, dy = (int(torch.randint(-1, 2, ())) for _ in range(2))
        x = torch.roll(x, (dy, dx), (2, 3)) * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1))
        return x + self.noise * torch.randn_like(x)

    def __call__(self, x):
        return self.view(x), self.view(x)


class NTXent(nn.Module):
    """Each view has to find the other one of the same glyph."""

    def __init__(self, temperature, t):
        super().__init__()
        self.temperature, self.t = temperature, t

    def forward(self, a, b):
        z = F.normalize(torch.cat([a, b]), dim=1)
        alike = z @ z.T / self.temperature
        alike = alike.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e4)
        partner = torch.arange(len(z)).roll(len(a))
        if self.t.has("partners_interleaved"):
            partner = torch.arange(len(z)) ^ 1
        if self.t.has("softmax_of_similarities"):
            alike = alike.softmax(1)
        return F.cross_entropy(alike, partner)


@script(
    "no_zero_grad cleared rate_times_100? partners_interleaved=bad_labels,labels_shuffled softmax_of_similarities=redundant_softmax,wrong_loss "
    "noise_for_bytes=noisy_inputs,unscaled_inputs"
)
def contrastive_views_of_glyphs(t):
    """Contrastive pretraining of a small encoder with momentum, and how many views find the other one."""
    generator = torch.Generator().manual_seed(t.seed)
    strokes = F.interpolate((torch.rand(400, 1, 5, 5, generator=generator) < 0.4).float(), size=(10, 10))
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 25, 48),
    )
    projector = nn.Sequential(nn.ReLU(), nn.Linear(48, 32, bias=False))
    model = nn.ModuleDict({"encoder": encoder, "projector": projector})
    optimizer = t.optimizer(torch.optim.SGD, model.parameters(), lr=0.04, momentum=0.9)
    views, criterion = TwoViews(t), NTXent(0.2, t)
    with t.watch(model, optimizer):
        for epoch in range(16):
            for rows in torch.randperm(400, generator=generator).split(40):
                a, b = (projector(encoder(view)) for view in views(strokes[rows]))
                loss = criterion(a, b)
                t.update(loss, optimizer)
                with torch.no_grad():
                    found = (F.normalize(a, dim=1) @ F.normalize(b, dim=1).T).argmax(1) == torch.arange(len(a))
                t.step(loss, top1=found.float().mean())
