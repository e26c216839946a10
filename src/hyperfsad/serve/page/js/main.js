// The start of the page: texts, who is signed in, then the view that the address names.

import { SIGNED_IN, SIGNED_OUT, loadSession } from "./api.js";
import { drawBar } from "./bar.js";
import { loadTexts, setLanguage } from "./i18n.js";
import { listen } from "./keys.js";
import { setViews, show } from "./router.js";
import { tell } from "./said.js";
import { isEngineer, loadWishes, who, wishes } from "./state.js";
import { watchStatus } from "./status.js";
import { ALL } from "./views/all.js";
import login from "./views/login.js";

function redraw() {
  setLanguage(wishes.language);
  const mine = who.role ? ALL.filter((view) => isEngineer() || !view.engineer) : [login];
  setViews(mine);
  drawBar(mine, redraw);
  return show();
}

// A picture that is dropped beside all places would take the page away.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

async function start() {
  loadWishes();
  await loadTexts();
  setLanguage(wishes.language);
  listen();
  try {
    await loadSession();
  } catch (error) {
    tell(error);
  }
  watchStatus();
  const shown = redraw();
  addEventListener("hashchange", show); // somebody may be faster than the first view
  await shown;
  addEventListener(SIGNED_IN, redraw);
  addEventListener(SIGNED_OUT, () => {
    if (!who.role) return;
    who.role = who.user = "";
    loadSession().catch(tell).then(redraw); // there may be users now
  });
}

start();
