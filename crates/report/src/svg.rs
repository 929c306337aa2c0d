//! A drawing: an SVG file, to which every plot adds its lines, marks and texts.

use core::fmt::Write;

/// A line at a tick, across the whole plot.
pub(crate) const GRID: &str = "stroke=\"#e4e4e4\"";
/// The lines of the axes.
pub(crate) const FRAME: &str = "fill=\"none\" stroke=\"#444\"";
/// A text around its place.
pub(crate) const MIDDLE: &str = "text-anchor=\"middle\"";
/// A text left of its place.
pub(crate) const END: &str = "text-anchor=\"end\"";
pub(crate) const BOLD: &str = "font-weight=\"bold\"";

/// An SVG file under construction.
pub(crate) struct Drawing(String);

impl Drawing {
    /// A white page of this size, in pixels.
    pub(crate) fn new(title: &str, width: f64, height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\" \
             fill=\"#222\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" \
             fill=\"#fff\"/>\n",
            escape(title)
        ))
    }

    /// Adds a text at a place.
    pub(crate) fn text(&mut self, x: f64, y: f64, attributes: &str, content: &str) {
        self.add(&format!("text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}"), Some(content));
    }

    /// Adds the lines that `steps` describes in the language of SVG.
    pub(crate) fn path(&mut self, steps: &str, attributes: &str) {
        self.add(&format!("path d=\"{steps}\" {attributes}"), None);
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, radius: f64, attributes: &str) {
        self.add(&format!("circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {attributes}"), None);
    }

    /// Adds an element, with the text in it.
    pub(crate) fn add(&mut self, element: &str, content: Option<&str>) {
        let name = element.split(' ').next().unwrap_or_default();
        let end = match content {
            Some(content) => format!(">{}</{name}>", escape(content)),
            None => "/>".to_owned(),
        };
        let _ = writeln!(self.0, "<{}{end}", element.trim_end());
    }

    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// `text` inside of an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
