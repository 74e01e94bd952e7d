import { message } from "./dom.js";

export const triggersPage = {
    name: "triggers", title: "Triggers",
    open() {},
};
