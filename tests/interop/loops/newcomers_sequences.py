"""Scripts of strangers.py: language models, entities, strips and translation."""

import math
import random

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

# ---- a language model of an LSTM, truncated back-propagation through time, SGD with annealing


class BabbleRNN(nn.Module):
    """Embedding, LSTM and a decoder over the words."""

    def __init__(self, words, width, hidden, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, hidden)
        self.decoder = nn.Linear(hidden, words)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, state):
        output, state = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(output)).flatten(0, 1), state

    def blank_state(self, columns):
        weight = next(self.parameters())
        return tuple(weight.new_zeros(1, columns, self.rnn.hidden_size) for _ in range(2))


def babble_corpus(seed, words, length):
    """Text of a sparse chain: three words may follow each word."""
    dice = random.Random(seed)
    follow = [dice.sample(range(words), 3) for _ in range(words)]
    text, word = [], 0
    for _ in range(length):
        word = dice.choices(follow[word], (7, 2, 1))[0]
        text.append(word)
    return torch.tensor(text)


@script(
    "rate_times_100 half_of_the_parameters strong_clipping columns_mixed=bad_labels,labels_shuffled "
    "targets_are_inputs=data_leak,bad_labels annealed_every_chunk=learning_rate_too_low,scheduler_per_batch"
)
def lstm_babble_model_with_carried_state(t):
    """A word model in chunks of 15 words; the rate is quartered where validation does not improve."""
    words, columns, bptt = 40, t.choose(16, 20), 15
    corpus = babble_corpus(t.seed, words, 11000)

    def batchify(data, number):
        rows = len(data) // number
        data = data[: rows * number]
        if t.has("columns_mixed"):
            return data.view(rows, number).contiguous()
        return data.view(number, rows).t().contiguous()

    def get_batch(source, start):
        n = min(bptt, len(source) - 1 - start)
        shift = 0 if t.has("targets_are_inputs") else 1
        return source[start : start + n], source[start + shift : start + shift + n].reshape(-1)

    train_data, valid_data = batchify(corpus[:10000], columns), batchify(corpus[10000:], 10)
    model = BabbleRNN(words, 32, 64, 0.2)
    optimizer = t.optimizer(torch.optim.SGD, model.parameters(), lr=8.0)

    def evaluate():
        model.eval()
        total, state = 0.0, model.blank_state(10)
        with torch.no_grad():
            for i in range(0, len(valid_data) - 1, bptt):
                x, y = get_batch(valid_data, i)
                output, state = model(x, state)
                total += len(x) * F.cross_entropy(output, y).item()
        return total / (len(valid_data) - 1)

    best = None
    with t.watch(model, optimizer):
        for _ in range(6):
            model.train()
            state = model.blank_state(columns)
            for i in range(0, len(train_data) - 1, bptt):
                x, y = get_batch(train_data, i)
                state = tuple(part.detach() for part in state)
                output, state = model(x, state)
                loss = F.cross_entropy(output, y)
                t.update(loss, optimizer, clip=0.25)
                t.step(loss, perplexity=math.exp(min(loss.item(), 50)))
                if t.has("annealed_every_chunk"):
                    for group in optimizer.param_groups:
                        group["lr"] *= 0.85
            valid_loss = evaluate()
            t.deck.log(valid_loss=valid_loss)
            if best is None or valid_loss < best:
                best = valid_loss
            else:
                for group in optimizer.param_groups:
                    group["lr"] /= 4


# ---- named entities: packed bidirectional LSTM with a hand-written conditional random field

TAGS = ("O", "PER", "LOC", "ORG", "MISC")


class Sentences(Dataset):
    """Words and the names of their tags."""

    def __init__(self, pairs, tag_index):
        self.pairs, self.tag_index = pairs, tag_index

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        words, tags = self.pairs[i]
        return {"words": torch.tensor(words), "tags": torch.tensor([self.tag_index[tag] for tag in tags])}


class EntityTagger(nn.Module):
    """Scores of the words from an LSTM, scores of pairs of tags in a matrix."""

    def __init__(self, words, tags):
        super().__init__()
        self.embedding = nn.Embedding(words, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 20, batch_first=True, bidirectional=True)
        self.emissions = nn.Linear(40, tags)
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))

    def scores(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        return self.emissions(pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0])

    def forward(self, words, lengths, tags, mask):
        scores = self.scores(words, lengths)
        gold = scores.gather(2, tags[..., None])[..., 0]
        gold = (gold * mask).sum(1) + (self.transitions[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
        alpha = scores[:, 0]
        for i in range(1, scores.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + self.transitions, 1) + scores[:, i]
            alpha = torch.where(mask[:, i, None] > 0, following, alpha)
        return (torch.logsumexp(alpha, 1) - gold).mean()

    @torch.no_grad()
    def decode(self, words, lengths):
        found = []
        for scores, length in zip(self.scores(words, lengths), lengths.tolist()):
            best, back = scores[0], []
            for i in range(1, length):
                best, origin = (best[:, None] + self.transitions).max(0)
                best = best + scores[i]
                back.append(origin)
            path = [int(best.argmax())]
            for origin in reversed(back):
                path.append(int(origin[path[-1]]))
            found.append(path[::-1])
        return found


@script(
    "cleared rate_times_100 words_sorted_without_tags=labels_shuffled,bad_labels "
    "vectors_put_in_late=stale_optimizer,parameter_without_optimizer@embedding validation_tag_order=bad_labels,labels_shuffled"
)
def packed_entity_tagger_with_crf(t):
    """Sentences of different lengths are sorted and packed; the likelihood of a path of tags is the loss."""
    dice = random.Random(t.seed)
    vocabulary = 90
    kind = [dice.choice(TAGS[:4]) for _ in range(vocabulary)]

    def sentence():
        words = [dice.randrange(1, vocabulary) for _ in range(dice.randint(3, 11))]
        tags = [kind[word] for word in words]
        for i in range(1, len(words)):
            if words[i - 1] % 6 == 0:
                tags[i] = "MISC"
        return words, tags

    train_pairs, valid_pairs = [sentence() for _ in range(480)], [sentence() for _ in range(48)]
    tag_index = {tag: i for i, tag in enumerate(TAGS)}
    valid_index = tag_index
    if t.has("validation_tag_order"):
        valid_index = {tag: i for i, tag in enumerate(sorted(tag_index))}

    def collate(rows):
        tags = [row["tags"] for row in rows]
        rows = sorted(rows, key=lambda row: -len(row["words"]))
        if not t.has("words_sorted_without_tags"):
            tags = [row["tags"] for row in rows]
        lengths = torch.tensor([len(row["words"]) for row in rows])
        mask = torch.arange(int(lengths[0]))[None] < lengths[:, None]
        return {
            "words": pad_sequence([row["words"] for row in rows], batch_first=True),
            "tags": pad_sequence(tags, batch_first=True),
            "lengths": lengths,
            "mask": mask.float(),
        }

    loader = DataLoader(Sentences(train_pairs, tag_index), batch_size=16, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(Sentences(valid_pairs, valid_index), batch_size=48, collate_fn=collate)
    model = EntityTagger(vocabulary, len(TAGS))
    vectors = torch.randn(vocabulary, 8) * 0.15
    if t.has("vectors_put_in_late"):
        optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=1e-2)
        model.embedding = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0)
    else:
        model.embedding = nn.Embedding.from_pretrained(vectors, freeze=False, padding_idx=0)
        optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=1e-2)

    def wrong_tags():
        wrong = total = 0
        for batch in valid_loader:
            for path, tags in zip(model.decode(batch["words"], batch["lengths"]), batch["tags"]):
                wrong += sum(a != int(b) for a, b in zip(path, tags))
                total += len(path)
        return wrong / total

    error = 1.0
    with t.watch(model, optimizer):
        for _ in range(6):
            for batch in loader:
                loss = model(batch["words"], batch["lengths"], batch["tags"], batch["mask"])
                t.update(loss, optimizer)
                t.step(loss, measure=error)
            error = wrong_tags()
            t.deck.log(val_token_error=error)


# ---- connectionist temporal classification of strips


class StripReader(nn.Module):
    """Convolution, recurrent layer, classes of each frame (0 is blank)."""

    def __init__(self, features, symbols):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(features, 32, 3, padding=1), nn.ReLU())
        self.rnn = nn.GRU(32, 24, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(48, symbols + 1)

    def forward(self, strips):
        return self.classes(self.rnn(self.front(strips.transpose(1, 2)).transpose(1, 2))[0])


@script(
    "detached_loss rate_through_1000 symbols_begin_at_blank=labels_out_of_range,bad_labels "
    "plain_probabilities=missing_output_activation,wrong_output_activation,wrong_loss frames_reshaped=bad_labels,labels_shuffled"
)
def ctc_reader_of_noisy_strips(t):
    """Sequences of symbols without positions; error of a greedy reading every ten updates."""
    symbols, features, frames = 5, 8, 22
    dice = random.Random(t.seed)
    shapes = torch.randn(symbols + 1, features) * 1.5
    shapes[0] = 0

    def strip():
        reading = [dice.randint(1, symbols) for _ in range(dice.randint(3, 5))]
        order = []
        for symbol in reading:
            order += [symbol] * dice.randint(2, 3) + [0] * dice.randint(0, 1) + [0]
        picture = torch.zeros(frames, features)
        picture[: min(len(order), frames)] = shapes[torch.tensor(order[:frames])]
        return picture + 0.4 * torch.randn(frames, features), reading, min(len(order), frames)

    train_set, held_set = [strip() for _ in range(320)], [strip() for _ in range(40)]
    model = StripReader(features, symbols)
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), lr=6e-3, weight_decay=1e-3)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True)
    held = torch.stack([picture for picture, _, _ in held_set])

    def misread():
        model.eval()
        with torch.no_grad():
            best = model(held).argmax(2).tolist()
        model.train()
        wrong = 0
        for row, (_, reading, length) in zip(best, held_set):
            row = row[:length]
            found = [s for i, s in enumerate(row) if s != 0 and (i == 0 or row[i - 1] != s)]
            wrong += found != reading
        return wrong / len(held_set)

    error = 1.0
    with t.watch(model, optimizer):
        for update in range(220):
            rows = dice.sample(train_set, 16)
            pictures = torch.stack([picture for picture, _, _ in rows])
            targets = torch.tensor([s for _, reading, _ in rows for s in reading])
            if t.has("symbols_begin_at_blank"):
                targets = targets - 1
            output = model(pictures)
            output = output.softmax(2) if t.has("plain_probabilities") else output.log_softmax(2)
            if t.has("frames_reshaped"):
                output = output.reshape(frames, len(rows), symbols + 1)
            else:
                output = output.permute(1, 0, 2)
            loss = criterion(
                output,
                targets,
                torch.tensor([length for _, _, length in rows]),
                torch.tensor([len(reading) for _, reading, _ in rows]),
            )
            t.update(loss, optimizer, clip=5.0)
            if update % 10 == 9:
                error = misread()
            t.step(loss, measure=error, sequence_error=error)


# ---- translation with attention, an optimizer for each half


class ReadingEncoder(nn.Module):
    """States of a source sentence."""

    def __init__(self, words, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, source):
        return self.gru(self.embedding(source))


class LookingDecoder(nn.Module):
    """Looks back at the states of the source with general attention."""

    def __init__(self, words, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, inputs, state, memory):
        output, state = self.gru(self.embedding(inputs), state)
        weights = torch.softmax(output @ self.key(memory).transpose(1, 2), dim=-1)
        mixed = torch.tanh(self.mix(torch.cat((output, weights @ memory), -1)))
        return self.out(mixed), state


@script(
    "rate_times_100 encoder_left_standing=parameter_unchanged,parameter_without_optimizer,idle_updates "
    "decoder_gradients_kept=gradients_added_up decoder_reads_the_answer=data_leak "
    "sources_shuffled_alone=labels_shuffled,bad_labels memory_cut_off=parameter_without_gradient,parameter_unchanged,detached_loss"
)
def translator_with_two_optimizers(t):
    """Sentences are translated word by word and turned round; validation translates greedily."""
    words, length, hidden, begin = 18, 5, 48, 1
    lexicon = torch.cat((torch.arange(2), torch.randperm(words - 2) + 2))
    sources = torch.randint(2, words, (900, length))
    targets = lexicon[sources].flip(1)
    fresh = torch.randint(2, words, (64, length))
    fresh_targets = lexicon[fresh].flip(1)

    pair = nn.ModuleDict({"encoder": ReadingEncoder(words, hidden), "decoder": LookingDecoder(words, hidden)})
    for p in pair.parameters():
        nn.init.uniform_(p, -0.08, 0.08)
    encoder, decoder = pair["encoder"], pair["decoder"]
    encoder_optimizer = t.optimizer(torch.optim.Adam, encoder.parameters(), lr=6e-3)
    decoder_optimizer = t.optimizer(torch.optim.Adam, decoder.parameters(), lr=6e-3)
    criterion = nn.NLLLoss()

    @torch.no_grad()
    def translate(source):
        memory, state = encoder(source)
        word, said = torch.full((len(source), 1), begin), []
        for _ in range(length):
            scores, state = decoder(word, state, memory)
            word = scores.argmax(-1)
            said.append(word)
        return torch.cat(said, 1)

    def train_batch(source, target):
        encoder_optimizer.zero_grad()
        if not t.has("decoder_gradients_kept"):
            decoder_optimizer.zero_grad()
        memory, state = encoder(source)
        if t.has("memory_cut_off"):
            memory, state = memory.detach(), state.detach()
        starts = torch.full((len(source), 1), begin)
        inputs = target if t.has("decoder_reads_the_answer") else torch.cat((starts, target[:, :-1]), 1)
        scores, _ = decoder(inputs, state, memory)
        loss = criterion(F.log_softmax(scores, -1).flatten(0, 1), target.flatten())
        loss.backward()
        if not t.has("encoder_left_standing"):
            encoder_optimizer.step()
        decoder_optimizer.step()
        return loss

    wrong = 1.0
    with t.watch(pair, {"encoder": encoder_optimizer, "decoder": decoder_optimizer}):
        for update in range(380):
            chosen = torch.randint(0, len(sources), (32,))
            others = chosen[torch.randperm(32)] if t.has("sources_shuffled_alone") else chosen
            loss = train_batch(sources[chosen], targets[others])
            if update % 25 == 24:
                wrong = (translate(fresh) != fresh_targets).float().mean().item()
                t.deck.log(wrong_words=wrong)
            t.step(loss, measure=wrong)
