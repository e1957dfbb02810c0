#!/usr/bin/env python3
"""Draws a terminal session as an SVG, for README: terminal_svg.py SESSION.txt OUT.svg

Lines that start with "$ " are what a person typed; "# " are remarks; the rest is output, as it came.
"""
import html
import pathlib
import sys
import unicodedata

FONT, WIDTH, LINE, MARGIN = 14, 8.43, 20, 18
COLOURS = {"typed": "#e6edf3", "prompt": "#3fb950", "remark": "#8b949e", "output": "#c9d1d9"}


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def span(text: str, colour: str, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<tspan fill="{COLOURS[colour]}"{weight}>{html.escape(text)}</tspan>'


def draw(line: str) -> str:
    if line.startswith("$ "):
        return span("$ ", "prompt", True) + span(line[2:], "typed", True)
    if line.startswith("# "):
        return span(line, "remark")
    return span(line, "output")


def main() -> int:
    lines = pathlib.Path(sys.argv[1]).read_text().rstrip("\n").split("\n")
    width = max(columns(line) for line in lines) * WIDTH + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN + 22
    rows = "\n".join(f'<text x="{MARGIN}" y="{MARGIN + 36 + i * LINE}" xml:space="preserve">{draw(line)}</text>'
                     for i, line in enumerate(lines))
    dots = "".join(f'<circle cx="{20 + 18 * i}" cy="18" r="5.5" fill="{c}"/>'
                   for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    pathlib.Path(sys.argv[2]).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" role="img" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, monospace" font-size="{FONT}">\n'
        f'<title>A terminal session with Pacer</title>\n'
        f'<rect width="100%" height="100%" rx="9" fill="#0d1117"/>\n{dots}\n{rows}\n</svg>\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
