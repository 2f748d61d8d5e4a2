// Colours for code: comments, strings, numbers and the words most languages share. One pass, one pattern per family; a
// language it does not know stays plain.
import { element } from "./dom.js";

const words = new Set(("abstract and as assert async await auto begin bool boolean break case catch char class const constexpr continue def default defer del delete do double elif else end enum except export extends "
    + "extern false False final finally float fn for foreach from func function global go goto if impl implements import in include inline instanceof int interface is lambda let long loop match module mut namespace new nil None nonlocal not "
    + "null nullptr of operator or package pass private protected pub public raise range return self short signed sizeof static struct super switch template this throw true True try type typedef typeof union unless unsigned until use using var "
    + "virtual void volatile when where while with yield").split(" "));
const queryWords = new Set("select from where and or not null insert into values update set delete create table index view join left right inner outer on as group by order having limit distinct primary key case when then else end in is like union all".split(" "));

const text = String.raw`"(?:[^"\\\n]|\\.){0,2000}"|'(?:[^'\\\n]|\\.){0,2000}'`;
const number = String.raw`\b(?:0[xX][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\b`;
const name = String.raw`[A-Za-z_$][\w$]*`;
const slash = String.raw`\/\/[^\n]*|\/\*[^]{0,20000}?\*\/`;
const pattern = (comment, strings = text) => `(?<comment>${comment})|(?<string>${strings})|(?<number>${number})|(?<name>${name})`;

const families = {
    slash: pattern(slash, `${text}|${"`"}(?:[^${"`"}\\\\]|\\\\.){0,20000}${"`"}`),
    hash: pattern("#[^\\n]*", `"""[^]{0,20000}?"""|'''[^]{0,20000}?'''|${text}`),
    dash: pattern("--[^\\n]*"),
    data: pattern("(?!)"),
};
const familyOf = {};
for (const [family, names] of Object.entries({
    slash: "c h cpp c++ cc hpp cxx java js javascript jsx ts typescript tsx go rust rs swift kotlin kt scala cs csharp php dart zig css scss",
    hash: "python py ruby rb sh bash shell zsh console perl pl r yaml yml toml make makefile cmake dockerfile nim julia jl elixir ini",
    dash: "sql lua haskell hs ada",
    data: "json json5",
})) for (const language of names.split(" ")) familyOf[language] = family;

export function highlight(code, language) {
    const family = familyOf[language.toLowerCase()];
    if (!family || code.length > 60_000) return [code];
    const known = language.toLowerCase() === "sql" ? { has: (word) => queryWords.has(word.toLowerCase()) } : words;
    const nodes = [];
    let end = 0;
    for (const match of code.matchAll(new RegExp(families[family], "g"))) {
        const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
        if (kind === "name" && !known.has(match[0])) continue;
        if (match.index > end) nodes.push(code.slice(end, match.index));
        nodes.push(element("span", { class: `code-${kind}` }, match[0]));
        end = match.index + match[0].length;
    }
    if (end < code.length) nodes.push(code.slice(end));
    return nodes;
}
