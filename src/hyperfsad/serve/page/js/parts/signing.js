// Signing in with a name and a PIN, or with a token, for a cookie: neither is ever kept in the browser.

import { action, h, newId, replace } from "../dom.js";
import { SIGNED_IN, SIGNED_OUT, logIn, logOut } from "../api.js";
import { t } from "../i18n.js";
import { hush, tell } from "../said.js";
import { ROLES, who } from "../state.js";

function field(text, attributes) {
  const id = newId("sign");
  const input = h("input", { id, required: true, ...attributes });
  return { input, nodes: [h("label", { for: id }, text), input] };
}

export function signInForm(done = () => {}) {
  const form = h("form", { class: "signing" });
  const draw = (named) => {
    // password managers want a name, too
    const name = named
      ? field(t("login.name"), { name: "username", autocomplete: "username", maxlength: 60 })
      : { input: h("input", { name: "username", autocomplete: "username", value: "hyperfsad", hidden: true, "aria-hidden": "true", tabindex: "-1" }) };
    const secret = field(t(named ? "login.pin" : "login.token"), { type: "password", name: "secret", autocomplete: "current-password" });
    const other = who.users && h("button", { type: "button", class: "quiet", onclick: () => draw(!named) }, t(named ? "login.withtoken" : "login.withpin"));
    replace(form, h("p", {}, t(named ? "login.namedtext" : "login.text")), name.nodes ?? name.input, secret.nodes,
      h("button", { class: "main" }, t("login.button")), other);
    form.onsubmit = async (event) => {
      event.preventDefault();
      try {
        const sent = named ? { name: name.input.value.trim(), pin: secret.input.value } : { token: secret.input.value.trim() };
        Object.assign(who, await logIn(sent));
        hush();
        done();
        dispatchEvent(new Event(SIGNED_IN));
      } catch (error) {
        secret.input.value = "";
        secret.input.focus();
        tell(error);
      }
    };
    form.querySelector("input:not([hidden])").focus();
  };
  draw(who.users);
  return form;
}

export async function signOut() {
  await logOut();
  dispatchEvent(new Event(SIGNED_OUT));
}

// Who is signed in, with the way out, and the way in for the next one; where there are users.
export function showSigning() {
  const close = () => dialog.close();
  const dialog = h("dialog", { class: "signing-dialog", "aria-label": t("login.title") },
    h("div", { class: "row" },
      h("h2", { class: "grow" }, t("login.as", { name: who.user || t("login.notoken") }), " ", h("small", { class: "pale" }, t(ROLES[who.role]))),
      action(t("signout"), () => signOut().then(close), tell)),
    h("h3", {}, t("login.other")), signInForm(close),
    h("form", { method: "dialog" }, h("button", {}, t("close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
