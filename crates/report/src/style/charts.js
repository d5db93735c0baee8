// Interactive charts: uPlot draws the data of each element with data-charts, in place of its static drawing.
(function () {
  "use strict";
  var root = document.documentElement;
  var plots = [];
  // Functions that paint the colours of the legends.
  var inks = [];

  function colour(name) {
    return getComputedStyle(root).getPropertyValue(name).trim();
  }
  function make(tag, className, parent) {
    var element = document.createElement(tag);
    if (className) element.className = className;
    if (parent) parent.appendChild(element);
    return element;
  }

  // Values in their units, with the minus sign and the no-break space of the page.
  function digits(value) {
    var size = Math.abs(value);
    var text = size !== 0 && (size >= 1e15 || size < 1e-5) ? value.toExponential(2)
      : value.toLocaleString("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
    return text.replace(/^-/, "\u2212");
  }
  function written(value, unit) {
    if (value === null || value === undefined) return "none";
    if (unit !== "ns") return digits(value) + (unit ? "\u00a0" + unit : "");
    // A value that rounds up to 1000 of a unit has the next unit.
    var size = Number(value.toPrecision(4));
    var scale = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return digits(value / scale[0]) + "\u00a0" + scale[1];
  }

  // Charts with the same link show the same part of the horizontal axis.
  function follow(chart, min, max) {
    plots.forEach(function (other) {
      if (other === chart || other.spec.link !== chart.spec.link || !other.plot) return;
      var scale = other.plot.scales.x;
      if (scale.min !== min || scale.max !== max) other.plot.setScale("x", { min: min, max: max });
    });
  }
  function whole(chart) {
    var ends = [Infinity, -Infinity];
    plots.forEach(function (other) {
      if (other.spec.link !== chart.spec.link) return;
      ends = [Math.min(ends[0], other.ends[0]), Math.max(ends[1], other.ends[1])];
    });
    return ends[1] > ends[0] ? ends : [ends[0] - 0.5, ends[0] + 0.5];
  }
  function show(chart, min, max) {
    var ends = whole(chart);
    min = Math.max(min, ends[0]);
    max = Math.min(max, ends[1]);
    if (max > min && chart.plot) chart.plot.setScale("x", { min: min, max: max });
  }

  // The index of the value of a series nearest to the cursor: places without a value are skipped.
  function nearest(plot, series, hovered) {
    var values = plot.data[series];
    if (hovered === null || hovered === undefined) return hovered;
    for (var distance = 0; distance !== values.length; distance++) {
      if (values[hovered - distance] != null) return hovered - distance;
      if (values[hovered + distance] != null) return hovered + distance;
    }
    return hovered;
  }
  // The index under the cursor. The neighbour of a place with a name is another line, so its values are not shown.
  function exact(plot, series, hovered) {
    return hovered;
  }

  // A name of a place that fits below a chart. Its ends tell similar names apart, so the middle is left out.
  function short(name) {
    return name.length > 22 ? name.slice(0, 12) + "\u2026" + name.slice(-9) : name;
  }

  var FONT = "11px system-ui, sans-serif";
  // Angle of the names below a chart, in degrees. A name ends below its place.
  var SLOPE = 50;
  // Width of the vertical axis.
  var LEFT = 62;
  var measure = make("canvas").getContext("2d");
  // The space that the longest name takes in both directions.
  function extent(names) {
    measure.font = FONT;
    var longest = names.reduce(function (most, name) {
      return name ? Math.max(most, measure.measureText(short(name)).width) : most;
    }, 0);
    var angle = SLOPE * Math.PI / 180;
    return { height: Math.ceil(longest * Math.sin(angle)) + 18, width: Math.ceil(longest * Math.cos(angle)) };
  }

  function axes(spec) {
    function axis(of, horizontal) {
      var isNamed = horizontal && !!spec.names;
      return {
        stroke: function () { return colour("--soft"); },
        grid: { stroke: function () { return colour("--grid"); }, width: 1 },
        ticks: { stroke: function () { return colour("--grid"); }, width: 1, size: 4 },
        font: FONT,
        size: isNamed ? extent(spec.names).height : horizontal ? 30 : LEFT,
        gap: 4,
        space: isNamed ? 18 : horizontal ? 64 : 28,
        rotate: isNamed ? SLOPE : 0,
        // Places are whole numbers; those without a name lie between groups.
        splits: isNamed ? function (plot, index, min, max, step) {
          var places = [];
          step = Math.max(1, Math.ceil(step));
          for (var place = Math.ceil(min / step) * step; place <= max; place += step) {
            if (spec.names[place]) places.push(place);
          }
          return places;
        } : undefined,
        values: function (plot, values) {
          return values.map(function (value) {
            if (value === null) return "";
            if (isNamed) return short(spec.names[value]);
            return of.unit === "ns" ? written(value, "ns") : digits(value);
          });
        }
      };
    }
    var vertical = axis(spec.y, false);
    if (spec.kind === "heat") {
      vertical.splits = function (plot, index, min, max) {
        var places = [], power = Math.pow(10, Math.floor(Math.log10(min)));
        // A few decades have room for labels at 1, 2 and 5, many only for powers of ten.
        var steps = max / min > 1e4 ? [1] : max / min > 100 ? [1, 3] : [1, 2, 5];
        for (; power <= max; power *= 10) {
          steps.forEach(function (step) { if (step * power >= min && step * power <= max) places.push(step * power); });
        }
        if (places.length > 1) return places;
        // A map of a few rows may contain no round number, or one. Its label needs space beside those of the ends.
        var decades = Math.log(max / min);
        return [min].concat(places.filter(function (place) {
          return Math.log(place / min) > decades / 6 && Math.log(max / place) > decades / 6;
        }), max);
      };
      vertical.filter = function (plot, places) { return places; };
    }
    if (spec.y.symmetric) {
      vertical.splits = function (plot, index, min, max) {
        // Beside several decades, there is no room for a label at 1.
        var places = [0], most = Math.max(-min, max);
        for (var power = most > 1000 ? 10 : 1; power <= most; power *= most > 1e5 ? 100 : 10) places.push(power, -power);
        places = places.filter(function (place) { return place >= min && place <= max; });
        return places.sort(function (a, b) { return a - b; });
      };
      vertical.filter = function (plot, places) { return places; };
    }
    return [axis(spec.x, true), vertical];
  }

  // For each line, the number of later lines that share most of its values, and so cover it.
  function covers(lines) {
    var least = Infinity, greatest = -Infinity;
    var tables = lines.map(function (line) {
      var table = new Map(), part = line.parts[0] || { xs: [], ys: [] };
      part.xs.forEach(function (x, i) {
        table.set(x, part.ys[i]);
        least = Math.min(least, part.ys[i]);
        greatest = Math.max(greatest, part.ys[i]);
      });
      return table;
    });
    var near = (greatest - Math.min(0, least)) / 100;
    return tables.map(function (table, i) {
      return tables.slice(i + 1).filter(function (later) {
        var equal = 0;
        table.forEach(function (y, x) {
          if (later.has(x) && Math.abs(later.get(x) - y) <= near) equal++;
        });
        return equal * 2 > table.size;
      }).length;
    });
  }

  function marks(form, under) {
    return function (plot, index, from, to) {
      var context = plot.ctx, series = plot.series[index], ratio = devicePixelRatio;
      var size = 3.5 * ratio * (1 + 0.25 * Math.min(under, 3));
      var box = plot.bbox;
      context.save();
      context.beginPath();
      context.rect(box.left - size, box.top - size, box.width + 2 * size, box.height + 2 * size);
      context.clip();
      context.strokeStyle = series.stroke();
      context.fillStyle = form === "dots" ? series.stroke() : colour("--surface");
      context.lineWidth = 1.5 * ratio;
      for (var i = from; i <= to; i++) {
        var value = plot.data[index][i];
        if (value == null) continue;
        var x = plot.valToPos(plot.data[0][i], "x", true), y = plot.valToPos(value, "y", true);
        context.beginPath();
        if (form === "diamonds") {
          context.moveTo(x, y - 2 * size);
          [[x + 2 * size, y], [x, y + 2 * size], [x - 2 * size, y]].forEach(function (corner) {
            context.lineTo(corner[0], corner[1]);
          });
          context.closePath();
        } else {
          context.arc(x, y, plot.data[0].length > 60 ? size / 2 : size, 0, 7);
          context.fill();
        }
        context.stroke();
      }
      context.restore();
      return false;
    };
  }

  // Lines: a series has several parts, such as a line, its points and published figures.
  function lines(chart) {
    var spec = chart.spec, tables = [], series = [{}], bands = [], owners = [null];
    var under = covers(spec.series);
    spec.series.forEach(function (line, at) {
      line.parts.forEach(function (part) {
        var ink = function () { return colour(line.colour); };
        var isMark = part.form === "dots" || part.form === "rings" || part.form === "diamonds";
        var option = {
          label: line.name, stroke: ink, width: isMark ? 0 : 1.75 + 1.2 * Math.min(under[at], 2), spanGaps: true, show: !line.hidden,
          dash: part.form === "dashed" ? [5, 4] : part.form === "dotted" ? [1.5, 3] : undefined,
          points: { show: isMark ? marks(part.form, under[at]) : false },
          paths: isMark ? function () { return null; } : undefined
        };
        if (part.form === "band") {
          tables.push([part.xs, part.highs, part.ys]);
          bands.push({ series: [series.length, series.length + 1], fill: function () { return colour(line.colour) + "33"; } });
          series.push(Object.assign({}, option, { width: 0 }), Object.assign({}, option, { width: 0 }));
          owners.push({ line: line, name: "max" }, { line: line, name: "min" });
        } else {
          tables.push([part.xs, part.ys]);
          series.push(option);
          owners.push({ line: line, name: part.name, isMark: isMark });
        }
      });
    });
    chart.owners = owners;
    var data = tables.length ? uPlot.join(tables) : [[]];
    chart.ends = [data[0][0] || 0, data[0][data[0].length - 1] || 0];
    if (spec.names) chart.ends = [-0.5, spec.names.length - 0.5];
    if (spec.link.indexOf("over ") === 0) chart.ends[0] = Math.min(0, chart.ends[0]);
    return { data: data, series: series, bands: bands, hooks: {} };
  }

  // The heat map: cells of counts, drawn below the grid.
  function heat(chart) {
    var spec = chart.spec, most = 1, i;
    chart.counts = new Map();
    for (i = 0; i !== spec.cells.length; i += 3) {
      chart.counts.set(spec.cells[i] * spec.edges.length + spec.cells[i + 1], spec.cells[i + 2]);
      most = Math.max(most, spec.cells[i + 2]);
    }
    chart.ends = [0, spec.width * spec.columns];
    var xs = [];
    for (i = 0; i !== spec.columns; i++) xs.push((i + 0.5) * spec.width);
    function draw(plot) {
      var context = plot.ctx, box = plot.bbox;
      context.save();
      context.beginPath();
      context.rect(box.left, box.top, box.width, box.height);
      context.clip();
      for (var i = 0; i !== spec.cells.length; i += 3) {
        var column = spec.cells[i], row = spec.cells[i + 1];
        var left = Math.floor(plot.valToPos(column * spec.width, "x", true));
        var right = Math.ceil(plot.valToPos((column + 1) * spec.width, "x", true));
        var top = Math.floor(plot.valToPos(spec.edges[row + 1], "y", true));
        var bottom = Math.ceil(plot.valToPos(spec.edges[row], "y", true));
        var level = most === 1 ? 10 : 1 + Math.round(9 * Math.log(spec.cells[i + 2]) / Math.log(most));
        context.fillStyle = colour("--h" + level);
        context.fillRect(left, top, right - left, bottom - top);
      }
      context.restore();
    }
    return {
      data: [xs, xs.map(function () { return null; })], series: [{}, { label: "requests" }], bands: [],
      hooks: { drawAxes: [draw] }
    };
  }

  // The text below a chart: the values at the cursor.
  function read(chart) {
    var plot = chart.plot, spec = chart.spec, cursor = plot.cursor;
    if (cursor.left === undefined || cursor.left === null || cursor.left < 0) {
      chart.readout.textContent = chart.hint;
      return;
    }
    if (spec.kind === "heat") {
      var column = Math.min(spec.columns - 1, Math.max(0, Math.floor(plot.posToVal(cursor.left, "x") / spec.width)));
      var latency = cursor.top < 0 ? spec.edges[0] : plot.posToVal(cursor.top, "y"), row = 0;
      while (row + 2 < spec.edges.length && spec.edges[row + 1] <= latency) row++;
      var count = chart.counts.get(column * spec.edges.length + row) || 0;
      chart.readout.textContent = digits(column * spec.width) + " to " + written((column + 1) * spec.width, spec.x.unit) + ", " +
        written(spec.edges[row], "ns") + " to " + written(spec.edges[row + 1], "ns") + ": " + digits(count) +
        (count === 1 ? " request" : " requests");
      return;
    }
    var index = cursor.idx;
    if (index === null || index === undefined) return;
    var place = spec.names ? spec.names[plot.data[0][index]] : written(plot.data[0][index], spec.x.unit);
    var words = [], at = {};
    plot.series.forEach(function (series, i) {
      var owner = chart.owners[i];
      var value = owner && series.show ? plot.data[i][cursor.idxs[i]] : null;
      if (value === null || value === undefined) return;
      var before = at[owner.line.name];
      // A mark on the line repeats its value.
      if (before && before.value === value && owner.name.indexOf("published") !== 0) {
        words[before.index] += owner.name ? " (" + owner.name + ")" : "";
        return;
      }
      if (owner.name.indexOf("published") === 0 && plot.data[0][cursor.idxs[i]] !== plot.data[0][index]) return;
      at[owner.line.name] = at[owner.line.name] || { value: value, index: words.length };
      words.push(owner.line.name + (owner.name ? " " + owner.name : "") + " " + written(value, spec.y.unit));
    });
    chart.readout.textContent = place + ": " + (words.length ? words.join("; ") : "no value of a series that is on");
  }

  // Dims all series except those of one line, which may lie below others. Without a line, no series is dimmed.
  // Pale dots that overlap would add up to a full colour, so the dots of other lines disappear.
  function stress(chart, line) {
    if (!chart.plot) return;
    chart.owners.forEach(function (owner, i) {
      if (owner) chart.plot.series[i].alpha = !line || owner.line === line ? 1 : owner.isMark ? 0 : 0.12;
    });
    chart.plot.redraw(false);
  }

  // The legend: a button for each series, which stresses the series while the pointer or the focus is on it.
  function legend(chart, parent) {
    if (chart.spec.kind === "heat") return heatLegend(chart, parent);
    var list = make("ul", "legend switches", parent);
    chart.spec.series.forEach(function (line) {
      var button = make("button", "", make("li", "", list));
      button.type = "button";
      button.setAttribute("aria-pressed", String(!line.hidden));
      var ink = make("span", "ink", button);
      var forms = line.parts.map(function (part) { return part.form; });
      var dash = forms.indexOf("dashed") >= 0 ? "dashed" : forms.indexOf("dotted") >= 0 ? "dotted" : "solid";
      inks.push(function () { ink.style.borderTop = "3px " + dash + " " + colour(line.colour); });
      ["mouseenter", "focus"].forEach(function (event) {
        button.addEventListener(event, function () { stress(chart, line); });
      });
      ["mouseleave", "blur"].forEach(function (event) {
        button.addEventListener(event, function () { stress(chart, null); });
      });
      button.appendChild(document.createTextNode(line.name));
      button.addEventListener("click", function () {
        line.hidden = !line.hidden;
        button.setAttribute("aria-pressed", String(!line.hidden));
        chart.plot.batch(function () {
          chart.owners.forEach(function (owner, i) {
            if (owner && owner.line === line) chart.plot.setSeries(i, { show: !line.hidden });
          });
        });
        read(chart);
      });
    });
  }

  // The ends of the colours of a heat map.
  function heatLegend(chart, parent) {
    var list = make("ul", "legend", parent), most = Math.max.apply(null, Array.from(chart.counts.values()));
    [1, most].forEach(function (count, i) {
      if (i === 1 && most === 1) return;
      var item = make("li", "", list), ink = make("span", "ink", item);
      inks.push(function () { ink.style.background = colour(count === most ? "--h10" : "--h1"); });
      item.appendChild(document.createTextNode(digits(count) + (count === 1 ? " request" : " requests") + " in a cell"));
    });
  }

  function label(spec, end) {
    return spec.names ? "" : spec.x.unit === "ns" ? written(end, "ns") : digits(Math.round(end));
  }

  function height(spec) {
    return spec.kind === "heat" ? 230 : spec.names ? 204 + extent(spec.names).height : 240;
  }

  function build(chart, width) {
    var spec = chart.spec;
    chart.plot = new uPlot({
      width: width,
      height: height(spec),
      legend: { show: false },
      // The last label of the horizontal axis is centred below the end of the axis. The first name begins below the
      // vertical axis.
      padding: [8, Math.max(10, 4 + 3.2 * label(spec, chart.ends[1]).length), 0,
        spec.names ? Math.max(0, extent(spec.names).width - LEFT) : 0],
      scales: {
        x: { time: false, distr: spec.x.log ? 3 : 1, log: spec.x.log ? 2 : 10,
          range: function (plot, min, max) {
            var ends = whole(chart);
            return min === null || min === max || min === undefined ? ends
              : [Math.max(min, ends[0]), Math.min(max, ends[1])];
          } },
        // A symmetric axis is linear up to 1 and logarithmic beyond.
        y: { distr: spec.y.log ? 3 : spec.y.symmetric ? 4 : 1, asinh: 1, range: spec.kind === "heat"
          ? function () { return [spec.edges[0], spec.edges[spec.edges.length - 1]]; }
          : spec.y.log ? undefined : function (plot, min, max) { return range(spec, min, max); } }
      },
      axes: axes(spec),
      series: chart.made.series,
      bands: chart.made.bands,
      cursor: {
        sync: { key: spec.link, scales: ["x", null], setSeries: false },
        drag: { x: true, y: false },
        dataIdx: spec.kind === "heat" ? undefined : spec.names ? exact : nearest,
        points: { show: spec.kind !== "heat" }
      },
      hooks: Object.assign({
        setCursor: [function () { if (chart.plot) read(chart); }],
        setScale: [function (plot, key) {
          if (key !== "x" || !chart.plot) return;
          var scale = plot.scales.x, ends = whole(chart);
          chart.back.hidden = scale.min <= ends[0] && scale.max >= ends[1];
          follow(chart, scale.min, scale.max);
        }]
      }, chart.made.hooks)
    }, chart.made.data, chart.place);
    var ends = whole(chart);
    chart.plot.setScale("x", { min: ends[0], max: ends[1] });
  }
  function range(spec, min, max) {
    if (min === null || min === undefined) return [0, 1];
    // Labels of a scale around nearly equal values would repeat their digits.
    var from = min > 0.5 * max && max - min > 0.02 * max ? min : Math.min(0, min), to = Math.max(max, from);
    return from === to ? [from, from + 1] : [from === 0 ? 0 : from - 0.05 * (to - from), to + 0.05 * (to - from)];
  }

  // The keyboard: arrows move along the chart, + and - zoom in and out, 0 shows everything.
  function press(chart, event) {
    var plot = chart.plot;
    if (!plot || event.ctrlKey || event.altKey || event.metaKey) return;
    var scale = plot.scales.x, xs = plot.data[0], middle = plot.over.clientHeight / 2;
    var index = plot.cursor.idx, left = plot.cursor.left;
    var at = left === undefined || left === null || left < 0 ? (scale.min + scale.max) / 2 : plot.posToVal(left, "x");
    function zoom(factor) {
      show(chart, at - (at - scale.min) * factor, at + (scale.max - at) * factor);
    }
    function go(to, top) {
      to = Math.max(0, Math.min(xs.length - 1, to));
      plot.setCursor({ left: plot.valToPos(xs[to], "x"), top: top === undefined ? middle : top });
    }
    var isOff = left === undefined || left === null || left < 0;
    var top = isOff ? middle : plot.cursor.top;
    var actions = {
      ArrowLeft: function () { go(isOff ? 0 : index - 1, top); },
      ArrowRight: function () { go(isOff ? 0 : index + 1, top); },
      ArrowUp: function () { go(isOff ? 0 : index, Math.max(1, top - 6)); },
      ArrowDown: function () { go(isOff ? 0 : index, Math.min(2 * middle - 1, top + 6)); },
      Home: function () { go(0, top); },
      End: function () { go(xs.length - 1, top); },
      "+": function () { zoom(0.5); },
      "=": function () { zoom(0.5); },
      "-": function () { zoom(2); },
      "0": function () { var ends = whole(chart); show(chart, ends[0], ends[1]); },
      Escape: function () { plot.setCursor({ left: -10, top: -10 }); }
    };
    if (!actions[event.key]) return;
    if (isVertical(event.key) && chart.spec.kind !== "heat") return;
    event.preventDefault();
    actions[event.key]();
  }
  function isVertical(key) {
    return key === "ArrowUp" || key === "ArrowDown";
  }

  function setUp(spec, holder) {
    var chart = { spec: spec, plot: null };
    chart.made = spec.kind === "heat" ? heat(chart) : lines(chart);
    if (!chart.made.data[0].length) return null;
    if (spec.title) {
      var caption = make("p", "caption", holder);
      make("b", "", caption).textContent = spec.title;
      make("span", "unit", caption).textContent = spec.subtitle;
    }
    legend(chart, holder);
    chart.place = make("div", "plot", holder);
    chart.place.tabIndex = 0;
    chart.place.setAttribute("role", "group");
    chart.place.setAttribute("aria-label", spec.label + ". Arrow keys read the values, plus and minus zoom in and out, 0 shows everything.");
    chart.place.addEventListener("keydown", function (event) { press(chart, event); });
    var foot = make("div", "readout", holder);
    chart.readout = make("p", "", foot);
    chart.readout.setAttribute("aria-live", "polite");
    var axes = [spec.x.log && "horizontal", spec.kind !== "heat" && spec.y.log && "vertical"].filter(Boolean).join(" and the ");
    chart.hint = spec.y.symmetric ? "The vertical axis is linear from \u22121 to 1 and logarithmic beyond."
      : axes ? "The " + axes + " axis is logarithmic." : "";
    chart.readout.textContent = chart.hint;
    chart.back = make("button", "", foot);
    chart.back.type = "button";
    chart.back.textContent = "Show everything";
    chart.back.hidden = true;
    chart.back.addEventListener("click", function () {
      var ends = whole(chart);
      show(chart, ends[0], ends[1]);
    });
    plots.push(chart);
    return chart;
  }

  // A chart in a folded part is built when the part is unfolded, because it has no width before.
  function fit(chart) {
    var width = chart.place.clientWidth;
    if (width < 40) return;
    if (!chart.plot) build(chart, width);
    else if (chart.plot.width !== width) chart.plot.setSize({ width: width, height: height(chart.spec) });
  }

  var all = [];
  document.querySelectorAll("[data-charts]").forEach(function (holder) {
    var specs = JSON.parse(holder.dataset.charts);
    var drawing = Array.from(holder.childNodes);
    var made = specs.map(function (spec) { return setUp(spec, holder); }).filter(Boolean);
    if (!made.length) return;
    drawing.forEach(function (node) { node.remove(); });
    all = all.concat(made);
  });
  all.forEach(fit);
  var observer = new ResizeObserver(function (entries) {
    entries.forEach(function (entry) {
      all.forEach(function (chart) { if (chart.place === entry.target) fit(chart); });
    });
  });
  all.forEach(function (chart) { observer.observe(chart.place); });

  function repaint() {
    inks.forEach(function (paint) { paint(); });
    all.forEach(function (chart) { if (chart.plot) chart.plot.redraw(false); });
  }
  repaint();
  new MutationObserver(repaint).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
})();
