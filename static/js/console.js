// Keys, the case that follows its run, conveniences. All of it also works without script.

const $ = (selector, root = document) => root.querySelector(selector);
const on = document.addEventListener.bind(document);
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `timezone=${zone};path=/;max-age=31536000;samesite=lax`;

$(".tabs [aria-current]")?.scrollIntoView({ block: "nearest" });

// A key is named in data-key; the row or card under the focus goes first.
const row = () => document.activeElement?.closest(".row, article");
function move(by) {
  const links = [...document.querySelectorAll(".open")];
  const at = links.findIndex((link) => row()?.contains(link));
  links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
}
on("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
  if (target.closest("input, textarea, select")) return key === "Escape" && target.blur();
  if ($("dialog[open]")) return;
  if (key === "j" || key === "k") return move(key === "j" ? 1 : -1);
  if (key === "?") return $("#keys")?.showModal();
  if (key === "o") return row()?.querySelector(".open")?.click();
  const wanted = `[data-key="${CSS.escape(key)}"]`;
  const found = (row() && $(wanted, row())) ?? [...document.querySelectorAll(wanted)].findLast((it) => !it.closest(".row, article"));
  if (!found) return;
  event.preventDefault();
  if (found.matches("input, [data-only-focus]")) found.focus();
  else found.click();
});

on("click", async ({ target }) => {
  const opens = target.closest("[data-opens]");
  if (opens) document.getElementById(opens.dataset.opens).showModal();
  const copies = target.closest("[data-copies]");
  if (copies) {
    await navigator.clipboard.writeText(document.getElementById(copies.dataset.copies).textContent.trim());
    $("[data-copied]").hidden = false;
  }
});

on("click", (event) => {
  const link = event.target.closest("[data-closes]");
  const form = link?.closest(".opened");
  if (!form) return;
  event.preventDefault();
  form.replaceChildren();
  $(`[hx-get^="${link.dataset.closes}"]`)?.focus();
});

// The case follows its run, but not under somebody's hands: then it says that there is news.
const busy = () => $("#form")?.childElementCount || !getSelection().isCollapsed;
const refresh = () => htmx.trigger("#case", "refresh");
on("run-changed", ({ detail }) => {
  const shown = $("#case");
  if (!shown || (detail.run && detail.run !== shown.dataset.run)) return;
  busy() ? ($("#changed").hidden = false) : refresh();
});
$("#changed")?.addEventListener("click", ({ target }) => {
  $("h1").focus();
  target.hidden = true;
  refresh();
});
let unfolded = [];
on("htmx:beforeSwap", () => (unfolded = document.querySelectorAll("details[open][id]")));
on("htmx:afterSwap", ({ target }) => {
  for (const { id } of unfolded) document.getElementById(id)?.setAttribute("open", "");
  const opened = target.closest(".opened");
  if (opened) $("[data-focus], textarea, select, input:not([type=hidden])", opened)?.focus();
});
