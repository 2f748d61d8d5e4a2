"""Chatting: send, stream, stop, edit and branch, versions, reload, keys, several conversations."""
import json
import re
import unittest

from page_support import PageTest, expect


class ChatTest(PageTest):
    def test_an_answer_streams_in_and_says_what_it_cost(self):
        page = self.page()
        self.short_answers(page)
        self.gate.hold_after(4)
        self.write(page, "Good morning")
        expect(page.locator(".from-user .message-body")).to_have_text("Good morning")
        expect(page.locator(".from-model.live")).to_have_attribute("aria-busy", "true")
        self.wait_until_held(page)
        self.gate.open()
        self.wait_for_answer(page, 1)
        expect(page.locator(".from-model")).to_have_attribute("aria-busy", "false")
        expect(page.locator(".from-model .statistics")).to_contain_text(re.compile(r"\d+ tokens, (none|\d+) reused · "))
        expect(page.locator(".from-model .statistics")).to_contain_text("to first token")
        self.assertNotEqual(self.answer_text(page).strip(), "")
        expect(page.locator(".conversation-title")).to_have_text("Good morning")

    def test_the_second_answer_reuses_the_first_ones_tokens(self):
        page = self.page()
        self.short_answers(page)
        self.ask(page, "Tell me a long story about a small fox who lived by the sea")
        self.ask(page, "And then?")
        expect(page.locator(".from-model .statistics").nth(1)).to_contain_text(" reused")
        expect(page.locator(".from-model .statistics").nth(1)).not_to_contain_text("none reused")

    def test_stop_keeps_what_came_and_tells_the_server(self):
        for way in ("button", "escape"):
            with self.subTest(way):
                page = self.page()
                self.gate.hold_after(6)
                self.write(page, "Count")
                self.wait_until_held(page)
                page.click("#send") if way == "button" else page.keyboard.press("Escape")
                self.wait_for_answer(page, 1)
                expect(page.locator(".from-model .note")).to_have_text("Stopped.")
                self.assertNotEqual(self.answer_text(page).strip(), "")
                self.assertTrue(self.gate.left.wait(20), "the request must be given up")

    def test_an_edit_makes_a_branch_and_both_stay_one_click_away(self):
        page = self.page()
        self.short_answers(page)
        self.ask(page, "First words")
        first = self.answer_text(page)
        page.hover(".from-user")
        page.click(".from-user [aria-label^='Edit']")
        expect(page.locator(".edit-area")).to_have_value("First words")
        page.fill(".edit-area", "Other words")
        page.press(".edit-area", "Enter")
        self.wait_for_answer(page, 1)
        expect(page.locator(".from-user .message-body")).to_have_text("Other words")
        expect(page.locator(".from-user .siblings")).to_have_text("2/2")
        page.click(".from-user [aria-label='Earlier version']")
        expect(page.locator(".from-user .message-body")).to_have_text("First words")
        self.assertEqual(self.answer_text(page), first)
        expect(page.locator(".from-user .siblings")).to_have_text("1/2")

    def test_answering_again_makes_a_sibling_and_reuses_the_prompt(self):
        page = self.page()
        self.short_answers(page)
        self.ask(page, "Say something about the weather in the mountains, and about the clouds")
        page.click(".from-model [aria-label^='Answer again']")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")
        self.wait_for_answer(page, 1)
        expect(page.locator(".from-model .statistics")).not_to_contain_text("none reused")
        page.click("#show-branches")
        expect(page.locator(".branch-row")).to_have_count(3)
        page.locator(".branch-row.answer").first.click()
        expect(page.locator(".from-model .siblings")).to_have_text("1/2")

    def test_an_answer_can_be_edited_by_hand(self):
        page = self.page()
        self.answers_with(page, "The capital is Rome.")
        self.ask(page, "Capital of France?")
        page.click(".from-model [aria-label^='Edit the answer']")
        page.fill(".edit-area", "The capital is Paris.")
        page.click("text=Keep as new branch")
        expect(page.locator(".from-model .prose")).to_have_text("The capital is Paris.")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")

    def test_the_request_carries_the_path_on_the_screen_and_the_settings(self):
        page = self.page()
        bodies = []
        page.on("request", lambda request: bodies.append(json.loads(request.post_data)) if request.method == "POST" else None)
        self.answers_with(page, "One.")
        self.ask(page, "a")
        page.click(".from-model [aria-label^='Answer again']")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")
        page.click("#show-settings")
        page.fill("#set-system", "Be brief.")
        page.fill("#set-temperature", "0.3")
        page.fill("#set-top_k", "7")
        page.fill("#set-seed", "5")
        page.keyboard.press("Escape")
        self.ask(page, "b")
        sent = bodies[-1]
        self.assertEqual(sent["messages"], [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
                                            {"role": "assistant", "content": "One."}, {"role": "user", "content": "b"}])
        self.assertEqual((sent["temperature"], sent["top_k"], sent["seed"]), (0.3, 7, 5))
        self.assertEqual((sent["stream"], sent["stream_options"]), (True, {"include_usage": True}))
        self.assertNotIn("top_p", sent, "what nobody set is not sent")
        expect(page.locator(".from-model .statistics").last).to_contain_text("812 tokens, 790 reused")

    def test_a_setting_out_of_range_is_refused_in_words(self):
        page = self.page()
        page.click("#show-settings")
        page.fill("#set-top_p", "3")
        expect(page.locator(".problem:visible")).to_have_text("From 0.01 to 1.")

    def test_reload_keeps_conversations_branches_and_settings(self):
        page = self.page()
        self.answers_with(page, "Kept.")
        self.ask(page, "Remember this")
        page.click(".from-model [aria-label^='Answer again']")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")
        self.wait_for_answer(page, 1)
        page.click("#show-settings")
        page.fill("#set-system", "Stay.")
        page.keyboard.press("Escape")
        page.reload()
        expect(page.locator(".from-user .message-body")).to_have_text("Remember this")
        expect(page.locator(".from-model .prose")).to_have_text("Kept.")
        expect(page.locator(".from-model .siblings")).to_have_text("2/2")
        expect(page.locator(".from-model .statistics")).to_contain_text("790 reused")
        page.click("#show-settings")
        expect(page.locator("#set-system")).to_have_value("Stay.")

    def test_a_reload_in_the_middle_keeps_the_text_that_came(self):
        page = self.page()
        self.gate.hold_after(6)
        self.write(page, "Go")
        self.wait_until_held(page)
        before = self.answer_text(page)
        page.reload()
        expect(page.locator(".from-model .note")).to_contain_text("What came before is kept")
        self.assertEqual(self.answer_text(page), before)

    def test_words_not_sent_stay_with_their_conversation(self):
        page = self.page()
        self.answers_with(page, "Yes.")
        self.ask(page, "One")
        page.fill("#composer-text", "half a thought")
        page.keyboard.press("Control+k")
        expect(page.locator("#composer-text")).to_have_value("")
        page.click(".conversation-open")
        expect(page.locator("#composer-text")).to_have_value("half a thought")
        page.reload()
        expect(page.locator("#composer-text")).to_have_value("half a thought")

    def test_the_reader_may_leave_the_end_of_a_growing_answer(self):
        page = self.page(height=400)
        # Tall, but few tokens: the tiny model's context holds 256.
        self.answers_with(page, "\n\n".join("abcdefghijklmnopqrstuvwxyz"))
        self.ask(page, "Long, please")
        scroller = page.locator("#scroller")
        at_end = "(node) => node.scrollHeight - node.scrollTop - node.clientHeight < 2"
        self.assertTrue(scroller.evaluate(at_end))
        page.unroute("**/v1/chat/completions")
        self.gate.hold_after(3)
        self.write(page, "More")
        self.wait_until_held(page)
        page.hover("#transcript")
        page.mouse.wheel(0, -200)
        expect(page.locator("#to-bottom")).to_be_visible()
        top = scroller.evaluate("(node) => node.scrollTop")
        self.gate.open()
        self.wait_for_answer(page, 2)
        self.assertEqual(scroller.evaluate("(node) => node.scrollTop"), top)
        page.click("#to-bottom")
        expect(page.locator("#to-bottom")).to_be_hidden()

    def test_conversations_are_renamed_deleted_and_brought_back(self):
        page = self.page()
        self.answers_with(page, "Yes.")
        self.ask(page, "One")
        page.keyboard.press("Control+k")
        expect(page.locator(".message")).to_have_count(0)
        self.ask(page, "Two")
        expect(page.locator(".conversation-title")).to_have_text(["Two", "One"])
        page.hover(".conversation >> nth=1")
        page.locator(".conversation .more").nth(1).click()
        page.click("text=Rename")
        page.fill(".rename", "Uno")
        page.press(".rename", "Enter")
        expect(page.locator(".conversation-title")).to_have_text(["Two", "Uno"])
        page.locator(".conversation .more").first.click()
        page.click(".menu-item.danger")
        expect(page.locator(".conversation-title")).to_have_text(["Uno"])
        expect(page.locator(".from-user .message-body")).to_have_text("One")
        page.click("text=Undo")
        expect(page.locator(".conversation-title")).to_have_text(["Two", "Uno"])
        expect(page.locator(".from-user .message-body")).to_have_text("Two")

    def test_exports_hold_the_tree_and_the_path_and_come_back(self):
        page = self.page(accept_downloads=True)
        self.answers_with(page, "Because **air** scatters.")
        self.ask(page, "Why blue?")
        files = {}
        for kind in ("JSON", "Markdown"):
            page.locator(".conversation .more").first.click()
            with page.expect_download() as coming:
                page.click(f"text=Export as {kind}")
            files[kind] = coming.value
        self.assertEqual(files["JSON"].suggested_filename, "why-blue.json")
        with open(files["Markdown"].path(), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("# Why blue?", text)
        self.assertIn("Because **air** scatters.", text)
        with open(files["JSON"].path(), encoding="utf-8") as file:
            data = file.read()
        self.assertEqual([node["text"] for node in json.loads(data)["nodes"]], ["", "Why blue?", "Because **air** scatters."])
        page.set_input_files("#import-file", {"name": "why.json", "mimeType": "application/json", "buffer": data.encode()})
        expect(page.locator(".conversation-title")).to_have_text(["Why blue?", "Why blue?"])
        page.set_input_files("#import-file", {"name": "bad.json", "mimeType": "application/json", "buffer": b'{"schema": 1, "nodes": 5}'})
        expect(page.locator(".toast").last).to_contain_text("bad.json is not a conversation")

    def test_two_conversations_are_answered_at_once(self):
        page = self.page()
        self.short_answers(page)
        self.gate.hold_after(3)
        self.write(page, "First")
        self.wait_until_held(page)
        page.keyboard.press("Control+k")
        self.write(page, "Second")
        expect(page.locator(".conversation .ember")).to_have_count(2)
        self.gate.open()
        expect(page.locator(".conversation .ember")).to_have_count(0)
        page.click(".conversation-open >> text=First")
        self.assertNotEqual(self.answer_text(page).strip(), "")

    def test_another_tab_sees_what_this_one_writes(self):
        page = self.page()
        other = self.tab()
        self.answers_with(page, "Shared.")
        self.ask(page, "Hello from here")
        expect(other.locator(".conversation-title")).to_have_text("Hello from here")
        other.click(".conversation-open")
        expect(other.locator(".from-model .prose")).to_have_text("Shared.")


class KeysTest(PageTest):
    def test_shift_enter_is_a_new_line(self):
        page = self.page()
        self.answers_with(page, "Two lines.")
        page.locator("#composer-text").press_sequentially("one")
        page.keyboard.press("Shift+Enter")
        page.locator("#composer-text").press_sequentially("two")
        expect(page.locator("#composer-text")).to_have_value("one\ntwo")
        page.keyboard.press("Enter")
        expect(page.locator(".from-user .message-body")).to_have_text("one\ntwo")

    def test_alt_and_arrows_walk_over_messages_and_versions(self):
        page = self.page()
        self.answers_with(page, "A")
        self.ask(page, "q")
        self.answers_with(page, "B")
        page.click(".from-model [aria-label^='Answer again']")
        expect(page.locator(".from-model .prose")).to_have_text("B")
        self.wait_for_answer(page, 1)
        page.focus("#composer-text")
        page.keyboard.press("Alt+ArrowLeft")
        expect(page.locator(".from-model .prose")).to_have_text("A")
        page.keyboard.press("Alt+ArrowRight")
        expect(page.locator(".from-model .prose")).to_have_text("B")
        page.keyboard.press("Alt+ArrowUp")
        expect(page.locator(".from-model")).to_be_focused()
        page.keyboard.press("Alt+ArrowUp")
        expect(page.locator(".from-user")).to_be_focused()
        page.keyboard.press("e")
        expect(page.locator(".edit-area")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(".edit-area")).to_have_count(0)

    def test_a_question_mark_shows_the_keys_but_not_while_writing(self):
        page = self.page()
        page.locator("#composer-text").press_sequentially("?")
        expect(page.locator("#keys-dialog")).to_be_hidden()
        expect(page.locator("#composer-text")).to_have_value("?")
        page.locator("#scroller").focus()
        page.keyboard.press("?")
        expect(page.locator("#keys-dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#keys-dialog")).to_be_hidden()

    def test_everything_can_be_reached_by_tab_and_has_a_name(self):
        page = self.page()
        self.answers_with(page, "Words with `code`.\n\n```c\nint x;\n```")
        self.ask(page, "q")
        page.click("#show-live")
        nameless = page.evaluate("""() => [...document.querySelectorAll('button, input, select, textarea, a[href]')]
            .filter((node) => node.checkVisibility())
            .filter((node) => !(node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length))
            .map((node) => node.outerHTML)""")
        self.assertEqual(nameless, [])
        page.locator("body").evaluate("() => document.activeElement.blur()")
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.getAttribute('aria-label')"))
        for wanted in ("new-conversation", "show-settings", "show-live", "composer-text", "Copy the answer", "Copy the code", "theme"):
            self.assertIn(wanted, reached)


if __name__ == "__main__":
    unittest.main()
