"""What answers may contain: Markdown becomes elements, everything hostile stays text. And the small parsers."""
import unittest

from page_support import PageTest, expect

HOSTILE = [
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    "<svg onload=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>",
    "[click](javascript:window.hit=1)",
    "[click](JaVaScRiPt:window.hit=1)",
    "[click](java\nscript:window.hit=1)",
    "[click](data:text/html,<script>window.hit=1</script>)",
    "[click](vbscript:x)",
    "[click](//evil.example/)",
    "[click](/v1/models)",
    "![pixel](https://evil.example/pixel.png)",
    "![pixel](javascript:window.hit=1)",
    "<https://a.example/\" onclick=\"window.hit=1>",
    "https://a.example/\"onmouseover=\"window.hit=1",
    "```html\" onclick=\"window.hit=1\n<script>window.hit=1</script>\n```",
    "```<script>window.hit=1</script>\nx\n```",
    "| <script>window.hit=1</script> | b |\n|---|---|\n| <img src=x onerror=window.hit=1> | c |",
    "# <b onclick=window.hit=1>head</b>",
    "`<script>window.hit=1</script>`",
    "**<style>body{display:none}</style>**",
    "&lt;script&gt; &#60;script&#62;",
    "<a href='javascript:window.hit=1'>x</a>",
    "<form action=https://evil.example><input name=q></form>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<link rel=stylesheet href=https://evil.example/a.css>",
    "<base href=https://evil.example/>",
    "</div></main></body><h1>out</h1>",
    "\u202e\u0000\ufeff right to left",
]

PLAIN = """# Title

A *soft* and a **strong** word, ~~gone~~, `code`, snake_case_stays, 2 * 3 * 4, and [a link](https://example.org/a_b).
Second line.

1. one
2. two
   - inner `x`
   - [x] done
3. three

> quoted
> more

| left | right |
|:-----|------:|
| a | 1 |
| b \\| c | 2 |

```python
print("<b>")
```

---
Bare https://example.org/path, and the end.
"""

SHAPE = """(root) => {
    const walk = (node) => [...node.children].map((child) => {
        const inner = walk(child);
        return child.tagName.toLowerCase() + (inner.length ? `(${inner.join(' ')})` : '');
    });
    return walk(root).join(' ');
}"""

RENDER = """async (text) => {
    const { renderMarkdown } = await import('/markdown.js');
    const box = document.createElement('div');
    renderMarkdown(box, text);
    return box;
}"""


class MarkdownTest(PageTest):
    def test_hostile_answers_stay_text(self):
        page = self.page()
        for text in HOSTILE:
            with self.subTest(text):
                box = page.evaluate_handle(RENDER, text)
                page.evaluate("(box) => { window.hit = 0; document.querySelector('#transcript').replaceChildren(box); }", box)
                report = page.evaluate("""(box) => {
                    const allowed = new Set('P,H3,H4,H5,H6,UL,OL,LI,PRE,CODE,FIGURE,FIGCAPTION,SPAN,BUTTON,svg,use,STRONG,EM,DEL,A,BR,HR,BLOCKQUOTE,DIV,TABLE,THEAD,TBODY,TR,TH,TD,INPUT'.split(','));
                    const bad = [];
                    for (const node of box.querySelectorAll('*')) {
                        if (!allowed.has(node.tagName)) bad.push(node.tagName);
                        for (const { name, value } of node.attributes) {
                            if (name.startsWith('on') || name === 'style' || name === 'src') bad.push(`${node.tagName} ${name}`);
                            if (name === 'href' && node.tagName === 'A' && !/^(https?|mailto):/.test(value)) bad.push(value);
                        }
                        if (node.tagName === 'A' && !(node.rel.includes('noopener') && node.target === '_blank')) bad.push('an open link');
                        node.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
                    }
                    return bad;
                }""", box)
                self.assertEqual(report, [])
                self.assertEqual(page.evaluate("() => window.hit"), 0)
        self.assertEqual(page.evaluate("() => document.body.contains(document.querySelector('#composer'))"), True)

    def test_hostile_text_through_the_whole_page_is_inert(self):
        page = self.page()
        text = "\n\n".join(HOSTILE)
        self.answers_with(page, *[text[i:i + 7] for i in range(0, len(text), 7)])
        self.ask(page, "<img src=x onerror='window.hit = 1'>")
        self.assertIsNone(page.evaluate("() => window.hit ?? null"))
        self.assertEqual(page.locator("#transcript :is(script, img, iframe, style, form, meta, link, base)").count(), 0)
        expect(page.locator(".conversation-title")).to_have_text("<img src=x onerror='window.hit = 1'>")
        page.click("#show-branches")
        page.reload()
        expect(page.locator(".from-model")).to_have_count(1)
        self.assertIsNone(page.evaluate("() => window.hit ?? null"))

    def test_markdown_becomes_the_elements_it_means(self):
        page = self.page()
        box = page.evaluate_handle(RENDER, PLAIN)
        shape = page.evaluate(SHAPE, box)
        self.assertEqual(shape, "h3 p(em strong del code a br) ol(li li(ul(li(code) li(input))) li) blockquote(p(br)) "
                                "div(table(thead(tr(th th)) tbody(tr(td td) tr(td td)))) "
                                "figure(figcaption(span button(svg(use))) pre(code(span))) hr p(a)")
        self.assertIn("snake_case_stays, 2 * 3 * 4", page.evaluate("(box) => box.textContent", box))
        self.assertEqual(page.evaluate("(box) => [...box.querySelectorAll('td')].map((cell) => cell.textContent)", box), ["a", "1", "b | c", "2"])
        self.assertEqual(page.evaluate("(box) => [...box.querySelectorAll('a')].map((link) => link.href)", box),
                         ["https://example.org/a_b", "https://example.org/path"])

    def test_marks_end_a_heading_only_behind_a_space(self):
        page = self.page()
        box = page.evaluate_handle(RENDER, "## Using C#\n\n## closed ##\n\n### # #\n\n# a#b  ")
        self.assertEqual(page.evaluate("(box) => [...box.children].map((one) => one.textContent)", box),
                         ["Using C#", "closed", "#", "a#b"])

    def test_long_lines_that_nearly_match_are_text_at_once(self):
        page = self.page()
        many = 100_000
        for text in ("# " + " " * many + "x" + " " * many + "#y", "```" + " " * many + "`", "~" * many + "`",
                     "a|b\n-" + " " * many + "x", "-" * many + " x", "# " + "# " * many + "x"):
            page.evaluate(RENDER, text)

    def test_text_that_grows_ends_as_if_it_had_come_at_once(self):
        page = self.page()
        same = page.evaluate("""async (text) => {
            const { renderMarkdown } = await import('/markdown.js');
            const grown = document.createElement('div');
            const whole = document.createElement('div');
            for (let length = 0; length <= text.length; length += 3) renderMarkdown(grown, text.slice(0, length));
            renderMarkdown(grown, text);
            renderMarkdown(whole, text);
            return grown.isEqualNode(whole);
        }""", PLAIN)
        self.assertTrue(same)

    def test_finished_blocks_keep_their_elements_while_text_grows(self):
        page = self.page()
        kept = page.evaluate("""async () => {
            const { renderMarkdown } = await import('/markdown.js');
            const box = document.createElement('div');
            renderMarkdown(box, 'first\\n\\nsecond');
            const [first, second] = box.children;
            renderMarkdown(box, 'first\\n\\nsecond and more');
            const kept = [box.children[0] === first, box.children[1] === second];
            renderMarkdown(box, '```c\\nint');
            const [code] = box.children;
            renderMarkdown(box, '```c\\nint x;\\n```\\nafter');
            return [...kept, box.children[0] === code, code.querySelector('code').textContent, box.children[1].textContent];
        }""")
        self.assertEqual(kept, [True, False, True, "int x;", "after"])

    def test_long_hostile_text_costs_linear_work(self):
        page = self.page()
        for piece in ("*a ", "[", "**", "`", "> ", "- ", "_a", "[a](", "|", "<", "~~", "```\n", "1. \n   "):
            with self.subTest(piece):
                work = """async ([piece, count]) => {
                    const { renderMarkdown } = await import('/markdown.js');
                    renderMarkdown(document.createElement('div'), piece.repeat(count));
                    return true;
                }"""
                self.assertTrue(page.evaluate(work, [piece, 60_000 // len(piece)]))

    def test_code_is_copied_as_it_is(self):
        page = self.page(permissions=["clipboard-read", "clipboard-write"])
        self.answers_with(page, "```c\nint main() {\n\treturn 0;\n}\n```")
        self.ask(page, "q")
        page.click("[aria-label='Copy the code']")
        expect(page.locator("#announcer")).to_have_text("Copied")
        self.assertEqual(page.evaluate("() => navigator.clipboard.readText()"), "int main() {\n    return 0;\n}")

    def test_thoughts_are_folded_away(self):
        page = self.page()
        self.answers_with(page, "<think>\nHmm, ", "let me see.\n</think>\n\n", "It is 4.")
        self.ask(page, "2 + 2?")
        expect(page.locator(".from-model > .message-body > .prose")).to_have_text("It is 4.")
        expect(page.locator(".thought summary")).to_have_text("Thoughts")


class ParsersTest(PageTest):
    def test_events_survive_any_cut_and_any_line_end(self):
        page = self.page()
        text = "data: {\"a\":\"ä€😀\"}\r\n\r\n: remark\ndata:one\ndata: two\n\nevent: x\rdata: cr\r\rdata: [DONE]\n\n"
        results = page.evaluate("""async (text) => {
            const { events } = await import('/client.js');
            const bytes = new TextEncoder().encode(text);
            const found = new Set();
            for (let size = 1; size <= bytes.length; size += 1) {
                const body = new ReadableStream({ start(controller) {
                    for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
                    controller.close();
                } });
                const seen = [];
                for await (const data of events(body)) seen.push(data);
                found.add(JSON.stringify(seen));
            }
            return [...found];
        }""", text)
        self.assertEqual(results, ['["{\\"a\\":\\"ä€😀\\"}","one\\ntwo","cr","[DONE]"]'])

    def test_metrics_become_rates_and_survive_a_restart(self):
        page = self.page()
        figures = page.evaluate("""async () => {
            const { parseMetrics, rates } = await import('/live.js');
            const text = (tokens, hits, asked, sum, count) => `# HELP hearth_generation_tokens_total x
hearth_generation_tokens_total{model="a"} ${tokens}
hearth_generation_tokens_total{model="b"} 0
hearth_prefix_cache_hits_total ${hits}
hearth_prefix_cache_queries_total ${asked}
hearth_batch_size_bucket{le="+Inf"} 77
hearth_batch_size_sum ${sum}
hearth_batch_size_count ${count}
hearth_kv_cache_usage_perc{model="a"} 0.25
hearth_kv_cache_usage_perc{model="b"} 0.125
hearth_num_requests_running 3
`;
            const before = parseMetrics(text(100, 10, 20, 8, 4));
            return [rates(before, parseMetrics(text(180, 100, 120, 20, 8)), 2), rates(before, parseMetrics(text(30, 0, 0, 0, 0)), 1)];
        }""")
        self.assertEqual(figures[0], {"written": 40, "read": None, "reuse": 0.9, "batch": 3, "kv": 0.25, "running": 3, "waiting": None})
        self.assertEqual((figures[1]["written"], figures[1]["batch"]), (30, None))

    def test_stored_conversations_are_checked_before_they_are_believed(self):
        page = self.page()
        verdicts = page.evaluate("""async () => {
            const { createConversation, addMessage, toPlain, fromPlain } = await import('/tree.js');
            const good = createConversation();
            addMessage(good, addMessage(good, 'root', 'user', 'a').id, 'assistant', 'b', 'streaming');
            const plain = () => JSON.parse(JSON.stringify(toPlain(good)));
            const change = (edit) => { const copy = plain(); edit(copy); return fromPlain(copy); };
            return {
                good: [...fromPlain(plain()).nodes.values()].map((node) => node.state),
                newer: change((c) => { c.schema = 2; }),
                cycle: change((c) => { c.nodes[1].parent = c.nodes[2].id; }),
                twice: change((c) => { c.nodes[2].id = c.nodes[1].id; }),
                role: change((c) => { c.nodes[1].role = 'system'; }),
                text: change((c) => { c.nodes[1].text = 5; }),
                rootless: change((c) => { c.nodes.shift(); }),
                id: change((c) => { c.id = '../x'; }),
                nothing: fromPlain(null),
            };
        }""")
        mixed = page.evaluate("""async () => {
            const { createConversation, addMessage, toPlain, fromPlain } = await import('/tree.js');
            const plain = toPlain(createConversation({ temperature: 'hot', system: 5, top_k: 3, other: 1 }));
            plain.nodes.push({ id: 'a', parent: 'root', role: 'assistant', text: 'x', stats: { tokensPerSecond: 'fast', promptTokens: 7 }, onclick: 'x' });
            const { settings, nodes } = fromPlain(plain);
            return [settings, nodes.get('a').stats, 'onclick' in nodes.get('a')];
        }""")
        self.assertEqual(mixed, [{"top_k": 3}, {"promptTokens": 7}, False])
        self.assertEqual(verdicts.pop("good"), ["done", "done", "lost"])
        self.assertEqual(set(verdicts.values()), {None})


if __name__ == "__main__":
    unittest.main()
