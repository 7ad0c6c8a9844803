// The paper's circular map (Eq. A1) of all images, and of a sample of them at the stages of the training.
"use strict";

(() => {
  const g = gatcluster;
  const canvas = g.find("map-canvas");
  const tip = g.find("map-tip");
  const reach = 14; // pixels around the pointer in which an image is found
  const mostZoom = 4000;
  const goldenAngle = Math.PI * (3 - Math.sqrt(5)); // turned by it again and again, points fill a disc evenly
  const picturesShown = 150; // with so few images in view, the map shows them instead of points
  const view = { x: 0, y: 0, zoom: 1 }; // what is in the middle, and how much larger than the whole circle
  let built = false;
  let shown = null; // {images, xs, ys}: what is drawn; images is null for all
  let all = null;
  let moments = null; // {stages, progress, sample, places}
  let stage = 0;
  let groups = []; // {name, colour, has(image)} of the legend
  let groupOf = null; // image -> group
  let onlyGroup = null;
  let lassoing = false;
  let lasso = null; // corners in pixels, while one is drawn
  let selected = null; // images, in a set
  let takeAway = null;
  let hovered = -1;
  let due = false;

  const isLast = () => !moments || stage === moments.stages.length - 1;
  const imageAt = (place) => (shown.images ? shown.images[place] : place);

  /** v = Σ l_h (sin, cos)(2πh/k), h = 1..k; x to the right, y upwards. */
  function placesOfAll() {
    const k = g.run.summary.n_clusters;
    const { features } = g.run;
    const corner = corners();
    const n = features.length / k;
    const [xs, ys] = [new Float32Array(n), new Float32Array(n)];
    for (let image = 0, at = 0; image < n; image++) {
      let [x, y, sum] = [0, 0, 0];
      for (let cluster = 0; cluster < k; cluster++, at++) {
        x += features[at] * corner[cluster][0];
        y += features[at] * corner[cluster][1];
        sum += features[at];
      }
      xs[image] = x / sum;
      ys[image] = y / sum;
    }
    return spread({ images: null, xs, ys });
  }

  /** Images on a corner lie on top of each other: lay them out as a disc around it, the surest in its middle.
   * What is away from the corners stays where the formula puts it. */
  function spread(places) {
    if (!g.find("map-spread").checked) return places;
    const k = g.run.summary.n_clusters;
    const { starts, position, clusters } = g.run;
    const { images, xs, ys } = places;
    const sizes = Array.from({ length: k }, (_, c) => starts[c + 1] - starts[c]);
    const widest = Math.min(0.17, 0.82 * Math.sin(Math.PI / k));
    const radii = sizes.map((size) => widest * Math.sqrt(size / Math.max(...sizes)));
    for (let place = 0; place < xs.length; place++) {
      const image = images ? images[place] : place;
      const cluster = clusters[image];
      const nearest = (2 * Math.PI * Math.round((Math.atan2(xs[place], ys[place]) * k) / (2 * Math.PI))) / k;
      const distance = Math.hypot(xs[place] - Math.sin(nearest), ys[place] - Math.cos(nearest));
      const closeness = Math.max(0, 1 - 2 * distance) ** 2;
      const rank = position[image] - starts[cluster];
      const radius = closeness * radii[cluster] * Math.sqrt((rank + 0.5) / sizes[cluster]);
      xs[place] += radius * Math.cos(rank * goldenAngle);
      ys[place] += radius * Math.sin(rank * goldenAngle);
    }
    return places;
  }

  function corners() {
    const k = g.run.summary.n_clusters;
    return Array.from({ length: k }, (_, c) => {
      const angle = (2 * Math.PI * (c + 1)) / k;
      return [Math.sin(angle), Math.cos(angle)];
    });
  }

  /** Where the sample lies between two stages; ``at`` may be broken. */
  function placesAt(at) {
    const n = moments.sample.length;
    const low = Math.floor(at);
    const high = Math.min(moments.stages.length - 1, low + 1);
    const part = at - low;
    const [xs, ys] = [new Float32Array(n), new Float32Array(n)];
    for (let place = 0; place < n; place++) {
      const [from, to] = [2 * (low * n + place), 2 * (high * n + place)];
      xs[place] = ((1 - part) * moments.places[from] + part * moments.places[to]) / 32767;
      ys[place] = ((1 - part) * moments.places[from + 1] + part * moments.places[to + 1]) / 32767;
    }
    return spread({ images: moments.sample, xs, ys });
  }

  // From the circle to pixels and back.
  function frame() {
    const { clientWidth: width, clientHeight: height } = canvas;
    const radius = (Math.min(width, height) / 2 / 1.17 - 26) * view.zoom;
    return {
      width,
      height,
      radius,
      px: (x) => width / 2 + (x - view.x) * radius,
      py: (y) => height / 2 - (y - view.y) * radius,
      x: (px) => view.x + (px - width / 2) / radius,
      y: (py) => view.y - (py - height / 2) / radius,
    };
  }

  function redraw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      draw();
    });
  }

  function draw() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    const at = frame();
    if (!at.width || !shown) return;
    if (canvas.width !== Math.round(at.width * ratio) || canvas.height !== Math.round(at.height * ratio)) {
      canvas.width = Math.round(at.width * ratio);
      canvas.height = Math.round(at.height * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, at.width, at.height);
    drawCircle(context, at);
    const inView = placesInView(at);
    if (g.run.summary.sheets && inView.length <= picturesShown && view.zoom > 2) drawPictures(context, at, inView);
    else drawPoints(context, at);
    drawCorners(context, at);
    drawHovered(context, at);
    drawLasso(context);
    canvas.dataset.points = shown.xs.length; // for those who look from outside
  }

  function drawCircle(context, at) {
    context.strokeStyle = g.styleColour("line");
    context.lineWidth = 1;
    context.beginPath();
    context.arc(at.px(0), at.py(0), at.radius, 0, 2 * Math.PI);
    for (const [x, y] of corners()) {
      context.moveTo(at.px(0), at.py(0));
      context.lineTo(at.px(x), at.py(y));
    }
    context.stroke();
  }

  function drawPoints(context, at) {
    const { xs, ys } = shown;
    const side = Math.min(9, Math.max(2, 3.4 - Math.log10(xs.length / 1000)) * (1 + Math.log2(view.zoom) / 5));
    const half = side / 2;
    const buckets = groups.map(() => []);
    for (let place = 0; place < xs.length; place++) {
      const group = groupOf(imageAt(place));
      if (group >= 0) buckets[group].push(place);
    }
    buckets.forEach((places, group) => {
      context.fillStyle = groups[group].colour;
      const faded = onlyGroup !== null && onlyGroup !== group;
      const strength = xs.length > 5000 ? 0.6 : 0.85;
      for (const place of places) {
        const x = at.px(xs[place]);
        const y = at.py(ys[place]);
        if (x < -side || y < -side || x > at.width + side || y > at.height + side) continue;
        const unselected = selected && !selected.has(imageAt(place));
        context.globalAlpha = faded || unselected ? 0.08 : strength;
        context.fillRect(x - half, y - half, side, side);
      }
    });
    context.globalAlpha = 1;
  }

  function placesInView(at) {
    const found = [];
    const { xs, ys } = shown;
    const [left, right, low, high] = [at.x(0), at.x(at.width), at.y(at.height), at.y(0)];
    for (let place = 0; place < xs.length && found.length <= picturesShown; place++) {
      if (xs[place] < left || xs[place] > right || ys[place] < low || ys[place] > high) continue;
      if (groupOf(imageAt(place)) >= 0) found.push(place);
    }
    return found;
  }

  function drawPictures(context, at, places) {
    const side = 40;
    for (const place of places) {
      const image = imageAt(place);
      const [x, y] = [at.px(shown.xs[place]), at.py(shown.ys[place])];
      const group = groupOf(image);
      const faded = (onlyGroup !== null && onlyGroup !== group) || (selected && !selected.has(image));
      context.globalAlpha = faded ? 0.15 : 1;
      context.fillStyle = groups[group].colour;
      context.fillRect(x - side / 2 - 2, y - side / 2 - 2, side + 4, side + 4);
      const ready = tileCanvas(image);
      if (ready) context.drawImage(ready, x - side / 2, y - side / 2, side, side);
    }
    context.globalAlpha = 1;
  }

  const tiles = new Map(); // image -> a small canvas, or null while it is being made
  function tileCanvas(image) {
    if (!tiles.has(image)) {
      if (tiles.size > 4 * picturesShown) tiles.clear();
      tiles.set(image, null);
      const fresh = document.createElement("canvas");
      fresh.width = fresh.height = 80;
      g.drawTile(fresh.getContext("2d"), image, 0, 0, 80, 80).then((done) => {
        if (!done) return;
        tiles.set(image, fresh);
        redraw();
      });
    }
    return tiles.get(image);
  }

  function drawCorners(context, at) {
    const k = g.run.summary.n_clusters;
    const every = Math.ceil(k / 40);
    context.font = "500 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    corners().forEach(([x, y], cluster) => {
      const [px, py] = [at.px(x), at.py(y)];
      if (!g.find("map-spread").checked) {
        context.fillStyle = g.clusterColour(cluster);
        context.beginPath();
        context.arc(px, py, 4, 0, 2 * Math.PI);
        context.fill();
      }
      if (cluster % every) return;
      const name = g.curation.name(cluster) || String(cluster);
      const text = name.length > 14 ? `${name.slice(0, 13)}…` : name;
      context.textAlign = x > 0.3 ? "left" : x < -0.3 ? "right" : "center";
      // Beside the corner, away from the middle, but never off the canvas.
      const width = context.measureText(text).width;
      const away = g.find("map-spread").checked ? Math.min(0.17, 0.82 * Math.sin(Math.PI / k)) * at.radius + 12 : 15;
      const wish = px + x * away;
      const low = { left: 2, right: width + 2, center: width / 2 + 2 }[context.textAlign];
      const high = { left: at.width - width - 2, right: at.width - 2, center: at.width - width / 2 - 2 }[context.textAlign];
      const inside = px > -20 && px < at.width + 20;
      context.fillStyle = g.styleColour("ink");
      context.fillText(text, inside ? Math.min(high, Math.max(low, wish)) : wish, py - y * away);
    });
  }

  function drawHovered(context, at) {
    if (hovered < 0) return;
    context.strokeStyle = g.styleColour("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(at.px(shown.xs[hovered]), at.py(shown.ys[hovered]), 8, 0, 2 * Math.PI);
    context.stroke();
  }

  function drawLasso(context) {
    if (!lasso || lasso.length < 2) return;
    context.beginPath();
    lasso.forEach(([x, y], corner) => (corner ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.fillStyle = g.styleColour("veil");
    context.fill();
    context.strokeStyle = g.styleColour("accent");
    context.lineWidth = 1.5;
    context.stroke();
  }

  /** The place of the image nearest to a pixel, or -1 if none is within reach. */
  function nearestPlace(px, py, within = reach) {
    const at = frame();
    const [x, y, bound] = [at.x(px), at.y(py), within / at.radius];
    let [best, least] = [-1, bound * bound];
    for (let place = 0; place < shown.xs.length; place++) {
      const distance = (shown.xs[place] - x) ** 2 + (shown.ys[place] - y) ** 2;
      if (distance >= least) continue;
      const group = groupOf(imageAt(place));
      if (group < 0 || (onlyGroup !== null && onlyGroup !== group)) continue;
      [best, least] = [place, distance];
    }
    return best;
  }

  function hover(place) {
    if (place === hovered) return;
    hovered = place;
    if (place < 0) {
      tip.hidden = true;
      canvas.style.cursor = "";
      redraw();
      return;
    }
    const image = imageAt(place);
    const cluster = g.run.clusters[image];
    const label = g.run.labels ? g.run.labels[image] : 65535;
    const words = [
      g.make("strong", {}, g.clusterName(cluster)),
      g.make("span", {}, `${g.percent(g.run.confidence[image], 1)} sure`),
      label === 65535 ? null : g.make("span", {}, `label ${g.run.scores.labels[label]}`),
      g.make("span", { class: "tip-name" }, g.run.names ? g.run.names.get(image) : ""),
    ];
    tip.replaceChildren(g.tile(image), g.make("div", {}, ...words.filter((part) => part)));
    tip.dataset.image = image;
    tip.hidden = false;
    const at = frame();
    const [x, y] = [at.px(shown.xs[place]), at.py(shown.ys[place])];
    const width = tip.offsetWidth;
    const height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(at.width - width - 4, x + 16 + width > at.width ? x - width - 16 : x + 16))}px`;
    tip.style.top = `${Math.max(4, Math.min(at.height - height - 4, y - height / 2))}px`;
    canvas.style.cursor = "pointer";
    redraw();
  }

  function zoomBy(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
    const before = frame();
    const [x, y] = [before.x(px), before.y(py)];
    view.zoom = Math.min(mostZoom, Math.max(0.8, view.zoom * factor));
    const after = frame();
    view.x += x - after.x(px); // what was under the pointer stays there
    view.y += y - after.y(py);
    hover(-1);
    redraw();
  }

  function moveBy(dx, dy) {
    const { radius } = frame();
    view.x = Math.min(1.5, Math.max(-1.5, view.x - dx / radius));
    view.y = Math.min(1.5, Math.max(-1.5, view.y + dy / radius));
    redraw();
  }

  function reset() {
    Object.assign(view, { x: 0, y: 0, zoom: 1 });
    hover(-1);
    redraw();
  }

  // Pointers: one moves, selects or draws a lasso; two zoom.
  const pointers = new Map();
  let travelled = 0;

  const pixel = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function onDown(event) {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, pixel(event));
    travelled = 0;
    lasso = pointers.size === 1 && (lassoing || event.shiftKey) ? [pixel(event)] : null;
  }

  function onMove(event) {
    const now = pixel(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      hover(nearestPlace(...now));
      return;
    }
    const others = [...pointers.entries()].filter(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, now);
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    travelled += Math.hypot(dx, dy);
    if (others.length) {
      const [, [ox, oy]] = others[0];
      const factor = Math.hypot(now[0] - ox, now[1] - oy) / (Math.hypot(before[0] - ox, before[1] - oy) || 1);
      moveBy(dx / 2, dy / 2);
      zoomBy(factor, (now[0] + ox) / 2, (now[1] + oy) / 2);
    } else if (lasso) {
      lasso.push(now);
      redraw();
    } else if (travelled > 4) {
      hover(-1);
      moveBy(dx, dy);
    }
  }

  function onUp(event) {
    if (!pointers.delete(event.pointerId)) return;
    if (lasso && travelled > 12) selectWithin(lasso);
    else if (travelled <= 4 && event.type === "pointerup") {
      const place = nearestPlace(...pixel(event), event.pointerType === "touch" ? 2 * reach : reach);
      if (place >= 0) open(place);
      else if (selected) select(null);
    }
    lasso = null;
    redraw();
  }

  function open(place) {
    const image = imageAt(place);
    const list = selected?.has(image) ? [...selected] : [image];
    g.openPicture(image, list, list.indexOf(image), () => canvas.focus());
  }

  /** Whether a point lies in a polygon: a ray from it crosses the outline an odd number of times. */
  function isWithin(x, y, polygon) {
    let within = false;
    for (let one = 0, other = polygon.length - 1; one < polygon.length; other = one++) {
      const [[ax, ay], [bx, by]] = [polygon[one], polygon[other]];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
    }
    return within;
  }

  function selectWithin(polygon) {
    const at = frame();
    const corner = polygon.map(([px, py]) => [at.x(px), at.y(py)]);
    const found = new Set();
    for (let place = 0; place < shown.xs.length; place++) {
      const group = groupOf(imageAt(place));
      if (group < 0 || (onlyGroup !== null && onlyGroup !== group)) continue;
      if (isWithin(shown.xs[place], shown.ys[place], corner)) found.add(imageAt(place));
    }
    select(found.size ? found : null);
  }

  function select(images) {
    takeAway?.();
    takeAway = null;
    selected = images;
    g.find("map-selection").hidden = !images;
    if (images) {
      const list = [...images].sort((a, b) => g.run.position[a] - g.run.position[b]);
      selected = new Set(list);
      const of = new Set(list.map((image) => g.run.clusters[image])).size;
      g.find("map-selection-title").textContent = `${g.images(list.length)} selected, of ${of} cluster${of === 1 ? "" : "s"}`;
      takeAway = g.gallery(g.find("map-selection-list"), list);
    }
    redraw();
  }

  function onKey(event) {
    const step = 40;
    const act = {
      ArrowLeft: () => moveBy(step, 0),
      ArrowRight: () => moveBy(-step, 0),
      ArrowUp: () => moveBy(0, step),
      ArrowDown: () => moveBy(0, -step),
      "+": () => zoomBy(1.4),
      "=": () => zoomBy(1.4),
      "-": () => zoomBy(1 / 1.4),
      0: reset,
      Enter: () => {
        const place = nearestPlace(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity);
        if (place >= 0) open(place);
      },
      Escape: () => select(null),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
    if (event.key !== "Enter" && event.key !== "Escape") {
      hover(nearestPlace(canvas.clientWidth / 2, canvas.clientHeight / 2, 60));
    }
  }

  function setMode(lassoMode) {
    lassoing = lassoMode;
    g.find("map-move").setAttribute("aria-pressed", String(!lassoMode));
    g.find("map-lasso").setAttribute("aria-pressed", String(lassoMode));
    canvas.classList.toggle("lassoing", lassoMode);
  }

  function setColours() {
    const by = g.find("map-colour").value;
    onlyGroup = null;
    if (by === "label") {
      groups = g.run.scores.labels.map((name, label) => ({ name, colour: g.labelColour(label) }));
      groups.push({ name: "no label", colour: g.styleColour("ink-3") });
      const none = groups.length - 1;
      groupOf = (image) => (g.run.labels[image] === 65535 ? none : g.run.labels[image]);
      if (!g.run.labels.includes(65535)) groups.pop();
    } else if (by === "confidence") {
      const steps = g.confidenceSteps;
      groups = Array.from({ length: steps }, (_, step) => ({
        name: `${g.percent(step / steps)} to ${g.percent((step + 1) / steps)}`,
        colour: g.confidenceColour(step),
      }));
      groupOf = (image) => Math.min(steps - 1, Math.floor(g.run.confidence[image] * steps));
    } else {
      const k = g.run.summary.n_clusters;
      groups = Array.from({ length: k }, (_, c) => ({ name: g.clusterName(c), colour: g.clusterColour(c) }));
      groupOf = (image) => g.run.clusters[image];
    }
    drawLegend();
    hover(-1);
    redraw();
  }

  function drawLegend() {
    const rows = groups.map(({ name, colour }, group) => {
      const dot = g.make("span", { class: "dot" });
      dot.style.background = colour;
      const button = g.make("button", { type: "button", "aria-pressed": String(onlyGroup === group) }, dot, g.make("span", {}, name));
      button.addEventListener("click", () => {
        onlyGroup = onlyGroup === group ? null : group;
        drawLegend();
        redraw();
      });
      return g.make("li", {}, button);
    });
    g.find("map-legend").replaceChildren(...rows);
  }

  // Stages of the training.
  let playing = 0; // counts the plays, so that a later one ends an earlier

  function nameStage() {
    const share = g.percent(moments.progress[stage]);
    const name = moments.stages[stage];
    g.find("map-stage-name").textContent = isLast()
      ? `finished: all ${g.images(g.run.summary.n_images)}`
      : `${name}, ${share} of the training: ${g.images(moments.sample.length)}`;
  }

  function setStage(next) {
    stage = next;
    g.find("map-stage").value = String(stage);
    shown = isLast() ? all : placesAt(stage);
    hover(-1);
    nameStage();
    redraw();
  }

  function glide(from, to, token) {
    const began = performance.now();
    const time = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 600;
    return new Promise((resolve) => {
      const frameOf = (now) => {
        const part = time ? Math.min(1, (now - began) / time) : 1;
        if (playing !== token) return resolve(false);
        shown = placesAt(from + (to - from) * part * part * (3 - 2 * part));
        draw();
        if (part < 1) requestAnimationFrame(frameOf);
        else resolve(true);
      };
      requestAnimationFrame(frameOf);
    });
  }

  async function play() {
    const button = g.find("map-play");
    if (button.dataset.playing) return stop();
    const token = ++playing;
    button.dataset.playing = "yes";
    button.textContent = "❚❚ Pause";
    if (isLast()) setStage(0);
    hover(-1);
    while (stage < moments.stages.length - 1) {
      if (!(await glide(stage, stage + 1, token))) return;
      setStage(stage + 1);
      await new Promise((resolve) => setTimeout(resolve, 250));
      if (playing !== token) return;
    }
    stop();
  }

  function stop() {
    playing++;
    const button = g.find("map-play");
    delete button.dataset.playing;
    button.textContent = "▶ Play";
  }

  async function build() {
    const { summary, scores } = g.run;
    const [features, stages, sample, places, labels] = await Promise.all([
      g.load("features"),
      summary.n_moments > 1 ? g.load("stages") : null,
      summary.n_moments > 1 ? g.load("sample") : null,
      summary.n_moments > 1 ? g.load("moments") : null,
      scores?.labels.length ? g.load("labels") : undefined,
    ]);
    g.run.features = features;
    g.run.labels = labels;
    if (labels) g.find("map-colour").append(g.make("option", { value: "label" }, "label"));
    all = placesOfAll();
    shown = all;
    g.find("map-stages").hidden = !stages;
    g.find("map-no-stages").hidden = Boolean(stages);
    if (stages) {
      moments = { ...stages, sample, places };
      g.find("map-stage").max = String(stages.stages.length - 1);
      setStage(stages.stages.length - 1);
    }
    setColours();
    new ResizeObserver(redraw).observe(canvas);
  }

  g.views.map = {
    async show() {
      if (!built) {
        built = true;
        await build();
      }
      redraw();
    },
    hide() {
      stop();
      hover(-1);
    },
  };

  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onUp);
  canvas.addEventListener("pointerleave", () => pointers.size || hover(-1));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), ...pixel(event));
  }, { passive: false });
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("blur", () => hover(-1));
  g.find("map-move").addEventListener("click", () => setMode(false));
  g.find("map-lasso").addEventListener("click", () => setMode(true));
  g.find("map-in").addEventListener("click", () => zoomBy(1.6));
  g.find("map-out").addEventListener("click", () => zoomBy(1 / 1.6));
  g.find("map-reset").addEventListener("click", reset);
  g.find("map-colour").addEventListener("change", setColours);
  g.find("map-spread").addEventListener("change", () => {
    all = placesOfAll();
    shown = isLast() ? all : placesAt(stage);
    hover(-1);
    redraw();
  });
  g.find("map-play").addEventListener("click", play);
  g.find("map-stage").addEventListener("input", (event) => {
    stop();
    setStage(Number(event.target.value));
  });
  g.find("map-selection-clear").addEventListener("click", () => select(null));
  g.find("map-selection-wrong").addEventListener("click", () => {
    g.curation.markWrong(selected, true);
    select(selected);
  });
  g.onTheme(redraw);
  g.onChange(() => {
    if (!built || !groupOf) return;
    if (g.find("map-colour").value === "cluster") groups.forEach((group, c) => (group.name = g.clusterName(c)));
    drawLegend();
    redraw();
  });
})();
