// Any number of images in a grid, of which only those near the window are elements of the page.
"use strict";

(() => {
  const g = gatcluster;
  const margin = 400; // pixels above and below the window that are made ready

  /** Fill a container with a grid of images; returns what takes it away again. */
  function gallery(container, images) {
    const shown = new Map(); // place in the list -> button
    let columns = 1;
    let step = { x: 96, y: 112 };
    let focused = 0;
    const space = g.make("div", { class: "gallery-space" });
    container.replaceChildren(space);

    function measure() {
      const style = getComputedStyle(container);
      const side = parseFloat(style.getPropertyValue("--thumb")) || 96;
      const gap = parseFloat(style.getPropertyValue("--gap")) || 8;
      columns = Math.max(1, Math.floor((space.clientWidth + gap) / (side + gap)));
      step = { x: (space.clientWidth + gap) / columns, y: side + 22 + gap };
      space.style.height = `${Math.ceil(images.length / columns) * step.y}px`;
    }

    function place(button, at) {
      button.style.transform = `translate(${(at % columns) * step.x}px, ${Math.floor(at / columns) * step.y}px)`;
    }

    function update() {
      const box = space.getBoundingClientRect();
      const window_ = container.getBoundingClientRect();
      const top = Math.max(0, window_.top) - margin;
      const bottom = Math.min(innerHeight, window_.bottom) + margin;
      const first = Math.max(0, Math.floor((top - box.top) / step.y)) * columns;
      const last = Math.min(images.length, Math.max(0, Math.ceil((bottom - box.top) / step.y)) * columns);
      for (const [at, button] of shown) {
        if ((at < first || at >= last) && at !== focused) {
          g.forgetTile(button.firstChild);
          button.remove();
          shown.delete(at);
        }
      }
      for (let at = first; at < last; at++) if (!shown.has(at)) add(at);
    }

    function add(at) {
      const image = images[at];
      const wrong = g.curation.isWrong(image);
      const button = g.make(
        "button",
        { type: "button", class: wrong ? "thumb wrong" : "thumb", tabIndex: at === focused ? 0 : -1 },
        g.tile(image),
        g.make("span", { class: "thumb-words" }, (wrong ? "wrong · " : "") + g.percent(g.run.confidence[image])),
      );
      button.dataset.at = at;
      button.dataset.image = image;
      place(button, at);
      shown.set(at, button);
      space.append(button);
    }

    function focus(at) {
      const bounded = Math.min(images.length - 1, Math.max(0, at));
      shown.get(focused)?.setAttribute("tabindex", "-1");
      focused = bounded;
      if (!shown.has(bounded)) add(bounded);
      const button = shown.get(bounded);
      button.tabIndex = 0;
      button.focus();
      button.scrollIntoView({ block: "nearest" });
    }

    function onKey(event) {
      const at = Number(event.target.dataset.at);
      const page = columns * Math.max(1, Math.floor(innerHeight / step.y) - 1);
      const moves = {
        ArrowLeft: at - 1,
        ArrowRight: at + 1,
        ArrowUp: at - columns,
        ArrowDown: at + columns,
        PageUp: at - page,
        PageDown: at + page,
        Home: 0,
        End: images.length - 1,
      };
      if (Number.isNaN(at) || !(event.key in moves)) return;
      event.preventDefault();
      focus(moves[event.key]);
    }

    function onClick(event) {
      const button = event.target.closest(".thumb");
      if (!button) return;
      const at = Number(button.dataset.at);
      shown.get(focused)?.setAttribute("tabindex", "-1");
      focused = at;
      button.tabIndex = 0;
      g.openPicture(images[at], images, at, (last) => focus(last));
    }

    function redo() {
      measure();
      for (const [at, button] of shown) place(button, at);
      update();
    }

    let due = false;
    function onScroll() {
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        update();
      });
    }

    const resized = new ResizeObserver(redo);
    resized.observe(container);
    document.addEventListener("scroll", onScroll, { passive: true, capture: true });
    space.addEventListener("keydown", onKey);
    space.addEventListener("click", onClick);
    redo();

    return () => {
      resized.disconnect();
      document.removeEventListener("scroll", onScroll, { capture: true });
      for (const button of shown.values()) g.forgetTile(button.firstChild);
      space.remove();
    };
  }

  g.gallery = gallery;
})();
