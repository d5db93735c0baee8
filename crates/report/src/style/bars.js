// Bars: makes each drawing with data-bars show its values, switch its series and link marks of the same place.
(function () {
  "use strict";
  var root = document.documentElement;
  var charts = [];
  // The mark under the pointer or the keyboard, and the one whose place the reader picked.
  var current = null, picked = null;
  var tip = document.createElement("p");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.appendChild(tip);

  function all(parent, selector) {
    return Array.from(parent.querySelectorAll(selector));
  }

  // Parts of stacks belong together by their mechanism, other marks by their place.
  function belong(mark, other) {
    return other.stack ? Boolean(mark.stack) && mark.key === other.key : mark.place === other.place;
  }
  function paint() {
    charts.forEach(function (chart) {
      // A drawing without the picked place shows everything.
      var isPicked = picked && chart.marks.some(function (mark) { return belong(mark, picked); });
      chart.marks.forEach(function (mark) {
        mark.node.classList.toggle("linked", Boolean(current) && belong(mark, current));
        mark.node.classList.toggle("dim", Boolean(isPicked) && !belong(mark, picked));
      });
    });
  }

  function place(mark) {
    var box = mark.shape.getBoundingClientRect(), own = tip.getBoundingClientRect();
    var left = Math.max(4, Math.min(box.left, root.clientWidth - own.width - 4));
    var above = box.top - own.height - 6;
    tip.style.left = left + "px";
    tip.style.top = (above > 0 ? above : box.bottom + 6) + "px";
  }
  function show(mark) {
    if (mark === current) return;
    current = mark;
    tip.hidden = !mark;
    if (mark) {
      tip.textContent = mark.text;
      place(mark);
    }
    paint();
  }
  function pick(mark) {
    picked = mark && picked && belong(mark, picked) && belong(picked, mark) ? null : mark;
    paint();
  }

  // The distance of a value from a range.
  function outside(value, from, to) {
    return Math.max(from - value, 0, value - to);
  }
  // The visible mark nearest to the pointer, preferably in the row of the pointer.
  function nearest(chart, event) {
    var best = null, least = Infinity;
    chart.marks.forEach(function (mark) {
      if (mark.off) return;
      var box = mark.shape.getBoundingClientRect();
      var x = outside(event.clientX, box.left, box.right), y = outside(event.clientY, box.top, box.bottom);
      var distance = chart.isUpright ? 1e4 * x + y : 1e4 * y + x;
      var isNear = chart.isUpright ? 12 > x : 12 > y;
      if (isNear && least > distance) {
        best = mark;
        least = distance;
      }
    });
    return best;
  }

  // Moves the remaining parts of a stack together, so that they follow each other without a gap.
  function restack(stack) {
    var at = stack.marks.length ? stack.marks[0].x : 0, isWhole = true;
    stack.marks.forEach(function (mark) {
      if (mark.off) {
        isWhole = false;
        return;
      }
      mark.shape.setAttribute("x", at + "%");
      at += mark.width;
    });
    if (!stack.label) return;
    stack.label.setAttribute("x", at + "%");
    stack.label.textContent = (isWhole ? "" : "a part of ") + stack.words;
  }
  function turn(charts, key, isOff) {
    charts.forEach(function (chart) {
      chart.marks.forEach(function (mark) {
        if (mark.key !== key) return;
        mark.off = isOff;
        mark.node.classList.toggle("off", isOff);
        if (isOff && mark === current) show(null);
      });
      chart.stacks.forEach(restack);
    });
  }
  // Turns an entry of a legend into a button that switches its series in these charts.
  function makeSwitch(entry, charts) {
    var key = entry.textContent.trim(), button = document.createElement("button");
    if (!charts.some(function (chart) { return chart.marks.some(function (mark) { return mark.key === key; }); })) return;
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    while (entry.firstChild) button.appendChild(entry.firstChild);
    entry.appendChild(button);
    entry.parentElement.classList.add("switches");
    button.addEventListener("click", function () {
      var isOff = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!isOff));
      turn(charts, key, isOff);
    });
  }

  // The keyboard: arrows move over the bars, Enter picks the place of one, Escape releases it.
  function press(chart, event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    var shown = chart.marks.filter(function (mark) { return !mark.off; });
    var at = shown.indexOf(current), last = shown.length - 1;
    function go(to) { show(shown[Math.max(0, Math.min(last, to))] || null); }
    // The same part of the next stack in a direction, or its first visible part.
    function row(step) {
      var index = at === -1 ? -1 : chart.stacks.indexOf(current.stack);
      if (index === -1) return go(at === -1 ? 0 : at + step);
      var stack = chart.stacks[index + step];
      if (!stack) return;
      var parts = stack.marks.filter(function (mark) { return !mark.off; });
      var same = parts.find(function (mark) { return mark.key === current.key; });
      if (parts.length) show(same || parts[0]);
    }
    var actions = {
      ArrowRight: function () { go(at + 1); },
      ArrowLeft: function () { go(at === -1 ? 0 : at - 1); },
      ArrowDown: function () { row(1); },
      ArrowUp: function () { row(-1); },
      Home: function () { go(0); },
      End: function () { go(last); },
      Enter: function () { if (at !== -1) pick(current); },
      " ": function () { if (at !== -1) pick(current); },
      Escape: function () { show(null); pick(null); }
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  function percent(shape, name) {
    return parseFloat(shape.getAttribute(name));
  }
  function setUp(svg) {
    var chart = { svg: svg, isUpright: svg.dataset.bars === "up", marks: [], stacks: [] };
    all(svg, ".stack").forEach(function (node) {
      var label = node.querySelector(":scope > text");
      chart.stacks.push({ node: node, marks: [], label: label, words: label ? label.textContent : "" });
    });
    all(svg, "[data-place]").forEach(function (node) {
      var title = node.querySelector("title"), shape = node.querySelector("rect, path, circle") || node;
      var parent = node.closest(".stack");
      var words = title.textContent + (node.dataset.value ? ": " + node.dataset.value : "");
      var stack = chart.stacks.find(function (stack) { return stack.node === parent; }) || null;
      var mark = { node: node, shape: shape, text: words, place: node.dataset.place,
        key: node.dataset.key || "", stack: stack, off: false };
      if (stack) {
        mark.x = percent(shape, "x");
        mark.width = percent(shape, "width");
        stack.marks.push(mark);
      }
      title.remove();
      chart.marks.push(mark);
    });
    if (!chart.marks.length) return;
    var title = svg.querySelector(":scope > title");
    if (title) title.remove();
    svg.tabIndex = 0;
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", svg.getAttribute("aria-label") + ". Arrow keys read the bars, Enter links the same place in other charts, Escape removes the links.");
    svg.addEventListener("pointermove", function (event) { show(nearest(chart, event)); });
    svg.addEventListener("pointerleave", function () { show(null); });
    svg.addEventListener("click", function (event) {
      var mark = nearest(chart, event);
      show(mark);
      pick(mark);
    });
    svg.addEventListener("blur", function () { show(null); });
    svg.addEventListener("keydown", function (event) { press(chart, event); });
    charts.push(chart);
    var legend = svg.previousElementSibling;
    if (legend && legend.classList.contains("legend")) {
      Array.from(legend.children).forEach(function (entry) { makeSwitch(entry, [chart]); });
    }
  }

  all(document, "svg[data-bars]").forEach(setUp);
  // One list of mechanisms switches all bars of its section.
  all(document, "dl.words").forEach(function (list) {
    var section = list.closest("section");
    var own = charts.filter(function (chart) { return section.contains(chart.svg); });
    all(list, "dt").forEach(function (entry) { makeSwitch(entry, own); });
    list.classList.add("switches");
  });
  window.addEventListener("scroll", function () { if (current) place(current); }, { passive: true });
})();
