"""Whether every link, anchor and picture of the pages in a folder leads somewhere."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors of a page, and what it links to or shows."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the anchors and links of a tag."""
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken(folder: Path) -> list[str]:
    """Return the links of all pages that lead nowhere inside the folder; others are not tried."""
    pages = {path: Page(path) for path in folder.rglob("*.html") if "_static" not in path.parts}
    found = []
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchored = not url.fragment or unquote(url.fragment) in getattr(
                pages.get(target), "anchors", ()
            )
            if not target.is_file() or not anchored:
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


if __name__ == "__main__":
    lost = broken(Path(sys.argv[1]).resolve())
    print("\n".join(lost) or "All links and pictures are there.")
    sys.exit(bool(lost))
