#!/usr/bin/env python3
"""Makes docs/screens/growing.svg: the demo as it trains, errors of all layers by step with the loss below, from a real run.

    ./dev build && docs/screens/growing.py
"""
import json
import math
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("TAPEDECK", os.path.join(SOURCE, "build", "tapedeck"))
VIRIDIS = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725")
LEFT, TOP, WIDTH, ROW, CURVE, SECONDS = 86, 46, 640, 22, 110, 9


def query(run, statement):
    done = subprocess.run([PROGRAM, "sql", run, statement, "--json"], check=True, capture_output=True, text=True)
    return [list(row.values()) for row in json.loads(done.stdout)]


def colour(value, low, high):
    share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * (len(VIRIDIS) - 1)
    i = min(int(share), len(VIRIDIS) - 2)
    ends = [[int(VIRIDIS[j][k:k + 2], 16) for k in (1, 3, 5)] for j in (i, i + 1)]
    return "#" + "".join(f"{round(a + (b - a) * (share - i)):02x}" for a, b in zip(*ends))


def draw(errors, losses):
    layers = list(dict.fromkeys(name for name, _, _ in errors))
    last = max(step for _, step, _ in errors)
    low, high = (limit(norm for _, _, norm in errors if norm > 0) for limit in (min, max))
    steps = sorted({step for _, step, _ in errors})
    wide = WIDTH / len(steps)
    out = []
    for name, step, norm in errors:
        x, y = LEFT + steps.index(step) * wide, TOP + layers.index(name) * ROW
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{wide + 0.5:.1f}" height="{ROW - 2}" fill="{colour(norm, low, high)}"/>')
    bottom = TOP + len(layers) * ROW + 26
    top = max(loss for _, loss in losses)
    points = " ".join(f"{LEFT + step / last * WIDTH:.1f},{bottom + CURVE - loss / top * CURVE:.1f}" for step, loss in losses)
    out.append(f'<polyline points="{points}" fill="none" stroke="#0b7a75" stroke-width="2.5" stroke-linejoin="round"/>')
    labels = [f'<text x="{LEFT - 8}" y="{TOP + i * ROW + 15}" text-anchor="end">{name}</text>' for i, name in enumerate(layers)]
    labels += [f'<text x="{LEFT - 8}" y="{bottom + CURVE / 2}" text-anchor="end">loss</text>',
               f'<text x="{LEFT - 8}" y="{bottom + 10}" text-anchor="end" class="small">{top:.1f}</text>',
               f'<text x="{LEFT - 8}" y="{bottom + CURVE}" text-anchor="end" class="small">0</text>',
               f'<text x="{LEFT}" y="{bottom + CURVE + 20}" class="small">step 0</text>',
               f'<text x="{LEFT + WIDTH}" y="{bottom + CURVE + 20}" text-anchor="end" class="small">{last}</text>']
    height = bottom + CURVE + 34
    moving = f'dur="{SECONDS}s" repeatCount="indefinite" keyTimes="0;0.75;1"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img" aria-label="The error of every layer, step by step, \
as a heat map that grows while the network trains; below it the loss falls">
<style>
text {{ font: 13px system-ui, sans-serif; fill: #1f2a30 }} .small {{ font-size: 11px; fill: #66737a }} .paper {{ fill: #fff }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #dfe6ea }} .small {{ fill: #9aa7ae }} .paper {{ fill: #14191c }} }}
</style>
<rect class="paper" width="100%" height="100%" rx="8"/>
<text x="{LEFT}" y="26">Layer errors: the norm of dLoss/dOutput, from {low:.0e} (dark) to {high:.1f} (bright)</text>
{"".join(labels)}
<clipPath id="seen"><rect x="{LEFT}" y="0" width="{WIDTH}" height="{height}"><animate attributeName="width" values="0;{WIDTH};{WIDTH}" {moving}/></rect></clipPath>
<g clip-path="url(#seen)">{"".join(out)}</g>
<line x1="{LEFT}" x2="{LEFT}" y1="{TOP - 4}" y2="{bottom + CURVE}" stroke="#e4572e" stroke-width="1.5"><animate attributeName="x1" \
values="{LEFT};{LEFT + WIDTH};{LEFT + WIDTH}" {moving}/><animate attributeName="x2" values="{LEFT};{LEFT + WIDTH};{LEFT + WIDTH}" {moving}/></line>
</svg>
"""


def main():
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([PROGRAM, "train", os.path.join(SOURCE, "examples", "demo", "demo.yaml"), "--quiet", "--set",
                        "record=[{what: '*.error', every: 9 steps, form: stats, to: [sqlite]}, {what: loss, every: 9 steps, to: [sqlite]}]"],
                       cwd=place, check=True, stdout=subprocess.DEVNULL)
        run = os.path.join(place, "runs", "demo")
        errors = query(run, "select layer, step, norm from stats where signal like '%.error' order by step")
        losses = query(run, "select step, value from scalars where signal = 'loss' order by step")
    order = ["conv1", "conv2", "pool", "flatten", "dropout", "hidden", "logits"]
    errors.sort(key=lambda row: (order.index(row[0]), row[1]))
    with open(os.path.join(HERE, "growing.svg"), "w", encoding="utf-8") as file:
        file.write(draw(errors, losses))


if __name__ == "__main__":
    main()
