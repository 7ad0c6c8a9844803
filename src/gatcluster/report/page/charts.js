// Small charts: lines, and areas on top of each other.
"use strict";

(() => {
  const g = gatcluster;
  const box = { left: 48, right: 14, top: 14, bottom: 38 };
  const height = 220;

  function svg(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** Round numbers that cover low to high. */
  function ticks(low, high, wanted = 4) {
    const span = high - low || 1;
    const rough = span / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const all = [];
    for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + 1e-9 * span; tick++) all.push(tick * step);
    return all;
  }

  function short(number) {
    if (Math.abs(number) >= 10_000) return `${Number((number / 1000).toPrecision(3))}k`;
    return String(Number(number.toPrecision(3)));
  }

  /** A figure that draws itself anew when its width changes.
   * chart: title, words, xs, xName, stages [{from, name}], low, high, draw(scale) -> SVG elements, read(index) -> text */
  function figure(chart) {
    const readout = g.make("p", { class: "chart-readout", role: "status" }, " ");
    const holder = g.make("div", { class: "chart-holder" });
    const element = g.make(
      "figure",
      { class: chart.wide ? "chart chart-wide" : "chart" },
      g.make("figcaption", {}, g.make("h3", {}, chart.title), g.make("p", { class: "quiet" }, chart.words)),
      holder,
      readout,
    );
    if (chart.legend) element.append(chart.legend);
    let drawnWidth = 0;

    function draw() {
      const width = holder.clientWidth;
      if (!width || width === drawnWidth) return;
      drawnWidth = width;
      const [first, last] = [chart.xs[0], chart.xs[chart.xs.length - 1]];
      const span = last - first || 1;
      const x = (value) => box.left + ((value - first) / span) * (width - box.left - box.right);
      const rise = chart.high - chart.low || 1;
      const y = (value) => height - box.bottom - ((value - chart.low) / rise) * (height - box.top - box.bottom);
      const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
      picture.append(svg("title", {}, `${chart.title}. ${chart.words}`));
      for (const tick of ticks(chart.low, chart.high)) {
        picture.append(svg("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(tick), y2: y(tick) }));
        picture.append(svg("text", { class: "tick", x: box.left - 7, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
      }
      for (const tick of ticks(first, last, Math.max(2, Math.floor(width / 90)))) {
        if (!Number.isInteger(tick)) continue;
        picture.append(svg("text", { class: "tick", x: x(tick), y: height - box.bottom + 17, "text-anchor": "middle" }, short(tick)));
      }
      picture.append(
        svg("text", { class: "axis", x: (box.left + width - box.right) / 2, y: height - 4, "text-anchor": "middle" }, chart.xName),
      );
      picture.append(...chart.draw({ x, y, svg, width }));
      chart.stages.slice(1).forEach((stage) => {
        picture.append(svg("line", { class: "stage", x1: x(stage.from), x2: x(stage.from), y1: box.top, y2: height - box.bottom }));
      });
      const cursor = svg("line", { class: "cursor", y1: box.top, y2: height - box.bottom, visibility: "hidden" });
      picture.append(cursor);
      picture.addEventListener("pointermove", (event) => {
        const along = event.clientX - picture.getBoundingClientRect().left;
        let best = 0;
        chart.xs.forEach((value, index) => {
          if (Math.abs(x(value) - along) < Math.abs(x(chart.xs[best]) - along)) best = index;
        });
        cursor.setAttribute("x1", x(chart.xs[best]));
        cursor.setAttribute("x2", x(chart.xs[best]));
        cursor.setAttribute("visibility", "visible");
        readout.textContent = chart.read(best);
      });
      picture.addEventListener("pointerleave", () => {
        cursor.setAttribute("visibility", "hidden");
        readout.textContent = " ";
      });
      holder.replaceChildren(picture);
    }

    new ResizeObserver(draw).observe(holder);
    return element;
  }

  /** The points of a line as a path; a gap where a value is missing. */
  function path(xs, values, { x, y }) {
    let text = "";
    let pen = false;
    values.forEach((value, index) => {
      if (value === null || value === undefined) {
        pen = false;
        return;
      }
      text += `${pen ? "L" : "M"}${x(xs[index]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    });
    return text;
  }

  /** A chart of one line. */
  g.lineChart = ({ values, format = (value) => value.toFixed(3), reference, colour, low, high, ...chart }) => {
    const known = values.filter((value) => value !== null);
    const first = values.findIndex((value) => value !== null);
    const last = values.findLastIndex((value) => value !== null) + 1;
    const tell = chart.tell;
    values = values.slice(first, last); // where there is something to see
    chart = {
      ...chart,
      xs: chart.xs.slice(first, last),
      stages: chart.stages.filter(({ from }) => from >= chart.xs[first]),
      tell: (index) => tell(first + index),
    };
    if (!chart.stages.length || chart.stages[0].from > chart.xs[0]) chart.stages.unshift({ from: chart.xs[0], name: "" });
    const lowest = low ?? Math.min(...known);
    const highest = high ?? Math.max(...known, reference?.value ?? -Infinity);
    const pad = (highest - lowest || Math.abs(highest) || 1) * 0.06;
    return figure({
      ...chart,
      low: low ?? lowest - pad,
      high: high ?? highest + pad,
      draw: ({ x, y, svg: make, width }) => {
        const parts = [];
        if (reference) {
          const at = y(reference.value);
          parts.push(make("line", { class: "reference", x1: box.left, x2: width - box.right, y1: at, y2: at }));
          parts.push(make("text", { class: "tick", x: width - box.right, y: at - 5, "text-anchor": "end" }, reference.name));
        }
        const line = make("path", { class: "line", d: path(chart.xs, values, { x, y }) });
        line.style.stroke = colour;
        if (known.length === 1) {
          const point = make("circle", { cx: x(chart.xs[0]), cy: y(known[0]), r: 3.5 }); // a line needs two
          point.style.fill = colour;
          parts.push(point);
        }
        return [...parts, line];
      },
      read: (index) => `${chart.tell(index)}: ${values[index] === null ? "nothing" : format(values[index])}`,
    });
  };

  /** A chart of areas on top of each other; ``rows`` has for each x one number for each area. */
  g.areaChart = ({ rows, colours, names, ...chart }) =>
    figure({
      ...chart,
      low: 0,
      high: Math.max(...rows.map((row) => row.reduce((sum, value) => sum + value, 0))),
      draw: ({ x, y, svg: make }) => {
        const below = new Array(rows.length).fill(0);
        return colours.map((colour, part) => {
          const floor = rows.map((_, index) => `${x(chart.xs[index]).toFixed(1)} ${y(below[index]).toFixed(1)}`);
          rows.forEach((row, index) => {
            below[index] += row[part];
          });
          const top = rows.map((_, index) => `${x(chart.xs[index]).toFixed(1)} ${y(below[index]).toFixed(1)}`);
          const area = make("path", { class: "area", d: `M${top.join("L")}L${floor.reverse().join("L")}Z` });
          area.style.fill = colour;
          area.append(make("title", {}, names(part)));
          return area;
        });
      },
      read: (index) => `${chart.tell(index)}: ${rows[index].map(g.count).join(" · ")}`,
    });
})();
