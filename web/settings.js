// Sampling settings: what they are, how they are explained, and the dialog that changes them. They belong to a
// conversation; a new conversation starts with a copy.
import { byId, element } from "./dom.js";
import { emit, on, state } from "./state.js";

// An empty field is not sent at all: the server then chooses.
const fields = [
    { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, usual: 0.8, slider: true,
        help: "How daring the choice of words is. 0 always takes the likeliest word and gives the same answer every time; above 1 it wanders." },
    { name: "top_p", label: "Top p", min: 0.01, max: 1, step: 0.01, usual: 0.95, slider: true,
        help: "Only the likeliest words that together make up this share are considered. 1 considers all." },
    { name: "top_k", label: "Top k", min: 0, max: 1000, step: 1, usual: 40,
        help: "Only this many of the likeliest words are considered. 0 sets no limit." },
    { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, usual: 0.05, slider: true,
        help: "Drops words less likely than this share of the likeliest one. A good guard at high temperatures." },
    { name: "repetition_penalty", label: "Repetition penalty", min: 1, max: 2, step: 0.01, usual: 1, slider: true,
        help: "Above 1, words that were used already become less likely. 1.1 helps small models that go in circles." },
    { name: "max_tokens", label: "Longest answer, in tokens", min: 1, max: 1_000_000, step: 1, usual: null,
        help: "A token is about three quarters of a word. Empty: until the answer is finished." },
    { name: "seed", label: "Seed", min: 0, max: 4_294_967_295, step: 1, usual: null,
        help: "The same seed with the same messages and settings gives the same answer. Empty: another one each time." },
];

const presets = [
    { label: "Automatic", title: "What the server chooses", values: {} },
    { label: "Exact", title: "Always the likeliest word", values: { temperature: 0 } },
    { label: "Balanced", title: "For most conversations", values: { temperature: 0.7, top_p: 0.95, min_p: 0.05 } },
    { label: "Inventive", title: "For stories and ideas", values: { temperature: 1.1, min_p: 0.08 } },
];
const presetNames = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty"];

export function samplingOf(settings) {
    const wanted = {};
    for (const { name } of fields) if (Number.isFinite(settings[name])) wanted[name] = settings[name];
    return wanted;
}

export function setUpSettings() {
    const dialog = byId("settings-dialog");
    byId("show-settings").addEventListener("click", () => {
        draw();
        dialog.showModal();
    });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    on("server", () => drawModels(byId("model")));
    on("conversation", () => { byId("model").value = currentModel(); });
    byId("model").addEventListener("change", (event) => set("model", event.target.value));
}

function currentModel() {
    const wanted = state.conversation.settings.model;
    return state.models.some((model) => model.id === wanted) ? wanted : state.models[0]?.id ?? "";
}

function drawModels(select) {
    select.replaceChildren(...state.models.map((model) => element("option", { value: model.id }, model.id)));
    select.hidden = state.models.length === 0;
    // One model is no choice: its name is shown, but nothing opens.
    select.disabled = state.models.length === 1;
    select.value = currentModel();
}

function set(name, value) {
    const { settings } = state.conversation;
    if (value === undefined || value === "") delete settings[name];
    else settings[name] = value;
    state.library.save(state.conversation);
    emit("settings");
}

function draw() {
    const { settings } = state.conversation;
    const system = element("textarea", { class: "field", id: "set-system", rows: "3", placeholder: "You are a patient teacher who answers in plain words.",
        oninput: (event) => set("system", event.target.value) });
    system.value = settings.system ?? "";
    const rows = fields.map(fieldRow);
    const model = element("select", { class: "field", id: "set-model", onchange: (event) => {
        set("model", event.target.value);
        byId("model").value = event.target.value;
    } });
    drawModels(model);
    byId("settings-body").replaceChildren(...[
        element("p", { class: "hint" }, "These belong to this conversation. A new one starts with a copy."),
        state.models.length > 0 && element("div", { class: "setting" }, element("label", { class: "label", for: "set-model" }, "Model"), model),
        element("div", { class: "setting" },
            element("label", { class: "label", for: "set-system" }, "System prompt"), system,
            element("p", { class: "hint" }, "Said to the model before everything else: who it is, how it should answer.")),
        element("div", { class: "presets", role: "group", "aria-label": "Presets" }, ...presets.map((preset) => element("button", {
            type: "button", class: "chip", title: preset.title, "aria-pressed": String(matches(preset)),
            onclick: () => {
                for (const name of presetNames) set(name, preset.values[name]);
                const scrolled = byId("settings-body").scrollTop;
                draw();
                byId("settings-body").scrollTop = scrolled;
                [...document.querySelectorAll(".presets .chip")].find((chip) => chip.textContent === preset.label)?.focus();
            } }, preset.label))),
        ...rows].filter(Boolean));
}

function matches(preset) {
    return presetNames.every((name) => state.conversation.settings[name] === preset.values[name]);
}

function fieldRow(field) {
    const id = `set-${field.name}`;
    const value = state.conversation.settings[field.name];
    const number = element("input", { class: "field number", id, type: "number", inputmode: "decimal", min: field.min, max: field.max,
        step: field.step, placeholder: "auto", "aria-describedby": `${id}-help` });
    if (Number.isFinite(value)) number.value = value;
    const slider = field.slider && element("input", { class: "slider", type: "range", min: field.min, max: field.max, step: field.step, "aria-label": field.label });
    const problem = element("p", { class: "problem", role: "alert", hidden: true });
    const show = () => {
        if (!slider) return;
        slider.classList.toggle("unset", number.value === "");
        slider.value = number.value === "" ? field.usual : number.value;
        slider.style.setProperty("--share", `${((slider.value - field.min) / (field.max - field.min)) * 100}%`);
    };
    const take = () => {
        const wanted = number.value === "" ? undefined : Number(number.value);
        const bad = number.validity.badInput || (wanted !== undefined && !(wanted >= field.min && wanted <= field.max && (field.step !== 1 || Number.isInteger(wanted))));
        problem.hidden = !bad;
        problem.textContent = bad ? `From ${field.min} to ${field.max}${field.step === 1 ? ", whole numbers" : ""}.` : "";
        number.setAttribute("aria-invalid", String(bad));
        if (!bad) set(field.name, wanted);
        for (const [index, chip] of [...document.querySelectorAll(".presets .chip")].entries()) chip.setAttribute("aria-pressed", String(matches(presets[index])));
        show();
    };
    number.addEventListener("input", take);
    slider && slider.addEventListener("input", () => {
        number.value = slider.value;
        take();
    });
    show();
    return element("div", { class: "setting" },
        element("div", { class: "setting-line" }, element("label", { class: "label", for: id }, field.label), slider, number),
        element("p", { class: "hint", id: `${id}-help` }, field.help), problem);
}
