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

// The shortest text that reads back to the same number; a float32 is said as one.
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

export function when(seconds) {
    return seconds > 0 ? new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "–";
}

// Ticks between two numbers, at most so many, at round places.
export function ticks(low, high, most) {
    const span = high - low;
    if (!(span > 0) || !Number.isFinite(span)) {
        return [low];
    }
    const rough = span / Math.max(most, 1),
        power = 10 ** Math.floor(Math.log10(rough));
    const step =
        [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => span / candidate <= most) || 10 * power;
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

// Powers of ten between two positive numbers; 2 and 5 too where there are few.
export function logTicks(low, high, most) {
    const first = Math.floor(Math.log10(low)),
        last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / Math.max(most, 1)));
    const made = [];
    for (let power = first; power <= last; power += every) {
        for (const factor of last - first <= 2 ? [1, 2, 5] : [1]) {
            const tick = Number(`${factor}e${power}`);
            if (tick >= low * 0.9999 && tick <= high * 1.0001) {
                made.push(tick);
            }
        }
    }
    return made;
}
