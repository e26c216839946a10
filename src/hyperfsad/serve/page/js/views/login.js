// A token for a cookie. The token itself is never kept in the browser.

import { h, newId, replace } from "../dom.js";
import { SIGNED_IN, logIn } from "../api.js";
import { t } from "../i18n.js";
import { hush, tell } from "../said.js";
import { who } from "../state.js";

export default {
  name: "login",
  path: "/login",
  show(place) {
    const id = newId("token");
    const field = h("input", { id, type: "password", name: "token", autocomplete: "current-password", required: true });
    const form = h("form", { class: "card narrow" },
      h("h1", {}, t("login.title")),
      h("p", {}, t("login.text")),
      // password managers want a name, too
      h("input", { type: "text", name: "username", autocomplete: "username", value: "hyperfsad", hidden: true, "aria-hidden": "true", tabindex: "-1" }),
      h("label", { for: id }, t("login.token")), field,
      h("button", { class: "main" }, t("login.button")));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        Object.assign(who, await logIn(field.value.trim()));
        hush();
        dispatchEvent(new Event(SIGNED_IN));
      } catch (error) {
        field.value = "";
        field.focus();
        tell(error);
      }
    });
    replace(place, form);
    field.focus();
  },
};
