// How the training went.
"use strict";

(() => {
  const g = gatcluster;
  let built = false;

  const lossWords = {
    total: "All losses by their weights; what the training lowers.",
    relation: "Are images of one group alike, and of different groups not?",
    transformation: "Does a transformed image keep its label features?",
    attention: "Does the attended part tell the same cluster, more surely?",
    entropy: "Are all clusters used? The lower, the more evenly.",
    contrast: "Are two views of an image told from all other images?",
  };

  function stagesOf(stage, xs) {
    const found = [];
    stage.forEach((name, index) => {
      if (!found.length || found[found.length - 1].name !== name) found.push({ name, from: xs[index] });
    });
    return found;
  }

  /** What the watch found: each name once, how often, what it means and what to try. */
  function writeFindings(findings) {
    const rows = findings.map(({ name, meaning, advice, count }) =>
      g.make("li", {}, g.make("code", {}, name), ` (${count}): ${meaning}. To try: ${advice}.`),
    );
    g.find("findings").replaceChildren(...rows);
    g.find("findings-part").hidden = rows.length === 0;
  }

  function build(history) {
    const xs = history.iteration;
    const stages = stagesOf(history.stage, xs);
    const tell = (index) => `iteration ${g.count(xs[index])}, epoch ${g.count(history.epoch[index])}, ${history.stage[index]}`;
    const common = { xs, stages, tell, xName: "iteration" };
    const accent = g.clusterColour(0);
    const { n_clusters: k, seconds } = g.run.summary;
    g.find("training-words").textContent =
      `${g.count(xs[xs.length - 1])} iterations in ${g.duration(seconds)}. ` +
      `Stages: ${stages.map(({ name }) => name).join(", then ")}; a dashed line stands between them. ` +
      "Point at a chart to read it.";
    const figures = [];
    const sized = history.sizes.map((row, index) => (row ? index : -1)).filter((index) => index >= 0);
    const has = (values) => values.some((value) => value !== null);
    if (sized.length) {
      const within = { ...common, xs: sized.map((index) => xs[index]), tell: (index) => tell(sized[index]) };
      figures.push(
        g.areaChart({
          ...within,
          stages: stages.filter(({ from }) => from >= xs[sized[0]]),
          wide: true,
          title: "Cluster sizes",
          words: "Images in each cluster, of those seen so far, one cluster on top of the other in the colours of the cards.",
          rows: sized.map((index) => history.sizes[index]),
          colours: Array.from({ length: k }, (_, cluster) => g.clusterColour(cluster)),
          names: g.clusterName,
        }),
      );
    }
    const share = { low: 0, high: 1, format: (value) => g.percent(value, 1) };
    if (has(history.confidence)) {
      figures.push(
        g.lineChart({ ...common, ...share, colour: accent, title: "Mean confidence", words: "How sure the network is of each image’s cluster.", values: history.confidence }),
      );
    }
    if (has(history.entropy)) {
      figures.push(
        g.lineChart({
          ...common, colour: g.clusterColour(Math.min(2, k - 1)), title: "Entropy of the clusters", low: 0, high: Math.log(k) * 1.12,
          words: "How evenly the clusters are used, in nats; the dashed line is an even use of all.",
          values: history.entropy, reference: { value: Math.log(k), name: `log ${k}` },
        }),
      );
    }
    if (has(history.changed)) {
      figures.push(
        g.lineChart({
          ...common, colour: g.clusterColour(Math.min(1, k - 1)), title: "Assignments that changed", low: 0, format: share.format,
          high: Math.max(...history.changed, 0.01) * 1.05,
          words: "Share of the images that went to another cluster since they were last seen.", values: history.changed,
        }),
      );
    }
    for (const [name, values] of Object.entries(history.losses)) {
      if (!has(values)) continue;
      figures.push(
        g.lineChart({
          ...common, colour: g.styleColour("ink-2"), title: `Loss: ${name}`, words: lossWords[name] ?? "", values,
        }),
      );
    }
    g.find("charts").replaceChildren(...figures);
  }

  g.views.training = {
    async show() {
      if (built) return;
      built = true;
      writeFindings(g.run.summary.findings);
      const history = await g.load("training");
      if (history.iteration.length) build(history);
      else g.find("training-words").textContent = "This run has no history of its training.";
    },
    hide() {},
  };
})();
