//! Names of C++ functions that are incomplete in debug data: those of templates consist of their
//! last part, and lambdas have none. The symbol table has the full names, with all types.

/// Returns the full name of a function from its name in the symbol table, if debug data have only
/// the last part of the name. In the name of a template, the template arguments are removed.
pub(crate) fn whole(part: &str, full: &str) -> Option<String> {
    let (base, template) = part.split_once('<').map_or((part, false), |(base, _)| (base, true));
    if let Some(lambda) = closure(part, full) {
        return Some(lambda);
    }
    if !template || base.is_empty() || part.contains("::{") || base.contains("::") {
        return (full.len() > part.len() && full.contains(part)).then(|| full.to_owned());
    }
    if full.starts_with('<') {
        // A method of a Rust trait: `<Type as Trait>::f`.
        return (full.rsplit("::").next() == Some(base)).then(|| full.to_owned());
    }
    let plain = without_templates(full);
    let plain = plain.split('(').next().unwrap_or(&plain);
    // The name of a template instance begins with its return type.
    let name = plain.rsplit(' ').next().unwrap_or(plain);
    (name.rsplit("::").next() == Some(base)).then(|| name.to_owned())
}

/// Returns the name of a C++ lambda, such as `main::{lambda#2}`, from the symbol of the function
/// around it.
pub(crate) fn closure(part: &str, full: &str) -> Option<String> {
    const LAMBDA: &str = "::{lambda(";
    if !part.starts_with("operator()") {
        return None;
    }
    let at = full.find(LAMBDA)?;
    let number = full[at..].split_once(")#")?.1;
    let number = &number[..number.find('}')?];
    let before = without_templates_before(&full[..at]);
    Some(format!("{}::{{lambda#{number}}}", before.split('(').next().unwrap_or(before)))
}

/// Returns the end of a name, after its last open bracket, space or comma.
fn without_templates_before(name: &str) -> &str {
    let mut depth = 0_usize;
    for (at, one) in name.char_indices().rev() {
        match one {
            '>' | ')' => depth += 1,
            '<' | '(' if depth > 0 => depth -= 1,
            '<' | '(' | ' ' | ',' if depth == 0 => return &name[at + 1..],
            _ => {}
        }
    }
    name
}

/// Returns the name of a function without its return type, which the symbols of templates begin
/// with: `f<int>(int)` for `void f<int>(int)`.
pub(crate) fn without_result(name: &str) -> &str {
    // `operator new`, and the names of Rust trait implementations.
    if name.contains("operator") || name.starts_with('<') {
        return name;
    }
    let (mut depth, mut from) = (0_usize, 0);
    for (at, one) in name.char_indices() {
        match one {
            // Start of the arguments.
            '(' if depth == 0 && at > from && !name[at..].contains(")::") => break,
            // `f [clone .cold]`.
            '[' if depth == 0 => return name,
            '<' | '(' | '{' => depth += 1,
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    &name[from..]
}

/// Returns a name without template arguments.
fn without_templates(name: &str) -> String {
    let mut depth = 0_usize;
    let keep = |one: char| {
        match one {
            '<' => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                return false;
            }
            _ => {}
        }
        depth == 0
    };
    name.chars()
        .filter({
            let mut keep = keep;
            move |one| keep(*one)
        })
        .collect()
}

/// Returns the name of a C++ function without its arguments.
pub(crate) fn without_arguments(name: &str) -> &str {
    let mut depth = 0;
    for (at, one) in name.char_indices() {
        match one {
            '<' => depth += 1,
            '>' => depth -= 1,
            // Except in `(anonymous namespace)::f`, `operator()` or `<impl of (A, B)>::f`.
            '(' if at > 0 && depth == 0 => {
                let before = &name[..at];
                // And except in Go's `p.(*T).f`.
                let is_part = before.ends_with("operator") || before.ends_with('.');
                if !is_part && !name[at..].contains(")::") {
                    return before;
                }
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_have_the_names_of_their_classes() {
        let full = "unsigned long Guarded<std::vector<int, std::allocator<int> > >::with<f()::\
                    {lambda(auto:1&)#1}>(f()::{lambda(auto:1&)#1})";
        assert_eq!(whole("with<f()::<lambda(auto:1&)> >", full).as_deref(), Some("Guarded::with"));
        let wait = "void std::condition_variable::wait<f()::{lambda()#1}>(std::unique_lock<\
                    std::mutex>&, f()::{lambda()#1})";
        let found = whole("wait<f()::<lambda()> >", wait);
        assert_eq!(found.as_deref(), Some("std::condition_variable::wait"));
        assert_eq!(whole("append", "Wal::append(int)").as_deref(), Some("Wal::append(int)"));
        assert_eq!(whole("main", "main"), None);
        let drop = "<std::sync::poison::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop";
        assert_eq!(whole("drop<u64>", drop).as_deref(), Some(drop));
    }

    #[test]
    fn templates_lose_the_type_that_they_return() {
        for (name, short) in [
            (
                "void std::__wait<int, f()::{lambda()#1}>(int const*)",
                "std::__wait<int, f()::{lambda()#1}>(int const*)",
            ),
            (
                "unsigned long Table<int>::find<char const*>(char const*) const",
                "Table<int>::find<char const*>(char const*) const",
            ),
            ("operator new(unsigned long)", "operator new(unsigned long)"),
            ("(anonymous namespace)::Pool::run(int)", "(anonymous namespace)::Pool::run(int)"),
            ("<a::B as c::D>::e", "<a::B as c::D>::e"),
            ("main.(*Ledger).Book", "main.(*Ledger).Book"),
            ("f(int) [clone .cold]", "f(int) [clone .cold]"),
            ("g.part.0 [clone .cold]", "g.part.0 [clone .cold]"),
        ] {
            assert_eq!(without_result(name), short);
        }
    }

    #[test]
    fn lambdas_have_the_names_of_their_functions_and_a_number() {
        let thread = "std::thread::_State_impl<std::thread::_Invoker<std::tuple<\
                      main::{lambda()#2}> > >::_M_run()";
        let name = |full| closure("operator()", full);
        assert_eq!(name(thread).as_deref(), Some("main::{lambda#2}"));
        let inner = "Pool::run(int)::{lambda(int)#1}::operator()(int) const";
        assert_eq!(name(inner).as_deref(), Some("Pool::run::{lambda#1}"));
        assert_eq!(name("Pool::run(int)"), None);
        assert_eq!(closure("Pool::run", thread), None);
    }
}
