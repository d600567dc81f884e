#!/usr/bin/env python3
"""A picture of a page, for documents: `picture.py PAGE PNG [--from MS --to MS] [--size 1280x516] [--dark] [--engines]`. Moments are
those of the page's ruler. Exits with 77 where there is no Chromium."""

import argparse
import sys

import browser


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page")
    parser.add_argument("png")
    parser.add_argument("--from", dest="since", type=float)
    parser.add_argument("--to", dest="until", type=float)
    parser.add_argument("--size", default="1280x516")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--engines", action="store_true")
    options = parser.parse_args()
    if not browser.find():
        return 77
    width, height = (int(one) for one in options.size.split("x"))
    with browser.Browser(width, height) as page:
        page.dark(options.dark)
        page.open(options.page)
        if options.engines:
            page.evaluate("byId('by-engine').click()")
        if options.since is not None and options.until is not None:
            page.evaluate(f"weirPage.view.show({options.since * 1e6}, {options.until * 1e6}); weirPage.paint()")
        page.picture(options.png)
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
