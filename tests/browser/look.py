"""What a real browser finds wrong with a page: contrast in both tones, alt texts, text twins, headings, width, requests.

with lab.browse(chromium) as browser, look.reader(browser) as page:
    found = look.look(page, "file:///…/index.html")
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PHONE, DESK = {"width": 390, "height": 800}, {"width": 1280, "height": 900}

# WCAG 2: the ratio of relative luminances of a text's colour and of what it stands on, 4.5 at least, 3 for large text. Every
# text node's own computed style counts; backgrounds are composed from the root outwards. Folds are opened first.
CONTRAST = """() => {
    for (const fold of document.querySelectorAll('details')) fold.open = true;
    const known = new Map(), shown = new Map();
    const parse = (text) => {
        const n = text.match(/[\\d.]+/g).map(Number);
        return {rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1};
    };
    const over = (top, alpha, below) => top.map((v, i) => alpha * v + (1 - alpha) * below[i]);
    const ground = (element) => {
        if (!element) return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
        if (!known.has(element)) {
            const {rgb, alpha} = parse(getComputedStyle(element).backgroundColor);
            known.set(element, alpha === 1 ? rgb : over(rgb, alpha, ground(element.parentElement)));
        }
        return known.get(element);
    };
    const opacity = (element) => {
        if (!element) return 1;
        if (!shown.has(element)) shown.set(element, Number(getComputedStyle(element).opacity) * opacity(element.parentElement));
        return shown.get(element);
    };
    const light = (rgb) => {
        const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const found = [], seen = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (!node.nodeValue.trim() || seen.has(element) || ['SCRIPT', 'STYLE', 'TITLE'].includes(element.tagName)) continue;
        seen.add(element);
        const style = getComputedStyle(element), back = ground(element), ink = parse(style.color);
        const [a, b] = [light(over(ink.rgb, ink.alpha * opacity(element), back)), light(back)].sort((x, y) => y - x);
        const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const ratio = (a + 0.05) / (b + 0.05);
        const words = `${element.tagName} ${node.nodeValue.trim().slice(0, 40)}`;
        if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${words}`);
    }
    return {found, texts: seen.size};
}"""

# A text twin: a table in the same output of a cell (or section of a page), or a link to one in the paragraph that follows.
STRUCTURE = """() => {
    const words = (element) => (element.getAttribute('alt') || '').trim();
    const images = [...document.images];
    const twin = (image) => {
        const near = image.closest('.output, section, li') || image.closest('p')?.nextElementSibling || image.parentElement;
        const after = image.closest('.scroll, p')?.nextElementSibling;
        return near.querySelector('table') || after?.querySelector("a[href*='receipt.html']");
    };
    const levels = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((heading) => Number(heading.tagName[1]));
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    return {
        mute: images.filter((image) => !words(image)).length,
        alone: images.filter((image) => !twin(image)).map(words),
        images: images.length,
        levels,
        twice: ids.filter((id, at) => ids.indexOf(id) !== at),
        unlabelled: [...document.querySelectorAll('table')].filter((t) => !t.querySelector('th[scope]')).length,
        language: document.documentElement.lang,
        title: document.title,
    };
}"""


@dataclass
class Found:
    """What is wrong with one page (empty lists when nothing is), and how much there was to look at."""

    address: str
    console: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    contrast: dict[str, list[str]] = field(default_factory=dict)
    texts: int = 0
    structure: dict = field(default_factory=dict)
    wide: int = 0  # CSS pixels by which the page is wider than a phone

    @property
    def headings(self) -> list[str]:
        """What is wrong with the order of headings: one h1, which comes first, and no level left out on the way down."""
        levels = self.structure["levels"]
        wrong = [] if levels[:1] == [1] and levels.count(1) == 1 else [f"the h1s: {levels}"]
        return wrong + [f"h{a} → h{b}" for a, b in zip(levels, levels[1:]) if b > a + 1]


@contextmanager
def reader(browser) -> Iterator:
    """A page of a browser that is offline."""
    context = browser.new_context(viewport=DESK, offline=True)
    try:
        context.set_default_timeout(120_000)  # a loaded machine
        yield context.new_page()
    finally:
        context.close()


def look(page, address: str) -> Found:
    """Opens the page and looks at it, in a light and a dark page, on a desk and on a phone."""
    found = Found(address)

    def complain(message) -> None:
        if message.type in ("error", "warning"):
            found.console.append(message.text)

    def crash(error) -> None:
        found.console.append(str(error))

    def request(one) -> None:
        if not one.url.startswith(("file:", "data:", "about:")):
            found.outside.append(one.url)

    watched = {"console": complain, "pageerror": crash, "request": request}
    for event, heard in watched.items():
        page.on(event, heard)
    try:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(DESK)
        page.goto(address)
        for tone in ("light", "dark"):
            page.emulate_media(color_scheme=tone)
            seen = page.evaluate(CONTRAST)
            found.contrast[tone], found.texts = seen["found"], seen["texts"]
        found.structure = page.evaluate(STRUCTURE)
        page.set_viewport_size(PHONE)
        found.wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    finally:
        for event, heard in watched.items():
            page.remove_listener(event, heard)
    return found
