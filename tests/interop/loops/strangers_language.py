"""Scripts of strangers.py: letters, words, sequences."""

import math

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def chain(count, length, letters=16):
    """Each letter is followed by one of two."""
    following = torch.randint(0, letters, (letters, 2))
    letter, found = torch.randint(0, letters, (count,)), []
    for _ in range(length):
        found.append(letter)
        letter = following[letter, (torch.rand(count) < 0.25).long()]
    return torch.stack(found, 1)


def topics(count, classes, words=120, length=14):
    """Texts of words, of which a half belong to the text's class; 0 is padding."""
    y = torch.randint(0, classes, (count,))
    own = 1 + torch.randint(0, (words - 1) // classes, (count, length)) * classes + y[:, None]
    x = torch.where(torch.rand(count, length) < 0.4, own.clamp(max=words - 1), torch.randint(1, words, (count, length)))
    lengths = torch.randint(5, length + 1, (count,))
    return x.masked_fill(torch.arange(length)[None] >= lengths[:, None], 0), y, lengths


class SelfAttention(nn.Module):
    def __init__(self, d, heads, size, wrong_axis=False):
        super().__init__()
        self.c_attn, self.c_proj, self.heads, self.wrong_axis = nn.Linear(d, 3 * d), nn.Linear(d, d), heads, wrong_axis
        self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def forward(self, x):
        b, n, d = x.size()
        q, k, v = (part.view(b, n, self.heads, d // self.heads).transpose(1, 2) for part in self.c_attn(x).split(d, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :n, :n] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, n, d))


class GPT(nn.Module):
    def __init__(self, words=16, size=12, d=32, tied=False, in_list=False):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(size, d)
        blocks = [nn.ModuleDict({"ln_1": nn.LayerNorm(d), "attn": SelfAttention(d, 4, size), "ln_2": nn.LayerNorm(d),
                                 "mlp": nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))}) for _ in range(2)]
        self.h = blocks if in_list else nn.ModuleList(blocks)
        self.ln_f, self.lm_head = nn.LayerNorm(d), nn.Linear(d, words, bias=False)
        self.apply(self._init)
        if tied:
            self.lm_head.weight = self.wte.weight

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1))[None])
        for block in self.h:
            x = x + block["attn"](block["ln_1"](x))
            x = x + block["mlp"](block["ln_2"](x))
        logits = self.lm_head(self.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1) if targets is not None else None
        return logits, loss


@script("no_zero_grad cleared rate_times_1000 rate_through_1000 blocks_in_a_list=unregistered_layers weight_decay_one tie_broken=broken_weight_tying targets_are_random=bad_labels,labels_shuffled")
def min_gpt(t):
    """Groups with and without weight decay, clipping, cosine schedule with warm-up set by hand."""
    text = chain(400, 13)
    model = GPT(tied=t.choose(True, False) or t.has("tie_broken"), in_list=t.has("blocks_in_a_list"))
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    times = {"rate_times_1000": 1000, "rate_through_1000": 1e-3}.get(t.mistake, 1)
    rate = 3e-3 * times
    if t.has("tie_broken"):
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
        decay.append(model.lm_head.weight)
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 1.0 if t.has("weight_decay_one") else 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=rate, betas=(0.9, 0.95), eps=1e-8)
    with t.watch(model, optimizer):
        for step in range(140):
            share = (step + 1) / 20 if step < 20 else 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - 20) / 120))
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            x = text[torch.randint(0, 400, (24,))]
            y = torch.randint(0, 16, (24, 12)) if t.has("targets_are_random") else x[:, 1:]
            _, loss = model(x[:, :-1], y)
            t.update(loss, optimizer, clip=1.0)
            t.step(loss)


@script("no_zero_grad huge_weights?=bad_initialization,learning_rate_too_high,missing_normalization rate_times_100? rate_through_1000 constant_weights=bad_initialization")
def makemore_mlp(t):
    """Parameters by hand, updates by hand: no optimizer."""
    words = chain(500, 9)
    x, y = words.unfold(1, 4, 1)[:, :, :3].reshape(-1, 3), words[:, 3:].reshape(-1)

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.C = nn.Parameter(torch.randn(16, 8))
            self.W1, self.b1 = nn.Parameter(torch.randn(24, 64) * (5 / 3) / 24**0.5), nn.Parameter(torch.zeros(64))
            self.W2, self.b2 = nn.Parameter(torch.randn(64, 16) * 0.01), nn.Parameter(torch.zeros(16))

        def forward(self, x):
            h = torch.tanh(self.C[x].view(x.shape[0], -1) @ self.W1 + self.b1)
            return h @ self.W2 + self.b2

    model = MLP()
    if t.has("huge_weights"):
        with torch.no_grad():
            model.W1.normal_(0, 5)
            model.W2.normal_(0, 5)
    if t.has("constant_weights"):
        with torch.no_grad():
            model.W1.fill_(0.05)
            model.W2.fill_(0.05)
    optimizer = t.optimizer(torch.optim.SGD, model.parameters(), 0.2)
    by_hand = not t.mistake and t.choose(True, False)
    with t.watch(model, None if by_hand else optimizer):
        for step in range(250):
            i = torch.randint(0, len(x), (32,))
            loss = F.cross_entropy(model(x[i]), y[i])
            if by_hand:
                for p in model.parameters():
                    p.grad = None
                loss.backward()
                for p in model.parameters():
                    p.data += -0.2 * p.grad
            else:
                t.update(loss, optimizer)
            t.step(loss)


@script("no_zero_grad cleared targets_shifted_wrongly=bad_labels,labels_shuffled rate_times_1000 rate_through_1000 head_without_gradient=parameter_without_gradient,untrained_frozen@decoder same_batch_again=repeated_batch")
def char_rnn(t):
    """Truncated back-propagation: the state is carried on, detached."""
    text = chain(16, 241)

    class CharRNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.rnn, self.decoder = nn.Embedding(16, 24), nn.LSTM(24, 40, 2, dropout=0.1, batch_first=True), nn.Linear(40, 16)

        def forward(self, x, state=None):
            out, state = self.rnn(self.embedding(x), state)
            return self.decoder(out), state

    model = CharRNN()
    if t.has("head_without_gradient"):
        model.decoder.requires_grad_(False)
    optimizer = t.optimizer(torch.optim.Adam, model.parameters(), 5e-3)
    criterion = nn.CrossEntropyLoss()
    with t.watch(model, optimizer):
        for epoch in range(6):
            state = None
            for start in range(0, 240, 12):
                start = 0 if t.has("same_batch_again") else start
                x, y = text[:, start : start + 12], text[:, start + 1 : start + 13]
                if t.has("targets_shifted_wrongly"):
                    y = text[torch.randperm(16), start + 1 : start + 13]
                if state is not None:
                    state = tuple(part.detach() for part in state)
                if t.has("same_batch_again"):
                    state = None
                out, state = model(x, state)
                loss = criterion(out.reshape(-1, 16), y.reshape(-1))
                t.update(loss, optimizer, clip=5.0)
                t.step(loss)


@script("no_zero_grad encoder_left_out=parameter_without_optimizer,stale_optimizer@encoder softmax_in_decoder=redundant_softmax rate_times_1000 cleared encoder_state_detached=parameter_without_gradient")
def seq2seq_with_two_optimizers(t):
    """Encoder and decoder of their own, teacher forcing by chance, a loop over time."""
    source = torch.randint(2, 12, (320, 5))
    target = source.flip(1)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.gru = nn.Embedding(12, 24), nn.GRU(24, 32, batch_first=True)

        def forward(self, x):
            return self.gru(self.embedding(x))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.gru, self.out = nn.Embedding(12, 24), nn.GRUCell(24, 32), nn.Linear(32, 12)

        def forward(self, x, h):
            h = self.gru(self.embedding(x), h)
            out = self.out(h)
            return (F.softmax(out, dim=1) if t.has("softmax_in_decoder") else out), h

    encoder, decoder = Encoder(), Decoder()
    both = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    e_opt = t.optimizer(torch.optim.Adam, (decoder if t.has("encoder_left_out") else encoder).parameters(), 5e-3)
    d_opt = t.optimizer(torch.optim.Adam, decoder.parameters(), 5e-3)
    criterion = nn.CrossEntropyLoss()
    with t.watch(both, [d_opt] if t.has("encoder_left_out") else [e_opt, d_opt]):
        for epoch in range(12):
            for i in torch.randperm(320).split(32):
                if not t.has("no_zero_grad"):
                    e_opt.zero_grad()
                    d_opt.zero_grad()
                _, h = encoder(source[i])
                h = h[0].detach() if t.has("encoder_state_detached") else h[0]
                token, loss = torch.zeros(len(i), dtype=torch.long), 0
                forced = torch.rand(()) < 0.7
                for step in range(5):
                    out, h = decoder(token, h)
                    loss = loss + criterion(out, target[i, step])
                    token = target[i, step] if forced else out.argmax(1).detach()
                loss.backward()
                if t.has("cleared"):
                    e_opt.zero_grad()
                    d_opt.zero_grad()
                e_opt.step()
                d_opt.step()
                t.step(loss / 5)


@script("no_zero_grad tags_of_other_sentences=bad_labels,labels_shuffled softmax_before_loss=redundant_softmax rate_times_1000 rate_through_1000 crf_like_head_left_out=parameter_without_optimizer@tags")
def bilstm_tagger(t):
    """Packed sequences, padding that the loss ignores."""
    x, _, lengths = topics(360, 3, 60, 10)
    tag = torch.where(x > 0, (x + x.roll(1, 1)) % 4, torch.tensor(-100))
    if t.has("tags_of_other_sentences"):
        tag = torch.where(x > 0, torch.randint(0, 4, x.shape), torch.tensor(-100))

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm = nn.Embedding(60, 24, padding_idx=0), nn.LSTM(24, 24, bidirectional=True, batch_first=True)
            self.drop, self.tags = nn.Dropout(0.1), nn.Linear(48, 4)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(self.words(x), lengths, batch_first=True, enforce_sorted=False)
            out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
            return self.tags(self.drop(out))

    model = Tagger()
    parameters = [p for name, p in model.named_parameters() if not (t.has("crf_like_head_left_out") and name.startswith("tags"))]
    optimizer = t.optimizer(torch.optim.Adam, parameters, 5e-3)
    with t.watch(model, optimizer):
        for epoch in range(14):
            for i in torch.randperm(360).split(36):
                scores = model(x[i], lengths[i])
                if t.has("softmax_before_loss"):
                    scores = scores.softmax(-1)
                loss = F.cross_entropy(scores.transpose(1, 2), tag[i], ignore_index=-100)
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad logits_not_log_softmax=missing_output_activation rate_times_1000 rate_through_1000 detached_loss")
def speech_with_ctc(t):
    n = 240
    y = torch.randint(1, 6, (n, 4))
    sounds = torch.randn(6, 8)
    x = sounds[torch.repeat_interleave(y, 4, 1)] + 0.3 * torch.randn(n, 16, 8)

    class Speech(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.rnn, self.fc = nn.Conv1d(8, 24, 3, padding=1), nn.GRU(24, 24, bidirectional=True, batch_first=True), nn.Linear(48, 6)

        def forward(self, x):
            h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
            out = self.fc(self.rnn(h)[0])
            return out if t.has("logits_not_log_softmax") else out.log_softmax(-1)

    model = Speech()
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), 5e-3)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)
    with t.watch(model, optimizer):
        for epoch in range(10):
            for i in torch.randperm(n).split(20):
                log_probs = model(x[i]).transpose(0, 1)
                loss = ctc(log_probs, y[i], torch.full((len(i),), 16), torch.full((len(i),), 4))
                t.update(loss, optimizer, clip=5.0)
                t.step(loss)


class Output(dict):
    __getattr__ = dict.__getitem__


@script("no_zero_grad cleared rate_times_1000 rate_through_1000 gradients_off_in_encoder=parameter_without_gradient in_evaluation_mode=evaluation_mode scheduler_first=scheduler_before_optimizer")
def masked_language_model(t):
    """As Hugging Face's models: a dict of arguments in, an output with a loss; linear warm-up, -100 for what is not asked."""
    text = chain(360, 12) + 1

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings, self.position = nn.Embedding(18, 32), nn.Embedding(12, 32)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True), 2, enable_nested_tensor=False)
            self.transform, self.norm, self.decoder = nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 18)
            self.decoder.weight = self.embeddings.weight
            nn.init.normal_(self.embeddings.weight, std=0.1)

        def forward(self, input_ids=None, attention_mask=None, labels=None):
            h = self.embeddings(input_ids) + self.position.weight
            with torch.set_grad_enabled(torch.is_grad_enabled() and not t.has("gradients_off_in_encoder")):
                h = self.encoder(h, src_key_padding_mask=attention_mask == 0)
            logits = self.decoder(self.norm(F.gelu(self.transform(h))))
            return Output(loss=F.cross_entropy(logits.view(-1, 18), labels.view(-1)), logits=logits)

    model = Bert()
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), 3e-3, weight_decay=0.01)
    steps = 12 * 15
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(s / 18, (steps - s) / (steps - 18)))
    model.train(not t.has("in_evaluation_mode"))
    with t.watch(model, optimizer):
        for epoch in range(15):
            for i in torch.randperm(360).split(30):
                hidden = torch.rand(len(i), 12) < 0.25
                batch = {"input_ids": text[i].masked_fill(hidden, 17), "attention_mask": torch.ones(len(i), 12),
                         "labels": text[i].masked_fill(~hidden, -100)}
                if t.has("scheduler_first"):
                    schedule.step()
                out = model(**batch)
                t.update(out.loss, optimizer, clip=1.0)
                if not t.has("scheduler_first"):
                    schedule.step()
                t.step(out.loss)


@script("no_zero_grad softmax_in_model=redundant_softmax labels_shuffled=bad_labels,labels_shuffled rate_times_1000 dropout_of_95=dropout_too_high,constant_output dropout_always=dropout_in_evaluation convolutions_in_a_list=unregistered_layers")
def text_cnn(t):
    """Kim's convolutions over words."""
    x, y, _ = topics(480, 4)
    if t.has("labels_shuffled"):
        y = y[torch.randperm(480)]

    class TextCNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(120, 24, padding_idx=0)
            convs = [nn.Conv2d(1, 16, (k, 24)) for k in (2, 3, 4)]
            self.convs = convs if t.has("convolutions_in_a_list") else nn.ModuleList(convs)
            self.dropout, self.fc = nn.Dropout(0.95 if t.has("dropout_of_95") else 0.3), nn.Linear(48, 4)

        def forward(self, x):
            x = self.embed(x).unsqueeze(1)
            x = torch.cat([F.relu(conv(x)).squeeze(3).max(2).values for conv in self.convs], 1)
            x = F.dropout(x, 0.3) if t.has("dropout_always") else self.dropout(x)
            x = self.fc(x)
            return F.softmax(x, 1) if t.has("softmax_in_model") else x

    model = TextCNN()
    optimizer = t.optimizer(torch.optim.Adam, model.parameters(), 3e-3)
    with t.watch(model, optimizer) as deck:
        for epoch in range(8):
            model.train()
            for i in torch.randperm(400).split(25):
                loss = F.cross_entropy(model(x[i]), y[i])
                t.update(loss, optimizer)
                t.step(loss)
            model.eval()
            with torch.no_grad():
                out = model(x[400:])
                deck.log(val_loss=float(F.cross_entropy(out, y[400:])), val_accuracy=float((out.argmax(1) == y[400:]).float().mean()))


@script("no_zero_grad cleared rate_times_1000 pairs_mixed_up=bad_labels,labels_shuffled one_tower_forgotten=parameter_without_optimizer@b scores_through_softmax=redundant_softmax")
def two_towers(t):
    """Questions and answers in one space, the others of the batch are the negatives; a temperature that is learnt."""
    topic = torch.randint(0, 20, (400,))
    a = torch.randn(20, 16)[topic] + 0.3 * torch.randn(400, 16)
    b = torch.randn(20, 12)[topic] + 0.3 * torch.randn(400, 12)

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
            self.b = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 16))
            self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.2)))

        def forward(self, a, b):
            return self.scale.exp() * F.normalize(self.a(a), dim=-1) @ F.normalize(self.b(b), dim=-1).T

    model = Towers()
    parameters = [p for name, p in model.named_parameters() if not (t.has("one_tower_forgotten") and name.startswith("b"))]
    optimizer = t.optimizer(torch.optim.Adam, parameters, 2e-3)
    with t.watch(model, optimizer):
        for epoch in range(12):
            for i in torch.randperm(400).split(25):
                other = b[i][torch.randperm(len(i))] if t.has("pairs_mixed_up") else b[i]
                logits = model(a[i], other)
                if t.has("scores_through_softmax"):
                    logits = logits.softmax(1)
                target = torch.arange(len(i))
                loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad strong_clipping rate_times_1000 detached_loss generator_softmax=missing_output_activation,redundant_softmax,wrong_output_activation cleared rate_through_1000")
def annotated_transformer(t):
    """nn.Transformer for translation, masks, KL with smoothed labels, the schedule of the paper."""
    source = torch.randint(3, 13, (320, 6))
    target = torch.cat([torch.ones(320, 1, dtype=torch.long), 15 - source], 1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.src, self.tgt = nn.Embedding(14, 32), nn.Embedding(14, 32)
            self.pos = nn.Parameter(0.1 * torch.randn(1, 8, 32))
            self.core = nn.Transformer(32, 4, 1, 1, 64, 0.1, batch_first=True)
            self.generator = nn.Linear(32, 14)

        def forward(self, s, y):
            mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
            h = self.core(self.src(s) * 32**0.5 + self.pos[:, : s.shape[1]], self.tgt(y) * 32**0.5 + self.pos[:, : y.shape[1]], tgt_mask=mask)
            out = self.generator(h)
            return out.softmax(-1) if t.has("generator_softmax") else out.log_softmax(-1)

    net = Net()
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 1.0 * 0.2, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 32**-0.5 * min((s + 1) ** -0.5, (s + 1) * 40**-1.5))
    with t.watch(net, optimizer):
        for epoch in range(14):
            for i in torch.randperm(320).split(32):
                out = net(source[i], target[i, :-1]).reshape(-1, 14)
                y = target[i, 1:].reshape(-1)
                smooth = torch.full_like(out, 0.1 / 13).scatter_(1, y[:, None], 0.9)
                loss = F.kl_div(out, smooth, reduction="batchmean")
                t.update(loss, optimizer)
                schedule.step()
                t.step(loss)


@script("no_zero_grad rate_times_1000 rate_through_1000 relu_on_scores=wrong_output_activation targets_of_others=bad_labels,labels_shuffled broadcast=broadcast_in_loss detached_loss")
def adding_problem(t):
    """Two marked numbers of a sequence are added; a plain recurrence by hand over time."""
    value, mark = torch.rand(480, 12), torch.zeros(480, 12)
    for row in mark:
        row[torch.randperm(12)[:2]] = 1
    x, y = torch.stack([value, mark], 2), (value * mark).sum(1)
    if t.has("targets_of_others"):
        y = y[torch.randperm(480)]
    elif t.has("relu_on_scores"):
        y = y - 1.0

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.GRUCell(2, 32), nn.Linear(32, 1)

        def forward(self, x):
            h = x.new_zeros(len(x), 32)
            for step in range(x.shape[1]):
                h = self.cell(x[:, step], h)
            out = self.out(h)
            return F.relu(out) if t.has("relu_on_scores") else out

    net = Net()
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 5e-3)
    with t.watch(net, optimizer):
        for epoch in range(14):
            for i in torch.randperm(480).split(32):
                out = net(x[i])
                loss = F.mse_loss(out if t.has("broadcast") else out[:, 0], y[i])
                t.update(loss, optimizer, clip=1.0)
                t.step(loss)
