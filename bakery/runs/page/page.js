"use strict";
// Everything in the data may come from a project or its steps: it becomes text, never markup, and turns no text around.
const shown = (char) => `\\u{${char.codePointAt(0).toString(16)}}`;
const clean = (_, value) => (typeof value === "string" ? value.replace(/(?![\n\t])[\p{C}\p{Zl}\p{Zp}]/gu, shown) : value);
const data = JSON.parse(document.getElementById("data").textContent, clean);
const main = document.querySelector("main");

function element(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") node.textContent = value;
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const all = Math.round(seconds);
  const minutes = Math.floor(all / 60);
  if (minutes < 60) return `${minutes} min ${all % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const megabytes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(2)} MB`);
const percent = (part, all) => `${Math.round((100 * part) / all)} %`;
const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const sum = (items, value) => items.reduce((total, item) => total + value(item), 0);

// A button that copies a text; where a page may not use the clipboard, it selects the text for Ctrl+C.
function copied(text, label = "Copy") {
  const button = element("button", { type: "button", class: "copy", text: label, "aria-label": `Copy ${text}` });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const place = button.previousElementSibling;
      if (place) getSelection().selectAllChildren(place);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

const command = (text) => element("p", { class: "command" }, element("code", { text }), copied(text));

function section(id, title, ...children) {
  const heading = element("h2", { id: `${id}-title`, text: title });
  main.append(element("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children));
  document.querySelector("nav").append(element("a", { href: `#${id}`, text: title }));
}

// A column: title, class, value(row) to sort by, text(row) or node(row) to show.
function table(caption, columns, rows) {
  const body = element("tbody");
  const heads = columns.map((column) => {
    const button = element("button", { type: "button", text: column.title });
    const head = element("th", { scope: "col", class: column.class ?? "" }, button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
      rows.sort((a, b) => sign * compare(column.value(a), column.value(b)));
      body.append(...rows.map((row) => nodes.get(row)));
    });
    return head;
  });
  const nodes = new Map(
    rows.map((row) => {
      const cells = columns.map((column) => {
        const cell = element("td", { class: column.class ?? "" });
        cell.append(column.node ? column.node(row) : String(column.text ? column.text(row) : column.value(row)));
        return cell;
      });
      return [row, element("tr", {}, ...cells)];
    }),
  );
  body.append(...nodes.values());
  const head = element("thead", {}, element("tr", {}, ...heads));
  const box = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` });
  box.append(element("table", {}, head, body));
  return { box, nodes };
}

function summary() {
  const cells = new Map();
  for (const row of data.targets) cells.set(row.cell, (cells.get(row.cell) ?? true) && !row.reason);
  const done = [...cells.values()].filter(Boolean).length;
  const size = sum(data.wheels, (wheel) => wheel.size);
  const { steps, cached, compilations: compiled, hits } = data.counts;
  const memory = Math.max(0, ...data.targets.map((row) => row.memory ?? 0));
  const before = data.previous;
  const tiles = [
    ["Cells done", `${done} of ${cells.size}`, data.stopped ? `stopped: ${data.stopped}` : ""],
    ["Time", duration(data.seconds), before ? `before: ${duration(before.seconds)}` : ""],
    ["Wheels", `${data.wheels.length}`, size ? megabytes(size) : ""],
    ["Cached steps", steps ? percent(cached, steps) : "–", steps ? `${cached} of ${steps}` : "no step ran"],
    ["Compiler cache hits", compiled ? percent(hits, compiled) : "–", compiled ? `${hits} of ${compiled}` : ""],
    ["Highest memory of a cell", memory ? `${memory} MB` : "–", memory ? "" : "not measured"],
  ];
  const list = element("dl", { class: "tiles" });
  for (const [name, value, more] of tiles) {
    const content = element("dd", { text: value }, element("small", { text: more }));
    list.append(element("div", { class: "tile" }, element("dt", { text: name }), content));
  }
  main.append(list);
}

function failures() {
  if (!data.failures.length) return;
  const articles = data.failures.map((failure) => {
    const article = element("article", {}, element("h3", { text: `${failure.cells.join(", ")}: ${failure.message}` }));
    if (failure.details.length) article.append(element("pre", { tabindex: "0", text: failure.details.join("\n") }));
    if (failure.hint) article.append(element("p", { text: `→ ${failure.hint}` }));
    if (failure.lines.length) {
      const log = element("pre", { tabindex: "0", text: failure.lines.join("\n") });
      article.append(element("details", {}, element("summary", { text: "End of the log" }), log));
    }
    if (failure.link) {
      const link = element("a", { href: failure.link, text: failure.log });
      article.append(element("p", { class: "command" }, "The whole log: ", link, copied(failure.log)));
    }
    article.append(...failure.commands.map(command));
    return article;
  });
  section("failures", "Failures", ...articles);
}

function targets() {
  const search = element("input", { type: "search", placeholder: "Filter by name, wheel or reason", "aria-label": "Filter" });
  const choice = element("select", { "aria-label": "Result" }, element("option", { value: "", text: "all results" }));
  for (const result of [...new Set(data.targets.map((row) => row.result))].sort()) {
    choice.append(element("option", { value: result, text: result }));
  }
  const count = element("span", { class: "dim", role: "status" });
  const about = (row) => row.wheels.map((wheel) => wheel.path.split("/").pop()).join("\n") ||
    row.reason;
  const columns = [
    { title: "Target", class: "name", value: (row) => row.name },
    { title: "Result", value: (row) => row.result, node: (row) => element("span", { class: `result ${row.result}`, text: row.result }) },
    { title: "Time", class: "number", value: (row) => row.seconds, text: (row) => (row.tries ? duration(row.seconds) : "–") },
    { title: "Cached", class: "number extra", value: (row) => (row.steps ? row.cached / row.steps : -1), text: (row) => (row.steps ? `${row.cached}/${row.steps}` : "–") },
    { title: "Compiler cache", class: "number extra", value: (row) => row.compiler_cache?.hits ?? -1, text: (row) => (row.compiler_cache ? `${row.compiler_cache.hits}/${row.compiler_cache.compilations}` : "–") },
    { title: "Memory", class: "number extra", value: (row) => row.memory ?? 0, text: (row) => (row.memory ? `${row.memory} MB` : "–") },
    { title: "Size", class: "number extra", value: (row) => sum(row.wheels, (wheel) => wheel.size), text: (row) => row.wheels.map((wheel) => megabytes(wheel.size)).join("\n") || "–" },
    { title: "Wheel or reason", class: "wide", value: about },
  ];
  if (data.targets.some((row) => row.node)) columns.splice(2, 0, { title: "Node", value: (row) => row.node });
  const { box, nodes } = table("Targets", columns, [...data.targets]);
  const filter = () => {
    const wanted = search.value.toLowerCase();
    let shown = 0;
    for (const [row, node] of nodes) {
      const text = `${row.name} ${row.result} ${row.node} ${about(row)}`.toLowerCase();
      node.hidden = !(text.includes(wanted) && (!choice.value || row.result === choice.value));
      shown += !node.hidden;
    }
    count.textContent = `${shown} of ${nodes.size} targets`;
  };
  search.addEventListener("input", filter);
  choice.addEventListener("change", filter);
  filter();
  section("targets", "Targets", element("div", { class: "controls" }, search, choice, count), box);
}

function wheels() {
  if (!data.wheels.length) return;
  const found = (row) => row.warnings.length;
  const audit = (row) => (row.kept ? "passed before" : found(row) ? `passed, ${plural(found(row), "warning")}` : "passed");
  const needs = (row) => /^manylinux_(\d+)_(\d+)/.exec(row.platform);
  const columns = [
    { title: "Wheel", class: "wide", value: (row) => row.name },
    { title: "Audit", value: found, node: (row) => element("span", { class: `result ${found(row) ? "canceled" : "done"}`, text: audit(row) }) },
    { title: "Runs on", class: "extra", value: (row) => row.platform, text: (row) => (needs(row) ? `glibc ≥ ${needs(row)[1]}.${needs(row)[2]}` : row.platform) },
    { title: "Size", class: "number", value: (row) => row.size, text: (row) => megabytes(row.size) },
    { title: "Cells", class: "extra", value: (row) => row.cells.join(", ") },
    { title: "SHA-256", class: "extra", value: (row) => row.sha256,
      node: (row) => element("span", { class: "command" }, element("code", { text: row.sha256.slice(0, 12), title: row.sha256 }), copied(row.sha256)) },
  ];
  section("wheels", "Wheels", table("Wheels", columns, [...data.wheels]).box, command(data.audit));
}

function running(length) {
  const counts = data.running.counts;
  const most = Math.max(...counts);
  const width = 100 / counts.length;
  const steps = counts.map((value, index) => `H${index * width}V${100 - (95 * value) / most}H${(index + 1) * width}`);
  const space = "http://www.w3.org/2000/svg";
  const chart = document.createElementNS(space, "svg");
  chart.setAttribute("viewBox", "0 0 100 100");
  chart.setAttribute("preserveAspectRatio", "none");
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `Compilers running at once over ${duration(length)}: at most ${most}`);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", `M0 100${steps.join("")}V100Z`);
  chart.append(path);
  const cores = data.running.cores ? ` of ${data.running.cores} cores` : "";
  return element("div", { class: "lane chart" }, element("span", { text: "Compilers running" }), chart,
    element("span", { class: "time", text: `≤ ${most}${cores}` }));
}

function steps(cell) {
  const rows = cell.steps.map(([title, start, seconds, owner]) => ({ title: data.titles[title], start, seconds, owner }));
  // What took long comes first.
  rows.sort((a, b) => b.seconds - a.seconds);
  const columns = [
    { title: "Step", class: "wide", value: (row) => row.title },
    { title: "Start", class: "number", value: (row) => row.start, text: (row) => duration(row.start) },
    { title: "Time", class: "number", value: (row) => row.seconds, text: (row) => duration(row.seconds) },
    { title: "Shared with", value: (row) => (row.owner < 0 ? "" : data.cells[row.owner].name) },
  ];
  const parts = [table(`Steps of ${cell.name}`, columns, rows).box];
  if (cell.cached) parts.push(element("p", { class: "dim", text: `and ${plural(cell.cached, "cached step")}` }));
  if (cell.slowest.length) {
    const files = cell.slowest.map(([name, start, seconds, mb]) => ({ name, start, seconds, mb }));
    const about = [
      { title: "Slowest compiles", class: "wide", value: (row) => row.name },
      { title: "Start", class: "number", value: (row) => row.start, text: (row) => duration(row.start) },
      { title: "Time", class: "number", value: (row) => row.seconds, text: (row) => duration(row.seconds) },
      { title: "Memory", class: "number", value: (row) => row.mb, text: (row) => (row.mb ? `${row.mb} MB` : "–") },
    ];
    parts.push(table(`Slowest compiles of ${cell.name}`, about, files).box);
  }
  return element("div", { class: "detail" }, element("h3", { text: cell.name }), ...parts);
}

function timeline() {
  if (!data.cells.length) return;
  const length = data.length || 1;
  const panel = element("div", { class: "panel", "aria-live": "polite" });
  const lanes = data.cells.map((cell) => {
    const track = element("span", { class: "track" });
    for (const [title, start, seconds, owner] of cell.steps) {
      const text = data.titles[title];
      const kind = owner >= 0 ? "shared" : /^\[?(\S+ )?(compile|native)\b/.test(text) ? "" : "other";
      const bar = element("i", { class: kind, title: `${text}, ${duration(seconds)}` });
      bar.style.left = `${(100 * start) / length}%`;
      bar.style.width = `${(100 * seconds) / length}%`;
      track.append(bar);
    }
    const first = cell.steps.length ? Math.min(...cell.steps.map((step) => step[1])) : 0;
    const last = cell.steps.length ? Math.max(...cell.steps.map((step) => step[1] + step[2])) : 0;
    const lane = element("button", { type: "button", class: "lane", "aria-expanded": "false" },
      element("span", { class: "name", text: cell.name }), track,
      element("span", { class: "time", text: cell.steps.length ? duration(last - first) : "cached" }));
    lane.addEventListener("click", () => {
      const open = lane.getAttribute("aria-expanded") === "true";
      lanes.forEach((other) => other.setAttribute("aria-expanded", "false"));
      lane.setAttribute("aria-expanded", String(!open));
      panel.replaceChildren(...(open ? [] : [steps(cell)]));
    });
    return lane;
  });
  const key = (kind, text) => element("span", {}, element("span", { class: `key ${kind}` }), text);
  const legend = element("div", { class: "legend" }, key("", "compile"), key("shared", "a step that another cell runs"), key("other", "other steps"));
  const parts = data.running.counts.length ? [running(length)] : [];
  const about = element("p", { class: "dim", text: `${duration(length)} from left to right. Choose a cell to see its steps.` });
  const ticks = element("span", { class: "ticks" }, ...[0, 0.25, 0.5, 0.75, 1].map((part) => element("span", { text: duration(part * length) })));
  const axis = element("div", { class: "lane chart", "aria-hidden": "true" }, element("span"), ticks, element("span"));
  section("timeline", "Timeline", about, legend, ...parts, element("div", { class: "lanes" }, axis, ...lanes), panel);
}

function warnings() {
  const cells = new Map();
  for (const row of data.targets) {
    for (const wheel of row.wheels) for (const text of wheel.warnings) cells.set(text, [...(cells.get(text) ?? []), row.cell]);
  }
  const lines = [
    ...data.printed_secrets.map((name) => `a step printed the secret ${name}`),
    ...data.warnings,
    ...[...cells].map(([text, names]) => `${text} (${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""})`),
    ...data.targets.flatMap((row) => row.cache_troubles.map((text) => `${row.name}: layer cache: ${text}`)),
  ];
  if (!lines.length && !data.wheels.length) return;
  const list = element("ul", {}, ...lines.map((text) => element("li", { text })));
  section("audit", "Audit and warnings", lines.length ? list : element("p", { class: "empty", text: `The audit passed ${plural(data.wheels.length, "wheel")} without a warning.` }));
}

function devices() {
  if (!data.gpus) return;
  const wheels = data.gpus.wheels;
  const archs = [...new Set(wheels.flatMap((row) => Object.keys(row.device)))];
  const sizes = archs.map((arch) => ({ title: arch, class: "number", value: (row) => row.device[arch] ?? 0, text: (row) => (row.device[arch] ? megabytes(row.device[arch]) : "–") }));
  const wheel = { title: "Wheel", class: "wide", value: (row) => row.wheel };
  const kind = (by) => (by.startsWith("sm_") ? "done" : by ? "canceled" : "dim");
  const gpus = data.gpus.names.map((gpu, index) => ({
    title: gpu.capability,
    value: (row) => row.by[index],
    node: (row) => element("span", { class: kind(row.by[index]), title: gpu.names.join(", "), text: row.by[index] || "none" }),
  }));
  section("devices", "Device code",
    element("p", { class: "dim", text: "Bytes for each architecture" }), table("Bytes for each architecture", [wheel, ...sizes], [...wheels]).box,
    element("p", { class: "dim", text: "What each GPU (compute capability) runs: machine code (sm), PTX that the driver compiles (compute), or none" }),
    table("Wheels and GPUs", [wheel, ...gpus], [...wheels]).box);
}

function comparison() {
  const before = data.previous;
  if (!before) return;
  const size = (row) => sum(row.wheels, (wheel) => wheel.size);
  const rows = data.targets.filter((row) => before.targets[row.name]).map((row) => ({ row, old: before.targets[row.name] }));
  if (!rows.length) return;
  const change = (value, text) => element("span", { class: value > 0 ? "more" : value < 0 ? "less" : "dim", text });
  // A target that was not built to the end took less time, and that is no news.
  const both = ({ row, old }) => row.tries && old.tries && row.result === "done" && old.result === "done";
  const time = ({ row, old }) => (both({ row, old }) ? row.seconds - old.seconds : 0);
  const bytes = ({ row, old }) => (size(row) && old.size ? size(row) - old.size : 0);
  const sign = (value, text) => (value ? `${value > 0 ? "+" : "−"}${text}` : "–");
  const columns = [
    { title: "Target", class: "name", value: ({ row }) => row.name },
    { title: "Result", value: ({ row, old }) => (row.result === old.result ? row.result : `${old.result} → ${row.result}`) },
    { title: "Time", class: "number", value: time, node: (item) => change(time(item), sign(time(item), duration(Math.abs(time(item))))) },
    { title: "Size", class: "number", value: bytes, node: (item) => change(bytes(item), sign(bytes(item), `${Math.abs(bytes(item)).toLocaleString("en")} bytes`)) },
  ];
  section("comparison", "Compared with the previous run", element("p", { class: "dim", text: before.run }), table("Comparison", columns, rows).box);
}

main.replaceChildren();
summary();
failures();
wheels();
targets();
timeline();
warnings();
devices();
comparison();
