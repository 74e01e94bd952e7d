// Elements. Text is only ever text: nothing here, or anywhere else, parses markup.
import { exact, isBad, short } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
    for (const [key, value] of Object.entries(properties || {})) {
        if (value === undefined || value === null || value === false) {
            continue;
        }
        if (key.startsWith("on")) {
            node.addEventListener(key.slice(2), value);
        } else if (key === "style") {
            Object.assign(node.style, value);
        } else {
            node.setAttribute(key, value === true ? "" : value);
        }
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

// el("p", { class: "quiet" }, "text", other)
export function el(tag, properties, ...children) {
    return fill(document.createElement(tag), properties, children);
}

// The head of a table: a row of these cells.
export function thead(...cells) {
    return el("thead", {}, el("tr", {}, cells));
}

export function svg(tag, properties, ...children) {
    return fill(document.createElementNS(SVG, tag), properties, children);
}

// What makes an element the same one after its part of the page was made anew.
function identity(node) {
    const name = node.id || node.getAttribute("aria-label") || node.getAttribute("href") || node.textContent;
    return `${node.tagName} ${node.type || ""} ${name}`;
}

function sameElement(node, wanted) {
    return [...node.querySelectorAll(wanted.tag)].find((other) => identity(other) === wanted.identity);
}

// The keyboard's focus stays where it was, although the element is another one.
export function replace(node, ...children) {
    const focused = document.activeElement,
        wanted =
            focused && focused !== node && node.contains(focused)
                ? {
                      tag: focused.tagName,
                      identity: identity(focused),
                      from: focused.selectionStart,
                      to: focused.selectionEnd,
                  }
                : null;
    node.replaceChildren(
        ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
    );
    const again = wanted && !node.contains(focused) ? sameElement(node, wanted) : wanted && focused;
    if (again) {
        again.focus({ preventScroll: true });
        if (typeof wanted.from === "number") {
            again.setSelectionRange(wanted.from, wanted.to);
        }
    }
    return node;
}

// A number: short, exact on hover, and in the colour of what is not finite where it is not.
export function numeral(number, text) {
    const said = exact(number);
    return el("span", { title: said, "data-exact": said, class: isBad(number) ? "bad" : null }, text ?? short(number));
}

// A name that may be 10 kB long or turn the text around: shown in one line, by itself, in full on hover.
export function nameText(text, most) {
    const shown = text.length > (most || 80) ? text.slice(0, (most || 80) - 1) + "…" : text;
    return el("bdi", { class: "name", title: text.length > 2000 ? text.slice(0, 2000) + "…" : text }, shown);
}

// A labelled choice: options are [value, text].
export function choice(label, options, value, onchange) {
    const select = el(
        "select",
        { "aria-label": label, onchange: () => onchange(select.value) },
        options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)),
    );
    return el("label", { class: "choice" }, el("span", {}, label), select);
}

export function toggle(label, on, onchange) {
    const box = el("input", { type: "checkbox", onchange: () => onchange(box.checked) });
    box.checked = on;
    return el("label", { class: "choice" }, box, el("span", {}, label));
}

// A state that was designed: nothing yet, something went wrong, it is being read.
export function message(title, ...lines) {
    return el(
        "section",
        { class: "message", role: "status" },
        el("h2", {}, title),
        lines.map((line) => (typeof line === "string" ? el("p", {}, line) : line)),
    );
}

export function code(text) {
    return el("pre", { class: "code", tabindex: 0 }, text);
}

// What to add to record something: to the experiment's file, or to the program, whichever the run is of.
export function recipe(run, yaml, python) {
    return code(run.notes.experiment.yaml ? yaml : python);
}

export function copy(text, node) {
    const done = () => {
        node.classList.add("copied");
        setTimeout(() => node.classList.remove("copied"), 700);
    };
    if (navigator.clipboard) {
        navigator.clipboard.writeText(text).then(done, () => {});
    }
}

export function dialog(...children) {
    const box = el("dialog", { onclose: () => box.remove() }, children);
    document.body.append(box);
    box.showModal();
    return box;
}
