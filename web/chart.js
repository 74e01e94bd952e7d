// Lines over time: the mean, a band from least to greatest so that no spike is ever hidden, and marks where
// something was not finite.
import { el, nameText, replace, copy } from "./dom.js";
import { short, exact, ticks, logTicks, symlog, symlogTicks, tickText, unitOf, unitText } from "./format.js";
import { theme, BAD_TEXT } from "./colour.js";
import { Screen } from "./surface.js";
import { exportMenu } from "./export.js";
import { chartChoice, chartMenu } from "./choices.js";
import { Sight } from "./sight.js";
import { drawMark, markAt, timeGestures } from "./time.js";

const LEFT = 64,
    RIGHT = 10,
    TOP = 8,
    BOTTOM = 22;

// lines: { name, colour, dash, x (Float64Array, on the axis), mean, min, max, bad }
export class Chart {
    constructor(time, options) {
        this.time = time;
        this.options = options;
        this.title = options.title;
        this.unit = unitOf(options.title);
        this.lines = [];
        this.emphasis = null;
        this.canvas = el("canvas", { class: "base" });
        this.over = el("canvas", { class: "over", tabindex: 0, role: "img", "aria-label": options.title });
        this.screen = new Screen(this.canvas);
        this.overlay = new Screen(this.over);
        this.legend = el("div", { class: "legend" });
        this.box = el("div", { class: "plot" }, this.canvas, this.over);
        this.box.style.height = `${options.height || 180}px`;
        this.element = el(
            "figure",
            { class: "chart" },
            el(
                "figcaption",
                {},
                options.heading || nameText(options.title),
                el("span", { class: "note" }),
                exportMenu(this, chartMenu(this)),
            ),
            this.box,
            this.legend,
        );
        this.note = this.element.querySelector(".note");
        timeGestures(
            this.over,
            time,
            () => ({ left: LEFT, width: this.width - LEFT - RIGHT }),
            (x) => this.stepAt(x),
            options.onclick,
        );
        this.over.addEventListener("pointermove", (event) => {
            this.over.title = markAt(time, this, event.offsetX)?.text ?? "";
        });
        this.over.addEventListener("brush", (event) => {
            this.brush = event.detail;
            this.drawOver();
        });
        this.sight = new Sight(this.box, time, { moved: () => this.drawOver(), resized: () => this.redraw() });
    }

    remove() {
        this.sight.remove();
    }

    set(lines) {
        this.lines = lines;
        this.redraw();
    }

    get width() {
        return this.sight.width || 300;
    }

    get height() {
        return this.sight.height || 180;
    }

    // ---- Scales ----

    xOf(place) {
        return LEFT + this.time.shareOf(place, this.time.domain()) * (this.width - LEFT - RIGHT);
    }

    stepAt(x) {
        const share = (x - LEFT) / (this.width - LEFT - RIGHT);
        return this.time.fromAxis(this.time.placeAt(share, this.time.domain()));
    }

    // What the values in view are: low, high, the least above zero, and the smallest magnitude but zero.
    measure() {
        let low = Infinity,
            high = -Infinity,
            least = Infinity,
            small = Infinity;
        for (const line of this.lines) {
            const [from, to] = this.inView(line);
            for (let i = from; i < to; i++) {
                const a = line.min[i],
                    b = line.max[i];
                low = a < low ? a : low;
                high = b > high ? b : high;
                least = a > 0 && a < least ? a : least;
                small = a !== 0 && Math.abs(a) < small ? Math.abs(a) : small;
                small = b !== 0 && Math.abs(b) < small ? Math.abs(b) : small;
            }
        }
        return { low, high, least, small };
    }

    // Without the values far from all others: three times the range from the 5th to the 95th percentile about them.
    clipped(all) {
        const values = [];
        for (const line of this.lines) {
            const [from, to] = this.inView(line);
            for (let i = from; i < to; i++) {
                if (Number.isFinite(line.mean[i])) {
                    values.push(line.mean[i]);
                }
            }
        }
        values.sort((a, b) => a - b);
        const at = (share) => values[Math.round(share * (values.length - 1))],
            reach = at(0.95) - at(0.05);
        if (!(reach > 0)) {
            return all;
        }
        const low = Math.max(all.low, at(0.05) - 1.5 * reach),
            high = Math.min(all.high, at(0.95) + 1.5 * reach);
        return { ...all, low, high, least: Math.max(all.least, low), outside: low > all.low || high < all.high };
    }

    range() {
        const chosen = chartChoice(this.title),
            all = this.measure(),
            view = chosen.clip ? this.clipped(all) : all,
            { low, high, least, small } = view,
            outside = Boolean(view.outside);
        if (Number.isFinite(chosen.low) && Number.isFinite(chosen.high) && chosen.high > chosen.low) {
            const log = chosen.y === "log" && chosen.low > 0;
            return { log, low: chosen.low, high: chosen.high, outside: all.low < chosen.low || all.high > chosen.high };
        }
        if (chosen.y === "symlog" && high >= low) {
            const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
            return { symmetric: true, low, high, small: Math.max(Math.min(small, size / 10), size * 1e-6), outside };
        }
        const log = chosen.y ? chosen.y === "log" : (this.options.log ?? (low > 0 && high / low > 100));
        if (log && least < Infinity) {
            const pad = (high / least) ** 0.04;
            return { log: true, low: least / pad, high: high > least ? high * pad : least * 10, outside };
        }
        if (!(high >= low)) {
            return { log: false, low: 0, high: 1 };
        }
        const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
        return { log: false, low: low - (low >= 0 && low - pad < 0 ? low : pad), high: high + pad, outside };
    }

    // Which points of a line are in the range that is shown; where there are none, those beside it.
    inView(line) {
        const [a, b] = this.time.domain();
        let from = 0,
            to = line.x.length;
        while (from < to && line.x[from] < a) {
            from++;
        }
        while (to > from && line.x[to - 1] > b) {
            to--;
        }
        return from < to ? [from, to] : [Math.max(0, from - 1), Math.min(line.x.length, to + 1)];
    }

    yOf(value) {
        const r = this.scale,
            height = this.height - TOP - BOTTOM;
        if (!Number.isFinite(value)) {
            return NaN;
        }
        const share = r.symmetric
            ? (symlog(value, r.small) - symlog(r.low, r.small)) /
              (symlog(r.high, r.small) - symlog(r.low, r.small) || 1)
            : r.log
              ? (Math.log10(Math.max(value, r.low * 1e-3)) - Math.log10(r.low)) /
                (Math.log10(r.high) - Math.log10(r.low))
              : (value - r.low) / (r.high - r.low);
        return TOP + (1 - share) * height;
    }

    // ---- Drawing ----

    redraw() {
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => {
            this.draw(this.screen);
            this.drawOver();
        });
    }

    draw(surface) {
        const colours = theme(),
            width = this.width,
            height = this.height;
        this.scale = this.range();
        surface.begin(width, height);
        this.drawAxes(surface, colours, width, height);
        surface.clip(LEFT, 0, width - LEFT - RIGHT, height - BOTTOM + 1);
        for (const line of this.lines) {
            this.drawLine(surface, line, this.emphasis && this.emphasis !== line ? 0.25 : 1);
        }
        surface.unclip();
        if (!this.options.timeless) {
            for (const mark of this.time.marks) {
                const place = (step) => this.xOf(this.time.toAxis(step));
                drawMark(surface, mark, place(mark.step), place(mark.last), LEFT, width - RIGHT, TOP);
            }
        }
        const r = this.scale;
        this.note.textContent =
            (r.symmetric ? " symmetric log" : r.log ? " log" : "") +
            (r.outside ? " · values outside are cut off" : "") +
            (this.about ? ` · ${this.about}` : "");
        this.drawLegend();
    }

    drawAxes(surface, colours, width, height) {
        const across = this.valueTicks();
        for (const tick of across) {
            const y = Math.round(this.yOf(tick)) + 0.5;
            if (y > TOP - 4 && y < height - BOTTOM + 2) {
                surface.line([LEFT, y, width - RIGHT, y], colours.line, 1);
                const label = unitText(tick, this.unit);
                surface.text(LEFT - 6, y, label, colours.quiet, "right", label.length > 8 ? 10 : 12);
            }
        }
        surface.text(LEFT - 6, height - 9, this.time.label(), colours.quiet, "right", 12);
        const most = Math.max(3, Math.floor((width - LEFT) / 90));
        for (const tick of this.time.ticks(this.time.domain(), most)) {
            const x = this.xOf(tick),
                edge = x > width - 30;
            if (x < LEFT + 4) {
                continue; // there stands what the axis is
            }
            surface.text(
                edge ? width - 2 : x,
                height - 9,
                tickText(tick),
                colours.quiet,
                edge ? "right" : "center",
                12,
            );
        }
    }

    // At least three, where the numbers have room for them.
    valueTicks() {
        const { log, symmetric, low, high, small } = this.scale;
        if (symmetric) {
            return symlogTicks(low, high, small, 3);
        }
        const made = log ? logTicks(low, high, 5) : [];
        return made.length > 1 ? made : ticks(low, high, 4).filter((tick) => !log || tick > 0);
    }

    drawLine(surface, line, alpha) {
        const count = line.x.length;
        let wide = false;
        for (let i = 0; i < count && !wide; i++) {
            wide = line.max[i] > line.min[i];
        }
        if (wide) {
            const points = [];
            for (let i = 0; i < count; i++) {
                points.push(this.xOf(line.x[i]), this.yOf(line.max[i]));
            }
            for (let i = count - 1; i >= 0; i--) {
                points.push(this.xOf(line.x[i]), this.yOf(line.min[i]));
            }
            surface.area(
                points.filter((v, i) => !Number.isNaN(points[i | 1])),
                line.colour,
                0.25 * alpha,
            );
        }
        const points = [];
        const shown = line.smooth || line.mean;
        for (let i = 0; i < count; i++) {
            points.push(this.xOf(line.x[i]), this.yOf(shown[i]));
        }
        if (line.smooth) {
            surface.line(this.pointsOf(line), line.colour, 1, null, 0.25 * alpha);
        }
        surface.line(points, line.colour, this.emphasis === line ? 2.5 : 1.6, line.dash, alpha);
        if (count <= 2) {
            for (let i = 0; i < count; i++) {
                surface.rect(points[2 * i] - 2, points[2 * i + 1] - 2, 4, 4, line.colour, alpha);
            }
        }
        for (let i = 0; i < count; i++) {
            if (line.bad[i] > 0) {
                surface.rect(this.xOf(line.x[i]) - 2, TOP, 4, 6, BAD_TEXT);
            }
        }
    }

    pointsOf(line) {
        const points = [];
        for (let i = 0; i < line.x.length; i++) {
            points.push(this.xOf(line.x[i]), this.yOf(line.mean[i]));
        }
        return points;
    }

    drawOver() {
        const colours = theme(),
            height = this.height,
            time = this.time;
        this.overlay.begin(this.width, height);
        if (this.brush) {
            this.overlay.rect(
                Math.min(...this.brush),
                TOP,
                Math.abs(this.brush[1] - this.brush[0]),
                height - TOP - BOTTOM,
                colours.accent,
                0.15,
            );
        }
        if (!this.options.timeless) {
            const x = this.xOf(time.toAxis(time.step));
            if (x >= LEFT - 1 && x <= this.width - RIGHT + 1) {
                this.overlay.line([x, TOP, x, height - BOTTOM], colours.accent, 1.5);
            }
        }
        if (time.hover !== null && this.scale) {
            const x = this.xOf(time.toAxis(time.hover));
            this.overlay.line([x, TOP, x, height - BOTTOM], colours.text, 1, [3, 3], 0.6);
            for (const line of this.lines) {
                const at = nearest(line.x, time.toAxis(time.hover));
                const y = at < 0 ? NaN : this.yOf((line.smooth || line.mean)[at]);
                if (!Number.isNaN(y)) {
                    this.overlay.rect(this.xOf(line.x[at]) - 2.5, y - 2.5, 5, 5, line.colour);
                }
            }
        }
        this.drawValues();
    }

    // ---- Values ----

    drawLegend() {
        this.values = [];
        replace(
            this.legend,
            this.lines.map((line) => {
                const text = el("button", {
                    class: "value plain",
                    type: "button",
                    onclick: () => copy(text.dataset.exact, text),
                });
                this.values.push(text);
                const entry = el(
                    "span",
                    {
                        class: "entry" + (line.hidden ? " off" : ""),
                        onpointerenter: () => this.emphasise(line),
                        onpointerleave: () => this.emphasise(null),
                    },
                    el("span", { class: "swatch" + (line.dash ? " dashed" : ""), style: { borderColor: line.colour } }),
                    nameText(line.name, 40),
                    text,
                );
                return entry;
            }),
        );
        this.drawValues();
    }

    emphasise(line) {
        if (this.emphasis !== line && this.lines.length > 1) {
            this.emphasis = line;
            this.draw(this.screen);
        }
    }

    drawValues() {
        const time = this.time,
            place = time.toAxis(time.hover ?? time.step);
        (this.values || []).forEach((node, i) => {
            const line = this.lines[i],
                at = line ? nearest(line.x, this.options.timeless && time.hover === null ? Infinity : place) : -1;
            if (at < 0) {
                node.textContent = "–";
                return;
            }
            const one = line.min[at] === line.max[at] || Number.isNaN(line.min[at]),
                ends = `${short(line.min[at])} … ${short(line.max[at])}`,
                text = line.band ? ends : one ? short(line.mean[at]) : `${short(line.mean[at])} (${ends})`;
            // A statistic is of a tensor's finite values.
            const partly = line.bad[at] > 0 && Number.isFinite(line.mean[at]),
                said = line.band ? `${exact(line.min[at])} … ${exact(line.max[at])}` : exact(line.mean[at]),
                shown = partly ? `${text} and NaN or ∞` : text;
            if (node.dataset.exact === said && node.textContent === shown) {
                return;
            }
            node.textContent = shown;
            node.dataset.exact = said;
            node.title = `${said}: click to copy`;
            node.classList.toggle("bad", line.bad[at] > 0);
        });
    }

    rows() {
        const rows = [["line", this.time.axis, "mean", "min", "max", "nonfinite"]];
        for (const line of this.lines) {
            const [from, to] = this.inView(line);
            for (let i = from; i < to; i++) {
                rows.push([line.name, line.x[i], line.mean[i], line.min[i], line.max[i], line.bad[i]]);
            }
        }
        return rows;
    }
}

// The index of the x nearest to a place; -1 when there is none.
function nearest(xs, place) {
    let low = 0,
        high = xs.length - 1;
    if (high < 0) {
        return -1;
    }
    if (place >= xs[high]) {
        return high;
    }
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (xs[middle] <= place) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return Math.abs(xs[low] - place) <= Math.abs(xs[high] - place) ? low : high;
}

// A line of a series, on the axis of a time.
export function lineOf(series, time, more) {
    const x = Float64Array.from(series.last, (last, i) => time.toAxis((last + series.first[i]) / 2));
    return { x, mean: series.mean, min: series.min, max: series.max, bad: series.bad, values: series.values, ...more };
}

// An exponential mean that corrects for its start.
export function smoothed(mean, weight) {
    if (!(weight > 0)) {
        return null;
    }
    const made = new Float64Array(mean.length);
    let sum = 0,
        total = 0;
    for (let i = 0; i < mean.length; i++) {
        if (Number.isFinite(mean[i])) {
            sum = weight * sum + (1 - weight) * mean[i];
            total = weight * total + (1 - weight);
        }
        made[i] = total > 0 ? sum / total : NaN;
    }
    return made;
}
