// One image, large: what the network says of it, where it looked, what it finds alike.
"use strict";

(() => {
  const g = gatcluster;
  const dialog = g.find("picture");
  const barsShown = 8;
  const nearShown = 12;
  const mapPixels = 96;
  let list = []; // among which the arrows move
  let at = 0;
  let image = 0;
  let onClose = null;

  /** The attention of an image: centre, rows first, and variance; null where it is not known. */
  function gaussian(index) {
    const numbers = g.run.attention;
    if (!numbers || numbers[3 * index + 2] === 0) return null;
    return [0, 1, 2].map((part) => numbers[3 * index + part] / 65535);
  }

  /** Eq. "Gaussian kernel": exp(-((x - mu_x)² + (y - mu_y)²) / (delta alpha)), x down the rows, y along them.
   * The grid runs from 0 at the first position of the feature map to 1 at the last, wherever those lie in the image. */
  function attentionMap([muX, muY, delta], pixels) {
    const { attention, height, width } = g.run.summary;
    const { alpha } = attention;
    const along = ({ first, step, length }, side) =>
      Float32Array.from({ length: pixels }, (_, p) =>
        length === 1 ? 0.5 : (((p + 0.5) / pixels) * side - first) / (step * (length - 1)),
      );
    const [xs, ys] = [along(attention.rows, height), along(attention.columns, width)];
    const map = new Float32Array(pixels * pixels);
    for (let row = 0; row < pixels; row++) {
      for (let column = 0; column < pixels; column++) {
        const distance = (xs[row] - muX) ** 2 + (ys[column] - muY) ** 2;
        map[row * pixels + column] = Math.exp(-distance / (delta * alpha));
      }
    }
    return map;
  }

  const ramp = [
    [70, 20, 130],
    [210, 40, 110],
    [255, 120, 40],
    [255, 235, 110],
  ];

  /** An attention map as colours, on a canvas of its own. */
  function heat(map, strength) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = mapPixels;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(mapPixels, mapPixels);
    map.forEach((height, place) => {
      const along = height * (ramp.length - 1);
      const low = Math.min(ramp.length - 2, Math.floor(along));
      for (let part = 0; part < 3; part++) {
        pixels.data[4 * place + part] = ramp[low][part] + (ramp[low + 1][part] - ramp[low][part]) * (along - low);
      }
      pixels.data[4 * place + 3] = 255 * strength * (0.1 + 0.7 * height);
    });
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  /** The line where the Gaussian has half of its height: light on dark, so that it shows on any image. */
  function drawHalfHeight(context, [muX, muY, delta], scale) {
    const { rows, columns, alpha } = g.run.summary.attention;
    const radius = Math.sqrt(Math.LN2 * delta * alpha);
    const place = ({ first, step, length }, mu) => (first + step * (length - 1) * mu) * scale;
    const reach = ({ step, length }) => radius * step * (length - 1) * scale;
    if (!reach(rows) || !reach(columns)) return; // a map of a single row or column
    for (const [colour, width] of [["rgb(0 0 0 / 70%)", 5], ["white", 2.5]]) {
      context.beginPath();
      context.ellipse(place(columns, muY), place(rows, muX), reach(columns), reach(rows), 0, 0, 2 * Math.PI);
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.stroke();
    }
  }

  function drawAttention() {
    const canvas = g.find("picture-attention");
    const known = gaussian(image);
    const on = known !== null && g.find("attention-on").checked;
    canvas.hidden = !on;
    g.find("attention-strength").disabled = !on;
    g.find("attention-tools").hidden = known === null;
    g.find("attention-words").textContent =
      known === null
        ? "Where the network looked is not known, because the image could not be read for this report."
        : on
          ? "Bright where the network looked; the line is at half of its height."
          : "";
    if (!on) return;
    const strength = g.find("attention-strength").value / 100;
    const shape = g.run.summary;
    const scale = 640 / Math.max(shape.width, shape.height);
    canvas.width = Math.max(1, Math.round(shape.width * scale));
    canvas.height = Math.max(1, Math.round(shape.height * scale));
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(heat(attentionMap(known, mapPixels), strength), 0, 0, canvas.width, canvas.height);
    drawHalfHeight(context, known, scale);
    canvas.dataset.centre = `${known[0].toFixed(3)} ${known[1].toFixed(3)}`;
  }

  function drawBars() {
    const k = g.run.summary.n_clusters;
    const own = g.run.features.subarray(image * k, image * k + k);
    const order = Array.from(own.keys()).sort((a, b) => own[b] - own[a]);
    const rows = order.slice(0, barsShown).map((cluster) => {
      const share = own[cluster] / 65535;
      const fill = g.make("span", { class: "meter-fill" });
      fill.style.width = `${share * 100}%`;
      fill.style.background = g.clusterColour(cluster);
      return g.make(
        "div",
        { class: "bar-row" },
        g.make("span", { class: "bar-name" }, g.clusterName(cluster)),
        g.make("span", { class: "meter" }, fill),
        g.make("span", { class: "bar-number" }, share.toFixed(3)),
      );
    });
    if (k > barsShown) {
      const rest = order.slice(barsShown).reduce((sum, cluster) => sum + own[cluster] / 65535, 0);
      rows.push(g.make("p", { class: "quiet" }, `${k - barsShown} other clusters together: ${rest.toFixed(3)}`));
    }
    g.find("picture-bars").replaceChildren(...rows);
  }

  /** The images whose label features are nearest, by Euclidean distance, nearest first. */
  function nearest(index, wanted) {
    const k = g.run.summary.n_clusters;
    const { features } = g.run;
    const own = index * k;
    const best = []; // [distance, image], nearest first
    for (let other = 0, start = 0; start < features.length; other++, start += k) {
      if (other === index) continue;
      const bound = best.length < wanted ? Infinity : best[best.length - 1][0];
      let distance = 0;
      for (let part = 0; part < k && distance < bound; part++) {
        const difference = features[own + part] - features[start + part];
        distance += difference * difference;
      }
      if (distance >= bound) continue;
      let place = best.length;
      while (place > 0 && best[place - 1][0] > distance) place--;
      best.splice(place, 0, [distance, other]);
      if (best.length > wanted) best.pop();
    }
    return best.map(([, other]) => other);
  }

  function drawNear() {
    const found = nearest(image, nearShown);
    const buttons = found.map((other) => {
      const button = g.make("button", { type: "button", class: "strip-thumb" }, g.tile(other));
      button.style.setProperty("--ring", g.clusterColour(g.run.clusters[other]));
      button.addEventListener("click", () => show(other, [image, ...found], found.indexOf(other) + 1));
      return button;
    });
    g.find("picture-near").replaceChildren(...buttons);
  }

  /** The address of the file that the image was read from; null if there is none that a page can show. */
  function originalAddress() {
    const { original } = g.run.summary;
    if (original === null) return null;
    let text = "";
    for (const byte of g.run.names.raw(image)) {
      const sign = String.fromCharCode(byte);
      text += /[A-Za-z0-9/._~-]/.test(sign) ? sign : `%${byte.toString(16).padStart(2, "0").toUpperCase()}`;
    }
    return original + text;
  }

  function drawImage() {
    const tile = g.find("picture-tile");
    tile.dataset.image = image;
    tile.setAttribute("aria-label", g.describe(image));
    const layout = g.run.summary;
    g.find("picture-frame").style.setProperty("--ratio", String(layout.width / layout.height));
    tile.width = tile.height = 0;
    g.repaint(tile);
    const original = g.find("picture-original");
    const link = g.find("picture-link");
    const address = originalAddress();
    original.hidden = true;
    original.removeAttribute("src");
    link.hidden = address === null;
    if (address === null) return;
    link.href = address;
    if (Math.max(layout.width, layout.height) <= 32) return; // the thumbnail is all that the network saw
    original.alt = g.describe(image);
    original.className = layout.resize; // cut or squashed, as the network saw it
    original.onload = () => {
      original.hidden = false;
    };
    original.src = address;
  }

  function drawWrong() {
    const wrong = g.curation.isWrong(image);
    const button = g.find("picture-wrong");
    button.setAttribute("aria-pressed", String(wrong));
    button.textContent = wrong ? "Marked as wrong" : "Mark as wrong";
    button.disabled = g.run.names.exact(image) === null;
    button.title = button.disabled ? "The name of this file is not valid Unicode and cannot stand in curation.json" : "";
  }

  function show(index, images, place) {
    [image, list, at] = [index, images, place];
    const cluster = g.run.clusters[image];
    g.find("picture-name").textContent = g.run.names.get(image);
    const dot = g.make("span", { class: "dot" });
    dot.style.background = g.clusterColour(cluster);
    const label = g.run.labels ? g.run.labels[image] : undefined;
    const words = [
      dot,
      g.make("a", { href: `#cluster/${cluster}`, onclick: () => dialog.close() }, g.clusterName(cluster)),
      g.make("span", {}, `${g.percent(g.run.confidence[image], 1)} sure`),
    ];
    if (label !== undefined && label !== 65535) words.push(g.make("span", {}, `label ${g.run.scores.labels[label]}`));
    g.find("picture-cluster").replaceChildren(...words);
    g.find("picture-previous").disabled = at <= 0;
    g.find("picture-next").disabled = at >= list.length - 1;
    drawImage();
    drawAttention();
    drawBars();
    drawNear();
    drawWrong();
  }

  function move(by) {
    const next = at + by;
    if (next >= 0 && next < list.length) show(list[next], list, next);
  }

  /** Open an image; the arrows move in ``images``, and ``closed`` is told where they ended. */
  g.openPicture = async (index, images, place, closed = null) => {
    const { summary } = g.run;
    try {
      [g.run.features, g.run.names, g.run.attention, g.run.labels] = await Promise.all([
        g.load("features"),
        g.load("names"),
        summary.attention ? g.load("attention") : null,
        g.run.scores?.labels.length ? g.load("labels") : undefined,
      ]);
    } catch (error) {
      g.fail(error);
      return;
    }
    onClose = closed;
    if (!dialog.open) dialog.showModal();
    show(index, images, place);
  };

  g.nearest = nearest;
  g.attentionMap = attentionMap;
  g.find("picture-previous").addEventListener("click", () => move(-1));
  g.find("picture-next").addEventListener("click", () => move(1));
  g.find("picture-close").addEventListener("click", () => dialog.close());
  g.find("attention-on").addEventListener("change", drawAttention);
  g.find("attention-strength").addEventListener("input", drawAttention);
  g.find("picture-wrong").addEventListener("click", () => {
    g.curation.markWrong([image], !g.curation.isWrong(image));
    drawWrong();
  });
  // Not the dialog's own keys alone: the focus leaves it when the button that has it is switched off at the list's end.
  addEventListener("keydown", (event) => {
    if (!dialog.open || event.target.type === "range") return; // whose own keys these are
    if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside the box
  });
  dialog.addEventListener("close", () => onClose?.(at));
})();
