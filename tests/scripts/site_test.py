#!/usr/bin/env python3
"""The documents' site in a browser, as a reader uses it, from disk: the first page shows what it is, a word that is typed into the
search finds a call, the hit leads to the call's contract, and a rule's code to its row. Without a browser nothing is looked at.

Usage: site_test.py SITE [PICTURE.png]
"""

import pathlib
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "trace/page"))
import browser  # noqa: E402


def go(page, url):
    page.call("Page.navigate", url=url)
    page.event("Page.loadEventFired")


def nodes(node):
    yield node
    for child in node.get("children", []) + [node[key] for key in ("contentDocument",) if key in node]:
        yield from nodes(child)


def attributes(node):
    names = node.get("attributes", [])
    return dict(zip(names[::2], names[1::2]))


def hits(page):
    """What the search shows, and where each leads. It is in a frame, into which scripts of a page from disk may not look; the
    protocol may."""
    found = {}
    for row in nodes(page.call("DOM.getDocument", depth=-1, pierce=True)["root"]):
        if attributes(row).get("class") != "SRResult" or "block" not in attributes(row).get("style", ""):
            continue
        links = [one for one in nodes(row) if one["nodeName"] == "A"]
        name = "".join(one.get("nodeValue", "") for one in nodes(links[0]) if one["nodeName"] == "#text")
        found[name] = [attributes(one)["href"] for one in links if not attributes(one)["href"].startswith("javascript:")]
    return found


def search(page, word, wanted):
    """Types the word, and returns where the wanted hit leads."""
    page.evaluate("document.getElementById('MSearchField').focus()")
    for letter in word:
        page.key(letter)
    end = time.monotonic() + 30
    while wanted not in (found := hits(page)):
        if time.monotonic() > end:
            sys.exit(f"site: a search for {word} shows no {wanted}, but {sorted(found)}")
        time.sleep(0.05)
    return found[wanted]


def main():
    site = pathlib.Path(sys.argv[1]).resolve()
    if not browser.find():
        print("site: nobody looked at it: there is no browser")
        return
    with browser.Browser() as page:
        go(page, (site / "index.html").as_uri())
        text = page.evaluate("document.body.innerText")
        for part in ("Weir", "Install"):
            if part not in text:
                sys.exit(f"site: the first page does not say {part}")
        broken = page.evaluate("[...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)")
        if broken:
            sys.exit(f"site: pictures of the first page are not shown: {broken}")
        looked = []
        for word, wanted, told in (("resha", "reshape", "Throws wrong_shape"), ("simul", "Simulated devices and predictions", "virtual clock")):
            go(page, (site / "index.html").as_uri())
            links = search(page, word, wanted)
            if len(sys.argv) > 2 and not looked:
                page.picture(sys.argv[2])
            go(page, urllib.parse.urljoin((site / "search/results").as_uri(), links[0]))
            anchor = links[0].partition("#")[2]
            text = page.evaluate(f"(document.getElementById('{anchor}')?.nextElementSibling.nextElementSibling ?? document.body).innerText")
            if told not in text:
                sys.exit(f"site: {links[0]}, which {wanted} leads to, does not say {told!r}: {text[:500]}")
            looked.append(wanted)
        go(page, (site / "ordering.html").as_uri())
        rule = page.evaluate("[...document.querySelectorAll('a[href*=\"rules.html#R\"]')].map((one) => one.getAttribute('href'))[0] ?? ''")
        if not rule:
            sys.exit("site: no code of a rule in ordering.html is a link")
        go(page, urllib.parse.urljoin((site / "ordering.html").as_uri(), rule))
        code = rule.partition("#")[2]
        if code not in page.evaluate(f"document.getElementById('{code}').closest('tr').innerText"):
            sys.exit(f"site: {rule} does not lead to the row of {code}")
        if page.thrown:
            sys.exit(f"site: a script of it fails: {page.thrown[0]}")
    print(f"site: a browser shows the first page, its search finds {' and '.join(looked)}, and {code} leads to its row")


if __name__ == "__main__":
    main()
