
// Zoom into a clicked frame; search by a regular expression.
(function () {
  var WIDTH = 1200, CHARACTER = 6.6;
  var svg = document.currentScript.ownerSVGElement || document.documentElement;
  var frames = Array.prototype.slice.call(svg.querySelectorAll("g.f"));
  function name(g) { return g.querySelector("title").textContent; }
  function show(g, x, w) {
    g.style.display = w < 0.3 ? "none" : "";
    var rect = g.querySelector("rect"), text = g.querySelector("text");
    rect.setAttribute("x", x);
    rect.setAttribute("width", w);
    text.setAttribute("x", x + 3);
    var whole = name(g).replace(/: [^:]*$/, "");
    var room = Math.floor((w - 6) / CHARACTER);
    text.textContent =
      whole.length <= room ? whole : room >= 4 ? whole.slice(0, room - 1) + "\u2026" : "";
  }
  function zoom(to) {
    var x0 = +to.dataset.x, w0 = +to.dataset.w, d0 = +to.dataset.d;
    frames.forEach(function (g) {
      var x = +g.dataset.x, w = +g.dataset.w;
      var middle = x + w / 2;
      var around = +g.dataset.d <= d0 && x <= x0 + 1e-6 && x + w >= x0 + w0 - 1e-6;
      var inside = +g.dataset.d > d0 && middle >= x0 && middle <= x0 + w0;
      if (around) { show(g, 0, WIDTH); }
      else if (inside) { show(g, (x - x0) / w0 * WIDTH, w / w0 * WIDTH); }
      else { g.style.display = "none"; }
    });
  }
  function search(words) {
    var wanted;
    try { wanted = words ? new RegExp(words, "i") : null; } catch (wrong) { return; }
    var share = 0, end = -1;
    frames.forEach(function (g) {
      var hit = wanted && wanted.test(name(g).replace(/: [^:]*$/, ""));
      var rect = g.querySelector("rect");
      rect.setAttribute("stroke", hit ? "black" : "white");
      rect.setAttribute("stroke-width", hit ? 2 : 0.5);
      // Frames come outermost first: what is inside a hit counts once.
      if (hit && +g.dataset.x >= end - 1e-6) {
        share += +g.dataset.w;
        end = +g.dataset.x + +g.dataset.w;
      }
    });
    svg.querySelector("#found").textContent =
      wanted ? "found: " + (100 * share / WIDTH).toFixed(1) + " %" : "";
  }
  frames.forEach(function (g) {
    g.style.cursor = "pointer";
    g.addEventListener("click", function () { zoom(g); });
    show(g, +g.dataset.x, +g.dataset.w);
  });
  svg.querySelector("#search").addEventListener("click", function () {
    search(prompt("Search for (regular expression):"));
  });
})();
