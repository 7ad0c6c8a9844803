// Puts the page together: loads what it needs at first, writes the head, switches between the parts.
"use strict";

(() => {
  const g = gatcluster;
  let current = null;

  g.fail = (error) => {
    const place = g.find("error");
    place.textContent = error.message;
    place.hidden = false;
  };

  function fact(name, value, title) {
    return g.make("div", { title }, g.make("dt", {}, name), g.make("dd", {}, value));
  }

  function writeHead() {
    const { summary, scores } = g.run;
    document.title = `${summary.title} · gatcluster`;
    g.find("title").textContent = summary.title;
    const time = summary.seconds === null ? "" : ` in ${g.duration(summary.seconds)}`;
    g.find("lede").textContent =
      `${g.images(summary.n_images)} in ${summary.n_clusters} clusters, found from the pixels alone${time}.`;
    const facts = [
      fact("Mean confidence", g.percent(summary.mean_confidence, 1)),
      fact("Recipe", summary.preset ? `${summary.recipe}, ${summary.preset}` : summary.recipe),
      fact("Seed", String(summary.seed)),
      summary.epochs === null ? null : fact("Epochs", g.count(summary.epochs)),
      fact("Seen as", `${summary.height} × ${summary.width}, ${summary.seen_in}`, "Height and width of the images as the network sees them"),
    ];
    if (scores) {
      const { metrics } = scores;
      facts.push(
        fact("ACC", metrics.accuracy.toFixed(3), "Share of images in the right cluster, by Hungarian matching"),
        fact("NMI, geometric mean", metrics.nmi_geometric.toFixed(3), "Normalised by the geometric mean of both entropies, as in the paper"),
        fact("ARI", metrics.ari.toFixed(3), "Adjusted Rand index"),
      );
    }
    if (summary.source) facts.push(fact("Source", summary.source));
    g.find("facts").replaceChildren(...facts.filter((part) => part));
    writeWarnings(summary);
    g.find("foot").textContent =
      `Written by gatcluster ${summary.version}. This page works without a network: everything it shows lies beside it.`;
  }

  function writeWarnings(summary) {
    const texts = [...summary.warnings, ...(summary.note ? [summary.note] : [])];
    const rows = texts.map((text) => g.make("li", {}, text));
    if (summary.skipped.length) {
      const files = summary.skipped.map(([name, reason]) => g.make("li", {}, g.make("code", {}, name), `: ${reason}`));
      const more = summary.n_skipped - summary.skipped.length;
      if (more > 0) files.push(g.make("li", {}, `and ${g.count(more)} more`));
      rows.push(g.make("li", {}, g.make("details", {}, g.make("summary", {}, "Files left out"), g.make("ul", {}, ...files))));
    }
    g.find("warnings").replaceChildren(...rows);
    g.find("warnings").hidden = rows.length === 0;
  }

  /** Show the part of the page that the address names: #map, #cluster/3, #cell/3/7. */
  async function route() {
    const [name, ...rest] = location.hash.slice(1).split("/");
    if (name === "main") return;
    const chosen = Object.hasOwn(g.views, name) ? name : "clusters";
    const section = g.views[chosen].section ?? chosen;
    if (current) g.views[current].hide();
    const cameBack = current !== null && current !== chosen;
    current = chosen;
    document.body.dataset.view = chosen;
    for (const part of document.querySelectorAll("main > section")) part.hidden = part.id !== `view-${section}`;
    const tab = { cluster: "clusters", cell: "labels" }[chosen] ?? chosen;
    for (const link of document.querySelectorAll(".tabs a")) {
      if (link.getAttribute("href") === `#${tab}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (g.find("picture").open) g.find("picture").close();
    try {
      await g.views[chosen].show(...rest);
    } catch (error) {
      g.fail(error);
    }
    // A list begins at its top; the other parts stay where the reader left them.
    if (section === "list" && cameBack) document.querySelector(".tabs").scrollIntoView();
  }

  function onKey(event) {
    if (event.key !== "Escape" || g.find("picture").open || event.defaultPrevented) return;
    if (current === "cluster") location.hash = "#clusters";
    else if (current === "cell") location.hash = "#labels";
  }

  function index() {
    const { order, clusters, summary } = g.run;
    const position = new Uint32Array(order.length);
    order.forEach((image, place) => {
      position[image] = place;
    });
    const starts = new Uint32Array(summary.n_clusters + 1);
    clusters.forEach((cluster) => {
      starts[cluster + 1]++;
    });
    for (let cluster = 0; cluster < summary.n_clusters; cluster++) starts[cluster + 1] += starts[cluster];
    Object.assign(g.run, { position, starts });
  }

  async function start() {
    try {
      const [summary, scores, clusters, confidence, order] = await Promise.all(
        ["summary", "scores", "clusters", "confidence", "order"].map(g.load),
      );
      Object.assign(g.run, { summary, scores, clusters, confidence, order });
      index();
      writeHead();
      await route();
      document.documentElement.dataset.ready = "yes";
      g.run.names = await g.load("names");
      g.curation.restore();
      for (const tile of document.querySelectorAll("canvas.tile")) {
        tile.setAttribute("aria-label", g.describe(Number(tile.dataset.image)));
      }
    } catch (error) {
      g.fail(error);
    }
  }

  addEventListener("hashchange", route);
  addEventListener("keydown", onKey);
  start();
})();
