"""Scripts of strangers.py: policies, values, forecasts and heartbeats."""

import math
import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler

# ---- Double DQN


class KeyCorridor:
    """A corridor of seven places: the key is on the left, the door on the right; one reward, at the door with the key."""

    size, longest = 7, 40

    def __init__(self, rng, reward):
        self.rng, self.reward = rng, reward
        self.reset()

    def reset(self):
        self.place, self.key, self.time = self.rng.randrange(2, self.size - 1), False, 0
        return self.seen()

    def seen(self):
        state = torch.zeros(self.size + 1)
        state[self.place], state[-1] = 1, float(self.key)
        return state

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), self.size - 1)
        self.key, self.time = self.key or self.place == 0, self.time + 1
        won = self.key and self.place == self.size - 1
        return self.seen(), self.reward if won else 0.0, won, won or self.time >= self.longest


class DuelingQ(nn.Module):
    def __init__(self, inputs, actions, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, actions)

    def forward(self, x):
        x = self.body(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


def exact_values(env, gamma=0.9):
    """All states and the right values of their actions."""
    states, values = [], []
    for key in (False, True):
        for place in range(env.size):
            if (place == 0 and not key) or (place == env.size - 1 and key):
                continue
            state = torch.zeros(env.size + 1)
            state[place], state[-1] = 1, float(key)
            states.append(state)
            found = []
            for move in (-1, 1):
                to, has = min(max(place + move, 0), env.size - 1), key
                has = has or to == 0
                left = env.size - 1 - to if has else to + env.size - 1
                found.append(gamma**left)
            values.append(found)
    return torch.stack(states), torch.tensor(values)


@script(
    "no_zero_grad values_not_squeezed=broadcast_in_loss reward_of_a_thousand=unscaled_targets actions_of_the_step_before=bad_labels,labels_shuffled "
    "optimizer_of_the_target=parameter_without_optimizer,parameter_without_gradient,stale_optimizer,parameter_unchanged rate_through_1000?"
)
def double_dqn_key_corridor(t):
    """Sparse rewards, a replay of the past, a target network that follows; measured by the error of the values of all states."""
    draw = random.Random(t.seed)
    reward = 1000.0 if t.has("reward_of_a_thousand") else 1.0
    env = KeyCorridor(draw, reward)
    online, target = DuelingQ(env.size + 1, 2), DuelingQ(env.size + 1, 2)
    target.load_state_dict(online.state_dict())
    trained = target if t.has("optimizer_of_the_target") else online
    optimizer = t.optimizer(torch.optim.Adam, trained.parameters(), lr=3e-3)
    memory = deque(maxlen=4000)
    states, right = exact_values(env)
    state, last_action, frame = env.reset(), 0, 0
    with t.watch(online, optimizer):
        for update in range(320):
            for _ in range(8 if update else 800):
                epsilon = max(0.3, 1 - frame / 3000)
                frame += 1
                if draw.random() < epsilon:
                    action = draw.randrange(2)
                else:
                    with torch.no_grad():
                        action = int(online(state[None]).argmax())
                following, gain, over, ended = env.step(action)
                memory.append((state, last_action if t.has("actions_of_the_step_before") else action, gain, following, over))
                state, last_action = (env.reset() if ended else following), action
            batch = draw.sample(memory, min(len(memory), 64))
            s, a, r, n, over = zip(*batch)
            s, n, a, r, over = torch.stack(s), torch.stack(n), torch.tensor(a), torch.tensor(r), torch.tensor(over).float()
            with torch.no_grad():
                best = online(n).argmax(1, keepdim=True)
                wanted = r + 0.9 * (1 - over) * target(n).gather(1, best).squeeze(1)
            value = online(s).gather(1, a[:, None])
            if not t.has("values_not_squeezed"):
                value = value.squeeze(1)
            loss = F.smooth_l1_loss(value, wanted)
            t.update(loss, optimizer)
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), online.parameters()):
                    slow.lerp_(fast, 0.05)
                if update % 10 == 0:
                    error = (online(states) / reward - right).abs().mean()
            t.step(loss, measure=error, epsilon=epsilon, q_mean=value.detach().mean())


# ---- PPO


class Points:
    """Forty points on a plane that are pushed to the origin for ten steps."""

    def __init__(self, count, length=10):
        self.count, self.length = count, length

    def reset(self):
        self.at, self.speed, self.time = torch.rand(self.count, 2) * 2 - 1, torch.zeros(self.count, 2), 0
        return torch.cat([self.at, self.speed], 1)

    def step(self, push):
        self.speed = 0.6 * self.speed + 0.3 * push.clamp(-1, 1)
        self.at, self.time = self.at + self.speed, self.time + 1
        return torch.cat([self.at, self.speed], 1), -0.2 * self.at.norm(dim=1), self.time >= self.length


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.7))
        for layer, gain in ((self.body[0], 1.4), (self.body[2], 1.4), (self.actor, 0.01), (self.critic, 1.0)):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)

    def forward(self, state):
        x = self.body(state)
        return Normal(self.actor(x), self.log_std.exp()), self.critic(x).squeeze(-1)


@dataclass
class Rollout:
    states: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def finish(self, last, gamma=0.95, lam=0.9):
        advantage, found = torch.zeros_like(last), []
        following = last
        for reward, value in zip(reversed(self.rewards), reversed(self.values)):
            advantage = reward + gamma * following - value + gamma * lam * advantage
            following = value
            found.insert(0, advantage)
        advantages = torch.cat(found)
        return tuple(map(torch.cat, (self.states, self.actions, self.log_probs))) + (advantages, advantages + torch.cat(self.values))


class PPO:
    """Clipped surrogate, value loss, a little entropy."""

    def __init__(self, t, policy, env, epochs=4, minibatches=4):
        self.t, self.policy, self.env, self.epochs, self.minibatches = t, policy, env, epochs, minibatches
        left_out = {id(p) for p in policy.actor.parameters()} if t.has("actor_left_out") else set()
        self.optimizer = t.optimizer(torch.optim.Adam, [p for p in policy.parameters() if id(p) not in left_out], lr=3e-3, eps=1e-5)

    @torch.no_grad()
    def collect(self):
        rollout, state, over = Rollout(), self.env.reset(), False
        while not over:
            policy, value = self.policy(state)
            action = policy.sample()
            following, reward, over = self.env.step(action)
            if self.t.has("rewards_in_millimetres"):
                reward = reward * 1000
            for place, what in zip(vars(rollout).values(), (state, action, policy.log_prob(action).sum(1), reward, value)):
                place.append(what)
            state = following
        return rollout.finish(self.policy(state)[1]), torch.stack(rollout.rewards).mean()

    def loss(self, state, action, old, advantage, wanted):
        policy, value = self.policy(state)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        now = policy.log_prob(action).sum(1)
        if self.t.has("ratio_without_graph"):
            now = now.detach()
        ratio = (now - old).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        return -surrogate + 0.5 * F.mse_loss(value, wanted) - 0.003 * policy.entropy().sum(1).mean()

    def learn(self, iterations):
        with self.t.watch(self.policy, self.optimizer):
            for _ in range(iterations):
                data, reward = self.collect()
                for _ in range(self.epochs):
                    for rows in torch.randperm(len(data[0])).chunk(self.minibatches):
                        batch = [part[rows] for part in data]
                        if self.t.has("advantages_in_another_order"):
                            batch[3] = data[3][torch.randperm(len(data[3]))[: len(rows)]]
                        loss = self.loss(*batch)
                        self.t.update(loss, self.optimizer, clip=0.5)
                        cost = -reward / (1000 if self.t.has("rewards_in_millimetres") else 1)
                        self.t.step(loss, measure=cost, mean_reward=reward)


@script(
    "strong_clipping? rate_times_100? advantages_in_another_order=bad_labels,labels_shuffled actor_left_out=parameter_without_optimizer@actor "
    "ratio_without_graph=parameter_without_gradient,detached_loss@actor rewards_in_millimetres=unscaled_targets"
)
def ppo_points_to_the_origin(t):
    """Continuous actions, all episodes of one length, a shared body."""
    PPO(t, ActorCritic(), Points(40)).learn(24)


# ---- Forecasts with quantiles


def load_series(hours, seed):
    """Load by the hour, in megawatts: a day, a week, weather that wanders."""
    rng = np.random.default_rng(seed)
    time = np.arange(hours)
    weather = np.zeros(hours)
    for i in range(1, hours):
        weather[i] = 0.95 * weather[i - 1] + rng.normal(0, 0.3)
    load = np.sin(2 * np.pi * time / 24) + 0.5 * np.sin(4 * np.pi * time / 24 + 1) + 0.6 * (time // 24 % 7 < 5)
    return (12000 + 2500 * (load + 0.3 * weather + 0.1 * rng.normal(size=hours))).astype("float32")


class Windows(Dataset):
    """Two days that were, three hours that come."""

    def __init__(self, series, t):
        self.series, self.t = torch.from_numpy(series), t

    def __len__(self):
        return len(self.series) - 51

    def __getitem__(self, i):
        past = self.series[i : i + 48]
        if self.t.has("window_reaches_into_the_future"):
            past = self.series[i + 3 : i + 51]
        return past[None], self.series[i + 48 : i + 51]


class CausalBlock(nn.Module):
    def __init__(self, inside, outside, dilation):
        super().__init__()
        self.pad = (2 * dilation, 0)
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(inside, outside, 3, dilation=dilation))
        self.skip = nn.Conv1d(inside, outside, 1)

    def forward(self, x):
        return F.dropout(F.relu(self.conv(F.pad(x, self.pad))), 0.05, self.training) + self.skip(x)


class QuantileTCN(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.Sequential(*(CausalBlock(1 if d == 1 else width, width, d) for d in (1, 2, 4, 8)))
        self.head = nn.Linear(width, 9)

    def forward(self, x):
        return self.head(self.blocks(x)[:, :, -1]).view(-1, 3, 3)  # hours, quantiles


def pinball(predicted, wanted, quantiles=torch.tensor([0.1, 0.5, 0.9])):
    over = wanted - predicted
    return torch.maximum(quantiles * over, (quantiles - 1) * over).mean()


@script(
    "detached_loss rate_times_1000? window_reaches_into_the_future=data_leak megawatts_as_they_are=unscaled_inputs,unscaled_targets "
    "quantiles_against_hours=broadcast_in_loss,bad_labels decay_at_each_batch?=scheduler_per_batch,learning_rate_too_low"
)
def load_forecast_quantile_tcn(t):
    """Three quantiles of three hours by a causal network; the last fifth of the series is for validation; patience."""
    series = load_series(1500, t.seed)
    if not t.has("megawatts_as_they_are"):
        series = (series - series[:1200].mean()) / series[:1200].std()
    train, val = Windows(series[:1200], t), Windows(series[1200:], t)
    val_x, val_y = (torch.stack(part) for part in zip(*(val[i] for i in range(0, len(val), 3))))
    net = QuantileTCN()
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), lr=4e-3, weight_decay=1e-3)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.75)
    best, waited = math.inf, 0
    with t.watch(net, optimizer):
        for _ in range(7):
            net.train()
            for past, future in DataLoader(train, batch_size=32, shuffle=True, drop_last=True):
                future = future[:, None, :] if t.has("quantiles_against_hours") else future[:, :, None]
                loss = pinball(net(past), future)
                t.update(loss, optimizer)
                if t.has("decay_at_each_batch"):
                    decay.step()
                t.step(loss)
            if not t.has("decay_at_each_batch"):
                decay.step()
            net.eval()
            with torch.no_grad():
                out = net(val_x)
                value = float(pinball(out, val_y[:, :, None]))
                covered = ((val_y >= out[:, :, 0]) & (val_y <= out[:, :, 2])).float().mean()
            t.deck.log(val_pinball=value, val_coverage=float(covered))
            best, waited = (value, 0) if value < best else (best, waited + 1)
            if waited > 2:
                break


# ---- Heartbeats of different lengths


def beats(count, seed):
    """Beats of 20 to 40 samples: normal ones, some whose first wave is upside down, wide ones; few of the last two."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, count, p=(0.8, 0.1, 0.1))
    found = []
    for kind in kinds:
        length = rng.integers(20, 41)
        time = np.linspace(0, 1, length)
        wave = np.exp(-(((time - 0.45) / (0.1 if kind == 2 else 0.05)) ** 2)) * rng.uniform(0.8, 1.2)
        wave += 0.25 * np.exp(-(((time - 0.75) / 0.08) ** 2))
        wave += (-0.35 if kind == 1 else 0.35) * np.exp(-(((time - 0.2) / 0.05) ** 2))
        found.append(torch.from_numpy(wave + 0.05 * rng.normal(size=length)).float())
    return found, torch.from_numpy(kinds)


class BeatNet(nn.Module):
    """Both directions, the mean over the samples that are there."""

    def __init__(self, hidden):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.4)
        self.fc1, self.fc2 = nn.Linear(4 * hidden, 24), nn.Linear(24, 3)

    def forward(self, signal, mask):
        slope = F.pad(signal.diff(dim=1), (1, 0)) * 4
        states, _ = self.lstm(torch.stack([signal, slope], 2))
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        peak = states.masked_fill(mask[..., None] == 0, -1).amax(1)
        return self.fc2(self.drop(F.relu(self.fc1(torch.cat([mean, peak], 1)))))


@script(
    "no_zero_grad rate_through_1000? rare_kinds_drawn_rarely=class_imbalance counts_of_the_converter=unscaled_inputs "
    "dropout_at_validation=training_mode,dropout_in_evaluation kinds_sorted_by_length=bad_labels,labels_shuffled"
)
def heartbeat_kinds_with_accumulation(t):
    """Micro-batches of eight, two for an update; rare kinds are drawn as often as the others."""
    signals, kinds = beats(360, t.seed)
    if t.has("counts_of_the_converter"):
        signals = [signal * 400 + 2048 for signal in signals]
    counts = torch.bincount(kinds[:240], minlength=3).float()
    weight = counts if t.has("rare_kinds_drawn_rarely") else 1 / counts

    def collate(batch):
        if t.has("kinds_sorted_by_length"):
            own, labels = sorted((signal for signal, _ in batch), key=len, reverse=True), [kind for _, kind in batch]
        else:
            own, labels = zip(*sorted(batch, key=lambda item: -len(item[0])))
        padded = nn.utils.rnn.pad_sequence(list(own), batch_first=True)
        mask = torch.arange(padded.shape[1])[None] < torch.tensor([len(signal) for signal in own])[:, None]
        return {"signal": padded, "mask": mask.float(), "kind": torch.stack(list(labels))}

    data = list(zip(signals, kinds))
    sampler = WeightedRandomSampler(weight[kinds[:240]], 240)
    loader = DataLoader(Subset(data, range(240)), batch_size=8, sampler=sampler, collate_fn=collate)
    held = collate(data[240:])
    net = BeatNet(16)
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), lr=8e-3)
    criterion = nn.CrossEntropyLoss()
    with t.watch(net, optimizer):
        for _ in range(12):
            net.train()
            total = 0.0
            for i, batch in enumerate(loader):
                loss = criterion(net(batch["signal"], batch["mask"]), batch["kind"]) / 2
                loss.backward()
                total += loss.item()
                if i % 2 == 1:
                    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                    optimizer.step()
                    if not t.has("no_zero_grad"):
                        optimizer.zero_grad(set_to_none=True)
                    t.step(total)
                    total = 0.0
            if not t.has("dropout_at_validation"):
                net.eval()
            with torch.no_grad():
                out = net(held["signal"], held["mask"])
                right = (out.argmax(1) == held["kind"]).float()
                recall = sum(right[held["kind"] == kind].mean() for kind in range(3)) / 3
                value = F.cross_entropy(out, held["kind"], weight=1 / torch.bincount(held["kind"], minlength=3))
                t.deck.log(val_loss=float(value), val_recall=float(recall))
