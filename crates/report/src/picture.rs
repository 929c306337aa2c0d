//! The plots as PNG, for pages and mails that show no SVG.
//!
//! There is one drawing of a plot, the SVG that this crate writes, and `resvg` turns it into
//! pixels. Text is drawn with a font that comes along (`crates/report/fonts`) and with no other, so
//! that a picture is the same on every machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, FaceInfo, ID, Language, Source, Stretch, Style, Weight};
use resvg::usvg::{Options, Tree};

/// Pixels of a unit of the drawing: sharp on dense screens, and in print at a column's width.
const SCALE: f32 = 2.0;
/// The font: every list of families in a drawing ends in `sans-serif`, and that is this one.
const FAMILY: &str = "DejaVu Sans Condensed";
/// Its faces.
const FACES: [(Weight, &[u8]); 2] = [
    (Weight::NORMAL, include_bytes!("../fonts/DejaVuSansCondensed.ttf")),
    (Weight::BOLD, include_bytes!("../fonts/DejaVuSansCondensed-Bold.ttf")),
];

/// A drawing that cannot be made a picture; a defect, for the drawings are our own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw {0}; this is a defect, use the SVG")]
pub struct PictureError(String);

/// Turns a drawing of this crate into the bytes of a PNG file.
///
/// # Errors
/// `PictureError` if the text is not a drawing, or has no size.
pub fn png(svg: &str) -> Result<Vec<u8>, PictureError> {
    let options = Options { fontdb: Arc::new(fonts()), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| PictureError(error.to_string()))?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let pixmap = Pixmap::new(pixels(width), pixels(height));
    let mut pixmap = pixmap.ok_or_else(|| PictureError(format!("{width} x {height}")))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| PictureError(error.to_string()))
}

/// Our faces, described here: they have only the letters we need and not the names of a whole font.
fn fonts() -> Database {
    let mut fonts = Database::new();
    for (weight, face) in FACES {
        fonts.push_face_info(FaceInfo {
            id: ID::dummy(),
            source: Source::Binary(Arc::new(face)),
            index: 0,
            families: vec![(FAMILY.to_owned(), Language::English_UnitedStates)],
            post_script_name: String::new(),
            style: Style::Normal,
            weight,
            stretch: Stretch::Normal,
            monospaced: false,
        });
    }
    fonts.set_sans_serif_family(FAMILY);
    fonts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(body: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\" \
             font-size=\"13\" font-family=\"Arial, sans-serif\" fill=\"#222\">\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{body}</svg>"
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
        fn dark(anchor: &str) -> Vec<u32> {
            let text = format!("<text x=\"20.0\" y=\"15.0\" {anchor}>HH</text>");
            let picture = png(&drawing(&text)).expect("drawn");
            let picture = Pixmap::decode_png(&picture).expect("a picture");
            let dark = |x: &u32| (0..40).any(|y| picture.pixel(*x, y).expect("inside").red() < 99);
            (0..80).filter(dark).collect()
        }
        let (start, end) = (dark(""), dark("text-anchor=\"end\""));
        assert!(start.first() >= Some(&40) && end.last() <= Some(&40), "{start:?} {end:?}");
        assert!(start.len().abs_diff(end.len()) <= 2, "edges are soft");
        assert!(dark("font-weight=\"bold\"").last() > start.last(), "bold letters are wider");
    }

    #[test]
    fn what_is_no_drawing_is_an_error() {
        for text in ["no drawing", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"0\"/>"] {
            let error = png(text).expect_err(text).to_string();
            assert!(error.contains("this is a defect"), "{error}");
        }
    }
}
