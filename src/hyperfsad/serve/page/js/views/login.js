// Nobody is signed in: the one thing to do.

import { h, replace } from "../dom.js";
import { t } from "../i18n.js";
import { signInForm } from "../parts/signing.js";

export default {
  name: "login",
  path: "/login",
  show(place) {
    const form = signInForm();
    replace(place, h("section", { class: "card narrow" }, h("h1", {}, t("login.title")), form));
    form.querySelector("input:not([hidden])").focus();
  },
};
