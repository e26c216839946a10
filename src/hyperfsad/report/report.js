"use strict";
(() => {
  const CHUNK = 96; // cards made at a time
  const AT_ONCE = 24; // cards that get their pictures at once; others when they come near
  const find = (id) => document.getElementById(id);
  const images = JSON.parse(find("index").textContent);
  const fields = JSON.parse(find("fields").textContent); // what is listed of an image, with labels
  const root = document.documentElement;
  const grid = find("grid"), detail = find("detail"), support = find("support");
  let shown = []; // the images that pass the filters, in their order
  let made = 0; // cards in the page
  let current = 0; // the card that the keyboard is on

  const make = (tag, name, text) => {
    const node = document.createElement(tag);
    if (name) node.className = name;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const verdict = (image) =>
    "error" in image ? "failed" : image.anomalous === undefined ? "" : image.anomalous ? "anomalous" : "good";
  // names without the folders that all images share
  const folders = images.map((image) => image.name.split(/[\\/]/).slice(0, -1));
  let shared = folders.length ? folders[0].length : 0;
  for (const parts of folders) while (folders[0].slice(0, shared).some((part, i) => part !== parts[i])) shared -= 1;
  const brief = (name) => name.split(/[\\/]/).slice(shared).join("/");
  const plural = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

  // theme: the system's, until the button is used
  const remember = (value) => { try { localStorage.setItem("hyperfsad-theme", value); } catch { /* not kept */ } };
  const remembered = () => { try { return localStorage.getItem("hyperfsad-theme"); } catch { return null; } };
  if (remembered() === "light" || remembered() === "dark") root.dataset.theme = remembered();
  find("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember(root.dataset.theme);
  });

  // one image: thumbnail, map and outlines over each other
  const picture = (image) => {
    const block = find(`p${image.index}`);
    return block ? JSON.parse(block.textContent) : null;
  };
  const outlines = (image, data) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${image.size[0]} ${image.size[1]}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const shapes = [...data.regions.map((region) => ["polygon", region.polygon]), ...data.mark.map((line) => ["polyline", line])];
    for (const [name, points] of shapes) {
      for (const kind of ["under", "over"]) {
        const shape = document.createElementNS("http://www.w3.org/2000/svg", name);
        shape.setAttribute("class", kind);
        shape.setAttribute("points", points.map((point) => point.join(",")).join(" "));
        svg.append(shape);
      }
    }
    return svg;
  };
  const shot = (image, data) => {
    const frame = make("span", "shot");
    frame.style.setProperty("--ratio", image.size[0] / image.size[1]);
    const photo = make("img", "photo");
    photo.src = `data:image/jpeg;base64,${data.jpeg}`;
    photo.alt = "";
    photo.decoding = "async";
    const glow = make("img", "glow");
    glow.src = `data:image/png;base64,${data.map}`;
    glow.alt = "";
    glow.decoding = "async";
    frame.append(photo, glow, outlines(image, data));
    return frame;
  };

  const stranger = (image) => image.product === undefined ? "looks like another product" : "fits no product";
  const product = (image) => image.unknown ? stranger(image) : image.product;
  // how far it reaches; the score where there is no limit
  const reach = (image) => image.reach !== undefined ? `${image.reach} of the limit` : "score" in image ? `score ${image.score.toFixed(3)}` : "";
  const describe = (image) => {
    const words = [brief(image.name)];
    if (verdict(image)) words.push(verdict(image));
    if (reach(image)) words.push(reach(image));
    if (image.defect !== undefined) words.push(image.defect);
    if (image.regions) words.push(plural(image.regions, "region"));
    if (product(image) !== undefined) words.push(product(image));
    return words.join(", ");
  };
  const card = (image, place) => {
    const item = make("li");
    const button = make("button", "card");
    button.type = "button";
    button.dataset.place = place;
    button.tabIndex = place === current ? 0 : -1;
    button.setAttribute("aria-label", describe(image));
    const frame = make("span", "frame");
    const meta = make("span", "meta");
    const kind = verdict(image);
    if (kind) meta.append(make("span", `badge ${kind}`, kind));
    if (reach(image)) meta.append(make("span", "reach", reach(image)));
    if (image.defect !== undefined) meta.append(make("span", "defect", image.defect));
    if (image.unknown) meta.append(make("span", "badge unknown", product(image)));
    if (image.regions) meta.append(make("span", "regions", plural(image.regions, "region")));
    if (image.product !== undefined && !image.unknown) meta.append(make("span", "product", image.product));
    meta.append(make("span", "name", brief(image.name)));
    meta.title = image.name;
    button.append(frame, meta);
    item.append(button);
    return item;
  };
  const fill = (button) => {
    const image = shown[button.dataset.place], frame = button.querySelector(".frame");
    const data = picture(image);
    if ("error" in image) frame.replaceChildren(make("span", "reason", image.error));
    else if (data) frame.replaceChildren(shot(image, data));
    else frame.replaceChildren(make("span", "nopicture", "no picture in this page"));
  };
  const near = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) {
      near.unobserve(entry.target);
      fill(entry.target.firstElementChild);
    }
  }, { rootMargin: "800px" });
  const end = new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting)) append();
  }, { rootMargin: "1200px" });
  const append = () => {
    end.disconnect();
    const some = shown.slice(made, made + CHUNK).map((image, index) => card(image, made + index));
    grid.append(...some);
    some.forEach((item, index) => {
      if (made + index < AT_ONCE) fill(item.firstElementChild);
      else near.observe(item);
    });
    made += some.length;
    if (made < shown.length) end.observe(find("more")); // a new observer answers at once, even if nothing moved
  };
  const cards = () => grid.querySelectorAll(".card");

  const severity = (image, none) => image.level ?? (image.anomalous ? Infinity : image.score ?? none);
  const orders = {
    worst: (a, b) => severity(b, -Infinity) - severity(a, -Infinity) || a.index - b.index,
    best: (a, b) => severity(a, Infinity) - severity(b, Infinity) || a.index - b.index,
    name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }) || a.index - b.index,
    given: (a, b) => a.index - b.index,
  };
  const is = (image, kind) => kind === "all" || (kind === "unknown" ? image.unknown === true : verdict(image) === kind);
  const fits = (image, name) => name === "" || (image.product === name && !image.unknown);
  const refresh = () => {
    const kind = document.querySelector("input[name=show]:checked").value;
    const part = find("find").value.trim().toLowerCase();
    shown = images.filter((image) =>
      fits(image, find("product").value) && is(image, kind) && `${image.name} ${image.defect ?? ""}`.toLowerCase().includes(part));
    shown.sort(orders[find("sort").value]);
    made = current = 0;
    near.disconnect();
    grid.replaceChildren();
    append();
    find("count").textContent = plural(shown.length, "image");
    find("empty").hidden = shown.length > 0;
    if (grid.getBoundingClientRect().top < 0) grid.scrollIntoView({ behavior: "instant" });
  };
  if (!images.some((image) => "product" in image)) find("strangers").querySelector("span").textContent = "Another product";
  const radios = [...document.querySelectorAll("input[name=show]")];
  const words = radios.map((input) => input.nextElementSibling.textContent);
  const choose = () => { // the product, which changes the counts and the histogram
    const name = find("product").value, some = images.filter((image) => fits(image, name));
    radios.forEach((input, place) => {
      const count = some.filter((image) => is(image, input.value)).length;
      input.disabled = count === 0 && input.value !== "all";
      input.nextElementSibling.textContent = `${words[place]} ${count.toLocaleString("en")}`;
    });
    if (radios.some((input) => input.checked && input.disabled)) radios[0].checked = true;
    for (const node of document.querySelectorAll(".scores")) node.hidden = node.dataset.product !== name;
  };
  const known = [...new Set(images.filter((image) => "product" in image).map((image) => image.product))];
  for (const name of known.sort((a, b) => a.localeCompare(b, "en", { numeric: true }))) {
    const count = images.filter((image) => fits(image, name)).length;
    const option = make("option", "", `${name} (${count.toLocaleString("en")})`);
    option.value = name;
    if (count) find("product").append(option);
  }
  find("products").hidden = find("product").options.length < 3;
  find("strangers").hidden = known.length === 0 && !images.some((image) => image.unknown);
  find("product").addEventListener("change", () => { choose(); refresh(); });
  choose();
  find("tools").addEventListener("submit", (event) => event.preventDefault());
  find("filters").addEventListener("change", refresh);
  find("sort").addEventListener("change", refresh);
  find("find").addEventListener("input", refresh);
  find("outlines").addEventListener("change", (event) =>
    document.body.classList.toggle("no-outlines", !event.target.checked));
  const sliders = [find("overlay"), find("detail-overlay")];
  const glowTo = (value) => {
    for (const slider of sliders) slider.value = value;
    root.style.setProperty("--overlay", sliders[0].value / 100);
  };
  for (const slider of sliders) slider.addEventListener("input", () => glowTo(slider.value));
  glowTo(100);

  // the keyboard on the cards
  const go = (place) => {
    while (place >= made && made < shown.length) append();
    const all = cards();
    if (!all.length) return;
    if (all[current]) all[current].tabIndex = -1;
    current = Math.min(Math.max(place, 0), all.length - 1);
    all[current].tabIndex = 0;
    all[current].focus({ preventScroll: true });
    all[current].scrollIntoView({ block: "nearest" });
  };
  grid.addEventListener("keydown", (event) => {
    const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || !event.target.closest(".card")) return;
    event.preventDefault();
    const step = steps[event.key];
    go(step === -Infinity ? 0 : step === Infinity ? shown.length - 1 : Math.min(current + step, shown.length - 1));
  });

  // one image, large
  const link = (target, text) => {
    const node = make("a", "", text);
    node.href = target;
    node.target = "_blank";
    node.rel = "noopener";
    return node;
  };
  const sharpen = (image, frame) => {
    if (!image.original || !find("sharp").checked) return;
    const full = new Image();
    full.onload = () => { frame.querySelector(".photo").src = full.src; };
    full.src = image.original; // if it is gone or unreadable, the thumbnail stays
  };
  const compare = (image) => { // the good parts of its product
    const sections = support ? [...support.children] : [];
    const own = sections.find((node) => node.dataset.product === image.product) ?? (sections.length === 1 ? sections[0] : null);
    find("compare").replaceChildren(...(own ? [make("p", "", "Good parts to compare with"), own.cloneNode(true)] : []));
  };
  const number = (value) => typeof value === "number" ? value.toFixed(4) : String(value);
  const formats = {
    p_value: (image) => `p = ${image.p_value.toFixed(3)}`,
    product: (image) => image.unknown ? `none fits; nearest ${image.product}` : image.product,
    size: (image) => `${image.size[0]} × ${image.size[1]}`,
  };
  const open = (place) => {
    const image = shown[place];
    go(place);
    const stage = find("stage"), data = picture(image), kind = verdict(image);
    find("position").textContent = `${(place + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}`;
    find("previous").disabled = place === 0;
    find("next").disabled = place === shown.length - 1;
    find("detail-name").textContent = image.name;
    find("verdict").replaceChildren(
      ...(kind ? [make("span", `badge ${kind}`, kind)] : []), make("span", "reach", reach(image)),
      ...(image.defect !== undefined ? [make("span", "defect", image.defect)] : []),
      ...(image.unknown ? [make("span", "badge unknown", product(image))] : []));
    find("numbers").replaceChildren(...fields.filter(([field]) => field in image).flatMap(([field, label]) =>
      [make("dt", "", label), make("dd", "", field in formats ? formats[field](image) : number(image[field]))]));
    find("beside").textContent = data && data.mark.length ? "The ring marks the strongest place." : "";
    find("details").hidden = !find("numbers").childElementCount;
    const outlined = data ? data.regions : [];
    find("regions").replaceChildren(...outlined.map((region) =>
      make("li", "", `${region.missing ? "something is missing: " : ""}${region.reach} at ${region.bbox[0]}, ${region.bbox[1]} (${plural(region.area, "pixel")})`)));
    find("links").replaceChildren(
      ...(image.heatmap ? [link(image.heatmap, "Heat map")] : []),
      ...(image.original ? [link(image.original, "Original")] : []));
    compare(image);
    find("sharp").parentElement.hidden = !image.original || !data;
    if (!detail.open) detail.showModal();
    if (data) {
      const frame = shot(image, data);
      stage.replaceChildren(frame);
      sharpen(image, frame);
    } else stage.replaceChildren(make("span", "reason", image.error ?? "There is no picture of it in this page."));
  };
  grid.addEventListener("click", (event) => {
    const button = event.target.closest(".card");
    if (button) open(Number(button.dataset.place));
  });
  const turn = (step) => {
    if (current + step >= 0 && current + step < shown.length) open(current + step);
  };
  find("previous").addEventListener("click", () => turn(-1));
  find("next").addEventListener("click", () => turn(1));
  find("close").addEventListener("click", () => detail.close());
  find("sharp").addEventListener("change", () => open(current));
  detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });
  detail.addEventListener("close", () => go(current));
  detail.addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=range]")) return; // a slider uses the arrows itself
    const slider = find("detail-overlay");
    if (event.key === "ArrowLeft") turn(-1);
    else if (event.key === "ArrowRight") turn(1);
    else if (event.key === "ArrowUp") glowTo(Math.min(Number(slider.value) + 10, 100));
    else if (event.key === "ArrowDown") glowTo(Math.max(Number(slider.value) - 10, 0));
    else return;
    event.preventDefault();
  });
  find("tools").hidden = images.length === 0;
  refresh();
})();
