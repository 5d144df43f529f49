// Shows an SVG that Python laid out: pan, zoom, fit, search, fold and unfold by click or Enter.
// Names come from model files, so the SVG is taken apart and cleaned before it enters the page.
function clean(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.nodeName !== "svg") return null;
  for (const el of [...root.querySelectorAll("script,foreignObject,iframe,style,image")]) el.remove();
  for (const el of [root, ...root.querySelectorAll("*")]) {
    for (const attribute of [...el.attributes]) {
      if (/^on/i.test(attribute.name) || /href$/i.test(attribute.name)) el.removeAttribute(attribute.name);
    }
  }
  return document.importNode(root, true);
}

function control(kind, properties) {
  return Object.assign(document.createElement(kind), properties);
}

function render({ model, el, signal }) {
  el.classList.add("onnx-lab-graph");
  const bar = control("div", { className: "onnx-lab-bar" });
  const search = control("input", { type: "search", placeholder: "search nodes", ariaLabel: "search nodes" });
  const fit = control("button", { textContent: "fit", title: "show the whole graph" });
  const closer = control("button", { textContent: "+", title: "zoom in", ariaLabel: "zoom in" });
  const farther = control("button", { textContent: "−", title: "zoom out", ariaLabel: "zoom out" });
  const info = control("span", { className: "onnx-lab-info" });
  info.setAttribute("aria-live", "polite");
  const stage = control("div", { className: "onnx-lab-stage", tabIndex: 0 });
  stage.setAttribute("role", "application");
  stage.setAttribute("aria-label", "graph of the model; drag to move, plus and minus to zoom, Enter on a module to fold");
  bar.append(search, fit, closer, farther, info);
  el.append(bar, stage);

  let svg = null;
  let view = null;
  let whole = null;
  const apply = () => svg && svg.setAttribute("viewBox", view.join(" "));
  const boxes = () => (svg ? [...svg.querySelectorAll("g.node,g.cluster")] : []);

  function mark() {
    const wanted = search.value.toLowerCase();
    let hits = 0;
    for (const box of boxes()) {
      const hit = wanted && box.classList.contains("node") && box.textContent.toLowerCase().includes(wanted);
      hits += hit ? 1 : 0;
      box.classList.toggle("hit", Boolean(hit));
      box.classList.toggle("selected", box.id === model.get("selected"));
    }
    if (svg) svg.classList.toggle("searching", Boolean(wanted));
    info.textContent = wanted ? `${hits} found` : model.get("selected");
  }

  function draw() {
    const next = clean(model.get("svg"));
    if (!next) {
      stage.textContent = model.get("fallback") || "no drawing";
      return;
    }
    svg = next;
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    whole = svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
    view = [...whole];
    stage.replaceChildren(svg);
    for (const box of boxes()) {
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "button");
      const title = box.querySelector("title");
      box.setAttribute("aria-label", title ? title.textContent : box.id);
    }
    mark();
  }

  function choose(box) {
    model.set("selected", box.id);
    model.save_changes();
    model.send({ type: "choose", id: box.id });
    mark();
  }

  function zoom(factor, x, y) {
    if (!svg) return;
    const at = x === undefined ? { x: view[0] + view[2] / 2, y: view[1] + view[3] / 2 } : { x, y };
    view = [at.x - (at.x - view[0]) * factor, at.y - (at.y - view[1]) * factor, view[2] * factor, view[3] * factor];
    apply();
  }

  let drag = null;
  stage.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, view: [...view], moved: false };
  }, { signal });
  window.addEventListener("pointermove", (event) => {
    if (!drag || !svg) return;
    const dx = event.clientX - drag.x;
    const dy = event.clientY - drag.y;
    drag.moved = drag.moved || Math.hypot(dx, dy) > 4;
    if (!drag.moved) return;
    const scale = Math.max(view[2] / stage.clientWidth, view[3] / stage.clientHeight);
    view[0] = drag.view[0] - dx * scale;
    view[1] = drag.view[1] - dy * scale;
    apply();
  }, { signal });
  window.addEventListener("pointerup", () => setTimeout(() => { drag = null; }, 0), { signal });
  stage.addEventListener("click", (event) => {
    const box = event.target.closest("g.node,g.cluster");
    if (box && !(drag && drag.moved)) choose(box);
  }, { signal });
  stage.addEventListener("wheel", (event) => {
    // The page's own scrolling is left alone until the drawing has the focus.
    if (!svg || !(event.ctrlKey || event.metaKey || stage.contains(document.activeElement))) return;
    event.preventDefault();
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, point.x, point.y);
  }, { passive: false, signal });
  stage.addEventListener("keydown", (event) => {
    const box = event.target.closest("g.node,g.cluster");
    if (event.key === "Enter" && box) choose(box);
    else if (event.key === "+") zoom(1 / 1.15);
    else if (event.key === "-") zoom(1.15);
    else return;
    event.preventDefault();
  }, { signal });
  closer.addEventListener("click", () => zoom(1 / 1.3), { signal });
  farther.addEventListener("click", () => zoom(1.3), { signal });
  fit.addEventListener("click", () => { view = [...whole]; apply(); }, { signal });
  search.addEventListener("input", mark, { signal });
  model.on("change:svg", draw);
  model.on("change:selected", mark);
  draw();
  return () => {
    model.off("change:svg", draw);
    model.off("change:selected", mark);
  };
}

export default { render };
