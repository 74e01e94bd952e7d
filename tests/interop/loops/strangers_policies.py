"""Scripts of strangers.py: policies, tasks in turn, densities, second derivatives."""

import copy
import random

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.distributions import Categorical, Normal


class Walk:
    """A place on a line; the end on the right pays."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.place, self.time = torch.tensor(random.randint(2, 4)), 0
        return F.one_hot(self.place, 7).float()

    def step(self, action):
        self.place = (self.place + (1 if int(action) == 1 else -1)).clamp(0, 6)
        self.time += 1
        done = int(self.place) in (0, 6) or self.time >= 14
        return F.one_hot(self.place, 7).float(), 1.0 if int(self.place) == 6 else 0.0 if int(self.place) else -1.0, done


@script("no_zero_grad cleared detached_loss log_prob_detached=detached_loss policy_frozen=untrained_frozen,detached_loss,optimizer_of_frozen other_policy_trained=stale_optimizer,parameter_without_optimizer,detached_loss")
def reinforce(t):
    random.seed(t.seed)
    policy = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    if t.has("policy_frozen"):
        policy.requires_grad_(False)
    trained = copy.deepcopy(policy) if t.has("other_policy_trained") else policy
    optimizer = t.optimizer(torch.optim.Adam, trained.parameters(), 1e-2)
    env = Walk()
    with t.watch(policy, optimizer):
        for episode in range(70):
            state, done, rewards, logs = env.reset(), False, [], []
            while not done:
                chosen = Categorical(logits=policy(state[None]))
                action = chosen.sample()
                logs.append(chosen.log_prob(action))
                state, reward, done = env.step(action)
                rewards.append(reward)
            total, returns = 0, []
            for reward in reversed(rewards):
                total = reward + 0.95 * total
                returns.insert(0, total)
            returns = torch.tensor(returns)
            logs = torch.cat(logs)
            if t.has("log_prob_detached"):
                logs = torch.tensor(logs.tolist(), requires_grad=True)
            loss = -(logs * returns).sum()
            if t.has("policy_frozen"):
                loss.requires_grad_()
            t.update(loss, optimizer)
            t.step(loss, reward=sum(rewards))


@script("no_zero_grad cleared value_head_left_out=parameter_without_optimizer@critic body_without_grad=parameter_without_gradient rate_times_1000")
def advantage_actor_critic(t):
    """Several environments, five steps, entropy bonus, a joint body."""
    random.seed(t.seed)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.actor, self.critic = nn.Sequential(nn.Linear(7, 32), nn.Tanh()), nn.Linear(32, 2), nn.Linear(32, 1)

        def forward(self, x):
            h = self.body(x)
            h = h.detach() if t.has("body_without_grad") else h
            return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)

    net = Net()
    parameters = [p for name, p in net.named_parameters() if not (t.has("value_head_left_out") and name.startswith("critic"))]
    optimizer = t.optimizer(torch.optim.RMSprop, parameters, 3e-3, alpha=0.99, eps=1e-5)
    envs = [Walk() for _ in range(6)]
    state = torch.stack([env.reset() for env in envs])
    with t.watch(net, optimizer):
        for update in range(70):
            logs, values, rewards, alive, entropy, earned = [], [], [], [], 0, 0.0
            for _ in range(5):
                chosen, value = net(state)
                action = chosen.sample()
                results = [env.step(a) for env, a in zip(envs, action)]
                state = torch.stack([env.reset() if done else s for env, (s, _, done) in zip(envs, results)])
                logs.append(chosen.log_prob(action))
                values.append(value)
                rewards.append(torch.tensor([r for _, r, _ in results]))
                alive.append(torch.tensor([0.0 if done else 1.0 for _, _, done in results]))
                entropy = entropy + chosen.entropy().mean()
                earned += float(rewards[-1].mean())
            with torch.no_grad():
                following = net(state)[1]
            returns = []
            for reward, mask in zip(reversed(rewards), reversed(alive)):
                following = reward + 0.95 * following * mask
                returns.insert(0, following)
            advantage = torch.cat(returns) - torch.cat(values)
            loss = -(torch.cat(logs) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
            t.update(loss, optimizer, clip=0.5)
            t.step(loss, measure=-earned)


@script("no_zero_grad cleared old_policy_trained=detached_loss,stale_optimizer,parameter_without_optimizer rate_times_1000 detached_loss critic_left_out=parameter_without_optimizer")
def proximal_policy(t):
    """PPO: minibatches of several epochs over what was gathered, ratios clipped, continuous actions."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
            self.critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
            self.log_std = nn.Parameter(torch.zeros(1))

    net = Net()
    trained = copy.deepcopy(net) if t.has("old_policy_trained") else net
    optimizer = t.optimizer(torch.optim.Adam, (trained.actor if t.has("critic_left_out") else trained).parameters(), 3e-3, eps=1e-5)
    with t.watch(net, optimizer):
        for iteration in range(10):
            with torch.no_grad():
                state = torch.randn(128, 3)
                chosen = Normal(net.actor(state), net.log_std.exp())
                action = chosen.sample()
                old = chosen.log_prob(action).sum(1)
                reward = -(action[:, 0] - torch.tanh(2 * state[:, 0])).pow(2)
                advantage = reward - net.critic(state)[:, 0]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            for epoch in range(4):
                for i in torch.randperm(128).split(32):
                    chosen = Normal(net.actor(state[i]), net.log_std.exp())
                    ratio = (chosen.log_prob(action[i]).sum(1) - old[i]).exp()
                    gain = torch.min(ratio * advantage[i], ratio.clamp(0.8, 1.2) * advantage[i]).mean()
                    value = F.mse_loss(net.critic(state[i])[:, 0], reward[i])
                    loss = -gain + 0.5 * value - 0.0 * chosen.entropy().mean()
                    t.update(loss, optimizer, clip=0.5)
                    t.step(loss, measure=-float(reward.mean()))


@script("no_zero_grad cleared broadcast=broadcast_in_loss target_network_trained=stale_optimizer,parameter_without_optimizer,detached_loss rate_times_1000 q_through_relu=wrong_output_activation")
def deep_q_with_replay(t):
    random.seed(t.seed)
    q = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(q)
    optimizer = t.optimizer(torch.optim.AdamW, (target if t.has("target_network_trained") else q).parameters(), 2e-3, amsgrad=True)
    memory, env = [], Walk()
    state = env.reset()
    with t.watch(q, optimizer):
        for step in range(300):
            with torch.no_grad():
                action = random.randrange(2) if random.random() < max(0.1, 1 - step / 150) else int(q(state[None]).argmax())
            following, reward, done = env.step(action)
            memory.append((state, action, reward, following, done))
            memory = memory[-400:]
            state = env.reset() if done else following
            if len(memory) < 64:
                continue
            batch = random.sample(memory, 32)
            s, f = torch.stack([b[0] for b in batch]), torch.stack([b[3] for b in batch])
            a, r = torch.tensor([b[1] for b in batch]), torch.tensor([b[2] for b in batch])
            end = torch.tensor([float(b[4]) for b in batch])
            with torch.no_grad():
                wanted = r + 0.9 * (1 - end) * target(f).max(1).values
            scores = q(s)
            scores = F.relu(scores) if t.has("q_through_relu") else scores
            value = scores.gather(1, a[:, None])
            loss = F.smooth_l1_loss(value if t.has("broadcast") else value[:, 0], wanted)
            t.update(loss, optimizer)
            for slow, fast in zip(target.parameters(), q.parameters()):
                slow.data.mul_(0.98).add_(0.02 * fast.data)
            t.step(loss)


@script("no_zero_grad_actor=gradients_added_up actor_objective_detached=detached_loss,gradients_cleared,parameter_without_gradient optimizers_swapped=stale_optimizer,parameter_without_optimizer,detached_loss")
def deterministic_policy(t):
    """DDPG: an actor that climbs a critic; both have an optimizer of their own."""
    actor = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
    critic = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    a_opt = torch.optim.Adam(actor.parameters(), 1e-3)
    c_opt = torch.optim.Adam(critic.parameters(), 3e-3)
    if t.has("optimizers_swapped"):
        a_opt = torch.optim.Adam(critic.parameters(), 1e-3)
    watched, optimizer = (actor, a_opt) if t.mistake else t.choose((actor, a_opt), (critic, c_opt))
    with t.watch(watched, optimizer):
        for step in range(160):
            s = torch.randn(32, 3)
            with torch.no_grad():
                a = (actor(s) + 0.3 * torch.randn(32, 1)).clamp(-1, 1)
            r = 1 - (a[:, 0] - torch.tanh(s[:, 0])).pow(2)
            c_loss = F.mse_loss(critic(torch.cat([s, a], 1))[:, 0], r)
            c_opt.zero_grad()
            c_loss.backward()
            c_opt.step()
            action = actor(s)
            if t.has("actor_objective_detached"):
                action = action.detach().requires_grad_()
            a_loss = -critic(torch.cat([s, action], 1)).mean()
            if not t.has("no_zero_grad_actor"):
                a_opt.zero_grad()
            a_loss.backward()
            a_opt.step()
            t.step(c_loss if watched is critic else a_loss)


def sine_task():
    height, phase = torch.rand(()) * 2 + 0.5, torch.rand(()) * 3.14
    return lambda x: height * torch.sin(x + phase)


@script("weights_not_moved=parameter_unchanged,unchanged_weights,idle_updates no_zero_grad_inside=gradients_added_up rate_times_1000")
def reptile(t):
    """Inner updates on a copy of the weights' values, then a step towards them."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    inner = t.optimizer(torch.optim.SGD, net.parameters(), 0.02)
    with t.watch(net, inner):
        for iteration in range(40):
            before = {key: value.clone() for key, value in net.state_dict().items()}
            task = sine_task()
            x = torch.rand(40, 1) * 6 - 3
            for some in x.split(10):
                loss = F.mse_loss(net(some), task(some))
                if not t.has("no_zero_grad_inside"):
                    inner.zero_grad()
                loss.backward()
                inner.step()
                t.step(loss)
            after = net.state_dict()
            share = 0.0 if t.has("weights_not_moved") else 0.3
            net.load_state_dict({key: before[key] + share * (after[key] - before[key]) for key in before})


@script("no_zero_grad cleared inner_graph_cut_and_outer_detached=detached_loss rate_times_1000 rate_through_1000")
def model_agnostic_meta_learning(t):
    """MAML by torch.func: gradients of what a gradient step gives."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    with t.watch(net, optimizer):
        for iteration in range(80):
            losses = []
            for _ in range(3):
                task = sine_task()
                x, check = torch.rand(2, 10, 1) * 6 - 3
                weights = dict(net.named_parameters())
                first = F.mse_loss(torch.func.functional_call(net, weights, (x,)), task(x))
                slopes = torch.autograd.grad(first, list(weights.values()), create_graph=True)
                weights = {key: p - 0.05 * slope for (key, p), slope in zip(weights.items(), slopes)}
                losses.append(F.mse_loss(torch.func.functional_call(net, weights, (check,)), task(check)))
            loss = torch.stack(losses).mean()
            if t.has("inner_graph_cut_and_outer_detached"):
                loss = loss.data.requires_grad_()
            t.update(loss, optimizer)
            t.step(loss)


@script("no_zero_grad cleared rate_times_1000 support_labels_mixed=bad_labels,labels_shuffled")
def prototypical_networks(t):
    """Episodes: classes of their own in each step."""
    shapes = torch.randn(30, 16)
    net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 2e-3)
    with t.watch(net, optimizer):
        for episode in range(140):
            classes = torch.randperm(30)[:5]
            support = shapes[classes].repeat_interleave(3, 0) + 0.6 * torch.randn(15, 16)
            query = shapes[classes].repeat_interleave(4, 0) + 0.6 * torch.randn(20, 16)
            if t.has("support_labels_mixed"):
                support = support[torch.randperm(15)]
            z = net(torch.cat([support, query]))
            prototypes = z[:15].view(5, 3, -1).mean(1)
            loss = F.cross_entropy(-torch.cdist(z[15:], prototypes).pow(2), torch.arange(5).repeat_interleave(4))
            t.update(loss, optimizer)
            t.step(loss)


@script("no_zero_grad cleared rate_times_1000 couplings_in_a_list=unregistered_layers detached_loss rate_through_1000")
def normalising_flow(t):
    """RealNVP on two moons: the loss is a log-likelihood, and may be negative."""
    angle = torch.rand(600) * 3.14
    upper = torch.rand(600) < 0.5
    data = torch.stack([torch.where(upper, angle.cos(), 1 - angle.cos()), torch.where(upper, angle.sin(), 0.5 - angle.sin())], 1) + 0.08 * torch.randn(600, 2)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            nets = [nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(4)]
            self.nets = nets if t.has("couplings_in_a_list") else nn.ModuleList(nets)
            self.shift = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            x, log = x + self.shift, 0
            for k, net in enumerate(self.nets):
                a, b = (x[:, :1], x[:, 1:]) if k % 2 else (x[:, 1:], x[:, :1])
                scale, move = net(a).split(1, 1)
                scale = torch.tanh(scale)
                b = b * scale.exp() + move
                log = log + scale[:, 0]
                x = torch.cat([a, b] if k % 2 else [b, a], 1)
            return -(0.5 * x.pow(2).sum(1) + 1.8379) + log

    flow = Flow()
    optimizer = t.optimizer(torch.optim.Adam, flow.parameters(), 2e-3)
    with t.watch(flow, optimizer):
        for epoch in range(10):
            for i in torch.randperm(600).split(40):
                loss = -flow(data[i]).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared rate_times_1000 rate_through_1000 detached_loss")
def physics_informed(t):
    """The net's derivatives by its inputs are in the loss: u'' = -u, u(0) = 0, u'(0) = 1."""
    net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    zero = torch.zeros(1, 1, requires_grad=True)
    with t.watch(net, optimizer):
        for step in range(200):
            x = (torch.rand(40, 1) * 3).requires_grad_()
            u = net(x)
            du, = torch.autograd.grad(u.sum(), x, create_graph=True)
            ddu, = torch.autograd.grad(du.sum(), x, create_graph=True)
            u0 = net(zero)
            du0, = torch.autograd.grad(u0.sum(), zero, create_graph=True)
            loss = (ddu + u).pow(2).mean() + u0.pow(2).mean() + (du0 - 1).pow(2).mean()
            t.update(loss, optimizer)
            t.step(loss)


@script("no_zero_grad targets_of_others=bad_labels,labels_shuffled values_through_sigmoid=wrong_output_activation wide_targets?=unscaled_targets")
def fitted_by_lbfgs(t):
    """A closure; the whole data in each step."""
    x = torch.rand(200, 1) * 4 - 2
    y = torch.sin(2 * x) + 0.05 * torch.randn(200, 1)
    if t.has("targets_of_others"):
        y = y[torch.randperm(200)]
    if t.has("wide_targets"):
        y = y * 1e4
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5)
    with t.watch(net, optimizer):
        for step in range(40):
            def closure():
                if not t.has("no_zero_grad"):
                    optimizer.zero_grad()
                out = net(x)
                loss = F.mse_loss(torch.sigmoid(out) if t.has("values_through_sigmoid") else out, y)
                loss.backward()
                return loss

            t.step(optimizer.step(closure))


@script("no_zero_grad cleared rate_times_1000 energy_detached=detached_loss rate_through_1000")
def score_matching(t):
    """Denoising score matching with an energy network: the score is its gradient."""
    data = torch.randn(500, 2) * 0.3 + torch.tensor([[1.0, -1.0]]) * (torch.randint(0, 2, (500, 1)) * 2 - 1)
    net = nn.Sequential(nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    with t.watch(net, optimizer):
        for epoch in range(10):
            for i in torch.randperm(500).split(25):
                noise = 0.3 * torch.randn(len(i), 2)
                x = (data[i] + noise).requires_grad_()
                score, = torch.autograd.grad(-net(x).sum(), x, create_graph=not t.has("energy_detached"))
                if t.has("energy_detached"):
                    score.requires_grad_()
                loss = (score + noise / 0.09).pow(2).sum(1).mean() * 0.09
                t.update(loss, optimizer)
                t.step(loss)
