import { message } from "./dom.js";

export const findingsPage = {
    name: "findings", title: "Findings",
    open() {},
};
