// What the reader decides: names of clusters, clusters that are one, images in the wrong cluster.
"use strict";

(() => {
  const g = gatcluster;
  const state = { names: new Map(), merge: [], wrong: new Set() }; // cluster -> name; lists of clusters; images
  let takeAway = null; // the gallery of wrong images

  const key = () => `gatcluster-curation-${g.run.summary.id}`;

  /** The curation as `gatcluster export --curation` reads it. Paths that are no Unicode cannot stand in JSON. */
  function asJson() {
    const wrong = [...state.wrong].sort((a, b) => a - b).map((image) => g.run.names.exact(image));
    return {
      format: "gatcluster-curation",
      version: 1,
      names: Object.fromEntries([...state.names].sort((a, b) => a[0] - b[0]).map(([c, name]) => [String(c), name])),
      merge: state.merge.map((group) => [...group]),
      wrong: wrong.filter((path) => path !== null),
    };
  }

  function save() {
    try {
      localStorage.setItem(key(), JSON.stringify(asJson()));
    } catch {
      // A browser may keep nothing for files: then the page remembers until it is closed.
    }
    g.changed();
  }

  /** Take over a curation; refuses, with words, what is none. */
  function take(tree) {
    const k = g.run.summary.n_clusters;
    const isCluster = (c) => Number.isInteger(c) && c >= 0 && c < k;
    if (typeof tree !== "object" || tree === null || tree.format !== "gatcluster-curation" || tree.version !== 1) {
      throw new Error("This is no curation of gatcluster.");
    }
    const names = Object.entries(tree.names ?? {}).map(([c, name]) => [Number(c), String(name)]);
    const merge = (tree.merge ?? []).map((group) => group.map(Number));
    if (!names.every(([c]) => isCluster(c)) || !merge.flat().every(isCluster)) {
      throw new Error("This curation is of another run: it names clusters that are not here.");
    }
    const paths = new Set(tree.wrong ?? []);
    const wrong = [];
    for (let image = 0; paths.size && image < g.run.names.length; image++) {
      const path = g.run.names.exact(image);
      if (path !== null && paths.has(path)) wrong.push(image);
    }
    state.names = new Map(names.filter(([, name]) => name.trim()));
    state.merge = [];
    merge.forEach((group) => group.slice(1).forEach((other) => join(group[0], other)));
    state.wrong = new Set(wrong);
  }

  function restore() {
    try {
      const text = localStorage.getItem(key());
      if (text) take(JSON.parse(text));
    } catch {
      // Nothing was kept, or it cannot be read: start with nothing.
    }
    g.changed();
  }

  function join(one, other) {
    if (one === other) return;
    const touched = state.merge.filter((group) => group.includes(one) || group.includes(other));
    const rest = state.merge.filter((group) => !touched.includes(group));
    const joined = [...new Set([one, other, ...touched.flat()])].sort((a, b) => a - b);
    state.merge = [...rest, joined].sort((a, b) => a[0] - b[0]);
  }

  g.curation = {
    asJson,
    restore,
    name: (cluster) => state.names.get(cluster) ?? "",
    rename(cluster, text) {
      const name = text.trim();
      if (name === (state.names.get(cluster) ?? "")) return;
      if (name) state.names.set(cluster, name);
      else state.names.delete(cluster);
      save();
    },
    /** Other clusters that are one with this. */
    oneWith: (cluster) => (state.merge.find((group) => group.includes(cluster)) ?? []).filter((c) => c !== cluster),
    merge(one, other) {
      join(one, other);
      save();
    },
    isWrong: (image) => state.wrong.has(image),
    markWrong(images, wrong) {
      for (const image of images) {
        if (wrong) state.wrong.add(image);
        else state.wrong.delete(image);
      }
      save();
    },
    decisions: () => state.names.size + state.merge.length + state.wrong.size,
  };
  g.clusterName = (cluster) => state.names.get(cluster) ?? `Cluster ${cluster}`;

  function download() {
    const blob = new Blob([`${JSON.stringify(asJson(), null, 2)}\n`], { type: "application/json" });
    const address = URL.createObjectURL(blob);
    const link = g.make("a", { href: address, download: "curation.json" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  async function open(event) {
    const error = g.find("curation-error");
    error.hidden = true;
    const [file] = event.target.files;
    if (!file) return;
    try {
      take(JSON.parse(await file.text()));
      save();
    } catch (problem) {
      error.textContent = `${file.name} cannot be used. ${problem.message}`;
      error.hidden = false;
    }
    event.target.value = "";
  }

  /** An input for the name of a cluster; all inputs of one cluster say the same. */
  function nameInput(cluster) {
    const input = g.make("input", {
      class: "name",
      type: "text",
      value: state.names.get(cluster) ?? "",
      placeholder: `Cluster ${cluster}`,
      maxLength: 80,
      spellcheck: false,
      autocomplete: "off",
      "aria-label": `Name of cluster ${cluster}`,
      onchange: () => g.curation.rename(cluster, input.value),
      onkeydown: (event) => {
        if (event.key === "Enter") input.blur();
        if (event.key === "Escape") {
          input.value = state.names.get(cluster) ?? "";
          input.blur();
        }
        event.stopPropagation();
      },
      onclick: (event) => event.stopPropagation(),
    });
    input.dataset.cluster = cluster;
    return input;
  }
  g.nameInput = nameInput;

  function showNames() {
    for (const input of document.querySelectorAll("input.name")) {
      if (input !== document.activeElement) input.value = state.names.get(Number(input.dataset.cluster)) ?? "";
    }
  }

  function showCount() {
    const badge = g.find("curation-count");
    const total = g.curation.decisions();
    badge.hidden = total === 0;
    badge.textContent = g.count(total);
  }

  function options(select) {
    const chosen = select.value;
    const all = Array.from({ length: g.run.summary.n_clusters }, (_, c) =>
      g.make("option", { value: String(c) }, state.names.has(c) ? `${c} · ${state.names.get(c)}` : `${c}`),
    );
    select.replaceChildren(...all);
    if (chosen) select.value = chosen;
  }

  function showMerges() {
    options(g.find("merge-one"));
    options(g.find("merge-other"));
    const rows = state.merge.map((group) => {
      const part = g.make("button", {
        type: "button",
        onclick: () => {
          state.merge = state.merge.filter((other) => other !== group);
          save();
        },
      }, "Undo");
      part.setAttribute("aria-label", `Undo: ${group.map(g.clusterName).join(" and ")} are one`);
      return g.make("li", {}, g.make("span", {}, group.map(g.clusterName).join(" + ")), part);
    });
    g.find("curation-merges").replaceChildren(...rows);
  }

  function showWrong() {
    takeAway?.();
    takeAway = null;
    g.find("curation-no-wrong").hidden = state.wrong.size > 0;
    g.find("curation-wrong").hidden = state.wrong.size === 0;
    if (state.wrong.size) takeAway = g.gallery(g.find("curation-wrong"), [...state.wrong].sort((a, b) => a - b));
  }

  let built = false;
  g.views.curation = {
    show() {
      if (!built) {
        built = true;
        const rows = Array.from({ length: g.run.summary.n_clusters }, (_, cluster) => {
          const dot = g.make("span", { class: "dot" });
          dot.style.background = g.clusterColour(cluster);
          const number = g.make("span", { class: "quiet number" }, `${cluster}`);
          return g.make("div", { class: "name-row" }, dot, number, nameInput(cluster));
        });
        g.find("curation-names").replaceChildren(...rows);
        if (g.run.summary.n_clusters > 1) {
          options(g.find("merge-other"));
          g.find("merge-other").value = "1";
        }
      }
      showMerges();
      showWrong();
    },
    hide() {
      takeAway?.();
      takeAway = null;
    },
  };

  g.onChange(() => {
    showNames();
    showCount();
    if (built) showMerges();
    if (!g.find("view-curation").hidden) showWrong();
  });
  g.find("curation-download").addEventListener("click", download);
  g.find("curation-file").addEventListener("change", open);
  g.find("merge-add").addEventListener("click", () => {
    g.curation.merge(Number(g.find("merge-one").value), Number(g.find("merge-other").value));
  });
})();
