"""Scripts of strangers.py: pictures."""

import copy
import math

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def pictures(count, classes, channels=1, side=8, noise=0.7):
    shapes = torch.randn(classes, channels, side, side)
    y = torch.randint(0, classes, (count,))
    return shapes[y] + noise * torch.randn(count, channels, side, side), y


def ways(t, *names):
    """Of the mistakes with labels and inputs, what a batch becomes."""
    return {name: t.has(name) for name in names}


class ConvNorm(nn.Sequential):
    def __init__(self, a, b, kernel=3, stride=1, groups=1, act=nn.SiLU):
        super().__init__(nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b), act())


@script("no_zero_grad softmax_in_model=redundant_softmax@classifier rate_times_1000 bytes_not_scaled?=unscaled_inputs labels_from_other_file=bad_labels"
        " never_back_to_train=evaluation_mode,train_not_called validation_in_training_mode=training_mode")
def mobile_network(t):
    """Depthwise convolutions, label smoothing, cosine schedule, an averaged copy of the weights."""
    x, y = pictures(480, 6, 3)
    if t.has("bytes_not_scaled"):
        x = (x * 40 + 128).clamp(0, 255)
    if t.has("labels_from_other_file"):
        y = y[torch.randperm(480)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = ConvNorm(3, 12)
            self.blocks = nn.Sequential(*[nn.Sequential(ConvNorm(12, 12, groups=12), nn.Conv2d(12, 12, 1, bias=False), nn.BatchNorm2d(12))
                                          for _ in range(2)])
            self.classifier = nn.Linear(12 * 16, 6)

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = x + block(x)
            x = self.classifier(F.adaptive_avg_pool2d(x, 4).flatten(1))
            return x.softmax(-1) if t.has("softmax_in_model") else x

    net = Net()
    loader = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=32, shuffle=True, drop_last=True)
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), 3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10 * len(loader))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    average = copy.deepcopy(net).requires_grad_(False).eval()
    if not t.has("never_back_to_train"):
        net.train()
    else:
        net.eval()
    with t.watch(net, optimizer) as deck:
        for epoch in range(10):
            for images, target in loader:
                loss = criterion(net(images), target)
                t.update(loss, optimizer)
                schedule.step()
                with torch.no_grad():
                    for slow, fast in zip(average.parameters(), net.parameters()):
                        slow.lerp_(fast, 0.05)
                t.step(loss)
            if not t.has("validation_in_training_mode"):
                net.eval()
            with torch.no_grad():
                deck.log(val_loss=float(criterion(net(x[400:]), y[400:])))
            if not t.has("never_back_to_train"):
                net.train()


@script("cleared wrong_axis=wrong_output_activation,attention_collapse,redundant_softmax rate_through_1000 head_left_out=parameter_without_optimizer@head "
        "blocks_in_a_list=unregistered_layers sorted_by_class=unshuffled_data")
def small_vit(t):
    """A vision transformer written by hand, with a class token."""
    x, y = pictures(480, 4, 1, 8, 0.5)
    if t.has("sorted_by_class"):
        order = y.argsort()
        x, y = x[order], y[order]

    class Block(nn.Module):
        def __init__(self, d=24, heads=3):
            super().__init__()
            self.norm1, self.norm2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
            self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

        def forward(self, x):
            b, n, d = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)).softmax(-1)
            x = x + self.proj((weights @ v).transpose(1, 2).reshape(b, n, d))
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(1, 24, 2, 2)
            self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, 24)), nn.Parameter(0.02 * torch.randn(1, 17, 24))
            blocks = [Block(), Block()]
            self.blocks = blocks if t.has("blocks_in_a_list") else nn.ModuleList(blocks)
            self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 4)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)[:, 0])

    model = ViT()
    some = [p for name, p in model.named_parameters() if not (t.has("head_left_out") and name.startswith("head"))]
    optimizer = t.optimizer(torch.optim.Adam, some, 2e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 20)
    with t.watch(model, optimizer):
        for epoch in range(10):
            order = torch.arange(480) if t.has("sorted_by_class") else torch.randperm(480)
            for i in order.split(32):
                out = model(x[i])
                loss = F.nll_loss(out.log_softmax(0 if t.has("wrong_axis") else 1), y[i])
                t.update(loss, optimizer, clip=1.0)
                warmup.step()
                t.step(loss)


@script("no_zero_grad sigmoid_twice=redundant_softmax@out rate_times_1000 masks_of_other_images=bad_labels,labels_shuffled no_activations=missing_activation"
        " encoder_without_grad=parameter_without_gradient")
def unet_with_dice(t):
    """Binary segmentation: cross-entropy and Dice."""
    z = F.interpolate(torch.randn(320, 1, 3, 3), (16, 16), mode="bilinear")
    x, mask = z + 0.3 * torch.randn_like(z), (z > 0.3).float()
    if t.has("masks_of_other_images"):
        mask = mask[torch.randperm(320)]

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2, self.u1 = self.double(1, 8), self.double(8, 16), self.double(16 + 8, 8)
            self.up, self.out = nn.ConvTranspose2d(16, 16, 2, 2), nn.Conv2d(8, 1, 1)

        def double(self, a, b):
            act = nn.Identity if t.has("no_activations") else nn.ReLU
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), act(), nn.Conv2d(b, b, 3, padding=1), act())

        def forward(self, x):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not t.has("encoder_without_grad")):
                a = self.d1(x)
                b = self.d2(F.avg_pool2d(a, 2) if t.has("no_activations") else F.max_pool2d(a, 2))
            return self.out(self.u1(torch.cat([a, self.up(b)], 1)))

    def dice(p, y):
        return 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)

    net = UNet()
    optimizer = t.optimizer(torch.optim.RMSprop, net.parameters(), 1e-3, momentum=0.5)
    with t.watch(net, optimizer):
        for epoch in range(7):
            for i in torch.randperm(320).split(16):
                logits = net(x[i])
                p = torch.sigmoid(logits)
                bce = F.binary_cross_entropy_with_logits(p if t.has("sigmoid_twice") else logits, mask[i])
                loss = bce + dice(p, mask[i]).mean()
                t.update(loss, optimizer)
                t.step(loss)


def small_gan(norm=True):
    g = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())
    d = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 16, 4, 2, 1, bias=False),
                      nn.BatchNorm2d(16) if norm else nn.Identity(), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64, 1))
    for m in [*g.modules(), *d.modules()]:
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(m.weight, 0.0, 0.02)
    return g, d


@script("generator_detached=detached_loss,gradients_cleared,parameter_without_gradient wrong_optimizer_for_g=stale_optimizer,parameter_without_optimizer,detached_loss"
        " no_zero_grad_d=gradients_added_up sigmoid_twice=redundant_softmax generator_in_eval=evaluation_mode")
def dcgan(t):
    real = torch.tanh(pictures(384, 3)[0])
    g, d = small_gan()
    if t.has("generator_in_eval"):
        g.eval()
    ours = d if t.has("wrong_optimizer_for_g") else g
    opt_g = torch.optim.Adam(ours.parameters(), 2e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), 1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    both = nn.ModuleDict({"g": g, "d": d})

    def judge(x):
        out = d(x).view(-1)
        return torch.sigmoid(out) if t.has("sigmoid_twice") else out

    if t.has("no_zero_grad_d", "sigmoid_twice"):
        watched, optimizers = d, opt_d
    elif t.has("generator_detached", "wrong_optimizer_for_g", "generator_in_eval"):
        watched, optimizers = g, opt_g
    else:
        watched, optimizers = t.choose((both, {"g": opt_g, "d": opt_d}), (g, opt_g), (d, opt_d))
    with t.watch(watched, optimizers):
        for epoch in range(7):
            for i in torch.randperm(384).split(32):
                if not t.has("no_zero_grad_d"):
                    opt_d.zero_grad()
                z = torch.randn(len(i), 8, 1, 1)
                fake = g(z)
                out = judge(real[i])
                d_real = criterion(out, torch.ones_like(out))
                d_real.backward()
                out = judge(fake.detach())
                d_fake = criterion(out, torch.zeros_like(out))
                d_fake.backward()
                opt_d.step()
                if t.has("no_zero_grad_d"):
                    g.zero_grad()
                else:
                    opt_g.zero_grad()
                out = judge(fake.detach() if t.has("generator_detached") else fake)
                g_loss = criterion(out, torch.ones_like(out))
                g_loss.backward()
                opt_g.step()
                if t.has("no_zero_grad_d"):
                    pass
                t.step(d_real + d_fake, g_loss=g_loss)


@script("no_zero_grad_critic=gradients_added_up critic_rate_high?=learning_rate_too_high generator_frozen=detached_loss,untrained_frozen,optimizer_of_frozen,parameter_without_gradient")
def wgan_gp(t):
    """A critic trained five times as often, with a gradient penalty."""
    centres = torch.tensor([[2.0, 0], [-2, 0], [0, 2], [0, -2]])
    data = centres[torch.randint(0, 4, (512,))] + 0.1 * torch.randn(512, 2)
    g = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    c = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    opt_g = torch.optim.Adam(g.parameters(), 1e-3, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(c.parameters(), 1.0 if t.has("critic_rate_high") else 1e-3, betas=(0.0, 0.9))
    if t.has("generator_frozen"):
        g.requires_grad_(False)
    whole = nn.ModuleList([g, c])
    watched, optimizers = (g, opt_g) if t.has("generator_frozen") else (c, opt_c) if t.mistake else t.choose((c, opt_c), (whole, [opt_g, opt_c]))
    with t.watch(watched, optimizers):
        for step in range(90):
            for _ in range(3):
                x = data[torch.randint(0, 512, (48,))]
                fake = g(torch.randn(48, 4)).detach()
                mix = torch.rand(48, 1)
                between = (mix * x + (1 - mix) * fake).requires_grad_()
                slope, = torch.autograd.grad(c(between).sum(), between, create_graph=True)
                loss = c(fake).mean() - c(x).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
                if not t.has("no_zero_grad_critic"):
                    opt_c.zero_grad()
                loss.backward()
                opt_c.step()
                if watched is c:
                    t.step(loss)
            c.requires_grad_(False)
            g_loss = -c(g(torch.randn(48, 4))).mean()
            opt_g.zero_grad()
            if g_loss.requires_grad:
                g_loss.backward()
            opt_g.step()
            c.requires_grad_(True)
            if watched is not c:
                t.step(g_loss)


@script("no_zero_grad rate_times_1000 rate_through_1000 decoder_left_out=parameter_without_optimizer no_sigmoid=missing_output_activation,nan_loss,wrong_output_activation "
        "inputs_not_scaled?=unscaled_inputs,unscaled_targets half_of_the_parameters")
def conv_vae(t):
    """Reconstruction by mean squared error or by binary cross-entropy, beta that warms up."""
    x = torch.sigmoid(2 * pictures(400, 4)[0])
    if t.has("inputs_not_scaled"):
        x = x * 255

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten())
            self.to_mu, self.to_logvar = nn.Linear(64, 4), nn.Linear(64, 4)
            self.decoder = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Unflatten(1, (16, 2, 2)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(),
                                         nn.ConvTranspose2d(8, 1, 4, 2, 1))

        def forward(self, x):
            h = self.encoder(x)
            mu, logvar = self.to_mu(h), self.to_logvar(h).clamp(-8, 8)
            z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
            out = self.decoder(z)
            return (out if t.has("no_sigmoid", "inputs_not_scaled") else torch.sigmoid(out)), mu, logvar

    vae = VAE()
    parameters = [p for name, p in vae.named_parameters() if not (t.has("decoder_left_out") and name.startswith("decoder"))]
    optimizer = t.optimizer(torch.optim.Adam, parameters, 2e-3)
    use_bce = t.choose(True, False) and not t.has("inputs_not_scaled") or t.has("no_sigmoid")
    with t.watch(vae, optimizer):
        for epoch in range(8):
            beta = min(1.0, epoch / 4) * 0.1
            for i in torch.randperm(400).split(25):
                out, mu, logvar = vae(x[i])
                rec = F.binary_cross_entropy(out, x[i], reduction="none") if use_bce else (out - x[i]).pow(2)
                kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
                loss = (rec.flatten(1).sum(1) + beta * kl).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad detached_loss rate_through_1000 one_branch_without_grad_and_frozen=detached_loss,untrained_frozen,parameter_without_gradient,optimizer_of_frozen"
        " constant_weights=bad_initialization rate_times_1000")
def siamese_with_contrastive_loss(t):
    """Distances, a margin, pairs drawn anew in every step."""
    x, y = pictures(400, 5)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 32), nn.ReLU(), nn.Linear(32, 8))
    if t.has("one_branch_without_grad_and_frozen"):
        for p in net.parameters():
            p.requires_grad = False
    if t.has("constant_weights"):
        for m in net:
            if hasattr(m, "weight"):
                nn.init.constant_(m.weight, 0.1)
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 1e-3)
    with t.watch(net, optimizer):
        for step in range(140):
            a, b = torch.randint(0, 400, (2, 32))
            b = torch.where(torch.rand(32) < 0.4, torch.tensor([int((y == c).nonzero()[0]) for c in y[a].tolist()]), b)
            same = (y[a] == y[b]).float()
            distance = F.pairwise_distance(net(x[a]), net(x[b]))
            loss = (same * distance.pow(2) + (1 - same) * F.relu(1.0 - distance).pow(2)).mean()
            if t.has("one_branch_without_grad_and_frozen"):
                optimizer.zero_grad()
                loss.requires_grad_().backward()
                optimizer.step()
            else:
                t.update(loss, optimizer)
            t.step(loss)


@script("no_zero_grad cleared rate_times_1000 labels_permuted=bad_labels,labels_shuffled")
def hard_triplets(t):
    """Batch-hard mining on unit vectors."""
    x, y = pictures(360, 6)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), 1e-3)
    with t.watch(net, optimizer):
        for epoch in range(12):
            if t.has("labels_permuted"):
                y = y[torch.randperm(360)]
            for i in torch.randperm(360).split(36):
                z = F.normalize(net(x[i]), dim=1)
                d = torch.cdist(z, z)
                same = y[i][:, None] == y[i][None]
                positive = (d * same).max(1).values
                negative = (d + 10 * same).min(1).values
                loss = F.relu(positive - negative + 0.3).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared projector_left_out=parameter_without_optimizer rate_through_1000 rate_times_1000 detached_loss")
def simclr_with_projector(t):
    x = pictures(400, 8)[0]
    backbone = nn.Sequential(ConvNorm(1, 8, act=nn.ReLU), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32))
    projector = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))
    model = nn.Sequential(backbone, projector)
    optimizer = t.optimizer(torch.optim.SGD, (backbone if t.has("projector_left_out") else model).parameters(), 0.1, momentum=0.9)

    def view(x):
        x = x.flip(3) if torch.rand(()) < 0.5 else x
        return x * (torch.rand(len(x), 1, 1, 1) * 0.4 + 0.8) + 0.15 * torch.randn_like(x)

    with t.watch(model, optimizer):
        for epoch in range(10):
            for i in torch.randperm(400).split(40):
                z = F.normalize(model(torch.cat([view(x[i]), view(x[i])])), dim=-1)
                similarity = z @ z.T / 0.3
                similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
                n = len(i)
                positive = torch.cat([similarity.diagonal(n), similarity.diagonal(-n)])
                loss = (similarity.logsumexp(1) - positive).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared rate_times_1000 query_left_out=parameter_without_gradient,detached_loss,gradients_cleared detached_loss")
def momentum_contrast(t):
    """MoCo: a queue of keys, a slow encoder of keys."""
    x = pictures(384, 8)[0]
    query = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    key = copy.deepcopy(query)
    for p in key.parameters():
        p.requires_grad = False

    class MoCo(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = query, key
            self.register_buffer("queue", F.normalize(torch.randn(16, 128), dim=0))

        def forward(self, a, b):
            q = F.normalize(self.query(a), dim=1)
            if t.has("query_left_out"):
                q = q.detach() * torch.ones(1, requires_grad=True)
            with torch.no_grad():
                for slow, fast in zip(self.key.parameters(), self.query.parameters()):
                    slow.data = slow.data * 0.99 + fast.data * 0.01
                k = F.normalize(self.key(b), dim=1)
            logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1) / 0.2
            self.queue = torch.cat([k.T, self.queue], 1)[:, :128]
            return logits, torch.zeros(len(a), dtype=torch.long)

    model = MoCo()
    optimizer = t.optimizer(torch.optim.SGD, [p for p in model.parameters() if p.requires_grad], 0.1, momentum=0.9, weight_decay=1e-4)
    with t.watch(model, optimizer):
        for epoch in range(12):
            for i in torch.randperm(384).split(32):
                noise = 0.2 * torch.randn(2, len(i), 1, 8, 8)
                logits, target = model(x[i] + noise[0], x[i] + noise[1])
                loss = F.cross_entropy(logits, target)
                t.update(loss, optimizer)
                t.step(loss)


@script("optimizer_before_new_head=stale_optimizer,parameter_without_optimizer@fc new_head_frozen=untrained_frozen,detached_loss,optimizer_of_frozen@fc rate_times_1000 no_zero_grad softmax_in_model=redundant_softmax")
def fine_tuned_head(t):
    """A trained body is frozen, its last layer replaced."""
    x, y = pictures(400, 4)
    body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 32), nn.ReLU())

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.fc = body, nn.Linear(32, 4)

        def forward(self, x):
            out = self.fc(self.body(x))
            return out.softmax(1) if t.has("softmax_in_model") and out.shape[1] == 3 else out

    net = Net()
    first = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(60):
        first.zero_grad()
        F.cross_entropy(net(x), y).backward()
        first.step()
    z = (y % 3)
    for p in net.parameters():
        p.requires_grad_(False)
    if t.has("optimizer_before_new_head"):
        net.fc.requires_grad_(True)
        optimizer = t.optimizer(torch.optim.SGD, net.fc.parameters(), 0.05, momentum=0.9)
        net.fc = nn.Linear(32, 3)
    else:
        net.fc = nn.Linear(32, 3)
        optimizer = t.optimizer(torch.optim.SGD, net.fc.parameters(), 0.05, momentum=0.9)
    if t.has("new_head_frozen"):
        net.requires_grad_(False)
    with t.watch(net, optimizer) as deck:
        for epoch in range(8):
            net.train()
            for i in torch.randperm(320).split(20):
                loss = F.cross_entropy(net(x[i]), z[i])
                if t.has("new_head_frozen"):
                    loss = loss.requires_grad_()
                t.update(loss, optimizer)
                t.step(loss)
            net.eval()
            with torch.no_grad():
                out = net(x[320:])
                deck.log(val_loss=float(F.cross_entropy(out, z[320:])), val_accuracy=float((out.argmax(1) == z[320:]).float().mean()))


@script("no_zero_grad teacher_trained_instead=stale_optimizer,parameter_without_optimizer,detached_loss rate_through_1000 student_probabilities=missing_output_activation,wrong_output_activation,redundant_softmax")
def distilled_student(t):
    x, y = pictures(400, 5)
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 5))
    optimizer = torch.optim.Adam(teacher.parameters(), 3e-3)
    for _ in range(50):
        optimizer.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        optimizer.step()
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5))
    optimizer = t.optimizer(torch.optim.Adam, (teacher if t.has("teacher_trained_instead") else student).parameters(), 2e-3)
    temperature = 4.0
    with t.watch(student, optimizer):
        for epoch in range(10):
            for i in torch.randperm(400).split(32):
                with torch.no_grad():
                    soft = F.softmax(teacher(x[i]) / temperature, dim=1)
                out = student(x[i])
                if t.has("student_probabilities"):
                    out = out.softmax(1)
                kd = F.kl_div(F.log_softmax(out / temperature, dim=1), soft, reduction="batchmean") * temperature**2
                loss = 0.7 * kd + 0.3 * F.cross_entropy(out, y[i])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad rate_times_1000 rate_through_1000 detached_loss time_layers_in_dict=unregistered_layers cleared")
def small_ddpm(t):
    """Denoising diffusion with a time embedding added to features; Huber loss, an averaged copy."""
    x = torch.tanh(pictures(320, 4)[0])
    alphas = torch.cumprod(1 - torch.linspace(1e-3, 0.15, 50), 0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            time = {"a": nn.Linear(16, 32), "b": nn.Linear(32, 24)}
            self.time = time if t.has("time_layers_in_dict") else nn.ModuleDict(time)
            self.inp, self.mid, self.out = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 24, 3, padding=1), nn.Conv2d(24, 1, 3, padding=1)
            self.norm = nn.GroupNorm(4, 24)

        def forward(self, x, step):
            angle = step[:, None].float() * torch.exp(-torch.arange(8) * 0.6)
            e = self.time["b"](F.silu(self.time["a"](torch.cat([angle.sin(), angle.cos()], 1))))
            h = self.inp(x) + e[:, :, None, None]
            return self.out(h + F.silu(self.mid(F.silu(self.norm(h)))))

    net = Net()
    ema = copy.deepcopy(net)
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), 2e-3)
    with t.watch(net, optimizer):
        for epoch in range(9):
            for i in torch.randperm(320).split(32):
                step = torch.randint(0, 50, (len(i),))
                a = alphas[step].view(-1, 1, 1, 1)
                noise = torch.randn_like(x[i])
                loss = F.smooth_l1_loss(net(a.sqrt() * x[i] + (1 - a).sqrt() * noise, step), noise)
                t.update(loss, optimizer, clip=1.0)
                for p, q in zip(ema.parameters(), net.parameters()):
                    p.data.mul_(0.95).add_(q.data, alpha=0.05)
                t.step(loss)


@script("no_zero_grad relu_at_the_end=wrong_output_activation rate_times_1000 targets_of_other_images=bad_labels,labels_shuffled detached_loss")
def denoising_autoencoder(t):
    """DnCNN-like: what is predicted is the noise, or the clean picture, by L1."""
    clean = F.interpolate(torch.randn(320, 1, 3, 3), (8, 8), mode="bicubic")
    noisy = clean + 0.4 * torch.randn_like(clean)
    if t.has("targets_of_other_images"):
        clean = clean[torch.randperm(320)]
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    criterion = t.choose(nn.L1Loss(), nn.MSELoss())
    with t.watch(net, optimizer):
        for epoch in range(8):
            for i in torch.randperm(320).split(16):
                out = net(noisy[i])
                loss = criterion(torch.relu(out) if t.has("relu_at_the_end") else out, clean[i])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad boxes_through_relu_of_wide_range=wrong_output_activation softmax_before_loss=redundant_softmax@cls box_targets_in_pixels?=unscaled_targets box_head_left_out=parameter_without_optimizer@box")
def class_and_box(t):
    """Localisation: a class and four numbers of one picture."""
    n = 400
    corner = torch.randint(0, 6, (n, 2))
    kind = torch.randint(0, 3, (n,))
    x = 0.2 * torch.randn(n, 1, 8, 8)
    for j in range(n):
        a, b = corner[j].tolist()
        x[j, 0, a : a + 3, b : b + 3] += torch.tensor([[1, 1, 1], [1, float(kind[j] != 1), 1], [1, 1, float(kind[j] != 2)]])
    box = torch.cat([corner, corner + 3], 1).float() / 8 * 2 - 1
    if t.has("box_targets_in_pixels"):
        box = (box + 1) * 400

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(192, 48), nn.ReLU())
            self.cls, self.box = nn.Linear(48, 3), nn.Linear(48, 4)

        def forward(self, x):
            h = self.features(x)
            return self.cls(h), self.box(h)

    net = Detector()
    parameters = [p for name, p in net.named_parameters() if not (t.has("box_head_left_out") and name.startswith("box"))]
    optimizer = t.optimizer(torch.optim.Adam, parameters, 2e-3)
    with t.watch(net, optimizer):
        for epoch in range(10):
            for i in torch.randperm(n).split(25):
                scores, boxes = net(x[i])
                if t.has("softmax_before_loss"):
                    scores = F.softmax(scores, 1)
                if t.has("boxes_through_relu_of_wide_range"):
                    boxes = F.relu(boxes)
                loss = F.cross_entropy(scores, kind[i]) + 2 * F.smooth_l1_loss(boxes, box[i])
                t.update(loss, optimizer)
                t.step(loss)
