"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const floats = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return data.double ? new Float64Array(bytes.buffer) : Float64Array.from(new Float32Array(bytes.buffer));
  };
  const points = floats(data.points), weights = floats(data.weights);
  const d = data.names.length, m = weights.length, heaviest = weights.reduce((a, b) => Math.max(a, b), 0);
  const total = weights.reduce((a, b) => a + b, 0), ks = data.starts.map((_, i) => data.first + i);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const MAX_STEPS = 300, MILLISECONDS = 700, PATIENCE = 100, RATE = data.zone_epsilon / 4, RIGHT = Math.PI / 2;
  const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: data.double ? 6 : 4 });
  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const compact = new Intl.NumberFormat("en-US", { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 3 });
  const short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

  // A small generator with a fixed seed: the same choices give the same steps. mulberry32, public domain.
  let state = 1;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

  // Centroids are arrays of k * d numbers, in unit coordinates of the public box.
  const assign = (centroids) => {
    const k = centroids.length / d, labels = new Int32Array(m), sizes = new Float64Array(k);
    const sums = new Float64Array(k * d);
    let cost = 0, score = 0;
    for (let i = 0; i < m; i++) {
      let best = Infinity, second = Infinity, label = 0;
      for (let c = 0; c < k; c++) {
        let square = 0;
        for (let j = 0; j < d; j++) { const off = points[i * d + j] - centroids[c * d + j]; square += off * off; }
        if (square < best) { second = best; best = square; label = c; } else if (square < second) second = square;
      }
      labels[i] = label;
      sizes[label] += weights[i];
      cost += weights[i] * best;
      if (second > 0 && k > 1) score += weights[i] * (1 - Math.sqrt(best) / Math.sqrt(second));
      for (let j = 0; j < d; j++) sums[label * d + j] += weights[i] * points[i * d + j];
    }
    const means = centroids.map((old, at) => { const n = sizes[(at / d) | 0]; return n > 0 ? sums[at] / n : old; });
    return { centroids, labels, sizes, means, cost: cost * data.longest ** 2, silhouette: score / total };
  };
  const same = (a, b) => a && b && a.every((label, i) => label === b[i]);
  const distance = (a, b, c) => {
    let square = 0;
    for (let j = 0; j < d; j++) square += (a[c * d + j] - b[c * d + j]) ** 2;
    return Math.sqrt(square);
  };

  // Zones as in docs/zones.md; the laws are those of kernels/zones.py.
  const truncated = (rate, low, high) => low - Math.log1p(random() * Math.expm1(-rate * (high - low))) / rate;
  const turned = (origin, toward, c, ratio, angle) => {
    const length = distance(toward, origin, c), axis = new Float64Array(d), aside = new Float64Array(d);
    for (let j = 0; j < d; j++) axis[j] = length > 0 ? (toward[c * d + j] - origin[c * d + j]) / length : 0;
    if (d > 1) {
      for (let j = 0; j < d; j++) aside[j] = normal();
      for (let pass = 0; pass < 2; pass++) {
        const along = aside.reduce((sum, value, j) => sum + value * axis[j], 0);
        for (let j = 0; j < d; j++) aside[j] -= along * axis[j];
        const norm = Math.sqrt(aside.reduce((sum, value) => sum + value * value, 0)) || 1;
        for (let j = 0; j < d; j++) aside[j] /= norm;
      }
    }
    const turn = d > 1 ? angle : 0;
    return Array.from(axis, (value, j) =>
      origin[c * d + j] + ratio * length * (Math.cos(turn) * value + Math.sin(turn) * aside[j]));
  };
  const pair = (offset) => {
    const rate = RATE * 2 / Math.PI, widest = Math.expm1(-rate * Math.asin(Math.min((1 - offset) / offset, 1)));
    for (;;) {
      const ratio = truncated(RATE, 2 * offset - 1, 1);
      if (d === 1) return [ratio, 0];
      const cosine = (ratio * ratio + 2 * offset - 1) / (2 * ratio * offset);
      const angle = Math.acos(Math.min(Math.max(cosine, -1), 1));
      if (random() < Math.expm1(-rate * angle) / widest) return [ratio, truncated(rate, 0, angle)];
    }
  };
  const zoneStep = (now, strategy) => {
    const k = now.sizes.length, next = new Float64Array(k * d), zones = [];
    const ahead = strategy === "prior" ? assign(now.means).means : null;
    for (let c = 0; c < k; c++) {
      const border = distance(now.centroids, now.means, c);
      let point = Array.from(now.means.slice(c * d, c * d + d));
      if (border > 0 && strategy === "posterior") {
        const far = now.means.map((value, at) => 2 * value - now.centroids[at]);
        point = turned(now.means, far, c, 1, truncated(1 / RIGHT, 0, RIGHT));
      } else if (border > 0) {
        const share = Math.min(1, border / (distance(ahead, now.means, c) || Infinity));
        point = point.map((value, j) => value + share * (ahead[c * d + j] - value));
      }
      const full = new Float64Array(now.means);
      full.set(point, c * d);
      const offset = truncated(2, 0.5, 1), [ratio, angle] = pair(offset);
      const middle = point.map((value, j) => now.means[c * d + j] + offset * (value - now.means[c * d + j]));
      zones.push({ middle, radius: (1 - offset) * distance(full, now.means, c), border });
      next.set(turned(now.means, full, c, ratio, angle), c * d);
    }
    return { next, zones };
  };

  const begin = (k) => {
    const kept = data.starts[k - data.first];
    if (kept) return floats(kept);
    const start = new Float64Array(k * d);
    for (let c = 0; c < k; c++) {
      let left = random() * total, i = 0;
      while (i < m - 1 && (left -= weights[i]) > 0) i++;
      start.set(points.slice(i * d, i * d + d), c * d);
    }
    return start;
  };
  // All steps from the start until the assignment repeats: by zones where the strategy has them, then by Lloyd.
  const runOf = (k, strategy) => {
    state = 1000 * k + strategy.length;
    let now = { ...assign(begin(k)), zones: null, by: "start" }, before = null;
    const frames = [now];
    while (strategy !== "lloyd" && frames.length < MAX_STEPS && !same(now.labels, before)) {
      const made = zoneStep(now, strategy);
      before = now.labels;
      now = { ...assign(made.next), zones: made.zones, around: now.means, by: strategy };
      frames.push(now);
    }
    before = null;
    for (let step = 0; step < MAX_STEPS && !same(now.labels, before); step++) {
      before = now.labels;
      now = { ...assign(now.means), zones: null, by: "Lloyd" };
      frames.push(now);
    }
    return { frames, rest: same(now.labels, before) };
  };

  // What Lloyd's algorithm comes to for each k: computed when k is chosen, and for the other k one after the other.
  const ends = new Map();
  const endOf = (k) => {
    if (!ends.has(k)) {
      const last = runOf(k, "lloyd").frames.at(-1);
      ends.set(k, { cost: last.cost, silhouette: last.silhouette, smallest: last.sizes.reduce((a, b) => Math.min(a, b)) });
    }
    return ends.get(k);
  };

  const canvas = byId("map"), slider = byId("k"), play = byId("play");
  let run = null, at = 0, timer = 0;
  const place = (unit, j) => data.lower[j] + unit * data.unit[j];
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  const colour = (c) => `hsl(${(c * 137.508) % 360}deg 62% ${dark() ? 66 : 40}%)`;

  const draw = () => {
    const x = Number(byId("x").value), y = Number(byId("y").value), frame = run.frames[at];
    const width = Math.min(Math.max(canvas.clientWidth, 280), 640), margin = 14;
    const wide = data.box[x] || 1, high = d === 1 ? wide * 0.3 : data.box[y] || 1;
    const height = Math.min(Math.max((width * high) / wide, 220), 640), sharp = Math.min(devicePixelRatio || 1, 3);
    canvas.width = width * sharp;
    canvas.height = height * sharp;
    const pen = canvas.getContext("2d");
    pen.scale(sharp, sharp);
    const across = (width - 2 * margin) / wide, down = (height - 2 * margin) / high;
    const left = (value) => margin + value * across;
    const top = (value) => (d === 1 ? height / 2 : height - margin - value * down);
    pen.strokeStyle = ink("--soft");
    pen.setLineDash([5, 4]);
    pen.strokeRect(margin, margin, width - 2 * margin, height - 2 * margin);
    pen.setLineDash([]);
    for (let i = 0; i < m; i++) {
      pen.globalAlpha = 0.25 + 0.6 * Math.sqrt(weights[i] / heaviest);
      pen.fillStyle = colour(frame.labels[i]);
      pen.beginPath();
      pen.arc(left(points[i * d + x]), top(points[i * d + y]), 1 + 4.5 * Math.sqrt(weights[i] / heaviest), 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    const ring = (horizontal, vertical, radius, style, dashes) => {
      pen.strokeStyle = ink(style);
      pen.setLineDash(dashes);
      pen.beginPath();
      pen.ellipse(left(horizontal), top(vertical), radius * across, radius * (d === 1 ? across : down), 0, 0, 7);
      pen.stroke();
      pen.setLineDash([]);
    };
    pen.lineWidth = 1.5;
    (frame.zones || []).forEach((zone, c) => {
      ring(frame.around[c * d + x], frame.around[c * d + y], zone.border, "--ball", [5, 4]);
      ring(zone.middle[x], zone.middle[y], zone.radius, "--zone", []);
    });
    pen.font = "600 13px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let c = 0; c < frame.sizes.length; c++) {
      const [a, b] = [left(frame.centroids[c * d + x]), top(frame.centroids[c * d + y])];
      pen.beginPath();
      pen.arc(a, b, 10, 0, 7);
      pen.fillStyle = ink("--card");
      pen.fill();
      pen.strokeStyle = colour(c);
      pen.lineWidth = 2.5;
      pen.stroke();
      pen.fillStyle = ink("--text");
      pen.fillText(String(c), a, b + 0.5);
    }
    const axes = d === 1 ? data.names[x] : `${data.names[x]} (to the right) and ${data.names[y]} (upwards)`;
    canvas.setAttribute("aria-label", `Released points in ${axes}, in ${frame.sizes.length} clusters; table below.`);
    byId("axes").textContent = `In ${axes}. The dashed line is the public box; larger points stand for more records.`;
  };

  const tell = () => {
    const frame = run.frames[at], last = run.frames.length - 1;
    const by = frame.by === "start" ? "The start" : `Step ${at} of ${last}, by ${frame.by}`;
    const rest = at === last ? (run.rest ? " At rest: the assignment repeats." : " Stopped here, not yet at rest.") : "";
    byId("now").textContent = `${by}: cost ${short.format(frame.cost)}, silhouette ${short.format(frame.silhouette)}.${rest}`;
    byId("back").disabled = at === 0;
    byId("next").disabled = at === last;
    const body = byId("clusters"), shown = Math.min(d, data.shown);
    body.replaceChildren(...Array.from(frame.sizes, (size, c) => {
      const row = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      head.textContent = String(c);
      const cells = [whole.format(size)];
      for (let j = 0; j < shown; j++) cells.push(short.format(place(frame.centroids[c * d + j], j)));
      row.append(head, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return row;
    }));
  };
  const show = (number) => {
    at = Math.max(0, Math.min(run.frames.length - 1, number));
    draw();
    tell();
  };
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
  const go = () => {
    if (at === run.frames.length - 1) show(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      show(calm ? run.frames.length - 1 : at + 1);
      if (at === run.frames.length - 1) stop();
    }, MILLISECONDS);
  };

  const element = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const chart = (id, value, k) => {
    const svg = byId(id), left = 84, right = 310, top = 12, bottom = 140;
    const known = ks.filter((each) => ends.has(each)), values = known.map((each) => ends.get(each)[value]);
    const most = Math.max(...values), least = Math.min(0, ...values), chosen = endOf(k)[value];
    const x = (each) => left + ((right - left) * (each - data.first)) / Math.max(ks.length - 1, 1);
    const y = (v) => bottom - ((bottom - top) * (v - least)) / (most - least || 1);
    const text = (a, b, anchor, words) => element("text", { x: a, y: b, "text-anchor": anchor }, words);
    svg.replaceChildren(
      element("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }),
      element("line", { class: "chosen", x1: x(k), x2: x(k), y1: top, y2: bottom }),
      element("polyline", { class: value, points: values.map((v, i) => `${x(known[i])},${y(v)}`).join(" ") }),
      element("circle", { class: value, cx: x(k), cy: y(chosen), r: 5 }),
      text(left - 6, top + 6, "end", compact.format(most)), text(left - 6, bottom, "end", compact.format(least)),
      text(left, bottom + 18, "middle", String(data.first)),
      text(right, bottom + 18, "middle", String(ks.at(-1))),
      text((left + right) / 2, bottom + 18, "middle", "clusters"));
    svg.setAttribute("aria-label", `${value} over the number of clusters; ${digits.format(chosen)} at ${k}.`);
  };

  const charts = () => {
    chart("costs", "cost", Number(slider.value));
    chart("silhouettes", "silhouette", Number(slider.value));
  };
  const computeOthers = () => {
    const began = performance.now(), left = ks.filter((k) => !ends.has(k));
    while (left.length && performance.now() - began < PATIENCE) endOf(left.shift());
    charts();
    if (left.length) setTimeout(computeOthers);
  };

  const choose = () => {
    stop();
    const k = Number(slider.value), row = endOf(k);
    byId("chosen").textContent = `${k} clusters`;
    slider.setAttribute("aria-valuetext", `${k} clusters`);
    byId("cost").textContent = digits.format(row.cost);
    byId("silhouette").textContent = digits.format(row.silhouette);
    byId("smallest").textContent = whole.format(row.smallest);
    charts();
    byId("zones").hidden = byId("strategy").value === "lloyd";
    run = runOf(k, byId("strategy").value);
    show(run.frames.length - 1);
  };
  slider.addEventListener("input", choose);
  byId("strategy").addEventListener("change", choose);
  for (const id of ["x", "y"]) byId(id).addEventListener("change", draw);
  play.addEventListener("click", () => (timer ? stop() : go()));
  byId("first").addEventListener("click", () => { stop(); show(0); });
  byId("back").addEventListener("click", () => { stop(); show(at - 1); });
  byId("next").addEventListener("click", () => { stop(); show(at + 1); });
  addEventListener("resize", draw);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", draw);
  byId("live").hidden = false;
  choose();
  setTimeout(computeOthers);
})();
