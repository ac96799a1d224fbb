// The tone of the page (light, dark, or the system's), and keys for what scrolls sideways. Every page reads well without it.
"use strict";
const root = document.documentElement;
const button = document.getElementById("tone");

function kept() {
  try { return localStorage.getItem("tone"); } catch { return null; } // a browser may forbid it, for files say
}

function isDark() {
  return root.dataset.tone ? root.dataset.tone === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function named() {
  button.textContent = isDark() ? "Light page" : "Dark page";
}

if (kept()) root.dataset.tone = kept();
button.hidden = false;
named();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", named);
button.addEventListener("click", () => {
  root.dataset.tone = isDark() ? "light" : "dark";
  try { localStorage.setItem("tone", root.dataset.tone); } catch { /* then it holds for this page */ }
  named();
});

// What is wider than its place can be reached and scrolled with the keyboard; what fits is no stop on the way.
function reachable() {
  for (const wide of document.querySelectorAll(".scroll")) {
    if (wide.scrollWidth > wide.clientWidth + 1) {
      wide.tabIndex = 0;
      wide.setAttribute("role", "region");
      const caption = wide.querySelector("caption");
      wide.setAttribute("aria-label", caption ? caption.textContent : "scrolls sideways");
    } else {
      wide.removeAttribute("tabindex");
      wide.removeAttribute("role");
      wide.removeAttribute("aria-label");
    }
  }
}
addEventListener("resize", reachable);
document.addEventListener("toggle", reachable, true);
reachable();

// The contents stand open beside the text, and closed above it where the screen is narrow.
const contents = document.querySelector(".contents details");
if (contents && matchMedia("(max-width: 60rem)").matches) contents.open = false;
