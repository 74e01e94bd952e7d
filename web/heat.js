// A heat map: rows over time, one colour a cell. What is not finite has a colour of its own and is counted.
import { el, replace, nameText, numeral } from "./dom.js";
import { exact, isBad, short, tickText, whole } from "./format.js";
import { theme, colouring, css, BAD } from "./colour.js";
import { Screen } from "./surface.js";
import { exportMenu } from "./export.js";
import { Sight } from "./sight.js";
import { drawMark, markAt, timeGestures } from "./time.js";

const RIGHT = 10,
    BOTTOM = 24,
    MARKS = 14;

// rows: { name, values, bad, from, to, before, until } from top to bottom, as fetchHeat has them; columns go evenly
// over the steps from time.from to time.to; until is the signal's last step.
// options: { title, label: what a number is, onopen(row, step), scale, linear: colours are never logarithmic }
export class Heat {
    constructor(time, options) {
        this.time = time;
        this.options = options;
        this.title = options.title;
        this.rows_ = [];
        this.known = new WeakMap(); // a row as it was given: that row with what holds
        this.row = -1;
        this.canvas = el("canvas", { class: "base" });
        this.over = el("canvas", {
            class: "over",
            tabindex: 0,
            role: "application",
            "aria-label": `${options.title}: arrow keys move, Enter opens`,
        });
        this.screen = new Screen(this.canvas);
        this.overlay = new Screen(this.over);
        this.readout = el("output", { class: "readout" });
        this.key = el("div", { class: "key" });
        this.box = el("div", { class: "plot heat" }, this.canvas, this.over);
        this.scroll = el("div", { class: "heat-scroll" }, this.box);
        this.caption = el("span", {}, options.title);
        this.element = el(
            "figure",
            { class: "chart" },
            el("figcaption", {}, this.caption, exportMenu(this)),
            el("div", { class: "heat-head" }, this.readout, this.key),
            this.scroll,
        );
        this.listen();
    }

    listen() {
        const time = this.time;
        timeGestures(
            this.over,
            time,
            () => ({ left: this.left, width: this.width - this.left - RIGHT }),
            (x) => this.stepAt(x),
            (step, event) => this.click(step, event),
        );
        this.over.addEventListener("pointermove", (event) => {
            this.pointRow(this.rowAt(event.offsetY));
            const mark = event.offsetY < MARKS && markAt(this.time, this, event.offsetX);
            this.over.title = mark ? mark.text : "";
        });
        this.over.addEventListener("pointerleave", () => this.pointRow(-1));
        this.over.addEventListener("brush", (event) => {
            this.brush = event.detail;
            this.drawOver();
        });
        this.over.addEventListener("keydown", (event) => this.press(event));
        this.sight = new Sight(this.scroll, time, { moved: () => this.drawOver(), resized: () => this.redraw() });
    }

    remove() {
        this.sight.remove();
    }

    set(rows) {
        this.rows_ = rows.map((row) => this.heldRow(row));
        this.redraw();
    }

    // A long map comes in parts: the rows that were there are known.
    heldRow(row) {
        if (!this.known.has(row)) {
            this.known.set(row, { ...row, ...held(row, this.time) });
        }
        return this.known.get(row);
    }

    click(step, event) {
        const row = this.rowAt(event.offsetY);
        this.time.scrub(step, true);
        if (row >= 0 && this.options.onopen) {
            this.options.onopen(this.rows_[row], Math.round(step));
        }
    }

    press(event) {
        const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (by) {
            this.pointRow(Math.max(0, Math.min(this.rows_.length - 1, this.row + by)));
            event.preventDefault();
            event.stopPropagation();
        } else if (event.key === "Enter" && this.row >= 0 && this.options.onopen) {
            this.options.onopen(this.rows_[this.row], this.time.step);
        }
    }

    pointRow(row) {
        if (row !== this.row) {
            this.row = row;
            this.drawOver();
        }
    }

    // ---- Places ----

    get width() {
        return this.sight.width || 300;
    }

    get left() {
        return Math.min(
            190,
            this.width * 0.3,
            24 + 7 * Math.max(4, ...this.rows_.map((row) => Math.min(row.name.length, 26))),
        );
    }

    // Between a line of three pixels for a thousand layers and a comfortable bar for a few.
    get rowHeight() {
        return Math.max(3, Math.min(34, Math.floor((this.options.height || 420) / Math.max(this.rows_.length, 1))));
    }

    get height() {
        return MARKS + this.rowHeight * this.rows_.length + BOTTOM;
    }

    rowAt(y) {
        const row = Math.floor((y - MARKS) / this.rowHeight);
        return row >= 0 && row < this.rows_.length ? row : -1;
    }

    // A step is a cell: the last one ends where the next would begin.
    domain() {
        return [this.time.toAxis(this.time.from), this.time.toAxis(this.time.to + 1)];
    }

    xOf(step) {
        const share = this.time.shareOf(this.time.toAxis(step), this.domain());
        return this.left + share * (this.width - this.left - RIGHT);
    }

    stepAt(x) {
        const share = (x - this.left) / (this.width - this.left - RIGHT);
        return this.time.fromAxis(this.time.placeAt(share, this.domain()));
    }

    columnAt(step) {
        const count = this.rows_.length ? this.rows_[0].values.length : 0;
        const column = Math.floor(((step - this.time.from) / (this.time.to - this.time.from + 1)) * count);
        return Math.max(0, Math.min(count - 1, column));
    }

    // ---- Drawing ----

    redraw() {
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => {
            this.box.style.height = `${this.height}px`;
            this.draw(this.screen);
            this.drawKey();
            this.drawOver();
        });
    }

    measure() {
        let low = Infinity,
            high = -Infinity,
            least = Infinity,
            bad = 0;
        for (const row of this.rows_) {
            for (let i = 0; i < row.values.length; i++) {
                const value = row.values[i];
                bad += row.bad[i] > 0 && row.own[i] ? row.bad[i] : 0;
                if (Number.isFinite(value)) {
                    low = Math.min(low, value);
                    high = Math.max(high, value);
                    least = value > 0 && value < least ? value : least;
                }
            }
        }
        this.badCount = bad;
        this.colours = low <= high ? colouring(low, high, this.options.linear ? NaN : least, this.options.scale) : null;
    }

    draw(surface) {
        const page = theme(),
            width = this.width,
            columns = this.rows_.length ? this.rows_[0].values.length : 0;
        surface.begin(width, this.height);
        this.measure();
        if (!columns) {
            return;
        }
        const plot = width - this.left - RIGHT,
            tall = this.rowHeight;
        const places = Math.max(1, Math.round(plot)),
            pixels = new ImageData(places, this.rows_.length),
            none = parseColour(page.none),
            shown = Uint32Array.from({ length: places }, (unused, i) =>
                this.columnAt(this.stepAt(this.left + ((i + 0.5) / places) * plot)),
            );
        this.rows_.forEach((row, r) => this.paint(pixels, row, r, none, shown));
        surface.image(pixels, this.left, MARKS, plot, tall * this.rows_.length);
        if (tall >= 8) {
            for (let r = 1; r < this.rows_.length; r++) {
                surface.rect(this.left, MARKS + r * tall - 0.5, plot, tall >= 14 ? 1.5 : 1, page.back);
            }
        }
        this.drawLabels(surface, page, tall);
        for (const tick of this.time.ticks(this.time.domain(), Math.max(2, Math.floor(plot / 90)))) {
            const x = this.left + this.time.shareOf(tick, this.domain()) * plot;
            surface.text(Math.min(x, width - 14), this.height - 10, tickText(tick), page.quiet, "center", 12);
        }
        for (const mark of this.time.marks) {
            drawMark(surface, mark, this.xOf(mark.step), this.xOf(mark.last), this.left, width - RIGHT, MARKS - 3);
        }
    }

    // shown: the column of each place from left to right.
    paint(pixels, row, r, none, shown) {
        for (let place = 0; place < shown.length; place++) {
            const at = 4 * (r * pixels.width + place),
                c = shown[place],
                value = row.values[c];
            let colour = none;
            if (row.bad[c] > 0 || value === Infinity || value === -Infinity) {
                colour = BAD;
            } else if (!Number.isNaN(value) && this.colours) {
                const index = 3 * Math.max(0, Math.min(255, Math.round(this.colours.share(value) * 255)));
                colour = this.colours.scale.subarray(index, index + 3);
            }
            pixels.data[at] = colour[0];
            pixels.data[at + 1] = colour[1];
            pixels.data[at + 2] = colour[2];
            pixels.data[at + 3] = colour[3] ?? 255;
        }
    }

    drawLabels(surface, page, tall) {
        const every = Math.max(1, Math.ceil(13 / tall));
        this.rows_.forEach((row, r) => {
            if (r % every === 0) {
                const most = Math.floor((this.left - 10) / 6.6),
                    name = row.name.length > most ? row.name.slice(0, most - 1) + "…" : row.name;
                surface.text(
                    this.left - 8,
                    MARKS + (r + (every > 1 ? 0.5 : 0.5)) * tall,
                    name.replace(/[\u0000-\u001f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "·"),
                    page.text,
                    "right",
                    12,
                );
            }
        });
    }

    drawKey() {
        const key = [],
            c = this.colours;
        if (c) {
            const bar = el("canvas", { width: 128, height: 10, class: "bar" }),
                context = bar.getContext("2d");
            for (let i = 0; i < 128; i++) {
                context.fillStyle = css(c.scale, i / 127);
                context.fillRect(i, 0, 1, 10);
            }
            key.push(
                el("span", {}, short(c.low)),
                bar,
                el("span", {}, short(c.high)),
                el(
                    "span",
                    { class: "quiet" },
                    `${this.options.label} · ${{ log: "logarithmic", linear: "linear", signed: "about zero" }[c.kind]}`,
                ),
            );
        }
        key.push(
            el(
                "span",
                { class: "bad-key" + (this.badCount ? " some" : "") },
                el("span", { class: "bad-swatch" }),
                this.badCount ? `${whole(this.badCount)} × NaN or ∞` : "no NaN or ∞",
            ),
        );
        replace(this.key, key);
    }

    drawOver() {
        const page = theme(),
            time = this.time,
            height = this.height,
            tall = this.rowHeight;
        this.overlay.begin(this.width, height);
        if (this.brush) {
            this.overlay.rect(
                Math.min(...this.brush),
                MARKS,
                Math.abs(this.brush[1] - this.brush[0]),
                height - BOTTOM - MARKS,
                page.back,
                0.4,
            );
        }
        const scrubbed = this.xOf(time.step + 0.5);
        if (scrubbed >= this.left && scrubbed <= this.width - RIGHT + 1) {
            this.overlay.line([scrubbed, 0, scrubbed, height - BOTTOM + 4], page.back, 4);
            this.overlay.line([scrubbed, 0, scrubbed, height - BOTTOM + 4], page.accent, 2);
        }
        const step = time.hover ?? time.step;
        if (time.hover !== null) {
            const x = this.xOf(time.hover);
            this.overlay.line([x, MARKS, x, height - BOTTOM], page.text, 1, [3, 3]);
        }
        if (this.row >= 0) {
            const y = MARKS + this.row * tall;
            this.overlay.line(
                [this.left, y, this.width - RIGHT, y, this.width - RIGHT, y + tall, this.left, y + tall, this.left, y],
                page.text,
                1.5,
            );
        }
        this.say(step);
    }

    say(step) {
        const row = this.rows_[this.row];
        if (!row) {
            replace(this.readout, el("span", { class: "quiet" }, this.options.hint || "point at a cell"));
            return;
        }
        const column = this.columnAt(step),
            bad = row.bad[column],
            value = row.values[column],
            [first, last] = [row.from[column], row.to[column]];
        if (!(bad >= 0)) {
            replace(
                this.readout,
                nameText(row.name, 48),
                ` · nothing was recorded at step ${whole(Math.round(step))}${this.options.onopen ? "; click for its layer at that step" : ""}`,
            );
            return;
        }
        replace(
            this.readout,
            nameText(row.name, 48),
            first === last ? ` · step ${whole(first)}` : ` · steps ${whole(first)} – ${whole(last)}`,
            last < Math.floor(step) && row.own[column] !== 1 ? " (the last record before)" : "",
            ` · ${this.options.label} `,
            el("strong", {}, numeral(value, exact(value))),
            bad > 0 && !isBad(value) ? el("strong", { class: "bad" }, " and NaN or ∞") : "",
        );
    }

    // What was recorded, and nothing that is only held.
    rows() {
        const rows = [["row", "first_step", "last_step", this.options.label, "nonfinite"]];
        for (const row of this.rows_) {
            for (let c = 0; c < row.values.length; c++) {
                if (row.own[c]) {
                    rows.push([row.name, row.from[c], row.to[c], row.values[c], row.bad[c]]);
                }
            }
        }
        return rows;
    }
}

// A value holds until the next one: a layer that is recorded every hundred steps is no row of dots. own is 1 where
// something was recorded. Behind a signal's last record the value holds for as long as records were apart.
function held(row, time) {
    const values = Float64Array.from(row.values),
        bad = Float64Array.from(row.bad),
        from = Float64Array.from(row.from),
        to = Float64Array.from(row.to),
        own = Uint8Array.from(row.bad, (count) => (count >= 0 ? 1 : 0)),
        last = own.lastIndexOf(1),
        goesOn = row.until > time.to;
    let now = row.before && row.before.bad >= 0 ? row.before : null,
        widest = 1,
        since = -1;
    for (let c = 0; c < values.length; c++) {
        if (own[c]) {
            widest = since >= 0 ? Math.max(widest, c - since) : widest;
            since = c;
            now = { value: values[c], bad: bad[c], from: from[c], to: to[c] };
        } else if (now && (c < last || goesOn || (last >= 0 && c < last + widest))) {
            [values[c], bad[c], from[c], to[c]] = [now.value, now.bad, now.from, now.to];
        }
    }
    return { values, bad, from, to, own };
}

function parseColour(text) {
    const hex = /^#([0-9a-f]{6})$/i.exec(text);
    return hex ? [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16)) : [128, 128, 128];
}
