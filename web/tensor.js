import { message } from "./dom.js";

export const tensorPage = {
    name: "tensor", title: "Tensor",
    open() {},
};
