import { message } from "./dom.js";

export const comparePage = {
    name: "compare", title: "Compare",
    open() {},
};
