"""When things go wrong: a loading model, refusals, a lost connection, a missing key, a full storage."""
import json
import unittest

from page_support import PageTest, expect

REFUSED = "Failed to load resource"


class TroubleTest(PageTest):
    def refuse(self, page, status, message, **headers):
        page.unroute("**/v1/chat/completions")
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            status=status, content_type="application/json", headers=headers, body=json.dumps({"error": {"message": message}})))

    def test_the_loading_of_the_model_is_shown_until_it_is_there(self):
        self.expected_complaints = (REFUSED,)
        said = [{"status": "loading", "models": [{"id": "tiny", "status": "loading", "progress": share}]} for share in (0.25, 0.5)]

        def route(page):
            def answer(route):
                if said[0] is None:
                    route.continue_()
                else:
                    route.fulfill(status=503, content_type="application/json", body=json.dumps(said[0]))
            page.route("**/health", answer)

        page = self.page(ready=False, route=route)
        expect(page.locator("#banner")).to_contain_text("25 %")
        said.pop(0)
        expect(page.locator("#banner progress")).to_have_attribute("value", "50")
        page.fill("#composer-text", "Too early")
        expect(page.locator("#send")).to_be_disabled()
        said[0] = None
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#send")).to_be_enabled()

    def test_a_refusal_is_said_in_words_and_can_be_tried_again(self):
        self.expected_complaints = (REFUSED,)
        page = self.page()
        self.refuse(page, 429, "All places are taken.", **{"Retry-After": "3"})
        self.write(page, "Hello")
        expect(page.locator(".note.error")).to_contain_text("All places are taken. It asks to wait 3 s.")
        self.answers_with(page, "Now.")
        page.click("text=Try again")
        expect(page.locator(".from-model .prose")).to_have_text("Now.")
        expect(page.locator(".from-model .siblings")).to_have_count(0)

    def test_the_servers_own_words_reach_the_reader(self):
        self.expected_complaints = (REFUSED,)
        page = self.page()
        self.write(page, "word " * 600)
        expect(page.locator(".note.error")).to_contain_text("256")

    def test_after_a_failure_the_next_message_is_sent_with_the_first(self):
        self.expected_complaints = (REFUSED,)
        page = self.page()
        self.refuse(page, 500, "Out of luck.")
        self.write(page, "one")
        expect(page.locator(".note.error")).to_contain_text("Out of luck.")
        self.answers_with(page, "Fine.")
        with page.expect_request("**/v1/chat/completions") as sent:
            self.write(page, "two")
        self.assertEqual(json.loads(sent.value.post_data)["messages"], [{"role": "user", "content": "one\n\ntwo"}])

    def test_a_lost_connection_keeps_the_text_and_says_so(self):
        self.expected_complaints = (REFUSED,)
        page = self.page()
        self.gate.hold_after(6)
        self.write(page, "Go")
        self.wait_until_held(page)
        self.gate.break_connection()
        expect(page.locator(".note.warning")).to_contain_text("The connection was lost here. What came before is kept.")
        kept = self.answer_text(page)
        self.assertNotEqual(kept.strip(), "")
        self.gate.open()
        self.answers_with(page, "Whole.")
        page.click("text=Answer again")
        expect(page.locator(".from-model .prose")).to_have_text("Whole.")
        page.click("[aria-label='Earlier version']")
        self.assertEqual(self.answer_text(page), kept)

    def test_a_stream_without_its_end_counts_as_lost(self):
        page = self.page()
        self.answers_with(page, "Half", done=False)
        self.write(page, "Go")
        expect(page.locator(".note.warning")).to_contain_text("The connection was lost here.")

    def test_a_failure_inside_a_stream_is_said(self):
        page = self.page()
        body = 'data: {"choices":[{"delta":{"content":"Half"}}]}\n\ndata: {"error":{"message":"Out of memory for the answer."}}\n\n'
        page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=body))
        self.write(page, "Go")
        expect(page.locator(".note.warning")).to_contain_text("Out of memory for the answer.")
        expect(page.locator(".from-model .prose")).to_have_text("Half")

    def test_a_server_that_is_gone_is_noticed_and_awaited(self):
        self.expected_complaints = (REFUSED,)
        page = self.page()
        page.route("**/*", lambda route: route.abort())
        self.write(page, "Anybody?")
        expect(page.locator(".note.error")).to_contain_text("cannot be reached")
        expect(page.locator("#banner")).to_contain_text("cannot be reached")
        page.unroute("**/*")
        expect(page.locator("#banner")).to_be_hidden()

    def test_a_full_storage_is_said_and_does_not_stop_the_chat(self):
        page = self.page()
        self.answers_with(page, "Still here.")
        page.evaluate("() => { try { for (let size = 1 << 22; size > 0; size >>= 1) for (let i = 0; ; i += 1) localStorage.setItem(`fill.${size}.${i}`, 'x'.repeat(size)); } catch {} }")
        page.evaluate("() => { for (let size = 1 << 21; size > 0; size >>= 1) { try { localStorage.setItem(`more.${size}`, 'x'.repeat(size)); } catch {} } }")
        self.ask(page, "Hello")
        expect(page.locator(".from-model .prose")).to_have_text("Still here.")
        expect(page.locator("#banner")).to_contain_text("storage is full")
        page.evaluate("() => { for (const key of Object.keys(localStorage)) if (/^(fill|more)/.test(key)) localStorage.removeItem(key); }")
        self.ask(page, "Again")
        expect(page.locator("#banner")).to_be_hidden()

    def test_what_cannot_be_read_is_left_where_it_is(self):
        page = self.page()
        page.evaluate("() => localStorage.setItem('hearth.conversation.fromthefuture', '{\"schema\": 99}')")
        page.reload()
        expect(page.locator("#banner")).to_contain_text("1 stored conversation could not be read")
        self.assertEqual(page.evaluate("() => localStorage.getItem('hearth.conversation.fromthefuture')"), '{"schema": 99}')


class KeyTest(PageTest):
    server_options = ("--key", "open-sesame")

    def test_a_server_with_a_key_asks_for_it_and_forgets_it_with_the_tab(self):
        self.expected_complaints = (REFUSED,)
        page = self.page(ready=False)
        expect(page.locator("#key-dialog")).to_be_visible()
        page.fill("#key-input", "wrong")
        page.click("text=Use this key")
        expect(page.locator("#key-dialog")).to_be_visible()
        page.fill("#key-input", "open-sesame")
        page.click("text=Use this key")
        expect(page.locator("#welcome-model")).not_to_be_empty()
        self.short_answers(page)
        self.ask(page, "Hello")
        self.assertNotEqual(self.answer_text(page).strip(), "")
        stored = page.evaluate("() => JSON.stringify({ ...localStorage })")
        self.assertNotIn("open-sesame", stored)
        other = self.tab(ready=False)
        expect(other.locator("#key-dialog")).to_be_visible()

    def test_a_key_that_stops_working_is_asked_for_again_and_the_answer_follows(self):
        self.expected_complaints = (REFUSED,)
        page = self.page(ready=False)
        page.fill("#key-input", "open-sesame")
        page.click("text=Use this key")
        expect(page.locator("#welcome-model")).not_to_be_empty()
        self.short_answers(page)
        page.evaluate("() => sessionStorage.setItem('hearth.key', 'stale')")
        self.write(page, "Hello")
        expect(page.locator("#key-dialog")).to_be_visible()
        page.fill("#key-input", "open-sesame")
        page.click("text=Use this key")
        expect(page.locator(".note.error")).to_have_count(0)
        expect(page.locator(".from-model .prose")).not_to_be_empty()
        self.wait_for_answer(page, 1)


if __name__ == "__main__":
    unittest.main()
