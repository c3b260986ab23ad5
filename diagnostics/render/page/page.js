for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => copyText(button));
}
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; one.dataset.closed = ""; }
});
addEventListener("afterprint", () => {
  for (const one of document.querySelectorAll("details[data-closed]")) { one.open = false; delete one.dataset.closed; }
});
