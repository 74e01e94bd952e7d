// One time for everything on a page: the range that is shown, the step that is looked at, the step under the
// pointer. Charts listen; whoever changes it notifies them.
import { el, replace } from "./dom.js";
import { logTicks, ticks, whole } from "./format.js";
import { number, set, value } from "./state.js";

export class Time {
    constructor(first, last) {
        this.first = first;
        this.last = Math.max(last, first);
        this.from = number("from", first);
        this.to = number("to", this.last);
        this.step = number("step", this.last);
        this.following = !value("step");
        this.hover = null;
        this.table = null;
        this.marks = []; // { step, last, kind, colour, text }: findings and triggers
        this.axis = value("x", "step");
        this.log = value("xlog") === "1";
        this.listeners = new Set();
        this.timer = 0;
    }

    on(listener) {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
    }

    tell(kind) {
        for (const listener of [...this.listeners]) {
            listener(kind);
        }
    }

    // The run has grown.
    grow(last) {
        const whole = this.to >= this.last;
        this.last = Math.max(this.last, last);
        if (whole) {
            this.to = this.last;
        }
        this.tell("range");
        if (this.following && this.step !== this.last) {
            this.step = this.last;
            this.tell("step");
        }
    }

    zoom(from, to) {
        this.from = Math.max(this.first, Math.min(from, to));
        this.to = Math.min(this.last, Math.max(from, to));
        if (this.to - this.from < 1) {
            this.to = Math.min(this.last, this.from + 1);
        }
        const all = this.from <= this.first && this.to >= this.last;
        set({ from: all ? "" : Math.round(this.from), to: all ? "" : Math.round(this.to) }, true);
        this.tell("range");
    }

    unzoom() {
        this.zoom(this.first, this.last);
    }

    scrub(step, keep) {
        this.step = Math.max(this.first, Math.min(this.last, Math.round(step)));
        this.following = this.step === this.last && !keep;
        set({ step: this.following ? "" : this.step }, true);
        this.tell("step");
    }

    point(step) {
        if (step !== this.hover) {
            this.hover = step;
            this.tell("hover");
        }
    }

    // 200 pictures for the whole range, some twenty a second.
    play() {
        if (this.timer) {
            this.pause();
            return;
        }
        if (this.step >= this.to) {
            this.scrub(this.from, true);
        }
        this.timer = setInterval(() => {
            const next = this.step + Math.max(1, (this.to - this.from) / 200);
            this.scrub(Math.min(next, this.to), true);
            if (next >= this.to) {
                this.pause();
            }
        }, 50);
        this.tell("play");
    }

    pause() {
        clearInterval(this.timer);
        this.timer = 0;
        this.tell("play");
    }

    // ---- The axis: steps, epochs or seconds since the start ----

    setAxis(axis) {
        this.axis = axis;
        set({ x: axis === "step" ? "" : axis }, true);
        this.tell("range");
    }

    setLog(log) {
        this.log = log;
        set({ xlog: log ? "1" : "" }, true);
        this.tell("range");
    }

    column() {
        return this.table && this.axis !== "step" ? this.table[this.axis] : null;
    }

    // The place of a step on the axis.
    toAxis(step) {
        const column = this.column();
        if (!column || column.length < 2) {
            return step;
        }
        const place = interpolate(this.table.step, column, step);
        return this.axis === "time" ? place - column[0] : place;
    }

    fromAxis(place) {
        const column = this.column();
        if (!column || column.length < 2) {
            return place;
        }
        return interpolate(column, this.table.step, this.axis === "time" ? place + column[0] : place);
    }

    domain() {
        return [this.toAxis(this.from), this.toAxis(this.to)];
    }

    // Where a place on the axis lies between two others, from 0 to 1; and back.
    shareOf(place, [low, high]) {
        if (!this.log) {
            return (place - low) / (high - low || 1);
        }
        const a = Math.log10(Math.max(low, 1)),
            b = Math.log10(Math.max(high, 2));
        return (Math.log10(Math.max(place, 1e-9)) - a) / (b - a || 1);
    }

    placeAt(share, [low, high]) {
        if (!this.log) {
            return low + share * (high - low);
        }
        const a = Math.log10(Math.max(low, 1)),
            b = Math.log10(Math.max(high, 2));
        return 10 ** (a + share * (b - a));
    }

    // Round places on the axis, at most `max`.
    ticks([low, high], max) {
        if (this.log) {
            return logTicks(Math.max(low, 1), Math.max(high, 2), max);
        }
        return ticks(low, high, max);
    }

    // The axes that this run has: epochs only where they are known.
    axes() {
        const known = this.table?.epoch.some((epoch) => epoch > 0);
        return [["step", "step"], ...(known ? [["epoch", "epoch"]] : []), ["time", "wall time"]];
    }

    label() {
        return { step: "step", epoch: "epoch", time: "s" }[this.axis] + (this.log ? ", log" : "");
    }

    // Zooms by a factor about a step, or moves the range by a share of itself.
    scale(about, factor) {
        const low = about - (about - this.from) * factor,
            high = about + (this.to - about) * factor;
        this.zoom(Math.max(this.first, low), Math.min(this.last, high));
    }

    pan(share) {
        const by = Math.max(this.first - this.from, Math.min(this.last - this.to, share * (this.to - this.from)));
        this.zoom(this.from + by, this.to + by);
    }
}

function interpolate(xs, ys, x) {
    let low = 0,
        high = xs.length - 1;
    if (x <= xs[0]) {
        return ys[0] + (x - xs[0]) * slope(xs, ys, 0);
    }
    if (x >= xs[high]) {
        return ys[high] + (x - xs[high]) * slope(xs, ys, high - 1);
    }
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (xs[middle] <= x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return ys[low] + (x - xs[low]) * slope(xs, ys, low);
}

function slope(xs, ys, i) {
    return xs[i + 1] > xs[i] ? (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) : 0;
}

// A mark above a chart: a triangle for a finding, a diamond for a trigger, with a line for as long as it held.
export function drawMark(surface, mark, x, end, left, right, tall) {
    if (end < left - 1 || x > right + 1) {
        return;
    }
    const from = Math.max(x, left),
        half = tall / 2;
    if (end > x + 6) {
        surface.rect(from, half - 1, Math.min(end, right) - from, 2, mark.colour, 0.6);
    }
    surface.area(
        mark.kind === "finding"
            ? [from - 5, 0, from + 5, 0, from, tall]
            : [from, 0, from + half, half, from, tall, from - half, half],
        mark.colour,
        0.95,
    );
}

// The mark near a pixel of a chart that places steps by xOf; undefined when there is none.
export function markAt(time, chart, x) {
    const near = (mark) => {
        const place = chart.xOf(chart.lines ? time.toAxis(mark.step) : mark.step);
        return Math.abs(place - x) < 6;
    };
    return time.marks.find((mark) => mark.kind === "finding" && near(mark)) || time.marks.find(near);
}

// The marks above the slider: a button each, which goes there.
function markButtons(time) {
    const span = time.last - time.first || 1,
        shown = time.marks.length > 60 ? time.marks.filter((mark) => mark.kind === "finding") : time.marks;
    return shown.slice(0, 60).map((mark) => {
        const button = el("button", {
            type: "button",
            class: `mark ${mark.kind}`,
            title: mark.text,
            "aria-label": mark.text,
            onclick: () => time.scrub(mark.step, true),
        });
        button.style.background = mark.colour;
        button.style.left = `${(100 * (mark.step - time.first)) / span}%`;
        return button;
    });
}

// The bar at the bottom: play, a slider, the step.
export function scrubber(time) {
    const slider = el("input", {
        type: "range",
        min: time.first,
        max: time.last,
        step: 1,
        "aria-label": "step",
        class: "slider",
        oninput: () => time.scrub(Number(slider.value)),
    });
    const button = el("button", { type: "button", class: "play", onclick: () => time.play() }),
        marks = el("div", { class: "marks" });
    let marked = "";
    const label = el("output", { class: "step" });
    const zoomed = el("button", {
        type: "button",
        class: "plain",
        title: "show the whole run (double click in a chart)",
        onclick: () => time.unzoom(),
    });
    const move = (by) =>
        el(
            "button",
            {
                type: "button",
                class: "plain",
                "aria-label": by < 0 ? "one step back" : "one step on",
                onclick: () => time.scrub(time.step + by, true),
            },
            by < 0 ? "◀" : "▶",
        );
    const bar = el(
        "div",
        { class: "scrubber", role: "group", "aria-label": "time" },
        move(-1),
        button,
        move(1),
        el("div", { class: "track" }, marks, slider),
        label,
        zoomed,
    );
    const show = () => {
        slider.min = time.first;
        slider.max = time.last;
        slider.value = time.step;
        const now = `${time.last} ${time.marks.length}`;
        if (now !== marked) {
            marked = now;
            replace(marks, markButtons(time));
        }
        button.textContent = time.timer ? "Pause" : "Play";
        button.setAttribute("aria-pressed", time.timer ? "true" : "false");
        replace(label, `step ${whole(time.step)}`, time.following ? el("span", { class: "quiet" }, " · follows") : "");
        const all = time.from <= time.first && time.to >= time.last;
        zoomed.hidden = all;
        zoomed.textContent = `${whole(Math.round(time.from))} – ${whole(Math.round(time.to))} ×`;
    };
    time.on((kind) => kind !== "hover" && show());
    show();
    return bar;
}

// Charts that share this time take the pointer this way: hover, click to scrub, drag to zoom, double click for
// everything. plot(): { left, width } in CSS pixels; step(x): the step at a pixel.
export function timeGestures(node, time, plot, step, onclick) {
    let start = null;
    node.addEventListener("pointermove", (event) => {
        const x = event.offsetX,
            area = plot();
        if (start !== null) {
            node.dispatchEvent(new CustomEvent("brush", { detail: [start, x] }));
        }
        time.point(x >= area.left && x <= area.left + area.width ? step(x) : null);
    });
    node.addEventListener("pointerleave", () => time.point(null));
    node.addEventListener("pointerdown", (event) => {
        if (event.button === 0 && event.offsetX >= plot().left) {
            start = event.offsetX;
            node.setPointerCapture(event.pointerId);
        }
    });
    node.addEventListener("pointerup", (event) => {
        if (start === null) {
            return;
        }
        const from = start,
            x = event.offsetX;
        start = null;
        node.dispatchEvent(new CustomEvent("brush", { detail: null }));
        if (Math.abs(x - from) > 6) {
            time.zoom(step(from), step(x));
        } else if (onclick) {
            onclick(step(x), event);
        } else {
            time.scrub(step(x), true);
        }
    });
    node.addEventListener("pointercancel", () => {
        start = null;
    });
    // The wheel alone scrolls the page; with Ctrl it zooms, with Shift, or sideways, it moves.
    node.addEventListener(
        "wheel",
        (event) => {
            const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
            if (event.ctrlKey || document.fullscreenElement) {
                time.scale(step(event.offsetX), Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))));
            } else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
                time.pan(across / 600);
            } else {
                return;
            }
            event.preventDefault();
        },
        { passive: false },
    );
    node.addEventListener("dblclick", () => time.unzoom());
}
