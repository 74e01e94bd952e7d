// Colours: perceptually even scales that a colour-blind reader can distinguish, one colour for what is not
// finite and for nothing else, and eight for categories (Okabe and Ito).

const viridis = "440154 482475 414487 355f8d 2a788e 21918c 22a884 44bf70 7ad151 bddf26 fde725";
const cividis = "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838";
const signedOnDark = "c9bdf2 9b87dd 7059b8 4a3c80 2c2a45 1d2025 3d2c1c 73490f b06a12 e0922f ffc677"; // zero is dark
const signed = "2d004b 542788 8073ac b2abd2 e6e6ee f7f7f7 fbe6cf fdb863 e08214 b35806 7f3b08";

function parse(text) {
    return text.split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
}

// 256 colours of a scale, as bytes.
function table(text) {
    const stops = parse(text),
        made = new Uint8Array(256 * 3);
    for (let i = 0; i < 256; i++) {
        const at = (i / 255) * (stops.length - 1),
            low = Math.min(Math.floor(at), stops.length - 2);
        for (let k = 0; k < 3; k++) {
            made[3 * i + k] = stops[low][k] + (at - low) * (stops[low + 1][k] - stops[low][k]);
        }
    }
    return made;
}

export const scales = {
    viridis: table(viridis),
    cividis: table(cividis),
    signed: table(signed),
    signedOnDark: table(signedOnDark),
};
export const BAD = [255, 0, 144];
export const BAD_TEXT = "#ff0090";
const darkness = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
    return darkness.matches;
}

const onLight = ["#0072b2", "#d98c00", "#009e73", "#d55e00", "#3d9ad6", "#b5588c", "#7d7d00", "#6b6b6b"];
const onDark = ["#56b4e9", "#e69f00", "#2bc59b", "#ff8247", "#9ad0f5", "#e59ac7", "#c9c94a", "#b0b0b0"];
export const categories = isDark() ? [...onDark] : [...onLight];

// The same names, other shades, when the system changes between light and dark.
darkness.addEventListener("change", () => categories.splice(0, 8, ...(isDark() ? onDark : onLight)));

// Of line i of a chart: from the ninth on, lines are dashed.
export function lineStyle(i) {
    const dashes = [null, [7, 3], [2, 2], [9, 3, 2, 3]];
    return { colour: categories[i % 8], dash: dashes[Math.floor(i / 8) % dashes.length] };
}

export function css(scale, share) {
    const at = 3 * Math.max(0, Math.min(255, Math.round(share * 255)));
    return `rgb(${scale[at]},${scale[at + 1]},${scale[at + 2]})`;
}

// How numbers become colours: logarithmic where all are positive and far apart, about zero where there are
// both signs. `share` is 0 … 1, NaN for what has no place.
export function colouring(low, high, least, name) {
    if (low < 0 && high > 0) {
        const most = Math.max(-low, high);
        const both = isDark() ? scales.signedOnDark : scales.signed;
        return { kind: "signed", scale: both, low: -most, high: most, share: (v) => 0.5 + v / most / 2 };
    }
    const scale = scales[name || "viridis"];
    if (low >= 0 && high > 0 && least > 0 && high / least > 30) {
        const a = Math.log10(least),
            b = Math.log10(high);
        return {
            kind: "log",
            scale,
            low: least,
            high,
            share: (v) => (v <= 0 ? 0 : Math.max(0, (Math.log10(v) - a) / (b - a || 1))),
        };
    }
    return { kind: "linear", scale, low, high, share: (v) => (high > low ? (v - low) / (high - low) : 0.5) };
}

let known = null;

// The page's own colours, as the style sheet has them now. Asked for with every frame, so kept.
export function theme() {
    if (!known || known.dark !== isDark()) {
        const style = getComputedStyle(document.documentElement),
            get = (name) => style.getPropertyValue(name).trim();
        known = {
            dark: isDark(),
            text: get("--text"),
            quiet: get("--quiet"),
            line: get("--line"),
            accent: get("--accent"),
            back: get("--back"),
            none: get("--none"),
        };
    }
    return known;
}
