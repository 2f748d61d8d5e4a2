#!/usr/bin/env python3
"""Draws docs/token_path.svg: the rooms a token passes, and what makes its bits the same everywhere."""
import pathlib

BOXES = [
    ("text", "template,\ntokenise", "exact tokens or an error"),
    ("engine", "sequence takes\nthe tokens", "fork, regress: O(1)"),
    ("kv", "a block per\n64 positions", "shared until written"),
    ("graph", "plan: bind slots,\nreplay", "nothing rebuilt"),
    ("backend", "kernels over\na thread pool", "one arithmetic"),
    ("sampling", "logits to\none token", "random = f(seed, position)"),
    ("text", "detokenise,\nstop strings", "never half a character"),
]
WIDTH, HEIGHT, GAP, TOP = 128, 74, 22, 20


def main() -> None:
    total = len(BOXES) * WIDTH + (len(BOXES) - 1) * GAP + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} 150" font-family="sans-serif" font-size="13">',
        f'<rect width="{total}" height="150" rx="10" fill="#fbf7f0"/>',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6 z" fill="#b5532a"/></marker></defs>',
    ]
    for index, (room, work, promise) in enumerate(BOXES):
        x = 10 + index * (WIDTH + GAP)
        middle = x + WIDTH / 2
        parts.append(f'<rect x="{x}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff" stroke="#d9c7ad"/>')
        parts.append(f'<text x="{middle}" y="{TOP + 20}" text-anchor="middle" font-weight="bold" fill="#b5532a">{room}/</text>')
        for line, text in enumerate(work.split("\n")):
            parts.append(f'<text x="{middle}" y="{TOP + 42 + 18 * line}" text-anchor="middle" fill="#333">{text}</text>')
        for line, text in enumerate(split(promise)):
            parts.append(f'<text x="{middle}" y="{TOP + HEIGHT + 18 + 14 * line}" text-anchor="middle" font-size="11" '
                         f'fill="#7a6a55">{text}</text>')
        if index + 1 < len(BOXES):
            parts.append(f'<line x1="{x + WIDTH}" y1="{TOP + HEIGHT / 2}" x2="{x + WIDTH + GAP - 3}" y2="{TOP + HEIGHT / 2}" '
                         'stroke="#b5532a" stroke-width="1.5" marker-end="url(#tip)"/>')
    parts.append("</svg>")
    (pathlib.Path(__file__).parent / "token_path.svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


def split(text: str, limit: int = 22):
    """Words in lines of at most `limit` letters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > limit:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


if __name__ == "__main__":
    main()
