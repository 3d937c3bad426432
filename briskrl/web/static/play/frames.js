// Frames of environments that draw themselves, and the numbers of those that do not.

import { Decision, Facts, el, fill } from "./panels.js";
import { Surface, bytesOf } from "./surface.js";

const KEPT = 120;
const SMALL = 128;

export function create({ stage, side, timeline, changed }) {
  let scene = null;
  const surface = new Surface("The environment", changed);
  surface.canvas.classList.add("wide");
  const why = el("p", { class: "quiet small" });
  stage.append(surface.canvas, why);
  const facts = new Facts(["Steps", "Return", "Reward"]);
  const decision = new Decision();
  side.append(facts.element, decision.element);
  const images = new Map();

  /** The image of a state, which is decoded in the background; the one before until then. */
  function imageOf(state) {
    if (!images.has(state)) {
      images.set(state, null);
      createImageBitmap(new Blob([bytesOf(state.frame)])).then((image) => {
        images.set(state, image);
        changed();
      }, () => {});
      for (const old of images.keys()) {
        if (images.size <= KEPT) break;
        images.get(old)?.close();
        images.delete(old);
      }
    }
    return images.get(state);
  }

  let shown = null;
  return {
    speeds: [1, 120],
    begin(game) {
      scene = game.scene;
      fill(why, scene.why ? `No picture: ${scene.why} These are the first numbers that the policy sees.` : "");
    },
    draw() {
      const { state, next } = timeline;
      if (!state.frame) {
        paintNumbers(surface, state.obs);
        return;
      }
      if (next) imageOf(next);
      shown = imageOf(state) || shown;
      if (shown) paintImage(surface, shown);
    },
    panel(state) {
      facts.show({ Steps: timeline.index, Return: (state.t ?? 0).toFixed(2), Reward: (state.r ?? 0).toFixed(2) });
      decision.show(state, scene.actions);
    },
    destroy() {
      for (const image of images.values()) image?.close();
      surface.destroy();
    },
  };
}

function paintImage(surface, image) {
  const { brush, width, height } = surface;
  const scale = Math.min(width / image.width, height / image.height);
  surface.clear();
  brush.imageSmoothingEnabled = image.width > SMALL;
  brush.drawImage(image, (width - image.width * scale) / 2, (height - image.height * scale) / 2, image.width * scale, image.height * scale);
}

function paintNumbers(surface, numbers) {
  const { brush, colors, width, height } = surface;
  const most = Math.max(1, ...numbers.map(Math.abs));
  const step = Math.min(56, width / numbers.length), left = (width - step * numbers.length) / 2, middle = height / 2;
  surface.clear();
  brush.strokeStyle = colors.line;
  brush.beginPath();
  brush.moveTo(left, middle);
  brush.lineTo(left + step * numbers.length, middle);
  brush.stroke();
  brush.textAlign = "center";
  brush.font = "11px system-ui, sans-serif";
  numbers.forEach((number, at) => {
    const tall = (number / most) * (height / 2 - 28), x = left + at * step;
    brush.fillStyle = number < 0 ? colors.warn : colors.accent;
    brush.fillRect(x + step * 0.15, middle - Math.max(tall, 0), step * 0.7, Math.abs(tall));
    brush.fillStyle = colors.soft;
    if (step >= 34) brush.fillText(number.toFixed(2), x + step / 2, tall < 0 ? middle - tall + 14 : middle - tall - 6);
  });
}
