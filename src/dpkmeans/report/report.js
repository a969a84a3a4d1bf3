"use strict";
(() => {
  const source = document.getElementById("frames");
  if (!source) return;
  const { frames, k, last } = JSON.parse(source.textContent);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [play, back, next] = ["play", "back", "next"].map((id) => document.getElementById(id));
  const slider = document.getElementById("position");
  const words = document.getElementById("now");
  const shapes = (kind) => Array.from({ length: k }, (_, i) => document.getElementById(kind + i));
  const all = { ball: shapes("ball"), zone: shapes("zone"), centroid: shapes("centroid") };
  const MILLISECONDS = 900;
  let at = last, timer = 0;

  const put = (shape, place) => {
    if (!shape) return;
    shape.toggleAttribute("hidden", !place);
    shape.setAttribute("visibility", place ? "visible" : "hidden");
    if (!place) return;
    shape.setAttribute("cx", place[0]);
    shape.setAttribute("cy", place[1]);
    if (place.length > 2) { shape.setAttribute("rx", place[2]); shape.setAttribute("ry", place[3]); }
  };
  const read = (shape) => ["cx", "cy", "rx", "ry"].map((name) => Number(shape.getAttribute(name)));
  const glide = (shape, to) => {
    if (calm || !to || !shape || shape.getAttribute("visibility") === "hidden") return put(shape, to);
    const from = read(shape), begin = performance.now();
    const step = (now) => {
      const share = Math.min(1, (now - begin) / (MILLISECONDS * 0.6)), soft = share * share * (3 - 2 * share);
      put(shape, to.map((value, j) => from[j] + soft * (value - from[j])));
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  };
  const show = (number, moving) => {
    at = Math.max(0, Math.min(frames.length - 1, number));
    const frame = frames[at];
    for (const kind of Object.keys(all)) {
      all[kind].forEach((shape, i) => (moving && kind === "centroid" ? glide : put)(shape, (frame[kind] || [])[i] || null));
    }
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", frame.words);
    words.textContent = frame.words;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const start = () => {
    if (at === frames.length - 1) show(0, false);
    play.textContent = "Pause";
    timer = setInterval(() => {
      show(at + 1, true);
      if (at === frames.length - 1) stop();
    }, MILLISECONDS);
  };
  play.addEventListener("click", () => (timer ? stop() : start()));
  back.addEventListener("click", () => { stop(); show(at - 1, false); });
  next.addEventListener("click", () => { stop(); show(at + 1, true); });
  slider.addEventListener("input", () => { stop(); show(Number(slider.value), false); });
  document.getElementById("controls").hidden = false;
  show(last, false);
})();
