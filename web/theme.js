// Light or dark, decided before the first paint: the stored choice, else what the system prefers.
(() => {
    const key = "hearth.theme";
    const system = matchMedia("(prefers-color-scheme: dark)");
    let choice = "auto";

    function read() {
        try {
            const value = localStorage.getItem(key);
            choice = value === "light" || value === "dark" ? value : "auto";
        } catch {
            // Storage is forbidden in some private windows: the choice then lasts until the page is closed.
        }
    }

    function apply() {
        const theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
        document.documentElement.dataset.theme = theme;
        document.querySelector('meta[name="theme-color"]')?.setAttribute("content", theme === "dark" ? "#171513" : "#faf8f5");
    }

    function choose(wanted) {
        choice = wanted;
        try {
            if (wanted === "auto") localStorage.removeItem(key);
            else localStorage.setItem(key, wanted);
        } catch {
            // As above.
        }
        apply();
    }

    system.addEventListener("change", apply);
    addEventListener("storage", (event) => {
        if (event.key !== key) return;
        read();
        apply();
    });
    read();
    apply();
    window.hearthTheme = { chosen: () => choice, choose };
})();
