//! The plots as PNG, for pages and mails that show no SVG.
//!
//! There is one drawing of a plot, the SVG that this crate writes, and this reads it: the elements
//! and path commands that occur there and nothing else. What it does not know is an error, and the
//! tests draw every plot. Text is drawn with a font that comes along (`crates/report/fonts`), so
//! that a picture is the same on every machine.

use std::str::FromStr;

use roxmltree::{Document, Node};
use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash,
    Transform,
};
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Pixels of a unit of the drawing: sharp on dense screens, and in print at a column's width.
const SCALE: f32 = 2.0;
/// The font, and its bold face.
const FONTS: [&[u8]; 2] = [
    include_bytes!("../fonts/DejaVuSansCondensed.ttf"),
    include_bytes!("../fonts/DejaVuSansCondensed-Bold.ttf"),
];

/// A drawing that cannot be made a picture; a defect, for the drawings are our own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw {0}; this is a defect, use the SVG")]
pub struct PictureError(String);

/// Turns a drawing of this crate into the bytes of a PNG file.
///
/// # Errors
/// [`PictureError`] for what no drawing of this crate contains.
pub fn png(svg: &str) -> Result<Vec<u8>, PictureError> {
    let unknown = |what: String| PictureError(what);
    let document = Document::parse(svg).map_err(|error| unknown(error.to_string()))?;
    let root = document.root_element();
    let pixels = |name| number::<f32>(root, name).map(|length| (length * SCALE).ceil() as u32);
    let (width, height) = (pixels("width")?, pixels("height")?);
    let pixmap = Pixmap::new(width, height);
    let pixmap = pixmap.ok_or_else(|| unknown(format!("{width} x {height} pixels")))?;
    let mut canvas = Canvas { pixmap, faces: Vec::new() };
    for font in FONTS {
        let face = Face::parse(font, 0).map_err(|error| unknown(error.to_string()))?;
        canvas.faces.push(face);
    }
    for node in root.children().filter(Node::is_element) {
        canvas.draw(node)?;
    }
    canvas.pixmap.encode_png().map_err(|error| unknown(error.to_string()))
}

/// An attribute of `node` or, as fonts and colours do, of the drawing around it.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.ancestors().find_map(|around| around.attribute(name))
}

fn number<T: FromStr>(node: Node<'_, '_>, name: &str) -> Result<T, PictureError> {
    let text = attribute(node, name);
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| PictureError(format!("{name}={text:?}")))
}

/// The colour `#rgb` or `#rrggbb` of an attribute, `None` for none.
fn colour(node: Node<'_, '_>, name: &str) -> Result<Option<Color>, PictureError> {
    let Some(text) = node.attribute(name).filter(|text| *text != "none") else { return Ok(None) };
    let wrong = || PictureError(format!("{name}={text:?}"));
    let digits = text.strip_prefix('#').ok_or_else(wrong)?;
    let value = u32::from_str_radix(digits, 16).map_err(|_| wrong())?;
    let [_, r, g, b] = match digits.len() {
        3 => (((value & 0xF00) << 8) | ((value & 0xF0) << 4) | (value & 0xF)) * 0x11,
        6 => value,
        _ => return Err(wrong()),
    }
    .to_be_bytes();
    let opacity = number(node, &format!("{name}-opacity")).unwrap_or(1.0_f32);
    let mut colour = Color::from_rgba8(r, g, b, 255);
    colour.set_alpha(opacity);
    Ok(Some(colour))
}

struct Canvas<'a> {
    pixmap: Pixmap,
    faces: Vec<Face<'a>>,
}

impl Canvas<'_> {
    fn draw(&mut self, node: Node<'_, '_>) -> Result<(), PictureError> {
        let name = node.tag_name().name();
        let path = match name {
            "title" => return Ok(()),
            "text" => return self.text(node),
            "rect" if node.attribute("width") == Some("100%") => {
                if let Some(colour) = colour(node, "fill")? {
                    self.pixmap.fill(colour);
                }
                return Ok(());
            }
            "rect" => {
                let side = |name| number::<f32>(node, name);
                Rect::from_xywh(side("x")?, side("y")?, side("width")?, side("height")?)
                    .map(PathBuilder::from_rect)
            }
            "circle" => {
                let (x, y) = (number(node, "cx")?, number(node, "cy")?);
                PathBuilder::from_circle(x, y, number(node, "r")?)
            }
            "path" => trace(node.attribute("d").unwrap_or_default())?,
            "polyline" => {
                // The points of a line are a path that only moves and draws.
                trace(&format!("M{}", node.attribute("points").unwrap_or_default()))?
            }
            _ => return Err(PictureError(format!("<{name}>"))),
        };
        // A line without extent shows nothing.
        let Some(path) = path else { return Ok(()) };
        self.paint(&path, node)
    }

    fn paint(&mut self, path: &Path, node: Node<'_, '_>) -> Result<(), PictureError> {
        let scale = Transform::from_scale(SCALE, SCALE);
        if let Some(colour) = colour(node, "fill")? {
            self.pixmap.fill_path(path, &plain(colour), FillRule::Winding, scale, None);
        }
        if let Some(colour) = colour(node, "stroke")? {
            let width = if node.has_attribute("stroke-width") {
                number(node, "stroke-width")?
            } else {
                1.0
            };
            let dash = node.attribute("stroke-dasharray").map(|dash| {
                dash.split(' ').filter_map(|length| length.parse().ok()).collect::<Vec<f32>>()
            });
            let line_join = if node.has_attribute("stroke-linejoin") {
                LineJoin::Round
            } else {
                LineJoin::Miter
            };
            let dash = dash.and_then(|lengths| StrokeDash::new(lengths, 0.0));
            let stroke = Stroke { width, line_join, dash, ..Stroke::default() };
            self.pixmap.stroke_path(path, &plain(colour), &stroke, scale, None);
        }
        Ok(())
    }

    fn text(&mut self, node: Node<'_, '_>) -> Result<(), PictureError> {
        let size: f32 = number(node, "font-size")?;
        let (x, y): (f32, f32) = (number(node, "x")?, number(node, "y")?);
        let face = &self.faces[usize::from(attribute(node, "font-weight") == Some("bold"))];
        let unit = size / f32::from(face.units_per_em());
        // A letter that the font does not have is shown as its empty box.
        let glyphs: Vec<GlyphId> = node
            .text()
            .unwrap_or_default()
            .chars()
            .map(|letter| face.glyph_index(letter).unwrap_or(GlyphId(0)))
            .collect();
        let wide = |glyph: GlyphId| f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * unit;
        let width: f32 = glyphs.iter().map(|glyph| wide(*glyph)).sum();
        let mut outline = Outline { path: PathBuilder::new(), unit, x, y };
        outline.x -= match attribute(node, "text-anchor") {
            Some("middle") => width / 2.0,
            Some("end") => width,
            _ => 0.0,
        };
        for glyph in glyphs {
            face.outline_glyph(glyph, &mut outline);
            outline.x += wide(glyph);
        }
        let scale = Transform::from_scale(SCALE, SCALE);
        let turned = match node.attribute("transform") {
            None => scale,
            // The labels of vertical axes; all of them turn about their own place.
            Some(turn) if turn.starts_with("rotate(-90 ") => {
                scale.pre_concat(Transform::from_rotate_at(-90.0, x, y))
            }
            Some(other) => return Err(PictureError(format!("transform={other:?}"))),
        };
        let own = node.ancestors().find(|around| around.has_attribute("fill"));
        let colour = own.map_or(Ok(None), |around| colour(around, "fill"))?;
        if let (Some(path), Some(colour)) = (outline.path.finish(), colour) {
            self.pixmap.fill_path(&path, &plain(colour), FillRule::Winding, turned, None);
        }
        Ok(())
    }
}

fn plain(colour: Color) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(colour);
    paint
}

/// Glyphs on their way into a path: the font counts upwards and in its own units.
struct Outline {
    path: PathBuilder,
    unit: f32,
    x: f32,
    y: f32,
}

impl Outline {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.unit, self.y - y * self.unit)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// The path that `commands` describe: straight lines, absolute and relative.
fn trace(commands: &str) -> Result<Option<Path>, PictureError> {
    let wrong = || PictureError(format!("the path {commands:?}"));
    let mut path = PathBuilder::new();
    let (mut x, mut y) = (0.0_f32, 0.0_f32);
    let mut rest = commands;
    while let Some(command) = rest.chars().next() {
        rest = &rest[command.len_utf8()..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let numbers = rest[..end].split([' ', ',']).filter(|word| !word.is_empty());
        let numbers: Result<Vec<f32>, _> = numbers.map(str::parse).collect();
        let numbers = numbers.map_err(|_| wrong())?;
        rest = &rest[end..];
        // A relative command counts from where the pen is, an absolute one from nowhere.
        let from = |pen: f32| if command.is_ascii_lowercase() { pen } else { 0.0 };
        match (command.to_ascii_lowercase(), numbers.as_slice()) {
            ('z', []) => path.close(),
            ('h', [to]) => {
                x = from(x) + to;
                path.line_to(x, y);
            }
            ('v', [to]) => {
                y = from(y) + to;
                path.line_to(x, y);
            }
            ('m' | 'l', [across, down, more @ ..]) if more.len() % 2 == 0 => {
                (x, y) = (from(x) + across, from(y) + down);
                if command.eq_ignore_ascii_case(&'m') {
                    path.move_to(x, y);
                } else {
                    path.line_to(x, y);
                }
                for pair in more.chunks(2) {
                    (x, y) = (from(x) + pair[0], from(y) + pair[1]);
                    path.line_to(x, y);
                }
            }
            _ => return Err(wrong()),
        }
    }
    Ok(path.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(body: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\" \
             font-size=\"13\" fill=\"#222\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
             {body}</svg>"
        )
    }

    /// The colour of a pixel, in units of the drawing.
    fn pixel(svg: &str, x: f32, y: f32) -> [u8; 3] {
        let picture = Pixmap::decode_png(&png(svg).expect("drawn")).expect("a picture");
        assert_eq!((picture.width(), picture.height()), (80, 40));
        let found = picture.pixel((x * SCALE) as u32, (y * SCALE) as u32).expect("inside");
        [found.red(), found.green(), found.blue()]
    }

    #[test]
    fn shapes_are_where_the_drawing_says() {
        let square = drawing("<path d=\"M10 5h10v10h-10z\" fill=\"#d55e00\"/>");
        assert_eq!(pixel(&square, 15.0, 10.0), [0xd5, 0x5e, 0x00]);
        assert_eq!(pixel(&square, 25.0, 10.0), [255, 255, 255]);
        let line = drawing(
            "<polyline points=\"0,10.0 20,10 40,10\" fill=\"none\" stroke=\"#06f\" \
             stroke-width=\"4\"/>",
        );
        assert_eq!(pixel(&line, 30.0, 10.0), [0x00, 0x66, 0xff]);
        assert_eq!(pixel(&line, 30.0, 15.0), [255, 255, 255]);
        let dot = drawing("<circle cx=\"8\" cy=\"8\" r=\"4\" fill=\"#333333\"/>");
        assert_eq!(pixel(&dot, 8.0, 8.0), [0x33, 0x33, 0x33]);
    }

    #[test]
    fn text_is_drawn_from_its_anchor() {
        let dark = |anchor: &str| -> Vec<u32> {
            let text = format!("<text x=\"20.0\" y=\"15.0\" {anchor}>HH</text>");
            let picture = png(&drawing(&text)).expect("drawn");
            let picture = Pixmap::decode_png(&picture).expect("a picture");
            let dark = |x: &u32| (0..40).any(|y| picture.pixel(*x, y).expect("inside").red() < 99);
            (0..80).filter(dark).collect()
        };
        let (start, end) = (dark(""), dark("text-anchor=\"end\""));
        assert!(start.first() >= Some(&40) && end.last() <= Some(&40), "{start:?} {end:?}");
        assert!(start.len().abs_diff(end.len()) <= 2, "edges are soft");
        let bold = dark("font-weight=\"bold\"");
        assert!(bold.last() > start.last(), "bold letters are wider");
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for body in [
            "<ellipse/>",
            "<path d=\"M0 0q1 1 2 2\" fill=\"#222\"/>",
            "<path d=\"M0 zero\" fill=\"#222\"/>",
            "<text x=\"1\" y=\"1\" transform=\"scale(2)\">x</text>",
            "<circle cx=\"1\" cy=\"1\" r=\"1\" fill=\"red\"/>",
        ] {
            let error = png(&drawing(body)).expect_err(body).to_string();
            assert!(error.contains("this is a defect"), "{error}");
        }
        assert!(png("no drawing").is_err());
    }
}
