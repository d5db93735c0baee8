// The page of the playground: the controls set the parameters of the devices in the WebAssembly module, and
// the charts show the curves of the devices.
(function () {
  "use strict";
  var POLICIES = ["greedy", "FIFO", "random", "cost-benefit"];
  var INKS = ["#3f76b0", "#c8691f", "#2c9180", "#8d62a3"];
  var STEPS = 96, A_DRIVE_WRITE = 8, LOADS = 24;
  var state = document.getElementById("state");

  function colour(name) {
    var probe = document.createElement("i");
    probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(name);
    document.body.appendChild(probe);
    var found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  function digits(value) {
    return value.toLocaleString("en", value >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
  }
  function microseconds(value) {
    return value >= 1e6 ? digits(value / 1e6) + " s" : value >= 1e3 ? digits(value / 1e3) + " ms" : digits(value) + " µs";
  }

  // A chart with a legend of buttons and its values in words.
  function chart(id, names, options) {
    var place = document.getElementById(id + "-plot"), list = document.getElementById(id + "-legend");
    var words = document.getElementById(id + "-values");
    var axis = function (values, size, label) {
      return { label: label, labelSize: 20, labelGap: 2, labelFont: "12px system-ui, sans-serif", stroke: function () { return colour("--soft"); }, grid: { stroke: function () { return colour("--grid"); }, width: 1 },
        ticks: { show: false }, size: size, values: function (plot, all) { return all.map(function (v) { return v === null ? "" : values(v); }); } };
    };
    var series = [{}].concat(names.map(function (name, i) {
      return { label: name.text, stroke: INKS[name.ink], width: 2, dash: name.dash, spanGaps: true, points: { show: false } };
    }));
    var plot = new uPlot({
      width: Math.max(place.clientWidth, 100), height: 300, legend: { show: false }, cursor: { y: false },
      scales: { x: options.x, y: options.y },
      axes: [axis(options.horizontal, 30, options.across), axis(options.vertical, 62, options.up)],
      series: series,
      hooks: { setCursor: [read], setData: [read], draw: options.draw ? [options.draw] : [] }
    }, options.empty, place);
    function read(plot) {
      var index = plot.cursor.idx, data = plot.data;
      if (index === null || index === undefined || plot.cursor.left < 0) index = data[0].length - 1;
      var parts = names.map(function (name, i) {
        var value = data[i + 1][index];
        return value === null || value === undefined || !plot.series[i + 1].show ? null : name.text + " " + options.vertical(value);
      }).filter(Boolean);
      words.textContent = options.place(data[0][index]) + ": " + parts.join("; ");
    }
    names.forEach(function (name, i) {
      var item = document.createElement("li"), button = document.createElement("button"), ink = document.createElement("span");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      if (name.dash) ink.style.background = "repeating-linear-gradient(90deg, " + INKS[name.ink] + " 0 4px, transparent 4px 7px)";
      else ink.style.background = INKS[name.ink];
      button.append(ink, name.text);
      button.addEventListener("click", function () {
        var show = button.getAttribute("aria-pressed") === "false";
        button.setAttribute("aria-pressed", String(show));
        plot.setSeries(i + 1, { show: show });
        read(plot);
      });
      item.appendChild(button);
      list.appendChild(item);
    });
    new ResizeObserver(function () {
      var width = place.clientWidth;
      if (width > 40 && width !== plot.width) plot.setSize({ width: width, height: 300 });
    }).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { plot.redraw(false); });
    return plot;
  }

  // Runs `step` in slices, so that the page stays responsive. A later call ends an earlier one.
  function worker() {
    var run = 0;
    return function (steps, step, done) {
      var mine = ++run, at = 0;
      (function slice() {
        if (mine !== run) return;
        var end = performance.now() + 12;
        while (at < steps && performance.now() < end) step(at++);
        done(at);
        if (at < steps) setTimeout(slice, 0);
      })();
    };
  }

  function controls(id, changed) {
    var form = document.getElementById(id + "-controls");
    function values() {
      var all = {};
      Array.from(form.elements).forEach(function (field) {
        var value = Number(field.value);
        all[field.name] = field.dataset.power ? Math.pow(2, value) : value;
        var output = field.parentNode.querySelector("output");
        if (output) output.textContent = all[field.name] + " " + field.dataset.unit;
        if (output) field.setAttribute("aria-valuetext", output.textContent);
      });
      return all;
    }
    form.addEventListener("input", function () { changed(values()); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    changed(values());
  }

  function amplification(module) {
    var names = POLICIES.map(function (name, i) { return { text: name, ink: i }; });
    names = names.concat([0, 1, 2].map(function (i) { return { text: POLICIES[i] + ", closed form", ink: i, dash: [4, 4] }; }));
    var xs = [];
    for (var i = 0; i !== STEPS; i++) xs.push((i + 1) / A_DRIVE_WRITE);
    var empty = [xs].concat(names.map(function () { return xs.map(function () { return null; }); }));
    var plot = chart("amplification", names, {
      x: { time: false }, y: { range: function (plot, min, max) { return [1, Math.max(2, max || 2) * 1.05]; } }, empty: empty,
      across: "drive writes", up: "flash writes per host write",
      horizontal: digits, vertical: digits, place: function (x) { return "After " + digits(x) + " drive writes"; }
    });
    var run = worker();
    controls("amplification", function (values) {
      var data = [xs].concat(names.map(function () { return xs.map(function () { return null; }); }));
      POLICIES.forEach(function (name, policy) {
        module.playground_amplification(policy, values.spare, values.pages, values.skewed);
      });
      run(STEPS, function (step) {
        POLICIES.forEach(function (name, policy) { data[policy + 1][step] = module.playground_advance(policy); });
      }, function (done) {
        [0, 1, 2].forEach(function (policy) {
          var form = done < STEPS ? NaN : module.playground_closed_form(policy);
          data[POLICIES.length + 1 + policy] = xs.map(function () { return Number.isNaN(form) ? null : form; });
        });
        plot.setData(data.slice());
      });
    });
  }

  function latency(module) {
    var names = [{ text: "mean", ink: 0 }, { text: "99th percentile", ink: 1 }], bound = NaN, spare = NaN;
    var xs = [];
    for (var i = 0; i !== LOADS; i++) xs.push(5 + 120 * i / (LOADS - 1));
    function line(plot) {
      var context = plot.ctx, box = plot.bbox, x = Math.round(plot.valToPos(100, "x", true));
      if (!(x >= box.left && x <= box.left + box.width)) return;
      context.save();
      context.strokeStyle = colour("--soft");
      context.lineWidth = devicePixelRatio;
      context.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      context.beginPath();
      context.moveTo(x, box.top);
      context.lineTo(x, box.top + box.height);
      context.stroke();
      context.restore();
    }
    var plot = chart("latency", names, {
      x: { time: false }, y: { distr: 3, range: function () { return [1, 1e7]; } }, draw: line,
      empty: [xs, xs.map(function () { return null; }), xs.map(function () { return null; })],
      across: "load in % of the sustained writes", up: "latency",
      horizontal: digits, vertical: microseconds,
      place: function (x) { return digits(x * bound / 100) + " writes per second offered, about " + digits(bound) + " sustained"; }
    });
    var run = worker();
    controls("latency", function (values) {
      var data = [xs, xs.map(function () { return null; }), xs.map(function () { return null; })];
      if (spare !== values.spare) module.playground_loaded(values.spare);
      spare = values.spare;
      bound = module.playground_rate_sustained(values.t_prog);
      run(LOADS, function (i) {
        data[1][i] = module.playground_mean_us(values.t_prog, xs[i] * bound / 100);
        data[2][i] = module.playground_p99_us();
      }, function () { plot.setData(data.slice()); });
    });
  }

  // A page in a frame reports its height. The fragment of its address names the only figure that it shows.
  var figures = { amplification: amplification, latency: latency };
  var only = Object.keys(figures).filter(function (name) { return location.hash === "#" + name; });
  if (only.length) {
    document.body.className = "embedded";
    document.querySelectorAll("h1, .intro, section:not(#" + only[0] + ")").forEach(function (part) { part.remove(); });
  }
  function reportHeight() {
    if (window.parent !== window) window.parent.postMessage({ liveFigureHeight: document.body.offsetHeight + 2 }, "*");
  }

  var bytes = Uint8Array.from(atob(MODULE), function (character) { return character.charCodeAt(0); });
  WebAssembly.instantiate(bytes, {}).then(function (found) {
    state.hidden = true;
    (only.length ? only : Object.keys(figures)).forEach(function (name) { figures[name](found.instance.exports); });
    reportHeight();
    new ResizeObserver(reportHeight).observe(document.body);
  }, function (error) {
    state.textContent = "This browser cannot run the models: " + error.message;
  });
})();
