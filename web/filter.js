// The filter of the list of runs: words of names, /regular expressions/, and comparisons of anything that a column
// shows: `digits val_loss < 0.2 and (lr >= 0.01 or tags ~ best)`.

const TOKEN = /\s*(?:\/((?:[^/\\]|\\.)+)\/(i?)|(<=|>=|!=|=|<|>|~|\(|\))|"([^"]*)"|([^\s()<>=!~"]+))/y;

// [{ kind: "regex" | "sign" | "text" | "word", text }]
function tokens(text) {
    const made = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.trimEnd().length) {
        const at = TOKEN.lastIndex,
            found = TOKEN.exec(text);
        if (!found) {
            throw new Error(`"${text.slice(at).trim()}" is no filter`);
        }
        const [, regex, flags, sign, quoted, word] = found;
        made.push(
            regex !== undefined
                ? { kind: "regex", text: regex, flags }
                : sign
                  ? { kind: "sign", text: sign }
                  : quoted !== undefined
                    ? { kind: "text", text: quoted }
                    : { kind: "word", text: word },
        );
    }
    return made;
}

const signs = {
    "<": (a, b) => a < b,
    "<=": (a, b) => a <= b,
    ">": (a, b) => a > b,
    ">=": (a, b) => a >= b,
};

function compile(pattern, flags) {
    try {
        return new RegExp(pattern, flags);
    } catch (error) {
        throw new Error(`/${pattern}/ is no regular expression: ${error.message}`);
    }
}

// One comparison: numbers by value where both sides are numbers, all else as text.
function comparison(get, sign, wanted) {
    if (sign === "~") {
        const pattern = compile(wanted, "i");
        return (run) => pattern.test(String(get(run) ?? ""));
    }
    const number = wanted.trim() === "" ? NaN : Number(wanted);
    if (signs[sign]) {
        if (Number.isNaN(number)) {
            throw new Error(`"${wanted}" is no number`);
        }
        return (run) => {
            const value = get(run);
            return value !== undefined && value !== "" && signs[sign](Number(value), number);
        };
    }
    const same = (value) =>
        Number.isNaN(number)
            ? String(value ?? "").toLowerCase() === wanted.toLowerCase()
            : value !== undefined && value !== "" && Number(value) === number;
    return sign === "=" ? (run) => same(get(run)) : (run) => !same(get(run));
}

// A predicate on runs. find(key): the function that gets what a column of that name shows, undefined when there is none.
// Throws an Error that says what is wrong.
export function filterOf(text, find) {
    const all = tokens(text);
    let at = 0;
    const word = (name) => all[at]?.kind === "word" && all[at].text.toLowerCase() === name;
    const sign = (name) => all[at]?.kind === "sign" && all[at].text === name;
    const either = () => {
        let left = both();
        while (word("or")) {
            at++;
            const a = left,
                b = both();
            left = (run) => a(run) || b(run);
        }
        return left;
    };
    const both = () => {
        let left = one();
        while (at < all.length && !word("or") && !sign(")")) {
            at += word("and") ? 1 : 0;
            const a = left,
                b = one();
            left = (run) => a(run) && b(run);
        }
        return left;
    };
    const one = () => {
        const token = all[at++];
        if (!token) {
            throw new Error("the filter ends too early");
        }
        if (token.kind === "word" && token.text.toLowerCase() === "not") {
            const inner = one();
            return (run) => !inner(run);
        }
        if (token.kind === "sign" && token.text === "(") {
            const inner = either();
            if (!sign(")")) {
                throw new Error("a ) is missing");
            }
            at++;
            return inner;
        }
        if (token.kind === "sign") {
            throw new Error(`"${token.text}" has no name before it`);
        }
        if (token.kind === "regex") {
            const pattern = compile(token.text, token.flags);
            return (run) => pattern.test(run.name);
        }
        if (all[at]?.kind === "sign" && !sign("(") && !sign(")")) {
            const operator = all[at++].text,
                wanted = all[at++];
            if (!wanted || wanted.kind === "sign") {
                throw new Error(`${token.text} ${operator} what?`);
            }
            const get = find(token.text);
            if (!get) {
                throw new Error(`no run has "${token.text}"`);
            }
            return comparison(get, operator, wanted.text);
        }
        const wanted = token.text.toLowerCase();
        return (run) => run.name.toLowerCase().includes(wanted) || (run.state || "") === wanted;
    };
    if (!all.length) {
        return () => true;
    }
    const made = either();
    if (at < all.length) {
        throw new Error(`"${all[at].text}" is one too many`);
    }
    return made;
}
