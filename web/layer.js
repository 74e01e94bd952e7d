import { message } from "./dom.js";

export const layerPage = {
    name: "layer", title: "Layer",
    open() {},
};
