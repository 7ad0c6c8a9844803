// Colours that can be told apart, for any number of clusters or labels.
"use strict";

(() => {
  const g = gatcluster;
  // Middle tones: each has a contrast of 3 or more to the light and to the dark page.
  const chosen = [
    "#3b78d8", "#d1602a", "#2f9160", "#b5499b", "#8a7a1f", "#7b61d1", "#c8475a", "#208f9c",
    "#8c6a4f", "#5f8f2b", "#a55fc0", "#6f7f91",
  ];

  /** Colour number ``index`` of ``total``: a hand-picked one for few, else evenly spread hues in three tones. */
  function colour(index, total) {
    if (total <= chosen.length) return chosen[index];
    const tone = index % 3;
    const hue = (360 * Math.floor(index / 3)) / Math.ceil(total / 3) + tone * (120 / Math.ceil(total / 3));
    return fromOklch([0.6, 0.52, 0.67][tone], [0.14, 0.12, 0.1][tone], hue);
  }

  /** Björn Ottosson's OKLCH, in which equal steps look equal, to sRGB. */
  function fromOklch(lightness, chroma, hue) {
    const a = chroma * Math.cos((hue * Math.PI) / 180);
    const b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    const parts = linear.map((value) => {
      const bounded = Math.min(1, Math.max(0, value));
      const encoded = bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
      return Math.round(encoded * 255).toString(16).padStart(2, "0");
    });
    return `#${parts.join("")}`;
  }

  g.clusterColour = (cluster) => colour(cluster, g.run.summary.n_clusters);
  g.labelColour = (label) => colour(label, g.run.scores.labels.length);
  /** Nine steps from unsure to sure. */
  g.confidenceColour = (step) => fromOklch(0.72 - 0.03 * step, 0.13, 60 + 22 * step);
  g.confidenceSteps = 9;
  /** A colour of the style sheet, which knows light and dark. */
  g.styleColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  g.onTheme = (listener) => matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
})();
