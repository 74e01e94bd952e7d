// What a chart shows, as a file: CSV, PNG, SVG.
import { el } from "./dom.js";
import { theme } from "./colour.js";
import { Picture } from "./surface.js";

function save(name, blob) {
    const link = el("a", { download: name, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// null is an empty cell; NaN and infinities are written as pandas and R read them. A text that a spreadsheet
// would take for a formula begins with an apostrophe.
function cell(value) {
    if (typeof value === "number") {
        return Number.isNaN(value) ? "NaN" : Number.isFinite(value) ? String(value) : value > 0 ? "inf" : "-inf";
    }
    const plain = value ?? "",
        text = /^[=+\-@\t\r]/.test(plain) ? `'${plain}` : plain;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvText(rows) {
    return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function fileName(title, ending) {
    return (title.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 60) || "tapedeck") + ending;
}

// chart: { title, rows(): the table it shows, draw(surface): itself, canvas }
export function exportMenu(chart, more) {
    const makers = {
        CSV: () => save(fileName(chart.title, ".csv"), new Blob([csvText(chart.rows())], { type: "text/csv" })),
        PNG: () => {
            const copy = document.createElement("canvas"),
                context = copy.getContext("2d");
            copy.width = chart.canvas.width;
            copy.height = chart.canvas.height;
            context.fillStyle = theme().back;
            context.fillRect(0, 0, copy.width, copy.height);
            context.drawImage(chart.canvas, 0, 0);
            copy.toBlob((blob) => save(fileName(chart.title, ".png"), blob));
        },
        SVG: () => {
            const picture = new Picture();
            chart.draw(picture);
            save(fileName(chart.title, ".svg"), new Blob([picture.text_of(theme().back)], { type: "image/svg+xml" }));
        },
    };
    return el(
        "span",
        { class: "exports", role: "group", "aria-label": `save ${chart.title}` },
        Object.entries(makers).map(([name, make]) =>
            el(
                "button",
                { class: "plain", type: "button", title: `save what is shown as ${name}`, onclick: make },
                name,
            ),
        ),
        more ?? "",
    );
}
