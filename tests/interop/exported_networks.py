"""Networks as people export them, in small: what torchvision, minGPT, timm and transformers are made of.

Each is a name, a module, an example of its input and whether any batch fits.
"""
import math

import torch
from torch import nn
from torch.nn import functional

NETWORKS = {}


def network(*shape, ids=0, batch=True):
    """The class is a network; its input has that shape, of whole numbers below ids if they are given."""
    def register(maker):
        NETWORKS[maker.__name__] = (maker, shape, ids, batch)
        return maker
    return register


def example(shape, ids):
    return torch.randint(0, ids, shape) if ids else torch.randn(shape)


# --- language ---------------------------------------------------------------------------------

class GptBlock(nn.Module):
    """minGPT's: a mask in a buffer, NewGELU by its formula."""
    def __init__(self, width, heads, steps):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(steps, steps)).view(1, 1, steps, steps))

    def attend(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = self.drop(functional.softmax(att, dim=-1)) @ v
        return self.drop(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        y = self.fc(self.ln_2(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.drop(self.out(y))


@network(3, 6, ids=17)
class MinGpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(17, 12), nn.Embedding(8, 12)
        self.blocks = nn.ModuleList([GptBlock(12, 3, 8) for _ in range(2)])
        self.ln_f, self.head = nn.LayerNorm(12), nn.Linear(12, 17, bias=False)

    def forward(self, idx):
        b, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


@network(3, 6, ids=17)
class LlamaLike(nn.Module):
    """Rotary positions, RMS norms, gated layers, heads that share keys."""
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 16)
        self.q, self.k, self.v = nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
        self.norm, self.last = nn.RMSNorm(16), nn.Linear(16, 17)
        self.gate, self.up, self.down = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(24, 16)
        self.register_buffer("inv_freq", 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4)), persistent=False)

    def turn(self, x, cos, sin):
        a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, ids):
        x = self.table(ids)
        b, t, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, 4, 4).transpose(1, 2)
        k, v = (f(h).view(b, t, 2, 4).transpose(1, 2) for f in (self.k, self.v))
        angles = torch.outer(torch.arange(t, device=ids.device).float(), self.inv_freq)
        cos, sin = (torch.cat((f, f), dim=-1)[None, None] for f in (angles.cos(), angles.sin()))
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        k = k[:, :, None].expand(b, 2, 2, t, 4).reshape(b, 4, t, 4)
        v = v.repeat_interleave(2, dim=1)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, 16)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.last(x + self.down(functional.silu(self.gate(h)) * self.up(h)))


@network(3, 7, ids=20)
class T5Like(nn.Module):
    """Relative positions in buckets: logarithms, minimum, where."""
    def __init__(self):
        super().__init__()
        self.table, self.bias = nn.Embedding(20, 8), nn.Embedding(8, 2)
        self.qkv = nn.Linear(8, 24, bias=False)

    def forward(self, ids):
        x = self.table(ids)
        b, t, _ = x.shape
        at = torch.arange(t)
        n = at[None, :] - at[:, None]
        bucket = (n > 0).to(torch.long) * 4
        n = torch.abs(n)
        large = 2 + (torch.log(n.float().clamp(min=1) / 2) / math.log(8 / 2) * 2).to(torch.long)
        large = torch.min(large, torch.full_like(large, 3))
        bucket = bucket + torch.where(n < 2, n, large)
        q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) + self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        return torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v).flatten(2)


@network(3, 6, ids=17)
class EncoderLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(17, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)

    def forward(self, ids):
        mask = ids.eq(0)
        y = self.layers(self.table(ids), src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1).type_as(y)
        return (y * keep).sum(1) / keep.sum(1).clamp_min(1e-6)


@network(3, 5, 8)
class Decoder(nn.Module):
    """A mask of minus infinity, made as nn.Transformer makes it; attention across."""
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.memory = nn.Parameter(torch.randn(1, 4, 8))

    def forward(self, x):
        t = x.size(1)
        mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        return self.layer(x, self.memory.expand(x.size(0), -1, -1), tgt_mask=mask)


# --- sequences --------------------------------------------------------------------------------

@network(3, 7, 5)
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(5, 6, num_layers=2, batch_first=True, bidirectional=True, dropout=0.2)
        self.last = nn.Linear(12, 3)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return self.last(y[:, -1]) + self.last(torch.cat([h[-2], h[-1]], 1)) + c.sum((0, 2))[:, None]


@network(3, 7, 5)
class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.last = nn.GRU(5, 6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.rnn(x)[0])


@network(7, 3, 5, batch=False)
class ElmanTimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.relu = nn.RNN(5, 6), nn.RNN(6, 4, nonlinearity="relu", bias=False)

    def forward(self, x):
        return self.relu(self.rnn(x)[0])[0]


@network(3, 6, 4)
class LstmWithStates(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 5, batch_first=True)
        self.start = nn.Linear(4, 5)

    def forward(self, x):
        h = torch.tanh(self.start(x.mean(1))).unsqueeze(0)
        return self.rnn(x, (h, torch.zeros_like(h)))[0]


@network(3, 4, 5)
class Cells(nn.Module):
    """Cells by hand, unrolled."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTMCell(5, 6), nn.GRUCell(6, 4)

    def forward(self, x):
        h, c, g, made = x.new_zeros(x.size(0), 6), x.new_zeros(x.size(0), 6), x.new_zeros(x.size(0), 4), []
        for t in range(x.size(1)):
            h, c = self.a(x[:, t], (h, c))
            g = self.b(h, g)
            made.append(g)
        return torch.stack(made, dim=1)


@network(2, 3, 32)
class Conv1dTcn(nn.Module):
    """Dilated, weight-normed, causal by chomping; a residual at the end."""
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 6, 3, padding=4, dilation=2))
        self.down, self.drop = nn.Conv1d(3, 6, 1), nn.Dropout(0.2)

    def forward(self, x):
        y = self.drop(torch.relu(self.a(x)[:, :, :-4].contiguous()))
        return functional.relu(y + self.down(x)).mean(-1)


@network(2, 64)
class WaveLike(nn.Module):
    """Sound: framed, windowed, the logarithm of energies."""
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.mel = nn.Parameter(torch.rand(16, 5))

    def forward(self, x):
        frames = x.unfold(-1, 16, 8) * self.window
        e = torch.matmul(frames.square(), self.mel)
        return torch.log10(e.clamp(min=1e-5)) + torch.log1p(e.abs())


# --- images -----------------------------------------------------------------------------------

class SqueezeExcitation(nn.Module):
    def __init__(self, channels, inner, act=nn.SiLU, scale=nn.Sigmoid):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.act, self.scale = act(), scale()

    def forward(self, x):
        return self.scale(self.fc2(self.act(self.fc1(self.pool(x))))) * x


class MbConv(nn.Module):
    def __init__(self, channels, grown, stride=1, act=lambda: nn.SiLU(inplace=True), **more):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, grown, 1, bias=False), nn.BatchNorm2d(grown), act(),
            nn.Conv2d(grown, grown, 3, stride, 1, groups=grown, bias=False), nn.BatchNorm2d(grown), act(),
            SqueezeExcitation(grown, 3, **more), nn.Conv2d(grown, channels, 1, bias=False), nn.BatchNorm2d(channels))
        self.residual = stride == 1

    def forward(self, x):
        y = self.block(x)
        return y + x if self.residual else y


@network(2, 3, 16, 16)
class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6), nn.SiLU(inplace=True),
                                      MbConv(6, 12), MbConv(6, 12, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2, inplace=True), nn.Linear(6, 4))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


@network(2, 3, 16, 16)
class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish(inplace=True),
                                      MbConv(8, 16, act=lambda: nn.Hardswish(inplace=True), scale=nn.Hardsigmoid))
        self.classifier = nn.Sequential(nn.Linear(8, 8), nn.Hardswish(inplace=True), nn.Dropout(0.2, inplace=True), nn.Linear(8, 4))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


@network(2, 3, 12, 12)
class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True))
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True),
                               nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = self.a(x)
        x = x + self.b(x)
        return self.last(functional.adaptive_avg_pool2d(x, (1, 1)).reshape(x.shape[0], -1))


class Bottleneck(nn.Module):
    def __init__(self, kind=nn.Conv2d, norm=nn.BatchNorm2d, channels=6):
        super().__init__()
        self.conv1, self.conv2 = kind(channels, channels, 3, padding=1, bias=False), kind(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = norm(channels), norm(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


@network(2, 3, 16, 16)
class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 6, 7, 2, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(Bottleneck(), Bottleneck())
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(6, 4)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


@network(2, 3, 4, 8, 8)
class R3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, 6, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False), nn.BatchNorm3d(6), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(Bottleneck(nn.Conv3d, nn.BatchNorm3d), nn.MaxPool3d(2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool3d((1, 1, 1)), nn.Linear(6, 4)

    def forward(self, x):
        return self.fc(self.avgpool(self.layers(self.stem(x))).flatten(1))


@network(2, 3, 13, 13)
class PreActivation(nn.Module):
    """The same tensor changed in place and seen by both branches; pools that do not divide."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.AdaptiveAvgPool2d((5, 4))
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, x):
        x = self.a(x)
        y = self.norm(self.b(self.relu(x)))
        return self.pool(x + y) * functional.adaptive_max_pool2d(y, 1)


@network(2, 3, 32, 32)
class Vgg(nn.Module):
    """Adaptive pooling to another size, in-place dropout."""
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2, 2),
                                      nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((4, 4))
        self.classifier = nn.Sequential(nn.Linear(128, 10), nn.ReLU(True), nn.Dropout(), nn.Linear(10, 4))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


@network(2, 3, 16, 16)
class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.n0, self.c0 = nn.BatchNorm2d(3), nn.Conv2d(3, 5, 3, padding=1, bias=False)
        self.n1, self.c1 = nn.BatchNorm2d(8), nn.Conv2d(8, 5, 3, padding=1, bias=False)
        self.pool = nn.AvgPool2d(2, 2)

    def forward(self, x):
        x = torch.cat([x, self.c0(functional.relu(self.n0(x), inplace=True))], 1)
        x = torch.cat([x, self.c1(functional.relu(self.n1(x), inplace=True))], 1)
        return self.pool(x).mean((-2, -1))


@network(2, 6, 8, 8)
class ShuffleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, groups=3)

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.conv(x2)), dim=1)
        b, c, h, w = out.size()
        return torch.transpose(out.view(b, 2, c // 2, h, w), 1, 2).contiguous().view(b, c, h, w)


@network(2, 3, 32, 32)
class Vit(nn.Module):
    """torchvision's: a class token, multi-head attention of nn."""
    def __init__(self):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, 16, 8, 8)
        self.class_token = nn.Parameter(torch.randn(1, 1, 16))
        self.pos = nn.Parameter(torch.randn(1, 17, 16))
        self.ln = nn.LayerNorm(16, eps=1e-6)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        n, c, h, w = x.shape
        torch._assert(h == 32, "size")
        x = self.conv_proj(x).reshape(n, 16, 16).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(n, -1, -1), x], dim=1) + self.pos
        y = self.ln(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return self.head((x + self.mlp(self.ln(x)))[:, 0])


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return functional.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


@network(2, 3, 16, 16)
class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 4, 4), LayerNorm2d(8, eps=1e-6)
        self.dw, self.ln = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.LayerNorm(8)
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.5))

    def forward(self, x):
        x = self.norm(self.stem(x))
        y = torch.permute(self.b(functional.gelu(self.a(self.ln(torch.permute(self.dw(x), (0, 2, 3, 1)))))), (0, 3, 1, 2))
        return x + self.scale * y


@network(2, 3, 24, 24)
class Swin(nn.Module):
    """Shifted windows: roll, a mask that is filled in slice by slice, a table of relative positions."""
    def __init__(self, window=3, heads=2, width=8):
        super().__init__()
        self.window, self.heads = window, heads
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.norm, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        c = torch.flatten(torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")), 1)
        r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0).contiguous()
        r += window - 1
        r[:, :, 0] *= 2 * window - 1
        self.register_buffer("index", r.sum(-1).flatten())
        self.reduction, self.norm2 = nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(4 * width)

    def attend(self, x, shift):
        b, h, w, c = x.shape
        n = self.window
        right, bottom = (n - w % n) % n, (n - h % n) % n
        x = functional.pad(x, (0, 0, 0, right, 0, bottom))
        _, ph, pw, _ = x.shape
        if shift:
            x = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2))
        count = (ph // n) * (pw // n)
        x = x.view(b, ph // n, n, pw // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b * count, n * n, c)
        qkv = self.qkv(x).reshape(x.size(0), x.size(1), 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (c // self.heads) ** -0.5).matmul(k.transpose(-2, -1))
        bias = self.table[self.index].view(n * n, n * n, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        attn = attn + bias
        if shift:
            mask = x.new_zeros((ph, pw))
            part, i = ((0, -n), (-n, -shift), (-shift, None)), 0
            for rows in part:
                for columns in part:
                    mask[rows[0]:rows[1], columns[0]:columns[1]] = i
                    i += 1
            mask = mask.view(ph // n, n, pw // n, n).permute(0, 2, 1, 3).reshape(count, n * n)
            mask = mask.unsqueeze(1) - mask.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))
            attn = attn.view(x.size(0) // count, count, self.heads, x.size(1), x.size(1))
            attn = attn + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.heads, x.size(1), x.size(1))
        x = functional.softmax(attn, dim=-1).matmul(v).transpose(1, 2).reshape(x.size(0), x.size(1), c)
        x = functional.dropout(self.proj(x), p=0.1, training=self.training)
        x = x.view(b, ph // n, pw // n, n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(b, ph, pw, c)
        if shift:
            x = torch.roll(x, shifts=(shift, shift), dims=(1, 2))
        return x[:, :h, :w, :].contiguous()

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        x = x + self.attend(self.norm(x), 0)
        x = x + self.attend(self.norm(x), 1)
        x = torch.cat([x[..., 0::2, 0::2, :], x[..., 1::2, 0::2, :], x[..., 0::2, 1::2, :], x[..., 1::2, 1::2, :]], -1)
        return self.reduction(self.norm2(x)).mean((1, 2))


@network(2, 8, 8, 8)
class MaxVit(nn.Module):
    """Windows and grids of an image: swapaxes, einsum, a bias that is looked up."""
    def __init__(self):
        super().__init__()
        self.conv = MbConv(8, 16, act=nn.GELU)
        self.to_qkv, self.merge, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.table = nn.Parameter(torch.randn(49, 2) * 0.1)
        c = torch.flatten(torch.stack(torch.meshgrid([torch.arange(4), torch.arange(4)], indexing="ij")), 1)
        r = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", r[:, :, 0] * 7 + r[:, :, 1])

    def attend(self, x):
        b, g, p, d = x.shape
        q, k, v = torch.chunk(self.to_qkv(self.norm(x)), 3, dim=-1)
        q, k, v = (part.reshape(b, g, p, 2, 4).permute(0, 1, 3, 2, 4) for part in (q, k, v))
        dots = torch.einsum("B G H I D, B G H J D -> B G H I J", q, k * 4 ** -0.5)
        bias = self.table[self.index.view(-1)].view(p, p, -1).permute(2, 0, 1).contiguous()
        dots = functional.softmax(dots + bias.unsqueeze(0), dim=-1)
        out = torch.einsum("B G H I J, B G H J D -> B G H I D", dots, v)
        return self.merge(out.permute(0, 1, 3, 2, 4).reshape(b, g, p, d))

    def split(self, x, p):
        b, c, h, w = x.shape
        return x.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, (h // p) * (w // p), p * p, c)

    def join(self, x, p, h, w):
        b, _, _, c = x.shape
        return x.reshape(b, h // p, w // p, p, p, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)

    def forward(self, x):
        x = self.conv(x)
        b, c, h, w = x.shape
        y = self.split(x, 4)
        x = self.join(y + self.attend(y), 4, h, w)
        y = torch.swapaxes(self.split(x, 2), -2, -3)
        y = torch.swapaxes(y + self.attend(y)[:, :], -2, -3)
        return self.join(y, 2, h, w)


@network(2, 3, 16, 16)
class Fcn(nn.Module):
    """Segmentation: what is small is stretched to the size of the input."""
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(inplace=True), nn.Conv2d(6, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Sequential(nn.Conv2d(8, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(4, 3, 1))

    def forward(self, x):
        return functional.interpolate(self.head(self.backbone(x)), size=x.shape[-2:], mode="bilinear", align_corners=False)


@network(2, 3, 16, 16)
class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 6, 3, padding=2, dilation=2)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 6, 1), nn.ReLU())
        self.last = nn.Conv2d(12, 3, 1)

    def forward(self, x):
        y = functional.relu_(self.a(x))
        p = functional.interpolate(self.pool(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.last(torch.cat([y, p], dim=1))
        return functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=True)


@network(2, 1, 18, 22)
class UNet(nn.Module):
    """Padding of what does not fit, as in the original's code; pixel shuffle."""
    def __init__(self):
        super().__init__()
        self.inc, self.down = nn.Conv2d(1, 4, 3, padding=1), nn.Sequential(nn.MaxPool2d(4), nn.Conv2d(4, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True))
        self.up, self.conv = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=True), nn.Conv2d(12, 4, 3, padding=1)
        self.turn = nn.ConvTranspose2d(4, 4, 2, stride=2)

    def forward(self, x):
        x1 = functional.leaky_relu(self.inc(x), 0.1, inplace=True)
        x2 = self.up(functional.elu(self.down(x1)))
        dy, dx = x1.size()[2] - x2.size()[2], x1.size()[3] - x2.size()[3]
        x2 = functional.pad(x2, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.turn(self.conv(torch.cat([x1, x2], dim=1)))


@network(2, 3, 9, 7)
class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 5, padding=2), nn.Conv2d(8, 12, 3, padding=1)
        self.shuffle, self.act = nn.PixelShuffle(2), nn.PReLU(8)

    def forward(self, x):
        y = self.shuffle(self.b(self.act(self.a(x))))
        up = functional.interpolate(x, scale_factor=2, mode="nearest")
        cubic = functional.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return torch.clamp(y + up + cubic, 0.0, 1.0)


@network(2, 3, 8, 8)
class Discriminator(nn.Module):
    """Reflected borders, pixels put into channels, a softplus."""
    def __init__(self):
        super().__init__()
        self.pad, self.conv = nn.ReflectionPad2d(1), nn.Conv2d(12, 5, 3)
        self.edge = nn.ReplicationPad2d((1, 0, 2, 1))

    def forward(self, x):
        y = self.conv(self.pad(functional.pixel_unshuffle(x, 2)))
        return functional.softplus(self.edge(functional.instance_norm(y))).amax(dim=(2, 3))


@network(2, 3, 16, 16)
class DetectionHead(nn.Module):
    """YOLO's: grids of cells, strides, boxes from distances; two scales joined."""
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 18, 3, 2, 1), nn.Conv2d(18, 18, 3, 2, 1)
        self.register_buffer("project", torch.arange(4, dtype=torch.float))

    def forward(self, x):
        a = functional.silu(self.a(x))
        b = self.b(a)
        made = []
        for y, stride in ((a, 2), (b, 4)):
            n, _, h, w = y.shape
            rows, columns = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            points = torch.stack((columns, rows), -1).view(-1, 2)
            y = y.view(n, 18, h * w)
            box, score = y.split((16, 2), 1)
            box = box.permute(0, 2, 1).view(n, h * w, 4, 4).softmax(3).matmul(self.project)
            lt, rb = box.chunk(2, -1)
            x1y1, x2y2 = points - lt, points + rb
            made.append(torch.cat(((x1y1 + x2y2) / 2, x2y2 - x1y1, score.permute(0, 2, 1).sigmoid() / stride), -1) * stride)
        return torch.cat(made, 1)


@network(2, 4, 6, 6)
class Detr(nn.Module):
    """Queries that attend to an image; positions from cumulative sums."""
    def __init__(self):
        super().__init__()
        self.queries, self.attention = nn.Embedding(5, 8), nn.MultiheadAttention(8, 2)
        self.proj, self.box = nn.Conv2d(4, 8, 1), nn.Linear(8, 4)

    def forward(self, x):
        y = self.proj(x)
        n = y.shape[0]
        ones = torch.ones(n, 6, 6)
        rows = ones.cumsum(1, dtype=torch.float32)
        t = torch.arange(4, dtype=torch.float32)
        t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / 4)
        p = rows[:, :, :, None] / t
        p = torch.stack((p[..., 0::2].sin(), p[..., 1::2].cos()), dim=4).flatten(3)
        p = torch.cat((p, p), dim=3).permute(0, 3, 1, 2)
        memory = (y + p).flatten(2).permute(2, 0, 1)
        q = self.queries.weight.unsqueeze(1).repeat(1, n, 1)
        out = self.attention(q, memory, memory)[0].transpose(0, 1)
        return self.box(out).sigmoid()


@network(2, 3, 8, 8)
class MlpMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 6, 4, 4)
        self.tokens, self.channels = nn.Linear(4, 4), nn.Sequential(nn.Linear(6, 12), nn.Mish(), nn.Linear(12, 6))
        self.norm = nn.LayerNorm(6, elementwise_affine=False)

    def forward(self, x):
        x = self.patch(x).flatten(2).movedim(1, 2)
        x = x + self.tokens(self.norm(x).mT).mT
        return (x + self.channels(self.norm(x))).mean(dim=1)


@network(2, 3, 10, 10)
class Inception(nn.Module):
    """Branches, pools with ceil mode, input as torchvision transforms it."""
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 2, 1), nn.Conv2d(3, 3, (1, 3), padding=(0, 1)), nn.Conv2d(3, 2, 3, padding="same")

    def forward(self, x):
        x0 = torch.unsqueeze(x[:, 0], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
        x = torch.cat((x0, x[:, 1:]), 1)
        pool = functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
        y = torch.cat([functional.relu(f(x), inplace=True) for f in (self.a, self.b, self.c)] + [pool], 1)
        return functional.max_pool2d(y, 3, 2, ceil_mode=True).std((2, 3))


@network(2, 4, 8, 8)
class Normaliser(nn.Module):
    """Statistics by hand."""
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 1, 1))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        y = self.weight * (x - u) / torch.sqrt(s + 1e-6)
        v, m = torch.var_mean(x, dim=(2, 3), keepdim=True, unbiased=False)
        y = y + (x - m) / (v + 1e-5).sqrt() + functional.normalize(x, dim=1)
        gx = torch.norm(x, p=2, dim=(2, 3), keepdim=True)
        return y + gx / (gx.mean(dim=1, keepdim=True) + 1e-6) + torch.linalg.vector_norm(x, dim=1, keepdim=True)


# --- tables and others ------------------------------------------------------------------------

@network(4, 7)
class Tabular(nn.Module):
    """Columns that are categories, embedded; a residual network; swapped and selected columns."""
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(5, 3), nn.Embedding(4, 2)])
        self.norm, self.hidden, self.out = nn.BatchNorm1d(5), nn.Linear(10, 16), nn.Linear(16, 1)

    def forward(self, x):
        ids = x[:, :2].abs().clamp(max=3).long()
        made = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        y = torch.cat(made + [self.norm(x[:, 2:])], 1)
        y = functional.selu(self.hidden(y)) + functional.glu(y.repeat(1, 4)[:, :32], dim=1)
        return self.out(y).squeeze(-1).sigmoid().unsqueeze(1) + x.index_select(1, torch.tensor([1, 0])).flip(1)


@network(4, 10)
class VariationalEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.mu, self.logvar, self.d = nn.Linear(10, 8), nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(3, 10)

    def forward(self, x):
        h = functional.leaky_relu_(self.a(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * 0.1
        return torch.tanh(self.d(z)) + torch.logsumexp(h, 1, keepdim=True) + torch.expm1(mu.sum(-1, True) * 0.1)


@network(4, 6)
class Mixture(nn.Module):
    """Experts and a gate: topk, scatter, gather, sort."""
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 6, 5))

    def forward(self, x):
        logits = self.gate(x)
        values, index = logits.topk(2, dim=-1)
        weights = torch.zeros_like(logits).scatter(1, index, values.softmax(-1))
        y = torch.einsum("bi,eio->beo", x, self.experts)
        best = y.gather(1, index[:, :1, None].expand(-1, -1, 5)).squeeze(1)
        return (y * weights.unsqueeze(-1)).sum(1) + best + logits.max(dim=1)[0][:, None] + logits.sort(1)[0].cumsum(1)[:, -1:]


@network(4, 9)
class KolmogorovArnold(nn.Module):
    """Splines of positions on a grid."""
    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 5))
        self.weight = nn.Parameter(torch.randn(9, 5, 3))

    def forward(self, x):
        basis = torch.exp(-((x[..., None] - self.grid) / 0.5) ** 2)
        y = torch.tensordot(basis, self.weight, dims=([1, 2], [0, 1]))
        return y + torch.addmm(y, x, self.weight[:, 0], beta=0.5, alpha=2.0) + functional.hardtanh(x.prod(-1, keepdim=True))


@network(2, 6, 4)
class GraphNetwork(nn.Module):
    """Messages over edges: rows picked, and added by index."""
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]]))
        self.message = nn.Linear(8, 4)

    def forward(self, x):
        a, b = x[:, self.edges[0]], x[:, self.edges[1]]
        m = torch.relu(self.message(torch.cat([a, b], -1)))
        return torch.zeros_like(x).index_add(1, self.edges[1], m) + x


@network(2, 5, 6)
class Written(nn.Module):
    """What is written into parts of a tensor, as much code does."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        y = torch.zeros_like(x)
        y[:, 0] = x[:, 1]
        y[:, 1:] = self.layer(x[:, 1:])
        y[..., ::2].mul_(0.5)
        y.view(x.size(0), -1)[:, 3].fill_(2.0)
        y[:, 2, 3:5] += 1
        z = y.clone()
        z.masked_fill_(z < 0, 0.1)
        return y.add_(z).sub_(1).div_(2)
