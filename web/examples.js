import { message } from "./dom.js";

export const examplesPage = {
    name: "examples", title: "Examples",
    open() {},
};
