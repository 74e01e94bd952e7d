"""Scripts of strangers.py: an adversary, an autoencoder, diffusion and a flow."""

import math
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

# ---- WGAN with a gradient penalty


def ring(count, generator):
    """Five clusters on a circle, one after the other, as they were measured."""
    angle = torch.arange(count) * 5 // count * (2 * math.pi / 5)
    return torch.stack([angle.cos(), angle.sin()], 1) * 1.5 + 0.1 * torch.randn(count, 2, generator=generator)


def sliced(a, b, generator, directions=32):
    """Distance of two clouds along random directions."""
    way = F.normalize(torch.randn(2, directions, generator=generator), dim=0)
    return ((a @ way).sort(0)[0] - (b @ way).sort(0)[0]).abs().mean()


class PointGAN(nn.Module):
    def __init__(self, latent, width, bounded):
        super().__init__()
        self.latent = latent
        self.generator = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))
        critic = [nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)]
        self.critic = nn.Sequential(*critic, *([nn.Sigmoid()] if bounded else []))

    def sample(self, count):
        return self.generator(torch.randn(count, self.latent))

    def penalty(self, real, fake):
        mix = torch.rand(len(real), 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()


@script(
    "no_zero_grad rate_times_100? sigmoid_on_the_critic=wrong_output_activation generator_sees_detached_fakes=parameter_without_gradient,detached_loss "
    "both_optimizers_have_the_critic=parameter_without_optimizer clusters_one_by_one=unshuffled_data"
)
def wgan_gp_ring_of_clusters(t):
    """One critic update and one of the generator in each iteration, with rates of their own; losses may be negative."""
    generator = torch.Generator().manual_seed(t.seed)
    gan = PointGAN(4, 48, t.has("sigmoid_on_the_critic"))
    own = gan.critic if t.has("both_optimizers_have_the_critic") else gan.generator
    opt_g = t.optimizer(torch.optim.Adam, own.parameters(), lr=1e-3, betas=(0.5, 0.9))
    opt_c = t.optimizer(torch.optim.Adam, gan.critic.parameters(), lr=3e-3, betas=(0.5, 0.9))
    points, held = ring(3200, generator), ring(400, generator)
    if not t.has("clusters_one_by_one"):
        points = points[torch.randperm(len(points), generator=generator)]
    with t.watch(gan, [opt_g, opt_c]):
        for step in range(300):
            real = points[step % 50 * 64 :][:64]
            fake = gan.sample(64).detach()
            critic_loss = gan.critic(fake).mean() - gan.critic(real).mean() + gan.penalty(real, fake)
            t.update(critic_loss, opt_c)
            fake = gan.sample(64)
            if t.has("generator_sees_detached_fakes"):
                fake = fake.detach()
            generator_loss = -gan.critic(fake).mean()
            t.update(generator_loss, opt_g)
            if step % 10 == 0:
                with torch.no_grad():
                    distance = sliced(gan.sample(400), held, generator)
            t.step(critic_loss, measure=distance, g_loss=generator_loss.detach(), distance=distance)


# ---- A variational autoencoder


@dataclass
class SpriteConfig:
    latent: int = 6
    width: int = 64
    epochs: int = 8
    batch_size: int = 32
    kl_warmup: int = 40


def sprites(count, seed):
    """Bars and boxes of 12 x 12 in bytes."""
    rng = np.random.default_rng(seed)
    images = np.zeros((count, 12, 12), np.uint8)
    for image in images:
        x, y, w, h = rng.integers(0, 7), rng.integers(0, 7), rng.integers(2, 6), rng.integers(2, 6)
        image[y : y + h, x : x + w] = 255
    return torch.from_numpy(images)[:, None]


class SpriteVAE(nn.Module):
    def __init__(self, config, probabilities):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.ELU(), nn.Flatten(), nn.Linear(8 * 36, config.width), nn.ELU()
        )
        self.mean, self.log_var = nn.Linear(config.width, config.latent), nn.Linear(config.width, config.latent)
        self.decoder = nn.Sequential(
            nn.Linear(config.latent, config.width), nn.ELU(), nn.Linear(config.width, 8 * 36), nn.ELU(), nn.Unflatten(1, (8, 6, 6)),
            nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1), *([nn.Sigmoid()] if probabilities else []),
        )

    def forward(self, x):
        h = self.encoder(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        return self.decoder(z), mean, log_var


@script(
    "half_of_the_parameters rate_times_1000? reconstruction_averaged_over_pixels=over_regularization "
    "bytes_not_scaled=labels_out_of_range,unscaled_inputs,unscaled_targets probabilities_as_logits=redundant_softmax,wrong_output_activation"
)
def sprite_vae_with_kl_warmup(t):
    """Sums over pixels and latent variables, means over the batch, the divergence comes in slowly; validated by the whole bound."""
    config = SpriteConfig(latent=t.choose(5, 6, 8))
    data, held = (part.float() / (1 if t.has("bytes_not_scaled") else 255) for part in (sprites(960, t.seed), sprites(128, t.seed + 1)))
    vae = SpriteVAE(config, t.has("probabilities_as_logits"))
    optimizer = t.optimizer(torch.optim.Adamax, vae.parameters(), lr=6e-3)

    def terms(batch):
        out, mean, log_var = vae(batch)
        error = F.binary_cross_entropy_with_logits(out, batch, reduction="none").flatten(1).sum(1).mean()
        divergence = 0.5 * (log_var.exp() + mean**2 - 1 - log_var).sum(1).mean()
        return error, divergence

    updates = 0
    with t.watch(vae, optimizer):
        bound = torch.tensor(math.nan)
        for _ in range(config.epochs):
            for (batch,) in DataLoader(TensorDataset(data), batch_size=config.batch_size, shuffle=True):
                if updates % 10 == 0:
                    with torch.no_grad():
                        bound = sum(terms(held))
                error, divergence = terms(batch)
                if t.has("reconstruction_averaged_over_pixels"):
                    error = error / 144
                loss = error + min(1.0, updates / config.kl_warmup) * divergence
                t.update(loss, optimizer)
                updates += 1
                t.step(loss, measure=bound, recon=error.detach(), kl=divergence.detach(), val_elbo=-bound)


# ---- Diffusion


class PulseBank(Dataset):
    """Pulses of 32 samples, each a bump with a ripple, standardised."""

    def __init__(self, count, seed, volts):
        rng = np.random.default_rng(seed)
        time = np.linspace(-1, 1, 32)
        centre, width, speed = rng.uniform(-0.5, 0.5, (3, count, 1))
        waves = np.exp(-(((time - centre) / (0.3 + 0.2 * width)) ** 2)) * np.cos(9 * (1 + 0.5 * speed) * (time - centre))
        waves = (waves - waves.mean()) / waves.std()
        self.waves = torch.from_numpy(waves * (1 if volts is None else volts)).float()[:, None]

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, i):
        return self.waves[i]


class Denoiser1d(nn.Module):
    """Dilated convolutions, told the time by shifts of their channels."""

    def __init__(self, width, rectified):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.start = nn.Conv1d(1, width, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in (1, 2, 4, 8))
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in self.layers)
        self.out = nn.Conv1d(width, 1, 1)
        self.rectified = rectified

    def forward(self, x, when):
        angles = when[:, None].float() * 0.7 ** torch.arange(8)
        told = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None]
        x = self.start(x)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(F.silu(norm(x) + told))
        x = self.out(x)
        return F.relu(x) if self.rectified else x


class Diffusion:
    """The schedule, the training loss, and sampling."""

    def __init__(self, steps=40):
        beta = torch.linspace(1e-3, 0.2, steps)
        self.steps, self.beta, self.alpha_bar = steps, beta, torch.cumprod(1 - beta, 0)

    def blurred(self, x, when):
        kept = self.alpha_bar[when][:, None, None]
        noise = torch.randn_like(x)
        return kept.sqrt() * x + (1 - kept).sqrt() * noise, noise

    @torch.no_grad()
    def sample(self, net, count):
        x = torch.randn(count, 1, 32)
        for step in reversed(range(self.steps)):
            noise = net(x, torch.full((count,), step))
            x = (x - self.beta[step] / (1 - self.alpha_bar[step]).sqrt() * noise) / (1 - self.beta[step]).sqrt()
            if step:
                x = x + self.beta[step].sqrt() * torch.randn_like(x)
        return x


@script(
    "step_first eps_one? noise_drawn_again=bad_labels,labels_shuffled rectified_noise=wrong_output_activation@out "
    "pulses_in_millivolts=unscaled_inputs half_of_the_parameters"
)
def diffusion_of_pulses(t):
    """A denoiser of pulses learns the noise; now and then some pulses are sampled."""
    bank = PulseBank(640, t.seed, 400.0 if t.has("pulses_in_millivolts") else None)
    net, process = Denoiser1d(24, t.has("rectified_noise")), Diffusion()
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), lr=3e-3)
    moving = None
    with t.watch(net, optimizer):
        for epoch in range(12):
            for x in DataLoader(bank, batch_size=40, shuffle=True, drop_last=True):
                when = torch.randint(process.steps, (len(x),))
                noisy, noise = process.blurred(x, when)
                if t.has("noise_drawn_again"):
                    noise = torch.randn_like(x)
                loss = F.mse_loss(net(noisy, when), noise)
                t.update(loss, optimizer, clip=1.0)
                moving = loss.item() if moving is None else 0.9 * moving + 0.1 * loss.item()
                t.step(loss, loss_ema=moving)
            if epoch % 6 == 5:
                net.eval()
                samples = process.sample(net, 16)
                t.deck.log(sample_std=float(samples.std()))
                net.train()


# ---- A normalizing flow


class Coupling(nn.Module):
    """Half of the values scale and shift the other half."""

    def __init__(self, size, width, flip):
        super().__init__()
        self.flip, self.half = flip, size // 2
        self.net = nn.Sequential(nn.Linear(self.half, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, size))
        nn.init.normal_(self.net[-1].weight, std=1e-2)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x[:, : self.half], x[:, self.half :]
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = 2 * torch.tanh(scale / 2)
        b = b * scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)


class SensorFlow(nn.Module):
    """From readings of sensors to a normal distribution whose place and width are learnt too."""

    def __init__(self, size, layers, in_list):
        super().__init__()
        couplings = [Coupling(size, 24, i % 2 == 1) for i in range(layers)]
        self.couplings = couplings if in_list else nn.ModuleList(couplings)
        self.place, self.log_width = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size))

    def log_prob(self, x):
        volume = torch.zeros(len(x))
        for coupling in self.couplings:
            x, more = coupling(x)
            volume = volume + more
        x = (x - self.place) / self.log_width.exp()
        return volume - (0.5 * x**2 + self.log_width + 0.5 * math.log(2 * math.pi)).sum(1)

    def forward(self, x):
        return -self.log_prob(x).mean()


def sensor_table(count, seed):
    """Readings of four sensors that hang together in curves; their units differ."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, count))
    table = np.stack([u, u**2 / 2 + 0.1 * rng.normal(size=count), v + np.sin(2 * u), v * 0.5 + 0.1 * rng.normal(size=count)], 1)
    return (table * [3, 2000, 40, 500] + [20, 10000, 300, 0]).astype("float32")


@script(
    "cleared rate_times_1000? couplings_in_a_list=unregistered_layers,parameter_without_optimizer raw_units=unscaled_inputs "
    "missing_readings=nonfinite_input"
)
def realnvp_density_of_sensors(t):
    """The density of readings by maximum likelihood, validated on other readings, with the rate lowered where that stalls."""
    table, held = sensor_table(1024, t.seed), sensor_table(256, t.seed + 1)
    if t.has("missing_readings"):
        rng = np.random.default_rng(t.seed)
        table[rng.random(table.shape) < 0.005] = np.nan
    if not t.has("raw_units"):
        mean, std = np.nanmean(table, 0), np.nanstd(table, 0)
        table, held = (table - mean) / std, (held - mean) / std
    table, held = torch.from_numpy(table), torch.from_numpy(held)
    flow = SensorFlow(4, t.choose(4, 6), t.has("couplings_in_a_list"))
    optimizer = t.optimizer(torch.optim.Adam, flow.parameters(), lr=5e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    with t.watch(flow, optimizer):
        for _ in range(12):
            for rows in torch.randperm(len(table)).split(64):
                nll = flow(table[rows])
                t.update(nll, optimizer, clip=20.0)
                t.step(nll)
            with torch.no_grad():
                val = flow(held)
            plateau.step(float(val))
            t.deck.log(val_nll=float(val))
