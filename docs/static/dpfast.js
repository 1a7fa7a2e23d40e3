// Formulas that are wider than their line scroll on their own.
function formulasThatScroll() {
  for (const formula of document.querySelectorAll("span.math mjx-container")) {
    formula.classList.remove("wide");
    const line = formula.closest("p, li, td, dd, div");
    if (line && formula.getBoundingClientRect().width > line.clientWidth) formula.classList.add("wide");
  }
}
window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(formulasThatScroll));
window.addEventListener("resize", formulasThatScroll);
