"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; one.dataset.closed = ""; }
});
addEventListener("afterprint", () => {
  for (const one of document.querySelectorAll("details[data-closed]")) { one.open = false; delete one.dataset.closed; }
});
