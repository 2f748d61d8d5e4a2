"""How it looks: narrow and wide, light and dark, still for those who want it still; and pictures of all that."""
import re
import unittest

from page_support import SOURCE, PageTest, expect

ANSWER = """Here is the **sieve of Eratosthenes**. It marks the multiples of each prime; what stays unmarked is prime:

```python
def primes_below(n):
    \"\"\"All primes smaller than n, in order.\"\"\"
    is_prime = bytearray([1]) * n          # one byte a number
    is_prime[0:2] = b"\\0\\0"
    for i in range(2, int(n ** 0.5) + 1):
        if is_prime[i]:
            is_prime[i * i::i] = bytes(len(range(i * i, n, i)))
    return [i for i, p in enumerate(is_prime) if p]
```

1. Start with every number marked as *possibly prime*.
2. Take the next marked number `i` and unmark its multiples.
3. Stop at `√n`.

| n | primes | time |
|---:|---:|:--|
| 1,000 | 168 | 0.1 ms |
| 1,000,000 | 78,498 | 41 ms |

More in [the article](https://en.wikipedia.org/wiki/Sieve_of_Eratosthenes).
"""

WIDE = "`" + "x" * 300 + "` " + "y" * 400 + "\n\n| " + " | ".join("column" for _ in range(20)) + " |\n|" + "---|" * 20 + "\n\n```\n" + "z" * 500 + "\n```\n"


def luminance(colour):
    channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class LooksTest(PageTest):
    def overflows(self, page):
        return page.evaluate("() => document.documentElement.scrollWidth > innerWidth || document.querySelector('#scroller').scrollWidth > document.querySelector('#scroller').clientWidth")

    def test_nothing_is_wider_than_a_phone(self):
        page = self.page(360, 740, has_touch=True, is_mobile=True, device_scale_factor=2)
        self.assertFalse(self.overflows(page))
        self.answers_with(page, WIDE)
        self.ask(page, "w" * 300)
        page.click(".from-model [aria-label^='Answer again']")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")
        self.assertFalse(self.overflows(page))
        for button in ("#show-branches", "#show-live"):
            page.click(button)
            self.assertFalse(self.overflows(page))
            box = page.locator("#drawer").bounding_box()
            self.assertLessEqual(box["x"] + box["width"], 360)
            page.click("#drawer-close")
        page.click("#show-settings")
        self.assertFalse(page.evaluate("() => document.querySelector('#settings-body').scrollWidth > document.querySelector('#settings-body').clientWidth"))

    def test_the_list_of_conversations_slides_over_a_phones_screen(self):
        page = self.page(360, 740, has_touch=True, is_mobile=True)
        expect(page.locator("#sidebar")).not_to_be_in_viewport()
        page.click("#sidebar-toggle")
        expect(page.locator("#sidebar")).to_be_in_viewport(ratio=1)
        page.keyboard.press("Escape")
        expect(page.locator("#sidebar")).not_to_be_in_viewport()
        page.click("#sidebar-toggle")
        page.click("#scrim", position={"x": 340, "y": 400})
        expect(page.locator("#sidebar")).not_to_be_in_viewport()

    def test_fingers_find_every_button(self):
        page = self.page(360, 740, has_touch=True, is_mobile=True)
        self.answers_with(page, "Short.")
        self.ask(page, "q")
        small = page.evaluate("""() => [...document.querySelectorAll('button, select')].filter((node) => node.checkVisibility({ visibilityProperty: true }))
            .filter((node) => node.getBoundingClientRect().height < 32 || node.getBoundingClientRect().width < 32)
            .map((node) => node.outerHTML)""")
        self.assertEqual(small, [])

    def test_the_colours_follow_the_system_until_somebody_chooses(self):
        page = self.page(color_scheme="dark")
        theme = page.locator("html")
        expect(theme).to_have_attribute("data-theme", "dark")
        page.emulate_media(color_scheme="light")
        expect(theme).to_have_attribute("data-theme", "light")
        page.click("#theme")
        page.click("#theme")
        expect(theme).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(theme).to_have_attribute("data-theme", "dark")
        page.click("#theme")
        expect(theme).to_have_attribute("data-theme", "light")

    def test_words_stand_out_enough_in_both_themes(self):
        css = (SOURCE / "web/style.css").read_text(encoding="utf-8")
        for selector in (":root", '[data-theme="dark"]'):
            block = css[css.index(selector + " {"):]
            colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block[:block.index("\n}")]))
            pairs = [(ink, ground) for ink in ("ink", "ink-soft") for ground in ("paper", "surface", "sunken", "raised", "bubble", "hover")]
            pairs += [("ember", "paper"), ("ember", "ember-soft"), ("on-ember", "ember"), ("on-ember", "ember-hover"), ("warning", "warning-soft"),
                      ("error", "error-soft"), ("ink", "ember-soft"), ("ember-soft", "ink")]
            pairs += [(f"code-{kind}", "code") for kind in ("word", "text", "number", "remark")]
            for ink, ground in pairs:
                with self.subTest(theme=selector, ink=ink, ground=ground):
                    self.assertGreaterEqual(contrast(colours[ink], colours[ground]), 4.5)

    def test_nothing_moves_for_those_who_want_it_still(self):
        page = self.page(reduced_motion="reduce")
        self.gate.hold_after(2)
        self.write(page, "Wait")
        expect(page.locator(".conversation .ember")).to_have_count(1)
        self.assertEqual(page.locator(".conversation .ember").evaluate("(node) => getComputedStyle(node).animationIterationCount"), "1")

    def test_figures_are_read_only_while_their_panel_is_open(self):
        page = self.page()
        self.short_answers(page)
        reads = []
        page.on("request", lambda request: reads.append(request.url) if request.url.endswith("/metrics") else None)
        self.ask(page, "Hello")
        self.assertEqual(reads, [])
        page.click("#show-live")
        expect(page.locator(".plot")).to_have_count(5)
        self.ask(page, "And again")
        expect(page.locator(".plot-line").first).to_have_attribute("d", re.compile("^M"))
        expect(page.locator(".plot-value").first).not_to_have_text("–")
        self.shot(page, "desktop-figures")
        page.click("#drawer-close")
        count = len(reads)
        self.ask(page, "Once more")
        self.assertEqual(len(reads), count)

    def test_the_page_itself_keeps_to_the_policy(self):
        html = (SOURCE / "web/index.html").read_text(encoding="utf-8")
        self.assertNotRegex(html, r"\son\w+=")
        self.assertNotRegex(html, r"\sstyle=|<style")
        self.assertNotRegex(html, r"<script(?![^>]*\ssrc=)")
        self.assertNotRegex(html, r"(href|src)=\"(https?:)?//")
        for file in sorted((SOURCE / "web").iterdir()):
            if file.suffix == ".js":
                self.assertNotRegex(file.read_text(encoding="utf-8"), r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", file.name)

    def test_pictures_are_taken_in_every_dress(self):
        sizes = {"desktop": {"width": 1280, "height": 820}, "phone": {"width": 360, "height": 740, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}}
        for name, size in sizes.items():
            for theme in ("light", "dark"):
                page = self.page(color_scheme=theme, **size)
                self.shot(page, f"{name}-{theme}-start")
                self.answers_with(page, "Air scatters blue light far more than red: blue reaches your eye from everywhere.")
                self.ask(page, "Why is the sky blue?")
                self.answers_with(page, "Short waves of light are scattered by the molecules of the air, long ones hardly. So the sky is **blue**, and the setting sun red.")
                page.click(".from-model [aria-label^='Answer again']")
                expect(page.locator(".from-model .siblings")).to_have_text("2/2")
                self.wait_for_answer(page, 1)
                self.answers_with(page, ANSWER)
                self.ask(page, "Write a Python function that finds the primes below n")
                self.shot(page, f"{name}-{theme}-chat")
                page.click("#show-branches")
                self.shot(page, f"{name}-{theme}-branches")
                page.click("#drawer-close")
                page.click("#show-settings")
                self.shot(page, f"{name}-{theme}-settings")
                page.keyboard.press("Escape")
                self.assertFalse(self.overflows(page))


if __name__ == "__main__":
    unittest.main()
