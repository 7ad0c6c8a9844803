// Clusters against labels, once the run was evaluated.
"use strict";

(() => {
  const g = gatcluster;
  const none = 65535;
  let built = false;

  function empty() {
    return g.make(
      "div",
      { class: "empty" },
      g.make("p", {}, "This run was not evaluated. Clusters need no labels; if you have some, this compares them:"),
      g.make("pre", {}, "gatcluster evaluate RUN --labels folders\ngatcluster evaluate RUN --labels labels.csv"),
      g.make("p", { class: "quiet" }, "Labels are read by evaluate and by nothing else. Open this page again afterwards."),
    );
  }

  function table(labels) {
    const { labels: names, match, metrics } = g.run.scores;
    const k = g.run.summary.n_clusters;
    const counts = Array.from({ length: k }, () => new Array(names.length).fill(0));
    labels.forEach((label, image) => {
      if (label !== none) counts[g.run.clusters[image]][label]++;
    });
    const rows = Array.from({ length: k }, (_, cluster) => cluster).sort(
      (a, b) => (match[a] ?? names.length + a) - (match[b] ?? names.length + b),
    );
    const head = g.make("tr", {}, g.make("td", {}), ...names.map((name) => g.make("th", { scope: "col" }, name)), g.make("th", { scope: "col" }, "all"));
    const body = rows.map((cluster) => {
      const total = counts[cluster].reduce((sum, value) => sum + value, 0);
      const cells = counts[cluster].map((value, label) => {
        const cell = g.make("td", { class: match[cluster] === label ? "match" : "" });
        if (value === 0) return g.make("td", { class: match[cluster] === label ? "match zero" : "zero" }, "0");
        cell.style.setProperty("--share", (value / total).toFixed(3));
        cell.append(
          g.make("a", { href: `#cell/${cluster}/${label}`, title: `${names[label]} in ${g.clusterName(cluster)}: ${g.images(value)}` }, g.count(value)),
        );
        return cell;
      });
      const dot = g.make("span", { class: "dot" });
      dot.style.background = g.clusterColour(cluster);
      const heading = g.make("th", { scope: "row" }, dot, g.make("a", { href: `#cluster/${cluster}` }, g.clusterName(cluster)));
      return g.make("tr", {}, heading, ...cells, g.make("td", { class: "quiet" }, g.count(total)));
    });
    return [
      g.make(
        "p",
        { class: "quiet" },
        `${g.images(metrics.n_images)} with a label. Each row is a cluster, each column a label; the framed cells are the best ` +
          `one-to-one matching (Hungarian), and ACC, ${g.percent(metrics.accuracy, 1)}, is their share. Choose a number to see its images.`,
      ),
      g.make("div", { class: "table-holder", tabIndex: 0, role: "region", "aria-label": "Confusion table" }, g.make("table", { class: "confusion" }, g.make("thead", {}, head), g.make("tbody", {}, ...body))),
    ];
  }

  async function build() {
    built = true;
    const place = g.find("confusion");
    if (!g.run.scores || !g.run.scores.labels.length) {
      place.replaceChildren(empty());
      return;
    }
    g.run.labels = await g.load("labels");
    place.replaceChildren(...table(g.run.labels));
  }

  g.views.labels = {
    show: () => (built ? undefined : build()),
    hide() {},
  };

  g.views.cell = {
    section: "list",
    async show(cluster, label) {
      if (!g.run.scores?.labels.length) return;
      g.run.labels = await g.load("labels");
      const images = g.members(Number(cluster)).filter((image) => g.run.labels[image] === Number(label));
      const name = g.run.scores.labels[Number(label)];
      g.showList({
        heading: [`${name} in ${g.clusterName(Number(cluster))}`],
        facts: `${g.images(images.length)} with label ${name} in this cluster. The surest come first.`,
        tools: [],
        images,
        back: "#labels",
        words: "← Clusters against labels",
      });
    },
    hide: () => g.hideList(),
  };

  g.onChange(() => {
    if (built && g.run.scores) build();
  });
})();
