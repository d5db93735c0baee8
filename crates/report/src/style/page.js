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

  // A click on the head of a column sorts the rows by this column: numbers from the largest, names from A.
  function value(row, column) {
    var cell = row.children[column], text = cell.textContent;
    return cell.className !== "n" ? text : Number(cell.dataset.value);
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      if (!head.textContent) return;
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", function () {
        var before = head.getAttribute("aria-sort"), isNumber = head.className === "n";
        var isRising = before ? before !== "ascending" : !isNumber;
        heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", isRising ? "ascending" : "descending");
        var rows = Array.from(table.tBodies[0].rows);
        rows.sort(function (a, b) {
          var x = value(a, column), y = value(b, column);
          var order = isNumber ? x - y : x.localeCompare(y);
          return isRising ? order : -order;
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });

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
