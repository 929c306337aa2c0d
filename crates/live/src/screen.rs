//! The screen of a terminal. The terminal is restored however the view ends: by a key, by a signal,
//! by a panic, or with the observed processes.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::time::Duration;

use convoy_report::{ScreenLine, ScreenPart, ScreenView, TopReport, set_page_width};
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::{
    self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui_crossterm::crossterm::{cursor, terminal};

/// The screen of a terminal, until it is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    view: ScreenView,
    report: Option<TopReport>,
    /// Writes a text in the alphabet of the locale.
    dress: fn(&str) -> String,
}

impl Screen {
    /// Takes over the terminal of standard output. `dress` writes a text in the alphabet of the
    /// locale.
    ///
    /// # Errors
    /// Standard output is no terminal, or it cannot be written.
    pub fn open(dress: fn(&str) -> String) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            // The message of a panic would be lost with the alternate screen.
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        let opened = execute!(stdout(), EnterAlternateScreen, cursor::Hide);
        let terminal = opened.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let terminal = terminal.inspect_err(|_| restore())?;
        Ok(Self { terminal, view: ScreenView::default(), report: None, dress })
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.view.is_paused
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.view.is_whole
    }

    pub(crate) fn show(&mut self, report: TopReport) -> io::Result<()> {
        self.report = Some(report);
        self.draw()
    }

    fn draw(&mut self) -> io::Result<()> {
        let Some(report) = &self.report else { return Ok(()) };
        let (width, height) = terminal::size()?;
        set_page_width(usize::from(width));
        let lines = report.to_screen(&self.view, [usize::from(width), usize::from(height)]);
        let dress = self.dress;
        self.terminal.draw(|frame| paint(frame.buffer_mut(), &lines, dress))?;
        Ok(())
    }

    /// Waits for a key for at most this time. Returns whether the user wants to quit.
    pub(crate) fn wait(&mut self, pause: Duration) -> io::Result<bool> {
        match event::poll(pause) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_over = match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => press(&mut self.view, key),
            Event::Resize(..) => false,
            _ => return Ok(false),
        };
        if !is_over {
            self.draw()?;
        }
        Ok(is_over)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back as it was.
fn restore() {
    let _closed = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _closed = disable_raw_mode();
}

/// Applies a key to the view. Returns whether the user wants to quit.
fn press(view: &mut ScreenView, key: KeyEvent) -> bool {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return key.code == KeyCode::Char('c');
    }
    if view.is_typing {
        match key.code {
            KeyCode::Enter => view.is_typing = false,
            KeyCode::Esc => (view.is_typing, view.filter) = (false, String::new()),
            KeyCode::Backspace => drop(view.filter.pop()),
            KeyCode::Char(character) => view.filter.push(character),
            _ => {}
        }
        return false;
    }
    match key.code {
        KeyCode::Char('q') => return true,
        KeyCode::Char('s') => view.sorting = view.sorting.next(),
        KeyCode::Char('/') => view.is_typing = true,
        KeyCode::Char('c') => view.shows_conditions = !view.shows_conditions,
        KeyCode::Char('a') => view.is_whole = !view.is_whole,
        KeyCode::Char('p' | ' ') => view.is_paused = !view.is_paused,
        KeyCode::Down => view.skipped += 1,
        KeyCode::Up => view.skipped = view.skipped.saturating_sub(1),
        KeyCode::Home => view.skipped = 0,
        KeyCode::Esc => view.filter.clear(),
        _ => {}
    }
    false
}

/// Writes the lines into the cells of the screen.
fn paint(buffer: &mut Buffer, lines: &[ScreenLine], dress: fn(&str) -> String) {
    let area = buffer.area;
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        let style = match line.part {
            ScreenPart::Title | ScreenPart::Keys => Style::new().add_modifier(Modifier::REVERSED),
            ScreenPart::Verdict => Style::new().add_modifier(Modifier::BOLD),
            ScreenPart::Unseen => Style::new().add_modifier(Modifier::DIM),
            ScreenPart::Threads | ScreenPart::Table => Style::new(),
        };
        let text = dress(&line.text);
        buffer.set_stringn(area.left(), y, text, usize::from(area.width), style);
        if matches!(line.part, ScreenPart::Title | ScreenPart::Keys) {
            for x in area.left()..area.right() {
                buffer[(x, y)].set_style(style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_report::Sorting;
    use ratatui_core::layout::Rect;

    fn typed(view: &mut ScreenView, text: &str) -> bool {
        let keys = text.chars().map(|character| match character {
            '\n' => KeyCode::Enter,
            character => KeyCode::Char(character),
        });
        let quits: Vec<bool> =
            keys.map(|code| press(view, KeyEvent::new(code, KeyModifiers::NONE))).collect();
        quits.contains(&true)
    }

    #[test]
    fn keys_change_the_view_and_q_is_a_letter_while_a_filter_is_typed() {
        let mut view = ScreenView::default();
        assert!(!typed(&mut view, "s/queue\npc"));
        assert_eq!((view.sorting, view.filter.as_str()), (Sorting::Waits, "queue"));
        assert!(view.is_paused && view.shows_conditions && !view.is_typing);
        assert!(typed(&mut view, "q"));
    }

    #[test]
    fn control_c_quits_also_while_a_filter_is_typed() {
        let mut view = ScreenView { is_typing: true, ..ScreenView::default() };
        assert!(press(&mut view, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }

    #[test]
    fn lines_are_cut_at_the_edge_and_the_title_is_a_bar() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        let lines = [
            (ScreenPart::Title, "top"),
            (ScreenPart::Table, "a long line"),
            (ScreenPart::Table, "below the screen"),
        ];
        let lines = lines.map(|(part, text)| ScreenLine { part, text: text.to_owned() });
        paint(&mut buffer, &lines, str::to_owned);
        let rows = [0, 1].map(|y| (0..6).map(|x| buffer[(x, y)].symbol()).collect::<String>());
        assert_eq!(rows, ["top   ", "a long"]);
        assert!(buffer[(5, 0)].modifier.contains(Modifier::REVERSED));
        assert!(!buffer[(0, 1)].modifier.contains(Modifier::REVERSED));
    }
}
