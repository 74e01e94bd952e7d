// Numbers and times as people read them.

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// What is not a finite number, as text: "NaN", "∞", "−∞", or "–" where nothing was recorded; null when it is one.
// The server's JSON has null for NaN.
function notFinite(number) {
    if (number === undefined) {
        return "–";
    }
    if (number === null || Number.isNaN(number)) {
        return "NaN";
    }
    return Number.isFinite(number) ? null : number > 0 ? "∞" : "−∞";
}

// Whether it was recorded and is NaN or infinite.
export function isBad(number) {
    return number !== undefined && !Number.isFinite(number);
}

// Short: four digits, and the same width for what is about the same size.
export function short(number) {
    const odd = notFinite(number);
    if (odd) {
        return odd;
    }
    const size = Math.abs(number);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
        return number.toExponential(2).replace("e+", "e").replace("-", "−").replace("e-", "e−");
    }
    if (Number.isInteger(number)) {
        return whole(number);
    }
    return String(Number(number.toPrecision(4))).replace("-", "−");
}

// The shortest text that reads back to the same number; a float32 is printed as one.
export function exact(number) {
    const odd = notFinite(number);
    if (odd) {
        return odd;
    }
    if (Math.fround(number) === number && !Number.isInteger(number)) {
        for (let digits = 1; digits <= 9; digits++) {
            const text = number.toPrecision(digits);
            if (Math.fround(Number(text)) === number) {
                return String(Number(text));
            }
        }
    }
    return String(number);
}

export function whole(number) {
    return grouped.format(number).replaceAll(",", "\u202f").replace("-", "−");
}

export function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (number >= 1024 && unit < units.length - 1) {
        number /= 1024;
        unit++;
    }
    return `${unit ? Number(number.toPrecision(3)) : number} ${units[unit]}`;
}

export function duration(seconds) {
    if (!(seconds >= 0)) {
        return "–";
    }
    if (seconds < 1) {
        return `${Number((seconds * 1000).toPrecision(2))} ms`;
    }
    if (seconds < 60) {
        return `${Number(seconds.toPrecision(3))} s`;
    }
    const minutes = Math.floor(seconds / 60);
    return minutes < 60
        ? `${minutes} min`
        : minutes < 2880
          ? `${Math.floor(minutes / 60)} h ${minutes % 60} min`
          : `${Math.floor(minutes / 1440)} days`;
}

const moment = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "short" });

export function when(seconds) {
    return seconds > 0 ? moment.format(new Date(seconds * 1000)) : "–";
}

// Ticks between two numbers at round places: at most `max`, but three at least.
export function ticks(low, high, max) {
    let made = roundPlaces(low, high, max);
    for (let many = max + 1; made.length < 3 && many < max + 8 && high > low; many++) {
        made = roundPlaces(low, high, many);
    }
    return made;
}

function roundPlaces(low, high, max) {
    const span = high - low;
    if (!(span > 0) || !Number.isFinite(span)) {
        return [low];
    }
    const rough = span / Math.max(max, 1),
        power = 10 ** Math.floor(Math.log10(rough));
    const step =
        [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => span / candidate <= max) || 10 * power;
    const made = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9 && made.length < 100; k++) {
        made.push(k === 0 ? 0 : Number((k * step).toPrecision(12)));
    }
    return made;
}

// A round number, without digits that say nothing.
export function tickText(number) {
    const size = Math.abs(number);
    return size !== 0 && (size < 1e-3 || size >= 1e6)
        ? number.toExponential().replace("e+", "e").replaceAll("-", "−")
        : short(number);
}

// What a metric of this name is measured in, where names are known: "" or a unit. See docs/environment.md.
export function unitOf(name) {
    const units = [
        [/^system\.(cpu|memory|process\.cpu|disk\.used|gpu\.\d+\.(load|memory))$|(percent|_pct)$/, "%"],
        [/^system\.process\.memory$|bytes$/, "B"],
        [/^system\.(disk|network)\.(read|written|received|sent)$/, "B/s"],
        [/\.power$/, "W"],
        [/\.temperature$/, "°C"],
        [/(^|[_./])(seconds|step_time|time)$/, "s"],
    ];
    return units.find(([pattern]) => pattern.test(name))?.[1] ?? "";
}

// A tick with its unit: bytes in units of 1024.
export function unitText(number, unit) {
    return unit.startsWith("B") ? bytes(number) + unit.slice(1) : tickText(number) + (unit ? ` ${unit}` : "");
}

// Symmetric logarithm: linear within ±small, logarithmic beyond. Signed data that spans decades has a place.
export function symlog(value, small) {
    return Math.sign(value) * Math.log10(1 + Math.abs(value) / small);
}

// Zero and powers of ten on both sides, at most `max` on each.
export function symlogTicks(low, high, small, max) {
    const made = low <= 0 && high >= 0 ? [0] : [];
    for (const [sign, end] of [
        [1, high],
        [-1, -low],
    ]) {
        const last = Math.floor(Math.log10(Math.max(end, small))),
            first = Math.ceil(Math.log10(small)),
            every = Math.max(1, Math.ceil((last - first + 1) / max));
        for (let power = last; power >= first && end > small; power -= every) {
            made.push(sign * Number(`1e${power}`));
        }
    }
    return made.filter((tick) => tick >= low && tick <= high).sort((a, b) => a - b);
}

// Powers of ten between two positive numbers; 2 and 5 too where there are fewer than three.
export function logTicks(low, high, max) {
    const made = powers(low, high, max, [1]);
    return made.length < 3 ? powers(low, high, max, [1, 2, 5]) : made;
}

function powers(low, high, max, factors) {
    const first = Math.floor(Math.log10(low)),
        last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / Math.max(max, 1)));
    const made = [];
    for (let power = first; power <= last; power += every) {
        for (const factor of factors) {
            const tick = Number(`${factor}e${power}`);
            if (tick >= low * 0.9999 && tick <= high * 1.0001) {
                made.push(tick);
            }
        }
    }
    return made;
}
