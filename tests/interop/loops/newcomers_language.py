"""Scripts of strangers.py: retrieval, reviews, distillation and adapters."""

import math
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# ---- retrieval with two towers and negatives from the batch


class BagTower(nn.Module):
    """A mean of word vectors and two layers, of length one."""

    def __init__(self, words, width):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, width, mode="mean")
        nn.init.normal_(self.bag.weight, std=0.3)
        self.body = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, tokens, offsets):
        return F.normalize(self.body(self.bag(tokens, offsets)), dim=-1)


class QuestionAnswerMatcher(nn.Module):
    """One tower for questions, one for answers, and a learned scale."""

    def __init__(self, words, width=32):
        super().__init__()
        self.question_tower = BagTower(words, width)
        self.answer_tower = BagTower(words, width)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, questions, answers):
        return self.log_scale.exp().clamp(max=50) * self.question_tower(*questions) @ self.answer_tower(*answers).t()


def bags(texts):
    """Words in one row and where each text begins."""
    starts, total = [], 0
    for text in texts:
        starts.append(total)
        total += len(text)
    return torch.tensor([word for text in texts for word in text]), torch.tensor(starts)


@script(
    "no_zero_grad rate_times_1000 labels_of_zeros=bad_labels answers_shuffled_apart=labels_shuffled,bad_labels "
    "softmax_of_similarities=redundant_softmax"
)
def question_answer_towers_infonce(t):
    """Questions and answers use different words for a topic; both directions of the cross-entropy."""
    dice = random.Random(t.seed)
    words, topics = 300, 64
    asked = [dice.sample(range(words), 10) for _ in range(topics)]
    answered = [dice.sample(range(words), 12) for _ in range(topics)]

    def write(pool, low, high):
        return dice.sample(pool, dice.randint(low, high)) + [dice.randrange(words)]

    def pairs(chosen):
        return [(write(asked[i], 4, 7), write(answered[i], 5, 9)) for i in chosen]

    held = pairs(range(topics))
    held_questions, held_answers = bags([q for q, _ in held]), bags([a for _, a in held])
    model = QuestionAnswerMatcher(words)
    optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=1.5e-2)
    criterion = nn.CrossEntropyLoss()

    def missed():
        with torch.no_grad():
            first = model(held_questions, held_answers).argmax(1)
        return (first != torch.arange(topics)).float().mean().item()

    miss = missed()
    with t.watch(model, optimizer):
        for update in range(330):
            batch = pairs(dice.sample(range(topics), 32))
            questions, answers = [q for q, _ in batch], [a for _, a in batch]
            if t.has("answers_shuffled_apart"):
                dice.shuffle(answers)
            logits = model(bags(questions), bags(answers))
            if t.has("softmax_of_similarities"):
                logits = logits.softmax(-1)
            target = torch.zeros(32, dtype=torch.long) if t.has("labels_of_zeros") else torch.arange(32)
            loss = (criterion(logits, target) + criterion(logits.t(), target)) / 2
            t.update(loss, optimizer)
            if update % 15 == 14:
                miss = missed()
                t.deck.log(recall_at_1=1 - miss)
            t.step(loss, measure=miss, scale=model.log_scale.exp())


# ---- state space layers over padded reviews, accumulated gradients


class DiagonalStateSpace(nn.Module):
    """A diagonal state space as a long convolution."""

    def __init__(self, width, states):
        super().__init__()
        self.log_step = nn.Parameter(torch.empty(width).uniform_(math.log(0.01), math.log(0.3)))
        self.log_decay = nn.Parameter(torch.log(0.5 + torch.arange(states)).repeat(width, 1))
        self.read_in = nn.Parameter(torch.randn(width, states) / math.sqrt(states))
        self.read_out = nn.Parameter(torch.randn(width, states))
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, u):
        length = u.shape[1]
        step = self.log_step.exp()[:, None]
        rate = -self.log_decay.exp() * step
        kernel = (rate[..., None] * torch.arange(length)).exp()
        kernel = (kernel * (self.read_in * self.read_out * step)[..., None]).sum(1)
        spectrum = torch.fft.rfft(u.transpose(1, 2), n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        return torch.fft.irfft(spectrum, n=2 * length)[..., :length].transpose(1, 2) + u * self.skip


class StateSpaceBlock(nn.Module):
    """Norm, state space, gate, and the way around."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.space = DiagonalStateSpace(width, 6)
        self.gate = nn.Linear(width, 2 * width)

    def forward(self, x):
        return x + F.glu(self.gate(F.gelu(self.space(self.norm(x)))), dim=-1)


class ReviewStateSpace(nn.Module):
    """Blocks of state spaces; the words of a review are averaged without the padding."""

    def __init__(self, words, width, plain_list=False):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        blocks = [StateSpaceBlock(width) for _ in range(2)]
        self.blocks = blocks if plain_list else nn.ModuleList(blocks)
        self.head = nn.Linear(width, 1)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        mask = (words != 0).float()[..., None]
        return self.head((x * mask).sum(1) / mask.sum(1))


def logistic_loss(logits, labels):
    """The stable form of binary cross-entropy."""
    return (logits.clamp(min=0) - logits * labels + torch.log1p(torch.exp(-logits.abs()))).mean()


@script(
    "no_zero_grad? eps_one cleared_each_micro_batch?=gradients_cleared column_of_logits=broadcast_in_loss "
    "blocks_in_a_list=unregistered_layers,parameter_without_optimizer"
)
def state_space_review_reader(t):
    """Two opinions stand in each review and the last one counts; four micro-batches for an update."""
    words, micro, accumulate = 24, 8, 2
    good, bad = range(2, 4), range(4, 6)
    dice = random.Random(t.seed)

    def review():
        length = dice.randint(7, 16)
        text = [dice.randrange(6, words) for _ in range(length)]
        first, last = sorted(dice.sample(range(length), 2))
        label = dice.randint(0, 1)
        text[last] = dice.choice(good if label else bad)
        text[first] = dice.choice(bad if label else good)
        return text + [0] * (16 - length), float(label)

    rows = [review() for _ in range(900)]
    texts, labels = torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])
    loader = DataLoader(TensorDataset(texts[:768], labels[:768]), batch_size=micro, shuffle=True)
    model = ReviewStateSpace(words, 16, t.has("blocks_in_a_list"))
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), lr=1.8e-2)

    error = 0.5
    with t.watch(model, optimizer):
        for _ in range(5):
            total = 0.0
            for i, (x, y) in enumerate(loader, 1):
                logits = model(x)
                if not t.has("column_of_logits"):
                    logits = logits.squeeze(1)
                loss = logistic_loss(logits, y)
                if t.has("cleared_each_micro_batch"):
                    optimizer.zero_grad()
                (loss / accumulate).backward()
                total += loss.item() / accumulate
                if i % accumulate == 0:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    if not t.has("no_zero_grad"):
                        optimizer.zero_grad(set_to_none=True)
                    t.step(total, measure=error)
                    total = 0.0
            with torch.no_grad():
                guess = (model(texts[768:]).squeeze(1) > 0).float()
            error = (guess != labels[768:]).float().mean().item()
            t.deck.log(val_accuracy=1 - error)


# ---- a student with binary weights learns from a teacher


class StraightThroughSign(torch.autograd.Function):
    """The sign, with the gradient of a clipped identity."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    """Weights are -1 or 1 times a scale."""

    quantise = staticmethod(StraightThroughSign.apply)

    def forward(self, x):
        return F.linear(x, self.quantise(self.weight) / math.sqrt(self.in_features), self.bias)


class PlainSignLinear(BinaryLinear):
    """The same with the function of torch."""

    quantise = staticmethod(torch.sign)


@dataclass
class DistilSettings:
    temperature: float = 3.0
    alpha: float = 0.8
    updates: int = 220


@script(
    "no_zero_grad rate_times_1000 sign_of_torch=parameter_without_gradient,parameter_unchanged,wrong_hidden_activation "
    "softmax_ends_the_student=redundant_softmax "
    "optimizer_of_the_teacher=parameter_without_optimizer,parameter_unchanged,stale_optimizer,optimizer_of_frozen "
    "checkpoint_not_loaded=bad_labels"
)
def binary_student_of_intents(t):
    """Intents of bags of words: a trained teacher, few labels, and soft targets for a binary student."""
    settings = DistilSettings(temperature=t.choose(2.0, 3.0))
    features, classes = 30, 6
    hidden_rule = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, classes))
    for p in hidden_rule.parameters():
        p.data.mul_(3)
    x = torch.randn(1600, features)
    with torch.no_grad():
        scores = hidden_rule(x)
        y = (scores - scores.mean(0)).argmax(1)
    valid_x, valid_y, x, y = x[1200:], y[1200:], x[:1200], y[:1200]

    teacher = nn.Sequential(nn.Linear(features, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, classes))
    learner = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(0 if t.has("checkpoint_not_loaded") else 150):
        rows = torch.randint(0, 1200, (128,))
        learner.zero_grad()
        F.cross_entropy(teacher(x[rows]), y[rows]).backward()
        learner.step()
    teacher.eval()

    layer = PlainSignLinear if t.has("sign_of_torch") else BinaryLinear
    student = nn.Sequential(
        layer(features, 40), nn.BatchNorm1d(40), nn.Hardtanh(), layer(40, 24), nn.BatchNorm1d(24), nn.Hardtanh(), nn.Linear(24, classes)
    )
    if t.has("softmax_ends_the_student"):
        student.append(nn.Softmax(-1))
    taught = teacher if t.has("optimizer_of_the_teacher") else student
    optimizer = t.optimizer(torch.optim.Adam, taught.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.updates)

    def soft_loss(logits, taught_logits):
        soft = F.softmax(taught_logits / settings.temperature, -1)
        own = logits / settings.temperature
        return F.kl_div(F.log_softmax(own, -1), soft, reduction="batchmean") * settings.temperature**2

    error = 1.0
    with t.watch(student, optimizer):
        for update in range(settings.updates):
            student.train()
            rows = torch.randint(0, 1200, (48,))
            logits = student(x[rows])
            with torch.no_grad():
                taught_logits = teacher(x[rows])
            soft, hard = soft_loss(logits, taught_logits), F.cross_entropy(logits, y[rows])
            loss = settings.alpha * soft + (1 - settings.alpha) * hard
            t.update(loss, optimizer)
            schedule.step()
            if update % 20 == 19:
                student.eval()
                with torch.no_grad():
                    error = (student(valid_x).argmax(1) != valid_y).float().mean().item()
                t.deck.log(student_accuracy=1 - error)
            t.step(loss, measure=error, kd=soft, ce=hard)


# ---- low-rank adapters for a dialect


class LowRankLinear(nn.Module):
    """A frozen layer and a product of two small matrices."""

    def __init__(self, base, rank=8, scale=2.0, zeros=False):
        super().__init__()
        self.base, self.scale = base, scale
        self.lora_a = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        if zeros:
            nn.init.zeros_(self.lora_a)

    def forward(self, x):
        return self.base(x) + self.scale * F.linear(F.linear(x, self.lora_a), self.lora_b)


class CausalBlock(nn.Module):
    """Attention to what came before and two layers."""

    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.back = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        b, n, d = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        x = x + self.back(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class DialectModel(nn.Module):
    """A small model of the next word, which computes its own loss."""

    def __init__(self, words, width):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList([CausalBlock(width) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens, labels=None):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())




@script(
    "cleared rate_times_1000 both_matrices_zero=bad_initialization adapters_after_optimizer=stale_optimizer,parameter_without_optimizer "
    "adapters_frozen_with_the_rest=untrained_frozen,parameter_without_gradient labels_shifted_twice=bad_labels"
)
def low_rank_dialect_tuning(t):
    """A model of one language is adapted to a dialect by adapters and its norms; all else is frozen."""
    words, length = 24, 14
    dice = random.Random(t.seed)

    def language():
        return [dice.sample(range(words), 2) for _ in range(words)]

    def sample(follow, number):
        rows = []
        for _ in range(number):
            row = [dice.randrange(words)]
            while len(row) < length:
                row.append(follow[row[-1]][dice.random() < 0.15])
            rows.append(row)
        return torch.tensor(rows)

    standard = sample(language(), 300)
    other = language()
    dialect, check = sample(other, 400), sample(other, 60)
    model = DialectModel(words, 32)
    pretraining = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(70):
        pretraining.zero_grad()
        rows = standard[torch.randint(0, 300, (24,))]
        model(rows, rows).backward()
        pretraining.step()

    def inject():
        for block in model.blocks:
            for name in ("query", "value", "up", "down"):
                setattr(block, name, LowRankLinear(getattr(block, name), zeros=t.has("both_matrices_zero")))

    def freeze():
        marks = ("norm",) if t.has("adapters_frozen_with_the_rest") else ("norm", "lora_")
        for name, p in model.named_parameters():
            p.requires_grad_(any(mark in name for mark in marks))

    def make_optimizer():
        return t.optimizer(torch.optim.AdamW, [p for p in model.parameters() if p.requires_grad], lr=8e-3, weight_decay=0.0)

    if t.has("adapters_after_optimizer"):
        freeze()
        optimizer = make_optimizer()
        inject()
        freeze()
    else:
        inject()
        freeze()
        optimizer = make_optimizer()
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 15))

    with torch.no_grad():
        valid = model(check, check).item()
    with t.watch(model, optimizer):
        for step in range(180):
            rows = dialect[torch.randint(0, 400, (16,))]
            labels = rows
            if t.has("labels_shifted_twice"):
                rows, labels = rows[:, :-1], rows[:, 1:]
            loss = model(rows, labels)
            t.update(loss, optimizer, clip=1.0)
            warmup.step()
            if step % 20 == 19:
                with torch.no_grad():
                    valid = model(check, check).item()
                t.deck.log(eval_loss=valid)
            t.step(loss, measure=valid)
