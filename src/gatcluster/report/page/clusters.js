// One card for each cluster, and all images of a cluster.
"use strict";

(() => {
  const g = gatcluster;
  const typicalShown = 10;
  const unsureShown = 5;
  let cards = null; // one for each cluster
  let takeAway = null; // the gallery of the list
  let leastSureFirst = false;

  const members = (cluster) => g.run.order.subarray(g.run.starts[cluster], g.run.starts[cluster + 1]);

  function meanConfidence(cluster) {
    const own = members(cluster);
    let sum = 0;
    for (const image of own) sum += g.run.confidence[image];
    return own.length ? sum / own.length : 0;
  }

  function strip(images, list, words) {
    const row = g.make("div", { class: "strip" });
    for (const image of images) {
      const button = g.make("button", { type: "button", class: "strip-thumb", tabIndex: -1 }, g.tile(image));
      button.addEventListener("click", (event) => {
        event.stopPropagation();
        g.openPicture(image, list, list.indexOf(image));
      });
      row.append(button);
    }
    return g.make("div", {}, g.make("p", { class: "strip-words" }, words), row);
  }

  function card(cluster) {
    const own = members(cluster);
    const mean = meanConfidence(cluster);
    const open = () => {
      location.hash = `#cluster/${cluster}`;
    };
    const dot = g.make("span", { class: "dot" });
    dot.style.background = g.clusterColour(cluster);
    const fill = g.make("span", { class: "meter-fill" });
    fill.style.width = `${mean * 100}%`;
    fill.style.background = g.clusterColour(cluster);
    const element = g.make(
      "article",
      {
        class: own.length ? "card" : "card card-empty",
        tabIndex: 0,
        onclick: () => own.length && open(),
        onkeydown: (event) => {
          if (event.key === "Enter" && event.target === element && own.length) open();
        },
      },
      g.make("div", { class: "card-top" }, dot, g.nameInput(cluster), g.make("span", { class: "card-number" }, `#${cluster}`)),
      g.make(
        "p",
        { class: "card-facts" },
        g.make("span", {}, `${g.images(own.length)} · ${g.percent(own.length / g.run.summary.n_images, 1)}`),
        own.length ? g.make("span", { class: "card-sure" }, `${g.percent(mean)} sure`) : null,
      ),
      own.length ? g.make("div", { class: "meter", "aria-hidden": "true" }, fill) : null,
      g.make("p", { class: "badge", hidden: true }),
    );
    element.setAttribute("aria-label", `${g.clusterName(cluster)}, ${g.images(own.length)}`);
    element.dataset.cluster = cluster;
    if (!own.length) {
      element.append(g.make("p", { class: "quiet" }, "No image is in this cluster."));
      return element;
    }
    const typical = own.subarray(0, typicalShown);
    const unsure = own.subarray(Math.max(typicalShown, own.length - unsureShown)).slice().reverse();
    element.append(strip([...typical], own, "Most typical"));
    if (unsure.length) element.append(strip([...unsure], own, "Least sure"));
    element.append(g.make("a", { class: "card-open", href: `#cluster/${cluster}`, tabIndex: -1 }, `All ${g.images(own.length)} →`));
    return element;
  }

  function showBadges() {
    if (!cards) return;
    for (const element of cards) {
      const cluster = Number(element.dataset.cluster);
      const others = g.curation.oneWith(cluster);
      const badge = element.querySelector(".badge");
      badge.hidden = others.length === 0;
      badge.textContent = `One with ${others.map(g.clusterName).join(", ")}`;
      element.setAttribute("aria-label", `${g.clusterName(cluster)}, ${g.images(members(cluster).length)}`);
    }
  }

  function sortCards() {
    const by = {
      number: (c) => c,
      size: (c) => -members(c).length,
      confidence: (c) => -meanConfidence(c),
    }[g.find("sort").value];
    const place = (element) => by(Number(element.dataset.cluster));
    g.find("cards").replaceChildren(...[...cards].sort((a, b) => place(a) - place(b)));
  }

  g.views.clusters = {
    show() {
      if (cards) return;
      cards = Array.from({ length: g.run.summary.n_clusters }, (_, cluster) => card(cluster));
      sortCards();
      showBadges();
    },
    hide() {},
  };

  /** Any list of images, with a heading; the list of a cluster has its name and what it is one with. */
  function showList({ heading, facts, tools, images, back, words }) {
    takeAway?.();
    g.find("heading-list").replaceChildren(...heading);
    g.find("list-facts").textContent = facts;
    g.find("list-tools").replaceChildren(...tools);
    g.find("list-back").href = back;
    g.find("list-back").textContent = words;
    takeAway = g.gallery(g.find("list"), images);
  }

  function sorting(cluster) {
    const select = g.make(
      "select",
      {
        "aria-label": "Order of the images",
        onchange: () => {
          leastSureFirst = select.value === "least";
          showCluster(cluster);
        },
      },
      g.make("option", { value: "most" }, "Surest first"),
      g.make("option", { value: "least" }, "Least sure first"),
    );
    select.value = leastSureFirst ? "least" : "most";
    return select;
  }

  function sameAs(cluster) {
    const select = g.make(
      "select",
      {
        "aria-label": "Mark as one with another cluster",
        onchange: () => {
          if (select.value !== "") g.curation.merge(cluster, Number(select.value));
          showCluster(cluster);
        },
      },
      g.make("option", { value: "" }, "Same as…"),
    );
    for (let other = 0; other < g.run.summary.n_clusters; other++) {
      if (other !== cluster) select.append(g.make("option", { value: String(other) }, g.clusterName(other)));
    }
    return select;
  }

  function step(cluster, by) {
    const k = g.run.summary.n_clusters;
    for (let at = (cluster + by + k) % k; at !== cluster; at = (at + by + k) % k) {
      if (members(at).length) return at;
    }
    return cluster;
  }

  function showCluster(cluster) {
    const own = members(cluster);
    const dot = g.make("span", { class: "dot" });
    dot.style.background = g.clusterColour(cluster);
    const one = g.curation.oneWith(cluster);
    const link = (by, sign, words) =>
      g.make("a", { class: "button", href: `#cluster/${step(cluster, by)}`, "aria-label": words }, sign);
    showList({
      heading: [dot, g.nameInput(cluster)],
      facts:
        `${g.images(own.length)}, ${g.percent(own.length / g.run.summary.n_images, 1)} of all, ` +
        `${g.percent(meanConfidence(cluster))} sure on average.` +
        (one.length ? ` Marked as one with ${one.map(g.clusterName).join(", ")}.` : ""),
      tools: [sorting(cluster), sameAs(cluster), link(-1, "←", "Previous cluster"), link(1, "→", "Next cluster")],
      images: leastSureFirst ? own.slice().reverse() : own,
      back: "#clusters",
      words: "← All clusters",
    });
  }

  g.views.cluster = {
    section: "list",
    show(number) {
      const cluster = Math.min(g.run.summary.n_clusters - 1, Math.max(0, Number(number) || 0));
      showCluster(cluster);
    },
    hide() {
      takeAway?.();
      takeAway = null;
    },
  };

  g.members = members;
  g.showList = showList;
  g.hideList = () => g.views.cluster.hide();
  g.onChange(showBadges);
  g.find("sort").addEventListener("change", sortCards);
})();
