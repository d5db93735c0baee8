(function () {
  var root = document.documentElement;

  // The switch between the themes.
  var button = document.getElementById("theme");
  var prefers = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : prefers.matches;
  }
  function label() {
    button.textContent = isDark() ? "Light" : "Dark";
  }
  button.hidden = false;
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  prefers.addEventListener("change", label);
  label();

  // Tables that are wider than the window say that they scroll.
  function hint() {
    document.querySelectorAll(".scroll").forEach(function (scroll) {
      var isWide = scroll.scrollWidth > scroll.clientWidth + 1;
      scroll.previousElementSibling.classList.toggle("shown", isWide);
    });
  }
  window.addEventListener("resize", hint);
  document.addEventListener("toggle", hint, true);
  hint();

  // A link into a folded part unfolds it; so does printing.
  function unfold() {
    var target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (var part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (details) { details.open = true; });
  });
  unfold();
})();
