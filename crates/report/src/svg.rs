//! Texts in a drawing.

use core::fmt::Write;

/// Writes a text at a place, with attributes.
pub(crate) fn text(svg: &mut String, x: f64, y: f64, attributes: &str, content: &str) {
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>", escape(content));
}

/// `text` inside of an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
