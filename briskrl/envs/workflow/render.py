"""A caption above a drawing: the workflow, what is open, and how it was obeyed so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INK, FAINT, OPEN, GROUND = (226, 232, 240), (120, 132, 150), (255, 196, 84), (24, 30, 42)
GOOD, BAD = (94, 214, 170), (255, 110, 110)
LINES = 2.6
"""Height of a caption in lines of text."""


@dataclass(frozen=True, slots=True)
class Caption:
    """The state of one environment with a workflow."""

    names: tuple[str, ...]
    """Categories in the order of the workflow."""
    opened: tuple[bool, ...]
    """Whether each of them is open."""
    ok: int
    """Compliant fixes so far."""
    judged: int
    """Judged fixes so far."""

    def as_text(self) -> str:
        """The categories in order, open ones in brackets, the required one with a star."""
        required = self.opened.index(True) if any(self.opened) else -1
        parts = []
        for place, (name, is_open) in enumerate(zip(self.names, self.opened, strict=True)):
            star = "*" if place == required else ""
            parts.append(f"[{name}]{star}" if is_open else name)
        return f"workflow {' > '.join(parts)}   {self.fixes}"

    @property
    def fixes(self) -> str:
        """How the workflow was obeyed so far."""
        return f"fixes in order {self.ok} of {self.judged}"

    def above(self, picture: NDArray[np.uint8], line_px: int) -> NDArray[np.uint8]:
        """The picture (H, W, 3) with the caption above; the required category is underlined."""
        from PIL import Image, ImageDraw, ImageFont

        width = picture.shape[1]
        strip = Image.new("RGB", (width, round(LINES * line_px)), GROUND)
        draw = ImageDraw.Draw(strip)
        size = _font_size(self.names, width, line_px)
        font = ImageFont.load_default(size=size)
        x, y, found = 0.6 * line_px, 0.2 * line_px, False
        for name, is_open in zip(self.names, self.opened, strict=True):
            draw.text((x, y), name, OPEN if is_open else FAINT, font=font)
            end = x + draw.textlength(name, font=font)
            if is_open and not found:
                found = True
                below = y + 1.15 * size
                draw.line((x, below, end, below), OPEN, max(1, line_px // 8))
            draw.text((end, y), "  >  ", FAINT, font=font)
            x = end + draw.textlength("  >  ", font=font)
        draw.rectangle((x - draw.textlength("  >  ", font=font), 0, width, 1.3 * line_px), GROUND)
        color = FAINT if not self.judged else GOOD if self.ok == self.judged else BAD
        draw.text((0.6 * line_px, 1.4 * line_px), self.fixes, color, font=font)
        return np.concatenate([np.asarray(strip, np.uint8), picture])


def _font_size(names: tuple[str, ...], width: int, line_px: int) -> float:
    """Size of a font in which the names and the signs between them fit into the width."""
    characters = sum(map(len, names)) + 5 * len(names)
    return max(6.0, min(0.85 * line_px, width / (0.55 * characters)))


def side_by_side(pictures: list[NDArray[np.uint8]], gap_px: int) -> NDArray[np.uint8]:
    """Pictures of one height beside each other."""
    gap = np.full((pictures[0].shape[0], gap_px, 3), FAINT, np.uint8)
    parts = [part for picture in pictures for part in (gap, picture)]
    return np.concatenate(parts[1:], axis=1)
