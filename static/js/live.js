// Tells this page which runs changed: `run-changed` on the document, with the run's id, or null for "ask for everything",
// and `runs-changed` for lists: at most once a second, and always after the last change.
//
// One tab of a browser holds the stream, for a browser opens few to one site, and passes on what it hears.
// While no stream is open, every page is told "everything" every ten seconds. #live says live, polling or offline.

const NAME = "takeover-live"; // of the lock and of the channel
const TICK = 10_000;
const SILENCE = 40_000; // the server is heard at least every 15 seconds
const FRESH = 5_000; // what a page that is just opening may have missed
const LONGEST_PAUSE = 30_000;

const channel = new BroadcastChannel(NAME);
const recent = new Map(); // run -> when it changed
let state = ""; // not known yet
let wasLive = false;
let heard = Date.now();
let stream = null;
let pause = 1_000;
let retry = 0;
let told = 0; // when lists were last told
let telling = 0;
let place = null; // in the line for the lock
let letGo = null; // gives the lock back, while this tab has it

const visible = () => document.visibilityState === "visible";
const silentFor = (time) => Date.now() - heard > time;

function show() {
  const mark = document.getElementById("live");
  if (mark && state && mark.dataset.state !== state) mark.dataset.state = state;
}

function become(next) {
  const now = next === "live" || navigator.onLine ? next : "offline";
  const missed = now === "live" && state !== "live" && wasLive;
  state = now;
  wasLive ||= now === "live";
  show();
  // What nobody heard is not told again.
  if (missed) tell(null);
}

function tell(run) {
  document.dispatchEvent(new CustomEvent("run-changed", { detail: { run } }));
  telling ||= setTimeout(() => {
    telling = 0;
    told = Date.now();
    document.dispatchEvent(new Event("runs-changed"));
  }, told + 1_000 - Date.now());
}

function remember(run) {
  const now = Date.now();
  if (run) recent.set(run, now);
  for (const [known, at] of recent) if (at < now - FRESH) recent.delete(known);
}

// Leading: this tab holds the stream.

function listen() {
  hangUp();
  const opened = new EventSource(document.getElementById("live")?.dataset.url ?? "/live/");
  stream = opened;
  opened.onopen = () => {
    pause = 1_000;
    lead("live");
  };
  opened.onerror = () => {
    if (stream !== opened) return;
    // A browser gives up after a refusal; this tries again, ever more slowly.
    opened.close();
    lead("polling");
    retry = setTimeout(listen, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  };
  opened.addEventListener("beat", () => lead("live"));
  opened.addEventListener("run-changed", (event) => {
    const { run } = JSON.parse(event.data);
    lead("live");
    remember(run);
    channel.postMessage({ run });
    tell(run);
  });
}

function hangUp() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function lead(next) {
  if (next === "live") heard = Date.now();
  channel.postMessage({ state: next });
  become(next);
}

function hold(options) {
  navigator.locks
    .request(NAME, options, () => {
      listen();
      return new Promise((resolve) => (letGo = resolve));
    })
    .catch((problem) => {
      if (problem.name !== "AbortError" || options.signal?.aborted) return;
      // Another tab heard nothing and took the lock: stand in line again.
      letGo = null;
      hangUp();
      standInLine();
    });
}

function standInLine() {
  place = new AbortController();
  hold({ signal: place.signal });
}

function start() {
  if (navigator.locks) standInLine();
  // Without a secure context each tab holds a stream while it is looked at.
  else if (visible()) listen();
}

function revive() {
  become("polling");
  if (stream || !navigator.locks) return listen();
  place?.abort();
  hold({ steal: true });
}

// Following: another tab holds the stream.

channel.onmessage = ({ data }) => {
  if (data.hello) {
    remember(null);
    if (stream && state) channel.postMessage({ state, recent: [...recent.keys()] });
    return;
  }
  if (stream) return;
  heard = Date.now();
  become(data.state ?? "live");
  for (const run of data.recent ?? []) tell(run);
  if ("run" in data) tell(data.run);
};

// Watching over both.

setInterval(() => {
  if (visible() && silentFor(SILENCE)) {
    heard = Date.now();
    revive();
  }
}, 5_000);

setInterval(() => {
  if (state !== "live" && visible() && navigator.onLine) tell(null);
}, TICK);

document.addEventListener("visibilitychange", () => {
  if (!visible()) {
    if (!navigator.locks) hangUp();
  } else if (!navigator.locks || (stream && silentFor(SILENCE / 2))) {
    lead("polling"); // back from sleep: once live, it asks for what it missed
    listen();
  } else if (!stream) {
    channel.postMessage({ hello: true });
    setTimeout(() => {
      if (!stream && silentFor(5_000)) revive();
    }, 1_500);
  }
});

addEventListener("online", () => {
  if (stream) listen();
  tell(null);
});
addEventListener("offline", () => become("polling"));
document.addEventListener("htmx:afterSettle", show);

// A page put aside for the Back button lets go of the stream, and asks for everything when shown again.
addEventListener("pagehide", () => {
  hangUp();
  place?.abort();
  letGo?.();
  letGo = null;
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  tell(null);
  start();
});

if (document.getElementById("live")) {
  start();
  channel.postMessage({ hello: true });
  setTimeout(() => state || become("polling"), 2_000);
}
