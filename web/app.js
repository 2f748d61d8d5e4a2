// Puts the page together.
import { setUpBranches } from "./branches.js";
import { setUpComposer } from "./composer.js";
import { byId, icon, toast } from "./dom.js";
import { setUpKeys } from "./keys.js";
import { Library } from "./library.js";
import { setUpPanel } from "./panel.js";
import { setTrouble, setUpServer, watchServer } from "./server.js";
import { setUpSettings } from "./settings.js";
import { narrow, setUpSidebar } from "./sidebar.js";
import { emit, on, state } from "./state.js";
import { setUpTranscript } from "./transcript.js";
import { forkCount } from "./tree.js";

const currentName = "hearth.current";

function drawTheme() {
    const choice = window.hearthTheme.chosen();
    const name = { auto: "as the system", light: "light", dark: "dark" }[choice];
    const button = byId("theme");
    button.replaceChildren(icon({ auto: "auto", light: "sun", dark: "moon" }[choice]));
    button.setAttribute("aria-label", `Colours: ${name}. Change`);
    button.title = `Colours: ${name}`;
}

function setUpTheme() {
    byId("theme").addEventListener("click", () => {
        const next = { auto: "light", light: "dark", dark: "auto" };
        window.hearthTheme.choose(next[window.hearthTheme.chosen()]);
        drawTheme();
    });
    drawTheme();
}

function localStore() {
    try {
        return window.localStorage;
    } catch {
        return { setItem() { throw new Error("forbidden"); }, getItem: () => null, removeItem() {} };
    }
}

// Which conversation is on the screen is the tab's own business.
function rememberedConversation() {
    try {
        return state.library.conversations.get(sessionStorage.getItem(currentName));
    } catch {
        return undefined;
    }
}

function remember() {
    try {
        sessionStorage.setItem(currentName, state.conversation.id);
    } catch {
        // A reload then begins with a new conversation.
    }
}

function onOtherTab(event) {
    const changed = state.library.takeOver(event);
    if (!changed) return;
    const gone = !state.library.conversations.has(changed.id);
    if (gone && changed === state.conversation) {
        toast("This conversation was deleted in another tab.");
        state.conversation = state.library.list()[0] ?? state.library.create(changed.settings);
        emit("conversation");
    } else {
        emit(changed === state.conversation ? "conversation" : "list");
    }
}

function begin() {
    state.library = new Library(localStore(), setTrouble);
    state.conversation = rememberedConversation() ?? state.library.create(state.library.list()[0]?.settings ?? {});
    for (const setUp of [setUpTheme, setUpServer, setUpComposer, setUpSidebar, setUpSettings, setUpTranscript, setUpBranches, setUpPanel, setUpKeys]) setUp();
    on("conversation", remember);
    on("conversation", () => byId("show-branches").classList.toggle("marked", forkCount(state.conversation) > 0));
    addEventListener("storage", onOtherTab);
    emit("conversation");
    if (!narrow()) byId("composer-text").focus();
    void watchServer();
}

begin();
