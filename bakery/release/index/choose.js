"use strict";
// Names and versions are text of wheels: they become text here, never markup.
const wheels = JSON.parse(document.getElementById("data").textContent).wheels;
const axes = ["project", "torch", "CUDA", "Python", "platform"];
const place = document.querySelector("section");
const site = location.href.replace(/[^/]*$/, "");
const choice = {};

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const fits = (wheel, axis) => axes.every((other) => other === axis || !(other in choice) || wheel[other] === choice[other]);
const newer = (a, b) => b.localeCompare(a, "en", { numeric: true });

function command(text) {
  const code = element("code", { text });
  const button = element("button", { type: "button", class: "copy", "aria-label": `Copy ${text}`, text: "Copy" });
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(code); button.textContent = "Press Ctrl+C"; }
  });
  return element("p", { class: "command" }, code, button);
}

// What was chosen last stays; what does not go with it changes to the newest that does.
function choose(axis, value) {
  if (axis === "project") axes.forEach((other) => delete choice[other]);
  if (axis) choice[axis] = value;
  for (const other of axes) {
    if (other === axis) continue;
    const earlier = axes.slice(0, axes.indexOf(other));
    const values = [...new Set(wheels.filter((wheel) => [...earlier, axis].every((name) => !name || wheel[name] === choice[name])).map((wheel) => wheel[other]))];
    if (!values.includes(choice[other])) choice[other] = values.sort(newer)[0];
  }
  show(axis);
}

function show(focused) {
  const controls = axes.map((axis) => {
    const values = [...new Set(wheels.filter((wheel) => axis === "project" || wheel.project === choice.project).map((wheel) => wheel[axis]))].sort(newer);
    const select = element("select", { id: `choose-${axis}` });
    for (const value of values) {
      const goes = wheels.some((wheel) => wheel[axis] === value && fits(wheel, axis));
      const option = element("option", { value, text: (value || "any") + (goes || axis === "project" ? "" : " (changes the rest)") });
      option.selected = value === choice[axis];
      select.append(option);
    }
    select.addEventListener("change", () => choose(axis, select.value));
    const label = element("label", { for: select.id, text: `${axis} ` });
    return values.length > 1 || values[0] ? element("span", {}, label, select) : "";
  });
  const found = wheels.find((wheel) => fits(wheel));
  const address = `${site}${found.folder}/`;
  const wanted = `${found.project}==${found.version}`;
  // A version with a label is on no public index, so another index can only give what it requires.
  const pip = `pip install ${found.version.includes("+") ? "--extra-index-url" : "--index-url"} ${address} ${wanted}`;
  const uv = `uv pip install --index ${address} ${wanted}`;
  place.replaceChildren(
    element("h2", { id: "choice", text: "Which wheel?" }),
    element("div", { class: "controls" }, ...controls),
    element("div", { role: "status" }, command(pip), command(uv)),
  );
  if (focused) document.getElementById(`choose-${focused}`).focus();
}

if (wheels.length) choose();
