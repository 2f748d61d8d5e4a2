// All conversations, kept in the browser's storage: one entry each, so that saving one is cheap and two tabs do not
// overwrite each other's.
import { createConversation, fromPlain, isEmpty, mergeInto, toPlain } from "./tree.js";

const prefix = "hearth.conversation.";

export class Library {
    constructor(storage, onTrouble) {
        this.storage = storage;
        this.onTrouble = onTrouble;  // told in words when something cannot be read or kept; null when it works again
        this.conversations = new Map();
        this.full = false;
        this.load();
    }

    load() {
        let unreadable = 0;
        for (const key of this.keys()) {
            const conversation = this.read(key);
            if (conversation) this.conversations.set(conversation.id, conversation);
            else unreadable += 1;
        }
        // Left where they are: a newer version of the page may know how to read them.
        if (unreadable > 0) this.onTrouble(`${unreadable} stored conversation${unreadable > 1 ? "s" : ""} could not be read and ${unreadable > 1 ? "were" : "was"} left untouched.`);
    }

    keys() {
        try {
            return Object.keys(this.storage).filter((key) => key.startsWith(prefix));
        } catch {
            return [];
        }
    }

    read(key) {
        try {
            return fromPlain(JSON.parse(this.storage.getItem(key)));
        } catch {
            return null;
        }
    }

    // Newest first.
    list() {
        return [...this.conversations.values()].sort((a, b) => b.updated - a.updated || b.created - a.created);
    }

    create(settings) {
        const conversation = createConversation(settings);
        this.conversations.set(conversation.id, conversation);
        return conversation;
    }

    save(conversation) {
        // An empty one is not worth an entry, and one that was deleted while it was being answered must not come back.
        if (isEmpty(conversation) || !this.conversations.has(conversation.id)) return;
        try {
            this.storage.setItem(prefix + conversation.id, JSON.stringify(toPlain(conversation)));
            if (this.full) this.onTrouble(null);
            this.full = false;
        } catch (error) {
            this.full = true;
            const why = error?.name === "QuotaExceededError" ? "The browser's storage is full" : "The browser does not let this page store anything";
            this.onTrouble(`${why}: what you write now is lost on reload. Export conversations you need, or delete some.`);
        }
    }

    remove(conversation) {
        this.conversations.delete(conversation.id);
        try {
            this.storage.removeItem(prefix + conversation.id);
        } catch {
            // Nothing was stored then.
        }
    }

    restore(conversation) {
        this.conversations.set(conversation.id, conversation);
        this.save(conversation);
    }

    // Another tab has written; gives the conversation that changed, or null.
    takeOver(event) {
        if (!event.key?.startsWith(prefix)) return null;
        const id = event.key.slice(prefix.length);
        const known = this.conversations.get(id);
        if (event.newValue === null) {
            this.conversations.delete(id);
            return known ?? null;
        }
        const other = this.read(event.key);
        if (!other) return null;
        if (known) mergeInto(known, other);
        else this.conversations.set(id, other);
        return this.conversations.get(id);
    }
}
