import { message } from "./dom.js";

export const recorderPage = {
    name: "recorder", title: "Recorder",
    open() {},
};
