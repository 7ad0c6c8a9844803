// The parts that all other scripts use: data from disk, making elements, writing numbers.
"use strict";

const gatcluster = (() => {
  const waiting = new Map(); // name of a column -> what to do with it
  const loading = new Map(); // name of a column -> promise

  /** Texts of a column; each is decoded when it is asked for. */
  class Texts {
    constructor(bytes) {
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      this.length = view.getUint32(0, true);
      this.ends = new Uint32Array(bytes.buffer, 4, this.length);
      this.bytes = bytes.subarray(4 + 4 * this.length);
      this.lenient = new TextDecoder("utf-8");
      this.strict = new TextDecoder("utf-8", { fatal: true });
    }
    raw(index) {
      return this.bytes.subarray(index ? this.ends[index - 1] : 0, this.ends[index]);
    }
    get(index) {
      return this.lenient.decode(this.raw(index));
    }
    /** The text exactly, or null where its bytes are no Unicode. */
    exact(index) {
      try {
        return this.strict.decode(this.raw(index));
      } catch {
        return null;
      }
    }
  }

  function bytesOf(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    return bytes;
  }

  const kinds = { Uint8Array, Uint16Array, Int16Array, Uint32Array, Float32Array };

  /** Called by the scripts of data/: a column of numbers or texts. */
  function column(name, kind, base64) {
    const bytes = bytesOf(base64);
    waiting.get(name)(kind === "texts" ? new Texts(bytes) : new kinds[kind](bytes.buffer));
  }

  /** Called by the scripts of data/: plain data. */
  function values(name, tree) {
    waiting.get(name)(tree);
  }

  /** Data of a name, from data/NAME.js; a page that was opened from disk can load scripts, but not read files. */
  function load(name) {
    if (!loading.has(name)) {
      loading.set(
        name,
        new Promise((resolve, reject) => {
          waiting.set(name, resolve);
          const script = document.createElement("script");
          script.src = `data/${name}.js`;
          script.onload = () => script.remove(); // and with it the text
          script.onerror = () => reject(new Error(`data/${name}.js is missing: write the report again.`));
          document.head.append(script);
        }),
      );
    }
    return loading.get(name);
  }

  /** An element with properties and children; strings become text, never markup. */
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === undefined || value === null) continue;
      if (name === "class") element.className = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
      else element[name] = value;
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const find = (id) => document.getElementById(id);

  const count = (number) => number.toLocaleString("en-GB");
  const images = (number) => `${count(number)} image${number === 1 ? "" : "s"}`;
  /** A share in per cent; never 100% of what is not all. */
  function percent(share, digits = 0) {
    const shown = (share * 100).toFixed(digits);
    return share < 1 && Number(shown) === 100 ? `>${(100 - 10 ** -digits).toFixed(digits)}%` : `${shown}%`;
  }
  function duration(seconds) {
    const whole = Math.round(seconds);
    if (whole < 60) return `${whole} s`;
    const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
    return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
  }

  const listeners = [];
  /** Be told when names, merges or marks change. */
  const onChange = (listener) => listeners.push(listener);
  const changed = () => listeners.forEach((listener) => listener());

  return { column, values, load, make, find, count, images, percent, duration, onChange, changed, run: {}, views: {} };
})();
