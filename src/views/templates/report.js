"use strict";
// Nothing here turns text into markup: all of it came from whoever calls the apiserver.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const el = (tag, props = {}, ...inner) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...inner);
    return node;
  };
  const svg = (tag, attributes = {}) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);
  const scaled = (value, base, letters) => {
    let at = 0;
    while (Math.abs(value) >= base && at + 1 < letters.length) { value /= base; at += 1; }
    const digits = value === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return `${Number(value.toFixed(digits))}${letters[at]}`;
  };
  const amount = (value, unit) => unit === "bytes"
    ? scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"])
    : scaled(value, 1000, ["", "k", "M", "G"]) + (unit === "per-second" ? "/s" : "");

  // ---- what can be copied
  const copied = async (text, button) => {
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = el("textarea", { value: text });
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = done ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  const copyable = (box) => {
    const text = box.textContent.trim();
    const button = el("button", { type: "button", textContent: "Copy" });
    button.setAttribute("aria-label", `Copy: ${text.slice(0, 60)}`);
    button.addEventListener("click", () => copied(text, button));
    box.append(button);
    return box;
  };
  document.querySelectorAll(".copy").forEach(copyable);

  // ---- tables: a heading sorts, a field filters
  const value = (cell) => cell.dataset.v !== undefined ? Number(cell.dataset.v) : null;
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x !== null ? 1 : -1;
    return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  };
  for (const grid of document.querySelectorAll(".grid")) {
    const table = grid.querySelector("table");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length > 12) grid.classList.add("long");
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const title = head.textContent;
      if (!title) return;
      const button = el("button", { type: "button", textContent: title });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "descending" && head.classList.contains("n") || head.getAttribute("aria-sort") === "ascending";
        heads.filter((other) => other.textContent).forEach((other) => { other.removeAttribute("aria-sort"); other.firstChild.textContent = other.firstChild.textContent.replace(/ [▲▼]$/, ""); });
        head.setAttribute("aria-sort", up ? "descending" : "ascending");
        button.textContent = `${title} ${up ? "▼" : "▲"}`;
        const sorted = [...body.rows].map((row, at) => [row, at]).sort(([a, i], [b, j]) => (up ? -1 : 1) * order(a.cells[column], b.cells[column]) || i - j);
        body.append(...sorted.map(([row]) => row));
      });
    });
    if (rows.length < 6) continue;
    const input = el("input", { type: "search", placeholder: "Filter" });
    input.setAttribute("aria-label", `Filter ${grid.dataset.label || "table"}`);
    const count = el("span", { textContent: `${rows.length} rows` });
    count.setAttribute("aria-live", "polite");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
    });
    grid.querySelector(".scroll").before(el("div", { className: "tools" }, input, count));
  }

  // ---- charts
  const [WIDEST, H, L, R, T, B] = [1000, 240, 64, 12, 10, 28];
  const ticks = (high, unit) => {
    const raw = high / 4;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = unit === "bytes" && raw >= 1
      ? 2 ** Math.ceil(Math.log2(raw))
      : [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw);
    return Array.from({ length: Math.ceil(high / step) + 1 }, (_, n) => n * step);
  };
  const steps = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400];
  const chart = (spec) => {
    const hidden = new Set();
    // As wide as it is shown, so that its text has one size.
    let W = WIDEST;
    const times = spec.lines.flatMap((line) => line.points.map((point) => point[0]));
    const [from, to] = data.span || [Math.min(...times), Math.max(...times)];
    const x = (at) => L + (W - L - R) * (at - from) / Math.max(to - from, 1);
    const figure = el("figure", { className: "chart", tabIndex: 0 });
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `Chart: ${spec.title}`);
    const caption = el("figcaption", { textContent: spec.title });
    const picture = svg("svg", { role: "img", "aria-label": spec.title });
    const readout = el("div", { className: "readout" });
    readout.setAttribute("aria-live", "polite");
    const legend = el("div", { className: "legend" });
    const all = [...new Set(times)].sort((a, b) => a - b);
    let cursor = null;
    const draw = () => {
      picture.replaceChildren();
      picture.setAttribute("viewBox", `0 0 ${W} ${H}`);
      const shown = spec.lines.filter((line) => !hidden.has(line.name));
      const high = Math.max(...shown.flatMap((line) => line.points.map((point) => point[1])), 1e-9);
      const marks = ticks(high, spec.unit);
      const top = marks.at(-1);
      const y = (number) => H - B - (H - T - B) * number / top;
      for (const own of data.windows) {
        const [a, b] = [own.from, own.to].map((at) => x(Math.min(Math.max(at, from), to)));
        const band = svg("rect", { class: `band ${own.name}`, x: a, y: T, width: Math.max(b - a, 2), height: H - T - B });
        const title = svg("title", {});
        title.textContent = `${own.name} ${clock(own.from)} to ${clock(own.to)}`;
        band.append(title);
        picture.append(band);
      }
      for (const mark of marks) {
        picture.append(svg("line", { class: "axis", x1: L, x2: W - R, y1: y(mark), y2: y(mark) }));
        const text = svg("text", { x: L - 6, y: y(mark) + 4, "text-anchor": "end" });
        text.textContent = amount(mark, spec.unit);
        picture.append(text);
      }
      const most = Math.min((W - L - R) / 70, 8);
      const step = steps.find((n) => (to - from) / n <= most) || 86400 * Math.ceil((to - from) / 86400 / most);
      for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        const label = step >= 86400 ? new Date(at * 1000).toISOString().slice(5, 10) : clock(at).slice(0, step < 60 ? 8 : 5);
        // The last one is not cut at the edge.
        const text = svg("text", { x: Math.min(x(at), W - label.length * 3.5), y: H - 8, "text-anchor": "middle" });
        text.textContent = label;
        picture.append(svg("line", { class: "axis", x1: x(at), x2: x(at), y1: H - B, y2: H - B + 4 }), text);
      }
      spec.lines.forEach((line, n) => {
        if (hidden.has(line.name)) return;
        const path = line.points.map(([at, number], i) => `${i ? "L" : "M"}${x(at).toFixed(1)} ${y(number).toFixed(1)}`).join("");
        const stroke = svg("path", { d: path, fill: "none", "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": n > 7 ? "6 3" : "none" });
        stroke.style.stroke = `var(--c${n % 8})`;
        picture.append(stroke);
        // One value alone makes no line.
        if (line.points.length === 1) {
          const dot = svg("circle", { cx: x(line.points[0][0]), cy: y(line.points[0][1]), r: 4 });
          dot.style.fill = `var(--c${n % 8})`;
          picture.append(dot);
        }
      });
      if (cursor !== null) picture.append(svg("line", { class: "cursor", x1: x(all[cursor]), x2: x(all[cursor]), y1: T, y2: H - B }));
    };
    const near = (points, at) => points.reduce((best, point) => Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best);
    const show = (at) => {
      cursor = Math.min(Math.max(at, 0), all.length - 1);
      const told = spec.lines.filter((line) => !hidden.has(line.name)).map((line) => `${line.name} ${amount(near(line.points, all[cursor])[1], spec.unit)}`);
      readout.textContent = `${clock(all[cursor])}  ${told.join(" · ")}`;
      draw();
    };
    spec.lines.forEach((line, n) => {
      const swatch = el("span", { className: "swatch" });
      swatch.style.background = `var(--c${n % 8})`;
      const button = el("button", { type: "button" }, swatch, line.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (hidden.has(line.name)) hidden.delete(line.name); else hidden.add(line.name);
        button.setAttribute("aria-pressed", String(!hidden.has(line.name)));
        draw();
      });
      legend.append(button);
    });
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const at = from + (to - from) * ((event.clientX - box.left) / box.width * W - L) / (W - L - R);
      let low = 0;
      for (let n = 0; n < all.length; n += 1) if (Math.abs(all[n] - at) < Math.abs(all[low] - at)) low = n;
      if (low !== cursor) show(low);
    });
    figure.addEventListener("keydown", (event) => {
      if (event.target !== figure) return;
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (event.key === "Home") show(0);
      else if (event.key === "End") show(all.length - 1);
      else if (move) show(cursor === null ? (move > 0 ? 0 : all.length - 1) : cursor + move);
      else return;
      event.preventDefault();
    });
    const numbers = el("details", {}, el("summary", { textContent: "The numbers" }));
    numbers.addEventListener("toggle", () => {
      if (!numbers.open || numbers.querySelector("table")) return;
      const head = el("tr", {}, ...["Time", ...spec.lines.map((line) => line.name)].map((name) => el("th", { textContent: name, scope: "col" })));
      const at = spec.lines.map((line) => new Map(line.points));
      const body = all.map((time) => el("tr", {}, el("th", { textContent: clock(time), scope: "row" }),
        ...at.map((line) => el("td", { className: "n", textContent: line.has(time) ? amount(line.get(time), spec.unit) : "" }))));
      numbers.append(el("div", { className: "grid long" }, el("div", { className: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)))));
    });
    figure.append(caption, legend, picture, readout, numbers);
    draw();
    new ResizeObserver(([own]) => {
      const width = Math.round(Math.min(Math.max(own.contentRect.width, 280), WIDEST));
      if (width !== W) {
        W = width;
        draw();
      }
    }).observe(figure);
    return figure;
  };
  document.getElementById("chart-list")?.append(...data.charts.map(chart));

  // ---- flame graphs: from the top down, as wide as they weigh
  const ROW = 20;
  const hue = (name) => { let sum = 0; for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 997; return sum; };
  const flame = (spec) => {
    const count = spec.parents.length;
    const total = spec.now.slice();
    const was = spec.before ? spec.before.slice() : null;
    for (let n = count - 1; n > 0; n -= 1) { total[spec.parents[n]] += total[n]; if (was) was[spec.parents[n]] += was[n]; }
    const children = Array.from({ length: count }, () => []);
    for (let n = 1; n < count; n += 1) children[spec.parents[n]].push(n);
    const weight = (n) => was ? Math.max(total[n], was[n]) : total[n];
    const name = (n) => n === 0 ? "all" : spec.names[spec.ids[n]];
    const change = (n) => was ? `, ${total[n] >= was[n] ? "+" : "−"}${amount(Math.abs(total[n] - was[n]), spec.unit)}` : "";
    const told = (n) => `${name(n)}: ${amount(total[n], spec.unit)}${change(n)}, ${(100 * total[n] / Math.max(total[0], 1)).toFixed(1)} %`;
    const colour = (n) => {
      if (was) {
        const by = (total[n] - was[n]) / Math.max(weight(n), 1);
        return by >= 0 ? `hsl(8 ${Math.round(85 * by)}% ${Math.round(88 - 22 * by)}%)` : `hsl(215 ${Math.round(-85 * by)}% ${Math.round(88 + 22 * by)}%)`;
      }
      return `hsl(${18 + hue(name(n)) % 40} 80% ${66 + hue(name(n)) % 14}%)`;
    };
    const box = el("div", { className: "frames" });
    const readout = el("div", { className: "readout", textContent: told(0) });
    readout.setAttribute("aria-live", "polite");
    const input = el("input", { type: "search", placeholder: "Search" });
    input.setAttribute("aria-label", `Search ${spec.title}`);
    const found = el("span");
    const reset = el("button", { type: "button", textContent: "Zoom out" });
    let root = 0;
    const draw = () => {
      box.replaceChildren();
      const above = [];
      for (let n = root; n !== 0;) { n = spec.parents[n]; above.unshift(n); }
      let deepest = 0;
      let hits = 0;
      const word = input.value.toLowerCase();
      const place = (n, left, width, depth) => {
        deepest = Math.max(deepest, depth);
        const frame = el("button", { type: "button", textContent: width > 0.02 ? name(n) : "", title: told(n) });
        frame.setAttribute("aria-label", told(n));
        frame.dataset.n = n;
        frame.tabIndex = n === root ? 0 : -1;
        Object.assign(frame.style, { left: `${left * 100}%`, width: `${width * 100}%`, top: `${depth * ROW}px`, background: colour(n) });
        if (word && name(n).toLowerCase().includes(word)) { frame.classList.add("hit"); hits += 1; }
        box.append(frame);
      };
      above.forEach((n, depth) => place(n, 0, 1, depth));
      const queue = [[root, 0, 1, above.length]];
      while (queue.length) {
        const [n, left, width, depth] = queue.shift();
        place(n, left, width, depth);
        const sum = Math.max(weight(n), children[n].reduce((all, child) => all + weight(child), 0));
        let at = left;
        for (const child of children[n].sort((a, b) => weight(b) - weight(a))) {
          const part = width * weight(child) / Math.max(sum, 1);
          if (part >= 0.0008) queue.push([child, at, part, depth + 1]);
          at += part;
        }
      }
      box.style.height = `${(deepest + 1) * ROW}px`;
      found.textContent = word ? `${hits} ${hits === 1 ? "frame" : "frames"} found` : "";
      reset.hidden = root === 0;
    };
    const zoom = (n, focus) => {
      root = n;
      draw();
      readout.textContent = told(n);
      if (focus) box.querySelector(`[data-n="${n}"]`)?.focus();
    };
    box.addEventListener("click", (event) => { const frame = event.target.closest("button"); if (frame) zoom(Number(frame.dataset.n), true); });
    const tell = (event) => { const frame = event.target.closest("button"); if (frame) readout.textContent = told(Number(frame.dataset.n)); };
    box.addEventListener("pointerover", tell);
    box.addEventListener("focusin", tell);
    box.addEventListener("keydown", (event) => {
      const n = Number(event.target.dataset.n);
      const siblings = n === 0 ? [0] : children[spec.parents[n]];
      const to = {
        Escape: () => { zoom(0, true); return null; },
        ArrowUp: () => spec.parents[n],
        ArrowDown: () => children[n][0],
        ArrowLeft: () => siblings[siblings.indexOf(n) - 1],
        ArrowRight: () => siblings[siblings.indexOf(n) + 1],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      const next = to();
      if (next !== null && next !== undefined) box.querySelector(`[data-n="${next}"]`)?.focus();
    });
    input.addEventListener("input", draw);
    reset.addEventListener("click", () => zoom(0, true));
    draw();
    const code = copyable(el("div", { className: "copy" }, el("code", { textContent: spec.command })));
    return el("figure", { className: "flamegraph" }, el("figcaption", { textContent: `${spec.title}: ${amount(total[0], spec.unit)}` }),
      el("p", { className: "about", textContent: spec.about }), code,
      el("div", { className: "tools" }, input, found, reset), el("div", { className: "flame" }, box), readout);
  };
  document.getElementById("flame-list")?.append(...data.flames.map(flame));
})();
