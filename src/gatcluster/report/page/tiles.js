// Thumbnails: cut from sheets of many, which are loaded when one of them comes into view.
"use strict";

(() => {
  const g = gatcluster;
  const kept = 48 * 2 ** 20; // bytes of sheets, as pixels
  const sheets = new Map(); // number -> promise of an image element, the latest used last

  function sheet(number) {
    const layout = g.run.summary.sheets;
    let found = sheets.get(number);
    sheets.delete(number);
    if (!found) {
      found = new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = () => reject(new Error(`thumbnails/${number}.${layout.suffix} is missing`));
        image.src = `thumbnails/${number}.${layout.suffix}`;
      });
      found.catch(() => {}); // a tile stays blank
    }
    sheets.set(number, found);
    const bytes = layout.columns * layout.rows * layout.tile_width * layout.tile_height * 4;
    const most = Math.max(8, Math.floor(kept / bytes));
    for (const oldest of sheets.keys()) {
      if (sheets.size <= most) break;
      sheets.delete(oldest);
    }
    return found;
  }

  /** Draw the thumbnail of an image into a rectangle of a canvas, as large as fits. Resolves once it is there. */
  async function drawTile(context, image, left, top, width, height) {
    const layout = g.run.summary.sheets;
    if (!layout) return false;
    const { tile_width: w, tile_height: h } = layout;
    const perSheet = layout.columns * layout.rows;
    const place = g.run.position[image];
    const within = place % perSheet;
    let picture;
    try {
      picture = await sheet(Math.floor(place / perSheet));
    } catch {
      return false;
    }
    const scale = Math.min(width / w, height / h);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(
      picture,
      (within % layout.columns) * w,
      Math.floor(within / layout.columns) * h,
      w,
      h,
      left + (width - w * scale) / 2,
      top + (height - h * scale) / 2,
      w * scale,
      h * scale,
    );
    return true;
  }

  async function paint(canvas) {
    const image = Number(canvas.dataset.image);
    const ratio = Math.min(2, devicePixelRatio || 1);
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    const height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    // On a canvas of its own: until the sheet is there, the tile shows what it showed, or nothing.
    const fresh = document.createElement("canvas");
    fresh.width = width;
    fresh.height = height;
    if (!(await drawTile(fresh.getContext("2d"), image, 0, 0, width, height))) return;
    if (Number(canvas.dataset.image) !== image) return; // it has become another's in the meantime
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").drawImage(fresh, 0, 0);
    canvas.dataset.painted = "yes";
  }

  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) {
          paint(target);
        } else if (target.dataset.painted) {
          target.width = target.height = 0; // gives back the memory
          delete target.dataset.painted;
        }
      }
    },
    { rootMargin: "200px" },
  );

  /** What a reader who cannot see the image is told of it. */
  function describe(image) {
    const name = g.run.names ? g.run.names.get(image) : `Image ${image + 1}`;
    return `${name}, ${g.clusterName(g.run.clusters[image])}, ${g.percent(g.run.confidence[image])} sure`;
  }

  /** A canvas that shows an image once it is seen. */
  function tile(image) {
    const canvas = g.make("canvas", { class: "tile", role: "img", "aria-label": describe(image) });
    canvas.dataset.image = image;
    observer.observe(canvas);
    return canvas;
  }

  g.tile = tile;
  g.repaint = paint;
  g.forgetTile = (canvas) => observer.unobserve(canvas);
  g.drawTile = drawTile;
  g.describe = describe;
})();
