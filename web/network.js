import { message } from "./dom.js";

export const networkPage = {
    name: "network", title: "Network",
    open() {},
};
