#!/usr/bin/env python3
"""Makes docs/screens/attention.svg: the entropy of every attention head by step, of a healthy and of an ill training, from real runs.

    ./dev build && docs/screens/attention.py
"""
import math
import os
import subprocess
import tempfile

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("TAPEDECK", os.path.join(SOURCE, "build", "tapedeck"))
VIRIDIS = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725")
RUNS = (("healthy", "learning rate 0.003", "0.003"), ("ill", "learning rate 0.3", "0.3"))
LAYERS = ("attention1", "attention2")
LEFT, TOP, PANEL, GAP, ROW, CURVE = 130, 66, 300, 26, 20, 90
MOST = math.log(8)  # nats: all of eight tokens alike
TOP_SCORE = 1e5


def colour(share):
    share = min(max(share, 0), 1) * (len(VIRIDIS) - 1)
    i = min(int(share), len(VIRIDIS) - 2)
    ends = [[int(VIRIDIS[j][k:k + 2], 16) for k in (1, 3, 5)] for j in (i, i + 1)]
    return "#" + "".join(f"{round(a + (b - a) * (share - i)):02x}" for a, b in zip(*ends))


def read(run):
    """Entropy and largest score of each head, (steps, heads), and the steps."""
    series = {word: [numpy.load(os.path.join(run, f"{layer}.{word}.npy")) for layer in LAYERS] for word in ("entropy", "max_logit")}
    entropy = numpy.concatenate([array.mean(1) for array in series["entropy"]], 1)
    score = numpy.concatenate([array.max(1) for array in series["max_logit"]], 1)
    return entropy, score, numpy.load(os.path.join(run, f"{LAYERS[0]}.entropy.steps.npy"))


def panel(left, title, setting, entropy, score, steps):
    wide, heads = PANEL / len(steps), entropy.shape[1]
    bottom = TOP + heads * ROW + 22
    out = [f'<text x="{left}" y="{TOP - 12}"><tspan font-weight="600">{title}</tspan>: {setting}</text>']
    for i, row in enumerate(entropy):
        for head, value in enumerate(row):
            out.append(f'<rect x="{left + i * wide:.1f}" y="{TOP + head * ROW}" width="{wide + 0.5:.1f}" height="{ROW - 2}" '
                       f'fill="{colour(value / MOST)}"/>')
    for k in range(6):
        y = bottom + CURVE * (1 - k / 5)
        out.append(f'<line x1="{left}" x2="{left + PANEL}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
    largest = numpy.clip(score.max(1), 1, TOP_SCORE)
    points = " ".join(f"{left + (i + 0.5) * wide:.1f},{bottom + CURVE * (1 - math.log10(value) / 5):.1f}" for i, value in enumerate(largest))
    out.append(f'<polyline points="{points}" fill="none" stroke="#e4572e" stroke-width="2.5" stroke-linejoin="round"/>')
    out.append(f'<text x="{left}" y="{bottom + CURVE + 18}" class="small">step {steps[0]}</text>')
    out.append(f'<text x="{left + PANEL}" y="{bottom + CURVE + 18}" text-anchor="end" class="small">{steps[-1]}</text>')
    return out


def draw(panels):
    heads = panels[0][0].shape[1]
    bottom = TOP + heads * ROW + 22
    names = [f"{layer} head {head}" for layer in LAYERS for head in range(heads // len(LAYERS))]
    out = [f'<text x="{LEFT - 8}" y="{TOP + i * ROW + 14}" text-anchor="end" class="small">{name}</text>' for i, name in enumerate(names)]
    out += [f'<text x="{LEFT - 8}" y="{bottom + CURVE * (1 - k / 5) + 4:.1f}" text-anchor="end" class="small">{10 ** k}</text>' for k in (1, 3, 5)]
    out.append(f'<text x="{LEFT - 8}" y="{bottom + CURVE * 0.6 + 4:.1f}" text-anchor="end" class="small">largest score</text>')
    for i, ((title, setting, _), values) in enumerate(zip(RUNS, panels)):
        out += panel(LEFT + i * (PANEL + GAP), title, setting, *values)
    width, height = LEFT + 2 * PANEL + GAP + 20, bottom + CURVE + 32
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Entropy of eight attention heads, \
step by step, of two trainings. In the healthy one all heads stay bright; in the ill one those of the first layer turn dark at once, and the largest \
score grows to 88 000">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1f2a30 }} .small {{ font-size: 11px; fill: #66737a }} .paper {{ fill: #fff }} .grid {{ stroke: #8884 }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #dfe6ea }} .small {{ fill: #9aa7ae }} .paper {{ fill: #14191c }} }}
</style>
<rect class="paper" width="100%" height="100%" rx="8"/>
<text x="{LEFT}" y="26">Entropy of attention: from 0, one token only (dark), to ln 8, all tokens alike (bright)</text>
{chr(10).join(out)}
</svg>
"""


def main():
    panels = []
    with tempfile.TemporaryDirectory() as place:
        for name, _, rate in RUNS:
            subprocess.run([PROGRAM, "train", os.path.join(SOURCE, "examples", "transformer", "transformer.yaml"), "--quiet", "--set", f"name={name}",
                            "--set", f"train.optimizer.adam.learning_rate={rate}"], cwd=place, check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, TAPEDECK_CPU="portable"))
            panels.append(read(os.path.join(place, "runs", name)))
    with open(os.path.join(HERE, "attention.svg"), "w", encoding="utf-8") as file:
        file.write(draw(panels))


if __name__ == "__main__":
    main()
