"""HTML that came from markdown or a notebook, made fit for the site: links led to pages, headings given ids, tables and figures
that scroll on a narrow screen, pictures from elsewhere replaced by their words."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

from tools.site import layout

HEADINGS = re.compile(r"h[1-6]")


def tidy(html: str, source: str, page: str) -> BeautifulSoup:
    """The tree of `html`, which stands in the repository's file `source` and will stand on `page`."""
    soup = BeautifulSoup(html, "html.parser")
    for picture in soup.find_all("picture"):
        _both_tones(soup, picture)
    for image in soup.find_all("img"):
        _image(soup, image, source, page)
    for link in soup.find_all("a"):
        _link(link, source, page)
    _one_title(soup)
    _ids(soup)
    for wide in soup.find_all(["table", "figure", "pre"]):
        if wide.find_parent(class_="scroll") is None:
            wide.wrap(soup.new_tag("div", attrs={"class": "scroll"}))
    for cell in soup.find_all("th"):  # Markdown's tables have none
        cell.attrs.setdefault("scope", "col")
    return soup


def contents(soup: BeautifulSoup) -> list[tuple[str, str]]:
    """(id, words) of each heading of the second level, for the page's own table of contents."""
    return [(heading["id"], heading.get_text(" ", strip=True)) for heading in soup.find_all("h2")]


def _both_tones(soup: BeautifulSoup, picture: Tag) -> None:
    """A picture with a dark variant becomes two images, of which the page's tone, chosen or the system's, shows one."""
    image, dark = picture.find("img"), picture.find("source", media=re.compile("dark"))
    if dark is not None:
        twin = soup.new_tag("img", attrs={**image.attrs, "src": dark["srcset"], "class": "in-dark"})
        image["class"] = "in-light"
        picture.insert_after(twin)
    picture.replace_with(image)


def _image(soup: BeautifulSoup, image: Tag, source: str, page: str) -> None:
    """A picture that would be fetched (a badge) becomes its alt text; one of the repository's leads to its copy."""
    parts = urlsplit(image.get("src", ""))
    if parts.scheme == "data":
        return
    if parts.scheme or parts.netloc:
        image.replace_with(soup.new_string(image.get("alt", "")))
        return
    image["src"] = layout.relative(layout.normal(image["src"], source), page)


def _link(link: Tag, source: str, page: str) -> None:
    """A link leads to the page that its file became; one to a file that is no page becomes plain words."""
    target = link.get("href")
    if target is None:
        return
    found = layout.link(target, source, page, link.get_text())
    if found is None:
        link.unwrap()
    else:
        link["href"] = found


def _one_title(soup: BeautifulSoup) -> None:
    """A page has one title: a further one ("Part two") is a heading like those that follow it."""
    for heading in soup.find_all("h1")[1:]:
        heading.name = "h2"


def _ids(soup: BeautifulSoup) -> None:
    """Ids of headings as GitHub makes them, so that links to them work here too; each once a page."""
    used = {tag["id"] for tag in soup.find_all(id=True)}
    for heading in soup.find_all(HEADINGS):
        if heading.get("id"):
            continue
        stem = re.sub(r"[^\w\- ]", "", heading.get_text().strip().lower()).replace(" ", "-") or "part"
        name, again = stem, 1
        while name in used:
            name, again = f"{stem}-{again}", again + 1
        heading["id"] = name
        used.add(name)
