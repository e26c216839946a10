// A place to drop pictures, or to choose them. Phones may take one with their own camera.

import { h, newId } from "../dom.js";
import { t } from "../i18n.js";
import { say, tell } from "../said.js";
import { dropped } from "./dropped.js";

// Fingers drop nothing.
export function isTouch() {
  return matchMedia("(pointer: coarse)").matches;
}

// `take` gets the files. With `whole`, files may be dropped anywhere on the page, until it is closed.
export function dropZone({ text, hint = null, take, several = true, accept = "image/*", whole = false }) {
  const id = newId("files");
  const input = h("input", { id, type: "file", class: "hidden-text", accept, multiple: several });
  const zone = h("label", { class: "drop", for: id },
    h("span", { class: "drop-sign", "aria-hidden": "true" }, "⤓"),
    h("strong", {}, text),
    hint && h("span", { class: "pale" }, hint),
    input);
  const given = (files) => {
    if (files.length) take(several ? files : files.slice(0, 1));
    else say(t("drop.nothing"), { bad: true });
  };
  input.addEventListener("change", () => {
    if (input.files.length) given([...input.files]);
    input.value = ""; // so that the same file can be chosen again
  });
  const over = (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone.classList.toggle("over", event.type === "dragover");
  };
  const drop = (event) => {
    event.preventDefault();
    event.stopPropagation();
    zone.classList.remove("over");
    if (!document.querySelector("dialog[open]")) dropped(event.dataTransfer).then(given).catch(tell);
  };
  const area = whole ? document.body : zone;
  const listeners = { dragover: over, dragleave: over, drop };
  for (const [kind, listener] of Object.entries(listeners)) area.addEventListener(kind, listener);
  const close = () => {
    for (const [kind, listener] of Object.entries(listeners)) area.removeEventListener(kind, listener);
  };
  return { node: zone, open: () => input.click(), close };
}

// A picture from the phone's own camera app; it works without TLS too.
export function phoneCamera(take) {
  const id = newId("phone");
  const input = h("input", { id, type: "file", class: "hidden-text", accept: "image/*", capture: "environment" });
  input.addEventListener("change", () => {
    if (input.files.length) take([...input.files]);
    input.value = "";
  });
  return h("label", { class: "button", for: id }, t("camera.phone"), input);
}
