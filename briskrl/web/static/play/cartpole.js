// CartPole on a canvas.

import { Decision, Facts, Inputs } from "./panels.js";
import { Surface, mix, roundRect } from "./surface.js";

export function create({ stage, side, timeline, changed }) {
  let scene = null;
  const surface = new Surface("A cart with a pole", changed);
  surface.canvas.classList.add("wide");
  stage.append(surface.canvas);
  const facts = new Facts(["Steps", "Return", "Position", "Angle"]);
  const decision = new Decision();
  let inputs = null;
  side.append(facts.element, decision.element);

  return {
    speeds: [1, 200],
    begin(game) {
      scene = game.scene;
      if (!inputs) {
        inputs = new Inputs(scene.inputs, [4]);
        side.append(inputs.element);
      }
    },
    draw() {
      const now = timeline.state.obs, next = (timeline.next || timeline.state).obs;
      paint(surface, scene, mix(now[0], next[0], timeline.part), mix(now[2], next[2], timeline.part));
    },
    panel(state) {
      facts.show({
        Steps: timeline.index, Return: (state.t ?? 0).toFixed(0), Position: state.obs[0].toFixed(2),
        Angle: `${((state.obs[2] * 180) / Math.PI).toFixed(1)}°`,
      });
      decision.show(state, scene.actions);
      inputs.show(state);
    },
    destroy: () => surface.destroy(),
  };
}

function paint(surface, scene, x, angle) {
  const { brush, colors, width, height } = surface;
  const unit = Math.min(width / (2 * scene.x_limit + 0.8), height / 1.9);
  const ground = height * 0.8, middle = width / 2;
  surface.clear();
  brush.lineCap = "round";
  brush.strokeStyle = colors.line;
  brush.lineWidth = 3;
  line(brush, middle - scene.x_limit * unit, ground, middle + scene.x_limit * unit, ground);
  brush.strokeStyle = colors.bad;
  for (const side of [-1, 1]) line(brush, middle + side * scene.x_limit * unit, ground - 8, middle + side * scene.x_limit * unit, ground + 8);
  paintLimits(brush, colors, scene, middle + x * unit, ground, unit);
  brush.fillStyle = colors.accent;
  roundRect(brush, middle + (x - 0.22) * unit, ground - 0.2 * unit, 0.44 * unit, 0.2 * unit, 5);
  brush.fill();
  const top = ground - 0.18 * unit;
  brush.strokeStyle = "#d99a3d";
  brush.lineWidth = Math.max(4, 0.075 * unit);
  line(brush, middle + x * unit, top, middle + (x + scene.pole * Math.sin(angle)) * unit, top - scene.pole * Math.cos(angle) * unit);
  brush.fillStyle = colors.card;
  brush.beginPath();
  brush.arc(middle + x * unit, top, Math.max(2, 0.025 * unit), 0, 7);
  brush.fill();
}

/** Faint lines where the pole counts as fallen. */
function paintLimits(brush, colors, scene, x, ground, unit) {
  brush.save();
  brush.setLineDash([3, 7]);
  brush.lineWidth = 1.5;
  brush.strokeStyle = colors.line;
  for (const side of [-1, 1]) {
    const angle = side * scene.angle_limit;
    line(brush, x, ground - 0.18 * unit, x + scene.pole * 1.1 * Math.sin(angle) * unit, ground - (0.18 + scene.pole * 1.1 * Math.cos(angle)) * unit);
  }
  brush.restore();
}

function line(brush, x0, y0, x1, y1) {
  brush.beginPath();
  brush.moveTo(x0, y0);
  brush.lineTo(x1, y1);
  brush.stroke();
}
