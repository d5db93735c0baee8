(function () {
  var root = document.documentElement;
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
})();
