
"use strict";
// Draws the data of the page. Names come from others: they are only ever the text of a node.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("sections");
  const strips = [];
  let numbers = 0;

  function make(parent, name, text, attributes) {
    const node = document.createElement(name);
    if (text !== undefined && text !== null) node.textContent = text;
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (parent) parent.append(node);
    return node;
  }
  // Words between backticks are code.
  function prose(parent, name, text, attributes) {
    const node = make(parent, name, null, attributes);
    const parts = text.split(/`([^`]+)`/);
    parts.forEach((part, at) => { if (at % 2) make(node, "code", part); else node.append(part); });
    return node;
  }
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function span(ns) {
    if (!ns) return "0 s";
    const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
    const [scale, unit] = units.find(([least]) => ns >= least) || units[3];
    const value = ns / scale;
    return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2) + " " + unit;
  }

  // --- A tip beside the pointer. ---
  const tip = make(document.body, "div", "", { class: "tip", role: "status", hidden: "" });
  function showTip(text, x, y) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  }
  addEventListener("scroll", () => showTip(""), { passive: true });

  // --- Tables: sorted by the numbers behind the cells; children stay with their row. ---
  function table(parent, block) {
    const few = 12;
    // A column without a title belongs to the number before it: an interval or a mark.
    const untitled = block.columns.every((column) => !column.title);
    const classOf = (column) =>
      column.number ? "number" : column.title || untitled ? "text" : "joined";
    // Above what scrolls sideways, so that a wide table does not cut it.
    const caption = block.title && "caption" + ++numbers;
    if (caption) prose(parent, "p", block.title, { class: "caption", id: caption });
    const more = make(parent, "p", "More columns: scroll the table sideways.",
      { class: "sideways screen", hidden: "" });
    const scroll = make(parent, "div", null, { class: "scroll" });
    const node = make(scroll, "table", null, caption ? { "aria-labelledby": caption } : {});
    new ResizeObserver(() => { more.hidden = node.offsetWidth <= scroll.clientWidth; }).observe(scroll);
    const head = make(node, "thead");
    if (block.columns.some((column) => column.group)) {
      const line = make(head, "tr");
      for (let at = 0; at < block.columns.length;) {
        const group = block.columns[at].group;
        let end = at + 1;
        while (end < block.columns.length && block.columns[end].group === group) end++;
        const kind = group ? { colspan: end - at, class: "group", scope: "colgroup" }
          : { colspan: end - at };
        make(line, group ? "th" : "td", group, kind);
        at = end;
      }
    }
    const titles = make(head, "tr");
    if (untitled) head.remove();
    const body = make(node, "tbody");
    const families = [];
    for (const row of block.rows) {
      const line = make(null, "tr");
      if (row.heading) {
        make(line, "th", row.heading, { colspan: block.columns.length });
        families.push({ lines: [line], cells: [] });
        continue;
      }
      row.cells.forEach(([shown, value], at) => {
        const cell = make(line, "td", null, { class: classOf(block.columns[at]) });
        if (at === 0 && row.link && strips.length) {
          const link = make(cell, "button", shown.trim(), { class: "link", "aria-pressed": "false" });
          link.addEventListener("click", () => choose(line, link, row.link));
        } else {
          cell.textContent = shown.trim();
        }
      });
      if (row.child && families.length) {
        line.className = "child";
        families[families.length - 1].lines.push(line);
      } else {
        families.push({ lines: [line], cells: row.cells });
      }
    }
    let all = families.length <= few + 3;
    const fill = () => body.replaceChildren(
      ...families.slice(0, all ? families.length : few).flatMap((family) => family.lines));
    fill();
    block.columns.forEach((column, at) => {
      const head = make(titles, "th", null,
        { scope: "col", class: classOf(column) });
      const text = column.title + (column.unit ? " (" + column.unit + ")" : "");
      if (families.length < 2 || families.some((family) => !family.cells.length)) {
        head.textContent = text;
        return;
      }
      const button = make(head, "button", text);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of titles.children) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (family) => (family.cells[at] || [])[1];
        families.sort((a, b) => {
          const [one, two] = [key(a), key(b)];
          if (one === null || two === null) return (one === null) - (two === null);
          const order = typeof one === "number" && typeof two === "number" ? one - two
            : String(one).localeCompare(String(two));
          return down ? -order : order;
        });
        fill();
      });
    });
    if (!all) {
      const more = make(parent, "button", "Show all " + families.length + " rows", { class: "more" });
      more.addEventListener("click", () => { all = true; fill(); more.remove(); });
    }
    notes(parent, block.notes);
  }
  function notes(parent, texts) {
    if (!texts || !texts.length) return;
    const box = make(parent, "div", null, { class: "notes" });
    for (const text of texts) prose(box, "p", text);
  }
  function choose(line, link, wanted) {
    const again = line.classList.contains("chosen");
    for (const other of document.querySelectorAll("tr.chosen")) {
      other.classList.remove("chosen");
      other.querySelector("button.link").setAttribute("aria-pressed", "false");
    }
    line.classList.toggle("chosen", !again);
    link.setAttribute("aria-pressed", String(!again));
    for (const strip of strips) strip.highlight(again ? null : wanted);
  }

  // --- The strip: threads over time. ---
  function strip(parent, block) {
    const lanes = block.lanes.map(([name, packed]) => {
      const count = packed.length / 4;
      const lane = { name, begin: new Float64Array(count), end: new Float64Array(count),
        act: new Uint8Array(count), tag: new Uint32Array(count) };
      let now = 0;
      for (let at = 0; at < count; at++) {
        now += packed[4 * at] * block.unit;
        lane.begin[at] = now;
        now += packed[4 * at + 1] * block.unit;
        lane.end[at] = now;
        lane.act[at] = packed[4 * at + 2];
        lane.tag[at] = packed[4 * at + 3];
      }
      return lane;
    });
    const whole = Math.max(block.seconds * 1e9, ...lanes.map((lane) => lane.end[lane.end.length - 1] || 0), 1);
    const view = { from: 0, to: whole };
    const used = new Set();
    for (const lane of lanes) for (const act of lane.act) used.add(act);
    const few = 24;
    let all = lanes.length <= few + 4;
    let marked = null;
    const shown = () => (all ? lanes.length : few);

    const box = make(parent, "div", null, { class: "strip" });
    if (block.longest) prose(box, "p", block.longest.text + ".");
    const tools = make(box, "div", null, { class: "tools" });
    const tool = (text, label, does) => {
      const button = make(tools, "button", text, { "aria-label": label });
      button.addEventListener("click", does);
    };
    const zoom = (factor, at) => {
      const length = Math.min(whole, Math.max((view.to - view.from) * factor, 200));
      const middle = at === undefined ? (view.from + view.to) / 2 : at;
      const part = (middle - view.from) / (view.to - view.from);
      move(middle - part * length, length);
    };
    const move = (from, length) => {
      view.from = Math.max(0, Math.min(from, whole - length));
      view.to = view.from + length;
      later();
    };
    tool("+", "Zoom in", () => zoom(0.5));
    tool("\u2212", "Zoom out", () => zoom(2));
    tool("\u2190", "Earlier", () => move(view.from - (view.to - view.from) / 3, view.to - view.from));
    tool("\u2192", "Later", () => move(view.from + (view.to - view.from) / 3, view.to - view.from));
    tool("Whole run", "Show the whole run", () => move(0, whole));
    if (block.longest) {
      const { begin, length } = block.longest;
      tool("Longest convoy", "Show the longest convoy",
        () => move((begin - length * 0.15) * 1e9, Math.min(whole, length * 1.3e9)));
    }
    if (!all) tool("All " + lanes.length + " threads", "Show all threads", (event) => {
      all = !all;
      event.target.textContent = all ? "First " + few + " threads" : "All " + lanes.length + " threads";
      rest.textContent = folded();
      later();
    });
    const range = make(tools, "span", "", { class: "soft", "aria-live": "polite" });
    const legend = make(box, "ul", null, { class: "legend" });
    block.acts.forEach((name, act) => {
      if (!used.has(act)) return;
      const item = make(legend, "li");
      make(item, "i").style.background = "var(--act" + act + ")";
      item.append(name);
    });
    if (!legend.childElementCount) legend.remove();
    const top = make(box, "canvas", null, { role: "img", "aria-label":
      "Time that threads waited for locks, by when the waits ended, over the whole run" });
    const holder = make(box, "div", null, { class: "lanes" });
    const label = "What " + lanes.length + (block.unseen ? " of " + (lanes.length + block.unseen) : "")
      + " threads did over time. Plus and minus zoom, arrow "
      + "keys move, 0 shows the whole run; a table of the same follows.";
    const inner = make(holder, "div");
    const canvas = make(inner, "canvas", label, { role: "img", tabindex: "0", "aria-label": label });
    const foot = make(box, "canvas", null, { "aria-hidden": "true" });
    // Threads without a row are counted: a reader must not take the rows for the whole program.
    const folded = () => {
      const less = lanes.length - shown();
      const parts = [];
      if (less > 0) parts.push(less + " that waited less");
      if (block.unseen) parts.push(block.unseen + " of which no step was recorded");
      const count = less + (block.unseen || 0);
      const threads = count + (lanes.length ? " more" : "") + (count === 1 ? " thread" : " threads");
      return parts.length ? (lanes.length ? "\u2026 and " : "") + threads + ": " + parts.join(", ") + "." : "";
    };
    const rest = make(box, "p", folded(), { class: "rest" });
    make(box, "p", "Drag over a part to zoom into it; with Ctrl, the wheel zooms. A double click "
      + "shows the whole run.", { class: "notes screen" });
    notes(box, block.notes);

    const LEFT = 92;
    const MOST = 540;
    const row = () => (all && lanes.length > 200 ? 4 : all && lanes.length > 60 ? 8 : 18);
    function size(target, height) {
      const width = target.clientWidth || 300;
      const ratio = Math.min(devicePixelRatio || 1, 30000 / Math.max(height, 1));
      const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (target.width !== w || target.height !== h) {
        target.width = w;
        target.height = h;
        target.style.height = height + "px";
      }
      const pen = target.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.font = "11px system-ui, sans-serif";
      return [pen, width];
    }
    let colours = null;
    function draw() {
      colours = colours || { acts: block.acts.map((_, act) => css("--act" + act)),
        ink: css("--ink"), soft: css("--soft"), line: css("--line"), mark: css("--mark"),
        accent: css("--accent") };
      drawTop();
      drawLanes();
      drawFoot();
      const text = span(view.from) + " to " + span(view.to) + " of " + span(whole);
      if (range.textContent !== text) range.textContent = text;
    }
    function drawTop() {
      const height = 54;
      const [pen, width] = size(top, height);
      const x = (ns) => LEFT + (width - LEFT) * ns / whole;
      pen.fillStyle = colours.soft;
      const most = Math.max(1e-9, ...block.waiting);
      const words = block.bars ? [block.bars, "up to " + most.toFixed(most < 10 ? 1 : 0)]
        : ["waits that", "end here,", "up to " + span(most * block.phase * 1e9)];
      words.forEach((word, at) => pen.fillText(word, 2, 14 + 14 * at));
      pen.fillStyle = colours.acts[2];
      block.waiting.forEach((value, at) => {
        const [from, to] = [x(at * block.phase * 1e9), x((at + 1) * block.phase * 1e9)];
        const high = (height - 6) * value / most;
        pen.fillRect(from, height - high, Math.max(to - from, 0.5), high);
      });
      if (block.longest) {
        const from = x(block.longest.begin * 1e9);
        pen.strokeStyle = colours.mark;
        pen.lineWidth = 2;
        pen.strokeRect(from, 2, Math.max(x((block.longest.begin + block.longest.length) * 1e9) - from, 2), height - 3);
      }
      pen.strokeStyle = colours.accent;
      pen.lineWidth = 1;
      pen.strokeRect(x(view.from) + 0.5, 0.5, Math.max(x(view.to) - x(view.from) - 1, 2), height - 1);
    }
    function drawLanes() {
      // The canvas is as high as its window, and only the threads in it are drawn.
      const high = row();
      const count = shown();
      const height = Math.max(Math.min(count * high, MOST), high);
      inner.style.height = count * high + "px";
      const [pen, width] = size(canvas, height);
      const scrolled = holder.scrollTop;
      const scale = (width - LEFT) / (view.to - view.from);
      const sums = new Float64Array(block.acts.length);
      const below = Math.min(count, Math.ceil((scrolled + height) / high));
      for (let at = Math.floor(scrolled / high); at < below; at++) {
        const lane = lanes[at];
        const y = at * high - scrolled;
        // The first span that ends in the view.
        let low = 0;
        for (let last = lane.end.length; low < last;) {
          const middle = (low + last) >> 1;
          if (lane.end[middle] <= view.from) low = middle + 1; else last = middle;
        }
        // Spans of less than a pixel: a pixel has the colour of what took most of it.
        let pixel = -1;
        let some = false;
        const flush = () => {
          if (!some) return;
          let most = 0;
          for (let act = 1; act < sums.length; act++) if (sums[act] > sums[most]) most = act;
          pen.fillStyle = colours.acts[most];
          pen.fillRect(pixel, y + 1, 1, high - 2);
          sums.fill(0);
          some = false;
        };
        for (let one = low; one < lane.begin.length && lane.begin[one] < view.to; one++) {
          const from = LEFT + Math.max(0, lane.begin[one] - view.from) * scale;
          const to = LEFT + (Math.min(lane.end[one], view.to) - view.from) * scale;
          if (marked && !marked.has(lane.tag[one])) {
            if (to - from < 1) continue;
            pen.globalAlpha = 0.18;
          }
          if (to - from >= 1) {
            flush();
            pen.fillStyle = colours.acts[lane.act[one]];
            pen.fillRect(from, y + 1, to - from, high - 2);
          } else {
            if (Math.floor(from) !== pixel) flush();
            pixel = Math.floor(from);
            sums[lane.act[one]] += lane.end[one] - lane.begin[one];
            some = true;
          }
          pen.globalAlpha = 1;
        }
        flush();
        if (high >= 10 || at % Math.ceil(14 / high) === 0) {
          pen.fillStyle = colours.soft;
          pen.fillText(lane.name, 4, y + Math.min(13, high + 6), LEFT - 10);
        }
      }
      if (block.longest) {
        const [begin, end] = [block.longest.begin * 1e9, (block.longest.begin + block.longest.length) * 1e9];
        if (end > view.from && begin < view.to) {
          const from = LEFT + Math.max(0, begin - view.from) * scale;
          const to = LEFT + (Math.min(end, view.to) - view.from) * scale;
          pen.strokeStyle = colours.mark;
          pen.lineWidth = 2;
          pen.strokeRect(from, 1, Math.max(to - from, 2), height - 2);
        }
      }
      if (drag) {
        pen.globalAlpha = 0.25;
        pen.fillStyle = colours.accent;
        pen.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height);
        pen.globalAlpha = 1;
      }
    }
    function drawFoot() {
      const [pen, width] = size(foot, 22);
      pen.fillStyle = colours.soft;
      pen.strokeStyle = colours.line;
      const length = view.to - view.from;
      const ticks = Math.max(2, Math.floor((width - LEFT) / 110));
      const power = 10 ** Math.floor(Math.log10(length / ticks));
      const step = [1, 2, 5, 10].map((times) => times * power).find((one) => length / one <= ticks);
      const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([least]) => view.to >= least)
        || [1, "ns"];
      for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
        const x = LEFT + (width - LEFT) * (tick - view.from) / length;
        pen.fillRect(x, 0, 1, 5);
        const text = +(tick / scale).toPrecision(9) + " " + unit;
        pen.fillText(text, Math.min(x + 3, width - pen.measureText(text).width - 2), 15);
      }
    }
    let asked = false;
    function later() {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; draw(); });
    }

    let drag = null;
    const place = (event) => {
      const area = canvas.getBoundingClientRect();
      return [event.clientX - area.left, event.clientY - area.top, area.width];
    };
    const time = (x, width) => view.from + (view.to - view.from) * Math.max(0, x - LEFT) / (width - LEFT);
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      canvas.setPointerCapture(event.pointerId);
      const [x] = place(event);
      drag = { from: Math.max(LEFT, x), to: Math.max(LEFT, x) };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y, width] = place(event);
      if (drag) {
        drag.to = Math.max(LEFT, Math.min(x, width));
        showTip("");
        later();
        return;
      }
      const lane = lanes[Math.floor((y + holder.scrollTop) / row())];
      if (!lane || x < LEFT) return showTip("");
      const at = time(x, width);
      const near = (view.to - view.from) / (width - LEFT);
      let low = 0;
      for (let last = lane.end.length; low < last;) {
        const middle = (low + last) >> 1;
        if (lane.end[middle] < at - near) low = middle + 1; else last = middle;
      }
      let text = "thread " + lane.name;
      if (low < lane.begin.length && lane.begin[low] <= at + near) {
        text += ": " + block.acts[lane.act[low]] + " for " + span(lane.end[low] - lane.begin[low])
          + ", from " + span(lane.begin[low]) + " on";
        const tag = block.tags[lane.tag[low] - 1];
        if (tag) text += "\nlock: " + tag[3] + (tag[1] ? "\nin " + tag[1] : "")
          + (tag[2] ? "\nheld by " + tag[2] : "");
      } else {
        text += ": not recorded";
      }
      showTip(text, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => showTip(""));
    canvas.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const [, , width] = place(event);
      const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
      drag = null;
      if (to - from > 4) {
        const [begin, end] = [time(from, width), time(to, width)];
        move(begin, Math.max(end - begin, 200));
      }
      later();
    });
    canvas.addEventListener("dblclick", () => move(0, whole));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const [x, , width] = place(event);
      zoom(event.deltaY > 0 ? 1.25 : 0.8, time(x, width));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const length = view.to - view.from;
      const does = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => move(0, whole),
        ArrowLeft: () => move(view.from - length / 5, length), ArrowRight: () => move(view.from + length / 5, length),
        Home: () => move(0, length), End: () => move(whole - length, length) }[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    });
    holder.addEventListener("scroll", later, { passive: true });
    top.addEventListener("pointerdown", (event) => {
      const area = top.getBoundingClientRect();
      const at = whole * Math.max(0, event.clientX - area.left - LEFT) / (area.width - LEFT);
      move(at - (view.to - view.from) / 2, view.to - view.from);
    });

    const details = make(lanes.length ? box : null, "details");
    make(details, "summary", "The same as a table");
    details.addEventListener("toggle", () => {
      if (details.childElementCount > 1) return;
      const acts = block.acts.map((_, act) => act).filter((act) => used.has(act));
      const columns = [{ title: "Thread" }, { title: "recorded", number: true }]
        .concat(acts.map((act) => ({ title: block.acts[act], unit: "%", number: true })));
      const rows = lanes.map((lane) => {
        const sums = new Float64Array(block.acts.length);
        lane.act.forEach((act, at) => { sums[act] += lane.end[at] - lane.begin[at]; });
        const whole = sums.reduce((one, two) => one + two, 0);
        const parts = acts.map((act) => 100 * sums[act] / (whole || 1));
        return { cells: [[lane.name, lane.name], [span(whole), whole]]
          .concat(parts.map((part) => [part.toFixed(1), part])) };
      });
      table(details, { columns, rows, notes: [] });
    });

    strips.push({
      highlight(wanted) {
        marked = wanted && new Set(block.tags.flatMap(([lock, place, held], at) => {
          const [wantedLock, wantedPlace, wantedHeld] = wanted;
          const same = lock === wantedLock && (!wantedPlace || place === wantedPlace)
            && (!wantedHeld || !held || held === wantedHeld);
          return same ? [at + 1] : [];
        }));
        later();
      },
      redraw() { colours = null; later(); },
    });
    new ResizeObserver(later).observe(box);
    draw();
  }

  // --- The flame graph: frames are buttons, the widest first. ---
  function flame(parent, block) {
    const root = { name: "all", us: 0, inner: new Map() };
    for (const [frames, us] of block.stacks) {
      let at = root;
      at.us += us;
      for (const name of frames) {
        if (!at.inner.has(name)) at.inner.set(name, { name, us: 0, inner: new Map(), up: at });
        at = at.inner.get(name);
        at.us += us;
      }
    }
    const colour = (frame) => {
      const found = block.colours.find((one) => one.names.includes(frame.name));
      if (found) return found.colour;
      const inner = [...frame.inner.values()];
      if (inner.length && inner.every((leaf) => !leaf.inner.size)) {
        return colour(inner.reduce((most, one) => (one.us > most.us ? one : most)));
      }
      return "#cfd4da";
    };
    const leaves = new Set(block.stacks.map(([frames]) => frames[frames.length - 1]));
    const legend = make(parent, "ul", null, { class: "legend" });
    for (const one of block.colours) {
      if (one.names.length && !one.names.some((name) => leaves.has(name))) continue;
      const item = make(legend, "li");
      make(item, "i").style.background = one.colour;
      item.append(one.words);
    }
    const box = make(parent, "div", null, { class: "flame", role: "group", "aria-label": "Flame graph" });
    const deep = (frame) => 1 + Math.max(0, ...[...frame.inner.values()].map(deep));
    function draw(top) {
      const nodes = [];
      const add = (frame, left, wide, level) => {
        if (wide < 0.15) return;
        const text = (frame.up ? frame.name : "all waiting") + ": " + span(frame.us * 1e3) + ", "
          + (100 * frame.us / (root.us || 1)).toFixed(1) + " %";
        const node = make(null, "button", wide > 2 ? (frame.up ? frame.name : "all waiting") : "",
          { title: text, "aria-label": text });
        node.style.left = left + "%";
        node.style.width = wide + "%";
        node.style.top = level * 21 + "px";
        node.style.background = colour(frame);
        node.addEventListener("click", () => draw(frame));
        nodes.push(node);
        let at = left;
        if (level < path.length) {
          if (path[level]) add(path[level], left, wide, level + 1);
          return;
        }
        for (const inner of [...frame.inner.values()].sort((a, b) => b.us - a.us)) {
          const part = wide * inner.us / (frame.us || 1);
          add(inner, at, part, level + 1);
          at += part;
        }
      };
      const path = [];
      for (let frame = top; frame.up; frame = frame.up) path.unshift(frame);
      box.style.height = 21 * (path.length + deep(top)) + "px";
      add(root, 0, 100, 0);
      box.replaceChildren(...nodes);
    }
    draw(root);
    make(parent, "p", "Choose a frame to widen it, the first one to go back.", { class: "notes screen" });
  }

  // --- Curves with intervals. ---
  const lines = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8a6d3b"];
  // The golden angle keeps neighbours apart, however many lines there are.
  const line = (at) => lines[at] || "hsl(" + Math.round(at * 137.508 % 360) + ",60%,45%)";
  const redraws = [];
  function plot(parent, block) {
    if (block.title) prose(parent, "h3", block.title);
    if (block.subtitle) make(parent, "p", block.subtitle, { class: "soft" });
    const plots = make(parent, "div", null, { class: "plots" });
    for (const panel of block.panels) {
      const box = make(plots, "div");
      if (panel.title) prose(box, "h3", panel.title);
      const good = ([x, y]) => x !== null && y !== null && (!panel.x_log || x > 0) && (!panel.y_log || y > 0);
      const series = panel.series.map((one) => ({ name: one.name, points: one.points.filter(good) }));
      const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
      const isIdeal = (at) => series[at].name === "ideal";
      const colour = (at) => (isIdeal(at) ? "#888888" : line(at));
      // Ticks are where values are, not where an ideal line bends; of many values, some.
      const ticks = [...new Set(series.filter((one) => one.name !== "ideal")
        .flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
      const isDense = ticks.length > 40;
      const columns = series.map((one) => {
        const of = new Map(one.points.map((point) => [point[0], point]));
        return xs.map((x) => of.get(x) || null);
      });
      const ends = columns.flatMap((points) => points.filter(Boolean).flatMap(([, y, lo, hi]) =>
        [y, lo, hi].filter((value) => value !== null && (!panel.y_log || value > 0))));
      const [least, most] = [Math.min(...ends), Math.max(...ends)];
      const bars = (u) => {
        const pen = u.ctx;
        pen.save();
        columns.forEach((points, at) => {
          if (!u.series[at + 1].show) return;
          pen.strokeStyle = colour(at);
          pen.lineWidth = 1.5 * devicePixelRatio;
          for (const point of points) {
            if (!point || point[2] === null || point[3] === null) continue;
            const x = u.valToPos(point[0], "x", true);
            const [lo, hi] = [point[2], point[3]].map((value) => u.valToPos(value, "y", true));
            const cap = 3 * devicePixelRatio;
            pen.beginPath();
            pen.moveTo(x, lo); pen.lineTo(x, hi);
            pen.moveTo(x - cap, lo); pen.lineTo(x + cap, lo);
            pen.moveTo(x - cap, hi); pen.lineTo(x + cap, hi);
            pen.stroke();
          }
        });
        // Each line has its name at its end, the names of lines that end together one below the
        // other.
        const names = [];
        columns.forEach((points, at) => {
          const last = points.findLast((point) => point);
          if (!last || !u.series[at + 1].show) return;
          const [x, y] = [u.valToPos(last[0], "x", true), u.valToPos(last[1], "y", true)];
          names.push({ x, y, text: series[at].name, colour: colour(at) });
        });
        const apart = 13 * devicePixelRatio;
        const lowest = u.bbox.top + u.bbox.height;
        names.sort((a, b) => a.y - b.y);
        for (let at = 1; at < names.length; at++) names[at].y = Math.max(names[at].y, names[at - 1].y + apart);
        names.forEach((one, at) => { one.y = Math.min(one.y, lowest - (names.length - 1 - at) * apart); });
        pen.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
        pen.textAlign = "left";
        for (const one of names) {
          pen.fillStyle = one.colour;
          pen.fillText(one.text, one.x + 7 * devicePixelRatio, one.y + 4 * devicePixelRatio);
        }
        pen.restore();
      };
      const axis = (text, more) => ({ label: text, stroke: () => css("--soft"), labelSize: 22,
        grid: { stroke: () => css("--line"), width: 0.5 }, ticks: { stroke: () => css("--line") }, ...more });
      const options = {
        width: box.clientWidth || 360, height: 300, padding: [10, 96, 0, 0],
        scales: {
          x: { time: false, ...(panel.x_log ? { distr: 3, log: 2 } : {}) },
          y: panel.y_log ? { distr: 3 } : { range: () => [Math.min(0, least), most * 1.06 || 1] },
        },
        axes: [
          axis(panel.x, { ...(isDense ? {} : { splits: () => ticks }), values: (_, splits) => splits.map((x) => (x === null ? "" : +x.toPrecision(4))), space: isDense ? 60 : 24 }),
          axis(panel.y, { size: 66, values: (_, splits) => splits.map((y) => (y === null ? "" : y.toLocaleString("en"))) }),
        ],
        series: [{ label: panel.x }].concat(series.map((one, at) => ({
          label: one.name, stroke: colour(at), width: 2,
          dash: isIdeal(at) || at >= lines.length ? [6, 4] : undefined,
          points: { show: !isDense && !isIdeal(at), size: 6 }, spanGaps: true,
          value: (_, y) => (y === null ? "\u2013" : +y.toPrecision(4)),
        }))),
        hooks: { draw: [bars] },
        // The values are in the table below; without a pointer a live legend is empty.
        legend: { live: false },
      };
      if (!xs.length) { make(box, "p", "No points."); continue; }
      const ys = columns.map((points) => points.map((point) => (point ? point[1] : null)));
      const chart = new uPlot(options, [xs, ...ys], box);
      redraws.push(() => chart.redraw());
      new ResizeObserver(() => {
        const width = box.clientWidth;
        if (width && width !== chart.width) chart.setSize({ width, height: 300 });
      }).observe(box);
      const details = make(box, "details");
      make(details, "summary", "The same as a table");
      const shown = (value) => (value === null || value === undefined ? ["\u2013", null] : [String(+value.toPrecision(5)), value]);
      table(details, {
        columns: [{ title: "" }, { title: panel.x, number: true }, { title: panel.y, number: true },
          { title: "from", number: true }, { title: "to", number: true }],
        rows: series.flatMap((one) => one.points.map((point) =>
          ({ cells: [[one.name, one.name]].concat(point.map(shown)) }))),
        notes: [],
      });
    }
  }

  const draws = { text: (parent, block) => prose(parent, "p", block.text),
    // What can be done on a screen only.
    hint: (parent, block) => make(parent, "p", block.text, { class: "screen" }),
    command: (parent, block) => make(parent, "pre", block.text, { class: "command" }),
    // What matters little is one line until it is opened.
    folded: (parent, block) => {
      const details = make(parent, "details");
      prose(details, "summary", block.title);
      for (const inner of block.blocks) draws[inner.kind](details, inner);
    },
    table, strip, flame, plot };
  for (const section of data.sections) {
    const id = "s" + ++numbers;
    const node = make(root, "section", null, { "aria-labelledby": id });
    prose(node, "h2", section.title, { id });
    for (const block of section.blocks) {
      const draw = draws[block.kind];
      if (draw) draw(node, block);
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const strip of strips) strip.redraw();
    for (const redraw of redraws) redraw();
  });
  addEventListener("beforeprint", () => { for (const strip of strips) strip.redraw(); });
})();
